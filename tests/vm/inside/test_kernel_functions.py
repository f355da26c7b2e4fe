"""Kernel functions on kernels that can probe them: exact counts, arguments, results, wildcards, modules, errors."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sonde.compiling import live_world
from sonde.errors import SyscallError
from sonde.kernel import syscalls
from sonde.layouts.uapi import BPF_TRACE_FENTRY, PROG_TYPES
from support import run_sonde

READS = 5
WORK = f"dd if=/dev/zero of=/dev/null bs=1000 count={READS} status=none"
OURS = '/comm == "dd" && {} == 1000/'


def sonde(*arguments: str, command: str = WORK, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = run_sonde("-c", command, *arguments, timeout=180)  # attaching many one by one takes a while
    assert done.returncode == status, done.stderr
    return done


def has(feature: str) -> bool:
    from sonde.kernel.types.world import LiveWorld

    return LiveWorld().has_feature(feature)


def features() -> set[str]:
    from sonde.kernel.features import ROWS
    from sonde.kernel.types.world import LiveWorld

    world = LiveWorld()
    return {name for name in ROWS if world.has_feature(name)}


def skip_without_fentry() -> None:
    if not has("fentry"):
        pytest.skip("this kernel has no fentry: on aarch64 it came with Linux 6.4")


MATRIX = {  # what a kernel of a series must have, beyond the one before it
    "5.10": {"kprobes", "fentry", "uprobes", "raw_tp", "iter_task", "ringbuf", "typed_arguments", "map_mmap"},
    "6.1": {"attach_cookie", "tracing_cookie", "bpf_loop", "for_each_map_elem", "map_lookup_percpu_elem",
            "atomic_fetch", "long_keys"},
    "6.12": {"kprobe_multi", "kprobe_session", "uprobe_multi", "raw_tp_cookie", "rdonly_cast", "isa_v4",
             "probe_misses", "spilled_bounds",
             "uretprobe_func"},
    "7.2": {"tracing_multi"},
}


# What came to this architecture later: ftrace with direct calls, and fprobe.
LATER = {"aarch64": {"fentry": (6, 4), "kprobe_multi": (6, 14), "kprobe_session": (6, 14), "tracing_multi": (99, 0)}
         }.get(os.uname().machine, {})
# The first argument's register, and functions: before tracing, off limits to kprobes, of ftrace itself.
FIRST, ENTRY, BARRED, TRACER = {
    "x86_64": ("di", "do_syscall_64", "native_irq_return_iret+1", "__fentry__"),
    "aarch64": ("x0", "el0t_64_sync_handler", "el1h_64_sync_handler+4", "ftrace_caller")}[os.uname().machine]
BACKPORTED = {"long_jumps"}  # to Debian's 6.1, where such a program loads and runs as it should


def test_features_are_as_their_rows_say() -> None:
    """Found by trying; the rows' minimum releases are for readers, and true."""
    from sonde.kernel.features import ROWS

    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    found = features()
    for series, names in MATRIX.items():
        if release >= tuple(int(part) for part in series.split(".")):
            assert {name for name in names if LATER.get(name, (0, 0)) <= release} <= found
    for name in found - BACKPORTED:
        if ROWS[name].minimum:
            assert tuple(int(part) for part in ROWS[name].minimum.split(".")) <= release, name


def test_four_kinds_on_one_function() -> None:
    script = " ".join(f"{kind}:vfs_read {OURS.format(condition)} {{ @[probe, func] = count(); "
                      f"@s[probe] = sum({value}); }}" for kind, condition, value in (
        ("kprobe", "arg2", "arg2"), ("kretprobe", "retval", "retval"),
        ("fentry", "args.count", "args.count"), ("fexit", "retval", "args.count + retval")))
    lines = sonde("-e", script).stdout
    for name, total in (("kprobe:vfs_read", 1), ("kretprobe:vfs_read", 1), ("fentry:vmlinux:vfs_read", 1),
                        ("fexit:vmlinux:vfs_read", 2)):
        assert f"@[{name}, vfs_read]: {READS}\n" in lines
        assert f"@s[{name}]: {total * READS * 1000}\n" in lines


