"""The live context, on names that this process knows about itself."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from pathlib import Path
from typing import Any

from sonde.errors import SyscallError
from sonde.kernel.names.symbols import KernelSymbols
from sonde.runtime.context import LiveContext
from sonde.runtime.records.values import StackTrace
from sonde.spec import Config, ScriptSpec
from sonde.types import Stack


class Stacks:
    """A stack map with one stack; ``gone`` when the session is over."""

    name = "__stacks"
    gone = False

    def get(self, key: bytes) -> bytes | None:
        if self.gone:
            raise SyscallError("bpf", 9)
        return struct.pack("=4Q", 0x1004, 0x2000, 0, 0) if key == struct.pack("=Q", 7) else None


def context(tmp_path: Path, stacks: Any = None) -> LiveContext:
    kallsyms = tmp_path / "kallsyms"
    kallsyms.write_text("0000000000001000 T do_x\n0000000000002000 t do_y\t[mod]\n")
    spec = ScriptSpec([], [], [], [], ["begin"], [], Config(max_strlen=64, str_trunc_trailer="~"))
    return LiveContext(spec, {"__stacks": stacks} if stacks else {}, KernelSymbols(str(kallsyms)))


def test_kernel_stacks_outlive_the_session(tmp_path: Path) -> None:
    stacks = Stacks()
    found = context(tmp_path, stacks)
    stack = StackTrace(Stack(), 7, 0, 2, found)
    assert str(stack) == "\n        do_x+4\n        do_y+0\n"
    stacks.gone = True
    assert str(stack) == "\n        do_x+4\n        do_y+0\n"
    for lost in (StackTrace(Stack(), 8, 0, 2, found), StackTrace(Stack(), 7, 0, 2, context(tmp_path))):
        assert str(lost) == "\n        [lost]\n"


def test_user_addresses(tmp_path: Path) -> None:
    address = ctypes.cast(ctypes.CDLL(None).getenv, ctypes.c_void_p).value
    assert address is not None
    found = context(tmp_path)
    symbol = found.usym(address + 1, os.getpid())
    assert symbol is not None and symbol[:2] == ("getenv", 1) and "libc" in symbol[2]
    assert found.usym(16, os.getpid()) is None
    build_id = found.build_id(address, os.getpid())
    assert build_id is not None and int(build_id[0], 16) and build_id[1] > 0
    assert found.build_id(16, os.getpid()) is None


def test_names(tmp_path: Path) -> None:
    found = context(tmp_path)
    assert (found.probe_name(0), found.probe_name(5)) == ("begin", "5")
    assert (found.user_name(0), found.user_name(987654321)) == ("root", "987654321")
    assert (found.syscall_name(99999), found.cgroup_path(1 << 60, "")) == ("Unknown syscall", "")
    assert found.syscall_name(0) in ("read", "io_setup")
    assert (found.text_size, found.trailer) == (65, "~")


def test_wall_clock(tmp_path: Path) -> None:
    now = context(tmp_path).wall_clock(time.clock_gettime_ns(time.CLOCK_BOOTTIME), "boot")
    assert abs(now - time.time_ns()) < 1_000_000_000
