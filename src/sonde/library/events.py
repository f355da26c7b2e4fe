"""Ways to read events: one after another, awaited, or all of them as a table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .loss_warning import warn_of_losses
from .run_loop import RunLoop
from .tabular import Tabular

if TYPE_CHECKING:
    import pyarrow

    from ..runtime.provenance import Provenance
    from ..runtime.records.events import Event
    from .data_frames import TableColumn
    from .traced_run import TracedRun

R = TypeVar("R")


class RowStream(Generic[R]):
    """Rows made of events, for ``for`` and ``async for``."""

    def __init__(self, events: EventTable, make: Callable[[Event], R | None]) -> None:
        self._events, self._make = events, make
        self._iterator: Iterator[R] | None = None

    def __iter__(self) -> Iterator[R]:
        if self._iterator is None:
            self._iterator = (row for event in self._events if (row := self._make(event)) is not None)
        return self._iterator

    def __next__(self) -> R:
        return next(iter(self))

    async def __aiter__(self) -> AsyncIterator[R]:
        async for event in self._events:
            if (row := self._make(event)) is not None:
                yield row


class EventTable(Tabular):
    """Events, also as rows of a class, or as a table."""

    _trace: TracedRun

    def __iter__(self) -> Iterator[Event]:
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[Event]:
        raise NotImplementedError

    def of(self, row: type[R]) -> RowStream[R]:
        """What printf() and print() send as ``row``, a NamedTuple or data class: one for each event whose values are
        called as its fields are. UsageError if the script sends none so called, or values of other types."""
        from ..output.views.csv import event_values
        from .typed_rows import sites_for
        spec = self._trace.spec
        sites = sites_for(spec, row)
        return RowStream(self, lambda event: row(*event_values(event, spec.sites[event.site]))
                         if event.site in sites else None)

    def rows(self, table: str = "") -> RowStream[Any]:
        """The rows of the script's tables, or of one of them, as data classes made for them: ``row.comm``. UsageError
        if there is none. A type checker knows them as Any: give :meth:`of` the classes of :meth:`row_source`."""
        from .row_classes import row_maker
        return RowStream(self, row_maker(self._trace.spec, table))

    def row_types(self) -> dict[str, type[Any]]:
        """The classes of :meth:`rows` by the names of their tables; their fields have the types of the script."""
        from .row_classes import row_classes, table_names
        spec = self._trace.spec
        names = table_names(spec)
        return {names[index]: made for index, made in row_classes(spec).items()}

    def row_source(self) -> str:
        """The source of a Python module with those classes as NamedTuples, for :meth:`of` and a type checker."""
        from .row_classes import row_source
        return row_source(self._trace.spec)

    def _columns(self) -> list[TableColumn]:
        from .data_frames import event_table, import_extra
        import_extra("pyarrow", "tables")  # before any event is taken
        trace = self._trace
        columns = event_table(trace.spec, self, lambda time: trace.context.wall_clock(time, "boot"))
        warn_of_losses(trace)
        return columns

    def _provenance(self) -> Provenance:
        return self._trace.provenance


class Events(EventTable):
    """The events of a running trace, in order, until the script ends or ``timeout`` seconds have passed.

    Iterate over them with ``for`` or ``async for``, or take all of them as a table: then this waits until the end.
    Each event is given out once. The table is of what printf() and print() send: time, probe, and a column for each
    argument, called as the format calls it (``pid=%d``), or as the script does, else arg1, arg2 ...
    """

    def __init__(self, trace: TracedRun, timeout: float | None = None) -> None:
        self._trace = trace
        self._timeout = timeout
        self._iterator: Iterator[Event] | None = None

    def __iter__(self) -> Iterator[Event]:
        if self._iterator is None:
            self._iterator = self._read_events()
        return self._iterator

    def __next__(self) -> Event:
        return next(iter(self))

    def _read_events(self) -> Iterator[Event]:
        trace = self._trace
        for records in RunLoop(trace, self._timeout):
            yield from trace.decode_records(records)
        if trace.session.done:
            yield from trace.decode_records(trace.drain_records())

    def to_reader(self) -> pyarrow.RecordBatchReader:
        """The events as a stream of Arrow record batches, which come while the script runs; each event is given out
        once. A RuntimeWarning at its end says if something was lost."""
        from .arrow_stream import stream_events
        return stream_events(self._trace, self._timeout)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The same without blocking the event loop: it watches the rings' descriptor. No threads; cancelling loses
        no event."""
        trace, loop = self._trace, RunLoop(self._trace, self._timeout)
        while True:
            for event in trace.decode_records(loop.read(0)):
                yield event
            if trace.session.done:
                for event in trace.decode_records(trace.drain_records()):
                    yield event
                return
            if loop.is_over():
                return
            await loop.wait_for_records()
