"""Which file a user means: a path, a glob, a command in $PATH, or a library as the loader would find it."""

from __future__ import annotations

import os

from ...base.wildcards import RUNNING
from ...errors import MachineError
from ..foreign import files
from ..foreign.opening import MEMBER
from ..notices import show_notice
from .process_files import identity, process_files
from .process_files import process_root as process_root

LOADER_CACHE = "/etc/ld.so.cache"


def find_binaries(name: str, pid: int = 0) -> list[str]:
    """Paths of ELF files for a path, a glob, a command, or a library (``c``, ``libc``, ``libc.so.6``).

    A relative path stays as it was written, since probes are named by it. With a process, names are resolved in its
    root directory and libraries are those it has mapped; ``*`` is all of them, "" the program that it runs.
    ``/proc/*/exe`` is what processes run: each file once. [] if nothing matches.
    """
    if not name or name == RUNNING:
        return _program_of(pid) if pid else running_programs() if name else []
    root = process_root(pid) if pid else ""
    pattern = any(c in name for c in "*?[")
    paths = _expand_glob(name, pid, root) if pattern else _find_named(name, pid, root)
    return _as_mapped(paths, pid, root, "/" in name and not pattern) if pid else paths


def _find_named(name: str, pid: int, root: str) -> list[str]:
    """The file of a path, a command or a library; of a process also one that is gone from its path."""
    if "/" in name:
        paths = [root + name, name] if name.startswith("/") else [name]  # a relative path is relative to the user
        gone = [file.path for file in process_files(pid) if file.name == os.path.realpath(name)] if pid else []
        return next(([path] for path in paths + gone if files.is_elf(path)), [])
    tries = [_find_command, _find_library] if not (name.startswith("lib") or ".so" in name) else [_find_library,
                                                                                                  _find_command]
    return next(([binary] for look in tries if (binary := look(name, pid, root))), [])


def paths_looked_at(name: str) -> list[str]:
    """The files and folders whose states decide what :func:`find_binaries` finds for a name, without a process; [] of a
    pattern, and of what processes run, which no such list can say."""
    if not name or name.startswith("/proc/") or MEMBER in name or any(c in name for c in "*?["):
        return []
    if "/" in name:
        return [name]
    return [*[f"{folder}/{name}" for folder in _path_directories("")], LOADER_CACHE,
            *_cached_libraries(ld_cache(), name), *_library_directories()]


def _program_of(pid: int) -> list[str]:
    """By its path; by way of the process where that no longer leads to it. [] of a process of the kernel's own."""
    link = f"/proc/{pid}/exe"
    try:
        paths = find_binaries(os.readlink(link), pid)
        return paths if paths and os.path.samefile(paths[0], link) else [link] if files.is_elf(link) else []
    except OSError:
        return []


def running_programs() -> list[str]:
    """The ELF files that processes run, each once: by its path, or by way of a process where that leads elsewhere."""
    programs: dict[tuple[int, int], str] = {}
    for entry in os.listdir("/proc"):
        link = f"/proc/{entry}/exe"
        key = identity(link) if entry.isdecimal() else None
        if key is None or key in programs:
            continue
        try:
            path = os.readlink(link)
        except OSError:  # the process has ended
            continue
        programs[key] = path if identity(path) == key else link
    return sorted([path for path in programs.values() if files.is_elf(path)])


def names_image(written: str, name: str) -> bool:
    """Whether ``written``, a path, a glob, a command or a library, can mean the mapped file ``name``."""
    from fnmatch import fnmatchcase
    if "/" in written:
        wanted = os.path.abspath(written)
        return fnmatchcase(name, wanted) if any(c in written for c in "*?[") else name in (wanted,
                                                                                           os.path.realpath(wanted))
    last = os.path.basename(name)
    return fnmatchcase(last, written) if any(c in written for c in "*?[") else last == written or _is_library(
        last, written)


def mapped_files(pid: int) -> list[str]:
    """Files that a process has mapped executable, by paths that open them from here, in order of address."""
    return [file.path for file in process_files(pid)]


