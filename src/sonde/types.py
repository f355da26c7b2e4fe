"""Types of values: what the checker infers, the compiler lays out and the runtime decodes.

Every type knows its ``size`` and ``align`` in bytes as stored in a map key, a map value or an event record, in native
byte order. Types are immutable and compared by value; structs are compared by name.
"""

from __future__ import annotations

from .base.record import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = ("container", "pod", "service")  # kinds of symbols: what a control group is a part of
KERNEL, USER, CTX, BPF = "kernel", "user", "ctx", "bpf"  # address spaces of a pointer ("" = unknown)


class Type(Value):
    """Base of all types; ``SIZE`` and ``ALIGN`` are of those that have always the same."""

    SIZE = -1
    ALIGN = 1

    @property
    def size(self) -> int:
        """Bytes in memory."""
        assert self.SIZE >= 0, f"{type(self).__name__} has no size"
        return self.SIZE

    @property
    def align(self) -> int:
        """Alignment in bytes (a power of two)."""
        return self.ALIGN

    def __str__(self) -> str:
        return type(self).__name__.lower()


class Scalar(Type):
    """A type whose value fits one 64-bit register."""

    @property
    def align(self) -> int:
        return self.size


class NoneType(Type):
    """The "value" of a call that returns nothing."""

    SIZE = 0

    def __str__(self) -> str:
        return "void"


class Nothing(NoneType):
    """What ``()`` is, and a call of a macro that ends in no value."""

    def __str__(self) -> str:
        return "none"


class Real(NoneType):
    """A number of ``bytes`` that has its place in a struct and is no value of the language's: long double, and what has
    128 bits."""

    bytes: int
    alignment: int = 0  # 0: as many bytes

    @property
    def size(self) -> int:
        return self.bytes

    @property
    def align(self) -> int:
        return self.alignment or self.bytes


class Int(Scalar):
    """An integer of ``bits`` (8, 16, 32, 64)."""

    bits: int = 64
    signed: bool = True

    @property
    def size(self) -> int:
        return self.bits // 8

    def __str__(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.bits}"


class Float(Scalar):
    """A number of IEEE 754 in ``bits``: C's float (32) and double (64). In a register it is a double, bit by bit."""

    bits: int = 64

    @property
    def size(self) -> int:
        return self.bits // 8

    def __str__(self) -> str:
        return "float" if self.bits == 32 else "double"


class Bool(Scalar):
    """``true`` or ``false``; one byte."""

    SIZE = 1


class Enum(Scalar):
    """A C enum: ``names`` maps value → name."""

    name: str
    bits: int = 32
    signed: bool = False
    names: dict[int, str] = {}

    @property
    def size(self) -> int:
        return self.bits // 8

    def __str__(self) -> str:
        return f"enum {self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Enum) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("enum", self.name))


class Pointer(Scalar):
    """A pointer; ``space`` says which memory it points into and so how it is read."""

    to: Type
    space: str = ""

    SIZE = 8

    def __str__(self) -> str:
        return f"{self.to} *"


class Address(Pointer):
    """What uptr() and kptr() make of a number: a number still, of which it is known where it points."""

    def __str__(self) -> str:
        return "uint64"


class Symbol(Scalar):
    """A number that is printed as a name, looked up in user space when it is printed.

    kind: ksym (address), username (uid), probe (index of an attach point), strerror, signal_name,
    syscall_name, cgroup_path, container, pod, service (cgroup id).
    """

    kind: str
    filter: str = ""  # cgroup_path(id, filter)

    SIZE = 8

    def __str__(self) -> str:
        return self.kind


class USym(Type):
    """A user address with its process: u64 address, u32 tgid, u32 index of the probe (0 if none)."""

    SIZE, ALIGN = 16, 8


PYTHON = "python"


