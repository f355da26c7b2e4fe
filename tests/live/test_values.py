"""Values of every kind as text and as JSON, byte for byte: ``values.txt`` has the programs and what they print."""

from __future__ import annotations

import json
import sys
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


def test_bytes_of_a_number_are_in_the_machines_order() -> None:
    """As key, as value, and by their places."""
    done = run_sonde("-q", "-e", """
        begin {
          @a[(uint8[2])(uint16)513] = (uint16[2])(uint32)65538;
          $bytes = (uint8[8])0x0102030405060708; printf("%d %d\\n", $bytes[0], $bytes[7]);
          exit();
        }""")
    expected = {"little": ["8", "1", "@a[[1,2]]:", "[2,1]"], "big": ["1", "8", "@a[[2,1]]:", "[1,2]"]}
    assert done.stdout.split() == expected[sys.byteorder], done.stderr
