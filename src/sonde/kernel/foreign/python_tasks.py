"""Tasks of a CPython process, of asyncio and trio, and what each of them awaits: see :mod:`.python_objects`."""

from __future__ import annotations

from sys import byteorder

from ...layouts import cpython_tasks as layout
from .python_frames import Chain, FrameReader
from .python_objects import Objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .python_frames import Frame
    from .python_task_lists import Thread

MOST_CALLBACKS, MOST_FUTURES = 64, 256  # of a future; that lead from one task to those that wait for it
_TASK, _FUTURE = "_asyncio.Task", "_asyncio.Future"
_THREAD_CALL, _GATHERED = "_chain_future.", "_GatheringFuture"  # of asyncio's own; how a name begins, a type's name
_TRAPS = "/trio/_core/_traps.py"  # in which all of trio's tasks wait


class TaskRecord:
    """A task. ``waiter`` is the future that it waits for, ``leads`` those that its end completes, ``parent`` the task
    that has started it (trio's), ``awaited`` the tasks that it waits for; all by address. Those of one ``snapshot``
    were read at one moment."""

    def __init__(self, address: int, name: str, named: bool, runner: int) -> None:
        self.address, self.name, self.named, self.runner = address, name, named, runner
        self.state, self.awaits = "waits", ""
        self.frames: list[Frame] = []
        self.identity = 0
        self.waiter, self.parent = 0, 0
        self.leads = set[int]()
        self.awaited = list[int]()
        self.snapshot: object = None


