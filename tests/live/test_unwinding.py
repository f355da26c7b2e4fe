"""dw_ustack as a key and a value, which programs walk by unwind tables; stack, which has Python's functions too."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sonde.kernel.foreign.files import open_elf
from sonde.kernel.foreign.mapped import open_mapped
from support import BARE_CALL, compile_c, interpreters, run_sonde, trace

pytestmark = pytest.mark.skipif(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 1),
                                reason="a process's mappings are found in kernels whose BTF has them in a maple tree "
                                       "(Linux 6.1)")
X86 = os.uname().machine == "x86_64"
GUEST = bool(os.environ.get("SONDE_VM"))
SECONDS = 40 if GUEST else 4  # tables are read in this time, too, beside the program that is traced
with_pystack = pytest.mark.skipif(not X86, reason="pystack is for x86_64")

TARGET = Path(__file__).parents[1] / "unwind_target.c"
ROUNDS = int(os.environ.get("SONDE_UNWIND_ROUNDS", "20"))
CLOSE = "tracepoint:syscalls:sys_enter_close /pid == cpid && args.fd >= 1048576 && args.fd < 1073741824/"
GETPPID = "tracepoint:syscalls:sys_enter_getppid /pid == cpid/"
BARE = ("-O2", "-fomit-frame-pointer")
# Where code of aarch64 that has no table has called, only the caller's frame record says where the frame lies.
WITH_RECORDS = BARE if X86 else ("-O2",)

# leaf() makes the call; what is before it is a function made at run time, of some instructions with a frame pointer,
# which calls its second argument
JIT = r"""
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#define PART __attribute__((noinline))
""" + BARE_CALL + r"""
PART int leaf(int n) { return n + (int)(bare_getppid() & 1); }
PART int inner(int n) { volatile char room[200]; memset((void *)room, n, sizeof room); return leaf(room[n]) + 1; }
#ifdef __x86_64__
static const unsigned char made[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3 };
#else
static const unsigned made[] = { 0xa9bf7bfd, 0x910003fd, 0xd63f0020, 0xa8c17bfd, 0xd65f03c0 };
#endif
PART int outer(int n)
{
    int (*code)(int, int (*)(int)) =
        mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy((void *)code, made, sizeof made);
    __builtin___clear_cache((char *)code, (char *)code + sizeof made);
    return code(n, inner) + 1;
}
int main(int argc, char **argv) { (void)argv; return outer(argc) < 0; }
"""


def chains(text: str) -> list[tuple[list[str], int]]:
    """(names, count) of each key in ``@[dw_ustack]: count``."""
    return [(re.findall(r"^\s+(\S+?)(?:\+\d+)?$", frames, re.M), int(count))
            for frames, count in re.findall(r"^@\w*\[(.*?)^\]: (\d+)$", text, re.M | re.S)]


def in_order(wanted: list[str], found: list[str]) -> bool:
    rest = iter(found)
    return all(any(name == one for one in rest) for name in wanted)


@pytest.fixture(scope="module")
def jit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(JIT, tmp_path_factory.mktemp("jit"), "jit", *WITH_RECORDS)


@pytest.mark.exact
def test_equals_the_program_s_own(tmp_path: Path) -> None:
    """Through sorting and searching, signals, another stack, large and aligned frames, threads: against what the C
    library's backtrace() found at the same places."""
    target = compile_c(TARGET.read_text(), tmp_path, "target", *BARE, "-pthread")
    done = run_sonde("-c", f"{target} {tmp_path / 'noted'} {ROUNDS}",
                     "-e", f"{CLOSE} {{ $stack = dw_ustack(raw); printf(\"=%d %s\", args.fd, $stack); }}")
    noted = {int(number): frames for number, *frames in map(str.split, (tmp_path / "noted").read_text().splitlines())}
    found = {}
    for part in done.stdout.split("=")[1:]:
        number, _innermost, *frames = part.split()
        found[int(number)] = frames
    assert len(noted) > 50 * ROUNDS and "ends early" not in done.stderr
    wrong = [(number, noted[number], found.get(number)) for number in noted if found.get(number) != noted[number]]
    assert not wrong, f"{len(wrong)} of {len(noted)}: {wrong[0]}"


