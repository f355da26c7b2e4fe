"""Static probes of user programs: the notes that <sys/sdt.h> puts into ELF files.

A note ``stapsdt`` has three addresses (the probe's, that of .stapsdt.base when the file was linked, the semaphore's or
0) and three texts: provider, name, and where the arguments are, as the assembler wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ...arch import Arch, find_arch_of_elf
from ...base.fast_stdlib import cache
from ...spec import UsdtArgument, UsdtProbe
from .elf import Elf

NT_STAPSDT = 3
MOST_OF_NOTE = 4096  # bytes
MOST_ARGUMENTS = 32  # <sys/sdt.h> has up to 12

Symbol = Callable[[str], "int | None"]  # its address relative to the probe's


def read_usdt_probes(elf: Elf) -> list[UsdtProbe]:
    """The probes of a file, in order of provider, name and place. Malformed notes are left out."""
    base = elf.find_section(".stapsdt.base")
    arch = find_arch_of_elf(elf.machine)
    objects = cache(elf.find_object)
    probes = []
    for owner, kind, data in elf.read_notes():
        if owner == "stapsdt" and kind == NT_STAPSDT and len(data) > elf.form.note_addresses.size and arch:
            probe = _parse_probe(elf, arch, base.address if base else 0, data[:MOST_OF_NOTE], objects)
            if probe is not None:
                probes.append(probe)
    return sorted(probes, key=lambda p: (p.provider, p.name, p.offset))


def _parse_probe(elf: Elf, arch: Arch, base: int, data: bytes, objects: Callable[[str], tuple[int, int] | None],
                 ) -> UsdtProbe | None:
    addresses = elf.form.note_addresses
    address, linked, semaphore = addresses.unpack_from(data)
    texts = [part.decode("utf-8", "replace") for part in data[addresses.size:].split(b"\0", 3)]
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
    arguments = []
    for piece in re.findall(r"(?:-?\d+f?@)?(?:\[[^\]]*\]|[^\s\[\]]+)", text)[:MOST_ARGUMENTS]:
        head, at, operand = piece.rpartition("@")
        size = arch.word if not at else int(head.lstrip("-")) if re.fullmatch(r"-?[1248]", head) else 0
        argument = _parse_operand(operand, arch, symbol) if size else None
        if argument is None or not all(-1 << 63 <= n < 1 << 64 for n in (argument.offset, argument.scale)):
            argument = UsdtArgument("unknown")
        argument.text, argument.size, argument.signed = piece, size or arch.word, head.startswith("-")
        arguments.append(argument)
    return arguments


def _parse_number(text: str | None) -> int:
    """An integer as assemblers write it: 0x10 is hexadecimal, 010 octal; one too long to mean anything is 1 << 64."""
    digits = (text or "0").lstrip("+-$#")
    base = 16 if digits[:2].lower() == "0x" else 8 if re.fullmatch("0[0-7]+", digits) else 10
    value = int(digits, base) if len(digits) <= 24 else 1 << 64
    return -value if "-" in (text or "") else value


def _parse_operand(operand: str, arch: Arch, symbol: Symbol) -> UsdtArgument | None:
    """What the first matching form of the architecture says; None if none matches."""
    for kind, form in arch.operands:
        if match := re.fullmatch(form, operand):
            return _read_operand(kind, match.groupdict(), arch, symbol)
    return None


def _read_operand(kind: str, parts: dict[str, str | None], arch: Arch, symbol: Symbol) -> UsdtArgument | None:
    offset = _parse_number(parts.get("before")) + _parse_number(parts.get("offset"))
    if kind == "constant":
        return UsdtArgument(kind, offset=offset)
    if kind == "symbol":
        where = symbol(parts["symbol"] or "")
        return UsdtArgument("memory", arch.instruction_pointer, where + offset) if where is not None else None
    (base, bits), (index, _) = [_find_register(parts.get(name), arch) for name in ("base", "index")]
    if base is None or index is None:
        return None
    if kind == "register":
        return UsdtArgument(kind, base, shift=bits)
    scale = int(parts.get("scale") or "1") << min(_parse_number(parts.get("shift")), 64)
    return UsdtArgument(kind, base, offset, index, scale) if base >= 0 else \
        UsdtArgument(kind, index, offset, index, scale - 1)


def _find_register(name: str | None, arch: Arch) -> tuple[int | None, int]:
    """(offset in pt_regs, bits to shift right) of a register of any width; (-1, 0) for no name."""
    if name is None:
        return -1, 0
    for form, ours, bits in arch.operand_registers:
        if match := re.fullmatch(form, name):
            return arch.registers.get(match.expand(ours)), bits
    return None, 0
