"""Python values of map keys, map values and event records, which print as bpftrace prints them.

``str()`` of every value here, and :func:`to_text` of the plain Python ones among them (bool, tuple), is bpftrace's
text. Bytes of traced programs that are not UTF-8 survive as surrogate escapes and leave as the bytes they were.
"""

from __future__ import annotations

from ..basics import Protocol
from ..types import PYTHON, Stack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any


class DecodingContext(Protocol):
    """What a number in a record cannot tell by itself: names, frames, clocks, and how strings are cut."""

    text_size: int  # strings of this capacity came from str() and get the trailer when they were cut
    trailer: str

    def stack_frames(self, stack: int) -> Sequence[int]:
        """Addresses of a stack, innermost first, perhaps with more after them; empty if it was not kept."""

    def ksym(self, address: int) -> tuple[str, int] | None:
        """Name of the kernel symbol around ``address`` and the offset into it."""

    def usym(self, address: int, tgid: int) -> tuple[str, int, str] | None:
        """The same of a user address, and the file it is mapped from; "" where that has no symbol."""

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

    def wall_clock(self, nanoseconds: int, clock: str) -> int:
        """Nanoseconds since 1970 (UTC) of a moment of the boot, monotonic or tai clock."""

    def boot_time(self) -> int:
        """Nanoseconds of the boot clock, now."""


def format_bare_address(address: int) -> str:
    """What ksym() and usym() show of an address that has no name."""
    return hex(address) if address else "0"


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


class StructValue(dict[str, "Any"]):
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


class ArrayValue(tuple["Any", ...]):
    """A C array; a tuple, so that it can be a key."""

    def __str__(self) -> str:
        return f"[{','.join(map(to_text, self))}]"


class RecordValue(tuple["Any", ...]):
    """(x=1, y=2): a tuple whose elements also have names; one subclass for each record type."""

    _fields: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name in self._fields:
            return self[self._fields.index(name)]
        raise AttributeError(name)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self))

    def __str__(self) -> str:
        return _format_braces(zip(self._fields, self))


class InetAddress:
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


class NamedNumber:
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


class UserAddress:
    """A user address with its process; named when it is printed."""

    __slots__ = ("address", "tgid", "_context")

    def __init__(self, address: int, tgid: int, context: DecodingContext) -> None:
        self.address = address
        self.tgid = tgid
        self._context = context

    def __str__(self) -> str:
        found = self._context.usym(self.address, self.tgid)
        return found[0] if found and found[0] else format_bare_address(self.address)

    def __repr__(self) -> str:
        return f"<usym {self.address:#x} of {self.tgid}: {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserAddress) and (other.address, other.tgid) == (self.address, self.tgid)

    def __hash__(self) -> int:
        return hash((self.address, self.tgid))


class Frame:
    """One frame of a stack: ``name`` is "" if unknown; ``module`` is the mapped file of a user frame."""

    __slots__ = ("address", "name", "offset", "module")

    def __init__(self, address: int, name: str, offset: int, module: str = "") -> None:
        self.address = address
        self.name = name
        self.offset = offset
        self.module = module

    def __str__(self) -> str:
        return f"{self.name}+{self.offset}" if self.name else hex(self.address)

    def __repr__(self) -> str:
        return f"<frame {self}>"


class PythonFrame(Frame):
    """A frame of a Python function: ``offset`` is the line (0: not known), ``module`` the source file."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self.name:
            return "[unknown Python function]"
        return self._with_place(self.module)

    @property
    def short(self) -> str:
        """The same with the file's name alone."""
        return self._with_place(self.module.rpartition("/")[2])

    def _with_place(self, file: str) -> str:
        return f"{self.name} ({file}:{self.offset})" if self.offset else f"{self.name} ({file})"


_TRACING = ("bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_", "bpf_test_run", "__bpf_prog_test_run",
            "bpf_prog_test_run")
LOST = "[lost]"  # in the place of frames for which there was no room


class StackTrace:
    """A kernel or user stack; frames are fetched and named when asked for. Equal stacks are equal by id."""

    __slots__ = ("type", "id", "tgid", "depth", "_context", "kept")

    def __init__(self, type: Stack, id: int, tgid: int, depth: int, context: DecodingContext) -> None:
        self.type = type
        self.id = id
        self.tgid = tgid
        self.depth = depth
        self._context = context
        self.kept: Sequence[int] | None = None  # the addresses, once they were fetched for later

    @property
    def addresses(self) -> Sequence[int]:
        """Instruction addresses, innermost first; those of the tracing machinery itself are left out."""
        if self.kept is not None:
            return self.kept
        found, skip = self._context.stack_frames(self.id)[:self.depth], 0
        while not self.type.user and skip < len(found) and \
                (self._context.ksym(found[skip]) or ("",))[0].startswith(_TRACING):
            skip += 1
        return found[skip:skip + self.type.limit]

    @property
    def lost(self) -> bool:
        """There was no room for its frames; where there is no stack at all, the id is 0."""
        return bool(self.id) and not (self.addresses or self._context.stack_frames(self.id))

    @property
    def frames(self) -> list[Frame]:
        """The frames with their names, innermost first."""
        return [self._frame_at(address) for address in self.addresses]

    def _frame_at(self, address: int) -> Frame:
        found = self._context.usym(address, self.tgid) if self.type.user else self._context.ksym(address)
        return self._make_frame(address, *(found or ("", 0)))

    def _make_frame(self, address: int, name: str, offset: int, module: str = "") -> Frame:
        return (PythonFrame if self.type.mode == PYTHON else Frame)(address, name, offset, module)

    def _format_frame(self, address: int) -> str:
        """One frame in the stack's mode."""
        mode = self.type.mode
        if mode == "raw":
            return f"{address:x}"
        if mode == "build_id":
            found = self._context.build_id(address, self.tgid)
            return f"{found[0]} {found[1]:#x}" if found else hex(address)
        frame = self._frame_at(address)
        if mode != "perf":
            return str(frame)
        return f"{address:x} {frame}" + (f" ({frame.module or '[unknown]'})" if self.type.user else "")

    def render(self, indent: int) -> str:
        """The text, each frame on a line of its own behind a line break; addresses alone are not indented."""
        lead = {"perf": "\t", "raw": "", "build_id": ""}.get(self.type.mode, " " * indent)
        lines = [lead + self._format_frame(address) for address in self.addresses] or [lead + LOST] * self.lost
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


# Text ---------------------------------------------------------------------------------------------------------------

def _format_braces(items: Iterable[tuple[str, Any]]) -> str:
    inner = ", ".join([f".{name} = {to_text(value)}" for name, value in items])
    return f"{{ {inner} }}" if inner else "{ }"


def to_text(value: Any) -> str:
    """A value as print() writes it."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return "true" if value else "false"
    if kind is tuple:
        return "(" + ", ".join(map(to_text, value)) + ")"
    return "null" if value is None else str(value)


def key_text(key: Any) -> str:
    """A map key between its brackets: the elements of a tuple without parentheses."""
    return ", ".join(map(to_text, key)) if type(key) is tuple else to_text(key)


def strftime(format: str, nanoseconds: int) -> str:
    """C's strftime in local time, and ``%f``: microseconds; of nanoseconds since 1970."""
    import time
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    if "%f" in format:
        micro = f"{rest // 1000:06}"
        format = "%%".join([part.replace("%f", micro) for part in format.split("%%")])
    return time.strftime(format, time.localtime(seconds))
