"""Records to events, map elements to values, and each kind of site to its output."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding import Names
from sonde import types as t
from sonde.output import Printer, make_output
from sonde.runtime.maps.aggregates import Histogram, Stats
from sonde.runtime.records.events import Event, EventDecoder, MapDecoder
from sonde.spec import Config, EventField, EventSite, FormatPart, MapSpec, ScriptSpec


def site(kind: str, *fields: t.Type, parts: list[FormatPart] | None = None, **data: Any) -> EventSite:
    at, placed = 24 if kind == "print_map" else 16, []
    for type in fields:
        at = t.round_up(at, 8)
        placed.append(EventField(type, at))
        at += type.size
    return EventSite(kind, None, placed, at, parts or [], data)


def spec(*sites: EventSite, maps: list[MapSpec] | None = None) -> ScriptSpec:
    return ScriptSpec([], maps or [], list(sites), [], ["begin", "interval:s:1"], [], Config(max_cat_bytes=5))


def record(index: int, data: bytes = b"", probe: int = 0, time: int = 0) -> bytes:
    return struct.pack("=IIQ", index, probe, time) + data


def printed(script: ScriptSpec, *records: bytes, maps: Any = None, form: str = "text", warnings: bool = True) -> bytes:
    """What a printer writes for the records, both streams together."""
    reader, writer = os.pipe()
    try:
        out = make_output(form, writer, writer)
        printer = Printer(script, Names(), out, maps or (lambda name, then: []), warnings)
        for raw in records:
            handler = printer.handlers[int.from_bytes(raw[:4], "little")]
            assert handler is not None
            handler(memoryview(b"\xee" * 8 + raw), 8)
        out.flush(True)
        os.close(writer)
        return os.read(reader, 1 << 16)
    finally:
        os.close(reader)


def test_events() -> None:
    decoder = EventDecoder(spec(site("printf", t.INT32, t.Str(8))), Names())
    event = decoder.decode(b"\0" + record(0, struct.pack("=i4x8s", 5, b"hi"), 1, 99), 1)
    assert isinstance(event, Event)
    assert (event.kind, event.args, event.probe, event.time, event.site) == ("printf", (5, "hi"), "interval:s:1", 99, 0)
    assert decoder.decode(record(0, bytes(24), probe=9)).probe == ""


def test_map_elements() -> None:
    key = t.Tuple((t.INT64, t.Str(4)))
    keyed = MapDecoder(MapSpec("@x", "hash", 16, 8, 10, key=key, value=t.INT64), Names())
    raw = struct.pack("=q4s4x", 1, b"ab")
    assert keyed.decode_items([(raw, struct.pack("=q", -2))]) == [((1, "ab"), -2)]
    stats = MapDecoder(MapSpec("@s", "array", 4, 16, 1, value=t.Aggregate("stats"), memory=True), Names())
    assert stats.decode_items([(b"", (2, 10))]) == [(None, Stats(2, 5, 10))]


NUMBERS = [t.Int(bits, signed) for bits in (8, 16, 32, 64) for signed in (True, False)]
TYPES = [*NUMBERS, t.BOOL, t.Str(6), t.Buf(5), t.Inet(), t.MacAddr(), t.Pointer(t.VOID),
         t.Enum("e", 32, False, {1: "one"}), t.Array(t.UINT16, 2), t.Symbol("ksym")]


@given(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4), st.booleans(), st.sampled_from(TYPES), st.booleans(),
       st.integers(0, 9), st.randoms(use_true_random=False))
def test_columns_are_decoded_as_elements_are(parts: list[t.Type], named: bool, value: t.Type, nested: bool, count: int,
                                             random: Any) -> None:
    key: t.Type = t.Tuple(tuple(parts), tuple(f"f{i}" for i in range(len(parts))) if named else ())
    key = parts[0] if len(parts) == 1 else t.Tuple((key, t.INT8)) if nested else key
    key_size, value_size = t.round_up(key.size, 8), t.round_up(value.size, 8)
    decoder = MapDecoder(MapSpec("@x", "hash", key_size, value_size, 10, key=key, value=value), Names())
    raw = [(random.randbytes(key_size), random.randbytes(value_size)) for _ in range(count)]
    found = decoder.decode_columns(b"".join([k for k, _ in raw]), b"".join([v for _, v in raw]))
    assert list(map(repr, found)) == list(map(repr, decoder.decode_items(raw)))


def test_printf_print_and_time() -> None:
    script = spec(site("printf", t.INT32, parts=[FormatPart("n="), FormatPart("", "d"), FormatPart("\n")]),
                  site("print", t.Tuple((t.INT64, t.BOOL))), site("time", format="%Y\n"))
    records = [record(0, struct.pack("=i", 5)), record(1, struct.pack("=q?", 1, True)), record(2, time=10**9)]
    assert printed(script, *records) == b"n=5\n(1, true)\n2023\n"
    assert printed(script, *records[:2], form="json") == (
        b'{"type": "printf", "data": "n=5\\n"}\n{"type": "value", "data": [1,true]}\n')


def test_errorf_and_warnf() -> None:
    parts = [FormatPart("bad "), FormatPart("", "d")]
    script = spec(site("printf", t.INT32, parts=parts, severity="ERROR"),
                  site("printf", t.INT32, parts=parts, severity="WARNING"))
    records = [record(0, struct.pack("=i", 1)), record(1, struct.pack("=i", 2))]
    assert printed(script, *records) == b"ERROR: bad 1\nWARNING: bad 2\n"
    assert printed(script, *records, warnings=False) == b"ERROR: bad 1\n"


def test_join() -> None:
    script = spec(site("join", t.Buf(12), separator=", "))
    assert printed(script, record(0, struct.pack("=I12s", 8, b"ls\0-la\0\0"))) == b"ls, -la, \n"
    assert printed(script, record(0, struct.pack("=I12s", 7, b"ls\0-la\0"))) == b"ls, -la\n"


def test_cat(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0123456789")
    parts = [FormatPart("", "s")]
    script = spec(site("cat", t.Str(256), parts=parts))
    assert printed(script, record(0, str(file).encode().ljust(256, b"\0"))) == b"01234"
    text = printed(script, record(0, b"/no/such".ljust(256, b"\0")))
    assert text == b"ERROR: failed to open file '/no/such' (No such file or directory)\n"


def test_system() -> None:
    script = spec(site("system", t.INT32, parts=[FormatPart("echo "), FormatPart("", "d")]))
    assert printed(script, record(0, struct.pack("=i", 3))) == b"3\n\n"
    assert printed(script, record(0, struct.pack("=i", 3)), form="json") == b'{"type": "syscall", "data": "3\\n"}\n'


def test_print_map_reads_and_clears_in_one_step() -> None:
    taken: list[tuple[str, str]] = []

    def take(name: str, then: str) -> list[tuple[Any, Any]]:
        taken.append((name, then))
        return [(1, 10), (2, 20)]
    script = spec(site("print_map", map="@x", top=1, div=2, then="clear"), site("exit", t.INT32),
                  maps=[MapSpec("@x", "hash", 8, 8, 1, key=t.INT64, value=t.INT64)])
    assert printed(script, record(0, bytes(8)), maps=take) == b"@x[2]: 10\n"
    assert taken == [("@x", "clear")]


@pytest.mark.parametrize(("value", "text", "message"), [
    (t.INT64, "@x: 0", '{"type": "map", "data": {"@x": 0}}'), (t.Str(8), "@x: ", '{"type": "map", "data": {"@x": ""}}'),
    (t.Tuple((t.BOOL, t.INT8)), "@x: (false, 0)", '{"type": "map", "data": {"@x": [false,0]}}'),
    (t.Aggregate("count"), "@x: 0", '{"type": "map", "data": {"@x": 0}}'),
    (t.Aggregate("avg"), "@x: 0", '{"type": "stats", "data": {"@x": 0}}'),
    (t.Aggregate("stats"), "@x: { .count = 0, .average = 0, .total = 0 }",
     '{"type": "stats", "data": {"@x": {"count": 0, "average": 0, "total": 0}}}'), (t.Aggregate("hist"), "", ""),
])
def test_a_map_without_keys_and_value_is_printed_as_zero(value: t.Type, text: str, message: str) -> None:
    script = spec(site("print_map", map="@x"), maps=[MapSpec("@x", "array", 4, 8, 1, value=value, memory=True)])
    assert printed(script, record(0, bytes(8))).decode() == (text and text + "\n")
    assert printed(script, record(0, bytes(8)), form="json").decode() == (message and message + "\n")


def test_sites_for_the_session_alone_have_no_handler() -> None:
    script = spec(site("exit", t.INT32), site("clear", map="@x"), site("zero", map="@x"))
    assert Printer(script, Names(), make_output("text", 1, 2), lambda name, then: []).handlers == [None] * 3


def test_final_maps_by_name() -> None:
    reader, writer = os.pipe()
    maps = [MapSpec(name, "hash", 8, 8, 1) for name in ("@b", "__stacks", "@a")]
    out = make_output("text", writer, writer)
    Printer(spec(maps=maps), Names(), out, lambda name, then: [(None, 1)]).print_final_maps()
    out.flush(True)
    os.close(writer)
    assert os.read(reader, 100) == b"\n\n@a: 1\n@b: 1\n"
    os.close(reader)


def test_events_are_equal_by_value_and_can_be_pickled() -> None:
    decoder = EventDecoder(spec(site("printf", t.INT32, t.Str(8)), site("printf", t.INT32)), Names())
    raw = record(0, struct.pack("=i4x8s", 5, b"hi"), 1, 99)
    event = decoder.decode(raw)
    assert event == decoder.decode(raw) == pickle.loads(pickle.dumps(event)) and len({event, decoder.decode(raw)}) == 1
    assert event != decoder.decode(record(0, struct.pack("=i4x8s", 6, b"hi"), 1, 99))
    histogram = Event("print_map", ("@", [(1, Histogram([0, 2, 3]))]), "", 0, 0)
    assert pickle.loads(pickle.dumps(histogram)) == histogram
