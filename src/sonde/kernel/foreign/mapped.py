"""Files that processes have mapped, by what the kernel told of them then: others may be at their paths now."""

from __future__ import annotations

import os

from ...errors import EnvironmentProblem
from ...memory import Cache
from .. import symbol_store
from .files import ElfFile, ForeignFile, open_checked, open_elf, open_stored
from .opening import open_without_waiting, stamp_of_path

HELD = 64        # files that were mapped and have not been asked about, whose descriptors are kept
_MOST = 1 << 20  # bytes of what is known of files that are not at their paths, beside their contents

_by_build_id: Cache[str, ElfFile] = Cache(_MOST, ForeignFile.close)
_held: dict[str, int] = {}  # descriptors by build id, the one that was mapped longest ago first


def open_mapped(path: str, build_id: str) -> ElfFile:
    """The file that was mapped from a path, when its build id was ``build_id`` (as far as the kernel tells: 20 bytes;
    "": it does not): what is at the path, if that is still the same, else what was held of it, or is in the store."""
    try:
        found = open_elf(path)
        if not build_id or found.build_id.hex().startswith(build_id):
            return found
        problem = EnvironmentProblem(f"{path} has been replaced")
    except EnvironmentProblem as error:
        if not build_id:
            raise
        problem = error
    known = _by_build_id.get(build_id)
    if known is not None:
        return known
    known = _open_held(path, build_id) or _open_symbols(build_id)
    if known is None:
        raise problem
    _by_build_id.put(build_id, known, known.kept_bytes)
    return known


def is_in_place(file: ElfFile, path: str) -> bool:
    """Whether a path leads to the file, as it was when it was first seen."""
    try:
        return stamp_of_path(path) == file.stamp
    except (OSError, ValueError):
        return False


def _open_held(path: str, build_id: str) -> ElfFile | None:
    """The file that was held open, if it is indeed the one."""
    descriptor = _held.pop(build_id, -1)
    return open_checked(descriptor, build_id, lambda: ElfFile(path, descriptor))


def _open_symbols(build_id: str) -> ElfFile | None:
    """What the store has of it."""
    whole = bytes.fromhex(build_id)
    return open_stored(symbol_store.open_symbols, whole, symbol_store.open_symbols(whole))


def hold_file(path: str, build_id: str) -> None:
    """Hold a file open that has just been mapped: it may be gone when it is asked about. Of several with one build id
    one is held, of all the HELD that were mapped last; none for which somebody would have to be waited for."""
    if not build_id or build_id in _held or build_id in _by_build_id:
        return
    try:
        _held[build_id] = open_without_waiting(path)
    except EnvironmentProblem:
        return
    if len(_held) > HELD:
        os.close(_held.pop(next(iter(_held))))


def release_held() -> None:
    """Let go of files that nobody has asked about."""
    while _held:
        os.close(_held.popitem()[1])
