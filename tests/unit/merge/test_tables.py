"""The merge algebra: what tables say of deltas, against sums that are made in the plainest way."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.merge.delta import Delta, Differ, KeyNumbers, empty_delta
from sonde.merge.distance import rank_sources, total_variation, wasserstein_distance
from sonde.merge.portable import (
    LONGEST,
    PortableEnum,
    PortableError,
    PortableName,
    PortableStack,
    decode_value,
    encode_value,
)
from sonde.merge.sequence import HELD, Sequence, SequenceError
from sonde.merge.table import KeyTexts, MergeError, SourceKeys, Table, describe_value, require_equal
from sonde.output.text import TextOutput
from sonde.runtime.maps.aggregates import Histogram, LinearHistogram, Stats
from sonde.runtime.maps.float_aggregates import FloatHistogram, FloatLinearHistogram
from sonde.runtime.maps.series import Series
from sonde.runtime.records.values import (
    ArrayValue,
    Buffer,
    InetAddress,
    MacAddress,
    Moment,
    NamedNumber,
    PointerValue,
    RecordValue,
    SingleFloat,
    StructValue,
    key_text,
    to_text,
)
from sonde.types import Aggregate, Stack

pytestmark = pytest.mark.slow

MASK = (1 << 64) - 1
WORD = st.integers(0, MASK)
COUNT = Aggregate("count", False)
ADDITIVE = [COUNT, Aggregate("sum"), Aggregate("sum", False), Aggregate("avg"), Aggregate("stats"),
            Aggregate("hist", bits=1), Aggregate("lhist", low=0, high=50, step=10)]

Contents = dict[Any, list[int]]  # of a map at one moment


class Source:
    """A map on one host, which tells what changed in it."""

    def __init__(self, aggregate: Aggregate | None) -> None:
        self.differ = Differ(aggregate, KeyNumbers(encode_value))
        self.known: dict[int, SourceKeys] = {}

    def tell(self, contents: Any) -> Delta:
        return self.differ.take_delta(list(contents.items()))


class Receiver:
    """Tables of one map, and the keys as each source numbers them."""

    def __init__(self, aggregate: Aggregate | None, by_source: bool = False, sources: int = 1) -> None:
        self.table = Table(aggregate, by_source)
        self.texts = KeyTexts(sources)
        self.known: dict[str, SourceKeys] = {}

    def add(self, source: str, delta: Delta) -> None:
        known = self.known.setdefault(source, SourceKeys(self.texts))
        known.learn_texts(delta.keys)
        self.table.add_checked(source, known, delta, *self.table.check_deltas(source, known, [delta]))


def random_contents(draw: Any, width: int) -> Contents:
    keys = st.tuples(st.integers(0, 2), st.sampled_from(["cat", "sh", "\udcff"]))
    return dict(draw(st.dictionaries(keys, st.lists(WORD, min_size=width, max_size=width), max_size=5)))


@settings(max_examples=1000)
@given(st.data())
def test_sums_are_exact_whatever_comes_late_twice_or_not_at_all(data: st.DataObject) -> None:
    """Some windows of some sources arrive, repeated and shuffled: the table has the exact sum of what each source's
    map held at the end of the windows that are complete."""
    aggregate = data.draw(st.sampled_from(ADDITIVE[:5]))
    receiver, expected = Receiver(aggregate), {}
    arrivals, ordered, states = [], {}, {}
    for source in ("a", "b", "c")[:data.draw(st.integers(1, 3))]:
        map, states[source] = Source(aggregate), []
        for number in range(data.draw(st.integers(0, 4))):
            states[source].append(random_contents(data.draw, aggregate.words))
            arrivals += [(source, number, map.tell(states[source][-1]))]
        ordered[source] = Sequence[Delta]()
    lost = {(source, number) for source, number, _ in arrivals if data.draw(st.integers(0, 9)) == 0}
    arrivals = [each for each in arrivals if each[:2] not in lost]
    arrivals += [each for each in arrivals if data.draw(st.booleans())]
    for source, number, delta in data.draw(st.permutations(arrivals)):
        for part in ordered[source].accept_part(number, delta):
            receiver.add(source, part)
    for source, sequence in ordered.items():
        held = states[source][sequence.following - 1] if sequence.following else {}
        for key, words in held.items():
            before = expected.get(key, [0] * aggregate.words)
            expected[key] = [(a + b) & MASK for a, b in zip(before, words)]
    assert dict(receiver.table.words()) == expected


@settings(max_examples=200)
@given(st.data())
def test_merging_is_associative(data: st.DataObject) -> None:
    """Groups of sources merged first, and the groups' sums merged then, are what all at once are."""
    aggregate = data.draw(st.sampled_from(ADDITIVE))
    whole, groups = Receiver(aggregate), [Receiver(aggregate), Receiver(aggregate)]
    top, tellers = Receiver(aggregate), [Source(aggregate), Source(aggregate)]
    sources = [(name, Source(aggregate)) for name in "abcd"]
    for _ in range(data.draw(st.integers(1, 3))):
        for number, (name, map) in enumerate(sources):
            delta = map.tell(random_contents(data.draw, aggregate.words))
            whole.add(name, delta)
            groups[number % 2].add(name, delta)
        for number, group in enumerate(groups):
            top.add(str(number), tellers[number].tell(dict(group.table.words())))
    assert dict(top.table.words()) == dict(whole.table.words())


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("signed", [False, True])
def test_extremes_are_of_all_sources_and_of_what_they_hold_last(kind: str, signed: bool) -> None:
    aggregate, rng = Aggregate(kind, signed), random.Random(7)
    receiver, best = Receiver(aggregate), min if kind == "min" else max
    sources = {name: Source(aggregate) for name in "abc"}
    for _ in range(50):
        held = {name: rng.randint(-100 if signed else 0, 100) for name in sources}
        for name in rng.sample(sorted(sources), 3):
            receiver.add(name, sources[name].tell({"k": [held[name] & MASK, 1]}))
        assert receiver.table.items() == [("k", best(held.values()))]
    receiver.add("a", sources["a"].tell({}))
    del held["a"]
    assert receiver.table.items() == [("k", best(held.values()))]


