"""The verifier accepts what the compiler writes, and the kernel computes what Python does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fuzz.test_checker_fuzz import TypedWriter
from reference import Expressions, cut, evaluate_kept
from sonde.compiling import DIRECT, check_source, compile, live_world, mask_features
from sonde.errors import CompileError, SondeError
from sonde.library.trace import Trace
from sonde.semantics.script_options import Options
from sonde.source import Source

LIVE = live_world()
OLDER = mask_features(LIVE, (*DIRECT, "isa_v4", "raw_tp_cookie", "spilled_bounds"))  # only what Linux 6.1 has
WORLDS = {"this": LIVE, "older": OLDER}
EVERY = pytest.mark.parametrize("world", list(WORLDS))


def printed(script: str, world: str) -> list[Any]:
    """What the print()s of a BEGIN program gave; direct loads must have been good enough."""
    with Trace(script, Options(), world=WORLDS[world]) as trace:
        values = [event.args[0] for event in trace.events(5) if event.kind == "print"]
    assert trace.retried is None, trace.retried
    return values


@EVERY
@pytest.mark.parametrize("block", range(20))
def test_random_expressions(block: int, world: str) -> None:
    """Ten in each script, five scripts in each block: the kernel's results and Python's."""
    for seed in range(1000 + block * 5, 1000 + block * 5 + 5):
        writer = Expressions(seed)
        body = " ".join(f"let $r{i} = {text}; print($r{i});" for i, text in enumerate(writer.text() for _ in range(10)))
        script = f"BEGIN {{ {writer.definitions()} {body} exit(); }}"
        checked = check_source(Source("stdin", script), Options(), WORLDS[world], None)
        found = [s for s in checked.probes[0].clause.body if getattr(s, "declared", 1) is None]
        wanted = [cut(evaluate_kept(s.value, writer.env), s.target.slot.type) for s in found]
        assert [int(v) for v in printed(script, world)] == wanted, script


STATEMENTS: list[tuple[str, list[Any]]] = [
    ('let $s = "yth"; let $t = "xxpython"; print((strstr($t, $s), strcontains($t, $s), strstr($s, $t)));',
     [(3, True, -2)]),
    ('let $t = "xxpython"; print((strstr($t, "on"), strcontains($t, "no"), strlen($t), strncmp($t, "xxz", 2)));',
     [(6, False, 8, 0)]),
    ('$s = str(uptr(5)); print(strcontains($s, $s)); print($s == "");', [True, True]),
    ("$s = 0; for ($i : 0..1000) { if ($i & 1) { continue; } $s += $i; } print($s);", [249500]),
    ("$s = 0; $n = (int64)pid & 0 | 20; for ($i : 0..$n) { for ($j : 0..$n) { $s += $i * $j; } } print($s);", [36100]),
    ("$n = (int64)pid & 0 | 9; for ($i : 0..$n) { if ($i == 2) { return; } print($i); } print(9);", [0, 1]),
    ("$i = 0; while ($i < 100) { $i++; if ($i == 50) { break; } } print($i);", [50]),
    ("@m[1] = 2; @m[3] = 4; $s = 0; for ($kv : @m) { $s += $kv.0 * $kv.1; } print($s); print(len(@m));", [14, 2]),
    ("@m[1] = 1; @n[5] = 1; for ($a : @m) { for ($b : @n) { print(($a.0, $b.0)); } }", [(1, 5)]),
    ("@m[1] = count(); @m[1] = count(); print(@m[1]); for ($kv : @m) { print($kv.1); }", [2, 2]),
    ("@a = avg(4); @a = avg(8); @l = min(-3); @l = min(5); print(((int64)@a, (int64)@l));", [(6, -3)]),
    ("@x[1] = 1; $a = @x[1]; if (pid) { delete(@x, 1); } print(@x[1]); @x[1]++; print(@x[1]);", [0, 1]),
    ("@x[comm, pid] = 5; print(has_key(@x, (comm, pid))); print(delete(@x, (comm, pid))); print(len(@x));",
     [True, True, 0]),
    ("print((1, (2, \"x\"), (a=3, b=\"y\")).1.1); print(((uint8[4])0x01020304)[3]);", ["x", 1]),
    ("unroll (2) { return; } for ($kv : @m) { print(1); } @m[1] = 1;", []),
    ('let $s = str(uptr(5)); $n = 0; @m[1] = 1; @m[2] = 2; for ($kv : @m) { $s = str("abc"); $n++; '
     "for ($i : 0..@m[2] + 1) { $s = comm; } } print($s == comm); print($n);", [True, 2]),
    ('let $a = str("x"); @m[1] = 1; for ($kv : @m) { for ($i : 0..@m[1] + 1) { print(strstr($a, $a)); } }', [0, 0]),
    ("print(bswap((uint32)0x11223344)); print(comm == curtask.comm); print(curtask.tgid == pid);",
     [0x44332211, True, True]),
    ("print(curtask.real_parent.tgid == ppid); print(pcomm == curtask.real_parent.comm);", [True, True]),
    ('print(ntop(pton("10.1.2.3")) == ntop(pton("10.1.2.3"))); print(nsecs <= nsecs); print(rand < 0x100000000);',
     [True, True, True]),
]


@EVERY
@pytest.mark.parametrize(("statements", "values"), STATEMENTS, ids=[s[:40] for s, _ in STATEMENTS])
def test_statements(statements: str, values: list[Any], world: str) -> None:
    assert printed(f"BEGIN {{ {statements} }} END {{ }} i:ms:1 {{ exit(); }}", world) == values


KINDS = {"t:sock:inet_sock_set_state": "", "u:libc.so.6:malloc": "arg{}", "ur:libc.so.6:malloc": "(retval + {})",
         "profile:hz:1": "(nsecs + {})", "rt:sched_switch": "arg{}", "BEGIN": "(nsecs + {})"}


def moved(script: str, probe: str) -> str:
    """The writer's script for another kind of probe: where the arguments were are now registers or times."""
    if not KINDS[probe]:
        return script
    for number, (name, type) in enumerate({"skaddr": "uint64", "newstate": "int32", "sport": "uint16"}.items()):
        script = script.replace(f"args.{name}", f"(({type}){KINDS[probe].format(number)})")
    for name, value in {"saddr_v6": 'pton("::1")', "saddr": 'pton("10.0.0.1")', "family": "2"}.items():
        script = script.replace(f"args.{name}", value)
    return script.replace("t:sock:inet_sock_set_state", probe)


