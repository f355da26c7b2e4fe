"""Maps as metrics: what is added up over weeks in which keys come and go."""

from __future__ import annotations

import tracemalloc
from math import nextafter

import pytest

from compiled import compiled
from sonde import types as t
from sonde.exporters.metrics import Buckets, Family, Gatherer, MapMetric, Summary, explain_emptiness
from sonde.runtime.losses import Losses
from sonde.runtime.maps.aggregate_values import aggregate_value
from sonde.runtime.maps.aggregates import Histogram, Stats
from sonde.runtime.maps.float_aggregates import FloatLinearHistogram
from sonde.source import Source
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
    assert made.others == 500 and held[-1] < held[2] + 100_000, "2 MB would be all keys"


def test_what_is_cleared_and_what_is_there_are_one() -> None:
    made = metric(t.Aggregate("stats"), 2)
    made.note_cleared([("a", Stats(2, 5, 10)), ("b", Stats(1, 7, 7)), ("c", Stats(1, 1, 1))])
    found = points(made, ("a", Stats(1, 2, 2)), ("d", Stats(1, 3, 3)))
    assert found == {"a": Summary(3, 12), "b": Summary(1, 7), "other": Summary(2, 4)}
    assert found == points(made, ("a", Stats(1, 2, 2)), ("d", Stats(1, 3, 3))), "a look changes nothing"


def test_gauges_make_room_for_each_other() -> None:
    made = metric(t.Int(), 2)
    assert points(made, ("a", 1), ("b", 2), ("c", 3)) == {"b": 2, "c": 3} and made.others == 1
    assert points(made, ("a", 1), ("b", 9)) == {"a": 1, "b": 9} and made.others == 0


def test_what_is_filled_anew_each_time_comes_in_place_of_what_was_there() -> None:
    named = MapSpec("@n", "hash", 8, 8, 16, key=t.Str(16), value=t.Aggregate("count"), rebuilt=True)
    made = MapMetric(named, "sonde_n", ("comm",), 2)
    made.note_cleared([("a", 4), ("b", 3), ("c", 1), ("d", 1)])
    assert points(made) == {"a": 4, "b": 3, "other": 2} and made.kind == "gauge" and made.others == 2
    made.note_cleared([("a", 5), ("c", 1)])
    assert points(made, ("a", 1)) == {"a": 5, "c": 1}, "the whole one, not that which is being filled"
    made.note_cleared([])
    assert points(made) == {} and made.others == 0


FILLED_ANEW = """
macro sum_up(@live, @sum) { for ($pair : @live) { @sum[$pair.0] = count(); } }
tracepoint:raw_syscalls:sys_enter { @live[tid] = 1; @events = count(); @mixed = count(); }
interval:s:1 {
  sum_up(@live, @anew);
  if (@times++ % 2) { sum_up(@live, @part); print(@part); clear(@part); }
  @samples = count();
  if (@times > 10) { print(@samples); clear(@samples); }
  clear(@before); @before = count(); @mixed = count();
  print(@anew); clear(@anew); print(@mixed); clear(@mixed);
}
interval:ms:10 { @elsewhere = count(); }
interval:s:2 { print(@elsewhere); clear(@elsewhere); print(@events); clear(@events); }
end { sum_up(@live, @anew); }
"""


def test_which_maps_are_filled_anew() -> None:
    """Those that each program which fills them clears afterwards whatever happens; ``end`` need not."""
    assert {named.name for named in compiled(FILLED_ANEW).maps if named.rebuilt} == {"@anew", "@part"}


def test_no_two_metrics_have_a_sample_of_one_name() -> None:
    kinds = {"@n": "count", "@n_total": "count", "@h": "hist", "@h_count": "count", "@h_sum": "avg", "@s": "stats",
             "@s_count": "max"}
    maps = [MapSpec(name, "hash", 8, 8, 16, key=t.Str(16), value=t.Aggregate(kind)) for name, kind in kinds.items()]
    made = Gatherer(ScriptSpec([], maps, [], [], [], [], Config()), lambda name, then: [], Losses)
    assert {name: metric.name for name, metric in made.maps.items()} == {
        "@n": "sonde_n", "@n_total": "sonde_n_total_map", "@h": "sonde_h", "@h_count": "sonde_h_count_map",
        "@h_sum": "sonde_h_sum_map", "@s": "sonde_s", "@s_count": "sonde_s_count_map"}


