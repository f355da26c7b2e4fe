"""Map elements in slots (see layouts/shared_maps.py), read while programs take slots and give them back."""

from __future__ import annotations

from struct import pack

from ...layouts.shared_maps import PURSE, PURSES, SLOT, SLOT_OWNED, SLOT_WRITTEN, WIDE_SLOT, WIDE_VALUE
from ...types import Scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...spec import MapSpec

_TRIES = 10_000  # of a value that a program is writing all the time
_FIRST = PURSES * PURSE // 8
_STEP = 1024  # words that are looked at in one step
_MOST = (1 << 64) - 1
_FREE = bytes(8 * _STEP)  # slots that nobody has used: most of most tables


def read_slots(words: memoryview, wide: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """For each element: (index of its value's first word, key, value). ``words``: the table, as u64s; ``wide``: of how
    many words values are in wide slots.

    A value belongs to the owner that is there before and after it is read.
    """
    step, offset, size = (WIDE_SLOT // 8, WIDE_VALUE // 8, wide) if wide else (SLOT // 8, 1, 1)
    for start in range(_FIRST, len(words), _STEP):
        part = words[start:start + _STEP]
        if part.tobytes() == _FREE[:part.nbytes]:
            continue
        for at, owner in zip(range(start, len(words), step), part[::step].tolist()):
            tries = _TRIES if wide else 0
            while owner & SLOT_OWNED:
                value, before, tries = words[at + offset:at + offset + size].tobytes(), owner, tries - 1
                owner = words[at]
                if owner == before and (tries < 0 or not owner & SLOT_WRITTEN):
                    yield at + offset, _key_of(owner), value
                    break


def wide_words(spec: MapSpec) -> int:
    """Of how many words a map's values are in wide slots; 0 where slots are not wide."""
    return 0 if isinstance(spec.value, Scalar) else spec.value_size // 8


def _key_of(owner: int) -> int:
    """The key of an element's slot, as a u64."""
    high = SLOT_OWNED | SLOT_WRITTEN
    return ((owner | high if owner >> 63 else owner & ~high) - 1) & _MOST


def read_elements(memory: memoryview, key_size: int, wide: int = 0) -> dict[bytes, bytes]:
    """Keys, of four or eight bytes, and values of the elements in a table; ``wide`` as in :func:`read_slots`."""
    layout, most = ("=I", 0xffffffff) if key_size == 4 else ("=Q", _MOST)
    with memory.cast("Q") as words:
        return {pack(layout, key & most): value for _, key, value in read_slots(words, wide)}


def zero_values(memory: memoryview, wide: int = 0) -> None:
    """Set the values of all elements to 0."""
    with memory.cast("Q") as words:
        for at, _, value in list(read_slots(words, wide)):
            for word in range(at, at + len(value) // 8):
                words[word] = 0


def free_slots(memory: memoryview) -> None:
    """Empty the table: for the time after all programs, as nothing that they paid is given back."""
    for start in range(PURSES * PURSE, len(memory), len(_FREE)):
        free = _FREE[:len(memory) - start]
        if memory[start:start + len(free)].tobytes() != free:
            memory[start:start + len(free)] = free