def test_registers_stacks_and_offsets() -> None:
    script = (f'kprobe:vfs_read {OURS.format("arg2")} {{ @first[reg("{FIRST}") == arg0] = count();'
              ' @ip[ksym(reg("pc"))] = count(); @k[kstack(2)] = count(); }'
              " kprobe:vfs_read+0 /comm == \"dd\" && arg2 == 1000/ { @at = count(); }")
    text = sonde("-e", script).stdout
    assert f"@first[true]: {READS}" in text or f"@first[1]: {READS}" in text
    assert re.search(r"@ip\[vfs_read(\+\d+)?\]: 5", text)
    assert re.search(rf"@k\[\s+vfs_read\+\d\s+ksys_read\+\d+\s+\]: {READS}\n", text)
    assert f"@at: {READS}" in text


def test_registers_that_calls_do_not_use_of_several_functions() -> None:
    """One link for many functions has not all registers on Linux 6.14 and later, and what a program reads there is
    what happened to lie there: calls must keep this one, so that a return has it, too."""
    kept = {"x86_64": "bx", "aarch64": "r19"}[os.uname().machine]
    script = (f'kprobe:vfs_read {OURS.format("arg2")} {{ @kept = reg("{kept}"); @ours = 1; }} '
              f'kprobe:vfs_read,kprobe:vfs_write {OURS.format("arg2")} '
              f'{{ @in[probe, reg("{kept}") == @kept] = count(); }} '
              f'kretprobe:vfs_read,kretprobe:vfs_write /@ours/ {{ @out[probe, reg("{kept}") == @kept] = count(); '
              '@ours = 0; }')
    text = sonde("--no-feature", "fentry", "-e", script).stdout
    assert re.search(rf"@in\[kprobe:vfs_read, (true|1)\]: {READS}\n", text)
    assert re.search(rf"@out\[kretprobe:vfs_read, (true|1)\]: {READS}\n", text)


@pytest.mark.parametrize(("denied", "kinds", "ways"), [
    ("kprobes", ("kprobe", "kretprobe"), ("fentry", "fexit")),
    ("fentry", ("fentry", "fexit"), ("kprobe", "kretprobe"))])
def test_one_way_serves_the_other(denied: str, kinds: tuple[str, str], ways: tuple[str, str]) -> None:
    skip_without_fentry()
    argument = "arg2" if denied == "kprobes" else "args.count"
    script = (f"{kinds[0]}:vfs_read {OURS.format(argument)} {{ @a = sum({argument}); @f[func] = count(); }}"
              f" {kinds[1]}:vfs_read {OURS.format('retval')} {{ @r = sum(retval); }}")
    done = sonde("-v", "--no-feature", denied, "-e", script)
    assert f"@a: {1000 * READS}\n" in done.stdout and f"@r: {1000 * READS}\n" in done.stdout
    assert f"@f[vfs_read]: {READS}\n" in done.stdout
    for kind, way in zip(kinds, ways):
        assert re.search(rf"{kind}:.*vfs_read: by {way}, for this kernel has no {kind}", done.stderr)


def test_arguments_at_a_return_by_a_kretprobe() -> None:
    """A kprobe keeps them at the entry: in the predicate, the action, its loops, and in several clauses."""
    ours = f"fexit:vfs_read {OURS.format('args.count')}"
    script = (f"{ours} {{ @n = sum(args.count * 10 + retval); @f[func, comm] = count(); "
              "for ($i : 0..args.count) { @rounds = sum(args.count); } } "
              f"{ours} {{ @same = sum(args.buf != 0 && (uint64)args.file->f_inode != 0 ? 1 : 0); print(args); }}")
    done = sonde("-v", "--no-feature", "fentry", "-e", script)
    assert f"@n: {11 * 1000 * READS}\n" in done.stdout and f"@f[vfs_read, dd]: {READS}\n" in done.stdout
    assert f"@rounds: {1000 * 1000 * READS}\n" in done.stdout and f"@same: {READS}\n" in done.stdout
    assert len(re.findall(r"\.count = 1000\b", done.stdout)) == READS
    assert "Attached 2 probes" in done.stdout + done.stderr
    assert re.search(r"fexit:.*vfs_read: by kretprobe, for this kernel has no fexit", done.stderr)


