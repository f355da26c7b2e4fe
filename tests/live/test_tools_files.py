"""Tools about files, folders, mounts and shared memory, against workloads whose answer is known."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from printed import histogram_total, rows
from support import Tracer, disk_or_skip, run_sonde

ME = str(os.getpid())
libc = ctypes.CDLL(None, use_errno=True)


def run_python(tool: list[str], program: str, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A tool with -c of a Python program."""
    script = tmp_path / "program.py"
    script.write_text(program)
    python = os.path.realpath(sys.executable)  # nothing else starts on the way to it
    done = run_sonde(*tool, "-c", " ".join([python, "-S", str(script), *map(str, words)]))
    assert done.returncode == 0, done.stderr
    return done


def test_filegone(tmp_path: Path) -> None:
    old, new, missing, folder = (tmp_path / name for name in ("old", "new", "missing", "folder"))
    with Tracer("filegone", "-p", ME, "-f", "json") as tracer, \
            Tracer("filegone", "-p", ME, "-x", "-f", "json") as failed:
        old.write_text("")
        old.rename(new)
        new.unlink()
        folder.mkdir()
        folder.rmdir()
        with pytest.raises(FileNotFoundError):
            missing.unlink()

    def told(tracer: Tracer) -> list[tuple[object, ...]]:
        return [(row["PID"], row["ACTION"], row["ERR"], row["FILE"]) for row in rows(tracer.stdout)
                if str(tmp_path) in str(row["FILE"])]

    me = os.getpid()
    assert told(tracer) == [(me, "RENAME", 0, f"{old} > {new}"), (me, "DELETE", 0, str(new)),
                            (me, "DELETE", 0, str(folder))]
    assert told(failed) == [(me, "DELETE", 2, str(missing))]


def test_mountsnoop(tmp_path: Path) -> None:
    """A tmpfs in a mount namespace of its own, and a type that is not there."""
    program = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
place = sys.argv[1].encode()
libc.unshare(0x20000)
libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None)
libc.mount(b"sonde-test", place, b"tmpfs", 0x2, None)
libc.umount2(place, 2)
libc.mount(b"sonde-test", place, b"no-such-type", 0, None)
print(os.stat("/proc/self/ns/mnt").st_ino)
"""
    done = run_python(["mountsnoop", "-T", "-f", "json"], program, tmp_path, str(tmp_path))
    told = rows("\n".join(line for line in done.stdout.splitlines() if line[:1] == "{"))
    number = re.search(r"^(4\d{9})$", done.stdout, re.M)
    assert number and {(row["MNT_NS"], row["PID"] == row["TID"]) for row in told} == {(int(number[1]), True)}
    columns = ("CALL", "RET", "FLAGS", "TYPE", "SOURCE", "TARGET")
    assert [tuple(row[name] for name in columns) for row in told] == [
        ("mount", 0, "0x44000", "-", "none", "/"), ("mount", 0, "0x2", "tmpfs", "sonde-test", str(tmp_path)),
        ("umount", 0, "0x2", "-", "-", str(tmp_path)),
        ("mount", -19, "0x0", "no-such-type", "sonde-test", str(tmp_path))]
    failed = run_python(["mountsnoop", "-x"], program, tmp_path, str(tmp_path))
    assert len(re.findall(r"^\S+ +\d+ +\d+ +4\d{9} ", failed.stdout, re.M)) == 1


def test_shmsnoop() -> None:
    libc.shmat.restype = ctypes.c_void_p
    libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    libc.shmdt.argtypes = [ctypes.c_void_p]
    with Tracer("shmsnoop", "-p", ME, "-T") as tracer, Tracer("shmsnoop", "-t", "1") as others:
        number = libc.shmget(0, 8192, 0o1600)
        address = libc.shmat(number, None, 0)
        assert libc.shmdt(address) == 0
        assert libc.shmctl(number, 0, None) == 0
        assert libc.shmdt(1) == -1
    told = [line[3:] for line in re.findall(r"^\d\d:\d\d:\d\d \d+ +\S+ +(.*)$", tracer.stdout, re.M)]
    assert [" ".join(line.split()) for line in told] == [
        f"GET {number} key=0x0;size=8192;shmflg=01600", f"AT {address:#x} shmid={number};shmaddr=0x0;shmflg=00",
        f"DT 0 shmaddr={address:#x}", f"CTL 0 shmid={number};cmd=0;buf=0x0", "DT -22 shmaddr=0x1"]
    assert "SHM" not in others.stdout


FOLDERS = """
import os, sys, time
for path, times in (("one/a", 3), ("one/below/it/b", 5), ("two/c", 7), ("three/d", 11)):
    fd = os.open(sys.argv[1] + "/" + path, os.O_CREAT | os.O_RDWR)
    for _ in range(times):
        os.write(fd, b"x" * 4096)
    os.pread(fd, 1024, 0)
