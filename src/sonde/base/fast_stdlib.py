"""What Sonde needs from typing, functools, collections, contextlib, bisect, operator, signal and struct at every start,
without the time it takes to import them: 12 ms, more than the interpreter itself."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signal
    import struct as struct
    from bisect import bisect_left as bisect_left
    from bisect import bisect_right as bisect_right
    from bisect import insort_right as insort_right
    from collections import deque as deque
    from collections.abc import Mapping as Mapping
    from contextlib import contextmanager as contextmanager
    from functools import cache as cache
    from functools import cached_property as cached_property
    from operator import add as add
    from operator import itemgetter as itemgetter
    from operator import sub as sub
    from typing import Generic as Generic
    from typing import Protocol as Protocol
    from typing import TypeVar as TypeVar
    from typing import dataclass_transform as dataclass_transform
else:
    import _signal
    import _struct
    from _collections import deque as deque
    from _collections_abc import Mapping as Mapping
    from _operator import add as add
    from _operator import itemgetter as itemgetter
    from _operator import sub as sub

    signal = _signal  # all of it but the names of signals
    struct = _struct

    def __getattr__(name):
        """``bisect``: few starts need the library that it is."""
        if name not in ("bisect_left", "bisect_right", "insort_right"):
            raise AttributeError(f"no {name!r} here")
        import _bisect
        return getattr(_bisect, name)

    Protocol = object

    def TypeVar(name, **_):
        """Only type checkers read it."""
        return name

    class Generic:
        """``class Cache(Generic[K, V])``: to the interpreter a base like ``object``."""

        def __class_getitem__(cls, parameters):
            return cls

    def dataclass_transform(**_):
        """Only type checkers read it."""
        return lambda made: made

    class cached_property:
        """As ``functools.cached_property``."""

        def __init__(self, compute):
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value

    def cache(compute):
        """As ``functools.cache``, for positional arguments."""
        known = {}

        def look_up(*arguments):
            if arguments not in known:
                known[arguments] = compute(*arguments)
            return known[arguments]

        look_up.cache_clear = known.clear
        look_up.__doc__ = compute.__doc__
        look_up.__name__ = compute.__name__
        return look_up

    class _Steps:
        """What a generator does before its ``yield`` and after it, around a ``with``."""

        def __init__(self, steps):
            self._steps = steps

        def __enter__(self):
            return next(self._steps)

        def __exit__(self, kind, problem, traceback):
            if problem is None:
                next(self._steps, None)
                return
            try:
                self._steps.throw(problem)
            except BaseException as raised:
                if raised is not problem:
                    raise

    def contextmanager(steps):
        """As ``contextlib.contextmanager``, of what never swallows an exception."""
        def begin(*arguments, **options):
            return _Steps(steps(*arguments, **options))

        begin.__doc__ = steps.__doc__
        begin.__name__ = steps.__name__
        return begin
