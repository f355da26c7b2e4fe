"""``sonde argdist``: how often an expression has which value at a probe, or how its values are distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
argdist: count the values of an expression at a probe, or draw their distribution

USAGE
  sonde argdist [-C | -H] [OPTIONS] [-p PID | -c COMMAND] PROBE EXPR [/FILTER/]

  PROBE is any attach point of the language, EXPR what can be written there: args.count, retval, comm, str(args.name).
  With -C several, with commas between them, are counted together. FILTER is a condition. Prints when it ends: at
  Ctrl-C, with the process, or after -d.

OPTIONS
  -C, --counts             how often EXPR had each value (the default)
  -H, --histogram          its values in powers of two; EXPR is a number
  -i, --interval SECONDS   print, and begin anew, every so many seconds, with the time before each output
  -n, --number COUNT       end after so many outputs; every second, without -i
  -d, --duration SECONDS   end after so long
  -T, --top COUNT          print the most frequent ones only; not with -H

COLUMNS
  @count[EXPR]   how often EXPR had this value
  @hist          with -H: how often it was in each interval

EXAMPLE
  # sonde argdist -c 'dd if=/dev/zero of=/dev/null bs=3000 count=50 status=none' \\
      tracepoint:syscalls:sys_enter_read args.count '/pid == cpid/'
  Counting args.count at tracepoint:syscalls:sys_enter_read if pid == cpid. Ctrl-C to end.
  @count[832]: 1
  @count[4096]: 2
  @count[3000]: 50

NEEDS
  what PROBE needs

NOTES
  -p counts what happens while the process runs. Interrupts, timers and most packets are handled while any process
  does: filter such events by what they carry, args.pid for one. -c ends with the command, and counts all processes:
  add a filter such as '/pid == cpid/'. An EXPR that begins with a dash stands behind --.
"""

NUMBERS = ("interval", "number", "duration", "top")


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    from .. import cli
    from ..api import Trace, live_world
    from ..language.source import Source
    from . import warnings
    source = Source("argdist", script(parsed.named, parsed.words[1:] + parsed.rest))
    parsed.named.clear()
    process = cli.process_of(parsed)
    options = cli.options_of(parsed, [])
    if parsed.has("cmd"):
        options.cpid = process.pid
    trace = Trace(source, options, process, cli.permitted(live_world(), parsed), True, parsed.has("stats"))
    for text in warnings(trace.spec, parsed) if options.warnings else []:
        cli.complain(text)
    return cli.run(trace, parsed)


def script(named: dict[str, str], words: list[str]) -> str:
    """The program for these options and words; UsageError if they make no sense."""
    probe, expression, condition = _words(words)
    numbers = {name: _number(name, named[name]) if name in named else 0 for name in NUMBERS}
    histogram = "histogram" in named
    if histogram and "counts" in named:
        raise UsageError("one at a time: -C counts or -H a histogram")
    if histogram and numbers["top"]:
        raise UsageError("--top is for counts: a histogram is printed whole")
    target, value = ("@hist", f"hist({expression})") if histogram else (f"@count[{expression}]", "count()")
    update = f"{target} = {value};"
    if condition:
        update = f"if ({condition}) {{ {update} }}"
    what = f"{'Histogram of' if histogram else 'Counting'} {expression} at {probe}"
    if condition:
        what += f" if {condition}"
    name = target.partition("[")[0]
    shown = f"print({name}, {numbers['top']});" if numbers["top"] else f"print({name});"
    return "\n".join(["config = { print_maps_on_exit = false }",
                      f'begin {{ printf("{_quoted(what)}. Ctrl-C to end.\\n"); }}',
                      f"{probe}", f"{{ {update} }}", *_outputs(name, shown, numbers)]) + "\n"


def _words(words: list[str]) -> tuple[str, str, str]:
    """Probe, expression and condition, which may be empty."""
    if not 2 <= len(words) <= 3:
        raise UsageError(f"argdist needs a {'PROBE and an EXPR' if len(words) < 2 else 'PROBE, an EXPR and a /FILTER/'}"
                         f"{', no more' * (len(words) > 3)}",
                         ["sonde argdist -H tracepoint:syscalls:sys_enter_read args.count '/pid != 1/'"])
    probe, expression, condition = (*words, "")[:3]
    condition = condition.strip()
    if len(condition) > 1 and condition[0] == condition[-1] == "/":
        condition = condition[1:-1].strip()
    if not probe.strip() or not expression.strip() or len(words) == 3 and not condition:
        raise UsageError("PROBE, EXPR and FILTER must not be empty")
    return probe.strip(), expression.strip(), condition


def _number(name: str, text: str) -> int:
    """Of an option that was given."""
    if not text.isascii() or not text.isdigit() or len(text) > 7 or not 0 < int(text) <= 10**6:
        raise UsageError(f"--{name} takes a whole number from 1 to a million, not '{text}'")
    return int(text)


def _outputs(name: str, shown: str, numbers: dict[str, int]) -> list[str]:
    """The clauses that print: at intervals, and at the end what has come since."""
    interval, number, duration = numbers["interval"], numbers["number"], numbers["duration"]
    if number and not interval:
        interval = 1
    last = f"/@outputs < {number}/ " if number else ""
    at_interval = 'time("%H:%M:%S\\n"); ' if interval else ""
    lines = [f"end {last}{{ {at_interval}{shown} }}"]
    if interval:
        ends = f" if (@outputs >= {number}) {{ exit(); }}" if number else ""
        lines.insert(0, f"interval:s:{interval} {{ {at_interval}{shown} clear({name}); @outputs++;{ends} }}")
    if duration:
        lines.insert(0, f"interval:s:{duration} {{ exit(); }}")
    return lines


def _quoted(text: str) -> str:
    """``text`` as part of a format."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("\n", "\\n")):
        text = text.replace(plain, escaped)
    return text
