"""What a coordinator has to know of a script that was compiled elsewhere: a ScriptSpec without programs, as plain data.

Of kernel types only what their values look like travels: a pointer without its target, a struct by its members' names.
"""

from __future__ import annotations

from ... import types as t
from ...base.json_checks import Json, JsonObject, as_integer, as_list, as_object, as_row, as_text, as_texts
from ...errors import SondeError
from ...merge.table import MOST_WORDS
from ...output.table_rows import check_columns
from ...source import Source, Span
from ...spec import Column, Config, EventField, EventSite, FormatPart, MapSpec, ScriptSpec
from ...types import AGGREGATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...spec import SiteData

DEEPEST = 16   # types within types
MOST = 1 << 16  # maps, sites, probes, fields ...

# The types that are nothing but numbers and texts, by name.
_PLAIN: dict[str, type[t.Type]] = {each.__name__: each for each in (
    t.NoneType, t.Int, t.Bool, t.Address, t.Symbol, t.USym, t.Stack, t.Timestamp, t.Str, t.Buf, t.Inet, t.MacAddr,
    t.Aggregate)}


class ShapeError(SondeError):
    """What an agent told of its script is no shape of one."""


# To plain data ------------------------------------------------------------------------------------------------------

def describe_script(spec: ScriptSpec) -> JsonObject:
    """A script's shape as JSON has it."""
    return {"maps": [_describe_map(m) for m in spec.shown_maps], "sites": [_describe_site(s) for s in spec.sites],
            "probes": spec.probes, "prints_maps": spec.config.print_maps_on_exit}


def _describe_map(named: MapSpec) -> JsonObject:
    return {"name": named.name, "key": _describe_type(named.key), "value": _describe_type(named.value),
            "keyless": named.memory or named.key is None, "labels": list(named.labels),
            "about": named.about}


def _describe_site(site: EventSite) -> JsonObject:
    return {"kind": site.kind, "fields": [[field.name, _describe_type(field.type)] for field in site.fields],
            "parts": [list(part.values()) for part in site.parts],
            "columns": [list(column.values()) for column in site.columns],
            "data": _describe_data(site.data),
            "span": [site.span.start, site.span.end] if site.span is not None else [0, 0]}


def _describe_data(data: SiteData) -> JsonObject:
    """What the printing of a site needs of its data."""
    described: JsonObject = {}
    for name in ("map", "top", "div", "then", "severity", "table"):
        if data.get(name):
            described[name] = data[name]
    return described


def _describe_type(type: t.Type | None, depth: int = 0) -> Json:
    if type is None or depth > DEEPEST:
        return None
    if isinstance(type, t.Tuple):
        return ["Tuple", [_describe_type(each, depth + 1) for each in type.of], list(type.names)]
    if isinstance(type, t.Array):
        return ["Array", _describe_type(type.of, depth + 1), type.count]
    if isinstance(type, t.Struct):
        fields = {name: type.field(name) for name in type.field_names()}
        return ["Struct", type.name, [[name, _describe_type(field.type if field else None, depth + 1)]
                                      for name, field in fields.items()]]
    if isinstance(type, t.Enum):
        return ["Enum", type.name, type.bits, type.signed]
    if isinstance(type, t.StackCopy):
        return ["Stack", type.user, type.mode, type.limit]
    if isinstance(type, t.NoneType):
        return ["NoneType"]
    if isinstance(type, t.Pointer):
        return ["Address"]
    return [type.__class__.__name__, *type.values()]


# From plain data ----------------------------------------------------------------------------------------------------

class ShapeReader:
    """Reads the shapes that hosts send of one script. Most are the same, and each is read once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[bytes, ScriptSpec] = {}

    def read_text(self, text: bytes) -> ScriptSpec:
        """The script that a shape's JSON describes; ShapeError if it is none."""
        from json import loads
        spec = self._known.get(text)
        if spec is None:
            try:
                shape: Json = loads(text)
            except (ValueError, RecursionError):
                raise ShapeError("what the agent says about its script is no JSON") from None
            spec = self._known[text] = read_shape(shape, self._source)
        return spec


def read_shape(shape: Json, source: Source) -> ScriptSpec:
    """The script that a shape describes; ShapeError for whatever is no shape."""
    try:
        described = as_object(shape)
        maps = [_read_map(as_object(each)) for each in as_list(described.get("maps"), MOST)]
        sites = [_read_site(as_object(each), source) for each in as_list(described.get("sites"), MOST)]
        probes = as_texts(described.get("probes"), MOST)
        config = Config(print_maps_on_exit=bool(described.get("prints_maps")))
    except ValueError:
        raise ShapeError("what the agent says about its script makes no sense") from None
    return ScriptSpec([], maps, sites, [], probes, [], config, source)


