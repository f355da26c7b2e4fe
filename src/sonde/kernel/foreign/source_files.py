"""Source files as a process's user sees them. A process can name any file as its source, so it is opened below the
process's root and with the rights of its user: nobody gets to see a file by way of a tracer that runs as root."""

from __future__ import annotations

import os

from ...base.record import Record
from ...errors import MachineError, SondeError
from ..host import wall_clock_offset
from ..names.process_files import MappedPaths
from . import reader
from .opening import Stamp, file_system_of, open_handle, stamp_of
from .user_rights import act_for_user


class ProcessView(Record):
    """How a process sees files: below which path its root is from here ("": it is ours), its working folder, its user's
    rights, and when it began, in nanoseconds since 1970."""

    root: str
    folder: str
    user: int
    group: int
    groups: list[int]
    began: int


def view_of_process(pid: int) -> ProcessView:
    """MachineError if the process has ended, or may not be looked at."""
    try:
        ticks = _start_ticks(pid)
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
            ids = {name: [int(word) for word in rest.split()] for name, _, rest in
                   [line.partition(":") for line in status] if name in ("Uid", "Gid", "Groups")}
        is_ours = os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt") \
            and os.path.samefile(f"/proc/{pid}/root", "/proc/self/root")
        folder = MappedPaths(pid).own_name(os.readlink(f"/proc/{pid}/cwd"))
        if _start_ticks(pid) != ticks:
            raise MachineError(f"process {pid} has ended")
    except OSError as error:
        raise MachineError(f"process {pid} cannot be looked at: {error.strerror}") from None
    began = wall_clock_offset() + ticks * (10**9 // os.sysconf("SC_CLK_TCK"))
    return ProcessView("" if is_ours else f"/proc/{pid}/root", folder, ids["Uid"][3], ids["Gid"][3], ids["Groups"],
                       began)


def _start_ticks(pid: int) -> int:
    """When it began, in ticks since the boot: two processes of one number differ by it."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


class SourceFile(Record):
    """An open source file; ``modified`` in nanoseconds since 1970."""

    descriptor: int
    stamp: Stamp
    modified: int


def open_source(view: ProcessView, path: str) -> SourceFile:
    """The file that a process calls by this name. MachineError if it is none that may be read."""
    if not path.startswith("/"):
        path = f"{view.folder}/{path}"
    try:
        root = os.open(view.root or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with act_for_user(view.user, view.group, view.groups):
                descriptor = open_handle(root, path, _check_file_system)
        finally:
            os.close(root)
    except SondeError as problem:
        raise MachineError(problem.message) from None
    except OSError as error:
        raise MachineError(error.strerror or "it cannot be opened") from None
    except ValueError:
        raise MachineError("its name is no path") from None
    return SourceFile(descriptor, stamp_of(descriptor), os.fstat(descriptor).st_mtime_ns)


def _check_file_system(handle: int) -> None:
    if file_system_of(handle).startswith("fuse"):
        raise MachineError("a process serves its file system (FUSE), and could make its readers wait")


def read_lines(file: SourceFile, path: str) -> list[str]:
    """The file's lines, which the reader of foreign files splits. MachineError."""
    lines: list[str] = reader.ask_shared_reader("text_lines", path, [file.descriptor])
    return lines
