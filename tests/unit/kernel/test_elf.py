"""ELF files: made here byte by byte, and damaged."""

from __future__ import annotations

import struct
from pathlib import Path
from sys import byteorder

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.errors import MachineError
from sonde.kernel import places
from sonde.kernel.foreign import elf, files
from sonde.kernel.names.user_symbols import UserSymbol, symbol_in

BASE, TEXT = 0x400000, 0x1000
SYMBOLS = [("start", 0x401000, 0x20, 2), ("_start_alias", 0x401000, 0x20, 2), ("asm", 0x401040, 0, 2),
           ("resolver@@V1", 0x401080, 8, 10), ("counter", 0x402000, 4, 1), ("undefined", 0, 0, 2)]


def make(symbols: list[tuple[str, int, int, int]] = SYMBOLS, build_id: bytes = b"\x12\x34", table: int = 2) -> bytes:
    """An executable: headers, 0x2000 bytes of code at 0x401000 (file offset 0x1000), then its tables."""
    strings, rows = b"\0", bytes(24)
    for name, address, size, kind in symbols:
        rows += struct.pack("=IBBHQQ", len(strings), 0x10 | kind, 0, 1 if address else 0, address, size)
        strings += name.encode() + b"\0"
    note = struct.pack("=III4s", 4, len(build_id), 3, b"GNU\0") + build_id + bytes(-len(build_id) % 4)
    names = b"\0.text\0.symtab\0.strtab\0.note.gnu.build-id\0.shstrtab\0"
    at = 0x3000
    places = {}
    body = b""
    for part, data in (("rows", rows), ("strings", strings), ("note", note), ("names", names)):
        places[part] = (at + len(body), len(data))
        body += data + bytes(-len(data) % 8)

    def section(name: bytes, kind: int, part: tuple[int, int], address: int = 0, link: int = 0,
                entry: int = 0) -> bytes:
        return struct.pack("=IIQQQQIIQQ", names.index(name), kind, 0, address, *part, link, 0, 8, entry)

    sections = bytes(64) + section(b".text", 1, (TEXT, 0x2000), 0x401000)
    sections += section(b".symtab", table, places["rows"], link=3, entry=24) + section(b".strtab", 3, places["strings"])
    sections += section(b".note.gnu", 7, places["note"]) + section(b".shstrtab", 3, places["names"])
    header = struct.pack("=16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1" + bytes(9), 2, 62, 1, 0x401000, 64, at + len(body), 0,
                         64, 56, 1, 64, 6, 5)
    segment = struct.pack("=IIQQQQQQ", 1, 5, TEXT, 0x401000, 0, 0x2000, 0x2100, 0x1000)
    return (header + segment).ljust(at, b"\0") + body + sections


@pytest.fixture
def file(tmp_path: Path) -> files.ElfFile:
    (tmp_path / "prog").write_bytes(make())
    return files.open_elf(str(tmp_path / "prog"))


def test_indirect_functions(file: files.ElfFile) -> None:
    assert file.indirect_functions() == [("resolver", 0x401080)]


def test_functions(file: files.ElfFile) -> None:
    assert [(f.name, f.address, f.offset, f.size) for f in file.functions()] == [
        ("_start_alias", 0x401000, 0x1000, 0x20), ("start", 0x401000, 0x1000, 0x20), ("asm", 0x401040, 0x1040, 0),
        ("resolver", 0x401080, 0x1080, 8)]


def test_places(file: files.ElfFile) -> None:
    assert file.address_to_offset(0x401010) == 0x1010 and file.offset_to_address(0x1010) == 0x401010
    assert file.address_to_offset(0x400000) is None and file.offset_to_address(0) is None
    assert file.address_to_offset(0x403000) is None  # only in memory: zeroes


def test_objects(file: files.ElfFile) -> None:
    assert file.find_object("counter") == (0x402000, 4)
    assert file.find_object("start") == (0x401000, 0x20)
    assert file.find_object("undefined") is None and file.find_object("nosuch") is None


@pytest.mark.parametrize(("address", "expected"), [
    (0x401000, ("start", 0)), (0x40101f, ("start", 0x1f)), (0x401020, None), (0x401044, ("asm", 4)),
    (0x401087, ("resolver", 7)), (0x401088, None), (0x400000, None)])
def test_function_at(file: files.ElfFile, address: int, expected: tuple[str, int] | None) -> None:
    assert file.function_at(address) == expected


def test_build_id_and_sections(file: files.ElfFile) -> None:
    assert file.build_id == b"\x12\x34"
    with open(file.path, "rb") as stream:
        opened = elf.Elf(stream.fileno())
    text = opened.find_section(".text")
    assert text and (text.address, text.offset) == (0x401000, TEXT)
    assert opened.find_section(".nosuch") is None


def test_symbol_in(file: files.ElfFile) -> None:
    assert symbol_in(file, 0x1004, "prog") == UserSymbol("start", 4, "prog")
    assert symbol_in(file, 0x1030, "prog") == UserSymbol("", 0x401030, "prog")


def test_debug_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "debug_directories", [str(tmp_path / "debug")])
    (tmp_path / "stripped").write_bytes(make([], b"\xab\xcd\xef"))
    debug = tmp_path / "debug" / ".build-id" / "ab"
    debug.mkdir(parents=True)
    (tmp_path / "stripped").write_bytes(make([], b"\xab\xcd\xef", table=11))
    (debug / "cdef.debug").write_bytes(make(SYMBOLS, b"\xab\xcd\xef"))
    assert [f.name for f in files.open_elf(str(tmp_path / "stripped")).functions()][1] == "start"


