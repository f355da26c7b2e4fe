"""A pytest plugin for the guest: each test's outcome goes to $SONDE_VM_REPORT as soon as it is known, a JSON object a
line, so that a run that does not come to its end has told what it did."""

from __future__ import annotations

import json
import os

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    outcome = "skipped" if hasattr(report, "wasxfail") else report.outcome
    with open(os.environ["SONDE_VM_REPORT"], "a", encoding="utf-8") as file:
        file.write(json.dumps([report.nodeid, outcome, text, round(report.duration, 1)]) + "\n")