"""


def test_dirtop(tmp_path: Path) -> None:
    for folder in ("one/below/it", "two", "three"):
        (tmp_path / folder).mkdir(parents=True)

    def told(*options: str) -> list[tuple[object, ...]]:
        with Tracer("dirtop", *options, "-f", "json", "4", "1") as tracer:
            subprocess.run([sys.executable, "-S", "-c", FOLDERS, str(tmp_path)], check=True)
            tracer.wait()
        return [(row["READS"], row["WRITES"], row["R_KB"], row["W_KB"], str(row["PATH"]).removeprefix(f"{tmp_path}/"))
                for row in rows(tracer.stdout) if str(tmp_path) in str(row["PATH"])]

    assert sorted(told("-r", "1000")) == [(1, 3, 1, 12, "one"), (1, 5, 1, 20, "one/below/it"), (1, 7, 1, 28, "two"),
                                         (1, 11, 1, 44, "three")]
    chosen = told("-d", f"{tmp_path}/one,{tmp_path}/t*o", "-s", "writes")
    assert chosen == [(2, 8, 2, 32, "one"), (1, 7, 1, 28, "two")]
    assert "there is no folder" in run_sonde("dirtop", "-d", str(tmp_path / "missing")).stderr


READ = """
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
for place in map(int, sys.argv[2].split(",")):
    os.pread(fd, 4096, 4096 * place)
    time.sleep(0.03)
"""


# A file in a folder, in one mounted below it, and in one of another file system whose inode has the same number.
MOUNTS = """
import ctypes, os, sys
libc, root = ctypes.CDLL(None), sys.argv[1]
libc.unshare(0x20000)
libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None)
for name in ("chosen/below", "other"):
    assert libc.mount(b"none", f"{root}/{name}".encode(), b"tmpfs", 0, None) == 0
assert os.stat(f"{root}/chosen/below").st_ino == os.stat(f"{root}/other").st_ino
for name, times in (("chosen/a", 3), ("chosen/below/b", 5), ("other/c", 7)):
    fd = os.open(f"{root}/{name}", os.O_CREAT | os.O_WRONLY)
    for _ in range(times): os.write(fd, b"x")
"""


def test_dirtop_of_mounts(tmp_path: Path) -> None:
    for name in ("chosen/below", "other"):
        (tmp_path / name).mkdir(parents=True)
    done = run_python(["dirtop", "-d", str(tmp_path / "chosen"), "60"], MOUNTS, tmp_path, str(tmp_path))
    assert re.findall(rf"^ +0 +(\d+) .*{tmp_path}(.*)$", done.stdout, re.M) == [("8", "/chosen")], done.stdout


def pages_in_memory(path: Path) -> int:
    """How many pages of a file are in the page cache: mincore()."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        found = (ctypes.c_ubyte * (len(memory) // 4096))()
        assert libc.mincore(ctypes.c_void_p(first), ctypes.c_size_t(len(memory)), found) == 0
        return sum(each & 1 for each in found)


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """A file of 256 pages, none of them in memory."""
    disk_or_skip(tmp_path)
    path = tmp_path / "cold"
    with path.open("wb") as file:
        file.write(b"x" * (256 * 4096))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if pages_in_memory(path):
        pytest.skip("the file system keeps its pages in memory")
    return path


