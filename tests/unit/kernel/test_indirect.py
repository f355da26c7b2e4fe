"""Indirect functions: by the names of their implementations, by relocations made here, and by this process's loader."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from sonde.arch import this_arch
from sonde.errors import MachineError
from sonde.kernel.foreign import files
from sonde.kernel.foreign.process_memory import read_words
from sonde.kernel.libc import addresses_of_functions
from sonde.kernel.names import indirect

BASE = 0x10000


@pytest.mark.parametrize("function, name, is_one", [
    ("__strlen_avx2", "strlen", True), ("__strlen_avx2_rtm", "strlen", True), ("__strlen_evex512", "__strlen", True),
    ("__memcpy_avx512_no_vzeroupper", "memcpy", True), ("__memcpy_chk_sse2_unaligned", "memcpy", False),
    ("__strlen_ifunc", "strlen", False), ("strlen", "strlen", False), ("__strlen_", "strlen", False),
    ("__strlenx_avx2", "strlen", False), ("work.avx2.0", "work", True), ("work.arch_haswell.1", "work", True),
    ("work.default.2", "work", True), ("work.resolver", "work", False), ("work.cold", "work", False),
    ("work.part.0", "work", False), ("__sin_fma4", "sin", True), ("__sin_fma4x", "sin", False),
])
def test_names_of_implementations(function: str, name: str, is_one: bool) -> None:
    assert indirect._is_implementation(function, name) is is_one


def make(relocations: list[tuple[int, int, int, int]], names: list[str]) -> bytes:
    """A file with undefined functions of these names, and relocations: (where, type, symbol, addend)."""
    strings, symbols = b"\0", bytes(24)
    for name in names:
        symbols += struct.pack("=IBBHQQ", len(strings), 0x12, 0, 0, 0, 0)
        strings += name.encode() + b"\0"
    rows = b"".join(struct.pack("=QQq", where, symbol << 32 | kind, addend)
                    for where, kind, symbol, addend in relocations)
    titles = b"\0.dynsym\0.dynstr\0.rela.dyn\0.shstrtab\0"
    body, at = b"", {}
    for part, data in ((".dynsym", symbols), (".dynstr", strings), (".rela.dyn", rows), (".shstrtab", titles)):
        at[part] = (64 + len(body), len(data))
        body += data + bytes(-len(data) % 8)
    sections = bytes(64)
    for title, kind, link in ((".dynsym", 11, 2), (".dynstr", 3, 0), (".rela.dyn", 4, 1), (".shstrtab", 3, 0)):
        sections += struct.pack("=IIQQQQIIQQ", titles.index(title.encode()), kind, 0, 0, *at[title], link, 0, 8, 24)
    order = b"\1" if struct.pack("=H", 1)[0] else b"\2"
    header = struct.pack("=16sHHIQQQIHHHHHH", b"\x7fELF\2" + order + b"\1" + bytes(9), 3, this_arch().elf_machine, 1, 0,
                         64, 64 + len(body), 0, 64, 56, 0, 64, 5, 4)
    return header + body + sections


def test_slots(tmp_path: Path) -> None:
    """The file's own, and those of the functions in question."""
    chosen = this_arch().indirect_relocation
    rows = [(0x10, 7, 1, 0), (0x18, 7, 2, 0), (0x20, 8, 0, 0x99), (0x28, chosen, 0, 0x1234)]
    (tmp_path / "user").write_bytes(make(rows, ["strlen", "malloc"]))
    user = files.open_elf(str(tmp_path / "user"))
    assert user.indirect_slots(["strlen"]) == [(0x10, 0, "strlen"), (0x28, 0x1234, "")]
    assert user.indirect_slots([]) == [(0x28, 0x1234, "")]


def test_too_many_slots(tmp_path: Path) -> None:
    chosen = this_arch().indirect_relocation
    (tmp_path / "user").write_bytes(make([(8 * at, chosen, 0, at) for at in range(20_001)], []))
    with pytest.warns(RuntimeWarning), pytest.raises(MachineError, match="more than 20000 slots"):
        files.open_elf(str(tmp_path / "user")).indirect_slots([])


def test_words_of_memory() -> None:
    """Of this process: a word that is there, and one that is not."""
    data = bytearray(struct.pack("=Q", 0x1122334455667788))
    from sonde.kernel.libc import address_of

    assert read_words(os.getpid(), [address_of(data), 8]) == [0x1122334455667788, 0]
    with pytest.raises(MachineError, match="memory of process"):
        read_words(1 << 30, [8])


def test_a_file_without_any(tmp_path: Path) -> None:
    (tmp_path / "user").write_bytes(make([], ["strlen"]))
    assert indirect.find_implementations(str(tmp_path / "user"), ["strlen"]) == {}


def test_the_loader_says_what_it_chose() -> None:
    """Where this process's C library has indirect functions, each is in it, and none at its resolver."""
    libc = next((m for m in indirect.read_maps(os.getpid()) if os.path.basename(m.path).startswith("libc.so")), None)
    functions = files.open_elf(libc.path).indirect_functions() if libc is not None else []
    if libc is None or not any(name == "strlen" for name, _ in functions):
        pytest.skip("this C library's strlen is not chosen when it is loaded")
    resolver = next(at for name, at in functions if name == "strlen")
    (offset, code), = indirect.find_implementations(libc.path, ["strlen"]).items()
    assert offset == files.open_elf(libc.path).address_to_offset(resolver) and offset not in code.offsets
    called = addresses_of_functions(libc.path, ["strlen", "nosuch"])
    assert list(called) == ["strlen"]
    mapping = next(m for m in indirect.read_maps(os.getpid()) if m.start <= called["strlen"] < m.end)
    assert code.offsets == [called["strlen"] - mapping.start + mapping.offset]
