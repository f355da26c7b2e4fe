"""fentry and fexit on loaded BPF programs: runs, arguments, results and latency, against what was sent through them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from btf_writer import Writer
from sonde.asm import insn
from sonde.asm.assemble import assemble
from sonde.btf.codec import PAIR
from sonde.compiling import live_world
from sonde.errors import SyscallError
from sonde.kernel import syscalls
from sonde.layouts.uapi import PROG_TYPES
from support import environment, run_sonde, sonde_command

PACKETS, PAYLOAD = 20, 100
LENGTH = 8 + PAYLOAD  # with the UDP header
NAME = f"our_filter_{os.getpid()}"  # longer than the 15 characters that the kernel keeps of a program's name
SEND = f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range({PACKETS}):
    s.sendto(b"x" * {PAYLOAD}, ("127.0.0.1", %d))
"""


@pytest.fixture(autouse=True)
def fentry() -> None:
    if not live_world().has_feature("fentry"):
        pytest.skip("kernel lacks fentry")


def load_filter(name: str, described: bool = True) -> syscalls.Fd:
    """A socket filter that lets everything through: ``int name(struct __sk_buff *skb) { return skb->len; }``."""
    writer = Writer()
    number = writer.add_integer("int", 4)
    context = writer.add_pointer(writer.add_struct("__sk_buff", 4,
                                                   [("len", writer.add_integer("unsigned int", 4, False), 0)]))
    function = writer.add_function(name, writer.add_prototype(number, [("skb", context)]))
    code = assemble([insn.load(0, 1, 0, 4), insn.exit_()]).code
    if not described:
        return syscalls.prog_load(PROG_TYPES["socket_filter"], code, name)
    with syscalls.btf_load(writer.build_blob()) as btf:
        return syscalls.prog_load(PROG_TYPES["socket_filter"], code, name, btf=btf, func_info=PAIR.pack(0, function))


@pytest.fixture
def port() -> Iterator[int]:
    """A UDP port on loopback behind such a filter."""
    with load_filter(NAME) as program, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setsockopt(socket.SOL_SOCKET, 50, program.fileno())  # SO_ATTACH_BPF
        yield receiver.getsockname()[1]


def traced(script: str, port: int, tmp_path: Path, *options: str) -> str:
    sender = tmp_path / "send.py"
    sender.write_text(SEND % port)
    done = run_sonde(*options, "-e", script, "-c", f"{sys.executable} {sender}", timeout=150)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_runs_arguments_and_results(port: int, tmp_path: Path) -> None:
    text = traced(f"fentry:bpf:{NAME} {{ @runs = count(); @length = sum(args.skb->len); }} fexit:bpf:{NAME} {{"
                  " @results = sum(retval); @kept = sum(args.skb->len); }", port, tmp_path)
    assert f"@runs: {PACKETS}\n" in text
    assert f"@length: {PACKETS * LENGTH}\n" in text
    assert f"@results: {PACKETS * LENGTH}\n" in text and f"@kept: {PACKETS * LENGTH}\n" in text


def test_latency_is_within_what_the_kernel_measured(port: int, tmp_path: Path) -> None:
    """The kernel's own statistics of the program count its runs too, and their time with both probes in it."""
    number = max(n for n in syscalls.object_ids("program") if name_of(n) == NAME[:15])  # earlier ones may linger
    with syscalls.enable_stats(), syscalls.object_by_id("program", number) as program:
        before = syscalls.prog_info(program)
        text = traced(f"fentry:bpf:{number}:{NAME} {{ @start[tid] = nsecs; }}"
                      f" fexit:bpf:{number}:{NAME} /@start[tid]/ {{ @ns = sum(nsecs - @start[tid]); @n = count();"
                      " delete(@start, tid); }", port, tmp_path)
        after = syscalls.prog_info(program)
    total = int(re.search(r"@ns: (\d+)", text)[1])  # type: ignore[index]
    assert after.run_count - before.run_count == PACKETS and f"@n: {PACKETS}\n" in text
    assert 0 < total <= after.run_time_ns - before.run_time_ns


@pytest.mark.parametrize("described", [True, False])
def test_overhead_times_every_run_where_it_can(described: bool) -> None:
    """Runs are exact with function information, sampled without it; either way all of them are counted."""
    name = f"met{os.getpid()}_{int(described)}"
    with load_filter(name, described) as program, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setsockopt(socket.SOL_SOCKET, 50, program.fileno())
        number = syscalls.prog_info(program).id
        with subprocess.Popen(sonde_command(["overhead", "-f", "json", f"id:{number}", "300"]), env=environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            said = running.stderr.readline()  # now it counts
            for _ in range(PACKETS):
                receiver.sendto(b"x" * PAYLOAD, receiver.getsockname())
            running.send_signal(signal.SIGINT)
            stdout, stderr = running.communicate()
    assert running.returncode == 0, said + stderr
    data = json.loads(stdout)["data"]
    assert data["runs"] == PACKETS == sum(bucket["count"] for bucket in data["ns"])
    if described:
        assert "timing each run" in said and data["method"] == "exact"
        assert data["exact"] == PACKETS and "why_not_exact" not in data
    else:
        assert "sampling" in said and data["method"] == "sampled"
        assert data["why_not_exact"].endswith("without function information")


def name_of(number: int) -> str:
    try:
        with syscalls.object_by_id("program", number) as fd:
            return syscalls.prog_info(fd).name
    except SyscallError:
        return ""  # it has just gone


def test_wildcards_and_listing(port: int, tmp_path: Path) -> None:
    text = traced(f"fentry:bpf:our_filter_{os.getpid()}* {{ @[probe] = count(); }}", port, tmp_path)
    found = re.search(rf"@\[(fentry:bpf:\d+:{NAME})\]: {PACKETS}\n", text)
    assert found
    listed = run_sonde("-l", "fentry:bpf:*", timeout=100).stdout.splitlines()
    assert found[1] in listed
    assert found[1] in run_sonde("-l", f"fentry:bpf:{NAME}", timeout=100).stdout.splitlines()
    shown = run_sonde("-lv", f"fexit:bpf:{NAME}", timeout=100).stdout
    assert "struct sk_buff * skb" in shown and "int32 retval" in shown


def test_a_program_without_type_information_is_said_to_have_none(port: int) -> None:
    with load_filter(f"bare_{os.getpid()}", described=False):
        done = run_sonde("-e", f"fentry:bpf:bare_{os.getpid()} {{ }}", timeout=100)
    assert done.returncode == 1 and "without function information" in done.stderr and "Traceback" not in done.stderr
