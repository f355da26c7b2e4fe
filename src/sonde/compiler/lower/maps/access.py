"""Script maps: keys, lookups, plain values, deletion. Aggregates are in ``aggregates``."""

from __future__ import annotations

import errno

from ....language.ast import (
    Binary,
    BoolLiteral,
    Cast,
    Expr,
    FieldAccess,
    IntLiteral,
    MapRef,
    Name,
    StrLiteral,
    TupleExpr,
    Unary,
    Variable,
)
from ....semantics.callees import BuiltinRow
from ....semantics.nodes import is_args
from ....semantics.typed import ScriptMap
from ....types import Int, Scalar
from ... import helpers as h
from ...ir import BasicBlock, MapAddr, MapFd, Operand, Reg
from ...slot_keys import is_of_cpus, is_of_threads, is_owner
from .. import memory
from ..control.variables import replace_value
from ..conversion import convert_value
from ..core import Lower
from ..state import Lookup, Mem, Signature
from ..tasks import slot_number
from . import access, hot, slots
from .keys import use_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


def info_of(lo: Lower, ref: MapRef) -> ScriptMap:
    return lo.unit.checked.maps[ref.name]


def value_signature(lo: Lower, expr: Expr | None) -> Signature | None:
    """A key of which equal ones mean equal values within one run; None if that is not certain."""
    if expr is None:
        return ()
    if expr.const is not None:
        return ("const", expr.const)
    if isinstance(expr, (IntLiteral, StrLiteral, BoolLiteral)):
        return ("const", expr.value)
    if isinstance(expr, Name):
        return ("name", expr.name) if isinstance(expr.callee, BuiltinRow) and expr.callee.pure else None
    if isinstance(expr, Variable):
        home = lo.state.variables.get(id(expr.slot))
        return ("var", home.id) if isinstance(home, Reg) and home.defs == 1 else None
    parts: list[Expr]
    if isinstance(expr, TupleExpr):
        head, parts = f"tuple {' '.join(expr.names)}", expr.items
    elif isinstance(expr, FieldAccess) and is_args(expr.operand):
        head, parts = "args." + expr.name, []
    elif isinstance(expr, Binary) and expr.op not in ("&&", "||"):
        head, parts = expr.op, [expr.left, expr.right]
    elif isinstance(expr, Unary) and expr.op in ("-", "~", "!"):
        head, parts = expr.op, [expr.operand]
    elif isinstance(expr, Cast):
        head, parts = str(expr.type), [expr.operand]
    else:
        return None
    inner = [value_signature(lo, part) for part in parts]
    return None if None in inner else (head, *inner)


def look_up(lo: Lower, ref: MapRef) -> Lookup:
    """Look up a key, or use the result of an earlier lookup."""
    assert ref.key is not None
    signature = value_signature(lo, ref.key)
    known = lo.state.lookups.get((ref.name, signature)) if signature is not None else None
    if known is not None:
        return known
    lookup = Lookup(find_value(lo, info_of(lo, ref), ref.key), False)
    if signature is not None:
        lo.state.lookups[ref.name, signature] = lookup
    return lookup


def find_value(lo: Lower, info: ScriptMap, key: Expr) -> Reg:
    """The address of the value under a key, or NULL."""
    if lo.unit.maps[info.name].slots:
        return slots.find_value(lo, info.name, _slot_key(lo, info.name, key))
    pointers: list[Reg] = []

    def look(name: str, mem: Mem) -> None:
        pointers.append(lo.b.call(h.MAP_LOOKUP, [MapFd(name), lo.operand_address(mem)], "map_lookup_elem"))
        if len(pointers) == 1:
            pointers.append(lo.b.function.reg("found"))
        lo.b.set(pointers[1], pointers[-1] if len(pointers) > 2 else pointers[0])
    with lo.scope():
        use_key(lo, info, key, look)
    return pointers[1]


def _slot_key(lo: Lower, name: str, key: Expr) -> Operand | None:
    """The key's value, as the map's type has it; None in maps whose only key is the current thread's, or CPU's."""
    spec = lo.unit.maps[name]
    if name not in lo.unit.shared_slots and (is_of_threads(spec) or is_of_cpus(spec)):
        return None
    type = spec.key
    assert isinstance(type, Int)
    value = lo.scalar_value(key)
    return lo.b.extend(value, type.size * 8, type.signed) if type.size < 8 else value


def branch_on_presence(lo: Lower, ref: MapRef, lookup: Lookup, have: BasicBlock, absent: BasicBlock) -> None:
    """Branch on whether the element exists; with -k its absence is counted."""
    if not lo.unit.options.count_reads:
        lo.b.branch("jeq", lookup.pointer, 0, absent, have)
        return
    missing = lo.b.block("missing", cold=True)
    lo.b.branch("jeq", lookup.pointer, 0, missing, have)
    lo.b.start(missing)
    outer, lo.expression_span = lo.expression_span, ref.span
    lo.count_error("no_key", "map_lookup_elem")
    lo.expression_span = outer
    lo.b.jump(absent)


