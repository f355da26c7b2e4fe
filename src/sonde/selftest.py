"""The test and bench probes of a script: run one after the other, reported in text or JSON."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from .output import Printer, output
from .output.json import quote

if TYPE_CHECKING:
    from .api import Trace
    from .output import Output
    from .runtime.programs import Program

MEASURED = 200_000_000  # ns that a benchmark runs for, at least
BATCH = 500             # runs between two looks at the clock


def programs(trace: Trace, kind: str) -> list[Program]:
    """The programs of a kind, in the order of the script."""
    return [p for p in trace.session.programs if p.spec.attach[0].kind == kind]


# --- tests ------------------------------------------------------------------------------------------------


class Capture:
    """An output whose text is kept instead of shown."""

    def __init__(self, form: str) -> None:
        self._descriptor = os.memfd_create("output", os.MFD_CLOEXEC)
        self.out = output(form, self._descriptor, self._descriptor, quiet=True)

    def take(self) -> str:
        """What has been written since the last time."""
        self.out.flush(True)
        size = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        text = os.pread(self._descriptor, size, 0).decode("utf-8", "surrogateescape")
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return text

    def close(self) -> None:
        """Give the memory back."""
        os.close(self._descriptor)


def run_tests(trace: Trace, out: Output, form: str) -> int:
    """Run every test; 1 if one failed. A test's output is shown if it failed."""
    capture = Capture("text")
    try:
        printer = Printer(trace.spec, trace.context, capture.out, trace.take, trace.options.warnings)
        tests = [(program, point.event) for program in programs(trace, "test") for point in program.spec.attach]
        if form != "json":
            say(out, f"[==========] Running {len(tests)} tests.\n")
        failed = []
        for program, name in tests:
            start = time.monotonic_ns()
            records, passed = trace.session.rehearse(program)
            for site, _, _ in records:
                passed = passed and trace.spec.sites[site].data.get("severity") != "ERROR"
            printer.show(records, trace.act)
            failed += [] if passed else [name]
            _report(out, form, name, passed, (time.monotonic_ns() - start) // 1000, capture.take())
    finally:
        capture.close()
    if form != "json":
        say(out, f"[==========] {_count(len(tests))} ran.\n[  PASSED  ] {_count(len(tests) - len(failed))}.\n")
        if failed:
            say(out, f"[  FAILED  ] {_count(len(failed))}, listed below:\n")
            say(out, "".join([f"[  FAILED  ] {name}\n" for name in failed]))
    return 1 if failed else 0


def _report(out: Output, form: str, name: str, passed: bool, duration: int, printed: str) -> None:
    """``duration`` is in microseconds."""
    if form == "json":
        say(out, f'{{"type": "test_result", "data": {{{quote(name)}: {{"duration": {duration}, '
                 f'"passed": {str(passed).lower()}, "output": {quote(printed)}}}}}}}\n')
        return
    shown = printed if not passed else ""
    say(out, f"[ RUN      ] {name}\n{shown}{'' if shown.endswith(chr(10)) or not shown else chr(10)}"
             f"[{'       OK' if passed else '  FAILED '} ] {name} ({duration} \u03bcs)\n")


def _count(number: int) -> str:
    return f"{number} test{'' if number == 1 else 's'}"


def say(out: Any, text: str) -> None:
    """Text that is output already, whatever the form."""
    out.out.write(text.encode("utf-8", "surrogateescape"))


# --- benchmarks -------------------------------------------------------------------------------------------


def run_benchmarks(trace: Trace, out: Output, form: str) -> int:
    """Measure every benchmark by the kernel's own account of its runs."""
    rows = []
    for program in programs(trace, "bench"):
        average, runs = measure(trace, program)
        rows += [(point.event, average, runs) for point in program.spec.attach]
    say(out, _results(rows, form))
    return 0


def _results(rows: list[tuple[str, int, int]], form: str) -> str:
    """(name, nanoseconds, how often it ran) of each."""
    if form == "json":
        return "".join([f'{{"type": "benchmark_result", "data": {{{quote(name)}: {{"average": {average}, '
                        f'"iters": {runs}}}}}}}\n' for name, average, runs in rows])
    width = max([33, *[len(name) for name, _, _ in rows]])
    head, *lines = [f"{name:<{width}}{average:>16}{runs:>17}" for name, average, runs in
                    [("Benchmark", "Time(ns)", "Iterations"), *rows]]
    return "\n".join([head, "-" * len(head), *lines, ""])


def measure(trace: Trace, program: Program) -> tuple[int, int]:
    """(nanoseconds of a run, runs). What the program prints is thrown away."""
    before = program.info()
    end = time.monotonic_ns() + MEASURED
    while time.monotonic_ns() < end:
        for _ in range(BATCH):
            program.run()
        trace.session.discard()
    after = program.info()
    runs = after.run_count - before.run_count
    return (after.run_time_ns - before.run_time_ns) // runs if runs else 0, runs


def benchmark_compiler(trace: Trace, form: str) -> int:
    """How long it takes to compile the script, and to read it, which is the first part of that."""
    from .api import compile
    from .language.diagnostics import Diagnostics
    from .language.files import Files
    from .language.parser import parse
    options, world = trace.options, trace.world
    files = Files(options.directories, options.headers, world.release)
    rows = []
    for name, run in (("parse", lambda: parse(trace.source, Diagnostics(), options.params, files)),
                      ("compile", lambda: compile(trace.source, options, world))):
        start, runs = time.perf_counter_ns(), 0
        while time.perf_counter_ns() - start < MEASURED:
            run()
            runs += 1
        rows.append((name, (time.perf_counter_ns() - start) // runs, runs))
    sys.stdout.write(_results(rows, form))
    return 0
