"""Scripts of a few lines that double with each of them: each compiles or is refused within its bounds."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compiled import world
from pace import pieces
from sonde.base.wildcards import pattern_matcher
from sonde.compiling import compile
from sonde.compiling.compile_child import compile_apart
from sonde.errors import CompileError, UsageError
from sonde.semantics.script_options import Options
from sonde.source import Source

PIECES, MEMORY = 150, 500 << 20  # ten to fifteen seconds


def chain(first: str, line: Callable[[int], str], last: str, count: int = 30) -> str:
    return "\n".join([first, *[line(i) for i in range(1, count)], last])


def bombs() -> Iterator[tuple[str, str, str]]:
    """(name, script, words of its refusal; "" if it compiles)."""
    tokens, parts, values = "more than 1000000 tokens", "more than 30000 parts", "can be printed"
    yield "tree", chain("#define F0(x) x", lambda i: f"#define F{i}(x) F{i - 1}(F{i - 1}(x))",
                        "begin { print(F8(1)); }", 9), ""
    yield "sum", chain("#define F0 1", lambda i: f"#define F{i} F{i - 1} + F{i - 1}", "begin { print(F29); }"), tokens
    yield "condition", chain("#define F0 1", lambda i: f"#define F{i} F{i - 1} + F{i - 1}",
                             "#if F29\n#endif\nbegin { }"), tokens
    yield "argument", chain("#define F0(x) x", lambda i: f"#define F{i}(x) F{i - 1}(x x)",
                            "begin { print(F29(1)); }"), tokens
    yield "nothing", chain("#define F0(x)", lambda i: f"#define F{i}(x) F{i - 1}(x) F{i - 1}(x)",
                           "begin { print(1 F29(1)); }"), tokens
    yield "string", chain("#define S(x) #x\n#define T(x) S(x)\n#define F0(x) T(x)",
                          lambda i: f"#define F{i}(x) F{i - 1}(T(x x))", "begin { print(F29(a)); }"), tokens
    yield "paste", chain("#define P(x) x##x\n#define F0(x) P(x)", lambda i: f"#define F{i}(x) F{i - 1}(P(x))",
                         "begin { print(F29(a)); }"), tokens
    yield "conditions", chain("#define F0 1", lambda i: f"#define F{i} (F{i - 1} + F{i - 1})",
                              "#if F11\n#endif\n" * 400 + "begin { }", 12), tokens
    yield "functions", chain("fn f0($x: int64): int64 { return $x; }",
                             lambda i: f"fn f{i}($x: int64): int64 {{ return f{i - 1}($x) + f{i - 1}($x); }}",
                             "begin { print(f29(1)); }"), ""
    yield "macros", chain("macro m0(x) { x }", lambda i: f"macro m{i}(x) {{ m{i - 1}(x) + m{i - 1}(x) }}",
                          "begin { print(m20(1)); }", 21), parts
    yield "arguments", chain("macro m0(x) { x }", lambda i: f"macro m{i}(x) {{ m{i - 1}(x + x) }}",
                             "begin { print(m29(1)); }"), parts
    yield "unused", chain("macro m0(x) { 1 }", lambda i: f"macro m{i}(x) {{ m{i - 1}(x + x) }}",
                          "begin { print(m29(1)); }"), parts
    structs = chain("struct s0 { char a; };", lambda i: f"struct s{i} {{ struct s{i - 1} a; struct s{i - 1} b; }};", "")
    yield "structs", structs + "begin { print(sizeof(struct s29)); }", ""
    yield "printed", structs + "begin { print(*(struct s29 *)0); }", values
    yield "kept", structs + "begin { @ = *(struct s29 *)0; }", values
    yield "types", chain("typedef int t0;", lambda i: f"typedef struct {{ t{i - 1} a, b; }} t{i};",
                         "begin { @ = *(t29 *)0; }"), values
    yield "unrolls", "begin { " + "unroll (99) { " * 60 + "@ = 1; " + "}" * 60 + " }", "more than 40000 parts"
    yield "tuples", "macro t(x) { (x, x) }\nbegin { @ = " + "t(" * 25 + "1" + ")" * 25 + "; }", parts
    yield "width", 'begin { printf("%1000000000d", 1); }', "the width is too large"
    yield "array", "struct a { char x" + "[1000000]" * 100 + "; }; begin { print(sizeof(struct a)); }", ""
    yield "shift", "enum e { A = 1 << 1000000000 }; begin { print(A); }", "has no value"
    yield "stars", "tracepoint:*:" + "*_" * 40 + "zzz { }", "no valid attach points"


def outcome(work: Callable[[], object]) -> tuple[str, float, int]:
    """What is said against a script, the CPU time that it takes in pieces of work (pace.py), and how much memory the
    child that compiles it needs beyond ours."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (60, 61))
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        before, said = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "compiles"
        try:
            work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = pieces(used.ru_utime + used.ru_stime)
        os.write(write, f"{spent} {(used.ru_maxrss - before) << 10} {said[:300]}".encode())
        os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(child, 0)
    spent, memory, said = (text or "inf 0 no answer").split(" ", 2)
    return said, float(spent), int(memory)


