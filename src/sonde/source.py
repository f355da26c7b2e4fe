"""Where a piece of script comes from, and what is found there."""

from __future__ import annotations

from .base.record import Record, Value

ERROR, WARNING = "ERROR", "WARNING"
MOST_CALLS = 20  # of macros within macros that are shown with a finding
_WIDEST = 400  # characters of a line, and twice that of a message, that are shown whole


class Source(Record):
    """A script's text under the name that diagnostics show (a path, or ``stdin`` for -e and -). ``internal``: it is
    Sonde's own, a tool's or one that a command made, which who runs it has never seen."""

    name: str
    text: str
    internal: bool = False

    @property
    def is_generated(self) -> bool:
        """Whether a command made the text: it stands in no file."""
        return self.internal and "/" not in self.name

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


class ExpandedSpan(Span):
    """Characters of a macro, where it was put in the place of the call ``within``."""

    within: Span


class Note(Record):
    """Another part of the text that a finding is about, with what it has to do with it: where the type comes from that
    another clashes with, or what is not closed."""

    span: Span
    message: str


class Diagnostic(Record):
    """One finding: ``code`` is a stable kebab-case name (``unknown-field``), ``hints`` say what to do, ``notes`` are
    other places that it is about.

    ``file``, ``line``, ``column``, ``end_line``, ``end`` and ``source_line`` are where it is: lines and columns count
    from 1, and the last character is before column ``end`` of ``end_line``. They are "" and 0 for a finding about no
    part of the text.
    """

    severity: str
    code: str
    message: str
    span: Span | None
    hints: list[str] = []
    notes: list[Note] = []

    @property
    def file(self) -> str:
        """The script's path, or ``stdin``."""
        return "" if self.span is None else self.span.source.name

    @property
    def line(self) -> int:
        return 0 if self.span is None else self.span.line

    @property
    def column(self) -> int:
        return 0 if self.span is None else self.span.source.line_and_column(self.span.start)[1]

    @property
    def end_line(self) -> int:
        return 0 if self.span is None else self._end_of(self.span)[0]

    @property
    def end(self) -> int:
        """The column after the last character."""
        return 0 if self.span is None else self._end_of(self.span)[1]

    @property
    def source_line(self) -> str:
        """The first line that the finding is about."""
        return "" if self.span is None else self.span.source.line_text(self.line)

    @staticmethod
    def _end_of(span: Span) -> tuple[int, int]:
        return span.source.line_and_column(max(span.start, span.end))

    def render(self) -> str:
        """bpftrace's shape: position, message, the source line, an underline; the same of each call by which a macro
        came to be there, and of the notes; then HINT lines."""
        hints = [f"HINT: {shorten_message(hint)}" for hint in self.hints]
        message = shorten_message(self.message)
        if self.span is None or self.severity == WARNING and shown_location(self.span) is None:
            return "\n".join([f"{self.severity}: {message}", *hints])
        lines = show_location(self.span, self.severity, message)
        lines += show_expansion(self.span, self.severity)
        for other in self.notes:
            lines += show_location(other.span, "NOTE", shorten_message(other.message))
        return "\n".join([*lines, *hints])


def shown_location(span: Span | None) -> Span | None:
    """The place of a finding about a run, for people; None if it is in text of Sonde's own alone: they cannot look
    there."""
    part = span
    while part is not None and part.source.internal:
        part = part.within if isinstance(part, ExpandedSpan) else None
    return None if part is None else span


def show_expansion(span: Span | None, severity: str) -> list[str]:
    """Lines that show each call by which a macro came to be at a place, from the inside out."""
    lines: list[str] = []
    calls = 0
    while isinstance(span, ExpandedSpan) and calls < MOST_CALLS:
        calls, span = calls + 1, span.within
        lines += show_location(span, severity, "expanded from")
    return lines


def show_location(span: Span, severity: str, message: str) -> list[str]:
    """Position (of a text that somebody has) and message, the source line, an underline."""
    source = span.source
    line, column = source.line_and_column(span.start)
    last, end = source.line_and_column(max(span.start, span.end))
    text = "".join(c if c.isprintable() or c == "\t" or c >= "\x80" else "?" for c in source.line_text(line))
    if last != line:
        end = len(text) + 1
    position = "" if source.is_generated else f"{span}: "
    return [f"{position}{severity}: {message}", *underline_span(text, column - 1, end - 1)]


def underline_span(line: str, start: int, end: int) -> list[str]:
    """A line of a script, and one that underlines it from ``start`` to ``end``; of an endless line, a part.
    A place without width, such as the end of the text, has no underline."""
    end = max(end, start)
    if len(line) > _WIDEST:
        first = max(0, min(start - _WIDEST // 4, len(line) - _WIDEST))
        last = first + _WIDEST
        lead = "..." if first else ""
        tail = "..." if last < len(line) else ""
        line, shift = lead + line[first:last] + tail, len(lead) - first
        start, end = start + shift, min(end + shift, len(line))
    pad = "".join(["\t" if c == "\t" else " " for c in line[:start]])
    return [line, pad + "~" * (end - start)]


def shorten_message(text: str) -> str:
    """A message, without the middle of what is endless in it."""
    return text if len(text) <= 4 * _WIDEST else f"{text[:_WIDEST]} ... {text[-_WIDEST:]}"
