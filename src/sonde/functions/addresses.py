"""Addresses, and what is at them."""

from __future__ import annotations

from ..arch import ARCHES
from ..base.words import to_signed
from ..compiler.ir import Operand
from ..compiler.lower import memory, tasks
from ..compiler.lower.arithmetic import as_number
from ..compiler.lower.calls import Function, first_argument
from ..compiler.lower.core import Lower
from ..compiler.lower.probes.contexts import arch_of
from ..compiler.lower.state import Mem
from ..kinds import kinds_with
from ..language.ast import (
    Call,
    Choice,
    FieldAccess,
    Name,
    TypeSyntax,
)
from ..language.diagnostics import nearest_names
from ..semantics.builtins import knows_function
from ..semantics.callees import Rule, Types, choice_of
from ..semantics.context import CheckContext, fold_constant
from ..semantics.expressions import resolve_type
from ..spec import Attach
from ..types import (
    BOOL,
    KERNEL,
    UINT64,
    USER,
    VOID,
    Address,
    Int,
    Pointer,
    Struct,
    Type,
)


def check_kaddr(context: CheckContext, node: Call, types: Types) -> Type | None:
    name = node.args[0].const
    address = context.world.kernel_symbol(name)
    if address is None:
        context.error("unknown-symbol", f"Failed to resolve kernel symbol: {name}", node,
                      ["see /proc/kallsyms; data symbols are there only with CONFIG_KALLSYMS_ALL"])
        return None
    return fold_constant(node, address, UINT64)


class Distance(Choice):
    """What is added to an address known only at run time."""

    bytes: int


def check_percpu_kaddr(context: CheckContext, node: Call, types: Types) -> Type | None:
    """The symbol's value is the variable's offset in each CPU's area."""
    address = context.world.kernel_symbol(node.args[0].const)
    if address is None:
        context.error("unknown-symbol", f'Could not resolve variable "{node.args[0].const}" from BTF', node)
        return None
    node.choice = Distance(address)
    return Pointer(UINT64, KERNEL)


def _lower_percpu_kaddr(lo: Lower, call: Call) -> Operand:
    """The variable's offset plus the CPU's base (__per_cpu_offset[cpu])."""
    table = lo.world.kernel_symbol("__per_cpu_offset")
    number = lo.scalar_value(call.args[1]) if len(call.args) > 1 else lo.b.cpu_number()
    at = lo.b.alu("add", lo.b.mov(to_signed(table or 0)), lo.b.alu("lsh", number, 3))
    base = memory.read_scalar(lo, Mem(at, 0, KERNEL), UINT64)
    address = lo.b.alu("add", base, to_signed(choice_of(call, Distance).bytes))
    if len(call.args) < 2:
        return address
    result = lo.b.function.reg("percpu")  # there is no such CPU: NULL
    lo.select(result, lambda yes, no: lo.b.branch("jlt", number, lo.world.cpus, yes, no), lambda: address, lambda: 0)
    return result


def check_uaddr(context: CheckContext, node: Call, types: Types) -> Type | None:
    name, probe = node.args[0].const, context.program.attach
    variable = context.world.user_object(probe.target, name)
    if variable is None:
        context.error("unknown-symbol", f"Could not resolve symbol: {probe.target}:{name}", node)
        return None
    if not knows_function(context, node):
        return None
    at = _virtual_address(context, probe)
    if at is None:
        context.error("unknown-symbol", f"{probe.target} has no symbols around {probe.name}", node)
        return None
    node.choice = Distance(variable[0] - at)
    bits = variable[1] * 8 if variable[1] in (1, 2, 4, 8) else 64
    return Pointer(Int(bits), USER)


def _virtual_address(context: CheckContext, probe: Attach) -> int | None:
    """The virtual address of a file offset, by a function that begins before it."""
    before = [f for f in context.world.user_functions(probe.target) if f.offset <= probe.offset]
    if not before:
        return None
    nearest = max(before, key=lambda f: f.offset)
    return nearest.address + probe.offset - nearest.offset


