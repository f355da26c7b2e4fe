"""The algebra of map value functions: states of several CPUs, hosts or times as one, and what one gained since another.

A state is the u64 words of :class:`sonde.types.Aggregate`; how states merge is said by its row in the table of kinds
(``merges``). A merged state is a tuple of Python integers, one per word, signed where the aggregate is. Many states are
merged at once, column by column, so that C does the work. All of it is exact and pure.
"""

from __future__ import annotations

from struct import pack
from sys import byteorder

from ...base.fast_stdlib import add, sub
from ...base.words import MASK, to_signed
from ...types import Aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

State = tuple[int, ...]

_WIDE = 32  # words of a state, from which on adding one after the other is faster than word by word of all


def merge_states(aggregate: Aggregate, data: bytes | bytearray | memoryview, cpus: int) -> list[State]:
    """Merge consecutive elements of ``cpus`` states each; additive ones stay unsigned, modulo 2^64."""
    width, merges = aggregate.words, aggregate.row.merges
    if merges == "add" and width >= _WIDE:
        return [_add_wide_states(states) for states in _filled_states(bytes(data), 8 * width, cpus)]
    if merges == "intervals":
        from .series import merge_series
        return [merge_series(aggregate, states) for states in _filled_states(bytes(data), 8 * width, cpus)]
    words = memoryview(data).cast("B").cast("Q").tolist()
    if merges != "add":
        return _merge_extremes(aggregate, words, width * cpus)
    columns = []
    for at in range(width):
        column = words[at::width * cpus]
        for cpu in range(1, cpus):
            column = list(map(add, column, words[at + cpu * width::width * cpus]))
        if column and max(column) > MASK:
            column = [value & MASK for value in column]
        columns.append(column)
    return list(zip(*columns))


def _filled_states(data: bytes, size: int, cpus: int) -> Iterator[list[list[int]]]:
    """Of each element the words of the CPUs that have anything, or of one that has nothing: most have nothing in most
    of wide elements."""
    nothing = bytes(size)
    for start in range(0, len(data), size * cpus):
        parts = [part for at in range(start, start + size * cpus, size) if (part := data[at:at + size]) != nothing]
        yield [memoryview(part).cast("Q").tolist() for part in parts or [nothing]]


def _add_wide_states(states: list[list[int]]) -> State:
    total = states[0]
    for state in states[1:]:
        total = list(map(add, total, state))
    if max(total) > MASK:
        total = [value & MASK for value in total]
    return tuple(total)


def add_states(aggregate: Aggregate, states: Sequence[State]) -> State:
    """Merged states, with their signs, as one."""
    data = b"".join([pack(f"={aggregate.words}Q", *[word & MASK for word in state]) for state in states])
    return apply_signs(aggregate, merge_states(aggregate, data, len(states)))[0]


def _merge_extremes(aggregate: Aggregate, words: list[int], stride: int) -> list[State]:
    """min and max: CPUs that never saw a value do not count; (0, 0) when none did."""
    best = min if aggregate.row.merges == "least" else max
    states: list[State] = []
    for start in range(0, len(words), stride):
        seen = [words[at] for at in range(start, start + stride, 2) if words[at + 1]]
        if aggregate.signed:
            seen = [to_signed(value) for value in seen]
        states.append((best(seen), 1) if seen else (0, 0))
    return states


def sum_states(state: State, other: State) -> State:
    """Two additive states as one."""
    return tuple([(one + two) & MASK for one, two in zip(state, other)])


def subtract_state(state: Sequence[int], base: Sequence[int]) -> State:
    """What an additive state gained since it was ``base``."""
    return tuple([gain & MASK for gain in map(sub, state, base)])


def state_change(aggregate: Aggregate, state: Sequence[int], base: Sequence[int]) -> Iterable[int]:
    """What tells one who knows ``base`` what the state is now, modulo 2^64: its gain, or where states do not add up,
    the state itself."""
    return map(sub, state, base) if aggregate.row.additive else state


def add_numbers(parts: Sequence[bytes], size: int) -> bytes:
    """Plain numbers of ``size`` bytes, which begin these parts, as their sum."""
    total = sum([int.from_bytes(part[:size], byteorder) for part in parts])
    return (total & (1 << 8 * size) - 1).to_bytes(size, byteorder)


def apply_signs(aggregate: Aggregate, states: list[State]) -> list[State]:
    """Give the words of merged states their sign: a sum's, and the total of avg and stats."""
    if not aggregate.signed or not aggregate.row.sums:
        return states
    return [(*state[:-1], to_signed(state[-1])) for state in states]
