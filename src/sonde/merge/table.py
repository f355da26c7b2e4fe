"""Maps of many sources added up."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..base.words import MASK
from ..errors import SondeError
from ..runtime.maps.aggregate_values import aggregate_value
from ..runtime.maps.merge import merge_states
from ..types import Aggregate
from .delta import Delta
from .portable import decode_value, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.records.values import Item, ScriptValue

MOST_KEYS = 1 << 20    # of a table
SHARE = 4              # one source may have this share of them, so that it cannot take the others' room
MOST_CELLS = 1 << 22   # words of it that are not 0
MOST_WORDS = 1 << 16   # of one aggregate

Words = list[int]
T = TypeVar("T")


class MergeError(SondeError):
    """What a source sent cannot be merged."""


class KeyTexts:
    """The decoded keys of one map by their texts, for all ``sources``: each text is decoded once, and all must be of
    one kind."""

    def __init__(self, sources: int = 1) -> None:
        self._shared = sources > 1
        self.values: dict[bytes, ScriptValue] = {}
        self._kind = ""

    @property
    def most_of_one(self) -> int:
        """How many keys one source may have."""
        return MOST_KEYS // SHARE if self._shared else MOST_KEYS

    def forget_texts(self, texts: Iterable[bytes]) -> None:
        """Release the room of keys that were not accepted."""
        for text in texts:
            self.values.pop(text, None)
        if not self.values:
            self._kind = ""

    def find_key(self, text: bytes) -> ScriptValue:
        """The key of a text; PortableError if it is not one, MergeError if it is of another kind, or one too many."""
        if text in self.values:
            return self.values[text]
        key = decode_value(text)
        self._kind = self._kind or kind_of(key)
        if kind_of(key) != self._kind:
            raise MergeError(f"keys of different kinds: {self._kind} and {kind_of(key)}")
        if len(self.values) >= MOST_KEYS:
            raise MergeError(f"more than {MOST_KEYS} different keys in all")
        self.values[text] = key
        return key


class SourceKeys:
    """The keys of one map as one source numbers them."""

    def __init__(self, texts: KeyTexts) -> None:
        self._texts = texts
        self._new: list[bytes] = []  # that are new among all sources, and do not count yet
        self.keys: list[ScriptValue] = []

    def learn_texts(self, texts: Sequence[bytes]) -> None:
        """Number more keys; PortableError if one is invalid, MergeError if there are too many."""
        if len(self.keys) + len(texts) > self._texts.most_of_one:
            raise MergeError(f"more than {self._texts.most_of_one} keys")
        values, keys = self._texts.values, self.keys
        for text in texts:
            if text in values:
                keys.append(values[text])
            else:
                self._new.append(text)
                keys.append(self._texts.find_key(text))

    def settle_texts(self, count: bool) -> None:
        """Accept the keys that were learned last, or not: then nothing more is taken from this source."""
        if not count:
            self._texts.forget_texts(self._new)
        self._new = []


def put_in_front(source: str, key: ScriptValue) -> ScriptValue:
    """A key with the name of its source in front."""
    if key is None:
        return source
    return (source, *key) if type(key) is tuple else (source, key)


class Table:
    """One map, of all sources. ``by_source`` keeps them apart under keys with the source in front, as is always done
    with plain values (``aggregate`` None)."""

    def __init__(self, aggregate: Aggregate | None, by_source: bool = False) -> None:
        if aggregate is not None and not 0 < aggregate.words <= MOST_WORDS:
            raise MergeError(f"{aggregate} of {aggregate.words} words: {MOST_WORDS} are the most")
        self.aggregate = aggregate
        self.by_source = by_source or aggregate is None
        self._width = aggregate.words if aggregate is not None else 1
        self._adds = aggregate is not None and aggregate.row.additive
        self._rows: dict[ScriptValue, int] = {}
        self._keys: list[ScriptValue] = []
        self._sources: list[int] = []  # by row: how many sources have the key
        self._translated: dict[str, list[int]] = {}  # by source: its numbers of keys as first cells of rows
        self._held: dict[str, bytearray] = {}  # by source: which of its keys it has now, by number
        self._cells: defaultdict[int, int] = defaultdict(int)   # for what adds up: row * width + word
        self._latest: dict[int, dict[str, Words]] = {}          # for what does not: by first cell and source
        self._values: dict[int, ScriptValue] = {}                       # plain values by first cell, all of one kind
        self._kind = ""

    def check_deltas(self, source: str, known: SourceKeys, deltas: Sequence[Delta]) -> list[list[ScriptValue]]:
        """What :meth:`add_checked` needs along with each of a source's next deltas; MergeError if one makes no sense;
        then the table is unchanged."""
        self._check_keys(source, known)
        held = self._held.setdefault(source, bytearray())
        held.extend(bytes(len(known.keys) - len(held)))
        changed: dict[int, int] = {}
        rows = 0
        for delta in deltas:
            rows += len(delta.key)
            self._check_rows(delta, len(known.keys), rows)
            for has, numbers in ((1, delta.born), (0, delta.gone)):
                for number in numbers:
                    if changed.get(number, held[number]) == has:
                        raise MergeError(f"a key that {'came' if has else 'went'} twice")
                    changed[number] = has
        return [[self._decode_plain(text) for text in delta.texts] for delta in deltas]

    def add_checked(self, source: str, known: SourceKeys, delta: Delta, values: Sequence[ScriptValue]) -> None:
        """Add a delta that was checked, with its plain values."""
        cells, held = self._translate_keys(source, known), self._held[source]
        for has, numbers in ((1, delta.born), (0, delta.gone)):
            for number in numbers:
                held[number] = has
                self._sources[cells[number] // self._width] += 1 if has else -1
        if self._adds:
            totals = self._cells
            for number, word, gain in zip(delta.key, delta.word, delta.number):
                totals[cells[number] + word] += gain
        else:
            self._set_words(source, cells, delta)
        for number, value in zip(delta.valued, values):
            self._values[cells[number]] = value

    def _decode_plain(self, text: bytes) -> ScriptValue:
        value = decode_value(text)
        self._kind = self._kind or kind_of(value)
        if kind_of(value) != self._kind:
            raise MergeError(f"values of different kinds: {self._kind} and {kind_of(value)}")
        return value

    def _check_keys(self, source: str, known: SourceKeys) -> None:
        """MergeError if there is no room for all keys of a source."""
        keys = known.keys[len(self._translated.get(source, ())):]
        if len(self._keys) + len(keys) > MOST_KEYS:
            new = keys if self.by_source else [key for key in keys if key not in self._rows]
            if len(self._keys) + len(new) > MOST_KEYS:
                raise MergeError(f"more than {MOST_KEYS} keys")

    def _translate_keys(self, source: str, known: SourceKeys) -> list[int]:
        """First cells by the source's numbers of keys."""
        cells = self._translated.setdefault(source, [])
        for key in known.keys[len(cells):]:
            key = put_in_front(source, key) if self.by_source else key
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = len(self._keys)
                self._keys.append(key)
                self._sources.append(0)
            cells.append(row * self._width)
        return cells

    def _check_rows(self, delta: Delta, keys: int, rows: int) -> None:
        columns = (delta.born, delta.gone, delta.key, delta.valued)
        if max([max(column) for column in columns if column], default=-1) >= keys:
            raise MergeError("a row of a key that was not told")
        if not len(delta.key) == len(delta.word) == len(delta.number) or len(delta.valued) != len(delta.texts):
            raise MergeError("columns of different lengths")
        if delta.key if self.aggregate is None else delta.valued:
            raise MergeError("rows of another kind of value")
        if max(delta.word, default=0) >= self._width:
            raise MergeError("a word that the value does not have")
        if len(self._cells) + len(self._latest) * self._width + rows > MOST_CELLS:
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

    def words(self) -> list[tuple[ScriptValue, Words]]:
        """(key, merged words) of each key that a source has; sums modulo 2**64."""
        merge = self._sum_words if self._adds else self._merge_latest
        return [(key, merge(row * self._width)) for row, key in enumerate(self._keys) if self._sources[row] > 0]

    def items(self) -> list[Item]:
        """(key, value) of each key that a source has, as in a trace of one host."""
        aggregate = self.aggregate
        if aggregate is None:
            return [(key, self._values.get(row)) for row, key in enumerate(self._keys) if self._sources[row] > 0]
        return [(key, aggregate_value(aggregate, words)) for key, words in self.words()]

    def _sum_words(self, first: int) -> Words:
        cells = self._cells
        return [cells[at] & MASK if at in cells else 0 for at in range(first, first + self._width)]

    def _merge_latest(self, first: int) -> Words:
        """Merge as if the sources were the CPUs of one machine."""
        assert self.aggregate is not None
        held = list(self._latest.get(first, {}).values())
        if not held:
            return [0] * self._width
        data = array("Q", [word for words in held for word in words]).tobytes()
        return list(merge_states(self.aggregate, data, len(held))[0])


def require_equal(name: str, one: tuple[str, T], other: tuple[str, T], describe: Callable[[T], str] = str) -> None:
    """MergeError, naming both, if two sources' maps of one name hold different things."""
    if one[1] != other[1]:
        raise MergeError(f"{name} is {describe(other[1])} on {other[0]}, but {describe(one[1])} on {one[0]}")


def describe_value(value: object) -> str:
    """A map's values, with the parameters: ``lhist(0, 100, 10)``."""
    if not isinstance(value, Aggregate):
        return "a plain value" if value is None else str(value)
    if value.kind == "lhist":
        return f"lhist({value.low}, {value.high}, {value.step})"
    if value.kind == "hist":
        return f"hist(k = {value.bits})"
    if value.kind == "tseries":
        return f"tseries({value.low} ns, {value.high}, {value.agg or 'last'})"
    return str(value)
