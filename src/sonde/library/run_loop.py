"""The loop of every run: the records that come, until the script has ended or the time is over."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..runtime.records.batch import Records
    from ..runtime.session import Session
    from .traced_run import TracedRun

_LOOK = 0.25    # s: between looks at whether another reader has come to the end
_AGAIN = 0.005  # s: until the next look at records whose place in the order is not yet certain


class RunLoop:
    """Iterate over it for the records of a run, as many at a time as come together, in order.

    It ends when the script has, or after ``seconds``; what is left then is for :meth:`TracedRun.drain_batches`.
    ``longest_wait`` returns for how many seconds a step may wait: when they have passed, a step has no records. None:
    until there are some. After a step ``maps_requested`` says whether SIGUSR1 has asked for the maps.
    """

    def __init__(self, trace: TracedRun, seconds: float | None = None,
                 longest_wait: Callable[[], float | None] | None = None) -> None:
        self._trace = trace
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._longest_wait = longest_wait
        self.maps_requested = False

    def __iter__(self) -> Iterator[Records]:
        while not self._trace.session.done and not self.is_over():
            yield self.read(self.shorten(self._longest_wait() if self._longest_wait is not None else None))

    def is_over(self) -> bool:
        """Whether the time is over."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def shorten(self, wait: float | None) -> float | None:
        """``wait`` (s; None: without an end), but not beyond the end of the time."""
        if self._deadline is None:
            return wait
        left = max(0.0, self._deadline - time.monotonic())
        return left if wait is None else min(wait, left)

    def read(self, timeout: float | None) -> Records:
        """One step: the next records; none after ``timeout`` seconds or at the end."""
        records, session = self._trace.next_records(timeout), self._trace.session
        self.maps_requested, session.maps_requested = session.maps_requested, False
        return records

    async def wait_for_records(self) -> None:
        """Wait, without blocking the event loop, until another step may have records."""
        import asyncio
        session = self._trace.session
        if session.is_holding:
            await asyncio.sleep(self.shorten(_AGAIN) or 0.0)
        else:
            await wait_for_work(session, self.shorten(_LOOK))


async def wait_for_work(session: Session, timeout: float | None) -> None:
    """Wait until a session has something to do: at most ``timeout`` s, then ``rest`` more for reports that can wait."""
    waiting = session.waiting
    await wait_readable(waiting.fileno(), timeout)
    if not session.done and (rest := waiting.rest):
        await wait_readable(waiting.record_fileno(), rest)


async def wait_readable(fd: int, timeout: float | None) -> None:
    """Wait until a descriptor is readable, at most ``timeout`` s; others may wait for it, too."""
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
