"""Maps that are keyed by the current thread's id, or CPU, hold in slots what they would hold in the kernel's hash."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import Any

import pytest

from bpf_kernel import Kernel
from compiled import KERNELS, compiled, kernel_of, loaded, run_interrupted, set_task
from sonde.compiler import compilation, slot_keys
from sonde.layouts.shared_maps import PURSE, PURSES
from sonde.spec import ScriptSpec

pytestmark = pytest.mark.slow

THREADS = (0, 1, 2, 3, 4, 5, 7, 11, 1235, 32767, (1 << 22) - 1)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few slots that threads meet in one."""
    monkeypatch.setattr(slot_keys, "LEAST_SLOTS", 2)
    monkeypatch.setattr(slot_keys, "MOST_SLOTS", 2)


def plain(monkeypatch: pytest.MonkeyPatch, text: str, kernel: str = "6.18") -> Kernel:
    """The same script with nothing in slots."""
    with monkeypatch.context() as here:
        here.setattr(compilation, "slotted_maps", lambda checked, world: (set(), set()))
        return loaded(text, kernel)


def check_slots_and_hash(made: Kernel, other: Kernel, choose: random.Random, kernel: str) -> None:
    """A script with slots and without does the same, whoever runs what of it."""
    assert made.spec.find_map("@s").slots and not other.spec.find_map("@s").slots
    for _ in range(60):
        which, tid, cpu = choose.randrange(len(made.spec.programs)), choose.choice(THREADS), choose.randrange(2)
        for each in (made, other):
            set_task(each, tid, kernel=kernel)
            each.cpu = cpu
            each.clock = 1000
            each.run(which)
        assert [e.args for e in made.events] == [e.args for e in other.events]
        assert made.map("@s") == other.map("@s") and made.map("@t") == other.map("@t")
    assert made.errors() == other.errors()
    assert left_in_purses(made, "@s") + len(made.map("@s")) == made.spec.find_map("@s").max_entries


def slotted(text: str, **options: Any) -> set[str]:
    return {made.name for made in compiled(text, **options).maps if made.slots}


def left_in_purses(made: Kernel, name: str) -> int:
    data = made.maps[f"__slots{name}"].value.data
    return sum(int.from_bytes(data[at:at + 8], "little", signed=True) for at in range(0, PURSES * PURSE, PURSE))


# --- which maps -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "BEGIN { @s[tid] = nsecs; } END { if (@s[tid]) { print(@s[tid]); delete(@s, tid); } clear(@s); }",
    "BEGIN { @s[tid] = (uint8 *)nsecs; @s[tid] = (uint8 *)1; } END { delete(@s[tid]); }",
    "BEGIN { @s[tid] = nsecs; if (find(@s, tid, $v)) { print($v); } print(@s); print(has_key(@s, tid)); }",
    "let @s = hash(7); BEGIN { @s[tid] = nsecs; }",
    "BEGIN { @s[tid] = nsecs; delete(@s, pid); print(delete(@s, (uint32)1)); }",
    "fn f(): int64 { return (int64)@s[tid]; } BEGIN { @s[tid] = nsecs; print(f()); }",
    "BEGIN { @s[cpu] = nsecs; if (@s[cpu]) { print(@s[cpu]); delete(@s, cpu); } print(@s); }",
    "BEGIN { @s[tid] = (nsecs, (uint8)1, comm); if (@s[tid].1) { print(@s[tid]); delete(@s, tid); } } "
    "END { clear(@s); }",
    "BEGIN { @s[caller()] = nsecs; $who = caller(); if (@s[$who]) { delete(@s, $who); } }",
    "tracepoint:syscalls:sys_enter_read { @s[tid] = (args.buf, args.fd); } "
    "tracepoint:syscalls:sys_exit_read /has_key(@s, tid)/ { print(@s[tid].1); delete(@s, tid); }",
])
def test_what_is_kept_in_slots(text: str) -> None:
    assert slotted(text) == {"@s"}


@pytest.mark.parametrize("statement", [
    "print(@s[pid]);", "@s[1] = nsecs;", "print(has_key(@s, 1));", "if (find(@s, pid, $v)) { }",
    "print(len(@s));", "for ($kv : @s) { print($kv); }", "@s[tid]++;", "++@s[tid];", "@s[tid] += 1;", "@s[tid] <<= 1;",
    "clear(@s);", "zero(@s);", "print(@s[tid(curr_ns)]);",
])
def test_what_is_not(statement: str) -> None:
    assert slotted(f"BEGIN {{ @s[tid] = nsecs; {statement} }}") == set()


@pytest.mark.parametrize("statement", [
    "print(@s[0]);", "@s[tid] = 1;", "@s[cpu]++;",
])
def test_what_of_cpus_is_not(statement: str) -> None:
    assert slotted(f"BEGIN {{ @s[cpu] = nsecs; {statement} }}") == set()


