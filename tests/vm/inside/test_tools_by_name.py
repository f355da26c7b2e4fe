"""Tools that trace functions of the kernel, or that choose their probes by it, on kernels that can."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

# The live tier's own tests, with their oracles.
from live.test_recording import NOT_EVERYWHERE, check_replays, is_served
from live.test_tools_disk import (  # noqa: F401
    test_biosnoop,
    test_biosnoop_tells_reads_from_writes,
    test_biostacks,
    test_bitesize,
    test_swapin,
)
from live.test_tools_files import READ, pages_in_memory
from live.test_tools_of_bcc import check_cachestat
from live.test_tools_tasks import small_group, test_capable, test_loads, test_oomkill, test_runqlen  # noqa: F401
from printed import histogram_total, rows
from support import Tracer

PATIENCE = 150


def command(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def loop_device(file: Path, megabytes: int) -> str:
    """A block device of that size, of a file in memory."""
    command("modprobe", "loop")
    with open(file, "wb") as image:
        image.truncate(megabytes << 20)
    return command("losetup", "-f", "--show", str(file))


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    """A folder on a new XFS."""
    if not shutil.which("mkfs.xfs"):
        pytest.skip("mkfs.xfs is not installed")
    command("modprobe", "xfs")
    device, folder = loop_device(tmp_path / "image", 320), tmp_path / "xfs"
    folder.mkdir()
    command("mkfs.xfs", "-q", device)
    command("mount", "-t", "xfs", device, str(folder))
    yield folder
    command("umount", str(folder))
    command("losetup", "-d", device)


@pytest.fixture
def disk_file(xfs: Path) -> Iterator[int]:
    fd = os.open(xfs / "data", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    os.posix_fallocate(fd, 0, 1 << 20)
    os.fsync(fd)
    yield fd
    os.close(fd)


class Child:
    """A process that runs a program when it is told to, and is there until it has been waited for."""

    def __init__(self, program: str, *words: str) -> None:
        waits = "import os, sys\nos.read(0, 1)\n" + program + "\nos.write(1, b'x')\nos.read(0, 1)\n"
        self.process = subprocess.Popen([sys.executable, "-S", "-c", waits, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=0)
        self.pid = str(self.process.pid)

    def run(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"\n")
        assert self.process.stdout.read(1) == b"x"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.process.communicate(b"\n")
        assert self.process.returncode == 0


FILES = """
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
for _ in range(12):
    os.write(fd, b"x" * 5000)
for _ in range(5):
    os.fsync(fd)
os.lseek(fd, 0, 0)
for _ in range(9):
    os.read(fd, 100)
for number in range(3):
    os.mknod(sys.argv[1] + f"/node{number}")
