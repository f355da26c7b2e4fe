"""Tools for the runtimes of languages: each on a program that has the static probes that the runtimes document, and on
those runtimes that this machine has with their probes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from printed import rows
from sonde.kernel.types.world import LiveWorld
from support import Tracer, compile_c, run_sonde, wait_for

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the notes are written for x86_64")

# Every language at once. What is fired: outer() calls inner() three times, and that twice; a collection of 20 ms and
# one of none; five objects of 24 bytes; two loads; one exception; a thread.
SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
        ".size _.stapsdt.base, 1\n.popsection\n");

#define FIRE(provider, name, a, b, c, d, e) do { \
    register long fifth __asm__("r8") = (long)(e); \
    __asm__ volatile( \
    "990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte 0\n" \
    ".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"8@%%rdi 8@%%rsi 8@%%rdx 8@%%rcx 8@%%r8\"\n" \
    "994: .balign 4\n.popsection\n" \
    : : "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "c"((long)(d)), "r"(fifth) : "memory"); } while (0)

#define CALLS(function, provider, enter, leave, ARGUMENTS) \
static void inner_##function(void) { ARGUMENTS(provider, enter, "inner"); ARGUMENTS(provider, leave, "inner"); } \
static void outer_##function(void) { \
    ARGUMENTS(provider, enter, "outer"); \
    for (int i = 0; i < 3; i++) inner_##function(); \
    usleep(5000); \
    ARGUMENTS(provider, leave, "outer"); }

#define JAVA(provider, name, method) FIRE(provider, name, 1, "org/Appendix", 7, method "xyz", 5)
#define PERL(provider, name, method) FIRE(provider, name, method, "app.pl", 3, "main", 0)
#define PHP(provider, name, method) FIRE(provider, name, method, "app.php", 3, "App", "::")
#define PYTHON(provider, name, method) FIRE(provider, name, "app.py", method, 3, 0, 0)
#define RUBY(provider, name, method) FIRE(provider, name, "App", method, "app.rb", 3, 0)
#define TCL(provider, name, method) FIRE(provider, name, method, 1, 0, 0, 0)
CALLS(java, "hotspot", "method__entry", "method__return", JAVA)
CALLS(perl, "perl", "sub__entry", "sub__return", PERL)
CALLS(php, "php", "function__entry", "function__return", PHP)
CALLS(python, "python", "function__entry", "function__return", PYTHON)
CALLS(ruby, "ruby", "method__entry", "method__return", RUBY)
CALLS(tcl, "tcl", "proc__entry", "proc__return", TCL)

#define COLLECTIONS(provider, begin, end, first, second) \
    FIRE(provider, begin, first, 0, 0, 0, 0); usleep(20000); FIRE(provider, end, 17, 0, 0, 0, 0); \
    FIRE(provider, begin, second, 0, 0, 0, 0); FIRE(provider, end, 18, 0, 0, 0, 0)

static void *worker(void *unused) { return unused; }

int main(int argc, char **argv)
{
    pthread_t thread;
    clock_t begin;

    mlockall(MCL_CURRENT | MCL_FUTURE); /* a probe cannot wait for a page */
    getchar();
    for (begin = clock(); argc > 1 && clock() - begin < CLOCKS_PER_SEC / 2;) {} /* enough to be sampled */
    for (int i = 0; i < 2; i++) {
        outer_java(); outer_perl(); outer_php(); outer_python(); outer_ruby(); outer_tcl();
    }
    COLLECTIONS("hotspot", "gc__begin", "gc__end", 1, 0);
    COLLECTIONS("node", "gc__start", "gc__done", 4, 1);
    COLLECTIONS("python", "gc__start", "gc__done", 2, 0);
    COLLECTIONS("ruby", "gc__mark__begin", "gc__mark__end", 0, 0);
    COLLECTIONS("ruby", "gc__sweep__begin", "gc__sweep__end", 0, 0);
    for (int i = 0; i < 5; i++) {
        FIRE("hotspot", "object__alloc", 1, "org/Thing!", 9, 24, 0);
        FIRE("ruby", "object__create", "Thing", "app.rb", 3, 0, 0);
        FIRE("ruby", "string__create", 24, "app.rb", 3, 0, 0);
        FIRE("tcl", "obj__create", 0, 0, 0, 0, 0);
    }
    for (int i = 0; i < 2; i++) {
        FIRE("hotspot", "class__loaded", "org/App", 7, 0, 0, 0);
        FIRE("perl", "loading__file", "app.pl", 0, 0, 0, 0);
        FIRE("php", "compile__file__entry", "app.php", 0, 0, 0, 0);
        FIRE("python", "import__find__load__start", "app", 0, 0, 0, 0);
        FIRE("ruby", "require__entry", "app", "app.rb", 3, 0, 0);
    }
    FIRE("php", "exception__thrown", "Exception", 0, 0, 0, 0);
    FIRE("ruby", "raise", "ArgumentError", "app.rb", 3, 0, 0);
    FIRE("hotspot", "thread__start", "worker-one?", 10, 12, 4711, 0);
    FIRE("hotspot", "thread__stop", "worker-one?", 10, 12, 4711, 0);
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
    putchar('x');
    fflush(stdout);
    getchar();
    getchar();
    return 0;
}
"""
CLASSES = {"java": "org/App", "perl": "main", "php": "App", "python": "app.py", "ruby": "App", "tcl": ""}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(SOURCE, tmp_path_factory.mktemp("runtimes"), "tclperlnode")


