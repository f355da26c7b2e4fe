"""The pairs of a large map of numbers, by columns. Python objects for all keys, values and pairs would take several
times the memory, and be sorted and printed from places that are anywhere in it, which is most of the time."""

from __future__ import annotations

from _collections_abc import Sequence
from array import array
from math import prod

from ...types import Aggregate, Int, Tuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    from ...spec import MapSpec
    from .values import Item

    Digit: TypeAlias = tuple[int, int]  # of numbers: the least, and how many there are from there to the greatest

_PORTION = 1 << 13  # rows that are made objects at a time
_RUN = 1 << 16      # rows that are sorted by themselves first
_EXACT = 1 << 53  # floats up to here are whole numbers


class NumberRows(Sequence["Item"]):
    """(key, value) pairs: the columns are the parts of the key and the value. ``signed`` is said of each of them,
    ``is_tuple`` that keys are tuples."""

    def __init__(self, signed: Sequence[bool], is_tuple: bool) -> None:
        self._signed = signed
        self._is_tuple = is_tuple
        self._columns = [array("q" if each else "Q") for each in signed]

    def append_columns(self, columns: Sequence[Sequence[int]]) -> None:
        """Add rows."""
        for column, numbers in zip(self._columns, columns):
            column.extend(array(column.typecode, numbers))

    def in_order(self, top: int = 0) -> NumberRows:
        """In the order of printing: by value, then by key; the last ``top``. What is sorted is one number for each row,
        whose digits are the value and the parts of the key; floats where they can be, which compare fastest."""
        digits = [_describe(column) for column in self._columns]
        codes = self._sorted_floats(digits) if _greatest_code(digits) <= _EXACT else self._sorted_integers(digits)
        if top:
            del codes[:-top]
        rows = NumberRows(self._signed, self._is_tuple)
        for at in range(0, len(codes), _PORTION):
            rows.append_columns(_split_digits(list(map(int, codes[at:at + _PORTION])), digits))
        return rows

    def _sorted_floats(self, digits: Sequence[Digit]) -> list[float]:
        """The codes, sorted by runs first, which are then made anew: merging them reads memory in its order."""
        runs = array("d")
        for at in range(0, len(self), _RUN):
            run = list(map(float, _join_digits(self._numbers(at, at + _RUN), digits)))
            run.sort()
            runs.extend(array("d", run))
        codes = runs.tolist()
        codes.sort()
        return codes

    def _sorted_integers(self, digits: Sequence[Digit]) -> list[int]:
        codes: list[int] = []
        for at in range(0, len(self), _PORTION):
            codes += _join_digits(self._numbers(at, at + _PORTION), digits)
        codes.sort()
        return codes

    def lines(self, name: str) -> bytes:
        """The rows as text, a line for each; a column that is the same in all of them is formatted once."""
        varying, texts = [], []
        for column in self._columns:
            is_constant = _is_constant(column)
            texts.append(str(column[0]) if is_constant else "%d")
            if not is_constant:
                varying.append(column.tolist())
        flat = varying[0] if len(varying) == 1 else [0] * (len(self) * len(varying))
        if len(varying) > 1:
            for at, numbers in enumerate(varying):
                flat[at::len(varying)] = numbers
        template = f"{name}[{', '.join(texts[:-1])}]: {texts[-1]}\n".encode()
        return template * len(self) % tuple(flat)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            at = range(len(self))[index]
            return self._pairs(at, at + 1)[0]
        rows = NumberRows(self._signed, self._is_tuple)
        rows._columns = [column[index] for column in self._columns]
        return rows

    def __iter__(self) -> Iterator[Item]:
        for at in range(0, len(self), _PORTION):
            yield from self._pairs(at, at + _PORTION)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    def _numbers(self, start: int, stop: int) -> list[list[int]]:
        return [column[start:stop].tolist() for column in self._columns]

    def _pairs(self, start: int, stop: int) -> list[Item]:
        *keys, values = self._numbers(start, stop)
        return list(zip(zip(*keys) if self._is_tuple else keys[0], values))


def _describe(column: array[int]) -> Digit:
    if _is_constant(column):
        return column[0], 1
    numbers = column.tolist()
    least = min(numbers, default=0)
    return least, max(numbers, default=0) - least + 1


def _is_constant(column: array[int]) -> bool:
    return bool(column) and column[0] == column[-1] and column[:-1] == column[1:]


def _greatest_code(digits: Sequence[Digit]) -> int:
    """The greatest distance from 0 of any number that :func:`_join_digits` makes."""
    return prod([max(count, abs(least) + count) for least, count in digits if count > 1])


def _join_digits(columns: Sequence[list[int]], digits: Sequence[Digit]) -> list[int]:
    """One number for each row of key and value, with the value as its most significant digit."""
    codes = [0] * len(columns[0])
    first = True
    for numbers, (least, count) in zip((columns[-1], *columns[:-1]), (digits[-1], *digits[:-1])):
        if count > 1:
            codes = numbers if first else [code * count + number - least for code, number in zip(codes, numbers)]
            first = False
    return codes


def _split_digits(codes: list[int], digits: Sequence[Digit]) -> list[list[int]]:
    """The inverse of :func:`_join_digits`: the columns."""
    columns: list[list[int]] = []
    varying = sum(count > 1 for _, count in digits)
    for least, count in (*digits[-2::-1], digits[-1]):  # from the least significant one
        if count == 1:
            columns.append([least] * len(codes))
            continue
        varying -= 1
        if not varying:
            columns.append(codes)
            continue
        columns.append([code % count + least for code in codes])
        codes = [code // count for code in codes]
    *keys, values = columns
    return [*keys[::-1], values]


def make_rows(spec: MapSpec) -> NumberRows | None:
    """The rows of a map's pairs; None unless all keys and values are numbers."""
    key, value = spec.key, spec.value
    parts = list(key.of) if isinstance(key, Tuple) and not key.names else [key]
    signed = [part.signed for part in parts if isinstance(part, Int) and part.__class__ is Int]
    if not parts or len(signed) != len(parts):
        return None
    if isinstance(value, Aggregate) and value.kind in ("count", "sum"):
        return NumberRows([*signed, value.signed and value.kind == "sum"], isinstance(key, Tuple))
    if isinstance(value, Int) and value.__class__ is Int:
        return NumberRows([*signed, value.signed], isinstance(key, Tuple))
    return None
