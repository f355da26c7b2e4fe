"""What is decided at compile time: assertions, parameters of the script, what the kernel has, types."""

from __future__ import annotations

from ..compiler.ir import BasicBlock
from ..compiler.lower.calls import Function
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..kinds import KINDS
from ..language.ast import (
    AttachPoint,
    Binary,
    BoolLiteral,
    Call,
    Choice,
    Expr,
    IntLiteral,
    Positional,
    RuledOut,
    StrLiteral,
    Ternary,
    TupleExpr,
    TypeSyntax,
    Unary,
)
from ..language.diagnostics import Diagnostics
from ..language.lexer import parse_integer
from ..semantics import convert
from ..semantics.callees import Rule, Types, choice_of, value_type
from ..semantics.config import FALSE, TRUE
from ..semantics.context import CheckContext, fold_constant
from ..semantics.expressions import resolve_type
from ..semantics.finder import ProbeFinder
from ..semantics.formats import check_format, parse_format
from ..semantics.nodes import walk_nodes
from ..semantics.providers import find_provider
from ..semantics.script_options import Options
from ..semantics.typed import Literals
from ..semantics.world import World
from ..source import Span
from ..spec import Config
from ..types import (
    BOOL,
    INT64,
    NOTHING,
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _lower_nothing(lo: Lower, call: Call) -> None:
    """Nothing: it is checked at compile time."""


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
    type: Type | None = types[0]
    if node.args[0].const is None:
        context.error("not-constant", "Unable to resolve comptime expression", node)
        return None
    node.const = node.args[0].const
    return type


# --- parameters of the script ---------------------------------------------------------------------------


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
        if given and given.lower() not in TRUE + FALSE:
            context.diagnostics.error("bad-parameter", f"program command line option --{name} expects a boolean "
                                      f"(e.g. 'true') (value: {given})", None)
        return fold_constant(node, int(_is_set(given, default)), BOOL)
    if isinstance(default.const, str):
        node.const = given if given is not None else default.const
        return convert.known_text(str(node.const))
    if not isinstance(default.const, int):
        context.error("not-constant", "Second argument to 'getopt' must be a string literal, integer literal, or a "
                      "boolean literal.", default)
        return None
    return fold_constant(node, default.const) if given is None else \
        _given_number(context, node, name, given, default.const < 0)


def _given_number(context: CheckContext, node: Call, name: str, given: str, signed: bool) -> Type | None:
    """A number on the command line: an int64 where it is negative or may be (``signed``), else a uint64."""
    number = parse_integer(given.removeprefix("-"))
    if number is not None and given.startswith("-"):
        number, signed = -number, True
    type = INT64 if signed else UINT64
    wrong = "expects an integer (value: true)" if given == "" else f"invalid integer (value: {given})" \
        if number is None else f"value is out of range (value: {given})" if not convert.fits_int(number, type) else ""
    if number is None or wrong:
        context.diagnostics.error("bad-parameter", f"program command line option --{name} {wrong}", None)
        return None
    return fold_constant(node, number, type)


def _getopt_flag(node: Call, world: World, options: Options, config: Config) -> bool | None:
    """The value of getopt("name") or getopt("name", false); None if it is not a flag."""
    name, default = node.args[0], node.args[1] if len(node.args) > 1 else None
    if not isinstance(name, StrLiteral) or not (default is None or isinstance(default, BoolLiteral)):
        return None
    return _is_set(options.named.get(name.value), default)


def _is_set(given: str | None, default: BoolLiteral | None) -> bool:
    """The value of a flag: ``--name`` alone sets it."""
    if given is None:
        return default is not None and bool(default.value)
    return not given or given.lower() in TRUE


# --- what the kernel has --------------------------------------------------------------------------------

FORMS = ("tracepoint:tcp:tcp_probe", "struct sock.sk_family", "args.reason", "kfunc:bpf_strlen", "symbol:avenrun",
         "feature:kprobe_multi")

def _answer_exists(node: Call, world: World, options: Options, config: Config) -> bool | None:
    return kernel_has(node.args[0].value, node.span, world, options, config)


def check_exists(context: CheckContext, node: Call, types: Types) -> Type | None:
    """A constant: whether the kernel has what the text names."""
    text = str(node.args[0].const)
    if text.startswith("args."):
        return fold_constant(node, int(_has_field(context.program.args, text.removeprefix("args."))), BOOL)
    exists = kernel_has(text, node.span, context.world, context.options, context.config)
    if exists is None:
        context.error("bad-argument", f"exists() asks for a probe, a type, a field or a symbol, not '{text}'",
                      node.args[0], [f"as in: {', '.join(FORMS)}"])
        return None
    return fold_constant(node, int(exists), BOOL)


def kernel_has(text: str, span: Span, world: World, options: Options, config: Config) -> bool | None:
    """Whether the kernel has a probe, ``struct x.y``, ``enum x``, ``kfunc:x``, ``symbol:x`` or ``feature:x``; None:
    none of these."""
    word, _, rest = text.partition(" ")
    if word in ("struct", "union"):
        name, _, path = rest.strip().partition(".")
        return _has_field(world.find_struct(name, word == "union"), path)
    if word == "enum":
        return world.named_type(text) is not None
    parts = text.split(":")
    if parts[0] == "kfunc" and len(parts) == 2:
        return world.kfunc_id(parts[1]) != 0
    if parts[0] == "feature" and len(parts) == 2:
        return world.has_feature(parts[1])
    if parts[0] == "symbol" and len(parts) == 2:
        return world.kernel_symbol(parts[1]) is not None
    provider = find_provider(parts[0])
    if provider is None:
        return None
    finder = ProbeFinder(world, options, config, Diagnostics(), heard=False)
    return bool(provider.expand_point(finder, AttachPoint(span, text, parts)))


def _has_field(type: Type | None, path: str) -> bool:
    for name in path.split(".") if path else ():
        field = type.field(name) if isinstance(type, Struct) else None
        type = field.type if field is not None else None
    return type is not None

def check_kfunc(context: CheckContext, node: Call, types: Types) -> Type | None:
    """Whether there is such a kfunc, and for kfunc_allowed() whether programs of this probe may call it."""
    name = node.args[0].const
    types_of = KINDS[context.program.kind].programs if node.name == "kfunc_allowed" else ()
    wanted = [f"kfunc_{name}", *[f"kfunc_{name}@{type}" for type in types_of]]
    return fold_constant(node, int(all(context.world.has_feature(feature) for feature in wanted)), BOOL)


# --- lists of numbers -----------------------------------------------------------------------------------


class Ranges(Choice):
    """Numbers, as inclusive ranges."""

    ranges: list[tuple[int, int]]


def check_one_of(context: CheckContext, node: Call, types: Types) -> Type | None:
    """Folded if the number is a constant, or the list is empty."""
    text = str(node.args[1].const)
    ranges = [_parse_range(word.strip()) for word in text.split(",") if word.strip()]
    spans = [span for span in ranges if span is not None]
    if len(spans) < len(ranges):
        context.error("bad-parameter", f"'{text}' is not a list of numbers", node.args[1],
                      ["write 80, or 80,443, or 8000-8010"])
        return None
    node.choice = Ranges(spans)
    number = node.args[0].const
    if isinstance(number, int) or not spans:
        return fold_constant(node, int(any(low <= (number or 0) <= high for low, high in spans)), BOOL)
    return BOOL


def _parse_range(word: str) -> tuple[int, int] | None:
    low, dash, high = word.partition("-")
    limits = [int(part) if part.isdecimal() and part.isascii() and len(part) <= 20 else None
              for part in (low, high if dash else low)]
    first, last = limits
    return None if first is None or last is None or first > last or last >> 64 else (first, last)


def branch_on_one_of(lo: Lower, call: Call, yes: BasicBlock, no: BasicBlock) -> None:
    """One comparison for each number, two for each range."""
    value = lo.scalar_value(call.args[0])
    for low, high in choice_of(call, Ranges).ranges:
        other = lo.b.block("other")
        if low == high:
            lo.b.branch("jeq", value, low, yes, other)
        else:
            above = lo.b.block("above")
            lo.b.branch("jge", value, low, above, other)
            lo.b.start(above)
            lo.b.branch("jle", value, high, yes, other)
        lo.b.start(other)
    lo.b.jump(no)


# --- types ----------------------------------------------------------------------------------------------


def predicate_rule(test: Callable[[Type, Expr], bool]) -> Rule:
    """is_str() and the like: a constant about an expression's type."""
    def check_predicate(context: CheckContext, node: Call, types: Types) -> Type | None:
        return fold_constant(node, int(test(value_type(types[0]), node.args[0])), BOOL)
    return check_predicate

IS_STR = predicate_rule(lambda type, node: isinstance(type, Str))
IS_PTR = predicate_rule(lambda type, node: isinstance(type, Pointer))
IS_ARRAY = predicate_rule(lambda type, node: isinstance(type, Array))
IS_INTEGER = predicate_rule(lambda type, node: isinstance(type, (Int, Enum)))
IS_UNSIGNED = predicate_rule(lambda type, node: isinstance(type, (Int, Enum)) and not type.signed)
_LITERAL = (IntLiteral, StrLiteral, BoolLiteral, Positional, Unary, Binary, Ternary, TupleExpr)

def check_is_literal(context: CheckContext, node: Call, types: Types) -> Type:
    """Whether an expression is made of literals alone; of any other nothing is checked."""
    value = node.args[0]
    literal = isinstance(value, Call) and value.name == "comptime" or \
        all(isinstance(part, _LITERAL) for part in walk_nodes(value))
    if literal:
        context.check_expression(value)
    else:
        node.args[0] = RuledOut(value.span, type=VOID)
    return fold_constant(node, int(literal), BOOL)

_BASES: list[tuple[type | tuple[type, ...], str]] = [
    (Bool, "bool"), ((Enum, Int, Address), "int"), (Pointer, "pointer"), (Str, "string"), (Array, "array"),
    (Buf, "buffer"), (Struct, "c_type"), (Inet, "inet")]

def check_typeinfo(context: CheckContext, node: Call, types: Types) -> Type | None:
    """A record with btf_id (always 0, as in bpftrace), base_type and full_type."""
    context.report_unstable(node, "typeinfo", context.config.unstable_typeinfo)
    subject = node.args[0]
    type = resolve_type(context, subject) if isinstance(subject, TypeSyntax) else \
        context.aggregate_of(subject) or context.check_value(subject, "typeinfo()")
    if type is None:
        return None
    plain = convert.plain_type(type)
    members = [_make_literal(node, value) for value in (0, _base(plain), convert.type_name(plain))]
    node.choice = Literals(members)
    return Tuple(tuple([item.type for item in members if item.type]), ("btf_id", "base_type", "full_type"))


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


def _write_constants(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    """A record of literals."""
    record = TupleExpr(call.span, items=choice_of(call, Literals).items)
    record.type = call.type
    lo.write_value(record, mem, type)



ROWS = (
    Function("assert", ("condition:any", "message:str?"), NOTHING, "End tracing with an error unless it holds.",
             'assert(@x > 0, "nothing seen")', library="checks", macro=True),
    Function("static_assert", ("condition:any", "message:literal?"), NOTHING, "Refuse to compile unless it holds.",
             'static_assert(sizeof(struct sock) > 0, "no sock")', check_static_assert, macro=True,
             statement=_lower_nothing),
    Function("fail", ("format:literal", "..."), VOID, "Refuse to compile, where this can be reached.",
             'fail("needs a pid")', check_fail, statement=_lower_nothing),
    Function("comptime", ("value:any",), None, "The value, which must be known when compiling.", "comptime 1 + 1",
             check_comptime, settles=True),
    Function("getopt", ("name:literal", "default:any?", "help:literal?"), None, "A named parameter.",
             'getopt("port", 80)', check_getopt, parameter=True, settles=True, answer=_getopt_flag),
    Function("exists", ("what:literal",), None,
             "Whether the kernel has a probe, type, field or symbol; a clause that this rules out needs no probe.",
             'exists("struct sock.sk_family")', check_exists, settles=True, answer=_answer_exists),
    Function("one_of", ("n:int", "list:literal"), None, "Whether a number is in a list of numbers and ranges.",
             'one_of(pid, "1,80,8000-8010")', check_one_of, condition=branch_on_one_of),
    Function("assert_str", ("value:text",), NOTHING, "Refuse to compile unless it is a string, or points to one.",
             "assert_str(comm)", macro=True, statement=_lower_nothing),
    Function("is_array", ("value:any",), None, "Whether a value is an array.", "is_array($x)", IS_ARRAY, macro=True),
    Function("is_integer", ("value:any",), None, "Whether a value is an integer.", "is_integer($x)", IS_INTEGER,
             macro=True),
    Function("is_literal", ("value:raw",), None, "Whether a value is written as a literal.", "is_literal(1)",
             check_is_literal, macro=True),
    Function("is_ptr", ("value:any",), None, "Whether a value is a pointer.", "is_ptr($x)", IS_PTR, macro=True),
    Function("is_str", ("value:any",), None, "Whether a value is a string.", "is_str($x)", IS_STR, macro=True),
    Function("is_unsigned_integer", ("value:any",), None, "Whether a value is an unsigned integer.",
             "is_unsigned_integer(pid)", IS_UNSIGNED, macro=True),
    Function("kfunc_exist", ("name:literal",), None, "Whether the kernel has a kfunc.", 'kfunc_exist("bpf_strlen")',
             check_kfunc, machine=True, macro=True,
             wrong={"name": "kfunc_exist() accepts a string literal only"}),
    Function("kfunc_allowed", ("name:literal",), None, "Whether a kfunc may be called.", 'kfunc_allowed("bpf_strlen")',
             check_kfunc, machine=True, macro=True,
             wrong={"name": "kfunc_allowed() accepts a string literal only"}),
    Function("typeinfo", ("value:raw",), None, "The type of a value, as a record.", "typeinfo(pid).full_type",
             check_typeinfo, value=_write_constants),
)
