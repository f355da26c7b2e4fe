"""Functions that something is done around while they run: what a decorator makes of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast, overload

from ..errors import UsageError

if TYPE_CHECKING:
    from ..runtime.records.events import Event
    from .trace import Trace

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class TracedFunction(Protocol[P, R_co]):
    """A function whose calls are traced. ``tracing`` is the trace of the call that has ended last, with its maps and
    losses (before the first call: the one that waits for it), ``events`` are the events of that call."""

    tracing: Trace
    events: list[Event]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __get__(self, instance: None, owner: type) -> TracedFunction[P, R_co]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[..., R_co]: ...


def wrap_calls(function: Callable[P, R], around: Callable[[], AbstractContextManager[object]]) -> Callable[P, R]:
    """A function that does the same within a context, which ``around`` makes for each call; of a coroutine function
    another one. UsageError for a generator function, whose call runs nothing."""
    from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        raise UsageError(f"{function.__qualname__}() is a generator: its call runs nothing that could be traced",
                         ["use a with statement within it"])
    if iscoroutinefunction(function):
        @wraps(function)
        async def call_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
            with around():
                return await function(*args, **kwargs)
        return cast("Callable[P, R]", call_coroutine)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with around():
            return function(*args, **kwargs)
    return call


def trace_calls(function: Callable[P, R], first: Trace, make: Callable[[], Trace]) -> TracedFunction[P, R]:
    """A function whose calls are traced: by ``first``, then by those that ``make`` makes."""
    waiting = [first]

    class Around:
        """A call's trace, which is entered with it and has its events when it has ended."""

        def __enter__(self) -> None:
            try:
                self._tracing = waiting.pop()
            except IndexError:
                self._tracing = make()
            self._tracing.attach()

        def __exit__(self, *exc: object) -> None:
            try:
                events = self._tracing.stop()
            finally:
                self._tracing.close()
            traced.tracing, traced.events = self._tracing, events

    traced = cast("TracedFunction[P, R]", wrap_calls(function, Around))
    traced.tracing, traced.events = first, []
    return traced