NAPS = """import threading, time
threads = [threading.Thread(target=time.sleep, args=(1.5 - i / 2,)) for i in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_arguments_at_returns_of_calls_that_overlap(tmp_path: Path) -> None:
    """Each call has its own. There are two: on 5.10 the kernel has a record of one for each CPU."""
    program = tmp_path / "naps.py"
    program.write_text(NAPS)
    script = ("fentry:hrtimer_nanosleep /pid == cpid/ { @asked[tid] = (uint64)args.rqtp; } "
              "fexit:hrtimer_nanosleep /pid == cpid/ { @[(uint64)args.rqtp == @asked[tid]] = count(); "
              "@each[(uint64)args.rqtp] = count(); }")
    done = sonde("--no-feature", "fentry", "-e", script, command=f"{sys.executable} {program}")
    assert re.search(r"@\[(true|1)\]: 2\n", done.stdout)
    assert len(re.findall(r"@each\[\d+\]: 1\n", done.stdout)) == 2


SLEEPERS = 40
SLEEP = f"""import sys, threading, time
def sleep():
    for _ in range(int(sys.argv[1])):
        time.sleep(2)
threads = [threading.Thread(target=sleep) for _ in range({SLEEPERS})]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def asleep(tmp_path: Path, *arguments: str, times: int = 1) -> subprocess.CompletedProcess[str]:
    """Forty threads of one process that are in a function at the same time: more than the kernel has records for."""
    program = tmp_path / "asleep.py"
    program.write_text(SLEEP)
    return sonde(*arguments, command=f"{sys.executable} {program} {times}")


def test_missed_returns_are_told_where_the_kernel_does_not(tmp_path: Path) -> None:
    """A thread that comes again has returned. What the last call of a thread missed nobody can know. From Linux 6.18 on
    kprobe.multi has the stack pointer at returns, and misses none."""
    script = "fexit:hrtimer_nanosleep /pid == cpid && args.rqtp > 0/ { @seen = count(); }"
    done = asleep(tmp_path, "--no-feature", "fentry,probe_misses", "-e", script, times=3)
    seen = int(re.search(r"@seen: (\d+)", done.stdout)[1])  # type: ignore[index]
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 18):
        assert seen == 3 * SLEEPERS and "missed" not in done.stderr
        return
    told = re.search(r"the kernel missed the return.*?\[(\d+) times\]", done.stderr)
    assert told is not None, done.stderr
    assert 0 < seen < 3 * SLEEPERS and seen + int(told[1]) <= 3 * SLEEPERS


def test_no_return_is_missed_by_a_few_kretprobes(tmp_path: Path) -> None:
    skip_without_fentry()
    script = "kprobe:hrtimer_nanosleep /pid == cpid/ { @[probe] = count(); } " \
             "kretprobe:hrtimer_nanosleep /pid == cpid/ { @[probe] = count(); }"
    done = asleep(tmp_path, "-v", "-e", script)
    assert f"@[kprobe:hrtimer_nanosleep]: {SLEEPERS}\n" in done.stdout
    assert f"@[kretprobe:hrtimer_nanosleep]: {SLEEPERS}\n" in done.stdout
    assert "by fexit, which misses no call" in done.stderr


def test_entries_are_the_same_by_fentry() -> None:
    """Counts, arguments, user stacks and the order of clauses, by either way."""
    ours = f'kprobe:vfs_read {OURS.format("arg2")}'
    script = (f"{ours} {{ @n[probe, func] = count(); @s = sum(arg2); @[ustack(2)] = count(); @first = arg0; }} "
              f"{ours} {{ @same = sum(@first == arg0 ? 1 : 0); @first = 0; }}")
    found = {}
    for denied in ("fentry", "raw_tp_cookie"):  # the latter has nothing to do with it
        done = sonde("-v", "--no-feature", denied, "-e", script)
        assert ("by fentry, which costs less" in done.stderr) == (denied != "fentry" and has("fentry"))
        assert f"@n[kprobe:vfs_read, vfs_read]: {READS}\n" in done.stdout and f"@s: {1000 * READS}\n" in done.stdout
        assert f"@same: {READS}\n" in done.stdout and "@first: 0\n" in done.stdout
        found[denied] = re.search(r"@\[\n[^]]*\]: \d+", done.stdout)[0]  # type: ignore[index]
    assert len(set(found.values())) == 1, found


