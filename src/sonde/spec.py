"""The waist of the hourglass: what the compiler writes and the runtime loads. Data, no behaviour."""

from __future__ import annotations

from .base.record import Record, Value
from .kinds import SITE_KINDS
from .source import Diagnostic, Source, Span
from .types import Struct, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict, TypeVar

    from .base.function_ends import TailCalls

    class SiteData(TypedDict, total=False):
        """What a site has beside its fields; which of it, and what it means, is for its kind to say."""
        severity: str
        format: str
        separator: str
        path: str
        map: str
        top: int
        div: int
        then: str
        why: str
        table: str
        own: list[int]  # numbers of a printf()'s arguments that are the script's own texts


class TracepointFormat(Record):
    """A classic tracepoint: ``args`` has the fields at their offsets in the record (common_* excluded)."""

    category: str
    event: str
    id: int
    args: Struct


class UserFunction(Record):
    """A function of an executable: ``offset`` is where its code lies in the file, ``address`` its virtual address."""

    name: str
    address: int
    offset: int
    size: int


class Implementation(Record):
    """The code of an indirect function (IFUNC), which the loader chooses when it loads the file.

    ``offsets`` are where that is in the file: one, or all that it may be. ``others`` are functions that have the same
    code. ``problem`` says why it is not known, or not there.
    """

    offsets: list[int] = []
    others: list[str] = []
    problem: str = ""
    hints: list[str] = []


class UsdtArgument(Record):
    """Where an argument of a static probe is. Registers are offsets in struct pt_regs.

    kind "constant": ``offset``; "register": ``base``, shifted right by ``shift``; "memory": at ``base + offset
    + index * scale`` (index -1: none); "unknown": unreadable (a float register, say). ``text`` is as written.
    """

    kind: str
    base: int = 0
    offset: int = 0
    index: int = -1
    scale: int = 1
    shift: int = 0
    size: int = 8
    signed: bool = False
    text: str = ""


class UsdtProbe(Record):
    """A place of a static probe: ``offset`` of its instruction and of its ``semaphore`` (0: none) in the file."""

    provider: str
    name: str
    offset: int
    semaphore: int
    arguments: list[UsdtArgument]


class UserPlace(Value):
    """Where a parameter is when its function is entered; registers are offsets in struct pt_regs.

    kind "registers": eight bytes in each of ``registers``; "memory": at ``offset`` from what registers[0] holds;
    "constant": ``offset``; "unknown": unreadable, ``why`` says the reason.
    """

    kind: str
    registers: tuple[int, ...] = ()
    offset: int = 0
    why: str = ""


class UserPrototype(Record):
    """A user function as its debug information tells it.

    ``args`` has the parameters at the offsets that their values have when they are printed or kept as a whole;
    ``places`` says where each of them is at the function's entry, those included that cannot be read and therefore are
    not in ``args``. ``result`` is None for void. ``results`` and ``result_locations`` are the same of a Go function's
    results, when it has returned. ``declarations`` are the parameters, then the result, in C.
    ``problem`` (with ``hints``) is set, and nothing else, where there is no such information.
    """

    args: Struct | None = None
    places: dict[str, UserPlace] = {}
    result: Type | None = None
    declarations: list[str] = []
    problem: str = ""
    hints: list[str] = []
    results: Struct | None = None
    result_locations: dict[str, UserPlace] = {}


class SourceLine(Record):
    """A place where the code of a source line begins: in ``function`` (or what is inlined there), at ``offset`` in the
    file; ``source`` is the source file's path."""

    source: str
    function: str
    offset: int


class SourceLines(Record):
    """The answer to "where is this line": its places, or the ``problem``."""

    places: list[SourceLine] = []
    problem: str = ""
    hints: list[str] = []


class Inlined(Record):
    """A function that the compiler put into its ``callers``, at so many ``places``; ``line`` is a source line
    (``file.c:12``) at which each of its copies can be probed, "" if none is known."""

    callers: list[str]
    places: int
    line: str = ""

    def format_callers(self, names: list[str] | None = None) -> str:
        """``main, work (3 places)``; with ``names`` in place of the callers, as many as there are."""
        shown = names or self.callers
        more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
        return ", ".join(shown[:5]) + more + (f" ({self.places} places)" if self.places > 1 else "")


