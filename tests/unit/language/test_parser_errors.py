"""What the parser says about wrong scripts: code and place, and never anything but diagnostics."""

from __future__ import annotations

import sys

import pytest

from sonde.errors import CompileError
from sonde.language.cursor import MAX_DEPTH
from sonde.language.diagnostics import MAX_ERRORS, Diagnostics
from sonde.language.dump import dump_script
from sonde.language.parser import parse_script
from sonde.source import Diagnostic, Source


def findings(text: str, *params: str) -> list[Diagnostic]:
    diagnostics = Diagnostics()
    dump_script(parse_script(Source("stdin", text), diagnostics, params))
    for item in diagnostics.items:
        item.render()
    return diagnostics.items


@pytest.mark.parametrize(("text", "code", "where"), [
    # text that is no token
    ('begin { printf("hi); }', "unterminated-string", ""),
    ('begin { printf("hi\n"); }', "unterminated-string", '"hi'),
    ('begin { print("a\\', "unterminated-string", ""),
    ("begin { /* x }", "unterminated-comment", ""),
    ("begin { print(\0); }", "invalid-character", "\0"),
    ("begin { print(µ); }", "invalid-character", "µ"),
    ("begin { print(1);\u00a0}", "invalid-character", "\u00a0"),
    ("begin\u00a0{ print(1); }", "invalid-character", "\u00a0"),
    ("tracepoint:syscalls:sys_enter_mkdir\u00a0/pid == 1/ { print(1); }", "invalid-character", "\u00a0"),
    ("\ufeffbegin { print(1); }", "invalid-character", "\ufeff"),
    ("begin { print('text'); }", "invalid-character", "'"),
    ("begin { $ = 1 }", "invalid-character", "$"),
    ("begin { a # b }", "invalid-character", "#"),
    ("kprobe:\0 {}", "invalid-character", "\0"),
    ("\0", "invalid-character", "\0"),
    # literals
    ("begin { $x = 18446744073709551616; }", "number-too-large", "18446744073709551616"),
    ("begin { $x = 0x; }", "invalid-number", "0x"),
    ("begin { $x = 089; }", "invalid-number", "089"),
    ("begin { $x = 1.5e; }", "invalid-number", "1.5e"),
    ('begin { print("\\q"); }', "invalid-escape", "q"),
    ("begin { $1x }", "invalid-parameter", "$1x"),
    ("begin { $0 }", "invalid-parameter", "$0"),
    ("begin { @1x }", "syntax-error", "1x"),
    # braces and separators
    ("begin { print(1);", "unclosed-brace", ""),
    ("begin { if 1 { print(1); }\nkprobe:g { exit(); }", "syntax-error", ":"),
    ("begin {} }", "syntax-error", ""),
    ("begin { print(1) print(2) }", "syntax-error", "print"),
    ("begin { if (pid) print(1) print(2) }", "syntax-error", "print"),
    ("begin { print(1 }", "syntax-error", "}"),
    ("begin { print(1; }", "syntax-error", ";"),
    ("begin { print(1)) }", "syntax-error", ")"),
    ("begin { f(1,) }", "syntax-error", ")"),
    ("begin { f(,1) }", "syntax-error", ","),
    # expressions
    ("begin { $a = 1 && && 2 }", "bad-operand", "&"),
    ("begin { $a and 1 }", "syntax-error", "and"),
    ("begin { if ($x = 1) {} }", "syntax-error", "="),
    ("begin { if $x = 1 {} }", "syntax-error", "="),
    ("begin { $a = 1 + ; }", "syntax-error", ";"),
    ("begin { $a ? 1 }", "syntax-error", "?"),
    ("begin { @x[] = 1 }", "syntax-error", "]"),
    ("begin { @x[1 = 1 }", "syntax-error", "="),
    ("begin { args. }", "syntax-error", "}"),
    ("begin { args->0 }", "syntax-error", "0"),
    ("begin { 5++ }", "not-assignable", "++"),
    ("begin { ++args.x }", "not-assignable", "++"),
    ("begin { (x=1, x=2) }", "duplicate-field", "x=2"),
    ("begin { (x=1, 2) }", "syntax-error", "2"),
    ("begin { sizeof 1 }", "syntax-error", "1"),
    ("begin { offsetof(struct x) }", "syntax-error", ")"),
    ("begin { $x = (struct foo) }", "syntax-error", "foo"),
    ("begin { $x = (long char)1 }", "bad-type", "long char"),
    ("begin { $x = if 1 { 2 }; }", "no-value", "if 1 { 2 }"),
    ("begin { $x = if 1 { 2; } else { 3 }; }", "no-value", "if 1 { 2; } else { 3 }"),
    # statements
    ("begin { args.x = 1 }", "syntax-error", "="),
    ("begin { 1 = 1 }", "syntax-error", "="),
    ("begin { $a = $b = 1 }", "syntax-error", "="),
    ("begin { let @x = 1 }", "syntax-error", "@x"),
    ("begin { let $x: = 1 }", "syntax-error", "="),
    ("begin { else { } }", "syntax-error", "{"),
    ("begin { while (1) }", "syntax-error", "}"),
    ("begin { for ($i : 5) {} }", "bad-range", "{"),
    ("begin { for (i : 0..5) {} }", "syntax-error", "i"),
    ("begin { import \"x\"; }", "import-not-found", "import \"x\""),
    # the top level
    ("", "empty-script", ""),
    ("// nothing", "empty-script", ""),
    ("print(1)", "syntax-error", "print(1)"),
    ("$x = 1;", "syntax-error", "$x"),
    ("{ exit() }", "syntax-error", "{"),
    ("kprobe:f", "syntax-error", ""),
    ("kprobe:a kprobe:b {}", "syntax-error", "kprobe"),
    ("kprobe:a,,kprobe:b {}", "syntax-error", ","),
    ("kprobe:a,", "syntax-error", ""),
    ('uprobe:"/x:f {}', "unterminated-string", '"'),
    ("k:f /pid == 1 { exit() }", "syntax-error", "{"),
    ("k:f / / { exit() }", "syntax-error", "/"),
    ("k:f /pid == 1/", "syntax-error", ""),
    ("let $x = 1;", "syntax-error", "let"),
    ("let @x = 5;", "syntax-error", "5"),
    ("let @x = hash(0);", "bad-size", "0"),
    ("let @x = hash($x);", "not-constant", "$x"),
    ("let @x = hash(1 begin {}", "syntax-error", "begin"),
    ("config = { a }", "syntax-error", "}"),
    ("config = { a = ; }", "syntax-error", ";"),
    ("macro f { }", "syntax-error", "{"),
    ("macro f(1) { }", "syntax-error", "1"),
    ('import "x"', "syntax-error", ""),
])
def test_error(text: str, code: str, where: str) -> None:
    found = findings(text)[0]
    assert (found.severity, found.code) == ("ERROR", code)
    assert (found.span.text if found.span is not None else "") == where


