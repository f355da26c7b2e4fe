"""The files that a process has mapped, which need not be those that are at their paths now: an upgrade replaces a file,
and what runs goes on with the old one (proc_map_files_get_link() in fs/proc/base.c leads to it)."""

from __future__ import annotations

import os

from ..record import Record

DELETED = " (deleted)"


class MappedFile(Record):
    """``name`` is the path by which the process knows it; ``path`` opens the file that is mapped from here. It is
    ``replaced`` if another file, or none, is at its own path now."""

    name: str
    path: str
    replaced: bool = False


def process_root(pid: int) -> str:
    """Prefix under which a process's files are seen from here: "" if it shares this root and mount namespace."""
    try:
        if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
            if os.path.samefile(f"/proc/{pid}/root", "/proc/self/root"):
                return ""
    except OSError:
        return ""
    return f"/proc/{pid}/root"


def process_files(pid: int) -> list[MappedFile]:
    """Files that a process has mapped executable, each once, in order of address; [] if they cannot be seen."""
    root = process_root(pid)
    found: dict[str, MappedFile] = {}
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                parts = line.rstrip("\n").split(None, 5)
                if len(parts) == 6 and "x" in parts[1] and parts[5].startswith("/") and parts[5] not in found:
                    start, _, end = parts[0].partition("-")
                    found[parts[5]] = _find_mapped(pid, root, parts[5], f"{int(start, 16):x}-{int(end, 16):x}")
    except OSError:
        return []
    return list(found.values())


def _find_mapped(pid: int, root: str, name: str, extent: str) -> MappedFile:
    link, path = f"/proc/{pid}/map_files/{extent}", root + name.removesuffix(DELETED)
    mapped, present = identity(link), identity(path)
    if mapped is None:  # it takes privileges to look: the path must do
        return MappedFile(name.removesuffix(DELETED), path)
    # A name may end like that by itself; a file without a name (memfd, SysV) is no program that was replaced.
    replaced = mapped != present and mapped != identity(root + name)
    return MappedFile(name.removesuffix(DELETED), link, True) if replaced else \
        MappedFile(name.removesuffix(DELETED), path if mapped == present else root + name)


def identity(path: str) -> tuple[int, int] | None:
    """Device and inode of the file that a path leads to; None if it leads to none that can be seen."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
