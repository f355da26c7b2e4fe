"""Signals as events of the poll loop, answered at once wherever the session waits."""

from __future__ import annotations

import os

from ..base.end_request import Ending
from ..base.fast_stdlib import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import TypeAlias

    SignalHandler: TypeAlias = Callable[[int, FrameType | None], object] | int | None

SAME_WISH = 0.5  # s: a second signal within this time repeats the first: ``timeout`` signals a child and its group


class Signals:
    """Catches SIGINT, SIGTERM and SIGHUP (``ending``: whoever wants to know of them), and those that ``self:signal:``
    probes want, until closed. A SIGHUP that is ignored (nohup) stays so.

    One that comes more than half a second after the first kills the process the hard way: the kernel then detaches
    everything. ``fd`` becomes readable when a signal has come. Only the main thread may create one.
    """

    def __init__(self, ending: Ending | None = None, names: Iterable[str] = ()) -> None:
        self.interrupted = 0  # number of the signal that asked to stop
        self._ending = ending
        self._came: list[str] = []
        self._names: dict[int, list[str]] = {}
        self._old: dict[int, SignalHandler] = {}
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._old_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if ending is not None else ():
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._handle_stop)
        for name in names:
            full = name if name.startswith("SIG") else f"SIG{name}"
            number = getattr(signal, full)
            self._names.setdefault(number, []).append(full)
            self._old.setdefault(number, signal.signal(number, self._handle_wanted))

    def _handle_stop(self, number: int, _frame: object) -> None:
        assert self._ending is not None
        if self._ending.is_overdue(SAME_WISH):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.interrupted = self.interrupted or number
        self._ending.request_end()

    def _handle_wanted(self, number: int, _frame: object) -> None:
        self._came += self._names[number]

    def take_names(self) -> list[str]:
        """Names of the ``names`` signals that came since the last call, in order; empties ``fd``."""
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            pass
        came, self._came = self._came, []
        return came

    def close(self) -> None:
        """Give the signals back to whoever had them."""
        if self.fd < 0:
            return
        for number, handler in self._old.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(self._old_fd)
        os.close(self.fd)
        os.close(self._write)
        self.fd = -1
