"""Where a function's parameters are on entry, before its first instruction has run.

Optimised code has location lists, whose entry for the first address is the answer. Unoptimised code describes where its
prologue will put a parameter, which is not true yet: then the calling convention decides (System V ABI for x86-64,
section 3.2.3; Procedure Call Standard for the Arm 64-bit Architecture, section 6.8.2).
"""

from __future__ import annotations

from ...arch import Arch, find_arch_of_elf
from ...spec import UserPlace
from . import dwarf_go
from .dwarf_operations import OP_DEREF, OP_FBREG
from .dwarf_ranges import low_pc
from .dwarf_types import (
    array_lengths,
    attribute_number,
    attribute_value,
    data_members,
    is_float,
    is_struct,
    member_offset,
    name_of,
    referred_die,
    size_of,
    strip_qualifiers,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE, AttributeValue
    from elftools.dwarf.dwarf_expr import DWARFExprOp
    from elftools.dwarf.dwarfinfo import DWARFInfo

_PASS_BY_REFERENCE, _PASS_BY_VALUE = 4, 5  # DW_CC_pass_by_...
_REFERENCES = ("DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
VECTOR = UserPlace("unknown", why="is passed in a vector register, which programs cannot read")
GONE = UserPlace("unknown", why="was optimised out: the function does not get it")
ODD = UserPlace("unknown", why="is described in a way that Sonde does not understand")


class LocationFinder:
    """Finds the places for one function, which may be known to keep to the calling convention."""

    def __init__(self, dwarf: DWARFInfo, unit: CompileUnit, die: DIE, machine: int, conventional: bool = False) -> None:
        self._conventional = conventional
        self._dwarf = dwarf
        self._unit = unit
        self._die = die
        self._arch = find_arch_of_elf(machine)
        self._low = _entry_address(dwarf, unit, die)

    def find_locations(self, parameters: list[DIE], kinds: list[DIE | None], result: DIE | None) -> list[UserPlace]:
        """One place for each parameter; ``kinds`` are their types, ``result`` that of the function."""
        if self._arch is None:
            return [UserPlace("unknown", why="is of a machine that Sonde does not know") for _ in parameters]
        if dwarf_go.made_by_go(self._unit):
            usual = dwarf_go.GoConvention(self._arch, self._unit).assign_locations(kinds)
            described = [self._described_location(*pair) for pair in zip(parameters, usual)]
            return dwarf_go.agreed_places(usual, described, self._unit)
        references = [self._is_reference(parameter) for parameter in parameters]
        convention = Convention(self._arch).assign_locations(kinds, references, result)
        return [self._parameter_location(parameter, usual) for parameter, usual in zip(parameters, convention)]

    def find_results(self, parameters: list[DIE | None], kinds: list[DIE | None]) -> list[UserPlace]:
        """One place for each result of a function of Go, by its type, behind parameters of these types."""
        if self._arch is None:
            return [UserPlace("unknown", why="is of a machine that Sonde does not know") for _ in kinds]
        convention = dwarf_go.GoConvention(self._arch, self._unit)
        convention.assign_locations(parameters)
        return convention.assign_results(kinds)

    def _parameter_location(self, parameter: DIE, usual: UserPlace) -> UserPlace:
        where = parameter.attributes.get("DW_AT_location")
        if where is None:
            value = attribute_value(parameter, "const_value")
            return UserPlace("constant", offset=value) if isinstance(value, int) else self._unlisted(usual)
        expression, listed = self._entry_expression(where, parameter)
        if expression is None:
            return self._unlisted(usual)
        from elftools.dwarf.dwarf_expr import DWARFExprParser

        location = self._expression_location(DWARFExprParser(self._unit.structs).parse_expr(expression))
        if location is None:  # in the frame that the prologue sets up
            return ODD if listed else usual
        return usual if not listed and self._is_made_later(location) else location

    def _described_location(self, parameter: DIE, usual: UserPlace) -> UserPlace | None:
        """The place that the debug information of Go has for the first address; None if it has none. Without a list it
        has one for all addresses, which the function may be about to make."""
        from elftools.dwarf.dwarf_expr import DWARFExprParser

        where = parameter.attributes.get("DW_AT_location")
        if where is None:
            return None
        listed = where.form in ("DW_FORM_sec_offset", "DW_FORM_loclistx")
        expression = self._entry_expression(where, parameter)[0] if listed else attribute_value(parameter, "location")
        if not isinstance(expression, list) or not expression:
            return None
        location = self._expression_location(DWARFExprParser(self._unit.structs).parse_expr(expression))
        known = location is not None and location.kind in ("registers", "memory") and (listed or location == usual)
        return location if known else None

    def _unlisted(self, usual: UserPlace) -> UserPlace:
        """A parameter that has no place at the first address. GCC's lists begin where code first takes it from the
        stack: the caller has put it there."""
        return usual if self._conventional and usual.kind == "memory" else GONE

    def _is_made_later(self, location: UserPlace) -> bool:
        """Whether it uses a register that holds no argument: the prologue sets that up."""
        assert self._arch is not None
        return not {*self._arch.arguments, self._arch.stack_pointer}.issuperset(location.registers)

    def _is_reference(self, parameter: DIE) -> bool:
        """Whether the frame will hold the address of a parameter instead of its value."""
        where = attribute_value(parameter, "location")
        return isinstance(where, list) and bool(where) and where[0] == OP_FBREG and where[-1] == OP_DEREF

    def _entry_expression(self, where: AttributeValue, parameter: DIE) -> tuple[list[int] | None, bool]:
        """(the expression that holds at the first address or None, whether it comes from a list)."""
        from elftools.dwarf.locationlists import BaseAddressEntry, LocationEntry, LocationExpr, LocationParser

        locations = LocationParser(self._dwarf.location_lists()).parse_from_attribute(
            where, self._unit["version"], parameter)
        if isinstance(locations, LocationExpr):
            return locations.loc_expr, False
        base = attribute_number(self._unit.get_top_DIE(), "low_pc")
        for entry in locations or ():
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            elif isinstance(entry, LocationEntry):
                start = 0 if entry.is_absolute else base
                if entry.begin_offset == -1 or start + entry.begin_offset <= self._low < start + entry.end_offset:
                    return entry.loc_expr, True
        return None, True

    def _expression_location(self, ops: Sequence[DWARFExprOp]) -> UserPlace | None:
        """The place that an expression denotes; None for one in the frame, which does not exist yet."""
        names = [op.op_name for op in ops]
        if not ops:
            return GONE
        if names[-1] == "DW_OP_stack_value":
            return self._value_location(ops[:-1])
        if "DW_OP_piece" in names:
            return self._composite_location(ops)
        if len(ops) == 1 and _is_register(ops[0]):
            return self._register_location(_register_number(ops[0]))
        if names[0] == "DW_OP_fbreg":
            return self._frame_location(ops)
        if len(ops) == 1 and names[0].startswith("DW_OP_breg"):
            register = self._general_register(int(names[0].removeprefix("DW_OP_breg")))
            return UserPlace("memory", (register,), ops[0].args[0]) if register is not None else ODD
        return ODD

    def _value_location(self, ops: Sequence[DWARFExprOp]) -> UserPlace:
        """A value without a location of its own: constants are understood."""
        if len(ops) == 1 and ops[0].op_name.startswith("DW_OP_lit"):
            return UserPlace("constant", offset=int(ops[0].op_name.removeprefix("DW_OP_lit")))
        if len(ops) == 1 and ops[0].op_name.startswith("DW_OP_const"):
            return UserPlace("constant", offset=ops[0].args[0])
        return GONE

    def _composite_location(self, ops: Sequence[DWARFExprOp]) -> UserPlace:
        """A struct in two registers."""
        registers: list[int] = []
        for op, piece in zip(ops[::2], ops[1::2]):
            if not _is_register(op) or piece.op_name != "DW_OP_piece":
                return GONE
            location = self._register_location(_register_number(op))
            if location.kind != "registers":
                return location
            registers += location.registers
        return UserPlace("registers", tuple(registers)) if 2 * len(registers) == len(ops) else GONE

    def _register_location(self, number: int) -> UserPlace:
        assert self._arch is not None
        if number in self._arch.dwarf_vectors:
            return VECTOR
        register = self._general_register(number)
        return UserPlace("registers", (register,)) if register is not None else ODD

    def _general_register(self, number: int) -> int | None:
        assert self._arch is not None
        names = self._arch.dwarf_registers
        return self._arch.registers.get(names[number]) if 0 <= number < len(names) else None

    def _frame_location(self, ops: Sequence[DWARFExprOp]) -> UserPlace | None:
        """A place above the return address is the caller's, and valid already; one below it is not."""
        assert self._arch is not None
        at: int | None = self._cfa_offset(ops[0].args[0])
        if at is None or at < 0 or len(ops) > 1:
            return None
        return UserPlace("memory", (self._arch.stack_pointer,), at + self._arch.stack_arguments)

    def _cfa_offset(self, offset: int) -> int | None:
        """An offset from the frame base as one from the canonical frame address; None if their distance is not
        fixed."""
        from elftools.dwarf.dwarf_expr import DWARFExprParser

        base = attribute_value(self._die, "frame_base")
        ops = DWARFExprParser(self._unit.structs).parse_expr(base) if isinstance(base, list) else []
        if len(ops) == 1 and ops[0].op_name == "DW_OP_call_frame_cfa":
            return offset
        if len(ops) == 1 and self._arch is not None and _is_register(ops[0]):
            framed = _register_number(ops[0]) == self._arch.dwarf_frame_pointer
            to_cfa = self._arch.frame_to_cfa
            return offset - to_cfa if framed and to_cfa is not None else None
        return None


def _entry_address(dwarf: DWARFInfo, unit: CompileUnit, die: DIE) -> int:
    return low_pc(die) or 0


def _is_register(op: DWARFExprOp) -> bool:
    name: str = op.op_name
    return name == "DW_OP_regx" or name.startswith("DW_OP_reg") and name[9:].isdigit()


def _register_number(op: DWARFExprOp) -> int:
    return int(op.args[0] if op.op_name == "DW_OP_regx" else op.op_name.removeprefix("DW_OP_reg"))


class Convention:
    """Gives out argument registers and stack words in order, as a caller does."""

    def __init__(self, arch: Arch) -> None:
        self._arch = arch
        self._general = list(arch.arguments)
        self._vectors = arch.vector_arguments
        self._stack = arch.stack_arguments

    def assign_locations(self, kinds: list[DIE | None], references: list[bool], result: DIE | None) -> list[UserPlace]:
        """Places of parameters of these types, some of them passed by reference, for a function that returns
        ``result``."""
        if self._arch.result_address_first and result is not None and self._returns_in_memory(result):
            self._general.pop(0)
        assign = self._assign_parts if self._arch.splits_structs else self._assign_whole
        return [self._assign_reference() if reference else assign(strip_qualifiers(kind))
                for kind, reference in zip(kinds, references)]

    def _returns_in_memory(self, result: DIE | None) -> bool:
        kind = strip_qualifiers(result)
        if self._arch.sizes_by_value:
            return is_struct(kind) or size_of(kind) not in (0, *self._arch.sizes_by_value)
        return is_struct(kind) and (_is_passed_by_reference(kind) or classify_eightbytes(kind) is None)

    def _assign_parts(self, kind: DIE | None) -> UserPlace:
        """Assign each eightbyte by its class."""
        if is_struct(kind) and _is_passed_by_reference(kind):
            return self._assign_reference()
        parts = classify_eightbytes(kind)
        if parts is None:
            return self._assign_stack(size_of(kind), attribute_number(kind, "alignment", 8) if kind is not None else 8)
        integers = parts.count("integer")
        if integers > len(self._general) or len(parts) - integers > self._vectors:
            return self._assign_stack(size_of(kind), 8)
        registers = tuple([self._general.pop(0) for _ in range(integers)])
        self._vectors -= len(parts) - integers
        return UserPlace("registers", registers) if integers == len(parts) else VECTOR

    def _assign_whole(self, kind: DIE | None) -> UserPlace:
        """Assign all of it to registers of one class; a value that finds too few leaves none for those after it."""
        size, by_value = size_of(kind), self._arch.sizes_by_value
        if by_value and size not in by_value:
            return self._assign_reference()
        if is_float(kind) or is_struct(kind) and set(classify_eightbytes(kind, 64) or ()) == {"vector"}:
            self._vectors -= 1
            return VECTOR if self._vectors >= 0 else self._assign_stack(size, 8)
        if is_struct(kind) and (size > 16 or _is_passed_by_reference(kind)):
            return self._assign_reference()
        words = max(1, (size + 7) // 8)
        if words > len(self._general):
            self._general = []
            return self._assign_stack(size, 8)
        return UserPlace("registers", tuple([self._general.pop(0) for _ in range(words)]))

    def _assign_reference(self) -> UserPlace:
        """Assign the address of the caller's copy."""
        if not self._general:
            return UserPlace("unknown", why="is passed by an address on the stack, which Sonde does not follow")
        return UserPlace("memory", (self._general.pop(0),), 0)

    def _assign_stack(self, size: int, alignment: int) -> UserPlace:
        if alignment > 8:
            above = self._stack - self._arch.stack_arguments
            self._stack += -above % alignment
        location = UserPlace("memory", (self._arch.stack_pointer,), self._stack)
        self._stack += (max(size, 1) + 7) // 8 * 8
        return location


def _is_passed_by_reference(kind: DIE, depth: int = 0) -> bool:
    """C++: a class that cannot be copied byte by byte. DWARF 5 has an attribute for it; without it the members decide,
    by the rule of the C++ ABI (section 1.1, "non-trivial for the purposes of calls")."""
    convention = attribute_value(kind, "calling_convention")
    if convention in (_PASS_BY_REFERENCE, _PASS_BY_VALUE):
        return bool(convention == _PASS_BY_REFERENCE)
    if depth > 16:
        return False
    own = name_of(kind).partition("<")[0]
    for child in kind.iter_children():
        if child.tag == "DW_TAG_subprogram" and (attribute_value(child, "virtuality")
                                                 or _is_nontrivial_member(child, own, kind)):
            return True
    parts = [strip_qualifiers(referred_die(m, "type")) for m in data_members(kind)]
    return any(is_struct(part) and _is_passed_by_reference(part, depth + 1) for part in parts)


def _is_nontrivial_member(function: DIE, own: str, kind: DIE) -> bool:
    """Whether a member function is a user-provided destructor or copy constructor."""
    if attribute_value(function, "artificial") or attribute_value(function, "defaulted") or attribute_value(function,
                                                                                                            "deleted"):
        return False
    name = name_of(function)
    if name.startswith("~"):
        return True
    if name != own:
        return False
    given = [strip_qualifiers(referred_die(child, "type")) for child in function.iter_children()
             if child.tag == "DW_TAG_formal_parameter" and not attribute_value(child, "artificial")]
    if len(given) != 1 or given[0] is None or given[0].tag not in _REFERENCES:
        return False
    to = strip_qualifiers(referred_die(given[0], "type"))
    return to is not None and to.offset == kind.offset


def classify_eightbytes(kind: DIE | None, most: int = 16) -> list[str] | None:
    """The classes ("integer", "vector") of a value's eight-byte parts; None if it is passed in memory."""
    size = size_of(kind)
    if not is_struct(kind):
        if is_float(kind):
            return None if size > 8 else ["vector"]  # long double
        return ["integer"] * max(1, (size + 7) // 8)
    if size > most:
        return None
    if not size:
        return ["integer"]
    classes: list[str] = [""] * ((size + 7) // 8)
    return [part or "vector" for part in classes] if _classify_parts(kind, 0, classes, 0) else None


def _classify_parts(kind: DIE | None, at: int, classes: list[str], depth: int) -> bool:
    """Merge the parts of a type at an offset into ``classes``; False if something is not aligned."""
    kind = strip_qualifiers(kind)
    if kind is None or depth > 16:
        return True
    if is_struct(kind):
        return all(_classify_parts(referred_die(m, "type"), at + (member_offset(m) or 0), classes, depth + 1)
                   for m in data_members(kind))
    if kind.tag == "DW_TAG_array_type":
        element, count = referred_die(kind, "type"), 1
        for bound in array_lengths(kind):
            count *= bound
        step = size_of(element)
        return all(_classify_parts(element, at + i * step, classes, depth + 1) for i in range(min(count, 64)))
    size = size_of(kind)
    if size and at % min(size, 8):
        return False
    for part in range(at // 8, min(len(classes), (at + max(size, 1) + 7) // 8)):
        classes[part] = "vector" if is_float(kind) and classes[part] != "integer" else "integer"
    return True