def test_series_merge_by_interval() -> None:
    aggregate = Aggregate("tseries", low=10, high=3, agg="sum")
    receiver = Receiver(aggregate)
    receiver.add("a", Source(aggregate).tell({None: [4, 5, 0, 0, 0, 0, 3, 7, 0]}))
    receiver.add("b", Source(aggregate).tell({None: [4, 6, 0, 0, 0, 0, 6, 1, 0]}))
    assert receiver.table.items() == [(None, Series(10, {3: 11, 5: 1}))]


def test_plain_values_stand_under_their_source() -> None:
    receiver, a, b = Receiver(None), Source(None), Source(None)
    receiver.add("a", a.tell({(1, 1): encode_value(1), (2, 2): encode_value(2)}))
    receiver.add("b", b.tell({(1, 1): encode_value(3), (4, 5): encode_value(4)}))
    receiver.add("a", a.tell({(1, 1): encode_value(9)}))
    assert dict(receiver.table.items()) == {("a", 1, 1): 9, ("b", 1, 1): 3, ("b", 4, 5): 4}
    keyless = Receiver(None)
    keyless.add("a", Source(None).tell({None: encode_value(1)}))
    assert keyless.table.items() == [("a", 1)]


def test_sources_are_kept_apart_where_that_is_asked_for() -> None:
    receiver = Receiver(COUNT, by_source=True)
    for name in "ab":
        receiver.add(name, Source(COUNT).tell({"sh": [1], "cat": [2]}))
    assert sorted(receiver.table.items()) == [(("a", "cat"), 2), (("a", "sh"), 1), (("b", "cat"), 2), (("b", "sh"), 1)]


