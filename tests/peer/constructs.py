"""Random small programs: one construct of the language over values of any type.

Most of those that put a value where another type belongs are refused, which is what they are for: words and places.
"""

from __future__ import annotations

import random

# An expression, and the statement that must have been before it.
ATOMS: list[tuple[str, str]] = [
    *[(text, "") for text in ("0", "1", "-1", "2", "7", "300", "-129", "65536", "4294967296", "9223372036854775807",
                              "18446744073709551615", "-9223372036854775808", "0x10", "1e3", "1_000", "10us", "true",
                              "false", '""', '"a"', '"abc"', '"42"', "(1, 2)", '(1, "a")', '(1, (2, "b"))', "(1,)",
                              "(a=1, b=2)", '(x="s")', "(int8)5", "(uint8)200", "(uint64)5", "(int32)-3",
                              "(uint32)0xffffffff", "(bool)2", "RED", "(enum hue)1", "pid", "comm", "nsecs", "cpu",
                              "uid", "curtask", "curtask->pid", "curtask->comm", "curtask->mm", "(struct box *)0",
                              "((struct box *)0)->n", "((struct box *)0)->inner.x", "(int32 *)16", "(int8 *)0",
                              "(void *)5", "(uint8[4])(uint32)1", "kstack", "ustack", "kstack(3)", "probe",
                              'buf("abc", 2)', "ntop(1)", "ksym(0)", "usym(0)", "strerror(2)", "$1", "$#", "str($1)",
                              "sizeof(int32)", "rand", "elapsed", "args", "retval", "arg0", "ctx", "func", "usermode",
                              "ncpus", "jiffies", "cgroup", "username(0)", "strftime(\"%Y\", 0)", "macaddr(\"abcdef\")",
                              "pton(\"::1\")", "syscall_name(1)", "{ let $b = 5; $b }", "1 == 2", "\"a\" == \"b\"",
                              "nosuch", "$undefined", "@undefined", "(struct nosuch *)0", "int8", "struct box")],
    ("$i", "$i = 5;"), ("$n", "$n = -5;"), ("$i8", "let $i8: int8 = 5;"), ("$u8", "let $u8: uint8 = 200;"),
    ("$i16", "$i16 = (int16)-300;"), ("$u32", "$u32 = (uint32)70000;"), ("$u64", "$u64 = (uint64)5;"),
    ("$s", '$s = "hello";'), ("$t", '$t = (1, "a");'), ("$r", "$r = (a=1, b=2);"), ("$f", "$f = true;"),
    ("$p", "$p = (int32 *)16;"), ("$b", "$b = (struct box *)0;"), ("$a", "$a = (uint8[4])(uint32)1;"),
    ("$c", "$c = curtask;"), ("$e", "$e = RED;"), ("$k", "$k = kstack;"), ("$u", "let $u;"), ("$w", "let $w: int32;"),
    ("$z", '$z = buf("abc", 2);'), ("&$i", "$i = 5;"), ("*$p", "$p = (int32 *)16;"), ("&@v", "@v = 3;"),
    ("@v", "@v = 3;"), ("@s", '@s = "hi";'), ("@t", '@t = (1, "a");'), ("@m[1]", "@m[1] = 2;"), ("@m", "@m[1] = 2;"),
    ('@k["a", 1]', '@k["a", 1] = 2;'), ("@c", "@c = count();"), ("@sum", "@sum = sum(5);"), ("@avg", "@avg = avg(5);"),
    ("@min", "@min = min(5);"), ("@h", "@h = hist(5);"), ("@l", "@l = lhist(5, 0, 10, 1);"), ("@st", "@st = stats(5);"),
    ("@ck[1]", "@ck[1] = count();"), ("@hk[1]", "@hk[1] = hist(2);"), ("@p", "@p = (int32 *)16;"), ("@b", "@b = true;"),
    ("@q", "@q = kstack;"), ("@w", "@w = (a=1, b=2);"),
]
BINARY = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "&&", "||", "==", "!=", "<", "<=", ">", ">=")
TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string", "string[4]",
         "buffer[4]", "inet", "int8[4]", "uint16[2]", "int32 *", "void *", "struct box", "struct box *", "enum hue",
         "struct nosuch", "nosuch", "char", "size_t", "int", "int32[]", "count_t", "stack", "string *", "kstack_t",
         "(int8, string)", "typeof($i)", "int8 **", "struct task_struct *", "hist_t", "username_t", "usym_t")