class BpfFunction(Record):
    """A function of the loaded BPF program with the number ``program``. ``obstacle``: why the kernel attaches nothing
    to it, or ""; ``type``: the program's, if it is the function that the kernel calls, and "" if others call it."""

    program: int
    name: str
    obstacle: str = ""
    type: str = ""


class ClassicFilter(Record):
    """A packet filter as classic BPF: (code, jump if true, jump if false, k) of each instruction; or why there is
    none."""

    instructions: list[tuple[int, int, int, int]]
    problem: str = ""


class KernelFunction(Record):
    """A function of the kernel as its type information tells it.

    ``args`` has parameter i at the offset of its word among the words that the function is passed: 8 * i, unless a
    struct before it takes two. ``result`` is None for void. ``id`` is the number in the BTF of ``module``.
    """

    name: str
    module: str
    id: int
    args: Struct
    result: Type | None
    variadic: bool = False


class Detail(Record):
    """What there is to say of an attach point of some kind beside its place."""


class KernelDetail(Detail):
    """Of a kernel function, or an iterator's: its ``btf_id`` in the BTF of ``module`` (a loaded program's is
    ``bpf:ID``); the type of ``retval``, None for void; and ``typed_as``, the name under which type information has its
    arguments, where that is another."""

    btf_id: int
    module: str
    result: Type | None = None
    typed_as: str = ""
    pin: str = ""  # of an iterator: the file


class UserDetail(Detail):
    """Of a user function. ``entry``: the offset is that of a function's first instruction; ``line``: a source line was
    asked for; ``pattern``: a pattern found it. ``go`` is the version of Go that built the file, "" for any other, and
    ``skipped`` how far behind the function's first instruction the probe is. ``prototype`` is what is known of it, once
    that was asked for, and ``result`` the type of ``retval`` where one is known. ``exits`` are the offsets in the
    file of its return instructions and jumps to other functions, where a return is probed there; () where the kernel's
    return probe is used. ``bits`` are those of the program's addresses. ``image`` and ``function`` are the file and
    function as they were written, where other files that processes map later may be meant, too (--follow)."""

    entry: bool = False
    line: bool = False
    pattern: bool = False
    go: str = ""
    skipped: int = 0
    prototype: UserPrototype | None = None
    result: Type | None = None
    exits: tuple[int, ...] = ()
    tails: tuple[TailCalls, ...] = ()
    bits: int = 64
    image: str = ""
    function: str = ""


class StaticDetail(Detail):
    """Of a static probe: ``semaphore`` is the offset of its counter in the file (0: none), ``bits`` are those of the
    program's addresses."""

    semaphore: int
    arguments: list[UsdtArgument]
    bits: int = 64


def user_bits(point: Attach) -> int:
    """Bits of an address in the program that an attach point is in."""
    return point.detail.bits if isinstance(point.detail, UserDetail | StaticDetail) else 64


class WatchDetail(Detail):
    """Of a watchpoint: bytes, and HW_BREAKPOINT_* bits."""

    length: int
    mode: int


if TYPE_CHECKING:
    Wanted = TypeVar("Wanted", bound=Detail)


def detail_of(point: Attach, kind: type[Wanted]) -> Wanted:
    """The detail of an attach point of a kind that has one."""
    assert isinstance(point.detail, kind), point
    return point.detail


