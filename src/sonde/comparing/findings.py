"""What differs between two groups of runs, by how much, and whether that is more than noise.

With two runs or more on each side the noise between repeats is known: Welch's t-test compares the runs' rates, values,
or mean ranks of what they measured. With one run on a side there is only the noise within it: a conditional test of two
Poisson rates for counts (of independent events), Mann-Whitney and Kolmogorov-Smirnov for distributions (the smaller
p-value doubled, after Bonferroni), and none for sums, averages and the like.

All p-values together are adjusted by Benjamini and Hochberg's method: of what is reported as changed, at most a share
of LEVEL is expected to be noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from ..base.record import Record
from ..runtime.maps.aggregates import Bucket, quantile
from .runs import COUNT, Bounds, Label, Run
from .significance import adjust_for_many, kolmogorov_smirnov, mann_whitney, rate_test, welch

LEVEL = 0.05
QUANTILES = (0.5, 0.9, 0.99)
RATES, RANKS, SHAPES, MEANS = "Poisson rates", "Mann-Whitney", "Kolmogorov-Smirnov", "Welch"


class Finding(Record):
    """A measurement on both sides. ``before`` and ``after`` are means of the runs (counts per second where the
    durations are known; of a distribution the median); ``chance`` is the test's p-value, None without a test;
    ``adjusted`` is adjusted for all tests together."""

    label: Label
    before: float
    after: float
    test: str = ""
    chance: float | None = None
    adjusted: float | None = None
    buckets: tuple[Counter[Bounds], Counter[Bounds]] | None = None

    @property
    def changed(self) -> bool:
        """Whether the difference is more than noise."""
        return self.adjusted is not None and self.adjusted <= LEVEL

    @property
    def ratio(self) -> float | None:
        """After divided by before; None where there is no ratio."""
        return self.after / self.before if self.before else None

    def quantile(self, q: float) -> tuple[float | None, float | None]:
        """A quantile of a distribution before and after; None where it is empty."""
        sides = self.buckets or (Counter(), Counter())
        return bucket_quantile(sides[0], q), bucket_quantile(sides[1], q)


def compare_runs(before: Sequence[Run], after: Sequence[Run]) -> list[Finding]:
    """Everything that was measured on either side, the most significant changes first."""
    numbers = dict.fromkeys([label for run in (*before, *after) for label in run.numbers])
    findings = [_compare_numbers(label, before, after) for label in numbers]
    shapes = dict.fromkeys([label for run in (*before, *after) for label in run.distributions])
    findings += [_compare_distributions(label, before, after) for label in shapes]
    tested = [finding for finding in findings if finding.chance is not None]
    for finding, adjusted in zip(tested, adjust_for_many([f.chance for f in tested if f.chance is not None])):
        finding.adjusted = adjusted
    findings.sort(key=lambda f: (not f.changed, f.chance if f.chance is not None else 2, str(f.label)))
    return findings


def are_timed(before: Sequence[Run], after: Sequence[Run]) -> bool:
    """Whether the durations of all runs are known, so that counts are compared per second."""
    return all(run.seconds > 0 for run in (*before, *after))


def _compare_numbers(label: Label, before: Sequence[Run], after: Sequence[Run]) -> Finding:
    per_second = label.kind == COUNT and are_timed(before, after)
    sides = [[run.numbers.get(label, 0) / (run.seconds if per_second else 1) for run in runs]
             for runs in (before, after)]
    finding = Finding(label, sum(sides[0]) / len(before), sum(sides[1]) / len(after))
    if len(before) > 1 and len(after) > 1:
        finding.test, finding.chance = MEANS, welch(*sides)
    elif label.kind == COUNT:
        first, second = (int(sum([run.numbers.get(label, 0) for run in runs])) for runs in (before, after))
        weights = [sum([run.seconds if per_second else 1 for run in runs]) for runs in (before, after)]
        finding.test, finding.chance = RATES, rate_test(first, second, weights[0] / sum(weights))
    return finding


def _compare_distributions(label: Label, before: Sequence[Run], after: Sequence[Run]) -> Finding:
    sides = [[run.distributions.get(label, Counter()) for run in runs] for runs in (before, after)]
    first, second = (sum(side, Counter()) for side in sides)
    finding = Finding(label, bucket_quantile(first, 0.5) or 0.0, bucket_quantile(second, 0.5) or 0.0,
                      buckets=(first, second))
    order = sorted(first.keys() | second.keys(), key=place_bounds)
    if any(place_bounds(one)[1] > place_bounds(other)[0] for one, other in pairwise(order)):
        return finding  # histograms of different scales
    if len(before) > 1 and len(after) > 1:
        ranks = _mean_ranks(first + second, order)
        means = [[sum([ranks[bounds] * count for bounds, count in run.items()]) / run.total() for run in side if run]
                 for side in sides]
        finding.test, finding.chance = f"{MEANS} (mean ranks)", welch(*means)
        return finding
    pairs = [(first[bounds], second[bounds]) for bounds in order]
    shift, shape = mann_whitney(pairs), kolmogorov_smirnov(pairs)
    finding.test = RANKS if shift <= shape else SHAPES
    finding.chance = min(1.0, 2 * min(shift, shape))
    return finding


def place_bounds(bounds: Bounds) -> tuple[float, float]:
    """The sort key of buckets."""
    low, high = bounds
    return (float("-inf") if low is None else low, float("inf") if high is None else high)


def _mean_ranks(whole: Counter[Bounds], order: Sequence[Bounds]) -> dict[Bounds, float]:
    """The mean rank of each bucket's values, among all."""
    below, ranks = 0, {}
    for bounds in order:
        ranks[bounds] = below + (whole[bounds] + 1) / 2
        below += whole[bounds]
    return ranks


def bucket_quantile(held: Counter[Bounds], q: float) -> float | None:
    """The value that a share ``q`` is below; for whole numbers, each in a bucket of its own, the number itself."""
    buckets = [Bucket(*bounds, held[bounds]) for bounds in sorted(held, key=place_bounds) if held[bounds]]
    if all(b.low is not None and b.high == b.low + 1 for b in buckets):
        rank, total = q * held.total(), 0
        for bucket in buckets:
            total += bucket.count
            if total >= rank:
                return bucket.low
    return quantile(buckets, q)