def _lower_uaddr(lo: Lower, call: Call) -> Operand:
    """Address of a symbol in the probed file, derived from where the probe fired."""
    return lo.b.alu("add", tasks.traced_address(lo), choice_of(call, Distance).bytes)


def pointer_rule(space: str) -> Rule:
    """kptr() and uptr(): the same address in the named memory."""
    def check_pointer(context: CheckContext, node: Call, types: Types) -> Type | None:
        return Pointer(types[0].to, space) if isinstance(types[0], Pointer) else Address(VOID, space)
    return check_pointer


def check_container_of(context: CheckContext, node: Call, types: Types) -> Type | None:
    if not isinstance(node.args[1], TypeSyntax):
        context.error("bad-argument", "container_of() expects a type as second argument", node.args[1])
        return None
    type = resolve_type(context, node.args[1])
    part = node.args[2]
    names: list[str] = []
    while isinstance(part, FieldAccess):
        names.insert(0, part.name)
        part.type = VOID
        part = part.operand
    if not isinstance(part, Name):
        context.error("bad-argument", "container_of() expects the name of a member as third argument", node.args[2])
        return None
    part.type = VOID
    offset, inner = 0, type
    for name in [part.name, *names]:
        field = inner.field(name) if isinstance(inner, Struct) else None
        if field is None:
            if inner is not None:
                context.error("unknown-field", f"'{inner}' has no field named '{name}'", node.args[2])
            return None
        offset, inner = offset + field.offset, field.type
    node.choice = Distance(-offset)
    assert type is not None
    return Pointer(type, context.pointer_space(types[0]))


def _lower_container_of(lo: Lower, call: Call) -> Operand:
    return lo.b.alu("sub", as_number(lo, lo.scalar_value(call.args[0])), -choice_of(call, Distance).bytes)


def check_reg(context: CheckContext, node: Call, types: Types) -> Type | None:
    name, known = node.args[0].const, ARCHES[context.world.arch].registers
    if name not in known:
        context.error("unknown-register", f"'{name}' is not a valid register on this architecture "
                      f"({context.world.arch})", node,
                      [f"did you mean {c}?" for c in nearest_names(str(name), known)[:1]]
                      or [f"one of: {', '.join(known)}"])
        return None
    return UINT64


def _lower_reg(lo: Lower, call: Call) -> Operand:
    return lo.context.register(lo, arch_of(lo).registers[call.args[0].const])  # type: ignore[no-any-return]



ROWS = (
    Function("kaddr", ("symbol:literal",), None, "Address of a kernel symbol.", 'kaddr("jiffies")', check_kaddr,
             machine=True),
    Function("percpu_kaddr", ("symbol:literal", "cpu:int?"), None, "Address of a per-CPU variable of the kernel.",
             'percpu_kaddr("process_counts")', check_percpu_kaddr, machine=True, scalar=_lower_percpu_kaddr),
    Function("uaddr", ("symbol:literal",), None, "Address of a user symbol.", 'uaddr("ps1_prompt")', check_uaddr,
             machine=True, probes=("uprobe", "uretprobe"), macro=True,
             wrong={"probe": '__builtin_uaddr can not be used with "{kind}" probes',
                    "symbol": "__builtin_uaddr() expects a string literal as the first argument"},
             scalar=_lower_uaddr),
    Function("kptr", ("pointer:integer|ptr",), None, "The pointer, into kernel memory.", "kptr($p)",
             pointer_rule("kernel"), scalar=first_argument),
    Function("uptr", ("pointer:integer|ptr",), None, "The pointer, into user memory.", "uptr($p)", pointer_rule("user"),
             scalar=first_argument),
    Function("container_of", ("pointer:ptr|int", "type:raw", "member:raw"), None, "The object that holds a member.",
             "container_of($l, struct task_struct, tasks)", check_container_of, macro=True,
             scalar=_lower_container_of),
    Function("is_err", ("pointer:ptr|int",), BOOL, "Whether a pointer is an error number.", "is_err($p)",
             library="values", macro=True),
    Function("reg", ("name:literal",), UINT64, "A register of the traced code.", 'reg("ip")', check_reg,
             machine=True, probes=kinds_with("registers"), scalar=_lower_reg),
)
