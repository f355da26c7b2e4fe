"""Odd machines, all in one guest: each case of odd_machine.py is exact there, or refused in one sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from arches import ARCHES
from odd_machine import CASES, Case
from vmrun import obstacle

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "6.1"  # the last of Debian's that takes possible_cpus= for an order and not for a limit
SECONDS = 900

pytestmark = [pytest.mark.timeout(SECONDS + 60),
              pytest.mark.skipif(not os.environ.get("SONDE_VM_KERNELS"),
                                 reason="takes minutes: SONDE_VM_KERNELS, or make test-vm-all, asks for it")]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the guest said to the cases, as far as it came."""
    if why := obstacle(ARCHES["x86_64"]) or ("" if os.uname().machine == "x86_64" else "this machine is no x86_64"):
        pytest.skip(why)
    shared = tmp_path_factory.mktemp("odd")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "vm" / "vmrun.py"), "--kernel", KERNEL, "--memory", "256M", "--append",
         "possible_cpus=256", "--rw", str(shared), "--timeout", str(SECONDS), "--", sys.executable,
         str(ROOT / "tests" / "vm" / "odd_machine.py"), str(shared / "found")],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"SONDE_VM": KERNEL, "XDG_CACHE_HOME": "/run/sonde-cache", "TMPDIR": "/run",
                          "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"})
    print(done.stdout[-2000:], done.stderr[-4000:])
    found: list[dict[str, Any]] = json.loads((shared / "found").read_text()) if (shared / "found").exists() else []
    return found


@pytest.mark.parametrize("case", CASES, ids=[f"{case.state}: {case.name}" for case in CASES])
def test_odd_machine(case: Case, answers: list[dict[str, Any]]) -> None:
    at = CASES.index(case)
    assert at < len(answers), "the guest did not come to it"
    status, out, error = (answers[at][name] for name in ("status", "out", "error"))
    assert "Traceback" not in error and "rejected" not in error, error
    assert status == case.status and re.search(case.error, error), (status, out, error)
    assert re.search(case.out, out), (out, error)
    assert len(re.findall(r"^ERROR: |: ERROR: ", error, re.M)) == bool(case.status), error
