"""Maps and events as tables for pandas, polars and Arrow, with the types of their values.

Needs the extra ``tables``. Everything is made as an Arrow table first::

    value of the script       Arrow                       pandas               polars
    integer, bool, pointer    the same width, uint64      the same             the same
    float, double             float32, float64            the same             the same
    time of an event          timestamp[ns, UTC]          datetime64[ns, UTC]  Datetime(ns, UTC)
    ``dur`` of a record       duration[ns]                timedelta64[ns]      Duration(ns)
    string, address, name     string                      str                  String
    enum, probe               dictionary                  category             Categorical
    stack                     list<string>, outermost first
    array; tuple, struct      list; struct (in a value of several parts: a column for each)
    hist, lhist               a row for each bucket: low, high (null: no bound), count
    stats                     count, average, total
    tseries                   a row for each interval: start, value
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .. import types as t
from ..base.record import Record
from ..errors import SondeError
from ..output.table_rows import TableCell, has_tables, table_cells
from ..output.units import map_symbol
from ..output.views.csv import event_values, key_columns, own_columns, value_columns
from ..output.views.stacks import frame_names
from ..output.views.view import key_parts, key_types
from ..runtime.maps.aggregates import Histogram, Stats
from ..runtime.maps.series import Series
from ..runtime.records.values import EnumValue, Items, Moment, ScriptValue, StackTrace, to_text, value_members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import TypeAlias

    import pandas
    import polars
    import pyarrow

    from ..runtime.provenance import Provenance
    from ..runtime.records.events import Event
    from ..spec import EventSite, MapSpec, ScriptSpec

ColumnType: TypeAlias = "t.Type | str"
ArrowValue: TypeAlias = "float | int | str | bytes | list[ArrowValue] | dict[str, ArrowValue] | None"

TIME, DURATION, CATEGORY, REAL = "time", "duration", "category", "real"  # what a column may be besides a Type


class TableColumn(Record):
    """``type`` is the script's, or one of the words above (nanoseconds; text that comes again and again); ``unit`` that
    of a map's values, ``about`` what the script says of the map."""

    name: str
    type: ColumnType
    cells: list[ScriptValue]
    unit: str = ""
    about: str = ""


class NotInstalledError(SondeError):
    """A package of an extra is not there, and the message says how to get it; or it does not run here."""


def import_extra(name: str, extra: str) -> ModuleType:
    """Import a package of an extra."""
    from importlib import import_module
    top = name.partition(".")[0]
    try:
        return import_module(name)
    except ImportError as error:
        from ..base.installation import install_command
        raise NotInstalledError(f"this needs {top}: {install_command(extra)} ({error})") from None
    except Exception as error:  # its own, or of what it imports: NumPy's is a RuntimeError where the CPU is too old
        raise NotInstalledError(f"this needs {top}, which cannot be imported here: "
                                f"{' '.join(str(error).split())}") from None


# maps ---------------------------------------------------------------------------------------------------------------

def map_columns(spec: MapSpec, items: Items) -> list[TableColumn]:
    """The columns of a map: its keys, then its values."""
    keys = [TableColumn(name, _key_type(name, type), []) for name, type in zip(key_columns(spec), key_types(spec))]
    symbol = map_symbol(spec)
    values = [TableColumn(name, type, [], "" if name == "count" or type == TIME else symbol, spec.about)
              for name, type in zip(value_columns(spec), _value_types(spec))]
    for key, value in items:
        parts = key_parts(key)
        for row in _value_rows(value, len(values)):
            for column, cell in zip(keys + values, (*parts, *row)):
                column.cells.append(cell)
    return keys + values


def _key_type(name: str, type: t.Type) -> ColumnType:
    return DURATION if name == "dur" and isinstance(type, t.Int) else type


def _value_types(spec: MapSpec) -> Sequence[ColumnType]:
    value = spec.value
    if not isinstance(value, t.Aggregate):
        return _column_types(value) if value is not None else [t.INT64]
    number: t.Type = t.DOUBLE if value.floating else t.INT64 if value.signed else t.UINT64
    if value.row.buckets:
        low, high = (t.DOUBLE, t.DOUBLE) if value.floating else (t.INT64, t.UINT64)  # the last bound is 2**63
        return [low, high, t.UINT64]
    if value.kind == "tseries":
        return [TIME, number]
    return [t.UINT64, number, number] if value.kind == "stats" else [t.UINT64 if value.kind == "count" else number]


