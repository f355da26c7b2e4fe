"""Debug information of user programs: typed arguments and results, C++ names, source lines, stripped files.

The oracle is the program, whose source has the values.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import compile_c, run_sonde, trace

SOURCE = r"""
#include <stdlib.h>
#include <string.h>
enum color { RED, GREEN = 5, BLUE };
struct point { int x; int y; };
struct big { long a; long b; long c; char name[16]; };
struct mixed { double d; long n; };
struct node { struct node *next; int value : 5; unsigned flags : 11; const char *label; struct point at; };
char label[] = "first", word[] = "hello";

int plain(int a, const char *s, unsigned c, enum color k, _Bool ok, short neg, long seventh, unsigned char eighth)
{ return a + (int)strlen(s) + (int)c + k + ok + neg + (seventh < 0) + eighth; }

long structs(struct point p, struct big b, struct node *n, double d, int after, struct mixed m, int last)
{ return p.x + b.a + n->value + (long)d + after + m.n + last; }

struct big by_memory(int seed) { struct big b = { seed, 2, 3, "made" }; return b; }
static int half(int used, int unused) { return used * 2; }

struct point *find(struct point *p, int which)
{
    if (which == 0)
        return NULL;
    for (int i = 0; i < which; i++)
        p[i].x++;
    return p + which;
}

