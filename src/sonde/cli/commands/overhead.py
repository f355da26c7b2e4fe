"""``sonde overhead``: the cost of this machine's BPF programs, whoever loaded them."""

from __future__ import annotations

import time

from ...base.record import Record
from ...errors import UsageError
from ...output.progress import Progress, make_progress
from ...runtime.provenance import Provenance, describe_local_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.costs.overhead import Latency, ProgramCost
    from ..options import Parsed
    from .annotation import Samples

PAGE = """\
overhead: what every BPF program on this machine costs, whoever loaded it

USAGE
  sonde overhead [-f json] [SECONDS]
  sonde overhead [-f json] [--annotate] id:NUMBER|NAME [SECONDS]

  Counts for SECONDS (5), or until Ctrl-C. With a program, by number or name, prints a histogram of how long it runs.

OPTIONS
  --annotate        the program's instructions, and how often the CPUs were found at each

COLUMNS
  ID        the kernel's number of the program
  TYPE      its type
  RUNS      how often it ran
  NS/RUN    nanoseconds of a run, on average
  CPU       share of one CPU's time
  SKIPPED   how often the kernel did not run it, since it was already running on that CPU
  NAME      its name
  HELD BY   processes with a descriptor of it or of its link; a program attached otherwise has none

EXAMPLE
  # sonde overhead 1
     ID  TYPE             RUNS  NS/RUN    CPU  SKIPPED  NAME             HELD BY
  14857  raw_tracepoint  11922      94  0.11%        0  sonde_sys_enter  sonde/29093
      3  cgroup_device       0       0  0.00%        0  sd_devices       -
  2 programs took 0.11% of one CPU's time in 1.001 s.

NEEDS
  CAP_SYS_ADMIN, Linux 5.8

NOTES
  The kernel measures while this runs, which itself costs each run some 20 ns; they are part of NS/RUN. A program that
  is loaded and unloaded again meanwhile is not seen. What a program costs elsewhere (a uprobe's trap, say, takes far
  longer than the program that it runs) is no time of the program.

  The histogram of one program is exact where the kernel can trace BPF programs (fentry and fexit; a program that was
  loaded with function information): each run is timed, from its first instruction to its last. Timing costs each run
  some time, which is in part counted too. Runs that were interrupted by another run of the program on that thread
  cannot be timed; the last line counts them.

  Elsewhere the histogram is sampled: the program's counts are read each millisecond. Runs that were alone in theirs
  have their own time; others have the mean of their millisecond, so that rare slow runs of a frequent program are
  hidden. The last line says how many were exact, and why the others are not.

  --annotate asks each CPU 1999 times a second where it is. An instruction that takes long shows at the one after it;
  what a program calls in the kernel (helpers, but for those that are built in) is not counted. objdump, of the package
  binutils, makes the instructions readable; source lines are those that the program was loaded with.
"""
TAKES = {"format", "output"}

SECONDS = 5.0


def main(parsed: Parsed) -> int:
    """Measure, print; the exit status."""
    program, seconds = _parse_arguments(parsed.words[1:])
    form = parsed.get("format", "text")
    if form not in ("text", "json"):
        raise UsageError("overhead is printed as text or json")
    bar, started = make_progress(parsed.has("quiet")), time.time_ns()
    stopped = _until_interrupted(bar, seconds)
    if not program and parsed.named.get("annotate"):
        raise UsageError("--annotate needs a program", ["sonde overhead lists them"])
    if program:
        measure = _annotate_program if parsed.named.get("annotate") else _measure_program
        measured = measure(program, seconds, stopped, form)
    else:
        measured = _all(seconds, stopped, form)
    if bar is not None:
        bar.clear_bar()
    from .. import requests
    descriptor = requests.open_output(parsed)
    with open(descriptor, "w", encoding="utf-8", errors="replace", closefd=descriptor != 1) as file:
        file.write(measured.text)
        if descriptor != 1:
            from shlex import join
            command = join(["sonde", *parsed.given])
            file.write(_about(describe_local_run(command, started, measured.seconds, measured.lost), form))
    return 0


class Measurement(Record):
    """What to print; for how long it was measured, and what was missed."""

    text: str
    seconds: float
    lost: list[str]


def _about(run: Provenance, form: str) -> str:
    """The run's provenance, as text for a file."""
    from json import dumps
    return f'{{"type": "run", "data": {dumps(run.as_json())}}}\n' if form == "json" else run.format_comments()


def _all(seconds: float, stopped: Callable[[], bool], form: str) -> Measurement:
    from ...runtime.costs.overhead import Meter
    began = time.monotonic()
    with Meter() as meter:
        _wait_until_stopped(seconds, stopped)
        costs = meter.program_costs()
    took = costs[0].seconds if costs else time.monotonic() - began
    return Measurement((_costs_json if form == "json" else _costs_table)(costs), took, [])


