"""Numbers, strings, tokens and # lines."""

from __future__ import annotations

import pytest

from sonde.language import ast
from sonde.language.diagnostics import Diagnostics
from sonde.language.lexer import MAX_INT, parse_integer, unescape_string
from sonde.language.parser import parse_script
from sonde.source import Source


@pytest.mark.parametrize(("text", "value"), [
    ("0", 0), ("42", 42), ("1_000_000", 1000000), ("0x1f", 31), ("0XfF", 255), ("0755", 0o755), ("00", 0),
    ("1e6", 10**6), ("2E3", 2000), ("1e019", 10**19), ("1e_1_0", 10**10), ("1e3ms", 10**9), ("1__0", 10),
    ("010s", 8 * 10**9),
    ("10ns", 10), ("10us", 10_000), ("10ms", 10**7), ("10s", 10**10), ("1m", 60 * 10**9), ("2h", 7200 * 10**9),
    ("1d", 86400 * 10**9), ("1u", 1), ("1UL", 1), ("1ull", 1), ("0x10LL", 16), ("18446744073709551615", MAX_INT),
    ("0xffffffffffffffff", MAX_INT), ("0x1d", 29),
])
def test_integer(text: str, value: int) -> None:
    assert parse_integer(text) == value


@pytest.mark.parametrize("text", [
    "0x", "08", "0779", "1e", "10w", "1uu", "0b11", "0x1g", "0x10s", "1lul", "", "x", "_1",
    "1_", "0_", "0x1_", "1e3_", "1_e3", "1_s",
    "10e3", "0e5", "1_0e2"])
def test_malformed_integer(text: str) -> None:
    assert parse_integer(text) is None


@pytest.mark.parametrize("text", [
    "18446744073709551616", "0x1" + "0" * 16, "1e20", "1e99999999999999", "9" * 10000, "0x" + "f" * 10000,
    "0" + "7" * 10000, "300000d", "1" + "_0" * 100])
def test_too_large_integer(text: str) -> None:
    value = parse_integer(text)
    assert value is not None and value > MAX_INT


@pytest.mark.parametrize(("text", "value"), [
    ("plain", "plain"), (r"a\nb\t\\\"", 'a\nb\t\\"'), (r"\x41\x4a", "AJ"), (r"\033[1m", "\033[1m"), (r"\0", "\0"),
    (r"\r\1018", "\rA8"), ("µ", "µ"), (r"\xc2\xb5", "µ"),
])
def test_unescape(text: str, value: str) -> None:
    assert unescape_string(text) == (value, [])


def test_raw_bytes_survive() -> None:
    value, wrong = unescape_string(r"a\xff\200")
    assert not wrong
    assert value.encode("utf-8", "surrogateescape") == b"a\xff\x80"


@pytest.mark.parametrize(("text", "where"), [
    (r"a\q", [(1, 3)]), (r"\xg", [(0, 2)]), (r"\400", [(0, 4)]), (r"\n\z\8", [(2, 4), (4, 6)]), ("ab\ud800", [(2, 3)])])
def test_wrong_escapes(text: str, where: list[tuple[int, int]]) -> None:
    assert unescape_string(text)[1] == where


def script(text: str) -> ast.Script:
    diagnostics = Diagnostics()
    found = parse_script(Source("stdin", text), diagnostics)
    diagnostics.raise_if_errors()
    return found


def probes(text: str) -> list[str]:
    return [clause.points[0].text for clause in script(text).clauses]


def test_comments_anywhere() -> None:
    text = "// one { \n/* two \" */ begin /* three\n */ { print(1 /* } */); // }\n } /**/ end{}//"
    assert probes(text) == ["begin", "end"]


