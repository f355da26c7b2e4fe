"""Python values of map keys, map values and event records, which print as bpftrace prints them.

``str()`` of every value here, and :func:`to_text` of the plain Python ones among them (bool, tuple), is bpftrace's
text. Bytes from traced programs that are not UTF-8 survive as surrogate escapes and are written as the original bytes.
"""

from __future__ import annotations

from ...base.fast_stdlib import Protocol
from ...layouts.shared_maps import PYTHON_ENTERED
from ...types import PACKET, PYTHON, THREAD_STACKS, Stack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeAlias

    from ..maps.aggregates import Drawing, Stats
    from .source_text import SourceText

# What keys, values and arguments are once they are decoded: also of subclasses, as they stand below.
ScriptValue: TypeAlias = ("int | float | str | bytes | tuple[ScriptValue, ...] | StructValue | InetAddress"
                          " | NamedNumber | UserAddress | StackTrace | Stats | Drawing | None")
Item: TypeAlias = "tuple[ScriptValue, ScriptValue]"  # of a map; the key of one without keys is None
Escape: TypeAlias = "Callable[[str], str]"  # what makes a traced program's text harmless
Items: TypeAlias = "Sequence[Item]"


class Clock(Protocol):
    """The present time, and the wall clock of past moments."""

    def wall_clock(self, nanoseconds: int, clock: str) -> int:
        """Nanoseconds since 1970 (UTC) of a moment of the boot, monotonic or tai clock."""

    def boot_time(self) -> int:
        """Nanoseconds of the boot clock, now."""


class DecodingContext(Clock, Protocol):
    """What numbers in records stand for: names, frames, times; and how strings are cut."""

    text_size: int  # strings of this capacity came from str() and get the trailer when they were cut
    trailer: str

    def stack_frames(self, stack: int) -> Sequence[int]:
        """Addresses of a stack, innermost first, perhaps with more after them; empty if it was not kept."""

    def ksym(self, address: int) -> tuple[str, int] | None:
        """Name of the kernel symbol around ``address`` and the offset into it."""

    def usym(self, address: int, tgid: int) -> tuple[str, int, str] | None:
        """The same of a user address, and the file it is mapped from; "" where that has no symbol."""

    def code_places(self, address: int, tgid: int) -> Sequence[tuple[str, str, int]]:
        """(function, source file, line) of a user address, after those of the functions that are inlined there; empty
        where that is not known, or not wanted."""

    def source_text(self, file: str, tgid: int) -> SourceText | None:
        """A file of Python's source as a process sees it; None where nobody can look, as in a recording."""

    def build_id(self, address: int, tgid: int) -> tuple[str, int] | None:
        """Build id (hexadecimal) of the file mapped at ``address``, and the offset in that file."""

    def unwind_stack(self, registers: dict[str, int], stack: bytes, base: int, tgid: int, limit: int) -> Sequence[int]:
        """Instruction addresses of a process's stack, from its registers and a copy of the stack (from ``base``)."""

    def probe_name(self, index: int) -> str:
        """Full name of an attach point."""

    def user_name(self, uid: int) -> str:
        """Login name, or the number as text."""

    def syscall_name(self, number: int) -> str:
        """Name of a system call, or "Unknown syscall"."""

    def cgroup_path(self, cgroup: int, filter: str) -> str:
        """Path of a cgroup, with the hierarchy in front as bpftrace prints it."""

    def group_name(self, kind: str, cgroup: int) -> str:
        """Name of the container, pod or service that a cgroup is a part of; "" if it is of none."""

    def close(self) -> None:
        """Stop looking up names; those that are known stay."""


def format_bare_address(address: int) -> str:
    """What ksym() and usym() show of an address that has no name."""
    return hex(address) if address else "0"


class SingleFloat(float):
    """C's float; prints with the fewest digits that tell it from others of its kind."""

    def __str__(self) -> str:
        return shortest_single(self)


