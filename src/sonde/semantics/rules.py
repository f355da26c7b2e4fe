"""The type rules of functions: ``rule(context, node, types)`` is the type of the call's value, None after an error.

``types`` are the arguments' types; None stands for an argument that is no value (a map, a name).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arch import ARCHES
from ..language.ast import (
    Binary,
    BoolLiteral,
    Call,
    Expr,
    FieldAccess,
    IntLiteral,
    Name,
    Positional,
    StrLiteral,
    TypeSyntax,
    Unary,
)
from ..language.diagnostics import nearest_names
from ..language.lexer import parse_integer
from ..numerals import parse_whole
from ..spec import Attach
from ..types import (
    BOOL,
    INT64,
    KERNEL,
    UINT8,
    UINT64,
    USER,
    VOID,
    Address,
    Array,
    Buf,
    Enum,
    Inet,
    Int,
    Pointer,
    Str,
    Struct,
    Symbol,
    Timestamp,
    Type,
)
from . import convert
from .builtins import knows_function
from .constants import signal_number
from .context import CheckContext, fold_constant
from .expressions import MAX_STRING, resolve_type
from .formats import check_format, parse_format

Types = Sequence[Any]  # Type | None
Rule = Callable[[CheckContext, Call, Types], "Type | None"]


# --- output -----------------------------------------------------------------------------------------------


def check_formatted(context: CheckContext, node: Call, types: Types) -> Type | None:
    parts = check_format(context, node)
    node.data = parts
    return None if parts is None else VOID


def check_time(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"format": text}."""
    node.data = {"format": node.args[0].const if node.args else "%H:%M:%S\n"}
    return VOID


def check_strftime(context: CheckContext, node: Call, types: Types) -> Type | None:
    given = node.args[1]
    data = given.data if isinstance(given, Call) and given.name == "nsecs" else None
    clock = data.get("clock", "boot") if isinstance(data, dict) else "boot"
    return Timestamp(node.args[0].const, "tai" if clock == "sw_tai" else clock)


def check_join(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"separator": text}."""
    given = types[0]
    element = given.to if isinstance(given, Pointer) else given.of if isinstance(given, Array) else None
    if not isinstance(element, (Pointer, Array)) and convert.as_int(given) is None:
        context.error("bad-argument", f"join() expects an array of strings ({convert.type_name(given)} provided)",
                      node.args[0])
        return None
    node.data = {"separator": node.args[1].const if len(node.args) > 1 else " "}
    return VOID


# --- strings and bytes ------------------------------------------------------------------------------------


def _size_argument(context: CheckContext, node: Call, at: int, most: int = 0) -> int | None:
    """Capacity asked for by argument ``at``: its constant up to ``most`` (max_strlen), else that; None if wrong."""
    most = most or context.config.max_strlen
    if len(node.args) <= at:
        return most
    arg = node.args[at]
    if context.check_value(arg, f"{node.name}()") is None:
        return None
    if convert.as_int(arg.type) is None:
        context.error("bad-argument",
                      f"{node.name}() only supports int arguments ({convert.kind_of_type(arg.type)} provided)",
                      node)
        return None
    if not isinstance(arg.const, int):
        return most
    if arg.const < 0 or arg.const > MAX_STRING:
        wrong = f"cannot use negative length ({arg.const})" if arg.const < 0 else \
            f"length must be between 0 and {MAX_STRING} ({arg.const} provided)"
        context.error("bad-argument", f"{node.name}: {wrong}", node)
        return None
    return max(1, min(arg.const, most))


def check_str(context: CheckContext, node: Call, types: Types) -> Type | None:
    """A C string read from memory; ``str($1)`` is the parameter's text, a constant, and so are literals."""
    data = node.args[0]
    size = _size_argument(context, node, 1, context.config.text_size)
    if _fold_parameter_text(context, node, data):
        return _shortened_type(node)
    given = None if isinstance(data, TypeSyntax) else context.check_value(data, "str()")
    if given is None or size is None:
        return None
    fixed = len(node.args) < 2 or node.args[1].const is not None
    if fixed and isinstance(given, (Int, Str)) and data.const is not None and _is_literal_value(data):
        node.const = str(data.const)
        return _shortened_type(node)
    if isinstance(given, Str):
        return Str(min(size, given.capacity) if len(node.args) > 1 else given.capacity)
    if isinstance(given, (Int, Pointer)) or isinstance(given, Array) and given.of.size == 1:
        return Str(size)
    context.error("bad-argument", f"str() expects a string, integer or a pointer type as first argument "
                  f"({convert.type_name(given)} provided)", node)
    return None


