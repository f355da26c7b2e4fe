"""The dialect of 2018 to 2020 on this kernel: what people have written down runs, or is told what replaced it.

No kernel header is opened for any of it, nor for the shipped tools.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sonde import compiling, tools
from sonde.cli.commands.doctor import examine_tool
from sonde.errors import CompileError
from sonde.semantics.script_options import Options
from sonde.source import Source
from support import run_sonde, without_counters

ROOT = Path(__file__).parents[2]
PROGRAMS = [path for path in sorted((ROOT / "tests" / "golden" / "seeds").glob("*.bt"))
            if path.name != "names.bt" or os.path.exists("/lib/x86_64-linux-gnu/libc.so.6")]  # its probes are there
TOOLS = sorted((ROOT / "src" / "sonde" / "tools").glob("*.bt"))
HEADERS = ("/usr/include", "/usr/src", "/usr/local/include")

TRACEPOINTS = [
    "t:syscalls:sys_enter_accept* { @[pid, comm] = count(); }",
    "t:syscalls:sys_enter_connect { @[ustack] = count(); }",
    "t:syscalls:sys_exit_connect /args->ret < 0/ { @[comm, - args->ret] = count(); }",
    *["t:syscalls:sys_enter_poll { @[comm, args->nfds] = count(); }"] * (os.uname().machine == "x86_64"),
    't:syscalls:sys_enter_openat /comm == "nobody"/ { printf("opening: %s\\n", str(args->filename)); }',
    "t:timer:hrtimer_start { @[ksym(args->function)] = count(); }",
    "t:tcp:tcp_retransmit_* { @[probe, ntop(2, args->saddr)] = count(); }",
    "t:net:net_dev_xmit { @[kstack] = count(); }",
    "t:net:netif_receive_skb { @[str(args->name)] = lhist(cpu, 0, 128, 1); }",
    "profile:hz:99 { @[kstack] = count(); }",
    "BEGIN { @x[1] = nsecs; delete(@x[1]); @y = hist(1); clear(@y); zero(@y); } END { printf(\"done\\n\"); }",
    "interval:s:1 { time(); print(@); clear(@); } t:syscalls:sys_enter_read { @[probe] = count(); }",
]
KPROBES = [
    "k:tcp_sendmsg { @size = hist(arg2); } interval:s:10 { exit(); }",
    "kr:tcp_sendmsg { @retvals[retval > 0 ? 0 : retval] = count(); } interval:s:10 { exit(); }",
    'k:tcp_sendmsg /arg2 > 8192/ { printf("PID %d: %d bytes\\n", pid, arg2); }',
    "k:tcp_sendmsg { @size[pid, comm] = hist(arg2); }",
    "k:tcp_sendmsg { @size = stats(arg2); } interval:s:1 { print(@size); clear(@size); }",
    "k:tcp_sendmsg { @[kstack(3)] = count(); }",
    "k:tcp_sendmsg { @ts[tid] = nsecs; } kr:tcp_sendmsg /@ts[tid]/ { @ns = hist(nsecs - @ts[tid]); delete(@ts[tid]); }",
    "k:sock_sendmsg,k:sock_recvmsg { @[func, pid, comm] = count(); }",
    "kr:sock_sendmsg,kr:sock_recvmsg /(int32)retval > 0/ { @[pid, comm] = hist((int32)retval); }",
    "k:tcp_v*_connect { @[pid, comm] = count(); }",
    "k:inet_csk_accept { @[pid, comm] = count(); }",
    "k:tcp_sendmsg,k:tcp*recvmsg { @[func] = count(); }",
    "kr:tcp_recvmsg /retval >= 0/ { @recv_bytes = hist(retval); }",
    "k:udp*_sendmsg,k:udp*_recvmsg { @[func, pid, comm] = count(); }",
    "k:tcp_set_state { @kprobe[arg1] = count(); } "
    "t:sock:inet_sock_set_state { @tracepoint[args->newstate] = count(); }",
]


class WithKprobes:
    """This kernel as if it could probe functions: what a script means does not depend on that."""

    def __init__(self) -> None:
        self._world = compiling.live_world()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def has_feature(self, name: str) -> bool:
        return name in ("kprobes", "fentry") or self._world.has_feature(name)

    @functools.cached_property
    def _functions(self) -> list[tuple[str, str]]:
        with open("/proc/kallsyms") as symbols:
            found = [line.split()[1:3] for line in symbols]
        return [("vmlinux", name) for kind, name in found if kind in "tT"]

    @functools.cached_property
    def _names(self) -> set[str]:
        return {name for _, name in self._functions}

    def kernel_functions(self) -> list[tuple[str, str]]:
        return self._functions

    def is_function_traceable(self, name: str) -> bool:
        return name in self._names

    def is_changed(self, name: str) -> bool:
        return name not in self._names and any(known.startswith(f"{name}.") for known in self._names)


@functools.cache
def world() -> Any:
    return WithKprobes()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are opened during a test, as the interpreter reports them."""
    _audit()
    del OPENED[:]
    return OPENED


