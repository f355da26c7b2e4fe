"""No script makes the checker do anything but accept it or raise CompileError; what it accepts is annotated."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.builtins import BUILTINS
from sonde.errors import CompileError
from sonde.functions import FUNCTIONS
from sonde.language.ast import Expr
from sonde.semantics.nodes import walk_nodes
from sonde.types import Type
from unit.fake_world import KprobeWorld, check_text

ATOMS = [
    "0", "1", "-1", "300", "0xffffffffffffffff", "1e6", "10ms", '"abc"', '""', '"%d %s\\n"', "true", "$x", "$y", "$z",
    "@", "@a", "@b",
    "@c[1]", "@d[comm, pid]", "$1", "$2", "$#", "args", "args.skaddr", "args.newstate", "args.saddr", "args.family",
    "args.filename", "AF_INET", "TCP_ESTABLISHED", "SKB_DROP_REASON_NO_SOCKET", "EAGAIN", "arg0", "nonsense", "perf",
    "(struct sock *)args.skaddr", "((struct sock *)0).__sk_common", "curtask.comm", "curtask.files",
    "sizeof(struct sock)",
    "offsetof(struct sock, sk_rmem)", "(1, comm)", "(a=1, b=comm)", "()", "(struct mine *)0", "GREEN", "LIMIT",
    "struct sock",
    "uint64 *", *BUILTINS]
BINARY = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "&&", "||", "==", "!=", "<", "<=", ">", ">="]
SUFFIXES = [".comm", ".0", ".1", "[0]", "[$x]", "->__sk_common", ".skc_daddr", ".a", ".next", ".sk_rmem.counter", "++",
            "--"]
PREFIXES = ["-", "!", "~", "*", "&", "++", "(uint8)", "(int64)", "(struct sock *)", "(uint8[8])", "(bool)", "comptime "]
POINTS = ["BEGIN", "END", "t:sock:inet_sock_set_state", "t:syscalls:sys_enter_*", "t:sched:sched_switch",
          "uprobe:prog:work",
          "uretprobe:prog:work", "interval:s:1", "profile:hz:99", "rt:sched_switch", "k:vfs_read", "kr:vfs_read",
          "t:no:such"]
PREAMBLE = """#define LIMIT 5
struct mine { int a; char name[8]; struct mine *next; unsigned bits : 3; };
enum color { RED, GREEN = 7 };
"""


class Writer:
    """Writes random scripts that mostly parse."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def expression(self, depth: int = 3) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.3:
            return self.random.choice(ATOMS)
        inner = self.expression(depth - 1)
        if pick < 0.5:
            return f"({inner} {self.random.choice(BINARY)} {self.expression(depth - 1)})"
        if pick < 0.6:
            return f"({inner}){self.random.choice(SUFFIXES)}"
        if pick < 0.7:
            return f"{self.random.choice(PREFIXES)}({inner})"
        if pick < 0.75:
            return f"({inner} ? {self.expression(depth - 1)} : {self.expression(depth - 1)})"
        if pick < 0.78:
            return f"@m[{inner}]"
        if pick < 0.8:
            return f"{{ {self.statement(depth - 1)} {inner} }}"
        return self.call(depth)

    def call(self, depth: int) -> str:
        name = self.random.choice([*FUNCTIONS, *BUILTINS])
        row = FUNCTIONS.get(name)
        count = len(row.params) if row and self.random.random() < 0.8 else self.random.randrange(4)
        return f"{name}({', '.join([self.expression(depth - 1) for _ in range(count)])})"

    def statement(self, depth: int = 2) -> str:
        pick = self.random.random()
        if pick < 0.3:
            target = self.random.choice(["$x", "$y", "$z", "@", "@a", "@b", "@c[1]", f"@m[{self.expression(1)}]"])
            return f"{target} {self.random.choice(['=', '=', '=', '+=', '<<=', '/='])} {self.expression()};"
        if pick < 0.5 or depth == 0:
            return f"{self.call(2)};"
        body = self.statement(depth - 1)
        if pick < 0.6:
            return f"if ({self.expression(2)}) {{ {body} }} else {{ {self.statement(depth - 1)} }}"
        if pick < 0.7:
            over = self.random.choice(["@", "@a", "@c", "@m", "0..10", "$x..pid"])
            return f"for ($kv : {over}) {{ {body} print($kv); }}"
        if pick < 0.8:
            return f"{self.random.choice(['while', 'unroll'])} ({self.expression(1)}) {{ {body} break; }}"
        if pick < 0.9:
            declared = self.random.choice(["", ": uint8", ": string", ": struct mine *", ": typeof(@a)", ": int32[4]"])
            return f"let $x{declared} = {self.expression()};"
        return f"return {self.expression(1)};"

    def script(self) -> str:
        text = PREAMBLE if self.random.random() < 0.8 else ""
        for _ in range(self.random.randrange(1, 4)):
            predicate = f"/{self.expression(1)}/ " if self.random.random() < 0.2 else ""
            body = " ".join([self.statement() for _ in range(self.random.randrange(5))])
            text += f"{', '.join(self.random.sample(POINTS, self.random.randrange(1, 3)))} {predicate}{{ {body} }}\n"
        return text