def test_as_key_and_value(jit: Path) -> None:
    done = run_sonde("-c", str(jit), "-e", f"{GETPPID} {{ @[dw_ustack] = count(); @kept = dw_ustack(2); "
                     "$here = (1, dw_ustack(1)); @both[$here] = 1; }")
    (names, count), (both, _) = chains(done.stdout)
    assert count == 1 and names[:2] == ["leaf", "inner"] and names[-1] == "_start"
    assert both == ["leaf"]
    assert re.search(r"^@kept: \n +leaf\+\d+\n +inner\+\d+\n$", done.stdout, re.M)
    assert "WARNING" not in done.stderr


def test_on_a_stacked_file_system(jit: Path, tmp_path: Path) -> None:
    """As containers have them: stat() has other numbers for a file than its mappings."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    shutil.copy(jit, tmp_path / "lower" / "jit")
    merged = tmp_path / "merged"
    options = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    if subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], capture_output=True).returncode:
        pytest.skip("no overlayfs can be mounted here")
    try:
        done = run_sonde("-c", str(merged / "jit"), "-e", f"{GETPPID} {{ @[dw_ustack] = count(); }}")
        build_id = open_elf(str(jit)).build_id
        if build_id:  # by the path in its layer, as Linux 6.16 reports it
            assert open_mapped("/jit", build_id.hex()).build_id == build_id
    finally:
        subprocess.run(["umount", "-l", merged], check=True)  # the file stays open
    (names, _), = chains(done.stdout)
    assert names[:2] == ["leaf", "inner"] and names[-1] == "_start" and "WARNING" not in done.stderr


def test_code_made_at_run_time_by_frame_pointers(jit: Path) -> None:
    done = run_sonde("-c", str(jit), "-e", f"{GETPPID} {{ @[dw_ustack] = count(); }}")
    (names, _), = chains(done.stdout)
    assert names[:2] == ["leaf", "inner"] and names[2].startswith("0x")
    assert in_order(["outer", "main", "_start"], names[3:]) and "WARNING" not in done.stderr


def test_a_file_without_tables_by_frame_pointers(tmp_path: Path) -> None:
    """On aarch64 functions that call nothing have a frame record only where that is asked for."""
    records = () if X86 else ("-mno-omit-leaf-frame-pointer",)
    target = compile_c(JIT, tmp_path, "plain", "-O0", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables",
                       *records)
    if shutil.which("objcopy") is None:
        pytest.skip("no objcopy")
    subprocess.run(["objcopy", "-R", ".eh_frame", "-R", ".eh_frame_hdr", target], check=True)
    done = run_sonde("-c", str(target), "-e", f"{GETPPID} {{ @[dw_ustack] = count(); }}")
    (names, _), = chains(done.stdout)
    assert in_order(["leaf", "inner", "outer", "main"], names)


def test_code_without_a_table_is_said(tmp_path: Path) -> None:
    """In a file that has one for other functions."""
    target = compile_c(JIT, tmp_path, "gaps", *BARE, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
    done = run_sonde("-c", str(target), "-e", f"{GETPPID} {{ @[dw_ustack] = count(); }}")
    (names, _), = chains(done.stdout)
    assert names == ["leaf"]
    assert "User stack ends early: in code without unwind table and frame pointers." in done.stderr


def test_deep_recursion_is_bounded_and_said(tmp_path: Path) -> None:
    deep = compile_c(JIT.replace("int main(int argc, char **argv) { (void)argv; return outer(argc) < 0; }",
                                 "PART int down(int n) { return n ? down(n - 1) + 1 : leaf(n); }\n"
                                 "int main(void) { return down(10) + down(500) < 0; }"), tmp_path, "deep", "-O1",
                     "-fomit-frame-pointer")
    done = run_sonde("-c", str(deep), "-e",
                     f"{GETPPID} {{ @[dw_ustack] = count(); @limited[dw_ustack(3)] = count(); }}")
    found = chains(done.stdout)
    assert sorted((names.count("down"), names[-1]) for names, _ in found) == [
        (2, "down"), (11, "_start"), (126, "down")]
    assert done.stderr.count("deeper than 127 frames") == 1


def test_stacks_before_a_table_is_there_are_counted(jit: Path, tmp_path: Path) -> None:
    """Of programs in files that nobody has seen, which end at once: each stack is whole, or said to be short."""
    count = 12

    def run_copies() -> None:
        for number in range(count):
            copy = tmp_path / f"copy{number}"
            shutil.copy(jit, copy)
            for _ in range(3):
                subprocess.run([copy], check=True)
        time.sleep(5)
        subprocess.run([copy], check=True)

    tracer = trace('tracepoint:syscalls:sys_enter_getppid /strncmp(comm, "copy", 4) == 0/ { @[dw_ustack] = count(); }',
                   run_copies)
    found = chains(tracer.stdout)
    assert sum(each for _, each in found) == 3 * count + 1
    whole = sum(each for names, each in found if names[-1] == "_start")
    early = re.search(r"ends early: the unwind table of a file had not been read yet\.(?: \[(\d+) times\])?",
                      tracer.stderr)
    assert whole + (int(early[1] or 1) if early else 0) == 3 * count + 1
    assert whole


def test_a_file_that_another_has_taken_the_place_of(tmp_path: Path) -> None:
    """A process runs what was there when it began; that is read, not what its path leads to now."""
    target = compile_c(JIT.replace("return outer(argc) < 0;", "for (;;) { outer(argc); usleep(10000); }").replace(
        "#include <string.h>", "#include <string.h>\n#include <unistd.h>"), tmp_path, "loops", *WITH_RECORDS)
    with subprocess.Popen([target]) as process:
        shutil.copy("/bin/true", tmp_path / "other")
        os.replace(tmp_path / "other", target)
        done = run_sonde("-e", f"tracepoint:syscalls:sys_enter_getppid /pid == {process.pid}/ "
                         f"{{ @[dw_ustack] = count(); }} interval:s:{SECONDS} {{ exit(); }}")
        process.kill()
    whole = [names for names, _ in chains(done.stdout) if names[-1] == "_start"]
    assert whole and all(in_order(["leaf", "inner", "outer", "main"], names) for names in whole), done


BUSY = """
import hashlib, json, re, threading, time, zlib
data, end = {"a": list(range(60)), "b": {"x": "y" * 100}}, time.time() + 300
def work():
    while time.time() < end:
        text = json.dumps(data)
        json.loads(text); re.sub("a+", "b", "aaab" * 100); sorted(range(300), key=lambda x: -x)
        zlib.compress(text.encode()); hashlib.sha256(text.encode() * 10).hexdigest()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(300)