class Attach(Record):
    """One attach point, expanded and resolved.

    kind           target                event                offset / period
    begin end      -                     -                    -
    self           "signal"              "SIGUSR1"            -
    tracepoint     category              event                -
    rawtracepoint  module or ""          event                -
    uprobe         absolute path         symbol or ""         offset: in the file, of the instruction
    uretprobe      absolute path         symbol or ""         offset: in the file, of the function
    usdt           absolute path         provider:name        offset: in the file, of the instruction
    interval       -                     -                    period: nanoseconds
    profile        -                     -                    period: nanoseconds
    software       -                     kernel's event name  period: events per firing
    hardware       -                     kernel's event name  period: events per firing
    kprobe         module or ""          function             offset: into the function
    kretprobe      module or ""          function             -
    fentry fexit   module, or bpf:ID     function             -

    watchpoint     -                     the address, written  offset: the address
    iter           -                     kind of object       -

    ``detail`` is what else there is to say of a kind. ``way`` is another kind that serves the attach point ("fentry",
    "fexit", "kprobe", "kretprobe"), and ``reason`` why: it attaches "many" at once, is "exact" (it misses no call),
    is "cheap", or "" where this kernel has no other. Without a way "many" is for fentry and fexit: one program serves
    them. ``wild``: a pattern found it, so it is left out with a warning if it cannot be attached.
    """

    kind: str
    name: str  # in full, as ``probe`` prints it and -l lists it
    target: str = ""
    event: str = ""
    offset: int = 0
    period: int = 0
    pid: int = 0  # 0: every process
    args: Struct | None = None  # type of ``args``
    detail: Detail | None = None
    way: str = ""
    reason: str = ""
    wild: bool = False

    @property
    def result(self) -> Type | None:
        """The type of ``retval``, where one is known and it is not void."""
        return self.detail.result if isinstance(self.detail, KernelDetail | UserDetail) else None

    @property
    def exits(self) -> tuple[int, ...]:
        """Offsets of the instructions at which the return of a user function is probed; () otherwise."""
        return self.detail.exits if isinstance(self.detail, UserDetail) else ()

    @property
    def by_instructions(self) -> bool:
        """Whether the return of a user function is probed at instructions, its own or those of others."""
        return isinstance(self.detail, UserDetail) and bool(self.detail.exits or self.detail.tails)

    @property
    def pin(self) -> str:
        """The file by which an iterator is read; "" if it is not pinned."""
        return self.detail.pin if isinstance(self.detail, KernelDetail) else ""

    @property
    def method(self) -> str:
        """The kind that serves it."""
        return self.way or self.kind


class MapSpec(Record):
    """A kernel map.

    ``type`` is the kernel's name in lower case: hash lru_hash percpu_hash lru_percpu_hash array
    percpu_array ringbuf stack_trace. ``key``/``value`` are the script's types (None for internal maps).

    A keyless script map is *memory*: an mmapable array of one element of ``cpus * stride`` bytes, slot i
    at i * stride. An aggregate has one slot per possible CPU, anything else one slot in all (cpus = 1). ``marker`` is
    where a slot has a word that is 1 once the script has given it a value; 0 where the value itself tells that.
    The elements of a *slotted* hash (it has a stride) are made of one slot per possible CPU in the same way; of a
    histogram there may be fewer, which CPUs share: the slot of CPU n is then n modulo ``cpus``, a power of two.
    """

    name: str  # "@x" for script maps, "__x" for internal ones
    type: str
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    key: Type | None = None
    value: Type | None = None
    memory: bool = False
    cpus: int = 1
    stride: int = 0
    marker: int = 0
    initial: bytes = b""  # contents of element 0 of an array, written before the programs load
    read_in_kernel: bool = False  # the script reads an aggregate's merged value inside a program
    short: str = ""  # the internal map that has the keys whose strings are all short; see compiler/lower/maps/keys.py
    slots: str = ""  # the internal map that has most of its elements; see above
    hot: str = ""  # the internal map of an aggregate that has what CPUs counted of the keys that they met first
    adds: bool = False  # plain numbers that the script only adds to
    span: Span | None = None
    labels: tuple[str, ...] = ()  # what the script calls the keys, "" for one without a name of its own
    at_end: str = ""  # where nothing print()s it, and ``end`` "clears" it, or "shows" it itself before it does
    fixed: bool = False  # the script declares its size as a plain number
    about: str = ""  # what the script's comments say of it
    rebuilt: bool = False  # the script fills it anew each time it shows and clears it: it has what holds at that moment


class Relocation(Value):
    """At instruction ``index`` (an 8-byte slot of a 16-byte load): the fd of a map, or the address of its
    element 0 plus ``offset``."""

    index: int
    map: str
    kind: str  # "fd" or "value"
    offset: int = 0


