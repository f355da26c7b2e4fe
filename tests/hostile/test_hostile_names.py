"""Files that lie in wait: under a tool's name, behind a stranger's link, in a cache; and what skboutput() may write."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.base.cache_dir import read_cache, write_cache
from sonde.base.trusted_files import open_guarded
from sonde.cli.script_names import COMMAND, FILE, LARGEST, TOOL, classify_word, read_script
from sonde.errors import SondeError, UsageError
from sonde.output.packets import PacketFile
from support import run_sonde

STRANGER = 65534
root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: needs root")
TRAP = 'begin { printf("trapped\\n"); exit(); }'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that another user owns."""
    found = tmp_path / "theirs"
    found.mkdir()
    if os.geteuid() == 0:
        os.chown(found, STRANGER, STRANGER)
    monkeypatch.chdir(found)
    monkeypatch.delenv("SUDO_UID", raising=False)
    return found


def theirs(path: Path, text: str) -> Path:
    path.write_text(text)
    os.chown(path, STRANGER, STRANGER)
    return path


def linked(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    return path


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, kind", [("opensnoop", TOOL), ("flame", COMMAND), ("unit", COMMAND)])
def test_tools_and_commands_win_over_files(folder: Path, name: str, kind: str) -> None:
    (folder / name).write_text(TRAP)
    assert classify_word(name) == kind and classify_word(f"./{name}") == FILE
    shown = run_sonde(name, "--help", cwd=folder).stdout
    assert shown.startswith(f"{name}: ")
    assert classify_word("mine") == ""
    (folder / "mine").write_text(TRAP)
    assert classify_word("mine") == FILE and read_script("mine").text == TRAP


def test_a_tool_is_checked_and_made_a_unit_of_under_its_name(folder: Path) -> None:
    (folder / "opensnoop").write_text("begin { nonsense }")
    assert "opensnoop" in read_script("opensnoop").text.splitlines()[0]
    unit = run_sonde("unit", "--prometheus", "opensnoop", cwd=folder)
    if unit.returncode == 0:  # compiles for this kernel: not everywhere
        assert str(folder) not in unit.stdout and " opensnoop\n" in unit.stdout


@root
def test_a_strangers_file_is_run_only_by_its_path(folder: Path) -> None:
    theirs(folder / "helper", TRAP)
    assert classify_word("helper") == ""
    with pytest.raises(UsageError, match="is another user's: not run") as caught:
        read_script("helper")
    assert caught.value.hints == ["./helper runs it all the same"]
    assert read_script("./helper").text == TRAP
    done = run_sonde("helper", cwd=folder)
    assert done.returncode == 1 and "another user's" in done.stderr and "trapped" not in done.stdout
    assert run_sonde("-l", "helper", cwd=folder).stdout == ""


@root
def test_who_came_by_sudo_runs_his_own_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs(folder / "helper", TRAP)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert classify_word("helper") == FILE and read_script("helper").text == TRAP


def test_a_plain_name_is_no_pipe_and_no_file_of_everybodys(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(UsageError, match="no regular file"):
        read_script("pipe")
    (folder / "open").write_text(TRAP)
    (folder / "open").chmod(0o666)
    with pytest.raises(UsageError, match="can be written to by everybody"):
        read_script("open")


def test_a_script_without_end_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=f"larger than {LARGEST >> 20} MiB"):
        read_script("/dev/zero")


def test_nothing_is_imported_from_the_working_directory(folder: Path) -> None:
    """The commands that Sonde writes: a unit's."""
    from sonde.cli.commands.unit import start_command
    for module in ("sonde", "os", "json"):
        (folder / f"{module}.py").write_text("raise SystemExit('trapped')")
    sys.argv[0], kept = str(folder / "elsewhere"), sys.argv[0]
    try:
        command = start_command()
    finally:
        sys.argv[0] = kept
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, cwd=folder, check=False)
    assert "trapped" not in done.stdout + done.stderr


# --- what is written --------------------------------------------------------------------------------------------------


