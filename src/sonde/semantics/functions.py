"""Functions: one row each. Arity, kinds of arguments, type, and documentation follow from the row.

``params`` are ``name:kind|kind``, with ``?`` if optional and ``...`` for "any more". Kinds: int (or integer, as some
messages have it) ptr str buf array bool stack any; ``literal`` a constant string, ``number`` a constant integer; and
what is no value: ``map`` (@x, or @x[k]), ``var``, ``type``, ``word``, ``raw`` (the rule checks it). ``rule`` gives the
type where it is not always ``result``; its docstring says what it leaves in ``Call.data`` for the lowering. What the
language can express in itself is a macro of ``library``, see :mod:`.macros`.
"""

from __future__ import annotations

from typing import Any

from ..language.ast import Call
from ..record import Record
from ..types import BOOL, INT64, UINT64, VOID, Aggregate, Symbol, Type, USym
from . import map_rules as m
from . import rules as r
from .builtins import REGISTERS


class Function(Record):
    """A row. ``result`` None: only ``rule`` knows."""

    name: str
    params: tuple[str, ...]
    result: Type | None
    documentation: str
    example: str
    rule: Any = None  # Rule | None
    sends: str = ""             # "data" or "control": the ring by which user space learns that it is to act
    unsafe: bool = False
    aggregate: bool = False     # only as the value of @x = ...
    probes: tuple[str, ...] = ()
    on_map: str = ""            # "look", "delete", "empty" or "print": what it does to the map that it is given
    cost: int = 30              # instructions that the verifier looks at, roughly
    library: str = ""           # the file of stdlib/ that has it, as a macro
    macro: bool = False         # it is a macro in bpftrace's standard library, which words some errors differently


def _later(name: str) -> Any:
    """A rule of ``action_rules``, which is loaded when a script needs it: start-up is counted in milliseconds."""
    def rule(*args: Any) -> Any:
        from . import action_rules
        return getattr(action_rules, name)(*args)
    return rule


def _of_existence(name: str) -> Any:
    """A rule of ``existence``, loaded as late."""
    def rule(*args: Any) -> Any:
        from . import existence
        return getattr(existence, name)(*args)
    return rule


_COUNT = Aggregate("count")

