"""Functions of the script: syntax, types, and the code that they become."""

from __future__ import annotations

import pytest

from compiled import compiled
from sonde.asm.insn import PSEUDO_CALL, decode_program
from sonde.errors import CompileError

ADD = "fn add($a: int64, $b: int64): int64 { return $a + $b; }\n"


def code(text: str) -> str:
    """The first finding."""
    with pytest.raises(CompileError) as caught:
        compiled(text)
    return caught.value.diagnostics[0].code


def test_a_function_is_a_function() -> None:
    spec = compiled(ADD + "begin { print(add(1, 2)); print(add(pid, 2)); }").programs[0]
    assert [name for _, name in spec.functions] == ["sonde_begin", "fn_add"]
    starts = {name: index for index, name in spec.functions}
    calls = [(index, insn) for index, insn in decode_program(spec.code) if insn.code == 0x85
             and insn.src == PSEUDO_CALL]
    assert [index + 1 + insn.imm for index, insn in calls] == [starts["fn_add"]] * 2


def test_each_program_has_the_functions_that_it_calls() -> None:
    text = ADD + "fn two(): int64 { return add(1, 1); }\n" \
        "begin { print(two()); } end { print(add(1, 2)); } end { print(1); }"
    assert [[n for _, n in p.functions] for p in compiled(text).programs] == [
        ["sonde_begin", "fn_two", "fn_add"], ["sonde_end", "fn_add"], ["sonde_end"]]


def test_what_an_uncalled_function_is_given_is_not_known() -> None:
    """Its pointer could be into either memory; the one that it passes on with is known."""
    compiled("fn inner($p: struct task_struct*): int64 { return (int64)$p; }\n"
             "fn outer($p: struct task_struct*): int64 { return inner($p) + inner((struct task_struct*)uptr(1)); }\n"
             "begin { print(inner((struct task_struct*)uptr(1))); }")


def test_macros_within_functions() -> None:
    text = "macro double(x) { x * 2 }\nfn f($a: int64): int64 { return double($a); }\nbegin { print(f(1)); }"
    assert compiled(text).programs


@pytest.mark.parametrize(("text", "expected"), [
    ("fn f($a: int64): int64 { return f($a); } begin { print(f(1)); }", "recursion"),
    ("fn f(): int64 { return g(); } fn g(): int64 { return f(); } begin { print(f()); }", "recursion"),
    ("fn f(): int64 { } begin { print(f()); }", "no-return"),
    ("fn f() { return 1; } begin { f(); }", "bad-return"),
    ("fn f(): int64 { return; } begin { f(); }", "bad-return"),
    ('fn f(): int64 { return "x"; } begin { f(); }', "bad-return"),
    ("fn f(): string { return pid; } begin { f(); }", "bad-return"),
    ("fn f(): typeof((1, comm)) { return (1, 2); } begin { f(); }", "bad-return"),
    ("fn f() { print($x); } begin { }", "undefined-variable"),
    ("fn f() { g(); } fn g() { print(@x); } begin { }", "undefined-map"),
    ("fn f(): int64 { return f(); } begin { }", "recursion"),
    ("fn f($a: int64) { } begin { f(); }", "arity"),
    ('fn f($a: int64) { } begin { f("x"); }', "type-mismatch"),
    ("fn f($a: int8) { } begin { f(300); }", "out-of-range"),
    ("fn f($a: nothing) { } begin { f(1); }", "unknown-type"),
    ("fn f() { } begin { $x = f(); }", "no-value"),
    ("fn f() { print($x); } begin { $x = 1; f(); }", "undefined-variable"),
    ("fn print() { } begin { }", "redefinition"),
    ("fn f() { } fn f() { } begin { }", "redefinition"),
    ("macro f() { 1 } fn f() { } begin { }", "redefinition"),
    ("fn f($a: int64, $a: int64) { } begin { }", "redeclared"),
    ("fn f($a) { } begin { }", "syntax-error"),
    ("fn f($p: int64 *): int64 { return *$p; } begin { print(f((int64 *)uptr(pid)) + f((int64 *)kptr(pid))); }",
     "mixed-memory"),
    ("fn f($a: int64, $b: int64, $c: int64, $d: int64, $e: int64, $f: int64) { } begin { f(1, 2, 3, 4, 5, 6); }",
     "too-many-parameters"),
    ("fn f($a: int64, $b: int64, $c: int64, $d: int64, $e: int64) { print(pid); } begin { f(1, 2, 3, 4, 5); }",
     "too-many-parameters"),
])
def test_wrong_functions(text: str, expected: str) -> None:
    assert code(text) == expected
