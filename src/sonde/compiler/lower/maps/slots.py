"""Slots: elements of a map keyed by the current thread's id or CPU, in memory instead of the kernel's hash.

Measuring a latency makes, finds and deletes an element for each call, which takes the kernel's hash 190 ns (see
docs/performance.md). Here most elements are in slots of an mmapable array, where a thread's slot is found by
multiplication. A slot has one owner at a time, a thread or a CPU. An element is in its owner's slot or, where another
one has that, in the hash; the slot counts those. The layout is in layouts/shared_maps.py.

Only the thread itself, or the CPU, and what interrupts it, looks for its key. Another thread may delete it, such as the
key of a thread whose id ended with an exec. So the only races are taking a slot (an atomic exchange decides) and giving
it back (the same). The idle tasks of all CPUs share the id 0: theirs is in the hash.

The map holds as many elements as it would without slots: each is paid for from a purse, the CPU's own or, if that is
empty, any other.
"""

from __future__ import annotations

import errno

from ....layouts.shared_maps import PURSE, PURSES, SLOT, SLOT_OWNED
from ... import helpers as h
from ...ir import BasicBlock, MapAddr, MapFd, Operand, Reg
from ...slot_keys import is_of_threads, slots_of
from ..core import Lower
from ..state import Mem
from ..tasks import thread_id

FACTOR = 0x9E3779B1  # 2^32 / golden ratio: ids that follow each other come to lie far apart
VALUE, OTHERS = 8, 16  # in a slot


class OwnedSlot:
    """The slot of a map's key (by default the current thread's, or CPU's): its address, the key, and the words that it
    begins with while the key's element is put there, and when it is there."""

    def __init__(self, lo: Lower, name: str, key: Operand | None = None) -> None:
        b, spec = lo.b, lo.unit.maps[name]
        self.map, self.table = name, spec.slots
        self.of_threads, self.key_size = is_of_threads(spec), spec.key_size
        self.key: Operand = b.extend(key, 32, False) if key is not None else \
            thread_id(lo) if self.of_threads else b.cpu_number()
        self.mine = b.alu("add", self.key, SLOT_OWNED + 1 - (1 << 64))
        shift = 33 - (slots_of(lo.unit.maps[self.table]).bit_length())
        spread = b.alu("rsh", b.alu("mul", self.key, FACTOR - (1 << 32), bits=32), shift, bits=32)
        self.address = b.alu("add", b.address(MapAddr(self.table, PURSES * PURSE)), b.alu("mul", spread, SLOT))


    @property
    def shared_key(self) -> Operand:
        """A register that is 0 if several may have the key at a time; an operand other than 0 if that cannot be."""
        return self.key if self.of_threads else 1


def find_value(lo: Lower, name: str) -> Reg:
    """The address of the current thread's, or CPU's, value, or NULL."""
    b, slot = lo.b, OwnedSlot(lo, name)
    value = b.function.reg("found")
    b.set(value, b.alu("add", slot.address, VALUE))
    other, hashed, on = b.block("other"), b.block("hashed", cold=True), b.block("on")
    b.branch("jeq", b.load(slot.address, 0), slot.mine, on, other)
    b.start(other)
    b.set(value, 0)
    b.branch("jeq", b.load(slot.address, OTHERS), 0, on, hashed)
    b.start(hashed)
    with lo.scope():
        b.set(value, _look_in_hash(lo, slot))
    b.start(on)
    return value


def store_value(lo: Lower, name: str, value: Operand) -> None:
    """Give the current thread's, or CPU's, element a value; where there is no room for a new one, count that."""
    b, slot = lo.b, OwnedSlot(lo, name)
    have, other, new, taken = b.block("have"), b.block("other"), b.block("new"), b.block("taken", cold=True)
    half, search, there, on = (b.block(n, cold=n != "on") for n in ("half", "search", "there", "on"))
    owner = b.load(slot.address, 0)
    b.branch("jeq", owner, slot.mine, have, other)
    b.start(other)
    b.branch("jeq", b.alu("or", owner, b.load(slot.address, OTHERS)), 0, new, taken)
    b.start(taken)
    b.branch("jeq", slot.shared_key, 0, search, half)
    b.start(half)
    b.branch("jeq", owner, b.alu("add", slot.key, 1), have, search)  # what was interrupted is taking it
    b.start(search)
    with lo.scope():
        hashed = _look_in_hash(lo, slot)
    b.branch("jeq", hashed, 0, new, there)
    b.start(there)
    b.store(hashed, 0, value)
    b.jump(on)
    b.start(new)
    _make_element(lo, slot, value, have, on)
    b.start(have)
    b.store(slot.address, VALUE, value)
    b.start(on)


