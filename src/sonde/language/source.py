"""Where a piece of script came from."""

from __future__ import annotations

from ..record import Record, Value


class Source(Record):
    """A script's text under the name that diagnostics show (a path, or ``stdin`` for -e and -)."""

    name: str
    text: str

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """1-based line and column of a character offset."""
        line = self.text.count("\n", 0, offset) + 1
        return line, offset - (self.text.rfind("\n", 0, offset) + 1) + 1

    def line_text(self, number: int) -> str:
        """The text of 1-based line ``number`` without its newline; "" past the end."""
        lines = self.text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""


class Span(Value):
    """Characters ``start`` (inclusive) to ``end`` (exclusive) of a source."""

    source: Source
    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of ``other``."""
        return Span(self.source, self.start, max(self.end, other.end))

    @property
    def text(self) -> str:
        return self.source.text[self.start:self.end]

    @property
    def line(self) -> int:
        """1-based line of the start."""
        return self.source.line_and_column(self.start)[0]

    def __str__(self) -> str:
        """``stdin:1:3-9`` as bpftrace writes it; ``stdin:1-4`` when the span covers several lines."""
        line, column = self.source.line_and_column(self.start)
        last, end = self.source.line_and_column(max(self.start, self.end))
        if last != line:
            return f"{self.source.name}:{line}-{last}"
        return f"{self.source.name}:{line}:{column}-{end}"
