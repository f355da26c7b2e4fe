"""Rules for operators: result types, signedness, folding of constants."""

from __future__ import annotations

from ..base.words import MASK, divide_toward_zero, read_word
from ..language import ast
from ..language.ast import Expr
from ..layouts.shared_maps import MOST_GROUPS
from ..types import (
    BOOL,
    BPF,
    GROUPS,
    INT64,
    NOTHING,
    UINT64,
    Address,
    Array,
    Bool,
    Buf,
    Enum,
    Float,
    Inet,
    Int,
    MacAddr,
    NoneType,
    Pointer,
    Stack,
    Str,
    Struct,
    Symbol,
    Timestamp,
    Tuple,
    Type,
)
from . import convert
from .callees import is_written, settles_branch
from .context import CheckContext, VarState, fold_constant
from .expressions import element_type
from .floats import float_operation
from .library_texts import numbers_called

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_LOGICAL = ("&&", "||")

Side = tuple[Expr, Type]  # an operand and its type


def number_of(node: Expr, type: Type | None) -> Int | None:
    """An operand's type as an integer; a constant that is not negative adapts its sign."""
    integer = convert.as_int(type)
    if isinstance(integer, convert.CountInt):
        return INT64
    if integer is not None and isinstance(node.const, int) and node.const >= 0:
        return convert.literal_type(node.const) if node.const >> 63 == 0 else integer
    return integer


# --- unary ------------------------------------------------------------------------------------------------


def check_unary(context: CheckContext, node: ast.Unary) -> Type | None:
    if node.op in ("++", "--"):
        return _check_step(context, node)
    if node.op == "&":
        return _check_address_of(context, node)
    operand = context.check_value(node.operand, "an operand")
    if operand is None:
        return None
    operand = context.aggregate_of(node.operand) or operand
    if node.op == "*":
        return _check_dereference(context, node, operand)
    if node.op == "!":
        return _check_not(context, node, operand)
    number = None if isinstance(operand, Bool) else convert.as_int(operand)
    if isinstance(operand, Float) and node.op == "-":
        return operand
    if number is None:
        _bad_operand(context, node, operand)
        return None
    value = node.operand.const
    if isinstance(operand, Enum):  # a number of 64 bits without a sign, which a fold would take for too large
        return number
    if isinstance(value, int) and not isinstance(node.operand, ast.Cast):
        return _fold_minus(context, node, value) if node.op == "-" else fold_constant(node, ~value & MASK)
    if isinstance(value, int) and not number.signed:
        node.const = (-value if node.op == "-" else ~value) & (1 << number.bits) - 1
    return Int(64, number.signed)


def _bad_operand(context: CheckContext, node: ast.Unary, operand: Type, code: str = "bad-operand") -> None:
    name = _name_side(context, node.operand, convert.type_name(operand), node.op, False)
    is_text = node.op == "!" and isinstance(operand, Str)
    hints = [f'{node.operand.span.text} == "" asks whether it is empty'] if is_text else []
    context.error(code, f"The {node.op} operator can not be used on expressions of type '{name}'", node, hints)


def _fold_minus(context: CheckContext, node: ast.Unary, value: int) -> Type | None:
    if value <= 1 << 63:
        return fold_constant(node, -value)
    context.error("overflow", "negative value will underflow", node)
    return None


def _report_fold(context: CheckContext, node: Expr, code: str = "overflow", hints: Sequence[str] = ()) -> Type | None:
    context.error(code, "unable to fold literals due to overflow or underflow", node, hints)
    return None


def _check_not(context: CheckContext, node: ast.Unary, operand: Type) -> Type | None:
    if not convert.can_be_condition(operand) or isinstance(operand, Pointer):
        _bad_operand(context, node, operand)
        return None
    if isinstance(node.operand.const, int):
        node.const = int(not node.operand.const)
    return BOOL


def _check_dereference(context: CheckContext, node: ast.Unary, operand: Type) -> Type | None:
    if isinstance(operand, (Int, Address)):
        syntax = ast.TypeSyntax(node.operand.span, "uint64", 1)  # an address without a type points to 64 bits
        node.operand = ast.Cast(node.operand.span, to=syntax, operand=node.operand)
        return check_unary(context, node)
    if not isinstance(operand, Pointer):
        _bad_operand(context, node, operand, "not-a-pointer")
        return None
    pointee = element_type(operand)
    if pointee is None:
        context.error("not-a-pointer", "Can not dereference a pointer to void", node, ["cast it first: *(uint64 *)x"])
        return None
    if isinstance(pointee, Pointer):
        return Pointer(pointee.to, pointee.space or operand.space)
    return pointee


