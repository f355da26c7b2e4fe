"""kill -9 at random moments of whole lives: whatever a tracer was at, the kernel and the traced program are as before.

SONDE_KILL_MOMENTS sets at how many moments, SONDE_FUZZ_SEED at which.

One thing is the kernel's: a process killed in the midst of detaching a uprobe cannot reach the traced program's memory
any more, and Linux leaves the breakpoint (which then does nothing but cost its trap) and says so in its log. bpftrace
leaves it as well. Such a moment is told by that line of the log, with the tracer's pid; the next trace of the same
place takes the breakpoint away, which is tested too.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from live.test_killed import EVENTS, existing, held, lines
from sonde.kernel.types.world import LiveWorld
from support import compile_c, environment, sonde_command

pytestmark = [pytest.mark.live, pytest.mark.skipif(os.uname().machine != "x86_64",
                                                   reason="the static probe's note is written for x86_64")]
MOMENTS = int(os.environ.get("SONDE_KILL_MOMENTS", "24"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", "20261121"))

CHANGED = "the traced program is not as it was"

# Says where its code and its semaphore are, then calls work(), which has a static probe, until it is ended. That
# probe is not at the function's first instruction: the kernel has one semaphore for an instruction, and where it left a
# breakpoint it keeps to that one.
TARGET = r"""
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
        ".size _.stapsdt.base, 1\n.popsection\n");

volatile unsigned short gate __attribute__((section(".probes"), used));
volatile long sink;

__attribute__((noinline)) void work(int i)
{
    sink = i;
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
                     "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte gate\n"
                     ".asciz \"app\"\n.asciz \"step\"\n.asciz \"-4@%%edi\"\n994: .balign 4\n.popsection\n"
                     : : "D"(i) : "memory");
    for (int n = 0; n < 20000; n++)
        sink += n;
}

int main(void)
{
    prctl(PR_SET_PDEATHSIG, 9);
    printf("%p %p\n", work, &gate);
    fflush(stdout);
    for (int i = 0;; i++) {
        work(i);
        usleep(200);
    }
}
"""

# What runs for a fifth of a second, if nobody kills it. MINE is the name that the kernel's map has then.
END = "interval:ms:200 { exit(); } end { @ended = 1; }"
SCRIPTS = {
    "tracepoint": "tracepoint:syscalls:sys_*_clock_nanosleep, tracepoint:sched:sched_process_fork /pid == PID/ "
                  "{ @MINE[probe] = count(); }",
    "raw tracepoint": "rawtracepoint:sched_switch, rawtracepoint:sys_enter /pid == PID/ { @MINE[cpu] = count(); }",
    "uprobe": "uprobe:TARGET:work { @MINE[tid] = nsecs; } uretprobe:TARGET:work { delete(@MINE, tid); }",
    "static probe": "usdt:TARGET:app:step { @MINE[arg0 % 100] = count(); }",
    "profile": "profile:hz:997 /pid == PID/ { @MINE[kstack] = count(); }",
    "interval": "interval:ms:1 { @MINE[nsecs % 100] = count(); print(@MINE); }",
    "large maps": "config = { max_map_keys = 60000 } "
                  "begin { $i = 0; while ($i < 60000) { @MINE[$i, \"some key\"] = $i; @b[$i] = hist($i); $i++; } }",
    "reader": "profile:hz:997 /pid == PID/ { @MINE[ustack] = count(); } interval:ms:5 { print(@MINE); clear(@MINE); }",
    "child": "tracepoint:syscalls:sys_enter_* /pid == cpid/ { @MINE[args.__syscall_nr] = count(); }",
    "function": "kprobe:hrtimer_nanosleep, kretprobe:hrtimer_nanosleep /pid == PID/ { @MINE[comm] = count(); }",
}


class Target:
    """The traced program, and what tracing changes in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen([path], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self._code, self._gate = [int(word, 16) for word in self.process.stdout.readline().split()]
        self.untraced = self.memory()

    def memory(self) -> tuple[bytes, bytes]:
        """The traced function's code, in which a probe is a breakpoint, and the static probe's semaphore."""
        file = os.open(f"/proc/{self.process.pid}/mem", os.O_RDONLY)
        try:
            return os.pread(file, 64, self._code), os.pread(file, 2, self._gate)
        finally:
            os.close(file)

    def command(self, kind: str, mark: str) -> list[str]:
        text = f"{SCRIPTS[kind]} {END}"
        for word, value in (("MINE", mark), ("TARGET", str(self.path)), ("PID", str(self.process.pid))):
            text = text.replace(word, value)
        return sonde_command([*(["-c", "sleep 1000"] if kind == "child" else []), "-e", text])


@pytest.fixture
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    made = Target(compile_c(TARGET, tmp_path_factory.mktemp("killed")))
    yield made
    made.process.kill()
    made.process.communicate()


def start(command: list[str], said: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """A tracer in a session of its own, by which its children are known; ``said`` is its standard error."""
    return subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=said, start_new_session=True)


def members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(entry))
    return found


