"""What Sonde does on a machine that is not as others: the cases, each with what it must answer, and the program that
runs them in the guest.

    python tests/vm/odd_machine.py FILE     the cases' answers as JSON into FILE

The machine becomes odder from state to state; none is taken back. The guest is booted with 256 possible CPUs, of which
two are there, and 256 MiB of memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from denying import deny_call
from support import environment, sonde_command

CALLS = 300
WORK = ["-c", f'{sys.executable} -S -c "import os; [os.getppid() for _ in range({CALLS})]"']
GETPPID = "tracepoint:syscalls:sys_enter_getppid /pid == cpid/"
RAW = "rawtracepoint:sys_enter /pid == cpid && args.id == NUMBER/"
MANY, OLD, BLIND, LOCKED = "256 CPUs, 256 MiB", "cgroup v1", "no tracefs", "lockdown"
STATES = {
    MANY: [],
    OLD: ["umount /sys/fs/cgroup", "mount -t tmpfs none /sys/fs/cgroup", "mkdir /sys/fs/cgroup/cpu",
          "mount -t cgroup -o cpu none /sys/fs/cgroup/cpu"],
    BLIND: ["umount /sys/kernel/tracing", "umount /sys/kernel/debug"],
    LOCKED: ["mount -t tracefs none /sys/kernel/tracing", "echo confidentiality >/sys/kernel/security/lockdown",
             "rm -rf /run/sonde-cache"],
}


class Case(NamedTuple):
    """``out`` and ``error`` are searched for in what is printed; a case that fails has one ERROR."""

    state: str
    name: str
    words: list[str]
    out: str = ""
    error: str = ""
    status: int = 0


NO_MEMORY = "programs may not read kernel memory: kernel lockdown"
LOCKDOWN = "lockdown \\(confidentiality\\)"
CASES = [
    Case(MANY, "info", ["--info"], r"2 online, 256 possible"),
    Case(MANY, "counts",
         [*WORK, "-e", f"{GETPPID} {{ @ = count(); @s = sum(2); @h = hist(5); @k[comm, 3] = stats(3); }}"],
         rf"@: {CALLS}\n@h:\n\[4, 8\) +{CALLS} .*\n\n@k\[\w+, 3\]: {{ .count = {CALLS}, .average = 3, .total = 900 }}"
         rf"\n@s: {2 * CALLS}\n"),
    # Of 3.9 MB for each key with a copy for each CPU, of which the kernel gave few.
    Case(MANY, "histograms",
         ["-q", "-f", "json", "-e", "begin { for $i : 0..300 { @[$i] = hist($i, 5); } print(len(@)); "
          "print(@[299]); clear(@); exit(); }"],
         r'"data": 300}\n.*"data": \[{"min": 296, "max": 303, "count": 1}\]', "\\A\\Z"),
    Case(MANY, "records", [*WORK, "-q", "-e", f'{GETPPID} {{ printf("one\\n"); }}'], rf"\A\n*(one\n){{{CALLS}}}\n*\Z"),
    Case(MANY, "timers", ["-e", "profile:hz:50 { @[cpu < 2] = count(); } interval:ms:500 { exit(); }"],
         r"\A\s*@\[true\]: \d+\s*\Z"),
    Case(MANY, "tool", ["execsnoop", "-c", "/bin/true"], r"true +0 /bin/true"),
    Case(OLD, "counts", [*WORK, "-e", f"{GETPPID} {{ @ = count(); }}"], rf"@: {CALLS}\n"),
    Case(OLD, "container", ["-e", f"{GETPPID} {{ @[container] = count(); }}"],
         error="known by control groups of version 2, and there are none here", status=1),
    Case(OLD, "a group of version 1", ["-e", 'begin { print(cgroupid("/sys/fs/cgroup/cpu")); exit(); }'],
         error="No cgroup at '/sys/fs/cgroup/cpu'", status=1),
    Case(OLD, "a path", ["-e", 'begin { print(cgroup_path(cgroup)); exit(); }'],
         error="cgroup_path\\(\\) is empty here"),
    Case(BLIND, "raw tracepoint",
         [*WORK, "-e", f"{RAW} {{ @ = count(); }}"],
         rf"@: {CALLS}\n"),
    Case(BLIND, "kprobe", ["-c", "cat /etc/hostname", "-e", "kprobe:vfs_read /pid == cpid/ { @ = count(); }"],
         r"@: \d+\n"),
    *[Case(BLIND, name, words, error="tracefs is not mounted", status=1) for name, words in (
        ("tracepoint", ["-e", f"{GETPPID} {{ @ = count(); }}"]), ("list", ["-l", "tracepoint:sched:*"]),
        ("functions", ["-e", "kprobe:vfs_rea* { @ = count(); }"]), ("tool", ["execsnoop"]))],
    Case(LOCKED, "counts",
         [*WORK, "-e", f"{RAW} {{ @ = count(); @k[comm] = sum(2); }}"],
         rf"@: {CALLS}\n@k\[\w+\]: {2 * CALLS}\n"),
    # Before rdonly_cast it takes a look into the task to tell calls of 32 bits from others.
    Case(LOCKED, "system calls", [*WORK, "-e", f"{GETPPID} {{ @ = count(); }}"], error=NO_MEMORY, status=1),
    Case(LOCKED, "kprobe", ["-e", "kprobe:vfs_read { @ = count(); }"], error=LOCKDOWN, status=1),
    Case(LOCKED, "kernel memory", ["-e", "kprobe:vfs_read { @[((struct file *)arg0)->f_flags] = count(); }"],
         error=LOCKDOWN, status=1),
    Case(LOCKED, "a helper that reads it",
         ["-e", 'rawtracepoint:sys_enter { @[*(uint64 *)kaddr("jiffies")] = count(); }'],
         error=NO_MEMORY, status=1),
    Case(LOCKED, "tool", ["execsnoop", "-c", "/bin/true"], error="lockdown", status=1),
    Case(LOCKED, "list", ["-l", "tracepoint:sched:*"],
         error="Operation not permitted\nHINT: kernel lockdown", status=1),
]


def run_case(case: Case) -> dict[str, object]:
    from sonde.arch.syscalls import syscall_number
    words = [word.replace("NUMBER", str(syscall_number("getppid", "x86_64"))) for word in case.words]
    deny: Callable[[], None] | None = deny_call("mount") if case.state == BLIND else None
    done = subprocess.run(sonde_command(words), capture_output=True, text=True, check=False, timeout=300,
                          stdin=subprocess.DEVNULL, env=environment(), preexec_fn=deny)
    return {"status": done.returncode, "out": done.stdout, "error": done.stderr}


def main() -> None:
    found, state = [], ""
    for case in CASES:
        if case.state != state:
            state = case.state
            for command in STATES[state]:
                subprocess.run(command, shell=True, check=True)
        found.append(run_case(case))
        Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