def _is_literal_value(expr: Expr) -> bool:
    """Is the value in the script itself: literals, and what is reckoned of them?"""
    if isinstance(expr, Binary):
        return _is_literal_value(expr.left) and _is_literal_value(expr.right)
    return _is_literal_value(expr.operand) if isinstance(expr, Unary) else isinstance(expr, (IntLiteral, StrLiteral))


def _shortened_type(node: Call) -> Str:
    """The type of a constant str(), cut to the length that is given."""
    limit = node.args[1].const if len(node.args) > 1 else None
    text = str(node.const).encode("utf-8", "surrogateescape")[:limit if isinstance(limit, int) else None]
    node.const = text.decode("utf-8", "surrogateescape")
    return Str(len(text) + 1)


def _fold_parameter_text(context: CheckContext, node: Call, data: Any) -> bool:
    """``str($1)`` or ``str($1 + n)``: makes ``node`` the constant text."""
    skip = 0
    positional = data
    if isinstance(data, Binary) and data.op == "+" and isinstance(data.left, Positional) \
            and isinstance(data.right, IntLiteral):
        positional, skip = data.left, data.right.value
    if not isinstance(positional, Positional) or positional.number == 0:
        return False
    params = context.options.params
    text = params[positional.number - 1] if positional.number <= len(params) else ""
    if skip > len(text):
        context.error("bad-argument", f"cannot use offset that exceeds string size ({skip} > {len(text)})", data)
    node.const = text[skip:]
    for part in (data, positional, getattr(data, "right", None)):
        if isinstance(part, Expr):
            part.type = UINT64
    return True


def check_buf(context: CheckContext, node: Call, types: Types) -> Type | None:
    given = None if isinstance(node.args[0], TypeSyntax) else context.check_value(node.args[0], "buf()")
    size = _size_argument(context, node, 1)
    if given is None or size is None:
        return None
    if isinstance(given, (Array, Str)) and given.size:
        return Buf(given.size if len(node.args) == 1 else min(size, given.size))
    if not isinstance(given, (Int, Pointer, Array)):
        context.error("bad-argument", f"buf() expects a string, integer or a pointer type as first argument "
                      f"({convert.type_name(given)} provided)", node)
        return None
    if len(node.args) == 1:
        if not isinstance(given, Pointer) or not isinstance(given.to, Array):
            context.error("arity", "buf() expects a length argument for non-array type "
                          f"{convert.kind_of_type(given)}", node)
            return None
        return Buf(given.to.size)
    return Buf(size)


def check_path(context: CheckContext, node: Call, types: Types) -> Type | None:
    size = _size_argument(context, node, 1)
    return None if size is None else Str(size)


def check_strncmp(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"length": n}; folded if both are literals."""
    left, right, length = [arg.const for arg in node.args]
    if length < 0:
        context.error("bad-argument", "Builtin strncmp requires a non-negative literal", node)
        return None
    node.data = {"length": length}
    if isinstance(left, str) and isinstance(right, str):
        return fold_constant(node, int(left[:length] != right[:length]), INT64)
    return INT64


def check_bswap(context: CheckContext, node: Call, types: Types) -> Type | None:
    number = convert.as_int(types[0])
    assert number is not None
    found = Int(number.bits, False)
    value = node.args[0].const
    if isinstance(value, int):
        size = number.bits // 8
        node.const = int.from_bytes(convert.wrap_int(value, found).to_bytes(size, "little"), "big")
    return found


def check_memcmp(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"length": n}."""
    for arg, type in zip(node.args[:2], types):
        if type.size < node.args[2].const and not isinstance(type, Pointer):
            context.error("bad-argument", f"memcmp() reads {node.args[2].const} bytes of {type.size}", arg)
            return None
    node.data = {"length": node.args[2].const}
    return INT64


