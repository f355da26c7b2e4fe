"""A script's maps as the library shows them: mappings, tables, and what a notebook draws."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ..spec import MapSpec
from .tabular import Tabular

if TYPE_CHECKING:
    from ..runtime.provenance import Provenance
    from .data_frames import TableColumn
    from .traced_run import TracedRun

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class _Moment(Generic[V]):
    """What a map held at one moment, in the kernel's order."""

    def __init__(self, held: Sequence[V]) -> None:
        self._held = held

    def __iter__(self) -> Iterator[V]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, item: object) -> bool:
        return item in self._held

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self._held)!r})"


class Pairs(_Moment[tuple[K, V]], ItemsView[K, V]):
    """The pairs of a map as they were at one moment, in the kernel's order."""


class Values(_Moment[V], ValuesView[V]):
    """The values of a map as they were at one moment."""


class MapView(Tabular, Mapping[K, V]):
    """A script's map, read from the kernel at each use. Keys and values are typed: numbers, strings, addresses,
    stacks, ``Histogram``, ``Stats``; several keys are a tuple. A map without keys has its value in ``value``. A type
    checker knows their types from :meth:`of`.

    As a table it has a column for each key (named as in a record's, or as the script writes it, else key, key1 ...),
    then the values; a histogram has a row for each bucket.
    """

    def __init__(self, name: str, read: Callable[[str], Sequence[tuple[Any, Any]]],
                 final: Mapping[str, Sequence[tuple[Any, Any]]], spec: MapSpec, trace: TracedRun) -> None:
        self.name = name
        self.spec = spec
        self._read = read
        self._final = final
        self._trace = trace

    @overload
    def of(self, key: type[K2], value: type[V2]) -> MapView[K2, V2]: ...
    @overload
    def of(self, key: None, value: type[V2]) -> MapView[None, V2]: ...

    def of(self, key: Any, value: Any) -> MapView[Any, Any]:
        """The same map for a type checker, as one of such keys (None: it has none; several: ``tuple[int, str]``) and
        values: UsageError if the script's are others."""
        from .typed_rows import check_map
        check_map(self.spec, key, value)
        return self

    def items(self) -> Pairs[K, V]:
        """(key, value) pairs in the kernel's order."""
        return Pairs(self.pairs())

    def values(self) -> Values[V]:
        """The values, in that order."""
        return Values([value for _, value in self.pairs()])

    def pairs(self) -> Sequence[tuple[K, V]]:
        """The pairs as a list."""
        return self._items()

    def _items(self) -> Sequence[tuple[Any, Any]]:
        return self._final[self.name] if self.name in self._final else self._read(self.name)

    @property
    def incomplete(self) -> bool:
        """Whether events that would have changed it were kept back by the budget."""
        return self._trace.is_incomplete(self.name)

    @property
    def value(self) -> V | None:
        """The value of a map without keys; None if it has keys or was never set."""
        return next((v for k, v in self.pairs() if k is None), None)

    def __getitem__(self, key: K) -> V:
        for have, value in self.pairs():
            if have == key or isinstance(key, str) and str(have) == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[K]:
        return iter([k for k, _ in self.pairs()])

    def __len__(self) -> int:
        return len(self.pairs())

    def __repr__(self) -> str:
        return f"<map {self.name}: {len(self)} keys>"

    def _columns(self) -> list[TableColumn]:
        from .data_frames import map_columns
        from .loss_warning import warn_of_losses
        columns = map_columns(self.spec, self._items())
        warn_of_losses(self._trace)
        return columns

    def _provenance(self) -> Provenance:
        return self._trace.provenance

    # Jupyter

    def _repr_html_(self) -> str:
        from .notebook import map_html
        return map_html(self.spec, self._items(), self._provenance())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """A histogram as bars, stacks as a flame graph, all else as a table; as text what sonde prints."""
        from .notebook import map_html, map_text
        items = self._items()
        return {"text/plain": map_text(self.name, items),
                "text/html": map_html(self.spec, items, self._provenance())}
