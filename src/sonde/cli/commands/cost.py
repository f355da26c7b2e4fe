"""``sonde cost``: what a script would cost here, before it is put to use."""

from __future__ import annotations

import os
import sys
import time

from ...errors import UsageError
from ...kinds import KINDS
from ...library.run_loop import RunLoop
from ...output.outside import Outside, PacketSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...base.end_request import Ending
    from ...base.json_checks import Json, JsonObject
    from ...library.trace import Trace
    from ...output import Output, Printer
    from ...runtime.costs.statistics import ProbeCost
    from ...spec import ProgramSpec
    from ..options import Parsed

PAGE = """\
cost: what a script would cost on this machine at the rate of its events now, before it is let loose

USAGE
  sonde cost [--seconds N] [-p PID] [-f json] FILE | TOOL | -e PROGRAM [parameters]

  Attaches the script for a fiftieth of a second, and then for as long as it takes no more than some 20 ms of CPU time,
  a second at most. What it prints goes nowhere.

OPTIONS
  --seconds N   look for so long at most (1)

COLUMNS
  runs/s   how often its programs ran: by a tracepoint of system calls, at every system call
  ns/run   by the kernel's own account of them
  around   what the kernel spends before and after a run; measured for raw tracepoints and uprobes, else estimated
  CPU      both together, of one CPU's time

EXAMPLE
  # sonde cost -e 'tracepoint:raw_syscalls:sys_enter { printf("%s %d\\n", comm, args.id); }'
  In 0.112 s, of one CPU's time:
  runs/s  ns/run  around  CPU    probe
  183101     310      45  6.50%  tracepoint:raw_syscalls:sys_enter
  its programs take 6.50%, and printing 183101 records a second 14.2%: 20.7% in all
  69% of it is printing: keep counts in a map, @[comm] = count(), in place of a line for each event.

NEEDS
  what the script needs; the kernel's count of runs (CAP_SYS_ADMIN, or sysctl kernel.bpf_stats_enabled=1)

NOTES
  The rate is that of the moment: what comes in bursts may cost more. Scripts that act (--unsafe) are refused, for they
  would. Files of skboutput() are not written. --budget 2% bounds what a script takes, whatever comes.
"""

_PEEK = 0.02   # s
_SPENT = 0.02  # s of CPU time that the longer look may take
_MUCH, _LITTLE = 0.05, 0.01  # of one CPU's time: above this, give advice


def main(parsed: Parsed) -> int:
    """Measure, and report the cost; the exit status."""
    from .. import requests
    from .generated import number_option
    del parsed.words[:1]
    seconds = number_option(parsed.command_options, "seconds", 1, 60)
    if parsed.has("unsafe") or parsed.has("cmd") or parsed.has("follow"):
        raise UsageError("sonde cost looks at what would happen: --unsafe, -c and --follow have no place there")
    if parsed.get("format", "text") not in ("text", "json"):
        raise UsageError(f"sonde cost prints text or json, not {parsed.get('format')}")
    if not parsed.words and not parsed.has("e"):
        raise UsageError("sonde cost needs a script, a tool, or -e PROGRAM", ["sonde cost --help explains"])
    source, params = requests.program_of(parsed)
    if source is None:
        return 0
    options = requests.options_of(parsed, params)
    parsed.options["stats"] = "yes"
    look = measure_cost(
        lambda: requests.new_trace(source, options, requests.process_of(parsed), parsed), seconds)
    sys.stdout.write(look.as_json() if parsed.get("format") == "json" else look.as_text())
    return 0


def measure_cost(make_trace: Callable[[], Trace], longest: float) -> Look:
    """Attach traces that count their runs: for a moment, and then for what that says is cheap, ``longest`` s at most.
    What they print goes nowhere."""
    peek = _look(make_trace(), _PEEK)
    share = peek.programs + peek.printing
    return _look(make_trace(), min(longest, max(_PEEK, _SPENT / share if share else longest)))


