"""Random programs in the interpreter: what they print is what the evaluator says."""

from __future__ import annotations

import pytest

import compiled
import judge
from fuzz.programs import SELF_REFERENCE, Writer
from sonde.compiler.pipeline import compile_checked
from sonde.errors import CompileError


@pytest.mark.parametrize("kernel", list(compiled.KERNELS))
@pytest.mark.parametrize("block", range(4))
def test_random_programs(block: int, kernel: str) -> None:
    world = compiled.world(kernel)
    for seed in range(block * 10, block * 10 + 10):
        script = Writer(seed, 2).script()
        try:
            checked = judge.checked(script, world)
        except CompileError as error:
            assert all(item.code == SELF_REFERENCE for item in error.diagnostics if item.severity == "ERROR"), script
            continue
        assert judge.interpreted(compile_checked(checked, world, None, verify=True)) == judge.wanted(checked), script
