"""Source lines and inlined functions of addresses, against what binutils' addr2line makes of the same file."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from sonde.kernel.foreign import files
from support import compile_c

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
volatile int sink;
static inline __attribute__((always_inline)) int deepest(int n) { sink += n; return n * 3; }
static inline __attribute__((always_inline)) int deeper(int n)
{
    int r = deepest(n) + 1;
    if (r & 4)
        r += deepest(r);
    return r;
}
static inline __attribute__((always_inline)) int deep(int n)
{
    int r = 0;
    for (int i = 0; i < n; i++) {
        int k = deeper(i);
        r += k;
    }
    return r;
}
__attribute__((noinline)) int first(int n)
{
    int r = deep(n);
    sink = r;
    return r;
}
__attribute__((noinline, cold)) void fail(int n) { printf("%d\n", n); abort(); }
__attribute__((noinline)) int second(int n)
{
    if (__builtin_expect(n < 0, 0))
        fail(deeper(n));
    return deep(n) + deepest(n);
}
int main(int argc, char **argv) { return first(argc) + second(argc); }
"""


def by_addr2line(path: str, addresses: list[int]) -> list[list[tuple[str, str, int]]]:
    done = subprocess.run(["addr2line", "-afi", "-e", path], input="".join(f"{a:#x}\n" for a in addresses),
                          capture_output=True, text=True, check=True)
    found: list[list[tuple[str, str, int]]] = []
    lines = done.stdout.splitlines()
    at = 0
    while at < len(lines):
        if lines[at].startswith("0x"):
            found.append([])
            at += 1
            continue
        file, _, line = lines[at + 1].partition(" ")[0].rpartition(":")
        found[-1].append((lines[at], os.path.normpath(file), int(line) if line.isdecimal() else 0))
        at += 2
    return found


@pytest.mark.parametrize("flags", [("-O2", "-gdwarf-5"), ("-O2", "-gdwarf-4"), ("-O0", "-g"), ("-O3", "-g")],
                         ids=" ".join)
def test_every_address_of_a_program(flags: tuple[str, ...], tmp_path: Path) -> None:
    path = compile_c(SOURCE, tmp_path, "inlined", *flags, "-finline")
    file = files.open_elf(str(path))
    own = [each for each in file.functions() if each.name in ("first", "second", "fail", "main", "second.cold")]
    assert len(own) >= 4
    addresses = [at for each in own for at in range(each.address, each.address + each.size)]
    expected = by_addr2line(str(path), addresses)
    assert [file.code_places(address) for address in addresses] == expected
    assert flags[0] == "-O0" or max(map(len, expected)) == 4  # first, deep, deeper, deepest


def test_a_large_library() -> None:
    """Whatever has debug information of its own or beside it on this machine: the interpreter, or the C library."""
    library = os.path.join(*map(str, sysconfig.get_config_vars("LIBDIR", "INSTSONAME")))
    for path in (sys.executable, library, "/usr/lib/x86_64-linux-gnu/libc.so.6"):
        if not os.path.exists(path):
            continue
        file = files.open_elf(os.path.realpath(path))
        some = random.Random(1).sample(file.functions(), min(12, len(file.functions())))
        addresses = [each.address + random.Random(each.address).randrange(max(each.size, 1)) for each in some]
        found = [file.code_places(address) for address in addresses]
        if sum(map(bool, found)) < 6:
            continue
        expected = by_addr2line(path, addresses)
        same = [ours == theirs for ours, theirs in zip(found, expected) if ours]
        assert sum(same) >= 0.95 * len(same), [
            pair for pair in zip(found, expected) if pair[0] != pair[1]]
        return
    pytest.skip("a library with debug information is not installed")


def test_without_debug_information(tmp_path: Path) -> None:
    file = files.open_elf(str(compile_c(SOURCE, tmp_path, "bare", "-g0")))
    assert file.code_places(file.functions()[0].address) == []
