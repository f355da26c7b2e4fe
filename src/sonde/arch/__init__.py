"""What differs between CPU architectures: a file for each that Sonde supports."""

from __future__ import annotations

from ..base.fast_stdlib import Mapping
from .row import Arch as Arch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("x86_64", "aarch64", "riscv64", "s390x")  # as uname -m has them, and of the files


NARROW = ("i386",)  # of 32-bit programs, which run, and are traced, beside 64-bit ones
NARROW_MACHINES = (3,)  # their numbers EM_


class _Rows(Mapping[str, Arch]):
    """The rows by name. A file is read when its row is asked for: a start needs one."""

    def __getitem__(self, name: str) -> Arch:
        if name not in NAMES and name not in NARROW:
            raise KeyError(name)
        row: Arch = __import__(f"{__name__}.{name}", fromlist=["ROW"]).ROW
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


ARCHES = _Rows()
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def find_arch(name: str) -> Arch | None:
    """The row for a machine name as ``uname -m`` (or Debian) spells it; None if Sonde does not support it."""
    return ARCHES.get(_ALIASES.get(name, name))


def find_arch_of_elf(machine: int) -> Arch | None:
    """The row for a number EM_ in an ELF file's header."""
    return next((row for name in (*NAMES, *NARROW) if (row := ARCHES[name]).elf_machine == machine), None)


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