def _parse_arguments(words: list[str]) -> tuple[str, float]:
    """The program ("" for all) and the duration."""
    program, seconds = "", SECONDS
    for word in words:
        if word.isascii() and word.replace(".", "", 1).isdigit():
            seconds = float(word)
        elif program:
            raise UsageError("overhead takes one program: sonde overhead id:NUMBER [SECONDS]")
        else:
            program = word
    if seconds <= 0 or seconds > 1e6:
        raise UsageError("SECONDS has to be more than 0, and at most a million")
    return program, seconds


def _until_interrupted(bar: Progress | None, seconds: float) -> Callable[[], bool]:
    """Ctrl-C ends the measurement, not the process. The measuring code calls this repeatedly, which moves the bar."""
    import signal
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    began: list[float] = []

    def stopped() -> bool:
        if bar is not None:
            began[:] = began or [time.monotonic()]
            bar.show_progress("measuring", time.monotonic() - began[0], seconds, "s", True)
        return bool(seen)
    return stopped


def _wait_until_stopped(seconds: float, stopped: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not stopped() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))


def _find_program(program: str) -> tuple[int, str]:
    """(id, name) of the requested program."""
    from ...runtime.costs.overhead import find_program
    identity = find_program(program)
    if identity is None:
        raise UsageError(f"there is no BPF program '{program}'",
                         ["sonde overhead lists them: name one as id:NUMBER, or by its name"])
    return identity


def _annotate_program(program: str, seconds: float, stopped: Callable[[], bool], form: str) -> Measurement:
    from ...kernel.program_image import read_program_image
    from .annotation import sample_program
    number, name = _find_program(program)
    code = read_program_image(number)
    if code is None:
        raise UsageError(f"the kernel shows no machine code of program {number}: it interprets it (sysctl "
                         "net.core.bpf_jit_enable), or hides addresses (sysctl kernel.kptr_restrict)")
    _say_progress(f"sampling program {number} ({name or 'no name'})")
    samples = sample_program(code, seconds, stopped)
    return Measurement((_samples_json if form == "json" else _samples_text)(number, name, samples), samples.seconds,
                    [f"{samples.lost} samples found no room"] if samples.lost else [])


def _samples_text(number: int, name: str, samples: Samples) -> str:
    share = samples.inside / samples.total if samples.total else 0.0
    lines = [f"Program {number} ({name or 'no name'}), {samples.seconds:.3f} s: {samples.inside} of {samples.total} "
             f"samples ({share:.2%} of all CPUs' time)" + (f"; {samples.lost} more were lost" if samples.lost else ""),
             f"{'SAMPLES':>8} {'':>6} {'OFFSET':>8}  INSTRUCTION"]
    before: tuple[int, str] = (0, "")
    for row in samples.instructions:
        if (row.function, row.line) != before:
            if row.function != before[0]:
                lines.append(f"function {row.function}:")
            if row.line:
                lines.append(f"; {row.line}")
            before = (row.function, row.line)
        count = f"{row.samples:8} {row.samples / samples.inside:6.1%}" if row.samples else " " * 15
        lines.append(f"{count} {row.offset:8x}  {row.text}".rstrip())
    if not any(row.text for row in samples.instructions):
        lines.append("objdump is not installed: the instructions are not shown")
    return "\n".join(lines) + "\n"


def _samples_json(number: int, name: str, samples: Samples) -> str:
    from ...output.json import quote_json
    instructions = [
        f'{{"function": {p.function}, "offset": {p.offset}, "samples": {p.samples}, "line": {quote_json(p.line)}, '
              f'"instruction": {quote_json(p.text)}}}' for p in samples.instructions if p.samples]
    return (f'{{"type": "overhead_samples", "data": {{"id": {number}, "name": {quote_json(name)}, "seconds": '
            f'{samples.seconds:.6f}, "samples": {samples.inside}, "of": {samples.total}, "lost": {samples.lost}, '
            f'"places": [{", ".join(instructions)}]}}}}\n')


def _measure_program(program: str, seconds: float, stopped: Callable[[], bool], form: str) -> Measurement:
    from ...runtime.costs.overhead import Meter
    identity = _find_program(program)
    named = f"program {identity[0]} ({identity[1] or 'no name'})"
    latency, why = _measure_exactly(identity[0], named, seconds, stopped)
    if latency is None:
        with Meter() as meter:
            _say_progress(f"sampling {named}: {why}")
            latency = meter.watch_program(identity[0], seconds, stopped)
    untimed = latency.runs - latency.alone
    return Measurement((_latency_json if form == "json" else _latency_text)(*identity, latency, why), latency.seconds,
                    [f"{untimed} of {latency.runs} runs were not timed exactly"] if untimed else [])


