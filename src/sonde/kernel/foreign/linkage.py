"""Which function a jump through a file's linkage table leads to: by the slot that the jump reads, and the relocation by
which the loader fills the slot (ELF gABI, "Relocation"; x86-64 psABI, "Procedure Linkage Table")."""

from __future__ import annotations

from .elf import SHT_DYNSYM, Elf, Section, Strings
from .indirect import MOST_RELOCATIONS, MOST_SLOTS

MOST_STUB = 16  # bytes of an entry of the table
_PREFIXES = (b"\xf3\x0f\x1e\xfa", b"\xf3\x0f\x1e\xfb", b"\xf2", b"\x3e")  # endbr64, endbr32, bnd, notrack
_JUMP_BY_SLOT, _JUMP_BY_TABLE = b"\xff\x25", b"\xff\xa3"  # jmp *(slot), jmp *(distance of the slot)(%ebx)


class Linkage:
    """The linkage table of a file. Of architectures other than x86 it is only known where that is."""

    def __init__(self, elf: Elf, relocations: tuple[int, ...], offset_table: int) -> None:
        self._elf, self._relocations, self._offset_table = elf, relocations, offset_table
        self._sections = [(section.address, section.address + section.size) for section in elf.sections
                          if section.name.startswith(".plt")]
        self._slots: dict[int, tuple[Section, int]] | None = None  # by address: table of symbols, number
        self._names: dict[Section, Strings] = {}

    def has(self, address: int) -> bool:
        """Whether an address is in the table."""
        return any(low <= address < high for low, high in self._sections)

    def function_at(self, address: int) -> tuple[int, str]:
        """The function that the entry, or the jump, at an address leads to: its address in this file, or 0 and the name
        of one of another file's; (0, "") where it is not known."""
        slot = self._slot_at(address)
        table, number = self._read_slots().get(slot, (None, 0))
        if table is None:
            return 0, ""
        row = self._elf.form.symbol
        at = number * row.size
        symbols = [] if at + row.size > table.size else row.unpack_rows(self._elf.read(table.offset + at, row.size))
        for name, _, _, section, value, _ in symbols:
            if section:
                return value, ""
            if table.link < len(self._elf.sections):
                if table not in self._names:
                    self._names[table] = Strings(self._elf, self._elf.sections[table.link])
                return 0, self._names[table].name_at(name)
        return 0, ""

    def _slot_at(self, address: int) -> int:
        """The slot that the jump there reads; 0 if there is none."""
        offset = self._elf.address_to_offset(address)
        code = self._elf.read(offset - self._elf.start, MOST_STUB) if offset is not None else b""
        at = 0
        while prefix := next((each for each in _PREFIXES if code.startswith(each, at)), b""):
            at += len(prefix)
        distance = int.from_bytes(code[at + 2:at + 6], "little", signed=True)
        if len(code) < at + 6:
            return 0
        if code.startswith(_JUMP_BY_SLOT, at):
            return address + at + 6 + distance if self._elf.form.word == 8 else distance & 0xFFFFFFFF
        by_table = code.startswith(_JUMP_BY_TABLE, at) and self._elf.form.word == 4 and self._offset_table
        return self._offset_table + distance if by_table else 0

    def _read_slots(self) -> dict[int, tuple[Section, int]]:
        if self._slots is None:
            self._slots, left = {}, MOST_RELOCATIONS
            for section in self._elf.sections if self._relocations else ():
                left -= self._add_slots(section, left)
        return self._slots

    def _add_slots(self, section: Section, left: int) -> int:
        """Add the slots of a section of relocations; says how many bytes it has."""
        table = self._elf.form.relocation.get(section.type)
        symbols = self._elf.sections[section.link] if section.link < len(self._elf.sections) else None
        if table is None or symbols is None or symbols.type != SHT_DYNSYM or section.size > left:
            return 0
        assert self._slots is not None
        bits = self._elf.form.type_bits
        for slot, info, *_ in self._elf.read_table(section, table):
            if info & (1 << bits) - 1 in self._relocations and len(self._slots) < MOST_SLOTS:
                self._slots[slot] = symbols, info >> bits
        return section.size
