"""Generated code does what scripts say: maps, aggregates, loops, records, whole programs, run in the interpreter."""

from __future__ import annotations

import random
from typing import Any

import pytest

from compiled import BENEATH, KERNELS, begin, compiled, loaded, run, set_task, world
from sonde.errors import CompileError
from sonde.language.diagnostics import nearest_names
from sonde.layouts.uapi import BPF_F_NO_PREALLOC
from sonde.types import Aggregate

BOTH = pytest.mark.parametrize("kernel", list(KERNELS))


# --- maps -------------------------------------------------------------------------------------------------


@BOTH
def test_keyless_maps(kernel: str) -> None:
    made = begin('@a = 5; @a += 2; @a *= 3; @a -= 1; @b = comm; @c = (1, "x"); @c = (300, "long"); @d++; ++@d; @e--; '
                 "@f = (uint64)-1; @g = @a + @d; delete(@e);", kernel)
    assert [made.value(n) for n in ("@a", "@b", "@c", "@d", "@e", "@f", "@g")] == \
        [20, "tester", (300, "long"), 2, 0, (1 << 64) - 1, 22]


@BOTH
def test_keyed_maps(kernel: str) -> None:
    made = begin('@a[1] = 10; @a[2] = 20; @a[1] += 5; @a[3]++; @a[2] *= 2; @b[comm, pid] = "v"; @b["x", 1] = "longer"; '
                 "@c[(1, (2, 3))] = 1; @d[1] = (2, comm); print(@a[9]); print((@b[comm, 1234], @b[\"q\", 1])); "
                 "print(@d[1].1); print(@d[2].0);", kernel)
    assert made.map("@a") == {1: 15, 2: 40, 3: 1}
    assert made.map("@b") == {("tester", 1234): "v", ("x", 1): "longer"}
    assert made.map("@c") == {(1, (2, 3)): 1} and made.map("@d") == {1: (2, "tester")}
    assert [e.args[0] for e in made.events] == [0, ("v", ""), "tester", 0]


@BOTH
def test_removal_and_presence(kernel: str) -> None:
    made = begin("@a[1] = 1; @a[2] = 2; "
                 "print((has_key(@a, 1), has_key(@a, 3), delete(@a, 1), delete(@a, 1), len(@a))); "
                 "delete(@a[2]); print(len(@a)); if (find(@a, 1, $v)) { print($v); } @a[1] = 7; "
                 "if (find(@a, 1, $w)) { print($w); } else { print(-1); }", kernel)
    assert [e.args[0] for e in made.events] == [(True, False, True, False, 1), 0, 7]


@BOTH
@pytest.mark.parametrize(("statements", "result"), [
    ("$a = @x[1]; @x[1]++; print(@x[1]);", 1),
    ("@x[1] = 1; $a = @x[1]; if (pid) { delete(@x, 1); $b = @x[1]; } print(@x[1]);", 0),
    ("@x[1] = 1; $a = @x[1]; if (pid) { @x[1] = 5; } print(@x[1]);", 5),
    ("@x[1] = 1; if (@x[1]) { delete(@x, 1); } else { @x[1] = 3; } print(@x[1]);", 0),
    ("@x[1] = 1; $a = (pid && @x[1]) ? 1 : 2; print(@x[1]);", 1),
    ("@x[1] = 4; $k = 1; $a = @x[$k]; $k = 2; @x[2] = 9; print(@x[$k]);", 9),
    ("@x[1] = 4; $i = 0; while ($i < 3 && @x[1]) { $i++; @x[1] = @x[1] - 1; } print(@x[1]);", 1),
    ("@x[1] = 4; unroll (3) { if (@x[1]) { delete(@x, 1); } @x[1] += 1; } print(@x[1]);", 1),
    ("@x[1] = 1; for ($i : 0..4) { $a = @x[1]; @x[1] = $a * 2; } print(@x[1]);", 16),
    ("@x[1] = 1; @y[1] = 2; $a = @x[1] + @y[1]; clear(@y); print(@x[1] + $a);", 4),
    ("@x[1] = 1; if (@x[1] > 0) { @x[1]++; } if (@x[1] > 1) { @x[1]++; } print(@x[1]);", 3),
    ("@x[1] = 1; $r = @x[1] ? (delete(@x, 1) ? 10 : 20) : 30; print($r + @x[1]);", 10),
    ("@x[1] = 1; $r = @x[1]; $s = { delete(@x, 1); $r }; print(@x[1] + $s);", 1),
    ("$n = (pid > 0 && nsecs > 5) ? 1 : 2; print($n);", 1),
    ("$i = 0; while (pid && nsecs && $i < 3) { $i++; } print($i);", 3),
    ("$n = if (pid && nsecs > 5) { 1 } else { 2 }; print($n);", 1),
])
def test_what_is_known_of_a_map_is_forgotten_in_time(statements: str, result: int, kernel: str) -> None:
    assert [e.args[0] for e in begin(statements, kernel).events if e.kind == "print"] == [result]


