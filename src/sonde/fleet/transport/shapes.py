"""What a coordinator has to know of a script that was compiled elsewhere: a ScriptSpec without programs, as plain data.

Of kernel types only what their values look like travels: a pointer without its target, a struct by its members' names.
"""

from __future__ import annotations

from ... import types as t
from ...base.json_checks import Json, JsonObject, as_integer, as_list, as_object, as_row, as_text, as_texts
from ...base.record import Record
from ...errors import SondeError
from ...merge.table import MOST_WORDS
from ...output.table_rows import check_columns
from ...source import Source, Span
from ...spec import Column, Config, EventField, EventSite, FormatPart, MapSpec, ScriptSpec
from ...type_codec import VALUE_TYPES, CodecRow, TypeCodec, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...spec import SiteData

DEEPEST = 16   # types within types
MOST = 1 << 16  # maps, sites, probes, fields ...

_OF_INTEGERS = ("kind", "signed", "bits", "low", "high", "step", "agg")


class _ShapeTypes(TypeCodec):
    """A type that is not described, among others because it is too deep within others, is none."""

    rows = rows_of(VALUE_TYPES) | {
        "Aggregate": CodecRow(t.Aggregate, _OF_INTEGERS),  # as older agents and coordinators know it
        "FloatAggregate": CodecRow(t.Aggregate, (*_OF_INTEGERS, "units"), {"floating": True}),
        "Enum": CodecRow(t.Enum, ("name", "bits", "signed")), "Address": CodecRow(t.Address, (), {"to": t.VOID}),
        "Struct": CodecRow(t.Struct, ("name", "fields"))}
    most_words, deepest = MOST_WORDS, DEEPEST + 2

    def pack_record(self, record: Record) -> Json:
        if self._depth > DEEPEST:
            return None
        if isinstance(record, t.Pointer):
            return ["Address"]
        self._depth += 1
        try:
            return self._pack_struct(record) if isinstance(record, t.Struct) else super().pack_record(record)
        finally:
            self._depth -= 1

    def name_of(self, record: Record) -> str:
        if isinstance(record, t.Aggregate):
            return "FloatAggregate" if record.floating else "Aggregate"
        return super().name_of(record)

    def _pack_struct(self, struct: t.Struct) -> Json:
        fields = {name: struct.field(name) for name in struct.field_names()}
        return ["Struct", struct.name,
                [[name, self.pack(field.type if field else None)] for name, field in fields.items()]]

    def read_record(self, form: str, plain: Json) -> Any:
        return t.VOID if plain is None else super().read_record(form, plain)

    def make(self, row: CodecRow, parts: dict[str, Json]) -> Any:
        if row.kind is not t.Struct:
            return super().make(row, parts)
        fields = tuple([t.StructField(as_text(name), self.read("Type", type), 0)
                        for name, type in [as_row(pair, 2) for pair in as_list(parts["fields"], MOST)]])
        return t.Struct(as_text(parts["name"]), 0, lambda: fields)


class ShapeError(SondeError):
    """What an agent told of its script is no shape of one."""


# To plain data ------------------------------------------------------------------------------------------------------

def describe_script(spec: ScriptSpec) -> JsonObject:
    """A script's shape as JSON has it."""
    return {"maps": [_describe_map(m) for m in spec.shown_maps], "sites": [_describe_site(s) for s in spec.sites],
            "probes": spec.probes, "prints_maps": spec.config.print_maps_on_exit}


def _describe_map(named: MapSpec) -> JsonObject:
    return {"name": named.name, "key": _ShapeTypes().pack(named.key), "value": _ShapeTypes().pack(named.value),
            "keyless": named.memory or named.key is None, "labels": list(named.labels),
            "about": named.about}


def _describe_site(site: EventSite) -> JsonObject:
    return {"kind": site.kind, "fields": [[field.name, _ShapeTypes().pack(field.type)] for field in site.fields],
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
    types = _ShapeTypes()
    value = types.read("Type | None", described.get("value"))
    if not name.startswith("@") or value is None:
        raise ValueError
    return MapSpec(name, "hash", 0, 0, 0, key=types.read("Type | None", described.get("key")), value=value,
                   memory=bool(described.get("keyless")), labels=tuple(as_texts(described.get("labels"), MOST)),
                   about=as_text(described.get("about", "")))


def _read_site(described: JsonObject, source: Source) -> EventSite:
    pairs = [as_row(pair, 2) for pair in as_list(described.get("fields"), MOST)]
    fields = [EventField(_ShapeTypes().read("Type", type), 0, as_text(name)) for name, type in pairs]
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