def shortest_single(value: float) -> str:
    """The text of a float, as Python writes a double."""
    from struct import pack
    if value - value == 0:  # neither an infinity nor a NaN
        bits = pack("f", value)
        for digits in range(1, 9):
            short = float(f"{value:.{digits}g}")
            if abs(short) < 3.4028236e38 and pack("f", short) == bits:
                return repr(short)
    return float.__repr__(value)


class PointerValue(int):
    """An address; prints in hexadecimal."""

    def __str__(self) -> str:
        return hex(self)


class EnumValue(int):
    """A number with a name; one subclass for each enum, with its ``names``."""

    names: dict[int, str] = {}

    @property
    def name(self) -> str | None:
        """The enumerator's name, None if the enum has none for this number."""
        return self.names.get(self)

    def __str__(self) -> str:
        return self.names.get(self) or int.__repr__(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


class OwnText(str):
    """A text of the script itself: it is printed as it is."""

    __slots__ = ()


class Buffer(bytes):
    """What buf() read; prints as ASCII with ``\\xNN`` for other bytes."""

    def __str__(self) -> str:
        return "".join([chr(b) if 32 <= b <= 126 else f"\\x{b:02x}" for b in self])

    def to_escaped(self) -> str:
        """``%rx``: every byte as ``\\xNN``."""
        return "".join([f"\\x{b:02x}" for b in self])

    def to_hex(self) -> str:
        """``%rh``: hexadecimal with spaces between."""
        return self.hex(" ")


class StructValue(dict[str, "ScriptValue"]):
    """A C struct, or the arguments of a probe: field name → value, also as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self) -> str:
        return _format_braces(self.items())

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.values()))


class ArrayValue(tuple["ScriptValue", ...]):
    """A C array; a tuple, so that it can be a key."""

    def __str__(self) -> str:
        return f"[{','.join(map(to_text, self))}]"


class RecordValue(tuple["ScriptValue", ...]):
    """(x=1, y=2): a tuple whose elements also have names; one subclass for each record type."""

    _fields: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name in self._fields:
            return self[self._fields.index(name)]
        raise AttributeError(name)

    def _asdict(self) -> dict[str, ScriptValue]:
        return dict(zip(self._fields, self))

    def __str__(self) -> str:
        return self.render()

    def render(self, escape: Escape | None = None) -> str:
        """The text."""
        return _format_braces(zip(self._fields, self), escape)


def make_record_class(names: tuple[str, ...], of_stacks: bool = False) -> type[RecordValue]:
    """The class of the records whose elements have these names; ``of_stacks``: all of them are stacks."""
    if of_stacks and len(names) > 1 and names == THREAD_STACKS[:len(names)]:
        return ThreadStacks
    if names == PACKET.names:
        return PacketValue
    return type("record", (RecordValue,), {"_fields": names})


class TextValue:
    """A value that is shown as text: ``f"{value:<20}"`` is that of the text."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class InetAddress(TextValue):
    """An IPv4 or IPv6 address as ntop() gives it."""

    __slots__ = ("family", "packed")

    def __init__(self, family: int, packed: bytes) -> None:
        self.family = family
        self.packed = packed

    def __str__(self) -> str:
        from _socket import inet_ntop  # the C half of socket: no start-up cost
        return inet_ntop(self.family, self.packed) if self.packed else ""

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InetAddress) and other.packed == self.packed

    def __hash__(self) -> int:
        return hash(self.packed)


class PacketValue(RecordValue):
    """What packet() tells. Values also come from other hosts: one whose fields have other types is a record."""

    _fields = PACKET.names

    def _is_sound(self) -> bool:
        return len(self) == len(self._fields) and all(isinstance(value, InetAddress) for value in self[:2]) \
            and all(type(value) is int and value >= 0 for value in self[2:])

    def render(self, escape: Escape | None = None) -> str:
        """The text; nothing in it is a traced program's own."""
        from .packet_text import packet_text
        return packet_text(self) if self._is_sound() else super().render(escape)

    def _asdict(self) -> dict[str, ScriptValue]:
        from .packet_text import packet_fields
        return packet_fields(self) if self._is_sound() else super()._asdict()


