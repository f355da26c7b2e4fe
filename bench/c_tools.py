#!/usr/bin/env python3
"""Sonde's tools beside bcc's, which are written by hand in C (libbpf-tools), on the same work.

    bench/c_tools.py [--folder FOLDER] [--loader "LOADER --library-path FOLDER"] [--rounds N] [--only opensnoop,...]
                     [--sonde COMMAND] [--kernel 6.12] [--json FILE]

FOLDER has the C tools, as NAME-libbpf or NAME; the loader starts them where they are another system's. The two take
turns. Prints a Markdown table. Kernel time is a ratio, Sonde's to C's: the time of all of the tool's programs while the
work runs, by the kernel's own statistics, whose cost is in both. Then, Sonde's figure and C's: the tool's CPU time from
start to end, and that from the moment before the work; its peak memory, the seconds until it traces, and its rows of
that work. Sonde has started each tool before, as it keeps what it compiles. A tool whose C twin is not there, or does
not run here, is named. Needs root, BTF and a C compiler.

Of many pairs one tool or both trace kernel functions: these run with --kernel, which boots that series of Debian's
kernels under QEMU, with a clock that counts the instructions of the processor. So kernel time is instructions there,
and what else the machine does is not in it; of the other figures only the rows mean something.
FILE keeps what earlier runs have measured of other tools and kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import rows
from run import build, compile_bytecode, run_times, statistics

ROOT = Path(__file__).resolve().parents[1]


class Pair(NamedTuple):
    """``work``: arguments of nswork, once the tools trace. ``row``: the text that marks a row of that work, if the tool
    prints a row for each event. ``functions``: the pair traces kernel functions. In the arguments {binary} is nswork,
    {libc} its C library, {disk} something to read from with a block device below it, {folder} a folder for files,
    {mounted} one whose pages are written back (a guest's other folders are in memory)."""

    name: str
    work: tuple[str, ...]
    row: str = ""
    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    functions: bool = False


PAIRS = (
    Pair("opensnoop", ("openat", "60000"), "/nowhere/"),
    Pair("execsnoop", ("exec", "400"), "true"),
    Pair("exitsnoop", ("exec", "400"), "true "),
    Pair("statsnoop", ("stat", "60000"), "/nowhere/"),
    Pair("killsnoop", ("kill", "40000"), "nswork", theirs=("-k",)),
    Pair("syncsnoop", ("sync", "40000", "{folder}"), "nswork"),
    Pair("mountsnoop", ("mount", "3000"), "nswork"),
    Pair("gethostlatency", ("lookup", "40000"), "nswork", theirs=("-l", "{libc}")),
    Pair("syscount", ("getppid", "600000")),
    Pair("funclatency", ("call", "200000"), ours=("{binary}:f",), theirs=("{binary}:f",)),
    Pair("runqlat", ("switch", "60000")),
    Pair("runqslower", ("switch", "60000")),
    Pair("runqlen", ("getppid", "6000000")),
    Pair("cpudist", ("switch", "60000")),
    Pair("offcputime", ("switch", "60000")),
    Pair("wakeuptime", ("switch", "60000")),
    Pair("tcplife", ("tcp", "4000"), "nswork"),
    Pair("tcpstates", ("tcp", "4000"), "nswork"),
    Pair("softirqs", ("tcp", "10000")),
    Pair("hardirqs", ("disk", "6000", "{disk}")),
    Pair("biolatency", ("disk", "6000", "{disk}")),
    Pair("bitesize", ("disk", "6000", "{disk}")),
    Pair("profile", ("getppid", "6000000")),
    Pair("biosnoop", ("disk", "2000", "{disk}"), "nswork", functions=True),
    Pair("biotop", ("disk", "2000", "{disk}"), functions=True),
    Pair("filelife", ("files", "2000", "{folder}"), "nsfile", functions=True),
    Pair("filetop", ("files", "2000", "{folder}"), functions=True),
    Pair("vfsstat", ("files", "2000", "{folder}"), functions=True),
    Pair("cachestat", ("dirty", "4096", "{mounted}"), functions=True),
    Pair("capable", ("chroot", "4000"), "nswork", functions=True),
    Pair("solisten", ("listen", "2000"), "nswork", functions=True),
    Pair("tcpconnect", ("tcp", "1000"), "nswork", functions=True),
    Pair("tcptop", ("stream", "2000"), functions=True),
    Pair("tcprtt", ("stream", "2000"), functions=True),
    Pair("tcpsynbl", ("tcp", "1000"), functions=True),
    Pair("slabratetop", ("openat", "10000"), functions=True),
    Pair("klockstat", ("switch", "4000"), functions=True),
)


class Figures(NamedTuple):
    """Nanoseconds in the kernel, CPU seconds, those of them from the work on, peak memory in MiB, seconds until the
    programs run, rows of the work (None: it prints no row for each event)."""

    kernel: float
    cpu: float
    worked: float
    memory: float
    start: float
    rows: int | None


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has taken, to the nanosecond, by its clock (clock_getcpuclockid(3))."""
    return time.clock_gettime(~pid << 3 | 2)


def hits(pid: int) -> int:
    """How often the programs of a process have run."""
    return sum(runs for _, runs in run_times(pid).values())


class Bench(NamedTuple):
    """Where a pair runs: the words that stand for places, how long a tool may take to start, and how long from its
    first event until it has attached all of its programs."""

    places: dict[str, str]
    patience: float
    pause: float

    def words(self, arguments: tuple[str, ...]) -> list[str]:
        return [each.format(**self.places) for each in arguments]


@contextmanager
def prepared(guest: bool) -> Iterator[Bench]:
    """nswork, and what it reads and writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binary = build(folder)
        disk = folder / "disk"
        if guest and not subprocess.run(["modprobe", "null_blk"], check=False).returncode:
            disk = Path("/dev/nullb0")  # a guest's own folders are in memory
        else:
            disk.write_bytes(bytes(1 << 20))
            os.sync()
        listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=True).stdout
        libc = next(line.split()[2] for line in listed.splitlines() if "libc.so" in line)
        with mounted(folder / "mounted", guest) as other:
            places = {"binary": str(binary), "libc": libc, "disk": str(disk), "folder": name, "mounted": other}
            yield Bench(places, 100, 3) if guest else Bench(places, 20, 0.3)