class Stack(Type):
    """A stack trace: u64 id of the frames in the script's stack map, u32 tgid, u32 number of frames.

    The frames themselves (u64 each, innermost first) are in map ``__stacks`` under that id, which is a
    64-bit hash of them, so equal stacks share one entry. The tgid is 0 for kernel stacks. A stack of Python functions
    is a user stack of mode "python", with ids of frames (:mod:`sonde.layouts.cpython`) in the place of addresses.
    """

    user: bool = False
    mode: str = "bpftrace"  # bpftrace perf raw build_id: how it is printed; python
    limit: int = 127

    @property
    def kind(self) -> str:
        """The builtin that it is of."""
        return "pystack" if self.mode == PYTHON else "ustack" if self.user else "kstack"

    SIZE, ALIGN = 16, 8

    def __str__(self) -> str:
        return self.kind


class StackCopy(Stack):
    """dw_ustack: what unwinding in user space needs. u32 tgid, u32 bytes of stack that could be read, the process's
    pt_regs, then its stack from the page that the stack pointer points into."""

    registers: int = 0  # bytes of struct pt_regs

    @property
    def size(self) -> int:
        return 8 + self.registers + STACK_COPY

    def __str__(self) -> str:
        return "dw_ustack"


STACK_PAGE, STACK_COPY = 4096, 4 * 4096  # bytes


THREAD_STACKS = ("kernel", "native", "python")  # the fields of the record that ``stack`` is; the last may be missing


class Timestamp(Type):
    """strftime(): u64 nanoseconds of ``clock`` (boot, monotonic, tai); printed by ``format``."""

    format: str
    clock: str = "boot"

    SIZE, ALIGN = 8, 8


class Str(Type):
    """A NUL-terminated string in ``capacity`` bytes (the NUL included)."""

    capacity: int

    @property
    def size(self) -> int:
        return self.capacity

    def __str__(self) -> str:
        return f"string[{self.capacity}]"


class Buf(Type):
    """buf(): u32 length in use, then up to ``capacity`` bytes."""

    capacity: int

    @property
    def size(self) -> int:
        return 4 + self.capacity

    ALIGN = 4


class Inet(Type):
    """ntop()/pton(): u32 family (2 or 10), then 16 bytes of address in network order (IPv4 in the first 4)."""

    SIZE, ALIGN = 20, 4


class MacAddr(Type):
    """macaddr(): six bytes."""

    SIZE = 6


class Array(Type):
    """A fixed array; a multi-dimensional one is an array of arrays."""

    of: Type
    count: int

    @property
    def size(self) -> int:
        return self.of.size * self.count

    @property
    def align(self) -> int:
        return self.of.align

    def __str__(self) -> str:
        return f"{self.of}[{self.count}]"


class StructField(Value):
    """A member of a struct or union; ``bit_size`` 0 means "not a bitfield", ``bit_offset`` is within the
    storage that starts at byte ``offset``, from its lowest bit on, on big-endian machines from its highest."""

    name: str
    type: Type
    offset: int
    bit_offset: int = 0
    bit_size: int = 0
    data_loc: bool = False  # tracepoint __data_loc: u32 of (length << 16 | offset) at ``offset``


class Struct(Type):
    """A struct or union of the kernel (BTF), of the script, or of a probe's arguments.

    ``load`` returns the direct fields when first needed (kernel structs refer to one another in circles);
    members of anonymous members are found through :meth:`field`.
    """

    name: str
    bytes: int
    load: Callable[[], tuple[StructField, ...]]
    union: bool = False
    btf_id: int = 0  # id in vmlinux BTF when known: lets the compiler load through a typed pointer
    alignment: int = 8

    @property
    def size(self) -> int:
        return self.bytes

    @property
    def align(self) -> int:
        return self.alignment

    @property
    def fields(self) -> tuple[StructField, ...]:
        """Direct members in order of declaration; anonymous ones have an empty name."""
        return self.load()

    def field(self, name: str) -> StructField | None:
        """The member ``name``, also from anonymous structs and unions, with its offset from this struct."""
        for field in self.fields:
            if field.name == name:
                return field
        for field in self.fields:
            if not field.name and isinstance(field.type, Struct):
                inner = field.type.field(name)
                if inner is not None:
                    return StructField(inner.name, inner.type, inner.offset + field.offset,
                                       inner.bit_offset, inner.bit_size)
        return None

    def field_names(self) -> list[str]:
        """Every name that :meth:`field` would find."""
        names: list[str] = []
        for field in self.fields:
            if field.name:
                names.append(field.name)
            elif isinstance(field.type, Struct):
                names += field.type.field_names()
        return names

    def __str__(self) -> str:
        return f"{'union' if self.union else 'struct'} {self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) \
            and (other.name, other.union, other.bytes) == (self.name, self.union, self.bytes)

    def __hash__(self) -> int:
        return hash(("struct", self.name, self.bytes))


