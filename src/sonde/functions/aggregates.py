"""Functions that can only be the value of a map: counts, sums, histograms.

Their lowering, an update of an element, is in compiler/lower/maps/aggregates.py.
"""

from __future__ import annotations

from ..compiler.lower.calls import Function
from ..language.ast import Call, FloatLiteral, Node
from ..semantics import convert
from ..semantics.callees import Rule, Types
from ..semantics.context import CheckContext
from ..types import Aggregate, Float, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def aggregate_rule(kind: str) -> Rule:
    """count(), sum(n) ...: only as the value of ``@x = ...``."""
    def check_aggregate(context: CheckContext, node: Call, types: Types) -> Type | None:
        return _aggregate_type(context, node, kind, types)
    return check_aggregate


def _aggregate_type(context: CheckContext, node: Call, kind: str, types: Types) -> Type | None:
    floating = bool(types) and isinstance(types[0], Float)
    number = convert.as_int(types[0]) if types else None
    signed = number is None or number.signed or kind in ("hist", "lhist")
    numbers = [arg.const for arg in node.args[1:]]
    summed = "sum" if context.options.sums else ""
    if kind == "hist":
        bits = numbers[0] if numbers else 0
        if not 0 <= bits <= 5:
            context.error("bad-argument", f"hist: bits {bits} must be 0..5", node)
            return None
        return Aggregate(kind, signed, bits, agg=summed, floating=floating)
    if kind == "tseries":
        return _check_series(context, node, signed)
    if kind != "lhist":
        return Aggregate(kind, signed, floating=floating)
    units = _common_units(node.args[1:])
    if not units or units > 1 and not floating:
        context.error("bad-argument", "lhist: bounds have at most six decimals" if floating else
                      "lhist: bounds of integers are integers", node)
        return None
    low, high, step = [_in_units(arg, units) for arg in node.args[1:]]
    problem = (f"lhist: invalid {'min' if low < 0 else 'max'} value (must be non-negative literal)"
               if low < 0 or high < 0 else "lhist: invalid step value" if step < 0
               else f"lhist() step must be >= 1 ({step} provided)" if step < 1
               else f"lhist() min must be less than max (provided min {low} and max {high})" if high < low
               else f"lhist() too many buckets, must be <= 1000 (would need {(high - low) // step})"
               if (high - low) // step > 1000
               else f"lhist() step is too large for the given range (provided step {step} for range {high - low})"
               if step > high - low else "")
    if problem:
        context.error("bad-argument", problem, node)
        return None
    high -= (high - low) % step  # the last bucket is whole
    return Aggregate(kind, signed, 0, low, high, step, summed, floating, units)


_MOST_DECIMALS = 6


def _common_units(bounds: Sequence[Node]) -> int:
    """The power of ten in whose parts of 1 the bounds of a histogram are integers; 0 if there is none."""
    values = [arg.value if isinstance(arg, FloatLiteral) else 0.0 for arg in bounds]
    return next((10 ** n for n in range(_MOST_DECIMALS + 1)
                 if all(abs(value) < 1e9 and float(f"{value:.{n}f}") == value for value in values)), 0)


def _in_units(arg: Node, units: int) -> int:
    return round(arg.value * units) if isinstance(arg, FloatLiteral) else int(getattr(arg, "const", 0)) * units


AGGREGATIONS = ("avg", "max", "min", "sum")
MAX_INTERVALS = 1_000_000  # as the kernel limits a per-CPU value: see MAX_PER_CPU

def _check_series(context: CheckContext, node: Call, signed: bool) -> Type | None:
    """tseries(n, interval, count[, agg])."""
    interval, count = node.args[1].const, node.args[2].const
    agg = node.args[3].const if len(node.args) > 3 else ""
    context.report_unstable(node, "tseries", context.config.unstable_tseries)
    for word, number in (("interval_ns", interval), ("num_intervals", count)):
        if number < 1:
            context.error("bad-argument", f"tseries: invalid {word} value (must be non-negative literal)" if number else
                          f"tseries() {word} must be >= 1 (0 provided)", node)
            return None
    if count > MAX_INTERVALS:
        context.error("bad-argument", f"tseries() num_intervals must be < {MAX_INTERVALS} ({count} provided)", node)
    elif agg not in ("", *AGGREGATIONS):
        context.error("bad-argument", f"tseries() expects one of the following aggregation functions: "
                      f"{', '.join(AGGREGATIONS)} (\"{agg}\" provided)", node)
    else:
        return Aggregate("tseries", signed, 0, interval, count, 1, agg)
    return None



ROWS = (
    Function("count", (), Aggregate("count"), "Count calls.", "@ = count()", aggregate_rule("count"), aggregate=True),
    Function("sum", ("n:integer|float",), None, "Sum of the values.", "@ = sum(args.ret)", aggregate_rule("sum"),
             aggregate=True),
    Function("avg", ("n:integer|float",), None, "Average of the values.", "@ = avg(args.ret)", aggregate_rule("avg"),
             aggregate=True),
    Function("min", ("n:integer|float",), None, "Smallest value.", "@ = min(args.ret)", aggregate_rule("min"),
             aggregate=True),
    Function("max", ("n:integer|float",), None, "Largest value.", "@ = max(args.ret)", aggregate_rule("max"),
             aggregate=True),
    Function("stats", ("n:integer|float",), None, "Count, average and total of the values.", "@ = stats(args.ret)",
             aggregate_rule("stats"), aggregate=True),
    Function("hist", ("n:int|float", "bits:number?"), None, "Histogram by powers of two.", "@ = hist(args.ret)",
             aggregate_rule("hist"), aggregate=True, wrong={"bits": "hist: invalid bits value, need integer literal"}),
    Function("lhist", ("n:int|float", "min:number|fraction", "max:number|fraction", "step:number|fraction"), None,
             "Histogram of equal steps.",
             "@ = lhist(cpu, 0, 128, 1)", aggregate_rule("lhist"), aggregate=True,
             wrong={"step": "lhist: invalid step value"}),
    Function("tseries", ("n:int", "interval_ns:number", "num_intervals:number", "agg:literal?"), None,
             "Values over time.", '@ = tseries(rand % 10, 1s, 5, "max")', aggregate_rule("tseries"), aggregate=True),
)