OPENED: list[str] = []


@functools.cache
def _audit() -> None:
    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str):
            OPENED.append(args[0])  # as it is: to look at the path would be seen by other tests
    sys.addaudithook(hook)


def compile_without_headers(text: str, opened: list[str], params: Sequence[str] = ()) -> None:
    assert compiling.compile(Source("stdin", text), Options(params=list(params), unsafe=True), world()).programs
    assert not headers(opened)


def headers(opened: list[str]) -> list[str]:
    """The kernel's headers among the files that were opened."""
    return [path for path in map(os.path.realpath, opened) if path.startswith(HEADERS) or path.endswith(".h")]


@pytest.mark.parametrize("text", TRACEPOINTS + KPROBES)
def test_one_liners_compile(text: str, opened: list[str]) -> None:
    compile_without_headers(text, opened)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_programs_compile(path: Path, opened: list[str]) -> None:
    try:
        compile_without_headers(path.read_text(), opened)
    except CompileError as error:
        if any("under that name" in " ".join(finding.hints) for finding in error.diagnostics):
            pytest.skip(f"this kernel's compiler renamed a function: {error}")
        raise


@pytest.mark.parametrize("path", TOOLS, ids=lambda p: p.name)
def test_tools_compile(path: Path, opened: list[str]) -> None:
    """But those that need a probe that this kernel does not have; and that it has it, they say themselves."""
    tool = tools.find_tool(path.stem)
    assert tool is not None
    verdict = examine_tool(tool, compiling.live_world())
    if verdict.works or tool.name in without_counters():
        compile_without_headers(path.read_text(), opened, tool.sample_arguments)
    else:
        reasons = ["this kernel", "No matches", *["a field named"] * bool(os.environ.get("SONDE_VM"))]
        assert any(word in " ".join(verdict.why) for word in reasons), verdict.why
        assert not headers(opened)


@pytest.mark.parametrize("text", TRACEPOINTS)
def test_one_liners_load(text: str) -> None:
    done = run_sonde("--dry-run", "-e", text)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", [p for p in PROGRAMS if "kprobe:" not in p.read_text()], ids=lambda p: p.name)
def test_programs_load(path: Path) -> None:
    done = run_sonde("--unsafe", "--dry-run", str(path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", KPROBES)
def test_what_this_kernel_lacks_is_told(text: str) -> None:
    """Where the kernel cannot probe functions, the error names what sees the same."""
    with pytest.raises(CompileError) as caught:
        compiling.compile(text, world=compiling.mask_features(compiling.live_world(), ["kprobes", "fentry"]))
    for found in caught.value.diagnostics:
        assert found.span is not None and found.span.text.startswith(("k:", "kr:"))
        assert any("tracepoint" in hint for hint in found.hints)
