"""Types of user programs, from DWARF to sonde.types, and as C text.

Entries are pyelftools' DIEs; nothing here imports it. Attribute and tag names are those of the DWARF 5 standard,
chapters 5 (types) and 7.5.
"""

from __future__ import annotations

from ...types import UINT8, UINT64, USER, VOID, Array, Enum, Float, Int, Pointer, Real, Str, StructField, Type
from .dwarf_operations import OP_PLUS_UCONST
from .types_by_wire import UserStruct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

    from elftools.dwarf.die import DIE

_STRUCTS = {"DW_TAG_structure_type": "struct", "DW_TAG_class_type": "class", "DW_TAG_union_type": "union"}
_QUALIFIERS = {"DW_TAG_const_type": "const", "DW_TAG_volatile_type": "volatile", "DW_TAG_restrict_type": "restrict",
               "DW_TAG_atomic_type": "_Atomic"}
_POINTERS = {"DW_TAG_pointer_type": "*", "DW_TAG_reference_type": "&", "DW_TAG_rvalue_reference_type": "&&"}
_SCOPES = ("DW_TAG_namespace", *_STRUCTS)
_COMPLEX, _FLOAT = 0x03, 0x04  # DW_ATE_complex_float, _float
_FLOATS = (_COMPLEX, _FLOAT, 0x0F)  # DW_ATE_decimal_float
_SIGNED = (0x05, 0x06, 0x0D)  # DW_ATE_signed, _signed_char, _signed_fixed; a bool is a number, as in bpftrace
ERROR, INTERFACE = "error", "runtime.iface"  # of Go: the one interface that is shown in another way than the others
_MAX_DEPTH = 64  # levels of types within types: only damaged files have more
_MAX_SIZE = 1 << 40  # bytes
_MAX_OFFSET = 1 << 30  # bytes, of a member in its struct
_MAX_NAME = 4096  # characters
_MAX_PARTS = 500  # nested types in a declaration


def attribute_value(die: DIE, name: str) -> int | bytes | list[int] | None:
    """The value of a DIE's attribute: a number or flag, a text, an expression; None if it has none."""
    attribute = die.attributes.get("DW_AT_" + name)
    value: int | bytes | list[int] | None = attribute.value if attribute is not None else None
    return value


def attribute_number(die: DIE, name: str, default: int = 0) -> int:
    """The value of a numeric attribute."""
    value = attribute_value(die, name)
    return value if isinstance(value, int) else default


def attribute_text(die: DIE, name: str) -> str:
    """The value of a text attribute; "" if there is none."""
    value = attribute_value(die, name)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def referred_die(die: DIE, name: str) -> DIE | None:
    """The DIE that an attribute refers to; None if there is none."""
    return die.get_DIE_from_attribute("DW_AT_" + name) if "DW_AT_" + name in die.attributes else None


def find_origin(die: DIE, name: str = "name") -> DIE:
    """The entry that has an attribute: a copy refers to its abstract origin, a definition to its declaration."""
    for _ in range(8):
        if "DW_AT_" + name in die.attributes:
            return die
        further = referred_die(die, "abstract_origin") or referred_die(die, "specification")
        if further is None:
            return die
        die = further
    return die


def name_of(die: DIE) -> str:
    """A DIE's own name."""
    return attribute_text(die, "name")


def qualified_name(die: DIE) -> str:
    """The name with the namespaces and classes around it: ``ns::thing``."""
    parts, parent = [name_of(die)], die.get_parent()
    while parent is not None and parent.tag in _SCOPES:
        parts.insert(0, name_of(parent) or "(anonymous namespace)")
        parent = parent.get_parent()
    return "::".join(parts)


def strip_qualifiers(die: DIE | None) -> DIE | None:
    """The type behind typedefs and qualifiers; None is void."""
    for _ in range(_MAX_DEPTH):
        if die is None or die.tag not in _QUALIFIERS and die.tag != "DW_TAG_typedef":
            return die
        die = referred_die(die, "type")
    return None


def size_of(die: DIE | None) -> int:
    """Size of a type in bytes; 0 for void, functions and what is only declared."""
    die = strip_qualifiers(die)
    if die is None:
        return 0
    if die.tag in _POINTERS:
        return attribute_number(die, "byte_size", 8)
    if die.tag == "DW_TAG_array_type":
        count = size_of(referred_die(die, "type"))
        for bound in array_lengths(die):
            count = min(count * bound, _MAX_SIZE)
        return count
    if die.tag == "DW_TAG_ptr_to_member_type":
        to = strip_qualifiers(referred_die(die, "type"))
        return 16 if to is not None and to.tag == "DW_TAG_subroutine_type" else 8
    size = attribute_number(die, "byte_size")
    if not size and die.tag == "DW_TAG_enumeration_type":
        return size_of(referred_die(die, "type")) or 4
    return size


