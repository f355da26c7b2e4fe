"""Map value functions: per-CPU words updated in place (layouts in types.Aggregate)."""

from __future__ import annotations

from ....language.ast import Call, MapRef
from ....semantics.typed import ScriptMap
from ....types import Aggregate
from ... import helpers as h
from ...ir import MapAddr, MapFd, Operand, Reg
from ..arithmetic import lower_division
from ..control.ordering import value_before
from ..core import Lower
from ..logarithm import compute_log2
from ..state import Mem
from . import access, float_aggregates, series
from .keys import use_key
from .word_updates import add_to_word, count_bucket, linear_bucket, update_extreme


def update_aggregate(lo: Lower, ref: MapRef, call: Call) -> None:
    """``@m[k] = count()`` and the others."""
    info = access.info_of(lo, ref)
    aggregate = info.value
    assert isinstance(aggregate, Aggregate)
    if aggregate.kind == "tseries":
        series.update_series(lo, ref, call)
        return
    value = value_before(lo, call.args[0], ref.key) if call.args else 1
    plain = lo.context.exclusive and info.writers <= 1 and not lo.unit.shares_slots(ref.name)
    where, done = access.own_words(lo, ref)
    if aggregate.floating:
        float_aggregates.update_floats(lo, Mem(where), aggregate, value, plain)
    else:
        _UPDATES[aggregate.kind](lo, Mem(where), aggregate, value, plain)
    marker = lo.unit.maps[ref.name].marker
    if marker:
        lo.b.store(where, marker, 1)
    lo.b.start(done)


def _update_total(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, plain: bool) -> None:
    add_to_word(lo, mem, value, plain)


def _update_pair(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, plain: bool) -> None:
    add_to_word(lo, mem, 1, plain)
    add_to_word(lo, mem.at(8), value, plain)


def _update_hist(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, plain: bool) -> None:
    bits = aggregate.bits
    bucket = lo.b.function.reg("bucket")
    small, large, negative, have = (lo.b.block(n, cold=n == "negative") for n in ("small", "large", "negative", "have"))
    positive = lo.b.block("positive")
    lo.b.branch("jslt", value, 0, negative, positive)
    lo.b.start(negative)
    lo.b.set(bucket, 0)
    lo.b.jump(have)
    lo.b.start(positive)
    lo.b.branch("jlt", value, 2 << bits, small, large)
    lo.b.start(small)
    lo.b.set(bucket, lo.b.alu("add", value, 1))
    lo.b.jump(have)
    lo.b.start(large)
    exponent = compute_log2(lo, value)
    if bits == 0:
        lo.b.set(bucket, lo.b.alu("add", exponent, 2))
    else:
        steps = lo.b.alu("lsh", lo.b.alu("sub", exponent, bits - 1), bits)
        part = lo.b.alu("rsh", value, lo.b.alu("sub", exponent, bits))
        lo.b.set(bucket, lo.b.alu("add", lo.b.alu("add", steps, part), 1 - (1 << bits)))
    lo.b.start(have)
    _count_value(lo, mem, aggregate, bucket, value, plain)


def _update_lhist(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, plain: bool) -> None:
    bucket = linear_bucket(lo, value, aggregate, aggregate.buckets - 1)
    _count_value(lo, mem, aggregate, bucket, value, plain)


def _count_value(lo: Lower, mem: Mem, aggregate: Aggregate, bucket: Operand, value: Operand, plain: bool) -> None:
    count_bucket(lo, mem, bucket, aggregate.buckets, plain)
    if aggregate.agg == "sum":
        add_to_word(lo, mem.at(8 * aggregate.buckets), value, plain)


def _update_extreme(lo: Lower, mem: Mem, aggregate: Aggregate, value: Operand, plain: bool) -> None:
    update_extreme(lo, mem, aggregate, value)


_UPDATES = {
    "count": _update_total, "sum": _update_total, "avg": _update_pair, "stats": _update_pair, "min": _update_extreme,
    "max": _update_extreme, "hist": _update_hist, "lhist": _update_lhist,
}


# --- reading in the kernel --------------------------------------------------------------------------------


