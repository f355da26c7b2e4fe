"""Files that were made to fill, hang or fool whoever reads them: each costs little, is spoken of once, and harms no
other file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hostile.generators_elf as made
from pace import pieces
from support import environment

PIECES, MEMORY = 50, 200  # of work (pace.py); MiB: of the tracer and its reader together
ASKING = Path(__file__).parent / "asking.py"
Make = Callable[[Path], Path]


def ask(tmp_path: Path, question: str, hostile: Path) -> dict[str, Any]:
    ordinary = made.with_symbols(tmp_path / "ordinary", [b"known"])
    done = subprocess.run([sys.executable, str(ASKING), question, str(hostile), str(ordinary)], capture_output=True,
                          text=True, timeout=60, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert pieces(found["seconds"]) < PIECES and found["memory"] < MEMORY, found
    assert found["ordinary"] == "known"
    assert found["again"] == found["answer"]
    return found


@pytest.mark.parametrize(("question", "make", "answer"), [
    ("symbol", made.one_name_of_a_megabyte, "n" * 4096),
    ("functions", made.one_name_of_a_megabyte, 4000),
    ("symbol", made.section_names_in_a_hole, ""),
], ids=lambda value: getattr(value, "__name__", None))
def test_read_as_far_as_it_makes_sense(tmp_path: Path, question: str, make: Make, answer: Any) -> None:
    found = ask(tmp_path, question, make(tmp_path / "hostile"))
    assert found["answer"] == answer and not found["told"]


@pytest.mark.parametrize(("question", "make", "why"), [
    ("symbol", made.symbols_in_a_hole, "a symbol table has 2147483648 bytes"),
    ("symbol", made.one_table_many_times, "reading it takes"),
    ("symbol", made.xz_bomb, "its .gnu_debugdata has more than"),
    ("object", made.strings_in_a_hole, "a part of it has 2147483648 bytes"),
    ("frame", made.endless_program, "reading it takes longer than 1.3 s"),
    ("frame", made.states_without_end, "reading it takes more than 112 MiB of memory"),
    ("rows", made.endless_program, "reading it takes longer than 1.3 s"),
    ("rows", made.states_without_end, "reading it takes more than 112 MiB of memory"),
], ids=lambda value: getattr(value, "__name__", None))
def test_refused_and_said_once(tmp_path: Path, question: str, make: Make, why: str) -> None:
    found = ask(tmp_path, question, make(tmp_path / "hostile"))
    assert len(found["told"]) == bool(why)
    assert all(told.startswith(f"WARNING: {tmp_path}/hostile is not read: ") and why in told for told in found["told"])


def test_a_million_names_in_a_hole(tmp_path: Path) -> None:
    """There may be so many functions; whether all are read depends on the machine, what it costs does not."""
    found = ask(tmp_path, "functions", made.strings_in_a_hole(tmp_path / "hostile"))
    assert len(found["told"]) <= 1


@pytest.mark.parametrize("make", [made.go_functions_in_a_hole, made.go_functions_all_over])
def test_tables_of_go(tmp_path: Path, make: Make) -> None:
    """The same of the functions that Go's table lists."""
    found = ask(tmp_path, "functions", make(tmp_path / "hostile"))
    assert len(found["told"]) <= 1


def test_damaged_unwind_table(tmp_path: Path) -> None:
    found = ask(tmp_path, "frame", made.long_number(tmp_path / "hostile"))
    assert found["answer"] == "MachineError: its unwind table is damaged: a number has more than 64 bits"


def test_a_name_that_doubles(tmp_path: Path) -> None:
    """It stays as it is, and so do the file's other names; those of other files do not."""
    name = made.exponential_name()
    assert len(name) < 600
    found = ask(tmp_path, "name", made.with_symbols(tmp_path / "hostile", [name]))
    assert found["answer"] == name.decode()
    assert [told.partition(" stay ")[0] for told in found["told"]] == [f"WARNING: C++ names of {tmp_path}/hostile"]


def test_declarations_that_double(tmp_path: Path) -> None:
    pytest.importorskip("elftools")
    found = ask(tmp_path, "prototype", made.doubling_declarator(tmp_path / "hostile"))
    assert "..." in found["answer"] and len(found["answer"]) < 10_000


@pytest.mark.parametrize("question", ["prototype", "places"])
@pytest.mark.parametrize("make", [made.immense_array, made.debug_string_bomb], ids=lambda make: make.__name__)
def test_debug_information(tmp_path: Path, make: Make, question: str) -> None:
    pytest.importorskip("elftools")
    found = ask(tmp_path, question, make(tmp_path / "hostile"))
    assert len(found["told"]) <= 1, found


def test_bad_notes_beside_good_ones(tmp_path: Path) -> None:
    """What one note says of itself is no reason not to see the others."""
    notes = [made.probe_note("a", b"-4@%eax"), made.probe_note("b", b"8@$010 8@$08 8@$0x10"),
             made.probe_note("c", b"8@$" + b"9" * 3000), made.probe_note("d", b"-1@-1@ 4@%ecx"),
             made.probe_note("e", b"9" * 3000 + b"@%eax"), made.probe_note("f", b"8@" + b"9" * 30 + b"(%rax)"),
             made.probe_note("g", b"-4@%eax", address=1 << 60), made.probe_note("h", b"8@%rdi " * 200)]
    found = ask(tmp_path, "probes", made.with_notes(tmp_path / "hostile", notes))
    assert found["answer"] == [
        ["a", ["register"]], ["b", ["constant"] * 3], ["c", ["unknown"]],
        ["d", ["unknown", "register"]], ["e", ["unknown"]], ["f", ["unknown"]], ["h", ["register"] * 32]]
    assert not found["told"]