def know_present(lo: Lower, ref: MapRef, lookup: Lookup) -> None:
    """In the region that follows, ``lookup`` is not NULL."""
    known = value_signature(lo, ref.key)
    if known is not None:
        lo.state.lookups[(ref.name, known)] = Lookup(lookup.pointer, True)


def read_element(lo: Lower, ref: MapRef) -> Operand:
    """A scalar element; 0 where there is none."""
    info = info_of(lo, ref)
    spec = lo.unit.maps[ref.name]
    if spec.memory:
        return memory.read_scalar(lo, Mem(MapAddr(ref.name)), info.value)
    lookup = look_up(lo, ref)
    if lookup.present:
        return memory.read_scalar(lo, Mem(lookup.pointer), info.value)
    value = lo.b.function.reg("elem")
    lo.b.set(value, 0)
    have, on = lo.b.block("have"), lo.b.block("on")
    branch_on_presence(lo, ref, lookup, have, on)
    lo.b.start(have)
    lo.b.set(value, memory.read_scalar(lo, Mem(lookup.pointer), info.value))
    lo.b.start(on)
    return value


def locate_element(lo: Lower, ref: MapRef) -> Mem:
    """The memory of an element that is not a scalar; zeros if there is none."""
    info = info_of(lo, ref)
    if lo.unit.maps[ref.name].memory:
        return Mem(MapAddr(ref.name))
    lookup = look_up(lo, ref)
    if lookup.present:
        return Mem(lookup.pointer)
    where = lo.b.function.reg("elem")
    missing, on = lo.b.block("missing"), lo.b.block("on")
    lo.b.set(where, lookup.pointer)
    branch_on_presence(lo, ref, lookup, on, missing)
    lo.b.start(missing)
    lo.b.set(where, lo.b.address(lo.unit.zero(info.value.size)))
    lo.b.start(on)
    return Mem(where)


def branch_on_element(lo: Lower, ref: MapRef, yes: BasicBlock, no: BasicBlock) -> None:
    """``/@x[k]/``: the element exists and is not zero. In the yes arm its address is known."""
    info = info_of(lo, ref)
    if lo.unit.maps[ref.name].memory or not isinstance(info.value, Scalar):
        lo.b.branch("jne", read_element(lo, ref), 0, yes, no)
        return
    lookup = look_up(lo, ref)
    if not lookup.present:
        have = lo.b.block("have")
        branch_on_presence(lo, ref, lookup, have, no)
        lo.b.start(have)
        know_present(lo, ref, lookup)
    lo.b.branch("jne", memory.read_scalar(lo, Mem(lookup.pointer), info.value), 0, yes, no)


def update_element(lo: Lower, name: str, key: Mem, value: Operand, flags: int = h.UPDATE_ANY) -> Reg:
    """bpf_map_update_elem; a failure other than "exists already" is counted by map and line."""
    result = lo.b.call(h.MAP_UPDATE, [MapFd(name), lo.operand_address(key), value, flags], "map_update_elem")
    if flags == h.UPDATE_ANY:
        lo.count_update(name, result)
    lo.forget(name)
    return result


def assign_element(lo: Lower, ref: MapRef, value: Expr) -> None:
    """``@m = value`` and ``@m[k] = value`` for anything but aggregates."""
    info = info_of(lo, ref)
    if ref.key is None:
        target = Mem(MapAddr(ref.name))
        if isinstance(info.value, Scalar):
            lo.store_value(target, info.value, lo.stored_value(value))
        else:
            replace_value(lo, ref, value, target, info.value)
        mark_set(lo, ref.name)
        return
    if lo.unit.maps[ref.name].slots and isinstance(info.value, Scalar):
        stored = lo.stored_value(value)
        slots.store_value(lo, ref.name, stored, _slot_key(lo, ref.name, ref.key))
        lo.forget(ref.name)
        return
    size = lo.unit.maps[ref.name].value_size
    # bpftrace evaluates the value before the key.
    source = lo.locate_value(value) if value.type == info.value and not isinstance(info.value, Scalar) else None
    if source is not None and source.space == "bpf" and info.value.size == size:
        bytes_ = source
    else:
        bytes_ = lo.temp(size, "value")
        if info.value.size < size:
            memory.clear_bytes(lo, bytes_.at(size - 8), 8)
        if source is None:
            lo.write_value(value, bytes_, info.value)
        else:
            convert_value(lo, source, info.value, bytes_, info.value, True)
    if lo.unit.maps[ref.name].slots:
        slots.store_value(lo, ref.name, bytes_, _slot_key(lo, ref.name, ref.key))
    else:
        use_key(lo, info, ref.key, lambda name, key: _store_value(lo, name, key, lo.operand_address(bytes_)))
    lo.forget(ref.name)