def test_a_kprobe_where_the_kernel_has_no_room_for_fentry() -> None:
    """So many programs at one function, and no more: the kernel says so when the next one is attached."""
    skip_without_fentry()
    known = live_world().kernel_function("hrtimer_nanosleep")
    assert known is not None
    leave = bytes((0xB7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0))  # return 0
    script = 'begin { printf("begins\\n"); } kprobe:hrtimer_nanosleep /pid == cpid/ { @[probe] = count(); }'
    with contextlib.ExitStack() as held:
        with pytest.raises(SyscallError):
            for _ in range(100):
                program = held.enter_context(syscalls.prog_load(
                    PROG_TYPES["tracing"], leave, expected_attach=BPF_TRACE_FENTRY, attach_btf_id=known.id))
                held.enter_context(syscalls.raw_tracepoint_open("", program))
        done = sonde("-e", script, command="sleep 0.1")
    assert done.stdout.count("begins") == 1 and "@[kprobe:hrtimer_nanosleep]: 1\n" in done.stdout


def test_functions_that_take_no_fentry() -> None:
    """The verifier has a list of them; two functions of one name cannot be told apart."""
    from sonde.kernel.types.world import LiveWorld

    world = LiveWorld()
    if not world.has_feature("fentry"):
        pytest.skip("this kernel has no fentry")
    names = Counter(name for _, name in world.kernel_functions())
    known = {name: world.kernel_function(name) for name in ("vfs_read", "migrate_enable", *(
        name for name, times in names.items() if times > 1))}
    answers = {name: world.takes_typed_program(found, False) for name, found in known.items() if found}
    assert answers.pop("vfs_read") and answers and not any(answers.values()), answers


def test_missed_returns_are_told(tmp_path: Path) -> None:
    """Without fexit: what was seen and what was missed is all there was, where the kernel counts; else -v says so. From
    Linux 6.14 on kprobe.multi stands on the function graph tracer, which misses none."""
    done = asleep(tmp_path, "-v", "--no-feature", "fentry", "-e",
                  "kretprobe:hrtimer_nanosleep /pid == cpid/ { @ = count(); }")
    seen = int(re.search(r"@: (\d+)", done.stdout)[1])  # type: ignore[index]
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 14):
        assert seen == SLEEPERS
        return
    assert 0 < seen < SLEEPERS
    if has("probe_misses"):
        missed = int(re.search(r"the kernel missed (\d+) returns", done.stderr)[1])  # type: ignore[index]
        assert seen + missed >= SLEEPERS  # other processes' calls may be among those missed
    else:
        assert "this kernel does not count them" in done.stderr


def test_wildcards_count_each_function() -> None:
    kinds = ("kprobe", "kretprobe", "fentry", "fexit")
    done = sonde("-e", " ".join(f'{kind}:vfs_re* /comm == "dd"/ {{ @[probe] = count(); @{kind}[func] = count(); }}'
                                for kind in kinds))
    attached = int(re.search(r"Attached (\d+) probes", done.stderr)[1])  # type: ignore[index]
    assert attached >= 4 * len(kinds)
    counts = Counter({name: int(n) for name, n in re.findall(r"@\[(.*)\]: (\d+)", done.stdout)})
    for kind in kinds:
        [reads] = [n for name, n in counts.items() if name.startswith(f"{kind}:") and name.endswith(":vfs_read")]
        assert reads >= READS and f"@{kind}[vfs_read]: {reads}\n" in done.stdout


MANY = ('{0}:vfs_* /comm == "dd"/ {{ @{0}[func] = count(); @at[probe] = count(); }} ')