# --- addresses --------------------------------------------------------------------------------------------


def check_ntop(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"family": 2 or 10, 0 if known at run time only, "af": expression or None, "address": expression}."""
    address, type = node.args[-1], types[-1]
    number = convert.as_int(type)
    size = type.size if isinstance(type, (Array, Str)) else 4
    if number is None and not isinstance(type, (Array, Str)) or size not in (4, 16):
        sized = isinstance(type, (Array, Str))
        context.error("bad-argument", "ntop() argument must be 4 or 16 bytes in size" if sized else
                      f"ntop() expects an integer or array argument, got {convert.kind_of_type(type)}", node)
        return None
    af = node.args[0] if len(node.args) == 2 else None
    family = {4: 2, 16: 10}[size] if af is None else 0
    if af is not None and convert.as_int(types[0]) is None:
        context.error("bad-argument", f"ntop() only supports int arguments ({convert.kind_of_type(types[0])} provided)",
                      node)
        return None
    if af is not None and isinstance(af.const, int):
        family = af.const
        if family not in (2, 10):
            context.error("bad-argument", f"ntop() knows AF_INET and AF_INET6, not family {family}", af)
            return None
    node.data = {"family": family, "af": af, "address": address}
    return Inet()


def check_pton(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"family": 2 or 10, "bytes": the address}."""
    import socket
    text = node.args[0].const
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        found = socket.inet_pton(family, text)
    except (OSError, ValueError):
        context.error("bad-argument", f"pton() expects a valid IPv4/IPv6 address, got {text}", node)
        return None
    node.data = {"family": int(family), "bytes": found}
    return Array(UINT8, len(found))


def check_macaddr(context: CheckContext, node: Call, types: Types) -> Type | None:
    from ..types import MacAddr
    given = types[0]
    if isinstance(given, (Array, Str)) and given.size < 6:
        context.error("bad-argument", "macaddr() argument must be at least 6 bytes in size", node)
        return None
    return MacAddr()


def check_kaddr(context: CheckContext, node: Call, types: Types) -> Type | None:
    name = node.args[0].const
    address = context.world.kernel_symbol(name)
    if address is None:
        context.error("unknown-symbol", f"Failed to resolve kernel symbol: {name}", node,
                      ["see /proc/kallsyms; data symbols are there only with CONFIG_KALLSYMS_ALL"])
        return None
    return fold_constant(node, address, UINT64)


def check_percpu_kaddr(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"address": offset of the variable in the per-CPU area}."""
    address = context.world.kernel_symbol(node.args[0].const)
    if address is None:
        context.error("unknown-symbol", f'Could not resolve variable "{node.args[0].const}" from BTF', node)
        return None
    node.data = {"address": address}
    return Pointer(UINT64, KERNEL)


def check_uaddr(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"distance": from where the probe is to the symbol}."""
    name, probe = node.args[0].const, context.program.attach
    found = context.world.user_object(probe.target, name)
    if found is None:
        context.error("unknown-symbol", f"Could not resolve symbol: {probe.target}:{name}", node)
        return None
    if not knows_function(context, node):
        return None
    at = _virtual_address(context, probe)
    if at is None:
        context.error("unknown-symbol", f"{probe.target} has no symbols around {probe.name}", node)
        return None
    node.data = {"distance": found[0] - at}
    bits = found[1] * 8 if found[1] in (1, 2, 4, 8) else 64
    return Pointer(Int(bits, False), USER)


def _virtual_address(context: CheckContext, probe: Attach) -> int | None:
    """The virtual address of a file offset, by a function that begins before it."""
    before = [f for f in context.world.user_functions(probe.target) if f.offset <= probe.offset]
    if not before:
        return None
    nearest = max(before, key=lambda f: f.offset)
    return nearest.address + probe.offset - nearest.offset


