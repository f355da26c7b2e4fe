"""``sonde flame``: flame graphs of what runs, of what waits, and of the differences between two files of folded
stacks."""

from __future__ import annotations

import os

from ...errors import UsageError
from ..script_names import read_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...runtime.traced_command import Process
    from ...source import Source
    from ..options import Parsed

PAGE = """\
flame: a flame graph of where programs spend their time: on the CPU, off it, and who ended their waiting

USAGE
  sonde flame [--on-cpu | --off-cpu | --off-wake | --chain] [-p PID | -c COMMAND] [--follow] [-o FILE] [-f FORMAT]
              [SECONDS]
  sonde flame --gil -p PID | -c COMMAND [--follow] [-o FILE] [-f FORMAT] [SECONDS]
  sonde flame --diff BEFORE AFTER [-o FILE]

  Draws when it ends: at Ctrl-C, with the process, or after SECONDS. The graph is SVG for a browser; without -o it goes
  to standard output, or to flame.svg if that is a terminal. Clicking a frame zooms, / searches, Esc resets.
  -f folded gives the stacks as text, which --diff compares: red has a greater share afterwards, blue a lesser one.

OPTIONS
  --on-cpu          where the CPUs are, 99 times a second (the default)
  -F, --frequency HZ  with --on-cpu and --gil: so many times a second instead
  --off-cpu         where threads were when they left the CPU, and for how many nanoseconds; of a Go program (-p or -c)
                    where goroutines waited, for what, and how long
  --off-wake        where threads slept, and over it, upside down, the stack of what woke them, and its name
  --chain           the same, and over that what had woken the waker, and so on: four wakers at most
  --gil             which threads and lines of a Python program hold its interpreter's lock, and which wait for it
  --by-process      a frame for each process, with its number, over the name: which worker of --follow is which
  --by-role         a frame for each role, under the name: master, worker, what else a server or a pool of processes
                    consists of
  --no-python       without the frames of Python functions: those of the interpreter itself instead
  --diff BEFORE     draw AFTER, coloured by what has changed since BEFORE; two files of folded stacks

COLUMNS
  @[COMM, REASON, USTACK]            nanoseconds that goroutines waited
  @[COMM, USTACK, KSTACK, PYSTACK]   samples of each stack, or nanoseconds off the CPU; with --by-process PID stands
                                     after COMM, with --by-role ROLE before it, and with --off-wake and --chain KSTACK,
                                     USTACK, COMM of each waker at the end
  @gil_ns[WHAT, COMM, TID, USTACK, KSTACK, PYSTACK]   with --gil: nanoseconds that a thread waited for the lock, or held
                                     it, while others waited or not

EXAMPLE
  # sonde flame -f folded -c ./busy
  busy;_start;__libc_start_main_impl;__libc_start_call_main;main;cool_function 19
  busy;_start;__libc_start_main_impl;__libc_start_call_main;main;hot_function 174

NEEDS
  --on-cpu: perf events; --off-cpu, --off-wake, --chain: tracepoints sched:sched_switch and sched:sched_waking, but
  uprobes for goroutines; --gil what sonde pygil needs

NOTES
  User stacks are found by the unwind tables of the files (Linux 6.1); elsewhere, and in code made at run time,
  they need frame pointers (-fno-omit-frame-pointer), without which they are short or wrong. Time off the CPU
  includes that of waiting for one; --off-wake and --chain count sleeps alone, up to when the thread runs again. Idle
  CPUs (pid 0) are left out. So is, on the CPU, the time within BPF programs of tracepoints and kprobes, whoever loaded
  them: the kernel takes no sample with another program then, and does not count what it left out. sonde overhead shows
  that time.

  A goroutine waits from runtime.gopark() until it runs again, or the tracing ends. What it waits for is over the name
  of the thread ("waiting" in versions of Go other than 1.19 and 1.27). Goroutines that wait already when the tracing
  begins are seen from their next wait on; blocking system calls are not waits of this kind.

  A role is what a process calls itself by setproctitle() ("gunicorn: worker [shop:app]"), or what it is to Python's
  multiprocessing or joblib ("multiprocessing worker", "multiprocessing resource tracker"), else its arguments, with
  "(forked)" behind them if its parent runs the same program. It is read at each sample or wait: what a process does
  before it has that title stands under its arguments, and under its name if they cannot be read, as just after a fork.

  Python functions (CPython 3.11 to 3.14, x86_64, Linux 5.17) take the place of the interpreter's frames.
  Of what they call in C all is shown where it can be unwound, else the innermost function.

  With --gil the outermost frame says what a thread does: "waits for the GIL" (pink), "holds the GIL while others wait",
  or "holds the GIL" when nobody does. The thread's name and number stand over it. Waits are exact. Holds are sampled
  while the thread runs, and exact while it does not: then the kernel's frames are on top. sonde pygil has the same in
  numbers, with more on what is seen. A build of Python without the lock is refused.

  What an interrupt wakes (a timer, a packet) has that interrupt's frames over it and ends there: the thread that was
  interrupted had no part in it. A chain is made of what woke each thread the last time before it woke the next.
"""

