"""What the checker accepts the compiler can lower: the tables of both halves name the same things."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from compiled import KERNELS, compiled, world
from sonde import builtins, functions, tools
from sonde.builtins import BUILTINS
from sonde.compiler.lower import expressions, statements
from sonde.errors import CompileError
from sonde.functions import FUNCTIONS
from sonde.language import ast

PROBES = ("BEGIN", "t:syscalls:sys_enter_execve", "t:syscalls:sys_exit_openat", "u:c:malloc", "ur:c:malloc",
          "profile:hz:99", "rt:sched_switch", "rt:sys_enter", "t:skb:kfree_skb", "k:vfs_read", "f:vfs_read",
          "t:sock:inet_sock_set_state")
BEFORE = ("$p = (uint64 *)5; $q = $p; $a = (uint8[8])nsecs; $b = $a; $l = curtask; $sk = (struct sock *)5; "
          "$skb = (struct sk_buff *)5; $dev = (struct net_device *)5; $n = 5; $text = str(5); "
          "@x[tid] = 1; ")
EXAMPLES = {  # where the documentation's own example needs more around it
    "write_user": "write_user($p, $q, 8)",
    "buf": "buf(args.argv, 16)", "signal_name": "signal_name($n)", "syscall_name": "syscall_name($n)",
    "kaddr": 'kaddr("schedule")', "cgroupid": 'cgroupid("/sys/fs/cgroup")',
    "percpu_kaddr": 'percpu_kaddr("schedule")', "uaddr": 'uaddr("malloc")', "socket_cookie": "socket_cookie($sk)",
    "assert": 'assert($n > 0, "nothing seen")', "is_array": "is_array($a)", "ntop": "ntop(2, $n)",
    "is_integer": "is_integer($n)", "is_ptr": "is_ptr($p)", "is_str": "is_str(comm)", "find": "find(@x, tid, $v)",
    "static_assert": "static_assert(sizeof(uint32) == 4)", "kfunc_exist": 'kfunc_exist("bpf_rdonly_cast")',
    "strftime": 'strftime("%H", nsecs)', "abspath": "abspath($text, 2)",
}
# Refuses to compile; needs a probe kind that is not built; is no value; needs a Go program (tests/live/test_go.py).
ELSEWHERE = {"fail", "path", "config", "goid", "results"}


def accepted(statement: str) -> bool:
    """Whether the statement compiles for both kernels in some probe, or the answer is that it is not built yet, or not
    without a library that is not there."""
    codes = set()
    for probe in PROBES:
        try:
            for kernel in KERNELS:
                compiled(f"config = {{ unstable_typeinfo = enable }} {probe} {{ {BEFORE}{statement} }}", kernel,
                         unsafe=True)
            return True
        except CompileError as error:
            codes |= {d.code for d in error.diagnostics}
    return bool({"not-supported", "no-libpcap"} & codes)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ELSEWHERE])
def test_every_function_has_a_lowering(name: str) -> None:
    """As a statement, printed, kept in a variable, as a key: any other exception than CompileError fails here."""
    row = FUNCTIONS[name]
    example = EXAMPLES.get(name, row.example)
    answers = []
    for form in ("{};", "print({});", "$z = {}; print($z);", "@y[{}] = 1;", "@y = {};", "print(({}, 1));",
                 "if ({}) {{ print(1); }}", "$w = pid ? {0} : {0};"):
        answers.append(accepted(form.format(example)))
    assert any(answers), f"{name} works nowhere"


@pytest.mark.parametrize("name", [n for n in BUILTINS if n not in ELSEWHERE])
def test_every_builtin_has_a_lowering(name: str) -> None:
    answers = [accepted(form.format(name)) for form in ("print({});", "$z = {}; print($z);", "@y[{}] = count();", "{};",
                                                        "print(({}, 1));", "$w = pid ? {0} : {0};", "print({}());")]
    assert any(answers), f"{name} works nowhere"


@pytest.mark.parametrize("room", [functions, builtins])
def test_the_tables_of_contents_are_those_of_the_families(room: ModuleType) -> None:
    for family, names in room.FAMILIES.items():
        rows = import_module(f"{room.__name__}.{family}").ROWS
        assert names.split() == [row.name for row in rows]


def subclasses(base: type) -> set[type]:
    return {c for sub in base.__subclasses__() for c in {sub, *subclasses(sub)}}


def test_every_node_is_lowered() -> None:
    """Statements by their table. Expressions by theirs, or because they are constants or live in memory alone."""
    assert subclasses(ast.Stmt) == set(statements._STATEMENTS)
    constant = {ast.StrLiteral, ast.Positional, ast.SizeOf, ast.OffsetOf}
    in_memory, never = {ast.TupleExpr}, {ast.RuledOut, ast.Reference, ast.RowCall}
    assert subclasses(ast.Expr) == set(expressions._SCALARS) | constant | in_memory | never


# Tracepoints that no kernel at hand has: others in their place.
ELSEWHERE = {"criticalstat": {"irq_disable": "sched_wakeup", "irq_enable": "sched_switch"}}


@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "riscv64", "s390x"])
@pytest.mark.parametrize("name", tools.tool_names())
def test_every_tool_compiles(name: str, arch: str, kernel: str) -> None:
    """With the intermediate code checked after each pass."""
    tool = tools.find_tool(name)
    assert tool is not None
    try:
        text = Path(tool.path).read_text()
        for missing, other in ELSEWHERE.get(name, {}).items():
            text = text.replace(f"rawtracepoint:{missing}", f"rawtracepoint:{other}")
        spec = compiled(text, kernel, arch, params=tool.sample_arguments)
    except CompileError as error:
        raise AssertionError("\n".join(d.render() for d in error.diagnostics)) from None
    assert spec.programs and all(p.code for p in spec.programs)
    assert world(kernel, arch).cpus == 2
