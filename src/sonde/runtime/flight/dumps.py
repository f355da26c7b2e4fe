"""The head of a dump of flight memory: why and when it was made, and what is in it from each CPU."""

from __future__ import annotations

from ...base.record import Record
from ..records.values import strftime
from .rings import Stretch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...base.json_checks import JsonObject

_CLOCK = "%Y-%m-%d %H:%M:%S.%f"


class CpuPart(Record):
    """Of a CPU: how many records, their first and last time (ns since 1970; 0: none), bytes that were overwritten
    before, and holes that broke older ones off."""

    cpu: int
    count: int
    first: int
    last: int
    overwritten: int
    holes: int

    @property
    def line(self) -> str:
        """The CPU's part in words."""
        text = f"CPU {self.cpu}: no records"
        if self.count:
            text = (f"CPU {self.cpu}: {self.count} record{'' if self.count == 1 else 's'}, "
                    f"{strftime('%H:%M:%S.%f', self.first)} to {strftime('%H:%M:%S.%f', self.last)}")
        if self.overwritten:
            text += f"; {self.overwritten} bytes before them overwritten"
        return text + ("; older ones left out, after a record that is not complete" if self.holes else "")


class Dump(Record):
    """A dump: its ``number``, ``why`` it was asked for and by what (``by``), ``when`` (ns since 1970), its ``parts``,
    the records in them, and what the run had lost until then (``lost``, sentences)."""

    number: int
    why: str
    by: str
    when: int
    parts: list[CpuPart]
    stretches: list[Stretch]
    lost: list[str]

    @property
    def count(self) -> int:
        """How many records the dump has."""
        return sum(part.count for part in self.parts)

    @property
    def lines(self) -> list[str]:
        """The head in words."""
        why = f"{self.by}: {self.why}" if self.why else self.by
        return [f"dump {self.number}: {why}", f"{strftime(_CLOCK, self.when)}",
                *[part.line for part in self.parts], *self.lost]

    def as_json(self) -> JsonObject:
        """The head as plain data."""
        return {"number": self.number, "why": self.why, "by": self.by, "time": self.when, "records": self.count,
                "cpus": [{"cpu": part.cpu, "records": part.count, "first": part.first, "last": part.last,
                          "overwritten_bytes": part.overwritten, "holes": part.holes} for part in self.parts],
                "lost": self.lost}


def make_dump(stretches: Sequence[Stretch], since: int, wall_clock: Callable[[int, str], int], now: int, number: int,
              why: str, by: str, lost: Sequence[str]) -> Dump:
    """The records of ``stretches`` from ``since`` on; ``now`` is the moment of the dump (boot clock)."""
    recent = [stretch.since(since) for stretch in stretches]
    parts = []
    for stretch in recent:
        first, last = [wall_clock(moment, "boot") if stretch.batches else 0 for moment in stretch.moments]
        parts.append(CpuPart(stretch.cpu, stretch.count, first, last, stretch.begin, stretch.holes))
    return Dump(number, why, by, wall_clock(now, "boot"), parts, recent, list(lost))