class Look:
    """What was measured: the cost of each program, including the kernel's around a run (ns), and of printing."""

    def __init__(self, costs: Sequence[ProbeCost], around: Sequence[float], records: int, printing_ns: int) -> None:
        self.costs, self.around, self.records = costs, around, records
        self.seconds = costs[0].seconds if costs and costs[0].seconds else 0.0
        self.shares = [cost.share + cost.runs * extra / 1e9 / self.seconds if self.seconds else 0.0
                       for cost, extra in zip(costs, around)]
        self.programs = sum(self.shares)
        self.printing = printing_ns / 1e9 / self.seconds if self.seconds else 0.0

    def rate(self, count: int) -> float:
        """Per second."""
        return count / self.seconds if self.seconds else 0.0

    def as_text(self) -> str:
        """A table, the sums, and advice."""
        from ...output.statistics import format_table, share_text
        if not self.seconds:
            return "It has no programs that run by themselves.\n"
        rows = [(f"{self.rate(cost.runs):.0f}", f"{cost.mean:.0f}", f"{extra:.0f}", share_text(share), _name(cost))
                for cost, extra, share in zip(self.costs, self.around, self.shares)]
        lines = [f"In {self.seconds:.3f} s, of one CPU's time:",
                 *format_table(("runs/s", "ns/run", "around", "CPU", "probe"), rows),
                 f"its programs take {share_text(self.programs)}, and printing {self.rate(self.records):.0f} records a "
                 f"second {share_text(self.printing)}: {share_text(self.programs + self.printing)} in all",
                 *self.advice]
        return "\n".join(lines) + "\n"

    @property
    def advice(self) -> list[str]:
        """Advice on what would make it cheaper."""
        sentences = []
        if self.printing > max(self.programs / 4, _LITTLE):
            sentences.append(f"{self.printing / (self.programs + self.printing):.0%} of it is printing: keep counts in "
                             "a map, @[comm] = count(), in place of a line for each event.")
        if self.costs and self.programs > _MUCH:
            most = max(range(len(self.costs)), key=self.shares.__getitem__)
            sentences.append(f"{_name(self.costs[most])} makes {self.shares[most] / self.programs:.0%} of what the "
                             "programs take: filter first (/pid == .../), or trace a rarer event.")
        if self.programs + self.printing > _MUCH:
            sentences.append("--budget 2% would hold the programs to that share, and say what was skipped.")
        return sentences

    def as_json(self) -> str:
        """The same as one object."""
        import json
        return json.dumps({"type": "cost", "data": self.as_data()}) + "\n"

    def as_data(self) -> JsonObject:
        """The same as plain data."""
        probes: list[Json] = [{"probe": cost.probe, "points": cost.points, "runs_per_second": self.rate(cost.runs),
                   "ns_per_run": cost.mean, "ns_around": extra, "cpu_share": share}
                  for cost, extra, share in zip(self.costs, self.around, self.shares)]
        return {"seconds": self.seconds, "probes": probes, "programs_share": self.programs,
                "records_per_second": self.rate(self.records), "printing_share": self.printing,
                "advice": [*self.advice]}


def _name(cost: ProbeCost) -> str:
    return f"{cost.probe} and {cost.points - 1} more" if cost.points > 1 else cost.probe


def _look(trace: Trace, seconds: float) -> Look:
    """Attach the script for this long, and measure."""
    from ...output import make_output
    from ...runtime.costs.floor import Floor
    from ...runtime.costs.statistics import probe_costs
    trace.outside, trace.keeps_maps = _Nowhere(), False
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        with trace:
            out = make_output("text", null, null, "line", True, trace.ending)
            records, spent = _print_for(trace, seconds, _make_printer(trace, out), out.flush)
            programs = [program.spec for program in trace.session.programs]
            costs = [cost for cost, program in zip(probe_costs(trace.session), programs) if _runs_by_itself(program)]
        programs = [program for program in programs if _runs_by_itself(program)]
        floor = Floor(programs)
        return Look(costs, [floor.overhead_ns(program) for program in programs], records, spent)
    finally:
        os.close(null)


def _runs_by_itself(program: ProgramSpec) -> bool:
    return any(not KINDS[point.kind].own for point in program.attach)


def _make_printer(trace: Trace, out: Output) -> Printer:
    from ...output import Printer
    return Printer(trace.spec, trace.context, out, trace.take_map, False, outside=trace.outside)


def _print_for(trace: Trace, seconds: float, printer: Printer, flush: Callable[[], object]) -> tuple[int, int]:
    """Print what arrives for this long: the number of records, and the CPU time spent in nanoseconds."""
    printed = spent = 0
    begun = time.process_time_ns()
    for records in RunLoop(trace, seconds):
        printer.print_batches(records, trace.act_on_site)
        flush()
        ended = time.process_time_ns()
        spent += (ended - begun) if records else 0
        printed += len(records)
        begun = ended
    for records in trace.drain_batches():  # whose first step detaches, which is not printing
        begun = time.process_time_ns()
        printer.print_batches(records, trace.act_on_site)
        spent += time.process_time_ns() - begun
        printed += len(records)
    return printed, spent


class _Nowhere(Outside):
    """An outside in which nothing is read, run or written."""

    def read_file(self, path: bytes, limit: int) -> bytes:
        return b""

    def may_run(self, ending: Ending) -> bool:
        return False

    def open_packets(self, path: str) -> PacketSink:
        return self

    def write(self, time: int, packet: bytes, length: int) -> None:
        """Write nothing to the file."""
