"""Formatting random layouts of random scripts: the tree stays, and formatting again changes nothing."""

from __future__ import annotations

import random
import re

import pytest

from sonde import compiling
from sonde.errors import CompileError
from sonde.language.diagnostics import Diagnostics
from sonde.language.dump import dump_script
from sonde.language.parser import parse_script
from sonde.source import Source

PARTS = ["$x = 1;", "@a[pid, comm] = count();", "if ($x == 1) {", "}", "} else {", "for ($i : 0..10) {", "while (1) {",
         "$y = (uint64)-$x;", "$z = *(struct sock *)arg0;", "print(($x, (1,), ()));", 'printf("%d /* { */\\n", $x++);',
         "// a comment }\n", "/* b */", "/* c\n d */", "let $w: uint8 = 3;", "$v = { let $q = 1; $q } + 2;",
         "$u = $x ? 1 : $y ?: 3;", "unroll (3) {", "return;", "break;", "$t.0;", "$a = curtask->pid & 3;", "_ = pid;",
         "#define A 1\n", "\n", "\n\n\n", "  ", "@b++; --@b;", "if $x { print(1) } else if $y { print(2) } else { 3 }"]
HEADS = ["begin", "k:a,\nk:b", "t:a:b /pid == 1/", "u:/bin/x:f /{ $x = 1; $x }/", "i:s:1"]


def script(choice: random.Random) -> str:
    text = choice.choice(["", "#!/usr/bin/sonde\n", "// first\n\n", "struct a { int x : 3; struct b *y; };\n",
                          "macro m(a, $b) { a + $b }\n", "#if 0\n {{{ \n#endif\n",
                          "fn f($a: int8): int8 { return $a; }\n"])
    for _ in range(choice.randrange(1, 4)):
        text += choice.choice(HEADS) + choice.choice(["{", "\n{", " {\n", "{ // x\n"])
        parts = choice.choices(PARTS, k=choice.randrange(12))
        text += choice.choice(["", " ", "\n"]).join(parts)
        depth = len(re.findall("{", "".join(parts))) - len(re.findall("}", "".join(parts)))
        text += "}" * max(0, depth) + choice.choice(["}", "\n}", "} "]) + choice.choice(["", "\n", "\n\n// end\n"])
    return text


def tree(text: str) -> str:
    diagnostics = Diagnostics()
    found = parse_script(Source("stdin", text), diagnostics)
    diagnostics.raise_if_errors()
    return re.sub(r"\s+", "", dump_script(found))


@pytest.mark.parametrize("seed", range(20))
def test_formatting(seed: int) -> None:
    choice = random.Random(seed)
    formatted = 0
    for _ in range(100):
        text = script(choice)
        try:
            before = tree(text)
        except CompileError:
            continue
        formatted += 1
        once = compiling.format_source(text)
        assert tree(once) == before, text
        assert compiling.format_source(once) == once, text
    assert formatted > 5
