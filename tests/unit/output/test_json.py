"""JSON output: bpftrace's shapes, valid whatever the traced program put into its strings."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding import Names
from sonde import types as t
from sonde.output import make_output
from sonde.output.format import compile_format, compile_format_of_many
from sonde.output.json import JsonOutput, quote_json, to_json
from sonde.output.stream import Stream
from sonde.runtime.losses import Losses
from sonde.runtime.maps.aggregates import Histogram, LinearHistogram, Stats
from sonde.runtime.records.values import (
    ArrayValue,
    Buffer,
    EnumValue,
    MacAddress,
    PointerValue,
    RecordValue,
    StructValue,
)
from sonde.source import Source, Span
from sonde.spec import EventField, FormatPart


def written(*calls: tuple[Any, ...]) -> str:
    """What a series of (method, arguments...) writes."""
    reader, writer = os.pipe()
    try:
        out = make_output("json", writer, writer)
        for name, *arguments in calls:
            getattr(out, name)(*arguments)
        out.flush(True)
        os.close(writer)
        return os.read(reader, 1 << 16).decode()
    finally:
        os.close(reader)


@pytest.mark.parametrize(("call", "expected"), [
    (("report_attached", 2), '{"type": "attached_probes", "count": 2, "data": {"probes": 2}}'),
    (("report_lost_events", 3), '{"type": "lost_events", "data": {"events": 3}}'),
    (("report_unreturned", Losses([], [], [], unreturned=[("./p:f", 2), ("./p:g", 1)], at_least=True)),
     '{"type": "unreturned_calls", "data": {"calls": {"./p:f": 2, "./p:g": 1}, "at_least": true}}'),
    (("write_text", b'x1 a"b\tc\n'), r'{"type": "printf", "data": "x1 a\"b\tc\n"}'),
    (("write_time", "12:00\n"), r'{"type": "time", "data": "12:00\n"}'),
    (("write_joined", "a b"), '{"type": "join", "data": "a b"}'),
    (("write_file_content", b"Linux\n"), r'{"type": "cat", "data": "Linux\n"}'),
    (("write_command_output", b"hi\n"), r'{"type": "syscall", "data": "hi\n"}'),
    (("write_value", (1, "x", (2, 3))), '{"type": "value", "data": [1,"x",[2,3]]}'),
    (("write_value", "s"), '{"type": "value", "data": "s"}'),
    (("write_map", "@x", [(None, 1)]), '{"type": "map", "data": {"@x": 1}}'),
    (("write_map", "@y", [((1, "foo"), 5), ((0, "bar"), 2)]),
     '{"type": "map", "data": {"@y": {"0,bar": 2, "1,foo": 5}}}'),
    (("write_map", "@y", [((1, (2, "x")), 5)]), '{"type": "map", "data": {"@y": {"1,(2,x)": 5}}}'),
    (("write_map", "@s", [(None, Stats(1, 2, 2))], 0, 1, "stats"),
     '{"type": "stats", "data": {"@s": {"count": 1, "average": 2, "total": 2}}}'),
    (("write_map", "@s", [(3, Stats(1, 5, 5)), (2, Stats(1, 4, 4))], 0, 1, "stats"),
     '{"type": "stats", "data": {"@s": {"2": {"count": 1, "average": 4, "total": 4}, '
     '"3": {"count": 1, "average": 5, "total": 5}}}}'),
    (("write_map", "@h", [(None, Histogram([2, 0, 0, 1]))]),
     '{"type": "hist", "data": {"@h": [{"max": -1, "count": 2},{"min": 0, "max": 0, "count": 0},'
     '{"min": 1, "max": 1, "count": 0},{"min": 2, "max": 3, "count": 1}]}}'),
    (("write_map", "@h", [(1, Histogram([0, 1, 1])), (2, Histogram([0, 4]))], 0, 2),
     '{"type": "hist", "data": {"@h": {"1": [{"min": 0, "max": 0, "count": 0},{"min": 1, "max": 1, "count": 0}], '
     '"2": [{"min": 0, "max": 0, "count": 2}]}}}'),
    (("write_map", "@l", [(None, LinearHistogram([1, 0, 1], 0, 10, 10))]),
     '{"type": "hist", "data": {"@l": [{"max": -1, "count": 1},{"min": 0, "max": 9, "count": 0},'
     '{"min": 10, "count": 1}]}}'),
    (("report_runtime_error", "Bad address", Span(Source("a.bt", "\n x"), 2, 3), "probe_read", -14),
     '{"type": "helper_error", "msg": "Bad address", "helper": "probe_read", "retcode": -14, "filename": "a.bt", '
     '"line": 2, "col": 2}'),
    (("report_runtime_error", "Map full; more words", None, "map_update_elem", -7),
     '{"type": "helper_error", "msg": "Argument list too long", "helper": "map_update_elem", "retcode": -7}'),
    (("report_runtime_error", "Divide", None), '{"type": "runtime_error", "msg": "Divide"}'),
    (("report_runtime_error", "Divide", None, "", 0, 3), '{"type": "runtime_error", "msg": "Divide", "count": 3}'),
    (("report_located", "ERROR", b"bad", None), '{"type": "errorf", "msg": "bad"}'),
    (("report_located", "WARNING", b"odd", None), '{"type": "warnf", "msg": "odd"}'),
])
def test_messages(call: tuple[Any, ...], expected: str) -> None:
    text = written(call)
    assert text == expected + "\n"
    json.loads(text)


def test_nothing_is_printed_for_empty_maps_and_between_messages() -> None:
    assert written(("write_map", "@x", []), ("write_separator",)) == ""


@pytest.mark.parametrize(("value", "expected"), [
    (True, "true"), (-1, "-1"), (ArrayValue((1, (2,))), "[1,[2]]"), (PointerValue(255), "255"),
    (PointerValue(0xFFFF888123456789), '"18446612686956750729"'),
    ((1 << 53) + 1, '"9007199254740993"'), (1 << 63, str(1 << 63)),
    (-(1 << 53) - 1, '"-9007199254740993"'), (Buffer(b"a\0\xff"), "[97,0,-1]"),
    (MacAddress(b"abcdef"), '"61:62:63:64:65:66"'), (StructValue(a=1, b="x"), '{"a": 1, "b": "x"}'),
    (type("r", (RecordValue,), {"_fields": ("x",)})((1,)), '{"x": 1}'),
    (type("e", (EnumValue,), {"names": {1: "ONE"}})(1), "1"), (None, "null"), (Stats(1, 2, 3), None),
    (Histogram([0, 1]), '[{"min": 0, "max": 0, "count": 1}]'),
])
def test_values(value: Any, expected: str | None) -> None:
    text = to_json(value)
    json.loads(text)
    assert expected is None or text == expected


@given(st.binary())
def test_any_bytes_make_a_valid_string(data: bytes) -> None:
    text = quote_json(data.decode("utf-8", "surrogateescape"))
    assert json.loads(text) == data.decode("utf-8", "replace")
    text.encode()


def test_the_interface_is_that_of_text() -> None:
    from sonde.output.text import TextOutput

    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}
    extra = {"write_text", "escape", "escape_lines", "write_row", "write_heading"}
    assert public(TextOutput) - {"frame"} == public(JsonOutput) - extra


@given(st.lists(st.binary(max_size=15), min_size=1, max_size=9), st.text(max_size=9))
def test_many_texts_are_the_objects_of_each(names: list[bytes], literal: str) -> None:
    records = b"".join([number.to_bytes(4, "little") + name.ljust(16, b"\0") for number, name in enumerate(names)])
    fields = [EventField(t.INT32, 0), EventField(t.Str(16), 4)]
    parts = [FormatPart(literal.replace("\0", "")), FormatPart("", "d"), FormatPart(' "'), FormatPart("", "s"),
             FormatPart("\n")]
    written: list[bytes] = []
    stream, offsets = Stream(-1), range(0, len(records), 20)
    stream.write = written.append
    out = JsonOutput(stream, stream)
    for at in offsets:
        out.write_text(compile_format(parts, fields, Names())(records, at))
    assert compile_format_of_many(parts, fields, Names(), frame=out.frame)(records, offsets) == b"".join(written)
