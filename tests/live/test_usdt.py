"""Static probes of a program made here: arguments in registers, memory and constants, semaphores, wildcards, -p."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import Tracer, compile_c, run_sonde, trace

# The notes are spelled out, so that no header is needed.
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
        ".size _.stapsdt.base, 1\n.popsection\n");

unsigned short gate __attribute__((section(".probes"), used));
int counter = 40;

#define NOTE(name, semaphore, arguments) \
    "990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " semaphore "\n" \
    ".asciz \"app\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n994: .balign 4\n.popsection\n"

#define NOTHING " 8@" CONSTANT "0"

struct pair { long key; long values[4]; };

#ifdef __x86_64__
#define CONSTANT "$"
__attribute__((noinline)) void step(int i, struct pair *pair, long index)
{
    __asm__ volatile(NOTE("step", "0", "-4@%%edi 8@8(%%rsi,%%rdx,8) -4@$-7 1@%%dil 4@counter(%%rip) 8@(%%rsi)")
                     : : "D"(i), "S"(pair), "d"(index) : "memory");
    if (gate)
        __asm__ volatile(NOTE("gated", "gate", "-4@%%ecx") : : "c"(i) : "memory");
}
#elif defined(__s390x__)
#define CONSTANT ""
__attribute__((noinline)) void step(int i, struct pair *pair, long index)
{
    register long *values __asm__("r1") = pair->values, at __asm__("r5") = 8 * index, low __asm__("r2") = i;
    register int *place __asm__("r4") = &counter;
    __asm__ volatile("aghi %%r15,-16\n st %%r2,12(%%r15)\n"
                     NOTE("step", "0", "-4@12(%%r15) 8@0(%%r5,%%r1) -4@-7 1@%%r2 4@0(%%r4) 8@-8(%%r1)")
                     "aghi %%r15,16\n" : : "r"(low), "r"(values), "r"(at), "r"(place) : "memory");
    register long again __asm__("r10") = i;
    if (gate)
        __asm__ volatile(NOTE("gated", "gate", "-4@%%r10") : : "r"(again) : "memory");
}
#else
#define CONSTANT ""
__attribute__((noinline)) void step(int i, struct pair *pair, long index)
{
    register long *values __asm__("x1") = pair->values, at __asm__("x2") = index, low __asm__("x0") = i;
    register int *place __asm__("x3") = &counter;
    __asm__ volatile("sub sp, sp, 16\n str w0, [sp, 12]\n"
                     NOTE("step", "0", "-4@[sp, 12] 8@[x1, x2, lsl 3] -4@-7 1@w0 4@[x3] 8@[x1, -8]")
                     "add sp, sp, 16\n" : : "r"(low), "r"(values), "r"(at), "r"(place) : "memory");
    register long again __asm__("x19") = i;
    if (gate)
        __asm__ volatile(NOTE("gated", "gate", "-4@w19") : : "r"(again) : "memory");
}
#endif

int main(int argc, char **argv)
{
    struct pair pair = { 99, { 10, 20, 30, 40 } };
    int rounds = atoi(argv[1]);

    if (argc > 2)
        getchar();
    for (int i = 0; i < rounds; i++) {
        counter++;
        step(-i, &pair, i % 4);
    }
    __asm__ volatile(NOTE("step", "0", "4@" CONSTANT "5" NOTHING NOTHING NOTHING NOTHING NOTHING) : : : "memory");
    return 0;
}
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(SOURCE, tmp_path_factory.mktemp("usdt"))


def run(target: Path, rounds: int = 3) -> None:
    subprocess.run([target, str(rounds)], check=True)


def test_arguments(target: Path) -> None:
    script = (f"usdt:{target}:app:step {{ printf(\"%d %d %d %d %d %d\\n\", arg0, arg1, arg2, arg3, arg4, arg5); }}")
    tracer = trace(script, lambda: run(target))
    assert tracer.lines == ["0 10 -7 0 41 99", "-1 20 -7 255 42 99", "-2 30 -7 254 43 99", "5 0 0 0 0 0"]


@pytest.mark.parametrize(("script", "probes"), [
    ("usdt:{}:app:step {{ @[arg0] = count(); }}", 1),
    ("usdt:{}:app:step {{ @ = count(); }} usdt:{}:step {{ @b = 1; }}", 2),
    ("usdt:{}:app:step, usdt:{}:app:gated {{ @ = count(); }} begin {{ }}", 3),
])
def test_a_probe_of_several_places_is_one(target: Path, script: str, probes: int) -> None:
    """As bpftrace counts; each place is attached to."""
    notes = subprocess.run(["readelf", "-nW", target], capture_output=True, text=True, check=True).stdout
    assert notes.count("Name: step") > 1
    done = run_sonde("-e", script.replace("{}", str(target)).replace("{{", "{").replace("}}", "}"), "-c", f"{target} 3")
    assert f"Attached {probes} probe{'s' * (probes > 1)}\n" in done.stderr


def test_a_semaphore_opens_the_gate(target: Path) -> None:
    run(target)
    tracer = trace(f"usdt:{target}:gated {{ @ = sum(arg0); @n = count(); @p[probe] = count(); }}", lambda: run(target))
    assert "@: -3\n" in tracer.stdout and "@n: 3\n" in tracer.stdout
    assert f"@p[usdt:{target}:app:gated]: 3\n" in tracer.stdout


@pytest.mark.parametrize("first", ["uprobe", "usdt"])
def test_another_probe_with_another_semaphore(target: Path, first: str) -> None:
    """The kernel has one semaphore for an instruction. Who comes second is told so. Only the static probe opens its
    gate."""
    notes = subprocess.run(["readelf", "-nW", target], capture_output=True, text=True, check=True).stdout
    address = re.search(r"Name: gated\s+Location: (0x\w+)", notes)
    assert address is not None
    probes = {"usdt": f"usdt:{target}:gated", "uprobe": f"uprobe:{target}:{int(address[1], 16):#x}"}
    with Tracer("-e", f"{probes.pop(first)} {{ @ = count(); }}") as tracer:
        (second,) = probes.values()
        done = run_sonde("-e", f"{second} {{ @ = count(); }}")
        run(target)
    assert done.returncode == 255 and "the kernel has another probe at this instruction, with " in done.stderr
    assert "semaphore" in done.stderr and "was the file replaced" not in done.stderr
    again = trace(f"{second} {{ @ = count(); }}", lambda: run(target))  # the place is free now
    for script, seen in ((tracer, first), (again, second)):
        assert ("@: 3\n" in script.stdout) == seen.startswith("usdt"), script.stdout


def test_wildcards(target: Path) -> None:
    tracer = trace(f"usdt:{target}:* {{ @[probe] = count(); }}", lambda: run(target))
    assert sorted(tracer.lines) == [f"@[usdt:{target}:app:gated]: 3", f"@[usdt:{target}:app:step]: 4"]


@pytest.mark.parametrize("written", ['{}:"app":"step"', '{}:app:"step"', '"{}":app:step', '{}:"step"',
                                     '{}:"a"*:st"ep"'])
def test_names_in_quotation_marks(target: Path, written: str) -> None:
    tracer = trace(f"usdt:{written.format(target)} {{ @ = count(); }}", lambda: run(target))
    assert tracer.lines == ["@: 4"]


def test_a_probe_of_several_places_is_proposed_once(target: Path) -> None:
    done = run_sonde("-e", f"usdt:{target}:app:stepp {{ }}")
    (hint,) = [line for line in done.stderr.splitlines() if "did you mean" in line]
    assert done.returncode == 1 and hint.count(f"usdt:{target}:app:step") == 1


@pytest.fixture()
def waiting(target: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([target, "2", "wait"], stdin=subprocess.PIPE)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.mark.parametrize("pattern", ["*:*", "*:step", "{path}:app:step", "step"])
def test_one_process(target: Path, waiting: subprocess.Popen[bytes], pattern: str) -> None:
    """With -p only that process is seen, by all probes of all that it has mapped."""
    script = f"usdt:{pattern.format(path=target)} {{ @[probe, pid] = count(); }}"
    with Tracer("-p", str(waiting.pid), "-e", script) as tracer:
        run(target)
        waiting.communicate(b"\n")
        tracer.wait()
    assert f"@[usdt:{target}:app:step, {waiting.pid}]: 3" in tracer.lines
    assert all(f" {waiting.pid}]" in line for line in tracer.lines if line.startswith("@"))


def test_the_program_of_a_process_is_the_path_that_is_left_out(target: Path, waiting: subprocess.Popen[bytes]) -> None:
    with Tracer("-p", str(waiting.pid), "-e", "uprobe:step { @[probe, pid] = count(); }") as tracer:
        run(target)
        waiting.communicate(b"\n")
        tracer.wait()
    assert [line for line in tracer.lines if line.startswith("@")] == [f"@[uprobe:{target}:step, {waiting.pid}]: 2"]
    assert run_sonde("-e", "uprobe:step { }").stderr.startswith(
        "stdin:1:1-12: ERROR: uprobe probe type requires 2 or 3 arguments, found 1\n")


def test_listing(target: Path) -> None:
    found = run_sonde("-lv", f"usdt:{target}:*")
    assert found.stdout.splitlines()[:3] == [
        f"usdt:{target}:app:gated", "    int32 arg0", f"usdt:{target}:app:step"]
    assert run_sonde("-l", f"usdt:{target}:a*:g*").stdout == f"usdt:{target}:app:gated\n"


def test_one_name_in_two_clauses_is_one_key(target: Path) -> None:
    counts = "{ @[probe] = count(); }"
    script = f"usdt:{target}:step {counts} usdt:{target}:gated, usdt:{target}:step {counts}"
    tracer = trace(script, lambda: run(target))
    assert sorted(tracer.lines) == [f"@[usdt:{target}:app:gated]: 3", f"@[usdt:{target}:app:step]: 8"]
