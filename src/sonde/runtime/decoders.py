"""From bytes of map keys, map values and event records to Python values.

``decoder(type, context)`` is compiled once per type; what it returns is called once per value.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Layout
from typing import Any

from .. import types as t
from ..types import Stack, Type
from .values import (
    Address,
    ArrayValue,
    Buffer,
    Context,
    EnumValue,
    MacAddress,
    Moment,
    Name,
    PointerValue,
    RecordValue,
    StackTrace,
    StructValue,
    UserSymbol,
    bare,
)

Decode = Callable[[Any, int], Any]  # (buffer, offset) -> value

INT_CODES = {(8, True): "b", (8, False): "B", (16, True): "h", (16, False): "H",
             (32, True): "i", (32, False): "I", (64, True): "q", (64, False): "Q"}
LAST_SIGNAL = 64
new_class = type  # the parameter ``type`` hides it below


def decoder(type: Type, context: Context) -> Decode:
    """A function from (buffer, offset) to the Python value of ``type`` that lies there."""
    make = _MAKERS.get(type.__class__)
    if make is None:
        raise AssertionError(f"no decoder for {type.__class__.__name__}")
    found: Decode = make(type, context)
    return found


def _scalar(code: str) -> Decode:
    unpack = Layout("=" + code).unpack_from
    return lambda buffer, offset: unpack(buffer, offset)[0]


def _int(type: t.Int, _: Context) -> Decode:
    return _scalar(INT_CODES[type.bits, type.signed])


def _bool(_type: t.Bool, _: Context) -> Decode:
    return _scalar("?")


def _address(_type: t.Address, _: Context) -> Decode:
    return _scalar("Q")


def _pointer(_type: t.Pointer, _: Context) -> Decode:
    get = _scalar("Q")
    return lambda buffer, offset: PointerValue(get(buffer, offset))


def enum_class(type: t.Enum) -> Any:
    """The Python class of an enum's values."""
    return new_class(type.name or "enum", (EnumValue,), {"names": type.names})


def _enum(type: t.Enum, _: Context) -> Decode:
    get, wrap = _scalar(INT_CODES[type.bits, type.signed]), enum_class(type)
    return lambda buffer, offset: wrap(get(buffer, offset))


def _none(_type: t.NoneType, _: Context) -> Decode:
    return lambda buffer, offset: None if isinstance(_type, t.Real) else ""


def text_bytes(capacity: int, context: Context) -> Callable[[bytes], bytes]:
    """From the bytes of a Str to its text: up to the NUL, with the trailer if str() had to cut it.

    A string that leaves room for nothing but its NUL was (almost surely) longer; only strings of str()'s own
    capacity are judged so: ``comm`` may well be 15 characters long.
    """
    if capacity != context.text_size or not context.trailer:
        return lambda raw: raw.partition(b"\0")[0]
    trailer = context.trailer.encode()

    def cut(raw: bytes) -> bytes:
        text = raw.partition(b"\0")[0]
        return text + trailer if len(text) >= capacity - 1 else text
    return cut


def _str(type: t.Str, context: Context) -> Decode:
    size, text = type.capacity, text_bytes(type.capacity, context)
    return lambda buffer, offset: text(bytes(buffer[offset:offset + size])).decode("utf-8", "surrogateescape")


def _buf(type: t.Buf, _: Context) -> Decode:
    length, capacity = _scalar("I"), type.capacity

    def get(buffer: Any, offset: int) -> Buffer:
        used = min(length(buffer, offset), capacity)
        return Buffer(buffer[offset + 4:offset + 4 + used])
    return get


def _inet(_type: t.Inet, _: Context) -> Decode:
    family = _scalar("I")
    sizes = {2: 4, 10: 16}

    def get(buffer: Any, offset: int) -> Address:
        af = family(buffer, offset)
        return Address(af, bytes(buffer[offset + 4:offset + 4 + sizes.get(af, 0)]))
    return get


def _mac(_type: t.MacAddr, _: Context) -> Decode:
    return lambda buffer, offset: MacAddress(buffer[offset:offset + 6])


def _timestamp(type: t.Timestamp, context: Context) -> Decode:
    get = _scalar("Q")

    def moment(buffer: Any, offset: int) -> Moment:
        found = Moment(get(buffer, offset))
        found.format = type.format
        found.wall = context.wall_clock(found, type.clock)
        return found
    return moment


def _symbol(type: t.Symbol, context: Context) -> Decode:
    kind, lookup = type.kind, _lookup(type, context)
    get = _scalar("Q" if kind in ("ksym", "cgroup_path") else "q")
    return lambda buffer, offset: Name(kind, get(buffer, offset), lookup)


def _lookup(type: t.Symbol, context: Context) -> Callable[[int], str]:
    if type.kind == "ksym":
        return lambda address: (context.ksym(address) or (bare(address), 0))[0]
    if type.kind == "cgroup_path":
        return lambda cgroup: context.cgroup_path(cgroup, type.filter)
    simple: dict[str, Callable[[int], str]] = {
        "username": context.username, "probe": context.probe, "syscall_name": context.syscall_name,
        "strerror": _strerror, "signal_name": _signal_name}
    return simple[type.kind]