def _read_map(described: JsonObject) -> MapSpec:
    name = as_text(described.get("name"))
    value = _read_type(described.get("value"))
    if not name.startswith("@") or value is None:
        raise ValueError
    return MapSpec(name, "hash", 0, 0, 0, key=_read_type(described.get("key")), value=value,
                   memory=bool(described.get("keyless")), labels=tuple(as_texts(described.get("labels"), MOST)),
                   about=as_text(described.get("about", "")))


def _read_site(described: JsonObject, source: Source) -> EventSite:
    pairs = [as_row(pair, 2) for pair in as_list(described.get("fields"), MOST)]
    fields = [EventField(_read_type(type) or t.VOID, 0, as_text(name)) for name, type in pairs]
    parts = [FormatPart(*as_texts(part, len(FormatPart._fields))) for part in as_list(described.get("parts"), MOST)]
    start, end = [as_integer(at, 0, len(source.text) + 1) for at in as_row(described.get("span"), 2)]
    return EventSite(as_text(described.get("kind")), Span(source, start, end), fields, 0, parts,
                     _read_data(as_object(described.get("data"))),
                     _read_columns(described.get("columns", []), parts, fields))


def _read_columns(described: Json, parts: list[FormatPart], fields: list[EventField]) -> list[Column]:
    columns = [Column(as_text(name), as_integer(first, 0, len(parts) + 1), as_integer(end, 0, len(parts) + 1))
               for name, first, end in [as_row(each, 3) for each in as_list(described, MOST)]]
    if fields:
        check_columns(columns, parts)
    return columns


def _read_data(plain: JsonObject) -> SiteData:
    data: SiteData = {}
    for text in ("map", "then", "severity", "table"):
        if text in plain:
            data[text] = as_text(plain[text])
    for number in ("top", "div"):
        if number in plain:
            data[number] = as_integer(plain[number], 0)
    return data


def _read_type(plain: Json, depth: int = DEEPEST + 2) -> t.Type | None:
    if plain is None:
        return None
    if not depth:
        raise ValueError
    name, *parts = as_list(plain) or [None]
    if name == "Tuple":
        each_type, each_name = as_row(parts, 2)
        of, names = as_list(each_type, MOST), as_texts(each_name)
        if names and len(names) != len(of):
            raise ValueError
        return t.Tuple(tuple([_read_type(each, depth - 1) or t.VOID for each in of]), tuple(names))
    if name == "Array":
        of_type, count = as_row(parts, 2)
        return t.Array(_read_type(of_type, depth - 1) or t.VOID, as_integer(count, 0))
    if name == "Struct":
        title, fields = as_row(parts, 2)
        return _read_struct(as_text(title), as_list(fields, MOST), depth - 1)
    if name == "Enum":
        title, bits, signed = as_row(parts, 3)
        return t.Enum(as_text(title), _check_bits(bits), bool(signed))
    return _read_plain(as_text(name), parts)


def _read_struct(name: str, described: list[Json], depth: int) -> t.Struct:
    fields = tuple([t.StructField(as_text(each), _read_type(type, depth) or t.VOID, 0)
                    for each, type in [as_row(pair, 2) for pair in described]])
    return t.Struct(name, 0, lambda: fields)


def _check_bits(number: Json) -> int:
    if number not in (8, 16, 32, 64):
        raise ValueError
    return as_integer(number)


def _read_plain(name: str, parts: list[Json]) -> t.Type:
    if name == "Address":
        return t.Address(t.VOID)
    kind = _PLAIN.get(name)
    if kind is None or len(parts) != len(kind._fields) or any(type(part) not in (int, bool, str) for part in parts):
        raise ValueError
    value_type = kind(*parts)
    if isinstance(value_type, t.Int):
        _check_bits(value_type.bits)
    if isinstance(value_type, t.Aggregate):
        _check_aggregate(value_type)
    return value_type


def _check_aggregate(type: t.Aggregate) -> None:
    """ValueError for parameters that no script can have."""
    for number in (type.bits, type.low, type.high, type.step):
        as_integer(number)
    known = as_text(type.kind) in AGGREGATES and 0 <= type.bits <= 5 and type.step >= 1
    if not known or not 0 < type.words <= MOST_WORDS:
        raise ValueError
    as_text(type.agg)
