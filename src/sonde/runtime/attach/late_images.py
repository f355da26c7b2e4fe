"""User probes in files that the followed processes map for the first time while they are traced: a program that was
just built, a library by the same name elsewhere.

What the script's attach points name is attached by file before anything is traced, and misses nothing. For other files
nobody can be earlier than the process that maps them: they are attached when the kernel has reported the mapping, which
is said, and counted. They are taken off when no followed process has the file mapped any more and it is gone from its
path; a file that is still there may be run again, and then misses nothing.
"""

from __future__ import annotations

import os
import struct
import time

from ...base.record import Record
from ...base.wildcards import function_matcher
from ...errors import AttachError, MachineError
from ...kernel.foreign import files
from ...kernel.names.binaries import names_image
from ...kernel.names.process_files import identity, process_files, process_root
from ...kernel.names.process_reports import (
    MISC_EXEC,
    MMAP2_NAME,
    RECORD_COMM,
    RECORD_EXIT,
    RECORD_FORK,
    RECORD_MMAP2,
    ProcessReports,
)
from ...kernel.names.returns import return_hazard
from ...kernel.notices import show_notice
from ...kinds import KINDS
from ...spec import Attach, ProgramSpec, UserDetail
from . import links as attaching
from .links import Links
from .programs import LoadedProgram, probe_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..losses import Losses

MOST_FILES = 512  # that have probes at a time; no more than so many notices
MOST_SECONDS = 20.0  # for reading them all
MOST_NAMES = 1 << 14  # of files, of which it is remembered that no attach point means them
_PROCESS = struct.Struct("=IIII")  # of a FORK or EXIT report: pid, parent's pid, thread's id, parent's thread's id
Key = tuple[int, int]  # device and inode


class WrittenPoint(Record):
    """An attach point of a program; ``number`` is its index in ScriptSpec.probes."""

    program: LoadedProgram
    point: Attach
    number: int

    @property
    def detail(self) -> UserDetail:
        """What was written."""
        assert isinstance(self.point.detail, UserDetail)
        return self.point.detail

    @property
    def image(self) -> str:
        """The file as it was written."""
        return self.detail.image


