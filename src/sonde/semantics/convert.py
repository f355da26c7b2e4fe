"""How types combine: promotion, assignment, reading aggregates, and the words for types in messages."""

from __future__ import annotations

from ..language.ast import Expr, TupleExpr, TypeSyntax
from ..layouts.c_library_texts import LIBRARY_TEXTS
from ..types import (
    CTX,
    INT64,
    KERNEL,
    UINT64,
    Aggregate,
    Array,
    Bool,
    Buf,
    Enum,
    Float,
    Inet,
    Int,
    MacAddr,
    Pointer,
    Stack,
    Str,
    Struct,
    Symbol,
    Tuple,
    Type,
    USym,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EMPTY_LITERAL = "literal string will always be empty"
NO_TYPE = "When used as a call argument, `typeof` builtin only valid for macro calls that are expecting a type " \
          "parameter"


class Flexible(Int):
    """An integer made only of constants that are not negative, and what ``count()`` counts: its sign adapts to what it
    meets.

    It lives in the checker alone: what is stored in the tree is :func:`plain_type`.
    """


class CountInt(Flexible):
    """What ``++`` counts in: its sign adapts where it is stored; in arithmetic it has a sign of its own."""


def plain_type(type: Type) -> Type:
    """``type`` as the compiler sees it."""
    if isinstance(type, Flexible):
        return Int(type.bits, type.signed)
    if isinstance(type, Tuple):
        return Tuple(tuple([plain_type(t) for t in type.of]), type.names)
    return type


def known_text(text: str) -> Str:
    """The type of a text that is known, with its NUL."""
    return Str(len(text.encode("utf-8", "surrogateescape")) + 1)


def literal_type(value: int) -> Int:
    """The smallest signed type that holds a constant; uint64 from 2^63 on."""
    for bits in (8, 16, 32, 64):
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return Int(bits) if value < 0 else Flexible(bits)
    return UINT64


def fits_int(value: int, type: Int) -> bool:
    """Whether ``type`` holds ``value``."""
    low = -(1 << (type.bits - 1)) if type.signed else 0
    return low <= value < low + (1 << type.bits)


def holds_int(have: Int, given: Int) -> bool:
    """Whether ``have`` holds all values of ``given``."""
    if isinstance(have, Flexible) or have.signed == given.signed:
        return have.bits >= given.bits
    return isinstance(given, Flexible) and have.bits >= given.bits or have.signed and have.bits > given.bits


def wrap_int(value: int, type: Type) -> int:
    """``value`` cut to an integer type, as a C conversion does."""
    if isinstance(type, Bool):
        return int(value != 0)
    bits = type.size * 8
    value &= (1 << bits) - 1
    signed = type.signed if isinstance(type, (Int, Enum)) else False
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def as_int(type: Type | None) -> Int | None:
    """The integer that an Int, Enum or Bool is in arithmetic; None for anything else."""
    if isinstance(type, Int):
        return type
    if isinstance(type, Enum):
        return Int(64, type.signed)  # as bpftrace has it, whatever C gives it
    if isinstance(type, Bool):
        return Flexible(8)
    return None


def merge_ints(a: Int, b: Int) -> Int:
    """The smallest integer type that holds both; uint64 with int64 is int64."""
    bits = max(a.bits, b.bits)
    if isinstance(a, Flexible):
        if not isinstance(b, Flexible):
            return Int(bits, b.signed)
        return CountInt(bits) if isinstance(a, CountInt) or isinstance(b, CountInt) else \
            Flexible(bits, a.signed and b.signed)
    if isinstance(b, Flexible) or a.signed == b.signed:
        return Int(bits, a.signed)
    unsigned, signed = (b, a) if a.signed else (a, b)
    return Int(max(signed.bits, min(64, unsigned.bits * 2)), True)


def arithmetic_type(a: Int, b: Int) -> Int:
    """Type of ``a + b`` and the like: 64 bits, with the sign of :func:`signed_pair`."""
    if isinstance(a, Flexible) and isinstance(b, Flexible) and not (a.signed and b.signed):
        return Flexible(64, False)
    return Int(64, signed_pair(a, b))


def division_type(a: Int, b: Int) -> Int:
    """Type of ``a / b`` and ``a % b``: unsigned where only uint64 holds one of them."""
    return Int(64, signed_pair(a, b) and not is_sign_undecided(a, b))


def signed_pair(a: Int, b: Int) -> bool:
    """Whether two integers are computed with as signed: if either is. Constants adapt to the other operand."""
    if isinstance(a, Flexible) and isinstance(b, Flexible):
        return True
    if isinstance(a, Flexible):
        return b.signed
    if isinstance(b, Flexible):
        return a.signed
    return a.signed or b.signed


def is_sign_undecided(a: Int, b: Int) -> bool:
    """Whether one type cannot hold the values of both: int64 (or less) beside uint64."""
    return not isinstance(a, Flexible) and not isinstance(b, Flexible) and a.signed != b.signed \
        and (b if a.signed else a).bits == 64


def merge_types(a: Type, b: Type) -> Type | None:
    """The type that holds both values; None if there is no such type. A bool is no integer."""
    if a == b:
        return a
    if isinstance(a, Enum) and isinstance(b, Enum) and a == b:
        return a
    left, right = as_int(a), as_int(b)
    if left is not None and right is not None:
        return merge_ints(left, right) if isinstance(a, Bool) == isinstance(b, Bool) else None
    rule = _MERGE.get(type(a))
    return rule(a, b) if rule is not None and type(a) is type(b) else None


def _merge_pointers(a: Pointer, b: Pointer) -> Type | None:
    """Pointers meet where they point to one type, or to integers, be it by way of other pointers."""
    to: Type | None = a.to if a.to == b.to else None
    if isinstance(a.to, Pointer) and isinstance(b.to, Pointer):
        to = _merge_pointers(a.to, b.to)
    elif isinstance(a.to, Int) and isinstance(b.to, Int):
        to = merge_ints(a.to, b.to)
    return None if to is None else Pointer(to, a.space or b.space)


def moved_pointer(pointer: Pointer) -> Pointer:
    """What a pointer is that something was added to: beside the context there is only memory."""
    return Pointer(pointer.to, KERNEL) if pointer.space == CTX else pointer


def _merge_tuples(a: Tuple, b: Tuple) -> Type | None:
    if not a.has_same_shape(b):
        return None
    merged = [merge_types(x, b.of[at]) for x, at in zip(a.of, b.element_order(a.names))]
    known = tuple([t for t in merged if t is not None])
    return Tuple(known, a.names) if len(known) == len(merged) else None


def _merge_aggregates(a: Aggregate, b: Aggregate) -> Type | None:
    if a.floating != b.floating or a.units != b.units or \
            (a.kind, a.bits, a.low, a.high, a.step, a.agg) != (b.kind, b.bits, b.low, b.high, b.step, b.agg):
        return None
    return a if a.signed else b


_MERGE: dict[type, Callable[..., Type | None]] = {
    Str: lambda a, b: Str(max(a.capacity, b.capacity)),
    Buf: lambda a, b: Buf(max(a.capacity, b.capacity)),
    Float: lambda a, b: Float(max(a.bits, b.bits)),
    Pointer: _merge_pointers,
    Tuple: _merge_tuples,
    Aggregate: _merge_aggregates,
}


def merge_keys(a: Type, b: Type) -> Type | None:
    """Like :func:`merge_types` for map keys: pointers into different memories are only addresses."""
    merged = merge_types(a, b)
    if isinstance(a, Pointer) and isinstance(b, Pointer) and isinstance(merged, Pointer) and a.space != b.space:
        return Pointer(merged.to)
    return merged


def argument_count_text(count: int) -> str:
    """So many arguments, in words."""
    return {0: "no arguments", 1: "one argument"}.get(count, f"{count} arguments")


def read_type(type: Type) -> Type | None:
    """What an aggregate is when a program reads it: an integer for count sum avg min max, else None."""
    if not isinstance(type, Aggregate):
        return type
    if type.kind == "count":
        return Flexible(64, False)
    if type.row.number and not type.floating:
        return INT64 if type.signed else UINT64
    return None


def can_be_condition(type: Type) -> bool:
    """Whether a value of this type may stand in ``if``, ``!``, ``&&`` or a predicate."""
    return as_int(type) is not None or isinstance(type, Pointer)


def meant_equal(node: Expr) -> list[str]:
    """Hints for an invalid condition: ``(comm = "a")`` is a record, but ``==`` was probably meant."""
    return ["did you mean ==?"] if isinstance(node, TupleExpr) and len(node.names) == 1 else []


def is_text_address(type: Type | None) -> bool:
    """Whether a value is a pointer to characters."""
    return isinstance(type, Pointer) and isinstance(type.to, Int) and type.to.bits == 8


def kind_of_type(type: Type) -> str:
    """The kind of a type in messages about arguments: "int", "string", "pointer" ..."""
    if isinstance(type, Symbol) and type.kind in LIBRARY_TEXTS:
        return "string"
    for kind, word in _WORDS:
        if isinstance(type, kind):
            return word
    return "record" if isinstance(type, Tuple) and type.names else "tuple" if isinstance(type, Tuple) else \
        type.kind if isinstance(type, Stack) else type_name(type)


_WORDS: list[tuple[type, str]] = [
    (Int, "int"), (Bool, "bool"), (Enum, "int"), (Str, "string"), (Pointer, "pointer"), (Buf, "buffer"),
    (Array, "array"), (Struct, "c_type"), (Inet, "inet"),
]


def no_match(name: str) -> str:
    """What a call has that fits no form of a function that is a macro of bpftrace's standard library."""
    return f"Call to {name}() has arguments that do not match any definition."


def type_name(type: Type) -> str:
    """A type by its name in messages: "int64", "string[16]", "struct sock *", "kstack_bpftrace_127" ..."""
    type = plain_type(type)
    if isinstance(type, Tuple) and type.names:
        return "record { " + ", ".join(f".{n} = {type_name(t)}" for n, t in zip(type.names, type.of)) + " }"
    if isinstance(type, Tuple):
        return "(" + ",".join(map(type_name, type.of)) + ")"
    if isinstance(type, Stack):
        return f"{type}_{type.mode}_{type.limit}"
    if isinstance(type, Buf):
        return f"buffer[{type.capacity + 4}]"  # with its length
    if isinstance(type, MacAddr):
        return "mac_address"
    if isinstance(type, Inet):
        return "inet[24]"  # the size that bpftrace gives it
    if isinstance(type, Symbol) and type.kind in LIBRARY_TEXTS:
        return "string[64]"
    return f"{type}_t" if isinstance(type, (Symbol, USym)) else str(type)


def written_name(type: Type, syntax: TypeSyntax) -> str:
    """The same of a type that the script spells: strings and buffers have no size of their own there."""
    if syntax.base == "string" and not syntax.dims and syntax.typeof is None:
        return "string" + " *" * syntax.pointers
    if isinstance(type, Buf) and syntax.typeof is None:
        return "buffer[4]" + (f"[{type.capacity}]" if syntax.dims else "")
    return "inet[0]" if isinstance(type, Inet) and syntax.typeof is None else type_name(type)
