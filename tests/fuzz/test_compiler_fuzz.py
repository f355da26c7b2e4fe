"""Whatever the checker accepts compiles to legal code, and the code does nothing that it must not do when it runs."""

from __future__ import annotations

import pytest

from compiled import KERNELS, compiled, loaded
from fuzz.test_checker_fuzz import TypedWriter, Writer
from sonde.errors import CompileError

OPTIONS = {"params": ["12", "text"], "unsafe": True}


@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("block", range(6))
def test_right_scripts_run(block: int, kernel: str) -> None:
    """In the interpreter, with an object behind the arguments; it is stricter than the verifier."""
    ran = 0
    for seed in range(block * 30, block * 30 + 30):
        script = TypedWriter(seed).script()
        try:
            made = loaded(script, kernel, **OPTIONS)
        except CompileError:
            continue
        for program in made.spec.programs:
            object_ = made.memory.add(bytes(4096), "object", writable=False)
            made.run(program, (object_.base.to_bytes(8, "little") * 2).ljust(256, b"\0"))
            ran += 1
    assert ran > 20


@pytest.mark.parametrize("block", range(4))
def test_any_script_that_is_accepted_compiles(block: int) -> None:
    for seed in range(block * 250, block * 250 + 250):
        for kernel in KERNELS:
            try:
                compiled(Writer(seed).script(), kernel, **OPTIONS)
            except CompileError:
                break
