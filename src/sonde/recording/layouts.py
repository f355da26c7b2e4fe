"""A script's layouts as plain data, and back: what a recording's head says about its sites, maps and types.

A record of :mod:`sonde.spec` or :mod:`sonde.types` is an object with its class under "is" and the fields that differ
from their defaults; a span is [start, end] of the script; a struct is the number of one in the list "structs", each of
which names only those before it. What is read is checked against the classes' own annotations, and against what sizes,
offsets and formats may be: nothing in a head is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .. import spec as s
from .. import types as t
from ..base.json_checks import Json, JsonObject, as_flag, as_integer, as_list, as_object, as_row, as_text, as_texts
from ..base.record import Record
from ..kinds import SITE_KINDS
from ..layouts.event_records import CONTROL_HEADER, RECORD_HEADER
from ..output.format import FLOATS
from ..output.table_rows import check_columns
from ..source import Source, Span
from ..type_codec import VALUE_TYPES, CodecRow, TypeCodec, need, rows_of
from .columns import MOST_BYTES
from .container import RecordingError

_RECORDS: tuple[type[Record], ...] = (
    t.Real, t.Enum, t.StackCopy, s.FormatPart, s.EventField, s.Column, s.EventSite, s.ErrorSite, s.Config)
_RUNNING = ("initial", "slots", "hot")  # what of a map only a running script needs

MOST_PARTS = 100_000   # values in all types of a head, one for each element of an array
_WIDEST = 4096         # a width in a format
_CONVERSIONS = {*"diouxXpcsr", *FLOATS, "rx", "rh", "rq", "gr"}


class _Layouts(TypeCodec):
    """Records with their fields by name, those that have their default left out. A struct is told by its number."""

    rows = rows_of((*VALUE_TYPES, *_RECORDS)) | {
        "MapSpec": CodecRow(s.MapSpec, tuple([field for field in s.MapSpec._fields if field not in _RUNNING])),
        "Pointer": CodecRow(t.Pointer, ("space",), {"to": t.VOID}),
        "Address": CodecRow(t.Address, ("space",), {"to": t.VOID})}
    most = MOST_BYTES


# To plain data ------------------------------------------------------------------------------------------------------

def plain_spec(spec: s.ScriptSpec) -> JsonObject:
    """The part of a spec that is kept, as plain data."""
    writer = _LayoutWriter()
    named = [m for m in spec.maps if m.name.startswith("@")]
    maps = [m for m in spec.maps if m in named or any(m.name == each.short for each in named)]
    return {"script": spec.source.text, "name": spec.source.name, "tool": spec.source.internal, "probes": spec.probes,
            "sites": writer.pack(spec.sites), "maps": writer.pack(maps), "errors": writer.pack(spec.errors),
            "config": writer.pack(spec.config), "structs": writer.structs}


class _LayoutWriter(_Layouts):
    def __init__(self) -> None:
        super().__init__()
        self.structs: list[Json] = []
        self._numbers: dict[int, int] = {}  # id of a struct -> its index in the list
        self._alive: list[t.Struct] = []

    def pack(self, value: object) -> Json:
        return [value.start, value.end] if isinstance(value, Span) else super().pack(value)

    def pack_record(self, record: Record) -> Json:
        if isinstance(record, t.Struct):
            return {"is": "Struct", "number": self._number_struct(record)}
        name, defaults = self.name_of(record), record._defaults
        fields = [(field, getattr(record, field)) for field in self.rows[name].fields]
        return {"is": name} | {field: self.pack(value) for field, value in fields
                               if not (field in defaults and value == defaults[field])}

    def _number_struct(self, struct: t.Struct) -> int:
        if id(struct) not in self._numbers:
            fields = [[f.name, self.pack(f.type), f.offset, f.bit_offset, f.bit_size, f.data_loc]
                      for f in struct.fields]
            self._alive.append(struct)
            self._numbers[id(struct)] = len(self.structs)
            self.structs.append({"name": struct.name, "bytes": struct.bytes, "union": struct.union,
                                 "alignment": struct.alignment, "fields": fields})
        return self._numbers[id(struct)]


# From plain data ----------------------------------------------------------------------------------------------------

def read_spec(plain: JsonObject) -> s.ScriptSpec:
    """The spec from the data of :func:`plain_spec`; it has no programs. RecordingError if it is not sound."""
    try:
        return _read_spec(plain)
    except ValueError as error:
        raise RecordingError(f"its head is not sound: {error}") from None


def _read_spec(plain: JsonObject) -> s.ScriptSpec:
    reader = _LayoutReader(plain)
    spec = s.ScriptSpec([], reader.list_of("maps", s.MapSpec), reader.list_of("sites", s.EventSite),
                        reader.list_of("errors", s.ErrorSite), reader.probes, [],
                        reader.read("Config", plain.get("config")), reader.source)
    names = {m.name for m in spec.maps}
    for site in spec.sites:
        _check_site(site, names)
    for named in spec.maps:
        _check_map(named, names)
    need(len(names) == len(spec.maps), "two maps of one name")
    return spec


class _LayoutReader(_Layouts):
    def __init__(self, plain: JsonObject) -> None:
        super().__init__()
        self.plain = plain
        self.source = Source(as_text(plain.get("name")), as_text(plain.get("script")), plain.get("tool") is True)
        self.probes = as_texts(plain.get("probes"))
        self._structs: list[t.Struct] = []
        self._parts: dict[int, int] = {}  # struct's number -> values in it
        self._total = 0
        for each in as_list(plain.get("structs")):
            self._structs.append(self._read_struct(as_object(each)))

    def list_of(self, key: str, of: type[Record]) -> list[Any]:
        """The records under a key."""
        return [self.read(of.__name__, each) for each in as_list(self.plain.get(key))]

    def read_record(self, form: str, plain: Json) -> Any:
        parts = dict(as_object(plain))
        name = parts.pop("is", None)
        if form == "Type" and name == "Struct":
            number = as_integer(parts.get("number"), 0, len(self._structs))
            self._count_parts(self._parts[number])
            return self._structs[number]
        row = self.find_row(form, name)
        if not parts.keys() <= {*row.fields}:
            raise RecordingError(f"its head is not sound: {name} with a field that it does not have",
                                 hints=["a newer Sonde may have made it"])
        need(all(field in parts or field in row.kind._defaults for field in row.fields),
             f"{name} without a field that it has")
        return self.make(row, parts)

    def check_type(self, type: t.Type) -> None:
        super().check_type(type)
        need(not isinstance(type, t.Array) or type.size <= self.most, "an array of no such size")
        self._count_parts(type.count if isinstance(type, t.Array) else 1)

    def read_field(self, name: str, form: str, plain: Json) -> Any:
        if name == "span":
            if plain is None:
                return None
            start, end = [as_integer(each, 0, len(self.source.text) + 1) for each in as_row(plain, 2)]
            return Span(self.source, start, end)
        if form == "SiteData":
            data = dict(as_object(plain))
            own = data.pop("own", [])
            need(isinstance(own, list) and all(isinstance(each, int) for each in own)
                 and all(isinstance(each, str | int | None) for each in data.values()), "data of a site expected")
            return plain
        return self.read(form, plain)

    def _read_struct(self, plain: JsonObject) -> t.Struct:
        before = self._total
        size = as_integer(plain.get("bytes"))
        fields = tuple([self._read_member(as_list(each), size) for each in as_list(plain.get("fields"))])
        self._parts[len(self._structs)] = self._total - before + 1
        return t.Struct(as_text(plain.get("name")), size, _giver(fields),
                        as_flag(plain.get("union")), 0, as_integer(plain.get("alignment")))

    def _read_member(self, plain: list[Json], size: int) -> t.StructField:
        need(len(plain) == 6, "a member of a struct is none")
        forms = ["str", "Type", "int", "int", "int", "bool"]
        member = t.StructField(*[self.read(form, each) for form, each in zip(forms, plain)])
        need(0 <= member.bit_offset < 64 and 0 <= member.bit_size <= 64, "bits of a member that it does not have")
        needed = 4 if member.data_loc else (member.bit_offset + member.bit_size + 7) // 8 or member.type.size
        need(0 <= member.offset and member.offset + needed <= size, "a member after the end of its struct")
        return member

    def _count_parts(self, more: int) -> None:
        self._total += more
        need(self._total <= MOST_PARTS, "too many types")


def _giver(fields: tuple[t.StructField, ...]) -> Callable[[], tuple[t.StructField, ...]]:
    return lambda: fields


def _check_site(site: s.EventSite, maps: set[str]) -> None:
    need(site.kind in SITE_KINDS, "a site of no such kind")
    kind = SITE_KINDS[site.kind]
    start = CONTROL_HEADER if site.control else RECORD_HEADER
    need(start <= site.size <= MOST_BYTES, "a record of no such size")
    need(all(start <= f.offset and f.offset + f.type.size <= site.size for f in site.fields)
         and _apart([(f.offset, f.type.size) for f in site.fields]), "a field outside its record")
    need(all(isinstance(site.data.get(name), str) for name in kind.data) and len(site.fields) >= kind.fields,
         "a site without what its kind has")
    need(site.data.get("map", "") in maps | {""} and site.data.get("then") in (None, "", "clear", "zero")
         and all(isinstance(site.data.get(name) or 0, int) for name in ("top", "div")), "a map that is not there")
    if site.kind in ("join", "skboutput"):
        need(isinstance(site.fields[0].type, t.Buf), "bytes expected")
    conversions = [part for part in site.parts if part.conversion]
    if kind.formatted:
        need(len(conversions) == len(site.fields) and all(map(_is_sound, conversions))
             and all(isinstance(field.type, t.Float) for part, field in zip(conversions, site.fields)
                     if part.conversion in FLOATS), "a format of no such kind")
    need(isinstance(site.data.get("table", ""), str), "a table without a name")
    if site.columns and site.fields:
        check_columns(site.columns, site.parts)


def _apart(spans: list[tuple[int, int]]) -> bool:
    ends = 0
    for offset, size in sorted(spans):
        if offset < ends:
            return False
        ends = offset + size
    return True


def _is_sound(part: s.FormatPart) -> bool:
    match = re.fullmatch(r"[-+ #0]*([0-9]{0,5})(?:\.[0-9]{0,5})?", part.spec)
    return part.conversion in _CONVERSIONS and part.length in ("", "hh", "h", "l", "ll", "j", "z", "t") \
        and match is not None and int(match[1] or 0) <= _WIDEST


def _check_map(named: s.MapSpec, names: set[str]) -> None:
    need(named.value is not None and named.short in names | {""} and named.short != named.name
         and 0 <= named.key_size <= MOST_BYTES, "a map without a value")
    need(named.key is None or named.memory or named.key.size <= named.key_size, "a key that its map has no room for")
