"""How the rows of functions and builtins are lowered: in one way or several, depending on the use of the value."""

from __future__ import annotations

from ...language.ast import Call, Reference
from ...semantics.callees import BuiltinRow, FunctionRow
from ...types import Str, Type
from ..ir import BasicBlock, Operand
from .core import Lower
from .state import Mem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Function(FunctionRow):
    """A row with its lowering. ``text`` and ``value`` write to memory, ``text`` with whether to clear what follows;
    its result: the bytes that it wrote with the NUL, if it knows them."""

    statement: Callable[[Lower, Call], None] | None = None                  # called for its effect
    scalar: Callable[[Lower, Call], Operand] | None = None                  # a value in a register
    condition: Callable[[Lower, Call, BasicBlock, BasicBlock], None] | None = None    # decided by control flow: yes, no
    text: Callable[[Lower, Call, Mem, Str, bool], Operand | None] | None = None
    value: Callable[[Lower, Call, Mem, Type], None] | None = None


class Builtin(BuiltinRow):
    """A row with its lowering: a number, a text that may already lie somewhere, or another value."""

    scalar: Callable[[Lower, Reference], Operand] | None = None
    locate: Callable[[Lower, Reference], Mem | None] | None = None          # where its text lies; None: to be written
    text: Callable[[Lower, Reference, Mem], None] | None = None
    value: Callable[[Lower, Reference, Mem, Type], None] | None = None


def function_of(node: object) -> Function | None:
    """The function that a node calls, if it is one of the language's."""
    return node.callee if isinstance(node, Reference) and isinstance(node.callee, Function) else None


def builtin_of(node: object) -> Builtin | None:
    """The builtin that a node names, if its value is not known when compiling."""
    return node.callee if isinstance(node, Reference) and isinstance(node.callee, Builtin) and node.const is None \
        else None


def helper_caller(number: int, name: str, pure: bool = True, bits: int = 64) -> Callable[[Lower, Reference], Operand]:
    """The lowering of a builtin that is a helper's result; ``pure``: the same during one run of a program."""
    def lower(lo: Lower, node: Reference) -> Operand:
        value = lo.b.call(number, [], name, pure=pure)
        return value if bits == 64 else lo.b.extend(value, bits, False)
    return lower


def first_argument(lo: Lower, call: Call) -> Operand:
    """The lowering of what is its argument: a number that prints as something else, a pointer into other memory."""
    return lo.scalar_value(call.args[0])
