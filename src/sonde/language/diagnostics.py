"""Findings about a script: collected, rendered with the source line, never raised one by one."""

from __future__ import annotations

from ..errors import CompileError
from ..source import ERROR, WARNING, Diagnostic, Note, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_ERRORS = 20  # of the text itself; more than that are not worth reading
MAX_SHOWN = 50  # errors, and as many warnings: more are not worth reading

LONGEST_NAME = 200  # of a name to find similar ones for; longer ones take too long to compare

# What bpftrace finds only after parsing: of several errors, those of syntax are shown first.
REPORTED_LATE = ("header-not-found", "error-directive", "import-not-found")


class Diagnostics:
    """A sink that findings are added to; compilation stops at the next stage boundary if there are errors."""

    def __init__(self) -> None:
        self.items: list[Diagnostic] = []
        self.errors = 0  # among them
        self._identities: set[object] = set()

    def error(self, code: str, message: str, span: Span | None, hints: Sequence[str] = (),
              notes: Sequence[Note] = ()) -> None:
        self._add_once(Diagnostic(ERROR, code, message, span, list(hints), list(notes)))

    def warning(self, code: str, message: str, span: Span | None, hints: Sequence[str] = ()) -> None:
        self._add_once(Diagnostic(WARNING, code, message, span, list(hints)))

    def _add_once(self, item: Diagnostic) -> None:
        """A clause that is checked once per attach point reports the same finding only once."""
        identity = _finding_identity(item)
        if identity not in self._identities:
            self._identities.add(identity)
            self.items.append(item)
            self.errors += item.severity == ERROR

    def keep_only(self, items: list[Diagnostic]) -> None:
        """Forget every finding but these."""
        self.items = items
        self.errors = sum(item.severity == ERROR for item in items)
        self._identities = {_finding_identity(item) for item in items}

    def weaken_errors(self, first: int) -> None:
        """Make warnings of the findings from this index on, or forget them where there are enough before."""
        late = self.items[first:]
        self.errors -= sum(item.severity == ERROR for item in late)
        if first >= MAX_SHOWN:
            del self.items[first:]
            self._identities.difference_update(map(_finding_identity, late))
        for item in late:
            item.severity = WARNING

    @property
    def has_errors(self) -> bool:
        return self.errors > 0

    @property
    def is_full(self) -> bool:
        """Whether there are so many errors that the text need not be read any further."""
        return self.errors >= MAX_ERRORS

    def raise_if_errors(self) -> None:
        """Raise :class:`CompileError` if any error was added, with the first findings of each severity."""
        if self.has_errors:
            errors, warnings = [[d for d in self.items if d.severity == severity] for severity in (ERROR, WARNING)]
            shown = {id(item) for item in errors[:MAX_SHOWN] + warnings[:MAX_SHOWN]}
            if len(errors) > MAX_SHOWN:
                errors[MAX_SHOWN - 1].hints.append(f"and {len(errors) - MAX_SHOWN} more errors")
            raise CompileError([item for item in self.items if id(item) in shown])


def _finding_identity(item: Diagnostic) -> object:
    """The key that two findings share if they say the same thing."""
    span = item.span
    return item.code, item.message, span and (id(span.source), span.start, span.end)


def nearest_names(name: str, candidates: Iterable[str], count: int = 3, least: float = 0.6) -> list[str]:
    """The candidates most like ``name``, best first: for "did you mean" hints. ``least``: of 1, how much alike."""
    if len(name) > LONGEST_NAME:
        return []
    from difflib import get_close_matches
    pool = _similar_names(name.lower(), list(candidates))
    lowered = {c.lower(): c for c in pool}
    nearest = get_close_matches(name, pool, count, least)
    if len(nearest) < count and (name.lower() != name or any(low != each for low, each in lowered.items())):
        for close in get_close_matches(name.lower(), lowered, count, least):
            if lowered[close] not in nearest:
                nearest.append(lowered[close])
    return nearest[:count]


def _similar_names(name: str, pool: list[str]) -> list[str]:
    """Of many candidates, those that share a third of the name's trigrams: comparing each letter by letter would take a
    second for the functions of a kernel."""
    runs = {name[at:at + 3] for at in range(len(name) - 2)}
    if len(pool) < 5000 or not runs:
        return pool
    lowered = [candidate.lower() for candidate in pool]
    return [candidate for candidate, low in zip(pool, lowered) if 3 * sum([run in low for run in runs]) >= len(runs)]
