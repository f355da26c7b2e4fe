"""Static probes of user programs: the notes that <sys/sdt.h> leaves in ELF files.

A note ``stapsdt`` has three addresses (the probe's, that of .stapsdt.base when the file was linked, the semaphore's or
0) and three texts: provider, name, and where the arguments are, as the assembler wrote it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import cache

from ...arch import Arch, find_arch_of_elf
from ...spec import UsdtArgument, UsdtProbe
from .elf import Elf

NT_STAPSDT = 3
MOST_OF_NOTE = 4096  # bytes
MOST_ARGUMENTS = 32  # <sys/sdt.h> has up to 12
_ADDRESSES = struct.Struct("=QQQ")

Symbol = Callable[[str], "int | None"]  # its address relative to the probe's


def read_usdt_probes(elf: Elf) -> list[UsdtProbe]:
    """The probes of a file, in order of provider, name and place. A note that is not as it should be is left out."""
    base = elf.find_section(".stapsdt.base")
    arch = find_arch_of_elf(elf.machine)
    objects = cache(elf.find_object)
    found = []
    for owner, kind, data in elf.read_notes():
        if owner == "stapsdt" and kind == NT_STAPSDT and len(data) > _ADDRESSES.size and arch:
            probe = _parse_probe(elf, arch, base.address if base else 0, data[:MOST_OF_NOTE], objects)
            if probe is not None:
                found.append(probe)
    return sorted(found, key=lambda p: (p.provider, p.name, p.offset))


def _parse_probe(elf: Elf, arch: Arch, base: int, data: bytes, objects: Callable[[str], tuple[int, int] | None],
                 ) -> UsdtProbe | None:
    address, linked, semaphore = _ADDRESSES.unpack_from(data)
    texts = [part.decode("utf-8", "replace") for part in data[_ADDRESSES.size:].split(b"\0", 3)]
    moved = base - linked if base else 0  # prelink moves the file's addresses, but not those in notes
    address += moved
    offset = elf.address_to_offset(address)
    if offset is None or len(texts) < 3:
        return None

    def symbol_offset(name: str) -> int | None:
        known = objects(name)
        return known[0] - address if known else None

    counter = elf.address_to_offset(semaphore + moved) if semaphore else None
    return UsdtProbe(texts[0], texts[1], offset, counter or 0, parse_arguments(texts[2], arch, symbol_offset))


def parse_arguments(text: str, arch: Arch, symbol: Symbol = lambda name: None) -> list[UsdtArgument]:
    """``-4@%eax 8@-16(%rbp)`` → where each argument is; one that is not understood has the kind "unknown"."""
    parse = _parse_x86_argument if arch.name == "x86_64" else _parse_arm_argument
    found = []
    for piece in re.findall(r"(?:-?\d+f?@)?(?:\[[^\]]*\]|[^\s\[\]]+)", text)[:MOST_ARGUMENTS]:
        head, at, place = piece.rpartition("@")
        size = 8 if not at else int(head.lstrip("-")) if re.fullmatch(r"-?[1248]", head) else 0
        argument = parse(place, arch, symbol) if size else None
        if argument is None or not all(-1 << 63 <= n < 1 << 64 for n in (argument.offset, argument.scale)):
            argument = UsdtArgument("unknown")
        argument.text, argument.size, argument.signed = piece, size or 8, head.startswith("-")
        found.append(argument)
    return found


_INTEGER = r"[-+]?(?:0x[0-9a-fA-F]+|\d+)"
_X86_MEMORY = re.compile(rf"({_INTEGER})?\(\s*%(\w+)\s*(?:,\s*%(\w+)\s*(?:,\s*([1248]))?)?\)")
_X86_TABLE = re.compile(rf"({_INTEGER})?\(\s*,\s*%(\w+)\s*,\s*([1248])\)")  # no base: a table at a fixed address
# without (%rip): by its address
_X86_SYMBOL = re.compile(rf"(?:({_INTEGER})\+)?([A-Za-z_.][\w.$]*)({_INTEGER})?(?:\(%rip\))?")
# An index of 32 bits, which is extended (sxtw, uxtw), is not understood.
_ARM_MEMORY = re.compile(rf"\[\s*(x\d+|sp)\s*(?:,\s*#?({_INTEGER})|,\s*(x\d+)\s*(?:,\s*lsl\s+#?(\d+))?)?\s*\]")


def _parse_number(text: str | None) -> int:
    """An integer as assemblers write it: 0x10 is hexadecimal, 010 octal; one too long to mean anything is 1 << 64."""
    digits = (text or "0").lstrip("+-$#")
    base = 16 if digits[:2].lower() == "0x" else 8 if re.fullmatch("0[0-7]+", digits) else 10
    value = int(digits, base) if len(digits) <= 24 else 1 << 64
    return -value if "-" in (text or "") else value


def _parse_x86_argument(place: str, arch: Arch, symbol: Symbol) -> UsdtArgument | None:
    if re.fullmatch(r"\$?" + _INTEGER, place):
        return UsdtArgument("constant", offset=_parse_number(place))
    if place.startswith("%"):
        return _register_argument(*_parse_x86_register(place[1:], arch))
    found = _X86_MEMORY.fullmatch(place)
    if found:
        base, _ = _parse_x86_register(found[2], arch)
        index, _ = _parse_x86_register(found[3], arch) if found[3] else (-1, 0)
        if base is None or index is None:
            return None
        return UsdtArgument("memory", base, _parse_number(found[1]), index, int(found[4] or "1"))
    found = _X86_TABLE.fullmatch(place)
    if found:
        index, _ = _parse_x86_register(found[2], arch)
        return None if index is None else UsdtArgument("memory", index, _parse_number(found[1]), index,
                                                       int(found[3]) - 1)
    found = _X86_SYMBOL.fullmatch(place)
    where = symbol(found[2]) if found else None
    if found is None or where is None:
        return None
    offset = where + _parse_number(found[1]) + _parse_number(found[3])
    return UsdtArgument("memory", arch.instruction_pointer, offset)


def _register_argument(at: int | None, shift: int) -> UsdtArgument | None:
    return UsdtArgument("register", at, shift=shift) if at is not None else None


def _parse_x86_register(name: str, arch: Arch) -> tuple[int | None, int]:
    """(offset in pt_regs, bits to shift right) of a register of any width: rax eax ax al ah, r8 r8d r8w r8b, sil."""
    numbered = re.fullmatch(r"(r(?:8|9|1[0-5]))[dwb]?", name)
    if numbered:
        return arch.registers.get(numbered[1]), 0
    if re.fullmatch(r"[abcd][lh]", name):
        return arch.registers[name[0] + "x"], 8 if name[1] == "h" else 0
    if re.fullmatch(r"(si|di|sp|bp)l", name):
        name = name[:2]
    if len(name) == 3 and name[0] in "re":
        name = name[1:]
    return arch.registers.get(name), 0


def _parse_arm_argument(place: str, arch: Arch, symbol: Symbol) -> UsdtArgument | None:
    if re.fullmatch(r"#?" + _INTEGER, place):
        return UsdtArgument("constant", offset=_parse_number(place))
    if place in ("wzr", "xzr"):
        return UsdtArgument("constant")
    found = _ARM_MEMORY.fullmatch(place)
    if found is None:
        return _register_argument(_parse_arm_register(place, arch), 0)
    base, index = _parse_arm_register(found[1], arch), _parse_arm_register(found[3], arch) if found[3] else -1
    if base is None or index is None:
        return None
    return UsdtArgument("memory", base, _parse_number(found[2]), index, 1 << min(_parse_number(found[4]), 64))


def _parse_arm_register(name: str, arch: Arch) -> int | None:
    if re.fullmatch(r"[wx]\d+", name):
        name = "r" + name[1:]
    return arch.registers.get({"x29": "r29", "wsp": "sp"}.get(name, name))
