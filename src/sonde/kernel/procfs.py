"""What /proc, /etc/passwd and cgroupfs know about processes, users and control groups."""

from __future__ import annotations

import os
import stat

from ..base.fast_stdlib import cache
from ..base.memory_budget import Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


_users: dict[int, str] | None = None


def user_name(uid: int) -> str:
    """Name of a user in /etc/passwd; the number as text if there is none."""
    global _users
    if _users is None:
        _users = {}
        try:
            with open("/etc/passwd", encoding="utf-8", errors="replace") as file:
                for line in file:
                    parts = line.split(":")
                    if len(parts) > 2 and parts[2].isdigit():
                        _users.setdefault(int(parts[2]), parts[0])
        except OSError:
            pass
    return _users.get(uid, str(uid))


# ---- control groups: the id of one is the inode number of its directory (kernfs, since Linux 5.5 on 64 bits)

def _mount_points(kind: str) -> list[str]:
    """Mount points of a file system type, in order of mounting."""
    points = []
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                parts = line.split()
                if len(parts) > 2 and parts[2] == kind:
                    points.append(parts[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
    except OSError:
        pass
    return points


@cache
def cgroup2_mount_point() -> str | None:
    """Where the cgroup v2 hierarchy is mounted; None if it is not."""
    mounts = _mount_points("cgroup2")
    return mounts[0] if mounts else None


def available_memory() -> int:
    """Memory available to this process in bytes: the machine's, or the lowest limit of its control groups (v2)."""
    least = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    mount, group = cgroup2_mount_point(), _own_cgroup2()
    while mount and group.strip("/"):
        limit = _read_line(f"{mount}{group}/memory.max")
        least = min(least, int(limit)) if limit.isdigit() else least
        group = os.path.dirname(group)
    return least


def _own_cgroup2() -> str:
    """The path of this process's group in the hierarchy; "" if it is in none."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            return next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), "")
    except OSError:
        return ""


def _read_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().rstrip("\n")
    except OSError:
        return ""


def cgroup_id(path: str) -> int | None:
    """Id of a cgroup directory, given as a path in the file system or within the hierarchy (``/system.slice``). Version
    2 only: inode numbers of other folders mean nothing to programs."""
    mount = cgroup2_mount_point()
    if not mount:
        return None
    for candidate in [path] if path.startswith(mount) else [f"{mount}/{path.strip('/')}", path]:
        try:
            status = os.stat(candidate)
            if stat.S_ISDIR(status.st_mode) and status.st_dev == os.stat(mount).st_dev:
                return status.st_ino
        except (OSError, ValueError):
            continue
    return None


_MOST_CGROUPS = 4 << 20  # bytes of what is remembered of them
_CGROUP = 400            # of one, besides its path


class Cgroups:
    """Paths of cgroups by id; looks again when asked for an id that it has not seen.

    Ids come from the v2 hierarchy, and so do the paths: an equal inode number under v1 means nothing.
    """

    def __init__(self) -> None:
        self._known: Cache[int, list[tuple[str, str]]] = Cache(_MOST_CGROUPS)

    def cgroup_paths(self, number: int, pattern: str = "*") -> list[tuple[str, str]]:
        """(hierarchy, path) of a cgroup id, where ``pattern`` matches the hierarchy (always ``unified``).

        There is none for a cgroup that is gone, or was never visible from here.
        """
        paths = self._known.get(number)
        if paths is None:
            paths = self._scan_hierarchy(number)
            self._known.put(number, paths, _CGROUP)
        if pattern in ("", "*"):
            return paths
        from fnmatch import fnmatchcase

        return [pair for pair in paths if fnmatchcase(pair[0], pattern)]

    def learn(self, number: int, path: str) -> None:
        """Note that a cgroup was made, with this path."""
        self._known.put(number, [("unified", path)], _CGROUP + 2 * len(path))

    def all_ids(self) -> list[int]:
        """The ids of all cgroups visible now."""
        ids = []
        for number, path in _walk_hierarchy():
            self.learn(number, path)
            ids.append(number)
        return ids

    def _scan_hierarchy(self, wanted: int) -> list[tuple[str, str]]:
        """Scan all of them; the paths of the requested one."""
        paths = list[tuple[str, str]]()
        for number, path in _walk_hierarchy():
            self.learn(number, path)
            paths = [("unified", path)] if number == wanted else paths
        return paths


def _walk_hierarchy() -> Iterator[tuple[int, str]]:
    """(id, path) of every visible cgroup (v2)."""
    mount = cgroup2_mount_point()
    for directory, _, _ in os.walk(mount) if mount is not None else ():
        try:
            yield os.stat(directory).st_ino, directory[len(mount or ""):] or "/"
        except OSError:
            continue
