"""Source files as processes see them: which are read, which are not, and with whose rights."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.errors import MachineError
from sonde.kernel.foreign.reader import release_reader
from sonde.kernel.foreign.source_files import ProcessView, open_source
from sonde.runtime.stacks.sources import Sources


@pytest.fixture(autouse=True)
def no_reader_stays() -> Iterator[None]:
    """The shared reader has a socket here."""
    yield
    release_reader()


def read(path: str | Path, pid: int = 0) -> tuple[list[str], str]:
    text = Sources(1 << 24).read_source(pid or os.getpid(), str(path))
    return text.lines, text.problem


def test_which_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rna\xc3\xafve\n" + b"x" * 1000)
    assert read(file) == (["one", "two", "naïve", "x" * 400], "")
    file.write_bytes(b"caf\xe9")
    assert read(file) == (["café"], "")
    file.write_bytes(b"x" * (2 << 20) + b"x")
    assert read(file) == ([], "it has more than 2 MiB")
    assert read(tmp_path) == ([], "it is not a regular file")
    os.mkfifo(tmp_path / "pipe")
    assert read(tmp_path / "pipe") == ([], "it is not a regular file")
    assert read(tmp_path / "none.py")[1] == "No such file or directory"
    assert read("<string>")[1] == "no file" and read("a\0b")[1] != ""
    assert read(file, 1 << 22)[1].startswith(f"process {1 << 22} cannot be looked at")


def test_a_process_that_has_ended_and_a_relative_name(tmp_path: Path) -> None:
    sources = Sources(1 << 20)
    (tmp_path / "b.py").write_text("early")
    os.utime(tmp_path / "b.py", (1, 1))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, cwd=tmp_path) as process:
        while os.readlink(f"/proc/{process.pid}/exe").rpartition("/")[2] == "python":
            time.sleep(0.001)
        sources.remember_process(process.pid)
    text = sources.read_source(process.pid, "b.py")
    assert (text.lines, text.changed, text.problem) == (["early"], False, "")
    (tmp_path / "b.py").write_text("late")
    text = sources.read_source(process.pid, "b.py")
    assert (text.lines, text.changed) == (["late"], True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_is_opened_with_the_rights_of_the_user(tmp_path: Path) -> None:
    own = os.getgroups()
    file = tmp_path / "c.py"
    file.write_text("secret")
    file.chmod(0o640)
    os.chown(file, 0, 4242)

    def opens(user: int, group: int, groups: list[int], path: str) -> bool:
        try:
            os.close(open_source(ProcessView("", "/", user, group, groups, 0), path).descriptor)
        except MachineError:
            return False
        return True
    folder = os.open(tmp_path, os.O_PATH)  # the folders above are root's alone
    inside = f"/proc/{os.getpid()}/fd/{folder}/c.py"
    assert opens(0, 0, [], str(file)) and not opens(4243, 4243, [], str(file))
    os.close(folder)
    assert not opens(4243, 4243, [4242], inside)
    assert os.getgroups() == own and file.read_text() == "secret" and os.access(file, os.R_OK)
