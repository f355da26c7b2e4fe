"""Tools that ask who does something see each system call that does it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from pathlib import Path

import pytest

from c_targets import build_target
from printed import rows
from support import run_sonde

HEAD = """
import array, ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    return libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
place = sys.argv[1].encode()
"""
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64's system calls")


def run_tool(tool: str, program: str, folder: Path, *options: str) -> tuple[list[dict[str, object]], str]:
    """The tool's rows of a Python program, and what it says beside them."""
    script = folder / "program.py"
    script.write_text(HEAD + program)
    command = shlex.join([sys.executable, "-S", str(script), str(folder)])
    done = run_sonde(tool, *options, "-f", "json", "-c", command)
    assert done.returncode == 0, done.stderr
    return rows("\n".join(line for line in done.stdout.splitlines() if line[:1] == "{")), done.stderr


def test_mountsnoop_of_the_calls_of_linux_5(tmp_path: Path) -> None:
    told, _ = run_tool("mountsnoop", """
libc.unshare(0x20000)
libc.mount(b"none", b"/", None, 0x44000, None)
fs = call(430, b"tmpfs", 1)
call(431, fs, 1, b"source", b"sonde-test", 0)
call(431, fs, 1, b"size", b"1m", 0)
call(431, fs, 6, None, None, 0)
mount = call(432, fs, 0, 1)
call(429, mount, b"", -100, place, 4)
os.close(call(433, -100, place, 1))
tree = call(428, -100, place, 1)
call(442, -100, place, 0, (ctypes.c_ulong * 4)(1, 0, 0, 0), 32)
call(155, b"/no/such", b"/no/old")
libc.umount2(place, 2)
""", tmp_path)
    columns = ("CALL", "FLAGS", "TYPE", "SOURCE", "TARGET")
    here = str(tmp_path)
    assert [tuple(row[name] for name in columns) for row in told][1:] == [
        ("fsopen", "0x1", "tmpfs", "-", "-"), ("fsconfig", "0x1", "source", "sonde-test", "-"),
        ("fsconfig", "0x1", "size", "-", "-"), ("fsconfig", "0x6", "-", "-", "-"), ("fsmount", "0x1", "-", "-", "-"),
        ("move_mount", "0x4", "-", "", here), ("fspick", "0x1", "-", "-", here), ("open_tree", "0x1", "-", here, "-"),
        ("mount_setattr", "0x0", "-", "-", here), ("pivot_root", "0x0", "-", "/no/such", "/no/old"),
        ("umount", "0x2", "-", "-", here)]
    assert [row["CALL"] for row in told if int(str(row["RET"])) < 0] == ["pivot_root"]


def test_statsnoop_of_all_calls_that_ask(tmp_path: Path) -> None:
    program = """
path, missing, out = place + b"/program.py", place + b"/missing", ctypes.create_string_buffer(4096)
for number, *args in ((4, path, out), (6, missing, out), (137, path, out), (21, missing, 0), (269, -100, path, 0),
                      (439, -100, missing, 0, 0), (89, missing, out, 100), (267, -100, path, out, 100),
                      (303, -100, path, (ctypes.c_uint * 40)(128), out, 0)):
    call(number, *args)
"""
    path, missing = f"{tmp_path}/program.py", f"{tmp_path}/missing"
    told, _ = run_tool("statsnoop", program, tmp_path, "-a")
    asked = [(row["CALL"], row["ERR"], row["PATH"]) for row in told if row["PATH"] in (path, missing)]
    expected = [("stat", 0, path), ("lstat", 2, missing), ("statfs", 0, path), ("access", 2, missing),
                ("faccessat", 0, path), ("faccessat2", 2, missing), ("readlink", 2, missing), ("readlinkat", 22, path),
                ("name_to_handle_at", 0, path)]
    assert asked[-len(expected):] == expected
    plain, _ = run_tool("statsnoop", program, tmp_path)
    assert [(row["ERR"], row["PATH"]) for row in plain if row["PATH"] in (path, missing)][-3:] == [
        (0, path), (2, missing), (0, path)]