def _check_address_of(context: CheckContext, node: ast.Unary) -> Type | None:
    target = node.operand
    if isinstance(target, ast.Variable):
        if (state := context.find_variable(target.name)) is not None:
            state.given = True
        type = context.check_expression(target)
    elif isinstance(target, ast.MapRef):
        type = context.map_value_type(context.use_map(target), target)
        target.type = None if type is None else convert.plain_type(type)
    else:
        context.error("bad-operand", "syntax: address-of operator (&) can only be used on a map or variable", target)
        return None
    return None if type is None else Pointer(convert.plain_type(type), BPF)


def _check_step(context: CheckContext, node: ast.Unary) -> Type | None:
    """``++`` and ``--``: a map starts at 0, a variable must have a value; what is counted down may go below 0."""
    target = node.operand
    grown: Type = INT64 if node.op == "--" else convert.CountInt(64)
    if isinstance(target, ast.MapRef):
        state = context.use_map(target)
        if not isinstance(state.inferred_value, Pointer):
            context.assign_map(state, _stepped_type(node.op, state.inferred_value) or grown, node)
        type = state.inferred_value
    elif isinstance(target, ast.Variable):
        type = context.check_expression(target)
        slot = target.slot
        if isinstance(slot, VarState):
            slot.given = True
            wrong = _stepped_type(node.op, type)
            if wrong is not None and type is not None:
                context.report_mismatch(f"${target.name}", wrong, type, node)
                return None
            if convert.as_int(type) is not None and not slot.fixed:
                context.assign_variable(slot, grown, target)
                type = slot.inferred
    else:
        context.error("not-assignable", f"The {node.op} operator must be applied to a map or variable", node)
        return None
    if type is None or _stepped_type(node.op, type) is not None:
        return None
    target.type = convert.plain_type(type)
    return type


def _held_number(have: Type) -> Int | None:
    """The number that count_t and its like stand for."""
    return None if isinstance(have, Bool) else convert.as_int(convert.read_type(have))


def _stepped_type(op: str, have: Type | None) -> Int | None:
    """The type by which messages name a value that cannot be stepped by ``++`` or ``--``; None if it can."""
    if have is None or isinstance(have, (Int, Enum, Pointer)):
        return None
    own = _held_number(have)
    return INT64 if op == "--" or own is not None and own.signed else UINT64


def changed_type(op: str, have: Type, value: Type) -> Int:
    """The type by which messages name a value that cannot be changed by ``op=``; None if it can."""
    own = _held_number(have)
    given = None if isinstance(value, Bool) else convert.as_int(value)
    if own is not None:
        return INT64 if op == "-" or own.signed or given is not None and given.signed \
            and not isinstance(given, convert.Flexible) else UINT64
    return INT64 if given is not None and given.signed and not isinstance(have, Bool) else UINT64


# --- binary -----------------------------------------------------------------------------------------------


def check_binary(context: CheckContext, node: ast.Binary) -> Type | None:
    left, right = context.check_value(node.left, "an operand"), context.check_value(node.right, "an operand")
    if left is None or right is None:
        return _guess_type(node.op, left or right)
    if isinstance(left, Struct) or isinstance(right, Struct):
        node.left, node.right = context.with_texts(node.left), context.with_texts(node.right)
        left, right = node.left.type or left, node.right.type or right
    return binary_type(context, node, node.op, (node.left, left), (node.right, right))


def _guess_type(op: str, known: Type | None) -> Type | None:
    """The type where one side has an error or is not known yet, as in ``@sum = @sum + 1``: from the other side."""
    if op in _LOGICAL or op in _COMPARISONS:
        return BOOL
    number = convert.as_int(known)
    return None if number is None else Int(64, number.signed)