def test_many_functions_share_a_program() -> None:
    """By tracing_multi (Linux 7.2): what is counted is the same as without it, at each function and probe; arguments
    and results are those of the call."""
    script = "".join(MANY.format(kind) for kind in ("fentry", "fexit"))
    script += ('kprobe:vfs_* /comm == "dd" && arg2 == 1000/ { @arguments[func] = count(); } '
               'kretprobe:vfs_* /comm == "dd" && retval == 1000/ { @results[func] = count(); }')
    answers = []
    for without in ("", "tracing_multi"):
        done = sonde("-v", *(["--no-feature", without] if without else []), "-e", script)
        assert ("multi" in done.stderr) == (has("tracing_multi") and not without), done.stderr
        answers.append(set(re.findall(r"(@.*vfs_(?:read|write)\]: \d+)", done.stdout)))
    assert answers[0] == answers[1]
    assert {f"@arguments[vfs_read]: {READS}", f"@results[vfs_write]: {READS}"} <= answers[0]
    assert len(answers[0]) == 12


@pytest.mark.parametrize("kind", ["kprobe", "kretprobe", "fentry", "fexit"])
def test_clauses_of_many_and_of_one_run_in_order(kind: str) -> None:
    clauses = [f'{kind}:{name} /comm == "dd"/ {{ printf("{letter} %s\\n", func); }}'
               for letter, name in zip("ABC", ("vfs_w*", "vfs_write", "vfs_*"))]
    shown = sonde("-e", " ".join(clauses), command=WORK.replace(f"count={READS}", "count=1")).stdout
    assert re.findall(r"(\w) vfs_write\b", shown) == ["A", "B", "C"]


def test_what_of_many_takes_no_fentry() -> None:
    """do_exit() never returns, and the kernel refuses fexit there: the others are attached; a kretprobe stays one."""
    if not has("tracing_multi"):
        pytest.skip("kernel lacks tracing_multi")
    done = sonde("-e", 'fexit:do_ex*,fexit:vfs_* /comm == "dd"/ { @[func] = count(); }')
    assert "left out, since the kernel cannot attach there: fexit:vmlinux:do_exit" in done.stderr
    assert re.search(r"@\[vfs_write\]: \d+", done.stdout)
    done = sonde("-v", "-e", 'kretprobe:do_ex*,kretprobe:vfs_* /comm == "dd"/ { @[func] = count(); }')
    assert "left out" not in done.stderr and re.search(r"kretprobe:do_exit.*: kprobe, ", done.stderr)
    assert "by fexit.multi, which attaches many at once" in done.stderr


def test_entry_and_return_of_many() -> None:
    """In one program where the kernel has kprobe.session; each half knows its own name, function and values."""
    done = sonde("-v", "--no-feature", "tracing_multi", "-e",
                 'kprobe:vfs_* /comm == "dd" && arg2 == 1000/ { @e[probe] = count(); }'
                 ' kretprobe:vfs_* /comm == "dd" && retval == 1000/ { @r[probe] = count(); @f[func] = count(); }')
    for name in ("@e[kprobe:vfs_read]", "@r[kretprobe:vfs_read]", "@f[vfs_read]"):
        assert f"{name}: {READS}\n" in done.stdout
    assert ("by kprobe.session, entry and return in one program" in done.stderr) == has("kprobe_session")


def test_typed_arguments_reach_through_structs() -> None:
    script = ('fentry:vfs_read /comm == "dd" && args.count == 1000/ {'
              " @[str(args.file->f_path.dentry->d_name.name), args.file->f_inode->i_ino > 0] = count(); }"
              ' fentry:do_nanosleep /comm == "sleep"/ { @n[args.t->task->comm, args.mode] = count(); }')
    text = sonde("-e", script, command=f"sh -c '{WORK}; sleep 0.01'").stdout
    assert re.search(r"@\[zero, (true|1)\]: 5", text)
    assert re.search(r"@n\[sleep, \w+\]: 1", text)


