"""Passing on what a script collects to other systems while it runs: ``sonde export``.

Each exporter is a module that is imported on demand; each needs packages of the extra ``export``.
"""

from __future__ import annotations

from ..errors import UsageError
from ..runtime.records.events import Event
from ..spec import EventSite, MapSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..runtime.records.batch import Batch
    from ..runtime.records.values import DecodingContext, Items


def complete_endpoint(text: str, default: str) -> str:
    """A collector's URL; what its address leaves out is as in ``default``. UsageError if it is no address."""
    from urllib.parse import urlsplit
    known = urlsplit(default)
    try:
        url = urlsplit(text if "://" in text else f"//{text}" if ":" in text else f"//{known.hostname}:{text}")
        if url.scheme in ("", "http", "https") and url.hostname and url.port != 0:
            path = url.path if url.path.strip("/") else known.path
            return url._replace(scheme=url.scheme or known.scheme, path=path).geturl()
    except ValueError:  # a port that is none
        pass
    raise UsageError(f"'{text}' is no address of a collector: {default}, HOST:PORT or PORT")


class Exporter:
    """Base of the exporters. ``takes_events``: what printf() and print() send goes to it alone. ``failed``: not all of
    it is where it was to go."""

    takes_events = False
    failed = False

    def start_message(self) -> str:
        """The message to the user at the start."""
        return ""

    def export_map(self, named: MapSpec, items: Items, time: int) -> None:
        """Export a map as the script printed it, or at the end; ``time`` is nanoseconds since 1970."""

    def add_map(self, named: MapSpec, items: Items, then: str) -> None:
        """The same, also for maps that the script emptied; ``then`` is what happened to the map in the same step
        ("clear", "zero" or ""), or "final"."""

    def export_event(self, event: Event, site: EventSite) -> None:
        """Export something that the script printed."""

    def row_handler(self, index: int, site: EventSite,
                    decode: Callable[[bytes, int], Event]) -> Callable[[bytes, int], object]:
        """The function that exports one record of a site, the one with this index."""
        return lambda buffer, offset: self.export_event(decode(buffer, offset), site)

    def compile_rows(self, index: int, context: DecodingContext) -> Callable[[Batch], object] | None:
        """The function that exports many records of a site, the one with this index; None if they have to come one by
        one."""
        return None

    def due_maps(self) -> list[MapSpec]:
        """The maps that are to be read and cleared now, and handed to ``add_map``; then comes ``end_period``."""
        return []

    def end_period(self) -> None:
        """Export what the maps had since the last time."""

    def end_messages(self) -> list[str]:
        """The messages to the user at the end, when it has finished."""
        return []

    def finish(self) -> None:
        """Export the final figures, and close: the run is over, but the maps can still be read."""
