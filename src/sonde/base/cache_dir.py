"""Files under the user's cache directory: written whole or not at all, and never required.

Their contents decide which memory programs read. So a folder is used only if nobody else can write to it, and no link
or folder on the path to it is another user's: with a HOME that is not the user's own (``sudo -E``) it is that of the
password file.
"""

from __future__ import annotations

import os
import stat
from _imp import source_hash

from .trusted_files import is_private, open_private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

LARGEST = 64 << 20  # the largest file that is accepted as a cache, in bytes


def digest(data: bytes) -> bytes:
    """Eight bytes by which damaged data are known, and keys named: the interpreter's own SipHash, for which no library
    is loaded."""
    return source_hash(0, data)


def read_cache(name: str) -> bytes | None:
    """The contents of a file in the cache directory; None if there is none that is the user's own."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = _use_folder(_open_cache_folder(), lambda folder: os.open(name, flags, dir_fd=folder))
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            believed = stat.S_ISREG(status.st_mode) and is_private(status) and status.st_size <= LARGEST
            return file.read() if believed else None
    except OSError:
        return None


def open_cached(name: str) -> int:
    """A descriptor, for reading, of a file in the cache directory; -1 if there is none that is the user's own."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = _use_folder(_open_cache_folder(), lambda folder: os.open(name, flags, dir_fd=folder))
    except OSError:
        return -1
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and is_private(status):
        return descriptor
    os.close(descriptor)
    return -1


def touch_cached(name: str) -> None:
    """Mark it as used, so that others are removed first."""
    try:
        _use_folder(_open_cache_folder(), lambda folder: os.utime(name, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return


def drop_cached(name: str) -> bool:
    """Remove a file of the cache directory; whether there was one."""
    try:
        _use_folder(_open_cache_folder(), lambda folder: os.unlink(name, dir_fd=folder))
    except OSError:
        return False
    return True


def list_cached(prefix: str) -> list[tuple[str, int, float]]:
    """(name, bytes, time of last use) of the files whose names begin with ``prefix``, most recently used first."""
    try:
        files = _use_folder(_open_cache_folder(), lambda folder: _list_files(folder, prefix))
    except OSError:
        return []
    return [(name, size, at / 1e9) for at, size, name in files]


def write_cache(name: str, parts: Iterable[bytes | bytearray | memoryview]) -> bool:
    """Write a file in the cache directory whole or not at all (another process may be reading it); False if that is
    impossible, or ``parts`` raises OSError."""
    try:
        _use_folder(_open_cache_folder(make=True), lambda folder: _write_whole(folder, name, parts))
    except OSError:
        return False
    return True


def thin_cache(prefix: str, most_files: int, most_bytes: int) -> None:
    """Of the files whose names begin with ``prefix`` keep the newest, up to a number and a total size."""
    try:
        _use_folder(_open_cache_folder(), lambda folder: _remove_oldest(folder, prefix, most_files, most_bytes))
    except OSError:
        return


def _list_files(folder: int, prefix: str) -> list[tuple[int, int, str]]:
    """(last change, bytes, name), newest first."""
    names = [name for name in os.listdir(f"/proc/self/fd/{folder}") if name.startswith(prefix)]
    return sorted([(made.st_mtime_ns, made.st_size, name) for name in names
                   for made in [os.stat(name, dir_fd=folder, follow_symlinks=False)]], reverse=True)


def _remove_oldest(folder: int, prefix: str, most_files: int, most_bytes: int) -> None:
    size = 0
    for count, (_, bytes, name) in enumerate(_list_files(folder, prefix)):
        size += bytes
        if count >= most_files or size > most_bytes:
            os.unlink(name, dir_fd=folder)


def _write_whole(folder: int, name: str, parts: Iterable[bytes | bytearray | memoryview]) -> None:
    partial = f"{name}.{os.getpid()}"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.writelines(parts)
        os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(partial, dir_fd=folder)
        raise


def _use_folder(folder: int, use: Callable[[int], T]) -> T:
    """The result of ``use`` on a folder's descriptor, which is then closed."""
    try:
        return use(folder)
    finally:
        os.close(folder)


def _open_cache_folder(make: bool = False) -> int:
    """A descriptor of the first cache directory that is the user's own; OSError if there is none."""
    for base in _cache_bases():
        try:
            return open_private_folder(os.path.join(base, "sonde"), make)
        except FileNotFoundError:  # but it could be created
            raise
        except OSError:
            continue
    raise FileNotFoundError("no cache directory")


def _cache_bases() -> Iterator[str]:
    """Where it may be: by the environment, and for a user with another's environment by the password file."""
    folders = [os.environ.get("XDG_CACHE_HOME", ""), os.path.join(os.environ.get("HOME", ""), ".cache")]
    yield from filter(os.path.isabs, folders)
    import pwd
    try:
        yield os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".cache")
    except KeyError:
        return
