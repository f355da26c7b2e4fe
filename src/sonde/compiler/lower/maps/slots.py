"""Slots: elements of a map in memory instead of the kernel's hash.

Measuring a latency makes, finds and deletes an element for each call, which takes the kernel's hash 190 ns (see
docs/performance.md). Here most elements are in slots of an mmapable array, where a key's slot is found by
multiplication. A slot has one owner at a time, a key. An element is in its key's slot or, where another key has that,
in the hash; the slot counts those. The layout is in layouts/shared_maps.py.

Most maps are keyed by the current thread's id or CPU. Only the thread itself, or the CPU, and what interrupts it, looks
for its key. Another thread may delete it, such as the key of a thread whose id ended with an exec. So the only races
are taking a slot (an atomic exchange decides) and giving it back (the same). The idle tasks of all CPUs share the id 0:
theirs is in the hash.

The keys of *shared* maps are any numbers, which any CPU may look for at any time: a thread that is woken, a request.
There a value is written while the slot says so, because it may otherwise be another key's by then. Whoever finds that
another CPU is writing the same element, or has just deleted it, leaves it at that: it is as if it had written just
before. This needs stores that are seen in their order.

Tuples are in *wide* slots, which are no shared ones: no other program can meet one that is being written. User space
can: a slot's first word tells it.

The map holds as many elements as it would without slots: each is paid for from a purse, the CPU's own or, if that is
empty, any other.
"""

from __future__ import annotations

import errno

from ....layouts.shared_maps import PURSE, PURSES, SLOT_OWNED, SLOT_WRITTEN, WIDE_SLOT, WIDE_VALUE
from ....types import Int
from ... import helpers as h
from ...ir import BasicBlock, MapAddr, MapFd, Operand, Reg
from ...slot_keys import is_of_cpus, is_of_threads, slot_size, slots_of
from ..core import Lower
from ..state import Mem
from ..tasks import thread_id

FACTOR = 0x9E3779B1  # 2^32 / golden ratio: ids that follow each other come to lie far apart
VALUE, OTHERS = 8, 16  # in a slot
NOBODY = SLOT_OWNED | SLOT_WRITTEN  # no slot begins with it, nor with a part of it and no key


class OwnedSlot:
    """The slot of a map's key (by default the current thread's, or CPU's): its address, the key, and the word that it
    begins with when the key's element is there (``mine``)."""

    def __init__(self, lo: Lower, name: str, key: Operand | None = None) -> None:
        b, spec = lo.b, lo.unit.maps[name]
        self.mine: Operand
        self.map, self.table, self.shared = name, spec.slots, name in lo.unit.shared_slots
        self.of_threads, self.key_size, self.value_size = is_of_threads(spec), spec.key_size, spec.value_size
        self.encoded = self.shared or not self.of_threads and not is_of_cpus(spec)
        stride = slot_size(spec)
        self.value = WIDE_VALUE if stride == WIDE_SLOT else VALUE
        if self.encoded:
            assert key is not None and isinstance(spec.key, Int)
            self.key = key
            self._encode(lo, spec.key)
        else:
            self.key = b.extend(key, 32, False) if key is not None else \
                thread_id(lo) if self.of_threads else b.cpu_number()
            self.mine = b.alu("add", self.key, SLOT_OWNED + 1)
        shift = 33 - (slots_of(lo.unit.maps[self.table], spec).bit_length())
        spread = b.alu("rsh", b.alu("mul", self.key, FACTOR - (1 << 32), bits=32), shift, bits=32)
        self.address = b.alu("add", b.address(MapAddr(self.table, PURSES * PURSE)), b.alu("mul", spread, stride))

    def _encode(self, lo: Lower, type: Int) -> None:
        """What a slot of the key begins with; for keys that no slot can have NOBODY."""
        b = lo.b
        after = b.alu("add", self.key, 1)
        if type.size < 8 and not type.signed:
            self.mine = b.alu("or", after, SLOT_OWNED)
        else:
            mine, fits, on = b.function.reg("mine"), b.block("fits"), b.block("encoded")
            b.set(mine, NOBODY)
            if type.size < 8:  # numbers of threads and the like: those below 0 are in the hash
                b.branch("jsgt", after, 0, fits, on)
                b.start(fits)
                b.set(mine, b.alu("or", after, SLOT_OWNED))
            else:
                inside = b.block("inside")
                b.branch("jeq", b.alu("rsh", b.alu("add", after, SLOT_WRITTEN), 62), 0, inside, on)
                b.start(inside)
                b.branch("jne", after, 0, fits, on)
                b.start(fits)
                free = b.alu("and", after, ~(SLOT_OWNED | SLOT_WRITTEN))
                b.set(mine, b.alu("or", free, SLOT_OWNED))
            b.start(on)
            self.mine = mine

    def taken(self, lo: Lower) -> Reg:
        """What it begins with while the key's element is put there."""
        return lo.b.alu("xor", self.mine, SLOT_OWNED) if self.encoded else lo.b.alu("add", self.key, 1)

    def written(self, lo: Lower) -> Reg:
        """What it begins with while another value is written over the element's."""
        return lo.b.alu("xor", self.mine, SLOT_WRITTEN)

    @property
    def shared_key(self) -> Operand:
        """A register that is 0 if several may have the key at a time; an operand other than 0 if that cannot be."""
        return self.key if self.of_threads and not self.encoded else 1


