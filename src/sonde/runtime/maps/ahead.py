"""The data ring, made beside whatever else a start does before it needs it: the kernel clears all of its pages, which
takes 8 ms for 64 MiB."""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread

from ...spec import MapSpec
from .access import Map, create_map


class MapAhead:
    """A map that a thread of its own makes, which imports nothing. :meth:`take` or :meth:`close` is to be called."""

    def __init__(self, spec: MapSpec) -> None:
        self._spec = spec
        self._map: Map | None = None
        self._error: BaseException | None = None
        self._made = allocate_lock()
        self._made.acquire()
        try:
            start_new_thread(self._make, ())
        except RuntimeError:  # a service's TasksMax
            self._make()

    def _make(self) -> None:
        try:
            self._map = create_map(self._spec, 1)
        except BaseException as error:
            self._error = error
        finally:
            self._made.release()

    def take(self) -> Map:
        """The map, when it is there; raises what :func:`create_map` raised. Only once."""
        with self._made:
            made, self._map = self._map, None
        if made is None:
            assert self._error is not None
            raise self._error
        return made

    def close(self) -> None:
        """Close it, if nobody has taken it."""
        with self._made:
            if self._map is not None:
                self._map.close()
            self._map = None