class ProgramSpec(Record):
    """One eBPF program and every attach point that runs it."""

    name: str  # see program_name()
    type: str  # raw_tracepoint tracepoint kprobe perf_event tracing
    code: bytes
    attach: list[Attach]
    relocations: list[Relocation] = []
    lines: list[tuple[int, Span]] = []  # by instruction index, ascending
    # "" by kind; "raw": tracepoints by their raw ones; "raw:<event>", "raw_syscalls:<event>": see serves_all();
    # "session": ``parts``; "fentry.multi", "fexit.multi": one for many functions
    method: str = ""
    expected_attach: int = 0
    attach_btf_id: int = 0
    first_probe: int = 0  # index in ScriptSpec.probes of attach[0]; the others follow
    cookies: bool = False  # the program asks bpf_get_attach_cookie() for its probe index
    functions: list[tuple[int, str]] = []  # (instruction index, name): the program, then its callbacks
    numbers: list[int] = []  # indices in ScriptSpec.probes of all of ``attach``, where they do not follow the first
    clauses: int = 1  # that all its attach points run; 0: it only helps other programs
    parts: list[ProgramSpec] = []  # how "session": the programs for entry and return that this one is made of
    kernel_stacks: bool = False  # the program reads some, or where one is at a return
    registers: bool = False  # it reads some beyond those that kprobe.multi has on all kernels
    separate: dict[str, int] = {}  # functions that the verifier checks once, by themselves: numbers of their parameters


def serves_all(method: str) -> bool:
    """Whether a program serves all its attach points by one tracepoint, a raw one or one of that category."""
    return ":" in method


def describe_method(method: str) -> str:
    """ProgramSpec.method, for readers."""
    category, colon, event = method.partition(":")
    return f"raw tracepoint {event}".rstrip() if category == "raw" else f"tracepoint {method}" if colon else method


def program_name(attach: list[Attach], event: str = "") -> str:
    """What the kernel, and with it ``bpftool prog``, calls a program: by the event, by the one that all its attach
    points have, or by their kind. 15 characters at most, of those that the kernel allows."""
    first = attach[0]
    alone = first.event if all(point.event == first.event for point in attach) else ""
    return "sonde_" + "".join([c if c.isalnum() and c.isascii() else "_" for c in event or alone or first.kind])[:9]


class FormatPart(Record):
    """A piece of a printf format: literal text, or one conversion.

    ``conversion`` is one of d i u o x X p c s r rx rh gr; ``spec`` the flags, width and precision as in
    C ("-10", "05"); ``length`` the length modifier ("hh" "h" "l" "ll" "j" "z" "t" or "").
    """

    literal: str = ""
    conversion: str = ""
    spec: str = ""
    length: str = ""


class EventField(Record):
    """A value in an event record; ``name`` is what the script calls it, "" for what has no name of its own."""

    type: Type
    offset: int
    name: str = ""


class Column(Record):
    """A column of a table's rows: the ``parts`` of the row's format from ``first`` to before ``end`` are its text."""
    name: str
    first: int = 0
    end: int = 0


class EventSite(Record):
    """A place in the script that sends something to user space. What else there is to know of a kind: SITE_KINDS.

    kind       ring     data
    printf     data     parts (errorf, warnf: data["severity"]); of a data["table"] a row, or without fields its heading
    print      data     one field: the value; or, with data["map"], the key of the element to print
    time       data     data["format"]; uses the record's time
    join       data     data["separator"], field 0: Buf of NUL-separated strings
    cat        data     parts: the path's format
    system     data     parts: the command's format
    nstat      data     -
    skboutput  data     data["path"]; the packet's bytes (Buf), its length (u32); uses the record's time
    print_map  control  data["map"], data["top"], data["div"]; data["then"] = "clear" | "zero" | "" (taken in one step)
    clear zero control  data["map"]
    exit       control  one Int field: the status
    dump       control  data["why"]
    """

    kind: str
    span: Span | None
    fields: list[EventField]
    size: int  # bytes of the whole record at most: it may end with its last field's NUL, or last byte in use
    parts: list[FormatPart] = []
    data: SiteData = {}
    columns: list[Column] = []

    @property
    def table(self) -> str:
        """The name of the table that this is a row or the heading of; "" of none."""
        return self.data.get("table", "")

    @property
    def control(self) -> bool:
        """Whether its records go by the control ring."""
        return SITE_KINDS[self.kind].control

    @property
    def shows(self) -> bool:
        """Whether it prints values of the script: no message, no element of a map."""
        return SITE_KINDS[self.kind].shows and "severity" not in self.data and "map" not in self.data

    @property
    def then(self) -> str:
        """What becomes of the map that it is about: "clear", "zero", or "" for nothing."""
        kind = SITE_KINDS[self.kind]
        return self.kind if kind.empties else self.data.get("then") or "" if kind.of_map else ""


