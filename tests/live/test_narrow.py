"""32-bit programs: their functions, arguments on the stack, results, stacks, static probes, and libraries."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support import Tracer, compile_c, run_sonde

TIMES = 200
SOURCE = r"""
#include <stdio.h>
#include <string.h>
__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
        ".size _.stapsdt.base, 1\n.popsection\n");
__attribute__((noipa)) void fire(int i, const char *text, long k)
{
#ifdef __i386__
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
        "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .4byte 990b\n.4byte _.stapsdt.base\n.4byte 0\n"
        ".asciz \"app\"\n.asciz \"tick\"\n.asciz \"-4@%%eax 4@%%edx -4@%2\"\n994: .balign 4\n.popsection\n"
        :: "a"(i), "d"(text), "m"(k));
#endif
}
__attribute__((noipa)) int leaf(int a, const char *text, unsigned b) { return a + (int)strlen(text) - (int)b; }
__attribute__((noipa)) int middle(int a) { return leaf(a, "hello-32", 3) + 1; }
__attribute__((noipa)) long long wide(long long x) { return x * 3; }
int main(void)
{
    long long sum = 0;
    volatile int warm = leaf(1, "hello-32", 1);
    getchar();
    for (int i = 0; i < 200; i++) {
        sum += middle(i) + wide(0x100000000LL + i);
        fire(-i, "name32", 7 * i);
    }
    printf("%lld\n", sum);
    return 0;
}
"""
SUM = TIMES * (TIMES - 1) // 2


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compile(tmp_path_factory.mktemp("narrow"), "narrow", "-m32")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compile(tmp_path_factory.mktemp("wide"), "wide")


def _compile(folder: Path, name: str, *flags: str) -> Path:
    if "-m32" in flags:
        (folder / "try.c").write_text("#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n")
        compiler = shutil.which("gcc")
        made = compiler and subprocess.run([compiler, "-m32", "-o", folder / "try", folder / "try.c"],
                                           capture_output=True)
        if not made or made.returncode or subprocess.run([folder / "try"], capture_output=True).returncode:
            pytest.skip("gcc-multilib is not installed")
    return compile_c(SOURCE, folder, name, "-fno-builtin", "-fno-omit-frame-pointer", *flags)


def run(program: Path, script: str) -> str:
    """What the script printed about one process, whose own output is as ever."""
    alone = subprocess.run([program], input=b"\n", capture_output=True, check=True).stdout
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        with Tracer("-p", str(process.pid), "-e", script) as tracer:
            assert process.communicate(b"\n", timeout=60)[0] == alone
        assert process.returncode == 0
    return tracer.stdout


def test_arguments_and_results(narrow: Path) -> None:
    stdout = run(narrow, f'uprobe:{narrow}:leaf /str(arg1) == "hello-32"/ {{ @a = sum(arg0); @b = sum(arg2); '
                         f"@n = count(); @f[func] = count(); }} uretprobe:{narrow}:middle {{ @r = sum(retval); }}")
    expected = {"a": SUM, "b": 3 * TIMES, "n": TIMES, "f[leaf]": TIMES, "r": SUM + 6 * TIMES}
    assert [name for name, value in expected.items() if f"@{name}: {value}\n" not in stdout] == [], stdout


def test_results_of_64_bits_are_in_two_registers(narrow: Path) -> None:
    stdout = run(narrow, f'uretprobe:{narrow}:wide {{ @w = sum(retval | (uint64)reg("dx") << 32); '
                         "@low = max(retval); }")
    assert f"@w: {3 * (SUM + TIMES * 2 ** 32)}\n" in stdout and f"@low: {3 * (TIMES - 1)}\n" in stdout


def test_stacks(narrow: Path) -> None:
    stdout = run(narrow, f"uprobe:{narrow}:leaf {{ @[ustack(3)] = count(); @s[usym(reg(\"ip\"))] = count(); }}")
    frames = re.findall(r"^\s+(\w+)\+\d+$", stdout, re.M)
    assert frames == ["leaf", "middle", "main"] and f"]: {TIMES}\n" in stdout and f"@s[leaf]: {TIMES}\n" in stdout


def test_static_probes(narrow: Path) -> None:
    stdout = run(narrow, f"usdt:{narrow}:app:tick {{ @a = sum(arg0); @s[str(arg1)] = count(); @k = sum(arg2); }}")
    assert [part in stdout for part in (f"@a: {-SUM}\n", f"@s[name32]: {TIMES}\n", f"@k: {7 * SUM}\n")] == [True] * 3


def test_libraries(narrow: Path) -> None:
    """Of the process's own C library, whose strlen may be an indirect function."""
    stdout = run(narrow, 'uprobe:libc:strlen /str(arg0) == "hello-32"/ { @n = count(); } '
                         "uretprobe:libc:strlen /retval == 8/ { @r = count(); }")
    assert f"@n: {TIMES}\n" in stdout and f"@r: {TIMES}\n" in stdout


def test_beside_others(narrow: Path, wide: Path) -> None:
    """One clause for programs of both kinds."""
    script = (f"uprobe:{narrow}:leaf,uprobe:{wide}:leaf {{ @a[probe] = sum(arg0); @b[probe] = sum(arg2); }} "
              f"uretprobe:{narrow}:middle,uretprobe:{wide}:middle {{ @r[probe] = sum(retval); }}")
    for program in (narrow, wide):
        stdout = run(program, script)
        place = f"probe:{program}"
        for line in (f"@a[u{place}:leaf]: {SUM}", f"@b[u{place}:leaf]: {3 * TIMES}",
                     f"@r[uret{place}:middle]: {SUM + 6 * TIMES}"):
            assert line + "\n" in stdout, stdout


@pytest.mark.parametrize("point, words", [
    ("leaf+4 { }", "is a 32-bit program: there is no telling where its instructions start"),
    ("leaf { print(args.a); }", "the debug information of 32-bit programs is not read for arguments"),
])
def test_what_is_refused(narrow: Path, point: str, words: str) -> None:
    refused = run_sonde("-e", f"uprobe:{narrow}:{point}")
    assert refused.returncode != 0 and words in refused.stderr
