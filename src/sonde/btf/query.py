"""One BTF blob as sonde.types: found by name, converted once, struct members only on demand."""

from __future__ import annotations

import mmap
import struct

from ..base.record import Record
from ..base.words import read_word
from ..errors import MachineError
from ..types import (
    BOOL,
    KERNEL,
    UINT8,
    UINT64,
    USER,
    VOID,
    Array,
    Enum,
    Float,
    Int,
    Pointer,
    Str,
    Struct,
    StructField,
    Type,
)
from . import codec
from .codec import Blob, Header
from .index import TypeIndex, build_index, kernel_key, load_or_build_index, module_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEEPEST = 64  # types that refer to one another until something other than a name or a pointer is reached
_ALIASES = codec.MODIFIERS | {codec.TYPEDEF}
_MEMBER = codec.TRIPLE  # name_off, type, offset (with kflag: bit size << 24 | bit offset)
_ENUM = struct.Struct("=Ii")
_ENUM_UNSIGNED = codec.PAIR
_ENUM64 = codec.TRIPLE


class Raw:
    """One record: ``value`` is its size or type id, ``at`` the offset of what follows it in the blob.

    (Not a Record: tens of thousands may be made.)
    """

    __slots__ = ("at", "id", "kflag", "kind", "name", "value", "vlen")

    def __init__(self, id: int, name: str, info: int, value: int, at: int) -> None:
        self.id = id
        self.name = name
        self.kind = info >> 24 & 0x1F
        self.vlen = info & 0xFFFF
        self.kflag = bool(info >> 31)
        self.value = value
        self.at = at


class Param(Record):
    """A parameter of a function."""

    name: str
    type: int


