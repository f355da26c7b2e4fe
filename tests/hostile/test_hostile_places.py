"""Paths that lead elsewhere: links out of a process's root, FIFOs and devices where libraries should be."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import hostile.generators_elf as made
from sonde.errors import MachineError
from sonde.kernel.foreign import files
from sonde.kernel.foreign.opening import open_regular
from sonde.kernel.names import binaries
from support import compile_c, run_sonde

root = pytest.mark.skipif(os.geteuid() != 0, reason="changes the root directory of a program: needs root")


@pytest.fixture
def jail(tmp_path: Path) -> Path:
    """The root directory of a process: a static program that waits, and whatever a test puts there."""
    jail = tmp_path / "jail"
    (jail / "etc").mkdir(parents=True)
    (jail / "lib").mkdir()
    program = compile_c("#include <stdio.h>\nint main(void) { puts(\"\"); fflush(stdout); return getchar(); }\n",
                        jail, "waits", "-static")
    assert program.exists()
    return jail


@pytest.fixture
def inmate(jail: Path) -> Iterator[int]:
    child = subprocess.Popen(["chroot", jail, "/waits"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"\n"
    yield child.pid
    child.communicate(b"\n")


@root
def test_links_are_followed_as_the_process_would(jail: Path, inmate: int) -> None:
    """A link by a whole path leads to the process's file of that name, or nowhere: never to ours."""
    shutil.copy("/bin/true", jail / "inside")
    (jail / "lib" / "host.so").symlink_to(os.path.realpath("/bin/true"))
    (jail / "lib" / "own.so").symlink_to("/inside")
    (jail / "lib" / "up.so").symlink_to("../../../../../../../../inside")
    (jail / "lib" / "magic.so").symlink_to(f"/proc/{os.getpid()}/exe")
    where = f"/proc/{inmate}/root/lib"
    assert [files.is_elf(f"{where}/{name}.so") for name in ("host", "own", "up", "magic")] == [False, True, True, False]
    assert binaries.find_binaries("/lib/own.so", inmate) == [f"{where}/own.so"]
    assert files.open_elf(f"{where}/own.so").build_id == files.open_elf("/bin/true").build_id


def cache_of(path: str) -> bytes:
    """/etc/ld.so.cache with one library, libtrap.so.1."""
    texts = b"libtrap.so.1\0" + path.encode() + b"\0"
    head = struct.pack("=20sIIB3xI12x", b"glibc-ld.so.cache1.1", 1, len(texts), 2, 0)
    at = len(head) + 24
    return head + struct.pack("=iIIIQ", 0x0303, at, at + 13, 0, 0) + texts


@root
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the cache is made for x86_64")
def test_the_cache_of_another_root(jail: Path, inmate: int) -> None:
    shutil.copy("/bin/true", jail / "lib" / "trap")
    (jail / "etc" / "ld.so.cache").write_bytes(cache_of("/lib/trap"))
    assert binaries.find_binaries("libtrap", inmate) == [f"/proc/{inmate}/root/lib/trap"]


@root
@pytest.mark.parametrize("where", ["/dev/zero", "/sys/kernel/tracing/trace_pipe", "fifo", "hole"])
def test_a_cache_without_end(jail: Path, inmate: int, where: str) -> None:
    cache = jail / "etc" / "ld.so.cache"
    if where == "fifo":
        os.mkfifo(cache)
    elif where == "hole":
        with cache.open("wb") as file:
            file.truncate(200 << 30)
    else:
        (jail / where.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        cache.symlink_to(where)
    begin = time.monotonic()
    assert binaries.find_binaries("libtrap", inmate) == [] and time.monotonic() - begin < 20


def test_no_file_is_opened_that_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.fifo")
    (tmp_path / "link").symlink_to(tmp_path / "x.fifo")
    for path in (tmp_path / "x.fifo", tmp_path / "link", tmp_path, Path("/dev/zero"), Path("/dev/tty")):
        with pytest.raises(MachineError, match="not a regular file"):
            open_regular(str(path))
    with pytest.raises(MachineError):
        open_regular("a\0b")


@pytest.mark.parametrize("command", [["-l", "uprobe:{0}:*"], ["-e", "uprobe:{0}:main {{ }}"], ["-l", "usdt:{0}:*"],
                                     ["-e", "usdt:{0}:a:b {{ }}"], ["-lv", "uprobe:{0}:main"]])
def test_a_fifo_where_a_program_should_be(tmp_path: Path, command: list[str]) -> None:
    os.mkfifo(tmp_path / "x.fifo")
    done = run_sonde(*[word.format(tmp_path / "x.fifo") for word in command], timeout=20)
    assert done.returncode == (1 if "-e" in command else 0) and not done.stdout


def test_a_script_that_probes_a_file_that_is_not_read(tmp_path: Path) -> None:
    """The error stands at the probe and says why."""
    path = made.symbols_in_a_hole(tmp_path / "hostile")
    done = run_sonde("-e", f"uprobe:{path}:main {{ }}")
    assert done.returncode == 1
    assert f"No matches for uprobe {path}:main." in done.stderr and "stdin:1:1" in done.stderr
    assert f"HINT: {path} is not read: a symbol table has 2147483648 bytes" in done.stderr


@root
@pytest.mark.live
def test_a_probe_is_set_in_the_process_own_file(jail: Path, inmate: int, tmp_path: Path) -> None:
    """Its link leads to its own file, and so does the probe's: what runs by that path in our root is not stopped."""
    source = "int work(void) {{ return {0}; }}\nint main(void) {{ return work() - {0}; }}\n"
    ours = compile_c(source.format(3), tmp_path, "target")
    inside = jail / str(ours).lstrip("/")
    inside.parent.mkdir(parents=True)
    compile_c(source.format(4), inside.parent, "target", "-static")
    (jail / "link").symlink_to(ours)
    place = f"/proc/{inmate}/root/link"
    run = f"{ours}; {ours}; exec chroot {jail} /link"
    done = run_sonde("-e", f'uprobe:{place}:work {{ @ = count(); }}', "-c", f"sh -c '{run}'")
    assert done.returncode == 0 and "@: 1\n" in done.stdout, done.stdout + done.stderr
