"""Where functions return, by their instructions: of programs that gcc makes, as objdump sees them; and of files that
say what is not so."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from sonde.kernel.foreign.elf import Elf
from sonde.kernel.foreign.function_ends import MOST_AT_ONCE, MOST_CODE, FunctionReader
from sonde.kernel.foreign.function_problems import UnknownEndError
from sonde.kernel.foreign.tail_calls import MOST_FUNCTIONS, MOST_RETURNS, Ends, TailCalls, follow_tail_calls

SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#define NOIPA __attribute__((noipa))
struct object { int (**table)(int); };
NOIPA int plain(int x) { return x * 3; }
NOIPA int several(int x) { if (x > 5) { plain(x); return 1; } if (x < -5) { plain(-x); plain(x); return 2; } return x; }
NOIPA int chosen(int x, char *p)
{
    switch (x) {
    case 0: return plain(1) + 1; case 1: p[0]++; return 7; case 2: return plain(p[1]) * 2; case 3: return p[5] / 3;
    case 4: plain(p[3]); return p[9]; case 5: return p[1] - p[2]; case 6: p[8] = 1; return 3; case 7: return -p[4];
    }
    return 99;
}
NOIPA int tail(int x) { return plain(x + 1); }
NOIPA int away(char *p) { return atoi(p); }
NOIPA int called(struct object *o, int x) { return o->table[2](x); }
NOIPA int by_global(int x);
__attribute__((cold, noipa)) void report(int x);
void report(int x) { if (x == 77) abort(); }
NOIPA int divided(int x)
{
    int r = plain(x);
    if (__builtin_expect(r < 0, 0)) { report(r); report(r + 1); r = plain(-r) + 4; if (r == 9) return -9; }
    return r + x;
}
NOIPA __attribute__((noreturn)) void never(int x) { for (;;) plain(x); }
NOIPA int jumping(int x)
{
    static void *const labels[] = {&&a, &&b, &&c};
    goto *labels[x];
a:  return plain(x) + 1;
b:  return plain(x + 4) * 2;
c:  return 11;
}
asm(".globl unlucky\n.type unlucky, @function\nunlucky: test %edi, %edi\n jne 1f+1\n nop\n"
    "1: mov $0x909090c3, %eax\n ret\n.size unlucky, .-unlucky\n"
    ".globl outer\n.type outer, @function\nouter: mov %edi, %eax\n.globl inner\n.type inner, @function\n"
    "inner: inc %eax\n ret\n.size inner, .-inner\n.size outer, .-outer\n"
    ".globl sizeless\n.type sizeless, @function\nsizeless: ret\n"
    ".globl odd\n.type odd, @function\nodd: test %edi, %edi\n je 1f\n repz ret\n1: bnd ret\n"
    ".byte 0xf2, 0x0f, 0x38\n.size odd, .-odd\n"
    ".globl kinds\n.type kinds, @function\nkinds: endbr64\n test %edi, %edi\n je 1f\n js 2f\n repz ret\n1: bnd ret\n"
    "2: ret $8\n.size kinds, .-kinds\n"
    ".globl sometimes\n.type sometimes, @function\nsometimes: test %edi, %edi\n je plain\n ret\n"
    ".size sometimes, .-sometimes\n");
int main(int argc, char **argv)
{
    struct object o = {0};
    return several(argc) + chosen(argc, argv[0]) + tail(argc) + away(argv[0]) + divided(argc) + jumping(argc) +
        (argc > 5 ? called(&o, 1) : 0) + (argc > 9 ? (never(1), 1) : 0);
}
"""


