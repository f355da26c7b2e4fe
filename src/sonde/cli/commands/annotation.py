"""Where in its machine code a BPF program spends its time: samples of the CPUs' instruction pointers."""

from __future__ import annotations

import os
import re
import time

from ...arch import ARCHES
from ...base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...kernel.program_image import Code, Image

RATE = 1999  # samples a second on each CPU; a prime, to stay out of step with periodic work


class SampledInstruction(Record):
    """An instruction at ``offset`` in function number ``function``; ``text`` is "" without objdump, ``line`` without
    line information."""

    function: int
    offset: int
    samples: int
    line: str
    text: str


class Samples(Record):
    """``inside`` of ``total`` samples were in the program; ``lost`` more could not be kept. ``places`` are all its
    instructions, or, without a disassembler, those with samples."""

    inside: int
    total: int
    lost: int
    seconds: float
    instructions: list[SampledInstruction]


def sample_program(image: Image, seconds: float, stopped: Callable[[], bool]) -> Samples:
    """Take samples until the time is up. PrivilegeError without CAP_PERFMON."""
    from ...kernel.perf_ring import Sampler
    sampler = Sampler(RATE)
    began = time.monotonic()
    try:
        while not stopped() and (left := began + seconds - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
            sampler.drain_rings()
    finally:
        took = time.monotonic() - began
        sampler.close()
    counts = {at: n for at, n in sampler.addresses.items() if any(_is_within(at, code) for code in image.functions)}
    return Samples(sum(counts.values()), sampler.total, sampler.lost, took,
                   list(_sampled_instructions(image, counts, os.uname().machine)))


def _is_within(address: int, function: Code) -> bool:
    return function.address <= address < function.address + len(function.code)


def _sampled_instructions(image: Image, counts: dict[int, int], machine: str) -> list[SampledInstruction]:
    instructions = []
    for number, function in enumerate(image.functions):
        texts = disassemble_function(function, machine)
        addresses = sorted({*texts, *[at for at in counts if _is_within(at, function)]})
        instructions += [
            SampledInstruction(number, at - function.address, counts.get(at, 0), image.line_at(at), texts.get(at, ""))
            for at in addresses]
    return instructions


def disassemble_function(function: Code, machine: str) -> dict[int, str]:
    """Address → instruction, by objdump; {} where it is not installed."""
    import shutil
    import subprocess
    import tempfile
    tool = shutil.which("objdump")
    if tool is None:
        return {}
    with tempfile.NamedTemporaryFile(prefix="sonde-") as file:
        file.write(function.code)
        file.flush()
        done = subprocess.run([tool, "-D", "-b", "binary", "-m", ARCHES[machine].objdump, "--no-show-raw-insn",
                               f"--adjust-vma={function.address:#x}", file.name],
                              capture_output=True, text=True, check=False)
    return {int(at, 16): " ".join(text.split())
            for at, text in re.findall(r"^ *([0-9a-f]+):\t(.*)$", done.stdout, re.MULTILINE)}