def test_functions_of_modules() -> None:
    loaded = subprocess.run(["modprobe", "null_blk", "nr_devices=1"], capture_output=True, text=True, check=False)
    if loaded.returncode:
        pytest.skip(f"no module to probe: {loaded.stderr.strip()}")
    typed = os.path.exists("/sys/kernel/btf/null_blk")  # Linux 5.11
    script = " ".join(f"{kind}:null_blk:null_queue_rq {{ @[probe] = count(); }}"
                      for kind in ("kprobe", *(("fentry", "fexit") if typed else ())))
    script += " fentry:null_queue_rq { @q[args.bd->rq->mq_hctx->queue_num] = count(); }" if typed else ""
    text = sonde("-e", script, command="dd if=/dev/nullb0 of=/dev/null bs=4096 count=4 iflag=direct status=none").stdout
    for kind in re.findall(r"(\w+):null_blk:", script):
        assert int(re.search(rf"@\[{kind}:null_blk:null_queue_rq\]: (\d+)", text)[1]) >= 4  # type: ignore[index]
    assert bool(re.search(r"@q\[\d\]: \d+", text)) == typed


@pytest.mark.parametrize(("script", "words", "status"), [
    ("fentry:tcp_connec,fentry:_printk,fexit:do_nanosleep+4,kprobe:tcp_connec { }",
     "did you mean fentry:tcp_connect|variable number of arguments|only kprobes|did you mean kprobe:tcp_connect", 1),
    ("fentry:do_nanosleep { print(args.foo) }", "its arguments are: t, mode", 1),
    (f"kprobe:{BARRED} {{ }}", "off limits to kprobes", 255),  # by the kernel, when it is attached
])
def test_errors_name_the_reason(script: str, words: str, status: int) -> None:
    if live_world().kernel_symbol("_printk") is None:  # Linux 5.15
        script = script.replace("_printk", "printk")
    if not has("fentry"):  # a kprobe serves for it, which no number of arguments disturbs
        words = words.replace("variable number of arguments|", "")
    done = run_sonde("-e", script, timeout=100)
    assert done.returncode == status and "Traceback" not in done.stderr
    assert not [word for word in words.split("|") if word not in done.stderr]


def test_what_cannot_be_traced() -> None:
    done = run_sonde("-e", f"fentry:{TRACER} {{ }}", timeout=100)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert re.search(f"{TRACER} (is not traceable|cannot be probed)", done.stderr), done.stderr


def test_what_the_compiler_made_of_a_function() -> None:
    """finish_task_switch() is there as finish_task_switch.isra.0 alone: who asks for no arguments gets that, and is
    told so. Where type information has it, its arguments are the same."""
    from sonde.kernel.types.world import LiveWorld

    world = LiveWorld()
    if world.is_function_traceable("finish_task_switch"):
        pytest.skip("the function has its own name here")
    done = sonde("-e", "kprobe:finish_task_switch { @[probe] = count(); } "
                 "kretprobe:finish_task_switch { @r = count(); } fentry:finish_task_switch { @f = count(); }")
    assert re.search(r"@\[kprobe:finish_task_switch\.isra\.0\]: \d", done.stdout)
    assert "@r: " in done.stdout and "@f: " in done.stdout
    assert done.stderr.count("Probing finish_task_switch.isra.0") == 1
    script = "fentry:finish_task_switch { @[args.prev->pid >= 0] = count(); }"
    argument = run_sonde("-c", "true", "-e", script, timeout=100)
    if world.kernel_function("finish_task_switch") is not None:
        assert re.search(r"@\[(true|1)\]: \d", argument.stdout) and argument.returncode == 0
    else:
        assert argument.returncode == 1 and "the compiler made finish_task_switch.isra.0 of it" in argument.stderr


KINDS = ("kprobe", "kretprobe", "fentry", "fexit")
ONE = ["{0}:hrtimer_nanosleep"]
TWO = [*ONE, "{0}:do_nanosleep"]
SOME = ["{0}:hrtimer_nanoslee*"]


def called(clauses: list[tuple[str, list[str]]]) -> list[int]:
    """Which clauses fire, in which order, when hrtimer_nanosleep() calls do_nanosleep() and both return."""
    places = [("hrtimer_nanosleep", "entry"), ("do_nanosleep", "entry"),
              ("do_nanosleep", "return"), ("hrtimer_nanosleep", "return")]
    sides = {"kprobe": "entry", "fentry": "entry", "kretprobe": "return", "fexit": "return"}
    return [number for function, side in places for number, (kind, points) in enumerate(clauses, 1)
            if sides[kind] == side and any(function.startswith(p.partition(":")[2].rstrip("*")) for p in points)]


