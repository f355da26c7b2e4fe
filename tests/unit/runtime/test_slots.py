"""Tables of slots: every element is read wherever it lies, and nothing is left of an emptied table."""

from __future__ import annotations

import random
from struct import pack, pack_into

import pytest

from sonde.layouts.shared_maps import PURSE, PURSES, SLOT, SLOT_OWNED
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
