"""Random programs: what the kernel makes of them is what the evaluator says.

``SONDE_FUZZ_SEED`` chooses the first seed (each run of the tests has its own, which it prints), ``SONDE_FUZZ_COUNT``
how many programs there are. A program that was ever found wrong is kept in ``found``. With
10,000: ``SONDE_FUZZ_COUNT=10000 pytest tests/fuzz/test_programs.py`` takes an hour of CPU.
``PYTHONPATH=tests:src python -m fuzz.shrink SEED`` makes a failing one small.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import judge
from fuzz.programs import Writer
from sonde.errors import VerifierError
from support import live_obstacle

FOUND = sorted((Path(__file__).parent / "found").glob("*.bt"))
COUNT = int(os.environ.get("SONDE_FUZZ_COUNT", "200"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", str(int(time.time()) % (1 << 24))))
BLOCKS = 10
# What the verifier gives up on after a million instructions.
LIMIT = "too complex"
SIZES = (2, 3, 4)


@pytest.fixture(autouse=True)
def needs_root() -> None:
    why = live_obstacle()
    if why:
        pytest.skip(f"live tier: {why}")


def program(seed: int) -> str:
    return Writer(seed, SIZES[seed % len(SIZES)], events=seed % 8 == 0, memory=True).script()


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found(path: Path) -> None:
    got, wanted = judge.compare(path.read_text())
    assert got == wanted


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_programs(block: int) -> None:
    print(f"SONDE_FUZZ_SEED={SEED}")
    limited = 0
    seeds = range(SEED + block, SEED + COUNT, BLOCKS)
    for seed in seeds:
        script = program(seed)
        try:
            got, wanted = judge.compare(script, json=seed % 5 == 0, verify=seed % 8 == 0)
        except Exception as error:
            if isinstance(error, VerifierError) and LIMIT in str(error):
                limited += 1
                continue
            raise AssertionError(f"seed {seed}: {error!r:.2000}\n{script}") from error
        assert got == wanted, f"seed {seed}\n{script}"
    assert limited <= max(1, len(seeds) // 500)