class MacAddress(bytes):
    """Six bytes; prints as ``18:C0:4D:08:2E:BB``."""

    def __str__(self) -> str:
        return self.hex(":").upper()


class Moment(int):
    """What strftime() made: nanoseconds of some clock, printed by a format."""

    format: str
    wall: int  # nanoseconds since 1970

    def __str__(self) -> str:
        return strftime(self.format, self.wall)


class NamedNumber(TextValue):
    """A number whose name is looked up when it is printed: a kernel symbol, user, error, cgroup ..."""

    __slots__ = ("kind", "number", "_lookup")

    def __init__(self, kind: str, number: int, lookup: Callable[[int], str]) -> None:
        self.kind = kind
        self.number = number
        self._lookup = lookup

    @property
    def name(self) -> str:
        """The name, or the number in a readable form if it has none."""
        return self._lookup(self.number)

    def __str__(self) -> str:
        return self._lookup(self.number)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.number}: {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedNumber) and (other.kind, other.number) == (self.kind, self.number)

    def __hash__(self) -> int:
        return hash((self.kind, self.number))


class UserAddress(TextValue):
    """A user address with its process; named when it is printed."""

    __slots__ = ("address", "tgid", "_context")

    def __init__(self, address: int, tgid: int, context: DecodingContext) -> None:
        self.address = address
        self.tgid = tgid
        self._context = context

    def __str__(self) -> str:
        symbol = self._context.usym(self.address, self.tgid)
        return symbol[0] if symbol and symbol[0] else format_bare_address(self.address)

    def __repr__(self) -> str:
        return f"<usym {self.address:#x} of {self.tgid}: {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserAddress) and (other.address, other.tgid) == (self.address, self.tgid)

    def __hash__(self) -> int:
        return hash((self.address, self.tgid))


def code_label(address: int, name: str, offset: int) -> str:
    """An address in code as text: the function and the offset in it, where its name is known."""
    return f"{name}+{offset}" if name else hex(address)


class StackFrame(TextValue):
    """One frame of a stack: ``name`` is "" if unknown; ``module`` is the mapped file of a user frame, ``file`` and
    ``line`` its source ("" and 0: not known). One that is ``inlined`` has no code of its own, and no ``offset``."""

    __slots__ = ("address", "name", "offset", "module", "file", "line", "inlined")

    def __init__(self, address: int, name: str, offset: int, module: str = "") -> None:
        self.address = address
        self.name = name
        self.offset = offset
        self.module = module
        self.file = ""
        self.line = 0
        self.inlined = False

    @property
    def label(self) -> str:
        """The name and the place in it, without the source."""
        return f"{self.name} [inlined]" if self.inlined else code_label(self.address, self.name, self.offset)

    def __str__(self) -> str:
        return f"{self.label} ({self.file}:{self.line})" if self.file and self.line else self.label

    def __repr__(self) -> str:
        return f"<frame {self}>"


class PythonFrame(StackFrame):
    """A frame of a Python function: ``offset`` is the line (0: not known), ``module`` the source file."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self.name:
            return "[unknown Python function]"
        return self._with_line(self.module)

    @property
    def short(self) -> str:
        """The same with the file's name alone."""
        return self._with_line(self.module.rpartition("/")[2])

    def _with_line(self, file: str) -> str:
        return f"{self.name} ({file}:{self.offset})" if self.offset else f"{self.name} ({file})"


_TRACING = ("bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_", "bpf_test_run", "__bpf_prog_test_run",
            "bpf_prog_test_run", "bpf_trampoline_",
            "___bpf_prog_run", "__bpf_prog_run")  # the interpreter
LOST = "[lost]"  # in the place of frames for which there was no room


