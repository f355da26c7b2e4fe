"""Saying that a traced program has tasks which pytask does not see: those of other libraries than asyncio."""

from __future__ import annotations

import time

from ...errors import SondeError
from ...kernel.notices import show_notice

FIRST, LAST = 1.0, 64.0  # s after the begin: when a program is looked at, twice as late each time


class LibraryWatch:
    """Looks at what a traced process has loaded, until that is known. A program that ends before the first look is not
    judged."""

    def __init__(self, pid: int, runs: bool) -> None:
        self._pid, self._wait = pid, FIRST
        self._next = time.monotonic() + (0.0 if runs else FIRST)

    def look_again(self) -> None:
        """Look, if it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        libraries = self._find()
        self._next = now + self._wait if not libraries and self._wait <= LAST else float("inf")
        self._wait *= 2
        for name in libraries:
            if name != "asyncio":
                show_notice(f"WARNING: process {self._pid} has loaded {name}: pytask and pytask_id are for tasks of "
                            f"asyncio\'s, and do not see {self._what(name)}")

    def _what(self, name: str) -> str:
        from ...kernel.names.python_tasks import UNREAD
        return UNREAD.get(name) or f"{name}\'s tasks, which sonde pytasks -p {self._pid} shows"

    def _find(self) -> list[str]:
        from ...kernel.names.python_tasks import find_libraries
        try:
            return find_libraries(self._pid)
        except SondeError:
            return []  # no Python, or not yet, or no longer
