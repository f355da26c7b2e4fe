"""The files that a process has mapped, which need not be those that are at their paths now: an upgrade replaces a file,
and what runs goes on with the old one (proc_map_files_get_link() in fs/proc/base.c leads to it)."""

from __future__ import annotations

import os

from ...base.record import Record

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


class MappedPaths:
    """Paths of the files that a process has mapped, from what /proc/PID/maps calls them: that is as seen from the
    reader's root (d_path() in fs/d_path.c), which says nothing of a process in a chroot or in another mount namespace.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.root = process_root(pid)
        self._inside = _path_of_root(pid) if self.root else ""

    def own_name(self, name: str) -> str:
        """What the process itself calls the file."""
        return name[len(self._inside):] if self._inside and name.startswith(self._inside + "/") else name

    def link_of(self, start: int, end: int) -> str:
        """The file that is mapped at these addresses, as long as the process lives."""
        return f"/proc/{self._pid}/map_files/{start:x}-{end:x}"

    def path_of(self, name: str, start: int, end: int) -> str:
        """By which the file that is mapped at these addresses can be opened: as the process sees it if that is it,
        else by way of the mapping. A file that is gone has no other."""
        link = self.link_of(start, end)
        if name.endswith(DELETED):
            return link
        path = self.root + self.own_name(name)
        mapped = identity(link) if self.root else None  # None: it takes privileges to look: the path must do
        return path if mapped is None or identity(path) == mapped else link


def _path_of_root(pid: int) -> str:
    """What maps puts before the paths of a process: where its root is; "" for ours."""
    try:
        return os.readlink(f"/proc/{pid}/root").rstrip("/")
    except OSError:
        return ""


def mapped_range(text: str) -> tuple[int, int]:
    """The addresses of a line of maps, which pads them to eight digits."""
    start, _, end = text.partition("-")
    return int(start, 16), int(end, 16)


def process_files(pid: int) -> list[MappedFile]:
    """Files that a process has mapped executable, each once, in order of address; [] if they cannot be seen."""
    paths = MappedPaths(pid)
    files: dict[str, MappedFile] = {}
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                parts = line.rstrip("\n").split(None, 5)
                if len(parts) == 6 and "x" in parts[1] and parts[5].startswith("/") and parts[5] not in files:
                    link = paths.link_of(*mapped_range(parts[0]))
                    files[parts[5]] = _find_mapped(paths.root, paths.own_name(parts[5]), link)
    except OSError:
        return []
    return list(files.values())


def _find_mapped(root: str, name: str, link: str) -> MappedFile:
    path = root + name.removesuffix(DELETED)
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
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
