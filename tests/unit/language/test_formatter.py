"""The formatter: what it gives means the same, and is formatted already."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sonde import compiling
from sonde.errors import CompileError
from sonde.language.diagnostics import Diagnostics
from sonde.language.dump import dump_script
from sonde.language.parser import parse_script
from sonde.source import Source

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted([*(ROOT / "src" / "sonde").rglob("*.bt"), *(ROOT / "tests").rglob("*.bt")])


def tree(text: str) -> str:
    """The tree as text, without the white space that ``typeof`` quotes from the script."""
    diagnostics = Diagnostics()
    script = parse_script(Source("stdin", text), diagnostics, [f"p{i}" for i in range(9)])
    diagnostics.raise_if_errors()
    return re.sub(r"\s+", "", dump_script(script))


def comments(text: str) -> list[str]:
    return ["".join(c.split()) for c in re.findall(r'"(?:\\.|[^"\\\n])*"|(//[^\n]*|/\*.*?\*/)', text, re.DOTALL) if c]


def check(text: str) -> str:
    """The formatted text, after a look at what must hold for any."""
    formatted = compiling.format_source(text)
    assert tree(formatted) == tree(text)
    assert comments(formatted) == comments(text)
    assert compiling.format_source(formatted) == formatted
    return formatted


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_scripts(path: Path) -> None:
    check(path.read_text())


@pytest.mark.parametrize(("text", "expected"), [
    ("begin{print(1)}", "begin { print(1) }\n"),
    ("begin{\nprint(1);print(2)\n}", "begin {\n  print(1);\n  print(2)\n}\n"),
    ("begin\n{\n}", "begin\n{}\n"),
    ("k:a,k:b{}", "k:a, k:b {}\n"),
    ("k:a,\nk:b\n/pid==1/\n{exit()}", "k:a,\nk:b\n/pid == 1/\n{ exit() }\n"),
    ("begin{if(1){print(1)}\nelse{print(2)}}", "begin {\n  if (1) { print(1) } else { print(2) }\n}\n"),
    ("begin{$x=-1;$y=-$x;$z=$x- -$y;$w=$x-$y;}", "begin { $x = -1; $y = -$x; $z = $x - -$y; $w = $x - $y; }\n"),
    ("begin{$p=*(uint64*)arg0;$q=(uint8)-1&3;}", "begin { $p = *(uint64 *)arg0; $q = (uint8)-1 & 3; }\n"),
    ("begin{$t=(1,(2,),());$t.1.0;@[1,2]++;@m [3]--;}", "begin { $t = (1, (2,), ()); $t.1.0; @[1, 2]++; @m[3]--; }\n"),
    ("begin{$a=1?2:3;$b=1?:3;for($i:0 .. 5){}}", "begin { $a = 1 ? 2 : 3; $b = 1 ?: 3; for ($i : 0..5) {} }\n"),
    ("begin{let $x:uint8=1;let $y :string;let $z;}", "begin { let $x: uint8 = 1; let $y: string; let $z; }\n"),
    ("struct a{int x:3;struct b*y;};begin{}", "struct a { int x : 3; struct b *y; };\nbegin {}\n"),
    ("fn f($a:int64):int64{return $a}", "fn f($a: int64): int64 { return $a }\n"),
    ("macro m(a,$b,@c){a}\nbegin{}", "macro m(a, $b, @c) { a }\nbegin {}\n"),
    ("begin{print(1);}// one\n// two\n\n\n\n// three\nend{}",
     "begin { print(1); } // one\n// two\n\n// three\nend {}\n"),
    ("begin{/*a*/print(1)/*b*/;}", "begin { /*a*/ print(1) /*b*/; }\n"),
    ("begin{\n// only\n}", "begin {\n  // only\n}\n"),
    ('begin{printf("%d\\n",\n1+\n2);}', 'begin {\n  printf("%d\\n",\n      1 +\n      2);\n}\n'),
    ("#define  A   1\nbegin{\n#define B 2\nprint(B);}", "#define  A   1\nbegin {\n#define B 2\n  print(B);\n}\n"),
    ("#if 0\n  k:x{}\n#else\nbegin{ }\n#endif\nend{}", "#if 0\n  k:x{}\n#else\nbegin{ }\n#endif\nend {}\n"),
    ("config={a=1;b=2}\nlet @m=hash(5);", "config = { a = 1; b = 2 }\nlet @m = hash(5);\n"),
    ('u:"/a b/c":"f(int)"/$1>0/{}', 'u:"/a b/c":"f(int)" /$1 > 0/ {}\n'),
    ("begin/{$x=1;$x==1}/{}", "begin /{ $x = 1; $x == 1 }/ {}\n"),
    ('k:f{$x={let $a=1;$a}+2;print({1})}', 'k:f { $x = { let $a = 1; $a } + 2; print({ 1 }) }\n'),
])
def test_layout(text: str, expected: str) -> None:
    text = text.replace("a=1;b=2", "max_strlen=64;license=\"GPL\"") if "config" in text else text
    expected = expected.replace("a = 1; b = 2", 'max_strlen = 64; license = "GPL"')
    assert check(text) == expected


def test_errors_are_reported() -> None:
    with pytest.raises(CompileError):
        compiling.format_source("begin { print( }")


def test_files_need_not_be_there() -> None:
    text = '#include "mine.h"\nimport "lib.bt";\nbegin { print($1); }\n'
    assert compiling.format_source(text) == text
