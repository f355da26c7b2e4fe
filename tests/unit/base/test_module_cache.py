"""Modules from the pack are what their sources are, and anything wrong with the pack only costs time."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import zipfile
import zipimport
from _frozen_importlib_external import PathFinder
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sonde.base import module_cache
from sonde.base.module_cache import PREFIX, ModulePack
from sonde.base.room_files import pack_room
from sonde.base.single_file import SingleFile
from sonde.base.version import record_path

PACKAGE = "packed_example"
SOURCES = {"__init__.py": "", "one.py": "from .inner.two import TWO\nONE = TWO - 1\n", "inner/__init__.py": "",
           "inner/two.py": "TWO = 2\n"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in SOURCES.items():
        (tmp_path / "src" / PACKAGE / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / PACKAGE / name).write_text(text)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "src"), *sys.path])
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield tmp_path / "src" / PACKAGE
    forget()
    close_packs()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def close_packs() -> None:
    for finder in sys.meta_path:
        if isinstance(finder, ModulePack):
            finder.close()


def start(folder: Path, archive: SingleFile | None = None, keep: bool = True) -> Any:
    """Import the package as a new process does; module ``one``."""
    forget()
    close_packs()
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, ModulePack)]
    importlib.invalidate_caches()
    pack = ModulePack(PACKAGE, str(folder), archive)
    pack.open()
    sys.meta_path.insert(0, pack)
    module = importlib.import_module(f"{PACKAGE}.one")
    if keep:
        pack.keep()
    return module


def packs(folder: Path) -> list[Path]:
    return sorted((folder.parents[1] / "cache" / "sonde").glob(f"{PREFIX}*"))


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which modules Python had to look for."""
    sought: list[str] = []
    find = PathFinder.find_spec

    class Search:
        @staticmethod
        def find_spec(name: str, path: Any) -> Any:
            sought.append(name)
            return find(name, path)

    monkeypatch.setattr(module_cache, "PathFinder", Search)
    return sought


def test_a_second_start_looks_for_no_module(folder: Path, no_search: list[str]) -> None:
    plain = start(folder)
    assert no_search == [f"{PACKAGE}.one", f"{PACKAGE}.inner", f"{PACKAGE}.inner.two"]
    no_search.clear()
    packed = start(folder)
    assert packed is not plain and packed.ONE == 1 and not no_search
    inner = sys.modules[f"{PACKAGE}.inner"]
    assert inner.__path__ == [str(folder / "inner")] and inner.__package__ == f"{PACKAGE}.inner"
    assert packed.__file__ == str(folder / "one.py") and packed.__spec__.loader.get_source(f"{PACKAGE}.one")


# ---- what a module imports is imported ahead of it

@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which modules the interpreter asked for. The threads of the test's own runner do not count."""
    count, own = module_cache.count_threads, module_cache.count_threads()
    monkeypatch.setattr(module_cache, "count_threads", lambda: count() - own)
    names: list[str] = []
    find = ModulePack.find_spec

    def note(pack: ModulePack, name: str, *others: Any) -> Any:
        names.append(name)
        return find(pack, name, *others)

    monkeypatch.setattr(ModulePack, "find_spec", note)
    return names


def test_a_second_start_asks_for_one_module(folder: Path, asked: list[str]) -> None:
    first = start(folder)
    asked.clear()
    second = start(folder)
    assert second.ONE == 1 and [name for name in asked if name.startswith(PACKAGE)] == [PACKAGE, f"{PACKAGE}.one"]
    two = sys.modules[f"{PACKAGE}.inner.two"]
    assert sys.modules[f"{PACKAGE}.inner"].two is two and two.__package__ == f"{PACKAGE}.inner"
    assert set(vars(first)) == set(vars(second))
    assert two.__spec__ is not None and two.__spec__.loader is two.__loader__


