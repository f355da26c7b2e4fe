"""What changed in a map since it was last sent: columns of numbers, and each key's text once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from ..base.record import Record
from ..base.words import MASK
from ..runtime.maps.merge import state_change
from ..types import Aggregate

Words = Sequence[int]  # of an aggregate, as laid out in sonde.types
Key = Hashable


class Delta(Record):
    """The change of one map of one source.

    ``keys`` are the texts of keys that are new to the receiver; their numbers continue those before. ``born`` and
    ``gone`` are the numbers of keys that appeared and disappeared. A row of ``key``, ``word`` and ``number`` says by
    how much a word grew (what adds up, modulo 2**64) or what it is now (what does not). ``valued`` are the keys of a
    map of plain values whose values have changed, and ``texts`` those values' texts.
    """

    keys: list[bytes]
    born: array[int]
    gone: array[int]
    key: array[int]
    word: array[int]
    number: array[int]
    valued: array[int]
    texts: list[bytes]

    def __bool__(self) -> bool:
        return bool(self.keys or self.born or self.gone or self.key or self.valued)

    def split_pieces(self, rows: int, size: int) -> Iterator[Delta]:
        """The same in pieces, each of at most ``rows`` rows and ``size`` bytes of texts (unless one text is longer)."""
        for start, end in _chunk_texts(self.keys, size):
            yield _make_delta(keys=self.keys[start:end])
        for at in range(0, max(len(self.born), len(self.gone), len(self.key)), rows):
            to = at + rows
            yield _make_delta(born=self.born[at:to], gone=self.gone[at:to], key=self.key[at:to],
                                         word=self.word[at:to], number=self.number[at:to])
        for start, end in _chunk_texts(self.texts, size):
            yield _make_delta(valued=self.valued[start:end], texts=self.texts[start:end])


def _chunk_texts(texts: Sequence[bytes], size: int) -> Iterator[tuple[int, int]]:
    """Bounds of runs of texts with at most this many bytes in total."""
    start = length = 0
    for at, text in enumerate(texts):
        if length and length + len(text) > size:
            yield start, at
            start, length = at, 0
        length += len(text)
    if texts:
        yield start, len(texts)


def empty_delta() -> Delta:
    """A delta without any change."""
    return Delta([], array("I"), array("I"), array("I"), array("I"), array("Q"), array("I"), [])


def _make_delta(**columns: Sequence[int] | list[bytes]) -> Delta:
    """A delta with these columns; the others are empty."""
    delta = empty_delta()
    for name, column in columns.items():
        setattr(delta, name, column)
    return delta


class KeyNumbers:
    """The numbers under which a receiver knows the keys of a map; ``text_of`` makes the text of a key."""

    def __init__(self, text_of: Callable[[Key], bytes]) -> None:
        self._text_of = text_of
        self._numbers: dict[Key, int] = {}
        self._new: list[bytes] = []

    def number_key(self, key: Key) -> int:
        """The number of a key; a new one will be sent with the next delta."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._new.append(self._text_of(key))
        return number

    def take_new_texts(self) -> list[bytes]:
        """The texts of the keys that have been numbered since the last call."""
        texts, self._new = self._new, []
        return texts


class Differ:
    """Makes deltas of one map's contents. ``aggregate`` is None for a map of plain values."""

    def __init__(self, aggregate: Aggregate | None, keys: KeyNumbers) -> None:
        self._keys = keys
        self._aggregate = aggregate
        self._sent: dict[Key, Words | bytes] = {}

    def take_delta(self, items: Iterable[tuple[Key, Words | bytes]]) -> Delta:
        """What changed since the last call, now that the map holds ``items``: words of aggregates, texts of plain
        values."""
        delta, now = empty_delta(), dict(items)
        sent = self._sent
        for key in [key for key in sent if key not in now]:
            number = self._keys.number_key(key)
            delta.gone.append(number)
            if self._aggregate is not None and self._aggregate.row.additive:
                self._add_rows(delta, number, sent[key], ())
        for key, value in now.items():
            before = sent.get(key)
            if before is None:
                delta.born.append(self._keys.number_key(key))
            if before != value:
                self._add_change(delta, self._keys.number_key(key), before or (), value)
        self._sent = now
        delta.keys = self._keys.take_new_texts()
        return delta

    def _add_change(self, delta: Delta, number: int, before: Words | bytes, value: Words | bytes) -> None:
        if self._aggregate is None:
            assert isinstance(value, bytes)
            delta.valued.append(number)
            delta.texts.append(value)
        else:
            self._add_rows(delta, number, before, value)

    def _add_rows(self, delta: Delta, number: int, before: Words | bytes, now: Words | bytes) -> None:
        """Add a row for each word that has changed; missing words are 0."""
        assert self._aggregate is not None
        before = before or [0] * len(now)
        now = now or [0] * len(before)
        changes = state_change(self._aggregate, now, before)
        for at, (then, value, change) in enumerate(zip(before, now, changes)):
            if then != value:
                delta.key.append(number)
                delta.word.append(at)
                delta.number.append(change & MASK)
