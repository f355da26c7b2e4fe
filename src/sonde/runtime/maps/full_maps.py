"""Maps that are full, said while the script runs: from then on it misses every new key."""

from __future__ import annotations

import time

from ...base.record import Record
from ...spec import MapSpec, ScriptSpec

LOOK = 1.0  # s: between two looks at the counts
MORE = 10   # it is said again when so many times as many updates have been turned away


class FullMap(Record):
    """A map that has turned ``count`` updates away; it has room for ``keys``. ``remedy`` says what makes room."""

    map: str
    keys: int
    count: int
    remedy: str

    def __str__(self) -> str:
        return (f"{self.map} is full: {self.count} update{'' if self.count == 1 else 's'} for keys beyond the first "
                f"{self.keys} turned away so far, and what belongs to these is missing. {self.remedy}")


class FullMaps:
    """What a script's programs have counted of maps that were full, looked at once a second."""

    def __init__(self, spec: ScriptSpec) -> None:
        self._specs = {named.name: named for named in spec.maps}
        self._sites: dict[str, list[int]] = {}  # by map: where its updates may fail, as indices of ScriptSpec.errors
        for index, site in enumerate(spec.errors):
            if site.kind == "map_full" and site.map in self._specs:
                self._sites.setdefault(site.map, []).append(index)
        self._reported: dict[str, int] = {}
        self._next = 0.0

    def __bool__(self) -> bool:
        return bool(self._sites)

    @property
    def is_due(self) -> bool:
        """Whether it is time for another look."""
        return bool(self._sites) and time.monotonic() >= self._next

    def find_full(self, failures: list[int]) -> list[FullMap]:
        """Those to be named now: full for the first time, or with ten times as many updates turned away as the last
        time. ``failures`` are counts by place in the script."""
        self._next = time.monotonic() + LOOK
        full = []
        for name, sites in self._sites.items():
            count = sum([failures[index] for index in sites])
            if count and count >= MORE * self._reported.get(name, 0):
                self._reported[name] = count
                full.append(FullMap(name, self._specs[name].max_entries, count, _remedy(self._specs[name])))
        return full


def _remedy(named: MapSpec) -> str:
    if named.fixed:
        return f"Its declaration says how large it is: let {named.name} = ..."
    room = 1 << (4 * named.max_entries - 1).bit_length()
    return f"Set SONDE_MAX_MAP_KEYS={room} in the environment to make room."