# Option -> script, the title of its graph, and the unit of its weights.
KINDS = {
    "on-cpu": ("on-cpu.bt", "On the CPU", "samples"),
    "off-cpu": ("off-cpu.bt", "Off the CPU", "ns"),
    "off-wake": ("off-wake.bt", "Asleep, with wakers", "ns"),
    "chain": ("chain.bt", "Asleep, with chains of wakers", "ns"),
}


def main(parsed: Parsed) -> int:
    """Draw; the exit status."""
    from ... import tools
    from .. import requests, script_run
    before, options, named = parsed.named.pop("diff", ""), parsed.options, parsed.named
    if "output" not in options and os.isatty(1) and options.get("format", "flamegraph") == "flamegraph":
        options["output"] = "flame.svg"
    if before:
        return _write_diff(before, parsed)
    if named.pop("gil", ""):
        return _draw_lock(parsed)
    if parsed.words[1:]:
        from .runtimes import seconds_of
        seconds_of("flame", parsed.words[1:])
    kinds = [kind for kind in KINDS if named.pop(kind, "")]
    if len(kinds) > 1:
        raise UsageError(f"one flame graph at a time: {' or '.join('--' + kind for kind in kinds)}")
    script, title, options["unit"] = KINDS[kinds[0] if kinds else "on-cpu"]
    if "container" in options and script != "on-cpu.bt":
        raise UsageError("-C is for time on the CPU: a thread goes on where another, of any container, leaves off",
                         ["--by container shows whose the stacks are"])
    if parsed.has("follow"):
        requests.hand_over_process(parsed)
    process = requests.process_of(parsed)
    hertz = _take_frequency(named, script)
    goroutines = _source_of_goroutines(process) if script == "off-cpu.bt" and process is not None \
        and not parsed.has("follow") else None  # a tree is shown by thread
    if goroutines is not None:
        title, named["minor"] = "Goroutines waiting", str(goroutines[1])
    else:
        options.pop("pid", None)  # the scripts filter by themselves: switches to a process happen in another
        named["pid"] = str(process.pid if process else 0)
    options.setdefault("format", "flamegraph")
    parsed.seconds = requests.seconds_of(parsed.words[1:])
    options["title"] = title + (f" of {process.name} ({process.pid})" if process else "")
    stacks = _readable_stacks(native=bool(named.pop("no-python", "")))
    named.update(dict.fromkeys(stacks if goroutines is None else (), "true"))
    source = goroutines[0] if goroutines is not None else read_script(os.path.join(tools.FOLDER, "flame", script))
    if hertz != 99:
        source = type(source)(source.name, source.text.replace("profile:hz:99", f"profile:hz:{hertz}"))
    wanted = requests.options_of(parsed, parsed.words[1:] + parsed.rest)
    if parsed.has("follow") and process is not None:
        wanted.knows_family, wanted.cpid = True, process.pid
    trace = requests.new_trace(source, wanted, process, parsed)
    status = script_run.run(trace, parsed)
    if "output" in options and not parsed.has("quiet"):
        requests.print_to_stderr(f"Wrote {options['output']}")
    return status


