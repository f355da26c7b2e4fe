"""Go programs for tests, built by each Go that is at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# Further Go compilers, separated by colons, beside the one in $PATH.
COMPILERS = ["go", *[each for each in os.environ.get("SONDE_TEST_GO", "").split(":") if each]]


def build_go(folder: Path, source: str, *flags: str, compiler: str = "go", name: str = "prog") -> Path:
    """The program; the test is skipped where there is no Go."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    (folder / f"{name}.go").write_text(source)
    known = {"GOCACHE": f"/tmp/sonde-test-go-{os.path.basename(compiler)}", "GO111MODULE": "off", "GOFLAGS": ""}
    subprocess.run([compiler, "build", *flags, "-o", folder / name, folder / f"{name}.go"], check=True, cwd=folder,
                   env={**os.environ, **known})
    return folder / name