@pytest.fixture(scope="module", params=["-O2", "-O2 -fno-pie -no-pie", "-O2 -fcf-protection", "-O1", "-O3 -static",
                                        "-m32 -O2", "-m32 -O2 -fno-pie -no-pie", "-m32 -O0",
                                        "-m32 -O1 -fcf-protection"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None or shutil.which("objdump") is None:
        pytest.skip("needs gcc and objdump")
    if os.uname().machine != "x86_64":
        pytest.skip("the source has instructions of x86-64")
    folder = tmp_path_factory.mktemp("ends")
    (folder / "t.c").write_text(SOURCE)
    done = subprocess.run(["gcc", *request.param.split(), "-o", folder / "t", folder / "t.c"], capture_output=True)
    if done.returncode and "-m32" in request.param:
        pytest.skip("this gcc makes no 32-bit programs")
    assert done.returncode == 0, done.stderr
    return folder / "t"


def symbols(path: Path) -> dict[str, tuple[int, int]]:
    """Function → (address, size)."""
    listing = subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [tTwW] (\S+)$", listing, re.MULTILINE)
    return {name: (int(address, 16), int(size, 16)) for address, size, name in rows}


def returns(path: Path, *names: str) -> list[int]:
    """Addresses of the return instructions in functions, by objdump."""
    known, addresses = symbols(path), []
    for name in names:
        start, size = known[name]
        text = subprocess.run(["objdump", "-d", "-w", f"--start-address={start}", f"--stop-address={start + size}",
                               path], capture_output=True, text=True, check=True).stdout
        addresses += [int(at, 16) for at in re.findall(r"^ *([0-9a-f]+):\t.*\t(?:repz |bnd )?ret", text, re.MULTILINE)]
    return sorted(addresses)


Found = tuple[list[int], list[int], str]


def ends(path: Path, *names: str) -> list[Found]:
    """(addresses of the return instructions, of jumps to other functions, problem) of functions."""
    known = symbols(path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        elf = Elf(descriptor, str(path))
        offsets = [elf.address_to_offset(known[name][0]) or 0 for name in names]
        answer = FunctionReader(elf).read_ends(offsets)
        return [([elf.offset_to_address(at) or 0 for at in instructions],
                 [elf.offset_to_address(at) or 0 for at in sorted(jumps + followed)], problem)
                for instructions, jumps, problem, _, _, followed, *_ in answer]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", ["plain", "several", "chosen", "kinds", "report", "main"])
def test_as_objdump_sees_them(program: Path, name: str) -> None:
    expected = returns(program, name)
    assert expected and ends(program, name) == [(expected, [], "")]


def test_parts_elsewhere(program: Path) -> None:
    """The unlikely part of a function has a symbol of its own, and may return there."""
    parts = [name for name in symbols(program) if re.fullmatch(r"divided(\.cold)?", name)]
    assert ends(program, "divided") == [(returns(program, *parts), [], "")]


def test_parts_without_a_name(program: Path, tmp_path: Path) -> None:
    """Where symbols of the parts have been removed, the unwind table says what they are."""
    if "divided.cold" not in symbols(program):
        pytest.skip("this gcc left the function whole")
    expected = returns(program, "divided", "divided.cold")
    subprocess.run(["objcopy", "-N", "divided.cold", program, tmp_path / "t"], check=True)
    assert ends(tmp_path / "t", "divided") == [(expected, [], "")]


@pytest.mark.parametrize(("name", "problem"), [
    ("never", "never"), ("outer", "overlaps"), ("odd", "unreadable"), ("sometimes", "tail"), ("unlucky", "unreadable"),
])
def test_what_is_not_known(program: Path, name: str, problem: str) -> None:
    assert ends(program, name) == [([], [], problem)]


@pytest.mark.parametrize("name", ["tail", "away", "called"])
def test_tail_calls(program: Path, name: str) -> None:
    """Jumps to other functions, of this file, of another, and to one that is chosen when it runs."""
    text = subprocess.run(["objdump", "-d", f"--disassemble={name}", program], capture_output=True, text=True).stdout
    jumps = [int(at, 16) for at in re.findall(r"^ *([0-9a-f]+):\t.*\t(?:bnd )?jmp ", text, re.MULTILINE)]
    assert jumps or "-O1" in str(program) or returns(program, name)
    assert ends(program, name) == [(returns(program, name), jumps, "")]


def test_where_jumps_lead() -> None:
    """Jumps are followed as far as all is known: not to functions in other files, not back to the first function, and
    not to one that jumps to its own first instruction."""
    functions = {1: Ends([], [(10, 2, ""), (11, 0, "read"), (12, 0, ""), (13, 4, ""), (14, 5, ""), (15, 7, "")]),
                 2: Ends([20], [(21, 3, "")]), 3: Ends([30, 31], []), 4: Ends([40], [(41, 1, "")]),
                 5: Ends([50], [], True), 6: Ends([60], [(61, 2, "")])}

    def ends_of(address: int) -> Ends:
        if address not in functions:
            raise UnknownEndError("tail")
        return functions[address]

    assert follow_tail_calls(ends_of, 1, functions[1].jumps) == TailCalls([10], [2, 3], [21], [20, 30, 31])
    assert follow_tail_calls(ends_of, 6, functions[6].jumps) == TailCalls([61], [2, 3], [21], [20, 30, 31])
    chain = {number: Ends([1000 + number], [(2000 + number, number + 1, "")]) for number in range(MOST_FUNCTIONS + 1)}
    chain[MOST_FUNCTIONS + 1] = Ends([1], [])
    assert follow_tail_calls(chain.__getitem__, 0, chain[0].jumps).jumps == []
    assert len(follow_tail_calls(chain.__getitem__, 1, chain[1].jumps).entries) == MOST_FUNCTIONS
    many = {0: Ends([], [(1, 1, ""), (2, 2, "")]), 1: Ends([*range(MOST_RETURNS)], []), 2: Ends([5000], [])}
    assert follow_tail_calls(many.__getitem__, 0, many[0].jumps).jumps == [1]


def test_jumps_to_other_files(program: Path) -> None:
    """Their functions are known by name, whichever way the jump goes."""
    descriptor = os.open(program, os.O_RDONLY)
    try:
        elf = Elf(descriptor, str(program))
        answer = FunctionReader(elf).read_ends([elf.address_to_offset(symbols(program)["away"][0]) or 0])[0]
    finally:
        os.close(descriptor)
    if answer[1] and elf.find_section(".dynsym") is not None:
        assert {name for _, name in answer[3]} in ({"atoi"}, {"strtol"})


def test_computed_jumps(program: Path) -> None:
    """Either all its returns are known, or that they are not is; never does it seem to be left."""
    assert ends(program, "jumping")[0] in ((returns(program, "jumping"), [], ""), ([], [], "computed"))


def elf_of(code: bytes, sizes: list[int], machine: int = 62) -> bytes:
    """An ELF file with functions of these sizes, one after the other, from the beginning of ``code`` on."""
    names = b"\0" + b"".join(b"f%d\0" % number for number in range(len(sizes)))
    table, at, name = bytes(24), 0x1000, 1
    for number, size in enumerate(sizes):
        table += struct.pack("=IBBHQQ", name, 0x12, 0, 1, at, size)
        at, name = at + size, name + len(f"f{number}") + 1
    texts = b"\0.text\0.symtab\0.strtab\0"
    body, rows = b"", []
    for title, kind, data, link in (("", 0, b"", 0), (".text", 1, code, 0), (".symtab", 2, table, 3),
                                    (".strtab", 3, names, 0), ("", 3, texts, 0)):
        rows.append(struct.pack("=IIQQQQIIQQ", texts.find(title.encode() + b"\0"), kind, 0, 0x1000 + len(body),
                                0x1000 + len(body), len(data), link, 0, 8, 24))
        body += data
    segment = struct.pack("=IIQQQQQQ", 1, 5, 0x1000, 0x1000, 0, len(body), len(body), 0x1000)
    header = struct.pack("=16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1" + bytes(9), 3, machine, 1, 0x1000, 64,
                         0x1000 + len(body), 0, 64, 56, 1, 64, 5, 4)
    return (header + segment).ljust(0x1000, b"\0") + body + b"".join(rows)


def read(tmp_path: Path, data: bytes, *offsets: int) -> list[Found]:
    (tmp_path / "t").write_bytes(data)
    descriptor = os.open(tmp_path / "t", os.O_RDONLY)
    try:
        return [answer[:3] for answer in FunctionReader(Elf(descriptor)).read_ends(list(offsets))]
    finally:
        os.close(descriptor)


def test_hostile_files(tmp_path: Path) -> None:
    """Functions that are too large, have too many returns, are cut off, or of another machine."""
    large = MOST_CODE + 1
    assert read(tmp_path, elf_of(b"\xc3" * large, [large]), 0x1000) == [([], [], "too large")]
    assert read(tmp_path, elf_of(b"\xc3" * 5000, [5000]), 0x1000) == [([], [], "too large")]
    assert read(tmp_path, elf_of(b"\xc3" * 4096, [4096]), 0x1000)[0] == ([*range(0x1000, 0x2000)], [], "")
    assert read(tmp_path, elf_of(b"\xc3", [1 << 62]), 0x1000) == [([], [], "too large")]
    assert read(tmp_path, elf_of(b"\xc3", [200]), 0x1000)[0][2] in ("unreadable", "")
    assert read(tmp_path, elf_of(b"\xc3" * 8, [8], machine=243), 0x1000) == [([], [], "other cpu")]
    assert read(tmp_path, elf_of(b"\xc3", [1]), 0x1001, 5, 1 << 60) == [([], [], "no function")] * 3
    jumps = b"".join(b"\xe9" + struct.pack("<i", -5 - 5 * number) for number in range(20_000))
    assert read(tmp_path, elf_of(jumps, [len(jumps)]), 0x1000) == [([], [], "never")]


def test_an_answer_ends_early(tmp_path: Path) -> None:
    size = MOST_AT_ONCE // 4
    data = elf_of((b"\x90" * (size - 1) + b"\xc3") * 9, [size] * 9)
    offsets = [0x1000 + size * number for number in range(9)]
    first = read(tmp_path, data, *offsets)
    assert first == [([offset + size - 1], [], "") for offset in offsets[:len(first)]] and 3 < len(first) < 9