"""


def test_wherever_a_timer_interrupts(tmp_path: Path) -> None:
    """CPython and what it calls, most of it without frame pointers: 999 of 1,000 stacks lead to where it began. In the
    guests of aarch64 nothing has symbols, and what counts is that they say that they end early."""
    target = tmp_path / "busy.py"
    # The code that is written by hand in aarch64's libcrypto has no tables; reading x86_64's takes a guest too long.
    target.write_text(BUSY if X86 and not GUEST else BUSY.replace(
        "hashlib.sha256(text.encode() * 10).hexdigest()", "hash(text)").replace("hashlib, ", ""))
    with subprocess.Popen([sys.executable, target]) as process:
        time.sleep(1)
        done = run_sonde("-p", str(process.pid), "-f", "folded",
                         "-e", f"profile:hz:499 {{ @[dw_ustack] = count(); }} interval:s:{SECONDS} {{ exit(); }}")
        process.kill()
    counts = {line.partition(";")[0]: 0 for line in done.stdout.splitlines()}
    for line in done.stdout.splitlines():
        counts[line.partition(";")[0]] += int(line.rpartition(" ")[2])
    total = sum(counts.values())
    began = sum(counts.get(name, 0) for name in ("_start", "__clone3", "clone3", "__clone", "clone")) if X86 else \
        total - sum(int(count or 1) for count in re.findall(r"ends early: [^.]*\.(?: \[(\d+) times\])?", done.stderr))
    assert total > 100 and 1000 * (total - began) <= total, (counts, done.stderr)


CALLS = """
import os, time
time.sleep(0.5)  # a process is known a moment after it began
def inner():
    os.getppid()
def outer():
    inner()
