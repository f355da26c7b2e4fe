"""Drawing on a terminal: lines cut to its width, blocks told apart, the last of them kept."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator

import pytest

from sonde.output.live.blocks import Blocks, Counter
from sonde.output.live.screen import Screen, fit_line
from sonde.spec import Attach, Config, ProgramSpec, ScriptSpec

SECOND = 1_000_000_000


def script(*periods: int) -> ScriptSpec:
    points = [Attach("interval", f"interval:{period}", period=period) for period in periods]
    return ScriptSpec([ProgramSpec("p", "perf_event", b"", points)], [], [], [], [], [], Config())


@pytest.mark.parametrize(("line", "columns", "expected"), [
    ("short", 10, "short"),
    ("exactly", 7, "exactly"),
    ("too long", 5, "too l"),
    ("a\tb", 20, "a       b"),
    ("\x1b[31mred\x1b[0m", 3, "\x1b[31mred\x1b[0m\x1b[0m"),
    ("\x1b[31mlonger\x1b[0m", 3, "\x1b[31mlon\x1b[0m"),
    ("漢字漢字", 5, "漢字"),
    ("e\u0301e\u0301e\u0301", 2, "e\u0301e\u0301"),
    ("", 5, ""),
])
def test_lines_are_cut_to_the_width(line: str, columns: int, expected: str) -> None:
    assert fit_line(line, columns) == expected


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_what_does_not_fit_is_counted(pipe: tuple[int, int]) -> None:
    screen = Screen(pipe[1])
    assert screen.size == (80, 24)  # no terminal
    screen.draw_lines([f"line {i}" for i in range(30)])
    text = os.read(pipe[0], 1 << 16).decode()
    assert "line 22" in text and "line 23" not in text and "... 7 more lines than fit" in text
    assert text.count("\r\n") == 23 and text.startswith("\x1b[H") and text.endswith("\x1b[J")


def test_the_terminal_is_given_back_once(pipe: tuple[int, int]) -> None:
    screen = Screen(pipe[1])
    screen.close()
    screen.open()
    screen.open()
    screen.close()
    screen.close()
    text = os.read(pipe[0], 1 << 16)
    assert text.count(b"\x1b[?1049h") == text.count(b"\x1b[?1049l") == text.count(b"\x1b[?25h") == 1


def test_firings_are_told_apart_by_the_kernels_time() -> None:
    counter = Counter(script(SECOND))
    at = 5 * SECOND
    new = [counter.is_new(f"interval:{SECOND}", at + offset) for offset in
           (0, 10, 1000, SECOND - 900_000, SECOND, SECOND + 50, 3 * SECOND)]
    assert new == [True, False, False, True, False, False, True]
    assert counter.blocks == 3 and counter.begun == 8 * SECOND


def test_each_interval_has_its_own_blocks() -> None:
    counter = Counter(script(SECOND, 5 * SECOND))
    assert counter.is_new(f"interval:{SECOND}", SECOND) and counter.is_new(f"interval:{5 * SECOND}", SECOND + 1)
    assert counter.is_new(f"interval:{SECOND}", 2 * SECOND) and not counter.is_new(f"interval:{5 * SECOND}", 2 * SECOND)


def test_only_the_last_block_is_left(capfd: pytest.CaptureFixture[str]) -> None:
    blocks = Blocks(script(SECOND), "x")
    for i in range(1, 4):
        blocks.switch_probe(f"interval:{SECOND}", i * SECOND)
        blocks.write_text(b"block %d\n" % i)
    blocks.switch_probe("tracepoint:a:b", 3 * SECOND + 5)
    blocks.write_text(b"an event\n")
    blocks.leave_screen()
    blocks.write_text(b"behind\n")
    blocks.flush(True)
    assert capfd.readouterr().out == "block 3\nan event\nbehind\n"


def test_what_comes_before_the_first_block_is_printed_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    blocks = Blocks(script(SECOND), "x")
    blocks.report_attached(2)
    blocks.switch_probe("begin", 1)
    blocks.write_text(b"hello\n")
    blocks.flush()
    shown = capfd.readouterr()
    assert shown.out == "hello\n" and shown.err == "Attached 2 probes\n"
    blocks.leave_screen()
    assert capfd.readouterr().out == ""


def test_a_block_without_end_is_cut_and_counted(capfd: pytest.CaptureFixture[str]) -> None:
    blocks, line = Blocks(script(SECOND), "x"), b"a line of thirty characters ..\n"
    for _ in range(200_000):
        blocks.switch_probe(f"interval:{SECOND}", SECOND)
        blocks.write_text(line)
    blocks.leave_screen()
    *kept, last = capfd.readouterr().out.splitlines(keepends=True)
    assert set(kept) == {line.decode()} and len(kept) == (1 << 20) // len(line)
    assert last == f"... {len(line) * (200_000 - len(kept))} more characters, for which there is no room\n"


def test_of_what_stands_below_the_blocks_the_last_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    """Pieces of any size, with and without line ends: tracemalloc tells what is held."""
    blocks = Blocks(script(SECOND), "x")
    blocks.switch_probe(f"interval:{SECOND}", SECOND)
    tracemalloc.start()
    for number in range(300):
        blocks.switch_probe("tracepoint:a:b", SECOND + number)
        blocks.write_text(b"%d " % number + b"x" * 100_000)
    blocks.switch_probe("tracepoint:a:b", SECOND)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    blocks.leave_screen()
    text = capfd.readouterr().out
    assert held < 2 << 20 and text.endswith("299 " + "x" * 100_000)


def test_before_there_is_a_picture_nothing_is_cut(capfd: pytest.CaptureFixture[str]) -> None:
    blocks, text = Blocks(script(SECOND), "x"), b"".join(b"line %d\n" % number for number in range(10))
    blocks.switch_probe("begin", 1)
    for size in (1, 5_000, 100_000, 1, 60_000):  # each by itself, until the next record is there
        blocks.write_text(text * size)
        blocks.switch_probe("begin", 1)
    blocks.flush()
    assert capfd.readouterr().out == text.decode() * 165_002