class Btf:
    """A blob and, when it is a module's, the base whose ids and strings it continues.

    ``first`` is the id of its first own type and ``end`` the one after its last. ``key`` names it in the cache, "" if
    it is not cached.
    """

    def __init__(self, blob: Blob, header: Header, index: TypeIndex, base: Btf | None = None, kernel: bool = True,
                 key: str = "") -> None:
        self.base = base
        self.key = key
        self.numbered = kernel and base is None  # its ids are those of the running kernel
        self.index = index
        self.first = index.first
        self.end = index.first + len(index)
        self._blob = blob
        self._types = header.types
        self._types_end = header.types_end
        self._strings = header.strings
        self._strings_end = header.strings_end
        self._string_base = base.string_size if base else 0
        self._converted: dict[int, Type] = {}
        self._depth = 0  # of the conversion in progress
        self.layouts: dict[int, tuple[int, bool]] = {}  # cached by ctext

    @property
    def string_size(self) -> int:
        """One past the last string offset, the base's included."""
        return self._string_base + self._strings_end - self._strings

    # records

    def string_bytes(self, offset: int) -> bytes:
        """The string at an offset of the string section (empty if there is none)."""
        if offset < self._string_base:
            return self.base.string_bytes(offset) if self.base else b""
        at = self._strings + offset - self._string_base
        if at >= self._strings_end:
            return b""
        for most in (128, self._strings_end - at):
            stop = min(at + most, self._strings_end)
            data = self._blob.ensure_range(at, stop)
            end = data.find(b"\0", at, stop)
            if end >= 0:
                return data[at:end]
        return b""

    def string_at(self, offset: int) -> str:
        """The same, as text."""
        return self.string_bytes(offset).decode("utf-8", "replace")

    def raw_type(self, type_id: int) -> Raw:
        """The record of a type; raises MachineError for an id that does not exist."""
        if type_id < self.first:
            return self.base.raw_type(type_id) if self.base else Raw(0, "void", 0, 0, 0)
        if type_id >= self.end:
            raise MachineError(f"corrupt BTF: no type {type_id}")
        at = self._types + self.index.offsets[type_id - self.first]
        name_off, info, value = codec.RECORD.unpack_from(self._blob.ensure_range(at, at + 12), at)
        return Raw(type_id, self.string_at(name_off) if name_off else "", info, value, at + 12)

    def owning_btf(self, type_id: int) -> Btf:
        """The blob that holds a type: this one or its base."""
        return self if type_id >= self.first or self.base is None else self.base.owning_btf(type_id)

    def skip_modifiers(self, type_id: int, typedefs: bool = True) -> Raw:
        """The type behind const, volatile, restrict, type tags and (by default) typedefs."""
        passing = _ALIASES if typedefs else codec.MODIFIERS
        for _ in range(DEEPEST):
            owner = self.owning_btf(type_id)
            if type_id < owner.first or type_id >= owner.end:
                return self.raw_type(type_id)
            index = type_id - owner.first
            if owner.index.kinds[index] not in passing:
                return self.raw_type(type_id)
            at = owner._types + owner.index.offsets[index] + 8
            type_id = codec.WORD.unpack_from(owner._blob.ensure_range(at, at + 4), at)[0]
        raise MachineError(f"corrupt BTF: type {type_id} refers to itself")

    def read_elements(self, raw: Raw, layout: struct.Struct, count: int) -> Iterator[tuple[int, ...]]:
        """``count`` elements of ``layout`` after a record."""
        end = raw.at + layout.size * count
        owner = self.owning_btf(raw.id)
        if end > owner._types_end:
            raise MachineError(f"corrupt BTF: type {raw.id} is cut off")
        return layout.iter_unpack(owner._blob.ensure_range(raw.at, end)[raw.at:end])

    # by name

    def ids_of_name(self, name: str) -> list[tuple[int, int]]:
        """(id, kind) of every type called ``name``, own ones first."""
        kinds, first = self.index.kinds, self.first
        own = [(i, kinds[i - first]) for i in self.index.candidate_ids(name) if self.raw_type(i).name == name]
        return own + (self.base.ids_of_name(name) if self.base else [])

    def find_id(self, name: str, *kinds: int) -> int:
        """Id of the type called ``name`` of one of ``kinds``; 0 if there is none."""
        return next((i for i, kind in self.ids_of_name(name) if kind in kinds), 0)

    def named_types(self, *kinds: int) -> Iterator[tuple[str, int]]:
        """(name, id) of every own named type of some kinds, in id order."""
        for i in self.index.ids_of_kinds(frozenset(kinds)):
            at = self._types + self.index.offsets[i - self.first]
            name = self.string_at(codec.WORD.unpack_from(self._blob.ensure_range(at, at + 4), at)[0])
            if name:
                yield name, i

    def references(self, kinds: frozenset[int]) -> Iterator[tuple[int, int, int, int]]:
        """(id, the id that it refers to, the offset of what follows its record, elements) of every own type of some
        kinds that refer to another."""
        base, offsets, unpack = self._types, self.index.offsets, codec.RECORD.unpack_from
        buffer = self._blob.ensure_range(base, self._types_end)
        for i in self.index.ids_of_kinds(kinds):
            at = base + offsets[i - self.first]
            _, info, value = unpack(buffer, at)
            yield i, value, at + 12, info & 0xFFFF

    def parameter_types(self, at: int, count: int) -> tuple[int, ...]:
        """Ids of the types of ``count`` parameters, whose elements begin at an offset."""
        end = at + codec.PAIR.size * count
        if end > self._types_end:
            raise MachineError("corrupt BTF: a function's parameters are cut off")
        return struct.unpack(f"={2 * count}I", self._blob.ensure_range(at, max(end, at + 1))[at:end])[1::2]

    def find_struct(self, name: str, union: bool = False) -> Struct | None:
        """``struct name`` or ``union name``."""
        type_id = self.find_id(name, codec.UNION if union else codec.STRUCT)
        converted = self.convert_type(type_id) if type_id else None
        return converted if isinstance(converted, Struct) else None

    def enum_constant(self, name: str) -> tuple[int, Enum | None] | None:
        """Value and enum of an enum constant."""
        for i in self.index.candidate_enums(name):
            for value, constant in self.enumerators(self.raw_type(i)):
                if constant == name:
                    enum = self.convert_type(i)
                    return value, enum if isinstance(enum, Enum) else None
        return self.base.enum_constant(name) if self.base else None

    def function_params(self, type_id: int) -> list[Param]:
        """Parameters of a function, function type, or pointer or typedef to one; a variadic one ends in type 0."""
        raw = self.skip_modifiers(type_id)
        for _ in range(DEEPEST):
            if raw.kind not in (codec.FUNC, codec.PTR):
                break
            raw = self.skip_modifiers(raw.value)
        owner = self.owning_btf(raw.id)
        return [Param(owner.string_at(n), t) for n, t in self.read_elements(raw, codec.PAIR, raw.vlen)]

    # conversion

    def convert_type(self, type_id: int) -> Type:
        """The type as sonde.types; a kind without values (function, void, section) becomes VOID."""
        if type_id < self.first and self.base:
            return self.base.convert_type(type_id)
        known = self._converted.get(type_id)
        if known is None:
            known = self._convert(type_id)
        return known

    def _convert(self, type_id: int) -> Type:
        self._depth += 1
        self._converted[type_id] = VOID  # found by a type that contains itself: only corrupt BTF has one
        try:
            if self._depth > DEEPEST:
                raise MachineError(f"corrupt BTF: type {type_id} is a pointer to a pointer to a pointer ...")
            raw = self.skip_modifiers(type_id)
            if raw.id != type_id:
                type = self.convert_type(raw.id)
            else:
                convert = _CONVERT.get(raw.kind)
                type = convert(self, raw) if convert else VOID
        except MachineError:
            del self._converted[type_id]
            raise
        finally:
            self._depth -= 1
        self._converted[type_id] = type
        return type

    def size_of(self, type_id: int) -> int:
        """Size of a type in bytes; 0 for void, functions and forward declarations."""
        return 0 if self.skip_modifiers(type_id).kind in (codec.VOID, codec.FUNC_PROTO,
                                                          codec.FUNC) else self.convert_type(type_id).size

    def enumerators(self, raw: Raw) -> list[tuple[int, str]]:
        """(value, name) of an enum's constants in order of declaration."""
        owner = self.owning_btf(raw.id)
        if raw.kind == codec.ENUM64:
            pairs = [(n, high << 32 | low) for n, low, high in self.read_elements(raw, _ENUM64, raw.vlen)]
            return [(read_word(v, raw.kflag), owner.string_at(n)) for n, v in pairs]
        layout = _ENUM if raw.kflag else _ENUM_UNSIGNED
        return [(v, owner.string_at(n)) for n, v in self.read_elements(raw, layout, raw.vlen)]

    def members(self, raw: Raw) -> list[tuple[str, int, int, int]]:
        """(name, type id, bit offset, bit size or 0) of a struct's members."""
        owner = self.owning_btf(raw.id)
        members = []
        for name, kind, offset in self.read_elements(raw, _MEMBER, raw.vlen):
            if raw.kflag:
                members.append((owner.string_at(name), kind, offset & 0xFFFFFF, offset >> 24))
            else:
                members.append((owner.string_at(name), kind, offset, self._old_bits(kind, offset)))
        return members

    def _old_bits(self, type_id: int, offset: int) -> int:
        """Bit size of a bitfield declared without kind_flag: its integer type is narrower than its storage."""
        raw = self.skip_modifiers(type_id)
        if raw.kind != codec.INT:
            return 0
        bits = next(self.read_elements(raw, codec.WORD, 1))[0] & 0xFF
        return bits if bits != raw.value * 8 or offset % 8 else 0


