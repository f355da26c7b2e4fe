"""Scripts of which the verifier has much to look at load all the same, and count what there was."""

from __future__ import annotations

import os

import pytest

import sonde
from sonde.compiling import live_world
from support import run_sonde

LATENCY = "@since[tid] = nsecs; if (@since[tid] > 5) { @took[%d] = hist(nsecs - @since[tid]); delete(@since[tid]); }"


def counts_of(script: str) -> dict[str, dict[object, object]]:
    with sonde.trace(script) as trace:
        trace.run(timeout=60)
        return {name: dict(trace.maps[name].items()) for name in trace.maps}


@pytest.mark.skipif(not live_world().has_feature("bpf_loop"), reason="kernel lacks bpf_loop (Linux 5.17)")
@pytest.mark.parametrize("stack", ["kstack", "ustack", "kstack(3)"])
def test_stacks_in_a_loop(stack: str) -> None:
    body = f"@[{stack}, $i] = count(); @both[{stack}, comm] = sum($i);"
    found = counts_of(f"begin {{ for ($i : 0..20) {{ {body} }} exit(); }}")
    assert list(found["@"].values()) == [1] * 20 and list(found["@both"].values()) == [190]


@pytest.mark.parametrize("limit", ["", "(2)", "(100)", "(122)"])
@pytest.mark.parametrize("probe", ["uprobe:libc:malloc", "tracepoint:sched:sched_switch", "rawtracepoint:sched_switch"])
def test_stacks_are_little_for_the_verifier(probe: str, limit: str) -> None:
    """A start of ten seconds was this: frames that were moved by one, once more for each length of a stack."""
    stacks = f"@both[ustack{limit}, kstack{limit}] = count();"
    if live_world().has_feature("uprobe_multi"):  # Linux 6.6
        stacks += f" @u[ustack{limit}] = count();"
    script = f"{probe} /pid == {os.getpid()}/ {{ {stacks} }}"
    with sonde.trace(script) as trace:
        assert trace.retried is None
        taken = [program.program_info().verified_instructions for program in trace.session.programs]
    older = 700_000 if limit == "(100)" else 200_000  # 6.1: 691,223 at sched_switch, and otherwise at most 167,264
    assert max(taken) < (100_000 if live_world().has_feature("uprobe_multi") else older)
    assert min(taken) > 0 or not live_world().has_feature("bpf_loop")  # known since Linux 5.16


def test_more_maps_than_may_have_tables_beside_them() -> None:
    """A program uses 64 maps at most."""
    body = " ".join([f"@a{n}[pid] = count(); @t{n}[tid] = nsecs;" for n in range(25)])
    found = counts_of(f"begin {{ {body} exit(); }}")
    assert len(found) == 50 and {value for name in found if name[1] == "a" for value in found[name].values()} == {1}


def test_what_is_too_much_for_the_verifier_is_compiled_more_plainly() -> None:
    script = "begin { " + " ".join([LATENCY % n for n in range(260)]) + " exit(); }"
    done = run_sonde("-v", "-e", script)
    assert done.returncode == 0
    takes_it = live_world().release.startswith(("6.1.", "6.12."))
    refused = live_world().has_feature("atomic_fetch") and not takes_it
    if refused and os.uname().machine == "x86_64":  # aarch64's is not too much
        assert "compiled again, more plainly: the program is too complex" in done.stderr + done.stdout
    assert done.stdout.count("@took[") == 260


@pytest.mark.parametrize("body", [
    "@a[$i] = count(); @b[$i, comm] = sum($i);",
    "if (pid == $i) { @a[$i] = count(); } else { @a[$i] = count(); } @b[$i % 3] = sum($i);",
    "@s[tid] = $i; if (@s[tid] >= 0) { @a[$i] = count(); @b[comm] = sum($i); }",
])
def test_keys_in_a_loop(body: str) -> None:
    found = counts_of(f"begin {{ for ($i : 0..30) {{ {body} }} exit(); }}")
    assert list(found["@a"].values()) == [1] * 30 and sum(map(int, found["@b"].values())) == 435  # type: ignore[call-overload]
