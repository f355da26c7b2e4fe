"""A small World for tests: a few structs, tracepoints and symbols, nothing of this machine."""

from __future__ import annotations

from typing import Any

from sonde.base.function_ends import FunctionEnds
from sonde.builtins import BUILTINS
from sonde.errors import CompileError
from sonde.functions import FUNCTIONS as KNOWN_FUNCTIONS
from sonde.language.diagnostics import Diagnostics
from sonde.language.parser import parse_script
from sonde.semantics.callees import Language
from sonde.semantics.check import check_script
from sonde.semantics.script_options import Options
from sonde.semantics.typed import CheckedScript
from sonde.semantics.world import BpfFunction, KernelFunction, TracepointFormat, UsdtProbe, UserFunction
from sonde.source import Source
from sonde.spec import (
    Implementation,
    Inlined,
    SourceLine,
    SourceLines,
    UsdtArgument,
    UserPlace,
    UserPrototype,
)
from sonde.types import (
    INT8,
    INT32,
    INT64,
    KERNEL,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    USER,
    VOID,
    Array,
    Enum,
    Pointer,
    Str,
    Struct,
    StructField,
    Type,
    round_up,
)


def struct(name: str, members: dict[str, Type], union: bool = False) -> Struct:
    """A struct with natural alignment."""
    fields, at, align = [], 0, 1
    for member, type in members.items():
        place = 0 if union else round_up(at, type.align)
        fields.append(StructField(member, type, place))
        at, align = max(at, place + type.size), max(align, type.align)
    found = tuple(fields)
    return Struct(name, round_up(at, align), lambda: found, union, alignment=align)


def kernel(type: Type) -> Pointer:
    return Pointer(type, KERNEL)


def user(type: Type) -> Pointer:
    return Pointer(type, USER)


COUNTER = struct("atomic_t", {"counter": INT32})
PROTO = struct("proto", {"name": Str(32)})
ADDRESSES = struct("", {"skc_addrpair": UINT64, "skc_daddr": UINT32}, union=True)
SOCK_COMMON = struct("sock_common", {
    "": ADDRESSES, "skc_dport": UINT16, "skc_num": UINT16, "skc_family": UINT16, "skc_prot": kernel(PROTO),
    "skc_v6_daddr": Array(UINT8, 16)})
SOCK = struct("sock", {"__sk_common": SOCK_COMMON, "sk_rmem": COUNTER, "sk_rcvbuf": INT32, "sk_data": kernel(VOID)})
SK_BUFF = struct("sk_buff", {"head": kernel(UINT8), "network_header": UINT16, "len": UINT32, "sk": kernel(SOCK),
                             "cb": Str(48)})
FILE = struct("file", {"private_data": kernel(VOID), "f_mode": UINT32})
TASK: Struct = struct("task_struct", {"pid": INT32, "tgid": INT32, "comm": Str(16),
                                      "files": kernel(kernel(FILE)), "flags": Array(UINT32, 4)})
BITS = Struct("bits", 4, lambda: (StructField("low", UINT32, 0, 0, 3), StructField("high", UINT32, 0, 3, 29)),
              alignment=4)
IOVEC = struct("iovec", {"iov_base": kernel(VOID), "iov_len": UINT64})
MSGHDR = struct("user_msghdr", {"msg_iov": kernel(IOVEC), "msg_iovlen": UINT64})
REASON = Enum("skb_drop_reason", 32, False, {2: "SKB_DROP_REASON_NOT_SPECIFIED", 3: "SKB_DROP_REASON_NO_SOCKET"})

PAIR = struct("pair", {"low": INT32, "high": INT64})
STRUCTS = {s.name: s for s in (COUNTER, PROTO, SOCK_COMMON, SOCK, SK_BUFF, FILE, TASK, BITS, IOVEC, MSGHDR)}