def find_value(lo: Lower, name: str, key: Operand | None = None) -> Reg:
    """The address of a key's value, by default the current thread's, or CPU's, or NULL."""
    b, slot = lo.b, OwnedSlot(lo, name, key)
    value = b.function.reg("found")
    b.set(value, b.alu("add", slot.address, slot.value))
    other, hashed, on = b.block("other"), b.block("hashed", cold=True), b.block("on")
    owner = b.load(slot.address, 0)
    b.branch("jeq", owner, slot.mine, on, other)
    b.start(other)
    if slot.shared:
        elsewhere = b.block("elsewhere")
        b.branch("jeq", owner, slot.written(lo), on, elsewhere)
        b.start(elsewhere)
    b.set(value, 0)
    b.branch("jeq", b.load(slot.address, OTHERS), 0, on, hashed)
    b.start(hashed)
    with lo.scope():
        b.set(value, _look_in_hash(lo, slot))
    b.start(on)
    return value


def store_value(lo: Lower, name: str, value: Operand | Mem, key: Operand | None = None) -> None:
    """Give a key's element a value, which is in memory if slots are wide; where there is no room for a new one, count
    that."""
    b, slot = lo.b, OwnedSlot(lo, name, key)
    have, other, new, taken = b.block("have"), b.block("other"), b.block("new"), b.block("taken", cold=True)
    search, there, on = (b.block(n, cold=n != "on") for n in ("search", "there", "on"))
    owner = b.load(slot.address, 0)
    b.branch("jeq", owner, slot.mine, have, other)
    b.start(other)
    b.branch("jeq", b.alu("or", owner, b.load(slot.address, OTHERS)), 0, new, taken)
    b.start(taken)
    half = b.block("half", cold=True)
    if slot.shared:
        b.branch("jeq", owner, slot.written(lo), on, half)
        b.start(half)
        b.branch("jeq", owner, slot.taken(lo), on, search)
    else:
        b.branch("jeq", slot.shared_key, 0, search, half)
        b.start(half)
        b.branch("jeq", owner, slot.taken(lo), have, search)  # what was interrupted is taking it
    b.start(search)
    with lo.scope():
        hashed = _look_in_hash(lo, slot)
    b.branch("jeq", hashed, 0, new, there)
    b.start(there)
    if slot.shared:
        _update_hash(lo, slot, value, h.UPDATE_EXIST)  # not there any more: it was deleted after this wrote it
    else:
        _put(lo, slot, hashed, 0, value)
    b.jump(on)
    b.start(new)
    _make_element(lo, slot, value, have, on)
    b.start(have)
    if slot.shared:
        assert not isinstance(value, Mem)
        write, written = b.block("write"), slot.written(lo)
        b.branch("jeq", b.compare_exchange(slot.address, slot.mine, written), slot.mine, write, on)
        b.start(write)
        b.store(slot.address, VALUE, value)
        b.store(slot.address, 0, slot.mine)
    elif isinstance(value, Mem):
        b.store(slot.address, 0, slot.written(lo))  # for who reads the table
        _put(lo, slot, slot.address, slot.value, value)
        b.store(slot.address, 0, slot.mine)
    else:
        b.store(slot.address, VALUE, value)
    b.start(on)


def _put(lo: Lower, slot: OwnedSlot, base: Reg, offset: int, value: Operand | Mem) -> None:
    """Store an element's value."""
    if not isinstance(value, Mem):
        lo.b.store(base, offset, value)
        return
    for at in range(0, slot.value_size, 8):
        lo.b.store(base, offset + at, lo.b.load(value.base, value.off + at))


