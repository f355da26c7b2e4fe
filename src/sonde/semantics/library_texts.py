"""strerror(), signal_name() and syscall_name() give strings. Where one is only printed, is a key or is compared with a
literal, its number stands for it: eight bytes, and the text is looked up when it is printed."""

from __future__ import annotations

from ..language.ast import Call, Expr, StrLiteral, TupleExpr
from ..layouts.c_library_texts import LIBRARY_TEXTS, TEXT_BYTES
from ..spec import Attach
from ..types import INT64, Str, Symbol, Tuple, Type
from .constants import NO_NUMBER, number_called

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from .context import CheckContext

    Side: TypeAlias = tuple[Expr, Type]


def gives_library_text(node: Expr) -> bool:
    """Whether it calls strerror() or the like."""
    return isinstance(node, Call) and node.name in LIBRARY_TEXTS and node.type in (Str(TEXT_BYTES), Symbol(node.name))


def keep_number(node: Expr, type: Type) -> Type:
    """The type of a value that is only printed or used as a key, with numbers in place of library texts."""
    if isinstance(node, Call) and gives_library_text(node):
        node.type = Symbol(node.name)
        return node.type
    if isinstance(node, TupleExpr) and isinstance(type, Tuple) and any(map(gives_library_text, node.items)):
        node.type = Tuple(tuple([keep_number(item, part) for item, part in zip(node.items, type.of)]), type.names)
        return node.type
    return type


def spell_numbers(type: Type) -> Type:
    """The type with strings in place of the numbers of library texts."""
    if isinstance(type, Symbol) and type.kind in LIBRARY_TEXTS:
        return Str(TEXT_BYTES)
    return Tuple(tuple([spell_numbers(part) for part in type.of]), type.names) if isinstance(type, Tuple) else type


def is_of_every_call(point: Attach) -> bool:
    """Whether an event covers all system calls, including those of 32-bit programs."""
    return point.target == "raw_syscalls" or point.kind == "rawtracepoint" and point.event in ("sys_enter", "sys_exit")


def numbers_called(context: CheckContext, first: Side, second: Side) -> tuple[Side, Side]:
    """For ``syscall_name(n) == "write"``: both sides as numbers."""
    if isinstance(first[0], StrLiteral) and gives_library_text(second[0]):
        first, second = numbers_called(context, second, first)
        return second, first
    call, text = first[0], second[0]
    if not isinstance(text, StrLiteral) or not isinstance(call, Call) or not gives_library_text(call):
        return first, second
    if call.name == "syscall_name" and is_of_every_call(context.program.attach) and context.world.has_feature(
            "compat_syscalls"):
        return first, second  # a call of a 32-bit program is so called by another number
    text.const = number_called(call.name, text.value, context.world.arch, context.world.syscall_number)
    text.type = INT64
    if text.const == NO_NUMBER:
        context.advise("unknown-name", f"{call.name}() never yields '{text.value}'", text)
    return (call, keep_number(call, first[1])), (text, text.type)
