"""Text output: maps, histograms, messages, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding import Names
from sonde.output.stream import Stream
from sonde.output.text import TextOutput, element_label, encode_text, line_safe, sort_items
from sonde.runtime.maps.aggregates import Histogram, Stats
from sonde.runtime.records.values import (
    ArrayValue,
    EnumValue,
    PointerValue,
    StackTrace,
    StructValue,
    make_record_class,
    to_text,
)
from sonde.source import ExpandedSpan, Source, Span
from sonde.types import Stack


class Screen:
    """A text output on two pipes."""

    def __init__(self, quiet: bool = False, buffering: str = "line") -> None:
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self.text = TextOutput(Stream(out, buffering), Stream(err, "none"), quiet)
        self.open = [self.out, out, self.err, err]

    def shown(self) -> bytes:
        self.text.flush(True)
        return self._read(self.out)

    def told(self) -> bytes:
        return self._read(self.err)

    @staticmethod
    def _read(descriptor: int) -> bytes:
        os.set_blocking(descriptor, False)
        try:
            return os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return b""


@pytest.fixture
def screen() -> Iterator[Screen]:
    found = Screen()
    yield found
    for descriptor in found.open:
        os.close(descriptor)


def stack(id: int) -> StackTrace:
    return StackTrace(Stack(), id, 0, 2, Names())


FRAMES = "        do_x+1\n        0x2002\n"


@pytest.mark.parametrize(("items", "expected"), [
    ([(None, 1)], "@x: 1\n"),
    ([(None, "hi")], "@x: hi\n"),
    ([(None, True)], "@x: true\n"),
    ([], ""),
    ([((1, "foo"), 5), ((0, "bar"), 2)], "@x[0, bar]: 2\n@x[1, foo]: 5\n"),
    ([(3, -1), (2, -5)], "@x[2]: -5\n@x[3]: -1\n"),
    ([(5, "b"), (3, "a"), (-1, "c")], "@x[-1]: c\n@x[3]: a\n@x[5]: b\n"),
    ([("b", (1, 2)), ("a", (3, (4, "z")))], "@x[a]: (3, (4, z))\n@x[b]: (1, 2)\n"),
    ([(("z", 2), "x"), (("a", 5), "y"), (("a", 3), "y")], "@x[a, 3]: y\n@x[a, 5]: y\n@x[z, 2]: x\n"),
    ([((1, (2, 3)), 4)], "@x[1, (2, 3)]: 4\n"),
    ([(PointerValue(16), PointerValue(0))], "@x[0x10]: 0x0\n"),
    ([(1, Stats(1, 10, 10)), (2, Stats(1, 4, 4))], "@x[2]: { .count = 1, .average = 4, .total = 4 }\n"
                                                   "@x[1]: { .count = 1, .average = 10, .total = 10 }\n"),
    ([(stack(7), 3)], f"@x[\n{FRAMES}]: 3\n"),
    ([((stack(7), 1), 3)], f"@x[\n{FRAMES}, 1]: 3\n"),
    ([(None, stack(7))], f"@x: \n{FRAMES}\n"),
    ([(1, stack(7)), (2, stack(7))], f"@x[1]: \n{FRAMES}\n@x[2]: \n{FRAMES}\n"),
    ([(1, stack(0)), (2, stack(0))], "@x[1]: \n\n@x[2]: \n\n"),
])
def test_maps(screen: Screen, items: list[tuple[Any, Any]], expected: str) -> None:
    screen.text.write_map("@x", items)
    assert screen.shown().decode() == expected


def test_enums_are_sorted_by_number_and_shown_by_name(screen: Screen) -> None:
    kind = type("e", (EnumValue,), {"names": {1: "ONE", 2: "ALPHA"}})
    screen.text.write_map("@", [(kind(2), kind(2)), (kind(1), kind(1)), (0, kind(3))])
    assert screen.shown() == b"@[ONE]: ONE\n@[ALPHA]: ALPHA\n@[0]: 3\n"


def test_top_and_div(screen: Screen) -> None:
    screen.text.write_map("@i", [(2, 20), (1, 10), (3, 31)], top=2, div=10)
    screen.text.write_map("@n", [(1, -9)], div=2)
    screen.text.write_map("@s", [(1, Stats(1, 10, 10)), (2, Stats(1, 4, 4))], top=1, div=2)
    assert screen.shown() == (b"@i[2]: 2\n@i[3]: 3\n@n[1]: -4\n"
                              b"@s[1]: { .count = 1, .average = 5, .total = 10 }\n")


def test_div_is_for_each_number_of_a_value(screen: Screen) -> None:
    record = make_record_class(("x", "y"))
    for value in [(10, "s", (True, -7)), record([9, ArrayValue([8, 6])]), StructValue(x=5, s="6", p=PointerValue(64))]:
        screen.text.write_map("@", [("a", value)], div=2)
    assert screen.shown() == (b"@[a]: (5, s, (true, -3))\n"
                              b"@[a]: { .x = 4, .y = [4,3] }\n"
                              b"@[a]: { .x = 2, .s = 6, .p = 0x40 }\n")


def test_histograms_by_rising_total(screen: Screen) -> None:
    one, two = Histogram([0, 1]), Histogram([0, 1, 1])
    screen.text.write_map("@h", [(1, two), (2, one)])
    screen.text.write_map("@h", [(1, two), (2, one)], top=1)
    screen.text.write_map("@z", [(None, Histogram([0, 0]))])
    bar = "|" + "@" * 52 + "|\n"
    first = f"@h[2]:\n[0]                    1 {bar}\n"
    second = f"@h[1]:\n[0]                    1 {bar}[1]                    1 {bar}\n"
    assert screen.shown().decode() == first + second + second + "@z:\n\n"  # zero() left it nothing


def test_values(screen: Screen) -> None:
    for value in (5, "s\udcff", (1, "x"), ArrayValue((1, 2)), True, stack(7), PointerValue(255)):
        screen.text.write_value(value)
    assert screen.shown() == b"5\ns\xff\n(1, x)\n[1,2]\ntrue\n\n" + FRAMES.encode() + b"\n0xff\n"


def test_the_tracers_own_messages_go_to_stderr(screen: Screen) -> None:
    screen.text.report_attached(1)
    screen.text.report_attached(2)
    screen.text.report_lost_events(7)
    screen.text.write_time("12:00\n")
    screen.text.write_joined("a b")
    screen.text.write_file_content(b"raw\xff")
    screen.text.write_separator()
    assert screen.told() == b"Attached 1 probe\nAttached 2 probes\nLost 7 events\n"
    assert screen.shown() == b"12:00\na b\nraw\xff\n\n"


def test_quiet() -> None:
    screen = Screen(quiet=True)
    screen.text.report_attached(1)
    assert screen.told() == b""
    for descriptor in screen.open:
        os.close(descriptor)


def test_messages_with_a_place(screen: Screen) -> None:
    source = Source("stdin", "begin { print(kstack); }\n")
    screen.text.report_runtime_error("Invalid argument", Span(source, 14, 20), "get_stack", -22, 2)
    screen.text.report_located("ERROR", b"bad 10", Span(source, 8, 21))
    screen.text.report_located("WARNING", b"somewhere", None)
    assert screen.told().decode() == (
        "stdin:1:15-21: WARNING: Invalid argument [2 times]\nAdditional Info - helper: get_stack, retcode: -22\n"
        "begin { print(kstack); }\n              ~~~~~~\n"
        "stdin:1:9-22: ERROR: bad 10\n"
        "WARNING: somewhere\n")


def test_a_message_in_a_macro_shows_the_calls_that_led_there(screen: Screen) -> None:
    source = Source("stdin", "macro a() { errorf(\"no\"); }\nmacro b() {\ta(); }\nbegin { b(); }\n")
    outer = Span(source, 55, 58)
    inner = ExpandedSpan(source, 40, 43, outer)
    screen.text.report_located("ERROR", b"no", ExpandedSpan(source, 12, 24, inner))
    assert screen.told().decode() == (
        "stdin:1:13-25: ERROR: no\n"
        "stdin:2:13-16: ERROR: expanded from\nmacro b() {\ta(); }\n           \t~~~\n"
        "stdin:3:9-12: ERROR: expanded from\nbegin { b(); }\n        ~~~\n")
    screen.text.report_runtime_error("Invalid argument", inner, "get_stack", -22)
    assert screen.told().decode() == (
        "stdin:2:13-16: WARNING: Invalid argument\nAdditional Info - helper: get_stack, retcode: -22\n"
        "macro b() {\ta(); }\n           \t~~~\n"
        "stdin:3:9-12: WARNING: expanded from\nbegin { b(); }\n        ~~~\n")


def test_control_characters_never_leave_their_line() -> None:
    leader, follower = os.openpty()
    err = os.open(os.devnull, os.O_WRONLY)
    try:
        text = TextOutput(Stream(follower), Stream(err, "none"))
        text.write_map("@", [("\x1b]0;x\x07", "a\tb")])
        text.write_value("\x9b1m")
        text.flush(True)
        assert os.read(leader, 100) == b"@[\\x1b]0;x\\x07]: a\\tb\r\n\\x9b1m\r\n"
    finally:
        for descriptor in (leader, follower, err):
            os.close(descriptor)


@pytest.mark.parametrize(("buffering", "at_once", "at_flush"), [
    ("none", b"a\n", b""), ("line", b"", b"a\n"), ("full", b"", b"")])
def test_buffering(buffering: str, at_once: bytes, at_flush: bytes) -> None:
    screen = Screen(buffering=buffering)
    screen.text.write_text(b"a\n")
    assert screen._read(screen.out) == at_once
    screen.text.flush()
    assert screen._read(screen.out) == at_flush
    screen.text.flush(True)
    assert screen._read(screen.out) == b"a\n"[len(at_once) + len(at_flush):]
    for descriptor in screen.open:
        os.close(descriptor)


def test_a_reader_that_has_gone_is_an_error_the_caller_sees() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = Stream(writer)
    stream.write(b"x")
    with pytest.raises(BrokenPipeError):
        stream.flush()
    os.close(writer)


def test_a_reader_that_is_slow_is_waited_for() -> None:
    import threading

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = bytes(1 << 20)
    got: list[bytes] = []

    def read() -> None:
        while sum(map(len, got)) < len(data):
            got.append(os.read(reader, 1 << 16))
    thread = threading.Thread(target=read)
    thread.start()
    stream = Stream(writer, "none")
    stream.write(data)
    thread.join()
    assert b"".join(got) == data
    os.close(reader)
    os.close(writer)


PARTS = st.one_of(st.integers(-3, 3), st.sampled_from(["", "a", "b%s", "\xe4", "\udcff", "\n"]), st.booleans(),
                  st.just(PointerValue(7)))
KEYS = st.one_of(PARTS, st.tuples(PARTS, PARTS), st.tuples(PARTS, st.tuples(PARTS, PARTS)), st.tuples(PARTS))
VALUES = st.one_of(st.integers(-2, 2), st.sampled_from(["x", "%d"]), st.booleans(), st.tuples(PARTS, PARTS))


def order_of(key: Any) -> Any:
    """What keys are sorted by, for one key."""
    if isinstance(key, tuple):
        return tuple(map(order_of, key))
    return encode_text(key) if isinstance(key, str) else key if isinstance(key, int) else 0


def alike(of: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists whose elements have one type throughout, as maps have."""
    return of.flatmap(lambda one: st.lists(of.filter(lambda other: shape(one) == shape(other)), max_size=9))


def shape(value: Any) -> Any:
    return tuple(map(shape, value)) if type(value) is tuple else type(value)


@given(alike(st.tuples(KEYS, VALUES)))
def test_maps_are_sorted_and_written_element_by_element(items: list[tuple[Any, Any]]) -> None:
    """The fast ways give what the definition gives."""
    wanted = sorted(items, key=lambda item: order_of(item[0]))
    if all(type(value) is int for _, value in items):
        wanted.sort(key=lambda item: item[1])
    assert sort_items(items) == wanted
    screen = Screen()
    try:
        screen.text.write_map("@x", items)
        assert screen.shown() == b"".join([encode_text(f"{element_label('@x', key, line_safe)}: "
                                                       f"{to_text(value, line_safe)}\n")
                                           for key, value in wanted])
    finally:
        for descriptor in screen.open:
            os.close(descriptor)
