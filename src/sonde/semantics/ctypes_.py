"""Types by name: the script's own C definitions, laid out as C does, then the kernel's, then the base types."""

from __future__ import annotations

from ..arch import ARCHES
from ..language.ast import CEnum, CField, CStruct, CTypedef, TypeSyntax
from ..language.diagnostics import Diagnostics, nearest_names
from ..source import Span
from ..types import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    VOID,
    Array,
    Buf,
    Enum,
    Inet,
    Pointer,
    Real,
    Str,
    Struct,
    StructField,
    Symbol,
    Type,
    round_up,
)
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST = 1 << 31  # bytes of a type
# Structs that the C library lays out otherwise than the kernel, whose BTF has them, and the headers that declare them.
_OF_LIBC = {"struct tm": "time.h", "struct sigaction": "signal.h", "struct msghdr": "sys/socket.h",
            "struct mmsghdr": "sys/socket.h"}

_SIZED = {f"{prefix}int{bits}{suffix}": base for suffix in ("", "_t") for prefix, row in
          (("", (INT8, INT16, INT32, INT64)), ("u", (UINT8, UINT16, UINT32, UINT64)))
          for bits, base in zip((8, 16, 32, 64), row)}
_KERNEL = {f"{under}{sign}{bits}": base for under in ("", "__") for sign, row in
           (("s", (INT8, INT16, INT32, INT64)), ("u", (UINT8, UINT16, UINT32, UINT64)))
           for bits, base in zip((8, 16, 32, 64), row)}
BASE_TYPES: dict[str, Type] = {
    **_SIZED, **_KERNEL, "bool": BOOL, "_Bool": BOOL, "void": VOID, "size_t": UINT64, "ssize_t": INT64,
    "uintptr_t": UINT64, "intptr_t": INT64, "inet": Inet(), "username_t": Symbol("username"),
    "float": FLOAT, "double": DOUBLE,
    # what compilers define for the headers of C
    "__SIZE_TYPE__": UINT64, "__PTRDIFF_TYPE__": INT64, "__WCHAR_TYPE__": INT32, "__WINT_TYPE__": UINT32,
    "ptrdiff_t": INT64, "wchar_t": INT32, "max_align_t": Real(32, 16),
    **dict.fromkeys(("va_list", "__gnuc_va_list", "__builtin_va_list"), VOID),  # there are only pointers to it here
}
_WIDE = ("__int128", "unsigned __int128", "__int128_t", "__uint128_t", "long double", "__float128", "_Float128")
_C_WORDS = ("signed", "unsigned", "char", "short", "int", "long")


def parse_c_integer(base: str) -> Type | None:
    """``long unsigned int`` and its like, in any order of words."""
    words = base.split()
    if not words or any(word not in _C_WORDS for word in words):
        return None
    unsigned = "unsigned" in words
    if "char" in words:
        return UINT8 if unsigned else INT8
    if "short" in words:
        return UINT16 if unsigned else INT16
    if "long" in words:
        return UINT64 if unsigned else INT64
    return UINT32 if unsigned else INT32


