"""Names of stripped Go programs, from tables made here in each form that Go has had, and from damaged ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_tables import CODE, MAGIC, make_table
from hostile.generators_elf import Part, write_elf
from sonde.errors import MachineError
from sonde.kernel.foreign import files
from sonde.kernel.foreign.gopclntab import Program

FUNCTIONS = [("main.main", CODE, 0), ("main.(*T).Method", CODE + 0x40, 0), ("main.Sum[...]", CODE + 0x100, 0)]
WRAPPERS = [("runtime.write", CODE + 0x200, 0), ("runtime.osyield", CODE + 0x240, 2),
            ("runtime.write", CODE + 0x280, 21),
            ("runtime.osyield", CODE + 0x2C0, 21),
            ("main.T.Method", CODE + 0x300, 21)]
END = CODE + 0x400


def parts(table: bytes, name: str = ".gopclntab") -> list[Part]:
    return [Part(".text", address=CODE), Part(".note.go.buildid", data=b""), Part(name, data=table)]


def rows(path: Path) -> list[tuple[str, int, int]]:
    return [(f.name, f.address, f.size) for f in files.open_elf(str(path)).functions()]


@pytest.mark.parametrize("version", MAGIC)
def test_every_form(version: str, tmp_path: Path) -> None:
    path = write_elf(tmp_path / "prog", parts(make_table(version, FUNCTIONS, END)))
    assert rows(path) == [("main.main", CODE, 0x40), ("main.(*T).Method", CODE + 0x40, 0xC0),
                          ("main.Sum[...]", CODE + 0x100, 0x300)]
    assert files.open_elf(str(path)).function_at(CODE + 0x48) == ("main.(*T).Method", 8)


@pytest.mark.parametrize("version", ["1.16", "1.18", "1.20"])
def test_wrappers_of_the_same_name_are_left_out(version: str, tmp_path: Path) -> None:
    """A call that passes through one would be counted twice; a wrapper that has a name alone stays."""
    path = write_elf(tmp_path / "prog", parts(make_table(version, WRAPPERS, END)))
    assert [row[:2] for row in rows(path)] == [("runtime.write", CODE + 0x200), ("runtime.osyield", CODE + 0x240),
                                               ("main.T.Method", CODE + 0x300)]


@pytest.mark.parametrize("name", [".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro"])
def test_wherever_the_linker_puts_it(name: str, tmp_path: Path) -> None:
    """A linker of C's merges it into another section, where it is searched for."""
    table = make_table("1.18", FUNCTIONS, END)
    table = table if name.endswith("gopclntab") else b"\xf0\xff\xff\xff\0\0\0\0" + bytes(24) + table + b"more"
    path = write_elf(tmp_path / "prog", parts(table, name))
    assert [row[0] for row in rows(path)] == [name for name, _, _ in FUNCTIONS]


def test_the_code_begins_where_the_module_says(tmp_path: Path) -> None:
    """From 1.26 on the table does not say it; in a position-independent file only a relocation does."""
    table = make_table("1.20", [("main.main", CODE + 0x100, 0)], CODE + 0x200, text=0)
    module = 0x500000
    relocation = struct.pack("=QQQ", module + 22 * 8, 8, CODE - 0x40)
    some = [*parts(table), Part(".go.module", address=module), Part(".rela.dyn", 4, struct.pack("=QQQ", 8, 8, 8) +
                                                                   relocation)]
    assert rows(write_elf(tmp_path / "pie", some)) == [("main.main", CODE + 0xC0, 0x100)]
    assert rows(write_elf(tmp_path / "plain", parts(table))) == [("main.main", CODE + 0x100, 0x100)]


def test_a_file_with_symbols_has_them_alone(tmp_path: Path) -> None:
    strings = b"\0own\0"
    symbols = bytes(24) + struct.pack("=IBBHQQ", 1, 0x12, 0, 1, CODE, 8)
    path = write_elf(tmp_path / "prog", [*parts(make_table("1.20", FUNCTIONS, END)),
                                         Part(".symtab", 2, symbols, link=5), Part(".strtab", 3, strings)])
    assert rows(path) == [("own", CODE, 8)]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(MAGIC)), st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=6))
def test_damaged_tables_never_break(tmp_path_factory: pytest.TempPathFactory, version: str,
                                    changes: list[tuple[int, int]]) -> None:
    table = bytearray(make_table(version, FUNCTIONS + WRAPPERS, END))
    for at, value in changes:
        table[at % len(table)] = value
    path = write_elf(tmp_path_factory.getbasetemp() / "damaged", parts(bytes(table)))
    with path.open("rb") as stream:
        try:
            file = Program(stream.fileno())
            for name, address, offset, size in file.functions().function_page(0, file.address_to_offset)[0]:
                assert name and CODE <= address < CODE + 0x1000 and offset and size >= 0
        except MachineError:
            pass