def _make_element(lo: Lower, slot: OwnedSlot, value: Operand | Mem, have: BasicBlock, on: BasicBlock) -> None:
    """Make the element in the slot, or in the hash if another key has the slot; to ``have`` if this one has it now."""
    b = lo.b
    purse = _own_purse(lo, slot)
    paid, claim, claimed, lost = b.block("paid"), b.block("claim"), b.block("claimed"), b.block("lost", cold=True)
    outside, refund = b.block("outside", cold=True), b.block("refund", cold=True)
    _pay(lo, slot, purse, paid, on)
    b.start(paid)
    if slot.encoded:
        b.branch("jeq", slot.mine, NOBODY, outside, claim)
    else:
        b.branch("jeq", slot.shared_key, 0, outside, claim)
    b.start(claim)
    owner = b.compare_exchange(slot.address, 0, slot.taken(lo))
    b.branch("jeq", owner, 0, claimed, lost)
    b.start(claimed)
    _put(lo, slot, slot.address, slot.value, value)
    b.store(slot.address, 0, slot.mine)
    b.jump(on)
    b.start(lost)
    settled = b.alu("and", owner, ~SLOT_WRITTEN) if slot.shared else owner
    b.branch("jeq", b.alu("or", settled, SLOT_OWNED), slot.mine, refund, outside)
    b.start(refund)
    b.atomic_add(purse, 0, 1)
    b.jump(on if slot.shared else have)
    b.start(outside)
    _insert_outside(lo, slot, purse, value)
    b.jump(on)


def _insert_outside(lo: Lower, slot: OwnedSlot, purse: Operand, value: Operand | Mem) -> None:
    """Insert into the hash. Idle tasks, which share an id, and CPUs that share a map may do so at the same time: then
    the first one's element is there."""
    b = lo.b
    failed, counted, on = b.block("failed", cold=True), b.block("counted", cold=True), b.block("inserted", cold=True)
    b.atomic_add(slot.address, OTHERS, 1)
    result = _update_hash(lo, slot, value, h.UPDATE_NEW)
    b.branch("jslt", result, 0, failed, on, h.MAP_RESULT)
    b.start(failed)
    b.atomic_add(slot.address, OTHERS, -1)
    b.atomic_add(purse, 0, 1)
    b.branch("jeq", result, -errno.EEXIST, on, counted, h.MAP_RESULT)
    b.start(counted)
    lo.count_update(slot.map, result)
    b.start(on)


def delete_value(lo: Lower, name: str, key: Operand | None = None) -> Operand:
    """Delete the element of a key, the current thread's, or CPU's, if ``key`` is None; 0 or -ENOENT, as the helper has
    it."""
    b, slot = lo.b, OwnedSlot(lo, name, key)
    result = b.function.reg("deleted")
    gone, other, on = b.block("gone"), b.block("other"), b.block("on")
    b.set(result, 0)
    owner = b.compare_exchange(slot.address, slot.mine, 0)
    b.branch("jeq", owner, slot.mine, gone, other)
    b.start(other)
    if slot.shared:
        elsewhere = b.block("elsewhere")
        b.branch("jeq", owner, slot.written(lo), on, elsewhere)  # what is being written comes after this
        b.start(elsewhere)
    b.set(result, -errno.ENOENT)
    _delete_from_hash(lo, slot, result, on)
    b.jump(gone)
    b.start(gone)
    b.atomic_add(_own_purse(lo, slot), 0, 1)
    if slot.shared:  # two CPUs that made the same element at once may have put one of them there
        twin = b.function.reg("twin")
        _delete_from_hash(lo, slot, twin, on)
        b.atomic_add(_own_purse(lo, slot), 0, 1)
        b.jump(on)
    b.start(on)
    return result


def _delete_from_hash(lo: Lower, slot: OwnedSlot, result: Reg, on: BasicBlock) -> None:
    """Delete the key's element from the hash; to ``on`` if it is not there."""
    b = lo.b
    hashed, removed = b.block("hashed", cold=True), b.block("removed", cold=True)
    b.branch("jeq", b.load(slot.address, OTHERS), 0, on, hashed)
    b.start(hashed)
    with lo.scope():
        key = lo.operand_address(_hash_key(lo, slot))
        b.set(result, b.call(h.MAP_DELETE, [MapFd(slot.map), key], "map_delete_elem"))
    b.branch("jeq", result, 0, removed, on, h.MAP_RESULT)
    b.start(removed)
    b.atomic_add(slot.address, OTHERS, -1)


def _update_hash(lo: Lower, slot: OwnedSlot, value: Operand | Mem, flags: int) -> Reg:
    with lo.scope():
        element = value if isinstance(value, Mem) else lo.temp(8, "value")
        if not isinstance(value, Mem):
            lo.b.store(element.base, element.off, value)
        return lo.b.call(h.MAP_UPDATE, [MapFd(slot.map), lo.operand_address(_hash_key(lo, slot)),
                                        lo.operand_address(element), flags], "map_update_elem")


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
