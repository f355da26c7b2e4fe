"""What fits a terminal's width: numbers stay whole, texts become shorter, what goes is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.output.live.fitting import LEAST, PAD, fit_columns, fit_pieces, shorten_cell


@pytest.mark.parametrize(("widths", "texts", "room", "expected"), [
    ([5, 8], [False, True], 80, [5, 8]),
    ([5, 60, 30], [False, True, True], 80, [5, 39, 30]),
    ([5, 60, 60], [False, True, True], 60, [5, 24, 25]),
    ([5, 60, 9, 9], [False, True, False, False], 30, [5, 10, 9, 0]),
    ([5, 9, 9, 9], [False] * 4, 20, [5, 9, 0, 0]),
    ([40], [False], 20, [40])])
def test_columns(widths: list[int], texts: list[bool], room: int, expected: list[int]) -> None:
    assert fit_columns(widths, texts, room) == expected


def test_the_column_of_the_order_stays() -> None:
    assert fit_columns([5, 9, 9, 9], [False] * 4, 20, {0, 3}) == [5, 0, 0, 9]


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=12), st.integers(20, 200))
def test_numbers_are_never_cut_and_all_fits(columns: list[tuple[int, bool]], room: int) -> None:
    widths, texts = [width for width, _ in columns], [text for _, text in columns]
    fitted = fit_columns(widths, texts, room)
    for width, text, shown in zip(widths, texts, fitted):
        assert shown in (0, width) if not text else shown == 0 or min(width, LEAST) <= shown <= width
    if sum(map(bool, fitted)) > 1:
        assert sum([shown + PAD for shown in fitted if shown]) <= room
    if sum([width + PAD for width in widths]) <= room:
        assert fitted == widths


def test_texts_and_lines() -> None:
    assert shorten_cell("/a/long/path/to/x.py", 10) == "…h/to/x.py" and shorten_cell("a_long_name", 6) == "a_lon…"
    assert shorten_cell("name", 4) == "name"
    assert fit_pieces(["title", "0:03", "", "a long note", "x"], 20) == "title  0:03"
    assert fit_pieces(["title", "", "x"], 20) == "title  x" and fit_pieces(["a very long title"], 8) == "a very …"
