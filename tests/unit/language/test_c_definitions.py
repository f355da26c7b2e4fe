"""C definitions in scripts."""

from __future__ import annotations

import pytest

from sonde.language import ast
from sonde.language.diagnostics import Diagnostics
from sonde.language.dump import type_text
from sonde.language.parser import parse_script
from sonde.language.type_syntax import normalise_base_type
from sonde.source import Source


def definitions(text: str) -> list[ast.CStruct | ast.CEnum | ast.CTypedef]:
    diagnostics = Diagnostics()
    found = parse_script(Source("stdin", text), diagnostics)
    diagnostics.raise_if_errors()
    return found.definitions


def fields(text: str) -> list[str]:
    """``name: type:bits`` of the members of a struct with this body."""
    node = definitions(f"struct S {{ {text} }};")[0]
    assert isinstance(node, ast.CStruct)
    return [f"{f.name}: {type_text(f.type)}" + (f":{f.bits}" if f.bits is not None else "") for f in node.fields]


@pytest.mark.parametrize(("words", "name"), [
    ("int", "int"), ("signed", "int"), ("unsigned", "unsigned int"), ("long unsigned int", "unsigned long"),
    ("unsigned long long", "unsigned long long"), ("long int long", "long long"), ("char", "char"),
    ("signed char", "signed char"), ("char unsigned", "unsigned char"), ("short int", "short"),
    ("unsigned short", "unsigned short"), ("double", "double"),
    ("long long long", ""), ("char int", ""), ("short long", ""), ("unsigned signed", ""), ("int int", ""),
    ("unsigned double", ""),
])
def test_normalise(words: str, name: str) -> None:
    assert normalise_base_type(words.split()) == name


@pytest.mark.parametrize(("text", "expected"), [
    ("int a;", ["a: int"]),
    ("int a, *b, c[3], **d[2][4];", ["a: int", "b: int *", "c: int[3]", "d: int **[2][4]"]),
    ("unsigned long long int x; /* y */ const char * const name; // z\n", ["x: unsigned long long", "name: char *"]),
    ("u32 a : 3, b : 5; unsigned : 4; int c : 2;", ["a: u32:3", "b: u32:5", ": unsigned int:4", "c: int:2"]),
    ("struct foo *next; enum bar e; union u x;", ["next: struct foo *", "e: enum bar", "x: union u"]),
    ("void (*fn)(int, char *); int (*ops[4])(void); int (*grid)[3];", ["fn: void *", "ops: void *[4]", "grid: void *"]),
    ("char data[]; char more[2 * (1 << 3)];", ["data: char[]", "more: char[16]"]),
    ("__u8 a __attribute__((aligned(1)));", ["a: __u8"]),
    ("char __user *p; struct x __rcu *q;", ["p: char *", "q: struct x *"]),
    ("struct { int a; } in; union { int x; }; struct named { int y; } arr[2], *ptr;",
     ["in: struct", ": union", "arr: struct named[2]", "ptr: struct named *"]),
    ("enum { A, B } e; bool f; _Bool g;", ["e: enum", "f: bool", "g: bool"]),
    (";;", []),
])
def test_fields(text: str, expected: list[str]) -> None:
    assert fields(text) == expected


def test_nested_definitions_are_inline() -> None:
    node = definitions("struct S { struct { union { int a; struct { u8 b; } c; }; } d; enum E { X = 3 } e; };")[0]
    assert isinstance(node, ast.CStruct)
    outer = node.fields[0].inline
    assert isinstance(outer, ast.CStruct) and not outer.union
    union = outer.fields[0].inline
    assert isinstance(union, ast.CStruct) and union.union and outer.fields[0].name == ""
    assert [f.name for f in union.fields] == ["a", "c"]
    enum = node.fields[1].inline
    assert isinstance(enum, ast.CEnum) and enum.members == {"X": 3}


@pytest.mark.parametrize("text", [
    "struct S { int a; } __attribute__((packed));", "struct __attribute__((packed)) S { int a; }",
    "struct S { int a; } __packed;", "struct __attribute__((__packed__, unused)) S { int a; };",
    "struct S { int a; } __attribute__ (( packed , unused)) ;",
])
def test_packed(text: str) -> None:
    node = definitions(text + "\nbegin {}")[0]
    assert isinstance(node, ast.CStruct) and node.packed and node.name == "S"


