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
from ..output.table_rows import check_columns
from ..source import Source, Span
from .columns import MOST_BYTES
from .container import RecordingError

_TYPES: list[type[Record]] = [
    t.NoneType, t.Real, t.Int, t.Bool, t.Enum, t.Pointer, t.Address, t.Symbol, t.USym, t.Stack, t.StackCopy,
    t.Timestamp, t.Str, t.Buf, t.Inet, t.MacAddr, t.Array, t.Tuple, t.Aggregate]
_RECORDS: list[type[Record]] = [*_TYPES, s.FormatPart, s.EventField, s.Column, s.EventSite, s.ErrorSite, s.MapSpec,
                              s.Config]
_CLASSES = {each.__name__: each for each in _RECORDS}
_LEFT_OUT = {(s.MapSpec, "initial"), (s.MapSpec, "slots"), (s.MapSpec, "hot"),
             (t.Pointer, "to"), (t.Address, "to")}  # what only a running script needs

MOST_PARTS = 100_000   # values in all types of a head, one for each element of an array
MOST_WORDS = 1 << 20   # of an aggregate
_SIMPLE: dict[str, Callable[[Json], int | str]] = {"int": as_integer, "str": as_text, "bool": as_flag}
_WIDEST = 4096         # a width in a format
_CONVERSIONS = {*"diouxXpcsr", "rx", "rh", "rq", "gr"}
_PT_REGS = (168, 288)  # bytes of struct pt_regs: x86_64 and s390x, aarch64 and riscv64
_SYMBOLS = {"ksym", "username", "probe", "strerror", "signal_name", "syscall_name", "cgroup_path", *t.GROUPS}


# To plain data ------------------------------------------------------------------------------------------------------

def plain_spec(spec: s.ScriptSpec) -> JsonObject:
    """The part of a spec that is kept, as plain data."""
    writer = _LayoutWriter()
    named = [m for m in spec.maps if m.name.startswith("@")]
    maps = [m for m in spec.maps if m in named or any(m.name == each.short for each in named)]
    return {"script": spec.source.text, "name": spec.source.name, "tool": spec.source.internal, "probes": spec.probes,
            "sites": writer.plain(spec.sites), "maps": writer.plain(maps), "errors": writer.plain(spec.errors),
            "config": writer.plain(spec.config), "structs": writer.structs}


class _LayoutWriter:
    def __init__(self) -> None:
        self.structs: list[Json] = []
        self._numbers: dict[int, int] = {}  # id of a struct -> its index in the list
        self._alive: list[t.Struct] = []

    def plain(self, value: object) -> Json:
        """A value of a record's field as plain data."""
        if isinstance(value, t.Struct):
            return {"is": "Struct", "number": self._number_struct(value)}
        if isinstance(value, Span):
            return [value.start, value.end]
        if isinstance(value, Record):
            defaults = value._defaults
            fields = [(name, getattr(value, name)) for name in value._fields]
            return {"is": type(value).__name__} | {
                name: self.plain(have) for name, have in fields
                if (type(value), name) not in _LEFT_OUT and not (name in defaults and have == defaults[name])}
        if isinstance(value, list | tuple):
            return [self.plain(each) for each in value]
        if isinstance(value, dict) and value and isinstance(next(iter(value)), int):
            return [[key, name] for key, name in value.items()]
        if isinstance(value, dict):
            return {name: self.plain(each) for name, each in value.items()}
        assert value is None or isinstance(value, bool | int | str)
        return value

    def _number_struct(self, struct: t.Struct) -> int:
        if id(struct) not in self._numbers:
            fields = [[f.name, self.plain(f.type), f.offset, f.bit_offset, f.bit_size, f.data_loc]
                      for f in struct.fields]
            self._alive.append(struct)
            self._numbers[id(struct)] = len(self.structs)
            self.structs.append({"name": struct.name, "bytes": struct.bytes, "union": struct.union,
                                 "alignment": struct.alignment, "fields": fields})
        return self._numbers[id(struct)]


# From plain data ----------------------------------------------------------------------------------------------------