def test_what_was_there_already_is_learned(folder: Path, asked: list[str]) -> None:
    """The first start had imported it before the module that asks for it did."""
    (folder / "__init__.py").write_text("import os\nif 'EXAMPLE_FIRST' in os.environ:\n    from . import three\n")
    (folder / "inner" / "two.py").write_text("from ..three import THREE\nTWO = THREE - 1\n")
    (folder / "three.py").write_text("THREE = 3\n")
    os.environ["EXAMPLE_FIRST"] = "1"
    try:
        start(folder)
    finally:
        del os.environ["EXAMPLE_FIRST"]
    for expected in (1, 0, 0):
        asked.clear()
        assert start(folder).ONE == 1 and asked.count(f"{PACKAGE}.three") == expected


def test_what_fails_ahead_fails_where_it_is_asked_for(folder: Path, asked: list[str]) -> None:
    (folder / "one.py").write_text("try:\n    from .inner.two import TWO as ONE\nexcept ValueError:\n    ONE = 0\n")
    two = folder / "inner" / "two.py"
    two.write_text("import os\nif 'EXAMPLE_FAILS' in os.environ: raise ValueError\nTWO = 2\n")
    assert start(folder).ONE == 2
    os.environ["EXAMPLE_FAILS"] = "1"
    try:
        assert start(folder).ONE == 0 and f"{PACKAGE}.inner.two" not in sys.modules
    finally:
        del os.environ["EXAMPLE_FAILS"]
    assert start(folder).ONE == 2


def test_nothing_is_imported_ahead_beside_other_threads(folder: Path, asked: list[str]) -> None:
    start(folder)
    asked.clear()
    halt = threading.Event()
    thread = threading.Thread(target=halt.wait)
    thread.start()
    try:
        assert start(folder).ONE == 1 and f"{PACKAGE}.inner.two" in asked
    finally:
        halt.set()
        thread.join()


def test_what_was_edited_is_asked_what_it_imports(folder: Path, asked: list[str]) -> None:
    start(folder)
    one = folder / "one.py"
    one.write_text("ONE = 7\n")
    assert start(folder).ONE == 7 and f"{PACKAGE}.inner.two" not in sys.modules
    assert start(folder).ONE == 7 and f"{PACKAGE}.inner.two" not in sys.modules


# ---- sources and packs that change

def test_what_was_edited_is_read_anew(folder: Path, no_search: list[str]) -> None:
    start(folder)
    two = folder / "inner" / "two.py"
    two.write_text("TWO = 9\n")  # as long as before
    later = two.stat().st_mtime_ns + 2_000_000_000
    os.utime(two, ns=(later, later))
    no_search.clear()
    assert start(folder).ONE == 8 and no_search == [f"{PACKAGE}.inner.two"]
    no_search.clear()
    assert start(folder).ONE == 8 and not no_search and len(packs(folder)) == 1


def test_sources_that_pip_installed_are_not_looked_at(folder: Path, no_search: list[str]) -> None:
    """As long as they are the same installation: another one has another list of files."""
    record = Path(record_path(str(folder)))
    record.parent.mkdir()
    record.write_text("first")
    start(folder)
    (folder / "inner" / "two.py").unlink()
    no_search.clear()
    assert start(folder).ONE == 1 and not no_search
    (folder / "inner" / "two.py").write_text("TWO = 50\n")
    os.utime(record, ns=(1, 1))
    assert start(folder).ONE == 49 and len(no_search) == 3


def test_a_module_that_is_gone_is_gone(folder: Path) -> None:
    start(folder)
    (folder / "inner" / "two.py").unlink()
    with pytest.raises(ModuleNotFoundError):
        start(folder)


@pytest.mark.parametrize("damage", [b"", b"\1", b"\xff" * 200, None])
def test_a_broken_pack_is_made_again(folder: Path, no_search: list[str], damage: bytes | None) -> None:
    start(folder)
    (pack,) = packs(folder)
    whole = pack.read_bytes()
    pack.write_bytes(whole[:-7] if damage is None else damage)
    no_search.clear()
    assert start(folder).ONE == 1 and len(no_search) == 3
    assert len(pack.read_bytes()) == len(whole)