class StackTrace:
    """A kernel or user stack; frames are fetched and named when asked for. Equal stacks are equal by id."""

    __slots__ = ("type", "id", "tgid", "depth", "_context", "fetched")

    def __init__(self, type: Stack, id: int, tgid: int, depth: int, context: DecodingContext) -> None:
        self.type = type
        self.id = id
        self.tgid = tgid
        self.depth = depth
        self._context = context
        self.fetched: Sequence[int] | None = None  # the addresses, if they had to outlive the kernel's table

    @property
    def addresses(self) -> Sequence[int]:
        """Instruction addresses, innermost first; those of the tracing machinery itself are left out."""
        if self.fetched is not None:
            return self.fetched
        frames = self._context.stack_frames(self.id)[:self.depth]
        skip = 0 if self.type.user else self._count_tracing(frames)
        return frames[skip:skip + self.type.limit]

    def _count_tracing(self, frames: Sequence[int]) -> int:
        """How many of the first frames are the tracing's. A trampoline that is gone by now has no name."""
        for number, address in enumerate(frames):
            symbol = self._context.ksym(address)
            if not (symbol[0].startswith(_TRACING) if symbol is not None else number):
                return number
        return len(frames)

    @property
    def lost(self) -> bool:
        """Whether the kernel had no room for its frames; without any stack, the id is 0."""
        return bool(self.id) and not (self.addresses or self._context.stack_frames(self.id))

    @property
    def entered(self) -> list[bool]:
        """For each Python frame, whether C called the interpreter for it."""
        return [bool(address & PYTHON_ENTERED) for address in self.addresses]

    def source_text(self, file: str) -> SourceText | None:
        """A source file of a Python frame, as its process sees it."""
        return self._context.source_text(file, self.tgid)

    @property
    def frames(self) -> list[StackFrame]:
        """The frames with their names, innermost first."""
        return [frame for at, address in enumerate(self.addresses) for frame in self._frames_at(address, at > 0)]

    def _frames_at(self, address: int, calls: bool) -> list[StackFrame]:
        """The frame of an address, after those of functions that are inlined there. Of one that ``calls`` it is where
        the call returns to, which may be another line's."""
        symbol = self._context.usym(address, self.tgid) if self.type.user else self._context.ksym(address)
        frame = self._make_frame(address, *(symbol or ("", 0)))
        if not self.type.user or self.type.mode not in ("bpftrace", "perf"):
            return [frame]
        locations = self._context.code_places(address - calls, self.tgid)
        if not locations:
            return [frame]
        *inlined, (_, frame.file, frame.line) = locations
        frames = [self._make_frame(address, name, 0, frame.module) for name, _, _ in inlined]
        for each, (_, file, line) in zip(frames, inlined):
            each.file, each.line, each.inlined = file, line, True
        return [*frames, frame]

    def _make_frame(self, address: int, name: str, offset: int, module: str = "") -> StackFrame:
        return (PythonFrame if self.type.mode == PYTHON else StackFrame)(address, name, offset, module)

    @property
    def lines(self) -> list[str]:
        """Each frame's text, in the stack's mode."""
        mode = self.type.mode
        if mode == "raw":
            return [f"{address:x}" for address in self.addresses]
        if mode == "build_id":
            rows = [(address, self._context.build_id(address, self.tgid)) for address in self.addresses]
            return [f"{location[0]} {location[1]:#x}" if location else f"{address:x}" for address, location in rows]
        if mode != "perf" and not self.type.user:
            return [code_label(address, *(self._context.ksym(address) or ("", 0))) for address in self.addresses]
        if mode != "perf":
            return list(map(str, self.frames))
        return [f"{frame.address:x} {frame.label}" + (f" ({frame.module or '[unknown]'})" if self.type.user else "")
                for frame in self.frames]

    def render(self, indent: int, escape: Escape = str) -> str:
        """The text, each frame on a line of its own after a line break; addresses alone are not indented."""
        lead = {"perf": "\t", "raw": "", "build_id": ""}.get(self.type.mode, " " * indent)
        lines = [lead + escape(line) for line in self.lines] or [lead + LOST] * self.lost
        return "\n" + "".join([f"{line}\n" for line in lines])

    def __str__(self) -> str:
        return self.render(8)

    def __repr__(self) -> str:
        return f"<{self.type} of {self.depth} frames>"

    def __len__(self) -> int:
        return self.depth

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StackTrace) and (other.id, other.tgid) == (self.id, self.tgid)

    def __hash__(self) -> int:
        return hash((self.id, self.tgid))