@pytest.mark.parametrize(("text", "refusal"), [pytest.param(text, words, id=name) for name, text, words in bombs()])
def test_no_few_lines_take_long_or_much_memory(text: str, refusal: str) -> None:
    world()
    said, spent, memory = outcome(lambda: compile(Source("bomb", text), Options(), world()))
    assert refusal in said and said.startswith("CompileError" if refusal else ""), said
    assert spent < PIECES and memory < MEMORY


def test_headers_that_include_each_other_twice(tmp_path: Path) -> None:
    for name in ("a.h", "b.h"):
        lines = [f'#include "{other}"\n' * 2 for other in ("a.h", "b.h")]
        (tmp_path / name).write_text("struct s { int x; };\n" + "".join(lines))
    for depth in range(8):  # within the limit of depth
        (tmp_path / f"c{depth}.h").write_text(f'#include "c{depth + 1}.h"\n' * 8)
    (tmp_path / "c8.h").write_text("struct t { int x; };\n")
    for header, words in (("a.h", "include"), ("c0.h", "more than 4000 files")):
        text = f'#include "{tmp_path / header}"\nbegin {{ }}'
        said, spent, memory = outcome(lambda text=text: compile(text, Options(), world()))  # type: ignore[misc]
        assert words in said and spent < PIECES and memory < MEMORY, said


def test_a_large_header_that_is_included_often_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.h").write_text("".join(f"struct s{i} {{ int x; }};\n" for i in range(50_000)))
    text = f'#include "{tmp_path}/big.h"\n' * 100 + "begin { }"
    said, spent, memory = outcome(lambda: compile(text, Options(), world()))
    assert "more than 1200000 words" in said and spent < PIECES and memory < MEMORY, said


def test_patterns_of_many_stars_are_answered_at_once() -> None:
    matches = pattern_matcher("*a" * 200 + "*b")
    before = time.process_time()
    assert not matches("a" * 4000) and matches("a" * 4000 + "b")
    assert pieces(time.process_time() - before) < 10


@pytest.mark.parametrize(("pattern", "yes", "no"), [
    ("a*", "a ab abc", "b ba"), ("*a", "a ba", "ab"), ("a*a", "aa aba", "a ab"), ("a*b*c", "abc aXbXc abcc", "ac acb"),
    ("*", "x xyz", ""), ("a", "a", "aa"), ("**a**", "a xax", "b"), ("*ab*ab*", "abab abxab", "aba ab"),
    ("operator[]*", "operator[](int)", "operator")])
def test_stars_stand_for_anything(pattern: str, yes: str, no: str) -> None:
    matches = pattern_matcher(pattern)
    assert all(matches(name) for name in yes.split()) and not any(matches(name) for name in no.split())


# what an agent compiles -----------------------------------------------------------------------------------------------

def test_a_script_is_compiled_apart_as_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.compiling.compile_child.compile_or_recall",
                        lambda source, options: compile(source, options, world()))
    source = Source("x", 'tracepoint:syscalls:sys_enter_openat { @[comm] = count(); printf("%s\\n", comm); }')
    apart = compile_apart(source, Options(), lambda: None)
    here = compile(source, Options(), world())
    assert [program.code for program in apart.programs] == [program.code for program in here.programs]
    with pytest.raises(CompileError) as caught:
        compile_apart(Source("x", "begin { print(foo); }"), Options(), lambda: None)
    assert "foo" in caught.value.diagnostics[0].render()


def hang(*_: object) -> None:
    while True:
        time.sleep(0.01)


def burn(*_: object) -> None:
    while True:
        pass


def test_whoever_waits_for_a_script_can_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, whatever the child does; nothing of it is left."""
    monkeypatch.setattr("sonde.compiling.compile_child.compile_or_recall", hang)
    begun = time.monotonic()

    def check_end() -> None:
        if time.monotonic() - begun > 0.3:
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        compile_apart(Source("x", ""), Options(), check_end)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_the_limits_of_a_script_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.compiling.compile_child.SECONDS", 1)
    monkeypatch.setattr("sonde.compiling.compile_child.compile_or_recall", burn)
    with pytest.raises(UsageError, match="1 s of CPU time"):
        compile_apart(Source("x", ""), Options(), lambda: None)
    monkeypatch.setattr("sonde.compiling.compile_child.compile_or_recall", lambda *_: bytearray(1 << 30))
    with pytest.raises(UsageError, match="500 MiB of memory"):
        compile_apart(Source("x", ""), Options(), lambda: None)
    monkeypatch.setattr("sonde.compiling.compile_child.LONGEST", 0.5)
    monkeypatch.setattr("sonde.compiling.compile_child.compile_or_recall", hang)
    with pytest.raises(UsageError, match="more than 0 s"):
        compile_apart(Source("x", ""), Options(), lambda: None)
