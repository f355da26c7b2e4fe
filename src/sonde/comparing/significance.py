"""Standard statistical tests, as pure functions. Each gives a p-value: how likely a difference at least as large would
be if there were none.

Two samples come as *pairs*: (how many of the first, how many of the second) have each value, values ascending. Exact
values and buckets of histograms are tested alike; values in one bucket are ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, exp, isinf, lgamma, log, log1p, sqrt

Pairs = Sequence[tuple[int, int]]

_EXACT = 1000  # events up to which the binomial test adds up probabilities


def two_sided_normal(z: float) -> float:
    """The probability that a standard normal variable is further from 0 than ``z``."""
    return erfc(abs(z) / sqrt(2))


def mann_whitney(pairs: Pairs) -> float:
    """Mann and Whitney's U test, with the normal approximation, corrected for ties and continuity: is one sample
    shifted against the other?"""
    first, second = sum([a for a, _ in pairs]), sum([b for _, b in pairs])
    total = first + second
    if not first or not second:
        return 1.0
    below, wins, ties = 0, 0.0, 0
    for a, b in pairs:
        wins += a * (below + b / 2)
        below += b
        ties += (a + b) ** 3 - (a + b)
    variance = first * second / 12 * (total + 1 - ties / (total * (total - 1))) if total > 1 else 0.0
    if variance <= 0:
        return 1.0
    off = max(0.0, abs(wins - first * second / 2) - 0.5)
    return two_sided_normal(off / sqrt(variance))


def kolmogorov_smirnov(pairs: Pairs) -> float:
    """Kolmogorov and Smirnov's two-sample test, asymptotic: do the samples have the same distribution? Ties make it
    conservative, never too bold."""
    first, second = sum([a for a, _ in pairs]), sum([b for _, b in pairs])
    if not first or not second:
        return 1.0
    a_below = b_below = 0
    most = 0.0
    for a, b in pairs:
        a_below, b_below = a_below + a, b_below + b
        most = max(most, abs(a_below / first - b_below / second))
    size = sqrt(first * second / (first + second))
    x = (size + 0.12 + 0.11 / size) * most  # Stephens 1970
    if x < 0.2:
        return 1.0
    terms = [(2.0 if k % 2 else -2.0) * exp(-2 * (k * x) ** 2) for k in range(1, 101)]
    return min(1.0, max(0.0, sum(terms)))


def rate_test(first: int, second: int, share: float = 0.5) -> float:
    """The conditional test of two Poisson rates: of all events a ``share`` would be in the first. Exact (binomial,
    two-sided: all outcomes that are no more likely) up to 1000 events, beyond that normal, corrected for continuity."""
    total = first + second
    if not total or not 0 < share < 1:
        return 1.0
    if total > _EXACT:
        off = max(0.0, abs(first - total * share) - 0.5)
        return two_sided_normal(off / sqrt(total * share * (1 - share)))
    logs = [lgamma(total + 1) - lgamma(k + 1) - lgamma(total - k + 1) + k * log(share) + (total - k) * log1p(-share)
            for k in range(total + 1)]
    limit = logs[first] + 1e-9
    return min(1.0, sum([exp(each) for each in logs if each <= limit]))


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Welch's t-test: do two groups of runs have the same mean? Each needs at least two runs."""
    n, m = len(first), len(second)
    if n < 2 or m < 2:
        return 1.0
    a, b = sum(first) / n, sum(second) / m
    u, v = (sum([(x - mean) ** 2 for x in xs]) / (len(xs) - 1) / len(xs) for xs, mean in ((first, a), (second, b)))
    if u + v <= 1e-24 * max(a * a, b * b):
        return 1.0 if abs(a - b) <= 1e-12 * max(abs(a), abs(b)) else 0.0
    freedom = (u + v) ** 2 / (u * u / (n - 1) + v * v / (m - 1))
    return student_tail((a - b) / sqrt(u + v), freedom)


def student_tail(t: float, freedom: float) -> float:
    """The probability that a t-distributed variable is further from 0 than ``t``."""
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) if not isinf(t) else 0.0


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), 1e-300)
    fraction = d
    for k in range(1, 300):
        for step in (k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k)),
                     -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))):
            d = 1 / _not_zero(1 + step * d)
            c = _not_zero(1 + step / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * fraction


def _not_zero(x: float) -> float:
    return x if abs(x) > 1e-300 else 1e-300


def adjust_for_many(chances: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values: among those up to q, at most a share q are false."""
    order = sorted(range(len(chances)), key=chances.__getitem__, reverse=True)
    adjusted, least = [0.0] * len(chances), 1.0
    for rank, index in zip(range(len(chances), 0, -1), order):
        least = min(least, chances[index] * len(chances) / rank)
        adjusted[index] = least
    return adjusted
