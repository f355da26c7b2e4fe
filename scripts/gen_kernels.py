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

Debian's cloud kernels, each booted under QEMU: every kind of probe was checked against a program that counts what it
does, every feature was tried, and every shipped tool was attached. Each day `make test-vm` boots the next two for this
machine's architecture (`SONDE_VM_ARCH=aarch64`: for that one); `make test-vm-all` boots all of them. What a kernel
lacks is done another way, or refused in one sentence; `sonde doctor` says which tools work on the running kernel, and
`-v` which way was taken.
"""
ABOUT_FEATURES = """\
`--no-feature NAME` does without one. The release is the first that can have it: 6.1 is built without fprobe
(`CONFIG_FPROBE`), which one link for many functions takes and which 6.12 does not have on aarch64; and none of these
kernels with `CONFIG_FUNCTION_ERROR_INJECTION`, which `override` takes. `?`: younger than the kernel's last boot here.
"""
OTHERS = """
## Not used

- fsession (7.0), one trampoline program for a function's entry and return: it saves nothing over two, fentry and
  fexit. Counting a call and its return on 7.2 under QEMU took 465 ns with it, 413 with the two, and 970 with
  kprobe.session.
- Programs that may sleep (uprobes; tracepoints of system calls in 7.2), which could wait for a string that is not in
  memory, where Sonde now says that it could not be read. They load, and get the string (bpf_copy_from_user_str(),
  6.12). But who owns the page says how long they wait: a process whose page waits for its userfaultfd(2) held up the
  detaching of such a uprobe for as long as it lived, since the kernel waits for all programs that sleep; a FUSE file
  system of its own could do the same. No traced process may be able to do that to the tracer.
- BPF_F_RB_OVERWRITE (6.19), rings that overwrite their oldest records: [flight.md](flight.md) has what they cost.
- BPF_F_CPU (7.0), one CPU's element in a call: Sonde reads the elements of all, many keys in a call, or maps them.

## Other architectures

**riscv64.** Debian's 7.2 (sid; bookworm has none) was booted with
`tests/vm/vmrun.py --arch riscv64 --kernel 7.2 -- COMMAND`: a tracepoint of system calls, a raw tracepoint, a kprobe and
an fentry probe each counted 300 of 300 calls, in maps with and without keys. All features in the table above are found,
except `current_task_variable`, `override` and `compat_syscalls`, once BPF's JIT compiler is on
(`sysctl net.core.bpf_jit_enable=1`). It is off by default, and the kernel then rejects programs that call kernel
functions or use callbacks; Sonde reports this. Neither the live tests nor the tools were run there; stacks by unwind
tables and the places of static probes' arguments follow the specifications and are covered by unit tests only. For a
column above, `tests/vm/tier.toml` would have to list the kernel and `tests/vm/guest-init.sh` to turn the JIT compiler
on.

**s390x** (big-endian). Debian's 7.2 (sid) was booted with `tests/vm/vmrun.py --arch s390x --kernel 7.2 -- COMMAND`; its
root comes by 9p, as virtiofs takes a guest of the host's byte order. A tracepoint of system calls, a raw tracepoint, a
kprobe, a kretprobe, an fentry probe (which a kprobe serves there), a uprobe and a uretprobe each counted 300 of 300
calls, in maps with and without keys, fexit with arguments (which a kretprobe and a kprobe serve) 100 of 100, and
`tests/vm/inside/test_counts.py` passes. So do those of the live tests that
were run there, but for what takes the JIT compiler (below): of values, functions, members of tracepoints, kinds of
maps, loops, static probes, stacks of system calls and flight recording. `dw_ustack` is printed, a run recorded and
replayed; a recording of one byte order is refused on a machine of the other.

Debian builds this kernel for the oldest machines (`CONFIG_MARCH_Z10`), for which BPF has no JIT compiler: programs are
interpreted, and can neither be called back nor call kernel functions. So there is no `fentry` (a kprobe serves it, as
far as it can; a return probe then sees no arguments), no `bpf_loop`, no `for_each_map_elem` and no `rdonly_cast`; what
takes them is refused, and says that the JIT compiler is needed. `sonde doctor` says of 85 of 113 tools that they work.
What takes the JIT compiler has been run in big-endian order by the interpreter of the unit tests only, on no kernel.

Programs cannot follow unwind tables there (`dw_ustack` in a map or a variable is refused), `pystack` is for x86_64, and
s390x has no watchpoints. The kernel finds user stacks by the back chain, which Debian's programs do not keep, so
`ustack` mostly ends at the first frame. Under QEMU 7.2 a uprobe on a branch (`br %r14`, of a function that does
nothing) may hit again and again, also for a tracer of the kernel's own (`uprobe_events`). For a column above,
`tests/vm/tier.toml` would have to list the kernel. Linux 6.1 (bookworm) has no BTF.
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
        "\n## Exact counts\n\nEvents counted, of those that happened. `?`: a kind that the kernel was not asked for\n"
        "when it was booted last.\n\n", table(["kind", *names], kinds),
        f"\n## Features\n\n{ABOUT_FEATURES}\n",
        table(["feature", "what it is", "since", *names], features),
        "\n## Tools\n\nOf those that existed when the kernel was booted: how many attach, and of how many `sonde "
        "doctor` says\nwhat then happens, with the reason if they do not.\n\n",
        table(["tools", *names], working),
        "\nThe others, and why:\n\n| tool | why | Linux |\n|---|---|---|\n",
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
