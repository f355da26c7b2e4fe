"""A script that sends only by the clock, at its beginning and at its end takes a small ring."""

from __future__ import annotations

import pytest

from compiled import compiled
from sonde.layouts.event_records import DATA_RING
from sonde.runtime.records.ringbuf import data_ring_bytes, ring_bytes
from sonde.spec import MapSpec


def room(text: str) -> int:
    return compiled(text).find_map(DATA_RING).max_entries


@pytest.mark.parametrize("text", [
    'begin { printf("%d", pid); } tracepoint:syscalls:sys_enter_read { @ = count(); } end { print(@); print(1); }',
    'interval:s:1 { printf("%d", 1); print(@); clear(@); } tracepoint:syscalls:sys_enter_read { @[pid] = count(); }',
    'fn f() { print(1); } interval:s:1 { f(); }', 'begin { cat("/proc/version"); time(); }',
])
def test_few_records_need_a_small_ring(text: str) -> None:
    assert room(text) == 1 << 18


@pytest.mark.parametrize("text", [
    "tracepoint:syscalls:sys_enter_read { print(1); }", "begin { print(1); } profile:hz:1 { print(1); }",
    "interval:us:10 { print(1); }", "begin { $i = 0; while ($i < 100) { print(1); $i++; } }",
    "begin { unroll (5) { print(1); } }",
    "begin { for ($i : 0..1000) { print($i); } }", "interval:s:1, tracepoint:syscalls:sys_enter_read { print(1); }",
    "fn f() { print(1); } tracepoint:syscalls:sys_enter_read { f(); }", "software:cpu:1 { print(1); }",
])
def test_what_may_send_at_any_rate_takes_what_there_is(text: str) -> None:
    assert room(text) == 0


def test_a_loop_sends_a_record_for_each_element() -> None:
    one = room("config = { max_map_keys = 1000 } tracepoint:syscalls:sys_enter_read { @[pid] = 1; } "
               "interval:s:1 { for ($kv : @) { print($kv.0); } }")
    assert one >= 4 * 1000 * 32  # four seconds' records: header, value, the ring's own
    ten = room("config = { max_map_keys = 10000 } tracepoint:syscalls:sys_enter_read { @[pid] = 1; } "
               "interval:s:1 { for ($kv : @) { print($kv.0); } }")
    assert 8 * one <= ten <= 16 * one


@pytest.mark.parametrize("seconds", [3, 5, 60])
def test_a_loop_of_a_long_interval_sends_as_much_at_once(seconds: int) -> None:
    text = "config = {{ max_map_keys = 10000 }} tracepoint:syscalls:sys_enter_read {{ @[pid] = 1; }} " \
        "interval:s:{} {{ for ($kv : @) {{ print($kv.0); }} }}"
    assert room(text.format(seconds)) >= 10_000 * 32


def test_short_intervals_come_more_often() -> None:
    text = "interval:%s:1 { print(1); print(2); print(3); }"
    assert room(text % "ms") > room(text % "s")


def test_what_a_user_asks_for_is_made() -> None:
    small, large, default = [MapSpec(DATA_RING, "ringbuf", 0, 0, size) for size in (1 << 18, 1 << 40, 0)]
    assert ring_bytes(small, 0) == 1 << 18 and ring_bytes(small, 1 << 10) == data_ring_bytes(1 << 10, 4096, 0)
    assert ring_bytes(large, 0) == ring_bytes(default, 0)