def _convert_int(btf: Btf, raw: Raw) -> Type:
    encoding = next(btf.read_elements(raw, codec.WORD, 1))[0] >> 24 & 0xF
    if encoding & codec.INT_BOOL and raw.value == 1:
        return BOOL
    if raw.value not in (1, 2, 4, 8):  # __int128
        return Array(UINT64, raw.value // 8) if raw.value % 8 == 0 else Array(UINT8, raw.value)
    # Whether char has a sign differs: Linux 6.2 and later are built with -funsigned-char. 5.10's pahole leaves out that
    # signed char has one.
    return Int(raw.value * 8, bool(encoding & codec.INT_SIGNED) or raw.name == "signed char")


def _convert_pointer(btf: Btf, raw: Raw) -> Type:
    space, target = KERNEL, btf.raw_type(raw.value)
    for _ in range(DEEPEST):
        if target.kind not in codec.MODIFIERS:
            break
        if target.kind == codec.TYPE_TAG and target.name == "user":
            space = USER
        target = btf.raw_type(target.value)
    return Pointer(btf.convert_type(target.id), space)


def _convert_array(btf: Btf, raw: Raw) -> Type:
    of, _, count = next(btf.read_elements(raw, codec.TRIPLE, 1))
    element = btf.skip_modifiers(of)
    if element.kind == codec.INT and element.name == "char" and count:
        return Str(count)  # as in bpftrace: a char array is text
    return Array(btf.convert_type(of), count)


def _convert_struct(btf: Btf, raw: Raw) -> Type:
    name = raw.name or f"(anonymous {raw.id})"  # structs are compared by name
    alignment = min(8, raw.value & -raw.value) or 1  # a true alignment divides the size; this is its upper bound
    vmlinux_id = raw.id if btf.numbered else 0
    return Struct(name, raw.value, _member_loader(btf, raw), raw.kind == codec.UNION, vmlinux_id, alignment)


def _member_loader(btf: Btf, raw: Raw) -> Callable[[], tuple[StructField, ...]]:
    fields: tuple[StructField, ...] | None = None

    def load_members() -> tuple[StructField, ...]:
        nonlocal fields
        if fields is None:
            fields = tuple([_make_field(btf, *member) for member in btf.members(raw)])
        return fields

    return load_members


def _make_field(btf: Btf, name: str, type_id: int, bits_at: int, bits: int) -> StructField:
    kind = btf.convert_type(type_id)
    if not bits:
        return StructField(name, kind, bits_at // 8)
    unit = (kind.size or 1) * 8
    at = bits_at // unit * unit
    if bits_at + bits > at + unit:  # packed: not within one naturally aligned unit
        at = bits_at // 8 * 8
    if bits_at + bits > at + unit:
        kind = Int(64, isinstance(kind, Int) and kind.signed)
    return StructField(name, kind, at // 8, bits_at - at, bits)


def _convert_forward(btf: Btf, raw: Raw) -> Type:
    """A struct that is only declared: looked up by name, since a module's BTF may define what its base declares."""
    kind = codec.UNION if raw.kflag else codec.STRUCT
    type_id = btf.find_id(raw.name, kind)
    return btf.convert_type(type_id) if type_id else Struct(raw.name, 0, tuple, raw.kflag, 0, 1)


def _convert_enum(btf: Btf, raw: Raw) -> Type:
    names: dict[int, str] = {}
    for value, name in btf.enumerators(raw):
        names.setdefault(value, name)
    size = raw.value if raw.value in (1, 2, 4, 8) else 4
    return Enum(raw.name or f"(anonymous {raw.id})", size * 8, raw.kflag, names)


_CONVERT: dict[int, Callable[[Btf, Raw], Type]] = {
    codec.INT: _convert_int,
    codec.PTR: _convert_pointer,
    codec.ARRAY: _convert_array,
    codec.STRUCT: _convert_struct,
    codec.UNION: _convert_struct,
    codec.FWD: _convert_forward,
    codec.ENUM: _convert_enum,
    codec.ENUM64: _convert_enum,
    codec.FLOAT: lambda btf, raw: Float(8 * raw.value) if raw.value in (4, 8) else Array(UINT8, raw.value),
}


def parse_btf(blob: Blob | bytes, base: Btf | None = None, name: str = "BTF", kernel: bool = True) -> Btf:
    """BTF from memory; with ``base``, a module's; without ``kernel``, a program's. MachineError if not valid."""
    if isinstance(blob, bytes):
        blob = codec.memory_blob(blob)
    header = codec.parse_header(blob, name)
    if base is None:
        return Btf(blob, header, build_index(blob, header, name=name), None, kernel)
    index = load_or_build_index(blob, header, module_key(base.key, blob), base.end, base.string_bytes, base.string_size,
                                name)
    return Btf(blob, header, index, base)


def open_file(path: str, base: Btf | None = None) -> Btf:
    """BTF from a file, or from the .BTF section of an ELF file; MachineError if it has none."""
    return parse_btf(_read_types(path), base, path)


def _read_types(path: str) -> Blob:
    blob = codec.read_blob(path)
    if blob.ensure_range(0, 4)[:4] == b"\x7fELF":
        return codec.memory_blob(_elf_section(blob.ensure_range(0, len(blob)), path))
    return blob


def open_kernel(path: str = "/sys/kernel/btf/vmlinux") -> Btf:
    """The running kernel's BTF with its cached index; MachineError where there is none."""
    blob = _read_types(path)
    header = codec.parse_header(blob, path)
    key = kernel_key(blob.ensure_range(0, codec.HEADER.size)[:codec.HEADER.size], len(blob))
    return Btf(blob, header, load_or_build_index(blob, header, key), key=key)


def _elf_section(data: mmap.mmap, path: str) -> bytes:
    """The .BTF section of an ELF64 file of this byte order."""
    try:
        shoff, = struct.unpack_from("=Q", data, 40)
        _, count, names = struct.unpack_from("=HHH", data, 58)
        sections = [struct.unpack_from("=IIQQQQ", data, shoff + i * 64) for i in range(count)]
        strings = sections[names][4]
        for section in sections:
            if data[strings + section[0]:strings + section[0] + 5] == b".BTF\0":
                return data[section[4]:section[4] + section[5]]
    except (struct.error, IndexError, OverflowError):
        pass
    raise MachineError(f"{path}: this ELF file has no BTF", ["pahole -J adds it from DWARF"])
