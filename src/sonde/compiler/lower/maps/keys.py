"""Map keys: their bytes, built in place, and the two maps behind a map keyed by long strings.

The kernel hashes and compares all bytes of a key, and a string's capacity is many bytes: 1,024 take it some 350 ns.
Most strings are short. So a map whose key holds strings of more than 64 bytes has a companion for the keys in which
every string is shorter than that, with 64 bytes for each; user space reads both as one map.
"""

from __future__ import annotations

from ....language.ast import Expr, TupleExpr
from ....semantics.typed import ScriptMap
from ....types import UINT8, Scalar, Str, Tuple, Type
from ...compilation import SHORT, short_type
from ...ir import Operand
from .. import memory
from ..control.ordering import evaluate_once, must_run_first
from ..conversion import convert_tuple, convert_value
from ..core import Lower
from ..floats import has_float, unify_floats
from ..state import Mem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def key_memory(lo: Lower, key: Expr, type: Type) -> Mem:
    """The key's bytes as ``type``, used in place if the value already lies in memory with that layout."""
    source = lo.locate_value(key) if key.type == type and not isinstance(type, Scalar) else None
    floats = has_float(type)
    if source is not None and source.space == "bpf" and not floats:
        return source
    mem = lo.temp(type.size, "key")
    if source is None:
        lo.write_value(key, mem, type)
    else:
        convert_value(lo, source, type, mem, type, True)
    if floats:
        unify_floats(lo, mem, type)
    return mem


def use_key(lo: Lower, info: ScriptMap, key: Expr, use: Callable[[str, Mem], None]) -> None:
    """Lower ``use(map, key)``; twice, after a test of the strings' length, where the map has a companion."""
    assert info.key is not None
    short = lo.unit.maps[info.name].short
    if short and must_run_first(key):
        key = evaluate_once(lo, key)
    if not short:
        use(info.name, key_memory(lo, key, info.key))
    elif always_short(key, info.key):
        use(short, key_memory(lo, key, short_type(info.key)))
    elif isinstance(info.key, Str):
        _by_length(lo, info, key, info.key, short, use)
    else:
        _by_lengths(lo, info, key, short, use)


def always_short(key: Expr, type: Type) -> bool:
    """Whether no value of the expression's own type is a long string."""
    if isinstance(key, TupleExpr) and isinstance(type, Tuple):
        return all(always_short(item, type.of[at]) for item, at in zip(key.items, type.element_order(tuple(key.names))))
    return key.type is not None and short_type(key.type) == key.type


def _by_length(lo: Lower, info: ScriptMap, key: Expr, type: Str, short: str, use: Callable[[str, Mem], None]) -> None:
    """One string: its first 64 bytes are the short key where they lie. Only those are cleared beforehand; what
    follows is cleared, and the string read again, when it turns out to be long."""
    source = lo.locate_value(key) if key.type == type else None
    if source is not None and source.space == "bpf":  # defined up to its capacity
        _choose_map(lo, short, source, [source.at(SHORT - 1)], lambda: use(info.name, source), use)
        return
    mem = lo.temp(type.size, "key")
    if source is None:
        memory.clear_bytes(lo, mem, SHORT)
        lo.write_value(key, mem, type, pad=False)
    else:
        convert_value(lo, source, type, mem, type, True)

    def long_key() -> None:
        if source is None:
            lo.write_value(key, mem, type)
        use(info.name, mem)
    _choose_map(lo, short, mem, [mem.at(SHORT - 1)], long_key, use)


def _by_lengths(lo: Lower, info: ScriptMap, key: Expr, short: str, use: Callable[[str, Mem], None]) -> None:
    """A tuple with strings: built whole, and copied into the short layout if every string fits there."""
    type, small_type = info.key, short_type(info.key) if info.key is not None else None
    assert isinstance(type, Tuple) and isinstance(small_type, Tuple)
    whole = key_memory(lo, key, type)
    small = lo.temp(small_type.size, "short")
    _choose_map(lo, short, small, [whole.at(at + SHORT - 1) for at in long_strings(type)],
            lambda: use(info.name, whole), use, lambda: convert_tuple(lo, whole, type, small, small_type))


def long_strings(type: Type, at: int = 0) -> list[int]:
    """Offsets of the strings of more than 64 bytes."""
    if isinstance(type, Tuple):
        return [o for part, offset in zip(type.of, type.offsets) for o in long_strings(part, at + offset)]
    return [at] if isinstance(type, Str) and type.size > SHORT else []


def _choose_map(lo: Lower, short: str, mem: Mem, last: list[Mem], long_key: Callable[[], None],
            use: Callable[[str, Mem], None], prepare: Callable[[], None] | None = None) -> None:
    """A padded string is short if its 64th byte is NUL."""
    fits, long, join = lo.b.block("short"), lo.b.block("long", cold=True), lo.b.block("keyed")
    for part in last:
        more = lo.b.block("fits")
        byte: Operand = memory.read_scalar(lo, part, UINT8)
        lo.b.branch("jeq", byte, 0, more, long)
        lo.b.start(more)
    lo.b.jump(fits)
    lo.b.start(fits)
    with lo.region():
        if prepare is not None:
            prepare()
        use(short, mem)
    lo.b.jump(join)
    lo.b.start(long)
    with lo.region():
        long_key()
    lo.b.start(join)