def pointer_rule(space: str) -> Rule:
    """kptr() and uptr(): the same address in the named memory."""
    def check_pointer(context: CheckContext, node: Call, types: Types) -> Type | None:
        return Pointer(types[0].to, space) if isinstance(types[0], Pointer) else Address(VOID, space)
    return check_pointer


def check_container_of(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"offset": bytes to subtract}."""
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
    node.data = {"offset": offset}
    assert type is not None
    return Pointer(type, context.pointer_space(types[0]))


def check_reg(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"register": name}."""
    name, known = node.args[0].const, ARCHES[context.world.arch].registers
    if name not in known:
        context.error("unknown-register", f"'{name}' is not a valid register on this architecture "
                      f"({context.world.arch})", node,
                      [f"did you mean {c}?" for c in nearest_names(str(name), known)[:1]]
                      or [f"one of: {', '.join(known)}"])
        return None
    node.data = {"register": name}
    return UINT64


# --- the rest ---------------------------------------------------------------------------------------------


def check_signal(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"signal": number, or None if it is known at run time only}."""
    given = node.args[0].const
    if isinstance(given, str):
        number = parse_whole(given) if given.isdigit() else signal_number(given)
        if number is None:
            context.error("bad-argument", f"{given} is not a valid signal", node.args[0])
            return None
        given = number
    if isinstance(given, int) and not 0 < given < 65:
        context.error("bad-argument", f"{given} is not a valid signal, allowed range: [1,64]", node.args[0])
        return None
    node.data = {"signal": given}
    return VOID


def check_cgroup_path(context: CheckContext, node: Call, types: Types) -> Type:
    return Symbol("cgroup_path", node.args[1].const if len(node.args) > 1 else "")


def check_cgroupid(context: CheckContext, node: Call, types: Types) -> Type | None:
    found = context.world.cgroup_id(node.args[0].const)
    if found is None:
        context.error("unknown-cgroup", f"No cgroup at '{node.args[0].const}'", node.args[0])
        return None
    return fold_constant(node, found, UINT64)


def check_static_assert(context: CheckContext, node: Call, types: Types) -> Type | None:
    if not isinstance(node.args[0].const, int):
        context.error("not-constant", "Unable to resolve comptime expression", node)
    elif not node.args[0].const:
        context.error("static-assert", node.args[1].const if len(node.args) > 1 else "static_assert failed", node)
    return VOID


def check_fail(context: CheckContext, node: Call, types: Types) -> Type | None:
    if check_format(context, node) is None:
        return None
    values = [arg.const for arg in node.args[1:] if isinstance(arg, Expr)]
    parts = parse_format(node.args[0].const)
    assert isinstance(parts, list)
    if any(v is None for v in values):
        context.error("not-constant", "fail() arguments need to be literals", node)
        return None
    text = ""
    for part in parts:
        text += part.literal if not part.conversion else str(values.pop(0))
    context.error("fail", text, node)
    return VOID


def check_comptime(context: CheckContext, node: Call, types: Types) -> Type | None:
    found: Type | None = types[0]
    if node.args[0].const is None:
        context.error("not-constant", "Unable to resolve comptime expression", node)
        return None
    node.const = node.args[0].const
    return found


def check_getopt(context: CheckContext, node: Call, types: Types) -> Type | None:
    """A named parameter, of the type of its default; a constant."""
    name = node.args[0].const
    default = node.args[1] if len(node.args) > 1 else None
    given = context.options.named.get(name)
    shown = "false" if default is None or default.const is None else \
        str(bool(default.const)).lower() if isinstance(default, BoolLiteral) else str(default.const)
    known = context.defaults.setdefault(name, (shown, isinstance(default, StrLiteral)))
    if known != (shown, isinstance(default, StrLiteral)):
        context.error("other-default", f"Command line option '{name}' needs to have the same default value in all "
                      f"places it is used. Previous default value: {known[0]}", node)
        return None
    if default is None or isinstance(default, BoolLiteral):
        if given is None:
            return fold_constant(node, int(default.value) if default is not None else 0, BOOL)
        if given.lower() not in ("", "true", "1", "false", "0"):
            context.diagnostics.error("bad-parameter", f"program command line option --{name} expects a boolean "
                                      f"(e.g. 'true') (value: {given})", None)
        return fold_constant(node, int(given.lower() in ("", "true", "1")), BOOL)
    if isinstance(default.const, str):
        node.const = given if given is not None else default.const
        return Str(len(str(node.const).encode("utf-8", "surrogateescape")) + 1)
    if not isinstance(default.const, int):
        context.error("not-constant", "Second argument to 'getopt' must be a string literal, integer literal, or a "
                      "boolean literal.", default)
        return None
    return fold_constant(node, default.const) if given is None else _given_number(context, node, name, given)


def _given_number(context: CheckContext, node: Call, name: str, given: str) -> Type | None:
    """A number on the command line, with or without a sign, as 64 bits without one."""
    number = parse_integer(given.removeprefix("-"))
    wrong = "expects an integer (value: true)" if given == "" else f"invalid integer (value: {given})" \
        if number is None else f"value is out of range (value: {given})" if number >> 64 else ""
    if number is None or wrong:
        context.diagnostics.error("bad-parameter", f"program command line option --{name} {wrong}", None)
        return None
    return fold_constant(node, (-number if given.startswith("-") else number) % (1 << 64), UINT64)


def predicate_rule(test: Callable[[Type, Expr], bool]) -> Rule:
    """is_str() and the like: a constant about an expression's type."""
    def check_predicate(context: CheckContext, node: Call, types: Types) -> Type | None:
        return fold_constant(node, int(test(types[0], node.args[0])), BOOL)
    return check_predicate


