"""The Python types of a script's values, and whether they are those that a program expects."""

from __future__ import annotations

import types
from collections.abc import Sequence
from keyword import iskeyword
from typing import Any, get_args, get_origin, get_type_hints

from .. import types as t
from ..errors import UsageError
from ..output.table_rows import table_cells
from ..output.views.csv import event_columns
from ..runtime.maps.aggregates import Histogram, Stats
from ..runtime.maps.series import Series
from ..runtime.records.values import (
    ArrayValue,
    Buffer,
    EnumValue,
    InetAddress,
    MacAddress,
    Moment,
    NamedNumber,
    PointerValue,
    StackTrace,
    StructValue,
    UserAddress,
)
from ..spec import EventSite, MapSpec, ScriptSpec
from .data_frames import member_types, row_sites

_VALUES: list[tuple[type, type]] = [
    (t.Bool, bool), (t.Enum, EnumValue), (t.Pointer, PointerValue), (t.Timestamp, Moment), (t.Int, int),
    (t.Float, float), (t.Str, str), (t.Buf, Buffer), (t.Inet, InetAddress), (t.MacAddr, MacAddress),
    (t.Stack, StackTrace), (t.USym, UserAddress),
    (t.Symbol, NamedNumber), (t.Struct, StructValue), (t.Array, ArrayValue),
]
EVENT = "event"  # an attribute of all rows
_AGGREGATES = {"hist": Histogram, "lhist": Histogram, "stats": Stats, "tseries": Series}


def python_type(type: t.Type | None) -> Any:
    """The class of the values of a script's type, with parts for a tuple; NoneType for the key that a map has not."""
    if type is None:
        return types.NoneType
    if isinstance(type, t.Aggregate):
        return _AGGREGATES.get(type.kind, float if type.floating else int)
    if isinstance(type, t.Tuple):
        return tuple[tuple(python_type(part) for part in type.of)]  # type: ignore[misc]
    return next((plain for kind, plain in _VALUES if isinstance(type, kind)), object)


def fits(expected: Any, actual: Any) -> bool:
    """Whether all values of ``actual``, as :func:`python_type` gives it, are ``expected``: a class, a tuple of such, a
    union, or Any."""
    if expected is Any or expected is object:
        return True
    if get_origin(expected) is types.UnionType:
        return any(fits(each, actual) for each in get_args(expected))
    if get_origin(expected) is tuple:
        wanted, parts = get_args(expected), get_args(actual)
        if len(wanted) == 2 and wanted[1] is Ellipsis:
            wanted = wanted[:1] * len(parts)
        return get_origin(actual) is tuple and len(wanted) == len(parts) and all(map(fits, wanted, parts))
    return issubclass(get_origin(actual) or actual, get_origin(expected) or expected)


def check_map(named: MapSpec, key: Any, value: Any) -> None:
    """UsageError if a map has other keys or values."""
    own = None if named.memory else named.key
    for what, expected, type in (("keys", key or types.NoneType, own), ("values", value, named.value)):
        if not fits(expected, python_type(type)):
            raise UsageError(f"the {what} of {named.name} are {_name(python_type(type))}, not {_name(expected)}")


def sites_for(spec: ScriptSpec, row: type) -> list[int]:
    """The sites whose values are called as the fields of ``row`` are (a table's columns also as attributes: ``pid`` of
    ``PID``); UsageError if there is none, or if their types are others."""
    fields = get_type_hints(row)
    shapes = {index: event_columns(site) for index, site in enumerate(spec.sites)
              if index in row_sites(spec)}
    sites = [index for index, columns in shapes.items() if tuple(fields) in (columns, field_names(columns))]
    if not sites:
        have = ", ".join([f"({', '.join(columns)})" for columns in dict.fromkeys(shapes.values())])
        raise UsageError(f"no printf() or print() of the script sends ({', '.join(fields)})",
                         [f"it sends {have}" if have else "it has none"])
    for index in sites:
        for (name, expected), type in zip(fields.items(), site_types(spec.sites[index])):
            if not fits(expected, python_type(type)):
                raise UsageError(f"{name} of {row.__name__} is {_name(expected)}; the script sends "
                                 f"{_name(python_type(type))}")
    return sites


def field_name(column: str) -> str:
    """A column's name as an attribute: ``lat_ms`` of ``LAT(ms)``."""
    words = "".join([char if char.isalnum() and char.isascii() else " " for char in column.lower()]).split()
    name = "_".join(words) or "column"
    return f"{name}_" if iskeyword(name) or name == EVENT else f"n{name}" if name[0].isdigit() else name


def field_names(columns: Sequence[str]) -> tuple[str, ...]:
    """Those of a table's columns; of two that are alike the later ones are numbered."""
    names: list[str] = []
    for column in columns:
        name, number = field_name(column), 2
        while name in names:
            name, number = f"{field_name(column)}_{number}", number + 1
        names.append(name)
    return tuple(names)


def site_types(site: EventSite) -> Sequence[t.Type]:
    """The types of the columns that csv.event_columns names."""
    if site.kind == "print":
        return member_types(site.fields[0].type)
    if site.table:
        return [cell.fields[0].type if len(cell.fields) == 1 else t.Str(0) for cell in table_cells(site)]
    return [field.type for field in site.fields]


def _name(type: Any) -> str:
    return "None" if type is types.NoneType else str(type) if get_args(type) else type.__name__