@BOTH
def test_a_full_map_is_counted_by_line(kernel: str) -> None:
    made = begin("@a[1] = 1; @a[2] = 2; @a[3] = 3; @a[4]++; @c[1] = count(); @c[2] = count(); @c[3] = count(); "
                 "@a[1] = 9;", kernel, env={"BPFTRACE_MAX_MAP_KEYS": "2"})
    assert made.map("@a") == {1: 9, 2: 2} and made.map("@c") == {1: 1, 2: 1}
    assert [(kind, text.split()[0], n) for kind, text, n in made.errors()] == \
        [("map_full", "@a[3]", 1), ("map_full", "@a[4]++", 1), ("map_full", "@c[3]", 1)]


@BOTH
def test_declared_maps(kernel: str) -> None:
    made = run("let @a = lruhash(2); let @b = percpuhash(8); BEGIN { @a[1] = 1; @a[2] = 2; @a[3] = 3; @b[1] = 4; "
               "@b[1] += 3; print(@b[1]); }", kernel)
    assert made.map("@a") == {2: 2, 3: 3}
    assert made.events[0].args == (7,)


def test_padding_of_keys_is_always_the_same() -> None:
    """Two ways of writing a key give the same bytes, whatever the stack held."""
    made = begin('let $s = comm; @a[(int8)1, "ab", (int64)2] = 1; $t = ((int8)1, "ab", (int64)2); @a[$t]++; '
                 '@b["tester"] = 1; @b[comm]++; @b[$s]++; @b[str(comm)]++; @c[comm, 1]++; @c["tester", 1]++;')
    assert made.map("@a") == {(1, "ab", 2): 2} and made.map("@b") == {"tester": 4}
    assert made.map("@c") == {("tester", 1): 2}


# --- aggregates -------------------------------------------------------------------------------------------


def bucket(value: int, bits: int) -> int:
    """hist()'s bucket, by the docstring of types.Aggregate."""
    if value < 0:
        return 0
    if value < 1 << (bits + 1):
        return value + 1
    exponent = value.bit_length() - 1
    return 1 + ((exponent - bits + 1) << bits) + ((value >> (exponent - bits)) - (1 << bits))


@BOTH
@pytest.mark.parametrize("bits", range(6))
def test_hist(bits: int, kernel: str) -> None:
    chance = random.Random(bits)
    values = [0, -1, -(1 << 63), (1 << 63) - 1, *[(1 << n) + d for n in range(63) for d in (-1, 0, 1)]]
    values += [chance.getrandbits(chance.randrange(1, 64)) for _ in range(100)]
    made = loaded(f"rt:sched_switch {{ @ = hist((int64)arg0, {bits}); @k[1] = hist((int64)arg0, {bits}); }}", kernel)
    wanted = [0] * Aggregate("hist", bits=bits).words
    for number in values:
        made.cpu = number & 1
        made.run(context=[number, 0, 0])
        wanted[bucket(number, bits)] += 1
    assert made.value().counts == wanted and made.map("@k")[1].counts == wanted and made.errors() == []


