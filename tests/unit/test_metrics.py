"""Maps as metrics: what is added up over weeks in which keys come and go."""

from __future__ import annotations

import tracemalloc

from sonde import types as t
from sonde.exporters.metrics import Gatherer, MapMetric
from sonde.runtime.aggregates import Stats
from sonde.runtime.losses import Losses
from sonde.spec import Config, MapSpec, ScriptSpec


def metric(value: t.Type, most: int) -> MapMetric:
    return MapMetric(MapSpec("@n", "hash", 8, 8, 16, key=t.Str(16), value=value), "sonde_n", ("comm",), most)


def points(of: MapMetric, *items: tuple[str, object]) -> dict[str, object]:
    return {labels[0]: value for labels, value in of.make_family(items).points}


def test_nothing_is_held_of_keys_that_were_cleared_away_but_their_sum() -> None:
    made, held = metric(t.Aggregate("count"), 10), []
    tracemalloc.start()
    for portion in range(60):
        made.note_cleared([(f"key {portion} {number}", number) for number in range(500)])
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    found = points(made, ("new", 5), ("key 0 499", 1))
    assert found.pop("key 0 499") == 500 and found.pop("other") == 60 * sum(range(500)) + 5 - sum(range(490, 500))
    assert found == {f"key 0 {number}": number for number in range(490, 499)}
    assert made.others == 500 and held[-1] < 1.2 * held[2]


def test_what_is_cleared_and_what_is_there_are_one() -> None:
    made = metric(t.Aggregate("stats"), 2)
    made.note_cleared([("a", Stats(2, 5, 10)), ("b", Stats(1, 7, 7)), ("c", Stats(1, 1, 1))])
    found = points(made, ("a", Stats(1, 2, 2)), ("d", Stats(1, 3, 3)))
    assert found == {"a": Stats(3, 4, 12), "b": Stats(1, 7, 7), "other": Stats(2, 2, 4)}
    assert found == points(made, ("a", Stats(1, 2, 2)), ("d", Stats(1, 3, 3))), "a look changes nothing"


def test_gauges_make_room_for_each_other() -> None:
    made = metric(t.Int(), 2)
    assert points(made, ("a", 1), ("b", 2), ("c", 3)) == {"b": 2, "c": 3} and made.others == 1
    assert points(made, ("a", 1), ("b", 9)) == {"a": 1, "b": 9} and made.others == 0


def test_no_two_metrics_have_a_sample_of_one_name() -> None:
    kinds = {"@n": "count", "@n_total": "count", "@h": "hist", "@h_count": "count", "@h_sum": "avg", "@s": "stats",
             "@s_count": "max"}
    maps = [MapSpec(name, "hash", 8, 8, 16, key=t.Str(16), value=t.Aggregate(kind)) for name, kind in kinds.items()]
    made = Gatherer(ScriptSpec([], maps, [], [], [], [], Config()), lambda name, then: [], Losses)
    assert {name: metric.name for name, metric in made.maps.items()} == {
        "@n": "sonde_n", "@n_total": "sonde_n_total_map", "@h": "sonde_h", "@h_count": "sonde_h_count",
        "@h_sum": "sonde_h_sum_map", "@s": "sonde_s", "@s_count": "sonde_s_count_map"}
