#!/usr/bin/env python3
"""Speed, measured as ratios in one run: Sonde beside bpftrace, where it is installed.

    bench/run.py [--quick] [--rounds N] [--only startup,four,kernel,drain,flood,ring,minute,keys,attach,clauses,own,
                 budget] [--sonde COMMAND] [--peer BPFTRACE]... [--json FILE]

Prints Markdown tables. Needs root, BTF, a C compiler and GNU time. Every figure is the best of its rounds, and the two
tracers take turns, so that a slow minute of the machine hits both.

The target is bpftrace 0.26. A peer that is as new (--peer, where Debian's own is older) is measured against directly.
If there is none, for each script the published figure of 0.26 is carried to this machine by the older peer's own: what
0.26 needs above the empty program is scaled by (measured peer above empty) / (published 0.17 above empty), or by the
geometric mean of these factors where the script has no published figure of 0.17. That overstates 0.26 where the older
version does the same work in a slower way, and understates it where most of the work is the kernel's own.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import rows
import userspace
from scripts import ANCHORS, FOUR_PROBES, GETPPID, SCRIPTS, Script

HERE = Path(__file__).resolve().parent
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
TARGET = (0, 26)
PUBLISHED_EMPTY = {"old": 53.0, "new": 52.0}


# --- the machine ------------------------------------------------------------------------------------------


class Peer:
    """A tracer's command line."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name, self.command = name, list(command)
        self.version = tuple(map(int, re.findall(r"\d+", name)))

    def run(self, program: str) -> list[str]:
        return [*self.command, "-e", program]


def peers(others: Sequence[str], own: Path | None = None) -> list[Peer]:
    """Sonde, by the command ``own`` or of this interpreter, and every bpftrace of ``others``, or the one that is
    installed."""
    script = own or Path(sys.executable).with_name("sonde")
    found = [Peer("sonde", [str(script)] if script.exists() else [sys.executable, "-m", "sonde"])]
    for command in others or filter(None, [shutil.which("bpftrace")]):
        version = subprocess.run([command, "-V"], capture_output=True, text=True, check=True).stdout.strip()
        found.append(Peer(version.replace("bpftrace v", "bpftrace "), [command]))
    return found


def build(folder: Path) -> Path:
    """Compile the workload."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        sys.exit("bench: needs a C compiler (apt-get install gcc libc6-dev)")
    binary = folder / "nswork"
    subprocess.run([compiler, "-O2", "-g", "-pthread", "-o", str(binary), str(HERE / "nswork.c")], check=True)
    return binary


@contextlib.contextmanager
def statistics() -> Iterator[None]:
    """The kernel times its BPF programs meanwhile; the setting is put back."""
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        yield
    finally:
        STATS.write_text(before)


def run_times(pid: int) -> dict[int, tuple[int, int]]:
    """Program id -> (run time in ns, runs) of the BPF programs that process ``pid`` holds open."""
    found = {}
    for entry in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            text = Path(f"/proc/{pid}/fdinfo/{entry}").read_text()
        except OSError:
            continue
        fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if "run_cnt" in fields:
            found[int(fields["prog_id"])] = (int(fields["run_time_ns"]), int(fields["run_cnt"]))
    return found


class Done:
    """A process that has ended: wall and CPU seconds, peak memory in MiB."""

    def __init__(self, command: Sequence[str]) -> None:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        complaint = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        self.wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)[:200]}: {complaint.decode(errors='replace')}")
        self.cpu = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss / 1024


@contextlib.contextmanager
def tracing(
    peer: Peer, program: str, work: Sequence[str], stdout: Any = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """``peer`` running ``program``; entered when a little of ``work`` is seen to run its programs."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(peer.run(program), stdin=subprocess.DEVNULL, stdout=stdout, stderr=errors)
        try:
            await_hits(process, work, errors)
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def await_hits(process: subprocess.Popen[bytes], work: Sequence[str], errors: Any) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if process.poll() is not None:
            errors.seek(0)
            raise RuntimeError(f"the tracer ended: {errors.read().decode(errors='replace')}")
        before = run_times(process.pid)
        subprocess.run(work, check=True)
        after = run_times(process.pid)
        if any(after[i][1] - before.get(i, (0, 0))[1] >= 10 for i in after):
            time.sleep(0.2)
            return
        time.sleep(0.05)
    raise RuntimeError("the probe was never hit")


# --- the figures ------------------------------------------------------------------------------------------


