#!/usr/bin/env python3
"""How cost grows: with clauses, keys, CPUs and elements. Writes docs/performance.md and its plots.

    bench/growth.py [--peer BPFTRACE] [--rounds N] [--folder docs]

Needs root, BTF and a C compiler. Each point is the best of its rounds, and the tracers take turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import rows
import userspace
from run import Peer, build, peers, run_times, statistics, tracing
from scripts import GETPPID

EVENTS = 100_000
COLOURS = ("#1f6fb4", "#c8591b")
Points = dict[str, list[tuple[float, float]]]  # of each tracer: (x, y)


def program_time(peer: Peer, program: str, load: Callable[[], None], binary: Path, rounds: int) -> float:
    """Nanoseconds that all programs of a script together take for an event: the best round."""
    best = float("inf")
    with tracing(peer, program, [str(binary), "getppid", "20"]) as process:
        for _ in range(rounds):
            before = run_times(process.pid)
            load()
            after = run_times(process.pid)
            gained = [(after[i][0] - before.get(i, (0, 0))[0], after[i][1] - before.get(i, (0, 0))[1]) for i in after]
            events = max(runs for _, runs in gained)
            best = min(best, sum(spent for spent, _ in gained) / events)
    return best


def loads(binary: Path, processes: int) -> Callable[[], None]:
    """So many processes that each make system calls at once."""
    def run() -> None:
        started = [subprocess.Popen([str(binary), "getppid", str(EVENTS)]) for _ in range(processes)]
        for process in started:
            process.wait()
    return run


def clause(number: int) -> str:
    return f'{GETPPID} /comm == "nswork"/ {{ @c{number} = count(); }} '


def measure(tracers: Sequence[Peer], binary: Path, rounds: int) -> dict[str, Points]:
    """The series of each plot."""
    one = loads(binary, 1)
    found: dict[str, Points] = {}

    def series(name: str, at: Sequence[int], script: Callable[[int], str],
               load: Callable[[int], Callable[[], None]] = lambda _: one) -> None:
        found[name] = {peer.name: [] for peer in tracers}
        for x in at:
            for peer in tracers:
                found[name][peer.name].append((x, program_time(peer, script(x), load(x), binary, rounds)))

    with statistics():
        series("clauses", (1, 2, 4, 8, 16, 32), lambda n: "".join(map(clause, range(n))))
        series("keys", (1, 16, 256, 4096, 65536), lambda n: f'config = {{ max_map_keys = {max(n, 16)} }} {GETPPID} '
               f'/comm == "nswork"/ {{ @[nsecs % {n}] = count(); }}')
        cpus = range(1, (os.cpu_count() or 1) + 1)
        for name, action in (("own", "@ = count();"), ("shared", "@[1] = nsecs;")):
            series(f"cpus-{name}", cpus, lambda n, action=action: f'{GETPPID} /comm == "nswork"/ {{ {action} }}',
                   lambda n: loads(binary, n))
    found["elements"] = {peer.name: [] for peer in tracers}
    for count in (1_000, 10_000, 100_000):
        for peer in tracers:
            ended = [userspace.keys(peer.command, binary, count)[f"{count:,} keys: its cpu s"] for _ in range(rounds)]
            found["elements"][peer.name].append((count, 1000 * min(ended)))
    return found


def draw_plot(points: Points, x_title: str, y_title: str) -> str:
    """An SVG of lines over a logarithmic x, from 0 up."""
    width, height, left, low = 640, 320, 60, 40
    xs = sorted({x for line in points.values() for x, _ in line})
    top = max(y for line in points.values() for _, y in line) * 1.1 or 1
    place = {x: left + (width - left - 20) * (i / max(len(xs) - 1, 1)) for i, x in enumerate(xs)}
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>']
    for step in range(5):
        y = height - low - (height - low - 30) * step / 4
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>'
                     f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{top * step / 4:.0f}</text>')
    parts += [f'<text x="{at:.0f}" y="{height - low + 16}" text-anchor="middle">{x:,g}</text>'
              for x, at in place.items()]
    parts.append(f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">{x_title}</text>'
                 f'<text x="{left}" y="16">{y_title}</text>')
    for number, (name, line) in enumerate(points.items()):
        at = [(place[x], height - low - (height - low - 30) * y / top) for x, y in line]
        parts.append(f'<polyline fill="none" stroke="{COLOURS[number % 2]}" stroke-width="2" '
                     f'points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in at)}"/>')
        parts.append(f'<text x="{width - 20}" y="{16 + 14 * number}" text-anchor="end" fill="{COLOURS[number % 2]}">'
                     f'{name}</text>')
    return "\n".join(parts) + "\n</svg>\n"


def table(points: Points, x_title: str) -> str:
    names, xs = list(points), [x for x, _ in next(iter(points.values()))]
    rows = [f"| {x_title} | {' | '.join(names)} | ratio |", "|---" * (len(names) + 2) + "|"]
    for i, x in enumerate(xs):
        values = [points[name][i][1] for name in names]
        ratio = f"{values[0] / values[1]:.2f}" if len(values) > 1 and values[1] else "-"
        rows.append(f"| {x:,g} | {' | '.join(f'{value:.0f}' for value in values)} | {ratio} |")
    return "\n".join(rows)


TITLES = {
    "clauses": ("With clauses", "clauses of one event", "ns per event", """
