"""Rows of numbers are the pairs that objects would be, in the same order and the same text."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.output import text
from sonde.output.text import sort_items, text_output
from sonde.runtime.records import events
from sonde.runtime.records.number_rows import NumberRows, make_rows
from sonde.types import Aggregate, Bool, Enum, Int, Str, Tuple

U64, S64, U32, S8 = Int(64, False), Int(64, True), Int(32, False), Int(8, True)
WORD = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1), st.just(1 << 53))


def rows_of(pairs: list[Any], signed: list[bool], is_tuple: bool) -> NumberRows:
    rows = NumberRows(signed, is_tuple)
    flat = [(*key, value) if is_tuple else (key, value) for key, value in pairs]
    rows.append_columns([list(column) for column in zip(*flat)])
    return rows


def printed(items: Any, top: int = 0, div: int = 1) -> bytes:
    pieces: list[bytes] = []
    text_output(pieces.append).write_map("@x", items, top, div)
    return b"".join(pieces)


@given(st.dictionaries(WORD, WORD, min_size=1), st.integers(0, 5), st.sampled_from([1, 10]))
def test_numbers_by_numbers(pairs: dict[int, int], top: int, div: int) -> None:
    items = list(pairs.items())
    rows = rows_of(items, [True, True], False)
    assert rows == items and len(rows) == len(items) and rows[-1] == items[-1] and rows[:2] == items[:2]
    assert list(sort_items(rows, top)) == list(sort_items(items, top))
    assert printed(rows, top, div) == printed(items, top, div)


@given(st.dictionaries(st.tuples(WORD, st.integers(0, (1 << 64) - 1)), st.integers(0, (1 << 64) - 1), min_size=1))
def test_numbers_by_tuples(pairs: dict[tuple[int, int], int]) -> None:
    items = list(pairs.items())
    rows = rows_of(items, [True, False, False], True)
    assert rows == items
    assert list(sort_items(rows)) == list(sort_items(items)) and printed(rows) == printed(items)


def test_rows_beyond_one_portion_are_in_order() -> None:
    chance = random.Random(1)
    items = [(key, chance.randrange(50)) for key in chance.sample(range(1 << 40), 30_000)]
    rows = rows_of(items, [False, False], False)
    assert list(rows.in_order()) == sorted(items, key=lambda item: (item[1], item[0]))
    assert list(rows.in_order(10_000)) == list(rows.in_order())[-10_000:]
    assert printed(rows) == printed(items)


@pytest.mark.parametrize(("key", "value", "taken"), [
    (U64, S64, True), (Tuple((U32, S8)), U64, True), (U64, Aggregate("count"), True), (U64, Aggregate("sum"), True),
    (U64, Aggregate("hist"), False), (Str(16), U64, False), (Tuple((U64, Str(16))), U64, False), (Bool(), U64, False),
    (Enum("e"), U64, False), (Tuple((U64,), ("x",)), U64, False), (U64, Enum("e"), False), (Tuple(()), U64, False)])
def test_only_numbers_are_rows(key: Any, value: Any, taken: bool) -> None:
    spec: Any = SimpleNamespace(key=key, value=value)
    assert (make_rows(spec) is not None) is taken


@pytest.mark.parametrize(("key", "value"), [(Tuple((U32, S8, U64)), Int(16, True)), (S8, Aggregate("sum", True)),
                                            (U32, Aggregate("count"))])
def test_a_large_map_is_read_as_a_small_one(key: Any, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    total = isinstance(value, Aggregate)
    spec = SimpleNamespace(name="@x", key=key, value=value, key_size=key.size, value_size=8 if total else value.size,
                           memory=False, short="", type="hash")
    chance = random.Random(2)
    keys = chance.randbytes(key.size * 100)
    values: Any = chance.randbytes(200)
    if total:
        values = [(number - (5 if value.kind == "sum" else 0),) for number in range(100)]
    found = SimpleNamespace(spec=spec, columns=lambda clear: iter([(keys, values)]))
    plain = events.MapReader({"@x": found}, None)("@x")  # type: ignore[arg-type,dict-item]
    monkeypatch.setattr(events, "MANY", 32)
    told: list[int] = []
    reader = events.MapReader({"@x": found}, None)  # type: ignore[arg-type,dict-item]
    reader.progress = lambda name, count, whole: told.append(count)
    rows = reader("@x")
    assert isinstance(rows, NumberRows) and isinstance(plain, list) and rows == plain and told == [32, 64, 96, 100]
    assert printed(rows) == printed(plain)


def test_lists_are_no_rows() -> None:
    assert text._number_rows([(1, 2)]) is None and text._number_rows(()) is None