def binary_type(context: CheckContext, node: Expr, op: str, first: Side, second: Side) -> Type | None:
    """Type of ``first op second``; folds ``node``. Also serves ``x op= value``."""
    folded = _fold_literals(context, node, op, first[0], second[0])
    if folded is not None:
        return folded
    if op in _LOGICAL:
        return _check_logical(context, node, op, first, second)
    if isinstance(first[1], Float) or isinstance(second[1], Float):
        return float_operation(context, node, op, first, second)
    if op in _COMPARISONS:
        return _check_comparison(context, node, op, first, second)
    a, b = number_of(*first), number_of(*second)
    if a is None or b is None:
        return _pointer_arithmetic(context, node, op, first, second)
    left, right = first[0].const, second[0].const
    if op in ("/", "%") and right == 0:
        if not is_written(first[0]) or not is_written(second[0]):
            return _arithmetic_type(op, a, b)
        return _report_fold(context, node, "division-by-zero")
    if op in ("<<", ">>"):
        return _check_shift(context, node, op, a, left, right)
    if isinstance(left, int) and isinstance(right, int):
        if isinstance(first[0], ast.Cast) or isinstance(second[0], ast.Cast):  # a type was asked for: keep to it
            type = _arithmetic_type(op, _literal_int(*first), _literal_int(*second))
            return fold_constant(node, convert.wrap_int(_FOLD[op](left, right), type), type)
        return _fold_binary(context, node, op, left, right)
    if op in ("/", "%"):
        _warn_of_signed_division(context, node, op, first, second)
    return _arithmetic_type(op, a, b)


def _warn_of_signed_division(context: CheckContext, node: Expr, op: str, first: Side, second: Side) -> None:
    """Warn of a division of signed numbers: bpftrace divides them as unsigned and warns too. Scripts should work in
    both."""
    sides = (first, second)
    signed = [side for side in sides if _is_signed(side[1])]
    if convert.type_name(first[1]) == convert.type_name(second[1]) or not signed or \
            any(isinstance(type, Bool) for _, type in sides):
        return
    if len(signed) == 1:  # the other's type may do for both
        operand, type = signed[0]
        if isinstance(type, convert.Flexible) and not isinstance(operand.const, int) or \
                _fits_unsigned(operand, type) and not isinstance(operand, ast.Cast):
            return
    context.advise("signed-division", f"signed operands for '{op}' can lead to undefined behavior (cast to unsigned to "
                   "silence warning)", node, ["here the result is rounded towards zero, as in C"])


def _fold_literals(context: CheckContext, node: Expr, op: str, first: Expr, second: Expr) -> Type | None:
    """What is known of texts and tuples that are written down: ``"a" + "b"``, ``"abc" + 1`` (C's pointer into it),
    ``"a" < "b"``, ``"x" && true``, tuples of unequal lengths. None for anything else."""
    left, right = (side.const if isinstance(side, _FOLDED) else None for side in (first, second))
    if isinstance(left, str) and isinstance(right, str) and op in _ORDER:
        return fold_constant(node, int(_ORDER[op](left.encode("utf-8", "replace"), right.encode("utf-8", "replace"))),
                             BOOL)
    texts = isinstance(left, str) and isinstance(right, str)
    if texts and op not in _LOGICAL and op not in _COMPARISONS and op != "+":
        context.error("bad-operand", "illegal literal operation with strings", node)
        return INT64
    if op in _LOGICAL and (texts or isinstance(left, str) != isinstance(right, str) and ast.BoolLiteral in (
            type(first), type(second))):
        return fold_constant(node, int(bool(left and right) if op == "&&" else bool(left or right)), BOOL)
    tuples = [side.items for side in (first, second) if isinstance(side, ast.TupleExpr)]
    if len(tuples) == 2 and len(tuples[0]) != len(tuples[1]) and op in ("==", "!=") \
            and all(item.const is not None for items in tuples for item in items):
        return fold_constant(node, int(op == "!="), BOOL)
    text, more = (left, right) if isinstance(left, str) else (right, left)
    if op != "+" or not isinstance(text, str) or not isinstance(more, (str, int)) or isinstance(more, int) and more < 0:
        return None
    if isinstance(more, int) and more >= len(text):
        context.warning("empty-literal", convert.EMPTY_LITERAL, node)
    node.const = text + more if isinstance(more, str) else text[more:]
    return convert.known_text(node.const)


_FOLDED = (ast.StrLiteral, ast.IntLiteral, ast.BoolLiteral, ast.Binary, ast.Positional)
_ORDER: dict[str, Callable[[bytes, bytes], bool]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}


def _arithmetic_type(op: str, a: Int, b: Int) -> Int:
    """64 bits: a difference is always signed, anything else has the sign of :func:`~.convert.signed_pair`."""
    return INT64 if op == "-" else convert.division_type(a, b) if op in ("/", "%") else convert.arithmetic_type(a, b)


def _literal_int(node: Expr, type: Type) -> Int:
    """The integer that a constant is: a cast says which, a literal adapts."""
    number = convert.as_int(type) if isinstance(node, ast.Cast) else number_of(node, type)
    assert number is not None
    return number


