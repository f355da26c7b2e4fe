"""What differs between CPU architectures: a file for each that Sonde supports."""

from __future__ import annotations

from .aarch64 import AARCH64
from .riscv64 import RISCV64
from .row import Arch as Arch
from .x86_64 import X86_64

ARCHES = {row.name: row for row in (X86_64, AARCH64, RISCV64)}
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def find_arch(name: str) -> Arch | None:
    """The row for a machine name as ``uname -m`` (or Debian) spells it; None if Sonde does not support it."""
    return ARCHES.get(_ALIASES.get(name, name))


def find_arch_of_elf(machine: int) -> Arch | None:
    """The row for a number EM_ in an ELF file's header."""
    return next((row for row in ARCHES.values() if row.elf_machine == machine), None)


def this_arch() -> Arch:
    """The row of the running machine; MissingFeatureError if it is not supported."""
    import os

    from ..errors import MissingFeatureError

    machine = os.uname().machine
    row = find_arch(machine)
    if row is None:
        raise MissingFeatureError(f"Sonde does not know the CPU architecture {machine}", "architecture",
                                  [f"supported are {', '.join(ARCHES)}"])
    return row