outer()
"""


@with_pystack
def test_stack_has_python_in_the_place_of_its_interpreter(tmp_path: Path) -> None:
    target = tmp_path / "calls.py"
    target.write_text(CALLS)
    command = f"{sys.executable} {target}"
    done = run_sonde("-c", command, "-e", f"{GETPPID} {{ @[stack] = count(); $s = stack(2); printf(\"%s\", $s); "
                     "@python[$s.python] = 1; }")
    frames = [line.strip() for line in done.stdout.partition("@[")[2].partition("]:")[0].splitlines()]
    python = ["inner", "outer", "<module>"]
    assert [frame.partition(" ")[0] for frame in frames if "calls.py:" in frame] == python
    assert frames[-1].startswith("<module>") and not any(frame.startswith("_PyEval") for frame in frames)
    names = [frame.partition("+")[0] for frame in frames]
    assert names.index("do_syscall_64") < names.index("os_getppid") < len(frames) - 3
    assert re.search(rf"^@python\[\n +inner \({target}:5\)\n +outer \({target}:7\)\n\]: 1$", done.stdout, re.M)
    folded = run_sonde("-c", command, "-f", "folded", "-e", f"{GETPPID} {{ @[comm, stack] = count(); }}").stdout
    assert re.search(r";<module> \(calls\.py:8\);outer \(calls\.py:7\);inner \(calls\.py:5\);.*os_getppid;.*_\[k\] 1$",
                     folded, re.M)
    lines = run_sonde("-c", command, "-f", "json", "-e", f"{GETPPID} {{ print(stack(1)); }}").stdout.splitlines()
    value, = [line["data"] for line in map(json.loads, lines) if line["type"] == "value"]
    assert value["python"] == f"\n        inner ({target}:5)\n"


MIXED = """
import os, re, threading, time
time.sleep(0.5)
def call():
    os.getppid()
def key(value):
    call()
    return value
class Thing:
    def __del__(self):
        call()
def each():
    call()
    yield 1
def work():
    sorted([1], key=key)
    sum(value for value in each())
    re.sub("a", lambda match: call() or "b", "a")
    Thing()
work()
"""


@with_pystack
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_stack_has_what_python_calls_between_its_functions(version: str, tmp_path: Path) -> None:
    """C functions stand between the Python function that has called them and the one that they call."""
    python = next(interpreters(version), None)
    if python is None or len(python) > 1:
        pytest.skip(f"python{version} is not installed")
    target = tmp_path / "mixed.py"
    target.write_text(MIXED)
    done = run_sonde("-c", f"{python[0]} {target}", "-f", "folded", "-e", f"{GETPPID} {{ @[stack] = count(); }}")
    found = [re.sub(r" \(\S+\)", "", line).split(";") for line in done.stdout.splitlines()]
    called = [["key"], ["work.<locals>.<genexpr>", "each"], ["work.<locals>.<lambda>"], ["Thing.__del__"]]
    assert len(found) == len(called), done
    for chain in called:
        frames = next(frames for frames in found if chain[0] in frames)
        assert in_order(["<module>", "work", *chain, "call", "getppid"], frames)
        assert frames.index(chain[0]) > frames.index("work") + 1  # sorted(), sum(), sub(), and what frees an object
    assert not any(name.startswith(("_PyEval_", "PyEval_")) for frames in found for name in frames)


def test_stack_of_a_native_program(jit: Path) -> None:
    done = run_sonde("-c", str(jit), "-e", f"{GETPPID} {{ @[stack] = count(); }}")
    (names, _), = chains(done.stdout)
    assert in_order(["do_syscall_64" if X86 else "do_el0_svc", "leaf", "inner", "outer", "main", "_start"], names)


# Functions written by hand whose tables say what is not so: each makes getppid(), and from each the walk cannot go on.
ODD = r"""
#ifdef __x86_64__
#define CALL "mov $110, %eax\nsyscall\n"
#else
#define CALL "mov x8, #173\nsvc #0\n"
#endif
#define ODD(name, before, cfi, after) \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n.cfi_startproc\n" before \
            cfi "\n" CALL after "ret\n.cfi_endproc\n.size " #name ", .-" #name "\n"); \
    void name(void);
#ifdef __x86_64__
ODD(by_rule, "", ".cfi_def_cfa %rcx, 8", "")
ODD(by_read, "", ".cfi_def_cfa_offset 200000", "")
ODD(by_map, "push $0x1230\n", ".cfi_def_cfa_offset 8", "add $8, %rsp\n")
ODD(by_loop, "", ".cfi_def_cfa_offset -64", "")
#else
ODD(by_rule, "", ".cfi_def_cfa x5, 16", "")
ODD(by_read, "", ".cfi_def_cfa_offset 60000\n.cfi_offset x30, -16", "")
ODD(by_map, "mov x9, #0x1230\nstr x9, [sp, #-16]!\n", ".cfi_def_cfa_offset 16\n.cfi_offset x30, -16",
    "add sp, sp, #16\n")