@BOTH
@pytest.mark.parametrize(("low", "high", "step"), [(0, 100, 10), (5, 50, 7), (0, 10, 3), (1000, 1001, 1)])
def test_lhist(low: int, high: int, step: int, kernel: str) -> None:
    made = loaded(f"rt:sched_switch {{ @ = lhist((int64)arg0, {low}, {high}, {step}); }}", kernel)
    values = [*range(low - 3, high + 4), -(1 << 63), (1 << 63) - 1]
    end = low + (high - low) // step * step
    wanted = [0] * (2 + (high - low) // step)
    for number in values:
        made.run(context=[number, 0, 0])
        wanted[0 if number < low else -1 if number >= end else 1 + (number - low) // step] += 1
    assert made.value().counts == wanted


@BOTH
@pytest.mark.parametrize("key", ["", "[1]"])
def test_count_sum_and_extremes(key: str, kernel: str) -> None:
    made = loaded("rt:sched_switch { @c@ = count(); @s@ = sum((int64)arg0); @u@ = sum((uint64)arg0); "
                  "@l@ = min((int64)arg0); @h@ = max((int64)arg0); @a@ = avg((int64)arg0); @t@ = stats((int64)arg0); "
                  "@m@ = max((uint64)arg0); }"
                  .replace("@ =", f"{key} ="), kernel)
    values = [5, -3, 10, 0, -20, 7]
    for number in values:
        made.cpu ^= 1
        made.run(context=[number, 0, 0])
    found = {n: next(iter(made.map(n).values())) for n in ("@c", "@s", "@u", "@l", "@h", "@a", "@m", "@t")}
    assert (found["@c"], found["@s"], found["@l"], found["@h"]) == (6, -1, -20, 10)
    assert found["@u"] == -1 & (1 << 64) - 1 and found["@m"] == -3 & (1 << 64) - 1
    assert found["@a"] == 0 and (found["@t"].count, found["@t"].average, found["@t"].total) == (6, 0, -1)


@BOTH
@pytest.mark.parametrize("key", ["", "[1]"])
def test_aggregates_read_in_the_program(key: str, kernel: str) -> None:
    text = ("rt:sched_switch { @c@ = count(); @s@ = sum((int64)arg0); @l@ = min((int64)arg0); @h@ = max((int64)arg0); "
            "@a@ = avg((int64)arg0); print(((int64)@c@, (int64)@s@, (int64)@l@, (int64)@h@, (int64)@a@)); "
            "if (@c@ > 1) { print(1); } }").replace("@ =", f"{key} =").replace("@,", f"{key},") \
        .replace("@)", f"{key})").replace("@ >", f"{key} >")
    made = loaded(text, kernel)
    for number in (8, -2):
        made.cpu ^= 1
        made.run(context=[number, 0, 0])
    assert [e.args[0] for e in made.events] == [(1, 8, 8, 8, 8), (2, 6, -2, 8, 3), 1]


# --- control flow -----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(("statements", "printed"), [
    ("for ($i : 0..3) { print($i); }", [0, 1, 2]), ("for ($i : 3..3) { print($i); }", []),
    ("for ($i : -2..1) { print($i); }", [-2, -1, 0]), ("for ($i : 5..2) { print($i); }", []),
    ("for ($i : 0..5) { if ($i == 1) { continue; } if ($i == 3) { break; } print($i); }", [0, 2]),
    ("$n = @v[0] + 3; for ($i : 0..$n) { print($i); }", [0, 1, 2]),
    ("$n = @v[0] + 3; for ($i : $n..$n + 2) { print($i); }", [3, 4]),
    ("$n = @v[0] - 3; for ($i : 0..$n) { print($i); } print(-1);", [-1]),
    ("$s = 0; for ($i : 0..1000) { $s += $i; } print($s);", [499500]),
    ("$s = 0; for ($i : 0..1000) { if ($i == 10) { break; } if ($i & 1) { continue; } $s += $i; } print($s);", [20]),
    ("$s = 0; $n = @v[0] + 4; for ($i : 0..$n) { for ($j : 0..$n) { $s += $i * $j; } } print($s);", [36]),
    ("$n = @v[0] + 4; for ($i : 0..$n) { if ($i == 2) { return; } print($i); } print(9);", [0, 1]),
    ("$n = @v[0] + 4; for ($i : 0..$n) { if ($i == 2) { exit(); } print($i); } print(9);", [0, 1, 0]),
    ("$i = 0; while ($i < 10) { $i++; if ($i == 2) { continue; } if ($i == 5) { break; } print($i); }", [1, 3, 4]),
    ("$i = 0; unroll (4) { $i++; if ($i == 2) { continue; } if ($i == 4) { break; } print($i); }", [1, 3]),
    ("if (pid == 1) { print(1); } else if (pid == 1234) { print(2); } else { print(3); }", [2]),
    ("if (pid) { return; } print(1);", []), ("if (!pid) { return; } print(1);", [1]),
    ("{ let $x = 1; print($x); } { let $x = 2; print($x); }", [1, 2]),
    ("let $x; if (pid) { $x = 5; } print($x);", [5]), ("let $x: uint8; print($x);", [0]),
    ("@m[1] = 2; @m[3] = 4; for ($kv : @m) { print(($kv.0, $kv.1)); }", [(1, 2), (3, 4)]),
    ("@m[1] = 2; @m[3] = 4; $s = 0; for ($kv : @m) { $s += $kv.1; } print($s);", [6]),
    ("@m[1] = 2; @m[3] = 4; for ($kv : @m) { if ($kv.0 == 1) { continue; } print($kv.1); break; }", [4]),
    ("@m[1, comm] = (2, \"x\"); for ($kv : @m) { print(($kv.0.1, $kv.1.1)); }", [("tester", "x")]),
    ("@m[1] = count(); @m[1] = count(); for ($kv : @m) { print($kv.1); }", [2]),
    ("@m[1] = 1; @n[5] = 1; for ($a : @m) { for ($b : @n) { print(($a.0, $b.0)); } }", [(1, 5)]),
    ("@m[1] = 1; let $t = comm; for ($a : @m) { print(($t, comm)); $t = \"new\"; } print($t);",
     [("tester", "tester"), "new"]),
    ('let $s = str(uptr(5)); $n = 0; @m[1] = 1; @m[2] = 2; for ($kv : @m) { $s = str("abc"); $n++; '
     "for ($i : 0..@m[2] + 1) { $s = comm; } } print($s == comm); print($n);", [True, 2]),
    ('let $a = str("x"); @m[1] = 1; for ($kv : @m) { for ($i : 0..@m[1] + 1) { print(strstr($a, $a)); } }', [0, 0]),
    ("@m[7] = 1; for ($a : @m) { let $t = $a.0; for ($i : 0..@m[7] + 1) { print(($t, $a.1, $i)); } }",
     [(7, 1, 0), (7, 1, 1)]),
    ("for ($i : 0..@v[1] + 2) { for ($j : 0..@v[1] + 1) { print(($i, $j)); } }", [(0, 0), (1, 0)]),
    ("@m[1] = 1; @m[2] = 1; for ($a : @m) { delete(@m, $a.0); } print(len(@m));", [0]),
])
def test_loops_and_branches(statements: str, printed: list[Any], kernel: str) -> None:
    before = "@v[1] = 0; " if "@v" in statements else ""
    assert [e.args[0] for e in begin(before + statements, kernel).events] == printed


