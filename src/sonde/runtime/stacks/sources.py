"""The source files of Python frames, as the processes see them that run them."""

from __future__ import annotations

import os
from sys import getsizeof

from ...base.memory_budget import Cache
from ...errors import MachineError
from ...kernel.foreign import source_files
from ...kernel.foreign.opening import Stamp
from ...kernel.foreign.source_files import ProcessView
from ..records.source_text import SourceText

MOST_PROCESSES = 1024  # that are remembered after their end
_FILE = 200  # bytes that a file takes beside its lines


class Sources:
    """Reads each file once, in ``memory`` bytes."""

    def __init__(self, memory: int) -> None:
        self._views: dict[int, ProcessView] = {}  # oldest first
        self._texts: Cache[Stamp, list[str]] = Cache(memory)

    def remember_process(self, pid: int) -> None:
        """Look at a process while it exists: if it shares our root, its files can be read after its end."""
        try:
            self._view_process(pid)
        except MachineError:
            pass  # the first file that is wanted of it says so

    def read_source(self, pid: int, path: str) -> SourceText:
        """The file that the process calls by this name."""
        if path.startswith("<"):
            return SourceText([], False, "no file")
        try:
            view = self._view_process(pid)
            file = source_files.open_source(view, path)
        except MachineError as problem:
            return SourceText([], False, problem.message)
        try:
            lines = self._texts.get(file.stamp)
            if lines is None:
                lines = source_files.read_lines(file, path)
                self._texts.put(file.stamp, lines, _FILE + sum(map(getsizeof, lines)))
        except MachineError as problem:
            return SourceText([], False, problem.message)
        finally:
            os.close(file.descriptor)
        return SourceText(lines, file.modified > view.began)

    def _view_process(self, pid: int) -> ProcessView:
        """As it is now, or was when it was last looked at; MachineError if it never was, and is gone."""
        try:
            view = source_files.view_of_process(pid)
        except MachineError:
            if pid not in self._views:
                raise
            return self._views[pid]
        self._views.pop(pid, None)
        self._views[pid] = view
        if len(self._views) > MOST_PROCESSES:
            del self._views[next(iter(self._views))]
        return view
