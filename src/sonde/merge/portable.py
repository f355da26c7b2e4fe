"""Values as they leave their host: text (JSON) that means the same on any other.

Numbers, strings and structures stay as they are. What only its own host can look up by number becomes a name: kernel
and user symbols, control groups, probes, frames of stacks; enumerators are equal by name. Equal values have equal
texts, so that a text can stand for the value, and :func:`decode_value` accepts nothing but what :func:`encode_value`
makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..base.json_checks import Json, as_flag, as_integer, as_integers, as_list, as_text, as_texts
from ..errors import SondeError
from ..runtime.maps.aggregates import Histogram, LinearHistogram, Stats
from ..runtime.maps.float_aggregates import FloatHistogram, FloatLinearHistogram
from ..runtime.maps.series import Series
from ..runtime.records.source_text import SourceText
from ..runtime.records.values import (
    ArrayValue,
    Buffer,
    EnumValue,
    InetAddress,
    MacAddress,
    Moment,
    NamedNumber,
    PointerValue,
    RecordValue,
    ScriptValue,
    SingleFloat,
    StackFrame,
    StackTrace,
    StructValue,
    UserAddress,
    make_record_class,
)
from ..types import Aggregate, Stack

LONGEST = 1 << 16  # bytes of a value's text
MOST_POINTS = 1 << 16  # of a series, those without a value among them
DEEPEST = 32       # values within values
_NUMBERED = ("username", "strerror", "signal_name", "syscall_name")  # names whose numbers mean the same elsewhere


class PortableError(SondeError):
    """A text that is not a value."""


# What stands for a value that only its own host can look up ---------------------------------------------------------

class PortableName(NamedNumber):
    """A name that was looked up on its host; equal by name."""

    def __init__(self, kind: str, number: int, name: str) -> None:
        super().__init__(kind, number, lambda _: name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PortableName) and (other.kind, other.name) == (self.kind, self.name)

    def __hash__(self) -> int:
        return hash((self.kind, self.name))


class PortableEnum(EnumValue):
    """An enumerator; equal by its name if it has one. There is one subclass for each, with its ``label``."""

    label: str | None = None

    @property
    def name(self) -> str | None:
        return self.label

    def __str__(self) -> str:
        return self.label or int.__repr__(self)

    def __eq__(self, other: object) -> bool:
        own, theirs = self.label, getattr(other, "label", None)
        return int(self) == other if own is None and theirs is None else own == theirs

    def __hash__(self) -> int:
        return int.__hash__(self) if self.label is None else hash(self.label)


class PortableAddress(UserAddress):
    """The text of a user address; equal by it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PortableAddress) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class PortableStack(StackTrace):
    """A stack by the names of its frames: (text as printed, name, offset, module) of each, innermost first."""

    __slots__ = ("_named", "_lost")

    def __init__(self, type: Stack, named: tuple[tuple[str, str, int, str], ...], lost: bool) -> None:
        self.type, self.id, self.tgid, self.depth = type, 0, 0, len(named)
        self.fetched = range(len(named))
        self._named, self._lost = named, lost

    @property
    def lost(self) -> bool:
        return self._lost

    def source_text(self, file: str) -> SourceText | None:
        """Another host's files are not seen from here."""
        return None

    @property
    def frames(self) -> list[StackFrame]:
        return [self._make_frame(0, name, offset, module) for _, name, offset, module in self._named]

    @property
    def lines(self) -> list[str]:
        return [text for text, *_ in self._named]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PortableStack) and (other._named, other._lost) == (self._named, self._lost)

    def __hash__(self) -> int:
        return hash(self._named)


# To text ------------------------------------------------------------------------------------------------------------

def encode_value(value: ScriptValue) -> bytes:
    """The text of a key or value."""
    from json import dumps
    return dumps(_make_form(value), separators=(",", ":")).encode()


def kind_of(value: ScriptValue) -> str:
    """A value's kind; values of one kind can be compared and printed side by side."""
    if type(value) is tuple:
        return f"({','.join(map(kind_of, value))})"
    if type(value) in (int, float, str, bool):
        return type(value).__name__
    return next((base.__name__ for base in _FORMS if isinstance(value, base)), "none")


