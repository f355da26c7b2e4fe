"""Files under the user's cache directory: written whole or not at all, and never needed.

What is in them decides which memory programs read. Only a folder that nobody else can write to is used, on whose way no
other user's link or folder lies: with a HOME that is not the user's own (``sudo -E``) it is that of the password file.
"""

from __future__ import annotations

import os
import stat

from ..ownership import is_private, open_private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

LARGEST = 64 << 20  # bytes that are believed to be a cache


def read_cache(name: str) -> bytes | None:
    """What a file in the cache directory has; None if there is none that is the user's own."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = _use_folder(_open_cache_folder(), lambda folder: os.open(name, flags, dir_fd=folder))
        with open(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            believed = stat.S_ISREG(found.st_mode) and is_private(found) and found.st_size <= LARGEST
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
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and is_private(found):
        return descriptor
    os.close(descriptor)
    return -1


def touch_cached(name: str) -> None:
    """It is in use: others go before it."""
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
    """(name, bytes, moment of its last use) of the files whose names begin so, those used last first."""
    try:
        found = _use_folder(_open_cache_folder(), lambda folder: _list_files(folder, prefix))
    except OSError:
        return []
    return [(name, size, at / 1e9) for at, size, name in found]


def write_cache(name: str, parts: Iterable[bytes | bytearray | memoryview]) -> bool:
    """Write a file in the cache directory whole or not at all (another process may be reading it); False if that is not
    possible, or ``parts`` raises OSError."""
    try:
        _use_folder(_open_cache_folder(make=True), lambda folder: _write_whole(folder, name, parts))
    except OSError:
        return False
    return True


def thin_cache(prefix: str, most_files: int, most_bytes: int) -> None:
    """Of the files whose names begin with ``prefix`` keep the newest: so many, of so many bytes in all."""
    try:
        _use_folder(_open_cache_folder(), lambda folder: _remove_oldest(folder, prefix, most_files, most_bytes))
    except OSError:
        return


def _list_files(folder: int, prefix: str) -> list[tuple[int, int, str]]:
    """(last change, bytes, name), the newest first."""
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
    """What ``use`` makes of a folder's descriptor, which is closed then."""
    try:
        return use(folder)
    finally:
        os.close(folder)


def _open_cache_folder(make: bool = False) -> int:
    """A descriptor of the first cache directory that is the user's own; OSError if there is none."""
    for base in _cache_bases():
        try:
            return open_private_folder(os.path.join(base, "sonde"), make)
        except FileNotFoundError:  # but it could be made
            raise
        except OSError:
            continue
    raise FileNotFoundError("no cache directory")


def _cache_bases() -> Iterator[str]:
    """Where it may be: as the environment has it, and for one who has another's environment as the system has it."""
    places = [os.environ.get("XDG_CACHE_HOME", ""), os.path.join(os.environ.get("HOME", ""), ".cache")]
    yield from filter(os.path.isabs, places)
    import pwd
    try:
        yield os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".cache")
    except KeyError:
        return