def maps_called(name: str) -> list[int]:
    """Numbers of the kernel's maps of that name. A program holds its maps, and a link its program."""
    libc, next_id, by_id, information = ctypes.CDLL(None, use_errno=True), 12, 14, 15  # BPF_MAP_GET_NEXT_ID ...
    attr, info, found = (ctypes.c_uint32 * 32)(), ctypes.create_string_buffer(256), []
    while libc.syscall(321, next_id, ctypes.byref(attr), ctypes.sizeof(attr)) == 0:
        attr[0] = attr[1]
        one = (ctypes.c_uint32 * 32)(attr[0])
        descriptor = libc.syscall(321, by_id, ctypes.byref(one), ctypes.sizeof(one))
        if descriptor < 0:
            continue  # it has just gone
        address = ctypes.addressof(info)
        asked = (ctypes.c_uint32 * 32)(descriptor, len(info), address & 0xFFFFFFFF, address >> 32)
        if libc.syscall(321, information, ctypes.byref(asked), ctypes.sizeof(asked)) == 0 \
                and info.raw[24:40].rstrip(b"\0").decode() == name:
            found.append(int(attr[0]))
        os.close(descriptor)
    return found


def left(session: int, mark: str, ours: set[tuple[str, int]], target: Target) -> list[object]:
    """What is there yet of a tracer that was killed."""
    rest: list[object] = [*members(session), *[("map", number) for number in maps_called(f"_{mark}")],
                          *sorted(ours & existing()), *lines(EVENTS, str(target.path))]
    if target.memory() != target.untraced:
        rest.append(CHANGED)
    return rest


def kernel_left_breakpoint(tracer: int) -> bool:
    """Whether the kernel says in its log that it did."""
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    return re.search(rf"uprobe: \S+:{tracer} failed to unregister, leaking uprobe", log) is not None


def whole_life(kind: str, target: Target) -> float:
    """Seconds that a run of that kind takes, of which nothing is left either. It has to succeed."""
    begun = time.monotonic()
    process = start(target.command(kind, "whole"))
    assert process.wait(60) == 0, kind
    return time.monotonic() - begun


def kill_at(moment: float, kind: str, mark: str, target: Target) -> tuple[bool, int]:
    """Start a tracer, kill it so many seconds later, check that nothing is left; whether it had maps in the kernel by
    then, and how many children."""
    process = start(target.command(kind, mark))
    time.sleep(moment)
    had, children, ours = bool(maps_called(f"_{mark}")), len(members(process.pid)) - 1, held(process.pid)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30  # the kernel takes a moment to drop everything
    while (rest := left(process.pid, mark, ours, target)) and time.monotonic() < deadline:
        if rest == [CHANGED] and kernel_left_breakpoint(process.pid):
            print(f"{kind}, killed after {moment:.3f} s: the kernel left its breakpoint, as it says")
            whole_life(kind, target)
        time.sleep(0.02)
    assert not rest, f"{kind}, killed after {moment:.3f} s"
    return had, children


@pytest.mark.timeout(120 + 5 * MOMENTS)
def test_nothing_is_left_at_any_moment(target: Target) -> None:
    kinds = [kind for kind in SCRIPTS if kind != "function" or LiveWorld().has_feature("kprobes")]
    lives = {kind: whole_life(kind, target) for kind in kinds}
    chance, loaded, parents = random.Random(SEED), 0, 0
    for number in range(MOMENTS):
        kind = kinds[number % len(kinds)]
        had, children = kill_at(chance.uniform(0, lives[kind]), kind, f"k{os.getpid() % 100000}_{number}", target)
        loaded, parents = loaded + had, parents + (children > 0)
    print(f"{MOMENTS} moments in lives of {min(lives.values()):.2f} to {max(lives.values()):.2f} s: "
          f"{loaded} with maps in the kernel, {parents} with children")
    assert MOMENTS < len(kinds) or loaded and parents, "no moment was one at which there was something to leave"


@pytest.mark.parametrize("with_command", [False, True])
def test_a_traced_program_is_seen_to_be(target: Target, with_command: bool, tmp_path: Path) -> None:
    """The oracle itself: a tracer that lives is found by its map, its child, its breakpoint and the semaphore."""
    script = f"usdt:{target.path}:app:step {{ @alive[0] = count(); }}"
    command = sonde_command([*(["-c", "sleep 1000"] if with_command else []), "-e", script])
    with open(tmp_path / "said", "wb") as said:
        process = start(command, said.fileno())
    deadline = time.monotonic() + 30
    try:
        while (hidden := unseen(process.pid, target, with_command)) and time.monotonic() < deadline:
            time.sleep(0.02)  # the breakpoint is there before the link that made it has its number
        assert not hidden, (process.poll(), (tmp_path / "said").read_text())
    finally:
        process.kill()
        process.wait()
    while left(process.pid, "alive", set(), target) and time.monotonic() < deadline + 30:
        time.sleep(0.02)
    assert not left(process.pid, "alive", set(), target)


def unseen(tracer: int, target: Target, with_command: bool) -> list[str]:
    """Which signs of a living tracer are not there: objects of its own; the breakpoint and the semaphore, if it is not
    limited to a command; and its processes: itself, the reader of the target's notes, and the command."""
    ours, (code, gate) = held(tracer), target.memory()
    signs = {"map": maps_called("_alive"), "link": any(kind == "link" for kind, _ in ours),
             "objects": ours <= existing(), "breakpoint": (code == target.untraced[0]) == with_command,
             "semaphore": (gate == target.untraced[1]) == with_command,
             "processes": len(members(tracer)) == 2 + with_command}
    return [sign for sign, there in signs.items() if not there]