@contextmanager
def mounted(folder: Path, guest: bool) -> Iterator[str]:
    """A folder; in a guest it is of an ext4 on a disk in memory."""
    folder.mkdir()
    if not guest:
        yield str(folder)
        return
    for command in (["modprobe", "brd", "rd_nr=1", "rd_size=65536"], ["mkfs.ext4", "-q", "-b", "4096", "/dev/ram0"],
                    ["mount", "/dev/ram0", str(folder)]):
        subprocess.run(command, check=True)
    try:
        yield str(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def end(process: subprocess.Popen[bytes], patience: float) -> Any:
    """Interrupt a tool; what it used. It is killed if it does not end."""
    process.send_signal(signal.SIGINT)
    deadline, pid = time.monotonic() + patience, 0
    while not pid and time.monotonic() < deadline:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        time.sleep(0.002)
    if not pid:
        process.kill()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if not pid:
        raise RuntimeError("does not end when it is interrupted")
    return usage


def measure(command: list[str], pair: Pair, bench: Bench) -> Figures:
    """One run of a tool on the pair's work."""
    binary, (kind, *most) = bench.places["binary"], bench.words(pair.work)
    with tempfile.TemporaryFile() as output:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   env=ENVIRONMENT)
        try:
            while hits(process.pid) < 10:
                if process.poll() is not None or time.perf_counter() - begun > bench.patience:
                    output.seek(0)
                    raise RuntimeError(output.read(500).decode(errors="replace") or "its programs never run")
                subprocess.run([binary, kind, "20", *most[1:]], check=True)
            start = time.perf_counter() - begun
            time.sleep(bench.pause)
            before, started = run_times(process.pid), cpu_seconds(process.pid)
            subprocess.run([binary, kind, *most], check=True)
            after = run_times(process.pid)
            if after == before:
                raise RuntimeError("the work does not run its programs")
            time.sleep(0.3)
        finally:
            if process.returncode is None:
                usage = end(process, bench.patience)
        output.seek(0)
        printed = sum(pair.row.encode() in line for line in output) if pair.row else None
    spent = sum(now - before.get(key, (0, 0))[0] for key, (now, _) in after.items())
    cpu = usage.ru_utime + usage.ru_stime
    return Figures(spent, cpu, cpu - started, usage.ru_maxrss / 1024, start, printed)