def test_debug_file_of_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "debug_directories", [str(tmp_path / "debug")])
    debug = tmp_path / "debug" / ".build-id" / "ab"
    debug.mkdir(parents=True)
    (tmp_path / "stripped").write_bytes(make([], b"\xab\xcd", table=11))
    (debug / "cd.debug").write_bytes(make(SYMBOLS, b"\x00\x01"))
    assert files.open_elf(str(tmp_path / "stripped")).functions() == []


def test_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "prog"
    path.write_bytes(make())
    first = files.open_elf(str(path))
    assert files.open_elf(str(path)) is first
    path.write_bytes(make() + b"longer")
    assert files.open_elf(str(path)) is not first


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\1\1" + bytes(100),
                                  b"\x7fELF\2\2" + bytes(100), make()[:100], make()[:0x3010]])
def test_not_elf(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(MachineError):
        files.open_elf(str(tmp_path / "x"))


@pytest.mark.parametrize("path", ["/nosuch", "/", "/dev/null"])
def test_not_a_file(path: str) -> None:
    assert not files.is_elf(path)
    with pytest.raises(MachineError):
        files.open_elf(path)


@settings(max_examples=300)
@given(st.one_of(st.integers(0, 120), st.integers(0x3000, len(make()) - 1)), st.integers(0, 255))
def test_damaged_elf_never_breaks(tmp_path_factory: pytest.TempPathFactory, at: int, value: int) -> None:
    data = bytearray(make())
    data[at] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(bytes(data))
    with path.open("rb") as stream:
        try:
            file = elf.Elf(stream.fileno())
            file.functions().function_page(0, file.address_to_offset)
            file.find_object("x")
            file.function_at(0x401000)
            _ = file.build_id
        except MachineError:
            pass

NARROW = [("start", 0x401000, 0x20, 2), ("asm", 0x401040, 0, 2), ("resolver", 0x401080, 8, 10),
          ("counter", 0x402000, 4, 1)]


def make_narrow(machine: int = 3) -> bytes:
    """A 32-bit executable: as ``make``, in the other layouts."""
    strings, rows = b"\0", bytes(16)
    for name, address, size, kind in NARROW:
        rows += struct.pack("=IIIBBH", len(strings), address, size, 0x10 | kind, 0, 1)
        strings += name.encode() + b"\0"
    names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    at, body, places = 0x3000, b"", {}
    for part, data in (("rows", rows), ("strings", strings), ("names", names)):
        places[part] = (at + len(body), len(data))
        body += data + bytes(-len(data) % 8)
    sections = bytes(40)
    for name, kind, part, link in ((b".text", 1, (TEXT, 0x2000), 0), (b".symtab", 2, places["rows"], 3),
                                   (b".strtab", 3, places["strings"], 0), (b".shstrtab", 3, places["names"], 0)):
        sections += struct.pack("=IIIIIIIIII", names.index(name), kind, 0, 0x401000 if kind == 1 else 0, *part, link, 0,
                                4, 16 if kind == 2 else 0)
    order = b"\1" if byteorder == "little" else b"\2"
    header = struct.pack("=16sHHIIIIIHHHHHH", b"\x7fELF\1" + order + b"\1" + bytes(9), 2, machine, 1, 0x401000, 52,
                         at + len(body), 0, 52, 32, 1, 40, 5, 4)
    segment = struct.pack("=IIIIIIII", 1, TEXT, 0x401000, 0, 0x2000, 0x2100, 5, 0x1000)
    return (header + segment).ljust(at, b"\0") + body + sections


def test_a_file_of_32_bits(tmp_path: Path) -> None:
    (tmp_path / "narrow").write_bytes(make_narrow())
    file = files.open_elf(str(tmp_path / "narrow"))
    assert (file.bits, file.machine, file.type) == (32, 3, 2)
    assert [(f.name, f.address, f.offset, f.size) for f in file.functions()] == [
        ("start", 0x401000, 0x1000, 0x20), ("asm", 0x401040, 0x1040, 0), ("resolver", 0x401080, 0x1080, 8)]
    assert file.indirect_functions() == [("resolver", 0x401080)] and file.find_object("counter") == (0x402000, 4)
    assert file.frame_row(0x401004) is None and file.unwind_rows(0) is None
    assert "32-bit" in file.function_prototype(0x1000).problem


@pytest.mark.parametrize("machine", [62, 40, 22])
def test_other_files_of_32_bits(tmp_path: Path, machine: int) -> None:
    (tmp_path / "narrow").write_bytes(make_narrow(machine))
    with pytest.raises(MachineError, match="only 64-bit ELF files, and 32-bit ones of x86"):
        files.open_elf(str(tmp_path / "narrow"))


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 0x3300), byte=st.integers(0, 255))
def test_damaged_files_of_32_bits(at: int, byte: int) -> None:
    data = bytearray(make_narrow())
    data[at % len(data)] = byte
    try:
        narrow = elf.Inner(bytes(data))
        narrow.functions().functions_around(0x401004)
    except MachineError:
        pass
