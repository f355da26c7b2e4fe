"""The tasks of a Python program, looked at from outside while it runs."""

from __future__ import annotations

import os
import time

from ...base.record import Record
from ...errors import MachineError
from ..foreign.reader import Reader
from .python_process import PythonProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Libraries with tasks of their own that are not read, and what they call them.
UNREAD = {"greenlet": "greenlets (gevent's and others)", "curio": "curio's tasks", "twisted": "Twisted's callbacks"}


class TaskFrame(Record):
    """A function in which a task is, its file, and the line (0: not known)."""

    function: str
    file: str
    line: int


class Task(Record):
    """A task: ``id`` is what ``id()`` gives, ``named`` whether the program has given it its name, ``loop`` the address
    of its event loop, ``state`` "waits", "ready" or "runs". ``awaits``: what it waits for, in a word; ``awaited``: the
    ids of the tasks that it waits for. ``wait`` is another number for another wait. Frames: the outermost first."""

    id: int
    name: str
    named: bool
    loop: int
    state: str
    awaits: str
    wait: int
    frames: list[TaskFrame]
    awaited: list[int]


class TaskLook(Record):
    """What one look has seen at a ``time`` (monotonic, s): the threads that run loops, by the loop, and tasks.
    ``changed``, ``strange``, ``more``: tasks that are not among them because they changed while they were read, are of
    a class of their own, or are too many. ``torn``: lists of tasks that changed while they were read, and were thrown
    away; ``whole``: the last one did not. ``cut``: not all tasks that wait for others are joined with them. ``cost``:
    the CPU time that it took, s."""

    time: float
    libraries: list[str]
    threads: dict[int, int]
    tasks: list[Task]
    changed: int
    strange: int
    more: int
    torn: int
    whole: bool
    cut: bool
    cost: float


class TaskLooker:
    """Looks at the tasks of a process. UsageError if it runs no Python that can be followed, MachineError if its memory
    cannot be read."""

    def __init__(self, pid: int) -> None:
        self.pid, python = pid, PythonProcess(pid)
        self._words, self._release = python.words, python.find_release()
        try:
            self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise MachineError(f"the memory of process {pid} cannot be read: {error.strerror}") from None
        self._reader = Reader()  # of its own: a process can make its readers wait

    def close(self) -> None:
        """End the reader."""
        self._reader.end_process()
        os.close(self._memory)

    def look(self, all: bool = True) -> TaskLook:
        """Look once, at ``all`` or at the libraries alone. MachineError if the process cannot be read, ReaderError if
        it must not be read any further."""
        began = time.monotonic()
        answer = self._reader.ask_question("python_tasks", "", [self._memory], self._words, *self._release, all)
        try:
            return _unpack_look(began, answer)
        except IndexError:
            raise MachineError("senseless answer") from None


def find_libraries(pid: int) -> list[str]:
    """The libraries with tasks that a Python process has loaded: asyncio, trio and those of UNREAD. UsageError,
    MachineError."""
    looker = TaskLooker(pid)
    try:
        return looker.look(all=False).libraries
    finally:
        looker.close()


def _unpack_look(began: float, answer: Any) -> TaskLook:
    libraries, threads, texts, frames, tasks, (changed, strange, more, torn, whole, cut, cost_us) = answer
    known = [TaskFrame(_at(texts, function), _at(texts, file), line) for function, file, line in frames]
    return TaskLook(
        began, libraries, {loop: tid for tid, loop in threads},
        [Task(id, _at(texts, name), named, loop, state, _at(texts, awaits), wait,
              [_at(known, frame) for frame in through], awaited)
         for id, name, named, loop, state, awaits, wait, through, awaited in tasks],
        changed, strange, more, torn, whole, cut, cost_us / 1e6)


def _at(items: list[Any], index: int) -> Any:
    if index < 0:
        raise IndexError
    return items[index]
