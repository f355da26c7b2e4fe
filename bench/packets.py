#!/usr/bin/env python3
"""The way of packets: `sonde packets` beside pwru, with the same filter, on the same packets.

    bench/packets.py [--kernel 6.12] [--packets N] [--rounds N] [--functions NAME,NAME] [--sonde COMMAND]
                     [--pwru COMMAND] [--json FILE]

Datagrams, each from a port of its own, go from one network namespace to another. The tools follow them in turn, by all
functions of the kernel itself that take a packet, or by those named. Of each round: how many steps (packet, function)
each shows, and those that only one of them shows; what their programs take for a step, by the kernel's run-time
statistics, whose cost is in both; seconds from start to tracing and from SIGINT to the end, with the CPU seconds of
them that the process spent in the kernel; and whether what Sonde prints and what it says is lost are the steps that it
counts. Prints a Markdown table. With --kernel it runs itself inside Debian's kernel under QEMU, where of times only the
ratios mean something. Without pwru Sonde is measured alone, and that is said. Needs root, BTF, libpcap and ip.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
PORT, FIRST_PORT, FIRST_WARM, GROUP, WARM = 4000, 20000, 10000, 20, 60
PATIENCE = 400  # s, for a tool to start or to end
FILTER = f"udp dst port {PORT}"
Steps = Counter[tuple[int, str]]  # how often (source port, function) was seen


class Figures(NamedTuple):
    """What one tool did in one round. Nanoseconds are those of a step; ``counted``: steps by the tool's own count, and
    ``lost`` those that it says it lost, None where it says nothing of that."""

    steps: Steps
    nanoseconds: float
    runs: int
    attach: float
    attach_kernel: float
    detach: float
    detach_kernel: float
    counted: int | None
    lost: int | None

    def plain(self) -> dict[str, Any]:
        """For JSON: the number of steps in place of them."""
        return {**self._asdict(), "steps": self.steps.total()}


class Tool(NamedTuple):
    """A tool: its command, the text that says that it traces, and what reads its output."""

    name: str
    command: list[str]
    ready: bytes
    read: Callable[[Path], tuple[Steps, int | None, int | None]]


def read_sonde(file: Path) -> tuple[Steps, int | None, int | None]:
    """Steps by packet and function, the count of all of them, and how many lines were lost."""
    steps, counted, lost = Steps(), 0, 0
    for line in file.read_text().splitlines():
        message = json.loads(line)
        if message["type"] == "row":
            row = message["data"]
            source = re.match(r"[\d.]+:(\d+) > ", packet_text(row["PACKET"]))
            steps[int(source[1]) if source else 0, row["STEP"]] += 1
        elif message["type"] == "map" and "@steps" in message["data"]:
            counted = sum(message["data"]["@steps"].values())
        elif message["type"] == "lost_events":
            lost += message["data"]["events"]
    return steps, counted, lost


def packet_text(value: Any) -> str:
    """A packet of JSON output as text."""
    return value["text"] if isinstance(value, dict) else value


def read_pwru(file: Path) -> tuple[Steps, int | None, int | None]:
    """Steps by packet and function; pwru counts neither steps nor losses."""
    steps = Steps()
    for line in file.read_text().splitlines():
        words = line.split()
        source = re.match(r"[\d.]+:(\d+)->", words[-1]) if words else None
        if source:
            steps[int(source[1]), next(word for at, word in enumerate(words) if words[at - 1].endswith("]"))] += 1
    return steps, None, None


def tools(options: argparse.Namespace, folder: Path) -> list[Tool]:
    """Those that are there."""
    names = options.functions.split(",") if options.functions else []
    ours = [*shlex.split(options.sonde), "packets", "-f", "json", "-o", str(folder / "sonde"),
            *(["--functions", options.functions] if names else []), FILTER]
    found = [Tool("sonde", ours, b'"attached_probes"', read_sonde)]
    pwru = shlex.split(options.pwru)
    if not pwru or shutil.which(pwru[0]) is None:
        print("pwru is not installed: Sonde is measured alone", file=sys.stderr)
        return found
    theirs = [*pwru, "--backend", "kprobe-multi", "--output-tuple", "--output-meta", "--timestamp", "absolute",
              "--output-file", str(folder / "pwru"),
              *(["--filter-func", f"^({'|'.join(names)})$"] if names else []), FILTER]
    return [*found, Tool("pwru", theirs, b"Listening for events", read_pwru)]


def cpu_in_kernel(pid: int) -> float:
    """Seconds of CPU time that a process has spent in the kernel."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[12]) / os.sysconf("SC_CLK_TCK")


def measure(tool: Tool, folder: Path, send: Callable[[int, int], None], packets: int) -> Figures:
    """One round of a tool."""
    from run import run_times
    output, log = folder / tool.name, folder / "log"
    output.unlink(missing_ok=True)
    with open(log, "wb") as errors:
        begun = time.monotonic()
        process = subprocess.Popen(tool.command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        try:
            while not any(tool.ready in file.read_bytes() for file in (log, output) if file.exists()):
                if process.poll() is not None or time.monotonic() - begun > PATIENCE:
                    raise RuntimeError(f"{tool.name} does not start: {log.read_text(errors='replace')[-600:]}")
                time.sleep(0.01)
            attach, attach_kernel = time.monotonic() - begun, cpu_in_kernel(process.pid)
            time.sleep(1)
            send(FIRST_WARM, WARM)  # the first runs of a program are slow, in an emulator by far
            await_rest(output)
            before = run_times(process.pid)
            process.send_signal(signal.SIGSTOP)  # in an emulator, what it does meanwhile is in the times of programs
            send(FIRST_PORT, packets)
            after, worked = run_times(process.pid), cpu_in_kernel(process.pid)
            process.send_signal(signal.SIGCONT)
            await_rest(output)
            begun = time.monotonic()
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGINT)
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
    detach = time.monotonic() - begun
    steps, counted, lost = tool.read(output)
    spent, runs = (sum(now[at] - before.get(key, (0, 0))[at] for key, now in after.items()) for at in (0, 1))
    timed = sum(count for (port, _), count in steps.items() if port >= FIRST_PORT)
    return Figures(steps, spent / max(timed, 1), runs, attach, attach_kernel, detach,
                   usage.ru_stime - worked, counted, lost)


def await_rest(output: Path) -> None:
    """Until the tool has written nothing for two seconds."""
    size = -1
    while size != (size := output.stat().st_size if output.exists() else 0):
        time.sleep(2)


def sender() -> Any:
    """The two namespaces, and what sends packets through them, in small groups, and reads each at once."""
    from namespaces import Pair, ip
    pair = Pair()
    a, b = pair.__enter__()
    for side, other in ((a, b), (b, a)):  # so that nobody asks meanwhile who has the address
        [link] = json.loads(subprocess.run(["ip", "-n", other.name, "-j", "link", "show", "dev", other.device],
                                           check=True, capture_output=True).stdout)
        ip("-n", side.name, "neigh", "replace", other.v4, "lladdr", link["address"], "nud", "permanent",
           "dev", side.device)
    receiver = b.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((b.v4, PORT))

    def send(first: int, packets: int) -> None:
        for number in range(packets):
            with a.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind((a.v4, first + number))
                sock.sendto(number.to_bytes(4, "big"), (b.v4, PORT))
            if receiver.recv(10) != number.to_bytes(4, "big"):
                raise RuntimeError("a packet came out of order")
            if number % GROUP == GROUP - 1:
                time.sleep(0.2)

    send(FIRST_WARM, 1)
    return pair, send


class Compared(NamedTuple):
    """The steps of both: those that both show, those of one alone, by function."""

    both: int
    ours: Counter[str]
    theirs: Counter[str]


