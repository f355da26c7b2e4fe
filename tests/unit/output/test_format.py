"""printf as C has it: the generated functions against expected text, and against the C library itself (flags and
widths are those of C++'s streams)."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding import Names
from sonde import types as t
from sonde.output.format import Escapes, compile_format, compile_format_of_many
from sonde.output.gfp import gfp_names
from sonde.output.text import line_safe, terminal_safe
from sonde.runtime.records.values import strftime
from sonde.spec import EventField, FormatPart

I8, I16, I32, I64 = t.INT8, t.INT16, t.INT32, t.INT64
U8, U32, U64 = t.UINT8, t.UINT32, t.UINT64
CODES = {8: "b", 16: "h", 32: "i", 64: "q"}


def parts(format: str) -> list[FormatPart]:
    """A small reader of formats, for the tests."""
    found, rest = [], format
    while rest:
        literal, percent, rest = rest.partition("%")
        if literal:
            found.append(FormatPart(literal))
        if percent:
            spec = rest[:len(rest) - len(rest.lstrip("-+ #0123456789."))]
            rest = rest[len(spec):]
            length = next((x for x in ("hh", "h", "ll", "l", "j", "z", "t") if rest.startswith(x)), "")
            rest = rest[len(length):]
            conversion = next(c for c in ("rx", "rh", "rq", "gr", *"diuoxXpcsr") if rest.startswith(c))
            rest = rest[len(conversion):]
            found.append(FormatPart("", conversion, spec, length))
    return found


def printf(format: str, *values: tuple[t.Type, bytes], escape: Any = None) -> bytes:
    record, fields = bytearray(16), []
    for type, raw in values:
        record += bytes(-len(record) % 8)
        fields.append(EventField(type, len(record)))
        record += raw
    data = b"\xee" * 5 + bytes(record) + b"\xee" * 8
    text = compile_format(parts(format), fields, Names(), escape)(data, 5)
    assert compile_format_of_many(parts(format), fields, Names(), escape)(data, [5, 5, 5]) == 3 * text
    return text


def number(type: t.Int, value: int) -> tuple[t.Type, bytes]:
    return type, (value & (1 << type.bits) - 1).to_bytes(type.bits // 8, "little")


def string(value: bytes, capacity: int = 16) -> tuple[t.Type, bytes]:
    return t.Str(capacity), value.ljust(capacity, b"\0")


@pytest.mark.parametrize(("format", "type", "value", "expected"), [
    ("%d", I64, 5_000_000_000, "705032704"), ("%ld", I64, 5_000_000_000, "5000000000"),
    ("%u", I64, 5_000_000_000, "705032704"), ("%llx", I64, 5_000_000_000, "12a05f200"), ("%hhd", I64, 300, "44"),
    ("%hd", I64, 70000, "4464"), ("%hhx", I64, 300, "2c"), ("%zu", I64, -1, "18446744073709551615"),
    ("%u", I8, -1, "4294967295"), ("%x", I16, -1, "ffffffff"), ("%lx", I32, -1, "ffffffffffffffff"),
    ("%d", U32, 2**32 - 1, "-1"), ("%u", U8, 255, "255"), ("%jd", I8, -1, "-1"), ("%i", I32, -3, "-3"),
    ("%lu", U64, 2**64 - 1, "18446744073709551615"), ("%5d|", I64, 1, "    1|"), ("%-5d|", I64, 2, "2    |"),
    ("%05d", I64, -3, "000-3"), ("%+d", I64, 3, "+3"), ("% d", I64, 3, "3"), ("%.3d", I64, 3, "3"),
    ("%-05d", I64, 5, "50000"), ("%05c", I64, 65, "0000A"), ("%+u", I64, 3, "3"), ("%+05d", I64, 3, "000+3"),
    ("%#x", I64, 255, "0xff"), ("%#X", I64, 255, "0XFF"), ("%#o", I64, 8, "010"), ("%#o", I64, 0, "0"),
    ("%#x", I64, 0, "0"), ("%-#8x|", I64, 255, "0xff    |"), ("%#08x", I64, 255, "00000xff"), ("%o", I64, 8, "10"),
    ("%.0d|", I64, 0, "0|"), ("%8.3d|", I64, -5, "      -5|"), ("%+.2d", I64, 5, "+5"), ("%X", I64, 255, "FF"),
    ("%p", U64, 0xFFFF, "0xffff"), ("%p", I8, -1, "0xffffffffffffffff"), ("%p", U64, 0, "0"),
    ("%20p|", U64, 255, "                0xff|"), ("%-10p|", U64, 0, "0         |"), ("%06p", U64, 255, "000xff"),
    ("%c", I64, 65, "A"), ("%5c|", I64, 65, "    A|"), ("%-5c|", I64, 66, "B    |"), ("%c|", I64, 0, "\0|"),
])
def test_integers(format: str, type: t.Int, value: int, expected: str) -> None:
    assert printf(format, number(type, value)) == expected.encode()


@given(st.sampled_from("diuxXo"), st.sampled_from(["", "hh", "h", "l", "ll", "j", "z"]),
       st.sampled_from(["", "-", "+", "#", "-+#", " "]), st.sampled_from(["", "3", "12"]),
       st.integers(-2**63, 2**63 - 1))
def test_integers_are_the_c_librarys(conversion: str, length: str, flags: str, width: str, value: int) -> None:
    import ctypes
    buffer = ctypes.create_string_buffer(128)
    spec = flags + width
    ctypes.CDLL(None).snprintf(buffer, 128, f"%{spec.strip()}{length}{conversion}".encode(), ctypes.c_int64(value))
    assert printf(f"%{spec}{length}{conversion}", number(I64, value)) == buffer.value


def test_strings() -> None:
    values = [string(c) for c in (b"a", b"b", b"c", b"def", b"g", b"h", b"i")]
    assert printf("%s|%6s|%-6s|%.2s|%.0s|%06s|%-06s\n", *values) == (
        b"a|     b|c     |def||00000h|i00000\n")
    assert printf("%s", string(b"\xff\xc3\xa4")) == b"\xff\xc3\xa4"
    assert printf("%s|%-10s|", string(b"abcdefg", 8), string(b"abcdefg", 8)) == b"abcdefg..|abcdefg.. |"
    assert printf("%4d %s %d", number(I32, 7), string(b"x"), number(U8, 8)) == b"   7 x 8"


def test_literals_alone() -> None:
    assert printf("done é\n") == "done é\n".encode()
    assert compile_format([FormatPart("100%\n")], [], Names())(b"", 0) == b"100%\n"
    form = compile_format([FormatPart("100% "), FormatPart("", "d")], [EventField(I8, 0)], Names())
    assert form(b"\1", 0) == b"100% 1"


@pytest.mark.parametrize(("format", "type", "raw", "expected"), [
    ("%s", t.INT8, b"\xff", "-1"), ("%5s", t.Pointer(t.VOID), struct.pack("=Q", 0x10), " 0x10"),
    ("%s", t.BOOL, b"\1", "true"), ("%d", t.BOOL, b"\1", "1"), ("%6s|", t.BOOL, b"\0", " false|"),
    ("%s", t.Enum("e", 32, False, {1: "ONE"}), struct.pack("=I", 1), "ONE"),
    ("%s", t.Enum("e", 32, False, {1: "ONE"}), struct.pack("=I", 2), "2"),
    ("%d", t.Enum("e", 32, False, {1: "ONE"}), struct.pack("=I", 1), "1"),
    ("%r", t.Buf(3), struct.pack("=I3s", 3, b"a\n\\"), "a\\x0a\\"),
    ("%rq", t.Buf(12), struct.pack("=I12s", 12, b'a b\0\0"\\\n\0cut'), '"a b" "" "\\"\\\\\\n" "cut"..'),
    ("%rq", t.Buf(2), struct.pack("=I2s", 0, b""), ""), ("%rq", t.Buf(2), struct.pack("=I2s", 1, b"\0"), '""'),
    ("%rx", t.Buf(2), struct.pack("=I2s", 2, b"ab"), "\\x61\\x62"),
    ("%rh", t.Buf(2), struct.pack("=I2s", 2, b"\x0a\xfe"), "0a fe"),
    ("%rx", t.Array(t.UINT8, 2), b"\1\2", "\\x01\\x02"), ("%r|", t.Str(4), b"a\n\0x", "a\\x0a|"),
    ("%s|", t.Symbol("ksym"), struct.pack("=Q", 0x1000), "do_x|"),
    ("%6s|", t.Symbol("ksym"), struct.pack("=Q", 1), "   0x1|"),
    ("%s", t.Inet(), struct.pack("=I16s", 2, b"\x0a\0\0\1"), "10.0.0.1"),
    ("%s", t.MacAddr(), b"abcdef", "61:62:63:64:65:66"),
    ("%s", t.Tuple((t.INT8, t.BOOL)), b"\1\1", "(1, true)"),
    ("%s", t.Stack(), struct.pack("=QII", 7, 0, 2), "\n        do_x+1\n        0x2002\n"),
    ("%gr", t.UINT32, struct.pack("=I", 0xCC0), "GFP_KERNEL"),
    ("%p", t.Pointer(t.VOID), struct.pack("=Q", 0x10), "0x10"),
    ("%x", t.Pointer(t.VOID), struct.pack("=Q", 0x10), "10"),
])
def test_other_values(format: str, type: t.Type, raw: bytes, expected: str) -> None:
    assert printf(format, (type, raw)) == expected.encode()


def test_fields_need_not_be_in_order() -> None:
    form = compile_format(parts("%d %d"), [EventField(I32, 24), EventField(I32, 16)], Names())
    assert form(struct.pack("=16xi4xi", 1, 2), 0) == b"2 1"


def test_a_terminal_is_not_steered_by_traced_strings() -> None:
    shown = printf("\x1b[1m%s %s %c%c\n", string(b"a\x1b[2Jb\n\x7f"), string("é".encode()), number(I8, 27),
                   number(I8, 65), escape=Escapes(terminal_safe))
    assert shown == b"\x1b[1ma\\x1b[2Jb\n\\x7f " + "é".encode() + b" \\x1bA\n"


@pytest.mark.parametrize("format", ["%s|", "%-4s|"])
def test_no_traced_string_makes_a_line_of_its_own(format: str) -> None:
    evil, shown = string("a\n9\t\\\x1b[2J\u202e".encode()), rb"a\n9\t\\\x1b[2J\u202e|"
    assert printf(format, evil, escape=Escapes(line_safe)) == shown
    assert printf("\n\t\\\\" + format, evil, escape=Escapes(line_safe)) == b"\n\t\\\\" + shown


def test_texts_as_they_are_and_the_scripts_own() -> None:
    lines = string(b"a\n\x1b[2J\tb")
    assert printf("%#s|", lines, escape=Escapes(line_safe, terminal_safe)) == b"a\n\\x1b[2J\tb|"
    assert printf("%#s|", lines, escape=Escapes(line_safe)) == b"a\n\x1b[2J\tb|"
    assert printf("%s|%s", lines, string(b"c\n"), escape=Escapes(line_safe, None, frozenset([0]))) == \
        b"a\n\x1b[2J\tb|c\\n"


def test_gfp_flags() -> None:
    assert gfp_names(0x820 | 2) == "GFP_ATOMIC|__GFP_HIGHMEM"
    assert gfp_names(0x4C0) == "__GFP_IO|__GFP_FS|__GFP_DIRECT_RECLAIM"
    assert gfp_names(0xDC0) == "GFP_KERNEL|__GFP_ZERO"
    assert gfp_names(0xCC0 | 0x10018) == "GFP_KERNEL|__GFP_NORETRY|0x18"
    assert gfp_names(0) == "0" and gfp_names(1 << 31) == "0x80000000"


def test_many_records_come_in_the_order_of_their_offsets() -> None:
    data = b"".join([bytes([number, 0, 0, 0]) for number in range(10)])
    for text, fields in (("%d,", [EventField(I32, 0)]), ("no argument,", [])):
        one, many = (make(parts(text), fields, Names()) for make in (compile_format, compile_format_of_many))
        for offsets in ([4, 0, 36, 8], range(0, 40, 4), []):
            assert many(data, offsets) == b"".join([one(data, at) for at in offsets])


@pytest.mark.parametrize("same", [False, True])
def test_many_records_have_the_texts_of_each(same: bool) -> None:
    """Fields of all widths, texts and numbers that are checked, which all records have alike or not."""
    format = "%d %s|%hhd%hx %-4u %llu %x %5s %c %lld\n"
    fields = [EventField(type, at) for type, at in (
        (I32, 0), (t.Str(16), 4), (I8, 20), (t.UINT16, 22), (U32, 24), (U64, 32), (U64, 40), (t.BOOL, 48), (U8, 49),
        (I64, 56))]
    random = Random(40)
    record = [random.randbytes(64) for _ in range(1 if same else 50)]
    texts = [bytes(random.choices(range(1, 256), k=random.randrange(16))) for _ in record]
    low = [each[:44] + bytes(4) + each[48:] for each in record]
    for records in (record, low):
        whole = [one[:4] + text.ljust(16, b"\0") + one[20:48] + b"\1" + one[49:] for one, text in zip(records, texts)]
        data = bytes(8) + b"".join(whole * (50 // len(whole)))
        for offsets in (range(8, len(data), 64), range(8, len(data), 192), [*range(len(data) - 64, 0, -64)]):
            told: list[list[int]] = [[], []]
            one, many = (make(parts(format), fields, Names(), None, lambda part, value, said=said: said.append(value))
                         for make, said in zip((compile_format, compile_format_of_many), told))
            assert many(data, offsets) == b"".join([one(data, at) for at in offsets])
            assert set(told[0]) == set(told[1])


@pytest.mark.parametrize("form", ["%H:%M:%S", "%H:%M:%S.%f", "%%f %S"])
def test_the_text_of_a_time_changes_with_its_second(form: str) -> None:
    """Of many records, some of one second, also before the clock's zero; in any order."""
    times = [0, 999_999_999, 1_000_000_000, 5, -1, 1_700_000_000_000_000_000, *range(0, 400 * 10**9, 10**9), 7]
    records = b"".join([moment.to_bytes(8, "little", signed=True) for moment in times])
    fields, names = [EventField(t.Timestamp(form), 0)], Names()
    expected = [strftime(form, names.wall_clock(moment, "boot")).encode() + b"\n" for moment in times]
    offsets = range(0, len(records), 8)
    text = compile_format(parts("%s\n"), fields, names, None)
    assert [text(records, at) for at in offsets] == expected
    assert compile_format_of_many(parts("%s\n"), fields, names, None)(records, offsets) == b"".join(expected)


def test_names_of_numbers_are_those_of_each() -> None:
    numbers = [1, 0, 1, -1, 2**63 - 1, *range(300), 1]
    records = b"".join([number.to_bytes(8, "little", signed=True) for number in numbers])
    fields, names = [EventField(t.Symbol("syscall_name"), 0)], Names()
    form = compile_format(parts("%9s|"), fields, names)
    assert [form(records, 8 * at) for at in range(len(numbers))] == [
        b"%9s|" % names.syscall_name(number).encode() for number in numbers]
