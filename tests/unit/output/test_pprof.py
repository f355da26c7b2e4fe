"""``-f pprof``: what protobuf's own decoder finds in the profiles."""

from __future__ import annotations

from typing import Any

import pytest

from decoding import Names
from pprof_reader import ReadProfile
from sonde import types as t
from sonde.output.views import Target, view_class
from sonde.runtime.maps.aggregates import Stats
from sonde.runtime.provenance import Provenance
from sonde.runtime.records.values import StackTrace
from sonde.spec import Attach, Config, MapSpec, ProgramSpec, ScriptSpec

COMM, KSTACK, USTACK = t.Str(16), t.Stack(), t.Stack(user=True)
COUNT, SUM, STATS = (t.Aggregate(kind) for kind in ("count", "sum", "stats"))


def kernel_stack() -> StackTrace:
    return StackTrace(KSTACK, 7, 0, 2, Names())


def user_stack() -> StackTrace:
    return StackTrace(USTACK, 8, 5, 1, Names())


def make_map(name: str, key: t.Type, value: t.Type, labels: tuple[str, ...] = ()) -> MapSpec:
    return MapSpec(name, "hash", 8, 8, 16, key=key, value=value, labels=labels)


def write_profile(maps: list[MapSpec], items: dict[str, list[tuple[Any, Any]]], unit: str = "", memory: int = 1 << 24,
                  attach: list[Attach] | None = None) -> ReadProfile:
    """The profile of maps with these contents."""
    programs = [ProgramSpec("x", "perf_event", b"", attach)] if attach else []
    spec = ScriptSpec(programs, maps, [], [], ["begin"], [], Config())
    pieces: list[Any] = []
    view = view_class("pprof")(spec, Names(), pieces.append, Target(unit=unit, memory=memory))
    for named in maps:
        view.add_map(named, items.get(named.name, []), 0, "final")
    view.run = Provenance("sonde -f pprof", "host", "6.18", 1_700_000_000 * 10**9, 2.5,
                          ["Lost 5 events: 5 of profile:hz:99"])
    view.finish()
    return ReadProfile(b"".join(pieces))


def test_stacks_labels_and_run() -> None:
    both = user_stack(), kernel_stack()
    found = write_profile([make_map("@", t.Tuple((COMM, t.Int(64), USTACK, KSTACK)), COUNT, ("comm", "", "", ""))],
                          {"@": [(("a;b", 7, *both), 3), (("c", 7, *both), 4), (("c", -1, *both), 5)]})
    assert found.types == [("samples", "count")]
    assert sorted(labels for labels, _ in found.samples) == [
        (("comm", "a:b"), ("key2", "7")), (("comm", "c"), ("key2", "-1")), (("comm", "c"), ("key2", "7"))]
    stacks = {stack for _, stack in found.samples}
    assert len(stacks) == 1
    stack, = stacks
    assert [mapping for _, mapping in stack] == ["[user]", "[kernel.kallsyms]", "[kernel.kallsyms]"]
    assert stack[0][0] == "main" and not any(name.endswith("_[k]") for name, _ in stack)
    assert sorted(value for value, in found.samples.values()) == [3, 4, 5]
    assert (found.time, found.duration) == (1_700_000_000 * 10**9, 2_500_000_000)
    assert found.comments[0] == "sonde -f pprof" and "Lost 5 events: 5 of profile:hz:99" in found.comments


@pytest.mark.parametrize(("name", "value", "asked", "kind"), [
    ("@wait_ns", SUM, "", ("wait_ns", "nanoseconds")), ("@wait_us", STATS, "", ("wait_us", "microseconds")),
    ("@tx_bytes", t.Int(64), "", ("tx_bytes", "bytes")), ("@wait_ns", COUNT, "", ("wait_ns", "count")),
    ("@", SUM, "ns", ("samples", "nanoseconds")), ("@", COUNT, "samples", ("samples", "count")),
    ("@things", SUM, "", ("things", "count"))])
def test_units_by_the_maps_kind(name: str, value: t.Type, asked: str, kind: tuple[str, str]) -> None:
    shown = Stats(2, 5, 10) if value is STATS else 10
    found = write_profile([make_map(name, KSTACK, value)], {name: [(kernel_stack(), shown)]}, asked)
    assert found.types == [kind] and list(found.samples.values()) == [[10]]


def test_each_map_is_a_type() -> None:
    found = write_profile([make_map("@a", t.Tuple((COMM, KSTACK)), COUNT, ("comm", "")), make_map("@b_ns", USTACK, SUM),
                           make_map("@c", t.Tuple((COMM, KSTACK)), SUM, ("comm", ""))],
                          {"@a": [(("x", kernel_stack()), 1)], "@b_ns": [(user_stack(), 1 << 40)],
                           "@c": [(("x", kernel_stack()), 9)]})
    assert found.types == [("a", "count"), ("b_ns", "nanoseconds"), ("c", "count")]
    assert sorted(found.samples.values()) == [[0, 1 << 40, 0], [1, 0, 9]]


def test_nothing_and_too_much() -> None:
    named = make_map("@", KSTACK, COUNT)
    assert write_profile([named], {}).samples == {}
    found = write_profile([named], {"@": [(kernel_stack(), 6)]}, memory=1)
    assert found.samples == {((), (("[left out: --memory]", "[user]"),)): [6]}


def test_the_period_of_what_samples() -> None:
    named = make_map("@", KSTACK, COUNT)
    samples, other = Attach("profile", "profile:hz:100", period=10**7), Attach("tracepoint", "tracepoint:a:b")
    found = write_profile([named], {}, attach=[samples])
    assert (found.period_type, found.period) == (("cpu", "nanoseconds"), 10**7)
    assert write_profile([named], {}, attach=[samples, other]).period == 0
