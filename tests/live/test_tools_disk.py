"""The tools that show what block devices do, against direct writes of known number and size, and kernel counters."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from printed import histogram_total, rows
from support import Tracer, compile_c, disk_of

ME = str(os.getpid())
PAGE = mmap.PAGESIZE
SECTOR = 512


@pytest.fixture
def disk_file(tmp_path: Path) -> Iterator[int]:
    """An open file that is written past the page cache, on a file system with a disk below it."""
    try:
        fd = os.open(tmp_path / "data", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    except OSError:
        pytest.skip("the file system of the temporary folder has no O_DIRECT")
    try:
        os.posix_fallocate(fd, 0, 1 << 20)
        os.fsync(fd)
        if not disk_of(fd):
            pytest.skip("the temporary folder is not on a disk")
        yield fd
    finally:
        os.close(fd)


def write_direct(fd: int, size: int, times: int) -> int:
    """Write the same ``size`` bytes of a file so often, straight to the disk; the nanoseconds that it took."""
    with mmap.mmap(-1, size) as memory:
        begun = time.monotonic_ns()
        for _ in range(times):
            assert os.pwrite(fd, memory, 0) == size
        return time.monotonic_ns() - begun


def test_biosnoop(disk_file: int) -> None:
    """Each direct write is one request of this process's, with its size, at one place, and no longer than the call."""
    disk = disk_of(disk_file)
    with Tracer("biosnoop", "-p", ME, "-d", disk, "-f", "json") as plain, \
            Tracer("biosnoop", "-p", ME, "-Q", "-f", "json") as queued, \
            Tracer("biosnoop", "-p", ME, "-d", "nosuchdisk", "-f", "json") as none:
        took = write_direct(disk_file, 4 * PAGE, 20)
    comm = Path("/proc/self/comm").read_text().strip()
    for tracer in (plain, queued):
        found = [row for row in rows(tracer.stdout) if row["T"] == "W" and row["BYTES"] == 4 * PAGE]
        assert len(found) == 20
        assert {(row["DISK"], row["COMM"], row["PID"]) for row in found} == {(disk, comm, os.getpid())}
        assert len({row["SECTOR"] for row in found}) == 1
        assert 0 < sum(float(str(row["LAT(ms)"])) for row in found) * 1e6 <= took
        assert [row["TIME(ms)"] for row in found] == sorted(int(str(row["TIME(ms)"])) for row in found)
    for row in rows(queued.stdout):
        assert 0 <= float(str(row["QUE(ms)"])) <= float(str(row["LAT(ms)"]))
    assert rows(none.stdout) == []


def test_biosnoop_tells_reads_from_writes(disk_file: int) -> None:
    with mmap.mmap(-1, 2 * PAGE) as memory, Tracer("biosnoop", "-p", ME, "-f", "json") as tracer:
        os.pwrite(disk_file, memory, 0)
        os.preadv(disk_file, [memory], 0)
    found = [row for row in rows(tracer.stdout) if row["BYTES"] == 2 * PAGE]
    assert [row["T"] for row in found] == ["W", "R"]
    assert found[0]["SECTOR"] == found[1]["SECTOR"]


def test_biosnoop_tells_flushes(tmp_path: Path) -> None:
    """A loop device's fsync() is one: 7 of them, and 5 that find something to write as well."""
    if not shutil.which("losetup") or not Path("/dev/loop-control").exists():
        pytest.skip("needs losetup and loop devices")
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    made = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr}")
    device = made.stdout.strip()
    try:
        fd = os.open(device, os.O_WRONLY)
        with Tracer("biosnoop", "-p", ME, "-d", Path(device).name, "-f", "json") as tracer:
            for number in range(7):
                if number < 5:
                    os.pwrite(fd, bytes([number]) * PAGE, 0)
                os.fsync(fd)
        os.close(fd)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
    found = [(row["T"], row["BYTES"]) for row in rows(tracer.stdout) if row["T"] in "WF"]
    assert found == [("W", PAGE), ("F", 0)] * 5 + [("F", 0)] * 2


def test_biostacks(disk_file: int) -> None:
    """The requests of direct writes are begun by stacks that have the system call in them, and no other's are."""
    disk = disk_of(disk_file)
    with Tracer("biostacks", "-p", ME) as tracer, Tracer("biostacks", "-p", ME, "-m", "-d", disk) as others:
        write_direct(disk_file, PAGE, 30)
    for text, name in ((tracer.stdout, "usecs"), (others.stdout, "msecs")):
        blocks = re.findall(rf"^@{name}\[\n(.*?)\]:\n((?:[\[(].*\n)+)", text, re.M | re.S)
        writes = [histogram for stack, histogram in blocks if "pwrite" in stack]
        assert writes
        assert sum(int(n) for text in writes for n in re.findall(r"[)\]] +(\d+) \|", text)) == 30
    assert "@begun" not in tracer.stdout and "@stack" not in tracer.stdout


