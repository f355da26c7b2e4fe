"""printf: each site is compiled to one Python function from a record to the bytes that bpftrace's printf would write.

For ``"%d %s %llu\n"`` the generated source is, in essence::

    def site(b, o):
        a0, a1, a2 = unpack(b, o)
        return b"%d %s %d\n" % (a0, a1.partition(Z)[0], a2)

C's rules for integers are applied when the code is generated, not per event: an argument is as wide as its length
modifier says (no modifier: 32 bits), so the low bytes of the field are unpacked with the signedness of the conversion.
Flags are those of C++'s streams, which bpftrace writes to: ``0`` pads on the outer side, also strings and signed
numbers, and a precision is ignored (but ``%.0s`` prints nothing: for what an option hides).
"""

from __future__ import annotations

import sys
from struct import Struct as Layout

from ..base.fast_stdlib import TypeVar
from ..base.record import Record
from ..base.words import INT_CODES
from ..layouts.event_records import MOST_FIXED
from ..runtime.records.decoders import (
    make_buffer_decoder,
    make_decoder,
    make_long_text_cutter,
    make_text_cutter,
)
from ..runtime.records.values import PARTS_OF_SECONDS, Buffer, DecodingContext, ScriptValue, strftime, to_text
from ..spec import EventField, FormatPart
from ..types import Bool, Buf, Enum, Int, Pointer, Str, Symbol, Timestamp, Type
from .cut import lower_half

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from .cut import OnCut


Format: TypeAlias = "Callable[[bytes, int], bytes]"  # (buffer, offset of the record) -> text
FormatMany: TypeAlias = "Callable[..., bytes]"  # (buffer, offsets) -> texts, joined
Escape: TypeAlias = "Callable[[str], str]"         # what makes a traced program's text harmless

T = TypeVar("T")

_FIXED_NAMES = frozenset(("probe", "syscall_name", "strerror", "signal_name"))  # kinds of numbers
_MOST_TEXTS = 256  # that are remembered of an argument
HARMLESS = bytes([c for c in range(32, 127) if c != ord("\\")])


class Escapes(Record):
    """``line`` is applied to what becomes a part of a line, ``lines`` (None: nothing) to what is shown as it is
    (``%#s``), neither to the arguments whose numbers are in ``own``: texts of the script itself."""

    line: Escape
    lines: Escape | None = None
    own: frozenset[int] = frozenset()


class Frame(Record):
    """What stands around each text of printf(), and how the text is quoted there: bytes of which all are ``harmless``
    stay as they are."""

    before: str
    after: str
    quote: Callable[[str], str]
    harmless: bytes

    def enclose(self, parts: Sequence[FormatPart]) -> list[FormatPart]:
        """A format of the text in its frame, for values that need no quoting."""
        return [FormatPart(self.before),
                *[part if part.conversion else FormatPart(self.quote(part.literal)) for part in parts],
                FormatPart(self.after)]

    def finish(self, text: bytes) -> bytes:
        """Any text in its frame."""
        return _encode_text(self.before + self.quote(text.decode("utf-8", "surrogateescape")) + self.after)


_WIDTHS = {"hh": 8, "h": 16, "": 32}  # any other length modifier: 64
_INTEGERS = "diuoxXp"
FLOATS = "aAeEfFgG"
_CHARACTERS = [bytes([c]) for c in range(256)]


def compile_format(parts: Sequence[FormatPart], fields: Sequence[EventField], context: DecodingContext,
                   escapes: Escapes | None = None, on_cut: OnCut | None = None) -> Format:
    """The function of one printf site; ``escapes`` are applied to the values, never to the format's own text;
    ``on_cut`` is called for each number that its conversion prints as another."""
    fast = _read_format(parts, fields, context, None, on_cut).build_function()
    if escapes is None or not fields:
        return fast
    own, slow = _count_harmful(parts, HARMLESS), _read_format(parts, fields, context, escapes).build_function()

    def site(buffer: bytes, offset: int) -> bytes:
        text = fast(buffer, offset)
        return text if len(text.translate(None, HARMLESS)) == own else slow(buffer, offset)
    return site


