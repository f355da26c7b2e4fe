"""The type rules of functions that act on the system or look at the program itself: debugf() and skboutput(),
write_user() and override(), str_concat(), str_join() and globmatch(), typeinfo()."""

from __future__ import annotations

from ..language.ast import Call, Expr, IntLiteral, StrLiteral, TypeSyntax
from ..types import (
    BOOL,
    BPF,
    INT32,
    INT64,
    UINT32,
    UINT64,
    VOID,
    Address,
    Array,
    Bool,
    Buf,
    Enum,
    Inet,
    Int,
    Pointer,
    Stack,
    Str,
    Struct,
    Tuple,
    Type,
)
from . import convert
from .context import CheckContext, fold_constant
from .expressions import MAX_STRING, resolve_type
from .formats import check_format
from .rules import Types, check_join

# --- the kernel's own printf ------------------------------------------------------------------------------

PRINTK_ARGUMENTS = 12  # MAX_BPRINTF_VARARGS in include/linux/bpf.h


def check_debugf(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: the format's parts. The kernel's printf takes integers, pointers and strings."""
    if node.name == "debugf":
        context.warning("not-for-production", "The debugf() builtin is not recommended for production use. For "
                        "more information see bpf_trace_printk in bpf-helpers(7).", node)
    parts = check_format(context, node)
    if parts is None:
        return None
    if len(node.args) > PRINTK_ARGUMENTS + 1:
        context.error("arity", f"{node.name}() prints at most {PRINTK_ARGUMENTS} values", node)
        return None
    for part, arg in zip([p for p in parts if p.conversion], node.args[1:]):
        fits = part.conversion in "diuxXpc" and len(part.conversion) == 1 or isinstance(arg.type, Str)
        if not fits or "." in part.spec or "#" in part.spec:
            context.error("format-type", f"{node.name}: the kernel cannot print "
                          f"%{part.spec}{part.conversion} of '{convert.kind_of_type(arg.type)}'", arg,
                          ["it knows %d %u %x %p %c, and %s of strings, with a width"
                           + ("; printf() knows all" if node.name == "debugf" else "")])
            return None
    node.data = parts
    return VOID


# --- packets ----------------------------------------------------------------------------------------------

PACKET = 2048  # bytes kept of a packet whose length is only known at run time
LARGEST_PACKET = 65535


def check_skboutput(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"capacity": most bytes that are kept}."""
    target = types[1].to if isinstance(types[1], Pointer) else None
    if not isinstance(target, Struct) or target.name != "sk_buff":
        context.error("bad-argument", f"skboutput() only supports struct sk_buff pointer arguments "
                      f"({convert.type_name(types[1])} provided)", node,
                      ["cast it: (struct sk_buff *)args.skbaddr"])
        return None
    length = node.args[2].const
    if isinstance(length, int) and not 0 < length <= LARGEST_PACKET:
        context.error("bad-argument", f"skboutput: length must be between 1 and {LARGEST_PACKET} ({length} provided)",
                      node.args[2])
        return None
    node.data = {"capacity": length if isinstance(length, int) else PACKET}
    return INT32


def check_socket_cookie(context: CheckContext, node: Call, types: Types) -> Type | None:
    target = types[0].to if isinstance(types[0], Pointer) else None
    name = target.name if isinstance(target, Struct) else ""
    if name in ("sock", "sock_common", "inet_sock", "tcp_sock", "udp_sock", "unix_sock") or types[0] is None:
        return UINT64
    context.error("bad-argument",
                  f"socket_cookie() expects a struct sock pointer ({convert.type_name(types[0])} provided)",
                  node.args[0], ["a socket has its sock: $socket.sk"] if name == "socket" else [])
    return None


# --- user memory ------------------------------------------------------------------------------------------


def check_write_user(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"length": bytes}; a source that points to BPF memory is what is written, else the value itself."""
    source = types[1]
    assert source is not None
    if not context.world.has_feature("write_user"):
        context.error("missing-feature", "this kernel lets no program write user memory", node,
                      ["it may be locked down: /sys/kernel/security/lockdown"])
        return None
    by_address = isinstance(source, Pointer) and source.space == BPF
    size = source.to.size if isinstance(source, Pointer) and by_address else source.size
    length = node.args[2].const if len(node.args) > 2 else size
    if not 0 < length <= size:
        context.error("bad-argument", f"write_user: length must be between 1 and {size}, the size of what is written "
                      f"({length} provided)", node.args[-1])
        return None
    node.data = {"length": length, "by_address": by_address}
    return INT64


def check_unwatch(context: CheckContext, node: Call, types: Types) -> Type | None:
    context.error("not-supported", "unwatch() belonged to watchpoints that were set while tracing", node,
                  ["a watchpoint lasts as long as the trace; a predicate can turn its events away"])
    return None


def check_override(context: CheckContext, node: Call, types: Types) -> Type | None:
    if not context.world.has_feature("override"):
        context.error("missing-feature", "this kernel has no error injection (CONFIG_BPF_KPROBE_OVERRIDE)", node)
        return None
    return VOID


# --- strings ----------------------------------------------------------------------------------------------


PATIENCE = 8  # passes after which a string that still grows is taken to feed itself


def check_str_concat(context: CheckContext, node: Call, types: Types) -> Type | None:
    capacity = 1 + sum(type.capacity - 1 for type in types)
    if all(isinstance(arg.const, str) for arg in node.args):
        node.const = "".join([arg.const for arg in node.args])
        capacity = len(node.const.encode("utf-8", "surrogateescape")) + 1
    elif context.passes > PATIENCE and isinstance(node.type, Str) and capacity > node.type.capacity:
        capacity = max(node.type.capacity, context.config.text_size)  # $s = str_concat($s, ...) would grow for ever
    return Str(min(capacity, MAX_STRING))


def check_str_join(context: CheckContext, node: Call, types: Types) -> Type | None:
    """As long as str() makes them, so that one that was cut is marked as its are."""
    return None if check_join(context, node, types) is None else Str(context.config.text_size)


def check_globmatch(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: {"pattern": segments between the stars, see glob()}; folded if both are literals."""
    segments = parse_glob(node.args[1].const)
    node.data = {"pattern": segments}
    text = node.args[0].const
    if isinstance(text, str):
        return fold_constant(node, int(glob_matches(segments, text.encode("utf-8", "surrogateescape"))), BOOL)
    return BOOL


Segment = list[frozenset[int]]  # which bytes each character may be


def parse_glob(pattern: str) -> list[Segment]:
    """The pieces of a pattern between its stars: ``a*b`` has two, ``a`` has one."""
    text = pattern.encode("utf-8", "surrogateescape")
    any_byte = frozenset(range(1, 256))
    segments: list[Segment] = [[]]
    at = 0
    while at < len(text):
        end = text.find(b"]", at + (3 if text[at + 1:at + 2] == b"!" else 2)) if text[at] == ord("[") else -1
        if text[at] == ord("*"):
            segments.append([])
        elif text[at] == ord("?"):
            segments[-1].append(any_byte)
        elif end > 0:
            negated = text[at + 1] == ord("!")
            listed = _parse_byte_class(text[at + 1 + negated:end])
            segments[-1].append(any_byte - listed if negated else listed)
            at = end
        else:
            segments[-1].append(frozenset([text[at]]))
        at += 1
    return segments


def _parse_byte_class(text: bytes) -> frozenset[int]:
    """The bytes of ``a-z_``."""
    found: set[int] = set()
    at = 0
    while at < len(text):
        if text[at + 1:at + 2] == b"-" and at + 2 < len(text):
            found.update(range(text[at], text[at + 2] + 1))
            at += 3
        else:
            found.add(text[at])
            at += 1
    return frozenset(found)


def glob_matches(segments: list[Segment], text: bytes) -> bool:
    """Whether a text matches a pattern: each piece is looked for as early as possible, the last at the end."""
    def segment_fits(segment: Segment, at: int) -> bool:
        return 0 <= at <= len(text) - len(segment) and all(text[at + i] in s for i, s in enumerate(segment))
    if not segment_fits(segments[0], 0):
        return False
    at = len(segments[0])
    if len(segments) == 1:
        return at == len(text)
    for segment in segments[1:-1]:
        found = next((i for i in range(at, len(text) + 1) if segment_fits(segment, i)), None)
        if found is None:
            return False
        at = found + len(segment)
    last = len(text) - len(segments[-1])
    return last >= at and segment_fits(segments[-1], last)


# --- types ------------------------------------------------------------------------------------------------

_BASES: list[tuple[type | tuple[type, ...], str]] = [
    (Bool, "bool"), ((Enum, Int, Address), "int"), (Pointer, "pointer"), (Str, "string"), (Array, "array"),
    (Buf, "buffer"), (Struct, "c_type"), (Inet, "inet")]


def check_typeinfo(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: literals for the members btf_id (always 0, as in bpftrace), base_type and full_type of the record."""
    from .map_rules import report_unstable
    report_unstable(context, node, "typeinfo", context.config.unstable_typeinfo)
    subject = node.args[0]
    type = resolve_type(context, subject) if isinstance(subject, TypeSyntax) else \
        context.aggregate_of(subject) or context.check_value(subject, "typeinfo()")
    if type is None:
        return None
    plain = convert.plain_type(type)
    node.data = [_make_literal(node, 0), _make_literal(node, _base(plain)),
                 _make_literal(node, convert.type_name(plain))]
    return Tuple(tuple([item.type for item in node.data]), ("btf_id", "base_type", "full_type"))


def _base(type: Type) -> str:
    if isinstance(type, Tuple):
        return "record" if type.names else "tuple"
    return next((word for kind, word in _BASES if isinstance(type, kind)),
                str(type) if isinstance(type, Stack) else convert.type_name(type))


def _make_literal(node: Expr, value: int | str) -> Expr:
    made: Expr
    if isinstance(value, str):
        made = StrLiteral(node.span, value=value)
        made.type = Str(len(value) + 1)
    else:
        made = IntLiteral(node.span, value=value)
        made.type = UINT32
    made.const = value
    return made
