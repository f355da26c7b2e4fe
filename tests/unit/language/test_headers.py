"""Headers that need libclang: their layouts are those that the C compiler says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from compiled import world
from sonde import compiling
from sonde.errors import CompileError
from sonde.language import libclang
from sonde.language.type_syntax import size_of_base
from sonde.semantics.ctypes_ import BASE_TYPES
from sonde.semantics.script_options import Options
from sonde.source import ERROR, Source
from support import compile_c

HEADERS = Path(__file__).parents[2] / "headers"
SIZES = {
    "odd.h": ["struct gen", "struct packed1", "struct sized", "struct al", "struct fp", "struct flex", "struct bits",
              "union u", "struct arr2", "struct uses", "my_size", "anon_t"],
    "packing.h": ["union u2", "struct nest", "struct uses", "alias_t", "my32"],
}
PLACES = {
    "odd.h": [("struct packed1", "b"), ("struct al", "d"), ("struct fp", "n"), ("union u", "y"), ("struct arr2", "q"),
              ("struct uses", "b"), ("struct sized", "tail")],
    "packing.h": [("struct uses", "big"), ("struct uses", "e"), ("struct uses", "port"), ("struct nest", "z"),
                  ("struct nest", "s"), ("struct nest", "in.b"), ("union u2", "x")],
}
CONSTANTS = {"odd.h": ["A1", "B1", "C1", "MASK", "HAVE", "E2"], "packing.h": ["IN1", "ADD(1, 2)"]}
NAMES = "typedef unsigned int u32;\ntypedef unsigned short __be16;\n#include <stddef.h>\n#include <stdio.h>\n"


def questions(header: str) -> list[str]:
    return [*[f"sizeof({name})" for name in SIZES[header]], *CONSTANTS[header],
            *[f"offsetof({name}, {member})" for name, member in PLACES[header]]]


def findings(header: str, body: str) -> list[str]:
    """Of a script that includes the header; raises CompileError."""
    text = f'#include "{HEADERS / header}"\nbegin {{ {body} }}'
    return [d.code for d in compiling.compile(Source("script.bt", text), Options(), world()).warnings]


@pytest.mark.parametrize("header", list(SIZES))
def test_layouts_are_those_of_the_compiler(header: str, tmp_path: Path) -> None:
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    asked = questions(header)
    lines = "".join(f'    printf("%ld\\n", (long)({question}));\n' for question in asked)
    program = compile_c(f'{NAMES}#include "{HEADERS / header}"\nint main(void)\n{{\n{lines}    return 0;\n}}\n',
                        tmp_path, "layouts")
    answers = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert len(answers) == len(asked)
    body = " ".join(f'static_assert({question} == {answer}, "{question}");' for question, answer in zip(asked, answers))
    assert not findings(header, body)


LAYOUTS = {  # by what the struct x is: members to ask for
    "struct { unsigned char a : 3; unsigned char : 0; unsigned char b : 4; short c; }": ["c"],
    "struct { char a; unsigned : 4; }": ["a"],
    "struct { char a; unsigned : 0; char b; }": ["b"],
    "struct { char a; long b __attribute__((packed)); }": ["b"],
    "struct { char a; struct { char a; int b __attribute__((aligned(8))); } b; } __attribute__((packed))": ["b.b"],
    "struct { char a; struct { char a; long b; } b __attribute__((packed)); }": ["b.b"],
    "struct { unsigned a : 8; unsigned : 24; int b; }": ["b"],
    "struct { char a; int b : 4 __attribute__((packed)); int c : 30; long d; }": ["d"],
    "struct { char a[sizeof(long)]; short b[sizeof(int) * 2]; char *c[sizeof(char)]; }": ["b", "c"],
    "union { char a; unsigned : 24; short b; }": ["b"],
}


@pytest.mark.parametrize("by", ["own reader", "libclang"])
def test_layouts_of_bit_fields_and_packed_members(by: str, tmp_path: Path) -> None:
    """libclang reads a header in which there is something that the own reader does not understand."""
    text = "".join(f"typedef {layout} x{at};\n" for at, layout in enumerate(LAYOUTS))
    asked = [f"sizeof(x{at})" for at in range(len(LAYOUTS))]
    asked += [f"offsetof(x{at}, {name})" for at, names in enumerate(LAYOUTS.values()) for name in names]
    lines = "".join(f'    printf("%d\\n", (int){question});\n' for question in asked)
    program = compile_c(f"#include <stddef.h>\n#include <stdio.h>\n{text}int main(void) {{\n{lines} return 0; }}\n",
                        tmp_path, "layouts")
    answers = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    if by == "libclang":
        pytest.importorskip("clang.cindex", reason="libclang is not installed")
        text += "struct other { _Complex double x; };\n"
    (tmp_path / "layouts.h").write_text(text)
    body = " ".join(f'static_assert({question} == {answer}, "{question}");' for question, answer in zip(asked, answers))
    script = Source("script.bt", f'#include "{tmp_path}/layouts.h"\nbegin {{ {body} }}')
    assert not compiling.compile(script, Options(), world()).warnings


def test_headers_of_libc_are_read_without_libclang(monkeypatch: pytest.MonkeyPatch) -> None:
    """<time.h>, and what it includes, found by -I: nothing of it is beyond the reader."""
    monkeypatch.setattr(libclang, "has_libclang", lambda: False)
    found = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
    options = Options(directories=["/usr/include", f"/usr/include/{found}"])
    text = "#include <time.h>\nbegin { static_assert(offsetof(struct tm, tm_year) == 20, \"\"); }"
    assert not compiling.compile(Source("script.bt", text), options, world()).warnings


def test_structs_that_libc_lays_out_otherwise_are_warned_of() -> None:
    text = "#include <signal.h>\nbegin {{ print(sizeof(struct {})); }}"
    for name, codes in (("sigaction", ["kernel-struct"]), ("task_struct", [])):
        found = compiling.compile(Source("script.bt", text.format(name)), Options(), world()).warnings
        assert [item.code for item in found] == codes


def test_a_header_beyond_reading_leaves_the_rest_of_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many its definitions are that nobody understands."""
    monkeypatch.setattr(libclang, "has_libclang", lambda: False)
    (tmp_path / "x.h").write_text("".join(f"struct a{i} {{ nothing_known x : ; }};\n" for i in range(99))
                                  + "struct good { int y; };\n")
    text = f'#include "{tmp_path}/x.h"\nbegin {{ static_assert(sizeof(struct good) == 4, ""); }}'
    assert compiling.compile(Source("script.bt", text), Options(), world()).warnings