@BOTH
def test_callbacks_that_are_never_reached_are_left_out(kernel: str) -> None:
    made = begin("@m[1] = 1; unroll (2) { return; } for ($kv : @m) { print(1); }", kernel)
    assert [name for _, name in made.spec.programs[0].functions] == ["sonde_begin"] and not made.events


@BOTH
def test_predicates(kernel: str) -> None:
    for predicate, runs in {"pid == 1234": 1, "pid != 1234": 0, "@x": 0, "@x[1]": 0, "!@x[1]": 1, "1": 1, "0": 0,
                            'comm == "tester" && uid': 1, 'pid == 1 || comm == "tester"': 1, "args": None}.items():
        if runs is not None:
            made = run(f"BEGIN /{predicate}/ {{ @x = 1; @x[1] = 1; print(1); }}".replace(
                "@x = 1; " if "@x[" in predicate else "@x[1] = 1; ", ""), kernel)
            assert len(made.events) == runs, predicate


# --- records ----------------------------------------------------------------------------------------------

HEAD = 16


@BOTH
@pytest.mark.parametrize(("statements", "bytes_sent", "args"), [
    ('printf("%s", str(arg));', HEAD + 7, ("tester",)),
    ('printf("%d %s %d", 1, str(arg), 2);', HEAD + 2 + 7, (1, "tester", 2)),
    ('$p = str(arg); printf("%s %s", $p, comm);', HEAD + 16 + 7, ("tester", "tester")),
    ('$p = str(arg); printf("%s", str_concat($p, "-more"));', HEAD + 12, ("tester-more",)),
    ('printf("%s", str(arg, 3));', HEAD + 8, ("te",)),  # as laid out: nothing is long
    ('printf("%s", pid > 1 ? str(arg) : "none");', HEAD + 7, ("tester",)),
    ('printf("%s", { $n = 1; str(arg) });', HEAD + 7, ("tester",)),
    ('@m[1] = str(arg); printf("%s", @m[1]); printf("%s", @m[2]);', HEAD + 7, ("tester",)),
    ('$n = 4; printf("%s", str(arg, $n));', HEAD + 4, ("tes",)),
    ('$n = 0; printf("%s", str(arg, $n));', HEAD + 1, ("",)),
    ('$n = 5; printf("%r", buf(arg, $n));', HEAD + 4 + 5, (b"teste",)),
])
def test_a_record_takes_what_it_carries(kernel: str, statements: str, bytes_sent: int, args: tuple[Any, ...]) -> None:
    made = begin(statements.replace("arg", "kptr((int8 *)curtask->comm)"), kernel)
    assert len(made.records[0]) == bytes_sent and made.events[0].args == args


