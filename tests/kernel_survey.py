"""What a kernel can do, found out by doing it: exact counts of every kind of probe, features, tools.

    python tests/kernel_survey.py FILE     as JSON into FILE

Runs in a guest; scripts/gen_kernels.py makes docs/kernels.md of several kernels' answers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from sonde.arch import this_arch
from sonde.cli.commands.doctor import examine_tool
from sonde.cli.script_names import read_script
from sonde.compiling import live_world, script_environment
from sonde.errors import SondeError
from sonde.kernel.features import TABLE
from sonde.library.trace import Trace
from sonde.semantics.script_options import Options
from sonde.semantics.world import World
from sonde.tools import Tool, all_tools
from support import compile_c, run_sonde

ROUNDS, PAGES = 3000, 700
MODULES = ("xfs", "kvm")  # what some of the tools trace is in them
# The note is spelled out, so that no header is needed.
SOURCE = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
        ".size _.stapsdt.base, 1\n.popsection\n");

volatile int on;

__attribute__((noinline)) int work(int number)
{
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n"
                     ".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
                     "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte 0\n.asciz \"app\"\n.asciz \"step\"\n"
                     ".asciz \"\"\n994: .balign 4\n.popsection\n" : : : "memory");
    syscall(SYS_getpgid, 0);
    return number + 1;
}

__attribute__((noinline)) void faults(int begin) { on = begin; }

static long counted(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

int main(void)
{
    char *pages = mmap(0, PAGES * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, PAGES * 4096L, MADV_NOHUGEPAGE);
    for (int i = 0; i < ROUNDS; i++)
        work(i);
    faults(0);  /* its page, and getrusage()'s, are there from here on */
    counted();
    faults(1);
    long before = counted();
    for (long i = 0; i < PAGES; i++)
        pages[4096 * i] = 1;
    long after = counted();
    faults(0);
    printf("faults %ld\n", after - before);
    return 0;
}
"""
# Each kind at what the program does ROUNDS times, and what holds each time.
PLACES = {
    "kprobe": ("kprobe:{function}", "1"), "kretprobe": ("kretprobe:{function}", "retval > 0"),
    "fentry": ("fentry:{function}", "1"), "fexit": ("fexit:{function}", "retval > 0"),
    "tracepoint": ("tracepoint:syscalls:sys_enter_getpgid,tracepoint:syscalls:sys_exit_getpgid", "1"),
    "rawtracepoint": ("rawtracepoint:sys_enter", "args.id == {number}"),
    "uprobe": ("uprobe:{program}:work", "1"), "uretprobe": ("uretprobe:{program}:work", "retval > 0"),
    "usdt": ("usdt:{program}:app:step", "1"),
}


def compile_workload(folder: Path) -> Path:
    return compile_c(SOURCE, folder, "counted", f"-DROUNDS={ROUNDS}", f"-DPAGES={PAGES}")


def count_kinds(program: Path, without: str = "") -> dict[str, int]:
    """What each kind counts of the program's ROUNDS; a tracepoint's two places count together."""
    world = live_world()
    function = f"{this_arch().syscall_prefix}getpgid"
    clauses = " ".join(f'{place} /pid == cpid && {condition}/ {{ @["{kind}"] = count(); }}'
                       for kind, (place, condition) in PLACES.items())
    script = clauses.replace("{function}", function).replace("{program}", str(program)).replace(
        "{number}", str(world.syscall_number("getpgid")))
    words = ["--no-feature", without] if without else []
    done = run_sonde(*words, "-c", str(program), "-e", script)
    assert done.returncode == 0, done.stderr
    found = {kind: int(n) for kind, n in re.findall(r"^@\[(\w+)\]: (\d+)$", done.stdout, re.M)}
    return {kind: found.get(kind, 0) // (2 if kind == "tracepoint" else 1) for kind in PLACES}


def count_faults(program: Path) -> tuple[int, int]:
    """Page faults of the program between two calls: as software:page-faults:1 counts them, and as getrusage() does."""
    script = (f"uprobe:{program}:faults /pid == cpid/ {{ @on = arg0; }} "
              "software:page-faults:1 /pid == cpid && @on == 1/ { @ = count(); }")
    done = run_sonde("-c", str(program), "-e", script)
    found = re.search(r"faults (\d+)", done.stdout), re.search(r"^@: (\d+)", done.stdout, re.M)
    assert found[0] and found[1], done.stdout + done.stderr
    return int(found[1][1]), int(found[0][1])


def count_threads() -> tuple[int, int]:
    """Threads of this process: as an iterator over tasks sees them, and as /proc does."""
    gate = threading.Event()
    waiting = [threading.Thread(target=gate.wait) for _ in range(6)]
    for thread in waiting:
        thread.start()
    try:
        there = len(os.listdir("/proc/self/task"))
        done = run_sonde("-e", f"iter:task /ctx.task->tgid == {os.getpid()}/ {{ @ = count(); }}")
    finally:
        gate.set()
        for thread in waiting:
            thread.join()
    found = re.search(r"^@: (\d+)$", done.stdout, re.M)
    assert found, done.stdout + done.stderr
    return int(found[1]), there


def attach_obstacle(tool: Tool, world: World) -> str:
    """Attach a tool, and detach it; what was said if it could not be, else ""."""
    options = Options(params=tool.sample_arguments, env=script_environment())
    try:
        with Trace(read_script(tool.path), options, world=world):
            return ""
    except SondeError as error:
        return error.message  # of what does not compile the first error's


def try_tools() -> tuple[dict[str, str], list[str]]:
    """What kept each tool from attaching, "" if nothing did; and the tools of which the doctor said something else."""
    for module in MODULES:
        subprocess.run(["modprobe", module], check=False)  # aarch64 has kvm built in
    world = live_world()
    happened, wrong = {}, []
    for tool in all_tools():
        verdict, obstacle = examine_tool(tool, world), attach_obstacle(tool, world)
        happened[tool.name] = obstacle
        if verdict.works != (not obstacle) or obstacle and obstacle not in verdict.why:
            wrong.append(tool.name)
    return happened, wrong


def main() -> None:
    world = live_world()
    with tempfile.TemporaryDirectory() as folder:
        program = compile_workload(Path(folder))
        counts = {kind: (n, ROUNDS) for kind, n in count_kinds(program).items()}
        counts |= {"software": count_faults(program), "iter": count_threads()}
    tools, wrong = try_tools()
    found = {"machine": os.uname().machine, "release": os.uname().release, "counts": counts,
             "features": {row.name: world.has_feature(row.name) for row in TABLE}, "tools": tools,
             "doctor": [len(tools) - len(wrong), len(tools)]}
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
