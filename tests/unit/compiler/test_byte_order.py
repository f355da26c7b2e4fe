"""The same scripts on machines of both byte orders: what they find out is the same, and bytes lie as the machine has
them."""

from __future__ import annotations

import pytest

from compiled import compiled, fill_task, kernel_of, world
from sonde.arch import ARCHES

TEXT = b"tester of strings, and of long ones"
# Of a text that is only known at run time ($s, of 64 bytes or of 300), with the answer of every machine.
STRINGS = {
    '$s == "tester of strings, and of long ones"': 1, '$s == "tester of strings"': 0, '$s != "tester"': 1,
    'comm == "tester"': 1, 'comm == "teste"': 0, 'comm == "tester2"': 0, "comm == $s": 0,
    'strncmp($s, "tester of", 9)': 0, 'strncmp($s, "tester or", 9)': 1, "strncmp(comm, $s, 6)": 0,
    "strncmp(comm, $s, 7)": 1, "strncmp($s, comm, 3)": 0,
    'strcontains($s, "strings")': 1, 'strcontains($s, "string!")': 0, 'strcontains($s, "and of long o")': 1,
    "strcontains($s, comm)": 1, "strcontains(comm, $s)": 0, 'strcontains(comm, "ster")': 1,
    "strlen($s)": len(TEXT), "strlen(comm)": 6, 'memcmp($s, "tester", 6)': 0, 'memcmp($s, "tesser", 6)': 1,
    'memcmp("ab", "aa", 2)': 1, "memcmp(comm, $s, 7)": -32, "bswap((uint16)0x1234)": 0x3412,
    "bswap((uint32)pid)": int.from_bytes((1234).to_bytes(4, "little"), "big"),
}


def numbers(text: str, arch: str, size: int, context: list[int] | None = None, data: bytes = TEXT) -> dict[int, int]:
    """The map @r of a script, whose keys and values are of 64 bits. Its probe's first argument is where ``data`` is."""
    made = kernel_of(compiled(f"config = {{ max_strlen = {size}; }} {text}", "6.18", arch), "6.18", arch)
    place = made.memory.add(data + bytes(512), "data")
    order = ARCHES[arch].byte_order
    fill_task(world("6.18", arch), made.task, comm=b"tester", tgid=(1234).to_bytes(4, order))
    made.run(0, [place.base, 0])
    return {int.from_bytes(key, order): int.from_bytes(regions[0].data, order, signed=True)
            for key, regions in made.maps["@r"].elements.items()}


@pytest.mark.parametrize("size", [64, 300])
@pytest.mark.parametrize("arch", ["x86_64", "s390x"])
def test_strings(arch: str, size: int) -> None:
    found = {}
    for number, expression in enumerate(STRINGS):
        text = f"rawtracepoint:sys_enter {{ $s = str(kptr(arg0)); @r[{number}] = (int64)({expression}); }}"
        found[expression] = numbers(text, arch, size)[number]
    assert found == STRINGS


@pytest.mark.parametrize("arch", ["x86_64", "s390x"])
def test_members_of_all_widths_and_bits(arch: str) -> None:
    """Bit fields begin with the lowest bit on little-endian machines, with the highest on others."""
    little = ARCHES[arch].byte_order == "little"
    word = 5 | 77 << 3 | 0x2ABCDE << 10 if little else 5 << 29 | 77 << 22 | 0x2ABCDE
    long = 0x123456789A | 0xBCDEF0 << 40 if little else 0x123456789A << 24 | 0xBCDEF0
    order = ARCHES[arch].byte_order
    data = b"".join([number.to_bytes(size, order) for number, size in (
        (word, 4), (0xFFFFFFFE, 4), (long, 8), (0xFFFE, 2), (0xFD, 1), (3 << 1 | 1 if little else 1 << 7 | 3, 1),
        (0x01020304, 4), (0xFFFFFFFFFFFFFFFB, 8))])
    head = """struct all { uint32_t a:3; uint32_t b:7; uint32_t c:22; int32_t d; uint64_t e:40; uint64_t f:24;
        int16_t g; int8_t h; uint8_t i:1; uint8_t j:7; uint8_t k[4]; int64_t l; };"""
    members = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k[0]", "k[3]", "l")
    text = f"{head} rawtracepoint:sys_enter {{ $p = (struct all *)arg0;" + "".join(
        [f" @r[{number}] = (int64)$p.{name};" for number, name in enumerate(members)]) + "}"
    assert list(numbers(text, arch, 64, data=data).values()) == [
        5, 77, 0x2ABCDE, -2, 0x123456789A, 0xBCDEF0, -2, -3, 1, 3, 4 if little else 1, 1 if little else 4, -5]


@pytest.mark.parametrize("arch", ["x86_64", "s390x"])
def test_bytes_of_numbers(arch: str) -> None:
    text = """rawtracepoint:sys_enter { $b = (uint8[8])(0x0102030405060708 + (uint64)(pid - pid));
        @r[0] = (int64)$b[0]; @r[1] = (int64)$b[7]; $c = (uint8[4])(uint32)(pid - pid + 0x01020304);
        @r[2] = (int64)$c[0]; @r[3] = (int64)$c[3]; }"""
    found = list(numbers(text, arch, 64).values())
    assert found == ([8, 1, 4, 1] if ARCHES[arch].byte_order == "little" else [1, 8, 1, 4])


def test_a_system_call_is_found_by_its_number() -> None:
    """In a table of 16 bits for each; the number lies in the lower half of a word of the registers."""
    text = "tracepoint:syscalls:sys_exit_openat,tracepoint:syscalls:sys_exit_close { @r[1] = 7; }"
    made = kernel_of(compiled(text, "6.18", "s390x"), "6.18", "s390x")
    registers = bytearray(512)
    registers[8:16] = (1 << 48 | 3 << 31).to_bytes(8, "big")  # the PSW: a user program with addresses of 64 bits
    for number, known in ((288, True), (6, True), (7, False)):
        registers[160:164] = (2 << 16 | number).to_bytes(4, "big")  # int_code: the instruction's length, the number
        place = made.memory.add(bytes(registers), "registers", writable=False)
        made.maps["@r"].elements.clear()
        made.run(0, [place.base, 0])
        assert bool(made.maps["@r"].elements) == known