@BOTH
def test_records(kernel: str) -> None:
    made = begin('printf("%d %s %p\\n", -5, comm, 255); print("x"); print((1, comm)); @m[1] = 1; print(@m); clear(@m); '
                 'print(@m, 3); zero(@m); time("%H"); errorf("bad %d", 1); warnf("hm"); cat("/x/%d", pid); '
                 'print(strftime("%H", nsecs)); exit(3);', kernel)
    events = made.events
    assert [e.kind for e in events] == ["printf", "print", "print", "print_map", "print_map", "time", "printf",
                                        "printf", "cat", "print", "exit"]
    assert [e.args for e in events[:3]] == [(-5, "tester", 255), ("x",), ((1, "tester"),)]
    assert events[-1].args == (3,) and events[5].time and not events[0].time
    sites = [made.spec.sites[e.site] for e in events]
    assert [s.data.get("severity") for s in sites] == [None] * 6 + ["ERROR", "WARNING"] + [None] * 3
    assert sites[3].data == {"map": "@m", "top": 0, "div": 0, "then": "clear"} and sites[4].data["top"] == 3
    assert sites[8].kind == "cat" and sites[8].parts and sites[-1].control


@BOTH
def test_print_and_clear_are_one_step(kernel: str) -> None:
    made = begin("@m[1] = 1; print(@m); clear(@m); print(@m); zero(@m); print(@m); clear(@n); @n[1] = 1;", kernel)
    assert [(s.kind, s.data["map"], s.data.get("then", "")) for s in made.spec.sites] == \
        [("print_map", "@m", "clear"), ("print_map", "@m", "zero"), ("print_map", "@m", ""), ("clear", "@n", "")]


@BOTH
def test_a_full_ring_is_counted_and_effects_still_happen(kernel: str) -> None:
    made = loaded('BEGIN { $x = 1; printf("%d %d", $x++, @y++); print(@z[1]++); @after = $x; exit(); }', kernel)
    made.maps["__data"].full = True
    made.run()
    assert made.lost() == {"begin": 2} and [e.kind for e in made.events] == ["exit"]
    assert made.value("@after") == 2 and made.value("@y") == 1 and made.map("@z") == {1: 1}
    made = loaded("BEGIN { exit(); }", kernel)
    made.maps["__control"].full = True
    made.run()
    assert made.lost() == {"begin": 1}


@BOTH
def test_control_records_know_their_place(kernel: str) -> None:
    """They carry the producer position of the data ring, which the interpreter's helper tells truly."""
    made = loaded("BEGIN { print(1); @m[1] = 1; clear(@m); print(2); exit(); }", kernel)
    positions: list[int] = []
    submit = made.submit

    def note(record: int) -> None:
        region = made.reserved[record][1]
        if made.spec.sites[int.from_bytes(region.data[:4], "little")].control:
            positions.append(int.from_bytes(region.data[16:24], "little"))
        submit(record)

    made.submit = note  # type: ignore[method-assign]
    made.run()
    assert positions == [24, 48]


def test_one_program_serves_many_attach_points_by_cookie() -> None:
    made = loaded("rt:sched_switch, rt:sched_wakeup { print(probe); @[probe] = count(); }")
    assert len(made.spec.programs) == 1 and made.spec.programs[0].cookies
    for index in (1, 0, 1):
        made.run(cookie=index)
    names = [f"rawtracepoint:vmlinux:sched_{n}" for n in ("wakeup", "switch", "wakeup")]
    assert [(str(e.args[0]), e.probe) for e in made.events] == list(zip(names, names))
    assert len(compiled("rt:sched_switch, rt:sched_wakeup { print(probe); }", "6.1").programs) == 2


# --- contexts ---------------------------------------------------------------------------------------------


@BOTH
def test_syscalls_by_raw_tracepoints(kernel: str) -> None:
    made = loaded("t:syscalls:sys_enter_openat, t:syscalls:sys_enter_open { print((str(args.filename), probe)); } "
                  "t:syscalls:sys_exit_openat { print(args.ret); }", kernel)
    name = made.memory.add(b"/etc/hosts\0", "name", user=True)
    regs = bytearray(168)
    regs[8 * 13:8 * 14] = name.base.to_bytes(8, "little")       # si: the second argument
    regs[8 * 14:8 * 15] = name.base.to_bytes(8, "little")       # di: the first
    regs[8 * 15:8 * 16] = (257).to_bytes(8, "little")           # orig_ax
    saved = made.memory.add(regs, "pt_regs", writable=False)
    enter = [p for p in made.spec.programs if p.method == "raw:sys_enter"]
    for program in enter:
        for number in (257, 2, 0, 511, 1 << 40):
            made.run(program, [saved.base, number])
    assert sorted(str(e.args[0][1]).rpartition("_")[2] for e in made.events) == ["open", "openat"]
    made.run(next(p for p in made.spec.programs if p.method == "raw:sys_exit"), [saved.base, -2])
    assert [e.args[0] for e in made.events] == [-2]