def test_shebang_includes_and_defines() -> None:
    found = script("#!/usr/bin/env sonde\n#include <linux/sched.h>\n  # include \"net/sock.h\" // mine\n"
                   "#define A 1 // one\n#define B \"a // b\" /* c */\n#define C A + \\\n  2\n#define D\n"
                   "#undef D\n#pragma once\nbegin {\n#define E 3\n print(E); }\n#")
    assert found.includes == ["linux/sched.h", "net/sock.h"]
    assert found.defines == {"A": "1", "B": '"a // b"', "C": "A +    2", "E": "3"}


@pytest.mark.parametrize(("text", "expected"), [
    ("#ifndef BPFTRACE_HAVE_BTF\nkprobe:no {}\n#else\nkprobe:yes {}\n#endif\n", ["kprobe:yes"]),
    ("#ifdef BPFTRACE_HAVE_BTF\nkprobe:yes {}\n#else\nkprobe:no {}\n#endif\n", ["kprobe:yes"]),
    ("#ifndef BPFTRACE_HAVE_BTF\n// we'll \"need\nstruct a { int b; }; // c\n#endif\nkprobe:yes {}", ["kprobe:yes"]),
    ("#ifdef X // x\nkprobe:no {} // no\n#elif 1 // yes\nkprobe:yes {}\n#else // no\n#endif // X", ["kprobe:yes"]),
    ("#ifndef X for old kernels\nkprobe:yes {}\n#endif\n", ["kprobe:yes"]),
    ("#ifdef X\n#ifdef Y\n{{{\n#else\n\"\n#endif\n#endif\nkprobe:a {}", ["kprobe:a"]),
    ("#ifdef X\nkprobe:a {}\n#elif 1 > 2\nkprobe:b {}\n#elif 2 > 1\nkprobe:c {}\n#elif 1\nkprobe:d{}\n#endif",
     ["kprobe:c"]),
    ("#define V 3\n#if V >= 2 && defined(V) && !defined W\nkprobe:a {}\n#else\nkprobe:b {}\n#endif", ["kprobe:a"]),
    ("#if 0\nkprobe:a {}\n#endif\n#if UNKNOWN\nkprobe:b {}\n#endif\nkprobe:c{}", ["kprobe:c"]),
    ("#if (1 << 4) == 020 // comment\nkprobe:a {}\n#endif", ["kprobe:a"]),
])
def test_conditionals(text: str, expected: list[str]) -> None:
    assert probes(text) == expected


def test_conditional_within_a_block() -> None:
    found = script("begin {\n#ifdef X\n print(1); }\n#else\n print(2);\n#endif\n}")
    assert len(found.clauses[0].body) == 1


@pytest.mark.parametrize(("text", "code", "where"), [
    ("#else\nbegin {}", "unbalanced-conditional", "#else"),
    ("#if 1\nbegin {}", "unbalanced-conditional", "#if 1"),
    ("#ifdef X\nbegin {}", "unbalanced-conditional", "#ifdef X"),
    ("#if 1 +\n#endif\nbegin {}", "syntax-error", ""),
    ("#if 1 @ $\n#endif\nbegin {}", "syntax-error", "@"),
    ("#if $\n#endif\nbegin {}", "invalid-character", "$"),
    ("#if /*\n#endif\nbegin {}", "unterminated-comment", ""),
    ("#if LINUX_VERSION_CODE > 5\n#endif\nbegin {}", "bad-condition", "LINUX_VERSION_CODE"),
    ("#if 1 / 0\n#endif\nbegin {}", "bad-condition", "1 / 0"),
    ("#define 1 2\nbegin {}", "bad-define", "#define 1 2"),
    ("#include x\nbegin {}", "bad-include", "#include x"),
    ("#error no\nbegin {}", "error-directive", "#error no"),
    ("# a comment\nbegin {}", "unknown-directive", "# a comment"),
])
def test_wrong_directives(text: str, code: str, where: str) -> None:
    diagnostics = Diagnostics()
    parse_script(Source("stdin", text), diagnostics)
    found = diagnostics.items[0]
    assert found.code == code
    assert found.span is not None and found.span.text == where
