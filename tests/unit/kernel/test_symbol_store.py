"""The store of symbols: what is put there comes out, other tools read it, and nobody else's is believed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

import hostile.generators_elf as made
from sonde.errors import MachineError
from sonde.kernel import notices
from sonde.kernel.foreign import files, mapped, opening
from sonde.kernel.names import symbol_store
from sonde.kernel.names.symbol_pack import use_pack, write_pack
from support import compile_c, run_sonde

SOURCE = """
int alpha(int n) { return n + 1; }
int beta(int n) { return alpha(n) * 2; }
static int gamma_(int n) { return beta(n) - 3; }
int main(void) { return gamma_(1) == 99; }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache" / "sonde"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent))
    return folder


@pytest.fixture
def program(tmp_path: Path) -> files.ElfFile:
    return files.open_elf(str(compile_c(SOURCE, tmp_path, "program", "-Wl,--build-id")))


def functions(file: files.ElfFile) -> set[tuple[str, int, int]]:
    return {(each.name, each.address, each.size) for each in file.functions()}


def reopened(file: files.ElfFile) -> files.ElfFile:
    found = files.open_stored(symbol_store.open_symbols, file.build_id, symbol_store.open_symbols(file.build_id))
    assert found is not None
    return found


def test_what_is_put_comes_out(program: files.ElfFile) -> None:
    assert symbol_store.keep_symbols(program, "/usr/bin/program")
    found = reopened(program)
    assert {"alpha", "beta", "gamma_", "main"} <= {name for name, _, _ in functions(found)}
    assert functions(found) == functions(program)
    assert found.build_id == program.build_id and found.origin == "/usr/bin/program"
    for each in program.functions():
        assert found.offset_to_address(each.offset) == each.address
        assert found.function_at(each.address + 1) == program.function_at(each.address + 1)
    found.close()