def _say_progress(text: str) -> None:
    """Say what is being done, from now on: on stderr, for a waiting user."""
    from ..requests import print_to_stderr
    print_to_stderr(text)


# A program runs to its end on the CPU and the thread on which it began; all idle CPUs have thread 0.
_TIMED = """fentry:bpf:{probe} {{ @since[cpu, tid] = nsecs; }}
fexit:bpf:{probe} {{
  @runs = count();
  if (@since[cpu, tid]) {{ @ns = hist(nsecs - @since[cpu, tid], {bits}); delete(@since, (cpu, tid)); }} }}"""


def _measure_exactly(number: int, named: str, seconds: float, stopped: Callable[[], bool]) -> tuple[Latency | None,
                                                                                                    str]:
    """Every run timed by fentry and fexit; or none, and why the kernel does not allow that."""
    from ...compiling import live_world
    from ...errors import SondeError
    from ...kernel.types.bpf_programs import program_by_id
    from ...library.trace import trace
    world = live_world()
    if not world.has_feature("fentry"):
        return None, "this kernel has no fentry"
    known = program_by_id(number)
    if known is None or not known.functions:
        return None, "the program was loaded without function information"
    from ...runtime.costs.overhead import BITS, Latency
    script = _TIMED.format(probe=f"{number}:{known.functions[0][1]}", bits=BITS)
    try:
        tracing = trace(script, world=world)
        tracing.attach()
    except SondeError as error:
        return None, f"the kernel does not let it be traced: {str(error).splitlines()[0]}"
    began = time.monotonic()
    try:
        _say_progress(f"timing each run of {named}")
        _wait_until_stopped(seconds, stopped)
    finally:
        took = time.monotonic() - began
        tracing.close()
    histogram = tracing.maps["@ns"].value
    runs = tracing.maps["@runs"].value or 0
    unseen = sum(count for probe, count in tracing.losses.skipped if probe.startswith("fexit"))
    return Latency(histogram, runs + unseen, histogram.total if histogram is not None else 0, took), ""


def _latency_text(number: int, name: str, latency: Latency, why: str) -> str:
    head = f"Nanoseconds of a run of program {number} ({name or 'no name'}), {latency.seconds:.3f} s:\n"
    if not latency.runs:
        return head + "it did not run\n"
    others = latency.runs - latency.alone
    if not why:
        return f"{head}{latency.histogram or ''}{latency.alone} runs, each timed by fentry and fexit" + (
            f"; {others} more could not be timed.\n" if others else ".\n")
    return (f"{head}{latency.histogram}{latency.runs} runs, sampled each millisecond ({why}): {latency.alone} were "
            f"alone and are exact, {others} have the mean of their millisecond.\n")


def _latency_json(number: int, name: str, latency: Latency, why: str) -> str:
    from ...output.json import quote_json, to_json
    method = f'"sampled", "why_not_exact": {quote_json(why)}' if why else '"exact"'
    histogram = to_json(latency.histogram) if latency.histogram is not None else "[]"
    return (f'{{"type": "overhead_latency", "data": {{"id": {number}, "name": {quote_json(name)}, "seconds": '
            f'{latency.seconds:.6f}, "runs": {latency.runs}, "exact": {latency.alone}, "method": {method}, '
            f'"ns": {histogram}}}}}\n')


def _costs_table(costs: list[ProgramCost]) -> str:
    from ...output.statistics import format_table, share_text
    if not costs:
        return "There is no BPF program on this machine.\n"
    rows = [(str(c.id), c.type, str(c.runs), f"{c.mean:.0f}", share_text(c.share), str(c.skipped), c.name or "-",
             " ".join(c.holders) or "-") for c in costs]
    lines = format_table(("ID", "TYPE", "RUNS", "NS/RUN", "CPU", "SKIPPED", "NAME", "HELD BY"), rows, left=(1, 6))
    lines.append(f"{len(costs)} program{'' if len(costs) == 1 else 's'} took {share_text(sum(c.share for c in costs))}"
                 f" of one CPU's time in {costs[0].seconds:.3f} s.")
    return "\n".join(lines) + "\n"


def _costs_json(costs: list[ProgramCost]) -> str:
    from ...output.json import quote_json
    programs = [f'{{"id": {c.id}, "type": {quote_json(c.type)}, "name": {quote_json(c.name)}, "runs": {c.runs}, '
                f'"time_ns": {c.time_ns}, "ns_per_run": {c.mean:.1f}, "cpu_share": {c.share:.6f}, '
                f'"skipped": {c.skipped}, "held_by": [{", ".join(map(quote_json, c.holders))}]}}' for c in costs]
    return (f'{{"type": "overhead", "data": {{"seconds": {costs[0].seconds if costs else 0:.6f}, '
            f'"programs": [{", ".join(programs)}]}}}}\n')
