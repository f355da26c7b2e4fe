#!/usr/bin/env python3
"""Write docs/kernels.md: what each kernel of the vm tier can do, found out by booting it (tests/kernel_survey.py).

    python scripts/gen_kernels.py                      of what they did when booted last (tests/vm/kernels.json)
    python scripts/gen_kernels.py all, or KERNEL ...   boot these first ("6.12", "6.12 aarch64"; some ten minutes each)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VM = ROOT / "tests" / "vm"
KEPT = VM / "kernels.json"  # kernel → what the survey found
HOST = os.uname().machine
sys.path[:0] = [str(ROOT / "src")]

from sonde.kernel.features import TABLE  # noqa: E402

TRIED = {True: "yes", False: "–", None: "?"}  # None: the row is younger than the boot
Survey = dict[str, Any]  # kernel_survey.main() says what is in it
HEAD = """\
# Kernels

<!-- Written by scripts/gen_kernels.py from what the kernels did: boot them, do not change this file. -->

This page is about Debian's cloud kernels. Each was booted under QEMU: every kind of probe was checked against a program
that counts its own calls, every feature was tried, and every shipped tool was attached. Each day `make test-vm` boots
the next two kernels for this machine's architecture (for another one with `SONDE_VM_ARCH=aarch64`); `make test-vm-all`
boots all of them. If a kernel lacks a feature, Sonde uses another method or refuses the script in one sentence. `sonde
doctor` says which tools work on the running kernel, and `-v` which methods a run uses.
"""
ABOUT_FEATURES = """\
`--no-feature NAME` runs Sonde without a feature. "Since" is the first release that can have the feature; whether a
kernel has it also depends on its configuration. One link for many functions needs fprobe (`CONFIG_FPROBE`): Debian
builds 6.1 without it, and 6.12 lacks it on aarch64. `override` needs `CONFIG_FUNCTION_ERROR_INJECTION`, which none of
these kernels has. `?`: the row is newer than the last boot of this kernel here.
"""
OTHERS = """
## Not used

- fsession (7.0) is one trampoline program for a function's entry and return. It saves nothing over an fentry and an
  fexit program: counting a call and its return on 7.2 under QEMU took 465 ns with fsession, 413 ns with the two
  programs, and 970 ns with kprobe.session.
- Sleepable programs (uprobes; tracepoints of system calls in 7.2) can wait for a string that is not in memory; Sonde
  reports such a string as unreadable. They work here (bpf_copy_from_user_str(), 6.12), but the owner of the page
  decides how long they wait. A process whose page waited for its own userfaultfd(2) delayed the detaching of such a
  uprobe until the process ended, because the kernel waits for all sleeping programs; a FUSE file system could do the
  same. A traced process must not be able to block the tracer.
- BPF_F_RB_OVERWRITE (6.19) makes rings overwrite their oldest records: [flight.md](flight.md) says what they cost.
- BPF_F_CPU (7.0) reads one CPU's element in one call: Sonde reads the elements of all CPUs for many keys in one call,
  or maps the memory.

## Other architectures

