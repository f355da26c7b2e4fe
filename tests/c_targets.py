"""Programs that tests make from C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def build_target(source: str, folder: Path, *options: str) -> str:
    """The path of a program made from a C file of the tests."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    program = folder / Path(source).stem
    made = subprocess.run([compiler, *options, "-O1", "-o", program, TESTS / source], capture_output=True, text=True,
                          check=False)
    if made.returncode:
        pytest.skip(f"gcc: {made.stderr}")
    return str(program)