def test_bitesize(disk_file: int) -> None:
    """As many requests as writes, in the bucket of their size."""
    with Tracer("bitesize", "-p", ME, "-d", disk_of(disk_file)) as tracer:
        write_direct(disk_file, 4 * PAGE, 25)
        write_direct(disk_file, PAGE, 5)
    comm = Path("/proc/self/comm").read_text().strip()
    assert "I/O size (bytes) histograms by process name:" in tracer.stdout
    assert histogram_total(tracer.stdout, f"[{comm}]") == 30
    found = dict(re.findall(r"^\[(\w+), \w+\) +(\d+) \|", tracer.stdout, re.M))
    assert found[f"{PAGE >> 10}K"] == "5" and found[f"{PAGE >> 8}K"] == "25"


def test_syncsnoop(tmp_path: Path) -> None:
    """Each of six system calls, by its own name."""
    program = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None)
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, mmap.PAGESIZE)
os.fsync(fd)
os.fdatasync(fd)
libc.syncfs(fd)
libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), 0)
mmap.mmap(fd, mmap.PAGESIZE).flush()
os.fsync(fd)
"""
    with Tracer("syncsnoop", "-f", "json") as tracer:
        child = subprocess.Popen([sys.executable, "-S", "-c", program, str(tmp_path / "x")])
        assert child.wait() == 0
    found = [row for row in rows(tracer.stdout) if row["PID"] == child.pid]
    assert [str(row["EVENT"]).removeprefix("tracepoint:syscalls:sys_enter_") for row in found] == [
        "fsync", "fdatasync", "syncfs", "sync_file_range", "msync", "fsync"]
    assert {row["COMM"] for row in found} == {Path(sys.executable).name[:15]}


def pages_written() -> int:
    return int(re.findall(r"^nr_written (\d+)$", Path("/proc/vmstat").read_text(), re.M)[0])


def test_writeback(tmp_path: Path) -> None:
    """syncfs() of a file with 2000 dirty pages: at least these, for the reason that it was asked for."""
    with open(tmp_path / "dirty", "wb") as file:
        device = os.fstat(file.fileno()).st_dev
        if not Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").exists():
            pytest.skip("the temporary folder is not on a block device")
        before = pages_written()
        with Tracer("writeback", "-f", "json") as tracer, Tracer("writeback", "-s", "3600000", "-f", "json") as slow:
            file.write(b"x" * 2000 * PAGE)
            file.flush()
            begun = time.monotonic()
            ctypes.CDLL(None).syncfs(file.fileno())
            took = (time.monotonic() - begun) * 1e3
        written = pages_written() - before
    mine = [row for row in rows(tracer.stdout) if row["REASON"] == "sync"]
    assert any(int(str(row["PAGES"])) >= 2000 and float(str(row["ms"])) <= took for row in mine), tracer.stdout
    # Metadata of the file system may be pages that are written and not counted there.
    assert sum(int(str(row["PAGES"])) for row in rows(tracer.stdout)) <= written + 2000
    assert any(re.fullmatch(r"\d+:\d+", str(row["DEVICE"])) for row in mine)
    assert rows(slow.stdout) == []


SWAPPED = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long size = sysconf(_SC_PAGESIZE), pages = 500, sum = 0;
    volatile char *p = mmap(0, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)p, pages * size, MADV_RANDOM);
    for (long i = 0; i < pages; i++) p[i * size] = 1;
    if (madvise((void *)p, pages * size, 21)) return 1;  /* MADV_PAGEOUT */
    puts("out"); fflush(stdout); getchar();
    for (long i = 0; i < pages; i++) sum += p[i * size];
    puts("in"); fflush(stdout); getchar();
    return sum != pages;
}
"""


@contextlib.contextmanager
def swap_in_memory() -> Iterator[None]:
    """A compressed disk in memory of the test's own as the first choice for what is swapped out."""
    control = Path("/sys/class/zram-control")
    subprocess.run(["modprobe", "-q", "zram"], check=False, capture_output=True)
    if not control.exists() or not shutil.which("mkswap"):
        pytest.skip("needs zram and mkswap")
    number = (control / "hot_add").read_text().strip()
    device, block = f"/dev/zram{number}", Path(f"/sys/block/zram{number}")
    try:
        (block / "disksize").write_text("16M")
        subprocess.run(["mkswap", device], check=True, capture_output=True)
        subprocess.run(["swapon", "-p", "32767", device], check=True, capture_output=True)
        try:
            yield
        finally:
            subprocess.run(["swapoff", device], check=True, capture_output=True)
    finally:
        (block / "reset").write_text("1")
        (control / "hot_remove").write_text(number)


def test_swapin(tmp_path: Path) -> None:
    """500 pages that the program has had swapped out, and touches again."""
    binary = compile_c(SWAPPED, tmp_path, "swapped")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with swap_in_memory(), subprocess.Popen([binary], text=True, **pipes) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "out\n"
        with Tracer("swapin", "1") as tracer:
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "in\n"
            time.sleep(1.2)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.wait() == 0
    found = [int(n) for n in re.findall(rf"^@\[swapped, {child.pid}\]: (\d+)$", tracer.stdout, re.M)]
    assert sum(found) == 500
    assert re.search(r"^\d\d:\d\d:\d\d$", tracer.stdout, re.M)