def read_spec(plain: JsonObject) -> s.ScriptSpec:
    """The spec from the data of :func:`plain_spec`; it has no programs. RecordingError if it is not sound."""
    reader = _LayoutReader(plain)
    spec = s.ScriptSpec([], reader.list_of("maps", s.MapSpec), reader.list_of("sites", s.EventSite),
                        reader.list_of("errors", s.ErrorSite), reader.probes, [],
                        reader.read("Config", plain.get("config")), reader.source)
    names = {m.name for m in spec.maps}
    for site in spec.sites:
        _check_site(site, names)
    for named in spec.maps:
        _check_map(named, names)
    if len(names) != len(spec.maps):
        raise RecordingError("its head has two maps of one name")
    return spec


def _need(condition: object, what: str) -> None:
    if not condition:
        raise RecordingError(f"its head is not sound: {what}")


class _LayoutReader:
    def __init__(self, plain: JsonObject) -> None:
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

    def read(self, form: str, plain: Json) -> Any:
        """The value of ``plain``, of the annotated type: ``int``, ``list[EventField]``, ``Type | None`` ..."""
        form = form.removeprefix("t.")
        if form.endswith(" | None"):
            return None if plain is None else self.read(form.removesuffix(" | None"), plain)
        if form in _SIMPLE:
            return _SIMPLE[form](plain)
        outer, _, inner = form.rstrip("]").partition("[")
        if outer == "list":
            return [self.read(inner, each) for each in as_list(plain)]
        if outer == "tuple":
            return tuple([self.read(inner.removesuffix(", ..."), each) for each in as_list(plain)])
        if form == "dict[int, str]":
            return {as_integer(number): as_text(name) for number, name in [as_row(pair, 2) for pair in as_list(plain)]}
        return self._read_record(form, plain)

    def _read_record(self, form: str, described: Json) -> Any:
        plain = as_object(described)
        name = plain.get("is")
        if form == "Type" and name == "Struct":
            number = as_integer(plain.get("number"), 0, len(self._structs))
            self._count_parts(self._parts[number])
            return self._structs[number]
        kind = _CLASSES.get(name) if isinstance(name, str) else None
        _need(kind is not None and (kind in _TYPES if form == "Type" else kind.__name__ == form), f"{form} expected")
        assert kind is not None
        forms = {field: _annotation(kind, field) for field in kind._fields}
        if not plain.keys() <= {"is", *forms}:
            raise RecordingError(f"its head is not sound: {name} with a field that it does not have",
                                 hints=["a newer Sonde may have made it"])
        _need(all(field in plain or field in kind._defaults or (kind, field) in _LEFT_OUT for field in forms),
              f"{name} without a field that it has")
        values = {field: self._read_field(field, forms[field], plain[field]) for field in forms if field in plain}
        if kind in (t.Pointer, t.Address):
            values["to"] = t.VOID
        record = kind(**values)
        if isinstance(record, t.Type):
            _check_type(record)
            self._count_parts(record.count if isinstance(record, t.Array) else 1)
        return record

    def _read_field(self, name: str, form: str, plain: Json) -> Any:
        if name == "span":
            if plain is None:
                return None
            start, end = [as_integer(each, 0, len(self.source.text) + 1) for each in as_row(plain, 2)]
            return Span(self.source, start, end)
        if form == "SiteData":
            data = dict(as_object(plain))
            own = data.pop("own", [])
            _need(isinstance(own, list) and all(isinstance(each, int) for each in own)
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
        _need(len(plain) == 6, "a member of a struct is none")
        forms = ["str", "Type", "int", "int", "int", "bool"]
        member = t.StructField(*[self.read(form, each) for form, each in zip(forms, plain)])
        _need(0 <= member.bit_offset < 64 and 0 <= member.bit_size <= 64, "bits of a member that it does not have")
        needed = 4 if member.data_loc else (member.bit_offset + member.bit_size + 7) // 8 or member.type.size
        _need(0 <= member.offset and member.offset + needed <= size, "a member after the end of its struct")
        return member

    def _count_parts(self, more: int) -> None:
        self._total += more
        _need(self._total <= MOST_PARTS, "too many types")


def _giver(fields: tuple[t.StructField, ...]) -> Callable[[], tuple[t.StructField, ...]]:
    return lambda: fields


def _annotation(kind: type[Record], field: str) -> str:
    """A field's annotation, in the class itself or the base that it comes from."""
    from inspect import get_annotations
    return next(str(annotations[field]) for annotations in map(get_annotations, kind.__mro__) if field in annotations)


def _check_type(type: t.Type) -> None:
    """Check sizes and kinds that decoders rely on."""
    if isinstance(type, t.Int | t.Enum):
        _need(type.bits in (8, 16, 32, 64), "an integer of no such size")
    elif isinstance(type, t.Symbol):
        _need(type.kind in _SYMBOLS, "a symbol of no such kind")
    elif isinstance(type, t.Stack):
        _need(0 <= type.limit <= 1 << 16, "a stack of no such depth")
        if isinstance(type, t.StackCopy):
            _need(type.registers in _PT_REGS, "registers of no such size")
    elif isinstance(type, t.Tuple):
        _need(not type.names or len(type.names) == len(type.of), "a record with other names than elements")
    elif isinstance(type, t.Real):
        _need(0 <= type.bytes <= 64 and 0 <= type.alignment <= 64, "a number of no such size")
    elif isinstance(type, t.Str | t.Buf):
        _need(0 <= type.capacity <= MOST_BYTES, "a text of no such size")
    elif isinstance(type, t.Array):
        _need(0 <= type.count and type.size <= MOST_BYTES, "an array of no such size")
    elif isinstance(type, t.Aggregate):
        _need(0 <= type.bits <= 5 and type.step > 0 and type.kind in t.AGGREGATES and type.agg in (
            "", "sum", "min", "max", "avg") and (type.kind != "tseries" or type.low > 0 and type.high > 0)
            and 0 < type.words <= MOST_WORDS, "an aggregate of no such shape")


def _check_site(site: s.EventSite, maps: set[str]) -> None:
    _need(site.kind in SITE_KINDS, "a site of no such kind")
    kind = SITE_KINDS[site.kind]
    start = CONTROL_HEADER if site.control else RECORD_HEADER
    _need(start <= site.size <= MOST_BYTES, "a record of no such size")
    _need(all(start <= f.offset and f.offset + f.type.size <= site.size for f in site.fields)
          and _apart([(f.offset, f.type.size) for f in site.fields]), "a field outside its record")
    _need(all(isinstance(site.data.get(name), str) for name in kind.data) and len(site.fields) >= kind.fields,
          "a site without what its kind has")
    _need(site.data.get("map", "") in maps | {""} and site.data.get("then") in (None, "", "clear", "zero")
          and all(isinstance(site.data.get(name) or 0, int) for name in ("top", "div")), "a map that is not there")
    if site.kind in ("join", "skboutput"):
        _need(isinstance(site.fields[0].type, t.Buf), "bytes expected")
    conversions = [part for part in site.parts if part.conversion]
    if kind.formatted:
        _need(len(conversions) == len(site.fields) and all(map(_is_sound, conversions)), "a format of no such kind")
    _need(isinstance(site.data.get("table", ""), str), "a table without a name")
    if site.columns and site.fields:
        try:
            check_columns(site.columns, site.parts)
        except ValueError as error:
            raise RecordingError(str(error)) from None


def _apart(places: list[tuple[int, int]]) -> bool:
    ends = 0
    for offset, size in sorted(places):
        if offset < ends:
            return False
        ends = offset + size
    return True


def _is_sound(part: s.FormatPart) -> bool:
    match = re.fullmatch(r"[-+ #0]*([0-9]{0,5})(?:\.[0-9]{0,5})?", part.spec)
    return part.conversion in _CONVERSIONS and part.length in ("", "hh", "h", "l", "ll", "j", "z", "t") \
        and match is not None and int(match[1] or 0) <= _WIDEST


def _check_map(named: s.MapSpec, names: set[str]) -> None:
    _need(named.value is not None and named.short in names | {""} and named.short != named.name
          and 0 <= named.key_size <= MOST_BYTES, "a map without a value")
    _need(named.key is None or named.memory or named.key.size <= named.key_size, "a key that its map has no room for")
