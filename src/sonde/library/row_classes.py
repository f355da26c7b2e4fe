"""Classes of the rows that a script sends: a data class for each of its tables, made when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from ..errors import UsageError
from ..output.views.csv import event_columns, event_values
from ..runtime.records.events import Event
from ..spec import EventSite, ScriptSpec
from .data_frames import row_sites
from .typed_rows import EVENT, field_names, python_type, site_types


class Row:
    """A row of a script's table: a frozen data class with a field for each column. ``event`` is what it was made of,
    with its ``time`` and ``probe``, and is no field: rows are equal if their columns are."""

    event: Event
    _made_of: ClassVar[tuple[str, tuple[tuple[str, Any], ...]]]

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle: the class may have to be made again. The event stays behind."""
        return _remake, (*self._made_of, [getattr(self, name) for name, _ in self._made_of[1]])


def _remake(name: str, shape: tuple[tuple[str, Any], ...], values: Sequence[object]) -> Row:
    return _make_class(name, shape)(*values)


def table_names(spec: ScriptSpec) -> dict[int, str]:
    """The site of each kind of row -> the name of its table; what is in no table is called after its statement."""
    return {index: spec.sites[index].table or spec.sites[index].kind for index in row_sites(spec)}


def row_classes(spec: ScriptSpec, table: str = "") -> dict[int, type[Row]]:
    """The class of each site's rows, or of those of one table; UsageError if the script has none. Sites with the same
    columns share one."""
    names = table_names(spec)
    sites = [index for index, name in names.items() if not table or name == table]
    if not sites:
        have = ", ".join(dict.fromkeys(names.values()))
        raise UsageError(f"the script has no table {table}" if table else "the script sends no rows",
                         [f"it has {have}"] if have and table else [])
    return {index: _make_class(names[index], _shape(spec.sites[index])) for index in sites}


def _shape(site: EventSite) -> tuple[tuple[str, Any], ...]:
    return tuple(zip(field_names(event_columns(site)), map(python_type, site_types(site))))


@lru_cache(256)
def _make_class(name: str, shape: tuple[tuple[str, Any], ...]) -> type[Row]:
    """The same one for the same columns."""
    from dataclasses import make_dataclass
    return make_dataclass(class_name(name), shape, bases=(Row,), frozen=True,
                          namespace={"__doc__": f"A row of {name}.", "_made_of": (name, shape)})


def class_name(table: str) -> str:
    """``SlowReads`` of ``slow_reads``."""
    return "".join([word[:1].upper() + word[1:] for word in table.split("_")]) or "Row"


def row_maker(spec: ScriptSpec, table: str) -> Callable[[Event], Row | None]:
    """What makes a row of an event; None of one that is none."""
    classes = row_classes(spec, table)

    def make(event: Event) -> Row | None:
        made = classes.get(event.site)
        if made is None:
            return None
        row = made(*event_values(event, spec.sites[event.site]))
        object.__setattr__(row, EVENT, event)
        return row
    return make


def row_source(spec: ScriptSpec) -> str:
    """The rows' classes as a Python module for ``events().of(...)``: a type checker can read that."""
    names = table_names(spec)
    parts = dict.fromkeys([_class_source(name, _shape(spec.sites[index])) for index, name in names.items()])
    values = sorted({_type_source(type) for index in names for _, type in _shape(spec.sites[index])} - _BUILT_IN)
    imports = "".join([f"from sonde.runtime.records.values import {name}\n" for name in values if name.isidentifier()])
    return f"from typing import Any, NamedTuple\n{imports}" + "".join([f"\n\n{part}" for part in parts])


_BUILT_IN = {"int", "str", "float", "bool", "Any"}


def _class_source(name: str, shape: Sequence[tuple[str, Any]]) -> str:
    fields = "".join([f"    {field}: {_type_source(type)}\n" for field, type in shape])
    return f"class {class_name(name)}(NamedTuple):\n{fields}"


def _type_source(type: Any) -> str:
    if type in (int, str, float, bool) or getattr(type, "__module__", "") == "sonde.runtime.records.values":
        return str(type.__name__)
    return "Any"
