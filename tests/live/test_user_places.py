"""Where traced programs are: other mount namespaces, libraries by name, processes to come, many functions at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.compiling import live_world
from support import Tracer, compile_c, run_sonde, trace

LIBRARY = "long twice(long n) { return 2 * n; }\n"
PROGRAM = r"""
#include <stdio.h>
long twice(long n);
long plus(long n) { return n + 1; }
volatile long sum;
int main(int argc, char **argv)
{
    if (argc > 1)
        getchar();
    for (int i = 0; i < 3; i++)
        sum += plus(twice(i));
    if (argc > 1)
        getchar();
    return 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libtwice.so.3 (whose soname that is) and a program that is linked against it."""
    folder = tmp_path_factory.mktemp("places")
    library = compile_c(LIBRARY, folder, "libtwice.so.3", "-shared", "-fPIC", "-Wl,-soname,libtwice.so.3")
    compile_c(PROGRAM, folder, "prog", "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{folder}")
    return folder


@pytest.fixture()
def contained(built: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program in a mount namespace of its own, where alone its files are."""
    place = tmp_path / "place"
    place.mkdir()
    setup = (f"mount --make-rprivate / && mount -t tmpfs none {place} && "
             f"cp {built}/prog {built}/libtwice.so.3 {place} && LD_LIBRARY_PATH={place} exec {place}/prog wait")
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", setup], stdin=subprocess.PIPE)
    while os.readlink(f"/proc/{process.pid}/exe") != f"{place}/prog":
        assert process.poll() is None
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


@pytest.mark.parametrize("library", ["libtwice.so.3", "twice", "*"])
def test_another_mount_namespace(contained: subprocess.Popen[bytes], library: str) -> None:
    """By the path that the process knows, and by its library's name; a stack has names as well."""
    path = os.readlink(f"/proc/{contained.pid}/exe")
    assert not os.path.exists(path)
    script = (f"uprobe:{path}:plus {{ @plus[pid] = sum(arg0); }} "
              f"uprobe:{library}:twice {{ @twice = sum(arg0); @stack[ustack(1)] = count(); }}")
    with Tracer("-p", str(contained.pid), "-e", script) as tracer:
        go(contained)
        contained.communicate(b"\n")
        tracer.wait()
    assert f"@plus[{contained.pid}]: 6" in tracer.lines and "@twice: 3" in tracer.lines
    assert re.search(r"@stack\[\n\s+twice\+0\n\]: 3", tracer.stdout)


def test_processes_to_come(built: Path) -> None:
    """Without -p: those that start later, and those that run already."""
    process = subprocess.Popen([built / "prog", "wait"], stdin=subprocess.PIPE)

    def work() -> None:
        process.communicate(b"\n\n")
        subprocess.run([built / "prog"], check=True)

    tracer = trace(f"uprobe:{built}/libtwice.so.3:twice {{ @[pid == {process.pid}] = sum(arg0); }}", work)
    assert tracer.lines == ["@[false]: 3", "@[true]: 3"]


def test_one_process_of_several(built: Path) -> None:
    """With -p and many probes in one link, the others are not seen."""
    process = subprocess.Popen([built / "prog", "wait"], stdin=subprocess.PIPE)
    script = f"uprobe:{built}/prog:plus, uprobe:{built}/libtwice.so.3:twice {{ @[probe, pid] = count(); }}"
    with Tracer("-p", str(process.pid), "-e", script) as tracer:
        subprocess.run([built / "prog"], check=True)
        process.communicate(b"\n\n")
        tracer.wait()
    assert sorted(tracer.lines) == [f"@[uprobe:{built}/libtwice.so.3:twice, {process.pid}]: 3",
                                    f"@[uprobe:{built}/prog:plus, {process.pid}]: 3"]


def test_many_functions(tmp_path: Path) -> None:
    """500 functions by one pattern: each is seen once, by its name."""
    source = "".join([f"void many_{i}(void) {{ __asm__ volatile(\"\"); }}\n" for i in range(500)])
    calls = "".join([f"many_{i}();" for i in range(500)])
    target = compile_c(f"{source}int main(void) {{ {calls} return 0; }}\n", tmp_path, "many")
    config = "config = { max_probes = 2000 } "
    tracer = trace(f"{config}uprobe:{target}:many_* {{ @[probe] = count(); }}",
                   lambda: subprocess.run([target], check=True))
    assert sorted(tracer.lines) == sorted([f"@[uprobe:{target}:many_{i}]: 1" for i in range(500)])
    assert "Attached 500 probes" in tracer.stderr


def test_functions_of_a_pattern_count_as_one(tmp_path: Path) -> None:
    """For max_probes, where one link serves them; not if each is asked for its name."""
    names = [f"many_{i}" for i in range(30)]
    source = "".join([f"void {name}(void) {{ __asm__ volatile(\"\"); }}\n" for name in names])
    target = compile_c(f"{source}int main(void) {{ {' '.join([f'{name}();' for name in names])} "
                       "return 0; }\n", tmp_path)
    config, together = "config = { max_probes = 2 } ", live_world().has_feature("uprobe_multi")
    for body, expected in (("@[func] = count();", together), ("@[probe] = count();", False)):
        done = run_sonde("-c", str(target), "-e", f"{config}uprobe:{target}:many_* {{ {body} }}")
        if expected:
            assert sorted(line for line in done.stdout.splitlines() if line) == sorted([f"@[{n}]: 1" for n in names])
        else:
            assert done.returncode == 1 and "Can't attach to 30 probes because it exceeds" in done.stderr


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that calls f_0 to f_19, and f_x, f_y and f_z, which the kernel cannot probe (a lock prefix)."""
    if os.uname().machine != "x86_64":
        pytest.skip("an instruction of x86_64's")
    plain = "".join([f"void f_{i}(void) {{ __asm__ volatile(\"\"); }}\n" for i in range(20)])
    locked = "".join([f"""__asm__(".globl f_{name}\\n.type f_{name},@function\\n"
        "f_{name}: lock incl counter(%rip)\\n ret\\n.size f_{name}, .-f_{name}");
        extern void f_{name}(void);\n""" for name in "xyz"])
    calls = " ".join([f"f_{name}();" for name in [*"xyz", *range(20)]])
    return compile_c(f"#include <stdio.h>\nint counter;\n{locked}{plain}int main(int argc, char **argv) {{ "
                     f"if (argc > 1) getchar(); {calls} return 0; }}\n", tmp_path_factory.mktemp("locked"), "locked",
                     "-no-pie")


@pytest.mark.parametrize("when", ["running", "to come", "command"])
def test_functions_that_cannot_be_probed_are_left_out_of_a_pattern(locked: Path, when: str) -> None:
    """Also where no process has the file in memory yet: the kernel would take the probes, and never install them."""
    script = f"uprobe:{locked}:f_* {{ @[func] = count(); }}"
    if when == "running":
        with subprocess.Popen([locked, "wait"], stdin=subprocess.PIPE) as process:
            tracer = trace(script, lambda: process.communicate(b"\n"))
    elif when == "to come":
        tracer = trace(script, lambda: subprocess.run([locked], check=True))
    else:
        with Tracer("-c", str(locked), "-e", script) as tracer:
            tracer.wait()
    assert sorted(tracer.lines) == sorted([f"@[f_{i}]: 1" for i in range(20)])
    assert "Attached 20 probes" in tracer.stderr
    assert re.search(r"left out, since the kernel cannot attach there: (\S+:f_[xyz](, )?){3}$", tracer.stderr, re.M)


@pytest.mark.parametrize("kind", ["uprobe", "uretprobe"])
@pytest.mark.parametrize("options", [[], ["-c"]])
def test_one_function_that_cannot_be_probed_is_an_error(locked: Path, kind: str, options: list[str]) -> None:
    """Though no process has the file in memory yet."""
    done = run_sonde(*[word for option in options for word in (option, str(locked))],
                     "-e", f"{kind}:{locked}:f_x {{ @x = count(); }} {kind}:{locked}:f_0 {{ @ = count(); }}")
    assert done.returncode == 255 and done.stdout == ""
    assert re.search(f"^ERROR: {kind}:{locked}:f_x: the instruction at offset 0x[0-9a-f]+ of {locked} cannot be probed",
                     done.stderr)


def test_nothing_is_left_behind(built: Path) -> None:
    """A killed tracer leaves no event, and the program runs on."""
    with Tracer("-e", f"uprobe:{built}/prog:plus {{ @ = count(); }}") as tracer:
        tracer.process.kill()
        tracer.process.wait()
        subprocess.run([built / "prog"], check=True)
    events = Path("/sys/kernel/tracing/uprobe_events")
    assert not events.exists() or str(built) not in events.read_text()
    done = run_sonde("-l", f"uprobe:{built}/prog:pl*")
    assert done.stdout == f"uprobe:{built}/prog:plus\n"


FLAT = r"""
import ctypes, mmap, sys
map_file = ctypes.CDLL(None).mmap  # not Python's: uprobes are not planted in mappings that may be written
map_file.restype, map_file.argtypes = ctypes.c_size_t, [ctypes.c_size_t] * 2 + [ctypes.c_int] * 3 + [ctypes.c_long]
with open(sys.argv[1], "rb") as file:
    code = map_file(0, 4096, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file.fileno(), 0)
function = ctypes.CFUNCTYPE(ctypes.c_int)(code + 16)
print(function() + function())
"""


TWENTY_ONE = {"x86_64": "b815000000 c3", "aarch64": "a0028052 c0035fd6"}  # returned


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    """Code that a process has mapped from a flat file, at offset 16."""
    flat, program = tmp_path / "flat.bin", tmp_path / "run.py"
    flat.write_bytes((b"\xcc" * 16 + bytes.fromhex(TWENTY_ONE[os.uname().machine])).ljust(4096, b"\0"))
    program.write_text(FLAT)
    script = f"uprobe:{flat}:0x10 {{ @ = count(); }}"
    done = run_sonde("--unsafe", "-q", "-c", f"{sys.executable} {program} {flat}", "-e", script)
    assert done.returncode == 0 and "42\n" in done.stdout and "@: 2\n" in done.stdout
    assert "Could not determine instruction boundary" in done.stderr
    assert "is not executable" in run_sonde("-e", script).stderr


def test_places_that_nobody_can_judge_take_unsafe(tmp_path: Path) -> None:
    """An address in no function, and a function without a size."""
    target = compile_c('__asm__(".text\\n.globl zero\\n.type zero,@function\\nzero: nop\\n ret\\n");\n'
                       "void zero(void);\nint main(void) { zero(); return 0; }\n", tmp_path, "zero")
    for place in ("zero", "0x10"):
        refused = run_sonde("-e", f"uprobe:{target}:{place} {{ }}")
        assert refused.returncode == 255 and "HINT: Use --unsafe to force attachment" in refused.stderr
    done = run_sonde("--unsafe", "-q", "-c", str(target), "-e", f"uprobe:{target}:zero {{ @ = count(); }}")
    assert done.stdout.endswith("@: 1\n")


UPGRADED = r"""
__attribute__((noipa)) long plus(long n)
{
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
                     "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte 0\n.8byte 0\n"
                     ".asciz \"mine\"\n.asciz \"plus\"\n.asciz \"\"\n994: .balign 4\n.popsection");
    return n + VERSION;
}
"""
RUNNING = r"""
#include <stdio.h>
long plus(long n);
int main(void)
{
    puts("ready");
    fflush(stdout);
    getchar();
    for (int i = 0; i < 5; i++)
        plus(i);
    return getchar() == 'x';
}
"""


@pytest.mark.parametrize("way", ["renamed over", "removed"])
@pytest.mark.parametrize("what", ["path", "relative", "library", "program"])
def test_a_file_that_was_replaced(what: str, way: str, tmp_path: Path) -> None:
    """Probes are in what the process has mapped, and it is said which file that is."""
    library = compile_c(UPGRADED, tmp_path, "libplus.so.1", "-shared", "-fPIC", "-DVERSION=1")
    program = compile_c(RUNNING, tmp_path, "prog", "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{tmp_path}")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        for path in (library, program):
            if way == "removed":
                path.unlink()
            else:
                (tmp_path / "new").write_bytes(path.read_bytes() + b"new")
                (tmp_path / "new").chmod(0o755)
                (tmp_path / "new").rename(path)
        place = {"path": str(library), "relative": os.path.relpath(library), "library": "libplus",
                 "program": str(program)}[what]
        function = "main" if what == "program" else "plus"
        static = "" if what == "program" else f" usdt:{place}:mine:plus {{ @usdt = count(); }}"
        script = f"uprobe:{place}:{function} {{ @ = count(); }}{static}"
        if what == "program":  # main has begun
            done = run_sonde("-p", str(process.pid), "--dry-run", "-v", "-e", script)
            assert done.returncode == 0, done.stderr
            stderr = done.stderr
        else:
            with Tracer("-p", str(process.pid), "-e", script) as tracer:
                go(process)
                process.communicate(b"\n")
                tracer.wait()
            assert "@: 5" in tracer.lines and "@usdt: 5" in tracer.lines
            stderr = tracer.stderr
        process.communicate()
    if way == "renamed over" and what != "library":
        assert f"{place} has been replaced since process {process.pid} mapped it" in stderr


def test_a_file_that_the_process_has_not_mapped(built: Path) -> None:
    with subprocess.Popen([built / "prog", "wait"], stdin=subprocess.PIPE) as process:
        copy = built / "copy"
        copy.write_bytes((built / "prog").read_bytes())
        done = run_sonde("-p", str(process.pid), "--dry-run", "-e",
                         f"uprobe:{copy}:plus {{ }} uprobe:libc:read {{ }}")
        assert f"process {process.pid} has not mapped {copy}" in done.stderr and "libc" not in done.stderr
        process.communicate(b"\n\n")
