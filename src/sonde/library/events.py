"""Ways to read events: one after another, awaited, or all of them as a table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, TypeVar

from .run_loop import RunLoop
from .tabular import Tabular

if TYPE_CHECKING:
    from ..runtime.provenance import Provenance
    from ..runtime.records.events import Event
    from .data_frames import TableColumn
    from .traced_run import TracedRun

R = TypeVar("R")

# kind of ErrorSite -> what is missing
_INCOMPLETE = {"map_full": "{map} was full", "map_busy": "updates of {map} failed", "stack_lost": "stacks lost",
               **dict.fromkeys(("preempted", "args_lost", "return_missed"), "events dropped")}


class EventTable(Tabular):
    """Events, also as rows of a class, or as a table."""

    _trace: TracedRun

    def __iter__(self) -> Iterator[Event]:
        raise NotImplementedError

    def of(self, row: type[R]) -> Iterator[R]:
        """What printf() and print() send as ``row``, a NamedTuple or data class: one for each event whose values are
        called as its fields are. UsageError if the script sends none so called, or values of other types."""
        from ..output.views.csv import event_values
        from .typed_rows import sites_for
        spec = self._trace.spec
        sites = sites_for(spec, row)
        return (row(*event_values(event, spec.sites[event.site])) for event in self if event.site in sites)

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


def warn_of_losses(trace: TracedRun) -> None:
    """A RuntimeWarning if the trace lost anything: what is missing from a table cannot be seen in it."""
    import warnings
    losses = trace.losses
    lost = sum(count for _, count in losses.records)
    failed = [site for site, _ in losses.errors if site.kind in _INCOMPLETE]
    skipped = sum(count for _, count in losses.skipped)
    if lost or failed or skipped or losses.withheld:
        parts = [f"{lost} events lost"] if lost else []
        parts += [f"{skipped} events skipped by the kernel"] if skipped else []
        parts += ["events kept back by the budget"] if losses.withheld else []
        parts += sorted({_INCOMPLETE[site.kind].format(map=site.map) for site in failed})
        warnings.warn(f"the trace is incomplete: {', '.join(parts)} (Trace.losses has all)", RuntimeWarning,
                      stacklevel=4)