ODD(by_loop, "", ".cfi_offset x30, -16", "")
#endif
#define CALLER(name) __attribute__((noinline)) void call_##name(void) { name(); __asm__ volatile(""); }
CALLER(by_rule) CALLER(by_read) CALLER(by_map) CALLER(by_loop)
int main(void)
{
    for (int i = 0; i < 3; i++) { call_by_rule(); call_by_read(); call_by_map(); call_by_loop(); }
    return 0;
}
"""
ENDS = {"by_rule": "at a rule of the unwind table that programs do not know", "by_read": "memory is not there",
        "by_map": "at an address that is not mapped", "by_loop": "it leads nowhere"}


def test_each_way_to_end_early_is_counted(tmp_path: Path) -> None:
    """By what ended it, as often as it happened; what was found before is shown."""
    target = compile_c(ODD, tmp_path, "odd", *BARE, "-no-pie")
    done = run_sonde("-c", str(target), "-e", f"{GETPPID} {{ @[dw_ustack] = count(); }}")
    found = {names[0]: (names[1:], count) for names, count in chains(done.stdout)}
    assert found == {name: (["0x1230"] if name == "by_map" else [], 3) for name in ENDS}
    for text in ENDS.values():
        assert done.stderr.count(f"User stack ends early: {text}. [3 times]") == 1, done.stderr


def test_a_damaged_table_is_refused_and_said(tmp_path: Path) -> None:
    """Stacks that come by the file end there; the file is named."""
    if shutil.which("objcopy") is None:
        pytest.skip("objcopy is not installed")
    target = compile_c(JIT, tmp_path, "damaged", *BARE)
    section = tmp_path / "section"
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.eh_frame", target, section], check=True)
    data = bytearray(section.read_bytes())
    data[4 + 4 + 1 + 3 + 1:40] = b"\xff" * len(data[13:40])  # the augmentation's length, and what follows
    section.write_bytes(data)
    subprocess.run(["objcopy", f"--update-section=.eh_frame={section}", target], check=True)
    done = run_sonde("-c", str(target), "-e", f"{GETPPID} {{ @[dw_ustack] = count(); }}")
    (names, count), = chains(done.stdout)
    assert names[0] == "leaf" and count == 1
    assert "User stack ends early: in a file that is not read." in done.stderr and str(target) in done.stderr


# Of each frame that is on the stack, not only in the source, where in its page it is: the same wherever it is mapped.
WALK = """python
frame = gdb.newest_frame()
while frame is not None:
    if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
        print("PLACE", frame.pc() & 0xfff)
    frame = frame.older()
end
"""


def test_equals_what_gdb_says(tmp_path: Path) -> None:
    """At a system call in the midst of the C library's sorting, in a signal's handler: the same places, to the
    outermost."""
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")
    source = BARE_CALL + r"""
#include <signal.h>
#include <stdlib.h>
#define PART __attribute__((noinline))
static int calls;
PART static int compare(const void *a, const void *b)
{
    if (++calls == 5) bare_getppid();
    return *(const int *)a - *(const int *)b;
}
PART static int sort(int n)
{
    int some[64];
    for (int i = 0; i < 64; i++) some[i] = (i * 37 + n) & 63;
    qsort(some, 64, sizeof *some, compare);
    return some[n & 63];
}
PART static void handle(int number) { calls = 0; sort(number); }
int main(int argc, char **argv) { (void)argv; signal(SIGUSR1, handle); raise(SIGUSR1); return sort(argc) < 0; }
"""
    target = compile_c(source, tmp_path, "sorting", *BARE)
    done = run_sonde("-c", str(target), "-e", f"{GETPPID} {{ @[dw_ustack(raw)] = count(); }}")
    ours = [int(line, 16) & 0xfff for line in re.findall(r"^([0-9a-f]+)$", done.stdout, re.M)]
    script = tmp_path / "walk"
    script.write_text("\n".join([
        "set debuginfod enabled off", "set backtrace past-main on", "set backtrace past-entry on",
        "handle SIGUSR1 nostop noprint pass", "catch syscall getppid", "run", WALK, "kill"]))
    done = subprocess.run(["gdb", "-batch", "-nx", "-x", script, target], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    theirs = [int(each) for each in re.findall(r"^PLACE (\d+)$", done.stdout, re.M)]
    assert len(theirs) > 10, done.stdout + done.stderr
    assert ours == theirs
