#!/usr/bin/env python3
"""Four short traces of things that this script does itself, each explained and checked. Needs root.

Nothing of other processes is shown: every probe filters by this script's port or name. The arguments are the command
that runs Sonde; without any it is the one of this tree.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from loopback import receive

SESSIONS = [(2_000, 40_000, 0.001), (500, 500, 0.004), (120_000, 200, 0.002), (10, 1_000_000, 0.012)] * 3

TCP = r"""
begin
{
    printf("%-7s %-16s %-15s %-5s %-15s %-5s %9s %9s %8s\n",
        "PID", "COMM", "LADDR", "LPORT", "RADDR", "RPORT", "SENT", "RECEIVED", "MS");
}

// The client's side: its remote port is the demo's. SYN_SENT is where it is born, in its own process.
tracepoint:sock:inet_sock_set_state
/args.protocol == IPPROTO_TCP && args.dport == $1 && args.newstate == TCP_SYN_SENT/
{
    @born[args.skaddr] = nsecs;
    @owner[args.skaddr] = pid;
    @name[args.skaddr] = comm;
}

tracepoint:sock:inet_sock_set_state
/args.newstate == TCP_CLOSE && @born[args.skaddr]/
{
    $tcp = (struct tcp_sock *)args.skaddr;
    $us = (nsecs - @born[args.skaddr]) / 1000;
    // bytes_received counts the peer's FIN as a byte.
    printf("%-7d %-16s %-15s %-5d %-15s %-5d %9d %9d %4d.%03d\n", @owner[args.skaddr], @name[args.skaddr],
        ntop(args.saddr), args.sport, ntop(args.daddr), args.dport,
        $tcp->bytes_sent, $tcp->bytes_received - 1, $us / 1000, $us % 1000);
    @milliseconds = hist($us / 1000);
    delete(@born, args.skaddr);
    delete(@owner, args.skaddr);
    delete(@name, args.skaddr);
}

end { clear(@born); clear(@owner); clear(@name); }
"""

SLEEP = r"""
tracepoint:syscalls:sys_enter_clock_nanosleep /tid == $1/ { @begun[tid] = nsecs; }

tracepoint:syscalls:sys_exit_clock_nanosleep /@begun[tid]/
{
    @late_us = lhist((nsecs - @begun[tid]) / 1000 - 1000, 0, 200, 20);
    delete(@begun, tid);
}

end { clear(@begun); }
"""

FLOOD = r"""
tracepoint:syscalls:sys_enter_getppid /pid == $1 || pid == $2/
{
    printf("%llu %d\n", nsecs, cpu);
    @events = count();
}
"""


SONDE = sys.argv[1:] or [sys.executable, "-P", "-m", "sonde"]
PICTURE = "demo.svg"  # in the current folder
NEXT = ("sonde syscount -d 3 says which system calls this machine makes; docs/tutorial.md solves a problem in fifteen "
        "minutes.")

HOT = """
def boil(n): return sum(i * i for i in range(n))
def warm(n): return sum(range(n))
from time import monotonic, process_time
end = monotonic() + 8
while process_time() < 1 and monotonic() < end: boil(90_000); warm(90_000)
"""
RATE = 499  # samples a second of CPU time, of which HOT takes one
FEWEST = 100  # samples of a picture that shows anything


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def trace(program: str, arguments: Sequence[object], work: Callable[[], None], show: bool = True) -> tuple[str, str]:
    """Run Sonde with ``program`` while ``work()`` runs; its stdout and stderr."""
    with tempfile.NamedTemporaryFile("w", suffix=".bt") as script, tempfile.TemporaryFile() as out, \
            tempfile.TemporaryFile() as err:
        script.write(program)
        script.flush()
        command = [*SONDE, script.name, *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            while b"Attached" not in contents(err):
                if process.poll() is not None:
                    sys.exit("demo: " + contents(err).decode())
                time.sleep(0.005)
            work()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        text, complaints = contents(out).decode(), contents(err).decode()
    if show:
        print(text, end="", flush=True)
    return text, complaints


def contents(file: object) -> bytes:
    fd = file.fileno()  # type: ignore[attr-defined]
    return os.pread(fd, os.fstat(fd).st_size, 0)


def serve(listener: socket.socket) -> None:
    for request, answer, delay in SESSIONS:
        sock, _ = listener.accept()
        with sock:
            receive(sock, request)
            time.sleep(delay)
            sock.sendall(b"a" * answer)
            sock.recv(1)  # the client closes first


def sessions(listener: socket.socket) -> None:
    server = threading.Thread(target=serve, args=(listener,))
    server.start()
    for request, answer, _ in SESSIONS:
        with socket.create_connection(listener.getsockname()) as sock:
            sock.sendall(b"q" * request)
            receive(sock, answer)
    server.join()


def totals(sessions: Sequence[tuple[int, ...]]) -> str:
    return f"{sum(s[0] for s in sessions):,} bytes sent and {sum(s[1] for s in sessions):,} received"


def show_sessions() -> bool:
    say(f"1. {len(SESSIONS)} TCP sessions over loopback: who, where to, how many bytes, how long")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        text, _ = trace(TCP, [port], lambda: sessions(listener))
    rows = [line.split() for line in text.splitlines() if f" {port} " in line]
    seen = sorted((int(row[-3]), int(row[-2])) for row in rows)
    right = seen == sorted((request, answer) for request, answer, _ in SESSIONS)
    asked, got = totals(SESSIONS), totals(seen)
    print(
        f"""The script made {len(SESSIONS)} sessions, of {asked}.
