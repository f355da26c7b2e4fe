"""What a coordinator has to know of a script that was compiled elsewhere: a ScriptSpec without programs, as plain data.

Of kernel types only what their values look like travels: a pointer without its target, a struct by its members' names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import types as t
from ..errors import SondeError
from ..language.source import Source, Span
from ..merge.table import MOST_WORDS
from ..spec import Config, EventField, EventSite, FormatPart, MapSpec, ScriptSpec

DEEPEST = 16   # types within types
MOST = 1 << 16  # maps, sites, probes, fields ...
_KINDS = ("count", "sum", "min", "max", "avg", "stats", "hist", "lhist", "tseries")
_DATA = ("map", "top", "div", "then", "severity")  # of a site's data, what its printing needs

# The types that are nothing but numbers and texts, by name.
_PLAIN: dict[str, type[t.Type]] = {each.__name__: each for each in (
    t.NoneType, t.Int, t.Bool, t.Address, t.Symbol, t.USym, t.Stack, t.Timestamp, t.Str, t.Buf, t.Inet, t.MacAddr,
    t.Aggregate)}


class ShapeError(SondeError):
    """What an agent told of its script is no shape of one."""


# To plain data ------------------------------------------------------------------------------------------------------

def describe_script(spec: ScriptSpec) -> dict[str, Any]:
    """A script's shape as JSON has it."""
    return {"maps": [_describe_map(m) for m in spec.shown_maps], "sites": [_describe_site(s) for s in spec.sites],
            "probes": spec.probes, "prints_maps": spec.config.print_maps_on_exit}


def _describe_map(named: MapSpec) -> dict[str, Any]:
    return {"name": named.name, "key": _describe_type(named.key), "value": _describe_type(named.value),
            "keyless": named.memory or named.key is None, "labels": list(named.labels)}


def _describe_site(site: EventSite) -> dict[str, Any]:
    return {"kind": site.kind, "fields": [[field.name, _describe_type(field.type)] for field in site.fields],
            "parts": [list(part.values()) for part in site.parts],
            "data": {name: site.data[name] for name in _DATA if site.data.get(name)},
            "span": [site.span.start, site.span.end] if site.span is not None else [0, 0]}


def _describe_type(type: t.Type | None, depth: int = 0) -> Any:
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

def read_shape(shape: Any, source: Source) -> ScriptSpec:
    """The script that a shape describes; ShapeError for whatever is no shape."""
    try:
        maps = [_read_map(each) for each in _bounded(shape["maps"])]
        sites = [_read_site(each, source) for each in _bounded(shape["sites"])]
        probes = [_text(each) for each in _bounded(shape["probes"])]
        config = Config(print_maps_on_exit=bool(shape["prints_maps"]))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        raise ShapeError("what the agent says about its script makes no sense") from None
    return ScriptSpec([], maps, sites, [], probes, [], config, source)


def _bounded(items: Any) -> list[Any]:
    if type(items) is not list or len(items) > MOST:
        raise ValueError
    return items


def _text(text: Any) -> str:
    if type(text) is not str:
        raise TypeError
    return text


def _number(number: Any, low: int = -1 << 63, high: int = 1 << 64) -> int:
    if type(number) is not int or not low <= number < high:
        raise ValueError
    return number


def _read_map(described: Any) -> MapSpec:
    name = _text(described["name"])
    value = _read_type(described["value"])
    if not name.startswith("@") or value is None:
        raise ValueError
    return MapSpec(name, "hash", 0, 0, 0, key=_read_type(described["key"]), value=value,
                   memory=bool(described["keyless"]), labels=tuple(map(_text, _bounded(described["labels"]))))


def _read_site(described: Any, source: Source) -> EventSite:
    fields = [EventField(_read_known_type(type), 0, _text(name)) for name, type in _bounded(described["fields"])]
    parts = [FormatPart(*map(_text, part)) for part in _bounded(described["parts"])]
    data = {name: described["data"][name] for name in _DATA if name in described["data"]}
    for name, value in data.items():
        _number(value, 0) if name in ("top", "div") else _text(value)
    start, end = (_number(at, 0, len(source.text) + 1) for at in described["span"])
    return EventSite(_text(described["kind"]), Span(source, start, end), fields, 0, parts, data)


def _read_known_type(described: Any) -> t.Type:
    return _read_type(described) or t.VOID


def _read_type(described: Any, depth: int = DEEPEST + 2) -> t.Type | None:
    if described is None:
        return None
    if not depth:
        raise ValueError
    name, *parts = described
    if name == "Tuple":
        of, names = parts
        if names and len(names) != len(of):
            raise ValueError
        return t.Tuple(tuple([_read_type(each, depth - 1) or t.VOID for each in _bounded(of)]),
                       tuple(map(_text, names)))
    if name == "Array":
        return t.Array(_read_type(parts[0], depth - 1) or t.VOID, _number(parts[1], 0))
    if name == "Struct":
        return _read_struct(_text(parts[0]), _bounded(parts[1]), depth - 1)
    if name == "Enum":
        return t.Enum(_text(parts[0]), _bits(parts[1]), bool(parts[2]))
    return _read_plain(_text(name), parts)


def _read_struct(name: str, described: Sequence[Any], depth: int) -> t.Struct:
    fields = tuple([t.StructField(_text(each), _read_type(type, depth) or t.VOID, 0) for each, type in described])
    return t.Struct(name, 0, lambda: fields)


def _bits(number: Any) -> int:
    if number not in (8, 16, 32, 64) or type(number) is not int:
        raise ValueError
    return int(number)


def _read_plain(name: str, parts: list[Any]) -> t.Type:
    if any(type(part) not in (int, bool, str) for part in parts):
        raise TypeError
    if name == "Address":
        return t.Address(t.VOID)
    found = _PLAIN[name](*parts)
    if isinstance(found, t.Int):
        _bits(found.bits)
    if isinstance(found, t.Aggregate):
        _check_aggregate(found)
    return found


def _check_aggregate(found: t.Aggregate) -> None:
    """ValueError for parameters that no script can have."""
    for number in (found.bits, found.low, found.high, found.step):
        _number(number)
    known = _text(found.kind) in _KINDS and 0 <= found.bits <= 5 and found.step >= 1
    if not known or not 0 < found.words <= MOST_WORDS:
        raise ValueError
    _text(found.agg)