CALLS = (
    "str", "buf", "strlen", "strcap", "strncmp", "strcontains", "strstr", "str_concat", "memcmp", "bswap", "ntop",
    "pton", "macaddr", "strerror", "signal_name", "syscall_name", "username", "ksym", "usym", "kaddr", "uaddr",
    "percpu_kaddr", "kptr", "uptr", "reg", "kstack", "ustack", "nsecs", "strftime", "cgroupid", "cgroup_path", "path",
    "len", "has_key", "find", "delete", "clear", "zero", "print", "exit", "time", "cat", "join", "printf", "errorf",
    "warnf", "debugf", "assert", "static_assert", "fail", "sizeof", "offsetof", "typeof", "typeinfo", "is_str",
    "is_ptr", "is_array", "is_integer", "is_unsigned_integer", "is_literal", "is_scalar", "is_err", "assert_str",
    "getopt", "container_of", "socket_cookie", "skboutput", "signal", "override", "system", "write_user", "unwatch",
    "kfunc_exist", "kfunc_allowed", "default_str_length", "pid", "tid", "comm", "ppid", "pcomm", "leader_comm",
    "leader_tid", "cpu", "rand", "count", "sum", "avg", "min", "max", "stats", "hist", "lhist", "tseries", "nosuch")
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
FORMATS = ("%d", "%u", "%x", "%s", "%c", "%p", "%r", "%rx", "%rh", "%lld", "%5d", "%-8s|", "%08x", "%.2s", "%hhd", "%i",
           "%o", "%X", "%%", "%", "%z", "%q", "%gr", "%hu", "%zu", "%#x", "%+d", "%5", "%.3d", "%*d", "%lu")
CONFIG = ("max_strlen", "max_map_keys", "max_cat_bytes", "missing_probes", "stack_mode", "str_trunc_trailer",
          "print_maps_on_exit", "on_stack_limit", "perf_rb_pages", "log_size", "license", "cpp_demangle", "max_probes",
          "max_bpf_progs", "lazy_symbolication", "cache_user_symbols", "show_debug_info", "use_blazesym", "nosuch",
          "unstable_tseries", "unstable_typeinfo", "unstable_import", "symbol_source", "BPFTRACE_MAX_STRLEN")
PREAMBLE = "enum hue { RED, GREEN = 7 } struct box { int n; char s[8]; struct { short x; } inner; struct box *next; } "
PROBES = (
    "begin", "end", "BEGIN", "interval:s:1", "interval:1s", "interval:ms", "interval:s:-1", "interval:x:1",
    "interval:s:x", "interval", "profile:hz:99", "profile:hz:x", "profile:99", "p:us:5",
    "tracepoint:sched:sched_switch", "tracepoint:sched:nosuch", "tracepoint:nosuch:x", "tracepoint:sched",
    "tracepoint:sched:sched_*", "tracepoint", "t:syscalls:sys_enter_openat", "rawtracepoint:sched_switch",
    "rawtracepoint:nosuch", "rt:sys_enter", "rawtracepoint:vmlinux:sched_switch", "kprobe", "kprobe:",
    "kprobe:vfs_read+x", "kprobe:a:b:c", "kprobe:*", "software:cpu-clock:100", "software:cpu", "s:faults:1",
    "software:nosuch:1", "software:cpu:x", "hardware:cycles:1000", "hardware:nosuch:5", "h:cache-misses",
    "uprobe:/bin/true:main", "uprobe:/nosuch:main", "uprobe:/bin/true", "uprobe:/bin/true:*",
    "uprobe:/bin/bash:readline", "uprobe:libc:malloc", "uprobe:nosuchlib:malloc", "ur:/bin/bash:readline",
    "uprobe:/bin/bash:readline+4", "uprobe:/bin/bash:0x0", "uretprobe:/bin/bash:readline+4", "usdt:/bin/bash:x",
    "usdt:libc:libc:setjmp", "usdt:libc:setjmp", "usdt:libc:nosuch:setjmp", "iter:task", "iter:nosuch",
    "iter:task_file", "iter:task:/tmp/x", "watchpoint:0x1000:8:w", "watchpoint:0x1000:3:w", "watchpoint:0x1000:8:q",
    "watchpoint:x:8:w", "self:signal:SIGUSR1", "self:signal:SIGNOSUCH", "self:x:SIGUSR1", "self:signal", "test:a",
    "bench:b", "fentry:nosuch", "fentry:bpf:nosuch", "nosuch:x", "nosuch", "x=begin", "begin, end", "begin:x",
    "end:1:2", "*:x", "t:sched:*,begin", "tracepoint:*:sched_switch",
    "tracepoint:sched:sched_switch,tracepoint:sched:nosuch", "asyncwatchpoint:0x1:8:w")


