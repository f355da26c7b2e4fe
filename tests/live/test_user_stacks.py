"""Names in user stacks: of processes that have ended, of replaced and unusual code. The program knows its own chain."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sonde.arch import this_arch
from support import BARE_CALL, Tracer, compile_c, run_sonde, trace

PROBE = "tracepoint:syscalls:sys_enter_getppid"
CHAIN = BARE_CALL + r"""
#include <stdio.h>
#include <unistd.h>
volatile int depth;
void touch(void) { depth++; }
void leaf(void) { bare_getppid(); touch(); }
void middle(void) { leaf(); depth--; }
void top(void) { middle(); depth++; }
int main(int argc, char **argv) { if (argc > 1) getchar(); top(); if (argc > 1) getchar(); return 0; }
"""
FRAMES = ["leaf", "middle", "top", "main"]
POINTERS = ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-fno-optimize-sibling-calls")


@pytest.fixture(scope="module", params=["-pie", "-no-pie"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pie = str(request.param)
    return compile_c(CHAIN, tmp_path_factory.mktemp("stacks"), "chain", *POINTERS,
                     *(["-fpie", "-pie"] if pie == "-pie" else ["-fno-pie", "-no-pie"]))


def names(text: str) -> list[str]:
    return re.findall(r"^\s+(\w+)\+\d+$", text, re.M)[:4]


def test_the_process_has_ended(target: Path) -> None:
    """A map is printed when nothing is left of the processes."""
    tracer = trace(f"{PROBE} /comm == \"chain\"/ {{ @[ustack] = count(); }}",
                   lambda: [subprocess.run([target], check=True) for _ in range(5)])
    stacks = re.findall(r"^@\[\n(.*?)^\]: (\d+)$", tracer.stdout, re.M | re.S)
    assert stacks and sum(int(count) for _, count in stacks) == 5
    assert all(names(stack) == FRAMES for stack, _ in stacks)
    assert "went unseen" not in tracer.stderr


def test_the_process_was_there_before(target: Path) -> None:
    """It started before the tracer, is seen once at its end, and is gone when its stack is printed."""
    process = subprocess.Popen(["sh", "-c", f"read line; exec {target}"], stdin=subprocess.PIPE, text=True)
    sleeper = subprocess.Popen([target, "wait"], stdin=subprocess.PIPE, text=True)
    tracer = trace(f"{PROBE} /comm == \"chain\"/ {{ @[ustack(4), pid] = count(); }}",
                   lambda: (process.communicate("\n"), sleeper.communicate("\n")))
    for pid in (process.pid, sleeper.pid):
        found = re.search(rf"^@\[\n((?:\s+\S+\n)+), {pid}\]: 1$", tracer.stdout, re.M)
        assert found and names(found[1]) == FRAMES


def test_another_program_in_the_same_process(tmp_path: Path) -> None:
    """Two programs, one after the other in one process, at different addresses: each has its program's name."""
    first = compile_c(CHAIN.replace("leaf", "early").replace("top();", "top(); execv(argv[2], argv + 2);"), tmp_path,
                      "first", *POINTERS, "-fpie", "-pie")
    second = compile_c(CHAIN.replace("leaf", "later"), tmp_path, "second", *POINTERS, "-fno-pie", "-no-pie")
    script = f'{PROBE} /comm == "first" || comm == "second"/ {{ print(ustack(2)); }}'
    tracer = trace(script, lambda: subprocess.run([first, "0", second], stdin=subprocess.DEVNULL, check=True))
    assert names(tracer.stdout) == ["early", "middle", "later", "middle"]
    assert "then to another" not in tracer.stderr


def test_another_program_at_the_same_addresses(tmp_path: Path) -> None:
    """What cannot be told apart is said: a name may be another program's."""
    first = compile_c(CHAIN.replace("leaf", "early").replace("top();", "top(); execv(argv[2], argv + 2);"), tmp_path,
                      "first", *POINTERS, "-fno-pie", "-no-pie")
    second = compile_c(CHAIN.replace("leaf", "later"), tmp_path, "second", *POINTERS, "-fno-pie", "-no-pie")
    script = f'{PROBE} /comm == "first" || comm == "second"/ {{ @[ustack(2)] = count(); }}'
    tracer = trace(script, lambda: subprocess.run([first, "0", second], stdin=subprocess.DEVNULL, check=True))
    assert "later" in names(tracer.stdout)
    assert re.search(r"WARNING: [1-9] address(es)? in user stacks belonged to one program of a process and then to "
                     "another: they have the later one's names", tracer.stderr)