def _make_element(lo: Lower, slot: OwnedSlot, value: Operand, have: BasicBlock, on: BasicBlock) -> None:
    """Make the element in the slot, or in the hash if another key has the slot; to ``have`` if this one has it now."""
    b = lo.b
    purse = _own_purse(lo, slot)
    paid, claim, claimed, lost = b.block("paid"), b.block("claim"), b.block("claimed"), b.block("lost", cold=True)
    outside, refund = b.block("outside", cold=True), b.block("refund", cold=True)
    _pay(lo, slot, purse, paid, on)
    b.start(paid)
    b.branch("jeq", slot.shared_key, 0, outside, claim)
    b.start(claim)
    owner = b.compare_exchange(slot.address, 0, b.alu("add", slot.key, 1))
    b.branch("jeq", owner, 0, claimed, lost)
    b.start(claimed)
    b.store(slot.address, VALUE, value)
    b.store(slot.address, 0, slot.mine)
    b.jump(on)
    b.start(lost)
    b.branch("jeq", b.alu("or", owner, SLOT_OWNED - (1 << 64)), slot.mine, refund, outside)
    b.start(refund)
    b.atomic_add(purse, 0, 1)
    b.jump(have)
    b.start(outside)
    _insert_outside(lo, slot, purse, value)
    b.jump(on)


def _insert_outside(lo: Lower, slot: OwnedSlot, purse: Operand, value: Operand) -> None:
    """Insert into the hash. Idle tasks, which share an id, may do so at the same time: then the first one's element is
    there."""
    b = lo.b
    failed, counted, on = b.block("failed", cold=True), b.block("counted", cold=True), b.block("inserted", cold=True)
    b.atomic_add(slot.address, OTHERS, 1)
    with lo.scope():
        element = lo.temp(8, "value")
        b.store(element.base, element.off, value)
        result = b.call(h.MAP_UPDATE, [MapFd(slot.map), lo.operand_address(_hash_key(lo, slot)),
                                       lo.operand_address(element), h.UPDATE_NEW], "map_update_elem")
    b.branch("jslt", result, 0, failed, on, h.MAP_RESULT)
    b.start(failed)
    b.atomic_add(slot.address, OTHERS, -1)
    b.atomic_add(purse, 0, 1)
    b.branch("jeq", result, -errno.EEXIST, on, counted, h.MAP_RESULT)
    b.start(counted)
    lo.count_update(slot.map, result)
    b.start(on)


def delete_value(lo: Lower, name: str, key: Operand | None = None) -> Operand:
    """Delete the element of a thread, or CPU, the current one's if ``key`` is None; 0 or -ENOENT, as the helper has
    it."""
    b, slot = lo.b, OwnedSlot(lo, name, key)
    result = b.function.reg("deleted")
    gone, other, on = b.block("gone"), b.block("other"), b.block("on")
    hashed, removed = b.block("hashed", cold=True), b.block("removed", cold=True)
    b.set(result, 0)
    b.branch("jeq", b.compare_exchange(slot.address, slot.mine, 0), slot.mine, gone, other)
    b.start(other)
    b.set(result, -errno.ENOENT)
    b.branch("jeq", b.load(slot.address, OTHERS), 0, on, hashed)
    b.start(hashed)
    with lo.scope():
        b.set(result, b.call(h.MAP_DELETE, [MapFd(name), lo.operand_address(_hash_key(lo, slot))], "map_delete_elem"))
    b.branch("jeq", result, 0, removed, on, h.MAP_RESULT)
    b.start(removed)
    b.atomic_add(slot.address, OTHERS, -1)
    b.jump(gone)
    b.start(gone)
    b.atomic_add(_own_purse(lo, slot), 0, 1)
    b.start(on)
    return result


def _hash_key(lo: Lower, slot: OwnedSlot) -> Mem:
    key = lo.temp(slot.key_size, "key")
    lo.b.store(key.base, key.off, slot.key, slot.key_size)
    return key


def _look_in_hash(lo: Lower, slot: OwnedSlot) -> Reg:
    return lo.b.call(h.MAP_LOOKUP, [MapFd(slot.map), lo.operand_address(_hash_key(lo, slot))], "map_lookup_elem")


def _own_purse(lo: Lower, slot: OwnedSlot) -> Reg:
    offset = lo.b.alu("mul", lo.b.region_number(PURSES), PURSE)
    return lo.b.alu("add", lo.b.address(MapAddr(slot.table)), offset)


def _pay(lo: Lower, slot: OwnedSlot, own: Reg, paid: BasicBlock, on: BasicBlock) -> None:
    """Take an element's cost from a purse and go on to ``paid``; if all are empty, count that and go on to ``on``."""
    b = lo.b
    empty = b.block("empty", cold=True)
    b.branch("jsgt", lo.fetch_add(own, 0, -1), 0, paid, empty)
    b.start(empty)
    b.atomic_add(own, 0, 1)
    for number in range(min(lo.world.cpus, PURSES)):
        some, back, following = (b.block(n, cold=True) for n in ("some", "back", "following"))
        purse = b.address(MapAddr(slot.table, number * PURSE))
        b.branch("jsgt", b.load(purse, 0), 0, some, following)
        b.start(some)
        b.branch("jsgt", lo.fetch_add(purse, 0, -1), 0, paid, back)
        b.start(back)
        b.atomic_add(purse, 0, 1)
        b.start(following)
    lo.count_error("map_full", "map_update_elem", slot.map)
    b.jump(on)