Sonde compiles all clauses that fire at one event into one program: the event itself, the test of the system call's
number and the code that the clauses share run once."""),
    "keys": ("With keys", "keys of @[n] = count()", "ns per event", """
The cost of a hash is that of accessing its elements' memory: while they fit into the cache, more keys cost little."""),
    "cpus-own": ("With CPUs, each with memory of its own", "processes at once", "ns per event", """
`@ = count()` has a slot for each CPU, so CPUs never wait for one another."""),
    "cpus-shared": ("With CPUs, and one element for all", "processes at once", "ns per event", """
`@[1] = nsecs` is one element that all CPUs write: its cache line and its bucket's lock move between them. The cost on
each CPU grows with the number of CPUs that write at the same time, in any tracer. On many CPUs, give such a map `cpu`
as a key, or use an aggregate."""),
    "elements": ("With elements that are printed", "keys", "ms of CPU from SIGINT to the end", """
Reading and printing a map is linear in its keys; sorting them is not."""),
}


def write_page(found: dict[str, Points], folder: Path, versions: str) -> None:
    """The page, and a plot for each series beside it."""
    images = folder / "images"
    uname = os.uname()
    text = [INTRODUCTION.format(versions=versions, kernel=uname.release, machine=uname.machine, cpus=os.cpu_count()),
            rows.write_section(), COMPONENTS]
    for name, points in found.items():
        title, x_title, y_title, words = TITLES[name]
        (images / f"growth-{name}.svg").write_text(draw_plot(points, x_title, y_title))
        text.append(f"## {title}\n{words}\n\n![{title}](images/growth-{name}.svg)\n\n{table(points, x_title)}\n")
    (folder / "performance.md").write_text("\n".join([*text, EXPECTATIONS]))


INTRODUCTION = """# What tracing costs, and how that grows

`bench/growth.py` writes this page from one run of {versions} side by side: Linux {kernel}, {machine}, {cpus} CPUs, the
best of a few rounds each. Times differ between machines, so compare the ratios and the shapes of the curves.
Nanoseconds per event are the kernel's own figure (`kernel.bpf_stats_enabled`), of which its statistics themselves take
about 50. `bench/run.py` measures the single figures.
"""

COMPONENTS = """## What an event is made of

These figures were measured with hand-written programs: each is what a call adds to a program, in a loop unless stated
otherwise. A script cannot cost less than the helpers that it needs.

| what | ns |
|---|---|
| an empty program with the kernel's statistics | 46 |
| a program's first call of any helper, and each further one | 18, 6 |
| the current task by a load (Linux 6.10, x86_64), the CPU's number | 2, 0.4 |
| `nsecs`: in a loop, and as the only call of a program | 38, 63 |
| a hash: finding an element, updating one, making and deleting one | 26, 85, 165 |
| a per-CPU hash: finding an element, with a key of 4 to 24 bytes, of 64 | 26 to 32, 38 |
| an atomic addition to memory | 2 |
| `kstack` of a system call: one frame, and all of them | 930, 1,600 |
| `ustack`, 127 frames at most | 610 |

So some costs cannot be reduced. With a stack as a key, nearly all of the time is the kernel's unwinder (`kstack`: 0.75 of bpftrace's time).
With `@ = hist(nsecs)` it is mostly the clock, in any tracer (0.55). With `uprobe:BIN:f { @[str(arg0)] = hist(arg1); }` half of it reads the
string from user memory, 105 ns (0.27). Sonde removes the other costs:

| replaced | by | where | ns |
|---|---|---|---|
| making, finding and deleting an element of a hash | a slot for each thread (`@start[tid]`) | `lower/maps/threads.py` | 190 to 15 |
| finding the element of an aggregate | a table per CPU, for the keys that the CPU saw first | `lower/maps/hot.py` | 50 to 5 |
| helper calls for the current task, its `pid`, `tid`, `comm` | loads from the kernel's own memory | `kernel/tasks/current_task.py` | 18 to 2 |

`@[1] = nsecs` takes 256 ns (bpftrace: 334 ns). By this table 46, 63 and 85 ns of them are the empty program, the clock and the update of an
element; the rest finds the task and compares its `comm`. Looking the element up and writing to it in place (26 ns) would save most of the
update, but would not be correct: if user space deletes the element meanwhile, its memory may already belong to another key.
With `@[n] = count()` over `nsecs % n` the clock is the cost that remains.

Task storage (`BPF_MAP_TYPE_TASK_STORAGE`) is not suitable for `@start[tid]`: it is freed when the thread ends, while a map's key stays until
the script deletes it, and can be printed, counted and cleared until then.
"""  # noqa: E501