def test_modes(target: Path) -> None:
    script = (f"uprobe:{target}:leaf {{ print(ustack(perf, 1)); print(ustack(raw, 1)); print(ustack(build_id, 1)); "
              "print(ustack(1)); print(usym(reg(\"pc\"))); }")
    lines = [line.strip() for line in trace(script, lambda: subprocess.run([target], check=True)).lines]
    address = lines[1]
    notes = subprocess.run(["readelf", "-nW", target], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r"Build ID: (\w+)", notes)
    assert build_id and len(lines) == 5
    assert lines[0] == f"{address} leaf+0 ({target})"
    assert re.fullmatch(rf"{build_id[1]} 0x[0-9a-f]+", lines[2])
    assert lines[3:] == ["leaf+0", "leaf"]


ENTERED = r"""
__attribute__((noinline)) int leaf(int n) { __asm__ volatile(""); return n + 1; }
__attribute__((noinline)) int middle(int n) { return leaf(n) + 1; }
__attribute__((noinline)) int top(int n) { return middle(n) + 1; }
__attribute__((noinline)) int deep(int n) { return n == 1 ? leaf(n) + 1 : deep(n - 1) + top(n); }
int main(void) { return top(1) + deep(200) == 0; }
"""


@pytest.mark.parametrize("option", ["-momit-leaf-frame-pointer", "-mno-omit-leaf-frame-pointer"])
def test_the_caller_of_a_function_at_its_first_instruction(option: str, tmp_path: Path) -> None:
    """It has no frame there, and some functions never make one."""
    target = compile_c(ENTERED, tmp_path, "entered", *POINTERS, "-O2", option, "-fno-ipa-cp", "-fno-ipa-icf")
    script = (f"uprobe:{target}:leaf {{ @all[ustack] = count(); @two[ustack(2)] = count(); @one[ustack(1)] = count(); "
              f"for ($i : 0..2) {{ @three[ustack(3)] = count(); }} }} "
              f"uprobe:{target}:_start {{ @start[ustack(2)] = count(); }}")
    done = run_sonde("-q", "-f", "json", "-e", script, "-c", str(target))
    maps: dict[str, dict[str, int]] = {}
    for line in done.stdout.splitlines():
        maps |= json.loads(line)["data"]

    def counts(map: str) -> dict[str, int]:
        return {" ".join(re.findall(r"^(\w+)\+", stack, re.M)): count for stack, count in maps[map].items()}
    assert counts("@one") == {"leaf": 201}
    assert counts("@two") == {"leaf middle": 200, "leaf deep": 1}
    assert counts("@three") == {"leaf middle top": 400, "leaf deep deep": 2}
    if this_arch().link_register is None:  # elsewhere the loader, which jumps there, is left in the register
        assert counts("@start") == {"_start": 1}
    chains = [["leaf", "middle", "top", *["deep"] * levels, "main"] for levels in range(127 - 4)]
    found = [stack.split() for stack in counts("@all")]
    assert all(chain in [stack[:len(chain)] for stack in found] for chain in chains)
    assert max(len(stack) for stack in found) == 127


INLINED = BARE_CALL + r"""
volatile int depth;
__attribute__((noinline)) void touch(void) { depth++; }
static inline __attribute__((always_inline)) void within(int n) { bare_getppid(); depth += n; }  /* within */
static inline __attribute__((always_inline)) void around(int n) { within(n); depth++; }  /* around */
__attribute__((noinline)) void outer(int n) { around(n); touch(); }  /* outer */
int main(int argc, char **argv) { outer(argc); depth++; return 0; }  /* main */
"""


