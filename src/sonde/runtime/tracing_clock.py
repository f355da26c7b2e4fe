"""The clock behind ``elapsed``.

It runs while ``begin`` does, stands still while probes are attached, which may take seconds, and goes on when all of
them are: so what ends "after ten seconds" has seen all of these, and ``elapsed`` never goes back.
"""

from __future__ import annotations

from ..base.words import MASK
from ..kernel.clocks import boot_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .maps.state import State

FOREVER = MASK


class TracingClock:
    """Sets the words from which programs compute ``elapsed``: the lesser of ``most_elapsed`` and the time since
    ``start_ns``, in nanoseconds of the boot clock."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._begun = boot_time()
        self._lead = 0  # what ``begin`` took
        if state.has_global("start_ns"):
            state.write_global("start_ns", self._begun)
            state.write_global("most_elapsed", FOREVER)

    def pause(self) -> None:
        """``begin`` has run, and attaching begins."""
        self._lead = boot_time() - self._begun
        if self._state.has_global("start_ns"):
            self._state.write_global("most_elapsed", self._lead)

    def go_on(self) -> None:
        """All probes but timers are attached. The order of the stores matters: programs are running."""
        if self._state.has_global("start_ns"):
            self._state.write_global("start_ns", boot_time() - self._lead)
            self._state.write_global("most_elapsed", FOREVER)