_ROWS = (
    # output
    Function("printf", ("format:literal", "..."), VOID, "Print formatted values.", 'printf("%s %d\\n", comm, pid)',
             r.formatted, sends="data"),
    Function("print", ("value:raw", "top:raw?", "div:raw?"), VOID, "Print a value or a whole map.", "print(@x, 5)",
             m.print_, sends="data", on_map="print"),
    Function("errorf", ("format:literal", "..."), VOID, "Print formatted values as an error of this line.",
             'errorf("odd size %d", $n)', r.formatted, sends="data"),
    Function("warnf", ("format:literal", "..."), VOID, "Print formatted values as a warning of this line.",
             'warnf("odd size %d", $n)', r.formatted, sends="data"),
    Function("debugf", ("format:literal", "..."), VOID, "Print to the kernel's trace_pipe.", 'debugf("%d", pid)',
             _later("debugf")),
    Function("cat", ("format:literal", "..."), VOID, "Print a file.", 'cat("/proc/%d/maps", pid)', r.formatted,
             sends="data"),
    Function("system", ("format:literal", "..."), VOID, "Run a command.", 'system("ps -p %d", pid)', r.formatted,
             sends="data", unsafe=True),
    Function("time", ("format:literal?",), VOID, "Print the time of day, by strftime(3).", 'time("%H:%M:%S ")', r.time,
             sends="data"),
    Function("join", ("array:ptr|array|int", "separator:literal?"), VOID, "Print an array of strings.",
             "join(args.argv)",
             r.join, sends="data"),
    Function("nstat", (), VOID, "Print the kernel's network counters that have grown since the start or last time.",
             "nstat()", sends="data"),
    Function("exit", ("status:int?",), VOID, "End tracing.", "exit()", sends="control"),
    Function("strftime", ("format:literal", "nanoseconds:int"), None, "A timestamp, formatted when printed.",
             'strftime("%H:%M:%S", nsecs)', r.strftime),
    Function("skboutput", ("path:literal", "skb:ptr|int", "length:int", "offset:int"), None,
             "Write a packet to a pcap file: a new one, or in place of an earlier capture.",
             'skboutput("x.pcap", $skb, 64, 0)', _later("skboutput"), sends="data"),
    # maps
    Function("clear", ("map:map",), VOID, "Empty a map.", "clear(@x)", m.clear, sends="control", on_map="empty"),
    Function("zero", ("map:map",), VOID, "Set every value of a map to 0.", "zero(@x)", m.clear, sends="control",
             on_map="empty"),
    Function("delete", ("map:map", "key:raw?"), BOOL, "Remove a key from a map; false if it was not there.",
             "delete(@x, tid)", m.delete, on_map="delete", macro=True),
    Function("has_key", ("map:map", "key:raw"), BOOL, "Whether a map has a key.", "has_key(@x, tid)", m.has_key,
             on_map="look", macro=True),
    Function("find", ("map:map", "key:raw", "value:var"), BOOL, "Look a key up and keep its value, in one step.",
             "find(@x, tid, $start)", m.find, on_map="look", macro=True),
    Function("len", ("of:raw",), INT64, "Number of keys of a map or frames of a stack.", "len(@x)", m.len_,
             on_map="look", macro=True),
    # map values
    Function("count", (), _COUNT, "Count calls.", "@ = count()", m.aggregate("count"), aggregate=True),
    Function("sum", ("n:integer",), None, "Sum of the values.", "@ = sum(args.ret)", m.aggregate("sum"),
             aggregate=True),
    Function("avg", ("n:integer",), None, "Average of the values.", "@ = avg(args.ret)", m.aggregate("avg"),
             aggregate=True),
    Function("min", ("n:integer",), None, "Smallest value.", "@ = min(args.ret)", m.aggregate("min"), aggregate=True),
    Function("max", ("n:integer",), None, "Largest value.", "@ = max(args.ret)", m.aggregate("max"), aggregate=True),
    Function("stats", ("n:integer",), None, "Count, average and total of the values.", "@ = stats(args.ret)",
             m.aggregate("stats"), aggregate=True),
    Function("hist", ("n:int", "bits:number?"), None, "Histogram by powers of two.", "@ = hist(args.ret)",
             m.aggregate("hist"), aggregate=True),
    Function("lhist", ("n:int", "min:number", "max:number", "step:number"), None, "Histogram of equal steps.",
             "@ = lhist(cpu, 0, 128, 1)", m.aggregate("lhist"), aggregate=True),
    Function("tseries", ("n:int", "interval_ns:number", "num_intervals:number", "agg:literal?"), None,
             "Values over time.", '@ = tseries(rand % 10, 1s, 5, "max")', m.aggregate("tseries"), aggregate=True),
    # strings and bytes
    Function("str", ("data:raw", "length:raw?"), None, "The C string at an address.", "str(args.filename)", r.str_),
    Function("buf", ("data:raw", "length:raw?"), None, "Bytes at an address.", "buf(args.buf, 16)", r.buf),
    Function("strlen", ("text:str",), UINT64, "Length of a string.", "strlen(comm)", cost=150, macro=True),
    Function("strcap", ("text:str|array|ptr",), None, "Capacity of a string.", "strcap(comm)", r.strcap, macro=True),
    Function("strncmp", ("a:str", "b:str", "length:number"), INT64, "0 if two strings agree in so many characters.",
             'strncmp(comm, "ssh", 3)', r.strncmp, cost=150),
    Function("strcontains", ("text:str", "part:str"), BOOL, "Whether a string contains another.",
             'strcontains(comm, "sh")', cost=400, macro=True),
    Function("strstr", ("text:str", "part:str"), INT64, "Where a string contains another; -1 if it does not.",
             'strstr(comm, "sh")', cost=400, macro=True),
    Function("str_concat", ("text:str", "more:str"), None, "Two strings as one.", 'str_concat(comm, "!")',
             _later("str_concat"), cost=150, macro=True),
    Function("str_join", ("array:ptr|array|int", "separator:literal?"), None,
             "An array of strings as one, as join() prints it; twenty at most.", 'str_join(args.argv)',
             _later("str_join")),
    Function("globmatch", ("text:str", "pattern:literal"), None, "Whether a string is as a pattern says.",
             'globmatch(comm, "k[a-s]*d/?")', _later("globmatch"), cost=400),
    Function("memcmp", ("a:str|array|buf|ptr", "b:str|array|buf|ptr", "length:number"), INT64,
             "Compare bytes: 0 if they are the same, negative if those of the first are less.",
             "memcmp($a, $b, 4)", r.memcmp, macro=True),
    Function("bswap", ("n:integer",), None, "Reverse the order of bytes.", "bswap($sk.__sk_common.skc_dport)", r.bswap),
    Function("path", ("path:ptr|struct", "length:number?"), None, "Full path of a struct path.",
             "path(ctx.file.f_path)", r.path,
             probes=("fentry", "fexit", "iter")),
    Function("default_str_length", (), INT64, "Size of strings: max_strlen.", "default_str_length()",
             library="values", macro=True),
    # names for numbers
    Function("ksym", ("address:int|ptr",), Symbol("ksym"), "Kernel symbol of an address.", "ksym(args.location)"),
    Function("usym", ("address:int|ptr",), USym(), "User symbol of an address.", 'usym(reg("ip"))'),
    Function("strerror", ("error:int",), Symbol("strerror"), "Text of an error number.", "strerror(-args.ret)",
             macro=True),
    Function("signal_name", ("signal:int",), Symbol("signal_name"), "Name of a signal.", "signal_name(args.sig)",
             macro=True),
    Function("syscall_name", ("number:int",), Symbol("syscall_name"), "Name of a system call.",
             "syscall_name(args.id)", macro=True),
    Function("cgroup_path", ("id:int", "filter:literal?"), None, "Path of a cgroup id.", "cgroup_path(cgroup)",
             r.cgroup_path),
    Function("cgroupid", ("path:literal",), None, "Id of a cgroup's path.", 'cgroupid("/sys/fs/cgroup/user.slice")',
             r.cgroupid),
    Function("ntop", ("address:int|array|str", "more:int|array|str?"), None, "Text of an IP address.",
             "ntop(args.family, args.saddr)", r.ntop),
    Function("pton", ("text:literal",), None, "Bytes of an IP address.", 'pton("127.0.0.1")', r.pton),
    Function("macaddr", ("bytes:array|str|ptr",), None, "Text of a MAC address.", "macaddr($dev.dev_addr)", r.macaddr),
    # addresses
    Function("kaddr", ("symbol:literal",), None, "Address of a kernel symbol.", 'kaddr("jiffies")', r.kaddr),
    Function("percpu_kaddr", ("symbol:literal", "cpu:int?"), None, "Address of a per-CPU variable of the kernel.",
             'percpu_kaddr("process_counts")', r.percpu_kaddr),
    Function("uaddr", ("symbol:literal",), None, "Address of a user symbol.", 'uaddr("ps1_prompt")', r.uaddr,
             probes=("uprobe", "uretprobe"), macro=True),
    Function("kptr", ("pointer:ptr|int",), None, "The pointer, into kernel memory.", "kptr($p)", r.mark("kernel")),
    Function("uptr", ("pointer:ptr|int",), None, "The pointer, into user memory.", "uptr($p)", r.mark("user")),
    Function("container_of", ("pointer:ptr|int", "type:raw", "member:raw"), None, "The object that holds a member.",
             "container_of($l, struct task_struct, tasks)", r.container_of, macro=True),
    Function("sock_laddr", ("sk:ptr",), None, "A struct sock's own address.",
             "sock_laddr((struct sock *)arg0)", library="inet"),
    Function("sock_raddr", ("sk:ptr",), None, "The address at the other end of a struct sock.",
             "sock_raddr((struct sock *)arg0)", library="inet"),
    Function("tcp_state", ("state:int",), None, 'The name of a state of TCP: "ESTABLISHED".', "tcp_state(1)",
             library="inet"),
    Function("is_err", ("pointer:ptr|int",), BOOL, "Whether a pointer is an error number.", "is_err($p)",
             library="values", macro=True),
    Function("reg", ("name:literal",), UINT64, "A register of the traced code.", 'reg("ip")', r.reg, probes=REGISTERS),
    Function("socket_cookie", ("sock:ptr",), UINT64, "The kernel's cookie of a socket.", "socket_cookie(args.sk)",
             _later("socket_cookie"), probes=("fentry", "fexit", "iter")),
    # actions
    Function("signal", ("signal:int|literal",), VOID, "Send a signal to the current process.", 'signal("KILL")',
             r.signal,
             unsafe=True, macro=True),
    Function("signal_thread", ("signal:int|literal",), VOID, "Send a signal to the current thread.",
             'signal_thread("KILL")', r.signal, unsafe=True, macro=True),
    Function("override", ("value:int",), VOID, "Make the probed function return at once.", "override(-12)",
             _later("override"), unsafe=True, probes=("kprobe",)),
    Function("write_user", ("to:ptr|int", "value:any", "length:number?"), None, "Write user memory.",
             "write_user(arg0, $x, 8)", _later("write_user"), unsafe=True, macro=True),
    Function("unwatch", ("address:int|ptr",), None, "Remove a watchpoint.", "unwatch($p)", _later("unwatch")),
    # checks
    Function("assert", ("condition:any", "message:str?"), VOID, "End tracing with an error unless it holds.",
             'assert(@x > 0, "nothing seen")', library="checks", macro=True),
    Function("static_assert", ("condition:any", "message:literal?"), VOID, "Refuse to compile unless it holds.",
             'static_assert(sizeof(struct sock) > 0, "no sock")', r.static_assert, macro=True),
    Function("fail", ("format:literal", "..."), VOID, "Refuse to compile, where this can be reached.",
             'fail("needs a pid")', r.fail),
    Function("comptime", ("value:any",), None, "The value, which must be known when compiling.", "comptime 1 + 1",
             r.comptime),
    Function("getopt", ("name:literal", "default:any?", "help:literal?"), None, "A named parameter.",
             'getopt("port", 80)',
             r.getopt),
    Function("exists", ("what:literal",), None,
             "Whether the kernel has a probe, type, field or symbol; a clause that this rules out needs no probe.",
             'exists("struct sock.sk_family")', _of_existence("exists")),
    Function("one_of", ("n:int", "list:literal"), None, "Whether a number is in a list of numbers and ranges.",
             'one_of(pid, "1,80,8000-8010")', _of_existence("one_of")),
    Function("assert_str", ("value:any",), VOID, "Refuse to compile unless it is a string.", "assert_str(comm)",
             library="checks", macro=True),
    Function("is_array", ("value:any",), None, "Whether a value is an array.", "is_array($x)", r.IS_ARRAY, macro=True),
    Function("is_integer", ("value:any",), None, "Whether a value is an integer.", "is_integer($x)", r.IS_INTEGER,
             macro=True),
    Function("is_literal", ("value:any",), None, "Whether a value is written as a literal.", "is_literal(1)",
             r.IS_LITERAL, macro=True),
    Function("is_ptr", ("value:any",), None, "Whether a value is a pointer.", "is_ptr($x)", r.IS_PTR, macro=True),
    Function("is_str", ("value:any",), None, "Whether a value is a string.", "is_str($x)", r.IS_STR, macro=True),
    Function("is_unsigned_integer", ("value:any",), None, "Whether a value is an unsigned integer.",
             "is_unsigned_integer(pid)", r.IS_UNSIGNED, macro=True),
    Function("kfunc_exist", ("name:literal",), None, "Whether the kernel has a kfunc.", 'kfunc_exist("bpf_strlen")',
             r.kfunc, macro=True),
    Function("kfunc_allowed", ("name:literal",), None, "Whether a kfunc may be called.", 'kfunc_allowed("bpf_strlen")',
             r.kfunc, macro=True),
    Function("typeinfo", ("value:raw",), None, "The type of a value, as a record.", "typeinfo(pid).full_type",
             _later("typeinfo")),
)

FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}


def row_of(node: object) -> Function | None:
    """The row of the function that a node calls; None if it is no call of one of these."""
    return FUNCTIONS.get(node.name) if isinstance(node, Call) else None


def deletes_key(node: object) -> bool:
    """Whether a node takes an element out of a map."""
    row = row_of(node)
    return row is not None and row.on_map == "delete"
