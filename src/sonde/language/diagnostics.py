"""Findings about a script: collected, rendered with the source line, never raised one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import CompileError
from ..record import Record
from .source import Span

ERROR, WARNING = "ERROR", "WARNING"


class Diagnostic(Record):
    """One finding: ``code`` is a stable kebab-case name (``unknown-field``), ``hints`` say what to do."""

    severity: str
    code: str
    message: str
    span: Span | None
    hints: list[str] = []

    def render(self) -> str:
        """bpftrace's shape: position, message, the source line, an underline, then HINT lines."""
        hints = [f"HINT: {hint}" for hint in self.hints]
        if self.span is None:
            return "\n".join([f"{self.severity}: {self.message}", *hints])
        head = f"{self.span}: {self.severity}: {self.message}"
        source = self.span.source
        line, column = source.position(self.span.start)
        last, end = source.position(max(self.span.start, self.span.end))
        text = "".join(c if c.isprintable() or c == "\t" or c >= "\x80" else "?" for c in source.line(line))
        if last != line:
            end = len(text) + 1
        pad = "".join("\t" if c == "\t" else " " for c in text[:column - 1])
        return "\n".join([head, text, pad + "~" * max(1, end - column), *hints])


class Diagnostics:
    """A sink that findings are added to; compilation stops at the next stage boundary if there are errors."""

    def __init__(self) -> None:
        self.items: list[Diagnostic] = []

    def error(self, code: str, message: str, span: Span | None, hints: Sequence[str] = ()) -> None:
        self._add(Diagnostic(ERROR, code, message, span, list(hints)))

    def warning(self, code: str, message: str, span: Span | None, hints: Sequence[str] = ()) -> None:
        self._add(Diagnostic(WARNING, code, message, span, list(hints)))

    def _add(self, item: Diagnostic) -> None:
        """A clause that is checked once per attach point says the same thing only once."""
        if not any(d.code == item.code and d.message == item.message and d.span == item.span for d in self.items):
            self.items.append(item)

    @property
    def failed(self) -> bool:
        return any(d.severity == ERROR for d in self.items)

    def check(self) -> None:
        """Raise :class:`CompileError` if any error was added."""
        if self.failed:
            raise CompileError(self.items)


def nearest(name: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """The candidates most like ``name``, best first: for "did you mean" hints."""
    from difflib import get_close_matches
    pool = _alike(name.lower(), list(candidates))
    lowered = {c.lower(): c for c in pool}
    found = get_close_matches(name, pool, count, 0.6)
    for close in get_close_matches(name.lower(), lowered, count, 0.6):
        if lowered[close] not in found:
            found.append(lowered[close])
    return found[:count]


def _alike(name: str, pool: list[str]) -> list[str]:
    """Of many candidates, those with a third of the name's runs of three letters: comparing each letter by letter would
    take a second for the functions of a kernel."""
    runs = {name[at:at + 3] for at in range(len(name) - 2)}
    if len(pool) < 5000 or not runs:
        return pool
    return [candidate for candidate in pool if 3 * sum([run in candidate.lower() for run in runs]) >= len(runs)]