def mark_set(lo: Lower, name: str) -> None:
    """A map without keys has a value from now on; without one nothing is printed."""
    lo.b.store(MapAddr(name, lo.unit.maps[name].marker), 0, 1, 8)


def _store_value(lo: Lower, name: str, key: Mem, value: Operand) -> None:
    update_element(lo, name, key, value)


def find_or_insert(lo: Lower, ref: MapRef) -> tuple[Reg, BasicBlock]:
    """The address of an element, inserted as zeros if it was missing; the block to jump to when done.

    If there is no room the failure is counted and that block is reached without running what follows.
    """
    spec = lo.unit.maps[ref.name]
    info = info_of(lo, ref)
    assert ref.key is not None and info.key is not None
    done = lo.b.block("updated")
    known = value_signature(lo, ref.key)
    cached = lo.state.lookups.get((ref.name, known)) if known is not None else None
    if cached is not None and cached.present:
        return cached.pointer, done
    where = lo.b.function.reg("elem")
    use_key(lo, info, ref.key, lambda name, key: _find_or_insert(lo, name, key, where, spec.value_size, done))
    lo.forget(ref.name)
    return where, done


def _find_or_insert(lo: Lower, name: str, key: Mem, where: Reg, size: int, done: BasicBlock) -> None:
    if not lo.unit.maps[name].hot:
        insert_missing(lo, name, key, where, size, done)
        return
    have = lo.b.block("have")
    slot = hot.find_hot(lo, name, key, where, have)
    insert_missing(lo, name, key, where, size, done)
    hot.claim_slot(lo, name, key, slot)
    lo.b.start(have)


def insert_missing(lo: Lower, name: str, key: Mem, where: Reg, size: int, done: BasicBlock) -> None:
    """``where`` = the address of the element under ``key``; without room for it on to ``done``."""
    first = lo.b.call(h.MAP_LOOKUP, [MapFd(name), lo.operand_address(key)], "map_lookup_elem")
    lo.b.set(where, first)
    missing, again, have = (lo.b.block(n, cold=n != "have") for n in ("missing", "again", "have"))
    lo.b.branch("jeq", first, 0, missing, have)
    lo.b.start(missing)
    zeros = lo.unit.zero(size)
    result = lo.b.call(h.MAP_UPDATE, [MapFd(name), lo.operand_address(key), zeros, h.UPDATE_NEW], "map_update_elem")
    second = lo.b.call(h.MAP_LOOKUP, [MapFd(name), lo.operand_address(key)], "map_lookup_elem")
    lo.b.set(where, second)
    lo.b.branch("jne", second, 0, have, again)
    lo.b.start(again)
    lo.count_update(name, result)
    lo.b.jump(done)
    lo.b.start(have)


def delete_key(lo: Lower, name: str, key: Expr | None) -> Operand:
    """``delete(@m, k)``: as the helper has it, 0 or a negative error. A map without keys loses its value."""
    info = lo.unit.checked.maps[name]
    if key is None:
        spec = lo.unit.maps[name]
        there = lo.b.load(MapAddr(name), spec.marker) if spec.cpus == 1 and spec.marker else 1
        memory.clear_bytes(lo, Mem(MapAddr(name)), spec.value_size)
        return 0 if isinstance(there, int) else lo.b.alu("mul", lo.b.alu("sub", there, 1), errno.ENOENT)
    if lo.unit.maps[name].slots:
        lo.forget(name)
        given = _slot_key(lo, name, key)
        if given is None and not is_owner(key, info.key):
            given = lo.scalar_value(key)
        return slots.delete_value(lo, name, given)
    result = lo.b.function.reg("deleted")

    def remove(name: str, mem: Mem) -> None:
        lo.b.set(result, lo.b.call(h.MAP_DELETE, [MapFd(name), lo.operand_address(mem)], "map_delete_elem"))
    with lo.scope():
        use_key(lo, info, key, remove)
    lo.forget(name)
    return result


def branch_on_key(lo: Lower, name: str, key: Expr, yes: BasicBlock, no: BasicBlock) -> None:
    """Branch on the existence of a key."""
    lookup = look_up(lo, MapRef(key.span, name=name, key=key))
    lo.b.branch("jne", lookup.pointer, 0, yes, no)


def own_words(lo: Lower, ref: MapRef) -> tuple[Reg, BasicBlock]:
    """The address of this CPU's words of an aggregate, inserted if missing, and the block after the update."""
    spec = lo.unit.maps[ref.name]
    element = None
    if ref.key is None:
        done = lo.b.block("updated")
    else:
        element, done = access.find_or_insert(lo, ref)
    if spec.cpus == 1:
        return element or lo.b.address(MapAddr(ref.name)), done
    number = slot_number(lo, spec.cpus, done)
    first = element or lo.b.address(MapAddr(ref.name))
    return lo.b.alu("add", first, lo.b.alu("mul", number, spec.stride)), done
