"""What answers about programs and libraries depend on: files, those in which debug information is looked for, and what
leads to them. A compiled script is taken from the cache only while all of these are as they were.
"""

from __future__ import annotations

import os
from time import time_ns

from ..base.cache_dir import open_cached
from ..errors import MachineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    State = tuple[int, ...]
    Plain = tuple[dict[str, State | None], dict[str, State | None], dict[str, str | None]]

PATHS = ("PATH", "LD_LIBRARY_PATH")  # variables of the environment that say where programs and libraries are
SETTLED = 1_000_000_000  # ns: a file that was changed later than this ago might be changed again in the same instant


class ProgramStates:
    """The states of files and variables at the time of the first question about them."""

    def __init__(self) -> None:
        self._files: dict[str, State | None] = {}
        self._stored: dict[str, State | None] = {}
        self._variables: dict[str, str | None] = {}

    def note_name(self, name: str, paths: Iterable[str]) -> None:
        """``name`` is looked for at these paths."""
        self._note_files(paths)
        if "/" not in name:
            self._variables = {name: os.environ.get(name) for name in PATHS}

    def note_program(self, path: str) -> bool:
        """A question about an ELF file follows; False if what the answer depends on is not all known."""
        from ..kernel.foreign.files import open_elf
        self._note_files([path])
        if self._files[path] is None or path.startswith("/proc/"):
            return False
        try:
            file = open_elf(path)
            paths, stored = file.debug_sources()
        except MachineError:
            return False
        self._note_files(paths)
        for name in stored:
            self._stored.setdefault(name, _stored_state(name))
        return not (file.problem or file.debug_problem)

    def _note_files(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path not in self._files:
                self._files[path] = _file_state(path)

    def to_keep(self) -> Plain | None:
        """As plain data; None if something has changed meanwhile, or so lately that a further change may not show."""
        plain = self._files, self._stored, self._variables
        newest = time_ns() - SETTLED
        if not are_same(plain) or any(state is not None and state[-1] > newest for state in self._files.values()):
            return None
        return plain


def are_same(states: Plain) -> bool:
    """Whether everything is as it was."""
    files, stored, variables = states
    return all(os.environ.get(name) == value for name, value in variables.items()) \
        and all(_file_state(path) == state for path, state in files.items()) \
        and all(_stored_state(name) == state for name, state in stored.items())


def _file_state(path: str) -> State | None:
    """What distinguishes a file or folder, as it is now, from any other; None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _stored_state(name: str) -> State | None:
    """The same for what the store of symbols has, whose times say when it was last used."""
    descriptor = open_cached(name)
    if descriptor < 0:
        return None
    status = os.fstat(descriptor)
    os.close(descriptor)
    return status.st_ino, status.st_size
