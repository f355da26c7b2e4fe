"""Where the loader writes down which code it chose for an indirect function (STT_GNU_IFUNC), by the relocations of the
files that use it.

A file's own uses are relocations of type IRELATIVE, which have the address of the resolver; those of others name the
function. Either way the loader puts the address that the resolver returns into a slot (ELF gABI, "Relocation").
"""

from __future__ import annotations

from sys import byteorder

from ...arch import find_arch_of_elf
from .elf import SHT_DYNSYM, Elf, Section
from .elf_forms import Table
from .symbol_table import TooLargeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_RELOCATIONS = 24 << 20  # bytes: a million of them
MOST_SLOTS = 20_000

Slot = tuple[int, int, str]  # where the address will be, and of what: the resolver's address, or 0 and a name


def indirect_slots(elf: Elf, names: list[str]) -> list[Slot]:
    """The slots of the file's own indirect functions, and of those of these names from other files."""
    row = find_arch_of_elf(elf.machine)
    slots: list[Slot] = []
    wanted: dict[int, dict[int, str]] = {}
    left = MOST_RELOCATIONS
    for section in elf.sections:
        table = elf.form.relocation.get(section.type)
        if row is None or table is None:
            continue
        left -= section.size
        if left < 0:
            raise TooLargeError(f"its relocations have more than {MOST_RELOCATIONS} bytes")
        if section.link not in wanted:
            wanted[section.link] = _imported_symbols(elf, section.link, frozenset(names))
        slots += _slots_of(elf, section, table, row.indirect_relocation, wanted[section.link])
        if len(slots) > MOST_SLOTS:
            raise TooLargeError(f"it has more than {MOST_SLOTS} slots for indirect functions")
    return slots


def _slots_of(elf: Elf, section: Section, table: Table, indirect: int, wanted: dict[int, str]) -> Iterator[Slot]:
    bits = elf.form.type_bits
    for slot, info, *addend in elf.read_table(section, table):
        if info == indirect:
            yield slot, addend[0] & (1 << 64) - 1 if addend else _word_at(elf, slot), ""
        elif info >> bits in wanted:
            yield slot, 0, wanted[info >> bits]


def _word_at(elf: Elf, address: int) -> int:
    offset = elf.address_to_offset(address)
    return int.from_bytes(elf.read(offset - elf.start, elf.form.word), byteorder) if offset is not None else 0


def _imported_symbols(elf: Elf, index: int, names: frozenset[str]) -> dict[int, str]:
    """The symbols of these names that a file takes from others, by their numbers in a table of symbols."""
    table = elf.sections[index] if index < len(elf.sections) else None
    if table is None or table.type != SHT_DYNSYM or not names:
        return {}
    return elf.undefined_symbols(table, names)
