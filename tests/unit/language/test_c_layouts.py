"""Layouts that attributes, #pragma pack and wide types make: those that the C compiler says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from compiled import world
from sonde import compiling
from sonde.errors import CompileError
from sonde.semantics.script_options import Options
from sonde.source import Source
from support import compile_c

DEFINITIONS = """
#define ALIGN(n) __attribute__((aligned(n)))
#define PACKED __attribute__((packed))
struct inner_packed { int i; struct __attribute__((packed)) { char c; int b; } x; };
struct inner_named { char i; struct __attribute__((packed)) within { char c; int b; } x; struct within y; };
struct inner_union { char i; union __attribute__((packed)) { char c; int b; } x; };
struct inner_anonymous { char i; struct __attribute__((packed)) { char c; int b; }; };
struct inner_macro { int i; struct ALIGN(8) { int a; } m; char z; };
struct inner_enum { char c; enum __attribute__((packed)) { E1, E2 = 200 } e; enum { E3 } PACKED f; enum { E4 } g; };
struct inner_and_member { char c; struct ALIGN(8) { char c; } m ALIGN(32), n; ALIGN(16) struct { char c; } o; };
struct __attribute__((aligned(1), packed)) first_one { int i; char c; int j; };
struct __attribute__((aligned(32), packed)) first_large { char a; int b; };
struct __attribute__((aligned)) alone { char a; };
struct alone_behind { char a; } __attribute__((aligned, unused)) ;
struct behind_macros { char a; int b; } PACKED /* ; */ ALIGN(sizeof(long) * 2);
struct wide { char c; __int128 i; int z; };
struct wide_names { char a; unsigned __int128 b; char c; signed __int128 d; char e; __int128_t f; char g;
                    __uint128_t h; };
struct wide_many { char a; __int128 b[2]; struct wide c; __int128 *d; } PACKED;
struct floating { char c; long double d; float f; double e; char g; double long h; __float128 i; };
struct by_keyword { _Alignas(8) char a; char b; char _Alignas(long) c; alignas(16) char d; };
typedef int aligned_int ALIGN(16);
typedef long aligned_less __attribute__((aligned(2)));
typedef struct { char a; int b; } aligned_struct ALIGN(32);
typedef aligned_int aligned_too;
typedef struct later later_t;
struct later { char a; long b; };
struct typedefs { char a; aligned_int b; aligned_less c; aligned_struct d; aligned_int *e; aligned_too f; later_t g; };
enum packed_enum { E5, E6 = -300 } PACKED;
struct enums { char a; enum packed_enum b; char c; enum { E7 = -1, E8 = 0xffffffff } d; char e; enum PACKED { E9 = -1,
               E10 = 127 } f; enum PACKED { E11 = -1, E12 = 128 } g; enum PACKED { E13 = 1ull << 40 } h; };
