"""globmatch(): patterns, and the ranges that they are compared by."""

from __future__ import annotations

import fnmatch

import pytest

from sonde.functions.patterns import byte_ranges, glob_matches, parse_glob

TEXTS = ["", "a", "abc", "aXc", "abcabc", "a-c", "a]c", "foo.bar", "x" * 40, "*", "a*c"]
PATTERNS = ["", "*", "?", "a*", "*c", "a?c", "a*c", "*b*", "**", "a[A-Z]c", "a[!b]c", "[abc]*", "*[!c]", "a[]]c",
            "a[*]c", "[", "[a", "abc*abc", "*abc*", "?*?", "a[b-]c"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", TEXTS)
def test_as_a_shell_would(pattern: str, text: str) -> None:
    assert glob_matches(parse_glob(pattern), text.encode()) == fnmatch.fnmatchcase(text, pattern)


def test_ranges() -> None:
    assert byte_ranges(frozenset(b"abcxz")) == [(97, 99), (120, 120), (122, 122)]
    assert byte_ranges(frozenset()) == []