class Construct:
    """One program, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.before: list[str] = []

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def atom(self) -> str:
        text, before = self.random.choice(ATOMS)
        if before and before not in self.before:
            self.before.append(before)
        return text

    def value(self) -> str:
        """An atom, or something simple made of atoms."""
        kind = self.random.randrange(24)
        if kind < 13:
            return self.atom()
        if kind < 16:
            return f"({self.atom()} {self.pick(*BINARY)} {self.atom()})"
        if kind < 18:
            return f"({self.pick(*TYPES)}){self.atom()}"
        if kind < 19:
            return f"{self.pick(*'-~!*&')}{self.atom()}"
        if kind < 21:
            return self.call()
        if kind < 22:
            return f"({self.atom()} ? {self.atom()} : {self.atom()})"
        return self.access() if kind < 23 else f"({self.atom()}, {self.atom()})"

    def call(self) -> str:
        count = self.random.choice((0, 1, 1, 1, 1, 2, 2, 2, 3, 4))
        return f"{self.pick(*CALLS)}({', '.join([self.atom() for _ in range(count)])})"

    def access(self) -> str:
        return self.atom() + self.pick(".0", ".1", ".5", ".a", ".n", ".inner.x", "->n", "->pid", "->nosuch", "[0]",
                                       "[1]", "[9]", "[-1]", f"[{self.atom()}]", '["a"]', "[1, 2]", "++", "--",
                                       ".count")

    def target(self) -> str:
        return self.pick(self.atom(), self.atom(), "$new", "@new", "@new[1]", f"@new[{self.atom()}]", "_",
                         self.access())

    def statement(self) -> str:
        kind = self.random.randrange(30)
        value = self.value
        if kind < 7:
            return f"print({value()});"
        if kind < 11:
            return f"{self.target()} {self.pick('=', '=', '=', *ASSIGNMENTS)} {value()};"
        if kind < 14:
            forms = [self.pick(*FORMATS) for _ in range(self.random.randrange(1, 3))]
            values = [value() for _ in range(len(forms) if self.random.random() < 0.9 else 1)]
            return f'printf("{" ".join(forms)}\\n", {", ".join(values)});'
        if kind < 18:
            return f"{self.call()};"
        if kind < 20:
            return f"let $new: {self.pick(*TYPES)} = {value()};"
        if kind < 22:
            name = self.pick("count", "sum", "avg", "min", "max", "stats", "hist", "lhist", "tseries")
            more = self.pick("", ", 2", ", 0, 10, 1", ", 1s, 5")
            return f"@new = {name}({self.pick('', f'{value()}{more}')}); print(@new);"
        if kind < 24:
            return f"if ({value()}) {{ print(1); }} else {{ print(2); }}"
        if kind < 26:
            over = self.pick(self.atom(), f"{self.atom()}..{self.atom()}")
            return f"for ({self.pick('$new', '$i', '@v')} : {over}) {{ print($new); break; }}"
        if kind < 27:
            return f"while ({self.atom()}) {{ break; }}"
        if kind < 28:
            return f"unroll ({value()}) {{ print(1); }}"
        if kind < 29:
            return f"{value()};"
        return f"return {self.pick('', self.atom())};"

    def program(self) -> str:
        kind = self.random.randrange(20)
        if kind < 4:
            return (self.config, self.probe, self.macro, self.predicate)[kind]()
        statements = [self.statement() for _ in range(self.random.choice((1, 1, 1, 2)))]
        text = " ".join([*self.before, *statements])
        return f"{PREAMBLE if any(word in text for word in ('RED', 'hue', 'box')) else ''}begin {{ {text} }}"

    def config(self) -> str:
        value = self.pick("1", "0", "64", '"abc"', "true", "perf", '"warn"', "-1", "4096", "nosuch", "1k", "RED")
        return f"config = {{ {self.pick(*CONFIG)} = {value} }} begin {{ }}"

    def probe(self) -> str:
        shown = self.pick("args", "arg0", "retval", "func", "probe", "ctx", "comm")
        return f"{self.pick(*PROBES)} {{ {self.pick('', 'exit();', f'print({shown});')} }}"

    def macro(self) -> str:
        parameters = self.pick("", "a", "$a", "@a", "a, b", "$a, b")
        body = self.pick("a", "$a", "@a", "a + 1", "$a++", "@a = 1;")
        call = f"m({self.pick('', self.atom(), f'{self.atom()}, 1')})"
        return f"macro m({parameters}) {{ {body} }} begin {{ {' '.join(self.before)} print({call}); }}"

    def predicate(self) -> str:
        predicate = self.atom()
        return f"{PREAMBLE}begin {{ {' '.join(self.before)} }} begin /{predicate}/ {{ print(1); }}"


def construct(seed: int) -> str:
    return Construct(seed).program()
