"""Ways to read events: one after another, awaited, or all of them as a table."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, TypeVar

from .tabular import Tabular

if TYPE_CHECKING:
    from ..runtime.records.events import Event
    from ..runtime.session import Session
    from .tables import TableColumn
    from .traced_run import TracedRun

R = TypeVar("R")

# kind of ErrorSite -> what is missing
_INCOMPLETE = {"map_full": "{map} was full", "map_busy": "updates of {map} failed", "stack_lost": "stacks lost",
               **dict.fromkeys(("preempted", "args_lost", "return_missed"), "events dropped")}
_LOOK = 0.25    # s: between looks at whether another reader has come to the end
_AGAIN = 0.005  # s: until the next look at records whose place in the order is not yet certain


class EventTable(Tabular):
    """Events, also as rows of a class, or as a table."""

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
        from .tables import event_table, import_extra
        import_extra("pyarrow", "tables")  # before any event is taken
        trace = self._trace
        found = event_table(trace.spec, self, lambda time: trace.context.wall_clock(time, "boot"))
        warn_of_losses(trace)
        return found


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
        import time
        trace = self._trace
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            yield from trace.decode_records(trace.next_records(left))
            trace.session.maps_requested = False  # by SIGUSR1: here nobody prints, and poll() would not wait
            if trace.session.done:
                yield from trace.decode_records(trace.drain_records())
                return

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The same without blocking the event loop: it watches the rings' descriptor. No threads; cancelling loses
        no event."""
        import asyncio
        import time
        trace, session = self._trace, self._trace.session
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            for event in trace.decode_records(trace.next_records(0)):
                yield event
            session.maps_requested = False
            if session.done:
                for event in trace.decode_records(trace.drain_records()):
                    yield event
                return
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            if session.is_holding:
                await asyncio.sleep(_AGAIN if left is None else min(left, _AGAIN))
            else:
                await wait_for_work(session, _LOOK if left is None else min(left, _LOOK))


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


async def wait_for_work(session: Session, timeout: float | None) -> None:
    """Wait until a session has something to do, so many seconds at most, and a moment more for what has time."""
    waiting = session.waiting
    await wait_readable(waiting.fileno(), timeout)
    if not session.done and (rest := waiting.rest):
        await wait_readable(waiting.record_fileno(), rest)


async def wait_readable(fd: int, timeout: float | None) -> None:
    """Wait until a descriptor is readable, so many seconds at most; others may wait for it, too."""
    import asyncio
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    fd = os.dup(fd)  # a loop has one reader for each
    loop.add_reader(fd, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), timeout)
    except TimeoutError:
        pass
    finally:
        loop.remove_reader(fd)
        os.close(fd)