def _strerror(number: int) -> str:
    from os import strerror
    found = strerror(abs(number)) if abs(number) < 1 << 31 else ""
    return found if found and not found.startswith("Unknown error") else "Unknown error"


def _signal_name(number: int) -> str:
    from signal import strsignal
    if not 0 <= number <= LAST_SIGNAL:
        return "N/A"
    return (strsignal(number) if number else None) or f"Unknown signal {number}"


def _usym(_type: t.USym, context: Context) -> Decode:
    unpack = Layout("=QII").unpack_from

    def get(buffer: Any, offset: int) -> UserSymbol:
        address, tgid, _ = unpack(buffer, offset)
        return UserSymbol(address, tgid, context)
    return get


def _stack(type: Stack, context: Context) -> Decode:
    unpack = Layout("=QII").unpack_from

    def get(buffer: Any, offset: int) -> StackTrace:
        id, tgid, depth = unpack(buffer, offset)
        return StackTrace(type, id, tgid, depth, context)
    return get


def _stack_copy(type: t.StackCopy, context: Context) -> Decode:
    from .unwound import stack_decoder
    return stack_decoder(type, context)


def _array(type: t.Array, context: Context) -> Decode:
    of = type.of
    if isinstance(of, t.Int):
        unpack = Layout(f"={type.count}{INT_CODES[of.bits, of.signed]}").unpack_from
        return lambda buffer, offset: ArrayValue(unpack(buffer, offset))
    get, step, size = decoder(of, context), of.size, type.size
    starts = range(0, size, step or 1)
    return lambda buffer, offset: ArrayValue([get(buffer, offset + at) for at in starts])


def _tuple(type: t.Tuple, context: Context) -> Decode:
    wrap: Any = tuple
    if type.names:
        wrap = new_class("record", (RecordValue,), {"_fields": type.names})
    flat = _flat_codes(type)
    if flat:
        unpack = Layout(flat).unpack_from
        return unpack if wrap is tuple else lambda buffer, offset: wrap(unpack(buffer, offset))
    parts = [(decoder(each, context), at) for each, at in zip(type.of, type.offsets)]
    return lambda buffer, offset: wrap([get(buffer, offset + at) for get, at in parts])


def _flat_codes(type: t.Tuple) -> str:
    """One struct format for a tuple of plain numbers; "" if it has anything else."""
    codes, end = "=", 0
    for element, at in zip(type.of, type.offsets):
        if not isinstance(element, t.Int | t.Bool):
            return ""
        code = "?" if isinstance(element, t.Bool) else INT_CODES[element.bits, element.signed]
        codes += f"{at - end}x{code}"
        end = at + element.size
    return codes if type.of else ""


def _struct(type: t.Struct, context: Context) -> Decode:
    parts = [(name, get, at) for name, get, at in _members(type, 0, context)]
    return lambda buffer, offset: StructValue([(name, get(buffer, offset + at)) for name, get, at in parts])


def _members(type: t.Struct, base: int, context: Context) -> list[tuple[str, Decode, int]]:
    """Members with those of anonymous structs and unions among them, as print() shows them."""
    found: list[tuple[str, Decode, int]] = []
    for field in type.fields:
        if not field.name and isinstance(field.type, t.Struct):
            found += _members(field.type, base + field.offset, context)
        elif field.name:
            found.append((field.name, _member(field, context), base + field.offset))
    return found


def _member(field: t.StructField, context: Context) -> Decode:
    if field.data_loc:
        return _scalar("I")
    if not field.bit_size:
        return decoder(field.type, context)
    return _bitfield(field)


def _bitfield(field: t.StructField) -> Decode:
    """Bits of little-endian storage, a number without a sign as bpftrace has it; read byte by byte, because a member
    may end where the struct does."""
    size = (field.bit_offset + field.bit_size + 7) // 8
    shift, width = field.bit_offset, field.bit_size
    mask = (1 << width) - 1
    wrap: Any = int
    if isinstance(field.type, t.Enum | t.Bool):
        wrap = bool if isinstance(field.type, t.Bool) else enum_class(field.type)

    def get(buffer: Any, offset: int) -> Any:
        return wrap(int.from_bytes(buffer[offset:offset + size], "little") >> shift & mask)
    return get


_MAKERS: dict[type, Callable[[Any, Context], Decode]] = {
    t.Int: _int, t.Bool: _bool, t.Pointer: _pointer, t.Address: _address, t.Enum: _enum,
    t.NoneType: _none, t.Real: _none, t.Str: _str, t.Buf: _buf,
    t.Inet: _inet, t.MacAddr: _mac, t.Timestamp: _timestamp, t.Symbol: _symbol, t.USym: _usym, Stack: _stack,
    t.StackCopy: _stack_copy,
    t.Array: _array, t.Tuple: _tuple, t.Struct: _struct}