def family(name: str, value: t.Type, held: object, about: str = "", prefix: str = "tool") -> Family:
    """The metric of a map without keys that holds a value."""
    named = MapSpec(name, "hash", 8, 8, 16, value=value, about=about)
    made = Gatherer(ScriptSpec([], [named], [], [], [], [], Config()), lambda name, then: [(None, held)],
                    lambda: Losses([], [], []), prefix)
    return made.gather_families()[0]


def buckets(*values: int) -> Histogram:
    counts = [0] * t.Aggregate("hist").words
    for value in values:
        counts[value + 1 if value < 2 else value.bit_length() + 1] += 1
    return Histogram(counts)


@pytest.mark.parametrize(("map", "kind", "about", "name", "unit", "point"), [
    ("@usecs", "sum", "microseconds from begin to end", "sonde_tool_seconds", "s", 0.0025),
    ("@total_us", "sum", "", "sonde_tool_seconds", "s", 0.0025),
    ("@us_kernel", "max", "", "sonde_tool_kernel_seconds", "s", 0.0025),
    ("@wait_ns", "max", "", "sonde_tool_wait_seconds", "s", 2.5e-06),
    ("@wait", "max", "time in the queue, in ms", "sonde_tool_wait_seconds", "s", 2.5),
    ("@tx_kb", "sum", "", "sonde_tool_tx_bytes", "By", 2500 * 1024),
    ("@bytes", "sum", "", "sonde_tool_bytes", "By", 2500),
    ("@busy", "avg", "percentage of the time", "sonde_tool_busy_ratio", "1", 25),
    ("@rate", "max", "bytes/s of the link", "sonde_tool_rate_bytes_per_second", "By/s", 2500),
    ("@us", "count", "microseconds are not what it counts", "sonde_tool_us", "{event}", 2500),
    ("@bytes_count", "max", "", "sonde_tool_bytes_count", "1", 2500), ("@s", "max", "", "sonde_tool_s", "1", 2500),
    ("@length", "max", "threads in the queue", "sonde_tool_length", "1", 2500)])
def test_a_metric_is_in_its_base_unit_and_named_by_it(map: str, kind: str, about: str, name: str, unit: str,
                                                      point: float) -> None:
    made = family(map, t.Aggregate(kind, kind in ("max", "avg")), 2500, about)
    assert (made.name, made.unit, made.points) == (name, unit, [((), point)])


def test_help_is_what_the_script_says_in_the_unit_of_the_metric() -> None:
    count = t.Aggregate("sum", False)
    assert family("@usecs", count, 1, "microseconds from begin to end").help == "seconds from begin to end"
    assert family("@wait", count, 1, "the wait, in ms, of all").help == "the wait, in seconds, of all"
    assert family("@busy", t.Aggregate("avg"), 1, "time used, in percent").help == "time used, as a ratio"
    assert family("@usecs", count, 1).help == "map @usecs, in seconds" and family("@n", count, 1).help == "map @n"
    assert family("@ms", count, 1, "microseconds of each").unit == "s", "the name goes before"


def test_bounds_of_a_histogram_are_in_the_base_unit() -> None:
    made = family("@usecs", t.Aggregate("hist"), buckets(5, 1500))
    point = made.points[0][1]
    assert isinstance(point, Buckets) and (point.bounds[0], point.bounds[-1]) == (1e-06, 8.388607)
    assert point.bounds[2] == 7e-06 and [count for count in point.counts if count] == [1, 1]
    assert made.name == "sonde_tool_seconds" and point.total == 2
    assert family("@ms", t.Aggregate("hist"), buckets(1)).points[0][1].bounds[0] == 0.001
    assert family("@ns", t.Aggregate("hist"), buckets(1)).points[0][1].bounds[0] == 1e-09, "what is less is there, too"
    plain = family("@size", t.Aggregate("hist"), buckets(5)).points[0][1]
    assert isinstance(plain, Buckets) and plain.bounds == [7], "integers stay integers"