def _make_form(value: ScriptValue) -> Json:
    """A value as JSON: a list that begins with the name of its kind, except for what JSON has itself."""
    if value is None or type(value) is int or type(value) is str or isinstance(value, bool):
        return value
    kind = type(value)
    make = _FORMS.get(kind) or next((make for base, make in _FORMS.items() if isinstance(value, base)), None)
    assert make is not None, f"no portable form of {kind.__name__}"
    return make(value)


def _forms_of(values: Iterable[ScriptValue]) -> list[Json]:
    return [_make_form(each) for each in values]


def _stack_form(stack: StackTrace) -> list[Json]:
    frames: list[Json] = [[line, frame.name, frame.offset if frame.name else 0, frame.module]
              for line, frame in zip(stack.lines, stack.frames)]
    return ["stack", stack.type.user, stack.type.mode, stack.type.limit, stack.lost, frames]


# Subclasses come before their bases.
_FORMS: dict[type, Callable[[Any], list[Json]]] = {
    RecordValue: lambda v: ["record", list(v._fields), *_forms_of(v)],
    ArrayValue: lambda v: ["array", *_forms_of(v)],
    tuple: lambda v: ["tuple", *_forms_of(v)],
    StructValue: lambda v: ["struct", list(v), *_forms_of(v.values())],
    float: lambda v: ["float" if isinstance(v, SingleFloat) else "double", v.hex()],
    EnumValue: lambda v: ["enum", type(v).__name__, int(v), v.name],
    PointerValue: lambda v: ["pointer", int(v)],
    Moment: lambda v: ["moment", v.format, v.wall],
    MacAddress: lambda v: ["mac", v.hex()],
    Buffer: lambda v: ["buffer", v.hex()],
    InetAddress: lambda v: ["inet", v.family, v.packed.hex()],
    NamedNumber: lambda v: ["name", v.kind, v.number if v.kind in _NUMBERED else 0, v.name],
    UserAddress: lambda v: ["usym", str(v)],
    StackTrace: _stack_form,
    Stats: lambda v: ["stats", v.count, _make_form(v.average), _make_form(v.total)],
    FloatLinearHistogram: lambda v: ["flhist", v.low, v.high, v.step, v.units, *v.counts],
    FloatHistogram: lambda v: ["fhist", v.bits, *v.counts],
    LinearHistogram: lambda v: ["lhist", v.low, v.high, v.step, *v.counts],
    Histogram: lambda v: ["hist", v.bits, *v.counts],
    Series: lambda v: ["series", v.interval, v.wall, *[part for item in v.values.items() for part in item]],
}


# From text ----------------------------------------------------------------------------------------------------------

def decode_value(text: bytes) -> ScriptValue:
    """The value of a text that came from elsewhere; PortableError if it is not one."""
    from json import loads
    if len(text) > LONGEST:
        raise PortableError(f"a value of {len(text)} bytes: {LONGEST} are the most")
    try:
        return _read_form(loads(text), DEEPEST)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError, MemoryError):
        raise PortableError(f"no value: {text[:60]!r}") from None


def _read_form(form: Json, depth: int) -> ScriptValue:
    if form is None or isinstance(form, str | bool):
        return form
    if isinstance(form, int):
        return as_integer(form)
    if not depth:
        raise ValueError
    kind, *parts = as_list(form)
    return _READERS[as_text(kind)](parts, depth - 1)


def _read_forms(parts: list[Json], depth: int) -> list[ScriptValue]:
    return [_read_form(part, depth) for part in parts]


def _read_members(parts: list[Json], depth: int) -> tuple[list[str], list[ScriptValue]]:
    """The names and values of a record's or struct's members."""
    names, values = as_texts(parts[0]), _read_forms(parts[1:], depth)
    if len(names) != len(values):
        raise ValueError
    return names, values


def _read_record(parts: list[Json], depth: int) -> RecordValue:
    names, values = _read_members(parts, depth)
    return make_record_class(tuple(names), all(isinstance(value, StackTrace) for value in values))(values)


def _read_struct(parts: list[Json], depth: int) -> StructValue:
    return StructValue(zip(*_read_members(parts, depth)))


def _read_enum(parts: list[Json], depth: int) -> EnumValue:
    title, number, name = parts
    made: type[PortableEnum] = type(as_text(title), (PortableEnum,),
                                    {"label": name if name is None else as_text(name)})
    return made(as_integer(number))