EXPECTATIONS = """## On many CPUs

No machine with more CPUs was available. The costs on 64 CPUs follow from what the CPUs share:

| what | shared by the CPUs | so with 64 CPUs |
|---|---|---|
| maps without keys, `count()` and other single numbers with keys, and `hist()` up to 16 CPUs | nothing while programs run | as with one; an element read at the end has 64 slots |
| `hist()` and `lhist()` of many keys, beyond 16 CPUs | a copy of a value by each group of CPUs; there are 16 copies, or fewer of more than 4 KB each | the cache lines of buckets that CPUs of a group count in at once |
| plain elements that several CPUs write | the element's cache line, its bucket's lock | slower with each CPU that writes at once |
| `printf()` and everything printed | one ring, one lock, one reader | the reader is as fast as one CPU; events beyond that are counted as lost: filter, count, or enlarge the ring |
| the order of what is printed | nothing more | sorted as it is read, within a window of 20 ms |
| `--budget` | one word, read | a purse for each CPU, filled sixteen runs at a time |

Memory grows by the same amount with each possible CPU, and the code does not grow with them beyond 64
(`tests/unit/compiler/test_many_cpus.py` compiles for 2, 64 and 256 CPUs). These are the bytes of the maps for each CPU:

| script | bytes for each possible CPU |
|---|---|
| `printf()`, `@start[tid] = nsecs` | 8; the one ring has 64 MiB at most, on any number of CPUs |
| `@ = count()` | 72 |
| `@ = hist(nsecs)` | 584 |
| `@[comm] = count()` | 41 KB, mostly the table of the keys that the CPU saw first |
| `@[comm] = hist(nsecs)` | 2.2 MB, when all 4,096 keys are there; beyond 16 CPUs 35 MB in all |

`bench/cpus.py` boots guests (Debian's Linux 6.1) in which two CPUs are there and so many are possible. These are MiB of
the kernel's memory while the script runs and its map has 256 keys, on 29 November:

| script | 2 | 64 | 256 | 256, before CPUs shared copies |
|---|---|---|---|---|
| `printf()` (without the ring, which is mapped as it fills) | 0.3 | 0.3 | 0.3 | unchanged |
| `@ = hist(n)` | 0.0 | 0.1 | 0.2 | unchanged |
| `@[n] = count()` | 0.5 | 3.0 | 10.9 | unchanged |
| `@[n] = hist(n)` | 8.6 | 5.1 | 8.1 | 128 |
| `@[n] = hist(n, 5)` | 8.2 | 20.1 | 32.1 | 44, and 27 of 1,024 calls counted |
| strings of 4 KiB, in scratch memory | 0.8 | 3.9 | 14.2 | unchanged |

All 1,024 calls were counted in each guest by each script. Times are comparable with
`bench/cpus.py --count-instructions`, where the guest has one CPU and its clock goes by that one's instructions, 1 ns
each (29 November, the better of two rounds). A start with 256 possible CPUs takes 0.38 s for `printf()`, as with 2
(0.37 s), and 0.43 s for `@[n] = count()`, whose tables are larger (0.40 s). From the end of the work to Sonde's end it
takes:

| script | 2 | 64 | 256 |
|---|---|---|---|
| `@[n] = count()` | 0.04 s | 0.06 s | 0.13 s |
| `@[n] = hist(n)` | 0.07 s | 0.10 s | 0.10 s |
| `@[n] = hist(n, 5)` | 0.45 s | 0.52 s | 0.52 s |
| `@[n] = tseries(1, 1h, 10)` | 0.07 s | 0.13 s | 0.27 s |

Before parts of CPUs that have nothing were skipped, the last one took 1.6 s with 256 possible CPUs.

`-v` says what the CPUs have each for itself and what they share.
"""  # noqa: E501


def main() -> int:
    parser = argparse.ArgumentParser(description="How cost grows.")
    parser.add_argument("--peer", action="append", default=[], metavar="BPFTRACE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent.parent / "docs")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: needs root")
    tracers = peers(chosen.peer)[:2]
    with tempfile.TemporaryDirectory() as folder:
        found = measure(tracers, build(Path(folder)), chosen.rounds)
    write_page(found, chosen.folder, " and ".join(peer.name for peer in tracers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