def commands(pair: Pair, options: argparse.Namespace, bench: Bench) -> tuple[list[str], list[str]] | None:
    """Sonde's command and the C tool's; None if that is not there."""
    folder = Path(options.folder)
    twins = [file for file in (folder / f"{pair.name}-libbpf", folder / pair.name) if file.exists()]
    if not twins:
        return None
    return ([*shlex.split(options.sonde), pair.name, *bench.words(pair.ours)],
            [*shlex.split(options.loader), str(twins[0]), *bench.words(pair.theirs)])


def compare(pair: Pair, options: argparse.Namespace, bench: Bench) -> dict[str, list[Figures]] | None:
    """The rounds of both sides, in turn."""
    both = commands(pair, options, bench)
    if both is None:
        print(f"{pair.name}: no C tool in {options.folder}", file=sys.stderr)
        return None
    for _ in range(2):  # the first one finds out what the second one imports
        subprocess.run([*both[0], "--dry-run"], env=ENVIRONMENT, capture_output=True, check=False)
    rounds: dict[str, list[Figures]] = {"sonde": [], "c": []}
    for _ in range(options.rounds):
        for side, command in zip(rounds, both, strict=True):
            try:
                rounds[side].append(measure(command, pair, bench))
            except RuntimeError as error:
                print(f"{pair.name}, {side}: {error}", file=sys.stderr)
                return None
    return rounds


def run_in_guest(options: argparse.Namespace) -> int:
    """This program in a guest; its figures are added to those in the file."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "figures.json")
        passed = [f"--{name}={getattr(options, name)}"
                  for name in ("folder", "loader", "sonde", "only") if getattr(options, name)]
        guest = [str(ROOT / "tests" / "vm" / "vmrun.py"), "--kernel", options.kernel, "--timeout", "3000",
                 "--count-instructions", "--rw", folder]
        status = subprocess.run([sys.executable, *guest, "--", sys.executable, __file__, "--guest", options.kernel,
                                 "--json", str(found), f"--rounds={options.rounds}", *passed], check=False).returncode
        if options.json and found.exists():
            keep(Path(options.json), options.kernel, json.loads(found.read_text())[options.kernel])
        return status


def keep(path: Path, kernel: str, measured: dict[str, Any]) -> None:
    """Put what was measured in the place of what was known of these tools on this kernel; in the order of the pairs."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    all_of_it = {**known.get(kernel, {}), **measured}
    known[kernel] = {pair.name: all_of_it[pair.name] for pair in PAIRS if pair.name in all_of_it}
    path.write_text(json.dumps(known, indent=1) + "\n")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="/usr/sbin")
    parser.add_argument("--loader", default="")
    parser.add_argument("--sonde", default=f"{sys.executable} -m sonde")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--kernel", default="", metavar="SERIES")
    parser.add_argument("--guest", default="", help=argparse.SUPPRESS)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.kernel:
        return run_in_guest(options)
    only = options.only.split(",") if options.only else []
    chosen = [pair for pair in PAIRS if (pair.name in only if only else pair.functions == bool(options.guest))]
    compile_bytecode()
    measured: dict[str, Any] = {}
    with prepared(bool(options.guest)) as bench, statistics():
        for pair in chosen:
            rounds = compare(pair, options, bench)
            if rounds is not None:
                measured[pair.name] = {side: [figures._asdict() for figures in all] for side, all in rounds.items()}
                print(rows.c_tools_row(pair.name, measured[pair.name]), file=sys.stderr)
                if options.json:
                    keep(Path(options.json), options.guest or "here", measured)
    print(rows.c_tools_table(measured) if measured else "nothing was measured")
    return 0 if measured else 1


if __name__ == "__main__":
    sys.exit(main())