def _value_rows(value: ScriptValue, width: int) -> Iterable[Sequence[ScriptValue]]:
    if isinstance(value, Histogram):
        return [(bucket.low, bucket.high, bucket.count) for bucket in value]
    if isinstance(value, Series):
        return [(point.start, point.value) for point in value]
    if isinstance(value, Stats):
        return [(value.count, value.average, value.total)]
    return [value_members(value) if width > 1 else [value]]


def member_types(type: t.Type) -> Sequence[t.Type]:
    """Types of the members that csv.value_columns and event_columns name."""
    if isinstance(type, t.Struct):
        return [_field_type(type, name) for name in type.field_names()]
    return type.of if isinstance(type, t.Tuple) else [type]


def _column_types(type: t.Type) -> Sequence[ColumnType]:
    if isinstance(type, t.Tuple) and type.names:
        return [_key_type(name, each) for name, each in zip(type.names, type.of)]
    return member_types(type)


def _field_type(type: t.Struct, name: str) -> t.Type:
    field = type.field(name)
    assert field is not None
    return t.UINT32 if field.data_loc else field.type


# events -------------------------------------------------------------------------------------------------------------

def event_table(spec: ScriptSpec, events: Iterable[Event], wall: Callable[[int], int],
                about: Sequence[str] = ("probe",)) -> list[TableColumn]:
    """The columns of events: time, what else there is to say ``about`` each, then those of what printf() and print()
    sent.

    Sites with columns of the same name share them; where their types differ the column is text. ``wall`` gives
    nanoseconds since 1970 of a record's time.
    """
    shapes = {index: _site_columns(spec.sites[index], about) for index in row_sites(spec)}
    types: dict[str, ColumnType] = {}
    for shape in shapes.values():
        for name, type in shape:
            types[name] = _common_type(types[name], type) if name in types else type
    lead = [TableColumn("time", TIME, []), *[TableColumn(name, CATEGORY, []) for name in about]]
    columns = {name: TableColumn(name, type, []) for name, type in types.items()}
    last = 0
    for event in events:
        if event.site not in shapes:
            continue
        last = event.time or last  # a record without a time comes right after the one before it
        lead[0].cells.append(wall(last) if last else None)  # without Options.timed nobody knows
        for name, column in zip(about, lead[1:]):
            column.cells.append(getattr(event, name))
        values = dict(zip([name for name, _ in shapes[event.site]], event_values(event, spec.sites[event.site])))
        for name, column in columns.items():
            column.cells.append(values.get(name))
    return lead + list(columns.values())


def is_row(site: EventSite) -> bool:
    """Whether the events of a site are rows of the table: what is printed, but no messages, no map elements and no
    headings."""
    return site.shows and (not site.table or bool(site.fields))


def row_sites(spec: ScriptSpec) -> list[int]:
    """The sites of which that is so, by their numbers: of a script with tables, of its printf() those alone that print
    their rows."""
    return [index for index, site in enumerate(spec.sites)
            if is_row(site) and (site.table or site.kind != "printf" or not has_tables(spec))]


def _site_columns(site: EventSite, about: Sequence[str]) -> list[tuple[str, ColumnType]]:
    names = own_columns(site, ("time", *about))
    if site.kind == "print":
        return list(zip(names, _column_types(site.fields[0].type)))
    if site.table:
        return list(zip(names, [_cell_type(cell) for cell in table_cells(site)]))
    return list(zip(names, [_key_type(name, field.type) for name, field in zip(names, site.fields)]))


def _cell_type(cell: TableCell) -> ColumnType:
    return cell.fields[0].type if len(cell.fields) == 1 else REAL if cell.number else t.Str(0)


def _common_type(one: ColumnType, other: ColumnType) -> ColumnType:
    if isinstance(one, t.Int) and isinstance(other, t.Int):
        if one.signed == other.signed:
            return one if one.bits >= other.bits else other
        if (other if one.signed else one).bits < 64:  # else neither holds what the other may have
            return t.INT64
    if isinstance(one, t.Float) and isinstance(other, t.Float):
        return t.DOUBLE
    if isinstance(one, t.Str) and isinstance(other, t.Str) or one == other:
        return one
    return t.Str(0)


# Arrow and what is made of it ---------------------------------------------------------------------------------------

def arrow_table(columns: Sequence[TableColumn], run: Provenance | None = None) -> pyarrow.Table:
    """A pyarrow.Table; its metadata says of which run it is (``sonde.run``, JSON), that of a map's columns the unit
    and what the script says of the map (``sonde.unit``, ``sonde.about``)."""
    pa = import_extra("pyarrow", "tables")
    arrays = [_arrow_array(pa, column) for column in columns]
    fields = [pa.field(column.name, array.type, metadata={
        f"sonde.{name}": text for name, text in (("unit", column.unit), ("about", column.about)) if text})
        for column, array in zip(columns, arrays)]
    table = pa.table(arrays, schema=pa.schema(fields))
    return table.replace_schema_metadata(metadata(run)) if run is not None else table


