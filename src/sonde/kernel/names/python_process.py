"""The Python interpreter of one process, as far as programs can follow it; else why not, in words."""

from __future__ import annotations

from ...errors import MachineError, UsageError
from ...layouts import cpython
from ..foreign.process_memory import read_words
from . import pythons
from .user_symbols import Mapping, read_maps

# Beginnings of the names of files.
_GLIBC, _MUSL = ("libc.so.6", "libc-2"), ("ld-musl", "libc.musl")
_C_LIBRARIES = (*_GLIBC, *_MUSL)


class PythonProcess:
    """The words of an interpreter's image (:mod:`sonde.layouts.cpython`), and the path of its C library. UsageError if
    the process runs no Python that can be followed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        image, self.c_library, self.has_glibc = b"", "", False
        self._mapping: Mapping | None = None
        interpreters = pythons.Interpreters()
        mappings = read_maps(pid)
        for mapping in mappings:
            name = mapping.name.rpartition("/")[2]
            if name.startswith(_C_LIBRARIES):
                self.c_library, self.has_glibc = mapping.path, not name.startswith(_MUSL)
            if other := pythons.other_implementation(mapping.name):
                raise UsageError(f"process {pid} runs {other}, which keeps its threads and frames in ways of its own",
                                 ["CPython 3.11 to 3.14 is followed"])
            if mapping.path and pythons.may_hold_python(mapping.name) and not image:
                try:
                    image = interpreters.find_image(pid, mapping) or b""
                    self._mapping = mapping
                except MachineError as problem:
                    raise UsageError(f"Python of process {pid} ({mapping.name}): {problem.message}") from None
        if not image:
            reason = "maps no file of CPython's (python..., libpython...)" if mappings else \
                "shows none of its files: it is gone, the kernel's, or another user's"
            raise UsageError(f"process {pid} {reason}")
        self.words = {name: int.from_bytes(image[at:at + 8], "little") for name, at in cpython.OFFSET.items()}

    def find_release(self) -> tuple[int, int]:
        """Its major and minor version. MachineError."""
        return pythons.find_release(self.pid, self._mapping) if self._mapping is not None else (0, 0)

    def find_lock(self) -> int:
        """The address of the GIL of its first interpreter; MachineError if it cannot be read."""
        if self.words["runtime_gil"]:
            return self.words["runtime_gil"]
        interpreter = read_words(self.pid, [self.words["interpreters"]])[0]
        lock = read_words(self.pid, [interpreter + self.words["gil"]])[0] if interpreter else 0
        if not lock:
            raise MachineError(f"the interpreter of process {self.pid} cannot be read",
                               ["it is just starting, or ending"])
        return lock
