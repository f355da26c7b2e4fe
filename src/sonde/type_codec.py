"""Records and value types as plain data, and back: for recordings, for fleets, and for the reader of foreign files.

A record is a list of its class's name and its fields. Each user of the codec says which classes travel, by what names
and with which fields, and how structs do, which refer to one another in circles. What is read may come from anybody:
each field is checked against its annotation, and each type against what decoders rely on. ValueError says the problem.
"""

from __future__ import annotations

from . import types as t
from .base.json_checks import Json, as_flag, as_integer, as_list, as_row, as_text
from .base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_SIMPLE: dict[str, Callable[[Json], int | str]] = {"int": as_integer, "str": as_text, "bool": as_flag}
_PT_REGS = (168, 288)  # bytes of struct pt_regs: x86_64 and s390x, aarch64 and riscv64
VALUE_TYPES: tuple[type[Record], ...] = (  # that are no more than numbers, texts and other types
    t.NoneType, t.Int, t.Float, t.Bool, t.Symbol, t.USym, t.Stack, t.Timestamp, t.Str, t.Buf, t.Inet, t.MacAddr,
    t.Aggregate, t.Tuple, t.Array)
_SYMBOLS = {"ksym", "username", "probe", "strerror", "signal_name", "syscall_name", "cgroup_path", *t.GROUPS}

_forms: dict[type[Record], dict[str, str]] = {}


class CodecRow(Record):
    """A class that travels, and those of its fields that do. Others have a ``fixed`` value, or their default."""

    kind: type[Record]
    fields: tuple[str, ...]
    fixed: dict[str, Any] = {}


def rows_of(kinds: Iterable[type[Record]]) -> dict[str, CodecRow]:
    """Classes with all their fields, by their names."""
    return {kind.__name__: CodecRow(kind, kind._fields) for kind in kinds}


class TypeCodec:
    """``rows`` says what travels by which name. ``most`` are the bytes of a text and the elements of an array,
    ``most_words`` the words of an aggregate, ``deepest`` the records within records."""

    rows: dict[str, CodecRow] = {}
    most, most_words, deepest = 1 << 31, 1 << 20, 64

    _names: dict[type, str] = {}

    def __init_subclass__(cls) -> None:
        cls._names = {row.kind: name for name, row in cls.rows.items()}

    def __init__(self) -> None:
        self._depth = 0

    # to plain data

    def pack(self, value: object) -> Json:
        """A value of a record's field as plain data."""
        if isinstance(value, Record):
            return self.pack_record(value)
        if isinstance(value, list | tuple):
            return [self.pack(each) for each in value]
        if isinstance(value, dict):
            if all(isinstance(key, int) for key in value):
                return [[key, name] for key, name in value.items()]
            return {name: self.pack(each) for name, each in value.items()}
        assert value is None or isinstance(value, bool | int | str)
        return value

    def pack_record(self, record: Record) -> Json:
        """A record as a list. One of a class that does not travel is what it has of a base that does."""
        name = self.name_of(record)
        return [name, *[self.pack(getattr(record, field)) for field in self.rows[name].fields]]

    def name_of(self, record: Record) -> str:
        """By which name a record travels."""
        return next(self._names[kind] for kind in type(record).__mro__ if kind in self._names)

    # from plain data

    def read(self, form: str, plain: Json) -> Any:
        """The value of ``plain``, of the annotated type: ``int``, ``list[EventField]``, ``Type | None`` ..."""
        if form in _SIMPLE:
            return _SIMPLE[form](plain)
        if form.endswith(" | None"):
            return None if plain is None else self.read(form.removesuffix(" | None"), plain)
        outer, _, inner = form.rstrip("]").partition("[")
        if outer == "list":
            return [self.read(inner, each) for each in as_list(plain)]
        if outer == "tuple":
            return tuple([self.read(inner.removesuffix(", ..."), each) for each in as_list(plain)])
        if form == "dict[int, str]":
            return {as_integer(number): as_text(name) for number, name in [as_row(pair, 2) for pair in as_list(plain)]}
        return self.read_record(form, plain)

    def read_record(self, form: str, plain: Json) -> Any:
        """The record of such a form that a list describes."""
        name, *parts = as_list(plain) or [None]
        row = self.find_row(form, name)
        need(len(parts) == len(row.fields) and self._depth < self.deepest, f"{name} of no such form")
        self._depth += 1
        try:
            return self.make(row, dict(zip(row.fields, parts)))
        finally:
            self._depth -= 1

    def find_row(self, form: str, name: Json) -> CodecRow:
        """What travels by a name, where a ``form`` is expected: Type, or a record's class."""
        row = self.rows.get(name) if isinstance(name, str) else None
        if row is None or not (issubclass(row.kind, t.Type) if form == "Type" else row.kind.__name__ == form):
            raise ValueError(f"{form} expected")
        return row

    def make(self, row: CodecRow, parts: dict[str, Json]) -> Any:
        """A record of the fields that travelled."""
        forms = field_forms(row.kind)
        values = {field: self.read_field(field, forms[field], plain) for field, plain in parts.items()}
        record = row.kind(**row.fixed, **values)
        if isinstance(record, t.Type):
            self.check_type(record)
        return record

    def read_field(self, name: str, form: str, plain: Json) -> Any:
        """The value of a record's field."""
        return self.read(form, plain)

    def check_type(self, type: t.Type) -> None:
        """Check sizes and kinds that decoders rely on."""
        if isinstance(type, t.Float):
            need(type.bits in (32, 64), "a floating-point number of no such size")
        elif isinstance(type, t.Int | t.Enum):
            need(type.bits in (8, 16, 32, 64), "an integer of no such size")
        elif isinstance(type, t.Symbol):
            need(type.kind in _SYMBOLS, "a symbol of no such kind")
        elif isinstance(type, t.Stack):
            need(0 <= type.limit <= 1 << 16, "a stack of no such depth")
            need(not isinstance(type, t.StackCopy) or type.registers in _PT_REGS, "registers of no such size")
        elif isinstance(type, t.Tuple):
            need(not type.names or len(type.names) == len(type.of), "a record with other names than elements")
        elif isinstance(type, t.Real):
            need(0 <= type.bytes <= 64 and 0 <= type.alignment <= 64, "a number of no such size")
        elif isinstance(type, t.Str | t.Buf):
            need(0 <= type.capacity <= self.most, "a text of no such size")
        elif isinstance(type, t.Array):
            need(0 <= type.count <= self.most, "an array of no such size")
        elif isinstance(type, t.Aggregate):
            need(0 <= type.bits <= 5 and type.step > 0 and type.units > 0 and type.kind in t.AGGREGATES
                 and type.agg in ("", "sum", "min", "max", "avg")
                 and (type.kind != "tseries" or type.low > 0 and type.high > 0)
                 and 0 < type.words <= self.most_words, "an aggregate of no such shape")


def need(condition: object, problem: str) -> None:
    """ValueError that says the problem, unless a condition holds."""
    if not condition:
        raise ValueError(problem)


def field_forms(kind: type[Record]) -> dict[str, str]:
    """The annotations of a record's fields, in the class itself or the base that they come from."""
    forms = _forms.get(kind)
    if forms is None:
        annotations: dict[str, str] = {}
        for each in reversed(kind.__mro__):
            annotations.update(getattr(each, "__annotations__", {}))
        forms = _forms[kind] = {field: annotations[field] for field in kind._fields}
    return forms