def event(category: str, name: str, **members: Type) -> TracepointFormat:
    """A tracepoint whose fields follow the 8 common bytes."""
    fields, at = [], 8
    for member, type in members.items():
        at = round_up(at, type.align)
        fields.append(StructField(member, type, at, data_loc=member.startswith("loc_")))
        at += 4 if member.startswith("loc_") else type.size
    found = tuple(fields)
    return TracepointFormat(category, name, len(name), Struct(f"args_{category}_{name}", at, lambda: found))


EVENTS = {(e.category, e.event): e for e in (
    event("sched", "sched_switch", prev_comm=Str(16), prev_pid=INT32, next_comm=Str(16),
          next_pid=INT32),
    event("sched", "sched_wakeup", comm=Str(16), pid=INT32),
    event("syscalls", "sys_enter_openat", dfd=INT64, filename=user(INT8), flags=INT64),
    event("syscalls", "sys_enter_sendmsg", fd=INT64, msg=user(MSGHDR), flags=INT64),
    event("syscalls", "sys_enter_execve", filename=user(INT8), argv=user(user(INT8))),
    event("syscalls", "sys_exit_openat", ret=INT64),
    event("syscalls", "sys_exit_read", ret=INT64),
    event("sock", "inet_sock_set_state", skaddr=kernel(VOID), oldstate=INT32, newstate=INT32, sport=UINT16,
          dport=UINT16,
          family=UINT16, protocol=UINT16, saddr=Array(UINT8, 4), daddr=Array(UINT8, 4), saddr_v6=Array(UINT8, 16)),
    event("skb", "kfree_skb", skbaddr=kernel(VOID), location=kernel(VOID), protocol=UINT16, reason=REASON),
    event("net", "netif_receive_skb", skbaddr=kernel(VOID), len=UINT32, loc_name=Str(0)),
)}
def function(name: str, result: Type | None, variadic: bool = False, **members: Type) -> KernelFunction:
    """A kernel function's prototype."""
    fields, at = [], 0
    for member, type in members.items():
        fields.append(StructField(member, type, at))
        at += max(8, round_up(type.size, 8))
    found = tuple(fields)
    return KernelFunction(name, "vmlinux", len(name), Struct(f"args_{name}", at, lambda: found), result, variadic)


FUNCTIONS = {f.name: f for f in (
    function("vfs_read", INT64, file=kernel(FILE), buf=user(INT8), count=UINT64),
    function("vfs_readv", INT64, file=kernel(FILE), vec=user(VOID), count=UINT64),
    function("tcp_connect", INT32, sk=kernel(SOCK)),
    function("tcp_close", None, sk=kernel(SOCK), timeout=INT64),
    function("by_value", INT32, pair=IOVEC, last=INT32),
    function("_printk", INT32, True, fmt=kernel(INT8)),
)}
RAW = {"sched_switch": struct("raw_sched_switch", {"preempt": UINT64, "prev": kernel(TASK), "next": kernel(TASK)})}


COMMON = ("atomic_fetch", "long_keys", "for_each_map_elem")  # features that kernels from 5.13 on have


