"""A terminal's alternate screen, drawn as a whole: nothing scrolls, and the old contents are restored at the end."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Sequence

from ...base.end_request import Ending
from ..stream import NONE, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...runtime.signals import SignalHandler

_ENTER = b"\x1b[?1049h\x1b[?25l\x1b[2J"  # alternate screen, no cursor, empty (xterm's control sequences)
_LEAVE = b"\x1b[0m\x1b[?25h\x1b[?1049l"
_HOME, _BELOW, _REST_OF_LINE = "\x1b[H", "\x1b[J", "\x1b[K"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Screen:
    """Draws to ``descriptor``, a terminal. :meth:`open` before :meth:`draw_lines`; :meth:`close` at any time. A
    terminal that takes nothing (Ctrl-S) is waited for until the run was to end (``ending``).

    While it is open, Ctrl-Z gives the terminal back and ``fg`` takes it again (main thread only; elsewhere the shell's
    own screen stays hidden until the end).
    """

    def __init__(self, descriptor: int, ending: Ending | None = None) -> None:
        self.descriptor = descriptor
        self.is_open = False
        self._stream = Stream(descriptor, NONE, ending)
        self._write_all = self._stream.write
        self._old: dict[int, SignalHandler] = {}

    def open(self) -> None:
        """Take the terminal."""
        if self.is_open:
            return
        try:
            for number, handler in ((signal.SIGTSTP, self._on_stop), (signal.SIGCONT, self._on_continue)):
                self._old[number] = signal.signal(number, handler)
        except ValueError:  # not in the main thread
            pass
        self._write_all(_ENTER)
        self.is_open = True

    def close(self) -> None:
        """Give the terminal back as it was."""
        if not self.is_open:
            return
        self.is_open = False
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self._old.clear()
        self._write_all(_LEAVE)
        self._stream.close()

    @property
    def size(self) -> tuple[int, int]:
        """(columns, lines); what a terminal that does not know says is taken for 80 and 24."""
        try:
            size = os.get_terminal_size(self.descriptor)
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def draw_lines(self, lines: Sequence[str]) -> None:
        """Show ``lines`` from the top, cut to the width; what does not fit is counted in the last line."""
        columns, rows = self.size
        shown = list(lines[:rows])
        if len(lines) > rows:
            shown[-1] = f"... {len(lines) - rows + 1} more lines than fit: a larger window, or a pipe, has them all"
        text = "\r\n".join([fit_line(line, columns) + _REST_OF_LINE for line in shown])
        self._write_all((_HOME + text + _BELOW).encode("utf-8", "replace"))

    def _on_stop(self, number: int, _frame: object) -> None:
        self._write_all(_LEAVE)
        os.kill(os.getpid(), signal.SIGSTOP)

    def _on_continue(self, number: int, _frame: object) -> None:
        if self.is_open:
            self._write_all(_ENTER)


def fit_line(line: str, columns: int) -> str:
    """``line`` cut to a number of terminal columns; colours take no room, and end with the line."""
    line = line.expandtabs(8)
    if len(line) <= columns and line.isascii():
        return line if "\x1b" not in line else line + "\x1b[0m"
    pieces, used, at = [], 0, 0
    for match in [*COLOUR.finditer(line), None]:
        end = match.start() if match else len(line)
        text, width = _cut_text(line[at:end], columns - used)
        pieces.append(text)
        used += width
        if match is None or used >= columns and text != line[at:end]:
            break
        pieces.append(match[0])
        at = match.end()
    return "".join(pieces) + ("\x1b[0m" if "\x1b" in line else "")


def _cut_text(text: str, room: int) -> tuple[str, int]:
    """As much of ``text`` as fits, and how many columns that takes."""
    if text.isascii():
        return text[:room], min(len(text), room)
    width_of = _character_widths()
    used = 0
    for at, char in enumerate(text):
        width = width_of(char)
        if used + width > room:
            return text[:at], used
        used += width
    return text, used


def _character_widths() -> Callable[[str], int]:
    """The columns that a character takes: wide ones of East Asia two, marks on the one before them none."""
    from unicodedata import combining, east_asian_width

    def character_width(char: str) -> int:
        return 0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1
    return character_width
