"""Damaged and hostile recordings, asked and looked at: an error, or the truth; never a wrong number, never a traceback.

``SONDE_FUZZ_SEED`` and ``SONDE_FUZZ_COUNT`` as in test_programs.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from recordings import blocks_of, write_blocks
from sonde.base.memory_budget import Memory
from sonde.errors import SondeError
from sonde.recording.pictures import read_frames
from sonde.recording.queries import open_question
from sonde.semantics.script_options import Options
from sonde.source import Source
from unit.recording.test_questions import NAME, recorded
from unit.recording.test_recording import mutations

COUNT = int(os.environ.get("SONDE_FUZZ_COUNT", "200"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", str(int(time.time()) % (1 << 24))))
BLOCKS = 4
COLUMNS = f"{NAME} /args.a > 2/ {{ @n[args.a, comm] = count(); @h = hist(args.b); @s = sum(args.c); }}"
ORDERED = (f'begin {{ printf("begin"); }} {NAME} {{ @last[args.a] = (args.b, comm); @n[pid] = count(); @c = cpu; '
           'if (args.a == 3) { printf("%d %s", args.b, comm); print(@n); } } end { printf("end"); }')
LOOPED = (f'begin {{ printf("begin"); }} {NAME} {{ @last[args.a] = args.b; @who[pid] = comm; if (args.a == 3) {{ '
          'printf("%d %s %d", args.b / @last[1], @who[pid], nsecs); delete(@last, 3); } } end { print(@last); }')
SCRIPTS = (COLUMNS, ORDERED, LOOPED)
ROWS = [{"a": i % 5, "b": i * i, "c": -i} for i in range(300)]
Told = tuple[list[str], dict[str, str]]


def ask(path: Path, script: str) -> Told:
    """What a script sends, and its maps."""
    with open_question(str(path), Source("stdin", script), Options(), Memory(16 << 20)) as trace:
        sent = [str(event.args) for event in trace.events()]
        maps = {name: str(sorted(map(str, view.items()))) for name, view in trace.maps.items()}
        if trace.recording.truncated:
            assert all(held == "[]" for held in maps.values())
            raise SondeError("it ends before its end")
    return sent, maps


def look(path: Path, script: str) -> None:
    with open_question(str(path), Source("stdin", script), Options(), Memory(16 << 20)) as trace:
        assert read_frames(trace, "x", "", ())


@pytest.mark.parametrize("block", range(BLOCKS))
def test_changed_bytes_are_found(block: int, tmp_path: Path) -> None:
    print(f"SONDE_FUZZ_SEED={SEED}")
    path, rng = recorded(tmp_path / "x", ROWS), random.Random(SEED + block)
    truth, data = {script: ask(path, script) for script in SCRIPTS}, path.read_bytes()
    other = tmp_path / "other"
    for _ in range(COUNT // BLOCKS):
        changed = bytearray(data)
        if rng.random() < 0.3:
            del changed[rng.randrange(len(data)):]
        else:
            for _ in range(rng.choice((1, 1, 2, 9))):
                changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        other.write_bytes(changed)
        for script in SCRIPTS:
            try:
                told = ask(other, script)
            except SondeError:
                continue
            assert bytes(changed) == data and told == truth[script]


@pytest.mark.parametrize("block", range(BLOCKS))
def test_hostile_files_are_errors_or_sound(block: int, tmp_path: Path) -> None:
    """Their checksums are right: they may lie, but nothing else goes wrong."""
    print(f"SONDE_FUZZ_SEED={SEED}")
    path, rng = recorded(tmp_path / "x", ROWS), random.Random(SEED + block)
    blocks, refused = blocks_of(path), 0
    for changed, _ in zip(mutations(blocks, rng), range(COUNT // BLOCKS)):
        write_blocks(path, changed)
        for way, script in (*[(ask, script) for script in SCRIPTS], (look, ORDERED)):
            try:
                way(path, script)
            except SondeError:
                refused += 1
    assert refused > COUNT // BLOCKS
