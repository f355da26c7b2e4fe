"""Signals as events of the poll loop, answered at once wherever the session waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import Any


class Signals:
    """Catches SIGINT and SIGTERM (``stop``) and those that ``self:signal:`` probes want, until closed.

    A second SIGINT or SIGTERM kills the process the hard way: the kernel then detaches everything.
    ``fd`` becomes readable when a signal has come. Only the main thread may create one.
    """

    def __init__(self, stop: bool = True, names: Iterable[str] = ()) -> None:
        self.interrupted = 0  # number of the signal that asked to stop
        self._came: list[str] = []
        self._old: dict[int, Any] = {}
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._old_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM) if stop else ():
            self._old[number] = signal.signal(number, self._stop)
        for name in names:
            number = signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
            self._old.setdefault(number, signal.signal(number, self._note))

    def _stop(self, number: int, _frame: object) -> None:
        if self.interrupted:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.interrupted = number

    def _note(self, number: int, _frame: object) -> None:
        self._came.append(signal.Signals(number).name)

    def take(self) -> list[str]:
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
