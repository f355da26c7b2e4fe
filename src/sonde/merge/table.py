"""Maps of many sources added up."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import SondeError
from ..runtime.aggregate_values import aggregate_value
from ..runtime.merge import MASK, is_additive, merge_states
from ..types import Aggregate
from .delta import Delta
from .portable import decode_value, kind_of

MOST_KEYS = 1 << 20    # of a table
MOST_CELLS = 1 << 22   # words of it that are not 0
MOST_WORDS = 1 << 16   # of one aggregate

Words = list[int]


class MergeError(SondeError):
    """What a source sent cannot be merged."""


class KeyTexts:
    """The keys of one map, decoded, by their texts, of all sources: each text is decoded once, and all have to be of
    one kind."""

    def __init__(self) -> None:
        self._values: dict[bytes, Any] = {}
        self._kind = ""

    def find_key(self, text: bytes) -> Any:
        """The key of a text; PortableError if it is none, MergeError if it is another kind of key, or one too many."""
        found = self._values.get(text, self)
        if found is self:
            found = decode_value(text)
            self._kind = self._kind or kind_of(found)
            if kind_of(found) != self._kind:
                raise MergeError(f"keys of different kinds: {self._kind} and {kind_of(found)}")
            if len(self._values) >= MOST_KEYS:
                raise MergeError(f"more than {MOST_KEYS} different keys in all")
            self._values[text] = found
        return found


class SourceKeys:
    """The keys of one map as one source numbers them."""

    def __init__(self, texts: KeyTexts) -> None:
        self._texts = texts
        self.keys: list[Any] = []

    def learn_texts(self, texts: Iterable[bytes]) -> None:
        """Number more keys; PortableError for one that is none, MergeError if there are too many."""
        self.keys += [self._texts.find_key(text) for text in texts]
        if len(self.keys) > MOST_KEYS:
            raise MergeError(f"more than {MOST_KEYS} keys")


def put_in_front(source: str, key: Any) -> Any:
    """A key with the name of its source in front."""
    if key is None:
        return source
    return (source, *key) if type(key) is tuple else (source, key)


class Table:
    """One map, of all sources. ``by_source`` keeps them apart under keys with the source in front, as it is always done
    with plain values (``aggregate`` None)."""

    def __init__(self, aggregate: Aggregate | None, by_source: bool = False) -> None:
        if aggregate is not None and not 0 < aggregate.words <= MOST_WORDS:
            raise MergeError(f"{aggregate} of {aggregate.words} words: {MOST_WORDS} are the most")
        self.aggregate = aggregate
        self.by_source = by_source or aggregate is None
        self._width = aggregate.words if aggregate is not None else 1
        self._adds = aggregate is not None and is_additive(aggregate)
        self._places: dict[Any, int] = {}
        self._keys: list[Any] = []
        self._sources: list[int] = []  # by place: how many sources have the key
        self._translated: dict[str, list[int]] = {}  # by source: its numbers of keys as first cells of places
        self._cells: defaultdict[int, int] = defaultdict(int)   # of what adds up: place * width + word
        self._latest: dict[int, dict[str, Words]] = {}          # of what does not: by first cell and source
        self._values: dict[int, Any] = {}                       # plain values by first cell, all of one kind
        self._kind = ""

    def add_delta(self, source: str, known: SourceKeys, delta: Delta) -> None:
        """Add what a source tells, whose keys are ``known``. MergeError if it makes no sense, and nothing is added."""
        cells = self._translate_keys(source, known)
        self._check_rows(delta, len(cells))
        values = [self._decode_plain(text) for text in delta.texts]
        for sign, numbers in ((1, delta.born), (-1, delta.gone)):
            for number in numbers:
                self._sources[cells[number] // self._width] += sign
        if self._adds:
            totals = self._cells
            for number, word, gain in zip(delta.key, delta.word, delta.number):
                totals[cells[number] + word] += gain
        else:
            self._set_words(source, cells, delta)
        for number, value in zip(delta.valued, values):
            self._values[cells[number]] = value

    def _decode_plain(self, text: bytes) -> Any:
        found = decode_value(text)
        self._kind = self._kind or kind_of(found)
        if kind_of(found) != self._kind:
            raise MergeError(f"values of different kinds: {self._kind} and {kind_of(found)}")
        return found

    def _translate_keys(self, source: str, known: SourceKeys) -> list[int]:
        """First cells by the source's numbers of keys."""
        cells = self._translated.setdefault(source, [])
        for key in known.keys[len(cells):]:
            key = put_in_front(source, key) if self.by_source else key
            place = self._places.get(key)
            if place is None:
                if len(self._keys) >= MOST_KEYS:
                    raise MergeError(f"more than {MOST_KEYS} keys")
                place = self._places[key] = len(self._keys)
                self._keys.append(key)
                self._sources.append(0)
            cells.append(place * self._width)
        return cells

    def _check_rows(self, delta: Delta, keys: int) -> None:
        columns = (delta.born, delta.gone, delta.key, delta.valued)
        if max([max(column) for column in columns if column], default=-1) >= keys:
            raise MergeError("a row of a key that was not told")
        if not len(delta.key) == len(delta.word) == len(delta.number) or len(delta.valued) != len(delta.texts):
            raise MergeError("columns of different lengths")
        if delta.key if self.aggregate is None else delta.valued:
            raise MergeError("rows of another kind of value")
        if max(delta.word, default=0) >= self._width:
            raise MergeError("a word that the value does not have")
        if len(self._cells) + len(self._latest) * self._width + len(delta.key) > MOST_CELLS:
            raise MergeError(f"more than {MOST_CELLS} numbers")

    def _set_words(self, source: str, cells: list[int], delta: Delta) -> None:
        for number in delta.gone:
            self._latest.get(cells[number], {}).pop(source, None)
            self._values.pop(cells[number], None)
        for number, word, value in zip(delta.key, delta.word, delta.number):
            held = self._latest.setdefault(cells[number], {})
            words = held.get(source) or held.setdefault(source, [0] * self._width)
            words[word] = value

    # reading

    def words(self) -> list[tuple[Any, Words]]:
        """(key, merged words) of each key that a source has; sums modulo 2**64."""
        merge = self._sum_words if self._adds else self._merge_latest
        return [(key, merge(place * self._width)) for place, key in enumerate(self._keys) if self._sources[place] > 0]

    def items(self) -> list[tuple[Any, Any]]:
        """(key, value) of each key that a source has, as a trace of one host has them."""
        aggregate = self.aggregate
        if aggregate is None:
            return [(key, self._values.get(place)) for place, key in enumerate(self._keys) if self._sources[place] > 0]
        return [(key, aggregate_value(aggregate, words)) for key, words in self.words()]

    def _sum_words(self, first: int) -> Words:
        cells = self._cells
        return [cells[at] & MASK if at in cells else 0 for at in range(first, first + self._width)]

    def _merge_latest(self, first: int) -> Words:
        """As if the sources were the CPUs of one machine."""
        assert self.aggregate is not None
        held = list(self._latest.get(first, {}).values())
        if not held:
            return [0] * self._width
        data = array("Q", [word for words in held for word in words]).tobytes()
        return list(merge_states(self.aggregate, data, len(held))[0])


def require_equal(name: str, one: tuple[str, Any], other: tuple[str, Any],
                  describe: Callable[[Any], str] = str) -> None:
    """MergeError that names both, if two sources' maps of a name hold different things."""
    if one[1] != other[1]:
        raise MergeError(f"{name} is {describe(other[1])} on {other[0]}, but {describe(one[1])} on {one[0]}")


def describe_value(value: Sequence[Any] | Any) -> str:
    """What a map's values are, with the parameters: ``lhist(0, 100, 10)``."""
    if not isinstance(value, Aggregate):
        return "a plain value" if value is None else str(value)
    if value.kind == "lhist":
        return f"lhist({value.low}, {value.high}, {value.step})"
    if value.kind == "hist":
        return f"hist(k = {value.bits})"
    if value.kind == "tseries":
        return f"tseries({value.low} ns, {value.high}, {value.agg or 'last'})"
    return str(value)
