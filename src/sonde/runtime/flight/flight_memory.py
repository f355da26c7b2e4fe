"""A session's flight memory: what ``begin`` has left in it, what it holds now, and who asks for a dump of it."""

from __future__ import annotations

from ...kernel.clocks import boot_time
from .rings import FlightReader, Stretch, merge_stretches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...spec import ScriptSpec
    from ..maps.access import Map
    from ..maps.state import State
    from ..records.batch import Records


class FlightMemory:
    """``beginning`` is what ``begin`` has sent there, ``begun`` the boot clock when it had ended. ``dump_requested``:
    somebody wants to see what it holds (SIGUSR2)."""

    def __init__(self, spec: ScriptSpec, maps: Mapping[str, Map], state: State) -> None:
        self._reader = FlightReader(spec, maps)
        self._state = state
        self.dump_requested = False
        self.beginning: list[Records] = []
        self.begun = 0

    def keep_beginning(self) -> None:
        """Called when ``begin`` has ended: keep its records, which later ones would overwrite."""
        self.beginning = self.read_since(0)
        self.begun = boot_time()

    def read_stretches(self) -> list[Stretch]:
        """The newest stretch of each CPU."""
        return self._reader.read_stretches()

    def read_since(self, moment: int) -> list[Records]:
        """The records from a moment on (boot clock, ns)."""
        return list(merge_stretches([stretch.since(moment) for stretch in self.read_stretches()]))

    def take_held_dumps(self) -> int:
        """Allow the script to request a dump again; returns how often dump() was called meanwhile."""
        if not self._state.has_global("dump_requested"):
            return 0
        held = self._state.read_global("dumps_held")
        self._state.write_global("dumps_held", 0)
        self._state.write_global("dump_requested", 0)
        return held

    def close(self) -> None:
        """Let go of the memory."""
        self._reader.close()
