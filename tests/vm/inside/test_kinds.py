"""Every probe kind whose row says that this kernel can do it attaches here and fires."""

from __future__ import annotations

import os
import re

from sonde.kernel.types.world import LiveWorld
from sonde.semantics.providers import PROVIDERS
from support import run_sonde

# By kind, what certainly happens while ``dd`` runs. The others cannot be mixed with these, or need what guests lack.
FIRES = {
    "begin": "begin", "end": "end", "tracepoint": "tracepoint:syscalls:sys_exit_read",
    "rawtracepoint": "rawtracepoint:sys_exit", "kprobe": "kprobe:vfs_read", "kretprobe": "kretprobe:vfs_read",
    "fentry": "fentry:vfs_read", "fexit": "fexit:vfs_read",
    "uprobe": "uprobe:LIBC:read", "uretprobe": "uretprobe:LIBC:read",
    "interval": "interval:ms:1", "profile": "profile:ms:1", "software": "software:cpu-clock:1000000",
}
ATTACHES = {"self": "self:signal:SIGUSR1"}
ELSEWHERE = {  # the test that has the kind
    "iter": "tests/live/test_iterators.py", "usdt": "tests/live/test_usdt.py", "test": "tests/live/test_selftest.py",
    "watchpoint": "tests/live/test_other_probes.py",
    "bench": "tests/live/test_selftest.py", "hardware": "no guest has counters; tests/live/test_other_probes.py"}
WORK = "dd if=/dev/zero of=/dev/null bs=1000 count=2000 status=none"


def test_every_kind() -> None:
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    able = {row.name for row in PROVIDERS if tuple(int(part) for part in row.minimum.split(".")) <= release}
    assert set(FIRES) | set(ATTACHES) | set(ELSEWHERE) == {row.name for row in PROVIDERS}
    libc = LiveWorld().find_binaries("libc")[0]
    chosen = {kind: text.replace("LIBC", libc) for kind, text in (FIRES | ATTACHES).items() if kind in able}
    script = " ".join(f'{text} {{ @["{kind}"] = count(); }}' for kind, text in chosen.items())
    done = run_sonde("-e", script, "-c", WORK, timeout=150)
    assert done.returncode == 0, done.stderr
    fired = set(re.findall(r"@\[(\w+)\]: \d+", done.stdout))
    assert fired >= set(FIRES) & able


def test_kernel_stacks_of_system_calls() -> None:
    """Before some release the classic tracepoint has none: a raw one is used."""
    done = run_sonde("-c", "dd if=/dev/zero of=/dev/null bs=1000 count=5 status=none", "-e",
                     "tracepoint:syscalls:sys_enter_read /pid == cpid && args.count == 1000/ { @[kstack] = count(); }",
                     timeout=150)
    assert done.returncode == 0, done.stderr
    [(frames, count)] = re.findall(r"^@\[\n(.*?)\n\]: (\d+)$", done.stdout, re.M | re.S)
    dispatcher = {"x86_64": "do_syscall_64", "aarch64": "do_el0_svc", "s390x": "__do_syscall"}[os.uname().machine]
    assert dispatcher in frames and count == "5"
