"""C macros, headers of the user, and imports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sonde.errors import CompileError
from sonde.language import ast
from sonde.language.diagnostics import Diagnostics
from sonde.language.dump import dump_script
from sonde.language.includes import Files
from sonde.language.parser import parse_script
from sonde.source import Source


def script(text: str, name: str = "stdin", files: Files | None = None) -> ast.Script:
    diagnostics = Diagnostics()
    found = parse_script(Source(name, text), diagnostics, (), files)
    diagnostics.raise_if_errors()
    return found


def failure(text: str, name: str = "stdin", files: Files | None = None) -> tuple[str, str]:
    """Code and place of the first error."""
    with pytest.raises(CompileError) as caught:
        script(text, name, files)
    found = caught.value.diagnostics[0]
    return found.code, str(found.span)


def same(macros: str, written: str, means: str) -> None:
    """A body with macros is the body without."""
    def tree(text: str) -> str:
        found = script(text)
        found.defines = {}
        return dump_script(found)
    assert tree(f"{macros}\nbegin {{ {written} }}") == tree(f"begin {{ {means} }}")


@pytest.mark.parametrize(("macros", "written", "means"), [
    ("#define ADD(a, b) ((a) + (b))", "print(ADD(1, 2 * 3));", "print(((1) + (2 * 3)));"),
    ("#define MIN(a, b) ((a) < (b) ? (a) : (b))", "$x = MIN(MIN(1, 2), 3);",
     "$x = ((((1) < (2) ? (1) : (2))) < (3) ? (((1) < (2) ? (1) : (2))) : (3));"),
    ("#define NOW() nsecs", "print(NOW());", "print(nsecs);"),
    ("#define SAY(...) printf(__VA_ARGS__)", 'SAY("%d %d\\n", 1, 2);', 'printf("%d %d\\n", 1, 2);'),
    ('#define FORM "%d\\n"', "printf(FORM, 1);", 'printf("%d\\n", 1);'),
    ("#define TEXT(x) #x", "print(TEXT(a + b));", 'print("a + b");'),
    ("#define JOIN(a, b) a##b", "print(JOIN(p, id));", "print(pid);"),
    ("#define JOIN(a, b) a##b\n#define XJOIN(a, b) JOIN(a, b)\n#define N 3", "$x = XJOIN($v, N);", "$x = $v3;"),
    ("#define TEXT(x) #x\n#define XTEXT(x) TEXT(x)\n#define N 3", "print((TEXT(N), XTEXT(N)));", 'print(("N", "3"));'),
    ("#define SELF(x) SELF(x)", "SELF(1);", "SELF(1);"),
    ("#define SK struct sock", "$s = (SK *)arg0;", "$s = (struct sock *)arg0;"),
    ("#define BOTH(a) { $x = a; print($x); }", "BOTH(1)", "{ $x = 1; print($x); }"),
    ("#define A B\n#define B pid", "print(A);", "print(pid);"),
    ("#define F(x) x\n#undef F", "F(1);", "F(1);"),
    ("#define F(x) x", "print(F);", "print(F);"),
    ("#define TWO(a, \\\n  b) a b", "print(TWO(1, + 2));", "print(1 + 2);"),
])
def test_c_macros(macros: str, written: str, means: str) -> None:
    same(macros, written, means)


@pytest.mark.parametrize(("text", "code"), [
    ("#define F(a, b) a\nbegin { print(F(1)); }", "macro-arguments"),
    ("#define F(a, a) a\nbegin { }", "bad-define"),
    ("#define F(1) a\nbegin { }", "bad-define"),
    ("#define F(a) a $\nbegin { print(F(1)); }", "invalid-character"),
    ("#define F(a) (a\nbegin { print(F(1)); }", "syntax-error"),
])
def test_wrong_macros(text: str, code: str) -> None:
    assert failure(text)[0] == code


def test_an_error_in_a_macro_is_at_its_use() -> None:
    assert failure("#define F(a) (a +)\nbegin {\n  print(F(1));\n}") == ("syntax-error", "stdin:3:9-13")


@pytest.mark.parametrize(("release", "taken"), [("6.18.4", True), ("5.4.300-generic", False), ("6.1", False)])
def test_kernel_version(release: str, taken: bool) -> None:
    text = "#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)\nkprobe:new {}\n#else\nkprobe:old {}\n#endif"
    found = script(text, files=Files(release=release))
    assert found.clauses[0].points[0].text == ("kprobe:new" if taken else "kprobe:old")


@pytest.mark.parametrize(("machine", "condition", "holds"), [
    ("x86_64", "defined(__x86_64__) && defined __amd64__ && !defined(__aarch64__)", True),
    ("aarch64", "defined(__aarch64__) && !defined(__x86_64__)", True),
    ("x86_64", "__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && __BYTE_ORDER == __LITTLE_ENDIAN", True),
    ("x86_64", "__BYTE_ORDER == __BIG_ENDIAN || defined(__BIG_ENDIAN)", False),
    ("s390x", "__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && __BYTE_ORDER == __BIG_ENDIAN", True),
    ("x86_64", "__GNUC__ >= 4 && defined(__linux__) \\\n && __SIZEOF_POINTER__ == 8", True),
    ("x86_64", "defined(__cplusplus) || __KERNEL__", False),
    ("x86_64", "defined(TEXT) && defined TEXT", True),
])
def test_what_compilers_define(machine: str, condition: str, holds: bool) -> None:
    """For the machine that a script is compiled for. The operand of defined is not expanded."""
    text = f"#define TEXT struct x\n#if {condition}\nkprobe:yes {{}}\n#else\nkprobe:no {{}}\n#endif"
    found = script(text, files=Files(machine=machine))
    assert found.clauses[0].points[0].text == ("kprobe:yes" if holds else "kprobe:no")


HEADER = """
#ifndef MY_H
#define MY_H
#include <linux/types.h>
#include "inner.h"
#pragma pack
extern int counter;
struct tcp_sock;
static inline int twice(int x) { return 2 * x; }
struct pair { int a; struct inner in; } __attribute__((packed));
struct pair *make(struct pair *from, int n);
struct pair the_pair = { 1 };
typedef struct pair pair_t;
typedef int (*callback)(void *, int);
enum colour { RED = LEAST, GREEN };
#define SCALE(x) ((x) * FACTOR)
#endif
"""


def headers(tmp_path: Path) -> str:
    (tmp_path / "my.h").write_text(HEADER)
    (tmp_path / "inner.h").write_text("#pragma once\n#define LEAST 5\n#define FACTOR 3\nstruct inner { char c[4]; };\n")
    return str(tmp_path / "script.bt")


def test_headers_of_the_user(tmp_path: Path) -> None:
    name = headers(tmp_path)
    found = script('#include "my.h"\n#include "my.h"\nbegin { $p = (pair_t *)0; print(SCALE(RED)); }', name)
    assert [d.name for d in found.definitions] == ["inner", "pair", "pair_t", "callback", "colour"]
    assert found.definitions[1].packed
    assert found.definitions[4].members == {"RED": 5, "GREEN": 6}
    assert found.includes == ["my.h", "linux/types.h", "inner.h", "my.h"]


def test_headers_by_directory_and_option(tmp_path: Path) -> None:
    headers(tmp_path)
    files = Files([str(tmp_path)], ["my.h"])
    assert len(script("#include <my.h>\nbegin {}", files=files).definitions) == 5


def test_what_a_header_has_that_is_not_understood(tmp_path: Path) -> None:
    (tmp_path / "odd.h").write_text("struct a { int x : ; };\nstruct b { int y; };\n")
    diagnostics = Diagnostics()
    found = parse_script(Source(str(tmp_path / "s.bt"), '#include "odd.h"\nbegin {}'), diagnostics)
    assert [(d.severity, os.path.basename(d.span.source.name)) for d in diagnostics.items if d.span] == [
        ("WARNING", "odd.h")] * len(diagnostics.items)
    assert [d.name for d in found.definitions] == ["b"]


def test_a_header_for_two_languages(tmp_path: Path) -> None:
    (tmp_path / "both.h").write_text('#ifdef __cplusplus\nextern "C" {\n#endif\nstruct a { int x; };\n'
                                     '#ifdef __cplusplus\n}\n#endif\n')
    assert len(script('#include "both.h"\nbegin {}', str(tmp_path / "s.bt")).definitions) == 1


def test_missing_headers(tmp_path: Path) -> None:
    assert failure('#include "none.h"\nbegin {}') == ("header-not-found", "stdin:1:1-18")
    assert failure('#include <none.h>\nbegin {}') == ("header-not-found", "stdin:1:1-18")
    assert script('#include "linux/none.h"\n#include <errno.h>\n#include "vmlinux.h"\nbegin {}').clauses


def test_headers_that_include_one_another(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "b.h").write_text('#include "a.h"\n')
    assert failure('#include "a.h"\nbegin {}', str(tmp_path / "s.bt"))[0] == "include-depth"


def test_imports(tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "one.bt").write_text('import "two.bt";\nmacro one(x) { two(x) }\nbegin { print(1); }')
    (lib / "two.bt").write_text('import "one.bt";\nmacro two(x) { x + 1 }\nlet @m = hash(5);')
    (lib / "types.h").write_text("struct mine { int a; };")
    (lib / "notes.txt").write_text("not a script")
    for name in ("lib/one.bt", "lib", "./lib/../lib"):
        found = script(f'import "{name}";\nend {{ print(one(1)); }}', str(tmp_path / "s.bt"))
        assert sorted(m.name for m in found.macros) == ["one", "two"]
        assert [d.name for d in found.map_decls] == ["@m"]
        assert [d.name for d in found.definitions] == (["mine"] if name != "lib/one.bt" else [])
        assert found.imports[0].value == name


def test_imports_name_the_file_of_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.bt").write_text("macro m(x) {\n  x +\n}")
    assert failure('import "bad.bt"; begin {}', str(tmp_path / "s.bt")) == ("syntax-error", f"{tmp_path}/bad.bt:3:1-2")


@pytest.mark.parametrize(("text", "code"), [
    ('import "none.bt"; begin {}', "import-not-found"),
    ('import "none/none.bt"; begin {}', "import-not-found"),
    ('import "x.bpf.c"; begin {}', "not-supported"),
    ('import "x.bt" begin {}', "syntax-error"),
])
def test_wrong_imports(text: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "x.bpf.c").write_text("int x;")
    (tmp_path / "x.bt").write_text("")
    assert failure(text, str(tmp_path / "s.bt"))[0] == code


def test_an_import_in_a_block_is_one_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "lib.bt").write_text("macro four() { 4 }\n")
    errors = Diagnostics()
    source = Source(str(tmp_path / "main.bt"), 'begin { import "lib.bt"; print(four()); }')
    script = parse_script(source, errors, (), Files())
    assert not errors.items and [macro.name for macro in script.macros] == ["four"]


def test_nothing_is_imported_that_others_can_write_to(tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    file = lib / "one.bt"
    file.write_text("macro one() { 1 }")
    name = str(tmp_path / "s.bt")

    def said(imported: str) -> list[tuple[str, str]]:
        errors = Diagnostics()
        parse_script(Source(name, f'import "{imported}";\nbegin {{ print(one()); }}'), errors, (), Files())
        return [(item.code, item.message.replace(str(tmp_path), "")) for item in errors.items]

    assert said("lib/one.bt") == said("lib") == []
    not_found = ("import-not-found", "Unable to find suitable path for import")
    file.chmod(0o646)
    (tmp_path / "link.bt").symlink_to(file)
    for link in ("lib/one.bt", "link.bt"):
        assert said(link) == [("untrusted-import", f'skipping due to global write permissions: "/{link}"'), not_found]
    refusal = 'cowardly refusing to import from a directory with global write permissions: "/lib/one.bt"'
    assert said("lib") == [("untrusted-import", refusal)]
    file.chmod(0o644)
    lib.chmod(0o1777)
    assert said("lib/one.bt")[1:] == said("lib")[1:] == [not_found]
    lib.chmod(0o755)
    tmp_path.chmod(0o777)
    assert said("lib/one.bt")[1:] == [not_found]
    tmp_path.chmod(0o1777)  # nobody can put another folder in this one's place
    assert said("lib/one.bt") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_imports_is_of_root_or_who_became_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib.bt").write_text("")
    os.chown(tmp_path / "lib.bt", 12345, -1)
    text, name = 'import "lib.bt"; begin { }', str(tmp_path / "s.bt")
    assert failure(text, name)[0] == "untrusted-import"
    monkeypatch.setenv("SUDO_UID", "12345")
    assert [literal.value for literal in script(text, name).imports] == ["lib.bt"]


def test_programs_in_c_are_told_apart_from_scripts(tmp_path: Path) -> None:
    (tmp_path / "x.bpf.c").write_text("int x;\n")
    errors = Diagnostics()
    parse_script(Source(str(tmp_path / "main.bt"), 'import "x.bpf.c";\nbegin { }'), errors, (), Files())
    assert [item.code for item in errors.items] == ["not-supported"]
    assert "fentry:bpf:" in errors.items[0].hints[0]
