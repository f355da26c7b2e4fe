#!/usr/bin/env python3
"""What a probe on a kernel function's entry, and on its return, adds to a call: Sonde beside bpftrace, in a VM.

    bench/entries.py [--kernel 7.2] [--peer BPFTRACE] [--many]

Of one function, or of many of which one is called, with ``{ @ = count(); }``; the best of many short rounds, for which
emulation is even enough. With --kernel it runs itself inside Debian's kernel under QEMU. Prints a Markdown table of
nanoseconds above the untraced call, of which only the ratios mean something there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTED = Path("/sys/kernel/tracing/available_filter_functions")
ROUNDS = 3
NAMES = ("__do_sys_getppid", "__x64_sys_getppid", "__arm64_sys_getppid")


def measure_calls(binary: Path, command: list[str]) -> float:
    """Nanoseconds of a call while ``command`` traces it; it has to have counted every one."""
    from run import call_time
    from userspace import Running, await_text

    with tempfile.TemporaryFile() as out:
        running = Running(command, out)
        await_text(out, b"Attach", running.process, 200)
        best = call_time(binary, 20)
        running.interrupt()
        out.seek(0)
        said = out.read().decode()
    if int(said.split("@: ")[1].split()[0]) < 20 * 20000:
        raise RuntimeError(f"{command[0]}: not all calls were counted: {said}")
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", help="run in this kernel series under QEMU")
    parser.add_argument("--peer", default="bpftrace", metavar="BPFTRACE")
    parser.add_argument("--many", action="store_true", help="by a pattern, and without tracing_multi, too")
    chosen = parser.parse_args()
    if chosen.kernel:
        return subprocess.run([sys.executable, str(ROOT / "tests" / "vm" / "vmrun.py"), "--kernel", chosen.kernel,
                               "--timeout", "500", "--", sys.executable, __file__, "--peer", chosen.peer,
                               *(["--many"] if chosen.many else [])], check=False).returncode
    from run import build, call_time

    listed = set(LISTED.read_text().split())
    function = next(name for name in NAMES if name in listed)
    sonde = [sys.executable, "-m", "sonde"]
    without = "tracing_multi" if chosen.many else "fentry"
    ways = {"sonde": sonde, f"sonde without {without}": [*sonde, "--no-feature", without], "peer": [chosen.peer]}
    print("| kind | " + " | ".join(ways) + " | ratio |\n" + "|---" * (len(ways) + 2) + "|")
    with tempfile.TemporaryDirectory() as folder:
        binary = build(Path(folder))
        for kind in ("kprobe", "kretprobe"):
            place = function.replace("getppid", "get*") if chosen.many else function
            program = f"{kind}:{place} {{ @ = count(); }}"
            bare, found = call_time(binary, 20), [float("inf")] * len(ways)
            for _ in range(ROUNDS):
                found = [min(best, measure_calls(binary, [*way, "-e", program]))
                         for best, way in zip(found, ways.values())]
                bare = min(bare, call_time(binary, 20))
            added = [each - bare for each in found]
            print(f"| {kind} | " + " | ".join(f"{each:.0f}" for each in added) + f" | {added[0] / added[-1]:.2f} |",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