def array_lengths(die: DIE) -> list[int]:
    """Lengths of an array's dimensions, outermost first; 0 for one that is not known."""
    lengths = []
    for child in die.iter_children():
        if child.tag == "DW_TAG_subrange_type":
            count, upper = attribute_value(child, "count"), attribute_value(child, "upper_bound")
            length = count if isinstance(count, int) else upper + 1 if isinstance(upper, int) else 0
            lengths.append(length if 0 <= length < 1 << 32 else 0)
    return lengths or [0]


def is_float(die: DIE | None) -> bool:
    """Whether a (stripped) type is a floating point number."""
    return die is not None and die.tag == "DW_TAG_base_type" and attribute_value(die, "encoding") in _FLOATS


def is_struct(die: DIE | None) -> TypeGuard[DIE]:
    """Whether a (stripped) type is a struct, class or union."""
    return die is not None and die.tag in _STRUCTS


def tagged_name(die: DIE) -> str:
    """``struct x`` or ``union x``: its name in C."""
    return f"{'union' if die.tag == 'DW_TAG_union_type' else 'struct'} {name_of(die)}"


def data_members(die: DIE) -> list[DIE]:
    """Data members and base classes of a struct, without static members."""
    return [child for child in die.iter_children()
            if child.tag in ("DW_TAG_member", "DW_TAG_inheritance") and not attribute_value(child, "external")
            and not attribute_value(child, "declaration") and isinstance(member_offset(child), int)]


def member_offset(die: DIE) -> int | None:
    """Byte offset of a member; None if that is known only at run time (a virtual base)."""
    where = attribute_value(die, "data_member_location")
    if where is None or isinstance(where, int):
        return where or 0
    if isinstance(where, list) and where and where[0] == OP_PLUS_UCONST:  # of DWARF 2
        value = 0
        for index, byte in enumerate(where[1:11]):
            value |= (byte & 0x7F) << 7 * index
        return value
    return None


