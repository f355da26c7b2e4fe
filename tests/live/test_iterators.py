"""Iterators over the kernel's objects: those that this test has made are found, each once; -p; and pins."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.kernel import syscalls
from sonde.layouts.uapi import MAP_TYPES
from support import run_sonde

NAME = f"our{os.getpid()}"


def iterate(script: str, *options: str) -> str:
    done = run_sonde(*options, "-e", script, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def kinds() -> set[str]:
    return {line.removeprefix("iter:") for line in run_sonde("-l", "iter:*", timeout=100).stdout.split()}


@pytest.fixture
def threads() -> Iterator[set[int]]:
    """The numbers of our threads, among them four that wait."""
    gate = threading.Event()
    waiting = [threading.Thread(target=gate.wait) for _ in range(4)]
    for thread in waiting:
        thread.start()
    yield {int(name) for name in os.listdir("/proc/self/task")}
    gate.set()
    for thread in waiting:
        thread.join()


@pytest.mark.parametrize(("kind", "family", "type", "number"), [
    ("tcp", socket.AF_INET, socket.SOCK_STREAM, "ctx.sk_common.skc_num"),
    ("tcp", socket.AF_INET6, socket.SOCK_STREAM, "ctx.sk_common.skc_num"),
    ("udp", socket.AF_INET, socket.SOCK_DGRAM, "ctx.udp_sk.inet.sk.__sk_common.skc_num"),
    ("unix", socket.AF_UNIX, socket.SOCK_DGRAM, ""),
])
def test_sockets(kinds: set[str], kind: str, family: int, type: int, number: str) -> None:
    if kind not in kinds:
        pytest.skip(f"this kernel has no iterator over {kind}")
    with socket.socket(family, type) as ours:
        if kind == "unix":
            ours.bind("\0" + NAME)
            inode = os.fstat(ours.fileno()).st_ino
            text = iterate("iter:unix { @[ctx.unix_sk.sk.sk_socket->file->f_inode->i_ino] = count(); }")
            assert f"@[{inode}]: 1\n" in text
            return
        ours.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        if type == socket.SOCK_STREAM:
            ours.listen()
        port = ours.getsockname()[1]
        assert f"@[{port}]: 1\n" in iterate(f"iter:{kind} {{ @[{number}] = count(); }}")


def test_netlink_sockets(kinds: set[str]) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as ours:
        ours.bind((0, 0))
        port = ours.getsockname()[0]
        text = iterate("iter:netlink { @[ctx.sk.portid, ctx.sk.sk.sk_protocol] = count(); }")
    assert f"@[{port}, 0]: 1\n" in text


def test_maps_and_programs(kinds: set[str]) -> None:
    with syscalls.map_create(MAP_TYPES["array"], 4, 8, 3, name=NAME):
        text = iterate("iter:bpf_map { @[str(ctx.map.name), ctx.map.max_entries] = count(); }"
                       " iter:bpf_prog { @p[ctx.prog.aux->id] = count(); }")
    assert f"@[{NAME}, 3]: 1\n" in text
    assert len(re.findall(r"@p\[\d+\]: 1\n", text)) >= 1 and not re.search(r"@p\[\d+\]: [^1]", text)


def test_kernel_symbols(kinds: set[str]) -> None:
    if "ksym" not in kinds:
        pytest.skip("this kernel has no iterator over ksym")
    with open("/proc/kallsyms", encoding="ascii") as file:
        known = [line.split()[2] for line in file]
    text = iterate('iter:ksym /strncmp(str(ctx.ksym.name), "vfs_read", 8) == 0/ {'
                   ' printf("%s\\n", str(ctx.ksym.name)); }')
    assert sorted(text.split()) == sorted([name for name in known if name.startswith("vfs_read")])


def test_only_one_process(threads: set[int]) -> None:
    """-p keeps to the threads and files of a process, whoever else there is."""
    ours = ("-p", str(os.getpid()))
    found = iterate('iter:task { printf("%d\\n", ctx.task.pid); }', *ours)
    assert {int(word) for word in found.split()} == threads
    with open(os.devnull, encoding="ascii") as file:
        text = iterate("iter:task_file { @[ctx.fd] = count(); @owners[ctx.task.tgid] = count(); }", *ours)
        assert f"@[{file.fileno()}]: " in text
    assert set(re.findall(r"@owners\[(\d+)\]", text)) == {str(os.getpid())}


def test_only_one_memory(kinds: set[str]) -> None:
    if "task_vma" not in kinds:
        pytest.skip("this kernel has no iterator over task_vma")
    areas = iterate('iter:task_vma { printf("%lx\\n", ctx.vma->vm_start); }', "-p", str(os.getpid()))
    known = {line.split("-")[0] for line in Path("/proc/self/maps").read_text().splitlines()}
    assert len(set(areas.split()) & known) > 10


def test_objects_of_no_process() -> None:
    done = run_sonde("-p", str(os.getpid()), "-e", "iter:netlink { @ = count(); }", timeout=100)
    assert done.returncode == 1 and "-p cannot choose among them" in done.stderr


def in_bpf_files(script: str) -> subprocess.CompletedProcess[str]:
    """Run shell commands in a mount namespace that has a BPF file system, with ``sonde`` as a command."""
    if not shutil.which("unshare"):
        pytest.skip("unshare is not installed")
    prepared = f'mount -t bpf bpf /sys/fs/bpf || exit 9; sonde() {{ "{sys.executable}" -m sonde "$@"; }}\n{script}'
    return subprocess.run(["unshare", "--mount", "sh", "-c", prepared], capture_output=True, text=True, check=False,
                          timeout=150)


def test_a_pin_is_read_without_sonde(threads: set[int]) -> None:
    """Twice, each time with what is there then; and it ends with its file."""
    script = f'iter:task:{NAME} /ctx.task->tgid == {os.getpid()}/ {{ printf("%d %s %5x|\\n", ctx.task.pid, ' \
             'ctx.task.comm, 255); }'
    done = in_bpf_files(f"sonde -q -e '{script}'; cat /sys/fs/bpf/{NAME} /sys/fs/bpf/{NAME}; rm /sys/fs/bpf/{NAME}")
    assert done.returncode == 0, done.stderr
    comms = {pid: Path(f"/proc/self/task/{pid}/comm").read_text().strip() for pid in threads}
    lines = [f"{pid} {comm}    ff|" for pid, comm in comms.items()]
    assert sorted(line for line in done.stdout.splitlines() if line) == sorted(lines * 2)


def test_pins_that_cannot_be() -> None:
    taken = in_bpf_files(f"sonde -q -e 'iter:task:{NAME} {{ }}'; sonde -q -e 'iter:task:{NAME} {{ }}'")
    assert taken.returncode == 255 and "File exists" in taken.stderr and "remove the file" in taken.stderr
    nowhere = run_sonde("-e", f'iter:task:"/tmp/{NAME}" {{ }}', timeout=100)
    assert nowhere.returncode == 255 and "BPF file system" in nowhere.stderr and not Path(f"/tmp/{NAME}").exists()


@pytest.mark.parametrize(("body", "words"), [
    ("print(1);", "print() has no effect in a pinned iterator"), ("@ = count();", "count() has no effect"),
    ('printf("%r", buf(ctx.task.comm, 2));', "the kernel cannot print %r"), ("exit();", "exit() has no effect"),
])
def test_what_a_pin_cannot_do(body: str, words: str) -> None:
    done = run_sonde("-e", f"iter:task:{NAME} {{ {body} }}", timeout=100)
    assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr
