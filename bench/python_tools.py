#!/usr/bin/env python3
"""What tools for Python programs cost the program, for docs/python-programs.md: pairs of runs with each and without.

    python_tools.py [ROUNDS [SECONDS [TOOL ...]]]     as root, with a Python that has the tools installed

The program is docs/cases/python_service.py, twice: one with the tool and one without, which are asked for /price in
turn, over a connection each, as fast as they answer. The measure is how many requests they answer for a second of their
CPU time, the kernel's share included: other load of the machine changes that less than requests per second, which are
printed, too. A tool that attaches to a process does so in each round, and the pair without it says what the two differ
by themselves. Prints the median of the rounds and the quartiles, and what CPU time the tool itself took.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs/cases"))

from python_service import request  # noqa: E402

SERVICE = str(ROOT / "docs/cases/python_service.py")
SONDE = [sys.executable, "-m", "sonde"]
OUT = tempfile.mkdtemp()
ATTACHED = {  # by name: the command for a process
    "pyloop": [*SONDE, "pyloop", "-p", "PID"],
    "pygil": [*SONDE, "pygil", "-p", "PID"],
    "pytask, sampled": [*SONDE, "-p", "PID", "-e", "profile:hz:99 { @[pytask] = count(); }"],
    "pytask, each answer": [*SONDE, "-p", "PID", "-e", "tracepoint:syscalls:sys_enter_sendto { @[pytask] = count(); }"],
    "flame": [*SONDE, "flame", "-p", "PID", "-f", "folded", "-o", f"{OUT}/folded"],
    "pystack, each answer": [*SONDE, "-p", "PID", "-e",
                             "tracepoint:syscalls:sys_enter_sendto { @[pystack] = count(); }"],
    "py-spy": ["py-spy", "record", "-r", "100", "-d", "3600", "-f", "raw", "-o", f"{OUT}/spy", "-p", "PID"],
    "py-spy --nonblocking": ["py-spy", "record", "--nonblocking", "-r", "100", "-d", "3600", "-f", "raw", "-o",
                             f"{OUT}/spy", "-p", "PID"],
    "austin": ["austin", "-i", "10ms", "-o", f"{OUT}/austin", "-p", "PID"],
}
STARTED = {  # the command before the program
    "scalene": [sys.executable, "-m", "scalene", "run", "--outfile", f"{OUT}/scalene.json"],
    "scalene --cpu-only": [sys.executable, "-m", "scalene", "run", "--cpu-only", "--outfile", f"{OUT}/scalene.json"],
    "memray": [sys.executable, "-m", "memray", "run", "-q", "-f", "-o", f"{OUT}/memray.bin"],
    "viztracer": ["viztracer", "--quiet", "-o", f"{OUT}/viztracer.json", "--"],
}


def cpu_seconds(pid: int) -> float:
    """What a process has used: its clock, by its number (MAKE_PROCESS_CPUCLOCK in the kernel's posix-timers)."""
    return time.clock_gettime(~pid << 3 | 2)


def last_child(pid: int) -> int:
    """The process that a tool has started, or the one that that has started; itself if there is none."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return last_child(int(children[-1])) if children else pid


class Service:
    """The service, perhaps started by a tool, with a connection to it."""

    def __init__(self, before: list[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.process = subprocess.Popen([*(before or [sys.executable]), SERVICE, "serve", str(port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                self.connection = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        self.pid = last_child(self.process.pid)
        self.used = self.took = 0.0

    def answer(self, count: int) -> None:
        """Answer so many requests; note the CPU time and the time."""
        began, used = time.monotonic(), cpu_seconds(self.pid)
        for _ in range(count):
            request(self.connection, "/price")
        self.used += cpu_seconds(self.pid) - used
        self.took += time.monotonic() - began

    def end(self) -> None:
        self.connection.close()
        os.kill(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


@contextmanager
def attached(command: list[str], pid: int) -> Iterator[int]:
    """The tool's process, as soon as it has begun."""
    words = [word.replace("PID", str(pid)) for word in command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tool:
        begun, said = threading.Event(), list[str]()

        def listen() -> None:
            assert tool.stdout is not None
            for line in tool.stdout:
                said.append(line)
                if "Attached" in line or "ampling" in line:
                    begun.set()
        listener = threading.Thread(target=listen)
        listener.start()
        begun.wait(3)  # austin says nothing
        if tool.poll() is not None:
            raise SystemExit(f"{' '.join(words)}: {''.join(said)}")
        time.sleep(0.3)
        yield tool.pid
        tool.send_signal(signal.SIGINT)
        listener.join()


def compare(plain: Service, tooled: Service, seconds: float) -> tuple[float, float]:
    """How many times the CPU time, and the time, of the one the other needs for as many requests."""
    plain.used = plain.took = tooled.used = tooled.took = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for service in (plain, tooled):
            service.answer(10)
    return tooled.used / plain.used, tooled.took / plain.took


def measure_tool(name: str, rounds: int, seconds: float) -> None:
    plain, tooled = Service([]), Service(STARTED.get(name, []))
    ratios, own = list[tuple[float, float]](), list[float]()
    compare(plain, tooled, seconds)
    for _ in range(rounds):
        if name in STARTED:
            ratios.append(compare(plain, tooled, seconds))
            continue
        without = compare(plain, tooled, seconds)
        with attached(ATTACHED[name], tooled.pid) as tool:
            used, began = cpu_seconds(tool), time.monotonic()
            with_it = compare(plain, tooled, seconds)
            own.append((cpu_seconds(tool) - used) / (time.monotonic() - began))
        ratios.append((with_it[0] / without[0], with_it[1] / without[1]))
    low, middle, high = statistics.quantiles([100 * (1 / cpu - 1) for cpu, _ in ratios], n=4)
    rate = statistics.median([100 * (1 / took - 1) for _, took in ratios])
    print(f"{name}: requests per CPU second {middle:+.1f} % ({low:+.1f} to {high:+.1f}), per second {rate:+.1f} %, "
          f"itself {100 * statistics.median(own or [0]):.1f} % of a CPU; {rounds} rounds of {seconds:g} s, "
          f"load {os.getloadavg()[0]:.1f}", flush=True)
    plain.end()
    tooled.end()


def main() -> None:
    rounds, seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 20, float(sys.argv[2]) if len(sys.argv) > 2 else 1
    for name in sys.argv[3:] or [*ATTACHED, *STARTED]:
        measure_tool(name, rounds, seconds)


if __name__ == "__main__":
    main()