class TaskReader:
    """Reads tasks; one of the ``threads`` may run it."""

    def __init__(self, objects: Objects, threads: list[Thread]) -> None:
        self.objects, self.pages, self.at, self.more = objects, objects.pages, objects.at, objects.more
        self._frames, self._threads = FrameReader(objects), threads
        self.strange = set[int]()

    def read_asyncio(self, address: int) -> TaskRecord | None:
        """A task of asyncio's; None if it has ended or is of another class."""
        names = self.objects.names_of(address) if address else ()
        if _TASK not in names:
            if address and names[0] != "NoneType":
                self.strange.add(address)
            return None
        if self._state_of(address) != layout.PENDING:
            return None
        at = address + self.at["task_name"]
        name = self.pages.word(at)
        number = self.objects.number(name)
        text = f"Task-{number}" if number is not None else self.objects.text(name)
        task = TaskRecord(address, text, number is None and not is_automatic(text),
                         self.pages.word(address + layout.LOOP))
        task.waiter = self.pages.word(at - layout.WAITER_BEFORE)
        chain = self._read_chain(task, self.pages.word(at - layout.CORO_BEFORE))
        if task.state == "waits" and (not task.waiter or not chain.begun or self._is_done(task.waiter)):
            task.state = "ready"
        task.awaits = self._describe(task.waiter) if task.state == "waits" else ""
        task.identity = hash((task.waiter, *chain.identity)) & (1 << 63) - 1
        task.leads = self._find_leads(address)
        return task

    def read_trio(self, address: int, runner: int) -> TaskRecord:
        """A task of trio's."""
        attribute = self.objects.attribute
        name = attribute(address, "name")
        task = TaskRecord(address, self.objects.text(name) if name else "", False, runner)
        chain = self._read_chain(task, attribute(address, "coro"))
        while task.frames and task.frames[-1][1].endswith(_TRAPS):
            task.frames.pop()
        if task.state == "waits" and not self.objects.is_one(attribute(address, "_next_send_fn"), "NoneType"):
            task.state = "ready"
        nursery = attribute(address, "_parent_nursery")
        task.parent = attribute(nursery, "_parent_task") if not self.objects.is_one(nursery, "NoneType") else 0
        points = self.objects.number(attribute(address, "_schedule_points")) or 0
        task.identity = hash((points, *chain.identity)) & (1 << 63) - 1
        return task

    def is_joined(self, waiter: int, task: int) -> bool:
        """Whether a task of asyncio's waits for another one, of which both are there."""
        if not all(_TASK in self.objects.names_of(each) and self._state_of(each) == layout.PENDING
                   for each in (waiter, task)):
            return False
        awaited = self.pages.word(waiter + self.at["task_name"] - layout.WAITER_BEFORE)
        return awaited == task or awaited in self._find_leads(task)

    def _read_chain(self, task: TaskRecord, coroutine: int) -> Chain:
        chain = self._frames.read_chain(coroutine)
        task.frames = chain.frames if chain.whole else [*chain.frames, ("...", "", 0)]
        if chain.runs:
            task.state = "runs"
            for thread in self._threads:
                inside = self._frames.read_thread(thread.address, chain.innermost)
                if inside:
                    task.frames += inside
                    break
        return chain

    def _state_of(self, future: int) -> int:
        return int.from_bytes(self.pages.read(future + self.more["state"], 4), byteorder)

    def _is_future(self, object: int) -> bool:
        names = self.objects.names_of(object)
        return _FUTURE in names or _TASK in names

    def _is_plain_future(self, object: int) -> bool:
        """Whether it is a future and no task, which no callback completes."""
        names = self.objects.names_of(object)
        return _FUTURE in names and _TASK not in names

    def _is_done(self, future: int) -> bool:
        return self._is_future(future) and self._state_of(future) != layout.PENDING

    def _describe(self, future: int) -> str:
        """What a future is of, in a word."""
        names = self.objects.names_of(future)
        if _TASK in names:
            return "task"
        if names[0].rpartition(".")[2] == _GATHERED:
            return "gather"
        if _FUTURE in names:
            for callback in self._callbacks(future):
                if self.objects.is_one(callback, "function") and \
                        self.objects.text(self.pages.word(callback + layout.FUNCTION_NAME)).startswith(_THREAD_CALL):
                    return "a call in a thread"
        return names[0].rpartition(".")[2]

    # --- what waits for a task ----------------------------------------------------------------------------------

    def _find_leads(self, task: int) -> set[int]:
        """The futures that are completed when this task ends: callbacks know them, through gather(), wait(), groups."""
        leads, pending = {task}, [task]
        while pending and len(leads) < MOST_FUTURES:
            for callback in self._callbacks(pending.pop()):
                for object in self._referents(callback):
                    if object not in leads and self._is_plain_future(object):
                        leads.add(object)
                        pending.append(object)
        return leads - {task}

    def _callbacks(self, future: int) -> list[int]:
        first = self.pages.word(future + layout.CALLBACK)
        more = self.pages.word(future + layout.CALLBACKS)
        pairs = self.objects.list_items(more, MOST_CALLBACKS) if more and self.objects.is_one(more, "list") else []
        return [*([first] if first else []), *[self.pages.word(pair + self.more["tuple_items"]) for pair in pairs]]

    def _referents(self, callback: int) -> Iterator[int]:
        """What a callback refers to, that may be a future."""
        name = self.objects.names_of(callback)[0]
        if name == "functools.partial":
            yield from self.objects.tuple_items(self.pages.word(callback + layout.PARTIAL_ARGS), 16)
            callback = self.pages.word(callback + layout.PARTIAL_FUNCTION)
            name = self.objects.names_of(callback)[0]
        if name == "function":
            closure = self.pages.word(callback + layout.FUNCTION_CLOSURE)
            for cell in self.objects.tuple_items(closure, 32) if closure else ():
                contents = self.pages.word(cell + layout.CELL_CONTENTS)
                if contents:
                    yield contents
        elif name == "method":
            for _, value in self.objects.attributes(self.pages.word(callback + layout.METHOD_SELF), 64):
                yield value


def is_automatic(name: str) -> bool:
    """Whether asyncio has given this name to a task that got none."""
    return name.startswith("Task-") and name[5:].isdecimal()