def metadata(run: Provenance) -> dict[str, str]:
    """Which run a table or a file is of, and what was lost in it."""
    from json import dumps
    return {"sonde.losses": "; ".join(run.lost), "sonde.run": dumps(run.as_json())}


def to_pandas(columns: Sequence[TableColumn], run: Provenance | None = None) -> pandas.DataFrame:
    """A pandas.DataFrame. Integers stay integers: a column in which some are missing gets pandas' nullable type. Its
    ``attrs`` have the run."""
    pd = import_extra("pandas", "tables")
    table = arrow_table(columns)
    pa = import_extra("pyarrow", "tables")
    nullable = {getattr(pa, f"{sign}int{bits}")(): getattr(pd, f"{sign.upper()}Int{bits}Dtype")()
                for sign in ("", "u") for bits in (8, 16, 32, 64)}
    with_gaps = {field.type for field, column in zip(table.schema, table.columns) if column.null_count}
    frame = table.to_pandas(types_mapper=lambda type: nullable.get(type) if type in with_gaps else None)
    frame.attrs |= run.as_json() if run is not None else {}
    return frame


def to_polars(columns: Sequence[TableColumn]) -> polars.DataFrame:
    """A polars.DataFrame."""
    return import_extra("polars", "tables").from_arrow(arrow_table(columns))


def _arrow_array(pa: ModuleType, column: TableColumn) -> pyarrow.Array:
    values = [None if value is None else arrow_value(value, column.type) for value in column.cells]
    if column.type == CATEGORY or isinstance(column.type, t.Enum):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, arrow_type(pa, column.type))


def arrow_type(pa: ModuleType, type: ColumnType) -> pyarrow.DataType:
    """The Arrow type of values of a script's type."""
    if type == TIME or isinstance(type, t.Timestamp):
        return pa.timestamp("ns", "UTC")
    if type == DURATION:
        return pa.duration("ns")
    if type == REAL:
        return pa.float64()
    if isinstance(type, t.Int):
        return getattr(pa, f"{'' if type.signed else 'u'}int{type.bits}")()
    if isinstance(type, t.Float):
        return pa.float64() if type.bits == 64 else pa.float32()
    if isinstance(type, t.Bool | t.Pointer):
        return pa.bool_() if isinstance(type, t.Bool) else pa.uint64()
    if isinstance(type, t.Buf):
        return pa.binary()
    if isinstance(type, t.Stack):
        return pa.list_(pa.string())
    if isinstance(type, t.Array):
        return pa.list_(arrow_type(pa, type.of))
    if isinstance(type, t.Tuple | t.Struct):
        return pa.struct([(name, arrow_type(pa, each)) for name, each in _member_fields(type)])
    return pa.string()


def _member_fields(type: t.Tuple | t.Struct) -> list[tuple[str, t.Type]]:
    if isinstance(type, t.Struct):
        return [(name, _field_type(type, name)) for name in type.field_names()]
    return list(zip(type.names or [f"value{i}" for i in range(1, len(type.of) + 1)], type.of))


def arrow_value(value: ScriptValue, type: ColumnType) -> ArrowValue:
    """A value as Arrow takes it: numbers, text, bytes, lists and dictionaries of those."""
    if isinstance(type, t.Timestamp):
        return value.wall if isinstance(value, Moment) else None
    if type in (TIME, DURATION) or isinstance(type, t.Int | t.Pointer):
        return int(value) if isinstance(value, int) else None
    if isinstance(type, t.Float):
        return float(value) if isinstance(value, float) else None
    if type == REAL:
        return float(value) if isinstance(value, str) else None
    if isinstance(type, t.Stack):
        return [*reversed(frame_names(value))] if isinstance(value, StackTrace) else []
    if isinstance(type, t.Enum):
        return str(value) if isinstance(value, EnumValue) else to_text(value)
    if isinstance(type, t.Bool):
        return bool(value)
    if isinstance(type, t.Buf):
        return bytes(value) if isinstance(value, bytes) else None
    if isinstance(type, t.Array):
        return [arrow_value(each, type.of) for each in value] if isinstance(value, tuple) else []
    if isinstance(type, t.Tuple | t.Struct):
        return {name: arrow_value(part, each) for (name, each), part in zip(_member_fields(type), value_members(value))}
    return utf8_text(value)


def utf8_text(value: ScriptValue) -> str:
    """A value's text, as UTF-8."""
    return to_text(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")