class ErrorSite(Record):
    """A place where something can fail at run time; counted in the kernel, reported by script line.

    kind: map_full, map_busy, no_key, read (``helper``), divide, index, loop, stack_lost, args_lost, return_missed,
    tail_unseen, preempted, packet_bare, packet_read, packet_headers, socket_unknown, other failures (helper).
    """

    kind: str
    span: Span | None
    helper: str = ""
    map: str = ""


class Config(Record):
    """The configuration variables of language.md, typed; BPFTRACE_* and SONDE_* variables override the block."""

    max_strlen: int = 1024
    max_map_keys: int = 4096
    map_keys_asked: int = 0  # what the environment says of max_map_keys, which holds for sizes of kinds of objects, too
    max_probes: int = 1024
    max_bpf_progs: int = 1024
    max_cat_bytes: int = 10240
    log_size: int = 1000000
    on_stack_limit: int = 32
    perf_rb_pages: int = 0  # 0: sized by memory
    missing_probes: str = "error"
    print_maps_on_exit: bool = True
    group_rows: str = ""
    stack_mode: str = "bpftrace"
    str_trunc_trailer: str = ".."
    license: str = "GPL"
    cpp_demangle: bool = True
    lazy_symbolication: bool = False
    cache_user_symbols: str = ""
    show_debug_info: bool = False
    use_blazesym: bool = True
    unstable_dump: str = "warn"
    unstable_import_statement: str = "enable"
    unstable_iter: str = "warn"
    unstable_tseries: str = "warn"
    unstable_typeinfo: str = "error"

    @property
    def text_size(self) -> int:
        """Bytes of a string that nothing else limits: max_strlen of them and the NUL."""
        return self.max_strlen + 1


class CountedCalls(Record):
    """Of a user function whose calls and returns a script probes: its name, and the numbers of the globals that count
    calls that began, and their ends (see layouts/shared_maps.py)."""

    name: str
    begun: int
    ended: list[int]


class Gate(Record):
    """Of a script that is compiled for a budget. Between the predicate and the action of each clause, but for those of
    probes of exempt kinds, stands a gate: the global ``gate`` (0: open), which the programs close themselves when the
    ``allowance`` of runs is used up. A clause that ends what another began is let through: compiler/gated_clauses.py.

    ``touched`` are the maps that clauses behind the gate change, with the numbers of their probes. ``pairs`` are those
    whose elements one event makes and a later one deletes: meaningless once events were missed. Of ``unguarded`` ones
    the deleting clause stands behind the gate too.
    """

    touched: dict[str, list[int]]
    pairs: list[str]
    unguarded: list[str]


class Locator(Record):
    """A program that, run on a CPU, writes down where that keeps its current task, and which of its instructions name
    the map that it writes to: see kernel/tasks/current_task.py."""
    code: bytes
    places: list[int]


class ScriptSpec(Record):
    """A compiled script."""

    programs: list[ProgramSpec]
    maps: list[MapSpec]
    sites: list[EventSite]
    errors: list[ErrorSite]
    probes: list[str]  # full names, each once; the index is what ``probe`` is at run time
    globals: list[str]  # named words of the state memory: "start_ns", "cpid" ...
    config: Config
    source: Source = Source("", "")
    warnings: list[Diagnostic] = []
    gate: Gate | None = None
    # (kind, name) of the containers, pods and services that are asked for; the name "" is any
    groups: list[tuple[str, str]] = []
    calls: list[CountedCalls] = []
    asks_for_processes: bool = False  # it tells processes apart; not known without -c
    locator: Locator | None = None  # fills CURRENT; None: there is no such map, or nobody has asked the kernel yet

    def find_map(self, name: str) -> MapSpec:
        """The map called ``name``."""
        return next(m for m in self.maps if m.name == name)

    @property
    def shown_maps(self) -> list[MapSpec]:
        """The script's maps by name, without those that it keeps for itself."""
        return sorted([m for m in self.maps if m.name.startswith("@") and m.at_end != "clears"], key=lambda m: m.name)