def _warn_of_mixed_signs(context: CheckContext, node: Expr, op: str, first: Side, second: Side) -> None:
    """Warn where the sign decides and no type holds both sides, and of what can never be negative."""
    a, b = number_of(*first), number_of(*second)
    given = convert.as_int(first[1])
    literal = isinstance(second[0], ast.IntLiteral) and second[0].value == 0
    if op == "<" and literal and first[0].const is None and given is not None and not given.signed \
            and not isinstance(first[1], Enum):
        context.warning("sign-mismatch", f"'{convert.type_name(first[1])}' is never negative: this is always false",
                        node,
                        ["cast it, as in (int64)x"])
    if a is None or b is None or not convert.is_sign_undecided(a,
                                                               b) or _fits_unsigned(*first) and _fits_unsigned(*second):
        return
    side = second if not _is_signed(second[1]) else first
    if not (is_written(first[0]) or is_written(second[0])):
        context.warn_of_cast(UINT64, INT64, side[0])


def _is_signed(type: Type) -> bool:
    number = convert.as_int(type)
    return number is not None and number.signed


def _fits_unsigned(node: Expr, type: Type) -> bool:
    """Whether a value means the same with and without a sign."""
    number = convert.as_int(type)
    return number is None or not number.signed or isinstance(node.const, int) and node.const >= 0


def _check_shift(context: CheckContext, node: Expr, op: str, a: Int, left: object, right: object) -> Type | None:
    if isinstance(right, int) and not 0 <= right < 64:
        hint = f"a shift by {right} is not between 0 and 63"
        if isinstance(left, int) and not isinstance(node.left if isinstance(node, ast.Binary) else None, ast.Cast):
            return _report_fold(context, node, "bad-shift", [hint])
        context.warning("bad-shift", f"{hint}: it is one by {right & 63}", node)
    elif isinstance(left, int) and isinstance(right, int):
        return _fold_binary(context, node, op, left, right)
    return Int(64, a.signed)


_FOLD: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": divide_toward_zero,
    "%": lambda a, b: a - b * divide_toward_zero(a, b), "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: read_word(a << b, signed=a < 0), ">>": lambda a, b: a >> b,
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b),
}


def _fold_binary(context: CheckContext, node: Expr, op: str, left: int, right: int) -> Type | None:
    result = _FOLD[op](left, right)
    return fold_constant(node, result) if -(1 << 63) <= result <= MASK else _report_fold(context, node)


def _pointer_arithmetic(context: CheckContext, node: Expr, op: str, first: Side, second: Side) -> Type | None:
    """Pointer ± integer counts in elements, as in C; pointer − pointer is a distance in elements."""
    left, right = first[1], second[1]
    if isinstance(left, Pointer) and convert.as_int(right) is not None and op in ("+", "-"):
        return convert.moved_pointer(left)
    if isinstance(right, Pointer) and convert.as_int(left) is not None and op == "+":
        return convert.moved_pointer(right)
    if isinstance(left, Pointer) and isinstance(right, Pointer) and op == "-":
        return INT64
    if isinstance(left, Pointer) and convert.as_int(right) is not None and op in ("&", "|", "%"):
        return Int(64, False)
    return _refuse_operator(context, node, op, left, right)


def _widened(type: Type, other: Type, op: str) -> Type:
    """The type by which messages name a number that cannot be combined with ``other``: bpftrace widens it first."""
    number = convert.as_int(type)
    if op in _COMPARISONS or op in _LOGICAL or number is None or other == NOTHING or isinstance(other, (Str, Pointer)):
        return type
    return Int(64, number.signed)


def _refuse_operator(context: CheckContext, node: Expr, op: str, left: Type, right: Type, code: str = "bad-operand",
                     hints: Sequence[str] = ()) -> Type | None:
    """Report an operator that does not fit its operands; returns the type of the result, if it is known."""
    shown = [convert.type_name(_widened(t, other, op)) for t, other in ((left, right), (right, left))]
    if isinstance(node, ast.Binary):
        shown = [_name_side(context, side, name, op, not isinstance(other, (Str, Pointer)))
                 for side, name, other in zip((node.left, node.right), shown, (right, left))]
    alike = convert.kind_of_type(left) == convert.kind_of_type(right) and op not in ("==", "!=")
    if isinstance(left, Array) and isinstance(right, Array) and op in _COMPARISONS:
        wrong = f"The {op} operator cannot be used on arrays." if op not in ("==", "!=") else \
            "Only arrays of same size support comparison operators."
    elif alike or isinstance(left, Pointer) or isinstance(right, Pointer):
        wrong = f"The {op} operator can not be used on expressions of types {shown[0]}, {shown[1]}"
    else:
        wrong = f"Type mismatch for '{op}': comparing {shown[0]} with {shown[1]}"
    if not hints and isinstance(node, ast.Binary):
        from .meant import comparison_hints
        hints = comparison_hints(node.left, node.right)
    context.error(code, wrong, node, hints)
    return _guess_type(op, convert.as_int(left) and left or right) or INT64


