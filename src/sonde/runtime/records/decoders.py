"""From bytes of map keys, map values and event records to Python values.

``decoder(type, context)`` is compiled once per type; what it returns is called once per value.
"""

from __future__ import annotations

from struct import Struct as Layout
from sys import byteorder

from ... import types as t
from ...base.words import INT_CODES
from ...layouts.c_library_texts import error_text, signal_text
from ...layouts.event_records import MOST_FIXED
from ...types import Stack, Type
from .values import (
    ArrayValue,
    Buffer,
    DecodingContext,
    EnumValue,
    InetAddress,
    MacAddress,
    Moment,
    NamedNumber,
    PointerValue,
    ScriptValue,
    SingleFloat,
    StackTrace,
    StructValue,
    UserAddress,
    format_bare_address,
    make_record_class,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeAlias


Decode: TypeAlias = "Callable[[bytes, int], ScriptValue]"  # (buffer, offset) -> value
DecodeColumn: TypeAlias = "Callable[[bytes], Sequence[ScriptValue]]"  # elements one after another -> their values

new_class = type  # the parameter ``type`` hides it below


def make_decoder(type: Type, context: DecodingContext) -> Decode:
    """A function from (buffer, offset) to the Python value of ``type`` that lies there."""
    make = _MAKERS.get(type.__class__)
    if make is None:
        raise AssertionError(f"no decoder for {type.__class__.__name__}")
    decode: Decode = make(type, context)
    return decode


def make_column_decoder(type: Type, context: DecodingContext, step: int, at: int = 0) -> DecodeColumn:
    """A function from many elements of ``step`` bytes each to the values of ``type`` that lie ``at`` bytes into each:
    those of :func:`make_decoder`, without a call for each where they are numbers, texts or tuples of such."""
    if type.__class__ is t.Int and isinstance(type, t.Int) and not step % type.size and not at % type.size:
        code: Any = INT_CODES[type.size, type.signed]  # one of the formats that memoryviews know
        each = step // type.size
        return lambda data: memoryview(data)[at:].cast(code)[::each].tolist() if data else []
    if isinstance(type, t.Str):
        unpack, text = Layout(f"{at}x{type.size}s{step - at - type.size}x").iter_unpack, \
            make_text_cutter(type.capacity, context)
        return lambda data: [text(raw).decode("utf-8", "surrogateescape") for raw, in unpack(data)]
    if isinstance(type, t.Tuple) and type.of and not type.names:
        columns = [make_column_decoder(each, context, step, at + offset)
                   for each, offset in zip(type.of, type.offsets)]
        return lambda data: list(zip(*[column(data) for column in columns]))
    get = make_decoder(type, context)
    return lambda data: [get(data, start) for start in range(at, len(data), step)]


def _scalar_decoder(code: str) -> Callable[[bytes, int], int]:
    unpack = Layout("=" + code).unpack_from
    return lambda buffer, offset: unpack(buffer, offset)[0]


def _int_decoder(type: t.Int, _: DecodingContext) -> Decode:
    return _scalar_decoder(INT_CODES[type.size, type.signed])


def _float_decoder(type: t.Float, _: DecodingContext) -> Decode:
    if type.bits == 64:
        return _scalar_decoder("d")
    get = _scalar_decoder("f")
    return lambda buffer, offset: SingleFloat(get(buffer, offset))


def _bool_decoder(_type: t.Bool, _: DecodingContext) -> Decode:
    return _scalar_decoder("?")


def _address_decoder(_type: t.Address, _: DecodingContext) -> Decode:
    return _scalar_decoder("Q")


def _pointer_decoder(_type: t.Pointer, _: DecodingContext) -> Decode:
    get = _scalar_decoder("Q")
    return lambda buffer, offset: PointerValue(get(buffer, offset))


def enum_class(type: t.Enum) -> Callable[[int], EnumValue]:
    """The Python class of an enum's values."""
    return new_class(type.name or "enum", (EnumValue,), {"names": type.names})


def _enum_decoder(type: t.Enum, _: DecodingContext) -> Decode:
    get, wrap = _scalar_decoder(INT_CODES[type.size, type.signed]), enum_class(type)
    return lambda buffer, offset: wrap(get(buffer, offset))


def _none_decoder(_type: t.NoneType, _: DecodingContext) -> Decode:
    return lambda buffer, offset: None if isinstance(_type, t.Real) else ""


def make_text_cutter(capacity: int, context: DecodingContext) -> Callable[[bytes], bytes]:
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


def make_long_text_cutter(capacity: int, context: DecodingContext) -> Callable[[bytes, int], bytes]:
    """A function from (buffer, offset) to the text of a long Str there; what follows its NUL may be another record."""
    trailer = context.trailer.encode() if capacity == context.text_size else b""

    def cut(buffer: bytes, offset: int) -> bytes:
        if buffer.__class__ is not bytes:
            buffer, offset = bytes(buffer[offset:offset + capacity]), 0
        last = offset + capacity
        end = buffer.find(b"\0", offset, last)
        text = buffer[offset:end if end >= 0 else last]
        return text + trailer if trailer and len(text) >= capacity - 1 else text
    return cut


def _str_decoder(type: t.Str, context: DecodingContext) -> Decode:
    if type.size > MOST_FIXED:
        text_at = make_long_text_cutter(type.capacity, context)
        return lambda buffer, offset: text_at(buffer, offset).decode("utf-8", "surrogateescape")
    size, text = type.capacity, make_text_cutter(type.capacity, context)
    return lambda buffer, offset: text(bytes(buffer[offset:offset + size])).decode("utf-8", "surrogateescape")


def make_buffer_decoder(type: t.Buf) -> Callable[[bytes, int], Buffer]:
    """A function from (buffer, offset) to the bytes that buf() put there."""
    length, capacity = _scalar_decoder("I"), type.capacity

    def get(buffer: bytes, offset: int) -> Buffer:
        used = min(length(buffer, offset), capacity)
        return Buffer(buffer[offset + 4:offset + 4 + used])
    return get


def _buf_decoder(type: t.Buf, _: DecodingContext) -> Decode:
    return make_buffer_decoder(type)


def _inet_decoder(_type: t.Inet, _: DecodingContext) -> Decode:
    family = _scalar_decoder("I")
    sizes = {2: 4, 10: 16}

    def get(buffer: bytes, offset: int) -> InetAddress:
        af = family(buffer, offset)
        return InetAddress(af, bytes(buffer[offset + 4:offset + 4 + sizes.get(af, 0)]))
    return get


def _mac_decoder(_type: t.MacAddr, _: DecodingContext) -> Decode:
    return lambda buffer, offset: MacAddress(buffer[offset:offset + 6])


def _timestamp_decoder(type: t.Timestamp, context: DecodingContext) -> Decode:
    get = _scalar_decoder("q")  # what has been subtracted from may lie before the clock's zero

    def moment(buffer: bytes, offset: int) -> Moment:
        value = Moment(get(buffer, offset))
        value.format = type.format
        value.wall = context.wall_clock(value, type.clock)
        return value
    return moment


def _symbol_decoder(type: t.Symbol, context: DecodingContext) -> Decode:
    kind, lookup = type.kind, _name_lookup(type, context)
    get = _scalar_decoder("Q" if kind in ("ksym", "cgroup_path", *t.GROUPS) else "q")
    return lambda buffer, offset: NamedNumber(kind, get(buffer, offset), lookup)


def _name_lookup(type: t.Symbol, context: DecodingContext) -> Callable[[int], str]:
    if type.kind == "ksym":
        return lambda address: (context.ksym(address) or (format_bare_address(address), 0))[0]
    if type.kind == "cgroup_path":
        return lambda cgroup: context.cgroup_path(cgroup, type.filter)
    if type.kind in t.GROUPS:
        return lambda cgroup: context.group_name(type.kind, cgroup)
    simple: dict[str, Callable[[int], str]] = {
        "username": context.user_name, "probe": context.probe_name, "syscall_name": context.syscall_name,
        "strerror": error_text, "signal_name": signal_text}
    return simple[type.kind]


def _usym_decoder(_type: t.USym, context: DecodingContext) -> Decode:
    unpack = Layout("=QII").unpack_from

    def get(buffer: bytes, offset: int) -> UserAddress:
        address, tgid, _ = unpack(buffer, offset)
        return UserAddress(address, tgid, context)
    return get


def _stack_decoder(type: Stack, context: DecodingContext) -> Decode:
    unpack = Layout("=QII").unpack_from

    def get(buffer: bytes, offset: int) -> StackTrace:
        id, tgid, depth = unpack(buffer, offset)
        return StackTrace(type, id, tgid, depth, context)
    return get


def _stack_copy_decoder(type: t.StackCopy, context: DecodingContext) -> Decode:
    from .unwound import stack_decoder
    return stack_decoder(type, context)


def _array_decoder(type: t.Array, context: DecodingContext) -> Decode:
    of = type.of
    if isinstance(of, t.Int):
        unpack = Layout(f"={type.count}{INT_CODES[of.size, of.signed]}").unpack_from
        return lambda buffer, offset: ArrayValue(unpack(buffer, offset))
    get, step, size = make_decoder(of, context), of.size, type.size
    starts = range(0, size, step or 1)
    return lambda buffer, offset: ArrayValue([get(buffer, offset + at) for at in starts])


def _tuple_decoder(type: t.Tuple, context: DecodingContext) -> Decode:
    wrap: Callable[[Iterable[ScriptValue]], tuple[ScriptValue, ...]] = tuple
    if type.names:
        wrap = make_record_class(type.names, all(isinstance(part, Stack) for part in type.of))
    flat = _flat_codes(type)
    if flat:
        unpack = Layout(flat).unpack_from
        return unpack if wrap is tuple else lambda buffer, offset: wrap(unpack(buffer, offset))
    parts = [(make_decoder(each, context), at) for each, at in zip(type.of, type.offsets)]
    return lambda buffer, offset: wrap([get(buffer, offset + at) for get, at in parts])


def _flat_codes(type: t.Tuple) -> str:
    """One struct format for a tuple of plain numbers; "" if it has anything else."""
    codes, end = "=", 0
    for element, at in zip(type.of, type.offsets):
        if not isinstance(element, t.Int | t.Bool):
            return ""
        code = "?" if isinstance(element, t.Bool) else INT_CODES[element.size, element.signed]
        codes += f"{at - end}x{code}"
        end = at + element.size
    return codes if type.of else ""


def _struct_decoder(type: t.Struct, context: DecodingContext) -> Decode:
    parts = [(name, get, at) for name, get, at in _member_decoders(type, 0, context)]
    return lambda buffer, offset: StructValue([(name, get(buffer, offset + at)) for name, get, at in parts])


def _member_decoders(type: t.Struct, base: int, context: DecodingContext) -> list[tuple[str, Decode, int]]:
    """Members with those of anonymous structs and unions among them, as print() shows them."""
    members: list[tuple[str, Decode, int]] = []
    for field in type.fields:
        if not field.name and isinstance(field.type, t.Struct):
            members += _member_decoders(field.type, base + field.offset, context)
        elif field.name:
            members.append((field.name, _member_decoder(field, context), base + field.offset))
    return members


def _member_decoder(field: t.StructField, context: DecodingContext) -> Decode:
    if field.data_loc:
        return _scalar_decoder("I")
    if not field.bit_size:
        return make_decoder(field.type, context)
    return _bitfield_decoder(field)


def _bitfield_decoder(field: t.StructField) -> Decode:
    """Bits of the machine's storage, a number without a sign as bpftrace has it; read byte by byte, because a member
    may end where the struct does."""
    size = (field.bit_offset + field.bit_size + 7) // 8
    width = field.bit_size
    shift = field.bit_offset if byteorder == "little" else 8 * size - field.bit_offset - width
    mask = (1 << width) - 1
    wrap: Callable[[int], int] = int
    if isinstance(field.type, t.Enum | t.Bool):
        wrap = bool if isinstance(field.type, t.Bool) else enum_class(field.type)

    def get(buffer: bytes, offset: int) -> int:
        return wrap(int.from_bytes(buffer[offset:offset + size], byteorder) >> shift & mask)
    return get


_MAKERS: dict[type, Callable[[Any, DecodingContext], Decode]] = {
    t.Int: _int_decoder, t.Bool: _bool_decoder, t.Pointer: _pointer_decoder, t.Address: _address_decoder,
    t.Float: _float_decoder, t.Enum: _enum_decoder,
    t.NoneType: _none_decoder, t.Real: _none_decoder, t.Str: _str_decoder, t.Buf: _buf_decoder,
    t.Inet: _inet_decoder, t.MacAddr: _mac_decoder, t.Timestamp: _timestamp_decoder, t.Symbol: _symbol_decoder,
    t.USym: _usym_decoder, Stack: _stack_decoder,
    t.StackCopy: _stack_copy_decoder,
    t.Array: _array_decoder, t.Tuple: _tuple_decoder, t.Struct: _struct_decoder}
