"""Attach kinds of their own: uprobes on a program made here, usdt semaphores, callbacks, stopping order."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from handmade import SEQUENCE, count, emit, only_process, program, script
from sonde.asm import insn
from sonde.compiling import live_world
from sonde.errors import AttachError
from sonde.layouts.uapi import HELPERS
from sonde.runtime.attach import links
from sonde.runtime.session import Session
from sonde.runtime.traced_command import Child
from sonde.spec import Attach, ProgramSpec

pytestmark = pytest.mark.skipif(not live_world().has_feature("atomic_fetch"),
                                reason="kernel lacks atomic_fetch, by which these programs number their events")

SOURCE = """
#include <stdio.h>
volatile int counter __attribute__((section(".data"))) = 1;
__attribute__((noinline)) int one(int x) { counter += x; return counter; }
__attribute__((noinline)) int two(int x) { counter -= x; return counter; }
__attribute__((noinline)) int three(int x) { counter ^= x; return counter; }
int main(void) { for (int i = 0; i < 100; i++) { one(i); two(i); if (i % 4 == 0) three(i); } return 0; }
"""


class Target:
    """The program and the file offsets of its functions."""

    def __init__(self, path: Path, offsets: dict[str, int]) -> None:
        self.path = str(path)
        self.offsets = offsets

    def points(self, kind: str = "uprobe", pid: int = 0, names: str = "one two three") -> list[Attach]:
        return [Attach(kind, f"{kind}:{self.path}:{name}", self.path, name, self.offsets[name], pid=pid)
                for name in names.split()]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    path = tmp_path_factory.mktemp("target") / "target"
    subprocess.run(["gcc", "-O1", "-no-pie", "-Wl,-z,noseparate-code", "-x", "c", "-", "-o", path],
                   input=SOURCE.encode(), check=True)
    listing = subprocess.run(["nm", path], capture_output=True, check=True, text=True).stdout
    symbols = {name: int(address, 16) for address, _, name in
               (line.split() for line in listing.splitlines() if len(line.split()) == 3)}
    base = symbols.get("__executable_start", 0x400000)
    yield Target(path, {name: symbols[name] - base for name in ("one", "two", "three")})


def by_cookie(points: list[Attach]) -> ProgramSpec:
    """Sends the probe's index."""
    return program("uprobes", points, [insn.call_helper(HELPERS["get_attach_cookie"]), insn.alu("mov", 8, 0), *emit(0)],
                   type="kprobe", cookies=True)


def fired(session: Session, path: str) -> dict[str, int]:
    """Runs the target to its end; how often each probe fired."""
    subprocess.run([path], check=True)
    found: dict[str, int] = {}
    for _, buffer, offset in session.stop():
        name = session.spec.probes[struct.unpack_from("=Q", buffer, offset + 16)[0]].rpartition(":")[2]
        found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.parametrize("kind", ["uprobe", "uretprobe"])
@pytest.mark.parametrize("multi", [True, False])
def test_uprobes_count_exactly(target: Target, kind: str, multi: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not multi:
        monkeypatch.setattr(links, "multi_attach_type", lambda spec: 0)
    with Session(script([by_cookie(target.points(kind))])) as session:
        session.attach()
        assert fired(session, target.path) == {"one": 100, "two": 100, "three": 25}


@pytest.mark.parametrize("multi", [True, False])
def test_uprobes_of_one_process(target: Target, multi: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not multi:
        monkeypatch.setattr(links, "multi_attach_type", lambda spec: 0)
    child = Child([target.path])
    with Session(script([by_cookie(target.points(pid=child.pid, names="one three"))]), process=child) as session:
        session.attach()
        subprocess.run([target.path], check=True)  # another process of the same program
        records = []
        while not session.done:
            records += session.poll(0.1)
        assert session.status == 0
        assert len(records + session.stop()) == 125


def test_a_missing_file_is_named(target: Target) -> None:
    gone = target.path + "-gone"
    point = Attach("uprobe", f"uprobe:{gone}:one", gone, "one", 16)
    with Session(script([by_cookie([point])])) as session:
        with pytest.raises(AttachError) as caught:
            session.attach()
        assert f"there is no file {gone}" in caught.value.message and caught.value.probe == point.name


def test_one_bad_place_among_good_ones(target: Target) -> None:
    bad = Attach("uprobe", "uprobe:bad", target.path, "bad", 1 << 40)
    points = [*target.points(), bad]
    with Session(script([by_cookie(points)])) as session, pytest.raises(AttachError, match="uprobe:bad"):
        session.attach()
    with Session(script([by_cookie(points)], missing_probes="warn")) as session:
        session.attach()
        assert [warning.probe for warning in session.warnings] == ["uprobe:bad"]
        assert fired(session, target.path) == {"one": 100, "two": 100, "three": 25}


def test_classic_tracepoint_stops_before_the_events_close() -> None:
    points = [Attach("tracepoint", f"tracepoint:syscalls:sys_enter_{name}", "syscalls", f"sys_enter_{name}")
              for name in ("getppid", "getpid", "getuid")]
    with Session(script([program("tp", points, [*only_process(os.getpid()), *count(SEQUENCE)],
                                 type="tracepoint")])) as session:
        session.attach()
        assert session.attached == 3
        for _ in range(10):
            os.getppid()
            os.getuid()
        session.stop()
        before = session.maps[SEQUENCE].get()
        os.getppid()
        assert session.maps[SEQUENCE].get() == before
        assert struct.unpack("=Q", before)[0] >= 20


def test_tracepoint_served_by_a_raw_one() -> None:
    """Many attach points, one raw tracepoint."""
    points = [Attach("tracepoint", f"tracepoint:syscalls:sys_enter_{name}", "syscalls", f"sys_enter_{name}")
              for name in ("getppid", "getpid", "getuid")]
    served = program("raw", points, [*only_process(os.getpid()), *count(SEQUENCE)], method="raw:sys_enter")
    with Session(script([served])) as session:
        session.attach()
        assert session.attached == 3
        os.getppid()
        session.stop()
        assert struct.unpack("=Q", session.maps[SEQUENCE].get())[0] >= 1


def test_a_callback_is_loaded() -> None:
    """bpf_loop() calls a function of the program five times."""
    from sonde.asm.assemble import assemble

    done = assemble([
        "main", insn.alu("mov", 1, imm=5), insn.func_address(2, "each"), insn.alu("mov", 3, imm=0),
        insn.alu("mov", 4, imm=0), insn.call_helper(HELPERS["loop"]), insn.alu("mov", 0, imm=0), insn.exit_(),
        "each", *count(SEQUENCE), insn.alu("mov", 0, imm=0), insn.exit_()], ["main", "each"])
    begin = ProgramSpec("begin", "raw_tracepoint", done.code, [Attach("begin", "begin")], done.relocations,
                        functions=done.functions)
    with Session(script([begin])) as session:
        session.attach()
        assert session.maps[SEQUENCE].get() == struct.pack("=Q", 5)