class Program:
    """The program of all languages; ``run`` has it do its work once."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.process = subprocess.Popen([path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.pid = str(self.process.pid)

    def run(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"\n")
        assert self.process.stdout.read(1) == b"x"


@pytest.fixture()
def program(target: Path) -> Iterator[Program]:
    found = Program(target)
    yield found
    found.process.communicate(b"\n\n")


@pytest.fixture()
def busy(target: Path) -> Iterator[Program]:
    """The same program; it uses half a second of CPU before it does its work."""
    found = Program(target, "busy")
    yield found
    found.process.communicate(b"\n\n")


@pytest.fixture()
def others(target: Path) -> Iterator[Program]:
    """Another process of the same program, which must not be seen."""
    found = Program(target)
    yield found
    found.process.communicate(b"\n\n")


def counted(text: str, name: str) -> dict[str, int]:
    """``@name[key]: n`` or the counts of ``@name[key]: { .count = n, ... }``, by key."""
    return {key: int(n) for key, n in re.findall(rf"^@{name}\[(.*)\]: (?:{{ \.count = )?(\d+)", text, re.M)}


def totals(text: str, name: str) -> dict[str, int]:
    return {key: int(n) for key, n in re.findall(rf"^@{name}\[(.*)\]: .*\.total = (\d+)", text, re.M)}


@pytest.mark.parametrize("language", CLASSES)
def test_ucalls(program: Program, others: Program, language: str) -> None:
    """Eight calls; those of outer() last five milliseconds each at least, which are no part of inner()'s."""
    exact = {f"{CLASSES[language]}, outer": 2, f"{CLASSES[language]}, inner": 6}
    with Tracer("ucalls", "-l", language, program.pid) as plain, \
            Tracer(f"{language}calls", "-L", program.pid) as timed, \
            Tracer("ucalls", "-l", language, "-T", "1", "-p", program.pid) as top:
        others.run()
        program.run()
    assert f"Counting calls ({language}). " in plain.stdout
    assert counted(plain.stdout, "calls") == counted(timed.stdout, "us") == exact
    assert counted(top.stdout, "calls") == {f"{CLASSES[language]}, inner": 6}
    times = totals(timed.stdout, "us")
    assert times[f"{CLASSES[language]}, outer"] >= 10_000


def test_ucalls_of_all_languages_and_system_calls(program: Program) -> None:
    with Tracer("ucalls", "-S", program.pid) as tracer, Tracer("ucalls", "-l", "none", "-SLm", program.pid) as only:
        program.run()
    assert counted(tracer.stdout, "calls") == {
        f"{owner}, {method}": 2 * n for owner, n in [("org/App", 1), ("main", 1), ("App", 2), ("app.py", 1), ("", 1)]
        for method, n in [("outer", n), ("inner", 3 * n)]}  # PHP's and Ruby's class has one name
    sleeps = {text: sum(found.get(name, 0) for name in ("nanosleep", "clock_nanosleep")) for text, found in [
        ("plain", counted(tracer.stdout, "syscalls")), ("timed", counted(only.stdout, "syscall_ms"))]}
    assert sleeps == {"plain": 17, "timed": 17} and "@calls" not in only.stdout
    slept = sum(totals(only.stdout, "syscall_ms").get(name, 0) for name in ("nanosleep", "clock_nanosleep"))
    assert slept >= 12 * 5 + 5 * 20


