"""A compiled script as plain data, and back: what the cache of compiled scripts keeps on disk.

Numbers, strings, bytes, lists and dicts stand for themselves. A tuple begins with a number: TUPLE and then its items,
SOURCE and the index of the source, or the number of a class in ``CLASSES`` and then the values of its fields.

What only the compiler needs is left out: the types of an attach point's ``args`` and ``retval``, and the members of
structs that are only pointed to.
"""

from __future__ import annotations

from .. import spec, types
from ..base.record import Record
from ..source import Diagnostic, ExpandedSpan, Note, Source, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

Plain: TypeAlias = "Any"  # None, bool, int, float, str, bytes, and lists, tuples and dicts of such

TUPLE, SOURCE = -1, -2
CLASSES: tuple[type[Record], ...] = (Span, ExpandedSpan, Diagnostic, Note, *[
    kind for module in (spec, types) for _, kind in sorted(vars(module).items())
    if isinstance(kind, type) and issubclass(kind, Record) and kind.__module__ == module.__name__])
_NUMBERS = {kind: number for number, kind in enumerate(CLASSES)}
_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
_STRUCT, _ATTACH, _POINTERS = _NUMBERS[types.Struct], _NUMBERS[spec.Attach], (types.Pointer, types.Address)


class NotPlainError(Exception):
    """Something that has no such form."""


def pack_spec(script: spec.ScriptSpec) -> Plain:
    """A script as plain data. NotPlainError if there is something in it that cannot be."""
    packer = _Packer()
    packed = packer.pack(script)
    return [source.values() for source in packer.sources], packed


def unpack_spec(data: Plain) -> spec.ScriptSpec:
    """The script that :func:`pack_spec` was given."""
    sources, packed = data
    unpacked: spec.ScriptSpec = _Unpacker([Source(*pair) for pair in sources]).unpack(packed)
    return unpacked


class _Packer:
    def __init__(self) -> None:
        self.sources: list[Source] = []
        self._indices: dict[int, int] = {}  # id of a source -> its index

    def pack(self, value: Any) -> Plain:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is list:
            return [self.pack(item) for item in value]
        if kind is tuple:
            return (TUPLE, *[self.pack(item) for item in value])
        if kind is dict:
            return {key: self.pack(item) for key, item in value.items()}
        if kind is Source:
            return SOURCE, self._source_index(value)
        if kind not in _NUMBERS:
            raise NotPlainError(kind.__name__)
        number = _NUMBERS[kind]
        if number == _STRUCT:
            return (number, *self._struct_fields(value, value.fields))
        if number == _ATTACH:
            value = spec.Attach(*value.values())
            value.args, value.detail = None, _runtime_detail(value.detail)
        if kind in _POINTERS:
            return number, self._pack_target(value.to), value.space
        return (number, *[self.pack(item) for item in value.values()])

    def _pack_target(self, type: types.Type) -> Plain:
        """What a pointer points to: of a struct only its name and size. Structs point to one another in circles."""
        if isinstance(type, types.Struct):
            return (_STRUCT, *self._struct_fields(type, None))
        if isinstance(type, types.Array):
            return _NUMBERS[types.Array], self._pack_target(type.of), type.count
        return self.pack(type)

    def _struct_fields(self, type: types.Struct, members: tuple[types.StructField, ...] | None) -> list[Plain]:
        return [type.name, type.bytes, self.pack(members), type.union, type.btf_id, type.alignment]

    def _source_index(self, source: Source) -> int:
        if id(source) not in self._indices:
            self._indices[id(source)] = len(self.sources)
            self.sources.append(source)
        return self._indices[id(source)]


class _Unpacker:
    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources

    def unpack(self, data: Plain) -> Any:
        kind = type(data)
        if kind is list:
            return [self.unpack(item) for item in data]
        if kind is dict:
            return {key: self.unpack(item) for key, item in data.items()}
        if kind is not tuple:
            return data
        number = data[0]
        if number == SOURCE:
            return self._sources[data[1]]
        values = [self.unpack(item) for item in data[1:]]
        if number == TUPLE:
            return tuple(values)
        if number == _STRUCT:
            members = values[2]
            values[2] = _unknown_members if members is None else lambda: members
        return CLASSES[number](*values)


def _runtime_detail(detail: spec.Detail | None) -> spec.Detail | None:
    """What the runtime asks of a detail."""
    if isinstance(detail, spec.KernelDetail):
        return spec.KernelDetail(detail.btf_id, detail.module, pin=detail.pin)
    if isinstance(detail, spec.UserDetail):
        return spec.UserDetail(detail.entry, exits=detail.exits)
    return spec.StaticDetail(detail.semaphore, []) if isinstance(detail, spec.StaticDetail) else detail


def _unknown_members() -> tuple[types.StructField, ...]:
    raise LookupError("of a struct that something points to, a cached script has no members")