def test_kinds_at_one_place_run_in_the_order_of_the_kernel() -> None:
    """A kprobe before fentry, and fexit before a kretprobe: as in bpftrace."""
    skip_without_fentry()
    script = " ".join(f'{kind}:hrtimer_nanosleep /comm == "sleep"/ {{ printf("{kind}\\n"); }}'
                      for kind in ("kretprobe", "fentry", "fexit", "kprobe"))
    assert sonde("-e", script, command="sleep 0.01").stdout.split() == ["kprobe", "fentry", "fexit", "kretprobe"]


@pytest.mark.parametrize("clauses", [
    *[[(kind, ONE), (kind, TWO), (kind, SOME), (kind, TWO), (kind, ONE)] for kind in KINDS],
    [("kprobe", TWO), ("kretprobe", TWO), ("kretprobe", ONE), ("kprobe", TWO), ("kretprobe", TWO), ("kprobe", SOME)],
    [("fexit", TWO), ("fentry", TWO), ("fexit", ONE), ("fentry", SOME)],
], ids=[*KINDS, "session", "fentry and fexit"])
def test_clauses_run_in_the_order_of_the_script(clauses: list[tuple[str, list[str]]]) -> None:
    """And none behind the one that ends the script: the last but one of those that fire."""
    expected = called(clauses)
    last = list(dict.fromkeys(expected))[-2]
    script = " ".join(
        f'{",".join(p.format(kind) for p in points)} /comm == "sleep"/ '
        f'{{ printf("{number}\\n"); {"exit();" if number == last else ""} }}'
        for number, (kind, points) in enumerate(clauses, 1))
    shown = [int(number) for number in sonde("-e", script, command="sleep 0.01").stdout.split()]
    assert shown == expected[:expected.index(last) + 1]


def test_listing() -> None:
    skip_without_fentry()
    lines = run_sonde("-lv", "fexit:vfs_read", timeout=100).stdout.splitlines()
    assert lines[0] == "fexit:vmlinux:vfs_read" and "    ssize_t retval" in lines and "    size_t count" in lines
    assert "kprobe:vfs_read" in run_sonde("-l", "kprobe:vfs_re*", timeout=100).stdout.splitlines()


def test_many_functions() -> None:
    """All of them that are called tcp_...; on kernels without kprobe.multi one by one."""
    done = sonde("-e", "kprobe:tcp_* { @[func] = count(); }", command="true")
    assert int(re.search(r"Attached (\d+) probes", done.stderr)[1]) > 200  # type: ignore[index]


def test_many_functions_by_fentry() -> None:
    """At once where the kernel can; else one by one, and detached when the results are out already."""
    done = sonde("-v", "-e", "fentry:vfs_*,fentry:do_s* /comm == \"dd\"/ { @[func] = count(); }")
    attached = int(re.search(r"Attached (\d+) probes", done.stderr)[1])  # type: ignore[index]
    assert attached > 60 and int(re.search(r"@\[vfs_read\]: (\d+)", done.stdout)[1]) >= READS  # type: ignore[index]
    if has("kprobe_multi"):
        way = "fentry.multi" if has("tracing_multi") else "by kprobe, which attaches many at once"
        assert way in done.stderr and "Detaching" not in done.stderr
    else:
        assert re.search(r"Detaching \d+ probes, which this kernel does one by one", done.stderr)


@pytest.mark.parametrize(("probe", "words"), [
    ("kprobe:start_kernel", "its code is gone (__init)"), ("fentry:start_kernel", "its code is gone (__init)"),
    (f"fentry:{ENTRY}", "before tracing is possible (noinstr)"),
    ("fentry:jiffies", "is not a function but data"),
    ("kprobe:no_such_function_here", "this kernel has no function no_such_function_here"),
])
def test_why_a_function_is_out_of_reach(probe: str, words: str) -> None:
    if "data" in words and live_world().kernel_symbol("init_task") is None:
        pytest.skip("this kernel tells of no data (CONFIG_KALLSYMS_ALL)")
    done = run_sonde("-e", f"{probe} {{ }}", timeout=100)
    assert done.returncode == 1 and words in done.stderr, done.stderr
