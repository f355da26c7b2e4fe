"""Machines with many CPUs: what a script needs grows by the same amount with each, and not with their square."""

from __future__ import annotations

import pytest

from compiled import world
from sonde.compiling import compile
from sonde.spec import ScriptSpec

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
SCRIPTS = [
    "{ @ = count(); }", "{ @ = hist(nsecs); }", "{ @[comm] = count(); }", "{ @[comm] = hist(nsecs); }",
    "{ @[pid, comm] = stats(nsecs); }", "{ @start[tid] = nsecs; }", '{ printf("%d %s\\n", pid, comm); }',
]
COUNTS = (2, 64, 256)


def memory(spec: ScriptSpec, cpus: int) -> int:
    """Bytes of all maps but rings, when they are full."""
    return sum([(named.key_size + named.value_size * (cpus if "percpu" in named.type else 1)) * named.max_entries
                for named in spec.maps if named.type != "ringbuf"])


def compiled_for(script: str, cpus: int, monkeypatch: pytest.MonkeyPatch) -> ScriptSpec:
    monkeypatch.setattr(world(), "cpus", cpus)
    return compile(f"{GETPPID} {script}", world=world())


@pytest.mark.parametrize("script", SCRIPTS)
def test_memory_grows_with_each_cpu_alike_and_code_does_not(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [compiled_for(script, cpus, monkeypatch) for cpus in COUNTS]
    few, more, most = [memory(spec, cpus) for spec, cpus in zip(specs, COUNTS, strict=True)]
    assert (most - more) / (256 - 64) <= 1.01 * (more - few) / (64 - 2)
    code = [sum([len(program.code) for program in spec.programs]) for spec in specs]
    assert code[2] <= code[1]
    assert [sum([named.type == "ringbuf" for named in spec.maps]) for spec in specs] == 3 * ["printf" in script]
