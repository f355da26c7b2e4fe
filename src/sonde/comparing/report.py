"""Findings as text for people and as JSON for machines, and conditions on them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from math import frexp

from ..base.record import Record
from ..errors import UsageError
from ..output.text import terminal_safe
from .findings import LEVEL, QUANTILES, Finding, are_timed, place_bounds
from .runs import COUNT, DISTRIBUTION, VALUE, Bounds, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..base.json_checks import JsonObject

_BAR = 24    # characters of the longest bar
_NAMED = 20  # findings of a kind that are listed one by one, apart from those that changed
_ROWS = 40   # rows of a histogram; finer ones are drawn by powers of two
_METRICS = {COUNT: "count", VALUE: "value"}


# Text ---------------------------------------------------------------------------------------------------------------

def report_text(findings: Sequence[Finding], before: Sequence[Run], after: Sequence[Run]) -> str:
    """What changed, what did not, and what cannot be decided."""
    rate = "/s" if are_timed(before, after) else ""
    lines = [_describe_side("before", before), _describe_side("after ", after), ""]
    changed = [finding for finding in findings if finding.changed]
    for finding in changed:
        lines += _describe(finding, rate)
    same = [finding for finding in findings if not finding.changed and finding.chance is not None]
    if not changed:
        lines.append("Nothing differs by more than noise.")
    if same:
        lines += ["", f"No more than noise ({len(same)} of {len(same) + len(changed)} tested):"]
        lines += _shorten([line for finding in same for line in _describe(finding, rate, False)])
    unknown = [finding for finding in findings if finding.chance is None and finding.before != finding.after]
    if unknown:
        lines += ["", "Not tested: one run on each side tells nothing of their noise (--repeat, or several files):"]
        lines += _shorten([line for finding in unknown for line in _describe(finding, rate, False)])
    return terminal_safe("\n".join(lines) + "\n")


def _describe_side(name: str, runs: Sequence[Run]) -> str:
    return f"{name}: {runs[0].title}" + (f", and {len(runs) - 1} more" if len(runs) > 1 else "")


def _shorten(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _NAMED else [*lines[:_NAMED], f"  ... and {len(lines) - _NAMED} more"]


def _describe(finding: Finding, rate: str, drawn: bool = True) -> list[str]:
    test = "" if finding.adjusted is None else f"  p = {finding.adjusted:.2g} ({finding.test})"
    if finding.buckets is None:
        unit = rate if finding.label.kind == COUNT else ""
        return [f"  {finding.label}: {_change(finding.before, finding.after, unit)}{test}"]
    quantiles = [(q, *finding.quantile(q)) for q in QUANTILES]
    parts = [f"p{100 * q:g} {_change(before or 0.0, after or 0.0)}" for q, before, after in quantiles]
    one, other = (side.total() for side in finding.buckets)
    return [f"  {finding.label}: {', '.join(parts)}; {one} and {other} values{test}",
            *(_draw(*finding.buckets) if drawn else [])]


def _change(before: float, after: float, unit: str = "") -> str:
    more = f" ({100 * (after / before - 1):+.3g}%)" if before else ""
    return f"{before:.6g}{unit} -> {after:.6g}{unit}{more}"


def _draw(before: Counter[Bounds], after: Counter[Bounds]) -> Iterator[str]:
    """Both histograms, row by row: as shares of the total, since one side may have more."""
    if len(before.keys() | after.keys()) > _ROWS:
        before, after = _coarsen(before), _coarsen(after)
    one, other = max(before.total(), 1), max(after.total(), 1)
    most = max([before[b] / one for b in before] + [after[b] / other for b in after], default=1)
    yield f"    {'':20}{'before':<{_BAR + 10}}after"
    for bounds in sorted(before.keys() | after.keys(), key=place_bounds):
        sides = [f"|{'@' * round(_BAR * share / most):<{_BAR}}|{100 * share:6.2f}%"
                 for share in (before[bounds] / one, after[bounds] / other)]
        yield f"    {_bounds_text(bounds):<20}{sides[0]} {sides[1]}"


def _coarsen(fine: Counter[Bounds]) -> Counter[Bounds]:
    buckets: Counter[Bounds] = Counter()
    for (low, _), count in fine.items():
        buckets[(None, 0) if low is None or low < 0 else _power_around(low)] += count
    return buckets


def _power_around(low: float) -> Bounds:
    """The powers of two between which a value lies."""
    if isinstance(low, int):
        power = low.bit_length()
        return 1 << power >> 1, 1 << power
    power = frexp(low)[1]
    return (2.0 ** 1023, None) if low >= 2.0 ** 1023 else (2.0 ** (power - 1), 2.0 ** power) if low else (0.0, 0.0)


def _bounds_text(bounds: Bounds) -> str:
    low, high = bounds
    if isinstance(low, float) or isinstance(high, float) or low is high is None:
        from ..runtime.maps.float_aggregates import format_range
        return format_range(low, high) if low != high or low is None else f"[{low}]"
    if low is not None and high == low + 1:
        return f"[{low}]"
    return f"{'(...' if low is None else f'[{low}'}, {'...' if high is None else high})"


# JSON ---------------------------------------------------------------------------------------------------------------

def report_json(findings: Sequence[Finding], before: Sequence[Run], after: Sequence[Run], failed: Sequence[str]) -> str:
    """The same as one object."""
    return json.dumps({"type": "diff", "data": {
        "before": [_plain_run(run) for run in before], "after": [_plain_run(run) for run in after],
        "level": LEVEL, "failed": list(failed), "findings": [_plain_finding(finding) for finding in findings]}}) + "\n"


def _plain_run(run: Run) -> JsonObject:
    return {"title": run.title, "seconds": run.seconds}


def _plain_finding(finding: Finding) -> JsonObject:
    label = finding.label
    plain: JsonObject = {"name": label.name, "key": label.key, "kind": label.kind, "before": finding.before,
             "after": finding.after, "ratio": finding.ratio, "test": finding.test, "p": finding.chance,
             "adjusted_p": finding.adjusted, "changed": finding.changed}
    if finding.buckets is not None:
        plain["quantiles"] = {f"p{100 * q:g}": finding.quantile(q) for q in QUANTILES}
        plain["counts"] = [side.total() for side in finding.buckets]
    return plain


# Conditions ---------------------------------------------------------------------------------------------------------

class FailCondition(Record):
    """``@usecs p99 > 1.1x``: of measurements whose name or label ``pattern`` matches ("*": all), ``metric`` after over
    ``metric`` before is above or below ``limit``."""

    text: str
    pattern: str
    metric: str
    above: bool
    limit: float

    def holds(self, finding: Finding) -> bool:
        """Whether it holds, by more than noise."""
        if not finding.changed or not (fnmatchcase(finding.label.name, self.pattern)
                                       or fnmatchcase(str(finding.label), self.pattern)):
            return False
        if self.metric[0] == "p" and finding.label.kind == DISTRIBUTION:
            before, after = (side or 0.0 for side in finding.quantile(float(self.metric[1:]) / 100))
        elif self.metric == _METRICS.get(finding.label.kind):
            before, after = finding.before, finding.after
        else:
            return False
        ratio = after / before if before else float("inf") if after else 1.0
        return ratio > self.limit if self.above else ratio < self.limit


def parse_condition(text: str) -> FailCondition:
    """``[PATTERN] METRIC >|< LIMIT``. UsageError if it is malformed."""
    match = re.fullmatch(r"\s*(?:(\S+)\s+)?(p\d{1,2}(?:\.\d+)?|count|value)\s*([<>])\s*([+-]?\d+(?:\.\d+)?)(x|%)\s*",
                         text)
    if match is None:
        raise UsageError(f"--fail-if takes a condition like 'p99 > 1.1x', not '{text}'",
                         ["[MAP] p50, p99, count or value, then > or <, then 1.1x or +10%"])
    number = float(match[4])
    ratio = number if match[5] == "x" else 1 + number / 100
    return FailCondition(text, match[1] or "*", match[2], match[3] == ">", ratio)