def test_no_flipped_byte_is_run(folder: Path) -> None:
    """Of the index or of any module's bytecode: what is damaged is read anew, and put right at the end of the run."""
    start(folder)
    pack, = [path for path in folder.parents[1].rglob(f"{PREFIX}*") if path.is_file()]
    whole = pack.read_bytes()
    for at in range(0, len(whole), 5):
        pack.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:])
        assert start(folder, keep=at % 2 == 0).ONE == 1, at
    for size in range(0, len(whole), 50):
        pack.write_bytes(whole[:size])
        assert start(folder, keep=False).ONE == 1, size
    pack.write_bytes(whole[:-8] + bytes(8))
    start(folder)
    assert start(folder).ONE == 1 and len(pack.read_bytes()) == len(whole)


def test_a_pack_cut_while_it_is_open_is_left(folder: Path, no_search: list[str]) -> None:
    start(folder)
    forget()
    pack = ModulePack(PACKAGE, str(folder))
    pack.open()
    sys.meta_path[:] = [pack, *[finder for finder in sys.meta_path if not isinstance(finder, ModulePack)]]
    packs(folder)[0].write_bytes(b"")
    no_search.clear()
    assert importlib.import_module(f"{PACKAGE}.one").ONE == 1 and not no_search  # compiled anew, out of the file known


def test_a_pack_that_others_can_write_is_not_used(folder: Path, no_search: list[str]) -> None:
    start(folder)
    packs(folder)[0].chmod(0o666)
    no_search.clear()
    assert start(folder, keep=False).ONE == 1 and len(no_search) == 3


def test_nothing_is_kept_without_bytecode(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    start(folder)
    assert not packs(folder)


def test_an_archive_has_a_pack(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A room is a file of it, and what is read from there is what a folder's files would be."""
    archive = folder.parent / "example.pyz"
    monkeypatch.setattr(sys, "path", [str(archive), *sys.path[1:]])
    read: list[str] = []
    read_source = SingleFile.get_data

    def note(file: SingleFile, path: str) -> bytes:
        read.append(path)
        return read_source(file, path)

    monkeypatch.setattr(SingleFile, "get_data", note)

    def pack_archive(two: str) -> None:
        with zipfile.ZipFile(archive, "w") as file:
            for name in ("__init__.py", "one.py"):
                file.writestr(f"{PACKAGE}/{name}", SOURCES[name])
            room = {f"{PACKAGE}/inner/__init__.py": b"", f"{PACKAGE}/inner/two.py": two.encode()}
            file.writestr(f"{PACKAGE}/inner.room", pack_room(room))
        zipimport._zip_directory_cache.clear()  # type: ignore[attr-defined]
        sys.path_importer_cache.clear()

    def start_anew() -> Any:
        read.clear()
        return start(archive / PACKAGE, SingleFile(str(archive)))

    pack_archive("TWO = 2\n")
    assert start_anew().ONE == 1 and f"{archive}/{PACKAGE}/inner/two.py" in read
    inner = sys.modules[f"{PACKAGE}.inner"]
    assert inner.__path__ == [f"{archive}/{PACKAGE}/inner"]
    assert inner.__file__ == f"{archive}/{PACKAGE}/inner/__init__.py"
    one = start_anew()
    assert one.ONE == 1 and not read and "TWO - 1" in one.__loader__.get_source(f"{PACKAGE}.one")
    os.utime(archive, ns=(1, 1))  # another archive, though the same bytes
    assert start_anew().ONE == 1 and read
    pack_archive("TWO = 3\n")
    assert start_anew().ONE == 2 and sorted(SingleFile(str(archive)).list_paths())[-2:] == [
        f"{PACKAGE}/inner/two.py", f"{PACKAGE}/one.py"]


def test_a_single_file_without_the_module(tmp_path: Path) -> None:
    archive = tmp_path / "example.pyz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(f"{PACKAGE}/inner.room", pack_room({f"{PACKAGE}/inner/two.py": b"TWO = 2\n"}))
    single = SingleFile(str(archive))
    assert single.find_spec(f"{PACKAGE}.inner.three", [f"{archive}/{PACKAGE}/inner"]) is None
    assert single.find_spec(f"{PACKAGE}.inner.two", ["/elsewhere"]) is None
    with pytest.raises(OSError):
        single.get_data(f"{archive}/{PACKAGE}/inner/three.py")
    with pytest.raises(ImportError):
        single.get_filename(f"{PACKAGE}.inner.three")
    assert single.get_source(f"{PACKAGE}.inner.two") == "TWO = 2\n"
