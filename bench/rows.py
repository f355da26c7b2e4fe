#!/usr/bin/env python3
"""The rows of the table in docs/performance.md: what is measured, the goal, and what stands in its way.

    bench/rows.py

``bench/run.py --json bench/figures.json`` keeps what it measures there, piece by piece; ``bench/figures-slow.json`` has
what another machine once measured. This puts the table made of both in the place of the page's; ``bench/growth.py``,
which writes the whole page, takes it too.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple

FIGURES = [Path(__file__).resolve().parent / name for name in ("figures.json", "figures-slow.json")]
PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
C_TOOLS = Path(__file__).resolve().parent / "figures-c-tools.json"
TITLE, NEXT = "## Row by row\n", "## What an event is made of\n"
INTRODUCTION = """
`bench/run.py --peer BPFTRACE --only PIECE --json bench/figures.json` stores the figures, and `bench/rows.py` makes the
table. Each row comes from one run in which the two tracers took turns. Sonde is installed from the wheel in its own
environment, as pipx installs it (`make bench` does this). Ratios of nanoseconds compare the time beyond that of the
empty program.

Two machines were measured, both with 2 CPUs:

1. {}
2. {}

The two machines differ most in the ratios of kernel time, because Sonde mainly saves calls of helpers: a call takes
about 2 ns on the first machine, and 6 to 18 ns on the second. The rest is the clock (20 and 38 ns per reading) and
memory accesses, which cost every tracer the same.

"""


BESIDE_C = """
## Beside tools in C

`bench/c_tools.py --json bench/figures-c-tools.json` runs tools of Sonde and bcc's of the same name, which are written
by hand in C (libbpf-tools), on the same work, in turn. Kernel time is Sonde's as a part of C's, the median of the
pairs, by the kernel's statistics, whose cost is in both. The other columns have Sonde's figure and C's; CPU time is of
the whole run and from the moment before the work on, memory what the process shows at most. The kernel's memory for
maps and rings comes on top: Sonde's ring has up to 64 MiB (`perf_rb_pages`), of which the process maps 2 MiB at a time.
Where the C tool prints fewer rows than there were events, it lost them, and took less time. Sonde has started each tool
before. All rows are of one run of two rounds (`--rounds 2`), those of softirqs and profile of one of eight, on
29 November, on a machine that did nothing else.

"""


GUEST = "6.12"
BESIDE_C_IN_GUEST = """
Of these pairs one tool or both trace kernel functions, which this machine's kernel does not allow, so they ran on Linux
6.12 under QEMU's emulation, with a clock that counts the processor's instructions as nanoseconds
(`bench/c_tools.py --kernel 6.12 --rounds 2 --json bench/figures-c-tools.json`): kernel time is here what the tool's
programs and the helpers that they call execute, and what else the machine did is not in it. The statistics themselves
take some 70 instructions of each run.

"""


IN_GUEST_TOO = """
Each tool traces what it traces: C's klockstat traces other locks too, and its vfsstat more functions. Its filelife lost
nearly all rows, and took less time for that. Its cachestat asks for functions that Linux 6.12 seldom calls: of 2,000
files written and read it counted three reads. So here pages are written to again and again, which both tools see.
filetop stays above C's: each of 2,000 new files takes an element in four maps (calls and bytes, of reads and of
writes), with keys of 96 bytes, where C's tool has one element with all numbers.
"""


SINCE = """
A sample took profile 16 to 21 µs, and the one in C 14 to 18, in three runs in turn. The kernel's walks over the two
stacks are nearly all of it: with neither a sample takes 2 (`profile:hz:49 /pid != 0/ { @[comm, pid] = count(); }`).
So its ratio is near 1.0, and its pairs, of some hundred samples each, lie on both sides.

From the work on, opensnoop, statsnoop, killsnoop, syncsnoop, mountsnoop and gethostlatency take less CPU time than
those in C, the others more. Sonde reads records each 21 ms where few come; before, when it read them each 5 ms or more
often, syncsnoop took 1.913 s for 40,010 rows, execsnoop 0.064 and exitsnoop 0.042 s. What is left for a few rows is
Python's: it wakes up, reads, puts in order and prints, which takes some 0.4 ms each time. The symbols of up to 1,024
addresses in the kernel are asked for one by one, in some 30 µs each, in place of the text of `/proc/kallsyms`, for
which the kernel takes 0.04 s (`time cat /proc/kallsyms`, 122,000 symbols): wakeuptime took 0.097 s, offcputime 0.113 s
with it.