def value_members(value: ScriptValue) -> Sequence[ScriptValue]:
    """The members of a struct, record or tuple; of anything else the value itself."""
    if isinstance(value, StructValue):
        return list(value.values())
    return value if isinstance(value, RecordValue) or type(value) is tuple else (value,)


class ThreadStacks(RecordValue):
    """A thread's ``kernel``, ``native`` and ``python`` stacks, which print as one."""

    _fields = THREAD_STACKS

    @property
    def stacks(self) -> list[StackTrace]:
        """The stacks, without their names."""
        return [stack for stack in self if isinstance(stack, StackTrace)]

    @property
    def frames(self) -> list[StackFrame]:
        """Kernel frames, then those of the program, innermost first; Python's in the place of the interpreter's."""
        from .python_frames import merge_python_frames
        kernel, native, python = [*[stack.frames for stack in self.stacks], []][:3]
        return [*kernel, *merge_python_frames(native, [frame.name for frame in native], python,
                                              self.stacks[2].entered if python else [])]

    def render(self, escape: Escape | None = None) -> str:
        """The text, each frame on a line of its own after a line break."""
        lines = [*map(str, self.frames), *[LOST for stack in self.stacks if stack.lost][:1]]
        return "\n" + "".join([f"        {escape(line) if escape else line}\n" for line in lines])


# Text ---------------------------------------------------------------------------------------------------------------

def _format_braces(items: Iterable[tuple[str, ScriptValue]], escape: Escape | None = None) -> str:
    inner = ", ".join([f".{name} = {to_text(value, escape)}" for name, value in items])
    return f"{{ {inner} }}" if inner else "{ }"


def to_text(value: ScriptValue, escape: Escape | None = None) -> str:
    """A value as print() writes it; ``escape`` is applied to each text and name in it."""
    if escape is not None:
        return _escape_parts(value, escape)
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is tuple:
        return "(" + ", ".join(map(to_text, value)) + ")"
    return "null" if value is None else str(value)


def _escape_parts(value: ScriptValue, escape: Escape) -> str:
    """The same, with what traced programs have named or written escaped; line breaks between frames stay."""
    if isinstance(value, StructValue):
        return _format_braces(value.items(), escape)
    if isinstance(value, StackTrace):
        return value.render(8, escape)
    if isinstance(value, RecordValue):
        return value.render(escape)
    if isinstance(value, ArrayValue):
        return f"[{','.join([_escape_parts(each, escape) for each in value])}]"
    if type(value) is tuple:
        return "(" + ", ".join([_escape_parts(each, escape) for each in value]) + ")"
    drawn = hasattr(value, "draw")  # a histogram or series: lines of numbers
    return str(value) if drawn or isinstance(value, Buffer | Moment | OwnText) else escape(to_text(value))


def key_text(key: ScriptValue, escape: Escape | None = None) -> str:
    """A map key between its brackets: the elements of a tuple without parentheses."""
    return ", ".join([to_text(each, escape) for each in key]) if type(key) is tuple else to_text(key, escape)


PARTS_OF_SECONDS = ("%f", "%k", "%l")


def strftime(format: str, nanoseconds: int) -> str:
    """C's strftime in local time, of nanoseconds since 1970; ``%f``, ``%k`` and ``%l`` are those of the second: micro-,
    nano- and milliseconds."""
    import time
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    for conversion, part in (("%f", f"{rest // 1000:06}"), ("%k", f"{rest:09}"), ("%l", f"{rest // 1000000:03}")):
        if conversion in format:
            format = "%%".join([piece.replace(conversion, part) for piece in format.split("%%")])
    return time.strftime(format, time.localtime(seconds))


def keep_stacks(values: Sequence[ScriptValue]) -> None:
    """Fetch the frames of all stacks in values while the kernel has them; their names can be looked up later."""
    for value in values:
        if isinstance(value, tuple):
            keep_stacks(value)
        elif isinstance(value, StackTrace):
            value.fetched = value.addresses