def compile_format_of_many(parts: Sequence[FormatPart], fields: Sequence[EventField], context: DecodingContext,
                           escapes: Escapes | None = None, on_cut: OnCut | None = None,
                           frame: Frame | None = None) -> FormatMany:
    """The same for many records of one buffer, which takes a third of the time for each; with a ``frame`` around each
    text."""
    framed = parts if frame is None else frame.enclose(parts)
    if escapes is None and frame is None or not fields:
        return _read_format(framed, fields, context, None, on_cut).build_function_of_many()
    fast = compile_block(framed, fields, context, HARMLESS if frame is None else frame.harmless, on_cut)
    slow, finish = _read_format(parts, fields, context, escapes).build_function(), frame.finish if frame else bytes

    def site(buffer: bytes, offsets: Sequence[int]) -> bytes:
        text = fast(buffer, offsets)
        return text if text is not None else b"".join([finish(slow(buffer, offset)) for offset in offsets])
    return site


def compile_block(parts: Sequence[FormatPart], fields: Sequence[EventField], context: DecodingContext,
                  harmless: bytes, on_cut: OnCut | None = None) -> Callable[..., bytes | None]:
    """The same, but None if a value has other bytes than the ``harmless`` ones. The function takes what stands before
    each text, too: see :class:`sonde.output.blocks.BlockFormat`."""
    form = _read_format(parts, fields, context, None, on_cut).build_function_of_many()
    own = _count_harmful(parts, harmless)

    def site(buffer: bytes, offsets: Sequence[int], *before: object) -> bytes | None:
        text = form(buffer, offsets, *before)
        return text if len(text.translate(None, harmless)) == own * len(offsets) else None
    return site


def _count_harmful(parts: Sequence[FormatPart], harmless: bytes) -> int:
    """Bytes of the format's own text that a value must not have: what has no more than these needs no escape, which is
    found out in a hundredth of the time that escaping takes."""
    return sum([len(_encode_text(part.literal).translate(None, harmless)) for part in parts if not part.conversion])


def _read_format(parts: Sequence[FormatPart], fields: Sequence[EventField], context: DecodingContext,
                 escapes: Escapes | None, on_cut: OnCut | None = None) -> Site:
    site, left = Site(context, on_cut), enumerate(fields)
    for part in parts:
        if part.conversion:
            number, field = next(left)
            if escapes is not None:
                whole = part.conversion == "s" and "#" in part.spec
                site.escape = None if number in escapes.own else escapes.lines if whole else escapes.line
            site.add_conversion(part, field)
        else:
            site.texts[-1] += part.literal.encode("utf-8", "surrogateescape").replace(b"%", b"%%")
    return site


class Slot(Record):
    """Bytes of a record that are unpacked at once, by a code of ``struct``, into a variable."""

    offset: int
    size: int
    code: str
    variable: str