The second start of a tool, until it has attached and ended again (`sonde TOOL --dry-run`, Sonde installed from its
wheel), takes these times the CPU time of the interpreter alone, the medians of nine rounds in turn at a load of 4 to 5:
the one-liner 2.6, runqlat 3.6, gethostlatency 4.6, funclatency 4.7, execsnoop, tcplife and opensnoop 5.2, syscount 5.8,
profile and offcputime 6.2. Before scripts with probes in programs were kept compiled, gethostlatency took 13.6 and
funclatency 15.6. The rest is the import of some 90 modules (of the one-liner: 72), and what the kernel does: making and
freeing a ring of 64 MiB (8 ms and more), maps, programs, waiting until no program runs.
"""


class Row(NamedTuple):
    """``key``: the figure; of a script of the kernel's table its name. ``most`` is what the ratio may be, or the figure
    itself if it is ``absolute``; ``least``: it is to be this at least. ``piece`` is what --only is given."""

    title: str
    key: str
    piece: str
    most: float = 0.0
    least: float = 0.0
    absolute: bool = False
    floor: str = ""
    unit: str = ""


STARTS = """
## What a start is made of

`valgrind --tool=callgrind python sonde -e 'BEGIN { exit(); }'` counts instructions, the second time with the same
script. Its figures hardly vary, also on a busy machine.

| what | millions of instructions |
|---|---|
| the interpreter alone, until it runs a program | 28.5 |
| unmarshalling the bytecode of 74 modules, 0.83 MB | 17.0 |
| making 146 classes | 15.5 |
| everything else: imports, tables, the cached spec, maps, the program, attaching, the end | 28.6 |
| a start | 89.6 |

Three things were tried, and made no difference to the CPU time of 100 to 150 starts that took turns. Bytecode without
docstrings and columns is an eighth smaller, but has as many objects. Reading and unmarshalling sixteen modules together
saves 2.3 million instructions, but their memory costs 110 page faults more. Functions that a start does not call are
two fifths of the bytecode, and would have to move to other modules, each of which takes 0.8 million instructions where
it is needed. So the goal of 0.015 s is not reached: it takes half as many modules and classes, or a machine on which
the interpreter alone needs less than 0.008 s.
"""

GUESTS = """
This machine's kernel has no probes on kernel functions, so they were measured on other kernels under QEMU's emulation,
where only the ratios are meaningful. The table shows the nanoseconds that `{ @ = count(); }` adds to a call of
`__do_sys_getppid` (`bench/entries.py --kernel 6.12 --peer BPFTRACE`; the goal is 0.6).

| kernel, kind | sonde | sonde by kprobes | bpftrace 0.27.1 | ratio |
|---|---|---|---|---|
| 6.12 kprobe | 204 | 424 | 534 | 0.38 |
| 6.12 kretprobe | 292 | 793 | 1102 | 0.26 |
| 7.2 kprobe | 218 | 374 | 458 | 0.48 |
| 7.2 kretprobe | 277 | 1426 | 930 | 0.30 |

The host was busy with other work: other runs on 6.12, with one round instead of three, gave 0.35 and 0.22 for kprobes,
0.39 and 0.70 for kretprobes. 7.2 was measured in one round of 800 times 500 calls.

Where the kernel has tracing_multi (7.2), one program per kind serves many functions. Here the probe is on
`__do_sys_get*`, and `__do_sys_getppid` is called (`bench/entries.py --kernel 7.2 --many --peer BPFTRACE`).

| kernel, kind | sonde | sonde without tracing_multi | bpftrace 0.27.1 | ratio |
|---|---|---|---|---|
| 7.2 kprobe | 111 | 222 | 280 | 0.40 |
| 7.2 kretprobe | 182 | 488 | 539 | 0.34 |

