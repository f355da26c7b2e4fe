"""Which file a program takes a function from: the first of the libraries that it needs, and that these need, in the
loader's order (ld.so(8)). What LD_PRELOAD or dlopen() add is not looked at."""

from __future__ import annotations

import os

from ...errors import MachineError
from ..foreign import files
from .binaries import find_binaries, ld_cache

MOST_LIBRARIES = 256
_USUAL = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


def find_import(path: str, name: str, pid: int = 0) -> tuple[str, list[int]] | None:
    """(path, offsets) of the function ``name`` that the program ``path`` takes from a library, of those that a process
    has mapped. Several offsets are implementations, of which a process uses one. None where it is not known."""
    for library in _libraries_of(path, pid):
        try:
            file = files.open_elf(library)
            if any(each == name for each, _ in file.indirect_functions()):
                from .indirect import find_implementations
                offsets = {at for each in find_implementations(library, [name], pid).values() for at in each.offsets}
            else:
                offsets = {function.offset for function in file.functions() if function.name == name}
        except MachineError:
            return None
        if offsets:
            return library, sorted(offsets)
    return None


def _libraries_of(path: str, pid: int) -> list[str]:
    """Paths of the libraries, breadth first."""
    waiting, libraries, known = [path], [], {path}
    for program in waiting:  # which grows
        try:
            sonames, folders = files.open_elf(program).needed()
        except MachineError:
            continue
        for soname in sonames:
            library = next(iter(find_binaries(soname, pid)), "") if pid else _find_library(soname, folders)
            if library and library not in known and len(known) < MOST_LIBRARIES:
                known.add(library)
                libraries.append(library)
                waiting.append(library)
    return libraries


def _find_library(soname: str, folders: list[str]) -> str:
    """The path of a library; "" if it is not found."""
    if "/" in soname:
        return soname
    own = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    paths = [f"{folder}/{soname}" for folder in [*folders, *own]]
    cached = ld_cache().get(soname)
    paths += [*([cached] if cached else []), *[f"{folder}/{soname}" for folder in _USUAL]]
    return next((path for path in paths if files.is_elf(path)), "")
