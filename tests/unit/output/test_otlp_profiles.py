"""``-f otlp`` and ``export --otlp-profiles``: what OpenTelemetry's own messages find in the profiles."""

from __future__ import annotations

from typing import Any

import pytest

from decoding import Names
from otlp_reader import ReadProfiles
from sonde import types as t
from sonde.errors import UsageError
from sonde.exporters.otlp_profiles import ProfilesExporter
from sonde.output.views import Target, view_class
from sonde.runtime.provenance import Provenance
from sonde.runtime.records.values import StackTrace
from sonde.spec import Config, MapSpec, ScriptSpec

COMM, KSTACK, USTACK = t.Str(16), t.Stack(), t.Stack(user=True)
COUNT, SUM = t.Aggregate("count"), t.Aggregate("sum")
RUN = Provenance("sonde -f otlp", "host", "6.18", 1_700_000_000 * 10**9, 2.5, ["Lost 5 events: 5 of profile:hz:99"])


def kernel_stack() -> StackTrace:
    return StackTrace(KSTACK, 7, 0, 2, Names())


def user_stack() -> StackTrace:
    return StackTrace(USTACK, 8, 5, 1, Names())


def make_map(name: str, key: t.Type, value: t.Type, labels: tuple[str, ...] = ()) -> MapSpec:
    return MapSpec(name, "hash", 8, 8, 16, key=key, value=value, labels=labels)


def write_profiles(maps: list[MapSpec], items: dict[str, list[tuple[Any, Any]]], unit: str = "",
                   memory: int = 1 << 24) -> ReadProfiles:
    """The profiles of maps with these contents."""
    spec = ScriptSpec([], maps, [], [], ["begin"], [], Config())
    pieces: list[Any] = []
    view = view_class("otlp")(spec, Names(), pieces.append, Target(unit=unit, memory=memory))
    for named in maps:
        view.add_map(named, items.get(named.name, []), 0, "final")
    view.run = RUN
    view.finish()
    return ReadProfiles(b"".join(pieces))


def test_stacks_labels_and_run() -> None:
    both = user_stack(), kernel_stack()
    found = write_profiles([make_map("@", t.Tuple((COMM, t.Int(64), USTACK, KSTACK)), COUNT, ("comm", "", "", ""))],
                           {"@": [(("a;b\xff", 7, *both), 3), (("c", 7, *both), 4), (("c", -1, *both), 5)]})
    assert found.types == [("samples", "count")] and found.scope == "sonde"
    rows, = found.samples
    assert {labels: value for (labels, _), value in rows.items()} == {
        (("comm", "a:b\xff"), ("key2", "7")): 3, (("comm", "c"), ("key2", "7")): 4, (("comm", "c"), ("key2", "-1")): 5}
    stack, = {stack for _, stack in rows}
    assert [mapping for _, mapping in stack] == ["[user]", "[kernel.kallsyms]", "[kernel.kallsyms]"]
    assert stack[0][0] == "main" and not any(name.endswith("_[k]") for name, _ in stack)
    assert found.times == [(1_700_000_000 * 10**9, 2_500_000_000)]
    assert found.lost == [["Lost 5 events: 5 of profile:hz:99"]]
    assert found.resource == {"service.name": "sonde", "host.name": "host", "os.version": "6.18",
                              "sonde.command": "sonde -f otlp"}


def test_each_map_is_a_profile() -> None:
    maps = [make_map("@a", t.Tuple((COMM, KSTACK)), COUNT, ("comm", "")), make_map("@b_ns", USTACK, SUM)]
    found = write_profiles(maps, {"@a": [(("x", kernel_stack()), 1)], "@b_ns": [(user_stack(), 1 << 40)]})
    assert found.types == [("a", "count"), ("b_ns", "nanoseconds")]
    assert [list(rows.values()) for rows in found.samples] == [[1], [1 << 40]]
    assert [labels for (labels, _) in found.samples[0]] == [(("comm", "x"),)]


def test_what_there_is_no_room_for_and_nothing_at_all() -> None:
    named = make_map("@", t.Tuple((COMM, KSTACK)), COUNT, ("comm", ""))
    found = write_profiles([named], {"@": [((f"c{n}", kernel_stack()), 1) for n in range(100)]}, memory=1500)
    assert sum(found.samples[0].values()) == 100
    assert any(stack == (("[left out: --memory]", "[user]"),) for _, stack in found.samples[0])
    assert write_profiles([named], {}).samples == [{}]


def test_a_script_without_stacks_is_refused() -> None:
    spec = ScriptSpec([], [make_map("@", COMM, COUNT)], [], [], ["begin"], [], Config())
    with pytest.raises(UsageError, match="maps keyed by stacks"):
        ProfilesExporter("", spec, 1 << 20, lambda: RUN, print, dict)


def test_a_collector_that_is_not_there_is_said() -> None:
    named, told = make_map("@", KSTACK, COUNT), list[object]()
    spec = ScriptSpec([], [named], [], [], ["begin"], [], Config())
    url = "http://127.0.0.1:1/v1development/profiles"
    exporter = ProfilesExporter(url, spec, 1 << 20, lambda: RUN, told.append, dict)
    exporter.add_map(named, [(kernel_stack(), 1)], "final")
    exporter.finish()
    assert len(told) == 1 and "cannot be reached" in str(told[0])