From the start of the command to its end, uprobes on 500 functions of a program take 3.9 s, and 62.9 s with bpftrace: a
ratio of 0.06, where the goal is 0.5 (`bench/attach.py --peer BPFTRACE uprobe`). Kprobes on 1,000 kernel functions take
52 s and 604 s, 0.09, under QEMU on Linux 6.12 (`bench/attach.py --kernel 6.12 --peer BPFTRACE kprobe`); on 300
functions on 7.2 (`--functions 300`) they take 27 s and 126 s, 0.22.
"""
BURSTS = """
## Bursts and large maps

Records that one `printf()` made in a row are formatted by columns, in one step for several thousand of them, and so are
the lines of a large map of numbers. The figures are from 28 November, later than those above, on a third machine (AMD
EPYC, 2 CPUs, Linux 6.18.44-fc-v669). The first table is of two processes that make two million system calls as fast as
they can (`bench/run.py --only flood`): nanoseconds of Sonde's own CPU time for each line of
`printf("%d %s %llu %d\\n", pid, comm, nsecs, cpu)`, the whole way from the ring to the file. Other work was running
(load 3 to 11), which makes these times longer rather than shorter.

| form | before | by columns | of text's rate |
|---|---|---|---|
| text | 530 to 560 | 275 to 330 | 1 |
| `-f json` | 2,270 | 320 to 430 | 0.83 |
| `-f csv`, which prints the time as well | 92 % of 200,000 were lost | 400 to 480 | 0.7 |
| `sonde export --parquet` | a quarter of the rows | 630 to 660 | 0.46 |

So with a CPU of its own Sonde prints 3 million lines a second, and JSON and CSV more than 2 million. The floor is
Python's own: unpacking a number takes 10 ns, formatting it 31 (one digit) to 47 ns (fifteen), which is 200 for each
line.

`bench/run.py --only minute` is of two processes that make two million system calls a second for 60 s, on a quiet
machine. All 120 million events were printed as text and as JSON, which took 74 % of a CPU. As CSV 99.1 % were
printed, and 99.7 % were written to Parquet; both took 98 % of a CPU, which is their floor. The others are counted as
lost. At a load of 12 to 18, where Sonde got 0.4 of a CPU, 70 % were printed as text, JSON and CSV and 31 % written to
Parquet, for five seconds each; with 0.66 of a CPU, 97 % were printed as text.

One run beside bpftrace 0.27.1 at a load of 13 (`bench/run.py --only keys,flood`):

| row | sonde | bpftrace | ratio |
|---|---|---|---|
| 2,000,000 events as fast as two processes can: printed | 100 % | 17 % | 5.9 |
| 60,000 keys read and printed | 0.276 s | 1.14 s | 0.24 |
| 1,000,000 keys read and printed | 3.42 s | 13.9 s | 0.25 |

Of the 870 ns for each of a million keys, sorting takes 290, making numbers of them and back 250 (they lie anywhere in
memory once they are sorted), the text 90.

Since then maps are sorted by runs that stay in the processor's cache, and lines are made in fewer passes. One round at
a load of 3 to 8 (`bench/run.py --only keys --rounds 1`), with the CPU time that the tracers took for it:

| row | sonde | bpftrace | ratio | CPU: sonde | bpftrace | ratio |
|---|---|---|---|---|---|---|
| 60,000 keys read and printed | 0.125 s | 0.783 s | 0.16 | 0.107 s | 0.397 s | 0.27 |
| 1,000,000 keys read and printed | 1.54 s | 10.8 s | 0.14 | 1.51 s | 5.83 s | 0.26 |
"""
KEYS = "nearly all of the time sorts and formats numbers, which are in random order in memory"
ROWS = (
    Row("`BEGIN { exit(); }`, later", "start wall s", "startup", 0.030, absolute=True, unit="s",
        floor="beyond the interpreter's own, most of the time imports 72 modules; Sonde has imported fewer since"),
    Row("... the interpreter alone", "interpreter wall s", "startup", unit="s"),
    Row("... memory", "start memory MiB", "startup", 15, absolute=True, unit="MiB"),
    Row("`BEGIN { exit(); }`, the first time", "first start wall s", "startup", 0.050, absolute=True, unit="s",
        floor="this also imports language, semantics and compiler; Sonde has imported fewer modules since"),
    Row("300,000 `printf()`: CPU", "drain cpu s", "drain", 0.40, unit="s"),
    Row("... of which printed", "drain printed %", "drain", least=100, absolute=True, unit="%"),
    Row("2,000,000 events as fast as two threads can: printed", "flood printed %", "flood", least=60, absolute=True,
        unit="%"),
    Row("... with a ring of 256 MiB", "flood printed, 256 MiB %", "ring", least=100, absolute=True, unit="%"),
    Row("60,000 keys read and printed", "60,000 keys: read and printed s", "keys", 0.20, unit="s", floor=KEYS),
    Row("1,000,000 keys read and printed", "1,000,000 keys: read and printed s", "keys", 0.35, unit="s", floor=KEYS),
    Row("... memory", "1,000,000 keys: memory MiB", "keys", 150, absolute=True, unit="MiB"),
    Row("1,000,000 new keys inserted", "1,000,000 keys: inserted s", "keys", 0.90, unit="s",
        floor="of 376 ns per key the bare system call takes 80, and the kernel's hash most of the rest"),
    Row("latency pairs", "enter and exit: latency hist", "kernel", 0.50, unit="ns",
        floor="the clock takes 20 of 39 ns"),
    Row("uprobe with a string as key", "uprobe: @[str(arg0)] = hist(arg1)", "kernel", 0.20, unit="ns",
        floor="reading the string takes half of the time, 105 ns"),
    Row("`kstack` as key", "@[kstack] = count()", "kernel", 0.50, unit="ns",
        floor="the kernel's unwinder takes most of the time"),
    Row("kernel time above the empty program, geometric mean of scripts", "mean", "kernel", 0.28,
        floor="in hist, lhist and stats of nsecs the clock takes most of the time"),
    Row("... the worst", "worst", "kernel", 0.90),
    Row("129 tracepoints on, 1 s, off", "129 tracepoints wall s", "attach", 0.20, unit="s"),
    Row("300 clauses compiled and attached, run, detached", "300 clauses wall s", "clauses", 1.0, absolute=True,
        unit="s", floor="compiling is Python's"),
)


def keep_figures(figures: dict[str, dict[str, float]], times: dict[str, dict[str, float]], path: Path) -> None:
    """Put what one run has measured, of both tracers, in the place of what was known of it."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for kept, measured in ((known.setdefault("figures", {}), figures), (known.setdefault("kernel", {}), times)):
        for name, found in measured.items():
            kept.setdefault(name, {}).update(found)
    path.write_text(json.dumps(known, indent=1) + "\n")


def _values(row: Row, known: dict[str, Any]) -> tuple[float | None, float | None, float | None]:
    """Sonde's figure, the peer's, and the ratio: of a script that of what stands above the empty program."""
    if row.key in known["kernel"]:
        found = known["kernel"][row.key]
        floor = min(known["kernel"]["{ }"].values())
        ours, theirs = found.get("sonde"), next((v for name, v in found.items() if name != "sonde"), None)
        return ours, theirs, (ours - floor) / (theirs - floor) if ours and theirs else None
    if row.key in ("mean", "worst"):
        ratios = [found[2] for script in known["kernel"] if script != "{ }"
                  if (found := _values(Row("", script, ""), known))[2] is not None]
        return None, None, max(ratios) if row.key == "worst" else geometric_mean([max(r, 0.005) for r in ratios])
    tracers = known["figures"]
    ours = tracers["sonde"].get(row.key)
    theirs = next((found[row.key] for name, found in tracers.items() if name != "sonde" and row.key in found), None)
    return ours, theirs, ours / theirs if ours and theirs else None


def _is_reached(row: Row, ours: float | None, ratio: float | None) -> bool:
    value = ours if row.absolute else ratio
    return value is not None and (value <= row.most if row.most else value >= row.least)


def _verdict(row: Row, reached: list[bool]) -> str:
    """What is to be reached, and on which of the machines it is."""
    if not row.most and not row.least:
        return ""
    goal = f"≤ {row.most:g}" if row.most else f"≥ {row.least:g}"
    goal += f" {row.unit}" if row.absolute else ""
    if all(reached):
        return f"{goal}: reached"
    where = f"on the {'first' if reached[0] else 'second'} alone" if any(reached) else "not reached"
    return f"{goal}: {where}{'; ' + row.floor if row.floor else ''}"


