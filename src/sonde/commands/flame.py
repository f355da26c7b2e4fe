"""``sonde flame``: flame graphs of what runs, of what waits, and of what two files of folded stacks differ in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
flame: a flame graph of where programs spend their time, on the CPU or off it

USAGE
  sonde flame [--on-cpu | --off-cpu] [-p PID | -c COMMAND] [-o FILE] [-f FORMAT] [SECONDS]
  sonde flame --diff BEFORE AFTER [-o FILE]

  Draws when it ends: at Ctrl-C, with the process, or after SECONDS. The graph is SVG for a browser; without -o it goes
  to standard output, or to flame.svg if that is a terminal. Clicking a frame zooms, / searches, Esc resets.
  -f folded gives the stacks as text, which --diff compares: red has a greater share afterwards, blue a lesser one.

OPTIONS
  --on-cpu          where the CPUs are, 99 times a second (the default)
  --off-cpu         where threads were when they left the CPU, and for how many nanoseconds
  --diff BEFORE     draw AFTER, coloured by what has changed since BEFORE; two files of folded stacks

COLUMNS
  @[COMM, USTACK, KSTACK]   samples of each stack, or nanoseconds off the CPU

EXAMPLE
  # sonde flame -f folded -c ./busy
  busy;_start;__libc_start_main_impl;__libc_start_call_main;main;cool_function 19
  busy;_start;__libc_start_main_impl;__libc_start_call_main;main;hot_function 174

NEEDS
  --on-cpu: perf events; --off-cpu: tracepoint sched:sched_switch

NOTES
  User stacks need frame pointers (-fno-omit-frame-pointer); without them they are short or wrong. Time off the CPU
  includes that of waiting for one. Idle CPUs (pid 0) are left out.
"""


def main(parsed: Parsed) -> int:
    """Draw; the exit status."""
    from .. import cli, tools
    from ..api import Trace, live_world
    before, options, named = parsed.named.pop("diff", ""), parsed.options, parsed.named
    if "output" not in options and os.isatty(1) and options.get("format", "flamegraph") == "flamegraph":
        options["output"] = "flame.svg"
    if before:
        return _diff(before, parsed)
    off = bool(named.pop("off-cpu", ""))
    if named.pop("on-cpu", "") and off:
        raise UsageError("one flame graph at a time: --on-cpu or --off-cpu")
    process = cli.process_of(parsed)
    options.pop("pid", None)  # the scripts ask for it themselves: switches to a process happen in another
    named["pid"] = str(process.pid if process else 0)
    options.setdefault("format", "flamegraph")
    options["title"] = f"{'Off' if off else 'On'}-CPU{' nanoseconds' if off else ' samples'}" + (
        f" of process {process.pid}" if process else "")
    options["unit"] = "ns" if off else "samples"
    source = cli.read_source(os.path.join(tools.FOLDER, "flame", "off-cpu.bt" if off else "on-cpu.bt"))
    world = cli.permitted(live_world(), parsed)
    trace = Trace(source, cli.options_of(parsed, parsed.words[1:] + parsed.rest), process, world, True,
                  parsed.has("stats"))
    status = cli.run(trace, parsed)
    if "output" in options and not parsed.has("quiet"):
        cli.complain(f"Wrote {options['output']}")
    return status


def _diff(before: str, parsed: Parsed) -> int:
    from .. import cli
    from ..output.views.flame_diff import flame_diff
    if len(parsed.words) != 2:
        raise UsageError("--diff takes two files of folded stacks: sonde flame --diff BEFORE AFTER")
    text = flame_diff(before, parsed.words[1])
    descriptor = cli.open_output(parsed)
    with open(descriptor, "w", encoding="utf-8", closefd=descriptor != 1) as file:
        file.write(text)
    return 0