def _draw_lock(parsed: Parsed) -> int:
    """Who holds a Python program's lock, and who waits for it; the exit status."""
    from ...compiling import live_world
    from ...output.views.stacks import WAITS
    from ...semantics.context import unwinding_obstacle
    from .. import requests
    from . import gil_script
    from .generated import number_option
    from .python_commands import Subject
    named, options = parsed.named, parsed.options
    if others := [f"--{name}" for name in (*KINDS, "no-python") if name in named]:
        raise UsageError(f"--gil is drawn by itself, without {', '.join(others)}")
    subject = Subject("flame --gil", parsed, glibc=True)
    who = ["role()"] * ("by-role" in named) + ["comm"] + ["pid"] * ("by-process" in named) + ["tid"]
    noted = [", ".join([f"$who.{at}" for at in range(first, first + len(who) + 1)]) for first in (0, 1)]
    native = "ustack" if unwinding_obstacle(live_world()) else "dw_ustack"
    holds = '"holds the GIL while others wait" : "holds the GIL"'
    text = gil_script.build_script(gil_script.GilCounts(
        who=who, stacks=f"({native}, kstack, pystack)",
        wait=f'@gil_ns["{WAITS}", {noted[0]}] = sum($ns);', wait_maps="@gil_ns",
        hold=f"@gil_ns[$blocks ? {holds}, {noted[1]}] = sum($ns);", hold_maps="@gil_ns",
        sample=f"@gil_ns[@waiters[pid] > 0 ? {holds}, WHO, STACKS] = sum(PERIOD);", shows="print(@gil_ns);"),
        subject.condition, number_option(named, "frequency", 99, 20000), parsed.seconds)
    options["unit"], options["title"] = "ns", f"The GIL of {subject.process.name} ({subject.process.pid})"
    options.setdefault("format", "flamegraph")
    status = subject.trace("flame", text)
    if "output" in options and not parsed.has("quiet"):
        requests.print_to_stderr(f"Wrote {options['output']}")
    return status


def _take_frequency(named: dict[str, str], script: str) -> int:
    """How many samples a second; the option is taken away, because the script does not know it."""
    from .generated import number_option
    hertz = number_option(named, "frequency", 99, 20000)
    if named.pop("frequency", "") and script != "on-cpu.bt":
        raise UsageError("-F is for time on the CPU", ["every wait is seen: waits are not sampled"])
    return hertz


def _source_of_goroutines(process: Process) -> tuple[Source, int] | None:
    """The script for a process that runs a Go program, and that Go's minor version; None for any other."""
    from ... import tools
    from ...arch.go_versions import minor_version
    from ...compiling import live_world
    from ...runtime.traced_command import Child
    from ...source import Source
    world = live_world()
    names = world.find_binaries(process.command[0]) if isinstance(process, Child) else world.find_binaries(
        "", process.pid)
    version = world.go_version(names[0]) if names and '"' not in names[0] and "*" not in names[0] else ""
    if not version:
        return None
    source = read_script(os.path.join(tools.FOLDER, "flame", "go-off-cpu.bt"))
    return Source(source.name, source.text.replace("PROGRAM", f'"{names[0]}"')), minor_version(version)


def _readable_stacks(native: bool) -> list[str]:
    """The options of the scripts for Python stacks (not if ``native``) and unwind tables that this kernel can serve."""
    from ...builtins.stacks import python_obstacle
    from ...compiling import live_world
    from ...semantics.context import unwinding_obstacle
    world = live_world()
    python = not native and not python_obstacle(world)
    return ["python"] * python + ["unwind"] * (not unwinding_obstacle(world))


def _write_diff(before: str, parsed: Parsed) -> int:
    from ...output.views.flame_diff import flame_diff
    from .. import requests
    if len(parsed.words) != 2:
        raise UsageError("--diff takes two files of folded stacks: sonde flame --diff BEFORE AFTER")
    text = flame_diff(before, parsed.words[1])
    descriptor = requests.open_output(parsed)
    with open(descriptor, "w", encoding="utf-8", closefd=descriptor != 1) as file:
        file.write(text)
    return 0