def test_a_key_leaves_when_no_source_has_it() -> None:
    receiver, a, b = Receiver(COUNT), Source(COUNT), Source(COUNT)
    receiver.add("a", a.tell({"k": [3]}))
    receiver.add("b", b.tell({"k": [4]}))
    receiver.add("a", a.tell({}))
    assert receiver.table.items() == [("k", 4)]
    receiver.add("b", b.tell({}))
    assert receiver.table.items() == []
    receiver.add("b", b.tell({"k": [0]}))
    assert receiver.table.items() == [("k", 0)]


def test_keys_are_told_once() -> None:
    keys = KeyNumbers(encode_value)
    running, printed = Differ(COUNT, keys), Differ(COUNT, keys)
    assert running.take_delta([("a", [1]), ("b", [1])]).keys == [b'"a"', b'"b"']
    assert running.take_delta([("a", [1]), ("b", [2])]).keys == []
    found = printed.take_delta([("c", [1]), ("a", [5])])
    assert (found.keys, list(found.key), list(found.number)) == ([b'"c"'], [2, 0], [1, 5])


@given(st.integers(1, 7), st.integers(1, 9),
       st.dictionaries(st.integers(0, 99), st.lists(WORD, min_size=2, max_size=2)))
def test_a_delta_in_pieces_is_the_same(rows: int, size: int, contents: Contents) -> None:
    aggregate = Aggregate("stats")
    whole, pieces, plain = Receiver(aggregate), Receiver(aggregate), Receiver(None)
    delta = Source(aggregate).tell(contents)
    whole.add("a", delta)
    for piece in delta.split_pieces(rows, size):
        assert len(piece.key) <= rows and len(piece.born) <= rows and sum(map(len, piece.keys[1:])) < size
        pieces.add("a", piece)
    assert dict(pieces.table.words()) == dict(whole.table.words()) == contents
    values = {key: encode_value(words[0]) for key, words in contents.items()}
    for piece in Source(None).tell(values).split_pieces(rows, size):
        plain.add("a", piece)
    assert dict(plain.table.items()) == {("a", key): words[0] for key, words in contents.items()}


# what cannot be merged ------------------------------------------------------------------------------------------------

def with_columns(**columns: Any) -> Delta:
    found = empty_delta()
    for name, values in columns.items():
        column = getattr(found, name)
        column.extend(values)
    return found


@pytest.mark.parametrize("delta", [
    with_columns(born=[0]), with_columns(gone=[7]), with_columns(keys=[b"1"], key=[1], word=[0], number=[1]),
    with_columns(keys=[b"1"], key=[0], word=[1], number=[1]), with_columns(keys=[b"1"], key=[0], word=[0]),
    with_columns(keys=[b"1"], valued=[0], texts=[b"1"])])
def test_deltas_without_sense_add_nothing(delta: Delta) -> None:
    receiver = Receiver(COUNT)
    receiver.add("good", Source(COUNT).tell({"k": [1]}))
    with pytest.raises(MergeError):
        receiver.add("bad", delta)
    assert receiver.table.items() == [("k", 1)]