class TypeNames:
    """Resolves types as written. The script's definitions hide the kernel's of the same name."""

    def __init__(self, world: World, diagnostics: Diagnostics, includes: Sequence[str] = (),
                 unread: Sequence[str] = ()) -> None:
        """``unread``: what to say of headers that were not read."""
        self.world = world
        self._unread = unread
        self.includes = includes
        self.diagnostics = diagnostics
        self.structs: dict[str, Struct] = {}  # "struct x" / "union x"
        self.enums: dict[str, Enum] = {}
        self.typedefs: dict[str, Type] = {}
        self.aligned: dict[str, int] = {}  # of members of a typedef or enum; 0: as usual
        self.constants: dict[str, tuple[int, Enum | None]] = {}
        self.unfinished: set[str] = set()  # structs that are named but not laid out yet

    # definitions of the script

    def define_types(self, definitions: Sequence[CStruct | CEnum | CTypedef]) -> None:
        """Take in the script's definitions; names are known before any is laid out, so they may refer forward."""
        for item in definitions:
            if isinstance(item, CStruct):
                self._announce_struct(item)
            elif isinstance(item, CEnum):
                self._define_enum(item)
        for item in definitions:
            if isinstance(item, CStruct):
                self._define_struct(item)
            elif isinstance(item, CTypedef):
                target = self._typedef_target(item)
                if target is not None:
                    if self.typedefs.get(item.name, target) != target:
                        self._report_redefinition(item.name, item.span)
                    self.typedefs[item.name] = target
                    self.aligned[item.name] = item.align or self._alignment_of(item.type, 0)

    def _typedef_target(self, item: CTypedef) -> Type | None:
        """What a typedef names; void for a struct that nobody defines, of which there are only pointers."""
        if " " in item.type.base and self.find_type(item.type.base) is None and not item.type.dims:
            return VOID if not item.type.pointers else self.resolve_type(item.type)
        return self.resolve_type(item.type)

    def _announce_struct(self, item: CStruct) -> Struct:
        struct = Struct(item.name, 0, tuple, item.union)
        if item.name:
            key = _struct_tag(item)
            if key in self.structs:
                self._report_redefinition(key, item.span)
            self.structs[key] = struct
            self.unfinished.add(key)
        return struct

    def _report_redefinition(self, what: str, span: Span) -> None:
        self.diagnostics.error("redefinition", f"redefinition of '{what}'", span)

    def _define_enum(self, item: CEnum) -> Enum:
        values = list(item.members.values())
        low, high = min(values, default=0), max(values, default=0)
        needed = max((-low - 1).bit_length(), high.bit_length()) + 1 if low < 0 else high.bit_length()
        bits = next((bits for bits in (8, 16, 32) if needed <= bits and (item.packed or bits == 32)), 64)
        enum = Enum(item.name, bits, low < 0, {v: n for n, v in item.members.items()})
        self.aligned[f"enum {item.name}".rstrip()] = item.align
        if item.name:
            if item.name in self.enums:
                self._report_redefinition(f"enum {item.name}", item.span)
            self.enums[item.name] = enum
        for name, value in item.members.items():
            if name in self.constants:
                self._report_redefinition(name, item.span)
            self.constants[name] = (value, enum)
        return enum

    def _define_struct(self, item: CStruct, struct: Struct | None = None) -> Struct:
        struct = struct or self.structs.get(_struct_tag(item)) or self._announce_struct(item)
        layout = _Layout(item, ARCHES[self.world.arch].aligns_unnamed_bits)
        names = set[str]()
        for field in item.fields:
            type = self._field_type(field)
            if type is not None:
                self._check_member(field, type, names)
                layout.add_member(field, type, self._alignment_of(field.type, type.align))
        fields, size, align = layout.finish_layout()
        if size > LARGEST:
            self._report_too_large(str(struct), item.span)
            fields, size = (), 0
        struct.load, struct.bytes, struct.alignment = lambda: fields, size, align
        self.unfinished.discard(_struct_tag(item))
        return struct

    def _alignment_of(self, syntax: TypeSyntax, natural: int) -> int:
        """The alignment that members have whose type is written so; ``natural`` if no attribute says it."""
        return natural if syntax.pointers else self.aligned.get(syntax.base, 0) or natural

    def _check_member(self, field: CField, type: Type, names: set[str]) -> None:
        """``names``: of the members before it."""
        if field.name in names:
            self.diagnostics.error("redefinition", f"duplicate member '{field.name}'", field.span)
        names |= {field.name} - {""}
        if field.bits is not None and field.bits > 8 * type.size:
            self.diagnostics.error("bad-size", f"width of bit-field '{field.name}' ({field.bits} bits) exceeds the "
                                   f"width of its type ({8 * type.size} bits)", field.span)

    def _field_type(self, field: CField) -> Type | None:
        if field.inline is None:
            type = self.resolve_type(field.type)
            if self._is_incomplete(type):
                self.diagnostics.error("incomplete-type", f"field '{field.name}' has incomplete type "
                                       f"'{field.type.base}'", field.span)
                return None
            as_member = _MEMBERS.get(field.type.base)
            return as_member(type) if as_member and not field.type.pointers else type
        if isinstance(field.inline, CEnum):
            inner: Type = self._define_enum(field.inline)
        else:
            anonymous = None if field.inline.name else Struct("", 0, tuple, field.inline.union)
            inner = self._define_struct(field.inline, anonymous)
        return _derive_type(inner, field.type.pointers, field.type.dims, "") if field.type is not None else inner

    def _is_incomplete(self, type: Type | None) -> bool:
        """Whether nobody knows how large a member of this type is."""
        while isinstance(type, Array):
            type = type.of
        return type == VOID or isinstance(type, Struct) and str(type) in self.unfinished

    def replace_hidden(self, type: Type) -> Type:
        """``type``, or what the script defines in place of the kernel's struct of that name."""
        if isinstance(type, Pointer):
            to = self.replace_hidden(type.to)
            return type if to is type.to else Pointer(to, type.space)
        if isinstance(type, Array):
            of = self.replace_hidden(type.of)
            return type if of is type.of else Array(of, type.count)
        return self.structs.get(str(type), type) if isinstance(type, Struct) else type

    # names

    def resolve_type(self, syntax: TypeSyntax, space: str = "", strlen: int = 64, own: Type | None = None
                     ) -> Type | None:
        """The type that ``syntax`` names, or None after saying so. Pointers get ``space``; ``strlen`` sizes a bare
        ``string``, NUL included; ``own`` is what the name means here, if not what it means elsewhere. ``typeof`` is
        the caller's business."""
        if syntax.base in ("string", "buffer"):
            size = syntax.dims[0] if syntax.dims else strlen
            if syntax.base == "string" and size == strlen - 1:
                size = strlen  # str() fills it: there the NUL has no room of its own
            sized = Str(size) if syntax.base == "string" else Buf(size)
            return _derive_type(sized, syntax.pointers + syntax.outer, (), space)
        base = own if own is not None else self.find_type(syntax.base)
        if base is None and syntax.pointers and " " in syntax.base:
            base = VOID  # a pointer to a struct that nobody defines is still an address
        if base is None:
            self.report_unknown_type(syntax)
            return None
        header = _OF_LIBC.get(syntax.base)
        if header in self.includes and syntax.base not in self.structs:
            self.diagnostics.warning(
                "kernel-struct", f"{syntax.base} is the kernel's: that of <{header}>, as programs have it, is laid out "
                "otherwise", syntax.span, ["for a program's, define it in the script"])
        type = _derive_type(base, syntax.pointers, syntax.dims, space)
        if isinstance(type, Array) and type.size > LARGEST:
            self._report_too_large(str(type), syntax.span)
            return None
        for _ in range(syntax.outer):
            type = Pointer(type, space)
        return type

    def _report_too_large(self, name: str, span: Span) -> None:
        self.diagnostics.error("type-too-large", f"'{name}' is larger than {LARGEST >> 30} GiB", span)

    def find_type(self, base: str) -> Type | None:
        """The type called ``base`` (``struct sock``, ``uint64``, ``pid_t`` ...), or None."""
        tag, _, name = base.partition(" ")
        if tag in ("struct", "union"):
            return self.structs.get(base) or self.world.find_struct(name, tag == "union")
        if tag == "enum":
            return self.enums.get(name) or self.world.named_type(base)
        if base in _WIDE:
            return Real(16, ARCHES[self.world.arch].largest_alignment)
        return (BASE_TYPES.get(base) or parse_c_integer(base) or self.typedefs.get(base) or self.enums.get(base)
                or self.structs.get(f"struct {base}") or self.world.named_type(base)
                or self.world.find_struct(base, False))  # the dialect of 2018: (task_struct *)curtask

    def report_unknown_type(self, syntax: TypeSyntax) -> None:
        """Say that nobody defines the type, and which ones are called nearly so."""
        tag, _, name = syntax.base.rpartition(" ")
        start, end = syntax.span.start, syntax.span.end
        brackets = syntax.span.text.startswith("(")  # of a cast
        span = Span(syntax.span.source, start + brackets, end - brackets)
        if tag in ("struct", "union"):
            close = nearest_names(name, [*[s.name for s in self.structs.values()], *self.world.struct_names()])
            hints = [*[f"did you mean {tag} {c}?" for c in close[:1]], *self._unread[:3]] or ["define it in the script"]
            self.diagnostics.error("unknown-type", f'Cannot resolve unknown type "{syntax.base}"', span, hints)
            return
        real = isinstance(BASE_TYPES.get(syntax.base), Real) or syntax.base in _WIDE  # long double among them
        close = nearest_names(syntax.base, [*BASE_TYPES, *self.typedefs])
        wrong = f"Unknown enum: {name}" if tag == "enum" else f'Cannot resolve unknown type "{syntax.base}"'
        hints = [*[f"did you mean {c}?" for c in close[:1]], *self._unread[:3]] if not real else \
            ["the largest integers have 64 bits" if "int128" in syntax.base else
             "of floating-point numbers, float and double can be read"]
        self.diagnostics.error("unknown-type", wrong, syntax.span if tag else span, hints)


