"""Where a CPython process has its lists of tasks, of asyncio and trio, and what is in them."""

from __future__ import annotations

from ...layouts import cpython as py
from ...layouts import cpython_tasks as layout
from .process_pages import UnreadableError
from .python_objects import Objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Listed: TypeAlias = tuple[int, int]       # a task's address, and its runner (trio's) or 0
    Modules: TypeAlias = dict[tuple[int, int, int], dict[str, int]]  # by the state of the dict that has them all
    Source: TypeAlias = tuple[str, int, int]  # of a list: "nodes", "weak" or "set", its address, the runner or 0

MOST_TASKS = 10000
MOST_THREADS, MOST_INTERPRETERS, MOST_MODULES, MOST_NAMES = 4096, 64, 16384, 4096
_RUNNING_LOOP = "__asyncio_running_event_loop__"
# Modules that have to do with tasks, and their libraries.
_MODULES = {"asyncio.tasks": "asyncio", "trio._core._run": "trio", "greenlet": "greenlet", "curio": "curio",
            "twisted.internet.defer": "twisted"}


class Thread:
    """A thread of an interpreter's: its address, the system's number of it, and the address of the loop that it runs
    or 0."""

    def __init__(self, address: int, tid: int, loop: int) -> None:
        self.address, self.tid, self.loop = address, tid, loop


class SourceFinder:
    """Where an interpreter has its lists of tasks, its ``threads``, and the ``libraries`` that have to do with
    tasks. ``known`` are modules that were read in an earlier look."""

    def __init__(self, objects: Objects, known: Modules) -> None:
        self.objects, self.pages, self.at, self.more = objects, objects.pages, objects.at, objects.more
        self._known = known
        self.threads: list[Thread] = []
        self.sources: list[Source] = []
        self.libraries: list[str] = []

    def find(self) -> None:
        """Fill the lists."""
        for interpreter in self._interpreters():
            threads = list(self._threads(interpreter))
            self.threads += threads
            modules = self.pages.word(interpreter + self.at["modules"])
            if modules:
                self._read_modules(modules)
            if self.more["node"]:
                heads = [thread.address + self.more["thread_tasks"] for thread in threads]
                self.sources += [("nodes", head, 0) for head in (*heads, interpreter + self.more["interp_tasks"])]

    def _interpreters(self) -> Iterator[int]:
        interpreter = self.pages.word(self.at["interpreters"])
        for _ in range(MOST_INTERPRETERS):
            if not interpreter:
                return
            yield interpreter
            interpreter = self.pages.word(interpreter + self.at["interp_next"])

    def _threads(self, interpreter: int) -> Iterator[Thread]:
        thread = self.pages.word(interpreter + self.at["interp_next"] + self.at["interp_threads"])
        for _ in range(MOST_THREADS):
            if not thread:
                return
            tid = self.pages.word(thread + self.at["thread_id"] + layout.NATIVE_THREAD_AFTER)
            yield Thread(thread, tid, self._loop_of(thread))
            thread = self.pages.word(thread + self.at["thread_next"])

    def _loop_of(self, thread: int) -> int:
        """The loop that a thread runs; 0 if it runs none."""
        if self.at["running_loop"]:
            loop = self.pages.word(thread + self.at["running_loop"])
        else:
            values = self.pages.word(thread + self.at["thread_dict"])
            loop = self.objects.find(values, _RUNNING_LOOP, MOST_NAMES) if values else 0
            if loop and self.at["holder_loop"]:
                loop = self.pages.word(loop + self.at["holder_loop"] - 1)
        return loop if loop and not self.objects.is_one(loop, "NoneType") else 0

    def _read_modules(self, modules: int) -> None:
        keys = self.pages.word(modules + py.DICT_KEYS)
        state = modules, keys, self.pages.word(keys + py.KEYS_ENTRIES)
        wanted = self._known[state] = self._known.get(state) or self._find_modules(modules)
        self.libraries += [library for name, library in _MODULES.items()
                           if wanted[name] and library not in self.libraries]
        if wanted["asyncio.tasks"]:
            self._read_sets(wanted["asyncio.tasks"])
        if wanted["trio._core._run"]:
            self._read_trio(wanted["trio._core._run"])

    def _find_modules(self, modules: int) -> dict[str, int]:
        """The dicts of the modules in _MODULES, by name; 0: it is not there."""
        wanted = dict.fromkeys(_MODULES, 0)
        lengths = {len(name) for name in wanted}
        for key, value in self.objects.items(modules, MOST_MODULES):
            if self.pages.word(key + py.TEXT_LENGTH) in lengths:
                name = self.objects.text(key)
                if name in wanted:
                    wanted[name] = self.pages.word(value + py.MODULE_DICT)
        return wanted

    def _read_sets(self, module: int) -> None:
        """asyncio's weak set of tasks (from 3.14 on of those of other classes than its own), and its set of eager ones
        in their first step."""
        find = self.objects.find
        weak = find(module, "_scheduled_tasks", MOST_NAMES) or find(module, "_all_tasks", MOST_NAMES)
        data = self.objects.attribute(weak, "data") if weak else 0
        eager = find(module, "_eager_tasks", MOST_NAMES)
        self.sources += [("weak", data, 0)] * bool(data) + [("set", eager, 0)] * bool(eager)

    def _read_trio(self, module: int) -> None:
        """What each thread has in trio's threading.local: its runner, which has the tasks."""
        context = self.objects.find(module, "GLOBAL_RUN_CONTEXT", MOST_NAMES)
        dicts = self.pages.word(context + self.more["local_dicts"]) if context else 0
        for _, values in self.objects.items(dicts, MOST_THREADS) if dicts else ():
            runner = self.objects.find(values, "runner", 64)
            tasks = self.objects.attribute(runner, "tasks") if runner else 0
            if tasks:
                self.sources.append(("set", tasks, runner))


class SourceReader:
    """Reads lists of tasks."""

    def __init__(self, objects: Objects) -> None:
        self.objects, self.pages, self.more = objects, objects.pages, objects.more

    def read(self, sources: list[Source]) -> list[Listed]:
        """The tasks in these lists."""
        return [(task, runner) for kind, address, runner in sources for task in self._read_source(kind, address)]

    def _read_source(self, kind: str, address: int) -> Iterator[int]:
        if kind == "nodes":
            yield from (node - self.more["node"] for node in self._nodes(address))
        for item in self.objects.set_items(address, 4 * MOST_TASKS) if kind != "nodes" else ():
            yield self.pages.word(item + layout.WEAKREF_OBJECT) if kind == "weak" else item

    def _nodes(self, head: int) -> Iterator[int]:
        """The nodes of a list that goes round."""
        last, node = head, self.pages.word(head)
        for _ in range(4 * MOST_TASKS):
            if node in (head, 0):
                return
            following, before = self.pages.words(node, 2)
            if before != last:
                raise UnreadableError
            yield node
            last, node = node, following