class LateImages(ProcessReports):
    """Attaches ``programs``, which are loaded, to files that ``root`` or the processes that it starts map, but not to
    those that the programs are attached to anyway. ``links`` are the session's, which detaches them with all others.
    ``looks``: the processes are there already. ``is_over``: whether nothing is to be attached any more."""

    is_prompt = True

    def __init__(self, programs: Sequence[LoadedProgram], links: list[Links], root: int, looks: bool,
                 is_over: Callable[[], bool]) -> None:
        super().__init__()
        # Returns first: of calls that are counted none seems to have had no return.
        self._wanted = sorted(_written_points(programs), key=lambda each: not KINDS[each.point.kind].returns)
        self._early = {identity(point.target) for program in programs for point in program.spec.attach
                       if KINDS[point.kind].user}
        self._fixed = _fixed_points(programs)
        self._none: set[str] = set()  # names of files that no attach point means
        self._images: dict[int, set[Key]] = {}  # of each followed process: files with late probes that it has mapped
        self._links: dict[Key, tuple[Links, str]] = {}  # with a path of the file
        self._all_links = links
        self._reported: set[Key | str] = set()
        self.uncovered = 0  # files that were mapped before their probes were set
        self._root = 0 if looks else root
        self._there = root if looks else 0  # 0: nobody has to look any more
        self._threads = {} if looks else {root: 1}
        self._is_over = is_over
        self._seconds = 0.0  # that were spent on reading files
        _start_reader()
        if not self.open_rings():
            self._say("", "WARNING: the kernel does not report what processes map: files that were not there at the "
                      "start get no probes")

    def drain_rings(self) -> None:
        """Take in what has been reported; at first also what the processes that are there have mapped."""
        root, self._there = self._there, 0
        for pid in _descendants(root) if root else ():
            self._threads[pid] = _count_threads(pid)
            for file in process_files(pid):
                self._take_file(pid, file.name, file.path, True)
        super().drain_rings()

    def count_losses(self, losses: Losses) -> None:
        """Add the files whose first calls were not seen, those at the very end too."""
        self.drain_rings()
        losses.uncovered += self.uncovered + self.lost

    # processes

    def apply_record(self, kind: int, misc: int, body: bytes) -> None:
        """Follow a fork, an execve(), an exit, or look at what was mapped."""
        pid, parent = struct.unpack_from("=II", body)
        if kind == RECORD_FORK:
            self._begin_task(pid, parent)
        elif pid not in self._threads:
            return
        elif kind == RECORD_EXIT:
            self._threads[pid] -= 1
            if self._threads[pid] <= 0:
                del self._threads[pid]
                self._leave_images(pid)
        elif kind == RECORD_COMM and misc & MISC_EXEC:
            self._leave_images(pid)
        elif kind == RECORD_MMAP2:
            name = body[MMAP2_NAME:].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            if name.startswith("/") and name not in self._none:
                self._take_file(pid, name, process_root(pid) + name, False)

    def _begin_task(self, pid: int, parent: int) -> None:
        if pid == parent:
            if pid in self._threads:
                self._threads[pid] += 1
            return
        self._threads.pop(pid, None)  # the id was another process's
        self._leave_images(pid)
        if parent in self._threads:
            self._threads[pid] = 1
            self._images[pid] = set(self._images.get(parent, ()))

    def _leave_images(self, pid: int) -> None:
        """The process has none of its files any more: those that no other one has, and that are gone, are let go."""
        for key in self._images.pop(pid, ()):
            if key in self._links and not any(key in images for images in self._images.values()):
                links, path = self._links[key]
                if identity(path) != key:
                    del self._links[key]
                    self._all_links.remove(links)
                    self._reported.discard(key)
                    links.close()

    # files

    def _take_file(self, pid: int, name: str, path: str, was_there: bool) -> None:
        wanted = [each for each in self._wanted if names_image(each.image, name)]
        fixed = self._fixed.get(os.path.basename(name), "")
        if fixed and identity(path) not in self._early:
            self._say(f"{name} fixed", f"WARNING: {path}, which process {pid} has mapped, has no {fixed}: such probes "
                      "are set only in files that were there at the start")
        if not wanted:
            if not fixed:  # else the name may come to mean another file
                if len(self._none) >= MOST_NAMES:
                    self._none.clear()
                self._none.add(name)
            return
        key = identity(path)
        if key is None:
            self._say(name, f"WARNING: {name} was gone before probes could be set in it: process {pid} mapped it, and "
                      "ended")
        elif key not in self._early:
            self._images.setdefault(pid, set()).add(key)
            if key not in self._links and key not in self._reported:
                if self._is_over():
                    self._say(key, f"WARNING: {path}, which process {pid} has mapped, had no probes before the end")
                else:
                    self._attach_file(key, pid, path, wanted, was_there)

    def _attach_file(self, key: Key, pid: int, path: str, wanted: list[WrittenPoint],
                     was_there: bool) -> None:
        if len(self._links) >= MOST_FILES:
            self._say(key, f"WARNING: {path}: {MOST_FILES} further files have probes already: none are set in it")
            return
        links = Links()
        self._links[key] = links, path
        self._all_links.append(links)
        points, problems = 0, dict[str, None]()

        def note(error: AttachError, _: Attach) -> None:
            problems[error.message] = None

        for each in wanted if self._seconds < MOST_SECONDS else ():
            began = time.monotonic()
            made, problem = _further_points(each, path)
            self._seconds += time.monotonic() - began
            if problem:
                problems[problem] = None
            if made is not None:
                points += _attach(made, each.program, links, note)
        if self._seconds >= MOST_SECONDS:
            problems[f"files have been read for {MOST_SECONDS:.0f} s, which is enough"] = None
        if problems:
            self._say(key, f"WARNING: {path}, which process {pid} has mapped, has no probes, or not all: "
                      f"{next(iter(problems))}")
        elif points and not was_there:
            self._say(key, f"WARNING: {path} had no probes yet when process {pid} mapped it: its calls until they were "
                      "set are not counted")

    def _say(self, what: Key | str, message: str) -> None:
        if what not in self._reported:
            self.uncovered += 1
            if len(self._reported) < MOST_FILES:
                show_notice(message)
            if len(self._reported) < MOST_NAMES:
                self._reported.add(what)


