"""What a script collects, given on to other systems while it runs: ``sonde export``.

Each exporter is a module that is imported when it is asked for; each needs packages of the extra ``export``.
"""

from __future__ import annotations

from ..runtime.events import Event
from ..spec import EventSite, MapSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.values import Items


class Exporter:
    """Base of the exporters. ``takes_events``: what printf() and print() send goes to it alone."""

    takes_events = False

    def start_message(self) -> str:
        """What the user is told when it begins."""
        return ""

    def export_map(self, named: MapSpec, items: Items, time: int) -> None:
        """A map as the script printed it, or at the end; ``time`` is nanoseconds since 1970."""

    def add_map(self, named: MapSpec, items: Items, then: str) -> None:
        """The same, and maps that the script emptied; ``then`` is what happened to the map in the same step ("clear",
        "zero" or ""), or "final"."""

    def export_event(self, event: Event, site: EventSite) -> None:
        """Something that the script printed."""

    def finish(self) -> None:
        """The run is over, the maps can still be read: give on the last figures, and close."""
