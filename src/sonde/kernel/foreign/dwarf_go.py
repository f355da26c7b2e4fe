"""Where parameters of Go's functions are on entry (cmd/compile/abi-internal.md of Go).

Each is taken apart into its words: whole numbers and pointers go to registers in order, floats to vector registers. A
parameter for which too few are left lies on the stack as a whole, and so do arrays of more than one element. Before
registers were used all parameters lay there. The debug information of optimised code says the same of those that it
has, which is checked: of a function where it does not agree, only what it says counts.
"""

from __future__ import annotations

from ...arch import Arch
from ...arch.go_versions import minor_version, uses_stack
from ...spec import UserPlace
from .dwarf_types import (
    array_lengths,
    attribute_number,
    attribute_text,
    data_members,
    is_float,
    is_struct,
    member_offset,
    referred_die,
    size_of,
    strip_qualifiers,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE

LANGUAGE = 0x16  # DW_LANG_Go
MOST_WORDS = 16
MOST_VECTORS = {"x86_64": 15, "aarch64": 16}
MOST_DEPTH = 16
NAMES_ALL = 27  # since this version, at the latest, parameters without a name are described
_UNSURE = UserPlace("unknown", why="may come after a parameter without a name, which this version of Go does not "
                    "describe")
_UNSURE_RESULT = UserPlace("unknown", why="is on the stack, behind parameters that this version of Go may not describe")
_VECTOR = UserPlace("unknown", why="is passed in a vector register, which programs cannot read")
_SMALL_PARTS = UserPlace("unknown", why="has parts of less than a word, each in a register of its own: arg0, arg1 ... "
                         "are the registers")


def made_by_go(unit: CompileUnit) -> bool:
    """Whether a unit was compiled by Go."""
    return attribute_number(unit.get_top_DIE(), "language") == LANGUAGE


def go_of(unit: CompileUnit) -> str:
    """The version of Go that compiled a unit; "" if it does not say."""
    producer = attribute_text(unit.get_top_DIE(), "producer")  # Go cmd/compile go1.19.8; regabi
    return next((word.rstrip(";") for word in producer.split() if word.startswith("go1.")), "")


def is_result(parameter: DIE) -> bool:
    """Whether an entry for a parameter is for a result."""
    return bool(attribute_number(parameter, "variable_parameter"))


class GoConvention:
    """Gives out registers and stack words in order."""

    def __init__(self, arch: Arch, unit: CompileUnit) -> None:
        self._arch = arch
        self._uses_stack = uses_stack(go_of(unit), arch.name)
        self._names_all = minor_version(go_of(unit)) >= NAMES_ALL
        self._stack = 0
        self._begin()

    def _begin(self) -> None:
        self._general = [] if self._uses_stack else list(self._arch.go_arguments)
        self._vectors = MOST_VECTORS.get(self._arch.name, 0) if self._general else 0

    def assign_locations(self, kinds: list[DIE | None]) -> list[UserPlace]:
        """Places of parameters of these types."""
        return [self._assign(strip_qualifiers(kind)) for kind in kinds]

    def assign_results(self, kinds: list[DIE | None]) -> list[UserPlace]:
        """Places of results of these types when the function has returned, after those of its parameters: the registers
        are used anew, the stack goes on, of which Go says too little where it leaves parameters out."""
        self._begin()
        self._stack += -self._stack % 8
        locations = [self._assign(strip_qualifiers(kind)) for kind in kinds]
        popped = 8 if self._arch.link_register is None else 0  # the return address
        return [each if each.kind != "memory" else UserPlace("memory", each.registers, each.offset - popped)
                if self._names_all else _UNSURE_RESULT for each in locations]

    def _assign(self, kind: DIE | None) -> UserPlace:
        parts: list[tuple[int, bool]] = []
        whole = _take_apart(kind, 0, parts, 0)
        words, vectors = [at for at, float in parts if not float], [at for at, float in parts if float]
        if not whole or len(words) > len(self._general) or len(vectors) > self._vectors:
            return self._assign_stack(kind)
        registers = tuple([self._general.pop(0) for _ in words])
        self._vectors -= len(vectors)
        if vectors:
            return _VECTOR
        return UserPlace("registers", registers) if words == list(range(0, 8 * len(words), 8)) else _SMALL_PARTS

    def _assign_stack(self, kind: DIE | None) -> UserPlace:
        alignment = _alignment_of(kind, 0)
        self._stack += -self._stack % alignment
        location = UserPlace("memory", (self._arch.stack_pointer,), self._arch.go_stack_arguments + self._stack)
        self._stack += size_of(kind)
        return location


def _take_apart(kind: DIE | None, at: int, parts: list[tuple[int, bool]], depth: int) -> bool:
    """Add (offset, whether it is a float) of each word of a type; False if it cannot be passed in registers."""
    kind = strip_qualifiers(kind)
    if kind is None or depth > MOST_DEPTH or len(parts) > MOST_WORDS:
        return False
    if is_struct(kind):
        return all(_take_apart(referred_die(member, "type"), at + (member_offset(member) or 0), parts, depth + 1)
                   for member in data_members(kind))
    if kind.tag == "DW_TAG_array_type":
        length = array_lengths(kind)[0]
        return length == 0 or length == 1 and _take_apart(referred_die(kind, "type"), at, parts, depth + 1)
    if is_float(kind):
        half = size_of(kind) // 2
        is_complex = attribute_number(kind, "encoding") == 3  # DW_ATE_complex_float
        parts += [(at, True), (at + half, True)] if is_complex else [(at, True)]
        return True
    parts.append((at, False))
    return size_of(kind) <= 8


def _alignment_of(kind: DIE | None, depth: int) -> int:
    kind = strip_qualifiers(kind)
    if kind is None or depth > MOST_DEPTH:
        return 8
    if is_struct(kind):
        return max([_alignment_of(referred_die(member, "type"), depth + 1) for member in data_members(kind)], default=1)
    if kind.tag == "DW_TAG_array_type":
        return _alignment_of(referred_die(kind, "type"), depth + 1)
    size = size_of(kind)
    return size if size in (1, 2, 4) else 8


def agreed_places(usual: list[UserPlace], described: list[UserPlace | None], unit: CompileUnit) -> list[UserPlace]:
    """The places by the convention, if they are those that the debug information has (None: it has none). Older
    compilers leave out parameters without a name, so that those behind may be elsewhere."""
    known = [index for index, location in enumerate(described) if location is not None]
    if all(described[index] == usual[index] or usual[index].kind == "unknown" for index in known):
        sure = len(usual) if minor_version(go_of(unit)) >= NAMES_ALL else max(known, default=-1) + 1
        return usual[:sure] + [_UNSURE] * (len(usual) - sure)
    gone = UserPlace("unknown", why="is not where Go's calling convention has it, and debug information does not say "
                     "where it is")
    return [location or gone for location in described]
