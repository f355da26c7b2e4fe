"""Maps of run-time compilers: believed where they are the process's or root's own files, and as far as is sensible."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.kernel.names.user_symbols import UserSymbols
from support import compile_c

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="runs a program as another user: needs root")

STRANGER, OTHER = 65533, 65532
# One page of code of its own, whose address it prints; then it waits.
PROGRAM = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    printf("%p\n", mmap((void *)0x700000000000, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    fflush(stdout);
    return getchar();
}
"""
CODE = 0x700000000000
LINE = f"{CODE:x} 100 made\n"


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A stranger's program that has made code."""
    program = compile_c(PROGRAM, tmp_path, "maker")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=STRANGER)
    assert child.stdout is not None and int(child.stdout.readline(), 16) == CODE
    yield child
    child.communicate("\n")


@pytest.fixture
def path(process: subprocess.Popen[str]) -> Iterator[Path]:
    """Where its map is."""
    found = Path(f"/tmp/perf-{process.pid}.map")
    yield found
    found.unlink(missing_ok=True)


def name_of_code(process: subprocess.Popen[str]) -> str:
    begin = time.monotonic()
    found = UserSymbols().lookup(process.pid, CODE + 4)
    assert time.monotonic() - begin < 20
    assert found is not None
    return found.name


@pytest.mark.parametrize("owner", [0, STRANGER])
def test_its_own_map(process: subprocess.Popen[str], path: Path, owner: int) -> None:
    path.write_text(LINE)
    os.chown(path, owner, owner)
    assert name_of_code(process) == "made"


def test_a_map_of_somebody_else(process: subprocess.Popen[str], path: Path) -> None:
    path.write_text(LINE)
    os.chown(path, OTHER, OTHER)
    assert name_of_code(process) == ""


def test_a_link(process: subprocess.Popen[str], path: Path, tmp_path: Path) -> None:
    (tmp_path / "map").write_text(LINE)
    path.symlink_to(tmp_path / "map")
    assert name_of_code(process) == ""


@pytest.mark.parametrize("where", ["/sys/kernel/tracing/trace_pipe", "/dev/zero", "/proc/self/mem"])
def test_a_link_to_what_never_ends(process: subprocess.Popen[str], path: Path, where: str) -> None:
    path.symlink_to(where)
    assert name_of_code(process) == ""


def test_a_fifo(process: subprocess.Popen[str], path: Path) -> None:
    os.mkfifo(path)
    os.chown(path, STRANGER, STRANGER)
    assert name_of_code(process) == ""


def test_a_hole_of_200_gigabytes(process: subprocess.Popen[str], path: Path) -> None:
    """What stands before it is believed."""
    with path.open("w") as file:
        file.write(LINE)
        file.truncate(200 << 30)
    assert name_of_code(process) == "made"


def test_odd_lines(process: subprocess.Popen[str], path: Path) -> None:
    """None of them hides the one that is as it should be."""
    path.write_bytes(b"\n \n-1 -1 x\nzz 1 y\n" + b"f" * 5000 + b" 1 z\n" + b"1" * 18 + b" ffffffffffffffffff w\n"
                     + f"{CODE:x} {'0' * 20}1 q\n".encode() + b"\xff\xfe\xfd\n" + LINE.encode() + b"7000 10 no newline")
    assert name_of_code(process) == "made"


def test_a_name_that_is_too_long(process: subprocess.Popen[str], path: Path) -> None:
    path.write_text(f"{CODE:x} 100 {'n' * 100_000}\n")
    assert name_of_code(process) == "n" * 4096


def test_what_was_made_last_counts(process: subprocess.Popen[str], path: Path) -> None:
    path.write_text(LINE + f"{CODE:x} 80 again\n")
    assert name_of_code(process) == "again"
