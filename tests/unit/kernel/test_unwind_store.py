"""Unwind tables that are kept are of one file, and whole; anything else is made anew."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from sonde.kernel.foreign import files
from sonde.kernel.names import unwind_store
from sonde.layouts.unwind_format import ROW

ROWS = b"".join([ROW.pack(place, 3) for place in range(100)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the entries."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache/sonde"


def copy_program(path: Path) -> str:
    shutil.copy(os.path.realpath(sys.executable), path)
    return str(path)


def test_what_is_kept_is_of_one_file(folder: Path, tmp_path: Path) -> None:
    """Another file with the same build id has none, and neither has the same file when it was written to."""
    path = copy_program(tmp_path / "one")
    one, other = files.open_elf(path), files.open_elf(copy_program(tmp_path / "other"))
    assert one.build_id == other.build_id and unwind_store.read_rows(one) is None
    unwind_store.keep_rows(one, ROWS)
    assert unwind_store.read_rows(one) == ROWS and unwind_store.read_rows(other) is None
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(size - 1)
        file.write(b"x")
    os.utime(path, ns=(1, 1))
    assert unwind_store.read_rows(files.open_elf(path)) is None


@pytest.mark.parametrize("at", [0, 9, 13, 20, 24, 100, -1])
def test_a_damaged_entry_is_thrown_away(at: int, folder: Path, tmp_path: Path) -> None:
    one = files.open_elf(copy_program(tmp_path / "one"))
    unwind_store.keep_rows(one, ROWS)
    entry = next(folder.glob(f"{unwind_store.PREFIX}*"))
    whole = bytearray(entry.read_bytes())
    whole[at] ^= 4
    entry.write_bytes(whole)
    assert unwind_store.read_rows(one) is None and not entry.exists()


@pytest.mark.parametrize("size", [0, 10, 24, 30])
def test_a_cut_entry_is_thrown_away(size: int, folder: Path, tmp_path: Path) -> None:
    one = files.open_elf(copy_program(tmp_path / "one"))
    unwind_store.keep_rows(one, ROWS)
    entry = next(folder.glob(f"{unwind_store.PREFIX}*"))
    os.truncate(entry, size)
    assert unwind_store.read_rows(one) is None and not entry.exists()


def test_an_entry_of_another_file_is_none(folder: Path, tmp_path: Path) -> None:
    """Renaming is no way to give a file other rows."""
    one, other = (files.open_elf(copy_program(tmp_path / name)) for name in ("one", "other"))
    unwind_store.keep_rows(one, ROWS)
    first = next(folder.glob(f"{unwind_store.PREFIX}*"))
    contents = first.read_bytes()
    unwind_store.keep_rows(other, ROWS)
    second = next(path for path in folder.glob(f"{unwind_store.PREFIX}*") if path != first)
    second.write_bytes(contents)
    assert unwind_store.read_rows(other) is None and unwind_store.read_rows(one) == ROWS


def test_the_oldest_make_room(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwind_store, "MOST_FILES", 2)
    opened = [files.open_elf(copy_program(tmp_path / name)) for name in "abc"]
    for number, each in enumerate(opened):
        unwind_store.keep_rows(each, ROWS)
        for entry in folder.glob(f"{unwind_store.PREFIX}*"):
            os.utime(entry, (number + 1, number + 1)) if entry.stat().st_mtime > 1e6 else None
    assert [unwind_store.read_rows(each) is not None for each in opened] == [False, True, True]
