"""What a container's or a security module's policy denies: each call in turn fails with each of the errors that such
policies answer with, and a run is then either exact or ends with one sentence that names the call, never with a
traceback, a verifier's text, or figures that are too low."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from denying import deny_call
from sonde.kinds import kind_names
from sonde.layouts import uapi
from support import PATIENCE, compile_c, environment, sonde_command

pytestmark = [pytest.mark.live, pytest.mark.exact]
CALLS = 300
CLONE_NEWUSER = 0x10000000
WORK = f"""
#include <unistd.h>
__attribute__((noinline)) int work(int n) {{ __asm__ volatile("" : : : "memory"); return getppid() + n; }}
int main(void) {{ int sum = 0; for (int i = 0; i < {CALLS}; i++) sum += work(i); return sum == 0; }}
"""
LONG = "a string of more bytes than the keys of a small map have: " + "x" * 60
# Maps of all sorts, read by batches, one by one and through memory; records, stacks, symbols; begin, end, a timer,
# system calls, a program's functions.
SCRIPT = f"""
begin {{ @x[1] = 1; @x[2] = 2; @text["{LONG}"] = 3; }}
tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{
    @n = count(); @h = hist(5); @by[comm, 7] = sum(2); @last = 9; @ends = stats(4);
    @where[kstack(1)] = count();
    if (@n == 1) {{ @ours[ustack(1)] = count(); print(@x); delete(@x[1]); }}
}}
uprobe:PROGRAM:work /pid == cpid/ {{ @work = count(); }}
interval:s:1000 {{ @never = 1; }}
end {{ @frames = has_key(@x, 2); print(@h); clear(@h); zero(@last); }}
"""
FRAME = re.compile(r"[a-z]\w+\+\d+")
COMMANDS = (
    "BPF_MAP_CREATE", "BPF_MAP_LOOKUP_ELEM", "BPF_MAP_UPDATE_ELEM", "BPF_MAP_DELETE_ELEM", "BPF_MAP_GET_NEXT_KEY",
    "BPF_PROG_LOAD", "BPF_PROG_TEST_RUN", "BPF_OBJ_GET_INFO_BY_FD", "BPF_RAW_TRACEPOINT_OPEN", "BPF_BTF_LOAD",
    "BPF_LINK_CREATE", "BPF_MAP_LOOKUP_BATCH", "BPF_MAP_LOOKUP_AND_DELETE_BATCH", "BPF_MAP_LOOKUP_AND_DELETE_ELEM",
    "BPF_ITER_CREATE", "BPF_ENABLE_STATS")
WHOLE = ("bpf", "perf_event_open", "mount")
# The errors of capabilities and seccomp, of SELinux, and of seccomp profiles that do not know the call.
DENIED: list[tuple[str, int | None, int]] = [
    *[(call, None, error) for call in WHOLE for error in (errno.EPERM, errno.EACCES, errno.ENOSYS)],
    *[("bpf", getattr(uapi, name), error) for name in COMMANDS for error in (errno.EPERM, errno.EACCES)]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(WORK, tmp_path_factory.mktemp("denied"), "denied", "-g")


@cache
def expected_output(words: tuple[str, ...]) -> str:
    """What a run says to which nothing is denied."""
    done = run_denied(list(words))
    assert done.returncode == 0, done.stderr
    return plain(done.stdout)


def plain(text: str) -> str:
    """Output whose kernel frames have no names: where a tracepoint is attached in another way, others call it."""
    return FRAME.sub("a frame", text)


def run_denied(words: list[str], deny: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(sonde_command(words), capture_output=True, text=True, timeout=PATIENCE, env=environment(),
                          stdin=subprocess.DEVNULL, check=False, preexec_fn=deny)


def check_run(words: list[str], call: str, deny: Callable[[], None]) -> None:
    """Exact, or refused in a sentence."""
    done = run_denied(words, deny)
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    if done.returncode == 0:
        assert plain(done.stdout) == expected_output(tuple(words)) and not errors, done.stdout + done.stderr
    else:
        assert len(errors) == 1 and call in errors[0], done.stderr
        names_a_probe = errors[0].split(":")[1].strip() in kind_names()  # that could not be attached
        assert done.returncode == (255 if names_a_probe else 1), (done.returncode, done.stderr)
    unknown = [line for line in done.stderr.splitlines() if not line.startswith(("ERROR: ", "HINT: ", "Attached "))]
    assert not unknown, done.stderr


def call_name(call: str, command: int | None) -> str:
    return call if command is None else next(name for name in COMMANDS if getattr(uapi, name) == command)


@pytest.mark.parametrize(("call", "command", "error"), DENIED,
                         ids=[f"{call_name(*each[:2])}-{errno.errorcode[each[2]]}" for each in DENIED])
def test_a_denied_call(call: str, command: int | None, error: int, program: Path) -> None:
    named = call if command is None else f"bpf({call_name(call, command).removeprefix('BPF_')})"
    check_run(["-e", SCRIPT.replace("PROGRAM", str(program)), "-c", str(program)], named,
              deny_call(call, command, error))


@pytest.mark.parametrize("error", [errno.EPERM, errno.EACCES, errno.ENOSYS])
def test_a_denial_is_not_remembered(error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process under a policy could not find out of the kernel is asked again by those that are free."""
    answers = []
    for place, deny in (("free", None), ("denied", deny_call("bpf", uapi.BPF_PROG_LOAD, error)), ("denied", None)):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
        done = run_denied(["-e", "begin { @[comm] = count(); exit(); }"], deny)
        assert (done.returncode == 0) == (deny is None), done.stderr
        [kept] = (tmp_path / place).rglob("features-*")
        answers.append(sorted(kept.read_text().splitlines()))
    free, denied, after = answers
    assert set(denied) < set(free) and after == free


def test_nothing_denied(program: Path) -> None:
    found = expected_output(("-e", SCRIPT.replace("PROGRAM", str(program)), "-c", str(program)))
    assert [f"{name}: {CALLS}" in found for name in ("@n", "@work")] == [True, True], found
    assert f"@by[denied, 7]: {2 * CALLS}" in found and "@last: 0" in found and "[lost]" not in found


def test_capabilities_of_a_user_namespace_are_none_here() -> None:
    """They look as if they were held."""
    for script in ("rawtracepoint:sys_enter { exit(); }", "profile:hz:9 { exit(); }", "iter:task { @ = count(); }"):
        done = run_denied(["-e", script], unshare_user)
        first, *hints = done.stderr.splitlines()
        assert done.returncode == 1 and not done.stdout and all(line.startswith("HINT: ") for line in hints), done
        assert first == "ERROR: bpf(MAP_CREATE): not permitted in a user namespace: its root has no rights beyond it"


def unshare_user() -> None:
    """A namespace of users of which this process is root."""
    uid = os.geteuid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    with open("/proc/self/uid_map", "w", encoding="ascii") as file:
        file.write(f"0 {uid} 1")
