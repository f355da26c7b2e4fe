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


class FunctionRow(Record):
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


def _action_rule(name: str) -> Any:
    """A rule of ``action_rules``, which is loaded when a script needs it: start-up is counted in milliseconds."""
    def run_rule(*args: Any) -> Any:
        from . import action_rules
        return getattr(action_rules, name)(*args)
    return run_rule


def _existence_rule(name: str) -> Any:
    """A rule of ``existence``, loaded as late."""
    def run_rule(*args: Any) -> Any:
        from . import existence
        return getattr(existence, name)(*args)
    return run_rule


_COUNT = Aggregate("count")

_ROWS = (
    # output
    FunctionRow("printf", ("format:literal", "..."), VOID, "Print formatted values.", 'printf("%s %d\\n", comm, pid)',
                r.check_formatted, sends="data"),
    FunctionRow("print", ("value:raw", "top:raw?", "div:raw?"), VOID, "Print a value or a whole map.", "print(@x, 5)",
                m.check_print, sends="data", on_map="print"),
    FunctionRow("errorf", ("format:literal", "..."), VOID, "Print formatted values as an error of this line.",
                'errorf("odd size %d", $n)', r.check_formatted, sends="data"),
    FunctionRow("warnf", ("format:literal", "..."), VOID, "Print formatted values as a warning of this line.",
                'warnf("odd size %d", $n)', r.check_formatted, sends="data"),
    FunctionRow("debugf", ("format:literal", "..."), VOID, "Print to the kernel's trace_pipe.", 'debugf("%d", pid)',
                _action_rule("check_debugf")),
    FunctionRow("cat", ("format:literal", "..."), VOID, "Print a file.", 'cat("/proc/%d/maps", pid)', r.check_formatted,
                sends="data"),
    FunctionRow("system", ("format:literal", "..."), VOID, "Run a command.", 'system("ps -p %d", pid)',
                r.check_formatted,
                sends="data", unsafe=True),
    FunctionRow("time", ("format:literal?",), VOID, "Print the time of day, by strftime(3).", 'time("%H:%M:%S ")',
                r.check_time,
                sends="data"),
    FunctionRow("join", ("array:ptr|array|int", "separator:literal?"), VOID, "Print an array of strings.",
                "join(args.argv)",
                r.check_join, sends="data"),
    FunctionRow("nstat", (), VOID, "Print the kernel's network counters that have grown since the start or last time.",
                "nstat()", sends="data"),
    FunctionRow("exit", ("status:int?",), VOID, "End tracing.", "exit()", sends="control"),
    FunctionRow("strftime", ("format:literal", "nanoseconds:int"), None, "A timestamp, formatted when printed.",
                'strftime("%H:%M:%S", nsecs)', r.check_strftime),
    FunctionRow("skboutput", ("path:literal", "skb:ptr|int", "length:int", "offset:int"), None,
                "Write a packet to a pcap file: a new one, or in place of an earlier capture.",
                'skboutput("x.pcap", $skb, 64, 0)', _action_rule("check_skboutput"), sends="data"),
    # maps
    FunctionRow("clear", ("map:map",), VOID, "Empty a map.", "clear(@x)", m.check_clear, sends="control",
                on_map="empty"),
    FunctionRow("zero", ("map:map",), VOID, "Set every value of a map to 0.", "zero(@x)", m.check_clear,
                sends="control",
                on_map="empty"),
    FunctionRow("delete", ("map:map", "key:raw?"), BOOL, "Remove a key from a map; false if it was not there.",
                "delete(@x, tid)", m.check_delete, on_map="delete", macro=True),
    FunctionRow("has_key", ("map:map", "key:raw"), BOOL, "Whether a map has a key.", "has_key(@x, tid)",
                m.check_has_key,
                on_map="look", macro=True),
    FunctionRow("find", ("map:map", "key:raw", "value:var"), BOOL, "Look a key up and keep its value, in one step.",
                "find(@x, tid, $start)", m.check_find, on_map="look", macro=True),
    FunctionRow("len", ("of:raw",), INT64, "Number of keys of a map or frames of a stack.", "len(@x)", m.check_len,
                on_map="look", macro=True),
    # map values
    FunctionRow("count", (), _COUNT, "Count calls.", "@ = count()", m.aggregate_rule("count"), aggregate=True),
    FunctionRow("sum", ("n:integer",), None, "Sum of the values.", "@ = sum(args.ret)", m.aggregate_rule("sum"),
                aggregate=True),
    FunctionRow("avg", ("n:integer",), None, "Average of the values.", "@ = avg(args.ret)", m.aggregate_rule("avg"),
                aggregate=True),
    FunctionRow("min", ("n:integer",), None, "Smallest value.", "@ = min(args.ret)", m.aggregate_rule("min"),
                aggregate=True),
    FunctionRow("max", ("n:integer",), None, "Largest value.", "@ = max(args.ret)", m.aggregate_rule("max"),
                aggregate=True),
    FunctionRow("stats", ("n:integer",), None, "Count, average and total of the values.", "@ = stats(args.ret)",
                m.aggregate_rule("stats"), aggregate=True),
    FunctionRow("hist", ("n:int", "bits:number?"), None, "Histogram by powers of two.", "@ = hist(args.ret)",
                m.aggregate_rule("hist"), aggregate=True),
    FunctionRow("lhist", ("n:int", "min:number", "max:number", "step:number"), None, "Histogram of equal steps.",
                "@ = lhist(cpu, 0, 128, 1)", m.aggregate_rule("lhist"), aggregate=True),
    FunctionRow("tseries", ("n:int", "interval_ns:number", "num_intervals:number", "agg:literal?"), None,
                "Values over time.", '@ = tseries(rand % 10, 1s, 5, "max")', m.aggregate_rule("tseries"),
                aggregate=True),
    # strings and bytes
    FunctionRow("str", ("data:raw", "length:raw?"), None, "The C string at an address.", "str(args.filename)",
                r.check_str),
    FunctionRow("buf", ("data:raw", "length:raw?"), None, "Bytes at an address.", "buf(args.buf, 16)", r.check_buf),
    FunctionRow("strlen", ("text:str",), UINT64, "Length of a string.", "strlen(comm)", cost=150, macro=True),
    FunctionRow("strcap", ("text:str|array|ptr",), None, "Capacity of a string.", "strcap(comm)", r.check_strcap,
                macro=True),
    FunctionRow("strncmp", ("a:str", "b:str", "length:number"), INT64, "0 if two strings agree in so many characters.",
                'strncmp(comm, "ssh", 3)', r.check_strncmp, cost=150),
    FunctionRow("strcontains", ("text:str", "part:str"), BOOL, "Whether a string contains another.",
                'strcontains(comm, "sh")', cost=400, macro=True),
    FunctionRow("strstr", ("text:str", "part:str"), INT64, "Where a string contains another; -1 if it does not.",
                'strstr(comm, "sh")', cost=400, macro=True),
    FunctionRow("str_concat", ("text:str", "more:str"), None, "Two strings as one.", 'str_concat(comm, "!")',
                _action_rule("check_str_concat"), cost=150, macro=True),
    FunctionRow("str_join", ("array:ptr|array|int", "separator:literal?"), None,
                "An array of strings as one, as join() prints it; twenty at most.", 'str_join(args.argv)',
                _action_rule("check_str_join")),
    FunctionRow("globmatch", ("text:str", "pattern:literal"), None, "Whether a string is as a pattern says.",
                'globmatch(comm, "k[a-s]*d/?")', _action_rule("check_globmatch"), cost=400),
    FunctionRow("memcmp", ("a:str|array|buf|ptr", "b:str|array|buf|ptr", "length:number"), INT64,
                "Compare bytes: 0 if they are the same, negative if those of the first are less.",
                "memcmp($a, $b, 4)", r.check_memcmp, macro=True),
    FunctionRow("bswap", ("n:integer",), None, "Reverse the order of bytes.", "bswap($sk.__sk_common.skc_dport)",
                r.check_bswap),
    FunctionRow("path", ("path:ptr|struct", "length:number?"), None, "Full path of a struct path.",
                "path(ctx.file.f_path)", r.check_path,
                probes=("fentry", "fexit", "iter")),
    FunctionRow("abspath", ("path:var", "depth:int"), VOID,
                "Put the current directory before a relative path, at most so many names of it.",
                "abspath($a, 32)", library="paths", macro=True),
    FunctionRow("fs_root", (), None, "The root directory of the current task, a struct dentry pointer.", "fs_root()",
                library="paths", macro=True),
    FunctionRow("default_str_length", (), INT64, "Size of strings: max_strlen.", "default_str_length()",
                library="values", macro=True),
    # names for numbers
    FunctionRow("ksym", ("address:int|ptr",), Symbol("ksym"), "Kernel symbol of an address.", "ksym(args.location)"),
    FunctionRow("usym", ("address:int|ptr",), USym(), "User symbol of an address.", 'usym(reg("ip"))'),
    FunctionRow("strerror", ("error:int",), Symbol("strerror"), "Text of an error number.", "strerror(-args.ret)",
                macro=True),
    FunctionRow("signal_name", ("signal:int",), Symbol("signal_name"), "Name of a signal.", "signal_name(args.sig)",
                macro=True),
    FunctionRow("syscall_name", ("number:int",), Symbol("syscall_name"), "Name of a system call.",
                "syscall_name(args.id)", macro=True),
    FunctionRow("cgroup_path", ("id:int", "filter:literal?"), None, "Path of a cgroup id.", "cgroup_path(cgroup)",
                r.check_cgroup_path),
    FunctionRow("cgroupid", ("path:literal",), None, "Id of a cgroup's path.", 'cgroupid("/sys/fs/cgroup/user.slice")',
                r.check_cgroupid),
    FunctionRow("ntop", ("address:int|array|str", "more:int|array|str?"), None, "Text of an IP address.",
                "ntop(args.family, args.saddr)", r.check_ntop),
    FunctionRow("pton", ("text:literal",), None, "Bytes of an IP address.", 'pton("127.0.0.1")', r.check_pton),
    FunctionRow("macaddr", ("bytes:array|str|ptr",), None, "Text of a MAC address.", "macaddr($dev.dev_addr)",
                r.check_macaddr),
    # addresses
    FunctionRow("kaddr", ("symbol:literal",), None, "Address of a kernel symbol.", 'kaddr("jiffies")', r.check_kaddr),
    FunctionRow("percpu_kaddr", ("symbol:literal", "cpu:int?"), None, "Address of a per-CPU variable of the kernel.",
                'percpu_kaddr("process_counts")', r.check_percpu_kaddr),
    FunctionRow("uaddr", ("symbol:literal",), None, "Address of a user symbol.", 'uaddr("ps1_prompt")', r.check_uaddr,
                probes=("uprobe", "uretprobe"), macro=True),
    FunctionRow("kptr", ("pointer:ptr|int",), None, "The pointer, into kernel memory.", "kptr($p)",
                r.pointer_rule("kernel")),
    FunctionRow("uptr", ("pointer:ptr|int",), None, "The pointer, into user memory.", "uptr($p)",
                r.pointer_rule("user")),
    FunctionRow("container_of", ("pointer:ptr|int", "type:raw", "member:raw"), None, "The object that holds a member.",
                "container_of($l, struct task_struct, tasks)", r.check_container_of, macro=True),
    FunctionRow("sock_laddr", ("sk:ptr",), None, "A struct sock's own address.",
                "sock_laddr((struct sock *)arg0)", library="inet"),
    FunctionRow("sock_raddr", ("sk:ptr",), None, "The address at the other end of a struct sock.",
                "sock_raddr((struct sock *)arg0)", library="inet"),
    FunctionRow("tcp_state", ("state:int",), None, 'The name of a state of TCP: "ESTABLISHED".', "tcp_state(1)",
                library="inet"),
    FunctionRow("is_err", ("pointer:ptr|int",), BOOL, "Whether a pointer is an error number.", "is_err($p)",
                library="values", macro=True),
    FunctionRow("reg", ("name:literal",), UINT64, "A register of the traced code.", 'reg("ip")', r.check_reg,
                probes=REGISTERS),
    FunctionRow("socket_cookie", ("sock:ptr",), UINT64, "The kernel's cookie of a socket.", "socket_cookie(args.sk)",
                _action_rule("check_socket_cookie"), probes=("fentry", "fexit", "iter")),
    # actions
    FunctionRow("signal", ("signal:int|literal",), VOID, "Send a signal to the current process.", 'signal("KILL")',
                r.check_signal,
                unsafe=True, macro=True),
    FunctionRow("signal_thread", ("signal:int|literal",), VOID, "Send a signal to the current thread.",
                'signal_thread("KILL")', r.check_signal, unsafe=True, macro=True),
    FunctionRow("override", ("value:int",), VOID, "Make the probed function return at once.", "override(-12)",
                _action_rule("check_override"), unsafe=True, probes=("kprobe",)),
    FunctionRow("write_user", ("to:ptr|int", "value:any", "length:number?"), None, "Write user memory.",
                "write_user(arg0, $x, 8)", _action_rule("check_write_user"), unsafe=True, macro=True),
    FunctionRow("unwatch", ("address:int|ptr",), None, "Remove a watchpoint.", "unwatch($p)",
                _action_rule("check_unwatch")),
    # checks
    FunctionRow("assert", ("condition:any", "message:str?"), VOID, "End tracing with an error unless it holds.",
                'assert(@x > 0, "nothing seen")', library="checks", macro=True),
    FunctionRow("static_assert", ("condition:any", "message:literal?"), VOID, "Refuse to compile unless it holds.",
                'static_assert(sizeof(struct sock) > 0, "no sock")', r.check_static_assert, macro=True),
    FunctionRow("fail", ("format:literal", "..."), VOID, "Refuse to compile, where this can be reached.",
                'fail("needs a pid")', r.check_fail),
    FunctionRow("comptime", ("value:any",), None, "The value, which must be known when compiling.", "comptime 1 + 1",
                r.check_comptime),
    FunctionRow("getopt", ("name:literal", "default:any?", "help:literal?"), None, "A named parameter.",
                'getopt("port", 80)',
                r.check_getopt),
    FunctionRow("exists", ("what:literal",), None,
                "Whether the kernel has a probe, type, field or symbol; a clause that this rules out needs no probe.",
                'exists("struct sock.sk_family")', _existence_rule("check_exists")),
    FunctionRow("one_of", ("n:int", "list:literal"), None, "Whether a number is in a list of numbers and ranges.",
                'one_of(pid, "1,80,8000-8010")', _existence_rule("check_one_of")),
    FunctionRow("assert_str", ("value:any",), VOID, "Refuse to compile unless it is a string.", "assert_str(comm)",
                library="checks", macro=True),
    FunctionRow("is_array", ("value:any",), None, "Whether a value is an array.", "is_array($x)", r.IS_ARRAY,
                macro=True),
    FunctionRow("is_integer", ("value:any",), None, "Whether a value is an integer.", "is_integer($x)", r.IS_INTEGER,
                macro=True),
    FunctionRow("is_literal", ("value:any",), None, "Whether a value is written as a literal.", "is_literal(1)",
                r.IS_LITERAL, macro=True),
    FunctionRow("is_ptr", ("value:any",), None, "Whether a value is a pointer.", "is_ptr($x)", r.IS_PTR, macro=True),
    FunctionRow("is_str", ("value:any",), None, "Whether a value is a string.", "is_str($x)", r.IS_STR, macro=True),
    FunctionRow("is_unsigned_integer", ("value:any",), None, "Whether a value is an unsigned integer.",
                "is_unsigned_integer(pid)", r.IS_UNSIGNED, macro=True),
    FunctionRow("kfunc_exist", ("name:literal",), None, "Whether the kernel has a kfunc.", 'kfunc_exist("bpf_strlen")',
                r.check_kfunc, macro=True),
    FunctionRow("kfunc_allowed", ("name:literal",), None, "Whether a kfunc may be called.",
                'kfunc_allowed("bpf_strlen")',
                r.check_kfunc, macro=True),
    FunctionRow("typeinfo", ("value:raw",), None, "The type of a value, as a record.", "typeinfo(pid).full_type",
                _action_rule("check_typeinfo")),
)

FUNCTIONS: dict[str, FunctionRow] = {row.name: row for row in _ROWS}


def row_of(node: object) -> FunctionRow | None:
    """The row of the function that a node calls; None if it is no call of one of these."""
    return FUNCTIONS.get(node.name) if isinstance(node, Call) else None


def deletes_key(node: object) -> bool:
    """Whether a node takes an element out of a map."""
    row = row_of(node)
    return row is not None and row.on_map == "delete"