def _read_moment(parts: list[Json], depth: int) -> Moment:
    format, wall = parts
    moment = Moment(as_integer(wall))
    moment.format, moment.wall = as_text(format), min(max(int(moment), 0), 1 << 62)
    return moment


def _read_inet(parts: list[Json], depth: int) -> InetAddress:
    family, packed = as_integer(parts[0]), bytes.fromhex(as_text(parts[1]))
    if len(packed) != {2: 4, 10: 16}.get(family, 0):
        raise ValueError
    return InetAddress(family, packed)


def _read_stack(parts: list[Json], depth: int) -> PortableStack:
    user, mode, limit, lost, frames = parts
    named = tuple([(as_text(text), as_text(name), as_integer(offset), as_text(module))
                   for text, name, offset, module in map(as_list, as_list(frames))])
    return PortableStack(Stack(as_flag(user), as_text(mode), as_integer(limit)), named, as_flag(lost))


def _read_histogram(parts: list[Json], depth: int) -> Histogram:
    bits, *counts = as_integers(parts)
    if not 0 <= bits <= 5 or len(counts) != 1 + ((65 - bits) << bits):
        raise ValueError
    return Histogram(counts, bits)


def _read_linear(parts: list[Json], depth: int) -> LinearHistogram:
    low, high, step, *counts = as_integers(parts)
    if step < 1 or len(counts) != 2 + (high - low + step - 1) // step:
        raise ValueError
    return LinearHistogram(counts, low, high, step)


_NAN, _SINGLE_NAN = float("nan"), SingleFloat("nan")  # each one object, so that all are one key


def _read_double(parts: list[Json], depth: int) -> float:
    text, = as_texts(parts)
    value = float.fromhex(text)
    return value if value == value else _NAN


def _read_single(parts: list[Json], depth: int) -> SingleFloat:
    value = _read_double(parts, depth)
    return SingleFloat(value) if value == value else _SINGLE_NAN


def _read_stats(parts: list[Json], depth: int) -> Stats:
    count, *sums = parts
    average, total = [_read_double(each[1:], depth) if isinstance(each, list) else as_integer(each) for each in sums]
    return Stats(as_integer(count), average, total)


def _read_float_histogram(parts: list[Json], depth: int) -> FloatHistogram:
    bits, *counts = as_integers(parts)
    if not 0 <= bits <= 5 or len(counts) != Aggregate("hist", bits=bits, floating=True).words:
        raise ValueError
    return FloatHistogram(counts, bits)


def _read_float_linear(parts: list[Json], depth: int) -> FloatLinearHistogram:
    low, high, step, units, *counts = as_integers(parts)
    if step < 1 or units < 1 or len(counts) != 3 + (high - low + step - 1) // step:
        raise ValueError
    return FloatLinearHistogram(counts, low, high, step, units)


def _read_series(parts: list[Json], depth: int) -> Series:
    interval, wall, *points = as_integers(parts)
    epochs = points[::2]
    if interval < 1 or len(points) % 2 or epochs and max(epochs) - min(epochs) > MOST_POINTS:
        raise ValueError
    return Series(interval, dict(zip(epochs, points[1::2])), wall)


def _read_name(parts: list[Json], depth: int) -> PortableName:
    kind, number, name = parts
    return PortableName(as_text(kind), as_integer(number), as_text(name))


_READERS: dict[str, Callable[[list[Json], int], ScriptValue]] = {
    "tuple": lambda parts, depth: tuple(_read_forms(parts, depth)),
    "record": _read_record,
    "array": lambda parts, depth: ArrayValue(_read_forms(parts, depth)),
    "struct": _read_struct,
    "enum": _read_enum,
    "pointer": lambda parts, depth: PointerValue(*as_integers(parts)),
    "moment": _read_moment,
    "mac": lambda parts, depth: MacAddress(bytes.fromhex(*as_texts(parts))),
    "buffer": lambda parts, depth: Buffer(bytes.fromhex(*as_texts(parts))),
    "inet": _read_inet,
    "name": _read_name,
    "usym": lambda parts, depth: PortableAddress(*as_texts(parts)),
    "stack": _read_stack,
    "stats": _read_stats,
    "double": _read_double,
    "float": _read_single,
    "fhist": _read_float_histogram,
    "flhist": _read_float_linear,
    "lhist": _read_linear,
    "hist": _read_histogram,
    "series": _read_series,
}