@pytest.mark.parametrize("text", [
    "BEGIN { @s[tid] = 1; @s[tid] = pid; }".replace("pid", "(uint32)pid").replace("= 1", "= (uint32)1"),
    "BEGIN { @s[tid] = comm; }", "BEGIN { @s[tid] = count(); }", "BEGIN { @s[tid, 1] = nsecs; }",
    "let @s = lruhash(7); BEGIN { @s[tid] = nsecs; }", "let @s = percpuhash(7); BEGIN { @s[tid] = nsecs; }",
    "fn f() { @s[pid] = nsecs; } BEGIN { @s[tid] = nsecs; f(); }",
])
def test_which_maps_are_not(text: str) -> None:
    assert slotted(text) == set()


TUPLE = "tracepoint:syscalls:sys_enter_read { @s[tid] = (args.buf, args.fd); } "


@pytest.mark.parametrize("clause", [
    "profile:hz:99 { print(@s[tid].1); }", "interval:s:1 { print(@s); }", "kprobe:vfs_read { delete(@s, tid); }",
    "rawtracepoint:sched_switch { @s[tid] = ((uint8 *)0, (uint32)1); }", "END { @s[pid] = ((uint8 *)0, (uint32)1); }",
    "END { $who = tid; print(@s[$who].1); }",
])
def test_tuples_that_others_may_meet_are_not(clause: str) -> None:
    """A program that interrupts another one of the same thread would find half of a tuple."""
    assert slotted(TUPLE) == {"@s"} and slotted(TUPLE + clause) == set()


@pytest.mark.parametrize("statement", [
    "$who++;", "$who = 1;", "find(@n, 1, $who);", "print(@s[running(5, tid)]);", "print(@s[tid]);",
])
def test_what_of_callers_is_not(statement: str) -> None:
    text = "BEGIN { $who = caller(); @s[$who] = (nsecs, 1); @n[1] = (int64)2; %s print(@s[$who].0); }"
    assert slotted(text % "") == {"@s"} and slotted(text % statement) == set()


SHARED = "rawtracepoint:sched_switch { @s[args.prev->pid] = nsecs; delete(@s, args.next->pid); }"


@pytest.mark.parametrize("text", [
    SHARED, SHARED + " END { print(@s[7]); print(@s); clear(@s); }",
    "BEGIN { @s[(uint64)curtask] = nsecs; } END { delete(@s, (uint64)curtask); }",
    "BEGIN { @s[cpu] = nsecs; delete(@s, 1); }", "let @s = hash(7); BEGIN { @s[pid] = nsecs; delete(@s[pid]); }",
])
def test_what_is_shared(text: str) -> None:
    """Elements of any number that are deleted again, where stores are seen in their order."""
    assert slotted(text) == {"@s"}


@pytest.mark.parametrize("statement", [
    "@s[1]++;", "@s[2] += 1;", "print(len(@s));", "for ($kv : @s) { print($kv); }", "clear(@s);", "zero(@s);",
])
def test_what_is_not_shared(statement: str) -> None:
    assert slotted(f"{SHARED} BEGIN {{ {statement} }}") == set()


def test_a_budget_empties_maps_while_programs_run() -> None:
    text = "tracepoint:syscalls:sys_enter_getppid { @s[tid] = nsecs; }"
    assert slotted(text) == {"@s"} and slotted(text, gated=True) == set()


# --- what they do -----------------------------------------------------------------------------------------


def statement(choose: random.Random, depth: int = 0) -> str:
    inner = statement(choose, depth + 1) if depth < 2 else ""
    number = choose.randrange(4)
    return choose.choice([
        f"@s[tid] = {number};", f"@s[tid] = nsecs + {number};", "@s[tid] = @s[tid] * 3 + 1;", "delete(@s, tid);",
        "delete(@s[tid]);", "print(delete(@s, tid));", "print(@s[tid]);", "print(has_key(@s, tid));",
        f"if (@s[tid]) {{ {inner} print(@s[tid]); }}", f"if (has_key(@s, tid)) {{ {inner} }} else {{ @s[tid] = 7; }}",
        f"if (find(@s, tid, $v)) {{ {inner} print($v); }}", "@t[tid] = @s[tid];", f"if (@t[tid]) {{ {inner} }}",
        f"unroll (2) {{ {inner} }}", f"print(delete(@s, (uint32){choose.choice(THREADS)}));",
    ])


@pytest.mark.parametrize("key", ["tid", "cpu", "(int32)tid - 3", "(uint32)pid", "(int64)tid - 1",
                                 "(uint64)tid * 0x4000000000000001"])
