"""Return probes harm no program: what is unwound, or reads its own stacks, is probed at return instructions, and
refused where these are not known or not wanted; plain C is traced by the kernel's return probe."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import Tracer, compile_c, run_sonde

CPP = r"""
#include <cstdio>
#include <stdexcept>
struct Guard { int &n; __attribute__((noipa)) ~Guard() { n++; } };
static int guarded;
extern "C" __attribute__((noipa)) int leaf(int x) { if (x % 3 == 0) throw std::runtime_error("third"); return x; }
extern "C" __attribute__((noipa)) int middle(int x) { Guard guard{guarded}; return leaf(x) + 1; }
extern "C" __attribute__((noipa)) int work(int x) { try { return middle(x); } catch (std::exception &) { return -1; } }
int main()
{
    long sum = 0;
    getchar();
    for (int i = 0; i < 300; i++)
        sum += work(i);
    printf("%ld %d\n", sum, guarded);
}
"""
RUST = r"""
use std::io::Read;
#[no_mangle] #[inline(never)] pub extern "C-unwind" fn leaf(x: i32) -> i32 { if x % 3 == 0 { panic!("third") } x }
#[no_mangle] #[inline(never)] pub extern "C-unwind" fn middle(x: i32) -> i32 { leaf(x) + 1 }
#[no_mangle] #[inline(never)] pub fn work(x: i32) -> i32 { std::panic::catch_unwind(|| middle(x)).unwrap_or(-1) }
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    std::io::stdin().read(&mut [0]).unwrap();
    println!("{}", (0..300).map(|x| work(x) as i64).sum::<i64>());
}
"""
GO = r"""
package main
import ("fmt"; "os")
//go:noinline
func leaf(n int) int {
    var room [512]int
    room[n % 512] = n
    if n == 0 { return room[0] }
    return room[n % 512] + leaf(n - 1)
}
//go:noinline
func middle(n int) int { return leaf(n) + 1 }
//go:noinline
func work(n int) int { return middle(n % 50) }
func main() {
    os.Stdin.Read(make([]byte, 1))
    done := make(chan int)
    for g := 0; g < 4; g++ {
        go func(g int) { sum := 0; for i := 0; i < 75; i++ { sum += work(i + g) }; done <- sum }(g)
    }
    fmt.Println(<-done + <-done + <-done + <-done)
}
"""
C = r"""
#include <stdio.h>
#include <dlfcn.h>
#include <setjmp.h>
static jmp_buf there;
__attribute__((noipa)) int leaf(int x) { if (x % 3 == 0) longjmp(there, 1); return x; }
__attribute__((noipa)) int work(int x) { return setjmp(there) ? -1 : leaf(x); }
int main(int argc, char **argv)
{
    long sum = 0;
    for (int i = 0; i < 300; i++)
        sum += work(i);
    printf("%ld %d %d\n", sum, argc, dlsym(RTLD_NEXT, "malloc") != NULL);
}
"""


def build_cpp(folder: Path) -> Path:
    return _build(folder, "g++", "t.cc", CPP, "-O1", "-g")


def build_static_cpp(folder: Path) -> Path:
    return _build(folder, "g++", "t.cc", CPP, "-O1", "-static")


def build_rust(folder: Path) -> Path:
    return _build(folder, "rustc", "t.rs", RUST, "-O", "-g")


def build_go(folder: Path) -> Path:
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    (folder / "t.go").write_text(GO)
    subprocess.run(["go", "build", "-o", folder / "prog", folder / "t.go"], check=True, cwd=folder)
    return folder / "prog"


def _build(folder: Path, compiler: str, name: str, source: str, *flags: str) -> Path:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    (folder / name).write_text(source)
    subprocess.run([compiler, *flags, "-o", folder / "prog", folder / name], check=True)
    return folder / "prog"


@pytest.fixture(scope="module", params=[build_cpp, build_static_cpp, build_rust, build_go])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield request.param(tmp_path_factory.mktemp("returns"))


def commands(program: Path) -> tuple[list[list[str]], list[list[str]]]:
    """Commands that name functions of the program: those by returns, and those by calls alone."""
    prefix = "main." if b"runtime.gopanic" in program.read_bytes() else ""
    place = f"{program}:{prefix}"
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines()
    address = next(line.split()[0] for line in symbols if line.endswith(f" {prefix}leaf"))
    by_return = [
        *[["-e", f"uretprobe:{place}{name} {{ @ = count(); }}"] for name in ("leaf", "middle", "work", "*")],
        ["-e", f"ur:{program}:0x{address} {{ @ = count(); }}"],
        ["-e", f'uretprobe:{program}:cpp:"{prefix}leaf" {{ @ = count(); }}'],
        ["-e", f"uretprobe:{program.parent}/*:{prefix}leaf {{ @ = count(); }}"],
        ["funclatency", f"{place}leaf"], ["funcslower", f"{place}middle"], ["trace", f"r:{program}:{prefix}leaf"],
        ["argdist", "-C", f"r:{program}:{prefix}leaf():int:$retval"]]
    by_call = [["funccount", f"uprobe:{place}leaf"], ["stackcount", f"uprobe:{place}middle"],
               ["-e", f"uprobe:{place}work {{ @[ustack(5)] = count(); }}"]]
    return by_return, by_call


def test_a_program_that_is_unwound_lives(program: Path) -> None:
    """It meets every command that names a function of it, and prints what it prints without them."""
    alone = subprocess.run([program], input=b"\n", capture_output=True, timeout=60)
    by_return, by_call = commands(program)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for command in by_return:
            refused = run_sonde("-p", str(process.pid), "--returns", "kernel", *command)
            assert refused.returncode == 1 and "could end the traced program" in refused.stderr, command
            assert "HINT: its calls are seen without harm by uprobe:" in refused.stderr
            assert "HINT: --returns instructions sets the probes at its return instructions" in refused.stderr
        output = process.communicate(b"\n", timeout=60)[0]
    assert (process.returncode, output) == (alone.returncode, alone.stdout) == (0, alone.stdout)
    for command in by_call + by_return:
        with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process, \
                Tracer("-p", str(process.pid), *command) as tracer:
            output = process.communicate(b"\n", timeout=60)[0]
        assert (process.returncode, output) == (0, alone.stdout), command
        counts = command in by_call or command[0] == "-e"
        assert not counts or re.search(r": [1-9]\d*$", tracer.stdout, re.M), command


def test_plain_c_is_traced(tmp_path: Path) -> None:
    """Returns are counted, also beside longjmp; what a pattern must leave out is said, and the output is the same."""
    program = compile_c(C, tmp_path, "prog", "-fno-inline")
    alone = subprocess.run([program], capture_output=True, check=True, text=True).stdout
    work = run_sonde("-c", str(program), "-e", f"uretprobe:{program}:work {{ @ = count(); }}")
    assert alone in work.stdout and "@: 300" in work.stdout and "could end" not in work.stderr
    everything = run_sonde("-c", str(program), "-e",
                           f"uretprobe:{program}:* {{ @[func] = count(); }} uretprobe:libc:*jmp* {{ @c = count(); }}")
    assert alone in everything.stdout and "@[leaf]: 200" in everything.stdout
    assert f"left out, since they could end the traced program: uretprobe:{program}:_start" in everything.stderr


@pytest.mark.parametrize("function", ["_setjmp", "dlsym", "__sigsetjmp", "getcontext", "qsort"])
def test_functions_of_libc_that_would_harm(function: str) -> None:
    refused = run_sonde("--returns", "kernel", "-e", f"uretprobe:libc:{function} {{ @ = count(); }}")
    assert refused.returncode == 1 and f":{function} could end the traced program" in refused.stderr


def test_they_are_not_listed(tmp_path: Path) -> None:
    program = compile_c(C, tmp_path, "prog")
    listed = run_sonde("-l", f"uretprobe:{program}:*")
    assert f"uretprobe:{program}:leaf" in listed.stdout.splitlines() and ":_start" not in listed.stdout
    assert "1 function is left out" in listed.stderr and "NOTE" not in listed.stderr
    program = build_cpp(tmp_path)
    listed = run_sonde("-l", f"uretprobe:{program}:*")
    assert {f"uretprobe:{program}:{name}" for name in ("leaf", "middle", "work")} <= {*listed.stdout.splitlines()}
    assert re.search(r"NOTE: \d+ functions are probed at the return instructions", listed.stderr)


PARTS = """
void part(void) __asm__("work.cold");
void part(void) { }
int work(int x) { return x; }
int main(void) { part(); return work(0); }
"""


@pytest.mark.parametrize("kind", ["uprobe", "uretprobe"])
def test_parts_of_functions_are_listed_where_they_are_written(kind: str, tmp_path: Path) -> None:
    program = compile_c(PARTS, tmp_path, "prog")
    assert run_sonde("-l", f"{kind}:{program}:work*").stdout.splitlines() == [f"{kind}:{program}:work"]
    assert run_sonde("-l", f"{kind}:{program}:work.cold*").stdout.splitlines() == [f"{kind}:{program}:work.cold"]


def test_which_way_is_said(tmp_path: Path) -> None:
    program = build_cpp(tmp_path)
    plain = compile_c(C, tmp_path, "plain")

    def said(path: Path, *options: str) -> str:
        script = f"uretprobe:{path}:work {{ @ = count(); }} interval:ms:1 {{ exit(); }}"
        return run_sonde("-v", *options, "-e", script).stderr

    assert re.search(rf"^uretprobe:{program}:work: at \d return instructions?, which touches no", said(program), re.M)
    assert f"uretprobe:{plain}:work: kprobe" in said(plain)
    assert f"uretprobe:{plain}:work: at 1 return instruction, which" in said(plain, "--returns", "instructions")
    wrong = run_sonde("--returns", "stack", "-e", "begin { }")
    assert wrong.returncode == 1 and "--returns takes instructions or kernel" in wrong.stderr


def test_of_several_files_the_harmless_remain(tmp_path: Path) -> None:
    build_cpp(tmp_path).rename(tmp_path / "thrower")
    program = compile_c(C, tmp_path, "prog")
    traced = run_sonde("-c", str(program), "--returns", "kernel", "-e",
                       f"uretprobe:{tmp_path}/*:work {{ @ = count(); }}")
    assert "@: 300" in traced.stdout
    assert f"left out, since they could end the traced program: uretprobe:{tmp_path}/thrower:" in traced.stderr


def test_unsafe_attaches_all_the_same(tmp_path: Path) -> None:
    """work() catches itself, so nothing is unwound through its frame."""
    program = build_cpp(tmp_path)
    with Tracer("--unsafe", "--returns", "kernel", "-e", f"uretprobe:{program}:work {{ @ = count(); }}") as tracer:
        subprocess.run([program], input=b"\n", capture_output=True, check=True)
    assert "@: 300" in tracer.lines
    assert f"WARNING: uretprobe:{program}:work could end the traced program" in tracer.stderr
