"""Random programs in the interpreter: what they print is what the evaluator says."""

from __future__ import annotations

import pytest

import compiled
import judge
from fuzz.programs import Writer
from sonde.compiler.pipeline import compile_checked


@pytest.mark.parametrize("kernel", list(compiled.KERNELS))
@pytest.mark.parametrize("block", range(4))
def test_random_programs(block: int, kernel: str) -> None:
    world = compiled.world(kernel)
    for seed in range(block * 10, block * 10 + 10):
        script = Writer(seed, 2).script()
        checked = judge.checked(script, world)
        assert judge.interpreted(compile_checked(checked, world, None, verify=True)) == judge.wanted(checked), script
