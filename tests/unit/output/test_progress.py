"""Bars for long work: what they say, when they show, and that they are gone behind it."""

from __future__ import annotations

import os
import re

import pytest

from sonde.output.progress import Progress, make_progress, progress_line, track_progress


@pytest.mark.parametrize(("done", "whole", "unit", "columns", "expected"), [
    (0, 10, "s", 80, "work  [" + " " * 40 + "]  0 of 10 s"),
    (5, 10, "s", 80, "work  [" + "#" * 20 + " " * 20 + "]  5 of 10 s"),
    (11, 10, "s", 80, "work  [" + "#" * 40 + "]  10 of 10 s"),
    (250_000, 1_000_000, "keys", 60, "work  [" + "#" * 6 + " " * 17 + "]  250,000 of 1,000,000 keys"),
    (1, 2, "", 16, "work  1 of 2"),
    (1, 2, "", 8, "work  1"),
    (0, 0, "", 40, "work  [" + "#" * 22 + "]  0 of 0"),
])
def test_the_line(done: float, whole: float, unit: str, columns: int, expected: str) -> None:
    assert progress_line("work", done, whole, unit, columns) == expected
    assert len(expected) < columns


def shown(work: list[tuple[str, float]], bar: Progress, end: int) -> str:
    for name, done in work:
        bar.show_progress(name, done, 10, "s", True)
    bar.clear_bar()
    os.set_blocking(end, False)
    try:
        return os.read(end, 1 << 16).decode()
    except BlockingIOError:
        return ""


def test_it_is_drawn_over_and_taken_away() -> None:
    read, write = os.pipe()
    try:
        text = shown([("one", 1), ("two", 2)], Progress(write), read)
        assert re.findall(r"one|two", text) == ["one", "two"] and text.endswith("\r\x1b[K")
        assert text.count("\r\x1b[K") == 3 and "\n" not in text
    finally:
        os.close(read)
        os.close(write)


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("sonde.output.progress.time.monotonic", lambda: clock[0])
    read, write = os.pipe()
    try:
        bar = Progress(write)
        assert list(bar.track_items(list(range(100_000)), "counting", "numbers")) == list(range(100_000))
        assert shown([], bar, read) == ""
        for _ in bar.track_items(list(range(10_000)), "counting", "numbers"):
            clock[0] += 0.001
        assert "4,096 of 10,000 numbers" in shown([], bar, read)
        assert list(track_progress(None, [1, 2], "x", "")) == [1, 2]
    finally:
        os.close(read)
        os.close(write)


def test_nobody_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(os, "isatty", lambda descriptor: False)
    assert make_progress() is None
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    assert make_progress() is not None and make_progress(quiet=True) is None
    monkeypatch.setenv("TERM", "dumb")
    assert make_progress() is None
