"""Map elements in slots (see layouts/shared_maps.py), read while programs take slots and give them back."""

from __future__ import annotations

from struct import pack

from ...layouts.shared_maps import PURSE, PURSES, SLOT, SLOT_OWNED, SLOT_WRITTEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS = SLOT // 8
_FIRST = PURSES * PURSE // 8
_STEP = 1024  # words that are looked at in one step
_MOST = (1 << 64) - 1
_FREE = bytes(8 * _STEP)  # slots that nobody has used: most of most tables


def read_slots(words: memoryview) -> Iterator[tuple[int, int, int]]:
    """For each element: (index of its owner's word, key, value). ``words``: the table, as u64s.

    A value belongs to the owner that is there before and after it is read.
    """
    for start in range(_FIRST, len(words), _STEP):
        part = words[start:start + _STEP]
        if part.tobytes() == _FREE[:part.nbytes]:
            continue
        for at, owner in zip(range(start, len(words), _WORDS), part[::_WORDS].tolist()):
            while owner & SLOT_OWNED:
                value, before = words[at + 1], owner
                owner = words[at]
                if owner == before:
                    yield at, _key_of(owner), value
                    break


def _key_of(owner: int) -> int:
    """The key of an element's slot, as a u64."""
    high = SLOT_OWNED | SLOT_WRITTEN
    return ((owner | high if owner >> 63 else owner & ~high) - 1) & _MOST


def read_elements(memory: memoryview, key_size: int) -> dict[bytes, bytes]:
    """Keys, of four or eight bytes, and values of the elements in a table."""
    layout, most = ("=I", 0xffffffff) if key_size == 4 else ("=Q", _MOST)
    with memory.cast("Q") as words:
        return {pack(layout, key & most): pack("=Q", value) for _, key, value in read_slots(words)}


def zero_values(memory: memoryview) -> None:
    """Set the values of all elements to 0."""
    with memory.cast("Q") as words:
        for at, _, _ in list(read_slots(words)):
            words[at + 1] = 0


def free_slots(memory: memoryview) -> None:
    """Empty the table: for the time after all programs, as nothing that they paid is given back."""
    for start in range(PURSES * PURSE, len(memory), len(_FREE)):
        free = _FREE[:len(memory) - start]
        if memory[start:start + len(free)].tobytes() != free:
            memory[start:start + len(free)] = free
