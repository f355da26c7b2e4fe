"""Records in columns: a Python object for each record would take longer than printing it."""

from __future__ import annotations

from itertools import repeat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

Raw: TypeAlias = "tuple[int, bytes, int]"  # (site, buffer, offset of the record in the buffer)
# (time, ring position, site, buffer, offset): what a record is sorted by, and then what it is
Event: TypeAlias = "tuple[int, int, int, bytes, int]"


class Batch:
    """Records that lie in one buffer: the time (ns), site and offset of each. ``sites`` is a number where all are of
    one site. ``base`` is the ring position of the buffer's first byte."""

    __slots__ = ("base", "buffer", "offsets", "sites", "times")

    def __init__(self, base: int, buffer: bytes, times: list[int], sites: int | list[int],
                 offsets: Sequence[int]) -> None:
        self.base, self.buffer = base, buffer
        self.times, self.sites, self.offsets = times, sites, offsets

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[Raw]:
        return zip(self.site_of_each(), repeat(self.buffer), self.offsets)

    def site_of_each(self) -> Iterable[int]:
        """The site of each record; without end where there is one."""
        return repeat(self.sites) if isinstance(self.sites, int) else self.sites

    def events(self) -> list[Event]:
        """The records one by one."""
        return [(time, self.base + offset, site, self.buffer, offset)
                for time, site, offset in zip(self.times, self.site_of_each(), self.offsets)]

    def part(self, start: int, stop: int) -> Batch:
        """Records ``start`` to ``stop``, as a batch."""
        sites = self.sites if isinstance(self.sites, int) else self.sites[start:stop]
        return Batch(self.base, self.buffer, self.times[start:stop], sites, self.offsets[start:stop])

    def sort(self) -> None:
        """Sort by time, then by position in the ring."""
        order = sorted(range(len(self.times)), key=self.times.__getitem__)
        self.times = [self.times[i] for i in order]
        self.offsets = [self.offsets[i] for i in order]
        if not isinstance(self.sites, int):
            self.sites = [self.sites[i] for i in order]

    def split(self, time: int, inclusive: bool = False) -> tuple[Batch, Batch]:
        """The records before a time (``inclusive``: and those at it), and the rest."""
        from ...base.fast_stdlib import bisect_left, bisect_right
        at = (bisect_right if inclusive else bisect_left)(self.times, time)
        return self.part(0, at), self.part(at, len(self))


class Records:
    """A sequence of batches, iterated over record by record."""

    __slots__ = ("batches",)

    def __init__(self, batches: Sequence[Batch] = ()) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def __iter__(self) -> Iterator[Raw]:
        for batch in self.batches:
            yield from batch


def merge_batches(batches: Sequence[Batch]) -> list[Batch]:
    """Merge batches into the order of time, then of the ring."""
    merged: list[Batch] = []
    last = None
    for time, position, site, buffer, offset in sorted([event for batch in batches for event in batch.events()]):
        if last is None or last.buffer is not buffer:
            last = Batch(position - offset, buffer, [], [], [])
            merged.append(last)
        last.times.append(time)
        last.sites.append(site)  # type: ignore[union-attr]
        last.offsets.append(offset)  # type: ignore[attr-defined]
    return merged
