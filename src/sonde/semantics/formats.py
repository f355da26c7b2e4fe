"""printf formats: splitting them into parts, and which types a conversion takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..language.ast import Expr
from ..spec import FormatPart
from ..types import Array, Bool, Buf, Enum, Inet, Int, MacAddr, Pointer, Stack, Str, Symbol, Timestamp, Type, USym
from . import convert
from .context import Context

_CONVERSION = re.compile(r"%(?P<spec>[-+ #0]*(?:\d+|\*)?(?:\.\d*)?)(?P<length>hh|h|ll|l|j|z|t|q|L)?"
                         r"(?P<conversion>rx|rh|gr|[diuoxXpcsr%])|%", re.S)
INTEGERS = "diuoxXc"


def parse(text: str, spaced: bool = True) -> list[FormatPart] | str:
    """The parts of a format, or what is wrong with it. What is no conversion is printed as it stands; so is one with
    a space, as in "50% done", unless ``spaced``."""
    parts: list[FormatPart] = []
    literal, at = "", 0
    for found in _CONVERSION.finditer(text):
        literal += text[at:found.start()]
        at = found.end()
        conversion = found.group("conversion")
        if conversion == "%" and found.group() == "%%":
            literal += "%"
            continue
        if conversion is None or conversion == "%" or not spaced and " " in found.group("spec"):
            literal += found.group()
            continue
        if "*" in found.group("spec"):
            return "a width of * is not supported"
        if len(found.group("spec")) > 8:
            return "the width is too large"
        if literal:
            parts.append(FormatPart(literal))
            literal = ""
        parts.append(FormatPart("", conversion, found.group("spec"), found.group("length") or ""))
    literal += text[at:]
    if literal:
        parts.append(FormatPart(literal))
    return parts


def printable(text: str) -> str:
    """Without line breaks and other control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def check_format(context: Context, name: str, format: Expr, args: Sequence[Expr]) -> list[FormatPart] | None:
    """The parts of the literal ``format``, with ``args`` checked against them; None after saying what is wrong."""
    if not isinstance(format.const, str):
        context.error("not-constant", f"{name}() expects a string literal as its format", format)
        return None
    parts = parse(format.const)
    if isinstance(parts, str):
        context.error("bad-format", f"{name}: {parts}", format)
        return None
    odd = [m.start() for m in _CONVERSION.finditer(format.const) if m.group("conversion") is None]
    if odd:
        context.warning("odd-format", f"{name}: no conversion: '{printable(format.const[odd[0]:odd[0] + 3])}'; it is "
                        "printed as it stands", format, ["write %% for a percent sign"])
    conversions = [p for p in parts if p.conversion]
    if len(args) < len(conversions) and any(" " in p.spec for p in conversions):
        again = parse(format.const, False)
        parts = again if not isinstance(again, str) else parts
        conversions = [p for p in parts if p.conversion]
    types = [context.value(arg, f"{name}()") for arg in args]
    if len(args) != len(conversions):
        few = len(args) < len(conversions)
        context.error("format-arguments", f"{name}: {'Not enough' if few else 'Too many'} arguments for format string "
                      f"({len(conversions)} expected, {len(args)} found)", args[-1] if args and not few else format)
        return None
    for part, type, arg in zip(conversions, types, args):
        if type is not None and not accepts(part.conversion, type):
            _mismatch(context, name, part, type, arg)
    return parts


def _mismatch(context: Context, name: str, part: FormatPart, type: Type, arg: Expr) -> None:
    wants = ("string" if part.conversion == "s" else "buffer" if part.conversion in ("r", "rx", "rh")
             else "pointer" if part.conversion == "p" else "integer")
    hints = []
    if wants == "string" and isinstance(type, (Int, Pointer)):
        hints = ["str() makes a string of a pointer"] if isinstance(type, Pointer) else ["use %d for integers"]
    elif wants == "integer" and isinstance(type, Str):
        hints = ["use %s for strings"]
    context.error("format-type", f"{name}: %{part.conversion} specifier expects a value of type {wants} "
                  f"({convert.words(type)} supplied)", arg, hints)


def accepts(conversion: str, type: Type) -> bool:
    """Whether ``%conversion`` prints a value of ``type``."""
    if conversion == "s":
        return isinstance(type, (Str, Symbol, USym, Stack, Timestamp, Inet, MacAddr, Enum, Bool, Buf))
    if conversion in ("r", "rx", "rh"):
        return isinstance(type, (Buf, Str)) or isinstance(type, Array) and isinstance(type.of, Int)
    if conversion == "p":
        return isinstance(type, (Int, Pointer))
    if isinstance(type, Symbol):
        return type.kind in ("ksym", "cgroup_path")
    return isinstance(type, (Int, Bool, Enum, Pointer))