def _name_side(context: CheckContext, side: Expr, name: str, op: str, widened: bool) -> str:
    """``name`` of an operand's type; hist_t and its like by what they are, count_t and its like where nothing is
    reckoned with them, and what sizeof gives as a literal."""
    if op in _COMPARISONS and isinstance(side, (ast.SizeOf, ast.OffsetOf)) and isinstance(side.const, int):
        return convert.type_name(convert.literal_type(side.const))
    if isinstance(side, (ast.SizeOf, ast.OffsetOf)):
        return "int64"
    if side.type == PROBE:
        return f"string[{len(context.program.attach.name) + 1}]"
    held = context.aggregate_of(side)
    number = None if held is None or op in _COMPARISONS + _LOGICAL or not widened else _held_number(held)
    return str(number or held or name)


def _check_logical(context: CheckContext, node: Expr, op: str, first: Side, second: Side) -> Type | None:
    if not convert.can_be_condition(first[1]) or not convert.can_be_condition(second[1]):
        return _refuse_operator(context, node, op, first[1], second[1], "type-mismatch")
    left, right = first[0].const, second[0].const
    if isinstance(left, int) and isinstance(right, int):
        node.const = int(bool(left) and bool(right) if op == "&&" else bool(left) or bool(right))
    return BOOL


# --- comparisons ------------------------------------------------------------------------------------------


def _check_comparison(context: CheckContext, node: Expr, op: str, first: Side, second: Side) -> Type | None:
    first, second = _as_text(context, first, second), _as_text(context, second, first)
    if _is_group(first[1]) and isinstance(second[1], Str) or _is_group(second[1]) and isinstance(first[1], Str):
        return _check_group(context, node, op, first, second)
    first, second = numbers_called(context, first, second)
    comparison = comparison_of(first, second)
    ordered = op not in ("==", "!=")
    if comparison == "" or ordered and (comparison in ("string", "bytes") or isinstance(first[1], Symbol)):
        return _refuse_operator(context, node, op, first[1], second[1], "type-mismatch",
                                ["strings can be compared with == and != only"] if comparison == "string" else [])
    if isinstance(node, ast.Binary):
        node.compare = comparison
    if ordered:
        _warn_of_mixed_signs(context, node, op, first, second)
    left, right = first[0].const, second[0].const
    if isinstance(left, int) and isinstance(right, int):
        number = Int(64, comparison == "signed")
        if min(left, right) < 0 and max(left, right) >> 63 == 1 and is_written(first[0]) and is_written(second[0]):
            return _report_fold(context, node)
        node.const = _FOLD[op](convert.wrap_int(left, number), convert.wrap_int(right, number))
    elif isinstance(left, str) and isinstance(right, str) and comparison == "string":
        node.const = int((left == right) == (op == "=="))
    return BOOL


def _is_group(type: Type) -> bool:
    return isinstance(type, Symbol) and type.kind in GROUPS


def _check_group(context: CheckContext, node: Expr, op: str, first: Side, second: Side) -> Type | None:
    """``container == "web"``: which groups those are is found out before the script runs, and while it does."""
    text = (second if _is_group(first[1]) else first)[0]
    kind = str(first[1] if _is_group(first[1]) else second[1])
    if op not in ("==", "!="):
        _refuse_operator(context, node, op, first[1], second[1], "type-mismatch",
                         ["strings can be compared with == and != only"])
        return None
    if not isinstance(text.const, str):
        context.error("not-constant", f"{kind} can be compared with a literal string only", text,
                      ["names of control groups are known to user space alone, and looked up before the script runs"])
        return None
    if not context.take_group(kind, text.const):
        context.error("too-many-groups", f"a script can compare with {MOST_GROUPS} containers, pods and services", node)
        return None
    assert isinstance(node, ast.Binary)
    node.compare = "group"
    return BOOL