@pytest.mark.parametrize(("text", "hint"), [
    ("begin { $x and 1 }", "&&"),
    ("begin { if ($x = 1) {} }", "=="),
    ("begin { print(\u201chi\u201d) }", "typographic quote"),
    ("begin {\n if (1) {\n print(1);\n", "line 2"),
    ("begin { print(1)\n print(2) }", "separated by ;"),
    ("begin { print(1; }", "a ) is missing"),
    ("begin { if 1 {\n}\nkprobe:g { }", "a } missing before it"),
    ("kprobe:a kprobe:b {}", "commas"),
    ("print(1)", "begin { ... }"),
])
def test_hint(text: str, hint: str) -> None:
    assert hint in " ".join(findings(text)[0].hints)


def test_position_as_shown() -> None:
    assert findings("begin {\n  @x = 1 +;\n}")[0].render() == (
        "stdin:2:11-12: ERROR: syntax: expected expression\n"
        "  @x = 1 +;\n"
        "          ~\n"
        "HINT: found ';'")


def test_each_item_has_its_own_error() -> None:
    diagnostics = Diagnostics()
    script = parse_script(Source("stdin", "k:a { 1 + }\nk:b { ok() }\nstruct S { int }\nk:c { ) }\nk:d { ok() }"),
                          diagnostics)
    assert [d.span.line for d in diagnostics.items if d.span] == [1, 3, 4]
    assert [c.points[0].text for c in script.clauses] == ["k:b", "k:d"]
    with pytest.raises(CompileError):
        diagnostics.raise_if_errors()