def rows_table(machines: list[dict[str, Any]]) -> str:
    """The table in Markdown."""
    peer = next((name for name in machines[0]["figures"] if name != "sonde"), "bpftrace")
    lines = ["| row | goal |" + f" sonde | {peer} | ratio |" * len(machines) + " `bench/run.py --only` |",
             "|---" * (3 + 3 * len(machines)) + "|"]
    for row in ROWS:
        values = [_values(row, known) for known in machines]
        cells = [row.title, _verdict(row, [_is_reached(row, ours, ratio) for ours, _, ratio in values])]
        for ours, theirs, ratio in values:
            cells += ["" if value is None else f"{value:,.0f} {row.unit}" if value >= 100 else f"{value:.3g} {row.unit}"
                      for value in (ours, theirs)]
            cells.append("" if ratio is None else f"{ratio:.2f}")
        lines.append("| " + " | ".join([*cells, row.piece]) + " |")
    return "\n".join(lines)


def c_tools_row(name: str, sides: dict[str, list[dict[str, Any]]]) -> str:
    """The row of a tool beside bcc's in C: the best of its rounds; of the kernel time the ratios."""
    ours, theirs = sides["sonde"], sides["c"]
    ratios = _kernel_ratios(sides)

    def both(figure: str, digits: int) -> str:
        return ", ".join(f"{min(each[figure] for each in side):.{digits}f}" for side in (ours, theirs))

    printed = "" if ours[0]["rows"] is None else ", ".join(f"{median(each['rows'] for each in side):,.0f}"
                                                           for side in (ours, theirs))
    worked = both("worked", 3) if "worked" in ours[0] else ""
    cells = [name, f"{median(ratios):.2f}", f"{ratios[0]:.2f} to {ratios[-1]:.2f}", both("cpu", 2), worked,
             both("memory", 0), both("start", 2), printed]
    return f"| {' | '.join(cells)} |"


def _kernel_ratios(sides: dict[str, list[dict[str, Any]]]) -> list[float]:
    return sorted(a["kernel"] / b["kernel"] for a, b in zip(sides["sonde"], sides["c"], strict=True))


def c_tools_table(known: dict[str, Any]) -> str:
    """All of them, and what they come to."""
    ratios = [median(_kernel_ratios(sides)) for sides in known.values()]
    return "\n".join([
        "| tool | kernel time | of the pairs | CPU s | from the work on | MiB | traces after s | rows |",
        "|---|---|---|---|---|---|---|---|",
        *[c_tools_row(name, sides) for name, sides in known.items()], "",
        f"Kernel time of {len(ratios)} tools: geometric mean {geometric_mean(ratios):.2f}, worst {max(ratios):.2f}."])


def c_tools_guest_table(known: dict[str, Any]) -> str:
    """Those of a guest: their kernel time, and their rows."""
    ratios = {name: median(_kernel_ratios(sides)) for name, sides in known.items()}
    lines = ["| tool | kernel time | of the pairs | rows |", "|---|---|---|---|"]
    for name, sides in known.items():
        cells = c_tools_row(name, sides).split("|")
        lines.append("|".join(["", *cells[1:4], cells[8], ""]))
    mean = geometric_mean(ratios.values())
    return "\n".join([*lines, "", f"Kernel time of {len(ratios)} tools: geometric mean {mean:.2f}, "
                                  f"worst {max(ratios.values()):.2f}."])


def write_section() -> str:
    """The section of the page, up to the next title."""
    machines = [json.loads(path.read_text()) for path in FIGURES]
    introduction = INTRODUCTION.format(*[known["machine"] for known in machines])
    by_kernel = json.loads(C_TOOLS.read_text())
    beside_c = c_tools_table(by_kernel["here"])
    in_guest = c_tools_guest_table(by_kernel[GUEST])
    return (f"{TITLE}{introduction}{rows_table(machines)}\n{GUESTS}{STARTS}{BURSTS}{BESIDE_C}{beside_c}\n"
            f"{BESIDE_C_IN_GUEST}{in_guest}\n{IN_GUEST_TOO}{SINCE}")


def main() -> None:
    text = PAGE.read_text()
    head, rest = text.split(TITLE if TITLE in text else NEXT, 1)
    tail = rest.split(NEXT, 1)[1] if TITLE in text else rest
    PAGE.write_text(f"{head}{write_section()}\n{NEXT}{tail}")


if __name__ == "__main__":
    main()
