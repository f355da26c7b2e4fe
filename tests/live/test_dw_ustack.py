"""dw_ustack: programs without frame pointers, whose chain of calls is known from their source."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support import BARE_CALL, compile_c, run_sonde, trace

SOURCE = BARE_CALL + r"""
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define PART __attribute__((noinline))
PART int leaf(int n) { return n + (int)(bare_getppid() & 1); }
PART int with_array(int n) { volatile char room[3000]; memset((void *)room, n, sizeof room); return leaf(room[n]) + 1; }
PART int with_alloca(int n)
{ char *p = __builtin_alloca(n * 16); memset(p, 1, n * 16); return with_array(p[3]) + p[n]; }
static int compare(const void *a, const void *b) { return with_alloca(*(const int *)a + 7) - *(const int *)b; }
PART int sorter(int *v) { qsort(v, 2, sizeof *v, compare); return v[0] + 1; }
static volatile int got;
static void handler(int signal) { got = leaf(signal) + 1; }
PART int signalled(void) { raise(SIGUSR1); return getpid(); }
PART int large(int n) { volatile char room[40000]; memset((void *)room, n, sizeof room); return leaf(room[n]) + 1; }
int main(int argc, char **argv)
{
    int v[2] = { 2, 1 };
    signal(SIGUSR1, handler);
    switch (argv[1][0]) {
    case 's': return sorter(v) > 100;
    case 'h': return signalled() < 0;
    case 'l': return large(argc) < 0;
    }
    return 0;
}
"""
PROBE = 'tracepoint:syscalls:sys_enter_getppid /comm == "bare"/'


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(SOURCE, tmp_path_factory.mktemp("bare"), "bare", "-O2", "-fomit-frame-pointer")


def names(text: str) -> list[str]:
    return re.findall(r"^\s+([\w.]+)\+\d+$", text, re.M)


def in_order(wanted: list[str], found: list[str]) -> bool:
    rest = iter(found)
    return all(any(name == one for one in rest) for name in wanted)


def test_through_a_library(target: Path) -> None:
    tracer = trace(f"{PROBE} {{ print(dw_ustack); }}", lambda: subprocess.run([target, "s"], check=True))
    found = names(tracer.stdout)
    assert found[:4] == ["leaf", "with_array", "with_alloca", "compare"]
    assert in_order(["compare", "sorter", "main", "_start"], found) and found[-1] == "_start"
    assert "end early" not in tracer.stderr and "ends early" not in tracer.stderr


def test_at_the_first_instruction(target: Path) -> None:
    """Where frame pointers would leave the caller out."""
    tracer = trace(f'uprobe:{target}:leaf {{ printf("%s|", dw_ustack(3)); }}',
                   lambda: subprocess.run([target, "s"], check=True))
    assert names(tracer.stdout.partition("|")[0]) == ["leaf", "with_array", "with_alloca"]


def test_through_a_signal(target: Path) -> None:
    tracer = trace(f"{PROBE} {{ print(dw_ustack); }}", lambda: subprocess.run([target, "h"], check=True))
    found = names(tracer.stdout)
    assert found[:2] == ["leaf", "handler"] and in_order(["handler", "signalled", "main", "_start"], found)


def test_what_is_deeper_than_the_copy_is_said(target: Path) -> None:
    tracer = trace(f"{PROBE} {{ print(dw_ustack); }}", lambda: subprocess.run([target, "l"], check=True))
    found = names(tracer.stdout)  # where return addresses lie below the locals, it is one more
    assert found[:2] == ["leaf", "large"] and found[2:] in ([], ["main"])
    assert "1 user stack ends early" in tracer.stderr


def test_sampled(target: Path) -> None:
    """Wherever a timer interrupts it, the chain leads to the program's start."""
    spin = compile_c("#define P __attribute__((noinline))\nvolatile long n;\n"
                     "P void inner(void) { for (int i = 0; i < 2000; i++) n += i; }\n"
                     "P void outer(void) { inner(); n++; }\n"
                     "int main(void) { for (int i = 0; i < 200000; i++) outer(); return 0; }\n",
                     target.parent, "spin", "-O2", "-fomit-frame-pointer")
    done = run_sonde("-c", str(spin), "-e", 'profile:hz:199 /pid == cpid/ { printf("%s|", dw_ustack); }', timeout=300)
    stacks = [found for part in done.stdout.split("|") if (found := names(part)) and found[-1] == "_start"]
    chains = [found[:found.index("main") + 1] for found in stacks if "main" in found]
    assert chains and all(in_order(chain, ["inner", "outer", "main"]) for chain in chains)
    assert any(chain == ["inner", "outer", "main"] for chain in chains)
