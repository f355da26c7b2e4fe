"""Blocks that a script prints at intervals, each drawn over the one before it: ``sonde tcptop`` on a terminal.

What an interval's clause prints in one firing is a block. The screen shows the last block of every interval probe, and
below it the last lines of anything else. When the script ends, the terminal's old contents are restored, and below them
what was on the screen, so that it can be scrolled to and copied.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable

from ...base.end_request import Ending
from ...spec import ScriptSpec
from ..stream import Stream
from ..text import TextOutput, encode_text
from .screen import Screen

_MOST_LINES = 1000  # of what is printed outside of blocks
_LARGE = 1 << 16    # characters that are held before there is a picture
_LONGEST = 1 << 20  # characters of a block, or of what is kept of a text
_LEAST_PAUSE = 0.05  # s between two pictures

Picture = Callable[[int, int], list[str]]  # (columns, lines of room) -> lines


class TextCollector(Stream):
    """A stream whose bytes stay here until they are taken; ``direct`` lets them through."""

    def __init__(self, descriptor: int, ending: Ending | None = None) -> None:
        super().__init__(descriptor, ending=ending)
        self.direct = False

    def flush(self, end: bool = False) -> None:
        if self.direct:
            super().flush(end)

    def take_text(self) -> str:
        """What has come since the last call."""
        text = b"".join(self._pieces).decode("utf-8", "surrogateescape")
        self._pieces.clear()
        return text

    def write_through(self, text: str) -> None:
        """Write a text that was taken."""
        if text:
            self._write_now(encode_text(text))


class PrintedBlock:
    """What one firing prints, up to a number of characters; those beyond are counted."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[str] = []
        self._left_out = 0

    def add_text(self, text: str) -> None:
        """More of it."""
        if self._left_out or self.size + len(text) > _LONGEST:
            end = 0 if self._left_out else text.rfind("\n", 0, _LONGEST - self.size) + 1
            self._left_out += len(text) - end
            text = text[:end]
        self.size += len(text)
        self._pieces.append(text)

    def __str__(self) -> str:
        more = f"... {self._left_out} more characters, for which there is no room\n" if self._left_out else ""
        return "".join(self._pieces) + more


class Tail:
    """The last pieces of a text: a bounded number of them, of _LONGEST characters together."""

    def __init__(self, most: int) -> None:
        self.pieces: deque[str] = deque()
        self._most, self.size = most, 0

    def add_pieces(self, pieces: Iterable[str]) -> None:
        """More of it; the oldest make room."""
        for piece in pieces:
            self.pieces.append(piece[-_LONGEST:])
            self.size += len(self.pieces[-1])
            while self.size > _LONGEST or len(self.pieces) > self._most:
                self.size -= len(self.pieces.popleft())

    def clear(self) -> None:
        """Nothing is left."""
        self.pieces.clear()
        self.size = 0

    def __str__(self) -> str:
        return "".join(self.pieces)


class Counter:
    """Tells the firings of interval probes apart by the kernel's time of their records.

    All that one firing prints has times within a moment; the next firing comes a period later. Half of a period lies
    between.
    """

    def __init__(self, spec: ScriptSpec) -> None:
        self.periods = {point.name: point.period for program in spec.programs for point in program.attach
                        if point.kind == "interval"}
        self.blocks = 0    # so many have begun
        self.begun = 0     # boot-clock nanoseconds of the last one's first record
        self._starts: dict[str, int] = {}

    def is_new(self, probe: str, time: int) -> bool:
        """Whether a record of an interval ``probe`` begins a block."""
        if time - self._starts.get(probe, -1 << 62) <= self.periods[probe] // 2:
            return False
        self._starts[probe] = time
        self.blocks += 1
        self.begun = time
        return True


