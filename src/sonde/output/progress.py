"""A bar for work that takes a while: on standard error, only if that is a terminal, and removed before other
messages."""

from __future__ import annotations

import os
import time

from ..base.fast_stdlib import TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Item = TypeVar("Item")

_PATIENCE = 0.5  # s: work that is done sooner shows no bar
_PAUSE = 0.1     # s between two pictures
_STEP = 1 << 12  # items between two looks at the clock
_CLEAR = b"\r\x1b[K"


class Progress:
    """One piece of work at a time: :meth:`show_progress` as it goes on, :meth:`clear_bar` before other output."""

    def __init__(self, descriptor: int = 2) -> None:
        self.descriptor = descriptor
        self._work = ""
        self._next = 0.0
        self._visible = False

    def show_progress(self, work: str, done: float, whole: float, unit: str = "", now: bool = False) -> None:
        """So much of the whole is done; ``now`` shows it without waiting whether it will take long."""
        moment = time.monotonic()
        if work != self._work:
            self._work, self._next = work, moment + (0.0 if now else _PATIENCE)
        if moment < self._next:
            return
        self._next = moment + _PAUSE
        os.write(self.descriptor, _CLEAR + progress_line(work, done, whole, unit, self._terminal_columns()).encode())
        self._visible = True

    def track_items(self, items: Sequence[Item], work: str, unit: str, step: int = _STEP) -> Iterator[Item]:
        """The items one by one, with a bar if they take long, looked at every ``step`` items."""
        whole = len(items)
        for at in range(0, whole, step):
            self.show_progress(work, at, whole, unit)
            yield from items[at:at + step]
        self.clear_bar()

    def clear_bar(self) -> None:
        """Remove the bar; the next work starts a new one."""
        self._work = ""
        if self._visible:
            self._visible = False
            os.write(self.descriptor, _CLEAR)

    def _terminal_columns(self) -> int:
        try:
            return os.get_terminal_size(self.descriptor).columns or 80
        except OSError:
            return 80


def progress_line(work: str, done: float, whole: float, unit: str, columns: int) -> str:
    """``work  [######      ]  5 of 10 s``, cut to fewer columns than the terminal has, so that it does not wrap."""
    done = min(done, whole)
    text = f"{int(done):,} of {whole:,.10g}{' ' if unit else ''}{unit}"
    room = max(0, min(40, columns - len(work) - len(text) - 8))
    filled = round(room * done / whole) if whole else room
    bar = f"[{'#' * filled}{' ' * (room - filled)}]  " if room >= 4 else ""
    return f"{work}  {bar}{text}"[:max(1, columns - 1)]


def make_progress(quiet: bool = False) -> Progress | None:
    """A progress bar if standard error is a terminal and -q is not given; else None."""
    if quiet or os.environ.get("TERM", "dumb") == "dumb" or not os.isatty(2):
        return None
    return Progress()


def track_progress(bar: Progress | None, items: Sequence[Item], work: str, unit: str,
                   step: int = _STEP) -> Iterable[Item]:
    """The items, with a bar if there is one."""
    return bar.track_items(items, work, unit, step) if bar is not None else items
