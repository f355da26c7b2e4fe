"""Hot elements: what each CPU has counted for the keys that it met first, in memory instead of the kernel's hash.

Finding an element in a per-CPU hash takes the kernel 26 to 40 ns, adding to it two. So each CPU has a small table of
its own, in which a key has one place. A key that finds its place taken by another, and each key's first event, goes to
the hash; only a key that is there may take its place in the table, so that the hash has all keys, and no more than the
map may have. Readers of the map add both up. The layout is in layouts/shared_maps.py.

A place is taken once, for good: nothing here can be lost, and maps that the script empties have no such table.
"""

from __future__ import annotations

from ....layouts.shared_maps import HOT_KEY, HOT_TAKEN, HOT_TAKING
from ....types import round_up
from ...ir import BasicBlock, MapAddr, Operand, Reg
from ..core import Lower
from ..state import Mem

FACTOR = 0x9E3779B1 - (1 << 32)  # 2^32 / golden ratio, as an immediate operand


def find_hot(lo: Lower, name: str, key: Mem, where: Reg, have: BasicBlock) -> Reg:
    """Set ``where`` to this CPU's words of the key in the table and go on to ``have``. Otherwise continue here; returns
    the address of the key's slot."""
    b, spec = lo.b, lo.unit.maps[name]
    table = lo.unit.maps[spec.hot]
    region = table.value_size // table.cpus
    words = [(at, size, b.load(key.base, key.off + at, size)) for at, size in _split_key(key, spec.key_size)]
    own = b.alu("mul", b.region_number(table.cpus), region)
    number = _spread_words(lo, [word for *_, word in words], region // table.stride)
    slot = b.alu("add", b.alu("add", b.address(MapAddr(table.name)), own), b.alu("mul", number, table.stride))
    differs = b.alu("xor", b.load(slot, 0), HOT_TAKEN)
    for at, size, word in words:
        differs = b.alu("or", differs, b.alu("xor", word, b.load(slot, HOT_KEY + at, size)))
    hot, missing = b.block("hot"), b.block("cold")
    b.branch("jeq", differs, 0, hot, missing)
    b.start(hot)
    b.set(where, b.alu("add", slot, HOT_KEY + round_up(spec.key_size, 8)))
    b.jump(have)
    b.start(missing)
    return slot


def claim_slot(lo: Lower, name: str, key: Mem, slot: Reg) -> None:
    """Give the key, which is in the hash, its slot in the table from now on, if the slot is free."""
    b = lo.b
    free, taken, on = b.block("free", cold=True), b.block("take", cold=True), b.block("on")
    b.branch("jeq", b.load(slot, 0), 0, free, on)
    b.start(free)
    b.branch("jeq", b.compare_exchange(slot, 0, HOT_TAKING), 0, taken, on)
    b.start(taken)
    for at, size in _split_key(key, lo.unit.maps[name].key_size):
        b.store(slot, HOT_KEY + at, b.load(key.base, key.off + at, size), size)
    b.xchg(slot, 0, HOT_TAKEN)
    b.start(on)


def _split_key(key: Mem, size: int) -> list[tuple[int, int]]:
    """(offset, bytes) of the loads that read a key where it lies."""
    parts, at = [], 0
    while at < size:
        step = 8
        while (key.off + at) % step or at % step or at + step > size:
            step //= 2
        parts.append((at, step))
        at += step
    return parts


def _spread_words(lo: Lower, words: list[Reg], slots: int) -> Operand:
    """A hash of the words below ``slots``, a power of two, to which every bit contributes."""
    b, mixed = lo.b, words[0]
    for word in words[1:]:
        mixed = b.alu("add", b.alu("mul", mixed, FACTOR), word)
    folded = b.alu("xor", mixed, b.alu("rsh", mixed, 32))
    return b.alu("rsh", b.alu("mul", folded, FACTOR, bits=32), 33 - slots.bit_length(), bits=32)
