"""Where in its machine code a BPF program spends its time: samples of the CPUs' instruction pointers."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..record import Record

if TYPE_CHECKING:
    from ..kernel.program_image import Code, Image

RATE = 1999  # samples a second on each CPU; a prime, to keep out of step with what is periodic
# The interrupted kernel's registers are those of the program's own code, for it runs with interrupts on.
_SCRIPT = """profile:hz:{rate} {{
  @all = count();
  $ip = (uint64)reg("{register}");
  if ({inside}) {{ @at[$ip] = count(); }} }}"""
_REGISTERS = {"x86_64": "ip", "aarch64": "pc"}
_MACHINES = {"x86_64": "i386:x86-64", "aarch64": "aarch64"}  # as objdump calls them


class Place(Record):
    """An instruction at ``offset`` in function number ``function``; ``text`` is "" without objdump, ``line`` without
    line information."""

    function: int
    offset: int
    samples: int
    line: str
    text: str


class Samples(Record):
    """``inside`` of ``total`` samples were in the program. ``places`` are all its instructions, or, where nothing
    can disassemble them, those that have samples."""

    inside: int
    total: int
    seconds: float
    places: list[Place]


def sample(image: Image, seconds: float, stopped: Callable[[], bool]) -> Samples:
    """Take samples until the time is over. What the compiler or the kernel refuse is a SondeError."""
    from ..api import trace
    machine = os.uname().machine
    inside = " || ".join(f"$ip >= {f.address} && $ip < {f.address + len(f.code)}" for f in image.functions)
    script = _SCRIPT.format(rate=RATE, register=_REGISTERS[machine], inside=inside)
    tracing = trace(script)
    tracing.attach()
    began = time.monotonic()
    try:
        while not stopped() and (left := began + seconds - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
    finally:
        took = time.monotonic() - began
        tracing.close()
    counts: dict[int, int] = dict(tracing.maps["@at"].items())
    return Samples(sum(counts.values()), tracing.maps["@all"].value or 0, took, list(_places(image, counts, machine)))


def _places(image: Image, counts: dict[int, int], machine: str) -> list[Place]:
    found = []
    for number, function in enumerate(image.functions):
        texts = disassembled(function, machine)
        addresses = list(texts) or sorted(
            at for at in counts if function.address <= at < function.address + len(function.code))
        found += [Place(number, at - function.address, counts.get(at, 0), image.line_at(at), texts.get(at, ""))
                  for at in addresses]
    return found


def disassembled(function: Code, machine: str) -> dict[int, str]:
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
        done = subprocess.run([tool, "-D", "-b", "binary", "-m", _MACHINES[machine], "--no-show-raw-insn",
                               f"--adjust-vma={function.address:#x}", file.name],
                              capture_output=True, text=True, check=False)
    return {int(at, 16): " ".join(text.split())
            for at, text in re.findall(r"^ *([0-9a-f]+):\t(.*)$", done.stdout, re.MULTILINE)}