class FakeWorld:
    """Answers from the tables above."""

    arch = "x86_64"
    cpus = 2
    pid_namespace = False
    release = "6.18.0-test"
    features = frozenset(("bpf_loop",))

    def has_feature(self, name: str) -> bool:
        return name in self.features or name in COMMON or name.startswith("kfunc_") and self.kfunc_id(name[6:]) != 0

    def kfunc_id(self, name: str) -> int:
        return 7 if name == "bpf_strlen" else 0

    def find_struct(self, name: str, union: bool = False) -> Struct | None:
        return None if union else STRUCTS.get(name)

    def named_type(self, name: str) -> Type | None:
        return {"pid_t": INT32, "enum skb_drop_reason": REASON}.get(name)

    def enum_constant(self, name: str) -> tuple[int, Enum | None] | None:
        for value, known in REASON.names.items():
            if known == name:
                return value, REASON
        return (1, None) if name == "TCP_ESTABLISHED" else None

    def struct_names(self) -> list[str]:
        return list(STRUCTS)

    def tracepoints(self) -> list[tuple[str, str]]:
        return list(EVENTS)

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        return EVENTS.get((category, event))

    def raw_tracepoints(self) -> list[tuple[str, str]]:
        return [("vmlinux", name) for name in RAW]

    def raw_tracepoint_args(self, event: str) -> Struct | None:
        return RAW.get(event)

    def syscall_number(self, name: str) -> int | None:
        return {"read": 0, "openat": 257}.get(name)

    def kernel_functions(self) -> list[tuple[str, str]]:
        return [("vmlinux", name) for name in ("vfs_read", "tcp_connect", "by_value")] if "kprobes" in self.features \
            else []

    def is_function_traceable(self, name: str) -> bool:
        return name in [known for _, known in self.kernel_functions()]

    def takes_typed_program(self, function: KernelFunction, returns: bool, among_many: bool = False) -> bool:
        return function.name != "refused"

    def is_changed(self, name: str) -> bool:
        return not self.is_function_traceable(name)

    def forbidden_functions(self) -> frozenset[str]:
        return frozenset(("vfs_die",))

    def function_obstacle(self, function: str, module: str, kind: str) -> tuple[str, list[str]]:
        return f"no function {function}", ["the compiler made inlined.isra.0 of it"] if function == "inlined" else []

    def kernel_function(self, name: str, module: str = "") -> KernelFunction | None:
        if module == "bpf:12" and name in ("count_packets", "checksum"):
            return KernelFunction(name, module, 5, struct("_args", {"sk": kernel(SOCK)}), INT32)
        return FUNCTIONS.get(name) if module in ("", "vmlinux") else None

    def bpf_functions(self) -> list[BpfFunction]:
        return [BpfFunction(12, "count_packets", "", "xdp"), BpfFunction(12, "checksum"),
                BpfFunction(13, "bare", "program 13 was loaded without function information (BTF)", "sched_cls")]

    def function_names(self) -> list[tuple[str, str]]:
        return [("vmlinux", name) for name in FUNCTIONS]

    def functions_taking(self, struct: str) -> dict[tuple[str, str], int]:
        return {("vmlinux", "tcp_connect"): 0, ("vmlinux", "vfs_die"): 0, ("vmlinux", "vfs_read"): 1} \
            if struct == "sock" else {}

    def kernel_symbol(self, name: str) -> int | None:
        return 0xFFFFFFFF81000000 if name == "_text" else None

    def find_binaries(self, name: str, pid: int = 0) -> list[str]:
        return ["/bin/prog"] if name in ("prog", "/bin/prog") else [name] if name == "/bin/svc" else []

    def user_functions(self, path: str) -> list[UserFunction]:
        if path == "/bin/svc":  # a Go program
            return [UserFunction(name, 0x1100 + 64 * index, 0x100 + 64 * index, 64) for index, name in enumerate(
                ["main.work", "main.Sum[go.shape.int_0]", "net/http.(*conn).serve", "runtime.execute"])]
        return [UserFunction("main", 0x1100, 0x100, 32), UserFunction("work", 0x1200, 0x200, 64),
                UserFunction("work_alias", 0x1200, 0x200, 64)]

    def user_bits(self, path: str) -> int:
        return 64

    def implementations(self, path: str, names: list[str], pid: int = 0) -> dict[int, Implementation]:
        return {}

    def user_object(self, path: str, symbol: str) -> tuple[int, int] | None:
        return (0x4000, 4) if symbol == "counter" else None

    def file_size(self, path: str) -> int:
        return 4096 if path.endswith(".bin") else 0

    def user_offset(self, path: str, address: int) -> int | None:
        return address - 0x1000 if address >= 0x1000 else None

    def is_instruction_start(self, path: str, offset: int, distance: int) -> bool:
        return True

    def sample_limit(self) -> int:
        return 50_000

    def go_version(self, path: str) -> str:
        return "go1.22.3" if path == "/bin/svc" else ""

    def entry_distances(self, path: str, offsets: list[int], go: bool) -> list[int]:
        return [4 if go else 0] * len(offsets)

    def return_hazard(self, path: str, offset: int) -> str:
        return ""

    def function_ends(self, path: str, offsets: list[int]) -> list[FunctionEnds]:
        return [FunctionEnds(problem="unreadable") for _ in offsets]

    def find_import(self, path: str, name: str, pid: int) -> tuple[str, list[int]] | None:
        return None

    def process_symbol(self, pid: int, name: str) -> int | None:
        return 0x601040 if name == "counter" else None

    def user_type(self, path: str, name: str) -> Type | None:
        return None

    def user_prototype(self, path: str, offset: int, own: bool = False) -> UserPrototype:
        if path == "/bin/svc" and offset == 0x100:
            return UserPrototype(None, {}, None, ["results (int size, int r1)"], "", [],
                                 struct("_results_work", {"size": INT64, "r1": INT64}),
                                 {"size": UserPlace("registers", (80,)), "r1": UserPlace("registers", (40,))})
        if offset != 0x200:
            return UserPrototype(problem="/bin/prog does not describe it", hints=["compile it with -g"])
        args = struct("_args_work", {"count": INT32, "pair": PAIR})
        places = {"count": UserPlace("registers", (112,)), "pair": UserPlace("registers", (104, 96)),
                  "gone": UserPlace("unknown", why="was optimised out")}
        return UserPrototype(args, places, INT32, ["int count", "struct pair pair", "int gone", "int retval"])

    def source_lines(self, path: str, source: str, line: int, column: int = 0) -> SourceLines:
        if source != "prog.c" or line != 12:
            return SourceLines(problem=f"line {line} of {source} has no code", hints=["the nearest is 12"])
        return SourceLines([SourceLine("/src/prog.c", "work", 0x208)])

    def demangle(self, names: list[str], source: str = "") -> list[str] | None:
        return names

    def file_problem(self, path: str) -> str:
        return ""

    def inlined_copies(self, path: str, name: str, own: bool = False) -> Inlined | None:
        return Inlined(["main", "work"], 3, "prog.c:7") if name in ("folded", "partly") else None

    def usdt_probes(self, path: str) -> list[UsdtProbe]:
        eax, edi = UsdtArgument("register", 80, size=4, signed=True, text="-4@%eax"), UsdtArgument(
            "memory", 32, -16, text="8@-16(%rbp)")
        return [UsdtProbe("app", "start", 0x110, 0, [eax]), UsdtProbe("app", "start", 0x140, 0, [edi]),
                UsdtProbe("app", "stop", 0x180, 0x3000, [UsdtArgument("unknown", text="8f@%xmm0")])]

    def cgroup_id(self, path: str) -> int | None:
        return 42 if path in ("/", "/sys/fs/cgroup") else None


