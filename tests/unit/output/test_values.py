"""Decoders and the text of every kind of value."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from decoding import Names
from sonde import types as t
from sonde.runtime.records.decoders import make_decoder
from sonde.runtime.records.values import StackTrace, key_text, strftime, to_text


def decode(type: t.Type, raw: bytes) -> Any:
    return make_decoder(type, Names())(b"\xee" * 3 + raw + b"\xee" * 40, 3)


def text(type: t.Type, raw: bytes) -> str:
    return to_text(decode(type, raw))


def struct_of(*fields: tuple[Any, ...], name: str = "s", size: int = 64) -> t.Struct:
    return t.Struct(name, size, lambda: tuple(t.StructField(*f) for f in fields))


@pytest.mark.parametrize(("type", "raw", "value"), [
    (t.INT8, b"\xff", -1), (t.UINT8, b"\xff", 255), (t.INT64, b"\xfe" + b"\xff" * 7, -2),
    (t.UINT64, b"\xff" * 8, 2**64 - 1), (t.BOOL, b"\1", True),
    (t.Str(8), b"abc\0xyz\0", "abc"), (t.Str(8), b"\0" * 8, ""),
    (t.Buf(6), struct.pack("=I6s", 2, b"a\nrest"), b"a\n"), (t.Buf(2), struct.pack("=I2s", 99, b"ab"), b"ab"),
    (t.Array(t.INT16, 2), struct.pack("=2h", 1, -1), (1, -1)),
    (t.Array(t.Array(t.UINT8, 2), 2), b"\1\2\3\4", ((1, 2), (3, 4))),
    (t.Tuple((t.INT8, t.INT64)), struct.pack("=b7xq", 1, -5), (1, -5)),
    (t.Tuple((t.INT8, t.Str(4))), b"\1ab\0\0", (1, "ab")), (t.Tuple(()), b"", ()),
])
def test_plain_values(type: t.Type, raw: bytes, value: Any) -> None:
    assert decode(type, raw) == value


@pytest.mark.parametrize(("type", "raw", "expected"), [
    (t.BOOL, b"\1", "true"), (t.BOOL, b"\0", "false"), (t.VOID, b"", ""),
    (t.Pointer(t.INT8), struct.pack("=Q", 0xFFFF8880), "0xffff8880"),
    (t.Enum("e", 32, False, {3: "THREE"}), struct.pack("=I", 3), "THREE"),
    (t.Enum("e", 32, False, {3: "THREE"}), struct.pack("=I", 4), "4"),
    (t.Buf(3), struct.pack("=I3s", 3, b"a\x01~"), "a\\x01~"),
    (t.Inet(), struct.pack("=I16s", 2, b"\x7f\0\0\1"), "127.0.0.1"),
    (t.Inet(), struct.pack("=I16s", 10, b"\0" * 15 + b"\1"), "::1"), (t.Inet(), b"\0" * 20, ""),
    (t.MacAddr(), b"\x18\xc0\x4d\x08\x2e\xbb", "18:C0:4D:08:2E:BB"),
    (t.Tuple((t.INT8, t.Tuple((t.INT8, t.Str(2))))), b"\1\2a\0", "(1, (2, a))"),
    (t.Tuple((t.INT8, t.BOOL), ("x", "y")), b"\1\1", "{ .x = 1, .y = true }"),
    (t.Array(t.INT8, 2), b"\1\2", "[1,2]"),
    (t.Symbol("ksym"), struct.pack("=Q", 0x1000), "do_x"), (t.Symbol("ksym"), struct.pack("=Q", 0x9), "0x9"),
    (t.Symbol("username"), struct.pack("=Q", 0), "root"), (t.Symbol("probe"), struct.pack("=Q", 1), "tracepoint:a:b"),
    (t.Symbol("strerror"), struct.pack("=q", 1), "Operation not permitted"),
    (t.Symbol("signal_name"), struct.pack("=q", 9), "Killed"),
    (t.Symbol("signal_name"), struct.pack("=q", 34), "Real-time signal 0"),
    (t.Symbol("signal_name"), struct.pack("=q", 32), "Unknown signal 32"),
    (t.Symbol("signal_name"), struct.pack("=q", 0), "Unknown signal 0"),
    (t.Symbol("signal_name"), struct.pack("=q", 65), "N/A"), (t.Symbol("signal_name"), struct.pack("=q", -1), "N/A"),
    (t.Symbol("strerror"), struct.pack("=q", -2), "No such file or directory"),
    (t.Symbol("strerror"), struct.pack("=q", 9999), "Unknown error"),
    (t.Symbol("strerror"), struct.pack("=q", -(1 << 63)), "Unknown error"),
    (t.Symbol("syscall_name"), struct.pack("=q", 0), "read"),
    (t.Symbol("cgroup_path", "x*"), struct.pack("=Q", 5), "unified:/5x*"),
    (t.USym(), struct.pack("=QII", 0x400010, 5, 0), "main"),
    (t.USym(), struct.pack("=QII", 0x400010, 6, 0), "0x400010"),
])
def test_text(type: t.Type, raw: bytes, expected: str) -> None:
    assert text(type, raw) == expected


def test_bytes_that_are_not_utf8_come_out_as_they_went_in() -> None:
    assert text(t.Str(8), b"a\xff\xc3\0").encode("utf-8", "surrogateescape") == b"a\xff\xc3"


def test_only_strings_of_strs_own_size_show_that_they_were_cut() -> None:
    assert text(t.Str(8), b"abcdefg\0") == "abcdefg.."
    assert text(t.Str(8), b"abcdef\0\0") == "abcdef"
    assert text(t.Str(4), b"abc\0") == "abc"


def test_structs_print_their_fields_and_those_of_anonymous_members() -> None:
    inner = struct_of(("b", t.INT8, 0), ("c", t.INT8, 1), size=2)
    type = struct_of(("a", t.INT8, 0), ("", inner, 1), ("d", inner, 3))
    value = decode(type, b"\1\2\3\4\5")
    assert to_text(value) == "{ .a = 1, .b = 2, .c = 3, .d = { .b = 4, .c = 5 } }"
    assert (value.b, value["d"]["c"]) == (2, 5)
    assert hash(value) == hash(decode(type, b"\1\2\3\4\5"))
    with pytest.raises(AttributeError):
        _ = value.nothing


def test_structs_with_arrays_can_be_keys() -> None:
    type = struct_of(("a", t.Array(t.Array(t.INT8, 1), 2), 0), ("b", struct_of(("c", t.INT8, 0), size=1), 2))
    key = decode(type, b"\1\2\3")
    assert {key: 1}[decode(type, b"\1\2\3")] == 1
    assert to_text(key) == "{ .a = [[1],[2]], .b = { .c = 3 } }"


def test_bitfields() -> None:
    type = struct_of(("u", t.UINT32, 0, 3, 2), ("s", t.INT32, 0, 5, 3), ("b", t.BOOL, 1, 0, 1))
    assert to_text(decode(type, bytes([0b111_10_000, 1]))) == "{ .u = 2, .s = 7, .b = true }"


def test_records_have_names() -> None:
    value = decode(t.Tuple((t.INT8, t.INT8), ("x", "y")), b"\1\2")
    assert (value.x, value.y, value[0], value._asdict()) == (1, 2, 1, {"x": 1, "y": 2})


def stack(user: bool, mode: str, id: int, tgid: int, limit: int = 127) -> StackTrace:
    value = decode(t.Stack(user, mode, limit), struct.pack("=QII", id, tgid, 2))
    assert isinstance(value, StackTrace)
    return value


@pytest.mark.parametrize(("value", "expected"), [
    (stack(False, "bpftrace", 7, 0), "\n        do_x+1\n        0x2002\n"),
    (stack(False, "perf", 7, 0), "\n\t1001 do_x+1\n\t2002 0x2002\n"),
    (stack(False, "raw", 7, 0), "\n1001\n2002\n"),
    (stack(True, "perf", 8, 5), "\n\t400010 main+16 (/bin/x)\n"),
    (stack(True, "perf", 8, 6), "\n\t400010 0x400010 ([unknown])\n"),
    (stack(True, "build_id", 8, 5), "\nabcd 0x10\n"),
    (stack(False, "bpftrace", 7, 0, 1), "\n        do_x+1\n"), (stack(False, "bpftrace", 0, 0), "\n"),
    (stack(False, "bpftrace", 9, 0), "\n        [lost]\n"),
])
def test_stacks(value: StackTrace, expected: str) -> None:
    assert to_text(value) == expected


def test_stacks_in_keys() -> None:
    assert key_text((stack(False, "bpftrace", 7, 0), 1)) == "\n        do_x+1\n        0x2002\n, 1"
    assert stack(False, "bpftrace", 7, 0) == stack(False, "bpftrace", 7, 0)
    assert [frame.name for frame in stack(True, "perf", 8, 5).frames] == ["main"]


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    import time
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert strftime("%H:%M:%S.%f %%f", 1_700_000_000_001_234_999) == "22:13:20.001234 %f"
    assert strftime("%T.%k|%l|%%k", 1_234_567_890) == strftime("%T", 1_234_567_890) + ".234567890|234|%k"
    assert text(t.Timestamp("%S"), struct.pack("=Q", 5_000_000_000)) == "25"