class Blocks(TextOutput):
    """Text output that keeps blocks in place. The run loop calls :meth:`switch_probe` before each record is
    printed, and :meth:`draw_if_changed` when it has a moment. A ``picture`` stands in the place of the blocks."""

    def __init__(self, spec: ScriptSpec, title: str, quiet: bool = False, descriptor: int = 1,
                 picture: Picture | None = None, ending: Ending | None = None) -> None:
        self._screen = Screen(1, ending)
        self._picture = picture
        self._out, self._err = TextCollector(descriptor, ending), TextCollector(2, ending)
        super().__init__(self._out, self._err, quiet)
        self._title = title
        self._sections: dict[str, PrintedBlock] = {}  # the last block, by interval probe
        self._lead = PrintedBlock()
        self._tail = Tail(_MOST_LINES)
        self._where = ""  # the probe that prints now; "" before the first record
        self._counter = Counter(spec)
        self._losses = ""
        self._drawn: list[str] = []
        self._next = 0.0

    @property
    def counter(self) -> Counter:
        """Of the blocks."""
        return self._counter

    def switch_probe(self, probe: str, time: int) -> None:
        """What is printed from here on comes from ``probe``, at ``time`` on the boot clock."""
        self._collect_text()
        self._where = probe
        if probe in self._counter.periods and self._counter.is_new(probe, time):
            self._sections[probe] = PrintedBlock()

    def _collect_text(self) -> None:
        text = self._out.take_text()
        notes = self._err.take_text()
        if text and self._is_scrolling() and self._lead.size + self._tail.size + len(text) > _LARGE:
            self._write_held()
            self._out.write_through(text)
        elif text and self._where in self._sections:
            self._sections[self._where].add_text(text)
        elif text and self._where in ("", "begin"):
            self._lead.add_text(text)
        elif text:
            self._tail.add_pieces(text.splitlines(keepends=True))
        if notes and self._screen.is_open:
            self._tail.add_pieces(notes.splitlines(keepends=True))
        else:
            self._err.write_through(notes)

    def flush(self, end: bool = False) -> None:
        """What is not part of a picture goes straight out as long as there is none."""
        if self._out.direct:
            return super().flush(end)
        self._collect_text()
        if self._is_scrolling():
            self._write_held()

    def _is_scrolling(self) -> bool:
        """Whether there is no picture yet."""
        return not self._sections and not self._screen.is_open

    def _write_held(self) -> None:
        self._out.write_through(f"{self._lead}{self._tail}")
        self._lead = PrintedBlock()
        self._tail.clear()

    # pictures

    def set_losses(self, text: str) -> None:
        """What the heading says of losses."""
        self._losses = text

    def draw_if_changed(self) -> None:
        """Draw, if anything has changed: contents, or the size of the terminal."""
        self._collect_text()
        if not self._sections and self._picture is None:
            return self.flush()
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _LEAST_PAUSE
        lines = self._screen_lines()
        if lines != self._drawn:
            self._drawn = lines
            self._screen.open()
            self._screen.draw_lines(lines)

    def _screen_lines(self) -> list[str]:
        columns, rows = self._screen.size
        clock = time.strftime("%H:%M:%S")
        lines = [_heading_line(f"{self._title}  {clock}", self._losses, "Ctrl-C ends", columns)]
        lines += str(self._lead).splitlines()
        if self._picture is not None:
            lines += self._picture(columns, rows - len(lines))
        for section in self._sections.values():
            lines += str(section).strip("\n").splitlines()
        room = rows - len(lines) - 1
        if self._tail.pieces and room > 0:
            lines += ["", *[line.rstrip("\n") for line in list(self._tail.pieces)[-room:]]]
        return lines

    def leave_screen(self) -> None:
        """The script has ended: give the terminal back, print what was on the screen; from here on text goes straight
        out."""
        self._collect_text()
        self._screen.close()
        self._out.write_through(f"{self._lead}{''.join(map(str, self._sections.values()))}{self._tail}")
        self._sections, self._lead = {}, PrintedBlock()
        self._tail.clear()
        self._out.direct = self._err.direct = True


def _heading_line(left: str, middle: str, right: str, columns: int) -> str:
    """One line in reverse video; what does not fit is left out from the right."""
    text = f"{left}  {middle}".rstrip()
    if len(text) + 2 + len(right) <= columns:
        text += right.rjust(columns - len(text))
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb"
    return text if plain else f"\x1b[7m{text:<{columns}}\x1b[0m"