@pytest.mark.parametrize("text", ["k:a { + }\n", "k:a { $x = 08; }\n", "#nonsense\n", "}", "\"\n", "k:f\n",
                                  'begin { "' + "\\q" * 1000 + '"; } '])
def test_errors_are_limited(text: str) -> None:
    assert 0 < len(findings(text * 1000)) <= MAX_ERRORS


# --- depth ------------------------------------------------------------------------------------------------

DEEP = {
    "parens": ("(", "1", ")"), "calls": ("f(", "1", ")"), "negations": ("!", "1", ""), "keys": ("@x[", "1", "]"),
    "indices": ("a[", "1", "]"), "casts": ("(uint8)", "1", ""), "blocks": ("{", "1", "}"), "tuples": ("(", "1", ",)"),
    "records": ("(a=", "1", ")"), "ternaries": ("1 ? 2 : ", "3", ""), "elses": ("if 1 {2} else ", "{3}", ""),
    "ifs": ("if 1 {", "2", "} else {3}"), "sizeofs": ("sizeof(", "1", ")"), "typeofs": ("(typeof(", "1", "))1"),
    "comptimes": ("comptime ", "1", ""), "types": ("sizeof(typeof(", "1", "))"),
    "conditions": ("if ", "1", " {2} else {3}"),
}


def deep(kind: str, levels: int) -> str:
    before, inner, after = DEEP[kind]
    return f"begin {{ $x = {before * levels}{inner}{after * levels}; }}"


@pytest.mark.parametrize("kind", DEEP)
def test_deep_nesting_is_refused(kind: str) -> None:
    assert findings(deep(kind, 5000))[0].code in ("too-deep", "syntax-error")
    assert "too-deep" in [d.code for d in findings(deep(kind, MAX_DEPTH + 1))]


@pytest.mark.parametrize("kind", DEEP)
def test_moderate_nesting_is_fine(kind: str) -> None:
    assert findings(deep(kind, 40)) == []


@pytest.mark.parametrize("chain", ["1 + ", "a.", "a->", "1 | "])
def test_long_chains_are_refused(chain: str) -> None:
    assert "too-deep" in [d.code for d in findings(f"begin {{ @x[{chain * 5000}b] = 1; }}")]


def test_long_filters_are_fine() -> None:
    assert findings("k:f /" + " || ".join(f"pid == {n} && uid != {n}" for n in range(3000)) + "/ {}") == []


def test_chains_on_top_of_chains_are_refused() -> None:
    text = "1"
    for _ in range(20):
        text = "(" + text + ")" + " + 1" * 50
    assert [d.code for d in findings(f"begin {{ print({text}); }}")] == ["too-deep"]


@pytest.mark.parametrize("text", [
    "begin {" + "{" * 5000 + "}" * 5000 + "}", "begin {" + "if 1 {" * 5000, "begin { " + "if 1 " * 5000 + "a(); }",
    "begin { " + "for $i : 0..1 " * 5000 + "a(); }", "begin { " + "while 1 {" * 5000,
    "struct S {" * 5000, "struct S { int a[" + "(" * 5000, "struct S { int (*f)" + "(" * 5000,
    "begin { (a" + "*" * 5000, "#if " + "(" * 5000 + "\n#endif\nbegin {}", "#if 0\n" * 5000, "/" * 5000,
    "k:a /" + "/" * 5000 + "{}",
    "u:a:b" + "/x" * 5000 + " {}", "begin { " + "#" * 5000, "(" * 5000, "k:" + '"' * 5001,
])
def test_no_text_overflows_the_stack(text: str) -> None:
    findings(text)


def test_depth_costs_few_frames() -> None:
    """The deepest text that is accepted leaves most of Python's default recursion limit to the caller."""
    before = sys.getrecursionlimit()
    used, frame = 0, sys._getframe().f_back
    while frame is not None:
        used, frame = used + 1, frame.f_back
    try:
        sys.setrecursionlimit(used + 4 * MAX_DEPTH + 50)
        for kind in DEEP:
            findings(deep(kind, MAX_DEPTH))
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("text", ["kprobe:$name { }", "uprobe:$name:f { }", "uprobe:/bin/sh:$name { }"])
def test_variables_have_no_place_in_a_probe(text: str) -> None:
    diagnostics = Diagnostics()
    parse_script(Source("stdin", text), diagnostics)
    assert "invalid trailing character for positional param: n" in diagnostics.items[0].message
