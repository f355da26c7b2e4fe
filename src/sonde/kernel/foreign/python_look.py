"""A look at all tasks of a CPython process, while its memory goes on to change.

All is read twice. What is not the same the second time is not consistent, and is read again; what changes each time is
left out, and counted.
"""

from __future__ import annotations

import time

from ...layouts import cpython_tasks as layout
from .process_pages import Comparison, Pages, UnreadableError
from .python_objects import Objects
from .python_task_lists import MOST_TASKS, SourceFinder, SourceReader, Thread
from .python_tasks import TaskReader, TaskRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ...base.json_checks import Json
    from .python_frames import Frame
    from .python_task_lists import Listed, Modules, Source

    T = TypeVar("T")

MOST_WAITS = 50000      # of tasks for other tasks
MOST_TEXT = 1 << 20     # characters of names and files in an answer
SECONDS = 2.0           # of CPU time for the tasks; those that are not reached are left out
TRIES, LIST_TRIES = 8, 8  # to read a task that changes, and to read which tasks there are
_CHILDREN = "Nursery._nested_child_finished"  # in which trio's tasks wait for those that they have started


class Snapshot:
    """``tasks`` of one moment, the ``strange`` ones of another class than asyncio's, those that have to be read
    ``again``, and how many were not reached (``left``)."""

    def __init__(self) -> None:
        self.tasks: list[TaskRecord] = []
        self.strange: set[Listed] = set()
        self.again: list[Listed] = []
        self.left = 0