int main(int argc, char **argv)
{
    volatile struct node n = { 0, -3, 700, label, { 8, 9 } };
    struct big b = { 11, 12, 13, "bigname" };
    struct mixed m = { 0.5, 77 };
    struct point ps[3] = { { 1, 2 }, { 3, 4 }, { 5, 6 } }, p = { 21, 22 };
    volatile long r = strlen(label) + strlen(word) + argc;
    r += plain(-1, word, 3, GREEN, 1, -5, -7777777777L, 200);
    r += structs(p, b, (struct node *)&n, 1.5, 99, m, 31);
    r += by_memory(5).a;
    r += half((int)r, 2);
    r += find(ps, 2)->x;
    r += find(ps, 0) == NULL;
    return 0;
}
"""
LOOP = SOURCE.splitlines().index("        p[i].x++;") + 1
IF = SOURCE.splitlines().index("        return NULL;") + 1


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    level = str(request.param)
    return compile_c(SOURCE, tmp_path_factory.mktemp("types"), f"typed{level[1:]}", level, "-fno-ipa-cp")


def lines(target: Path, script: str) -> list[str]:
    tracer = trace(script, lambda: subprocess.run([target], check=True))
    assert "WARNING: Bad address" not in tracer.stderr
    return tracer.lines


def test_numbers_and_strings(target: Path) -> None:
    script = (f'uprobe:{target}:plain {{ printf("%d %s %u %s %d %d %ld %d\\n", args.a, str(args.s), args.c, args.k, '
              "args.ok, args.neg, args.seventh, args.eighth); }")
    assert lines(target, script) == ["-1 hello 3 GREEN 1 -5 -7777777777 200"]


def test_structs(target: Path) -> None:
    """By value in registers and on the stack, behind pointers, with bitfields; what comes after a struct is right."""
    script = (f"uprobe:{target}:structs {{ print(args.p); print(args.p.y); print(args.b.name); print(args.b.c); "
              "print(args.n->value); print(args.n->flags); print(args.n->at.y); print(str(args.n->label)); "
              "print((args.after, args.last)); }")
    assert lines(target, script) == ["{ .x = 21, .y = 22 }", "22", "bigname", "13", "29", "700", "9", "first",
                                     "(99, 31)"]


def test_all_arguments(target: Path) -> None:
    found = lines(target, f"uprobe:{target}:by_memory {{ print(args); @[args] = count(); }}")
    assert found == ["{ .seed = 5 }", "@[{ .seed = 5 }]: 1"]


def test_an_argument_that_a_vector_register_has(target: Path) -> None:
    done = run_sonde("-e", f"uprobe:{target}:structs {{ print(args.d) }}")
    assert done.returncode == 1 and "vector register" in done.stderr
    tracer = trace(f"uprobe:{target}:structs {{ print(args); exit(); }}", lambda: subprocess.run([target], check=True))
    assert "is without some: d is passed in a vector register" in tracer.stderr
    assert ".after = 99" in tracer.stdout and ", .d = " not in tracer.stdout  # aarch64 shows that of m


def test_an_argument_that_is_optimised_out(target: Path) -> None:
    optimised = "O2" in target.name
    function = "half*" if optimised else "half"
    done = run_sonde("--dry-run", "-e", f"uprobe:{target}:{function} {{ print(args.unused) }}")
    assert ("was optimised out" in done.stderr) == optimised == (done.returncode == 1)


def test_results(target: Path) -> None:
    script = (f"uretprobe:{target}:plain {{ print((int32)retval); }} "
              f"uretprobe:{target}:find /retval/ {{ print((retval->x, retval->y)); print(*retval); }}")
    assert lines(target, script) == [str(-1 + 5 + 3 + 5 + 1 - 5 + 1 + 200), "(5, 6)", "{ .x = 5, .y = 6 }"]


def test_source_lines(target: Path) -> None:
    name = f"{target.name}.c"
    assert lines(target, f"uprobe:{target}:@{name}:{LOOP} {{ @[func] = count(); }}") == ["@[find]: 2"]
    if "O0" in target.name:  # optimised, "return NULL" has no code of its own
        assert lines(target, f"uprobe:{target}:{name}:{IF} {{ @[probe] = count(); }}") == [
            f"@[uprobe:{target}:{name}:{IF}]: 1"]
    done = run_sonde("-e", f"uprobe:{target}:{name}:1 {{ }}")
    assert done.returncode == 1 and "has no code" in done.stderr and "nearest lines" in done.stderr
    done = run_sonde("-e", f"uprobe:{target}:typed.cc:{IF} {{ }}")
    assert done.returncode == 1 and f"did you mean {name}?" in done.stderr


def test_types_by_name(target: Path) -> None:
    script = f"uprobe:{target}:structs {{ print((sizeof(struct node), offsetof(struct node, at))); exit(); }}"
    assert lines(target, script) == ["(32, 24)"]
    script = f"uprobe:{target}:find {{ $p = (struct point *)arg0; print(($p->x, ((struct point *)arg0)[1].y)); }}"
    assert lines(target, script) == ["(1, 4)", "(2, 4)"]
    hidden = f"struct node {{ char c; }} uprobe:{target}:find {{ print(sizeof(struct node)); exit(); }}"
    assert lines(target, hidden) == ["1"]
    done = run_sonde("-e", f"uprobe:{target}:find {{ print(sizeof(struct nosuch)); }}")
    assert done.returncode == 1 and 'Cannot resolve unknown type "struct nosuch"' in done.stderr


def test_listing(target: Path) -> None:
    found = run_sonde("-lv", f"uprobe:{target}:structs,uretprobe:{target}:find").stdout.splitlines()
    assert found == [
        f"uprobe:{target}:structs", "    struct point p", "    struct big b", "    struct node* n", "    double d",
        "    int after", "    struct mixed m", "    int last",
        f"uretprobe:{target}:find", "    struct point* p", "    int which", "    struct point* retval"]


# ---- stripped files


def objcopy(*arguments: str | Path) -> None:
    if shutil.which("objcopy") is None:
        pytest.skip("objcopy is not installed")
    subprocess.run(["objcopy", *arguments], check=True)


@pytest.fixture(scope="module")
def stripped(target: Path) -> Path:
    """Without symbols and debug information, which are in a file beside it."""
    path, debug = target.with_suffix(".stripped"), target.with_suffix(".debug")
    objcopy("--only-keep-debug", target, debug)
    objcopy("--strip-all", f"--add-gnu-debuglink={debug}", target, path)
    return path


def test_a_separate_debug_file(stripped: Path) -> None:
    script = f"uprobe:{stripped}:structs {{ print((func, args.after, args.n->at.x)); }}"
    assert lines(stripped, script) == ["(structs, 99, 8)"]


def test_a_small_symbol_table(target: Path, tmp_path: Path) -> None:
    """.gnu_debugdata: symbols only, compressed."""
    inner, packed, path = tmp_path / "inner", tmp_path / "inner.xz", tmp_path / "small"
    objcopy("--strip-debug", target, inner)
    packed.write_bytes(lzma.compress(inner.read_bytes()))
    objcopy("--strip-all", f"--add-section=.gnu_debugdata={packed}", target, path)
    assert lines(path, f"uprobe:{path}:find {{ @[func, ustack(1)] = count(); }}") == [
        "@[find, ", "        find+0", "]: 2"]
    done = run_sonde("-e", f"uprobe:{path}:find {{ print(args) }}")
    assert done.returncode == 1 and "has no debug information" in done.stderr


def test_damaged_debug_information(target: Path, tmp_path: Path) -> None:
    """A message, whatever is in the sections."""
    garbage = tmp_path / "garbage"
    for section in (".debug_info", ".debug_line"):
        for filler in (b"\xff" * 3000,):
            garbage.write_bytes(filler)
            path = tmp_path / "damaged"
            objcopy(f"--update-section={section}={garbage}", target, path)
            for probe in ("structs { print(args.after) }", f"{target.name}.c:{LOOP} {{ }}"):
                done = run_sonde("--dry-run", "-e", f"uprobe:{path}:{probe}")
                assert done.returncode in (0, 1) and (done.returncode == 0 or "ERROR" in done.stderr)


@pytest.mark.parametrize("version", ["4", "5"])
def test_split_debug_information_is_named(tmp_path: Path, version: str) -> None:
    path = compile_c(SOURCE, tmp_path, "split", f"-gdwarf-{version}", "-gsplit-dwarf")
    done = run_sonde("-e", f"uprobe:{path}:find {{ print(args) }}")
    assert done.returncode == 1 and ".dwo files, which are not read" in done.stderr


def test_without_the_library(target: Path, tmp_path: Path) -> None:
    """What needs pyelftools says so, and how to get it."""
    blocked = tmp_path / "elftools"
    blocked.mkdir()
    (blocked / "__init__.py").write_text("raise ImportError('blocked')\n")
    from support import SOURCE as tree
    done = subprocess.run(
        [sys.executable, "-m", "sonde", "-e", f"uprobe:{target}:find {{ print(args) }}"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{tree}"}, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and "pyelftools" in done.stderr and "pip install pyelftools" in done.stderr


# ---- C++

CPP = r"""
#include <cstdio>
#include <string>
namespace ns {
struct base { int tag; };
struct point : base {
    int x, y;
    explicit point(int n) : base{n}, x(n), y(n * 2) {}
    int sum(int more) const;
};
int point::sum(int more) const { return x + y + more; }
int f(int a) { return a + 1; }
int f(const char *s) { return s[0]; }
template <class T> T twice(T v) { return v + v; }
struct loud { std::string s; loud(const loud &o) : s(o.s) {} loud() : s("loud") {} };
int by_address(loud l, int n) { return n + (int)l.s.size(); }
int reference(point &p) { return p.x; }
}
int main()
{
    ns::point p(3);
    ns::loud l;
    volatile long r = p.sum(4) + ns::f(1) + ns::f("abc") + ns::twice<int>(5) + ns::twice(6L) + ns::by_address(l, 7)
        + ns::reference(p);
    return 0;
}
"""


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def cpp(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    directory = tmp_path_factory.mktemp("cpp")
    (directory / "prog.cc").write_text(CPP)
    subprocess.run(["g++", "-g", str(request.param), "-fno-inline", "-fno-ipa-cp", "-o", directory / "prog",
                    directory / "prog.cc"], check=True)
    return directory / "prog"


def test_cpp_names(cpp: Path) -> None:
    script = (f'uprobe:{cpp}:cpp:"ns::f" {{ @f[probe] = count(); }} uprobe:{cpp}:cpp:"ns::f(int)" {{ print(args.a); }} '
              f'uprobe:{cpp}:cpp:"ns::tw*" {{ @t = count(); }} uprobe:{cpp}:cpp:"ns::f(long)" {{ @never = count(); }} '
              f'config = {{ missing_probes = "ignore" }}')
    script = script[script.index("config"):] + " " + script[:script.index("config")]
    assert sorted(lines(cpp, script)) == [
        "1", f'@f[uprobe:{cpp}:cpp:_ZN2ns1fEPKc]: 1', f'@f[uprobe:{cpp}:cpp:_ZN2ns1fEi]: 1', "@t: 2"]


def test_cpp_objects(cpp: Path) -> None:
    """Members of base classes, references, classes that are passed by their address, demangled names."""
    script = (f'uprobe:{cpp}:cpp:"ns::point::sum" {{ print((args.this->x, args.this->tag, args.more)); '
              "print(func); @[ustack(1)] = count(); } "
              f'uprobe:{cpp}:cpp:"ns::by_address" {{ print(args.n); }} '
              f'uprobe:{cpp}:cpp:"ns::reference" {{ print(args.p->y); }} '
              f'uretprobe:{cpp}:cpp:"ns::reference" {{ print((int32)retval); }}')
    tracer = trace(script, lambda: subprocess.run([cpp], check=True), "--unsafe")  # nothing is thrown
    assert tracer.lines == ["(3, 3, 4)", "ns::point::sum(int) const", "7", "6", "3",
                                  "@[", "        ns::point::sum(int) const+0", "]: 1"]


def test_cpp_names_stay_as_they_are_if_asked(cpp: Path) -> None:
    script = f'config = {{ cpp_demangle = false }} uprobe:{cpp}:cpp:"ns::f(int)" {{ print(func); }}'
    assert lines(cpp, script) == ["_ZN2ns1fEi"]


INLINED = r"""
#include <stdio.h>
volatile int sink;
int elsewhere(int a);
static inline __attribute__((always_inline)) void folded(int a)
{
    sink += a;
    sink ^= 3;
}
int caller(int n)
{
    folded(n);
    if (n > 2)
        folded(n + 1);
    return sink;
}
int main(void)
{
    for (int i = 0; i < 5; i++)
        caller(i);
    folded(7);
    return elsewhere(0);
}
"""
OTHER = """
extern volatile int sink;
static inline __attribute__((always_inline)) int apart(int a) { return sink += a; }
int elsewhere(int a) { return apart(a) & 0; }
"""


def test_a_function_that_is_inlined(tmp_path: Path) -> None:
    """The error names what it went into, and what it advises sees every call: five, two of them double, and one."""
    other = tmp_path / "elsewhere.c"
    other.write_text(OTHER)
    target = compile_c(INLINED, tmp_path, "inlined", "-O2", str(other))
    done = run_sonde("-e", f"uprobe:{target}:folded {{ }}")
    assert done.returncode == 1
    assert "'folded' has no code of its own: it is inlined into caller, main (3 places)" in done.stderr
    assert f"probe what it was inlined into: uprobe:{target}:caller" in done.stderr
    place = re.search(rf"HINT: (uprobe:{target}:inlined\.c:\d+) stops at each of its copies", done.stderr)
    assert place is not None
    assert lines(target, f"{place[1]} {{ @ = count(); }}") == ["@: 8"]
    done = run_sonde("-e", f"uprobe:{target}:apart {{ }}")
    assert "it is inlined into elsewhere\n" in done.stderr
    done = run_sonde("-e", f"uprobe:{target}:foldet {{ }}")
    assert f"No matches for uprobe {target}:foldet.\n" in done.stderr
    assert "inlined" not in done.stderr.replace(str(target), "")


def test_calls_that_are_inlined_are_warned_of(tmp_path: Path) -> None:
    """Two of four calls are seen, and said so: also of the probe of the return; the line advised sees all four."""
    target = compile_c("""
        volatile int sink;
        __attribute__((noinline, noclone)) int plain(int a) { return sink -= a; }
        __attribute__((always_inline)) inline int both(int a) { return sink += a; }
        extern inline int both(int a);
        int (*volatile pointer)(int) = both;
        __attribute__((noipa)) int inside(int a) { return both(a); }
        int main(void) { inside(1); inside(2); pointer(3); pointer(4); plain(5); return 0; }
    """, tmp_path, "copies", "-O2")
    for kind in ("uprobe", "uretprobe"):
        done = run_sonde("-v", "-e", f"{kind}:{target}:both {{ @ = count(); }}", "-c", str(target))
        assert "@: 2\n" in done.stdout
        said = f"WARNING: {kind}:{target}:both does not see the calls that are inlined into inside\n"
        assert done.stderr.count(said) == 1 and "not seen" not in done.stderr, done.stderr
        place = re.search(rf"HINT: (uprobe:{target}:copies\.c:\d+) stops at each of its copies", done.stderr)
        assert (place is not None) == (kind == "uprobe")
        assert place is None or lines(target, f"{place[1]} {{ @ = count(); }}") == ["@: 4"]
    for probe in ("plain", "bot*", "inside"):
        done = run_sonde("-e", f"uprobe:{target}:{probe} {{ @ = count(); }}", "-c", str(target))
        assert "@: 1\n" in done.stdout or "@: 2\n" in done.stdout
        assert "inlined" not in done.stderr, done.stderr
    subprocess.run(["objcopy", "--only-keep-debug", target, f"{target}.debug"], check=True)
    subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={target}.debug", target], check=True)
    done = run_sonde("-e", f"uprobe:{target}:both {{ @ = count(); }}", "-c", str(target))
    assert "@: 2\n" in done.stdout and "WARNING" not in done.stderr  # a debug file apart is not read for that


def test_calls_that_are_inlined_are_said_not_to_be_seen(tmp_path: Path) -> None:
    """A function with code of its own, which another file calls, and a copy in its own file: one of two is seen."""
    other = tmp_path / "elsewhere.c"
    other.write_text("int both(int a);\nint outside(int a) { return both(a); }\n")
    target = compile_c("""
        volatile int sink;
        int outside(int a);
        __attribute__((always_inline)) inline int both(int a) { return sink += a; }
        extern inline int both(int a);
        __attribute__((noinline)) int inside(int a) { return both(a); }
        int main(void) { inside(1); outside(2); return 0; }
    """, tmp_path, "partly", "-O2", str(other))
    done = run_sonde("-v", "--no-warnings", "-e", f"uprobe:{target}:both {{ @ = count(); }}", "-c", str(target))
    assert "@: 1\n" in done.stdout
    assert f"uprobe:{target}:both: not seen are the calls that are inlined into inside\n" in done.stderr
    done = run_sonde("-v", "-e", f"uprobe:{target}:inside {{ @ = count(); }}", "-c", str(target))
    assert "@: 1\n" in done.stdout and "not seen" not in done.stderr


def test_a_cpp_function_that_is_inlined(tmp_path: Path) -> None:
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    source, target = tmp_path / "box.cc", tmp_path / "box"
    source.write_text("""
        namespace ns { struct box { int v; __attribute__((always_inline)) int twice(int x) { return v * x; } }; }
        __attribute__((noinline)) int user(ns::box *b, int n) { return b->twice(n) + 1; }
        int main(int c, char **) { ns::box b{c}; return user(&b, c); }
    """)
    subprocess.run(["g++", "-g", "-O2", "-o", target, source], check=True)
    for name in ('cpp:"ns::box::twice"', 'cpp:"ns::box::twice(int)"', "_ZN2ns3box5twiceEi"):
        done = run_sonde("-e", f"uprobe:{target}:{name} {{ }}")
        assert done.returncode == 1 and "it is inlined into user(ns::box*, int)\n" in done.stderr, done.stderr


LARGE = r"""
#include <unistd.h>
struct big { long a[5]; };
__attribute__((noipa)) struct big whole(struct big b, int k) { usleep(1); b.a[0] += k; return b; }
__attribute__((noipa)) int unused(int k, struct big b) { usleep(1); return k; }
__attribute__((noipa)) long many(long a, long b, long c, long d, long e, long f, long g, int h, char i)
{
    usleep(1);
    return a + h;
}
static __attribute__((noinline)) long changed(struct big b, int k) { usleep(1); return b.a[1] + k; }
int main(int argc, char **argv)
{
    struct big b = {{1, 2, 3, 4, 5}};
    b = whole(b, 6);
    unused(7, b);
    many(1, 2, 3, 4, 5, 6, 7, -8, 'z');
    return changed(b, argc) < 0;
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-Os"])
def test_what_is_passed_in_memory(level: str, tmp_path: Path) -> None:
    """A struct of more than two words, and numbers beyond the registers, lie on the stack before the code reads them;
    in a copy whose parameters GCC has changed they need not."""
    program = compile_c(LARGE, tmp_path, "large", level)
    traced = run_sonde("-c", str(program), "-e", (
        f"uprobe:{program}:whole {{ print((args.k, args.b.a[0], args.b.a[4])); }} "
        f"uprobe:{program}:unused {{ print((args.k, args.b.a[0], args.b.a[3])); }} "
        f"uprobe:{program}:many {{ print((args.a, args.g, args.h, args.i)); }}"))
    assert "(6, 1, 5)\n(7, 7, 4)\n(1, 7, -8, 122)\n" in traced.stdout, traced.stderr
    names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    if "changed.isra" in names:
        refused = run_sonde("-c", str(program), "-e", f"uprobe:{program}:changed* {{ print(args.b.a[1]); }}")
        assert "optimised out" in refused.stderr
