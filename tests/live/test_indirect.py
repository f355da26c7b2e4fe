"""Functions whose code is chosen when the file is loaded: what programs call is counted, with arguments and results."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support import Tracer, compile_c, run_sonde

WORD, TIMES = "a-word-of-its-own", 100
WITH_MATH = ("-Wl,--no-as-needed", "-u", "sin", "-lm")
TARGET = r"""
#include <math.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    char *volatile word = "a-word-of-its-own", copy[64], *volatile to = copy;
    volatile size_t nine = 9, sum = strlen(word);
    volatile double total = sin(sum);
    memcpy(to, word, nine);
    getchar();
    for (int i = 0; i < 100; i++) {
        sum += strlen(word);
        total += sin(i);
        memcpy(to, word, nine);
    }
    printf("%zu %f\n", sum, total);
    return 0;
}
"""
CLONES = r"""
#include <stdio.h>
__attribute__((target_clones("avx2", "default"), noinline)) int work(int x) { return x * 3 + 1; }
static int plus_one(int x) { return x + 1; }
static int (*pick(void))(int) { return plus_one; }
int other(int) __attribute__((ifunc("pick")));
int main(void)
{
    int sum = work(1) + other(1);
    getchar();
    for (int i = 0; i < 100; i++)
        sum += work(i) + other(i);
    printf("%d\n", sum);
    return 0;
}
"""


def has_indirect(path: str) -> bool:
    listed = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True)
    return re.search(r"IFUNC.* strlen@@", listed.stdout) is not None


def script(libc: str, libm: str) -> str:
    return (f'uprobe:{libc}:strlen /str(arg0) == "{WORD}"/ {{ @length = count(); @[func] = count(); }} '
            f"uretprobe:{libc}:strlen /retval == {len(WORD)}/ {{ @returned = count(); }} "
            f"uprobe:{libm}:sin {{ @sin = count(); }} uprobe:{libc}:memcpy /arg2 == 9/ {{ @copied = count(); }}")


def run_and_count(program: Path, text: str, attached: str = "", **environment: str) -> str:
    """Trace one process by its number (or all of its command, where ``attached`` says so), which then goes on."""
    alone = subprocess.run([program], input=b"\n", capture_output=True, check=True).stdout
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment or None) as process:
        wanted = ("-p", str(process.pid)) if not attached else ()
        with Tracer(*wanted, "-e", text) as tracer:
            assert process.communicate(b"\n", timeout=60)[0] == alone
        assert process.returncode == 0
    return tracer.stdout


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = compile_c(TARGET, tmp_path_factory.mktemp("indirect"), "target", "-fno-builtin", *WITH_MATH)
    libc = re.search(r"\S*/libc\.so\S*", subprocess.run(["ldd", program], capture_output=True, text=True).stdout)
    if libc is None or not has_indirect(libc[0]):
        pytest.skip("this C library's strlen is not chosen when it is loaded")
    return program


def test_of_a_process(target: Path) -> None:
    stdout = run_and_count(target, script("libc", "libm"))
    for name in ("length", "returned", "sin", "copied"):
        assert f"@{name}: {TIMES}\n" in stdout, stdout


def test_as_the_process_chose(target: Path) -> None:
    """Another choice than this process's own."""
    plain = run_and_count(target, script("libc", "libm"))
    tuned = run_and_count(target, script("libc", "libm"),
                          GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2,-AVX512VL,-AVX512F,-AVX2_Usable")
    assert f"@length: {TIMES}\n" in tuned and f"@returned: {TIMES}\n" in tuned and f"@sin: {TIMES}\n" in tuned
    names = [re.findall(r"@\[(\w+)\]", text) for text in (plain, tuned)]
    if names[0] == names[1]:
        pytest.skip(f"this machine has but one choice: {names[0]}")


def test_of_all_processes(target: Path) -> None:
    filtered = script("libc", "libm").replace("uprobe:libm:sin", 'uprobe:libm:sin /comm == "target"/')
    filtered = filtered.replace(f"/retval == {len(WORD)}/", f'/comm == "target" && retval == {len(WORD)}/')
    filtered = filtered.replace("/arg2 == 9/", '/comm == "target" && arg2 == 9/')
    stdout = run_and_count(target, filtered, "all")
    for name in ("length", "sin", "copied"):
        assert f"@{name}: {TIMES}\n" in stdout, stdout


def test_by_patterns(target: Path) -> None:
    stdout = run_and_count(target, "uprobe:libc:strl*n /arg0/ { @[probe] = count(); } "
                                   "uprobe:libm:si*n { @s = count(); }")
    counted = re.search(r"@\[uprobe:\S*:strlen\]: (\d+)", stdout)
    assert counted is not None and int(counted[1]) >= TIMES and f"@s: {TIMES}\n" in stdout


def test_of_a_static_program(tmp_path: Path) -> None:
    """By the process's own slots, and without a process by the names of implementations."""
    try:
        program = compile_c(TARGET, tmp_path, "target", "-fno-builtin", "-static", *WITH_MATH)
    except subprocess.CalledProcessError:
        pytest.skip("needs a static C library")
    if not re.search(r"IFUNC.* strlen\b", subprocess.run(["readelf", "-Ws", program], capture_output=True,
                                                         text=True).stdout):
        pytest.skip("this C library's strlen is not chosen when it is loaded")
    text = script(str(program), str(program))
    for stdout in (run_and_count(program, text), run_and_count(program, text, "all")):
        for name in ("length", "returned", "sin", "copied"):
            assert f"@{name}: {TIMES}\n" in stdout, stdout


def test_of_a_program_of_its_own(tmp_path: Path) -> None:
    try:
        program = compile_c(CLONES, tmp_path)
    except subprocess.CalledProcessError:
        pytest.skip("needs a compiler that makes clones for targets")
    text = f"uprobe:{program}:work {{ @w = count(); }} uretprobe:{program}:work {{ @r = sum(retval); }} "
    other = f"uprobe:{program}:other {{ @o = count(); @a = sum(arg0); }}"
    stdout = run_and_count(program, text + other)
    assert [f"@{name}: {value}\n" in stdout for name, value in (
        ("w", 100), ("r", sum(3 * i + 1 for i in range(100))), ("o", 100), ("a", 4950))] == [True] * 4, stdout
    assert "@w: 100\n" in run_and_count(program, text, "all")
    refused = run_sonde("-e", other)
    assert refused.returncode == 1 and "is chosen when the file is loaded (IFUNC)" in refused.stderr


def test_what_the_kernel_serves(target: Path) -> None:
    refused = run_sonde("-e", "uprobe:libc:time { @ = count(); }")
    if refused.returncode == 0 or "vDSO" not in refused.stderr:
        pytest.skip("this C library's time() is code of its own")
    assert "cannot be probed: time is served by the kernel's vDSO" in refused.stderr