def compare(ours: Steps, theirs: Steps) -> Compared:
    """What each shows that the other does not."""
    by_function = [Counter[str](), Counter[str]()]
    for counts, difference in zip(by_function, (ours - theirs, theirs - ours)):
        for (_, function), count in difference.items():
            counts[function] += count
    return Compared((ours & theirs).total(), *by_function)


def table(rounds: dict[str, list[Figures]]) -> str:
    """Medians of both, and their ratio."""
    heads = ["", *rounds, *(["ratio"] if len(rounds) == 2 else [])]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for title, name, form in (("steps shown", "steps", "{:.0f}"), ("runs of programs", "runs", "{:.0f}"),
                              ("kernel, ns a step", "nanoseconds", "{:.0f}"),
                              ("start to tracing, s", "attach", "{:.2f}"),
                              ("of it CPU in the kernel, s", "attach_kernel", "{:.2f}"),
                              ("SIGINT to end, s", "detach", "{:.2f}"),
                              ("of it CPU in the kernel, s", "detach_kernel", "{:.2f}")):
        all = [[figures.plain()[name] for figures in one] for one in rounds.values()]
        cells = [form.format(median(values)) for values in all]
        if len(all) == 2:
            cells.append(f"{median(a / b if b else float('nan') for a, b in zip(*all)):.2f}")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def run(options: argparse.Namespace) -> int:
    """All rounds, here; 1 if steps differ or are not accounted for."""
    from run import statistics
    rounds: dict[str, list[Figures]] = {}
    wrong, compared = 0, list[Compared]()
    with tempfile.TemporaryDirectory() as name, statistics():
        folder = Path(name)
        pair, send = sender()
        try:
            chosen = tools(options, folder)
            measure(chosen[0], folder, send, 1)  # fills Sonde's cache, as any earlier start does
            for _ in range(options.rounds):
                for tool in chosen:
                    rounds.setdefault(tool.name, []).append(figures := measure(tool, folder, send, options.packets))
                    print(f"{tool.name}: {figures.plain()}", file=sys.stderr)
        finally:
            pair.__exit__(None, None, None)
    for figures in rounds["sonde"]:
        if figures.counted is None or figures.steps.total() + (figures.lost or 0) != figures.counted:
            wrong = 1
            print(f"Sonde printed {figures.steps.total()}, lost {figures.lost}, and counted {figures.counted}")
    for ours, theirs in zip(rounds["sonde"], rounds.get("pwru", [])):
        compared.append(compare(ours.steps, theirs.steps))
        print(f"steps that both show: {compared[-1].both}; only Sonde: {dict(compared[-1].ours)}; "
              f"only pwru: {dict(compared[-1].theirs)}")
    print(table(rounds))
    if options.json:
        Path(options.json).write_text(json.dumps({
            "rounds": {name: [figures.plain() for figures in all] for name, all in rounds.items()},
            "compared": [each._asdict() for each in compared]}, indent=1) + "\n")
    return wrong or int(any(each.theirs for each in compared))


def main() -> int:
    """Here, or in a guest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", help="run in this kernel series under QEMU")
    parser.add_argument("--packets", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--functions", default="")
    parser.add_argument("--sonde", default=f"{sys.executable} -m sonde")
    parser.add_argument("--pwru", default="pwru")
    parser.add_argument("--json")
    options = parser.parse_args()
    if not options.kernel:
        return run(options)
    shared = ["--rw", str(Path(options.json).resolve().parent)] if options.json else []
    words = [word for name, value in vars(options).items() if name != "kernel" and value is not None
             for word in (f"--{name}", str(value))]
    return subprocess.run([sys.executable, str(ROOT / "tests" / "vm" / "vmrun.py"), "--kernel", options.kernel,
                           "--timeout", "1500", *shared, "--", sys.executable, __file__, *words],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
