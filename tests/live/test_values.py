"""Values of every kind as text and as JSON, byte for byte: ``values.txt`` has the programs and what they print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import run_sonde

HEAD = "enum colour { RED, GREEN, BLUE = 5 }; struct s { int a; char n[4]; };"
CASES = [case.partition("\n") for case in (Path(__file__).parent / "values.txt").read_text().split("=== ")[1:]]


@pytest.mark.parametrize(("program", "expected"), [(program, rest) for program, _, rest in CASES])
def test_values(program: str, expected: str) -> None:
    text, _, objects = expected.partition("--- json\n")
    for format, wanted in (("text", text), ("json", objects)):
        done = run_sonde("-q", "-f", format, "-e", f"{HEAD} begin {{ {program} exit(); }}")
        assert done.stdout == wanted, done.stderr
        assert not done.stderr
    assert all(json.loads(line)["type"] for line in objects.splitlines())