def four_probes(peer: Peer, rounds: int) -> dict[str, float]:
    return {"four probes wall s": min(Done(peer.run(FOUR_PROBES)).wall for _ in range(rounds))}


def each_event(spent: int, runs: int, events: int, floor: float) -> float:
    """Nanoseconds for one of ``events`` (0: unknown). A program that serves every system call also runs for those that
    are not asked for, of whoever makes them: such runs are counted at what the empty program takes."""
    if not 0 < events < runs:
        return spent / runs
    return (spent - (runs - events) * floor) / events


def per_event(peer: Peer, script: Script, binary: Path, rounds: int, floor: float) -> float:
    """Nanoseconds that the tracer's programs take for an event: the best round; several programs: their mean."""
    program = script.text.replace("BIN", str(binary))
    command = [str(binary), *script.workload]
    few = [str(binary), script.workload[0], "20"]
    best = math.inf
    with tracing(peer, program, few) as process:
        for _ in range(rounds):
            before = run_times(process.pid)
            subprocess.run(command, check=True)
            after = run_times(process.pid)
            deltas = [(after[i][0] - before.get(i, (0, 0))[0], after[i][1] - before.get(i, (0, 0))[1]) for i in after]
            most = max(runs for _, runs in deltas)
            each = [each_event(spent, runs, script.events, floor) for spent, runs in deltas if runs > most / 2]
            best = min(best, sum(each) / len(each))
            time.sleep(script.pause)
    return best


def drain(peer: Peer, binary: Path, events: int) -> dict[str, float]:
    """CPU of the tracer from the first of ``events`` events to its exit, per 300,000; and how many lines it printed."""
    program = f'{GETPPID} /comm == "nswork"/ {{ printf("%d %s %llu %d\\n", pid, comm, nsecs, cpu); }}'
    with tempfile.TemporaryFile() as out:
        with tracing(peer, program, [str(binary), "getppid", "20"], out) as process:
            time.sleep(0.3)
            lines_before = count_lines(out)
            begun = userspace.cpu_seconds(process.pid)
            subprocess.run([str(binary), "burst", str(events), "500", "2500"], check=True)
            settle(out)
            spent = userspace.cpu_seconds(process.pid) - begun
        lines = count_lines(out) - lines_before
    return {"drain cpu s": spent * 300_000 / events, "drain printed %": 100 * lines / events}


def count_lines(file: Any) -> int:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).count(b" nswork ")


def settle(file: Any) -> None:
    """Wait until nothing more is written."""
    size = -1
    while size != os.fstat(file.fileno()).st_size:
        size = os.fstat(file.fileno()).st_size
        time.sleep(0.5)


def attach_many(peer: Peer) -> dict[str, float]:
    events = sorted(e.name for e in Path("/sys/kernel/tracing/events/syscalls").glob("sys_enter_*"))[:129]
    probes = ",".join(f"tracepoint:syscalls:{event}" for event in events)
    return {"129 tracepoints wall s": Done(peer.run(f"{probes} {{ @ = count(); }} interval:s:1 {{ exit(); }}")).wall}


def attach_clauses(peer: Peer) -> dict[str, float]:
    """300 clauses, 30 at each of ten system calls: compiled for the first time, attached, detached."""
    calls = "getppid getpgid getsid getuid getgid alarm umask getitimer getgroups getpriority".split()
    program = "".join(f'tracepoint:syscalls:sys_enter_{calls[i % 10]} /comm == "nswork"/ {{ @c{i} = count(); }} '
                      for i in range(300))
    with tempfile.TemporaryDirectory() as folder:
        done = Done(["env", f"XDG_CACHE_HOME={folder}", *peer.run(program + "interval:ms:10 { exit(); }")])
    return {"300 clauses wall s": done.wall}


def call_time(binary: Path, chunks: int) -> float:
    return float(subprocess.run([str(binary), "time", str(chunks)], capture_output=True, text=True, check=True).stdout)


def own_time(peer: Peer, binary: Path, chunks: int) -> dict[str, float]:
    """A getppid call's time above untraced, traced by an empty probe; untraced before and after."""
    before = call_time(binary, chunks)
    # Statistics only tell that the probe is attached; they cost time and are off while calls are timed.
    with statistics():
        tracer = tracing(peer, f"{GETPPID} {{ }}", [str(binary), "getppid", "20"])
        tracer.__enter__()
    try:
        traced = call_time(binary, chunks)
    finally:
        tracer.__exit__(None, None, None)
    return {"empty probe ns": traced - min(before, call_time(binary, chunks))}


