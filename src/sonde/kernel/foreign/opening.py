"""Opening files that others made: regular files only; nothing is opened before it is known to be one."""

from __future__ import annotations

import os
from stat import S_ISREG

from ...base.fast_stdlib import contextmanager
from ...errors import MachineError
from .. import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from mmap import mmap

Stamp = tuple[int, ...]
MEMBER = "!/"  # between an archive's path and the name of its member


def split_member(path: str) -> tuple[str, str]:
    """(the file that a path leads to, the archive member that it means, or "")."""
    archive, mark, member = path.partition(MEMBER)
    return (archive, member) if mark and not os.path.lexists(path) else (path, "")


def name_member(path: str) -> str:
    """The path as passed to the reader, which can look at no path: a NUL precedes the name of a member."""
    archive, member = split_member(path)
    return f"{archive}\0{member}" if member else path


def open_regular(path: str, follow: bool = True) -> int:
    """A descriptor of a regular file, for reading. A path below /proc/PID/root is resolved as that process would: an
    absolute link there does not lead to a file of ours. Without ``follow`` the last part may not be a link at all."""
    try:
        handle = _open_handle(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
        try:
            if not S_ISREG(os.fstat(handle).st_mode):
                raise MachineError(f"{path}: not a regular file")
            return os.open(_path_of(handle), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        finally:
            os.close(handle)
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise MachineError(f"{path!r} is not a path") from None


def open_handle(root: int, path: str, check: Callable[[int], object]) -> int:
    """The same for a path below the descriptor of a root folder; ``check`` may refuse the file before it is opened.
    OSError too."""
    handle = syscalls.open_in_root(root, path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not S_ISREG(os.fstat(handle).st_mode):
            raise MachineError("it is not a regular file")
        check(handle)
        return os.open(_path_of(handle), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    finally:
        os.close(handle)


def map_regular(path: str) -> mmap:
    """A mapping of a whole regular file, which is not to be read: a file that shrinks would end the process."""
    import mmap as memory

    descriptor = open_regular(path)
    try:
        return memory.mmap(descriptor, 0, flags=memory.MAP_PRIVATE, prot=memory.PROT_READ)
    except (OSError, ValueError) as error:  # it is empty, or a limit is reached
        raise MachineError(f"{path}: {error}") from None
    finally:
        os.close(descriptor)


def open_without_waiting(path: str) -> int:
    """The same for a path without links, if that cannot block: the kernel's dentry cache must be enough to resolve it
    (Linux 5.12), and the kernel itself must serve the file system. MachineError if not."""
    try:
        handle = syscalls.open_in_root(_HERE, path, os.O_PATH | os.O_CLOEXEC, _KNOWN_WAY)
        try:
            if _is_served_elsewhere(handle) or not S_ISREG(os.fstat(handle).st_mode):
                raise MachineError(f"{path}: not opened")
            return os.open(_path_of(handle), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        raise MachineError(f"{path}: {error}") from None


_HERE = -100  # AT_FDCWD
_KNOWN_WAY = 0x20 | 0x04 | 0x02  # RESOLVE_CACHED, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS
_ELSEWHERE = ("fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs")  # prefixes of file system names
_file_systems: dict[str, str] = {}  # by mount id


def _is_served_elsewhere(handle: int) -> bool:
    """Whether a process or another machine serves the file system of a descriptor, found out without asking either."""
    return file_system_of(handle).startswith(_ELSEWHERE)


def file_system_of(handle: int) -> str:
    """The kind of file system that a descriptor is on; "fuse" if that is not known."""
    with open(f"/proc/self/fdinfo/{handle}", encoding="utf-8") as file:
        mount = next((line.split()[1] for line in file if line.startswith("mnt_id:")), "")
    if mount not in _file_systems:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            rows = [line.partition(" - ") for line in file]
        _file_systems.clear()  # ids are reused
        _file_systems.update({row[0].split()[0]: row[2].split()[0] for row in rows if row[0] and row[2].split()})
    return _file_systems.get(mount, "fuse")


@contextmanager
def path_for_kernel(path: str) -> Iterator[str]:
    """The path by which a system call finds the file that we mean: by itself it would follow a link below a process's
    root into ours."""
    if _split_root(path) is None:
        yield split_member(path)[0]
        return
    descriptor = open_regular(path)
    try:
        yield _path_of(descriptor)
    finally:
        os.close(descriptor)


def _path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _split_root(path: str) -> tuple[str, str] | None:
    """(/proc/PID, path within its root); None for a path of ours."""
    process, below, inside = path.partition("/root/")
    return (process, inside) if below and process.startswith("/proc/") and process[6:].isdigit() else None


def _open_handle(path: str, flags: int) -> int:
    path = split_member(path)[0]
    split = _split_root(path)
    if split is None:
        return os.open(path, flags)
    process, inside = split
    root = os.open(f"{process}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return syscalls.open_in_root(root, inside, flags)
    finally:
        os.close(root)


def stamp_of_path(path: str) -> Stamp:
    """What distinguishes the file at a path, as it is now, from any other. OSError, ValueError."""
    if _split_root(path) is None and not split_member(path)[1]:
        return _stamp_of(os.stat(path))
    handle = _open_handle(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return stamp_of_file(path, handle)
    finally:
        os.close(handle)


def stamp_of_file(path: str, descriptor: int) -> Stamp:
    """The same for an open file, and for what a path means in it."""
    member = split_member(path)[1].encode("utf-8", "surrogateescape")
    return (*stamp_of(descriptor), int.from_bytes(member, "big")) if member else stamp_of(descriptor)


def stamp_of(descriptor: int) -> Stamp:
    """The same for an open file."""
    return _stamp_of(os.fstat(descriptor))


def _stamp_of(stat: os.stat_result) -> Stamp:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def read_start(path: str, size: int, at: int = 0) -> bytes:
    """Some bytes of a file; b"" if they cannot be read."""
    return read_parts(path, size, [at])[0]


def read_parts(path: str, size: int, offsets: list[int]) -> list[bytes]:
    """As many bytes of a file from each of these offsets on; b"" where they cannot be read."""
    try:
        descriptor = open_regular(path)
    except MachineError:
        return [b""] * len(offsets)
    try:
        return [_read_at(descriptor, size, at) for at in offsets]
    finally:
        os.close(descriptor)


def _read_at(descriptor: int, size: int, at: int) -> bytes:
    try:
        return os.pread(descriptor, size, at)
    except (OSError, OverflowError):
        return b""
