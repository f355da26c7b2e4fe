"""What a script may not do whose user may not choose the memory that it reads."""

from __future__ import annotations

import pytest

from compiled import world
from sonde.compiling import compile
from sonde.errors import CompileError
from sonde.library.policy import Policy, PolicyError
from sonde.semantics.script_options import Options
from sonde.source import Source
from sonde.spec import ScriptSpec


def compiled(text: str, policy: Policy, internal: bool = False) -> ScriptSpec:
    options = Options()
    policy.restrict_options(options)
    return compile(Source("stdin", text, internal), options, world())


FORGED = [
    "begin { print(*(uint64 *)0xffff888000000000); }", "begin { $p = (struct task_struct *)5; print($p->pid); }",
    "begin { $p = curtask; print(($p + 1)->pid); }", "begin { $p = curtask; $p++; print($p->pid); }",
    "begin { print(curtask[3].pid); }", "begin { print(str(0xffffffff)); }", "begin { print(str(kptr(5))); }",
    "begin { print(buf(curtask->pid, 8)); }", "macro m(p) { (struct task_struct *)p } begin { print(m(5)->pid); }",
    "#define A 5\nbegin { print(((struct task_struct *)A)->pid); }",
    "begin { $x = (uint64)5; $a = (struct path *)&$x; print($a->mnt); }",
    "begin { @x[1] = (uint64)5; $a = (struct path *)&@x[1]; print($a->mnt); }",
    "struct q { struct task_struct *p; } begin { $a = (struct q *)curtask; print($a->p->pid); }",
    "typedef unsigned long zz; begin { print((zz)1); }",
    "begin { print(((struct path *)curtask)->mnt); }", "begin { print(*(char *)curtask); }",
    "begin { print(container_of(curtask, struct task_struct, pid)->tgid); }",
    "fn f($p : uint64) : int64 { return ((struct task_struct *)$p)->pid; } begin { print(f(5)); }",
    "tracepoint:syscalls:sys_enter_openat { print(str(kptr(args.filename))); }",
]
PLAIN = [
    "begin { print(curtask->real_parent->pid); }", "begin { print(((struct task_struct *)curtask)->comm); }",
    "tracepoint:sched:sched_switch { @[args.prev_comm, args.next_pid] = count(); }",
    "begin { $x = (uint8[8])0x1234567812345678; print($x[1]); }", "profile:hz:9 { @[kstack, ustack] = count(); }",
    "begin { $x = curtask; $p = &$x; print((*$p)->pid); }",
]


@pytest.mark.parametrize("text", FORGED)
def test_no_spelling_makes_an_address(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(text, Policy(others=False))
    assert "forged-address" in [item.code for item in caught.value.diagnostics]
    compiled(text, Policy())


@pytest.mark.parametrize("text", PLAIN)
def test_what_the_kernel_hands_over_can_be_followed(text: str) -> None:
    policy = Policy(others=False)
    policy.check_script(compiled(text, policy))


def test_tools_are_trusted_with_addresses() -> None:
    assert compiled(FORGED[0], Policy(others=False), internal=True).programs


def test_memory_of_processes_is_for_runs_that_are_limited_to_ones_own() -> None:
    policy = Policy(others=False)
    text = "tracepoint:syscalls:sys_enter_openat { @[str(args.filename)] = count(); }"
    spec = compiled(text, policy)
    policy.check_script(spec, is_own=True)
    Policy().check_script(spec)
    with pytest.raises(PolicyError, match="other users' processes: tracepoint:syscalls:sys_enter_openat"):
        policy.check_script(spec)


def test_an_interval_reads_whatever_was_interrupted() -> None:
    """It is not limited to the process, so it may not read; a probe that is limited may."""
    policy = Policy(others=False)
    with pytest.raises(PolicyError, match="interval:ms:1"):
        policy.check_script(compiled("interval:ms:1 { print(str(uptr(5))); }", Policy()), is_own=True)
    policy.check_script(compiled("profile:hz:9 { print(str(uptr(5))); }", Policy()), is_own=True)


def test_raw_bytes_stay_where_they_are() -> None:
    policy = Policy(others=False)
    text = "tracepoint:sched:sched_switch { @[buf(args.prev_comm, 4)] = count(); }"
    with pytest.raises(PolicyError, match=r"raw bytes: buf\(\)"):
        policy.check_script(compiled(text, policy))
    policy.check_script(compiled(text, policy), is_own=True)


def test_only_tools() -> None:
    from sonde.base.package_files import FOLDER, read_shipped
    text = read_shipped(f"{FOLDER}/tools/runqlat.bt").decode()
    policy = Policy(scripts=False)
    policy.check_source(Source("runqlat.bt", text))
    policy.check_source(Source("/elsewhere/runqlat.bt", text))
    for name, other in (("runqlat.bt", text + " "), ("stdin", text), ("../policy.bt", text), ("biolatency", text)):
        with pytest.raises(PolicyError, match="own tools"):
            policy.check_source(Source(name, other))