def merged_value(lo: Lower, ref: MapRef, info: ScriptMap) -> Operand:
    """The value over all CPUs, as casts and comparisons see it: the total of count and sum, the average of
    avg and stats, the extreme of min and max."""
    aggregate = info.value
    assert isinstance(aggregate, Aggregate)
    if ref.key is not None:
        result = lo.b.function.reg("merged")
        with lo.scope():
            use_key(lo, info, ref.key, lambda name, key: lo.b.set(
                result, merged_at(lo, name, info, lo.operand_address(key))))
        return result
    spec = lo.unit.maps[ref.name]
    first, second = _start_merging(lo)
    for number in range(spec.cpus):
        _merge_words(lo, aggregate, Mem(MapAddr(ref.name, number * spec.stride)), first, second)
    return _merged_result(lo, aggregate, first, second)


def merged_at(lo: Lower, name: str, info: ScriptMap, key: Operand) -> Operand:
    """The merged value of the element under the key at the address ``key``."""
    aggregate = info.value
    assert isinstance(aggregate, Aggregate)
    if lo.unit.maps[name].stride:
        slots = lo.b.call(h.MAP_LOOKUP, [MapFd(name), key], "map_lookup_elem")
        return merged_slots(lo, name, aggregate, slots)
    first, second = _start_merging(lo)
    for number in range(lo.world.cpus):
        have, on = lo.b.block("have"), lo.b.block("on")
        pointer = lo.b.call(h.PERCPU_LOOKUP, [MapFd(name), key, number], "map_lookup_percpu_elem")
        lo.b.branch("jeq", pointer, 0, on, have)
        lo.b.start(have)
        _merge_words(lo, aggregate, Mem(pointer), first, second)
        lo.b.start(on)
    return _merged_result(lo, aggregate, first, second)


def merged_slots(lo: Lower, name: str, aggregate: Aggregate, element: Reg) -> Operand:
    """The merged value of a slotted element; that of nothing if it is NULL."""
    spec = lo.unit.maps[name]
    first, second = _start_merging(lo)
    have, on = lo.b.block("have"), lo.b.block("on")
    lo.b.branch("jeq", element, 0, on, have)
    lo.b.start(have)
    for number in range(spec.cpus):
        _merge_words(lo, aggregate, Mem(element, number * spec.stride), first, second)
    lo.b.start(on)
    return _merged_result(lo, aggregate, first, second)


def _start_merging(lo: Lower) -> tuple[Reg, Reg]:
    first, second = lo.b.function.reg("merged"), lo.b.function.reg("second")
    lo.b.set(first, 0)
    lo.b.set(second, 0)
    return first, second


def merged_words(lo: Lower, mem: Mem, aggregate: Aggregate) -> Operand:
    """The value of one CPU's words."""
    first, second = _start_merging(lo)
    _merge_words(lo, aggregate, mem, first, second)
    return _merged_result(lo, aggregate, first, second)


def _merged_result(lo: Lower, aggregate: Aggregate, first: Reg, second: Reg) -> Operand:
    if aggregate.row.additive and aggregate.row.words == 2:
        return lower_division(lo, "/", second, first, aggregate.signed, quiet=True)
    return first


def _merge_words(lo: Lower, aggregate: Aggregate, mem: Mem, first: Reg, second: Reg) -> None:
    """Add one CPU's words to what is known: (n, total), or (extreme, is set)."""
    kind = aggregate.kind
    value = lo.b.load(mem.base, mem.off)
    if kind in ("count", "sum"):
        lo.b.set(first, lo.b.alu("add", first, value))
    elif kind in ("avg", "stats"):
        lo.b.set(first, lo.b.alu("add", first, value))
        lo.b.set(second, lo.b.alu("add", second, lo.b.load(mem.base, mem.off + 8)))
    else:
        better = {"min": "jslt" if aggregate.signed else "jlt", "max": "jsgt" if aggregate.signed else "jgt"}[kind]
        is_set, compare, take, on = (lo.b.block(n) for n in ("set", "compare", "take", "on"))
        lo.b.branch("jeq", lo.b.load(mem.base, mem.off + 8), 0, on, is_set)
        lo.b.start(is_set)
        lo.b.branch("jeq", second, 0, take, compare)
        lo.b.start(compare)
        lo.b.branch(better, value, first, take, on)
        lo.b.start(take)
        lo.b.set(first, value)
        lo.b.set(second, 1)
        lo.b.start(on)