"""


def test_xfsdist(xfs: Path) -> None:
    with Child(FILES, str(xfs)) as child, Tracer("xfsdist", "-p", child.pid, timeout=PATIENCE) as tracer, \
            Tracer("xfsdist", "-p", child.pid, "-m", "1", timeout=PATIENCE) as blocks:
        child.run()
        time.sleep(3)
    for text, unit in ((tracer.stdout, "us"), (blocks.stdout, "ms")):
        counts = {name: histogram_total(text, f"{unit}[xfs_file_{name}]")
                  for name in ("write_iter", "fsync", "read_iter", "open")}
        assert counts == {"write_iter": 12, "fsync": 5, "read_iter": 9, "open": 1}
    assert re.search(r"^\d\d:\d\d:\d\d$", blocks.stdout, re.M) and not re.search(r"^\d\d:", tracer.stdout, re.M)


def test_vfsstat_and_vfscount(tmp_path: Path) -> None:
    with Child(FILES, str(tmp_path)) as child, Tracer("vfsstat", "-p", child.pid, timeout=PATIENCE) as seconds, \
            Tracer("vfscount", "-p", child.pid, timeout=PATIENCE) as tracer:
        child.run()
        time.sleep(3)
    exact = {"vfs_write": 13, "vfs_open": 1, "vfs_create": 3}  # the last write is its answer
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (7, 0):  # later it is inlined into do_fsync()
        exact["vfs_fsync_range"] = 5
    for text in (seconds.stdout, tracer.stdout):
        found: dict[str, int] = {}
        for name, n in re.findall(r"^@\[(\w+)\]: (\d+)$", text, re.M):
            found[name] = found.get(name, 0) + int(n)
        assert {name: found.get(name) for name in exact} == exact
        assert found["vfs_read"] in (9, 10)  # the one that waits for us may have begun
    assert re.search(r"^\d\d:\d\d:\d\d$", seconds.stdout, re.M)


def test_cachestat(xfs: Path) -> None:
    check_cachestat(xfs)


def test_dcsnoop(tmp_path: Path) -> None:
    """A name that nobody has asked for misses; the folders above it do not."""
    with Child("os.path.exists(sys.argv[1])", str(tmp_path / "never-asked-for")) as child, \
            Tracer("dcsnoop", "-p", child.pid, "-f", "json", timeout=PATIENCE) as tracer, \
            Tracer("dcsnoop", "-p", child.pid, "-x", "-f", "json", timeout=PATIENCE) as failed:
        child.run()
    found = [(row["T"], row["FILE"]) for row in rows(tracer.stdout) if "never-asked-for" in str(row["FILE"])]
    assert found[-2:] == [("R", "never-asked-for"), ("M", "never-asked-for")]
    assert all(kind == "R" and path.endswith("/never-asked-for") for kind, path in
               [(kind, str(path)) for kind, path in found[:-2]])
    assert len(found) == len(tmp_path.parts) + 1  # a line for each part of the path but "/", and the miss
    assert [(row["T"], row["FILE"]) for row in rows(failed.stdout)][-1] == ("M", "never-asked-for")
    assert {row["T"] for row in rows(failed.stdout)} == {"M"}


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Path]:
    """A RAID-1 of two disks in memory, without metadata."""
    command("modprobe", "raid1")
    Path("/sys/module/md_mod/parameters/new_array").write_text("md_sonde")
    md = Path("/sys/block/md_sonde/md")
    (md / "metadata_version").write_text("none")
    (md / "level").write_text("raid1")
    (md / "raid_disks").write_text("2")
    disks = [loop_device(tmp_path / name, 16) for name in ("one", "two")]
    for slot, disk in enumerate(disks):
        (md / "new_dev").write_text(Path(f"/sys/block/{Path(disk).name}/dev").read_text())
        member = md / f"dev-{Path(disk).name}"
        (member / "size").write_text("16384")
        (member / "slot").write_text(str(slot))
    (md / "component_size").write_text("16384")
    (md / "resync_start").write_text("none")
    (md / "array_state").write_text("active")
    yield Path("/dev/md_sonde")
    (md / "array_state").write_text("clear")
    for disk in disks:
        command("losetup", "-d", disk)


def test_readahead_and_cachetop(xfs: Path) -> None:
    """What is in memory afterwards was read ahead and a miss; of that the pages that were read were used, and before
    Linux 6.11 with each all of its folio."""
    path = xfs / "cold"
    path.write_bytes(b"x" * (256 * 4096))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert pages_in_memory(path) == 0
    with Child(READ, str(path), "0,1,2") as reader, Tracer("readahead", timeout=PATIENCE) as ahead, \
            Tracer("cachetop", "-p", reader.pid, "-f", "json", "1", timeout=PATIENCE) as top:
        reader.run()
        here = pages_in_memory(path)
        time.sleep(2)
    unused = int(re.findall(r"not used: (\d+)", ahead.stdout)[0])
    whole = os.path.exists("/sys/kernel/tracing/events/filemap/mm_filemap_get_pages")
    assert here > 3 and (here - 3 if whole else 0) <= unused < here and histogram_total(ahead.stdout, "age_ms") >= 3
    mine = [row for row in rows(top.stdout) if str(row["PID"]) == reader.pid]
    assert sum(int(str(row["HITS"])) + int(str(row["MISSES"])) for row in mine) >= 3
    # The interpreter may bring in a page of a file of its own.
    assert 1 <= sum(int(str(row["MISSES"])) for row in mine) <= here + 8


def test_mdflush(mirror: Path) -> None:
    """Each fsync() of the device is a flush, asked for by this process."""
    with Tracer("mdflush", "-f", "json", timeout=PATIENCE) as tracer:
        fd = os.open(mirror, os.O_RDWR)
        for number in range(7):
            os.pwrite(fd, b"x" * 4096, 4096 * number)
            os.fsync(fd)
        os.close(fd)
    comm = Path("/proc/self/comm").read_text().strip()
    found = [(row["PID"], row["COMM"]) for row in rows(tracer.stdout) if row["DEVICE"] == mirror.name]
    assert found.count((os.getpid(), comm)) == 7


@pytest.mark.timeout(400)
@pytest.mark.parametrize("form", ["text", "json"])
def test_tools_of_functions_replay_as_they_ran(form: str, tmp_path: Path) -> None:
    """Those that the live tier's kernel may not have the probes of, every other one."""
    words = {"funcprofile": ["vfs_read"]}
    names = [name for name in NOT_EVERYWHERE if name in words or is_served(name)][form == "json"::2]
    assert len(names) > 1
    differing, silent = check_replays({name: words.get(name, []) for name in names}, form, tmp_path)
    assert not differing and len(silent) <= len(names) // 2, (differing, silent)