def test_inlined_functions_and_source_lines(tmp_path: Path) -> None:
    """show_debug_info, in each mode, folded, and replayed from a recording elsewhere."""
    target = compile_c(INLINED, tmp_path, "inlined", *POINTERS, "-finline")
    source = INLINED.splitlines()
    lines = {name: next(at for at, line in enumerate(source, 1) if line.endswith(f"/* {name} */"))
             for name in ("within", "around", "outer", "main")}
    config = "config = { show_debug_info = true } "
    probe = config + f'{PROBE} /comm == "inlined"/ '

    def run() -> None:
        subprocess.run([target], check=True)
    chain = [("within [inlined]", lines["within"]),
             ("around [inlined]", lines["around"]), (r"outer+\d+", lines["outer"]), (r"main+\d+", lines["main"])]
    plain = trace(probe + "{ print(ustack(2)); }", run).stdout
    found = re.findall(r"^ {8}(\S+(?: \[inlined\])?) \((.*):(\d+)\)$", plain, re.M)
    assert [re.sub(r"\+\d+", r"+\\d+", name) for name, _, _ in found] == [name for name, _ in chain], plain
    assert {file for _, file, _ in found} == {str(tmp_path / "inlined.c")}
    assert [int(line) for _, _, line in found] == [line for _, line in chain]
    perf = trace(probe + "{ print(ustack(perf, 2)); }", run).stdout
    assert re.findall(r"^\t[0-9a-f]+ (.+) \(.*inlined\)$", re.sub(r"\+\d+", "", perf), re.M) == [
        "within [inlined]", "around [inlined]", "outer", "main"]
    folded = trace(probe + "{ @[ustack(2)] = count(); }", run, "-f", "folded").stdout
    assert "main;outer;around;within 1" in folded.splitlines()
    kept = tmp_path / "kept"
    trace(probe + "{ print(ustack(2)); }", run, "-f", "recording", "-o", str(kept))
    target.unlink()
    replayed = re.sub(r"\+\d+", "", run_sonde("replay", str(kept)).stdout)
    assert re.sub(r"\+\d+", "", plain).strip() in replayed


def test_a_deleted_program(target: Path, tmp_path: Path) -> None:
    """While it runs its file can be read, though it has no name any more."""
    copy = tmp_path / "copy"
    shutil.copy(target, copy)
    with subprocess.Popen([copy, "wait"], stdin=subprocess.PIPE) as process, \
            Tracer("-e", f'{PROBE} /comm == "copy"/ {{ print(ustack(4)); exit(); }}') as tracer:
        copy.unlink()
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        tracer.wait()
        process.communicate(b"\n")
    assert names(tracer.stdout) == FRAMES


JIT = BARE_CALL + r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) void hook(int n) { bare_getppid(); printf("%d\n", n); }
int main(void)
{
#ifdef __x86_64__
    /* push rbp; mov rbp, rsp; mov rax, rdi; mov edi, esi; call rax; pop rbp; ret */
    unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3 };
#else
    /* stp x29, x30, [sp, -16]!; mov x29, sp; mov x8, x0; mov w0, w1; blr x8; ldp x29, x30, [sp], 16; ret */
    unsigned code[] = { 0xa9bf7bfd, 0x910003fd, 0xaa0003e8, 0x2a0103e0, 0xd63f0100, 0xa8c17bfd, 0xd65f03c0 };
#endif
    char path[64];
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *map;
    memcpy(page, code, sizeof code);
    memcpy(page + 64, code, sizeof code);
    __builtin___clear_cache((char *)page, (char *)page + 128);
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    for (int i = 0; i < 2; i++) {
        map = fopen(path, "a");
        fprintf(map, "%lx %x compiled_%d\n", (unsigned long)page + 64 * i, (int)sizeof code, i);
        fclose(map);
        ((void (*)(void (*)(int), int))(page + 64 * i))(hook, i);
        usleep(300000);
    }
    return 0;
}
"""


def test_code_that_was_made_at_run_time(tmp_path: Path) -> None:
    """/tmp/perf-PID.map, which grows while the program runs."""
    target = compile_c(JIT, tmp_path, "jit", *POINTERS)
    pids: list[int] = []

    def run() -> None:
        child = subprocess.Popen([target], stdout=subprocess.DEVNULL)
        pids.append(child.pid)
        assert child.wait() == 0

    try:
        tracer = trace(f"{PROBE} /comm == \"jit\"/ {{ print(ustack(3)); }}", run)
    finally:
        for pid in pids:
            Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
    assert names(tracer.stdout) == ["hook", "compiled_0", "main", "hook"]
    assert "compiled_1+" in tracer.stdout
