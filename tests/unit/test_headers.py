"""Headers that need libclang: their layouts are those that the C compiler says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from compiled import world
from sonde import compiling
from sonde.errors import CompileError
from sonde.language import libclang
from sonde.semantics.options import Options
from sonde.source import Source
from support import compile_c

HEADERS = Path(__file__).parents[1] / "headers"
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


def test_a_pragma_that_changes_layouts_is_never_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "#pragma pack(1)\nstruct s { char a; int b; };\nbegin { print(sizeof(struct s)); }"
    assert [d.code for d in compiling.compile(text, Options(), world()).warnings] == ["ignored-attribute"]