class TypedWriter:
    """Writes random scripts that are right: every expression has the kind that is asked for."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def number(self, depth: int) -> str:
        if depth == 0:
            return self.pick("0", "7", "-3", "300", "pid", "tid", "nsecs", "cpu", "uid", "args.newstate", "args.sport",
                             "$n", "$m",
                             "@n", "@k[pid]", "@t[pid, comm]", "(@count + 0)", "GREEN", "AF_INET",
                             "sizeof(struct sock)", "rand",
                             "((struct sock *)args.skaddr).sk_rcvbuf", "((struct mine *)args.skaddr).bits",
                             "args.saddr[1]",
                             "curtask.flags[1]", "((struct sock *)args.skaddr).__sk_common.skc_dport", "$1", "LIMIT")
        left, right = self.number(depth - 1), self.number(depth - 1)
        return self.pick(
            f"({left} {self.pick('+', '-', '*', '&', '|', '^')} {right})",
            f"({left} {self.pick('/', '%')} ({right} | 1))",
            f"({left} {self.pick('<<', '>>')} {self.pick('1', '5', '63')})", f"-({left})", f"~({left})",
            f"({self.condition(depth - 1)} ? {left} : {right})",
            f"({self.pick('uint8', 'int16', 'uint32', 'int64')})({left})",
            f"strncmp({self.text(depth - 1)}, {self.text(0)}, 3)", f"bswap((uint16)({left}))",
            f"strlen({self.text(depth - 1)})",
            "$n++", "--$m", "@n++", f"{{ let $q = {left}; $q + 1 }}", f"({left}, {self.text(0)}).0",
            f"(a={left}, b={right}).b",
            f"*(uint32 *)({self.pointer(depth - 1)})", f"(if ({self.condition(0)}) {{ {left} }} else {{ {right} }})",
            f"((uint8[8])({left} + nsecs))[3]", f"strstr({self.text(0)}, {self.text(0)})")

    def condition(self, depth: int) -> str:
        if depth == 0:
            return self.pick("pid == 5", "comm == \"x\"", "true", "args.skaddr", "pid", "has_key(@k, 1)",
                             "probe == \"x\"")
        order = self.pick("==", "!=", "<", "<=", ">", ">=")
        return self.pick(f"({self.number(depth - 1)} {order} {self.number(depth - 1)})",
                         f"({self.condition(depth - 1)} {self.pick('&&', '||')} {self.condition(depth - 1)})",
                         f"!({self.condition(depth - 1)} || false)",
                         f"({self.text(depth - 1)} {self.pick('==', '!=')} {self.text(0)})",
                         f"strcontains({self.text(depth - 1)}, {self.text(0)})", f"({self.pointer(depth - 1)} == 0)",
                         f"((1, {self.number(0)}) == ({self.number(0)}, 2))")

    def text(self, depth: int) -> str:
        if depth == 0:
            return self.pick("comm", "\"abc\"", "\"\"", "$s", "@s[comm]", "curtask.comm", "str(args.skaddr, 16)",
                             "((struct sock *)args.skaddr).__sk_common.skc_prot.name", "((struct mine *)0).name")
        return self.pick(f"({self.condition(depth - 1)} ? {self.text(depth - 1)} : {self.text(depth - 1)})",
                         f"str({self.pointer(depth - 1)})", f"(1, {self.text(depth - 1)}).1", self.text(0),
                         f"str({self.pointer(0)}, {self.pick('5', 'pid', 'args.sport')})")

    def pointer(self, depth: int) -> str:
        if depth == 0:
            return self.pick("args.skaddr", "curtask", "(struct sock *)args.skaddr",
                             "((struct sk_buff *)args.skaddr).head",
                             "@p[tid]", "(uint8 *)5", "uptr(args.skaddr)", "*(curtask.files + 1)", "(int64 *)@n")
        return self.pick(f"(int8 *)({self.number(depth - 1)})",
                         f"((uint8 *)({self.pointer(depth - 1)}) + {self.number(depth - 1)})",
                         f"kptr({self.pointer(depth - 1)})", f"((struct mine *)({self.pointer(depth - 1)})).next")

    def value(self) -> str:
        return self.pick(self.number(2), self.text(2), self.pointer(1), self.condition(2), "kstack", "ustack(3)",
                         "ksym(args.skaddr)",
                         "usym(5)", "ntop(args.family, args.saddr)", "ntop(args.saddr_v6)", "macaddr(args.saddr_v6)",
                         "probe",
                         "strftime(\"%H\", nsecs)", "username", "strerror(5)", "buf(args.skaddr, 8)",
                         "(1, (comm, nsecs))",
                         "(a=1, b=comm)", "args.saddr", "pton(\"::1\")", "cgroup_path(cgroup)",
                         "SKB_DROP_REASON_NO_SOCKET")

    def statement(self, depth: int) -> str:
        body = self.statement(depth - 1) if depth else ""
        return self.pick(
            f"$n = {self.number(3)};", f"$s = {self.text(2)};",
            f"@n {self.pick('=', '+=', '|=', '*=')} {self.number(3)};",
            f"@k[{self.number(2)}] = {self.number(2)};", f"@t[{self.number(1)}, {self.text(1)}] += {self.number(1)};",
            f"@s[{self.text(2)}] = {self.text(2)};", f"@p[tid] = (uint8 *)({self.pointer(1)});", "@count = count();",
            f"@h = hist({self.number(2)});",
            f"@z[{self.value()}] = count();".replace("@z", f"@z{self.random.randrange(1 << 40)}"),
            f"@v{self.random.randrange(1 << 40)} = {self.value()};", f"@sum[{self.text(1)}] = sum({self.number(2)});",
            f"printf(\"%d %s %p\\n\", {self.number(2)}, {self.text(2)}, {self.pointer(1)});", f"print({self.value()});",
            f"print(({self.value()}, {self.value()}));",
            f"if ({self.condition(3)}) {{ {body} }} else {{ {self.statement(0)} }}",
            f"for ($i{depth} : 0..5) {{ {body} @n = $i{depth}; }}",
            f"for ($kv{depth} : @t) {{ {body} print($kv{depth}.0.1); @n += $kv{depth}.1; }}",
            f"unroll (2) {{ {body} }}", "delete(@k, 1);", f"delete(@t, ({self.number(1)}, {self.text(1)}));",
            "print(@k, 5);", "clear(@k);",
            "print(len(@k));", "if (find(@k, 1, $f)) { print($f); }", f"$j = 0; while ($j < 5) {{ $j++; {body} }}",
            "time(\"%H\");", "print(@sum);", f"print({self.pick('@k[1]', '@s[comm]', '@count')});", "exit();",
            f"return {self.number(1)};") if depth else self.pick("@count = count();", f"$n = {self.number(1)};",
                                                                 f"print({self.value()});")

    def script(self) -> str:
        before = ("$n = 1; $m = nsecs; $s = comm; @n = 1; @k[pid] = 1; @t[pid, comm] = nsecs; @s[comm] = comm; "
                  "@p[tid] = (uint8 *)0; @count = count(); @sum[comm] = sum(1);")
        body = " ".join([self.statement(2) for _ in range(self.random.randrange(1, 5))])
        return f"{PREAMBLE}t:sock:inet_sock_set_state /comm != \"x\" || @n/ {{ {before} {body} }}\n"


def check(text: str) -> bool:
    """Whether the script is right; if so, its tree is complete."""
    try:
        checked = check_text(text, KprobeWorld(), params=["12", "text"], unsafe=True)
    except CompileError as error:
        for item in error.diagnostics:
            item.render()
        return False
    for probe in checked.probes:
        untyped = [node for node in walk_nodes(probe.clause)
                   if isinstance(node, Expr) and not isinstance(node.type, Type)]
        assert not untyped, text
        assert all(type(v.type).__module__ == "sonde.types" for v in probe.variables), text
    for info in checked.maps.values():
        assert isinstance(info.value, Type) and (info.key is None or isinstance(info.key, Type)), text
    return True


@pytest.mark.parametrize("block", range(10))
def test_random_scripts(block: int) -> None:
    for seed in range(block * 300, block * 300 + 300):
        check(Writer(seed).script())


def test_random_single_statements() -> None:
    """Short scripts are right often enough to see what the checker accepts."""
    before = "t:sock:inet_sock_set_state { $x = 1; $y = comm; @a = 1; @c[1] = nsecs; "
    accepted = sum([check(f"{before}{Writer(seed).statement(1)} }}") for seed in range(2000)])
    assert accepted > 100


@pytest.mark.parametrize("block", range(5))
def test_right_scripts_are_accepted(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        text = TypedWriter(seed).script()
        assert check(text), text


@settings(max_examples=300)
@given(st.integers(0, 1 << 32), st.integers(0, 10 ** 6), st.sampled_from(["", ")", "}", ";", "$x", "@", "\"", "struct",
                                                                          "0", " = "]))
def test_damaged_scripts(seed: int, at: int, piece: str) -> None:
    text = Writer(seed).script()
    at %= len(text)
    check(text[:at] + piece + text[at + 1:])