class Site:
    """A site while its function is being generated: ``texts`` stand between its ``conversions``, whose ``arguments``
    are expressions of the slots' variables, or of (b, o), a record's buffer and offset."""

    def __init__(self, context: DecodingContext, on_cut: OnCut | None) -> None:
        self.context = context
        self.on_cut = on_cut
        self.escape: Escape | None = None  # for the conversion at hand
        self.texts = [b""]
        self.conversions: list[bytes] = []
        self.arguments: list[str] = []
        self.slots: list[Slot] = []
        self.checked: set[int] = set()  # arguments of two slots that are the first one where the second is 0
        self._ends: list[int] = []  # how many slots there are up to each argument
        self.names: dict[str, object] = {"Z": b"\0"}

    def add_conversion(self, part: FormatPart, field: EventField) -> None:
        """Add one conversion to the template, and the expression of its argument."""
        type, conversion = field.type, part.conversion
        if conversion == "c":
            self._add_character(part, field)
        elif conversion in _INTEGERS and _is_integer(type):
            self._add_integer(part, field)
        elif conversion in FLOATS:
            self._add_float(part, field)
        elif conversion == "gr":
            self._add_rendered(part, field, make_decoder(type, self.context), _gfp_text)
        elif isinstance(type, Str) and conversion == "s" and not self.escape:
            self._add_string(part, field, type)
        elif isinstance(type, (Enum, Bool)) and conversion == "s":
            self._add_named(part, field, type)
        elif conversion in _BUFFER:
            self._add_rendered(part, field, _bytes_decoder(type), _BUFFER[conversion])  # has nothing to escape
        elif isinstance(type, Timestamp) and not any(each in type.format for each in PARTS_OF_SECONDS):
            self._add_moment(part, field, type)
        elif isinstance(type, Symbol) and type.kind in _FIXED_NAMES:
            self._add_fixed_name(part, field)
        else:
            self._add_decoded(part, field)

    def build_function(self) -> Format:
        if not self.arguments:
            text = self.texts[0] % ()
            return lambda buffer, offset: text
        variables = self._unpack_slots()
        function: Format = self._define(["def site(b, o):", *([f"    {variables} = U(b, o)"] if variables else []),
                                         f"    return {self._expression()}"])
        return function

    def build_function_of_many(self) -> FormatMany:
        if not self.arguments:
            text = self.texts[0] % ()
            return lambda buffer, offsets: text * len(offsets)
        from .blocks import BlockFormat
        return BlockFormat(self)

    def slots_of(self, argument: int) -> list[Slot]:
        """The slots of an argument, by its number."""
        return self.slots[self._ends[argument - 1] if argument else 0:self._ends[argument]]

    def _unpack_slots(self) -> str:
        """The variables that ``U`` unpacks at once; "" for none."""
        codes, end, variables = "=", 0, ""
        for slot in sorted(self.slots, key=lambda slot: slot.offset):
            codes += f"{slot.offset - end}x{slot.code}"
            end = slot.offset + slot.size
            variables += f"{slot.variable}, "
        self.names["U"] = Layout(codes).unpack_from
        return variables

    def _expression(self) -> str:
        template = self.texts[0] + b"".join([one + text for one, text in zip(self.conversions, self.texts[1:])])
        return f"{template!r} % ({', '.join(self.arguments)},)"

    def _define(self, lines: list[str]) -> Any:
        exec(compile("\n".join(lines), "<printf>", "exec"), self.names)
        return self.names["site"]

    def _add_slot(self, offset: int, size: int, code: str) -> str:
        variable = f"a{len(self.slots)}"
        self.slots.append(Slot(offset, size, code, variable))
        return variable

    def _bind_object(self, value: object) -> str:
        """A name in the generated function for an object of ours."""
        name = f"v{len(self.names)}"
        self.names[name] = value
        return name

    def _add_argument(self, conversion: str, argument: str) -> None:
        self.conversions.append(b"%" + conversion.encode())
        self.texts.append(b"")
        self.arguments.append(argument)
        self._ends.append(len(self.slots))

    def _add_text(self, part: FormatPart, argument: str) -> None:
        """A conversion whose argument is an expression for bytes."""
        flags, width = _split_spec(part.spec)
        if "0" in flags and width:
            left, wide = "-" in flags, int(width)
            pad = (lambda text: text.ljust(wide, b"0")) if left else (lambda text: text.rjust(wide, b"0"))
            self._add_argument("s", f"{self._bind_object(pad)}({argument})")
        else:
            hidden = ".0" if part.spec.endswith(".0") else ""
            self._add_argument(("-" if "-" in flags else "") + width + hidden + "s", argument)

    def _add_integer(self, part: FormatPart, field: EventField) -> None:
        conversion = part.conversion
        signed = conversion in "di"
        bits = 64 if conversion == "p" else _WIDTHS.get(part.length, 64)
        value = self._field_expression(field, bits, signed)
        checks = False
        if self.on_cut is not None and bits == 32 and field.type.size == 8 and isinstance(field.type, Int | Pointer):
            upper = self._add_slot(field.offset + (4 if sys.byteorder == "little" else 0), 4, "i")
            take_lower = self._bind_object(lower_half(part, field.type, self.on_cut))
            value, checks = f"({take_lower}({value}, {upper}) if {upper} else {value})", True
        flags, width = _split_spec(part.spec)
        if conversion == "p" or "#" in flags or "0" in flags and (signed or "-" in flags):  # unlike Python's own
            self._add_text(part, f"{self._bind_object(_digits_renderer(flags, conversion))}({value})")
        else:
            self.checked |= {len(self.arguments)} if checks else set()
            spec = flags.replace(" ", "") if signed else flags.replace(" ", "").replace("+", "")
            self._add_argument(spec + width + {"i": "d", "u": "d"}.get(conversion, conversion), value)

    def _field_expression(self, field: EventField, bits: int, signed: bool) -> str:
        """An expression for the field converted to ``bits`` and ``signed``, unpacked so if its bytes allow it."""
        type = field.type
        own = type.size * 8
        if own >= bits:
            size = bits // 8
            at = field.offset if sys.byteorder == "little" else field.offset + type.size - size
            return self._add_slot(at, size, INT_CODES[bits // 8, signed])
        from_signed = bool(getattr(type, "signed", False))
        value = self._add_slot(field.offset, type.size, INT_CODES[type.size, from_signed])
        return f"{value} & {(1 << bits) - 1}" if from_signed and not signed else value

    def _add_character(self, part: FormatPart, field: EventField) -> None:
        if not _is_integer(field.type):
            return self._add_decoded(part, field)
        # A NUL, which no terminal shows, stays one: scripts print bytes one by one.
        characters = _CHARACTERS if not self.escape else [
            _encode_text(self.escape(c.decode())) if b"\0" < c < b"\x80" else c for c in _CHARACTERS]
        self._add_text(part, f"{self._bind_object(characters)}[{self._field_expression(field, 8, False)}]")

    def _add_string(self, part: FormatPart, field: EventField, type: Str) -> None:
        if type.size > MOST_FIXED:
            return self._add_tail(part, field, type)
        value = self._add_slot(field.offset, type.capacity, f"{type.capacity}s")
        if type.capacity == self.context.text_size:
            self._add_text(part, f"{self._bind_object(make_text_cutter(type.capacity, self.context))}({value})")
        else:
            self._add_text(part, f"{value}.partition(Z)[0]")

    def _add_tail(self, part: FormatPart, field: EventField, type: Str) -> None:
        """A long text, which a record may have only up to its NUL: nothing is copied of what follows that."""
        cut = make_long_text_cutter(type.capacity, self.context)
        self._add_text(part, f"{self._bind_object(cut)}(b, o + {field.offset})")

    def _add_named(self, part: FormatPart, field: EventField, type: Enum | Bool) -> None:
        code = "B" if isinstance(type, Bool) else INT_CODES[type.size, type.signed]
        value = self._add_slot(field.offset, type.size, code)
        if isinstance(type, Bool):
            self._add_text(part, f"(b'true' if {value} else b'false')")
        else:
            names = self._bind_object({number: _encode_text(name) for number, name in type.names.items()})
            self._add_text(part, f"({names}.get({value}) or b'%d' % {value})")

    def _add_moment(self, part: FormatPart, field: EventField, type: Timestamp) -> None:
        """A time whose text is the same for a whole second: many records have one."""
        wall_clock, clock, form = self.context.wall_clock, type.clock, type.format
        texts = _Texts(lambda second: strftime(form, second * 1_000_000_000))
        name = self._bind_object(lambda number: texts[wall_clock(number, clock) // 1_000_000_000])
        self._add_text(part, f"{name}({self._add_slot(field.offset, 8, 'q')})")

    def _add_fixed_name(self, part: FormatPart, field: EventField) -> None:
        """A number that always has the same name."""
        decode, escape = make_decoder(field.type, self.context), self.escape
        texts = _Texts(lambda number: to_text(decode(number.to_bytes(8, sys.byteorder, signed=True), 0), escape))
        name = self._bind_object(texts)
        self._add_text(part, f"{name}[{self._add_slot(field.offset, 8, 'q')}]")

    def _add_decoded(self, part: FormatPart, field: EventField) -> None:
        """Anything that is decoded to a value first."""
        escape = self.escape
        self._add_rendered(part, field, make_decoder(field.type, self.context), lambda value: to_text(value, escape))

    def _add_float(self, part: FormatPart, field: EventField) -> None:
        """C's rules, width and all."""
        from .float_format import float_renderer
        read, render = Layout("=d" if field.type.size == 8 else "=f").unpack_from, float_renderer(part)
        offset = field.offset
        name = self._bind_object(lambda buffer, start: render(read(buffer, start + offset)[0]))
        self._add_argument("s", f"{name}(b, o)")

    def _add_rendered(self, part: FormatPart, field: EventField, decode: Callable[[bytes, int], T],
                      text: Callable[[T], str]) -> None:
        offset = field.offset

        def decode_field(buffer: bytes, start: int) -> bytes:
            return _encode_text(text(decode(buffer, start + offset)))
        self._add_text(part, f"{self._bind_object(decode_field)}(b, o)")


class _Texts(dict[int, bytes]):
    """The texts of the numbers that have come, as they are made of them; not of too many."""

    def __init__(self, make: Callable[[int], str]) -> None:
        self._make = make

    def __missing__(self, number: int) -> bytes:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        text = self[number] = _encode_text(self._make(number))
        return text


def _bytes_decoder(type: Type) -> Callable[[bytes, int], Buffer]:
    """A decoder of buffers, strings and arrays as bytes, for %r."""
    if isinstance(type, Buf):
        return make_buffer_decoder(type)
    size = type.size
    if isinstance(type, Str):
        return lambda buffer, offset: Buffer(bytes(buffer[offset:offset + size]).partition(b"\0")[0])
    return lambda buffer, offset: Buffer(buffer[offset:offset + size])


def _is_integer(type: Type) -> bool:
    """Has the type one number that %d can print?"""
    return isinstance(type, (Int, Bool, Enum, Pointer, Symbol))


def _split_spec(spec: str) -> tuple[str, str]:
    """Flags and width; a precision means nothing."""
    rest = spec.lstrip("-+ #0")
    return spec[:len(spec) - len(rest)], rest.partition(".")[0]


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _gfp_text(value: ScriptValue) -> str:
    from .gfp import gfp_names
    return gfp_names(value if isinstance(value, int) else 0)


def quote_words(words: bytes) -> str:
    """``%rq``: texts that end in a NUL each in quotation marks, with ``\\"`` and ``\\\\`` within; one that was cut ends
    in ``..``."""
    from .text import line_safe
    *whole, rest = words.split(b"\0")
    quoted = ['"' + line_safe(word.decode("utf-8", "surrogateescape")).replace('"', '\\"') + '"'
              for word in (*whole, rest)]
    return " ".join(quoted[:-1]) if not rest else f"{' '.join(quoted)}.."


_BUFFER: dict[str, Callable[[Buffer], str]] = {"r": str, "rx": Buffer.to_escaped, "rh": Buffer.to_hex,
                                            "rq": quote_words}


def _digits_renderer(flags: str, conversion: str) -> Callable[[int], bytes]:
    """The text of integers with a sign or a prefix."""
    base = conversion if conversion in "xXo" else "x" if conversion == "p" else "d"
    prefix = {"p": "0x", "o": "0"}.get(conversion, f"0{conversion}") if "#" in flags or conversion == "p" else ""
    plus = "+" if "+" in flags and conversion in "di" else ""

    def render_digits(value: int) -> bytes:
        if base == "d":
            return f"{plus if value >= 0 else ''}{value}".encode()
        return f"{prefix if value else ''}{value:{base}}".encode()
    return render_digits
