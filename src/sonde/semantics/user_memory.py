"""Arguments of kernel functions that point into the memory of the process that made a system call.

Type information marks them (``__user``) where the compiler that built the kernel writes type tags, as clang does.
Elsewhere the tracepoint of the system call tells: the pointers among its fields all come from the caller
(include/linux/syscalls.h), and the functions that serve it have arguments of the same names.
"""

from __future__ import annotations

from ..base import regex_cache
from ..kinds import KINDS
from ..language.ast import Call, Expr, FieldAccess
from ..types import KERNEL, Pointer
from .context import CheckContext
from .nodes import is_args

_SERVES = r"(?:__do_|__se_|__|do_|k)?sys_(\w+)"
_OTHERS = {"vfs_read": "read", "vfs_write": "write", "getname": "openat", "getname_flags": "openat"}


def advise_of_user_memory(context: CheckContext, call: Call, pointer: Expr) -> None:
    """Warn that ``call`` reads an argument as kernel memory that points into a program's memory."""
    if not isinstance(pointer, FieldAccess) or not is_args(pointer.operand) or not isinstance(pointer.type, Pointer) \
            or pointer.type.space not in ("", KERNEL):
        return
    kind = KINDS[context.program.kind]
    if kind.user or not kind.function:
        return
    function = context.program.attach.event
    match = regex_cache.fullmatch(_SERVES, function)
    served = _OTHERS.get(function) or (match[1] if match is not None else "")
    format = context.world.tracepoint_format("syscalls", f"sys_enter_{served}") if served else None
    field = format.args.field(pointer.name) if format is not None else None
    if field is not None and isinstance(field.type, Pointer):
        context.advise("user-memory", f"args.{pointer.name} of {function} points into the memory of the program that "
                       "made the system call, and is read as the kernel's", pointer,
                       [f"write {call.name}(uptr(args.{pointer.name}))"])