**riscv64.** Debian's 7.2 (sid; bookworm has none) was booted with
`tests/vm/vmrun.py --arch riscv64 --kernel 7.2 -- COMMAND`: a tracepoint of system calls, a raw tracepoint, a kprobe and
an fentry probe each counted 300 of 300 calls, in maps with and without keys. With BPF's JIT compiler on (`sysctl
net.core.bpf_jit_enable=1`) the kernel has all features of the table above, except `current_task_variable`, `override`
and `compat_syscalls`. The JIT compiler is off by default, and the kernel then rejects programs that call kernel
functions or use callbacks; Sonde reports this. Neither the live tests nor the tools were run there. Stacks by unwind
tables and the locations of static probes' arguments follow the specifications, and only unit tests cover them. To add a
column to the tables, list the kernel in `tests/vm/tier.toml` and turn the JIT compiler on in `tests/vm/guest-init.sh`.

**s390x** (big-endian). Debian's 7.2 (sid) was booted with `tests/vm/vmrun.py --arch s390x --kernel 7.2 -- COMMAND`; the
root file system is mounted over 9p, because virtiofs needs a guest of the host's byte order. A tracepoint of system
calls, a raw tracepoint, a kprobe, a kretprobe, an fentry probe (served by a kprobe there), a uprobe and a uretprobe
each counted 300 of 300 calls, in maps with and without keys. fexit with arguments (served by a kretprobe and a kprobe)
counted 100 of 100, and `tests/vm/inside/test_counts.py` passes. The live tests that were run there pass, except where
they need the JIT compiler (below): tests of values, functions, members of tracepoints, kinds of maps, loops, static
probes, stacks of system calls and flight recording. `dw_ustack` is printed, and a run was recorded and replayed. Sonde
refuses a recording of the other byte order.

Debian builds this kernel for the oldest machines (`CONFIG_MARCH_Z10`), for which BPF has no JIT compiler. The kernel
interprets programs there, and interpreted programs can neither use callbacks nor call kernel functions. So there is no
`fentry` (a kprobe serves it where possible; a return probe then sees no arguments), no `bpf_loop`, no
`for_each_map_elem` and no `rdonly_cast`. Sonde refuses scripts that need them, and says that they need the JIT
compiler. According to `sonde doctor`, 85 of 113 tools work. Code that needs the JIT compiler was run in big-endian
order only by the unit tests' interpreter, not by a kernel.

Programs cannot follow unwind tables there (`dw_ustack` in a map or a variable is refused), `pystack` is for x86_64, and
s390x has no watchpoints. The kernel unwinds user stacks by the back chain, which Debian's programs do not maintain, so
`ustack` mostly ends at the first frame. Under QEMU 7.2 a uprobe on a branch (`br %r14`, in a function that does
nothing) may fire repeatedly, also with the kernel's own tracer (`uprobe_events`). To add a column to the tables, list
the kernel in `tests/vm/tier.toml`. Linux 6.1 (bookworm) has no BTF.
"""


def survey(kernel: str) -> Survey:
    """Boot a kernel and find out."""
    with tempfile.TemporaryDirectory(prefix="sonde-kernels.") as shared:
        found = Path(shared, "found")
        series, arch = [*kernel.split(), HOST][:2]
        python = sys.executable if arch == HOST else "/usr/bin/python3"
        subprocess.run([sys.executable, str(VM / "vmrun.py"), "--arch", arch, "--kernel", series, "--rw", shared,
                        "--timeout", "1800", "--", python, str(ROOT / "tests" / "kernel_survey.py"), str(found)],
                       cwd=ROOT, check=True,
                       env=os.environ | {"SONDE_VM": kernel, "XDG_CACHE_HOME": "/run/sonde-cache", "TMPDIR": "/run",
                                         "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"})
        taken: Survey = json.loads(found.read_text())
        return taken


def table(head: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def page(surveys: dict[str, Survey]) -> str:
    """The whole document."""
    every = list(surveys.values())
    names = [f"{kernel.split()[0]} {found['machine']}" for kernel, found in surveys.items()]
    releases = ", ".join(f"{found['release']}" for found in every)
    every_kind = dict.fromkeys(kind for found in every for kind in found["counts"])
    kinds = [[kind, *["{:,} of {:,}".format(*found["counts"][kind]) if kind in found["counts"] else TRIED[None]
                      for found in every]] for kind in every_kind]
    features = [[f"`{row.name}`", row.text, row.minimum,
                 *[TRIED[found["features"].get(row.name)] for found in every]] for row in TABLE]
    reasons: dict[str, list[str]] = {}
    for tool in sorted({tool for found in every for tool in found["tools"]}):
        for kernel, found in surveys.items():
            if found["tools"].get(tool):
                reasons.setdefault(f"| `{tool}` | {found['tools'][tool]} |", []).append(kernel)
    working = [["attach", *[f"{sum(not why for why in found['tools'].values())} of {len(found['tools'])}"
                            for found in every]],
               ["as `sonde doctor` says", *["{} of {}".format(*found["doctor"]) if "doctor" in found else TRIED[None]
                                            for found in every]]]
    return "".join([
        HEAD, f"\nThe releases: {releases}.\n",
        "\n## Exact counts\n\nEvents counted, and events that happened. `?`: the kind was not tried at the last\n"
        "boot of this kernel.\n\n", table(["kind", *names], kinds),
        f"\n## Features\n\n{ABOUT_FEATURES}\n",
        table(["feature", "what it is", "since", *names], features),
        "\n## Tools\n\nThe first row: how many of the tools that existed at this kernel's last boot attach. "
        "The second:\nhow many `sonde doctor` judges right, with the reason where a tool does not attach.\n\n",
        table(["tools", *names], working),
        "\nTools that do not attach, and the reasons:\n\n| tool | why | Linux |\n|---|---|---|\n",
        *[f"{line} {', '.join(kernels)} |\n" for line, kernels in sorted(reasons.items())], OTHERS])


def main() -> None:
    listed = tomllib.loads((VM / "tier.toml").read_text())["kernels"]
    every = [series if arch == HOST else f"{series} {arch}" for arch, kernels in listed.items() for series in kernels]
    wanted = every if sys.argv[1:] == ["all"] else sys.argv[1:]
    kept: dict[str, Survey] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        kept |= dict(zip(wanted, pool.map(survey, wanted)))
    surveys = {kernel: kept[kernel] for kernel in every if kernel in kept}
    KEPT.write_text(json.dumps(surveys, indent=0) + "\n")
    (ROOT / "docs" / "kernels.md").write_text(page(surveys))


if __name__ == "__main__":
    main()