def _struct_tag(item: CStruct) -> str:
    return f"{'union' if item.union else 'struct'} {item.name}"


def _char_arrays_as_text(type: Type | None) -> Type | None:
    """An array of plain char is text, as bpftrace has it and as the kernel's own are taken."""
    if isinstance(type, Array):
        return Array(_char_arrays_as_text(type.of) or type.of, type.count) if isinstance(type.of, Array) else \
            Str(type.count) if type.count else type
    return type


def _bools_as_numbers(type: Type | None) -> Type | None:
    """The script's own structs have numbers there, as in bpftrace; the kernel's have bools."""
    if isinstance(type, Array):
        return Array(_bools_as_numbers(type.of) or type.of, type.count)
    return UINT8 if type == BOOL else type


_MEMBERS = {"char": _char_arrays_as_text, "bool": _bools_as_numbers, "_Bool": _bools_as_numbers}


def _derive_type(base: Type, pointers: int, dims: Sequence[int], space: str) -> Type:
    for _ in range(pointers):
        base = Pointer(base, space)
    for count in reversed(dims):
        base = Array(base, count)
    return base


class _Layout:
    """Places members as C compilers for Linux do; ``unnamed_align``: unnamed bit-fields count for the alignment."""

    def __init__(self, item: CStruct, unnamed_align: bool) -> None:
        self.item = item
        self.fields: list[StructField] = []
        self.bits = 0  # end of what has been placed
        self.largest = 0
        self.align = max(item.align, 1)
        self.unnamed_align = unnamed_align

    def add_member(self, field: CField, type: Type, natural: int) -> None:
        """``natural``: the alignment of the type as such."""
        start = 0 if self.item.union else self.bits
        packed = (self.item.packed or field.packed) and not (self.item.pack and field.bits is not None)
        align = natural if field.bits == 0 else self._limit_alignment(max(1 if packed else natural, field.align))
        if field.bits is None or field.name or self.unnamed_align:
            self.align = max(self.align, align)
        if field.bits is None:
            offset = round_up(round_up(start, 8) // 8, align)
            self.fields.append(StructField(field.name, type, offset))
            self.bits = (offset + type.size) * 8
        else:
            start = round_up(start, 8 * self._limit_alignment(field.align) or 1)
            self._add_bitfield(field.name, type, field.bits, start, packed or self.item.pack > 0)
        self.largest = max(self.largest, self.bits)

    def _limit_alignment(self, align: int) -> int:
        return min(align, self.item.pack or align)

    def _add_bitfield(self, name: str, type: Type, width: int, start: int, packed: bool) -> None:
        unit = type.size * 8
        if not width or not packed and start // unit != (start + width - 1) // unit:
            start = round_up(start, unit)
        base = start // 8 if packed else start // unit * type.size
        if name:
            self.fields.append(StructField(name, type, base, start - base * 8, width))
        self.bits = start + width

    def finish_layout(self) -> tuple[tuple[StructField, ...], int, int]:
        size = round_up(round_up(self.largest, 8) // 8, self.align)
        return tuple(self.fields), size, self.align