class FentryWorld(FakeWorld):
    """The same with fentry and without kprobes."""

    features = frozenset(("bpf_loop", "fentry", "typed_arguments", "tracing_cookie"))

    def kernel_functions(self) -> list[tuple[str, str]]:
        return [("vmlinux", name) for name in (*FUNCTIONS, "static_one", "inlined.isra.0")]


class KprobeWorld(FakeWorld):
    """The same with kprobes."""

    features = frozenset(("bpf_loop", "kprobes"))


def check_text(text: str, world: FakeWorld | None = None, **options: Any) -> CheckedScript:
    """Parse and check a script against the fake World."""
    source, diagnostics, chosen = Source("stdin", text), Diagnostics(), Options(**options)
    script = parse_script(source, diagnostics, chosen.params)
    diagnostics.raise_if_errors()
    return check_script(script, source, world or FakeWorld(), chosen, diagnostics,
                        Language(KNOWN_FUNCTIONS, BUILTINS))


def findings(text: str, world: FakeWorld | None = None, **options: Any) -> list[tuple[str, str]]:
    """(code, the text that it points at) of each finding of a script; [] if there are none."""
    try:
        found = check_text(text, world, **options).diagnostics.items
    except CompileError as error:
        found = error.diagnostics
    return [(d.code, d.span.text if d.span else "") for d in found]
