"""Where the Python interpreters of this machine keep their threads: from the files that processes have mapped."""

from __future__ import annotations

from .. import cpython
from ..errors import EnvironmentProblem
from .foreign import files
from .user_symbols import Mapping

_NAMES = ("python", "libpython")  # how the names of files that may hold CPython begin: libpython3.12.so.1.0


def may_hold_python(name: str) -> bool:
    """Whether a mapped file's name is one that CPython's files have."""
    return name.rpartition("/")[2].startswith(_NAMES)


def find_image(pid: int, mapping: Mapping) -> bytes | None:
    """What programs have to know of the interpreter in a mapped file (:mod:`sonde.cpython`); None if there is none.

    EnvironmentProblem if there is one that is not known, or the file cannot be read.
    """
    file = _open_mapped(pid, mapping)
    found = file.find_interpreter()
    base = file.offset_to_address(mapping.offset)
    if found is None or base is None:
        return None
    version, runtime, code_type, debug = found
    bias = mapping.start - base
    return cpython.pack_image(cpython.find_offsets(version, debug), runtime + bias, code_type + bias)


def _open_mapped(pid: int, mapping: Mapping) -> files.ElfFile:
    try:
        return files.open_elf(mapping.path)
    except EnvironmentProblem:  # no path leads there from here: from another root, say
        return files.open_elf(f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}")


def read_image_key(pid: int) -> bytes:
    """What tells the program that a process runs from all others (see :mod:`sonde.cpython`); OSError if it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return cpython.IMAGE_KEY.pack(*[int(field) for field in fields[23:26]])