class TypeConverter:
    """Conversion to sonde.types; each type of a file is converted once."""

    def __init__(self) -> None:
        self._known: dict[int, Type] = {}
        self._depth = 0

    def convert_type(self, die: DIE | None) -> Type:
        """The converted type; void, functions and types without a size become VOID."""
        named = die
        die = strip_qualifiers(die)
        if die is None:
            return VOID
        if named is not die and named is not None and (name_of(named), name_of(die)) == (ERROR, INTERFACE):
            return UserStruct(ERROR, attribute_number(die, "byte_size"), lambda: self.struct_members(die), False, 0, 8,
                              die.offset)
        key = die.offset
        if key not in self._known:
            self._known[key] = VOID  # found by a damaged type that contains itself
            self._depth += 1
            try:
                self._known[key] = self._convert_die(die) if self._depth < _MAX_DEPTH else VOID
            finally:
                self._depth -= 1
        return self._known[key]

    def _convert_die(self, die: DIE) -> Type:
        if die.tag in _POINTERS:
            return self._convert_pointer(die)
        if die.tag in _STRUCTS:
            return self._convert_struct(die)
        if die.tag == "DW_TAG_base_type":
            return _convert_base_type(die)
        if die.tag == "DW_TAG_enumeration_type":
            return _convert_enum(die)
        if die.tag == "DW_TAG_array_type":
            return self._convert_array(die)
        size = size_of(die)
        return Array(UINT64, size // 8) if size and size % 8 == 0 else VOID

    def _convert_pointer(self, die: DIE) -> Type:
        """A pointer, followed only later: types refer to each other in cycles, but a struct loads its members on
        demand."""
        to = strip_qualifiers(referred_die(die, "type"))
        return Pointer(VOID if to is None or to.tag == "DW_TAG_subroutine_type" else self.convert_type(to), USER)

    def _convert_array(self, die: DIE) -> Type:
        element = referred_die(die, "type")
        lengths = array_lengths(die)
        of = strip_qualifiers(element)
        if len(lengths) == 1 and lengths[0] and of is not None and of.tag == "DW_TAG_base_type" and \
                name_of(of) == "char":
            return Str(lengths[0])  # as with the kernel's types: a char array is text
        type = self.convert_type(element)
        for length in reversed(lengths):
            type = Array(type, length)
        return type

    def _convert_struct(self, die: DIE) -> Type:
        size = attribute_number(die, "byte_size")
        name = qualified_name(die) if name_of(die) else f"(anonymous {die.offset})"  # structs are compared by name
        alignment = attribute_number(die, "alignment") or min(8, size & -size) or 1
        return UserStruct(name, size, lambda: self.struct_members(die), die.tag == "DW_TAG_union_type", 0, alignment,
                          die.offset)

    def struct_members(self, die: DIE) -> tuple[StructField, ...]:
        """The members of a struct."""
        return tuple([field for member in data_members(die) for field in self._convert_member(member)])

    def _convert_member(self, die: DIE) -> list[StructField]:
        """None for a member at an impossible offset: only damaged files have one."""
        kind, at = self.convert_type(referred_die(die, "type")), member_offset(die) or 0
        bits = attribute_number(die, "bit_size")
        begin = _bitfield_offset(die, kind, at, bits) if bits else 8 * at
        if not 0 <= begin < 8 * _MAX_OFFSET or not 0 <= bits <= 64:
            return []
        if die.tag == "DW_TAG_inheritance":
            return [StructField("", kind, at)]  # the base's members are found like those of an anonymous struct
        if bits:
            return [_make_bitfield(name_of(die), kind, begin, bits)]
        return [StructField(name_of(die), kind, at)] if kind != VOID else []


def _bitfield_offset(die: DIE, kind: Type, at: int, bits: int) -> int:
    """Where a bitfield starts, in bits from the start of the struct."""
    if attribute_value(die, "data_bit_offset") is not None:
        return attribute_number(die, "data_bit_offset")
    if attribute_value(die, "bit_offset") is not None:  # DWARF 2 and 3 count from the most significant bit
        return 8 * (at + attribute_number(die, "byte_size", kind.size)) - attribute_number(die, "bit_offset") - bits
    return 8 * at


def _make_bitfield(name: str, kind: Type, bits_at: int, bits: int) -> StructField:
    unit = (kind.size or 1) * 8
    at = bits_at // unit * unit
    if bits_at + bits > at + unit:  # packed: not within one naturally aligned unit
        at, kind = bits_at // 8 * 8, Int(64, isinstance(kind, Int) and kind.signed)
    return StructField(name, kind, at // 8, bits_at - at, bits)


def _convert_base_type(die: DIE) -> Type:
    size, encoding = attribute_number(die, "byte_size"), attribute_value(die, "encoding")
    if encoding in _FLOATS:
        return _convert_float(size, encoding)
    if size not in (1, 2, 4, 8):
        return Array(UINT64, size // 8) if size > 8 and size % 8 == 0 else Array(UINT8, size)
    return Int(8 * size, encoding in _SIGNED)


def _convert_float(size: int, encoding: int) -> Type:
    """float and double; a complex number is two of them, long double has no value; any other is shown as bytes."""
    if encoding == _COMPLEX and size in (8, 16):
        return Array(Float(4 * size), 2)
    if encoding != _FLOAT or size not in (4, 8, 12, 16):
        return Array(UINT8, size)
    return Float(8 * size) if size <= 8 else Real(size, 4 if size == 12 else 16)


def _convert_enum(die: DIE) -> Type:
    size = size_of(die)
    names: dict[int, str] = {}
    for child in die.iter_children():
        if child.tag == "DW_TAG_enumerator":
            names.setdefault(attribute_number(child, "const_value"), name_of(child))
    signed = any(value < 0 for value in names)
    return Enum(qualified_name(die) if name_of(die) else f"(anonymous {die.offset})", 8 * (size if size in (1, 2, 4, 8)
                else 4), signed, names)


# ---- as text


def format_declaration(die: DIE | None, name: str = "") -> str:
    """C declaration: ``const char* s``, ``int (*)(void *)``, ``struct point p``; without a name, the type alone."""
    return f"{_Declaration().format_type(die, 0)} {name}".strip()


class _Declaration:
    """The text of one type; "..." stands for what is nested too deeply (pointers to functions of pointers to ...)."""

    def __init__(self) -> None:
        self._parts = 0

    def format_type(self, die: DIE | None, depth: int) -> str:
        if die is None:
            return "void"
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            return "..."
        to = referred_die(die, "type")
        if die.tag in _QUALIFIERS:
            inner, word = self.format_type(to, depth + 1), _QUALIFIERS[die.tag]
            return f"{inner} {word}" if inner.endswith(("*", "&")) else f"{word} {inner}"
        if die.tag in _POINTERS:
            pointee = strip_qualifiers(to)
            if pointee is not None and pointee.tag == "DW_TAG_subroutine_type":
                return self._format_function(pointee, depth)
            return f"{self.format_type(to, depth + 1)}{_POINTERS[die.tag]}"
        if die.tag == "DW_TAG_array_type":
            return self.format_type(to,
                                    depth + 1) + "".join([f"[{length or ''}]"
                                                          for length in array_lengths(die)[:_MAX_DEPTH]])
        tag = _STRUCTS.get(str(die.tag), "enum" if die.tag == "DW_TAG_enumeration_type" else "")
        return f"{tag} {qualified_name(die) if name_of(die) else '(anonymous)'}".strip()[:_MAX_NAME]

    def _format_function(self, die: DIE, depth: int) -> str:
        parameters = []
        for child in die.iter_children():
            if child.tag == "DW_TAG_formal_parameter" and self._parts <= _MAX_PARTS:
                parameters.append(self.format_type(referred_die(child, "type"), depth + 1))
        return f"{self.format_type(referred_die(die, 'type'), depth + 1)} (*)({', '.join(parameters) or 'void'})"
