"""``sonde.watch()``: objectives of a process while it runs."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..errors import UsageError
from ..library.run_loop import wait_readable
from ..library.traced_calls import wrap_calls
from ..runtime.traced_command import Process
from .client import Tracer
from .rules import parse_rules, read_duration
from .script import tell_kernel
from .verdict import Broken, ObjectiveError, judge

if TYPE_CHECKING:
    from typing import Self

P = ParamSpec("P")
R = TypeVar("R")


def watch(pid: int = 0, *, every: str = "1s", no_connect: bool = False, no_open: str | Sequence[str] = (),
          max_syscalls: Mapping[str, int] | None = None, p99: Mapping[str, str] | None = None,
          no_stall: str = "") -> Watch:
    """Objectives of a process, its threads and what it starts from now on; ``pid`` 0: of this one.

    They are declared as those of ``@pytest.mark.sonde``: ``p99={"read": "2ms"}``. ``every``: for how long the process
    is observed until the objectives are judged, each time anew, where the result is iterated over. Use it as a context
    manager, or as a decorator, by which a call raises ObjectiveError. While its own process is judged, for some
    milliseconds, nothing of it is observed. UsageError for objectives that make no sense;
    MachineError where this machine does not let it trace.
    """
    given = {"no_connect": no_connect, "no_open": no_open, "max_syscalls": dict(max_syscalls or {}),
             "p99": dict(p99 or {}), "no_stall": no_stall}
    return Watch(pid, read_duration(every) / 1e9, {name: value for name, value in given.items() if value})


class Watch:
    """A process under objectives. Enter it to begin; then it can be iterated over, with ``for`` and ``async for``, for
    what is broken, until the process has ended.

    ``missed`` says what could not be observed since the last judgement, "" if nothing; a RuntimeWarning says it too.
    ``placeless`` says why no lines of Python are known, "" if they are.
    """

    def __init__(self, pid: int, every: float, objectives: dict[str, Any]) -> None:
        self.rules = parse_rules(objectives)
        if not self.rules.bits:
            raise UsageError("watch() needs an objective", ['as p99={"read": "2ms"}'])
        self.pid, self.every = pid or os.getpid(), every
        self.missed = self.placeless = ""
        self._objectives = objectives
        self._tracer: Tracer | None = None
        self._process: Process | None = None
        self._over = False
        self._folder = "/"

    def __enter__(self) -> Self:
        if self._tracer is not None:
            raise UsageError("a watch is entered once at a time")
        self._process = Process(self.pid)
        self._over = False
        try:
            self._tracer = Tracer()
            answer = self._tracer.ask(do="observe", marks=[self._objectives], pid=0 if self._is_own else self.pid)
            self._folder = os.readlink(f"/proc/{self.pid}/cwd")
            self._observe(self.rules.bits)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise UsageError(f"process {self.pid}: {error.strerror}") from None
            raise
        self.placeless = answer.get("placeless", "")
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End it. What was not judged is forgotten."""
        if self._tracer is not None:
            self._tracer.close()
        if self._process is not None:
            self._process.close()
        self._tracer = self._process = None

    def judge(self) -> list[Broken]:
        """What was broken since the last time, or since the beginning."""
        if self._tracer is None:
            raise UsageError("the watch has not begun: use it as a context manager")
        ended = self._process is None or self._process.has_ended()
        self._observe(0)  # or what this here does would be taken for the program's
        answer = self._tracer.ask(do="read")
        self._observe(self.rules.bits)
        self._over = ended
        self.missed = answer["lost"]
        if self.missed:
            import warnings
            warnings.warn(f"the watch missed some of what process {self.pid} did: {self.missed}", RuntimeWarning,
                          stacklevel=2)
        return judge(self.rules, answer["seen"], self._folder)

    @property
    def _is_own(self) -> bool:
        return self.pid == os.getpid()

    def _observe(self, bits: int) -> None:
        """Of this process, have what these bits say observed from now on."""
        if self._is_own:
            tell_kernel(bits)

    def check(self) -> None:
        """Raise ObjectiveError if something was broken since the last time."""
        if broken := self.judge():
            raise ObjectiveError(broken)

    def run(self, callback: Callable[[Broken], object], timeout: float | None = None) -> Self:
        """Call back for each objective that is broken, until the process ends or ``timeout`` seconds have passed."""
        for broken in self.broken(timeout):
            callback(broken)
        return self

    def broken(self, timeout: float | None = None) -> Iterator[Broken]:
        """What is broken, judged every ``every`` seconds, until the process ends or ``timeout`` seconds have passed."""
        for wait in self._waits(timeout):
            self._watched.has_ended(within=wait)
            yield from self.judge()

    def __iter__(self) -> Iterator[Broken]:
        return self.broken()

    async def __aiter__(self) -> AsyncIterator[Broken]:
        for wait in self._waits(None):
            await wait_readable(self._watched.fd, wait)
            for broken in self.judge():
                yield broken

    def _waits(self, timeout: float | None) -> Iterator[float]:
        """For how many seconds to wait, each time."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._over and (end is None or time.monotonic() < end):
            yield self.every if end is None else min(self.every, max(0.0, end - time.monotonic()))

    @property
    def _watched(self) -> Process:
        """The process. UsageError before the watch has begun."""
        if self._process is None:
            raise UsageError("the watch has not begun: use it as a context manager")
        return self._process

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """As a decorator: a call of ``function`` (or coroutine) that breaks an objective raises ObjectiveError when it
        has returned."""
        made = self

        class Around:
            """A watch of its own for each call."""

            def __enter__(self) -> None:
                self._watch = Watch(made.pid, made.every, made._objectives).__enter__()

            def __exit__(self, kind: object, *exc: object) -> None:
                try:
                    if kind is None:
                        self._watch.check()
                finally:
                    self._watch.close()
        return wrap_calls(function, Around)