class Look:
    """One look: its ``threads`` and ``tasks``, and how many were left out: ``changed`` each time that they were read,
    ``strange`` ones of another class than asyncio's, those that there were ``more`` than are read. ``torn`` lists of
    tasks were thrown away; ``whole`` says that the last one was not. ``cut``: not all tasks that wait for others are
    joined with them."""

    def __init__(self, descriptor: int, words: dict[str, int], release: tuple[int, int], known: Modules) -> None:
        self._descriptor, self._words, self._more = descriptor, words, layout.TASK_LAYOUTS[release]
        self.threads: list[Thread] = []
        self.tasks: list[TaskRecord] = []
        self.libraries: list[str] = []
        self.changed = self.strange = self.more = self.torn = 0
        self.whole, self.cut = True, False
        self._known = known  # modules, from one look to the next
        self._began = time.thread_time()

    def find_libraries(self) -> None:
        """Read the ``libraries`` alone. UnreadableError if the interpreter cannot be read."""
        self._read_twice(self._find_sources, None)

    def take(self) -> None:
        """Read everything. UnreadableError if the interpreter itself cannot be read."""
        listed = self._read_lists()
        first = self._read_tasks(listed[:MOST_TASKS])
        self.more = max(0, len(listed) - MOST_TASKS) + first.left
        self.tasks, strange = first.tasks, first.strange
        for each in first.again:  # alone, which takes so little time that hardly anything changes meanwhile
            for _ in range(TRIES):
                again = self._read_tasks([each])
                if not again.again:
                    break
            self.tasks += again.tasks
            self.changed += bool(again.again)
            self.more += again.left
            strange |= again.strange
        for _ in range(2 if strange else 0):  # what was a task's memory when that has ended is none the next time
            strange = {each for each in strange.intersection(self._read_lists()) if self._read_tasks([each]).strange}
        self.strange = len(strange)
        self._join_tasks()

    @property
    def cost_us(self) -> int:
        """Microseconds of CPU time that it has taken."""
        return round(1e6 * (time.thread_time() - self._began))

    def _join_tasks(self) -> None:
        """Which task waits for which."""
        waiting: dict[int, list[TaskRecord]] = {}
        for task in self.tasks:
            for_children = any(function == _CHILDREN for function, _, _ in task.frames)
            if task.state == "waits" and (task.waiter or for_children):
                waiting.setdefault(task.waiter or task.address, []).append(task)
        room = MOST_WAITS
        for task in self.tasks:
            ends = [task.address, *sorted(task.leads), *([task.parent] if task.parent else [])]
            for waiter in [each for end in ends for each in waiting.get(end, ()) if each is not task]:
                room -= 1
                if room < 0:
                    self.cut = True
                    return
                if waiter.snapshot == task.snapshot or self._waits_for(waiter, task):
                    waiter.awaited.append(task.address)

    def _waits_for(self, waiter: TaskRecord, task: TaskRecord) -> bool:
        """Whether one waits for the other, when both are read at one moment: a future of the one moment may be another
        one at the next, at the same address."""
        if task.parent == waiter.address:
            return True
        for _ in range(TRIES):
            pages = Pages(self._descriptor)
            try:
                joined = TaskReader(Objects(pages, self._words, self._more), []).is_joined(waiter.address, task.address)
            except UnreadableError:
                return False
            if Comparison(pages, Pages(self._descriptor)).holds(pages.log):
                return joined
        return False

    def _read_lists(self) -> list[Listed]:
        """The tasks that there are."""
        _, sources = self._read_twice(self._find_sources, None)
        nothing: list[Listed] = []
        whole, addresses = self._read_twice(lambda objects: SourceReader(objects).read(sources), nothing)
        self.whole = self.whole and whole
        return list(dict.fromkeys(addresses))

    def _read_twice(self, read: Callable[[Objects], T], instead: T | None) -> tuple[bool, T]:
        """(whether all of it was the same when it was read again, what ``read`` reads). If it cannot be read,
        ``instead``, or UnreadableError."""
        for turn in range(LIST_TRIES):
            pages = Pages(self._descriptor)
            try:
                value = read(Objects(pages, self._words, self._more))
            except UnreadableError:
                if turn == LIST_TRIES - 1:
                    if instead is None:
                        raise
                    return False, instead
            else:
                if Comparison(pages, Pages(self._descriptor)).holds(pages.log):
                    return True, value
            self._known.clear()  # it may be from memory that was changing
            self.torn += turn < LIST_TRIES - 1
        return False, value

    def _find_sources(self, objects: Objects) -> list[Source]:
        finder = SourceFinder(objects, self._known)
        finder.find()
        self.threads, self.libraries = finder.threads, finder.libraries
        return finder.sources

    def _read_tasks(self, listed: list[Listed]) -> Snapshot:
        """Read these tasks once."""
        pages, snapshot, done = Pages(self._descriptor), Snapshot(), []
        reader = TaskReader(Objects(pages, self._words, self._more), self.threads)
        for at, (address, runner) in enumerate(listed):
            if time.thread_time() > self._began + SECONDS:
                snapshot.left = len(listed) - at
                break
            pages.log = []
            try:
                task = reader.read_trio(address, runner) if runner else reader.read_asyncio(address)
            except UnreadableError:
                snapshot.again.append((address, runner))
            else:
                done.append((address, runner, task, pages.log))
        comparison = Comparison(pages, Pages(self._descriptor))
        for address, runner, task, log in done:
            if not comparison.holds(log):
                snapshot.again.append((address, runner))
            elif task is not None:
                task.snapshot = snapshot
                snapshot.tasks.append(task)
            elif address in reader.strange:
                snapshot.strange.add((address, runner))
        return snapshot


def pack_look(look: Look) -> Json:
    """The look as an answer; see the row in ``questions``."""
    texts: dict[str, int] = {}
    frames: dict[tuple[int, int, int], int] = {}
    room = [MOST_TEXT]

    def number(text: str) -> int:
        if text not in texts:
            room[0] -= len(text)
            if room[0] < 0:
                return number("...")
            texts[text] = len(texts)
        return texts[text]

    def frame_number(frame: Frame) -> int:
        return frames.setdefault((number(frame[0]), number(frame[1]), frame[2]), len(frames))

    tasks = []
    for task in look.tasks:
        tasks.append((task.address, number(task.name), task.named, task.runner, task.state, number(task.awaits),
                      task.identity, [frame_number(frame) for frame in task.frames], task.awaited))
    threads = [(thread.tid, thread.loop) for thread in look.threads if thread.loop]
    return (look.libraries, threads, list(texts), list(frames), tasks,
            (look.changed, look.strange, look.more, look.torn, look.whole, look.cut,
             look.cost_us))
