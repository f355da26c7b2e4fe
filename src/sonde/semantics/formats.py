"""printf formats: splitting them into parts, and the types that a conversion accepts."""

from __future__ import annotations

from ..base import regex_cache
from ..language.ast import Call, Expr
from ..spec import FormatPart
from ..types import Bool, Buf, Enum, Float, Int, NoneType, Pointer, Str, Struct, Type
from . import convert
from .context import ARGUMENT, CheckContext
from .library_texts import keep_number

_CONVERSION = regex_cache.compile(r"%(?P<spec>-?\+? ?#?0?(?:\d+|\*)?(?:\.(?:\*|\d+))?)(?P<length>hh|h|ll|l|j|z|t|q|L)?"
                         r"(?P<conversion>rx|rh|rq|gr|[diuoxXpcsraAeEfFgGn%])|%", regex_cache.DOTALL)
BYTES = ("r", "rx", "rh", "rq")  # what prints a buffer
FLOATS = "aAeEfFgG"
UNKNOWN = "n"  # C's, for which there is no value here


def parse_format(text: str, spaced: bool = True) -> list[FormatPart] | str:
    """The parts of a format, or what is wrong with it. What is no conversion is printed as it stands; so is one with
    a space, as in "50% done", unless ``spaced``."""
    parts: list[FormatPart] = []
    literal, at = "", 0
    for match in _CONVERSION.finditer(text):
        literal += text[at:match.start()]
        at = match.end()
        conversion = match.group("conversion")
        if conversion == "%" and " " not in match.group("spec"):  # a width means nothing
            literal += "%"
            continue
        if conversion is None or conversion == "%" or not spaced and " " in match.group("spec"):
            literal += match.group()
            continue
        spec = match.group("spec").replace(".*", "").replace("*", "")  # as in bpftrace, * is no width and takes nothing
        if len(spec) > 8:
            return "the width is too large"
        if literal:
            parts.append(FormatPart(literal))
            literal = ""
        parts.append(FormatPart("", conversion, spec, match.group("length") or ""))
    literal += text[at:]
    if literal:
        parts.append(FormatPart(literal))
    return parts


def escape_unprintable(text: str) -> str:
    """Without line breaks and other control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def check_format(context: CheckContext, call: Call) -> list[FormatPart] | None:
    """The parts of the format that is a call's first argument, with the others checked against them; None after saying
    what is wrong."""
    name, format, args = call.name, call.args[0], call.args[1:]
    if not isinstance(format.const, str):
        context.error("not-constant", f"{name}() expects a string literal as its format", format)
        return None
    parts = parse_format(format.const)
    if isinstance(parts, str):
        context.error("bad-format", f"{name}: {parts}", format)
        return None
    odd = [m.start() for m in _CONVERSION.finditer(format.const) if m.group("conversion") is None]
    if odd:
        context.warning("odd-format",
                        f"{name}: no conversion: '{escape_unprintable(format.const[odd[0]:odd[0] + 3])}'; it is "
                        "printed as it stands", format, ["write %% for a percent sign"])
    if any("*" in (m.group("spec") or "") for m in _CONVERSION.finditer(format.const)):
        context.warning("odd-format", f"{name}: a * is no width here, and takes no argument", format,
                        ["write the width into the format: %10d"])
    conversions = [p for p in parts if p.conversion]
    if len(args) < len(conversions) and any(" " in p.spec for p in conversions):
        again = parse_format(format.const, False)
        parts = again if not isinstance(again, str) else parts
        conversions = [p for p in parts if p.conversion]
    types = []
    for at, arg in enumerate(args):
        type = _argument_type(context, call, conversions[at] if at < len(conversions) else None, arg)
        if isinstance(type, Struct):
            call.args[at + 1] = arg = context.with_texts(arg)
            type = arg.type
        types.append(type)
    if len(args) != len(conversions):
        few = len(args) < len(conversions)
        context.error("format-arguments", f"{'not enough' if few else 'too many'} arguments for format string "
                      f"({len(args)} supplied, {len(conversions)} expected)", call, count_hints(conversions, args))
        return None
    unknown = [part.conversion for part, type in zip(conversions, types) if part.conversion in UNKNOWN
               or part.conversion in FLOATS and type is not None and not isinstance(type, Float)]
    if unknown:
        context.error("bad-format", f"unsupported format specifier: {unknown[0]}", call,
                      [f"%{unknown[0]} prints floating-point numbers"] if unknown[0] in FLOATS else [])
        return None
    for part, type in zip(conversions, types):
        if type is not None and not conversion_accepts(part.conversion, type):
            _report_mismatch(context, call, part, type)
    return parts


def _argument_type(context: CheckContext, call: Call, part: FormatPart | None, arg: Expr) -> Type | None:
    """The type of a printf argument. For a number's conversion, an aggregate without a value keeps its type, which the
    message names."""
    aggregate = context.aggregate_of(arg)
    if part is not None and aggregate is not None and convert.read_type(aggregate) is None:
        if part.conversion != "s":
            return aggregate
        context.error("aggregate-value", f"unable to convert type: {aggregate}", arg,
                      [f"print({arg.span.text}) shows it"])
        return None
    type = context.check_value(arg, ARGUMENT)
    if isinstance(type, NoneType):
        context.error("no-value", f"unable to print none type for specifier: {part.conversion if part else 's'}", call)
        return None
    if part is not None and part.conversion == "s" and convert.is_text_address(type):
        context.advise("text-address", f"%s prints the address {arg.span.text}, not the text there", arg,
                       [f"str({arg.span.text}) reads the text"])
    if type is None or call.name == "debugf" or context.program.attach.pin:  # the kernel prints these
        return type
    return keep_number(arg, type)


def count_hints(conversions: list[FormatPart], args: list[Expr]) -> list[str]:
    """Hints for a format that asks for more or fewer values than it is given."""
    if len(args) < len(conversions):
        return [f"%{conversions[len(args)].conversion} has no value; %% prints a percent sign"]
    return [f"nothing in the format prints {args[len(conversions)].span.text}: add %d for a number, %s for text"]


def _report_mismatch(context: CheckContext, call: Call, part: FormatPart, type: Type) -> None:
    hints = ["%r prints what buf() gives"] if part.conversion in BYTES else ["use %s for strings"] \
        if isinstance(type, Str) else ["use %f, %g or %e; (int64)x cuts the fraction off"] \
        if isinstance(type, Float) else []
    context.error("format-type",
                  f"unsupported format specifier for type '{convert.type_name(type)}': {part.conversion}",
                  call, hints)


def conversion_accepts(conversion: str, type: Type) -> bool:
    """Whether ``%conversion`` prints a value of ``type``."""
    if conversion == "s":
        return True
    if conversion in BYTES:
        return isinstance(type, Buf)
    if conversion in FLOATS:
        return isinstance(type, Float)
    return isinstance(type, (Int, Bool, Enum, Pointer))
