"""No text whatever makes the parser do anything but return or add diagnostics."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.language.diagnostics import Diagnostics
from sonde.language.dump import dump_script
from sonde.language.parser import parse_expression, parse_script
from sonde.source import Source

PIECES = (
    "begin kprobe:f uprobe:/bin/x:f interval:s:1 config macro struct union enum typedef let import fn if else while "
    "for unroll return break continue sizeof offsetof typeof comptime true false _ x pid args str( printf( count() "
    "$x $1 $# $kv @ @x @y[ @x[1,2] (uint8) (struct foo*) (int8[8]) uint64 struct int unsigned long char u8 foo_t "
    "1 0 0x1f 08 1e6 10ms 99999999999999999999 \"s\" \"\\n\\xff\" \" 'a' ' { "
    "} ( ) [ ] , ; : ? . .. -> ++ -- + - * / % & "
    "| ^ << >> && || ! ~ == != < <= = += <<= #define #if #ifdef #else #endif #include <a.h> // /* */ __attribute__ "
    "((packed)) \0 \ud800 \udcff µ \\ # $").split(" ")

soup = st.lists(st.sampled_from(PIECES), max_size=40).flatmap(
    lambda pieces: st.lists(st.sampled_from([" ", "", "\n"]), min_size=len(pieces), max_size=len(pieces)).map(
        lambda gaps: "".join(p + g for p, g in zip(pieces, gaps))))

TEMPLATES = ("{}", "begin {{ {} }}", "kprobe:f /{}/ {{ }}", "struct S {{ {} }};", "config = {{ {} }}",
             "#if {}\n#endif\n", "begin {{ $x = {}; }}", "macro m({}) {{ }}", "enum E {{ {} }}", "typedef {};",
             "let @x = hash({});", "{} {{ }}")


def check(text: str) -> None:
    source = Source("fuzz", text)
    diagnostics = Diagnostics()
    script = parse_script(source, diagnostics, ["param", "2"])
    dump_script(script)
    for item in diagnostics.items:
        item.render()
        if item.code == "empty-script":  # there is nothing to point at
            continue
        assert item.span is not None
        assert 0 <= item.span.start <= item.span.end <= len(text)
    assert diagnostics.has_errors or script.clauses or script.span.text.strip()
    parse_expression(source, Diagnostics())


@settings(max_examples=500)
@given(st.text(st.characters(), max_size=200))
def test_any_text(text: str) -> None:
    check(text)


@settings(max_examples=500)
@given(st.text(st.sampled_from("{}()[];,:/*\"'#\\$@=<>&|!~?.-+ \n\tbeginx1"), max_size=100))
def test_any_punctuation(text: str) -> None:
    check(text)


@settings(max_examples=1000)
@given(soup, st.sampled_from(TEMPLATES))
def test_token_soup(text: str, template: str) -> None:
    check(template.format(text))


SCRIPT = """#!/usr/bin/env sonde
#include <linux/sched.h>
#define N 3
config = { max_map_keys = 10; }
struct S { int a : 3, *b[N]; union { u8 c; } d; } __attribute__((packed));
let @m = hash(N);
macro add($a, b, @c) { @c[$a] += b; @c[$a] }
begin { printf("%d\\n", 1); }
uprobe:"/bin/x":f, kprobe:tcp_*
/pid == 1 && comm != "x" || (uint8)arg0 / 2 > 1/ {
  if $x.0.1 ?: 2 { @y[(1, "a"), pid] = count(); } else { for ($i : 0..ncpus) { $x++; } }
  let $z: struct S * = (struct S *)arg0;
  print((a=1, b=$z->d.c)); _ = { $y = 1; $y };
}
"""


@settings(max_examples=500)
@given(st.lists(st.tuples(st.integers(0, len(SCRIPT)), st.integers(0, 20), st.sampled_from(["", *PIECES])), max_size=4))
def test_damaged_script(edits: list[tuple[int, int, str]]) -> None:
    text = SCRIPT
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length:]
    check(text)


def test_undamaged_script() -> None:
    diagnostics = Diagnostics()
    parse_script(Source("stdin", SCRIPT), diagnostics)
    assert diagnostics.items == []