@root
def test_output_goes_through_no_link_of_a_stranger(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    linked(folder / "out", precious)
    linked(folder / "way", tmp_path)
    for path in ("out", folder / "out", "way/precious", folder / "way" / "precious", "way/new"):
        done = run_sonde("-o", str(path), "-e", "begin { exit(); }", cwd=folder)
        assert done.returncode == 1 and "a link that belongs to another user" in done.stderr
    assert precious.read_text() == "precious" and not (tmp_path / "new").exists()


def test_own_links_and_descriptors_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to("real")
    (tmp_path / "out").symlink_to("way/../way/file")
    with open(open_guarded(str(tmp_path / "out"), os.O_WRONLY | os.O_CREAT), "w") as file:
        file.write("x")
    assert (tmp_path / "real" / "file").read_text() == "x"
    read, write = os.pipe()
    try:
        os.close(open_guarded(f"/proc/self/fd/{write}", os.O_WRONLY | os.O_TRUNC))
    finally:
        os.close(read)
        os.close(write)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels"):
        open_guarded(str(tmp_path / "loop"), os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        open_guarded(f"{tmp_path}/real/", os.O_WRONLY)


def test_a_capture_replaces_captures_only(tmp_path: Path) -> None:
    path = tmp_path / "packets.pcap"
    for _ in range(2):  # it is made, and made anew
        file = PacketFile(str(path))
        file.write(1_000_000_000, b"abc", 3)
        file.close()
        assert len(path.read_bytes()) == 24 + 16 + 3
        assert struct.unpack("=I", path.read_bytes()[:4]) == (0xA1B2C3D4,)
    for content in ("root:x:0:0", "abc"):
        path.write_text(content)
        with pytest.raises(SondeError, match="no capture that could be replaced"):
            PacketFile(str(path))
        assert path.read_text() == content
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SondeError, match="skboutput: failed to open"):
        PacketFile(str(path))


@root
def test_a_capture_is_nobody_elses(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    linked(folder / "packets.pcap", precious)
    with pytest.raises(SondeError, match="a link that belongs to another user"):
        PacketFile(str(folder / "packets.pcap"))
    assert not precious.exists()
    theirs(folder / "own.pcap", "")
    with pytest.raises(SondeError, match="belongs to another user"):
        PacketFile(str(folder / "own.pcap"))


# --- caches -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A HOME, and no other place where a cache could be: the one of the password file does not exist."""
    found = tmp_path / "home"
    found.mkdir()
    monkeypatch.setenv("HOME", str(found))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("sonde.base.cache_dir._cache_bases", lambda: iter([str(found / ".cache")]))
    return found


def test_a_cache_is_kept(home: Path) -> None:
    assert read_cache("name") is None
    assert write_cache("name", [b"text", b"more"]) and read_cache("name") == b"textmore"
    assert (home / ".cache" / "sonde").stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in (home / ".cache" / "sonde").iterdir()] == ["name"]


def test_a_cache_that_others_can_write_is_none(home: Path) -> None:
    assert write_cache("name", [b"text"])
    for path in (home, home / ".cache", home / ".cache" / "sonde", home / ".cache" / "sonde" / "name"):
        mode = path.stat().st_mode
        path.chmod(mode | 0o002)
        assert read_cache("name") is None
        assert path.is_file() or not write_cache("name", [b"text"])
        path.chmod(mode)
    assert read_cache("name") == b"text"


@root
def test_a_cache_on_whose_way_a_stranger_is_is_none(home: Path, tmp_path: Path) -> None:
    assert write_cache("name", [b"text"])
    for path in (home, home / ".cache", home / ".cache" / "sonde", home / ".cache" / "sonde" / "name"):
        os.chown(path, STRANGER, STRANGER)
        assert read_cache("name") is None
        os.chown(path, 0, 0)
    kept = home / ".cache" / "sonde"
    kept.rename(tmp_path / "kept")
    linked(kept, tmp_path / "kept")
    assert read_cache("name") is None and not write_cache("other", [b"text"])
    assert [entry.name for entry in (tmp_path / "kept").iterdir()] == ["name"]


def test_a_cache_that_is_a_pipe_a_link_or_endless_holds_nobody_up(home: Path, tmp_path: Path) -> None:
    assert write_cache("name", [b"text"])
    place = home / ".cache" / "sonde" / "name"
    place.unlink()
    os.mkfifo(place, 0o600)
    assert read_cache("name") is None
    place.unlink()
    (tmp_path / "elsewhere").write_text("text")
    place.symlink_to(tmp_path / "elsewhere")
    assert read_cache("name") is None
    assert write_cache("name", [b"new"])  # takes the link's place
    assert (tmp_path / "elsewhere").read_text() == "text" and read_cache("name") == b"new"
    os.truncate(place, 1 << 40)
    assert read_cache("name") is None


@root
def test_a_foreign_home_is_left_for_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    from sonde.base import cache_dir
    foreign, own = tmp_path / "foreign", tmp_path / "own"
    for path in (foreign, own):
        path.mkdir()
    os.chown(foreign, STRANGER, STRANGER)
    monkeypatch.setenv("HOME", str(foreign))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd(("x", "x", uid, uid, "", str(own), "")))
    assert cache_dir.write_cache("name", [b"text"])
    assert not list(foreign.iterdir()) and (own / ".cache" / "sonde" / "name").read_bytes() == b"text"