#pragma pack(push, 1)
struct pack1 { char a; long b; short c; };
#pragma pack(push)
#pragma pack(2)
struct pack2 { char a; long b; struct { char a; int b; } c; int d ALIGN(16); __int128 e; };
struct pack2_bits { char a; int b : 30; int c : 20; long d : 40; unsigned e : 5; int : 0; char f; };
struct pack2_packed { char a; short b : 4; } PACKED;
struct pack2_aligned { char a; long b; } ALIGN(64);
#pragma pack(pop)
struct pack_again { char a; int b; };
#pragma pack(pop)
#pragma pack(4)
union pack4 { char a[5]; long b; };
#pragma pack()
struct natural { char a; long b; };
_Pragma("pack(1)") struct pragma { char a; long b; };
_Pragma ( "pack()" )
struct natural_again { char a; long b; };
#define PACKED_FROM_HERE _Pragma("pack(push, 2)")
#define PACKED_TO_HERE _Pragma("pack(pop)")
PACKED_FROM_HERE
struct between_macros { char a; long b; };
PACKED_TO_HERE
struct behind { char a; long b; };
"""
PLACES = {
    "struct inner_packed": ["x", "x.b"], "struct inner_named": ["x", "y", "y.b"], "struct inner_union": ["x"],
    "struct inner_anonymous": ["b"], "struct inner_macro": ["m", "z"], "struct inner_enum": ["e", "f", "g"],
    "struct inner_and_member": ["m", "n", "o"], "struct first_one": ["j"], "struct first_large": ["b"],
    "struct alone": [], "struct alone_behind": [], "struct behind_macros": ["b"], "struct wide": ["i", "z"],
    "struct wide_names": ["b", "d", "f", "h"], "struct wide_many": ["b", "c", "c.i", "d"],
    "struct floating": ["d", "f", "e", "h", "i"], "struct by_keyword": ["b", "c", "d"],
    "struct typedefs": ["b", "c", "d", "e", "f", "g"], "struct enums": ["b", "c", "d", "e", "f", "g", "h"],
    "struct pack1": ["b", "c"], "struct pack2": ["b", "c", "c.b", "d", "e"],
    "struct pack2_bits": ["f"], "struct pack2_packed": [], "struct pack2_aligned": ["b"], "struct pack_again": ["b"],
    "union pack4": [], "struct natural": ["b"], "struct pragma": ["b"], "struct natural_again": ["b"],
    "struct between_macros": ["b"], "struct behind": ["b"],
}


def findings(text: str, arch: str = "x86_64") -> list[tuple[str, str]]:
    """(code, message) of everything there is to say of a script."""
    try:
        found = compiling.compile(Source("script.bt", text), Options(), world(arch=arch)).warnings
    except CompileError as error:
        found = error.diagnostics
    return [(item.code, item.message) for item in found]


@pytest.mark.parametrize("place", ["script", "header"])
def test_layouts_are_those_of_the_compiler(place: str, tmp_path: Path) -> None:
    asked = [f"sizeof({name})" for name in PLACES]
    asked += [f"offsetof({name}, {member})" for name, members in PLACES.items() for member in members]
    lines = "".join(f'    printf("%d\\n", (int){question});\n' for question in asked)
    program = compile_c(f"#include <stdalign.h>\n#include <stddef.h>\n#include <stdio.h>\n{DEFINITIONS}"
                        f"int main(void) {{\n{lines} return 0; }}\n", tmp_path, "layouts")
    answers = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert len(answers) == len(asked)
    (tmp_path / "layouts.h").write_text(DEFINITIONS)
    text = DEFINITIONS if place == "script" else f'#include "{tmp_path}/layouts.h"\n'
    body = " ".join(f'static_assert({question} == {answer}, "{question} is not {answer}");'
                    for question, answer in zip(asked, answers))
    assert not findings(f"{text}begin {{ {body} }}")


@pytest.mark.parametrize(("arch", "size"), [("x86_64", 48), ("aarch64", 48), ("riscv64", 48), ("s390x", 32)])
def test_largest_alignment_of_an_architecture(arch: str, size: int) -> None:
    """What compilers for it define as __BIGGEST_ALIGNMENT__."""
    text = "struct a {{ char c; __int128 i; int z; }}; struct b {{ char c[{0}]; }} __attribute__((aligned)); " \
           "struct c {{ char c; long double d; int z; }}; begin {{ static_assert(sizeof(struct a) == {1} && " \
           'sizeof(struct b) == {1} && sizeof(struct c) == {1}, ""); }}'
    assert not findings(text.format(size - 7, size), arch)


def test_headers_leave_the_packing_to_what_includes_them(tmp_path: Path) -> None:
    (tmp_path / "begin.h").write_text("#pragma pack(push, 1)\n")
    (tmp_path / "end.h").write_text("#pragma pack(pop)\nstruct t { char a; int b; };\n")
    text = f'#include "{tmp_path}/begin.h"\nstruct s {{ char a; int b; }};\n#include "{tmp_path}/end.h"\n'
    body = 'static_assert(sizeof(struct s) == 5 && sizeof(struct t) == 8, "");'
    assert not findings(f"{text}begin {{ {body} }}")


def test_functions_that_return_a_struct_are_no_definitions(tmp_path: Path) -> None:
    (tmp_path / "f.h").write_text("struct s { int a; };\nstruct s f(int a) { struct s x = { a }; return x; }\n")
    assert not findings(f'#include "{tmp_path}/f.h"\nbegin {{ static_assert(sizeof(struct s) == 4, ""); }}')


@pytest.mark.parametrize("member", ["__int128 i", "unsigned __int128 i", "long double i"])
def test_wide_members_have_no_value(member: str) -> None:
    """As in bpftrace, where they are none; the struct as a whole can be printed."""
    text = f"struct b {{ char c; {member}; }}; begin {{ print(*(struct b *)0);"
    assert not findings(f"{text} }}")
    assert findings(f"{text} print(((struct b *)0)->i); }}") == [
        ("no-value", "Value 'void' cannot be used for an argument.")]


@pytest.mark.parametrize("pragma", ["pack(3)", "pack(push, 32)", "pack(nothing)"])
def test_a_pragma_that_cannot_be_obeyed_is_a_warning(pragma: str) -> None:
    text = f'#pragma {pragma}\nstruct s {{ char a; int b; }};\nbegin {{ static_assert(sizeof(struct s) == 8, ""); }}'
    assert findings(text) == [("ignored-attribute", f"#pragma {pragma} has no effect")]


@pytest.mark.parametrize("text", ["#pragma pack(pop)", "#pragma pack(push", "#pragma once", "#pragma pack",
                                  '_Pragma("GCC poison x")', '_Pragma("")', '#define X _Pragma("once")\nX'])
def test_pragmas_that_change_nothing(text: str) -> None:
    assert not findings(text + '\nstruct s { char a; int b; }; begin { static_assert(sizeof(struct s) == 8, ""); }')


@pytest.mark.parametrize(("text", "code"), [
    ("struct s { int a; } __attribute__((aligned(8)) ;", "syntax-error"),
    ("struct s { int a __attribute__((aligned(nothing))); };", "not-constant"),
    ("struct s { int a __attribute__(packed); };", "syntax-error"),
    ("struct s { int a __attribute__((1)); };", "syntax-error"),
    ("struct s { struct foo (int x) { int y; }; };", "syntax-error"),
])
def test_wrong_attributes(text: str, code: str) -> None:
    assert findings(f"{text} begin {{ }}")[0][0] == code


def test_a_macro_may_say_how_much_to_pack() -> None:
    """For clang, and so bpftrace; GCC does not look into macros there."""
    text = "#define ONE 1\n#pragma pack(ONE)\nstruct s { char a; int b; };"
    assert not findings(text + 'begin { static_assert(sizeof(struct s) == 5, ""); }')


def test_enums_can_be_aligned() -> None:
    """By clang, and so bpftrace; GCC does not obey that."""
    text = "enum a { A } __attribute__((aligned(16))); " \
           "struct s { char a; enum a b; char c; enum { B } __attribute__((aligned(32))) d; enum { C } e; };"
    assert not findings(text + 'begin { static_assert(offsetof(struct s, b) == 16 && offsetof(struct s, d) == 32 && '
                        'offsetof(struct s, e) == 36, ""); }')
