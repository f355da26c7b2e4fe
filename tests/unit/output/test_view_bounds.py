"""What views collect until the end is bounded, and what does not fit is counted or keeps its weight."""

from __future__ import annotations

from typing import Any

from sonde import types as t
from sonde.output.views.heat import HeatCollector
from sonde.output.views.stacks import LEFT_OUT, Folder
from sonde.output.views.view import Totals
from sonde.runtime.maps.aggregates import Histogram
from sonde.spec import MapSpec

COUNTED = MapSpec("@", "hash", 16, 8, 100, key=t.Str(16), value=t.Aggregate("count"))


def histogram(*values: int) -> Any:
    counts = [0] * 66
    for value in values:
        counts[value.bit_length() + 1] += 1
    return Histogram(counts)


def test_stacks_beyond_the_room_keep_their_weight() -> None:
    folder = Folder(["@"], 1000)
    for second in range(50):
        folder.add_items(COUNTED, [(f"comm{second}", 2)], "clear")
    folder.add_items(COUNTED, [("comm0", 5)], "clear")
    found = folder.folded
    assert found["comm0",] == 7 and len(found) < 10
    assert sum(found.values()) == 105 and found[LEFT_OUT] > 80


def test_names_beyond_the_room_too() -> None:
    """Maps that are not emptied hold what was asked for, but the names in them may be of any length."""
    folder = Folder(["@"], 100_000)
    folder.add_items(COUNTED, [(str(second) * 2000, 1) for second in range(100)], "")
    found = folder.folded
    assert sum(found.values()) == 100 and 20 < len(found) < 60 and found[LEFT_OUT] > 40
    assert sum(len(name) for frames in found for name in frames) < 100_000


def test_columns_are_joined_when_they_are_too_many() -> None:
    collector = HeatCollector("@h", 20_000)
    for second in range(1000):
        collector.add_items([(None, histogram(second % 7))], second, "clear")
    [heat] = collector.heats
    assert 16 <= len(heat.columns) <= 40 and sum(heat.row_totals) == 1000
    assert [column.time for column in heat.columns] == sorted(column.time for column in heat.columns)
    assert heat.columns[-1].time == 999


def test_long_keys_take_their_room() -> None:
    totals = Totals(100_000)
    for second in range(30):
        totals.add_items([((str(second) * 10_000, 1), 1)], "clear")
    assert 4 < len(totals.items) < 12 and len(totals.items) + totals.left_out == 30


def test_keys_of_heat_maps_that_find_no_room_are_joined() -> None:
    collector = HeatCollector("@h", 2_000_000)
    for second in range(1000):
        collector.add_items([(f"{second:03}" * 2_000, histogram(second % 7))], second, "clear")
        assert collector._bytes <= 2_000_000 and len(collector._keys) < 20
    heats = collector.heats
    assert sum(sum(heat.row_totals) for heat in heats) == 1000 and 10 < len(heats) <= 20
    assert heats[0].name == "@h[[left out: --memory]]" and sum(heats[0].row_totals) > 900


def test_pairs_that_find_no_room_are_counted() -> None:
    totals = Totals(4000)
    for second in range(30):
        totals.add_items([((second, 1), 1)], "clear")
    assert len(totals.items) + totals.left_out == 30 and totals.left_out == 20
