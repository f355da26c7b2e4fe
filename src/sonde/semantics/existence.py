"""What a script may ask while it is compiled: exists(), one_of(), and clauses that the answers rule out."""

from __future__ import annotations

from ..language.ast import AttachPoint, Binary, BoolLiteral, Call, Expr, StrLiteral, Unary
from ..language.diagnostics import Diagnostics
from ..language.source import Span
from ..spec import Config
from ..types import BOOL, Struct, Type
from .context import CheckContext, fold_constant
from .finder import ProbeFinder
from .providers import find_provider
from .rules import Types
from .typed import Options
from .world import World

ASKING = ("exists", "getopt")
FORMS = ("tracepoint:tcp:tcp_probe", "struct sock.sk_family", "args.reason", "kfunc:bpf_strlen", "symbol:avenrun")


def check_exists(context: CheckContext, node: Call, types: Types) -> Type | None:
    """A constant: whether the kernel has what the text names."""
    text = str(node.args[0].const)
    if text.startswith("args."):
        return fold_constant(node, int(_has_field(context.program.args, text.removeprefix("args."))), BOOL)
    found = kernel_has(text, node.span, context.world, context.options, context.config)
    if found is None:
        context.error("bad-argument", f"exists() asks for a probe, a type, a field or a symbol, not '{text}'",
                      node.args[0], [f"as in: {', '.join(FORMS)}"])
        return None
    return fold_constant(node, int(found), BOOL)


def kernel_has(text: str, span: Span, world: World, options: Options, config: Config) -> bool | None:
    """Whether the kernel has a probe, ``struct x.y``, ``enum x``, ``kfunc:x`` or ``symbol:x``; None: none of these."""
    word, _, rest = text.partition(" ")
    if word in ("struct", "union"):
        name, _, path = rest.strip().partition(".")
        return _has_field(world.find_struct(name, word == "union"), path)
    if word == "enum":
        return world.named_type(text) is not None
    parts = text.split(":")
    if parts[0] == "kfunc" and len(parts) == 2:
        return world.kfunc_id(parts[1]) != 0
    if parts[0] == "symbol" and len(parts) == 2:
        return world.kernel_symbol(parts[1]) is not None
    provider = find_provider(parts[0])
    if provider is None:
        return None
    unheard = Diagnostics()
    return bool(provider.expand(ProbeFinder(world, options, config, unheard), AttachPoint(span, text, parts),
                                parts[1:]))


def _has_field(type: Type | None, path: str) -> bool:
    for name in path.split(".") if path else ():
        field = type.field(name) if isinstance(type, Struct) else None
        type = field.type if field is not None else None
    return type is not None


def _getopt_flag(node: Call, options: Options) -> bool | None:
    """The value of getopt("name") or getopt("name", false); None if it is no flag."""
    name, default = node.args[0], node.args[1] if len(node.args) > 1 else None
    if not isinstance(name, StrLiteral) or not (default is None or isinstance(default, BoolLiteral)):
        return None
    given = options.named.get(name.value)
    if given is None:
        return default is not None and bool(default.value)
    return given in ("", "true", "1")


def is_ruled_out(predicate: Expr | None, world: World, options: Options, config: Config) -> bool:
    """Whether what the kernel has, or a flag that was not given, makes a predicate false for ever: its clause need not
    be there at all, and costs nothing."""
    def constant_value(node: Expr | None) -> bool | None:
        if isinstance(node, Call) and node.name in ASKING and node.args and isinstance(node.args[0], StrLiteral):
            if node.name == "exists":
                return kernel_has(node.args[0].value, node.span, world, options, config)
            return _getopt_flag(node, options)
        if isinstance(node, Unary) and node.op == "!":
            inner = constant_value(node.operand)
            return None if inner is None else not inner
        if isinstance(node, Binary) and node.op in ("&&", "||"):
            sides = constant_value(node.left), constant_value(node.right)
            decisive = node.op == "||"
            return decisive if decisive in sides else None if None in sides else not decisive
        return None
    return constant_value(predicate) is False


# --- lists of numbers -------------------------------------------------------------------------------------


def check_one_of(context: CheckContext, node: Call, types: Types) -> Type | None:
    """data: [(first, last)]; a constant where the number is one, or the list is empty."""
    text = str(node.args[1].const)
    found = [_parse_range(word.strip()) for word in text.split(",") if word.strip()]
    spans = [span for span in found if span is not None]
    if len(spans) < len(found):
        context.error("bad-parameter", f"'{text}' is not a list of numbers", node.args[1],
                      ["write 80, or 80,443, or 8000-8010"])
        return None
    node.data = spans
    number = node.args[0].const
    if isinstance(number, int) or not spans:
        return fold_constant(node, int(any(low <= (number or 0) <= high for low, high in spans)), BOOL)
    return BOOL


def _parse_range(word: str) -> tuple[int, int] | None:
    low, dash, high = word.partition("-")
    limits = [int(part) if part.isdecimal() and part.isascii() and len(part) < 19 else None
              for part in (low, high if dash else low)]
    if None in limits or limits[0] > limits[1]:  # type: ignore[operator]
        return None
    return limits[0], limits[1]  # type: ignore[return-value]
