"""Rows of tables that belong together are shown together (``config = { group_rows = "ID" }``): a packet's steps,
whatever happens to other packets between them.

Rows wait, as records, until none has been added to their group for ``QUIET``, until there is no more room for them, or
until the end. Then the group is printed as a whole, in the order in which its rows came.
"""

from __future__ import annotations

import sys

from ..layouts.event_records import TIME, read_probe, read_time
from ..runtime.records.decoders import make_decoder
from ..runtime.records.values import DecodingContext
from ..spec import EventSite, ScriptSpec
from .table_rows import table_cells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from . import Handler

QUIET = 1_000_000_000  # ns
_ROW = 120             # bytes of a waiting row beside its record
_MOST_KNOWN = 1 << 16  # groups of which is known that they have been printed


class _Group:
    """Rows that wait: what prints each, its record."""

    __slots__ = ("rows", "size", "time")

    def __init__(self) -> None:
        self.rows: list[tuple[Handler, bytes]] = []
        self.size = 0
        self.time = 0  # of the latest, in nanoseconds of the boot clock


class RowGroups:
    """Holds rows back that agree in ``columns``. ``handlers`` are those of the script's sites, in whose place come the
    ones here; ``separate`` is called between two groups; ``room`` is how many bytes may wait."""

    def __init__(self, spec: ScriptSpec, context: DecodingContext, handlers: Sequence[Handler | None],
                 separate: Callable[[], object], room: int) -> None:
        self._context, self._separate, self._room = context, separate, room
        self._end = {number for number, name in enumerate(spec.probes) if name == "end"}
        self._waiting: dict[Hashable, _Group] = {}  # the group whose latest row is the oldest comes first
        self._printed: dict[Hashable, None] = {}
        self._size = 0
        self._time = 0  # of the latest record
        self._is_first = True
        self.parts = 0  # groups of which more rows came when they had been printed
        columns = spec.config.group_rows.split()
        self.handlers = [self._handler(site, handler, columns) for site, handler in zip(spec.sites, handlers)]

    def _handler(self, site: EventSite, handler: Handler | None, columns: Sequence[str]) -> Handler | None:
        if handler is None:
            return None
        cells = {cell.name: cell.fields for cell in table_cells(site)} if site.table and site.fields else {}
        if not all(name in cells for name in columns):
            return self._handler_of_others(handler)
        fields = [(make_decoder(field.type, self._context), field.offset) for name in columns for field in cells[name]]
        size = site.size

        def hold_row(buffer: bytes, offset: int) -> None:
            key = tuple([decode(buffer, offset + at) for decode, at in fields])
            record = buffer[offset:offset + size]
            time = self._time = read_time(buffer, offset) or self._time
            if not read_time(record, 0):
                record = record[:TIME] + time.to_bytes(8, sys.byteorder) + record[TIME + 8:]
            self._add_row(key, time, handler, record)
        return hold_row

    def _handler_of_others(self, handler: Handler) -> Handler:
        """What is no row of a group comes at once, but that of ``end`` behind all that happened before."""
        def print_other(buffer: bytes, offset: int) -> None:
            if read_probe(buffer, offset) in self._end:
                self.print_all()
            handler(buffer, offset)
        return print_other

    def _add_row(self, key: Hashable, time: int, handler: Handler, record: bytes) -> None:
        self.print_quiet(time)
        group = self._waiting.pop(key, None)
        if group is None:
            group = _Group()
            self.parts += key in self._printed
        self._waiting[key] = group
        size = len(record) + _ROW
        group.rows.append((handler, record))
        group.time = time
        group.size += size
        self._size += size
        while self._size > self._room:
            self._print_first()

    def print_quiet(self, now: int) -> None:
        """Print the groups whose latest row came long before ``now`` (nanoseconds of the boot clock)."""
        while self._waiting and next(iter(self._waiting.values())).time < now - QUIET:
            self._print_first()

    def print_all(self) -> None:
        """The end: print all of them."""
        while self._waiting:
            self._print_first()

    def _print_first(self) -> None:
        key = next(iter(self._waiting))
        group = self._waiting.pop(key)
        self._size -= group.size
        self._printed[key] = None
        if len(self._printed) > _MOST_KNOWN:
            del self._printed[next(iter(self._printed))]
        if not self._is_first:
            self._separate()
        self._is_first = False
        for handler, record in group.rows:
            handler(record, 0)