def _start_reader() -> None:
    """Have the process that reads foreign files run: its start takes as long as many short processes live."""
    try:
        files.open_elf("/proc/self/exe")
    except MachineError:
        pass


def _written_points(programs: Sequence[LoadedProgram]) -> list[WrittenPoint]:
    """Each attach point of a program as it was written, once for all that it has become."""
    points: dict[tuple[int, str, str, str], WrittenPoint] = {}
    for order, program in enumerate(programs):
        for at, point in enumerate(program.spec.attach):
            detail = point.detail
            if isinstance(detail, UserDetail) and detail.image:
                points.setdefault((order, point.kind, detail.image, detail.function),
                                  WrittenPoint(program, point, probe_index(program.spec, at)))
    return list(points.values())


def _fixed_points(programs: Sequence[LoadedProgram]) -> dict[str, str]:
    """File name → the first attach point in a file of that name which is not set in further files."""
    points: dict[str, str] = {}
    for point in [point for program in programs for point in program.spec.attach if KINDS[point.kind].user]:
        if not (isinstance(point.detail, UserDetail) and point.detail.image):
            points.setdefault(os.path.basename(point.target), point.name)
    return points


def _further_points(written: WrittenPoint, path: str) -> tuple[ProgramSpec | None, str]:
    """The program for the functions of a further file that an attach point means; None if there are none. And why some
    or all cannot be attached to."""
    spec, point = written.program.spec, written.point
    detail = written.detail
    if spec.cookies:
        return None, "the script asks for the names of probes, which are those of the files that were there"
    if point.args is not None or detail.prototype is not None or point.result is not None:
        return None, "the script uses arguments by name, which are those of the files that were there"
    if detail.go or detail.exits:
        return None, "its attach points are made for the code of the files that were there"
    try:
        file = files.open_elf(path)
        if file.bits != detail.bits:
            return None, f"it is a program of {file.bits} bits, whose functions have their arguments elsewhere"
        if file.bits == 64 and file.ask_reader("go_version"):
            return None, "it was built by Go, whose functions have their arguments elsewhere"
        matches = function_matcher(detail.function)
        indirect = {address for _, address in file.indirect_functions()}
        chosen = [function for function in file.functions() if function.size and matches(function.name)]
        offsets = {function.offset: function.name for function in chosen if function.address not in indirect}
        harmful = [offset for offset in offsets if KINDS[point.kind].returns and return_hazard(file, offset)]
    except MachineError as error:
        return None, str(error)
    if harmful:
        return None, f"return probes would do harm there, in {offsets[harmful[0]]} for one"
    left_out = [function.name for function in chosen if function.address in indirect]
    points = [Attach(point.kind, f"{point.kind}:{path}:{name}", path, name, offset, detail=UserDetail(True), wild=True)
              for offset, name in offsets.items()]
    return ProgramSpec(spec.name, spec.type, spec.code, points, method=spec.method, first_probe=written.number,
                       numbers=[written.number] * len(points)) if points else None, \
        f"{left_out[0]} is an indirect function, whose code is another's" if left_out else ""


def _attach(spec: ProgramSpec, program: LoadedProgram, links: Links,
            missing: Callable[[AttachError, Attach], None]) -> int:
    """How many places the loaded program was attached to."""
    if attaching.multi_attach_type(spec) and attaching.multi_attach_type(program.spec):
        return len(spec.attach) if attaching.attach_multi(spec, program.fd, links, missing) else 0
    return attaching.attach_program(spec, program.fd, links, missing)


def _descendants(root: int) -> list[int]:
    """A process and its living children, and theirs."""
    from ..traced_command import children_of
    pids = [root]
    for pid in pids:
        pids += [child for child in children_of(pid) if child not in pids]
    return pids


def _count_threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0