class Tuple(Type):
    """(a, b, c): elements laid out like a C struct; total size is a multiple of the alignment."""

    of: tuple[Type, ...]
    names: tuple[str, ...] = ()  # given for records: (x=1, y=2)

    @property
    def align(self) -> int:
        return self.layout()[1]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Byte offset of each element."""
        return self.layout()[2]

    @property
    def size(self) -> int:
        return self.layout()[0]

    def element_order(self, names: tuple[str, ...]) -> list[int]:
        """Which element of this record each of ``names`` is: records of one kind may have their fields in any order."""
        if not names or names == self.names:
            return list(range(len(self.of)))
        return [self.names.index(name) for name in names]

    def has_same_shape(self, other: Tuple) -> bool:
        """Whether the other has as many elements, and the same names if any."""
        return len(self.of) == len(other.of) and sorted(self.names) == sorted(other.names)

    def layout(self) -> tuple[int, int, tuple[int, ...]]:
        """(size, alignment, offsets), found in one go: tuples may be nested deeply."""
        at, align, offsets = 0, 1, []
        for element in self.of:
            size, needs = element.layout()[:2] if isinstance(element, Tuple) else (element.size, element.align)
            at = round_up(at, needs)
            offsets.append(at)
            at += size
            align = max(align, needs)
        return round_up(at, align), align, tuple(offsets)

    def __str__(self) -> str:
        if self.names:
            return "(" + ",".join(f"{n}={t}" for n, t in zip(self.names, self.of)) + ")"
        return "(" + ",".join(map(str, self.of)) + ")"


class AggregateKind(Value):
    """``words`` of state per CPU, 0 where that depends on the parameters. ``merges`` says how states of several CPUs,
    hosts or times become one: the words "add" up modulo 2**64, so that an earlier state can be subtracted from a later
    one; the "least" or "greatest" value counts; or "intervals" merge one by one. ``total``: the values of different
    keys and times add up, too. ``columns`` are those of a value in a table."""

    name: str
    words: int = 0
    merges: str = "add"
    total: bool = False
    number: bool = False   # its value is one number
    sums: bool = False     # the last word is a sum of values, with their sign
    buckets: bool = False  # it counts values by range
    columns: tuple[str, ...] = ("value",)

    @property
    def additive(self) -> bool:
        """Whether states add up."""
        return self.merges == "add"


AGGREGATES = {kind.name: kind for kind in (
    AggregateKind("count", 1, total=True, number=True),
    AggregateKind("sum", 1, total=True, number=True, sums=True),
    AggregateKind("min", 2, "least", number=True),
    AggregateKind("max", 2, "greatest", number=True),
    AggregateKind("avg", 2, number=True, sums=True),
    AggregateKind("stats", 2, total=True, sums=True, columns=("count", "average", "total")),
    AggregateKind("hist", total=True, buckets=True, columns=("low", "high", "count")),
    AggregateKind("lhist", total=True, buckets=True, columns=("low", "high", "count")),
    AggregateKind("tseries", merges="intervals", columns=("start", "value")),
)}


FLOAT_SUM = 8                   # words of a sum of floating-point numbers
FLOAT_LOW, FLOAT_HIGH = -40, 64  # exponents of 2 between which a histogram of such has buckets


class Aggregate(Type):
    """A map value function's state, kept per CPU and merged when read.

    kind    u64 words per CPU
    count   [n]                          sum     [total]
    min/max [value, is_set]              avg     [n, total]         stats  [n, total]
    hist    [buckets...]                 lhist   [underflow, buckets..., overflow]; with ``agg`` "sum" [..., total]
    tseries [stamp, value, extra] for each of ``high`` intervals of ``low`` ns; see below

    ``hist``'s bucket of a value, with ``bits`` = k (precision): negative → 0; value < 2^(k+1) → value + 1;
    else, with e = floor(log2(value)): 1 + ((e - k + 1) << k) + ((value >> (e - k)) - (1 << k)). With k = 0
    that is 0: negative, 1: [0], 2: [1], 3: [2,4), 4: [4,8) ...

    With ``floating`` the values are doubles:

    kind    u64 words per CPU
    min/max [key, is_set]: keys are as in compiler/lower/floats.py; a NaN is below all others to min, above to max
    sum     [NaNs, above, below, and 5 limbs]: the sum is that of limb i * 2^(32 i - 64), each with its sign;
            what is 2^80 or more is only counted
    avg     [n, ... the same]            stats  [n, ... the same]
    hist    [negative, zero, less than 2^-40, buckets of 2^-40 up to 2^64 ..., above, NaNs]
    lhist   as above, in units of 1 / ``units``, and NaNs in a word more

    ``tseries`` keeps interval number ``epoch`` (TAI nanoseconds / low) at place epoch % high, with the stamp epoch + 1,
    where 0 is "unused".
    ``agg`` says what its value is: the "sum", "min" or "max"; for "avg" the sum, with the number of values in
    ``extra``; for "" the last value, with its time in ``extra``.
    """

    kind: str
    signed: bool = True
    bits: int = 0    # hist: precision k, 0..5
    low: int = 0     # lhist; tseries: nanoseconds of an interval
    high: int = 0    # lhist; tseries: number of intervals
    step: int = 1
    agg: str = ""    # tseries; hist and lhist: "sum" if the last words are the sum of the values
    floating: bool = False
    units: int = 1   # lhist of floating-point numbers: low, high and step are in units of 1 / units

    @property
    def row(self) -> AggregateKind:
        """What there is to know of its kind."""
        return AGGREGATES[self.kind]

    @property
    def words(self) -> int:
        """u64 words of state per CPU."""
        if self.row.buckets:
            return self.buckets + (0 if self.agg != "sum" else FLOAT_SUM if self.floating else 1)
        if self.kind == "tseries":
            return 3 * self.high
        if self.floating and self.row.sums:
            return self.row.words - 1 + FLOAT_SUM
        return self.row.words

    @property
    def buckets(self) -> int:
        """How many buckets a histogram has."""
        if self.kind == "lhist":
            return 2 + (self.high - self.low + self.step - 1) // self.step + self.floating
        if self.floating:
            return 5 + ((FLOAT_HIGH - FLOAT_LOW) << self.bits)
        return 1 + ((64 - self.bits + 1) << self.bits)

    @property
    def size(self) -> int:
        return 8 * self.words

    ALIGN = 8

    def __str__(self) -> str:
        if self.floating:
            return f"double_{self.kind}_t"
        return f"{self.kind}_t" if self.kind not in ("sum", "min", "max", "avg", "stats") or self.signed \
            else f"u{self.kind}_t"


def round_up(value: int, align: int) -> int:
    """The smallest multiple of ``align`` that is at least ``value``."""
    return (value + align - 1) // align * align


VOID = NoneType()
NOTHING = Nothing()
INT8, INT16, INT32, INT64 = Int(8), Int(16), Int(32), Int(64)
UINT8, UINT16, UINT32, UINT64 = Int(8, False), Int(16, False), Int(32, False), Int(64, False)
FLOAT, DOUBLE = Float(32), Float(64)
BOOL = Bool()

# What packet() reads of a packet, in the order in memory. ``link`` is the EtherType, ``protocol`` that of IP. ``flags``
# are TCP's; of ICMP they are type * 256 + code, of ARP the operation. ``sport`` is the identifier of an ICMP echo,
# ``seq`` its sequence number. ``len`` counts from the network header on, ``payload`` from the end of the transport
# header on.
PACKET = Tuple((Inet(), Inet(), UINT32, UINT32, UINT32, UINT32, UINT16, UINT16, UINT16, UINT16, UINT16, UINT16,
                UINT8, UINT8),
               ("saddr", "daddr", "seq", "ack", "len", "payload", "link", "vlan", "sport", "dport", "flags", "fragment",
                "protocol", "read"))