def test_keys_and_values_of_different_kinds_are_refused() -> None:
    """Nothing could sort or draw them."""
    receiver, plain = Receiver(COUNT), Receiver(None)
    receiver.add("good", Source(COUNT).tell({"k": [1]}))
    plain.add("good", Source(None).tell({1: encode_value(1)}))
    for key in (1, ("k",), None, PointerValue(1)):
        with pytest.raises(MergeError, match="keys of different kinds"):
            receiver.add("bad", Source(COUNT).tell({key: [1]}))
    with pytest.raises(MergeError, match="values of different kinds"):
        plain.add("bad", Source(None).tell({1: encode_value(Histogram([0] * 66))}))


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.merge.table.MOST_KEYS", 10)
    with pytest.raises(MergeError, match="more than 10 keys"):
        Receiver(COUNT).add("a", Source(COUNT).tell({key: [1] for key in range(11)}))
    with pytest.raises(MergeError, match="more than 10 keys"):
        Receiver(COUNT).add("a", with_columns(keys=[b"1"] * 11))
    several = Receiver(COUNT, sources=2)  # of whom none may have more than a quarter
    with pytest.raises(MergeError, match="more than 2 keys"):
        several.add("a", Source(COUNT).tell({key: [1] for key in range(3)}))
    for number in range(5):
        several.add(str(number), Source(COUNT).tell({2 * number: [1], 2 * number + 1: [1]}))
    with pytest.raises(MergeError, match="more than 10 different keys"):
        several.add("b", Source(COUNT).tell({99: [1]}))
    monkeypatch.setattr("sonde.merge.table.MOST_CELLS", 3)
    with pytest.raises(MergeError, match="more than 3 numbers"):
        Receiver(COUNT).add("a", Source(COUNT).tell({key: [1] for key in range(4)}))
    with pytest.raises(MergeError, match="are the most"):
        Table(Aggregate("lhist", low=0, high=1 << 40))


def test_differing_parameters_are_named_with_both_hosts() -> None:
    one, other = Aggregate("lhist", low=0, high=100, step=10), Aggregate("lhist", low=0, high=200, step=10)
    require_equal("@x", ("web1", one), ("web2", one), describe_value)
    with pytest.raises(MergeError, match=r"@x is lhist\(0, 200, 10\) on web2, but lhist\(0, 100, 10\) on web1"):
        require_equal("@x", ("web1", one), ("web2", other), describe_value)


def test_a_part_that_never_comes_holds_up_no_more_than_so_many() -> None:
    sequence = Sequence[int]()
    assert sequence.accept_part(0, 10) == [10]
    for number in range(2, 2 + HELD):
        assert sequence.accept_part(number, number) == []
    with pytest.raises(SequenceError, match="part 1 has not come"):
        sequence.accept_part(2 + HELD, 0)
    assert sequence.accept_part(0, 10) == [] and sequence.repeated == 1


# values ---------------------------------------------------------------------------------------------------------------

class Point(RecordValue):
    _fields = ("x", "y")


def moment(wall: int) -> Moment:
    found = Moment(wall)
    found.format, found.wall = "%s", wall
    return found


STACK = PortableStack(Stack(True), (("main+4", "main", 4, "/bin/x"), ("0x7f", "", 0, "")), False)
VALUES = [
    0.1, -0.0, float("inf"), SingleFloat(0.25), (1.5, "x"), Stats(2, 0.75, 1.5),
    FloatHistogram([0] * 45 + [3] + [0] * 63), FloatLinearHistogram([0, 1, 2, 0, 0, 3, 4], 0, 20, 5, 10),
    None, 0, -1, MASK, True, False, "", "a\n\udcff", (1, "x", (2,)), PointerValue(255), Buffer(b"\0\xff"),
    ArrayValue((1, 2)), Point((1, "y")), StructValue(a=1, b=StructValue(c="d")), MacAddress(b"abcdef"),
    InetAddress(2, b"\x7f\0\0\1"), InetAddress(0, b""), moment(10**18), Stats(3, 2, 6), Histogram([1] * 66),
    Histogram([2] * 1921, 5), LinearHistogram([1, 2, 3, 4, 5, 6, 7], 0, 50, 10), Series(10, {1: 2, 3: -4}, 7),
    PortableName("ksym", 0, "vfs_read"), STACK, PortableStack(Stack(), (), True)]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_as_they_were(value: Any) -> None:
    text = encode_value(value)
    found = decode_value(text)
    assert type(found).__name__ == type(value).__name__ or isinstance(value, RecordValue)
    assert (found, to_text(found), encode_value(found)) == (value, to_text(value), text)