def _as_mapped(paths: list[str], pid: int, root: str, named: bool) -> list[str]:
    """The paths, with the files that the process has mapped for those that have replaced them since. A notice says
    so, and which of those that were ``named`` by their paths it has not mapped at all."""
    mapped = process_files(pid)
    chosen: list[str] = []
    for path in paths:
        name = path.removeprefix(root) if root else os.path.realpath(path)
        own = next((file for file in mapped if file.path == path or file.replaced and file.name == name), None)
        if own is not None and own.path != path:
            _say_once(f"WARNING: {path} has been replaced since process {pid} mapped it: the file that it runs is "
                      f"probed, {own.path}")
        elif own is None and named and mapped and (known := identity(path)) is not None and \
                known not in [identity(file.path) for file in mapped]:
            _say_once(f"WARNING: process {pid} has not mapped {path}: probes in it are not hit unless it does")
        chosen.append(own.path if own is not None else path)
    return chosen


def _say_once(message: str) -> None:
    if message not in _shown:
        if len(_shown) >= _MOST_SHOWN:
            _shown.clear()
        _shown.add(message)
        show_notice(message)


_shown: set[str] = set()
_MOST_SHOWN = 256


def _expand_glob(pattern: str, pid: int, root: str) -> list[str]:
    from fnmatch import fnmatchcase
    from glob import glob

    if pid and "/" not in pattern:
        return [file.path for file in process_files(pid)
                if fnmatchcase(os.path.basename(file.name), pattern) and files.is_elf(file.path)]
    if "/" in pattern:
        rooted = root + pattern if pattern.startswith("/") else pattern
        return sorted([path for path in glob(rooted) if files.is_elf(path)])
    paths: dict[str, None] = {}
    for directory in _path_directories(root):
        for path in sorted(glob(f"{directory}/{pattern}")):
            if files.is_elf(path):
                paths[path] = None
    for soname, path in ld_cache(root).items():
        if fnmatchcase(soname, pattern) and files.is_elf(root + path):
            paths[root + path] = None
    return list(paths)


def _path_directories(root: str) -> list[str]:
    return [root + entry for entry in os.environ.get("PATH", os.defpath).split(":") if entry.startswith("/")]


def _find_command(name: str, pid: int, root: str) -> str | None:
    for directory in _path_directories(root):
        path = f"{directory}/{name}"
        if os.access(path, os.X_OK) and files.is_elf(path):
            return path
    return None


def _find_library(name: str, pid: int, root: str) -> str | None:
    if pid:
        for file in process_files(pid):
            if _is_library(os.path.basename(file.name), name) and files.is_elf(file.path):
                return file.path
    for path in _cached_libraries(ld_cache(root), name):
        if files.is_elf(root + path):
            return root + path
    for directory in _library_directories():
        for soname in _matching_sonames(_list_directory(root + directory), name):
            if files.is_elf(f"{root}{directory}/{soname}"):
                return f"{root}{directory}/{soname}"
    return None


def _cached_libraries(cache: dict[str, str], name: str) -> list[str]:
    return [cache[soname] for soname in _matching_sonames(list(cache), name)]


def _list_directory(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _is_library(soname: str, name: str) -> bool:
    """Whether ``name`` (c, libc, libc.so, libc.so.6) can mean the file or soname ``soname``."""
    if soname == name or soname.startswith(name + "."):
        return ".so" in soname
    stem = name if name.startswith("lib") else "lib" + name
    rest = soname.removeprefix(stem)
    # libc.so.6, and the libc-2.31.so of older distributions
    return rest != soname and (rest.startswith(".so") or (rest[:1] == "-" and rest[1:2].isdigit() and ".so" in rest))


def _matching_sonames(sonames: list[str], name: str) -> list[str]:
    """The matching sonames: an exact match first, then unversioned ones, then the highest version."""
    matching = [soname for soname in sonames if _is_library(soname, name)]

    def soname_rank(soname: str) -> tuple[bool, bool, list[int], str]:
        version = [-int(part) for part in soname.rpartition(".so")[2].split(".") if part.isdecimal() and len(part) < 10]
        return soname != name, "-" in soname, version, soname

    return sorted(matching, key=soname_rank)


def _library_directories() -> list[str]:
    own = [entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":") if entry.startswith("/")]
    triplet = f"{os.uname().machine}-linux-gnu"
    usual = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"]
    return [*own, f"/lib/{triplet}", f"/usr/lib/{triplet}", *usual]


_ld_caches: dict[str, dict[str, str]] = {}


def ld_cache(root: str = "") -> dict[str, str]:
    """soname → path from /etc/ld.so.cache below ``root``; {} where there is none (musl)."""
    known = _ld_caches.get(root)
    if known is None:
        try:
            known = _ld_caches[root] = files.read_ld_cache(root + LOADER_CACHE, os.uname().machine)
        except MachineError:
            known = _ld_caches[root] = {}
    return known
