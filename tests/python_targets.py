"""Programs of Python with a C library of their own, run by an interpreter of a version, below another root too."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import interpreters

TESTS = Path(__file__).parent


@contextmanager
def run_python_target(version: str, name: str, sources: list[str], rounds: int,
                      tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """``tests/NAME.py`` with the C ``sources``, which waits for the word to begin; skips without such a Python."""
    command = next(interpreters(version), None)
    if command is None:
        pytest.skip(f"python{version} is not installed")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    root = Path(command[1]) if command[0] == "chroot" else Path("/")
    folder = root / f"tmp/{name}-{os.getpid()}" if command[0] == "chroot" else tmp_path
    folder.mkdir(exist_ok=True)
    inside = Path("/") / folder.relative_to(root)
    try:
        shutil.copy(TESTS / f"{name}.py", folder / "target.py")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-pthread", "-o", folder / "target.so",
                        *[TESTS / source for source in sources]], check=True)
        with subprocess.Popen([*command, f"{inside}/target.py", f"{inside}/target.so", str(rounds)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            yield process
            process.kill()
    finally:
        if folder != tmp_path:
            shutil.rmtree(folder)