@EVERY
@pytest.mark.parametrize("probe", list(KINDS))
def test_random_scripts_pass_the_verifier(probe: str, world: str) -> None:
    """Scripts that use everything: loaded, not attached."""
    loaded, first = 0, 100 * list(KINDS).index(probe)
    for seed in range(first, first + 12):
        script = moved(TypedWriter(seed).script(), probe)
        try:
            trace = Trace(script, Options(params=["12", "text"], unsafe=True), world=WORLDS[world])
        except CompileError:
            continue
        try:
            trace._load_session()
            assert trace.retried is None, (trace.retried, script)
            loaded += 1
        except SondeError as error:
            raise AssertionError(f"{error}\n{script}") from error
        finally:
            if trace._session is not None:
                if trace._context is not None:
                    trace._context.close()
                trace.session.close()
    assert loaded


def test_clauses_of_system_calls_share_a_program() -> None:
    """They are one program at sys_enter and one at sys_exit; each sees its own events, in the script's order."""
    text = """
        tracepoint:syscalls:sys_enter_getppid /pid == $1/ { print((1, 0)); }
        tracepoint:syscalls:sys_enter_getpgid /pid == $1/ { if (args.pid == -7) { return; } print((2, args.pid)); }
        tracepoint:syscalls:sys_enter_getppid,tracepoint:syscalls:sys_enter_getpgid /pid == $1/ { @[probe] = count(); }
        tracepoint:syscalls:sys_exit_getpgid /pid == $1/ { print((3, args.ret)); }
        tracepoint:syscalls:sys_enter_getppid /pid == $1/ { for ($i : 0..2) { print((4, $i)); } }
        tracepoint:syscalls:sys_exit_getpgid /pid == $1 && args.ret == -3/ { print((5, comm)); exit(); print(6); }
        tracepoint:syscalls:sys_enter_getppid /pid == $1/ { print(7); }
    """
    options = Options(params=[str(os.getpid())])
    # A program with a callback stays by itself, between what comes before it and what comes behind.
    assert sorted(len(p.attach) for p in compile(text, options).programs) == [1, 1, 2, 4]
    with Trace(text, options) as trace:
        os.getppid()
        for pid in (-7, 1 << 30):
            with pytest.raises(ProcessLookupError):
                os.getpgid(pid)
        values = [event.args[0] for event in trace.events(5)]
        counts = {str(key): value for key, value in trace.maps["@"].items()}
    enter = "tracepoint:syscalls:sys_enter_get"
    name = Path("/proc/self/comm").read_text().strip()
    first, rest = values[:4], values[4:]
    assert first == [(1, 0), (4, 0), (4, 1), 7]
    assert rest == [(3, -3), (5, name)], rest
    assert counts == {f"{enter}ppid": 1, f"{enter}pgid": 1}


@EVERY
def test_jumps_over_what_no_jump_reaches(world: str) -> None:
    """Branches of more than 32,767 instructions, of which one is not taken: gotol, or islands before Linux 6.6."""
    text = "".join(f"{n:03d}." for n in range(37))
    far = f'unroll (20) {{ unroll (20) {{ @s = "{text}"; }} }}'
    script = (f"config = {{ max_strlen = 160 }} begin {{ @x = 5; if (@x == 4) {{ {far} @no = 1; }} else {{ @y = 7; }} "
              f"if (@x == 5) {{ {far} @z = 9; }} print((@x, @y, @z, @no, @s)); exit(); }}")
    program, = compile(script, Options(), world=WORLDS[world]).programs
    assert len(program.code) // 8 > 2 * 32_767
    assert printed(script, world) == [(5, 7, 9, 0, text)]
