"""Files that processes have mapped, by what the kernel reported of them then: other files may be at their paths now."""

from __future__ import annotations

import os
from itertools import islice

from ...base.memory_budget import Cache
from ...errors import MachineError
from ..names import symbol_store
from .files import ElfFile, ForeignFile, open_checked, open_elf, open_stored
from .opening import open_without_waiting, stamp_of_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

HELD = 64        # mapped files that have not been asked about, whose descriptors are kept
_MOST_MOUNTS = 64  # overlay file systems that are searched for a file
_MOST = 1 << 20  # bytes for a file that is not at its path any more, besides its contents

Key: TypeAlias = "tuple[str, str]"  # (path, build id); the path is "" of root's and the caller's own files

# Anybody can make a file that claims a build id. So one of another user stands for what was mapped from its own path
# only; root's, and the caller's, for what was mapped from anywhere.
_by_build_id: Cache[Key, ElfFile] = Cache(_MOST, ForeignFile.close)
_held: dict[Key, int] = {}  # descriptors, least recently mapped first


def open_mapped(path: str, build_id: str) -> ElfFile:
    """The file that was mapped from a path, when its build id was ``build_id`` (20 bytes as the kernel reports it; "":
    it does not): what is at the path, if that is still the same, else what was held open, or is in the store."""
    try:
        file = open_elf(path)
        if not build_id or file.build_id.hex().startswith(build_id):
            return file
        problem = MachineError(f"{path} has been replaced")
    except MachineError as error:
        if not build_id:
            raise
        problem = error
    for key in (path, build_id), ("", build_id):
        known = _by_build_id.get(key) or _open_held(key, path)
        if known is not None:
            return _keep_file(key, known)
    known = _open_stacked(path, build_id)
    if known is not None:
        return _keep_file((path, build_id), known)
    known = _open_symbols(build_id)
    if known is None:
        raise problem
    return _keep_file(("", build_id), known)


def _keep_file(key: Key, file: ElfFile) -> ElfFile:
    if _by_build_id.get(key) is not file:
        _by_build_id.put(key, file, file.kept_bytes)
    return file


def is_in_place(file: ElfFile, path: str) -> bool:
    """Whether a path still leads to the file as it was when first seen."""
    try:
        return stamp_of_path(path) == file.stamp
    except (OSError, ValueError):
        return False


def _open_held(key: Key, path: str) -> ElfFile | None:
    """The file that was held open, if it is the right one."""
    descriptor = _held.pop(key, -1)
    return open_checked(descriptor, key[1], lambda: ElfFile(path, descriptor))


def _open_stacked(path: str, build_id: str) -> ElfFile | None:
    """The file on one of our overlay file systems, where nothing is at the path itself: some kernels report its path in
    the layer that has it (6.16), which goes on from the mount point. A container's may claim any build id, so the
    store takes none of them."""
    if os.path.lexists(path):
        return None
    for there in [mount + path for mount in islice(_overlay_mounts(), _MOST_MOUNTS) if os.path.lexists(mount + path)]:
        try:
            file = open_elf(there)
        except MachineError:
            continue
        if file.build_id.hex().startswith(build_id):
            file.was_kept = True
            return file
    return None


def _overlay_mounts() -> Iterator[str]:
    """The mount points of overlay file systems (proc_pid_mountinfo(5))."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.partition(" - ") for line in file]
    except OSError:
        return
    for mount, _, system in rows:
        if system.startswith("overlay "):
            yield mount.split(" ")[4].replace("\\040", " ")


def _open_symbols(build_id: str) -> ElfFile | None:
    """What the store has for it."""
    whole = bytes.fromhex(build_id)
    return open_stored(symbol_store.open_symbols, whole, symbol_store.open_symbols(whole))


def hold_file(path: str, build_id: str) -> None:
    """Hold a file open that has just been mapped: it may be gone when it is asked about. Of several of root's with one
    build id one is held, in all the HELD most recently mapped; none that opening would have to wait for."""
    keys = ("", build_id), (path, build_id)
    if not build_id or any(key in _held or key in _by_build_id for key in keys):
        return
    try:
        descriptor = open_without_waiting(path)
    except MachineError:
        return
    _held[keys[0] if os.fstat(descriptor).st_uid in (0, os.geteuid()) else keys[1]] = descriptor
    if len(_held) > HELD:
        os.close(_held.pop(next(iter(_held))))


def release_held() -> None:
    """Close the held files that are not in use."""
    while _held:
        os.close(_held.popitem()[1])
