"""pystack: against what a Python program says of its own stack at the very system call that is traced."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import trace

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="pystack is for x86_64")

TARGET = Path(__file__).parents[1] / "pystack_target.py"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
ROUNDS = int(os.environ.get("SONDE_PYSTACK_ROUNDS", "40"))
CLOSE = "tracepoint:syscalls:sys_enter_close /args.fd >= 1048576 && args.fd < 1073741824/"
Stack = list[tuple[str, str, int]]


def interpreters(version: str) -> Iterator[list[str]]:
    """Commands that start Pythons of a version; in $SONDE_PYTHON_ROOTS are folders of other systems."""
    for path in (f"/usr/bin/python{version}", f"/usr/local/bin/python{version}",
                 *map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")))):
        if os.access(path, os.X_OK):
            yield [path]
    for root in filter(None, os.environ.get("SONDE_PYTHON_ROOTS", "").split(":")):
        if os.access(f"{root}/usr/bin/python{version}", os.X_OK):
            yield ["chroot", root, f"/usr/bin/python{version}"]


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> list[str]:
    found = next(interpreters(request.param), None)
    if found is None:
        pytest.skip(f"no Python {request.param} here")
    return found


def run_target(python: list[str], folder: Path, rounds: int) -> dict[int, Stack]:
    """What the target noted, by number. Below another root it works in that root's /tmp."""
    root = Path(python[1]) if python[0] == "chroot" else None
    place = folder
    if root is not None:
        place = root / "tmp" / f"pystack-{os.getpid()}"
        place.mkdir(parents=True)
    shutil.copy(TARGET, place / "target.py")
    inside = Path("/") / place.relative_to(root) if root is not None else place
    try:
        subprocess.run([*python, "-W", "ignore", str(inside / "target.py"), str(inside / "noted"), str(rounds)],
                       check=True, timeout=120)
        lines = [line for file in place.glob("noted*") for line in file.read_text().splitlines()]
        return {number: [(file, name, line) for file, name, line in stack]
                for number, stack in map(json.loads, lines)}
    finally:
        if root is not None:
            shutil.rmtree(place)


def parse_stacks(text: str) -> dict[int, Stack]:
    """From ``printf("=%d %s", args.fd, pystack)``."""
    found = {}
    for part in text.split("\n=")[1:]:
        number, _, frames = part.partition(" ")
        found[int(number)] = [(file, name, int(line)) for name, file, line in
                              re.findall(r"^ {8}(.*) \(([^\n]*):(\d+)\)$", frames, re.M)]
    return found


def test_equals_the_program_s_own(python: list[str], tmp_path: Path) -> None:
    noted: dict[int, Stack] = {}
    tracer = trace(f'{CLOSE} {{ printf("\\n=%d %s", args.fd, pystack); }}',
                   lambda: noted.update(run_target(python, tmp_path, ROUNDS)))
    found = parse_stacks("\n" + tracer.stdout)
    assert len(noted) > 50 * ROUNDS
    assert "not read" not in tracer.stderr and "lost" not in tracer.stderr.lower(), tracer.stderr
    wrong = [(number, noted[number], found.get(number)) for number in noted if found.get(number) != noted[number]]
    assert not wrong, f"{len(wrong)} of {len(noted)}: {wrong[0]}\n{tracer.stderr}"
