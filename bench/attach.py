#!/usr/bin/env python3
"""How long attaching and detaching take: 500 user functions here, 1,000 kernel functions here or in a VM.

    bench/attach.py [--functions N] [--kernel 6.12] [--peer BPFTRACE] [kinds ...]

Kinds: uprobe uretprobe kprobe kretprobe fentry fexit (default: what this kernel has). With --kernel it runs itself
inside Debian's kernel under QEMU, where everything in user space takes some 18 times as long. "On and off" is a run of
the command, from its start to its end, that attaches them all and exits 10 ms later; the peer's stands beside it.
Prints a Markdown table; needs root, and a C compiler for user functions.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

CONFIG = "config = { missing_probes = warn; max_probes = 100000; max_bpf_progs = 100000 } "
USER, KERNEL = ("uprobe", "uretprobe"), ("kprobe", "kretprobe", "fentry", "fexit")
FAMILIES = ("tcp_", "udp", "ip_", "inet_", "sock_", "ext4_", "vfs_", "netlink_", "dev_", "sysfs_", "proc_", "bio_",
            "blk_", "pci_", "acpi_", "unix_", "fib_", "dst_", "neigh_", "ipv6_", "raw_", "kernfs_", "device_", "tty_")


def user_functions(folder: Path, count: int) -> list[str]:
    """Attach points of a program that has so many functions."""
    source, binary = folder / "many.c", folder / "many"
    text = "".join(f"int f{i}(int x) {{ return x + {i}; }}\n" for i in range(count))
    source.write_text(text + "int main(void) { return 0; }\n")
    subprocess.run([os.environ.get("CC", "gcc"), "-O1", "-o", str(binary), str(source)], check=True)
    return [f"{binary}:f{i}" for i in range(count)]


def kernel_functions(count: int, typed: bool) -> list[str]:
    """Functions of families that a quiet machine seldom calls, of those that every tracer can trace: the peer refuses a
    program that names one in which kprobes are forbidden, and the kernel a kprobe by a name that several have."""
    from sonde.kernel.types.functions import forbidden_functions
    from sonde.kernel.types.world import LiveWorld

    world, forbidden = LiveWorld(), forbidden_functions()
    symbols = Counter([line.split()[2] for line in Path("/proc/kallsyms").read_text().splitlines()])
    names: dict[str, None] = {}
    for module, name in world.kernel_functions():
        if (module == "vmlinux" and name.startswith(FAMILIES) and "." not in name and name not in forbidden
                and symbols[name] == 1 and len(names) < count):
            known = world.kernel_function(name, "vmlinux") if typed else None
            if not typed or known is not None and not known.variadic and known.args.bytes <= 48:
                names[name] = None
    return list(names)


def measure(kind: str, points: list[str]) -> list[str]:
    """A row: attach points, then seconds for compiling, loading and attaching, detaching, releasing the rest."""
    from sonde.library.trace import Trace

    times = [time.perf_counter()]
    trace = Trace(CONFIG + ",".join(f"{kind}:{point}" for point in points) + " { @ = count(); }")
    times.append(time.perf_counter())
    trace.attach()
    attached = trace.session.attached
    times.append(time.perf_counter())
    trace.session.stop()
    times.append(time.perf_counter())
    trace.close()
    times.append(time.perf_counter())
    return [kind, str(attached), *[f"{later - earlier:.2f}" for earlier, later in pairwise(times)]]


def run_on_and_off(command: list[str], kind: str, points: list[str]) -> float:
    """Seconds of a run that attaches them all and ends."""
    program = CONFIG + ",".join(f"{kind}:{point}" for point in points) + " { @ = count(); } interval:ms:10 { exit(); }"
    begun = time.perf_counter()
    done = subprocess.run([*command, "-e", program], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {kind}: {done.stderr[:300]} ... {done.stderr[-100:]}")
    return time.perf_counter() - begun


def compare(peer: str, kind: str, points: list[str]) -> list[str]:
    """Cells: seconds of Sonde, of the peer, and their ratio."""
    commands = [[sys.executable, "-m", "sonde"], [peer]] if peer else [[sys.executable, "-m", "sonde"]]
    seconds = [run_on_and_off(command, kind, points) for command in commands]
    return [*[f"{each:.2f}" for each in seconds], f"{seconds[0] / seconds[1]:.2f}" if peer else "-"]


def available() -> list[str]:
    from sonde.kernel.types.world import LiveWorld

    world = LiveWorld()
    needs = {"uprobe": "uprobes", "uretprobe": "uprobes", "kprobe": "kprobes", "kretprobe": "kprobes",
             "fentry": "fentry", "fexit": "fentry"}
    return [kind for kind, feature in needs.items() if world.has_feature(feature)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=0, help="how many (default: 500 user, 1000 kernel functions)")
    parser.add_argument("--kernel", help="run in this kernel series under QEMU")
    parser.add_argument("--peer", default="", metavar="BPFTRACE", help="a bpftrace to compare with")
    parser.add_argument("kinds", nargs="*")
    arguments = parser.parse_args()
    if arguments.kernel:
        inside = [sys.executable, __file__, "--functions", str(arguments.functions), "--peer",
                  arguments.peer, *(arguments.kinds or KERNEL)]
        return subprocess.run([sys.executable, str(ROOT / "tests" / "vm" / "vmrun.py"), "--kernel", arguments.kernel,
                               "--timeout", "1800", "--", *inside], check=False).returncode
    titles = ["kind", "attached", *[f"{what}, s" for what in ("compile", "attach", "detach", "release", "on and off")],
              *(["the peer's, s", "ratio"] if arguments.peer else ["ratio"])]
    print(f"Linux {os.uname().release}\n\n| {' | '.join(titles)} |\n{'|---' * len(titles)}|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in arguments.kinds or available():
            count = arguments.functions or (500 if kind in USER else 1000)
            points = user_functions(Path(folder), count) if kind in USER else kernel_functions(
                count, kind in ("fentry", "fexit"))
            print("| " + " | ".join(measure(kind, points) + compare(arguments.peer, kind, points)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