def _as_text(context: CheckContext, side: Side, other: Side) -> Side:
    """A positional parameter next to a string is its text, even if that looks like a number or was not given."""
    node = side[0]
    if isinstance(node, ast.Positional) and node.number and not isinstance(side[1], Str) \
            and (isinstance(other[1], Str) or _is_group(other[1])):
        params = context.options.params
        node.const = params[node.number - 1] if node.number <= len(params) else ""
        node.type = convert.known_text(node.const)
        return node, node.type
    return side


PROBE = Symbol("probe")


def comparison_of(first: Side, second: Side) -> str:
    """signed, unsigned, string (up to the NUL) or bytes (element by element); "" if they cannot be compared."""
    left, right = first[1], second[1]
    a, b = number_of(*first), number_of(*second)
    if a is not None and b is not None:
        return "signed" if convert.signed_pair(a, b) else "unsigned"
    if all(isinstance(t, Str) or t == PROBE for t in (left, right)):
        return "string"
    if isinstance(left, Symbol) or isinstance(right, Symbol):
        named = isinstance(first[0], ast.StrLiteral) or isinstance(second[0], ast.StrLiteral)  # see _as_number
        return "unsigned" if left == right or named and (a or b) is not None else ""
    if _address_like(left, a) and _address_like(right, b):
        return "unsigned"
    return "bytes" if can_compare(left, right) else ""


def _address_like(type: Type, number: Int | None) -> bool:
    return number is not None or isinstance(type, Pointer)


def can_compare(a: Type, b: Type) -> bool:
    """Whether two composite values can be compared for equality."""
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return a.has_same_shape(b) and all(can_compare(x, b.of[at]) for x, at in zip(a.of, b.element_order(a.names)))
    if isinstance(a, Array) and isinstance(b, Array):
        return a.count == b.count and a.of.size == b.of.size
    if isinstance(a, (Inet, MacAddr, Timestamp)):
        return type(a) is type(b)
    if isinstance(a, (Str, Buf)):
        return type(a) is type(b)
    if isinstance(a, (Struct, Stack)):
        return a == b
    if isinstance(a, Pointer):
        return isinstance(b, Pointer)
    return convert.as_int(a) is not None and convert.as_int(b) is not None


# --- ?: ---------------------------------------------------------------------------------------------------


def check_ternary(context: CheckContext, node: ast.Ternary) -> Type | None:
    condition = context.check_value(node.cond, "a condition")
    if node.then is not None and not isinstance(node.other, ast.RuledOut) and settles_branch(node.cond):
        node.then = node.then if node.cond.const else node.other  # as with if: what is ruled out is not checked
        node.other = ast.RuledOut(node.other.span)
    then = context.check_expression(node.then) if node.then is not None else condition
    if isinstance(node.other, ast.RuledOut) and node.then is not None:
        node.other.type = node.then.type
    other = then if isinstance(node.other, ast.RuledOut) else context.check_expression(node.other)
    if then is None or other is None:
        return then or other
    merged = then if isinstance(then, NoneType) and isinstance(other, NoneType) else \
        convert.merge_types(then, other)
    if node.then is None and isinstance(node.cond, ast.StrLiteral) or all(
            is_written(part, ast.SizeOf, ast.OffsetOf, ast.Name)
            for part in (node.cond, node.then or node.cond, node.other)):  # reckoned at once, type and all
        node.then = (node.then or node.cond) if node.cond.const else node.other
        node.other = ast.RuledOut(node.other.span)
        merged = then = other = node.other.type = then if node.cond.const else other
    if merged is None:
        have = [context.aggregate_of(side) or convert.type_name(type)
                for side, type in ((node.then or node.cond, then), (node.other, other))]
        context.error("type-mismatch", "Branches must return the same type or compatible types: have "
                      f"'{have[0]}' and '{have[1]}'", node)
        return None
    if condition is None or not context.check_condition(node.cond, condition, node):
        return merged
    context.warn_of_narrowing(merged, then, node.then or node.cond)
    context.warn_of_narrowing(merged, other, node.other)
    return _settle_ternary(node, merged)


def _settle_ternary(node: ast.Ternary, merged: Type) -> Type:
    chosen = node.cond.const
    branch = (node.then or node.cond) if chosen or isinstance(node.other, ast.RuledOut) else node.other
    if chosen is not None and branch.const is not None and isinstance(merged, (Int, Enum, Str, type(BOOL))):
        node.const = branch.const
    return merged