The table has {len(rows)}, of {got}: {"exactly those" if right else "THAT IS NOT RIGHT"}.
The bytes are from the kernel's own sockets, at one tracepoint, when they close. The histogram groups the
sessions' lives by powers of two: the server waited 1, 2, 4 or 12 ms before it answered."""
    )
    return right


def show_sleeps() -> bool:
    say("2. 200 sleeps of one millisecond: how much longer than asked (microseconds)")

    start = threading.Event()

    def sleeps() -> None:
        start.wait()
        for _ in range(200):
            time.sleep(0.001)

    def run() -> None:
        start.set()
        sleeper.join()

    sleeper = threading.Thread(target=sleeps)
    sleeper.start()
    text, _ = trace(SLEEP, [sleeper.native_id], run)
    total = sum(int(count) for count in re.findall(r"[)\]] +(\d+) \|", text))
    print(
        f"""{total} sleeps were measured, in the kernel, from the beginning of the system call to its end.
Usually some 50 of the microseconds are timer slack, which lets the kernel wake several sleepers at once."""
    )
    return total == 200


def show_flood() -> bool:
    calls = 400_000
    say(f"3. Two processes make {calls:,} system calls each, faster than anybody can print")
    code = f"import os\nfor _ in range({calls}): os.getppid()"
    # Both wait for a line on stdin, so that their ids are known before they start.
    workers = [
        subprocess.Popen([sys.executable, "-S", "-c", "input()\n" + code], stdin=subprocess.PIPE) for _ in range(2)
    ]

    def flood() -> None:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(b"\n")
            worker.stdin.close()
        for worker in workers:
            worker.wait()

    text, complaints = trace(FLOOD, [worker.pid for worker in workers], flood, show=False)
    lines = [line.split() for line in text.splitlines() if line and line[0].isdigit()]
    times = [int(line[0]) for line in lines]
    lost = sum(int(count) for count in re.findall(r"Lost (\d+) events", complaints))
    disorder = sum(later < earlier for earlier, later in pairwise(times))
    counted = re.search(r"@events: (\d+)", text)
    print(
        f"produced {2 * calls:,} = printed {len(lines):,} + reported lost {lost:,}; counted in the kernel: "
        f"{int(counted[1]) if counted else 0:,}; lines out of order: {disorder}\n"
        "What cannot be printed in time is counted where it was dropped and said. Silence means that nothing was lost."
    )
    return len(lines) + lost == 2 * calls and disorder == 0


def show_picture() -> bool:
    say("4. Where a Python program spends its time: a flame graph")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "hot.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(HOT)
        command = [*SONDE, "flame", "-q", "-F", str(RATE), "-o", PICTURE, "-c",
                   shlex.join([sys.executable, "-S", program])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, end="")
        return False
    with open(PICTURE, encoding="utf-8") as file:
        picture = file.read()
    frames = picture.count('class="frame"')
    whole = re.search(r"<title>all: ([\d,]+) sample", picture)
    samples = int(whole[1].replace(",", "")) if whole else 0
    print(f"""{samples} samples in {frames} frames, as wide as their share of the time. boil() adds up squares
and takes most of it, warm() little: each with its file and line. Open it in a browser: click zooms, / searches.""")
    if samples < FEWEST or "boil (hot.py:" not in picture:
        print(f"That is too little, or the program's own function is not among them.\n{done.stderr}", end="")
        return False
    return True


def main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - which may well be what somebody tries first
        sys.exit(f"demo: Sonde needs Python 3.11, this is {sys.version.split()[0]}: make demo PYTHON=python3.11")
    if os.geteuid() != 0:
        sys.exit("demo: tracing the kernel needs root: sudo make demo")
    right = [show_sessions(), show_sleeps(), show_flood(), show_picture()]
    say(("All as expected." if all(right) else "Not as expected: see above.")
        + f" The picture: {os.path.abspath(PICTURE)}")
    print(f"Next: {NEXT}")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
