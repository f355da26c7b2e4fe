"""A fleet followed from its beginning to its end: what comes is shown, signals ask for the end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from ...output.text import terminal_safe
from ..state.gathered import FleetState
from ..state.member import ENDED, TRACING, Member
from .show import MOST_REASONS, Presenter

if TYPE_CHECKING:
    from types import FrameType

    from ...runtime.signals import SignalHandler

MISSING_STATUS = 3
_LOOK = 0.25  # s: between two looks at what another thread wants


class FleetRun:
    """A fleet and what shows it."""

    def __init__(self, fleet: FleetState, presenter: Presenter, quiet: bool) -> None:
        self.fleet = fleet
        self.presenter = presenter
        self._quiet = quiet
        self._before: dict[signal.Signals, SignalHandler] = {}
        self._missing: set[Member] = set()  # that were said to be
        self._unrecorded = False  # it was said that the recording has come to an early end
        self.interrupted = False  # by a signal

    def __enter__(self) -> FleetRun:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.fleet.ask_end(at_once=self.interrupted)  # who asks again does not want to wait
        self.interrupted = True

    def await_beginning(self) -> bool:
        """Until all hosts that can have begun; False if there is none."""
        fleet, presenter = self.fleet, self.presenter
        early = []
        while not fleet.begun and not fleet.done:
            early += fleet.poll(_LOOK)
        if not fleet.begun or fleet.results.spec is None:
            self._say_hints()
            return False
        self._say_beginning()
        presenter.begin(fleet.results.spec)
        for item in early:
            presenter.show(item)
        return True

    def follow_to_end(self) -> None:
        """Show what comes, and the maps as they stand with each window."""
        fleet, presenter = self.fleet, self.presenter
        sampled = 0
        while not fleet.done:
            for item in fleet.poll(min(_LOOK, fleet.request.window)):
                presenter.show(item)
            self._say_missing()
            self._say_unrecorded()
            if abs(fleet.now - sampled) >= fleet.request.window * 1e9:
                presenter.sample()
                sampled = fleet.now
            presenter.out.flush()

    def finish_run(self) -> int:
        """Show what is left; the exit status."""
        self.presenter.finish()
        self._say_unrecorded()
        if not self.fleet.complete or self.fleet.log.problem:
            return 1
        return MISSING_STATUS if self.fleet.missing else self.fleet.status

    def _say_missing(self) -> None:
        """A number that is of fewer hosts from now on is not to be taken for another."""
        missing = [member for member in self.fleet.missing if member not in self._missing]
        back = [member for member in self.fleet.members if member in self._missing and not member.is_absent]
        self._missing = self._missing.union(missing).difference(back)
        if missing and not self.fleet.is_ending:
            self.presenter.say_missing(missing)
        if back:
            self.presenter.say_present(back)

    def _say_unrecorded(self) -> None:
        if self.fleet.log.problem and not self._unrecorded:
            self._unrecorded = True
            self.presenter.out.write_note(f"WARNING: the recording ends here: {self.fleet.log.problem}")

    def _say_hints(self) -> None:
        for member in self.fleet.missing[:1]:
            for hint in member.hints[:20]:
                self.presenter.out.write_note(f"{member.name}: {terminal_safe(hint)}")

    def _say_beginning(self) -> None:
        """Warnings of the compilers, each once with the hosts that have it; and that it has begun."""
        warnings: dict[str, list[str]] = {}
        fleet, out = self.fleet, self.presenter.out
        for member in fleet.members:
            for warning in member.warnings:
                warnings.setdefault(warning, []).append(member.name)
        for warning, names in warnings.items():
            out.write_note(f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {warning}")
        self._missing.update(fleet.missing)
        if not self._quiet or fleet.missing:
            ready = sum([member.state in (TRACING, ENDED) for member in fleet.members])
            missing = fleet.describe_missing(MOST_REASONS)
            hosts = f"{len(fleet.members)} host{'s' * (len(fleet.members) != 1)}"
            out.write_note(f"Tracing on {ready} of {hosts}{missing and f'; missing: {missing}'}")
