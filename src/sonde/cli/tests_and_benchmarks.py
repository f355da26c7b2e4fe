"""A script's test and bench probes: run one after another, reported as text or JSON."""

from __future__ import annotations

import os
import sys
import time

from ..output import Output, Printer, make_output
from ..output.json import quote_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..library.traced_run import TracedRun
    from ..runtime.attach.programs import LoadedProgram
    from ..semantics.script_options import Options
    from ..semantics.world import World
    from ..source import Source

MEASURED = 200_000_000  # ns that a benchmark runs for, at least
BATCH = 500             # runs between two looks at the clock


def programs_of_kind(trace: TracedRun, kind: str) -> list[LoadedProgram]:
    """The programs of a kind, in the order of the script."""
    return [p for p in trace.session.programs if p.spec.attach[0].kind == kind]


# --- tests ------------------------------------------------------------------------------------------------


class Capture:
    """An output whose text is kept instead of shown."""

    def __init__(self, form: str) -> None:
        self._descriptor = os.memfd_create("output", os.MFD_CLOEXEC)
        self.out = make_output(form, self._descriptor, self._descriptor, quiet=True)

    def take_text(self) -> str:
        """What has been written since the last time."""
        self.out.flush(True)
        size = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        text = os.pread(self._descriptor, size, 0).decode("utf-8", "surrogateescape")
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return text

    def close(self) -> None:
        """Give the memory back."""
        os.close(self._descriptor)


def run_tests(trace: TracedRun, out: Output, form: str) -> int:
    """Run every test; 1 if one failed. A test's output is shown if it failed."""
    capture = Capture("text")
    try:
        printer = Printer(trace.spec, trace.context, capture.out, trace.take_map, trace.options.warnings)
        tests = [(program, point.event) for program in programs_of_kind(trace, "test") for point in program.spec.attach]
        if not tests:
            return 0
        if form != "json":
            write_raw(out, f"[==========] Running {len(tests)} tests.\n")
        failed = []
        for program, name in tests:
            start = time.monotonic_ns()
            records, passed = trace.session.run_test_program(program)
            for site, _, _ in records:
                passed = passed and trace.spec.sites[site].data.get("severity") != "ERROR"
            printer.print_records(records, trace.act_on_site)
            failed += [] if passed else [name]
            _report_test(out, form, name, passed, (time.monotonic_ns() - start) // 1000, capture.take_text())
    finally:
        capture.close()
    if form != "json":
        write_raw(out, f"[==========] {_count_text(len(tests))} ran.\n"
                       f"[  PASSED  ] {_count_text(len(tests) - len(failed))}.\n")
        if failed:
            write_raw(out, f"[  FAILED  ] {_count_text(len(failed))}, listed below:\n")
            write_raw(out, "".join([f"[  FAILED  ] {name}\n" for name in failed]))
    return 1 if failed else 0


def _report_test(out: Output, form: str, name: str, passed: bool, duration: int, printed: str) -> None:
    """``duration`` is in microseconds."""
    if form == "json":
        write_raw(out, f'{{"type": "test_result", "data": {{{quote_json(name)}: {{"duration": {duration}, '
                 f'"passed": {str(passed).lower()}, "output": {quote_json(printed)}}}}}}}\n')
        return
    shown = printed if not passed else ""
    write_raw(out, f"[ RUN      ] {name}\n{shown}{'' if shown.endswith(chr(10)) or not shown else chr(10)}"
             f"[{'       OK' if passed else '  FAILED '} ] {name} ({duration} \u03bcs)\n")


def _count_text(number: int) -> str:
    return f"{number} test{'' if number == 1 else 's'}"


def write_raw(out: Output, text: str) -> None:
    """Text that is output already, whatever the form."""
    from ..output.stream import Streams
    assert isinstance(out, Streams)
    out.out.write(text.encode("utf-8", "surrogateescape"))


# --- benchmarks -------------------------------------------------------------------------------------------


def run_benchmarks(trace: TracedRun, out: Output, form: str) -> int:
    """Measure every benchmark by the kernel's own account of its runs."""
    rows = []
    for program in programs_of_kind(trace, "bench"):
        average, runs = measure_program(trace, program)
        rows += [(point.event, average, runs) for point in program.spec.attach]
    if rows:
        write_raw(out, _results_text(rows, form))
    return 0


def _results_text(rows: list[tuple[str, int, int]], form: str) -> str:
    """(name, nanoseconds, how often it ran) of each."""
    if form == "json":
        return "".join([f'{{"type": "benchmark_result", "data": {{{quote_json(name)}: {{"average": {average}, '
                        f'"iters": {runs}}}}}}}\n' for name, average, runs in rows])
    width = max([33, *[len(name) for name, _, _ in rows]])
    head, *lines = [f"{name:<{width}}{average:>16}{runs:>17}" for name, average, runs in
                    [("Benchmark", "Time(ns)", "Iterations"), *rows]]
    return "\n".join([head, "-" * len(head), *lines, ""])


def measure_program(trace: TracedRun, program: LoadedProgram) -> tuple[int, int]:
    """(nanoseconds of a run, runs). What the program prints is thrown away."""
    before = program.program_info()
    end = time.monotonic_ns() + MEASURED
    while time.monotonic_ns() < end:
        for _ in range(BATCH):
            program.run()
        trace.session.discard_records()
    after = program.program_info()
    runs = after.run_count - before.run_count
    return (after.run_time_ns - before.run_time_ns) // runs if runs else 0, runs


def benchmark_compiler(source: Source, options: Options, world: World, form: str) -> int:
    """How long it takes to compile the script, and to read it, which is the first part of that."""
    from ..compiling import compile
    from ..language.diagnostics import Diagnostics
    from ..language.includes import Files
    from ..language.parser import parse_script
    files = Files(options.directories, options.headers, world.release, world.arch)
    rows = []
    for name, run in (("parse", lambda: parse_script(source, Diagnostics(), options.params, files)),
                      ("compile", lambda: compile(source, options, world))):
        start, runs = time.perf_counter_ns(), 0
        while time.perf_counter_ns() - start < MEASURED:
            run()
            runs += 1
        rows.append((name, (time.perf_counter_ns() - start) // runs, runs))
    sys.stdout.write(_results_text(rows, form))
    return 0