def test_the_sum_of_a_histogram_is_in_the_base_unit_and_adds_up() -> None:
    def summed(total: int, *values: int) -> Histogram:
        histogram = buckets(*values)
        histogram.value_sum = total
        return histogram
    kind = t.Aggregate("hist", agg="sum")
    assert kind.words == kind.buckets + 1 == t.Aggregate("hist").words + 1
    assert family("@usecs", kind, summed(1505, 5, 1500)).points[0][1].sum == 0.001505
    made = MapMetric(MapSpec("@n", "hash", 8, 8, 16, value=kind), "sonde_n", (), 9)
    made.note_cleared([(None, summed(5, 5))])
    point = made.make_family([(None, summed(7, 7))]).points[0][1]
    assert isinstance(point, Buckets) and point.sum == 12 and point.total == 2
    below = buckets(5)
    below.counts[0], below.value_sum = 1, 2
    assert family("@n", kind, below).points[0][1].sum is None, "a sum with negative values may go down"
    assert family("@n", t.Aggregate("hist"), buckets(5)).points[0][1].sum is None


def test_the_words_of_a_summed_histogram() -> None:
    kind = t.Aggregate("lhist", low=0, high=20, step=5, agg="sum")
    value = aggregate_value(kind, [0, 1, 2, 0, 0, 3, (1 << 64) - 7])
    assert isinstance(value, Histogram) and (value.counts, value.value_sum) == ([0, 1, 2, 0, 0, 3], -7)
    real = t.Aggregate("hist", floating=True, agg="sum")
    value = aggregate_value(real, [0] * real.buckets + [0, 0, 0, 0, 1 << 31, 2, 0, 0])
    assert isinstance(value, Histogram) and value.value_sum == 2.5


def test_two_maps_of_one_name_but_for_the_unit() -> None:
    maps = [MapSpec(name, "hash", 8, 8, 16, value=t.Aggregate("max")) for name in ("@lat_ms", "@lat_us")]
    made = Gatherer(ScriptSpec([], maps, [], [], [], [], Config()), lambda name, then: [], Losses)
    assert [metric.name for metric in made.maps.values()] == ["sonde_lat_seconds", "sonde_lat_map_seconds"]


HEAD = """\
// x: shows something
//
// COLUMNS
//   @n   how many
"""


def test_what_a_head_does_not_explain_is_the_scripts_own() -> None:
    """Of plain values: what a script adds up says something of its own accord."""
    maps = [MapSpec("@since", "hash", 8, 8, 16, value=t.UINT64),
            MapSpec("@n", "hash", 8, 8, 16, value=t.UINT64),
            MapSpec("@c", "hash", 8, 8, 16, value=t.Aggregate("count"))]
    for text, names in ((HEAD, ["@c", "@n"]), ("// x: something\n", ["@c", "@n", "@since"])):
        spec = ScriptSpec([], maps, [], [], [], [], Config(), Source("x", text))
        assert sorted(Gatherer(spec, lambda name, then: [], Losses).maps) == names
    assert explain_emptiness(spec, "x") == []
    only = ScriptSpec([], maps[:1], [], [], [], [], Config(), Source("x", HEAD))
    assert explain_emptiness(only, "x") == ["WARNING: no metrics but Sonde's own: x keeps no numbers in maps",
                                            "HINT: count in a map: @[comm] = count();"]


def test_floating_point_numbers() -> None:
    assert points(metric(t.DOUBLE, 5), ("a", 0.5), ("b", float("nan"))).keys() == {"a", "b"}
    total = metric(t.Aggregate("sum", floating=True), 1)
    total.note_cleared([("a", 0.5)])
    assert points(total, ("a", 0.25), ("b", -1.5)) == {"a": 0.75, "other": -1.5}
    assert points(metric(t.Aggregate("stats", floating=True), 5), ("a", Stats(2, 0.75, 1.5))) == {"a": Summary(2, 1.5)}
    kind = t.Aggregate("lhist", low=0, high=20, step=5, floating=True, units=10)
    have = points(metric(kind, 5), ("a", FloatLinearHistogram([0, 1, 2, 0, 0, 3, 4], 0, 20, 5, 10)))["a"]
    assert isinstance(have, Buckets) and have.counts == [1, 2, 0, 0, 7]  # what is above, and NaNs
    assert have.bounds == [nextafter(bound, 0) for bound in (0.5, 1.0, 1.5, 2.0)]