def test_syscalls_by_records_where_programs_of_raw_tracepoints_are_preempted() -> None:
    """struct trace_event_raw_sys_enter and _exit: a head, the number, and the arguments or the result."""
    made = loaded("t:syscalls:sys_enter_openat, t:syscalls:sys_enter_open { print((str(args.filename), probe)); } "
                  "t:syscalls:sys_exit_openat { print((args.ret, args.__syscall_nr)); } "
                  "t:raw_syscalls:sys_enter { print(args.id); }", "7.2")
    name = made.memory.add(b"/etc/hosts\0", "name", user=True)
    programs = {p.method: p for p in made.spec.programs}
    assert {method: p.type for method, p in programs.items()} == dict.fromkeys(
        ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit", ""), "tracepoint")
    for number, at in ((257, 1), (2, 0), (0, 0)):
        arguments = [name.base if index == at else 0 for index in range(6)]
        made.run(programs["raw_syscalls:sys_enter"], [0, number, *arguments])
    assert [(e.args[0][0], str(e.args[0][1]).rpartition("_")[2]) for e in made.events] == [
        ("/etc/hosts", "openat"), ("/etc/hosts", "open")]
    made.run(programs["raw_syscalls:sys_exit"], [0, 257, -2])
    assert [tuple(e.args[0]) for e in made.events] == [(-2, 257)]


@BOTH
def test_pid_filter_and_exit_stop_programs(kernel: str) -> None:
    made = loaded("rt:sched_switch { print(1); }", kernel, pid=1234)
    made.run()
    made.pid = 5
    set_task(made, made.tid, kernel=kernel)
    made.run()
    assert len(made.events) == 1
    made = loaded("rt:sched_switch { print(1); exit(); } END { print(2); }", kernel)
    for _ in range(3):
        made.run(0)
    made.run(1)
    assert [e.args[0] for e in made.events] == [1, 0, 2]


@BOTH
def test_registers_and_arguments(kernel: str) -> None:
    made = loaded('u:bash:main { print((arg0, arg1, reg("ip"), arg7)); } ur:bash:main { print(retval); }', kernel)
    regs = bytearray(168)
    stack = made.memory.add(bytes(8) + (70).to_bytes(8, "little") + (80).to_bytes(8, "little"), "user stack", user=True)
    for index, number in {14: 11, 13: 12, 16: 0x400000, 10: 99, 19: stack.base}.items():
        regs[8 * index:8 * index + 8] = number.to_bytes(8, "little")
    made.run(0, bytes(regs))
    made.run(1, bytes(regs))
    assert [e.args[0] for e in made.events] == [(11, 12, 0x400000, 80), 99]


@BOTH
def test_stacks_are_stored_once(kernel: str) -> None:
    made = loaded("rt:sched_switch { @[kstack] = count(); @u[ustack(2)] = count(); }", kernel)
    for _ in range(2):
        made.run()
    made.frames = [0x9999]
    made.run()
    assert sorted(made.map().values()) == [1, 2]
    stored = made.maps["__stacks"].elements
    assert sorted(int.from_bytes(r[0].data[:8], "little") for r in stored.values()) == [0x1001, 0x1001, 0x9999]
    assert all(not any(r[0].data[24:]) for r in stored.values())


@BOTH
@pytest.mark.parametrize("own", [[0x9999, BENEATH + 252], [0x8888, 0x9999, BENEATH + 252]], ids=["program", "callback"])
def test_frames_of_the_tracing_and_beyond_the_limit_tell_no_stacks_apart(kernel: str, own: list[int]) -> None:
    made = loaded("rt:sched_switch { @[kstack(2)] = count(); }", kernel)
    for frames in ([0x10, 0x20, 0x30], [0x10, 0x20, 0x40, 0x50, 0x60, 0x70], [0x10, 0x20], [0x10], [0x20, 0x10]):
        made.frames = [*own, *frames]
        made.run()
    assert sorted(made.map().values()) == [1, 1, 3]
    stored = [r[0].data for r in made.maps["__stacks"].elements.values()]
    assert sorted(tuple(memoryview(frames).cast("Q")[:3]) for frames in stored) == \
        [(0x10, 0, 0), (0x10, 0x20, 0), (0x20, 0x10, 0)]


@BOTH
def test_a_class_of_events_has_its_callback_found_out_once(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's list of raw tracepoints has its address; what is there later is not read."""
    symbols = world(kernel, "x86_64")._data["symbols"]
    monkeypatch.setitem(symbols, "__bpf_trace_tp_map_sched_waking", 0xFFFF_9000_0000_0000)
    made = loaded("rt:sched_waking { @[kstack(2)] = count(); }", kernel)
    row = made.memory.add(bytes(8) + (0x7000).to_bytes(8, "little"), "bpf_raw_event_map")
    made.memory._regions[0xFFFF_9000] = row
    row.base = 0xFFFF_9000_0000_0000
    for third in (0x30, 0x40):
        made.frames = [0x9999, BENEATH + 252, 0x7010, 0x10, 0x20, third]
        made.run()
        row.data[8:] = bytes(8)
    assert list(made.map().values()) == [2]
    assert [bytes(r[0].data[:16]) for r in made.maps["__stacks"].elements.values()] == \
        [b"\x10" + bytes(7) + b"\x20" + bytes(7)]


@BOTH
def test_failed_reads_are_counted_and_give_nothing(kernel: str) -> None:
    made = begin("print(str(uptr(8))); print(*(uint32 *)uptr(8)); @[str(kptr(16))] = 1; print(buf(uptr(8), 4));",
                 kernel)
    assert [e.args[0] for e in made.events] == ["", 0, b"\0\0\0\0"]
    assert [kind for kind, _, _ in made.errors()] == ["read"] * 4


def test_join() -> None:
    made = loaded('t:syscalls:sys_enter_execve { join(args.argv); join(args.argv, ","); }')
    words = [made.memory.add(w, "word", user=True) for w in (b"ls\0", b"-l\0", b"\0")]
    argv = made.memory.add(b"".join(w.base.to_bytes(8, "little") for w in words) + bytes(8), "argv", user=True)
    regs = bytearray(168)
    regs[8 * 13:8 * 14] = argv.base.to_bytes(8, "little")
    saved = made.memory.add(regs, "pt_regs", writable=False)
    made.run(context=[saved.base, 59])
    assert [bytes(e.args[0]).split(b"\0")[:3] for e in made.events] == [[b"ls", b"-l", b""]] * 2


@pytest.mark.parametrize(("script", "names"), [
    ("begin { } interval:s:1 { } end { }", ["sonde_begin", "sonde_interval", "sonde_end"]),
    ("tracepoint:syscalls:sys_enter_openat { @ = count(); }", ["sonde_sys_enter"]),
    ("uprobe:libc:malloc { @ = count(); }", ["sonde_malloc"]),
    ("uprobe:libc:malloc,uprobe:libc:free { @ = count(); }", ["sonde_uprobe"]),
    ("begin { $i = 0; while ($i < 100000) { $i++; @[$i] = count(); } }", ["sonde_begin"]),
])
def test_names_in_the_kernel(script: str, names: list[str]) -> None:
    """What bpftool shows; of a program that has callbacks, its function information."""
    found = compiled(script).programs
    assert [program.name for program in found] == names
    assert all(len(name) <= 15 for name in names)
    assert [program.functions[0][1] for program in found] == names


def test_the_function_of_a_kernel_probe_where_no_helper_tells_it() -> None:
    """Each function has a program then, and that has the address from the symbol table."""
    call = bytes([0x85, 0, 0, 0]) + (173).to_bytes(4, "little")  # bpf_get_func_ip()
    assert call in compiled("kprobe:vfs_read { @[func] = count(); }").programs[0].code
    old = compiled("kprobe:vfs_read, kprobe:tcp_sendmsg { @[func] = count(); }", "5.10").programs
    assert len(old) == 2 and call not in old[0].code + old[1].code
    address = world("5.10").kernel_symbol("vfs_read")
    assert address is not None and (address & 0xFFFFFFFF).to_bytes(4, "little") in old[0].code


@pytest.mark.parametrize(("script", "since"), [
    ("kprobe:vfs_read { print(dw_ustack); }", "5.15"), ('begin { debugf("%d %d %d %d", 1, 2, 3, 4); }', "5.16"),
    ("begin { for ($kv : @m) { } @m[1] = 1; }", "5.13"), ("begin { @m[1] = 1; print(len(@m)); }", "5.13"),
    ("uprobe:libc:malloc { @ = dw_ustack; }", "5.17"), ("begin { for ($i : 0..cpu) { } }", "5.17"),
    ("begin { for ($i : 0..1000) { for ($j : 0..1000) { } } }", "5.17"),
    ("begin { for ($i : 0..500) { unroll(10) { for ($j : 0..101) { } } } }", "5.17")])
def test_what_came_later_is_refused_in_a_sentence(script: str, since: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(script, "5.10")
    errors = [found.message for found in caught.value.diagnostics if found.severity == "ERROR"]
    assert len(errors) == 1 and errors[0].endswith(f"(Linux {since})")


def test_loops_that_the_verifier_gets_through_stay() -> None:
    assert compiled("begin { for ($i : 0..700) { } for ($j : 0..1000) { } }", "5.10").programs


@pytest.mark.parametrize("action", [
    "@[dw_ustack] = count();", "@ = dw_ustack;", "$x = dw_ustack(3); print($x);", "@[1] = (1, dw_ustack);",
    "@[pid > 1 ? dw_ustack : dw_ustack] = count();", "@[stack] = count();", "$s = stack; @[$s.native] = 1;"])
def test_stacks_that_are_kept_are_walked_by_the_program(action: str) -> None:
    """And not copied: what is kept has room for an id."""
    found = compiled(f"tracepoint:sched:sched_switch {{ {action} }}")
    assert {"__unwindrows", "__unwindfiles", "__unwindasks", "__stacks"} <= {named.name for named in found.maps}
    assert all(type.size <= 64 for named in found.maps for type in (named.key, named.value) if type is not None)
    sent = compiled(f"tracepoint:sched:sched_switch {{ {action} print(dw_ustack); }}")
    assert max(field.type.size for site in sent.sites for field in site.fields) > 1 << 14


@pytest.mark.parametrize(("probe", "when_needed"), [
    ("tracepoint:sched:sched_switch", True), ("profile:hz:99", True), ("tracepoint:kmem:mm_page_alloc", False),
    ("rawtracepoint:kmem_cache_alloc", False), ("uprobe:libc:malloc", True)])
def test_what_sees_the_kernels_allocator_has_all_its_memory_before(probe: str, when_needed: bool) -> None:
    """The kernel refills a map's memory in the middle of the program, which then misses these allocations."""
    found = compiled(f"config = {{ max_map_keys = 2000000 }} {probe} {{ @[kstack, pid] = nsecs; }}")
    flags = {named.name: named.flags for named in found.maps if named.type == "hash"}
    assert flags["__stacks"] == flags["@"] == (BPF_F_NO_PREALLOC if when_needed else 0)
    assert all(named.flags == 0 for named in compiled(f"{probe} {{ @[pid] = nsecs; }}").maps if named.type == "hash")


def test_a_script_without_them_has_no_unwind_tables() -> None:
    for script in ("profile:hz:99 { @[ustack, kstack] = count(); }", "uprobe:libc:malloc { print(dw_ustack); }"):
        assert not any(named.name.startswith("__unwind") for named in compiled(script).maps)


def test_a_user_probe_needs_nobody_to_tell_the_registers() -> None:
    assert compiled("uprobe:libc:malloc { print(dw_ustack); }", "5.10").programs


def test_the_function_of_a_user_probe() -> None:
    """At its entry the registers have it; at its return the kernel must tell, which it does from 6.7 on."""
    call = bytes([0x85, 0, 0, 0]) + (173).to_bytes(4, "little")  # bpf_get_func_ip()
    assert call not in compiled("uprobe:libc:malloc { @[func] = count(); }", "6.1").programs[0].code
    assert call in compiled("uretprobe:libc:malloc { @[func] = count(); }").programs[0].code
    for value in ("func", 'uaddr("free")'):
        with pytest.raises(CompileError, match=r"does not tell programs the function of a uretprobe \(Linux 6.7\)"):
            compiled(f"uretprobe:libc:malloc {{ print({value}); }}", "6.1")


def test_near_names_of_many() -> None:
    """The same as of few: candidates are only sorted out before they are compared letter by letter."""
    names = [f"{a}{b}{c}" for a in ("tcp_", "vfs_", "mptcp_", "x") for b in ("connect", "read", "open", "mmio_enable")
             for c in range(400)] + ["tcp_connect", "vfs_read", "Vfs_Open"]
    assert nearest_names("tcp_conect", names)[0] == "tcp_connect"
    assert nearest_names("vfs_raed", names)[0] == "vfs_read" and nearest_names("VFS_OPEN", names)[0] == "Vfs_Open"
    assert nearest_names("zzqqyy", names) == [] and nearest_names("z", names) == []