def test_other_tools_read_it(program: files.ElfFile, cache: Path) -> None:
    """nm and readelf, which complain of what is not as it should be."""
    symbol_store.keep_symbols(program, "program")
    stored = cache / f"symbols-{program.build_id.hex()}"
    for tool in (["readelf", "-aW"], ["nm", "--defined-only"]):
        done = subprocess.run([*tool, stored], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        if tool[0] == "readelf":
            assert f"Build ID: {program.build_id.hex()}" in done.stdout
        else:
            rows = {(line.split()[2].partition("@")[0], int(line.split()[0], 16)) for line in done.stdout.splitlines()}
            assert rows == {(name, address) for name, address, _ in functions(program)}


@pytest.mark.parametrize("prefix", [symbol_store.SYMBOLS, symbol_store.DEBUG])
def test_bounded(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was used longest ago goes."""
    debug = prefix == symbol_store.DEBUG
    monkeypatch.setattr(symbol_store, "MOST_DEBUG_BYTES" if debug else "MOST_BYTES", 1000)
    ids = [bytes([number] * 8) for number in range(1, 5)]
    for number, build_id in enumerate(ids):
        put = symbol_store.put_debug_file if debug else symbol_store.put_symbols
        assert put(build_id, [bytes(300)] if debug else bytes(300))  # type: ignore[operator]
        stored = Path(os.environ["XDG_CACHE_HOME"], "sonde", prefix + build_id.hex())
        os.utime(stored, (number, number))
        if number == 2:  # the first is used
            os.close((symbol_store.open_debug_file if debug else symbol_store.open_symbols)(ids[0]))
    assert [entry.build_id for entry in symbol_store.list_symbols(prefix)] == [ids[each].hex() for each in (0, 3, 2)]


@pytest.mark.parametrize("trouble", ["a link", "a link of the folder", "another's", "everybody's", "a folder"])
def test_others_are_not_believed(trouble: str, program: files.ElfFile, cache: Path) -> None:
    if trouble == "another's" and os.geteuid() != 0:
        pytest.skip("root is not installed")
    symbol_store.keep_symbols(program, "program")
    stored = cache / f"symbols-{program.build_id.hex()}"
    if trouble == "a link":
        stored.rename(cache / "elsewhere")
        stored.symlink_to(cache / "elsewhere")
    elif trouble == "a link of the folder":
        cache.rename(cache.parent / "elsewhere")
        (cache.parent / "elsewhere").chmod(0o777)
        cache.symlink_to(cache.parent / "elsewhere")
    elif trouble == "another's":
        os.chown(stored, 12345, 12345)
    elif trouble == "everybody's":
        stored.chmod(0o666)
    else:
        stored.unlink()
        stored.mkdir()
    assert symbol_store.open_symbols(program.build_id) == -1


def test_a_file_that_is_gone(program: files.ElfFile) -> None:
    """It has its functions, from the store; what else it had it does not make up."""
    symbol_store.keep_symbols(program, "program")
    expected = program.functions()[0]
    os.unlink(program.path)
    program.forget_contents()
    program.close()
    assert program.function_at(expected.address) == (expected.name, 0)
    with pytest.raises(MachineError, match="is gone"):
        program.unwind_rows(0)


def test_what_is_mapped_is_told_by_its_build_id(program: files.ElfFile, tmp_path: Path) -> None:
    digits, path = program.build_id.hex(), program.path
    assert mapped.open_mapped(path, digits) is program
    mapped.hold_file(path, digits)
    os.rename(compile_c(SOURCE.replace("alpha", "omega"), tmp_path, "other", "-Wl,--build-id"), path)
    assert mapped.open_mapped(path, digits).build_id == program.build_id
    with pytest.raises(MachineError, match="has been replaced"):
        mapped.open_mapped(path, "ab" * 20)


def mapped_names(path: str, build_id: str) -> list[str]:
    try:
        return [function.name for function in mapped.open_mapped(path, build_id).functions()]
    except MachineError:
        return []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_of_another_user_stands_for_none_of_roots(program: files.ElfFile, tmp_path: Path) -> None:
    """It claims the build ID of a program of root's that was mapped later, and is gone by now."""
    digits, path = program.build_id.hex(), program.path
    evil = compile_c(SOURCE.replace("alpha", "omega"), tmp_path, "evil", f"-Wl,--build-id=0x{digits}")
    os.chown(evil, 65534, 65534)
    mapped.hold_file(str(evil), digits)
    os.unlink(path)
    assert "omega" not in mapped_names(path, digits)
    os.rename(evil, tmp_path / "moved")
    assert "omega" in mapped_names(str(evil), digits)  # for what was mapped from its own path it stands
    assert "omega" not in mapped_names(path, digits)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_roots_file_is_held_though_another_users_is(program: files.ElfFile, tmp_path: Path) -> None:
    digits, path = program.build_id.hex(), program.path
    evil = compile_c(SOURCE.replace("alpha", "omega"), tmp_path, "evil", f"-Wl,--build-id=0x{digits}")
    os.chown(evil, 65534, 65534)
    mapped.hold_file(str(evil), digits)
    mapped.hold_file(path, digits)
    os.unlink(path)
    names = mapped_names(path, digits)
    assert "alpha" in names and "omega" not in names


def test_a_file_with_the_wrong_build_id_is_not_held_for_another(program: files.ElfFile) -> None:
    mapped.hold_file(program.path, "cd" * 20)
    with pytest.raises(MachineError):
        mapped.open_mapped("/nosuch", "cd" * 20)


def test_no_more_than_some_are_held(program: files.ElfFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "HELD", 4)
    for number in range(20):
        mapped.hold_file(program.path, f"{number:040x}")
    assert list(mapped._held) == [("", f"{number:040x}") for number in range(16, 20)]


def test_what_somebody_would_have_to_be_waited_for_is_not_opened(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Links may lead to a file system that does not answer; so may be the one that the file is on."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    path.read_bytes()
    os.close(opening.open_without_waiting(str(path)))
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "link", tmp_path / "folder" / "file", tmp_path / "pipe", tmp_path, Path("/proc/self/exe"),
                  tmp_path / "nosuch"):
        with pytest.raises(MachineError):
            opening.open_without_waiting(str(other))
    monkeypatch.setattr(opening, "_file_systems", dict.fromkeys(opening._file_systems, "fuse.sshfs"))
    with pytest.raises(MachineError, match="not opened"):
        opening.open_without_waiting(str(path))


# ---- packs

def test_a_pack(program: files.ElfFile, cache: Path, tmp_path: Path) -> None:
    symbol_store.keep_symbols(program, "/usr/bin/program")
    before = (cache / f"symbols-{program.build_id.hex()}").read_bytes()
    assert write_pack(str(tmp_path / "pack"), [program.build_id.hex()]) == 1
    assert symbol_store.drop_symbols(program.build_id.hex()) and symbol_store.open_symbols(program.build_id) == -1
    assert use_pack(str(tmp_path / "pack")) == (1, [])
    assert (cache / f"symbols-{program.build_id.hex()}").read_bytes() == before


def test_a_hostile_pack(program: files.ElfFile, cache: Path, tmp_path: Path) -> None:
    """Members with names that lead elsewhere, with another's build id, too large, compressed, or that are nothing."""
    image = program.symbol_file("x")
    bomb = made.with_symbols(tmp_path / "bomb", [b"known"]).read_bytes()
    with ZipFile(tmp_path / "pack", "w", ZIP_STORED) as pack:
        for name, data in (("../../etc/passwd", image), ("ab" * 20, image), ("cd" * 20, b"nothing"),
                           ("ef" * 20, image[:100]), ("12" * 20, bomb), (program.build_id.hex(), image)):
            pack.writestr(name, data)
        pack.writestr("34" * 20, image, ZIP_DEFLATED)
    taken, problems = use_pack(str(tmp_path / "pack"))
    assert taken == 1 and len(problems) == 5
    assert [entry.build_id for entry in symbol_store.list_symbols()] == [program.build_id.hex()]
    assert {path.name for path in cache.iterdir()} == {f"symbols-{program.build_id.hex()}"}


@pytest.mark.parametrize("damage", range(40))
def test_a_damaged_pack(damage: int, program: files.ElfFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some bytes are others: it is refused, or what it has is plain."""
    import random
    monkeypatch.setattr(notices, "tell", lambda text: None)
    chance = random.Random(damage)
    symbol_store.keep_symbols(program, "program")
    write_pack(str(tmp_path / "pack"), [program.build_id.hex()])
    data = bytearray((tmp_path / "pack").read_bytes())
    for _ in range(chance.randrange(1, 30)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    (tmp_path / "pack").write_bytes(data)
    try:
        taken, problems = use_pack(str(tmp_path / "pack"))
    except MachineError:
        return
    assert taken + len(problems) <= 1


# ---- the command

def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    for words, said in ((["frob"], "list, take, pack, use or drop"), (["take"], "wants files"),
                        (["take", "/etc/passwd"], "/etc/passwd: not an ELF file"), (["pack"], "-o PACK"),
                        (["use", "/nosuch"], "No such file"),
                        (["use", "/etc/passwd"], "/etc/passwd is no pack of symbols: not a ZIP archive"),
                        (["drop", "ff"], "0 build ids"), (["-p", "1", "list"], "-p PID")):
        done = run_sonde("symbols", *words)
        assert done.returncode == 1 and said in done.stderr, (words, done.stderr)
    done = run_sonde("symbols", "take", sys.executable)
    assert done.returncode in (0, 1)


def test_a_pack_of_nothing_is_told_shortly(tmp_path: Path) -> None:
    """Thousands of files that are none, with line breaks in their names; and none that can be read."""
    with ZipFile(tmp_path / "many", "w", ZIP_STORED) as pack:
        for number in range(3000):
            pack.writestr(f"{number}\n\x1b[31mERROR: forged", b"nothing")
    done = run_sonde("symbols", "use", str(tmp_path / "many"))
    assert done.returncode == 1 and done.stdout == "Symbols of 0 files taken\n"
    *said, last = done.stderr.splitlines()
    assert len(said) == 20 and last == "WARNING: and 2980 more"
    assert all(line.startswith("WARNING: ") and "\x1b" not in line for line in said)
    with ZipFile(tmp_path / "compressed", "w", ZIP_DEFLATED) as pack:
        pack.writestr("12" * 20, bytes(1 << 24))
    done = run_sonde("symbols", "use", str(tmp_path / "compressed"))
    assert done.returncode == 1 and "has no symbol files; what is compressed in it is not read" in done.stderr