def test_opensnoop_of_handles(tmp_path: Path) -> None:
    told, _ = run_tool("opensnoop", """
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("type", ctypes.c_int), ("bytes", ctypes.c_char * 128)]
handle = Handle(128, 0, b"")
call(303, -100, place + b"/program.py", ctypes.byref(handle), ctypes.byref(ctypes.c_int()), 0)
folder = os.open(place, os.O_RDONLY)
found = call(304, folder, ctypes.byref(handle), 0)
assert os.readlink(f"/proc/self/fd/{found}") == os.fsdecode(place) + "/program.py"
call(304, -1, ctypes.byref(handle), os.O_RDWR)
""", tmp_path, "-e")
    last = [(int(str(row["FD"])) >= 0, row["ERR"], row["FLAGS"], row["PATH"]) for row in told]
    at = last.index((False, 9, "00000002", "-"))
    assert last[at - 1] == (True, 0, "00000000", f"{tmp_path}/program.py")


def test_sofdsnoop_of_all_ways(tmp_path: Path) -> None:
    """Behind another control message, in several messages of one call, and by pidfd_getfd()."""
    told, _ = run_tool("sofdsnoop", """
one, two = socket.socketpair()
two.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
fd = os.open(place + b"/program.py", os.O_RDONLY)
rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd] * 40))
one.sendmsg([b"x"], [(socket.SOL_SOCKET, 2, array.array("i", [os.getpid(), 0, 0])), rights])
two.recvmsg(9, 4000)
class Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_size", ctypes.c_int), ("parts", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
                ("flags", ctypes.c_size_t), ("size", ctypes.c_size_t)]
data = ctypes.create_string_buffer(b"x")
part = (ctypes.c_size_t * 2)(ctypes.addressof(data), 1)
rooms = [(ctypes.c_int * 16)(20, 0, 1, 1, fd) for _ in range(4)]
def messages(rooms, size):
    made = (Header * 2)()
    for header, room in zip(made, rooms):
        header.parts, header.count = ctypes.addressof(part), 1
        header.control, header.control_size = ctypes.addressof(room), size
    return made
assert call(307, one.fileno(), messages(rooms[:2], 24), 2, 0) == 2
assert call(299, two.fileno(), messages(rooms[2:], 64), 2, 0, None) == 2
call(438, os.pidfd_open(os.getpid()), fd, 0)
""", tmp_path)
    assert {row["NAME"] for row in told} == {"program.py"}
    assert [row["ACTION"] for row in told] == [*["SEND"] * 40, *["RECV"] * 40, *["SEND"] * 2, *["RECV"] * 2, "GET"]


def test_threadsnoop_of_threads_that_the_c_library_did_not_start(tmp_path: Path) -> None:
    """Of a static program, and of io_uring: one that polls."""
    (tmp_path / "threads.c").write_text("""
#include <pthread.h>
static void *nothing(void *unused) { return unused; }
int main(void) {
    for (int n = 0; n < 3; n++) { pthread_t thread; pthread_create(&thread, 0, nothing, 0); pthread_join(thread, 0); }
}
""")
    done = build_target(str(tmp_path / "threads.c"), tmp_path, "-static", "-pthread")
    shown = run_sonde("threadsnoop", "-f", "json", "-c", done)
    assert [(row["COMM"], row["FUNC"]) for row in rows("\n".join(
        line for line in shown.stdout.splitlines() if line[:1] == "{"))] == [("threads", "-")] * 3
    told, _ = run_tool("threadsnoop", """
import threading
params = (ctypes.c_uint * 40)()
params[2] = 2
ring = call(425, 4, params)
print(ring)
thread = threading.Thread(target=len, args=("",))
thread.start()
thread.join()
""", tmp_path)
    assert [row["FUNC"] for row in told if row["FUNC"] != "(io_uring)"] == ["pythread_wrapper"]
    assert len(told) == 2 or not os.path.exists("/proc/sys/kernel/io_uring_disabled") or not re.match(
        "0", Path("/proc/sys/kernel/io_uring_disabled").read_text())