def flow(text: str, language: str) -> list[str]:
    return [line[33:].rstrip() for line in text.splitlines() if re.match(r"\d+ +\d+ +\d+ +\d+ ", line)]


def test_uflow(program: Program) -> None:
    with Tracer("uflow", "-l", "perl", program.pid) as tracer, Tracer("perlflow", "-M", "inn", program.pid) as inner, \
            Tracer("uflow", "-l", "ruby", "-C", "Bpp", program.pid) as none, \
            Tracer("uflow", "-l", "tcl", "-f", "json", program.pid) as table:
        program.run()
    exact = ["-> main.outer", *["  -> main.inner", "  <- main.inner"] * 3, "<- main.outer"] * 2
    assert flow(tracer.stdout, "perl") == exact
    assert flow(inner.stdout, "perl") == ["-> main.inner", "<- main.inner"] * 6
    assert flow(none.stdout, "ruby") == []
    assert [str(row["METHOD"]).strip() for row in rows(table.stdout)] == \
        ["-> outer", *["-> inner", "<- inner"] * 3, "<- outer"] * 2
    assert {row["PID"] for row in rows(table.stdout)} == {int(program.pid)}


@pytest.mark.parametrize("language, kinds", [
    ("java", ["full", "partial"]), ("node", ["mark-sweep-compact", "scavenge"]),
    ("python", ["generation 2", "generation 0"]), ("ruby", ["mark", "mark", "sweep", "sweep"])])
