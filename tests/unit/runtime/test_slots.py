"""Tables of slots: every element is read wherever it lies, and nothing is left of an emptied table."""

from __future__ import annotations

import random
from struct import pack, pack_into

import pytest

from sonde.layouts.shared_maps import PURSE, PURSES, SLOT, SLOT_OWNED, SLOT_WRITTEN
from sonde.runtime.maps.slots import free_slots, read_elements, zero_values

FIRST = PURSES * PURSE


def put(table: bytearray, slot: int, owner: int, value: int) -> None:
    pack_into("=QQ", table, FIRST + slot * SLOT, owner, value)


@pytest.mark.parametrize("slots", [4, 256, 512, 4096])
def test_elements_of_a_table(slots: int) -> None:
    """Of slots that are free, being taken, given back with the old value in them, and owned; then none, and the purses
    as they were."""
    table = bytearray(FIRST + slots * SLOT)
    pack_into("=Q", table, 0, 77)
    dice = random.Random(slots)
    owned = sorted({0, slots - 1, *[dice.randrange(slots) for _ in range(slots // 50)]})
    for slot in owned:
        put(table, slot, SLOT_OWNED + 1000 + slot + 1, slot * 3)
    for slot in set(range(0, slots, 7)).difference(owned):
        put(table, slot, slot % 2 and slot + 1, 99)
    expected = {pack("=I", 1000 + slot): pack("=Q", slot * 3) for slot in owned}
    assert read_elements(memoryview(table), 4) == expected
    zero_values(memoryview(table))
    assert read_elements(memoryview(table), 4) == dict.fromkeys(expected, bytes(8))
    free_slots(memoryview(table))
    assert table == pack("=Q", 77) + bytes(len(table) - 8)


@pytest.mark.parametrize("key", [0, 1, 77, (1 << 61) - 2, (1 << 64) - 2, 0xffff888012345678, (1 << 64) - (1 << 61) - 1])
def test_keys_of_all_sizes(key: int) -> None:
    """Also while another value is written over the element's; not while the slot is being taken."""
    table, after = bytearray(FIRST + 4 * SLOT), (key + 1) % (1 << 64)
    free = after & ~(SLOT_OWNED | SLOT_WRITTEN)
    put(table, 1, free, 5)
    assert read_elements(memoryview(table), 8) == {}
    for state in (SLOT_OWNED, SLOT_OWNED | SLOT_WRITTEN):
        put(table, 1, free | state, 5)
        assert read_elements(memoryview(table), 8) == {pack("=Q", key): pack("=Q", 5)}