def test_many_headers_that_are_missing_are_errors_like_few() -> None:
    text = "".join(f'#include "gone{i}.h"\n' for i in range(30)) + "begin { }"
    with pytest.raises(CompileError) as caught:
        compiling.compile(text, Options(), world())
    assert {item.code for item in caught.value.diagnostics} == {"header-not-found"}


@pytest.mark.parametrize(("header", "good"), [("odd.h", "struct gen"), ("packing.h", "struct nest")])
def test_without_the_extra_its_name_is_told(header: str, good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the reader understood is there all the same."""
    monkeypatch.setattr(libclang, "has_libclang", lambda: False)
    text = f'#include "{HEADERS / header}"\nbegin {{ print(sizeof({good})); }}'
    try:
        found = compiling.compile(Source("script.bt", text), Options(), world()).warnings
    except CompileError as error:
        found = error.diagnostics
    assert found and all("install libclang" in "".join(item.hints) for item in found if item.span is not None
                         and item.span.source.name.endswith(header))


def test_plain_headers_are_read_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object) -> tuple[str, list[str]]:
        raise AssertionError("not needed")
    monkeypatch.setattr(libclang, "translate_header", forbidden)
    (tmp_path / "plain.h").write_text("#define N 3\nstruct plain { int a[N]; };\n")
    text = f'#include "{tmp_path}/plain.h"\nbegin {{ static_assert(sizeof(struct plain) == 12, ""); }}'
    assert not compiling.compile(Source("script.bt", text), Options(), world()).warnings


def test_what_libclang_does_not_understand_either_stays_as_it_was(tmp_path: Path) -> None:
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    (tmp_path / "bad.h").write_text("struct bad { nothing_known x : ; };\nstruct good { int y; };\n")
    text = f'#include "{tmp_path}/bad.h"\nbegin {{ static_assert(sizeof(struct good) == 4, ""); }}'
    found = compiling.compile(Source("script.bt", text), Options(), world()).warnings
    assert {item.code for item in found} >= {"bad-header", "syntax-error"}
    assert any("nothing_known" in item.message for item in found)


def test_sizes_of_base_types_are_those_of_the_types() -> None:
    """Definitions are parsed before there are types."""
    found = {name: size_of_base(name) for name in BASE_TYPES}
    assert {name: size for name, size in found.items() if size is not None} == {
        name: BASE_TYPES[name].size for name, size in found.items() if size is not None}
    assert {"uint8", "int64_t", "__u32", "s16", "size_t", "bool", "double"} <= {n for n, size in found.items() if size}


def test_warnings_do_not_end_the_reading_of_a_script() -> None:
    """However many: errors behind them are found."""
    text = "".join(f"struct s{i} {{ int a; }} __attribute__((aligned(3)));\n" for i in range(2000))
    with pytest.raises(CompileError) as caught:
        compiling.compile(f"{text}begin {{ print(nosuch); }}", Options(), world())
    assert [item.code for item in caught.value.diagnostics if item.severity == ERROR] == ["unknown-identifier"]


@pytest.mark.parametrize(("text", "condition"), [
    ("#define A(x) (x + 1)\n#define B A", "B(2) == 3"),
    ("#define P(f, a...) C(f, ## a)\n#define C(a...) D(a, 9)\n#define D(a, b, ...) (a * 10 + b)", "P(1) == 19"),
    ("#define P(f, a...) C(f, ## a)\n#define C(a...) D(a, 9)\n#define D(a, b, ...) (a * 10 + b)", "P(1, 2) == 12"),
    ("#define J(a, b) a ## b", "J(1, 2) == 12 && J(, 2) == 2 && J(7, ) == 7"),
    ("#define G(a, b, c) (2 a ## b + c)", "G(, + 1, 3) == 6"),
    ("struct s { char b[(int)4]; };", "sizeof(struct s) == 4"),
    ("typedef long word; struct s { word a[1024 / (8 * (int)sizeof(word))]; };", "sizeof(struct s) == 128"),
    ("struct s { struct t { int a; } t; char b[16 - sizeof(struct t)]; };", "sizeof(struct s) == 16"),
    ("struct t { int a; long b; }; struct s { char b[__builtin_offsetof(struct t, b)]; };", "sizeof(struct s) == 8"),
    ("struct t { int a; long b; }; struct s { char b[sizeof(((struct t *)0)->b) + _Alignof(struct t)]; };",
     "sizeof(struct s) == 16"),
    ("#/* remark */\n# 12\n# 13 \"x.c\"\nstruct s { int a; };", "sizeof(struct s) == 4"),
    ("#define N 3 /* a remark\n of two lines */\nstruct s { char a[N]; };", "sizeof(struct s) == 3"),
    ("#if 0\n/*\n#endif\n*/\n\"#endif\"\n#endif\nstruct s { char a; };", "sizeof(struct s) == 1"),
    ("union u { int sa; };\nstruct s { union { int sa; } in;\n#define sa in.sa\n};", "sizeof(struct s) == 4"),
    ("#define BEGIN\nBEGIN\nstruct s { int a; };", "sizeof(struct s) == 4"),
    ("#define F(n) static inline int n(void) { return 1; }\nF(a)\nF(b)\nstruct s { int a; };", "sizeof(struct s) == 4"),
    ("#define S(n) struct n { int a; };\nS(s)\nS(t)", "sizeof(struct s) == 4 && sizeof(struct t) == 4"),
    ("typedef int wide __attribute__((mode(DI)));", "sizeof(wide) == 8"),
    ("typedef void fn(int); struct s { fn *f; __volatile__ int a[2]; };", "sizeof(struct s) == 16"),
    ("typedef struct hidden hidden; struct s { hidden *h; };", "sizeof(struct s) == 8"),
    ("enum { A = 3,\n#define A A\n#define B (A - 1)\n};", "A == 3 && B == 2"),
    ("#define M ~0U\n#define L (~((1U << 22) - 1))", "M == 4294967295 && L == 4290772992"),
    ("#define W L'a'\n#if L'\\0' - 1 > 0\n#error\n#endif", "W == 97"),
    ("#define C(x) (__builtin_constant_p(x) ? (x) : unknown(x))", "C(5) == 5"),
])
def test_what_headers_of_c_have(text: str, condition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libclang, "has_libclang", lambda: False)
    (tmp_path / "x.h").write_text(text + "\n")
    script = f'#include "{tmp_path}/x.h"\nbegin {{ static_assert({condition}, "{tmp_path}"); }}'
    assert not compiling.compile(Source("script.bt", script), Options(), world()).warnings


@pytest.mark.parametrize("member", ["struct nobody x;", "struct s x[2];", "void x;", "hidden x;", "struct late x;"])
def test_members_of_incomplete_types_are_errors(member: str) -> None:
    text = f"typedef struct hidden hidden; struct s {{ int a; {member} }}; struct late {{ int a; }}; begin {{ }}"
    with pytest.raises(CompileError) as caught:
        compiling.compile(Source("script.bt", text), Options(), world())
    item = caught.value.diagnostics[0]
    assert item.code in ("incomplete-type", "unknown-type") and item.line == 1 and "x" in item.span.text  # type: ignore


def test_a_header_that_was_not_read_is_named_where_a_type_is_missed(tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libclang, "has_libclang", lambda: False)
    (tmp_path / "x.h").write_text("struct missed { int a : ; };\n")
    text = f'#include <linux/zyx.h>\n#include "{tmp_path}/x.h"\nbegin {{ print(sizeof(struct missed)); }}'
    with pytest.raises(CompileError) as caught:
        compiling.compile(Source("script.bt", text), Options(), world())
    hints = next(item.hints for item in caught.value.diagnostics if item.code == "unknown-type")
    assert any("<linux/zyx.h> was not read" in hint for hint in hints)
    assert any(f"not all of {tmp_path}/x.h was understood: see line 1" in hint for hint in hints)


@pytest.mark.parametrize("condition", [
    "sizeof((struct s)0) == 12", "sizeof(((struct s)0).m) == 4", "offsetof((struct s)0, n) == 4",
    "sizeof(typeof(((struct s)0).n)) == 8"])
def test_operands_that_are_not_evaluated_may_be_structs(condition: str) -> None:
    text = f'struct s {{ int m; char n[8]; }}; begin {{ static_assert({condition}, ""); }}'
    assert not compiling.compile(Source("script.bt", text), Options(), world()).warnings