def test_ugc(program: Program, language: str, kinds: list[str]) -> None:
    """A collection of 20 milliseconds and a short one."""
    with Tracer(f"{language}gc", "-f", "json", program.pid) as every, \
            Tracer("ugc", "-l", language, "-M", "20", "-m", "-f", "json", program.pid) as long, \
            Tracer("ugc", "-l", language, "-F", kinds[-1][:-1], "-f", "json", program.pid) as chosen:
        program.run()
    found = rows(every.stdout)
    assert [row["KIND"] for row in found] == kinds
    assert [int(str(row["LAT(us)"])) >= 20_000 for row in found] == [True, False] * (len(kinds) // 2)
    assert [row["FREED"] for row in found] == ([17, 18] if language == "python" else ["-"] * len(kinds))
    assert [row["KIND"] for row in rows(long.stdout)] == kinds[::2]
    assert [row["KIND"] for row in rows(chosen.stdout)] == [kind for kind in kinds if kinds[-1][:-1] in kind]


@pytest.mark.parametrize("language, objects, sizes", [
    ("java", {"org/Thing": 5}, {"org/Thing": 120}), ("ruby", {"Thing": 5, "String": 5}, {"String": 120}),
    ("tcl", {"Tcl_Obj": 5}, {})])
def test_uobjnew(program: Program, language: str, objects: dict[str, int], sizes: dict[str, int]) -> None:
    with Tracer(f"{language}objnew", program.pid) as both, \
            Tracer("uobjnew", "-l", language, "-C", "1", program.pid) as top:
        program.run()
    assert (counted(both.stdout, "objects"), counted(both.stdout, "bytes")) == (objects, sizes)
    assert len(counted(top.stdout, "objects")) == 1 and "@bytes" not in top.stdout


MALLOC = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { for (int i = 0; i < 40; i++) *(char volatile *)malloc(12345) = 1; return 0; }
"""


def test_uobjnew_of_c(tmp_path: Path) -> None:
    binary = compile_c(MALLOC, tmp_path, "mallocs", "-O0")
    done = run_sonde("cobjnew", "-c", str(binary))
    assert counted(done.stdout, "objects")["12345"] == 40 and counted(done.stdout, "bytes")["12345"] == 40 * 12345


def test_uthreads(program: Program) -> None:
    with Tracer("javathreads", "-f", "json", program.pid) as java, \
            Tracer("cthreads", "-f", "json", program.pid) as native, \
            Tracer("uthreads", "-f", "json", program.pid) as both:
        program.run()
    expected = [("start", 4711, "worker-one"), ("stop", 4711, "worker-one"), ("pthread", int(program.pid), "worker")]
    seen = {name: [(row["EVENT"], row["TID"], row["NAME"]) for row in rows(text)] for name, text in [
        ("java", java.stdout), ("c", native.stdout), ("both", both.stdout)]}
    assert seen == {"java": expected[:2], "c": expected[2:], "both": expected}


def test_ustat(program: Program) -> None:
    """Of one process and of the whole machine, in ten seconds; what no runtime tells is a dash."""
    with Tracer("ustat", "-C", "-f", "json", "-p", program.pid, "10", "1") as one, \
            Tracer("ustat", "-C", "-f", "json", "-S", "objnew", "10", "1") as every, \
            Tracer("perlstat", "-C", "-f", "json", "10", "1") as perl:
        program.run()
        for tracer in (one, every, perl):
            tracer.wait()
    exact = {"METHOD/s": 4.8, "GC/s": 0.8, "OBJNEW/s": 2.0, "CLOAD/s": 1.0, "EXCP/s": 0.2, "THR/s": 0.1}
    for tracer in (one, every):
        mine = [row for row in rows(tracer.stdout) if row["PID"] == int(program.pid)]
        assert [{name: float(str(row[name])) for name in exact} for row in mine] == [exact]
    mine = [row for row in rows(perl.stdout) if row["PID"] == int(program.pid)]
    assert [(row["GC/s"], float(str(row["METHOD/s"]))) for row in mine] == [("-", 0.8)]


@pytest.mark.parametrize("words", [
    ["ucalls", "-SL"], ["uflow", "-l", "perl"], ["ugc", "-l", "java"], ["uobjnew", "-l", "ruby"], ["uthreads"],
    ["ustat", "-C", "-p"], ["flame", "-f", "folded", "-p"]], ids=lambda words: words[0])
def test_each_replays_as_it_ran(words: list[str], busy: Program, tmp_path: Path) -> None:
    form, out = [word for word in words if word in ("-f", "folded")], tmp_path / "out"
    with Tracer(*words, busy.pid, "-o", str(out), "--record", str(tmp_path / "x")) as tracer:
        busy.run()
    seen = out.read_text()
    done = run_sonde("replay", *form, "-o", str(out), str(tmp_path / "x"))
    said = re.sub(rf"^(Wrote {out}|Detaching \d+ probes, which .*)\n", "", tracer.stderr, flags=re.M)
    assert (out.read_text(), done.stderr) == (seen, said) and "WARNING" not in said
    assert seen.count("\n") > 1, seen


def test_what_a_process_does_not_have() -> None:
    me = str(os.getpid())
    done = run_sonde("ucalls", "-l", "perl", me)
    assert done.returncode == 1 and f"ERROR: process {me} has no such static probes of perl" in done.stderr
    assert "lists all that it has" in done.stderr
    kernel = next(name for name in os.listdir("/proc") if name.isdigit() and not os.path.exists(f"/proc/{name}/exe"))
    done = run_sonde("ucalls", kernel)
    assert done.returncode == 1 and f"ERROR: process {kernel} shows none of its files" in done.stderr
    done = run_sonde("ugc", "-l", "perl", me)
    assert done.returncode == 1 and "ERROR: -l takes java, node, python or ruby, not 'perl'" in done.stderr
    done = run_sonde("ucalls", "-l", "none", me)
    assert done.returncode == 1 and "nothing to count without -S" in done.stderr
    done = run_sonde("ucalls", "-c", "/bin/true")
    assert done.returncode == 1 and "ERROR: /bin/true has no such static probes" in done.stderr


# --- the runtimes themselves --------------------------------------------------------------------------------------

PYTHON = """
import gc, sys
def leaf(n): return n
def outer(n):
    for i in range(n): leaf(i)
gc.disable()
sys.stdin.readline()
outer(10)
gc.collect()
try: leaf()
except TypeError: pass
import this_is_not_there
"""
PHP = """<?php
class Foo { function leaf($n) { return $n + 1; } }
function outer($n) { $f = new Foo; for ($i = 0; $i < $n; $i++) $f->leaf($i); }
fgets(STDIN);
outer(10);
"""
RUBY = """
class Foo
  def leaf(n); n + 1; end
  def outer(n); n.times { |i| leaf(i) }; end
end
STDIN.gets
Foo.new.outer(10)
30.times { Foo.new }
GC.start
"""
JAVA = """
public class App {
    static int leaf(int n) { return n + 1; }
    static Object[] keep = new Object[50];
    public static void main(String[] words) throws Exception {
        System.in.read();
        for (int i = 0, n = 0; i < 100; i++) n = leaf(n);
        for (int i = 0; i < 50; i++) keep[i] = new App();
        System.gc();
        Thread thread = new Thread(() -> {}, "worker-one");
        thread.start();
        thread.join();
        System.in.read();
        System.in.read();
    }
}
"""


def has_probes(program: str, probe: str) -> bool:
    found = shutil.which(program) or ""
    return bool(found) and any(p.name == probe for p in LiveWorld().usdt_probes(os.path.realpath(found)))


def run_after(command: list[str], tool: Callable[[str], Tracer], **environment: str) -> str:
    """What the tool shows of a command that waits for a line before it does its work, and for its end."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=os.environ | environment) as process:
        proc = Path(f"/proc/{process.pid}")
        reading = [str(LiveWorld().syscall_number("read")), "0x0"]  # of stdin: before Linux 5.16 wchan does not tell
        wait_for(lambda: re.search("read|wait", (proc / "wchan").read_text())
                 or (proc / "syscall").read_text().split()[:2] == reading)
        with tool(str(process.pid)) as tracer:
            process.communicate(b"\n")
            tracer.wait()
    return tracer.stdout


if has_probes("/usr/bin/python3", "function__return"):
    def test_python(tmp_path: Path) -> None:
        """Calls are counted as they return: all of them, for Python 3.11 too."""
        (tmp_path / "app.py").write_text(PYTHON)
        command = ["/usr/bin/python3", "-S", str(tmp_path / "app.py")]
        found = counted(run_after(command, lambda pid: Tracer("ucalls", pid)), "calls")
        assert (found[f"{tmp_path}/app.py, leaf"], found[f"{tmp_path}/app.py, outer"]) == (10, 1)
        text = run_after(command, lambda pid: Tracer("ugc", "-f", "json", "-F", "generation 2", pid))
        assert rows(text) and {row["KIND"] for row in rows(text)} == {"generation 2"}  # at its end it collects, too
        done = run_sonde("ucalls", "-c", "/usr/bin/python3 -S -c 'def f(): pass\nfor _ in range(25): f()'")
        assert counted(done.stdout, "calls")["<string>, f"] == 25

if has_probes("php", "function__entry"):
    def test_php(tmp_path: Path) -> None:
        (tmp_path / "app.php").write_text(PHP)
        command = ["php", str(tmp_path / "app.php")]
        found = counted(run_after(command, lambda pid: Tracer("ucalls", "-L", pid), USE_ZEND_DTRACE="1"), "us")
        assert (found["Foo, leaf"], found[", outer"]) == (10, 1)
        text = run_after(command, lambda pid: Tracer("phpflow", pid), USE_ZEND_DTRACE="1")
        assert flow(text, "php") == ["-> outer", *["  -> Foo.leaf", "  <- Foo.leaf"] * 10, "<- outer"]

if shutil.which("ruby"):
    def test_ruby(tmp_path: Path) -> None:
        (tmp_path / "app.rb").write_text(RUBY)
        command = ["ruby", "--disable-gems", str(tmp_path / "app.rb")]
        found = counted(run_after(command, lambda pid: Tracer("ucalls", "-L", pid)), "us")
        assert (found["Class, new"], found["Integer, times"]) == (31, 2)  # of methods written in Ruby 3.1 is silent
        assert counted(run_after(command, lambda pid: Tracer("uobjnew", pid)), "objects")["Foo"] == 31
        kinds = [row["KIND"] for row in rows(run_after(command, lambda pid: Tracer("rubygc", "-f", "json", pid)))]
        assert set(kinds) == {"mark", "sweep"}

if shutil.which("javac") and shutil.which("java"):
    @pytest.fixture(scope="module")
    def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("java")
        (folder / "App.java").write_text(JAVA)
        subprocess.run(["javac", "-d", str(folder), str(folder / "App.java")], check=True)
        return folder

    @pytest.mark.parametrize("tool, check", [
        ("ucalls -L", lambda text: counted(text, "us")["App, leaf"] == 100),
        ("uobjnew", lambda text: counted(text, "objects")["App"] == 50),
        ("ugc", lambda text: re.search(r"^ +[\d.]+ +\d+ +- full$", text, re.M)),
        ("uthreads", lambda text: len(re.findall(r" (?:start|stop) +worker-one$", text, re.M)) == 2)])
    def test_java(classes: Path, tool: str, check: Callable[[str], bool]) -> None:
        command = ["java", "-Xint", "-XX:+UseSerialGC", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:+ExtendedDTraceProbes",
                   "-cp", str(classes), "App"]
        text = run_after(command, lambda pid: Tracer(*tool.split(), pid))
        assert check(text), text
