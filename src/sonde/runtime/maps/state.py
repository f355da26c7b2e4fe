"""The words that a script's programs share with user space; layouts/shared_maps.py has their layout."""

from __future__ import annotations

import sys

from ...base.fast_stdlib import struct
from ...base.words import MASK
from ...errors import SondeError
from ...spec import ScriptSpec
from .access import Map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class State:
    """The memory of the map ``__state``."""

    def __init__(self, spec: ScriptSpec, map: Map) -> None:
        self._memory = map.memory
        self._probes, self._errors = len(spec.probes), len(spec.errors)
        self._globals = spec.globals

    def write_globals(self, values: Mapping[str, int]) -> None:
        """Set all of the spec's globals; SondeError if one has no value."""
        unknown = [name for name in self._globals if name not in values]
        if unknown:
            raise SondeError(f"no value is given for {', '.join(unknown)}")
        words = [values[name] & MASK for name in self._globals]
        struct.pack_into(f"={len(words)}Q", self._memory, 8 * (self._probes + self._errors), *words)

    def has_global(self, name: str) -> bool:
        """Whether the script's programs know a global of that name."""
        return name in self._globals

    def _index(self, name: str) -> int:
        return self._probes + self._errors + self._globals.index(name)

    def read_global(self, name: str) -> int:
        """The value of a global; 0 if there is none of that name."""
        if name not in self._globals:
            return 0
        at = 8 * self._index(name)
        return int.from_bytes(self._memory[at:at + 8], sys.byteorder, signed=True)

    def write_global(self, name: str, value: int) -> None:
        """In one store, since programs may be adding to it."""
        with memoryview(self._memory) as view, view.cast("Q") as words:
            words[self._index(name)] = value & MASK

    def read_counts(self) -> tuple[list[int], list[int]]:
        """Records that were lost, by probe; failures, by error site."""
        counts = memoryview(self._memory[:8 * (self._probes + self._errors)]).cast("Q").tolist()
        return counts[:self._probes], counts[self._probes:]
