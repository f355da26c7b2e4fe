"""Python's stacks outside the BPF programs: which processes run Python, and the names of frames."""

from __future__ import annotations

import os
import time
from struct import Struct as Layout

from ...errors import MachineError, SondeError
from ...kernel.names import pythons
from ...kernel.names.user_symbols import Mapping, read_maps
from ...kernel.notices import show_notice
from ...layouts import cpython as py
from ...layouts.shared_maps import PY_FRAMES, PY_IMAGES, PY_MISSES, PY_TASKS, PY_TEXTS
from ..maps.access import Map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Mapping as Named

    from ...kernel.names.mappings import MappingLog
    from .python_libraries import LibraryWatch

_ID = Layout("=Q")
_LINE_BREAKS = {ord("\n"): "\\n", ord("\r"): "\\r"}  # a name has one line, whatever a program calls its functions
TRIES, PAUSE = 5, 0.0002  # looks at a program that is just being started, and seconds between them
MOST_REFUSED = 64         # files of which it is said why they are not read
MOST_NAMED = 1 << 15      # frames whose names are kept here


class Pythons:
    """Tells the programs of each process that maps an interpreter."""

    def __init__(self, maps: Named[str, Map]) -> None:
        self.frames = PythonFrames(maps) if PY_FRAMES in maps else None  # a script may only ask for tasks
        self._images, self._misses = maps[PY_IMAGES], maps[PY_MISSES]
        self._log: MappingLog | None = None
        self._added = 0
        self._begun: dict[int, bytes] = {}  # images of processes that cannot be told apart yet
        self._interpreters = pythons.Interpreters()
        self.begins: Callable[[int], object] = int  # called with each process
        self._refused: set[str] = set()  # files of which has been said why not
        self._asks_for_tasks = PY_TASKS in maps
        self._libraries: LibraryWatch | None = None

    def watch(self, log: MappingLog) -> None:
        """Take in the processes that are there; ``log``, which has been started, tells of others."""
        self._log = log
        for name in os.listdir("/proc"):
            if name.isdigit() and _mentions_python(name):
                for mapping in read_maps(int(name)):
                    if mapping.path:
                        self.add_mapping(int(name), mapping)
        self._interpreters.read_installed()

    def add_mapping(self, pid: int, mapping: Mapping) -> None:
        """If it holds an interpreter, have stacks of this process read from now on."""
        if other := pythons.other_implementation(mapping.name):
            self._refuse(mapping.name, f"{other} keeps its frames in ways of its own")
            return
        if not pythons.may_hold_python(mapping.name):
            return
        try:
            image = self._interpreters.find_image(pid, mapping)
        except MachineError as problem:
            self._refuse(mapping.name, problem.message)
            return
        if image is None:
            return
        if not self._add_process(pid, image):
            self._begun[pid] = image
        self.begins(pid)  # afterwards: stacks are not read before the image is there

    def _refuse(self, name: str, reason: str) -> None:
        """Say once of a file why its processes are not followed."""
        if name not in self._refused and len(self._refused) < MOST_REFUSED:
            self._refused.add(name)
            show_notice(f"WARNING: Python stacks and tasks of {name} are not read: {reason}")

    def judge_tasks(self, pid: int, runs: bool) -> None:
        """Say it if this process, which ``runs`` its program already, has other tasks than those that are seen."""
        if self._asks_for_tasks:
            from .python_libraries import LibraryWatch
            self._libraries = LibraryWatch(pid, runs)

    def look_again(self) -> None:
        """At processes whose execve() was still at work, and at the libraries of the one that is traced."""
        if self._libraries is not None:
            self._libraries.look_again()
        for pid, image in list(self._begun.items()):
            if self._add_process(pid, image):
                del self._begun[pid]

    def _add_process(self, pid: int, image: bytes) -> bool:
        """Whether it is settled: it is known from now on, or gone."""
        key = _wait_for_key(pid)
        if key and not all(py.IMAGE_KEY.unpack(key)):
            return False
        self._add_image(pid, key, image)
        return True

    def _add_image(self, pid: int, key: bytes, image: bytes) -> None:
        try:
            if key:
                self._make_room()
                self._images.update(key, image)
            for missed in [known for known, value in self._misses.raw_elements()
                           if known == key or not key and py.MISS.unpack(value)[1] == pid]:
                self._count_missed(missed)
        except SondeError as problem:
            show_notice(f"WARNING: a Python process is not followed: {problem.message}")

    def _make_room(self) -> None:
        """When the images are many, forget those of processes that have ended."""
        self._added += 1
        if self._added % (self._images.spec.max_entries // 2):
            return
        alive = {key for name in os.listdir("/proc") if name.isdigit() and (key := _read_key(int(name)))}
        for key, _ in list(self._images.raw_elements()):
            if key not in alive:
                self._images.delete(key)

    def _count_missed(self, key: bytes) -> None:
        missed = self._misses.get(key)
        self._misses.delete(key)
        if isinstance(missed, bytes) and self._log is not None:
            self._log.early += py.MISS.unpack(missed)[0]


def _mentions_python(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            mapped = file.read()
            return b"python" in mapped or b"pypy" in mapped
    except OSError:
        return False


def _wait_for_key(pid: int) -> bytes:
    """The key of a process's image; empty if it is gone. Its first mapping is reported while execve() is at work: as
    long as that is so, the key has zeros."""
    for _ in range(TRIES):
        key = _read_key(pid)
        if not key or all(py.IMAGE_KEY.unpack(key)):
            return key
        time.sleep(PAUSE)
    return key


def _read_key(pid: int) -> bytes:
    try:
        return pythons.read_image_key(pid)
    except (OSError, ValueError):
        return b""


class PythonFrames:
    """Frames by id: what the programs noted of them, decoded."""

    def __init__(self, maps: Named[str, Map]) -> None:
        self._frames, self._texts = maps[PY_FRAMES], maps[PY_TEXTS]
        self._named: dict[int, tuple[str, int, str]] = {}  # oldest first

    def frame_at(self, id: int) -> tuple[str, int, str] | None:
        """(qualified name of the function, line, source file) of a frame; None if it was not noted."""
        frame = self._named.get(id)
        if frame is None:
            try:
                frame = self._read_frame(id)
            except SondeError:  # the session is over
                return None
            if frame is not None:
                if len(self._named) >= MOST_NAMED:
                    del self._named[next(iter(self._named))]
                self._named[id] = frame
        return frame

    def _read_frame(self, id: int) -> tuple[str, int, str] | None:
        raw = self._frames.get(_ID.pack(id))
        if not isinstance(raw, bytes):
            return None
        code, instruction, first_line, *heads = py.FRAME_RECORD.unpack(raw)
        name, file = (py.decode_text(self._join_parts(code, part, py.MOST_TEXT), *heads)
                      for part in (py.NAME_PART, py.FILE_PART))
        if name is None or file is None:
            return None
        name, file = (text.translate(_LINE_BREAKS) for text in (name, file))
        return name, py.find_line(self._join_parts(code, py.TABLE_PART, py.MOST_TABLE), instruction, first_line), file

    def _join_parts(self, code: int, first: int, most: int) -> bytes:
        joined = b""
        for part in range(first, first + most // py.PART):
            raw = self._texts.get(py.PART_KEY.pack(code, part))
            if not isinstance(raw, bytes):
                break
            joined += raw
        return joined