def test_cachetop(cold: Path, tmp_path: Path) -> None:
    """A page that is not there, with others beside it; then those that are."""
    work = READ + "os.write(1, b'done')\nsys.stdin.read()\n"
    with Tracer("cachetop", "-r", "1000", "-f", "json", "8", "1") as tracer:
        child = subprocess.Popen([sys.executable, "-S", "-c", work, str(cold), "0,0,0,0,1,1"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.read(4) == b"done"
        here = pages_in_memory(cold)
        comm = Path(f"/proc/{child.pid}/comm").read_text().strip()  # before exec it had another, with a row of its own
        tracer.wait()
        child.communicate()
    row, = [row for row in rows(tracer.stdout) if (row["PID"], row["COMM"]) == (child.pid, comm)]
    assert row["UID"] == os.getuid() and row["MISSES"] == min(here, int(str(row["HITS"])) + int(str(row["MISSES"])))


# Another file is in memory; its pages are written to while those of the first come from the disk.
REWRITES = """
import os, sys
with open(sys.argv[2], "wb") as file: file.write(bytes(256 * 4096))
fd, other = os.open(sys.argv[1], os.O_RDWR), os.open(sys.argv[2], os.O_WRONLY)
os.fsync(other)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
with open("/proc/self/comm", "w") as file: file.write("rewriter")
for place in range(256): os.pwrite(other, b"y" * 4096, 4096 * place)
for place in range(128): os.pread(fd, 4096, 4096 * place)
for place in range(128, 256):
    os.pread(fd, 4096, 4096 * place)
    os.pwrite(fd, b"z" * 4096, 4096 * place)
"""
MAPPED = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
memory = mmap.mmap(fd, 256 * 4096, prot=mmap.PROT_READ)
memory.madvise(mmap.MADV_RANDOM)
with open("/proc/self/comm", "w") as file: file.write("mapper")
sum(memory[4096 * place] for place in range(256))
"""


def test_cachetop_of_reads_beside_writes(cold: Path, tmp_path: Path) -> None:
    """Pages that a program writes to spare it no miss: those that were in memory, and those that it has just read."""
    tool = ["cachetop", "-r", "1000", "-f", "json", "60"]
    done = run_python(tool, REWRITES, tmp_path, str(cold), str(tmp_path / "other"))
    row, = [row for row in rows("\n".join(line for line in done.stdout.splitlines() if line[:1] == "{"))
            if row["COMM"] == "rewriter"]
    assert (row["MISSES"], row["DIRTIES"], row["READ_HIT%"], row["WRITE_HIT%"]) == (256, 384, 0, 100)


def test_cachetop_of_memory_that_is_mapped(cold: Path, tmp_path: Path) -> None:
    if "mm_filemap_fault" not in run_sonde("-l", "tracepoint:filemap:*").stdout:
        pytest.skip("this kernel does not tell of page faults (Linux 6.11)")
    done = run_python(["cachetop", "-r", "1000", "-f", "json", "60"], MAPPED, tmp_path, str(cold))
    row, = [row for row in rows("\n".join(line for line in done.stdout.splitlines() if line[:1] == "{"))
            if row["COMM"] == "mapper"]
    assert (row["HITS"], row["MISSES"]) == (0, 256)


def test_readahead(cold: Path, tmp_path: Path) -> None:
    """What is in memory afterwards was read ahead; of that the pages that were read were used."""
    script = tmp_path / "read.py"
    script.write_text(READ)
    python = os.path.realpath(sys.executable)
    subprocess.run([python, "-S", script, "/dev/null", "0"], check=True)  # what it needs is in memory
    with Tracer("readahead") as tracer:
        subprocess.run([python, "-S", script, str(cold), "0,1,2"], check=True)
        here = pages_in_memory(cold)
    unused = int(re.findall(r"not used: (\d+)", tracer.stdout)[0])
    assert here > 3 and unused >= here - 3 and histogram_total(tracer.stdout, "age_ms") >= 3
    # One page was read 30 ms before it was asked for.
    assert re.search(r"^\[(?:16, 32|32, 64|64, 128)\) +[1-9]", tracer.stdout, re.M)
