"""Where the Python interpreters of this machine keep their threads: from the files that processes have mapped."""

from __future__ import annotations

import os
from glob import escape as glob_escape
from glob import glob

from ...errors import MachineError
from ...layouts import cpython
from ..foreign import files
from ..foreign.opening import Stamp
from .user_symbols import Mapping

_NAMES = ("python", "libpython")  # how the names of files that may contain CPython begin: libpython3.12.so.1.0


def may_hold_python(name: str) -> bool:
    """Whether a mapped file may be CPython's, by its name."""
    return name.rpartition("/")[2].startswith(_NAMES)


_OTHERS = {"libpypy": "PyPy", "pypy": "PyPy", "graalpy": "GraalPy", "libpythonvm": "GraalPy"}


def other_implementation(name: str) -> str:
    """The implementation of Python whose file this is, if it is another than CPython; else ""."""
    last = name.rpartition("/")[2]
    return next((_OTHERS[start] for start in _OTHERS if last.startswith(start)), "")


class Interpreters:
    """The interpreters in files, each read once."""

    def __init__(self) -> None:
        self._known: dict[Stamp, tuple[dict[str, int], int, int] | None] = {}

    def find_image(self, pid: int, mapping: Mapping) -> bytes | None:
        """What programs need to know about the interpreter in a mapped file (:mod:`sonde.layouts.cpython`); None if
        there is none.

        MachineError if its version is not supported, or the file cannot be read.
        """
        file = _open_mapped(pid, mapping)
        interpreter, base = self._find_interpreter(file), file.offset_to_address(mapping.offset)
        if interpreter is None or base is None:
            return None
        offsets, runtime, code_type = interpreter
        bias = mapping.start - base
        return cpython.pack_image(offsets, runtime + bias, code_type + bias)

    def read_installed(self) -> None:
        """Read those that a command name resolves to: their processes are then known as soon as they start."""
        for folder in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
            for path in glob(f"{glob_escape(folder)}/python3*") + glob(f"{glob_escape(folder)}/../lib/libpython3*.so*"):
                try:
                    self._find_interpreter(files.open_elf(os.path.realpath(path)))
                except MachineError:
                    continue  # reported when a process runs it

    def _find_interpreter(self, file: files.ElfFile) -> tuple[dict[str, int], int, int] | None:
        if file.stamp not in self._known:
            interpreter = file.find_interpreter()
            if interpreter is None:
                self._known[file.stamp] = None
            else:
                version, runtime, code_type, debug = interpreter
                self._known[file.stamp] = cpython.find_offsets(version, debug), runtime, code_type
        return self._known[file.stamp]


def find_release(pid: int, mapping: Mapping) -> tuple[int, int]:
    """Major and minor version of the interpreter in a mapped file; (0, 0) if there is none. MachineError."""
    interpreter = _open_mapped(pid, mapping).find_interpreter()
    return (interpreter[0] >> 24, interpreter[0] >> 16 & 0xFF) if interpreter is not None else (0, 0)


def _open_mapped(pid: int, mapping: Mapping) -> files.ElfFile:
    try:
        return files.open_elf(mapping.path)
    except MachineError:  # no path leads there from here: it is in another root, say
        return files.open_elf(f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}")


def read_image_key(pid: int) -> bytes:
    """What distinguishes the program that a process runs from all others (see :mod:`sonde.layouts.cpython`); OSError if
    it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return cpython.IMAGE_KEY.pack(*[int(field) for field in fields[23:26]])
