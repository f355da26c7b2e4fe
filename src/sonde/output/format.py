"""printf: each site is compiled to one Python function from a record to the bytes that bpftrace's printf would write.

For ``"%d %s %llu\n"`` the generated source is, in essence::

    def site(b, o):
        a0, a1, a2 = unpack(b, o)
        return b"%d %s %d\n" % (a0, a1.partition(Z)[0], a2)

C's rules for integers are applied when the code is generated, not per event: an argument is as wide as its
length modifier says (no modifier: 32 bits), so the low bytes of the field are unpacked with the sign of the
conversion. Flags are those of C++'s streams, which bpftrace writes to: ``0`` fills whatever is narrower on its outer
side, also texts and what has a sign, and a precision means nothing (but ``%.0s`` prints nothing: what an option hides).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import Any

from ..runtime.decoders import INT_CODES, decoder, text_bytes
from ..runtime.values import Buffer, Context, to_text
from ..spec import EventField, FormatPart
from ..types import Bool, Buf, Enum, Int, Pointer, Str, Symbol, Type

Format = Callable[[Any, int], bytes]  # (buffer, offset of the record) -> text
Escape = Callable[[str], str]         # what a terminal must not see in traced strings

_WIDTHS = {"hh": 8, "h": 16, "": 32}  # any other length modifier: 64
_INTEGERS = "diuoxXp"
_CHARACTERS = [bytes([c]) for c in range(256)]


def compile_format(parts: Sequence[FormatPart], fields: Sequence[EventField], context: Context,
                   escape: Escape | None = None) -> Format:
    """The function of one printf site; ``escape`` is applied to the values, never to the format's own text."""
    site = _Site(context, escape)
    left = iter(fields)
    for part in parts:
        if part.conversion:
            site.convert(part, next(left))
        else:
            site.template += part.literal.encode("utf-8", "surrogateescape").replace(b"%", b"%%")
    return site.build()


