"""A pytest plugin for the guest. Each test's outcome goes to $SONDE_VM_REPORT as soon as it is known, a JSON object a
line, so that a run that does not come to its end has told what it did. And before the first test the caches are
filled: the index of the kernel's types alone takes longer in there than a test may, and one that is killed leaves none.
A test during which the kernel's log complains of the kernel itself has failed.
"""

from __future__ import annotations

import json
import os
import re

import pytest

# What came later, as Sonde says it. NEEDS of a tool count only where that is the last word: an alternative may follow.
REFUSAL = re.compile(r"(?:(?:ERROR|CompileError): |HINT: it (?=needs [^\n\\]*\)(?:\\n|\n|$)))"
                     r"([^\n\\]* \(Linux (\d+)\.(\d+)\))", re.MULTILINE)
WITHOUT_JIT = re.compile(r"ERROR: ([^\n\\]*)(?:(?!ERROR: )[\s\S])*?HINT: (BPF\\?'s JIT compiler is needed, too)")
# What the verifier cannot follow to its end before there were calls of loops (Linux 5.17).
TOO_MUCH = re.compile(r"the kernel rejected the program: ((?:the program is too complex|the program has too many "
                      r"branches|a loop does not end)[^\n\\]*)")
COMPLAINT = re.compile(r"(WARNING|BUG|Oops|INFO): (?!.*(soft lockup|rcu_|task ))[^\n]*")  # the emulator is slow, too
RELEASE = tuple(int(part) for part in os.uname().release.split(".")[:2])


def pytest_sessionstart() -> None:
    from sonde.kernel.features import ROWS
    from sonde.kernel.types.world import LiveWorld

    read_complaints()
    world = LiveWorld()
    world.find_struct("task_struct")
    for name in ROWS:
        world.has_feature(name)


def compiles_programs() -> bool:
    from sonde.kernel.types.world import LiveWorld

    return LiveWorld().has_feature("jit")


kernel_log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def read_complaints() -> list[str]:
    """Those since the last time."""
    found = []
    while True:
        try:
            record = os.read(kernel_log, 8192).decode(errors="replace")
        except BlockingIOError:
            return found
        except BrokenPipeError:  # some were overwritten
            continue
        if complaint := COMPLAINT.search(record):
            found.append(complaint[0])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    complaints = read_complaints() if report.when == "teardown" else []
    if complaints:
        write_outcome(report, "failed", "\n".join(["the kernel's log:", *complaints]))
    if report.when != "call" and report.outcome == "passed":
        return
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    outcome = "skipped" if hasattr(report, "wasxfail") else report.outcome
    later = next((match for match in REFUSAL.finditer(text) if RELEASE < (int(match[2]), int(match[3]))), None)
    if outcome != "skipped" and later:  # as it should be: refused in a sentence that names the first kernel that can
        outcome, text = "skipped", later[1]
    elif outcome != "skipped" and RELEASE < (5, 17) and (refused := TOO_MUCH.search(text)):
        outcome, text = "skipped", f"{refused[1]} (Linux 5.17)"
    elif outcome != "skipped" and (refused := WITHOUT_JIT.search(text)) and not compiles_programs():
        outcome, text = "skipped", f"{refused[1]}: {refused[2]}"
    write_outcome(report, outcome, text)


def write_outcome(report: pytest.TestReport, outcome: str, text: str) -> None:
    with open(os.environ["SONDE_VM_REPORT"], "a", encoding="utf-8") as file:
        file.write(json.dumps([report.nodeid, outcome, text, round(report.duration, 1)]) + "\n")