# --- the tables -------------------------------------------------------------------------------------------


def budget_cost(peer: Peer, binary: Path, rounds: int) -> dict[str, float]:
    """Percent of one CPU that a flooded workload loses to a budget of 2%; bpftrace has none. Of the mean after the
    first second the standard error too: a machine that does something else makes it large."""
    if peer.name != "sonde":
        return {}
    import budget
    first, later = budget.lost(*budget.measure(binary, budget.options(["--rounds", str(rounds)])))
    error = stdev(later) / len(later) ** 0.5 if len(later) > 1 else math.nan
    return {"budget of 2%: % of a CPU lost, first second": 100 * mean(first),
            "budget of 2%: % of a CPU lost after it": 100 * mean(later), "budget of 2%: ± points": 100 * error}


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else math.nan


def heading(*titles: str) -> None:
    print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")


def floor_of(times: dict[str, dict[str, float]]) -> float:
    """What the empty program takes: the better tracer's, so that nobody's own overhead is called free."""
    return min(t for t in times[SCRIPTS[0].name].values())


def above(value: float, floor: float) -> float:
    return max(value - floor, 1.0)


def estimates(times: dict[str, dict[str, float]], others: Sequence[Peer]) -> dict[str, float]:
    """Script -> ns above the empty program that bpftrace 0.26 would need here (see the module's text); empty if a peer
    is as new as that."""
    if any(peer.version >= TARGET for peer in others):
        return {}
    floor = floor_of(times)
    factors = {}
    for script in SCRIPTS[1:]:
        for peer in others:
            if script.old is not None and peer.name in times.get(script.name, {}):
                factors[script.name] = above(times[script.name][peer.name], floor) / (
                    script.old - PUBLISHED_EMPTY["old"])
    usual = geometric_mean(list(factors.values())) if factors else 1.0
    return {
        s.name: (s.new - PUBLISHED_EMPTY["new"]) * factors.get(s.name, usual) for s in SCRIPTS[1:] if s.new is not None
    }


def kernel_table(times: dict[str, dict[str, float]], others: Sequence[Peer]) -> dict[str, float]:
    """Print the scripts' table; returns the summary figures."""
    floor = floor_of(times)
    guess = estimates(times, others)
    columns = {peer.name: {s: row[peer.name] for s, row in times.items() if peer.name in row} for peer in others}
    if guess:
        columns["0.26, estimated"] = {name: floor + value for name, value in guess.items()}
    print(f"\n## Kernel time per event, ns (the empty program takes {floor:.0f}: above it are the ratios)\n")
    heading("script", "sonde", *[title for name in columns for title in (name, "ratio")])
    ratios: dict[str, list[float]] = {name: [] for name in columns}
    for script in SCRIPTS:
        row = times.get(script.name, {})
        if "sonde" not in row:
            continue
        cells = [f"`{script.name}`", f"{row['sonde']:.0f}"]
        for name, theirs in columns.items():
            cells.append(f"{theirs[script.name]:.0f}" if script.name in theirs else "-")
            if script is SCRIPTS[0] or script.name not in theirs:
                cells.append("")
                continue
            ratios[name].append(above(row["sonde"], floor) / above(theirs[script.name], floor))
            cells.append(f"{ratios[name][-1]:.2f}")
        print("| " + " | ".join(cells) + " |")
    print("\nThe target for 0.26 is a geometric mean of at most 0.8, and none above 1.1.")
    summary = {}
    for name, found in ratios.items():
        mean, worst = geometric_mean(found), max(found, default=math.nan)
        print(f"To {name}: geometric mean {mean:.2f}, worst {worst:.2f}.")
        summary |= {f"kernel ratio to {name}": mean, f"kernel worst ratio to {name}": worst}
    return summary


def figures_table(figures: dict[str, dict[str, float]], others: Sequence[Peer]) -> None:
    print("\n## From outside\n")
    heading("figure", "sonde", *[title for peer in others for title in (peer.name, "ratio")], "0.26 where published",
            "target")
    keys = [key for key in ANCHORS if key in figures["sonde"]]
    for key in keys + [key for key in figures["sonde"] if key not in ANCHORS]:
        ours = figures["sonde"][key]
        cells = [key, f"{ours:.3g}"]
        for peer in others:
            theirs = figures[peer.name].get(key)
            cells += ["-" if theirs is None else f"{theirs:.3g}", f"{ours / theirs:.2f}" if theirs else "-"]
        _, new, target = ANCHORS.get(key, (None, None, None))
        cells += ["-" if new is None else f"{new:g}", "-" if target is None else f"{target:g}"]
        print("| " + " | ".join(cells) + " |")