def test_names_merge_by_name_and_enumerators_too() -> None:
    here, there = (NamedNumber("ksym", address, lambda _: "vfs_read") for address in (1, 2))
    assert decode_value(encode_value(here)) == decode_value(encode_value(there))
    one = decode_value(b'["enum","state",1,"RUNNING"]')
    other = decode_value(b'["enum","state",2,"RUNNING"]')
    assert isinstance(one, PortableEnum) and one == other and hash(one) == hash(other) and str(one) == "RUNNING"
    assert decode_value(b'["enum","state",3,null]') != one


def test_stacks_print_as_they_did() -> None:
    assert str(decode_value(encode_value(STACK))) == "\n        main+4\n        0x7f\n"
    assert [frame.name for frame in STACK.frames] == ["main", ""]
    assert to_text(PortableStack(Stack(), (), True)) == "\n        [lost]\n"


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
                    | st.sampled_from(["tuple", "stack", "enum", "inet", "hist", "record", "struct", "moment"]),
                    lambda inner: st.lists(inner, max_size=6), max_leaves=12)


@settings(max_examples=1500)
@given(JSON)
def test_any_text_is_a_value_or_an_error(form: Any) -> None:
    from json import dumps
    try:
        found = decode_value(dumps(form).encode())
    except PortableError:
        return
    hash(found) if not isinstance(found, Histogram | Series) else None
    assert key_text(found) is not None
    assert encode_value(decode_value(encode_value(found))) == encode_value(found)


@pytest.mark.parametrize("text", [b"", b"[", b"[" * 30000, b"\xff", b'["tuple"' * 40 + b"]" * 40, b"1e999", b"NaN",
                                  b'"' + b"x" * LONGEST + b'"', b'["__class__"]', b'{"a":1}', b"18446744073709551616",
                                  b'["series",1,0,0,1,1099511627776,1]'])
def test_what_is_no_value(text: bytes) -> None:
    with pytest.raises(PortableError):
        decode_value(text)


# outliers -------------------------------------------------------------------------------------------------------------

def test_distances() -> None:
    assert wasserstein_distance([1, 0, 0], [1, 0, 0]) == 0
    assert wasserstein_distance([1, 0, 0, 0], [0, 0, 0, 5]) == 3
    assert wasserstein_distance([2, 2], [0, 4]) == 0.5
    assert total_variation([1, 0], [0, 7]) == 1 and total_variation([1, 1], [2, 2]) == 0
    assert wasserstein_distance([], []) == total_variation([0], [1]) == 0


def test_the_slow_host_stands_first() -> None:
    hist = Aggregate("hist")
    rng = random.Random(3)
    parts: dict[str, dict[Any, list[int]]] = {}
    for name in ("web1", "web2", "web3"):
        buckets = Counter(rng.choices(range(10, 14 if name != "web2" else 18), k=1000))
        parts[name] = {None: [buckets[i] for i in range(hist.words)]}
    ranked = rank_sources(hist, parts)
    assert ranked[0][0] == "web2" and ranked[0][1] > 1.5 * ranked[1][1]
    assert rank_sources(Aggregate("max"), parts) == []
    shares = rank_sources(COUNT, {"a": {"x": [9]}, "b": {"x": [5]}, "c": {"y": [5]}})
    assert shares[0] == ("c", 1.0)


def test_printing_merged_maps_needs_nothing_of_the_host() -> None:
    """TextOutput takes what a table gives."""
    import os

    from sonde.output.stream import FULL, Stream
    receiver = Receiver(Aggregate("hist"))
    for name in "ab":
        receiver.add(name, Source(Aggregate("hist")).tell({"cat": [0] * 3 + [2] + [0] * 62}))
    read, write = os.pipe()
    out = TextOutput(Stream(write, FULL), Stream(write, FULL))
    out.write_map("@", receiver.table.items())
    out.flush(True)
    os.close(write)
    with open(read) as file:
        assert file.read().startswith("@[cat]:\n[2, 4)                 4 |@@@")


def test_nans_are_one_key() -> None:
    texts = [encode_value(float("nan")) for _ in range(2)]
    assert decode_value(texts[0]) is decode_value(texts[1])