def check_strcap(context: CheckContext, node: Call, types: Types) -> Type | None:
    given = types[0]
    return fold_constant(node, given.size if isinstance(given, (Str, Array)) else context.config.max_strlen, INT64)


_PERF = ("perf_event",)
PROGRAMS = {  # the types of program that a probe may become; see compiler/plan.py
    "begin": ("raw_tracepoint",), "end": ("raw_tracepoint",), "self": ("raw_tracepoint",), "test": ("raw_tracepoint",),
    "bench": ("raw_tracepoint",), "rawtracepoint": ("raw_tracepoint",), "tracepoint": ("raw_tracepoint", "tracepoint"),
    "kprobe": ("kprobe",), "kretprobe": ("kprobe",), "uprobe": ("kprobe",), "uretprobe": ("kprobe",),
    "usdt": ("kprobe",), "profile": _PERF, "interval": _PERF, "software": _PERF, "hardware": _PERF, "watchpoint": _PERF,
}


def check_kfunc(context: CheckContext, node: Call, types: Types) -> Type | None:
    """Whether there is such a kfunc, and for kfunc_allowed() whether programs of this probe may call it."""
    name = node.args[0].const
    types_of = PROGRAMS.get(context.program.kind, ("tracing",)) if node.name == "kfunc_allowed" else ()
    wanted = [f"kfunc_{name}", *[f"kfunc_{name}@{type}" for type in types_of]]
    return fold_constant(node, int(all(context.world.has_feature(feature) for feature in wanted)), BOOL)


IS_STR = predicate_rule(lambda type, node: isinstance(type, Str))
IS_PTR = predicate_rule(lambda type, node: isinstance(type, Pointer))
IS_ARRAY = predicate_rule(lambda type, node: isinstance(type, Array))
IS_INTEGER = predicate_rule(lambda type, node: isinstance(type, (Int, Enum)))
IS_UNSIGNED = predicate_rule(lambda type, node: isinstance(type, (Int, Enum)) and not type.signed)
IS_LITERAL = predicate_rule(lambda type, node: isinstance(node, (IntLiteral, StrLiteral, BoolLiteral)))