def complain(peer: Peer, what: str, error: Exception) -> None:
    """A figure is missing: say why, by the last line of what the tracer said."""
    print(f"bench: {peer.name}: {what}: {str(error).strip().splitlines()[-1][:200]}", file=sys.stderr)


def kernel_times(tracers: list[Peer], binary: Path, rounds: int) -> dict[str, dict[str, float]]:
    times: dict[str, dict[str, float]] = {}
    with statistics():
        for script in SCRIPTS:
            row = times[script.name] = {}
            for peer in tracers * 2:
                try:
                    floor = times[SCRIPTS[0].name].get(peer.name, 0.0)
                    best = per_event(peer, script, binary, rounds, floor)
                except (RuntimeError, OSError) as error:
                    complain(peer, script.name, error)
                    continue
                row[peer.name] = min(best, row.get(peer.name, math.inf))
    return times


def compile_bytecode() -> None:
    """Have Python's bytecode of all modules, as an installed package has: where PYTHONDONTWRITEBYTECODE is set, those
    that were edited would be compiled at each start."""
    compileall.compile_dir(HERE.parent / "src" / "sonde", quiet=1)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and events")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of each figure")
    parser.add_argument("--only", default="startup,four,kernel,drain,flood,ring,minute,keys,attach,clauses,own,budget",
                        help="comma list of figures")
    parser.add_argument("--sonde", type=Path, metavar="COMMAND", help="an installed one, not that of this interpreter")
    parser.add_argument("--peer", action="append", default=[], metavar="BPFTRACE",
                        help="a bpftrace to compare with; may be repeated (default: the one that is installed)")
    parser.add_argument("--json", type=Path, help="add the figures to this file")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    if os.geteuid() != 0:
        sys.exit("bench: needs root")
    compile_bytecode()
    wanted = set(chosen.only.split(","))
    rounds = chosen.rounds or (3 if chosen.quick else 8)
    tracers = peers(chosen.peer, chosen.sonde)
    names = [peer.name for peer in tracers]
    figures: dict[str, dict[str, float]] = {name: {} for name in names}
    times: dict[str, dict[str, float]] = {}
    uname = os.uname()
    print(f"# {' beside '.join(names)}\n\nLinux {uname.release}, {uname.machine}, {os.cpu_count()} CPUs.")
    with tempfile.TemporaryDirectory() as folder:
        binary = build(Path(folder))
        steps = [
            ("startup", lambda peer: userspace.startup(peer.command, rounds * 2)),
            ("four", lambda peer: four_probes(peer, rounds)),
            ("drain", lambda peer: drain(peer, binary, 60_000 if chosen.quick else 300_000)),
            ("flood", lambda peer: userspace.flood(peer.command, binary, 400_000 if chosen.quick else 2_000_000)),
            ("keys", lambda peer: userspace.keys(peer.command, binary, 60_000)),
            ("keys", lambda peer: {} if chosen.quick else userspace.keys(peer.command, binary, 1_000_000)),
            ("ring", lambda peer: {} if peer.name != "sonde" else userspace.flood(
                peer.command, binary, 400_000 if chosen.quick else 2_000_000, 256)),
            *[("minute", lambda peer, form=form: {} if peer.name != "sonde" and form != "text" else userspace.minute(
                peer.command, binary, form, 5 if chosen.quick else 60)) for form in userspace.FORMS],
            ("attach", attach_many),
            ("clauses", attach_clauses),
            ("own", lambda peer: own_time(peer, binary, 20 if chosen.quick else 100)),
            ("budget", lambda peer: budget_cost(peer, binary, 8 if chosen.quick else 16)),
        ]
        for name, step in steps:
            for peer in tracers if name in wanted else []:
                try:
                    with statistics() if name == "drain" else contextlib.nullcontext():
                        figures[peer.name].update(step(peer))
                except (RuntimeError, OSError) as error:
                    complain(peer, name, error)
        figures_table(figures, tracers[1:])
        if "kernel" in wanted:
            times = kernel_times(tracers, binary, rounds)
            if "sonde" in times[SCRIPTS[0].name]:
                figures["sonde"].update(kernel_table(times, tracers[1:]))
    if chosen.json:
        rows.keep_figures(figures, times, chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
