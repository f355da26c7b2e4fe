"""Machines with many CPUs: what a script needs grows by the same amount with each, and not with their square."""

from __future__ import annotations

import random

import pytest

from bpf_kernel import Kernel
from compiled import kernel_of, run_interrupted, set_task, world
from sonde.cli.memory_report import describe_memory
from sonde.compiler import compilation
from sonde.compiling import compile
from sonde.spec import ScriptSpec

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
SCRIPTS = [
    "{ @ = count(); }", "{ @ = hist(nsecs); }", "{ @[comm] = count(); }", "{ @[comm] = hist(nsecs); }",
    "{ @[pid, comm] = stats(nsecs); }", "{ @start[tid] = nsecs; }", '{ printf("%d %s\\n", pid, comm); }',
]
COUNTS = (2, 64, 256)
LARGE = "config = { max_map_keys = 1000000; unstable_tseries = true } "


def memory(spec: ScriptSpec, cpus: int) -> int:
    """Bytes of all maps but rings, when they are full."""
    return sum([(named.key_size + named.value_size * (cpus if "percpu" in named.type else 1)) * named.max_entries
                for named in spec.maps if named.type != "ringbuf"])


def compiled_for(script: str, cpus: int, monkeypatch: pytest.MonkeyPatch, config: str = "") -> ScriptSpec:
    monkeypatch.setattr(world(), "cpus", cpus)
    return compile(f"{config}{GETPPID} {script}", world=world(), verify=True)


@pytest.mark.parametrize("script", SCRIPTS)
def test_memory_grows_with_each_cpu_alike_and_code_does_not(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [compiled_for(script, cpus, monkeypatch) for cpus in COUNTS]
    few, more, most = [memory(spec, cpus) for spec, cpus in zip(specs, COUNTS, strict=True)]
    assert (most - more) / (256 - 64) <= 1.01 * (more - few) / (64 - 2)
    code = [sum([len(program.code) for program in spec.programs]) for spec in specs]
    assert code[2] <= code[1]
    assert [sum([named.type == "ringbuf" for named in spec.maps]) for spec in specs] == 3 * ["printf" in script]


# --- histograms whose copies CPUs share ---------------------------------------------------------------------


HISTOGRAMS = ("hist(tid)", "hist(tid, 5)", "lhist(tid, 0, 900, 1)", "hist((double)tid)")


@pytest.mark.parametrize(("cpus", "value", "copies"), [
    (2, "hist(tid)", 2), (6, "hist(tid)", 6), (16, "hist(tid)", 16), (17, "hist(tid)", 16), (64, "hist(tid)", 16),
    (256, "hist(tid)", 16), (256, "lhist(tid, 0, 900, 1)", 8), (256, "hist(tid, 5)", 4), (64, "stats(tid)", 64),
    (64, "max(tid)", 64), (64, 'tseries(tid, 1s, 10, "sum")', 64), (12, "hist(tid, 5)", 12),
])
def test_large_histograms_have_few_copies(cpus: int, value: str, copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled_for(f"{{ @[comm] = {value}; @s[str((uint8 *)nsecs)] = {value}; }}", cpus, monkeypatch, LARGE)
    for name in ("@", "@s", "__short@s"):
        table = made.find_map(name)
        assert (table.type, table.cpus, table.value_size) == ("hash", copies, copies * table.stride)


def test_an_element_fits_what_the_kernel_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many CPUs there are and however large a copy is."""
    monkeypatch.setattr(compilation, "LARGEST_VALUE", 1 << 15)
    for cpus, copies in ((2, 2), (3, 2), (64, 2)):
        table = compiled_for("{ @[comm] = hist(tid, 5); }", cpus, monkeypatch, LARGE).find_map("@")
        assert (table.type, table.cpus, table.value_size <= 1 << 15) == ("hash", copies, True)


def count_on(made: Kernel, cpu: int, tid: int) -> None:
    made.cpu = cpu
    set_task(made, tid)
    made.run(0)


@pytest.mark.parametrize("value", HISTOGRAMS)
def test_shared_copies_have_the_same(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a copy for each CPU, for events on all of them."""
    monkeypatch.setattr(world(), "cpus", 64)
    text, made = f"{LARGE}BEGIN {{ @[tid & 3, comm] = {value}; }}", []
    for most in (16, 64):
        monkeypatch.setattr(compilation, "MOST_COPIES", most)
        made.append(kernel_of(compile(text, world=world(), verify=True)))
    choose = random.Random(value)
    for cpu in [*range(64), *[choose.randrange(64) for _ in range(100)]]:
        tid = choose.randrange(1000)
        for each in made:
            count_on(each, cpu, tid)
    assert made[0].spec.find_map("@").cpus < made[1].spec.find_map("@").cpus == 64
    assert made[0].map() == made[1].map() and not made[0].errors()


@pytest.mark.parametrize("value", HISTOGRAMS)
def test_cpus_that_share_a_copy_count_at_the_same_time(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before every instruction of one, the whole program on another."""
    monkeypatch.setattr(world(), "cpus", 64)
    spec = compile(f"{LARGE}rt:sched_switch {{ @[comm] = {value}; }}", world=world(), verify=True)
    for tids in ((5, 5), (5, 700)):
        expected = kernel_of(spec)
        for cpu, tid in ((0, tids[0]), (16, tids[1])):
            count_on(expected, cpu, tid)
        at = 0
        while True:
            made = kernel_of(spec)

            def other(made: Kernel = made, tids: tuple[int, int] = tids) -> None:
                count_on(made, 16, tids[1])
                made.cpu = 0
                set_task(made, tids[0])

            made.cpu = 0
            set_task(made, tids[0])
            if not run_interrupted(made, 0, at, other):
                break
            assert made.map() == expected.map(), at
            at += 1
        assert at > 20


def test_what_cpus_share_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """``-v`` of a script that has some of each."""
    spec = compiled_for("{ @[comm] = hist(tid); @n = count(); @m[tid] = nsecs; }", 64, monkeypatch, LARGE)
    assert describe_memory(spec.maps, 2, 64) == [
        "CPUs: 2 online, 64 possible", "@n: a copy of each value for each CPU",
        "@: 16 copies of each value, which CPUs share: all of them add to it atomically"]
    assert describe_memory(compiled_for("{ @m[tid] = nsecs; }", 64, monkeypatch).maps, 2, 64) == []