class _Site:
    """A site while its function is being generated."""

    def __init__(self, context: Context, escape: Escape | None) -> None:
        self.context = context
        self.escape = escape
        self.template = b""
        self.arguments: list[str] = []
        self.slots: list[tuple[int, int, str, str]] = []  # offset, size, struct code, variable: unpacked at once
        self.names: dict[str, Any] = {"Z": b"\0"}

    def convert(self, part: FormatPart, field: EventField) -> None:
        """Add one conversion to the template, and the expression of its argument."""
        type, conversion = field.type, part.conversion
        if conversion == "c":
            self._character(part, field)
        elif conversion in _INTEGERS and _is_integer(type):
            self._integer(part, field)
        elif conversion == "gr":
            self._slow(part, field, _gfp)
        elif isinstance(type, Str) and conversion == "s" and not self.escape:
            self._string(part, field, type)
        elif isinstance(type, (Enum, Bool)) and conversion == "s":
            self._named(part, field, type)
        elif conversion in _BUFFER:
            self._slow(part, field, _BUFFER[conversion], _bytes_of(type))
        else:
            self._slow(part, field, to_text)

    def build(self) -> Format:
        if not self.arguments:
            text = self.template % ()
            return lambda buffer, offset: text
        codes, end, variables = "=", 0, []
        for offset, size, code, variable in sorted(self.slots):
            codes += f"{offset - end}x{code}"
            end = offset + size
            variables.append(variable)
        lines = ["def site(b, o):"]
        if variables:
            self.names["U"] = Layout(codes).unpack_from
            lines.append(f"    {', '.join(variables)}, = U(b, o)")
        lines.append(f"    return {self.template!r} % ({', '.join(self.arguments)},)")
        exec(compile("\n".join(lines), "<printf>", "exec"), self.names)
        found: Format = self.names["site"]
        return found

    def _slot(self, offset: int, size: int, code: str) -> str:
        variable = f"a{len(self.slots)}"
        self.slots.append((offset, size, code, variable))
        return variable

    def _give(self, value: Any) -> str:
        """A name in the generated function for an object of ours."""
        name = f"v{len(self.names)}"
        self.names[name] = value
        return name

    def _add(self, conversion: str, argument: str) -> None:
        self.template += b"%" + conversion.encode()
        self.arguments.append(argument)

    def _text(self, part: FormatPart, argument: str) -> None:
        """A conversion whose argument is an expression for bytes."""
        flags, width = _split(part.spec)
        if "0" in flags and width:
            left, wide = "-" in flags, int(width)
            pad = (lambda text: text.ljust(wide, b"0")) if left else (lambda text: text.rjust(wide, b"0"))
            self._add("s", f"{self._give(pad)}({argument})")
        else:
            hidden = ".0" if part.spec.endswith(".0") else ""
            self._add(("-" if "-" in flags else "") + width + hidden + "s", argument)

    def _integer(self, part: FormatPart, field: EventField) -> None:
        conversion = part.conversion
        signed = conversion in "di"
        bits = 64 if conversion == "p" else _WIDTHS.get(part.length, 64)
        value = self._read(field, bits, signed)
        flags, width = _split(part.spec)
        if conversion == "p" or "#" in flags or "0" in flags and (signed or "-" in flags):  # unlike Python's own
            self._text(part, f"{self._give(_digits(flags, conversion))}({value})")
        else:
            spec = flags.replace(" ", "") if signed else flags.replace(" ", "").replace("+", "")
            self._add(spec + width + {"i": "d", "u": "d"}.get(conversion, conversion), value)

    def _read(self, field: EventField, bits: int, signed: bool) -> str:
        """An expression for the field converted to ``bits`` and ``signed``, unpacked so if its bytes allow it."""
        type = field.type
        own = type.size * 8
        if own >= bits:
            size = bits // 8
            at = field.offset if sys.byteorder == "little" else field.offset + type.size - size
            return self._slot(at, size, INT_CODES[bits, signed])
        from_signed = bool(getattr(type, "signed", False))
        value = self._slot(field.offset, type.size, INT_CODES[own, from_signed])
        return f"{value} & {(1 << bits) - 1}" if from_signed and not signed else value

    def _character(self, part: FormatPart, field: EventField) -> None:
        if not _is_integer(field.type):
            return self._slow(part, field, to_text)
        characters = _CHARACTERS if not self.escape else [_encode(self.escape(c.decode())) if c < b"\x80" else c
                                                          for c in _CHARACTERS]
        self._text(part, f"{self._give(characters)}[{self._read(field, 8, False)}]")

    def _string(self, part: FormatPart, field: EventField, type: Str) -> None:
        value = self._slot(field.offset, type.capacity, f"{type.capacity}s")
        if type.capacity == self.context.text_size:
            self._text(part, f"{self._give(text_bytes(type.capacity, self.context))}({value})")
        else:
            self._text(part, f"{value}.partition(Z)[0]")

    def _named(self, part: FormatPart, field: EventField, type: Enum | Bool) -> None:
        code = "B" if isinstance(type, Bool) else INT_CODES[type.bits, type.signed]
        value = self._slot(field.offset, type.size, code)
        if isinstance(type, Bool):
            self._text(part, f"(b'true' if {value} else b'false')")
        else:
            names = self._give({number: _encode(name) for number, name in type.names.items()})
            self._text(part, f"({names}.get({value}) or b'%d' % {value})")

    def _slow(self, part: FormatPart, field: EventField, text: Callable[[Any], str], decode: Any = None) -> None:
        """Anything that is decoded to a value first."""
        decode, offset, escape = decode or decoder(field.type, self.context), field.offset, self.escape

        def get(buffer: Any, start: int) -> bytes:
            found = text(decode(buffer, start + offset))
            return _encode(escape(found) if escape else found)
        self._text(part, f"{self._give(get)}(b, o)")


def _bytes_of(type: Type) -> Callable[[Any, int], Buffer] | None:
    """A decoder of strings and arrays as bytes, for %r; None for buffers, whose decoder does it anyway."""
    size = type.size
    if isinstance(type, Str):
        return lambda buffer, offset: Buffer(bytes(buffer[offset:offset + size]).partition(b"\0")[0])
    return None if isinstance(type, Buf) else lambda buffer, offset: Buffer(buffer[offset:offset + size])


def _is_integer(type: Type) -> bool:
    """Has the type one number that %d can print?"""
    return isinstance(type, (Int, Bool, Enum, Pointer, Symbol))


def _split(spec: str) -> tuple[str, str]:
    """Flags and width; a precision means nothing."""
    rest = spec.lstrip("-+ #0")
    return spec[:len(spec) - len(rest)], rest.partition(".")[0]


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _gfp(value: Any) -> str:
    from .gfp import gfp_names
    return gfp_names(int(value))


_BUFFER: dict[str, Callable[[Any], str]] = {"r": str, "rx": Buffer.escaped, "rh": Buffer.plain}


def _digits(flags: str, conversion: str) -> Callable[[int], bytes]:
    """The text of integers with a sign or a prefix."""
    base = conversion if conversion in "xXo" else "x" if conversion == "p" else "d"
    prefix = {"p": "0x", "o": "0"}.get(conversion, f"0{conversion}") if "#" in flags or conversion == "p" else ""
    plus = "+" if "+" in flags and conversion in "di" else ""

    def render(value: int) -> bytes:
        if base == "d":
            return f"{plus if value >= 0 else ''}{value}".encode()
        return f"{prefix if value else ''}{value:{base}}".encode()
    return render