def test_semicolon_may_be_missing() -> None:
    found = definitions("struct A { int x; }\nunion B { int y; } ;enum C { D }\nbegin { }")
    assert [(type(n).__name__, n.name) for n in found] == [("CStruct", "A"), ("CStruct", "B"), ("CEnum", "C")]


def test_enum_values() -> None:
    node = definitions("#define BASE 0x10\n"
                       "enum E { A, B = BASE, C, D = -1, F, G = C | 1 << 5, H = 'a', I = B > 2 ? 7 : 8, };")[0]
    assert isinstance(node, ast.CEnum)
    assert node.members == {"A": 0, "B": 16, "C": 17, "D": -1, "F": 0, "G": 49, "H": 97, "I": 7}


def test_enum_constants_in_sizes() -> None:
    node = definitions("enum { N = 4 };\nstruct S { char x[N + 1]; int y : N; };")[1]
    assert isinstance(node, ast.CStruct)
    assert (node.fields[0].type.dims, node.fields[1].bits) == ([5], 4)


def test_typedefs() -> None:
    found = definitions("typedef unsigned int u_t, *up_t; typedef struct { int a; } s_t;"
                        "typedef struct tag { int b; } *t_t;"
                        "typedef int (*fn_t)(int); typedef char name_t[16]; typedef u_t again;")
    shown = [(n.name, type_text(n.type)) if isinstance(n, ast.CTypedef) else n.name for n in found]
    assert shown == [("u_t", "unsigned int"), ("up_t", "unsigned int *"), "s_t", ("s_t", "struct s_t"), "tag",
                     ("t_t", "struct tag *"), ("fn_t", "void *"), ("name_t", "char[16]"), ("again", "u_t")]


def test_typedefs_are_types_in_casts() -> None:
    diagnostics = Diagnostics()
    found = parse_script(Source("stdin", "typedef int number; begin { $x = (number)-1; }"), diagnostics)
    diagnostics.raise_if_errors()
    statement = found.clauses[0].body[0]
    assert isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Cast)


def test_forward_declaration() -> None:
    assert definitions("struct foo;\nstruct bar { struct foo *p; };\nbegin {}")[0].name == "bar"


@pytest.mark.parametrize(("text", "code", "where"), [
    ("struct S { int a int b; }", "syntax-error", "int"),
    ("struct S { int; };", "syntax-error", ";"),
    ("struct S { int a; ", "unclosed-brace", ""),
    ("struct S { int a[N]; };", "not-constant", "N"),
    ("struct S { int a[-1]; };", "bad-size", "-1"),
    ("struct S { int a : 65; };", "bad-size", "65"),
    ("struct S { int a[1/0]; };", "not-constant", "1/0"),
    ("struct S { long char a; };", "bad-type", "long char"),
    ("struct S { 1; };", "syntax-error", "1"),
    ("struct S { int (*f(int); };", "syntax-error", "("),
    ("struct S x;", "syntax-error", "S"),
    ("enum E { A B };", "syntax-error", "B"),
    ("enum E { A = x };", "not-constant", "x"),
    ("enum E { A = 0xffffffffffffffff, B };", "number-too-large", None),
    ("typedef int;", "syntax-error", ";"),
    ("typedef x", "syntax-error", None),
])
def test_errors(text: str, code: str, where: str | None) -> None:
    diagnostics = Diagnostics()
    parse_script(Source("stdin", text), diagnostics)
    found = diagnostics.items[0]
    assert found.code == code
    assert where is None or (found.span is not None and found.span.text == where)


def test_aligned() -> None:
    text = ("struct S { int a __attribute__((aligned(8))), b; __aligned(32) char c; int d __attribute__((aligned)); }"
            " __attribute__((packed, aligned(64))); begin {}")
    diagnostics = Diagnostics()
    found = parse_script(Source("stdin", text), diagnostics).definitions[0]
    assert not diagnostics.items
    assert (found.packed, found.align, [f.align for f in found.fields]) == (True, 64, [8, 0, 32, 16])


def test_odd_alignment_is_a_warning() -> None:
    diagnostics = Diagnostics()
    parse_script(Source("stdin", "struct S { int a; } __attribute__((aligned(3)));begin {}"), diagnostics)
    assert [(d.severity, d.code) for d in diagnostics.items] == [("WARNING", "ignored-attribute")]