@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_do_the_same(monkeypatch: pytest.MonkeyPatch, few: None, seed: int, kernel: str,
                                     key: str) -> None:
    choose = random.Random(seed)
    clauses = [" ".join(statement(choose) for _ in range(choose.randrange(1, 4))) for _ in range(3)]
    text = f"config = {{ max_map_keys = {choose.randrange(1, 7)} }} BEGIN {{ @s[tid] = nsecs; @t[tid] = nsecs; }} " \
        + " ".join(f"interval:s:1 {{ {clause} }}" for clause in clauses)
    if key == "cpu":
        text = re.sub(r"\(uint32\)\d+", "cpu", text).replace("tid", "cpu")
    elif key != "tid":  # any number, also such as no slot can have
        text = text.replace("(uint32)", "(int32)" if "int32" in key else "(int64)").replace("tid", key)
        text += f" END {{ delete(@s, {key}); delete(@t, {key}); }}"
    check_slots_and_hash(loaded(text, kernel), plain(monkeypatch, text, kernel), choose, kernel)


def statement_of_tuples(choose: random.Random, key: str, depth: int = 0) -> str:
    inner = statement_of_tuples(choose, key, depth + 1) if depth < 2 else ""
    number = choose.randrange(4)
    return choose.choice([
        f"@s[{key}] = (nsecs, (uint8){number}, comm);", f"@s[{key}] = (@s[{key}].0 * 3 + 1, (uint8)7, @s[{key}].2);",
        f"delete(@s, {key});", f"print(delete(@s, {key}));", f"print(@s[{key}]);", f"print(@s[{key}].1);",
        f"if (has_key(@s, {key})) {{ {inner} }} else {{ @s[{key}] = @t[{key}]; }}",
        f"if (find(@s, {key}, $v)) {{ {inner} print($v.0); }}", f"@t[{key}] = @s[{key}];",
    ])


@pytest.mark.parametrize("key", ["tid", "caller()", "$who"])
@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("seed", range(8))
def test_random_programs_do_the_same_with_tuples(monkeypatch: pytest.MonkeyPatch, few: None, seed: int, kernel: str,
                                                 key: str) -> None:
    choose = random.Random(seed)
    before = "$who = caller(); " * (key == "$who")
    first, second = [" ".join(statement_of_tuples(choose, key) for _ in range(choose.randrange(1, 6))) for _ in "12"]
    made_first = f"@s[{key}] = (nsecs, (uint8)1, comm); @t[{key}] = (nsecs, (uint8)2, comm);"
    text = f"config = {{ max_map_keys = {choose.randrange(1, 7)} }} BEGIN {{ {before}{made_first} {first} }} " \
        f"END {{ {before}{second} }}"
    check_slots_and_hash(loaded(text, kernel), plain(monkeypatch, text, kernel), choose, kernel)


PAIR = "config = { max_map_keys = %d } BEGIN { @s[tid] = nsecs; } END { @r[tid, 1] = @s[tid]; delete(@s, tid); } " \
    "interval:s:1 { @s[tid] = 5; delete(@s, tid); @s[tid] = 6; }"
STEPS = 400  # no program takes as many


def interrupted(spec: ScriptSpec, before: list[tuple[int, int]], first: tuple[int, int], second: tuple[int, int],
                at: int) -> Kernel | None:
    """What runs of (program, thread) leave if ``second`` runs within ``first``, on the other CPU if it is of another
    thread; None if ``first`` ends before."""
    made = kernel_of(spec)
    for program, tid in before:
        set_task(made, tid)
        made.run(program)

    def interrupt() -> None:
        set_task(made, second[1])
        made.cpu = int(second[1] != first[1])
        made.run(second[0])
        set_task(made, first[1])
        made.cpu = 0

    set_task(made, first[1])
    return made if run_interrupted(made, first[0], at, interrupt) else None


@pytest.mark.parametrize("entries", [1, 8])
@pytest.mark.parametrize(("key", "threads"), [
    ("tid", (1, 2)), ("tid", (0, 1)), ("tid", (1, 1)), ("(uint64)tid / 3", (1, 2)), ("(uint64)tid / 3", (1, 5)),
])
def test_what_comes_between_changes_nothing(few: None, key: str, threads: tuple[int, int], entries: int) -> None:
    """At each instruction of a program another one runs: then it is as if one had run after the other. Of a shared map
    the key may be the same."""
    spec = compiled((PAIR % entries).replace("tid", key))
    assert spec.find_map("@s").slots
    for before in ([], [(0, 2)], [(0, 2), (0, 1)]):
        for first, second in product(range(3), repeat=2):
            runs = ((first, threads[0]), (second, threads[1]))
            possible = []
            for order in (runs, runs[::-1]):
                made = kernel_of(spec)
                for program, tid in [*before, *order]:
                    set_task(made, tid)
                    made.run(program)
                possible.append(set(made.map("@s")))
            for at in range(STEPS):
                found = interrupted(spec, before, *runs, at)
                if found is None:
                    break
                held = set(found.map("@s"))
                assert left_in_purses(found, "@s") + len(held) == entries, (before, runs, at)
                assert entries < 8 or held in possible, (before, runs, at)
            else:
                pytest.fail("the program does not end")
