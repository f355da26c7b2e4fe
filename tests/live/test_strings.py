"""Strings of every size, on the running kernel: lengths, equality and searches are what Python says.

The probe is a system call of this process, whose buffers it can read.
"""

from __future__ import annotations

import ctypes
import errno
import fnmatch
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

import judge
from fuzz.programs import EVENT
from sonde.compiler.pipeline import compile_checked
from sonde.compiling import live_world, mask_features
from support import run_sonde

NEW = live_world()
WORLDS: dict[str, Any] = {"as it is": NEW, "without bpf_loop": mask_features(NEW, ["bpf_loop"])}


def printed(script: str, world: Any, hit: Callable[[], object] = os.getppid) -> list[str]:
    """What a script prints when ``hit`` has made its events."""
    spec = compile_checked(judge.checked(script, world), world, None, verify=True)
    return judge.on_kernel(spec, hit).split("\n\n")[0].splitlines()


def text(buffer: Any, size: int) -> str:
    return f"str(uptr((uint8 *){ctypes.addressof(buffer)}), {size})"


def pairs(size: int, seed: int) -> list[tuple[bytes, bytes]]:
    """(text, part): at the beginning, in the middle, at the end, not there, there but for its last character, empty."""
    chance = random.Random(seed)
    found: list[tuple[bytes, bytes]] = [(b"", b""), (b"", b"a"), (b"a", b"")]
    for length in sorted({1, 7, 8, 9, min(size - 1, 63), min(size - 1, 65), size // 2, size - 2, size - 1}):
        if not 0 < length < size:
            continue
        whole = bytes(chance.choice(b"ab") for _ in range(length))
        for count in {1, 3, min(8, length), min(9, length), min(length, size // 3)}:
            if not 0 < count <= length:
                continue
            at = chance.randrange(length - count + 1)
            part = whole[at:at + count]
            found += [(whole, part), (whole, part[:-1] + b"c"), (whole, whole[-count:]), (whole, part + b"\xff")]
        found += [(whole, whole), (whole, whole[:-1]), (whole[:-1], whole)]
    return found


def run_all(size: int, cases: list[tuple[bytes, bytes]], world: Any, expression: str) -> list[str]:
    """``expression`` of $a and $b, for each pair."""
    a, b = ctypes.create_string_buffer(size + 1), ctypes.create_string_buffer(size + 1)
    script = (f"config = {{ max_strlen = {max(size, 64)} }}\n"
              f"{EVENT} /pid == {os.getpid()}/ {{ $a = {text(a, size)}; $b = {text(b, size)}; "
              f"printf(\"%d\\n\", {expression}); }}")

    def hit() -> None:
        for one, other in cases:
            a.value, b.value = one[:size], other[:size]
            os.getppid()

    return printed(script, world, hit)


SIZES = [8, 16, 17, 64, 65, 200, 1024]


@pytest.mark.parametrize("kernel", WORLDS)
@pytest.mark.parametrize("size", SIZES)
def test_length_and_equality(size: int, kernel: str) -> None:
    cases = pairs(size, size)
    got = run_all(size, cases, WORLDS[kernel], "strlen($a) * 4 + (int64)($a == $b) * 2 + strncmp($a, $b, 5)")
    wanted = [len(a[:size - 1]) * 4 + (a[:size - 1] == b[:size - 1]) * 2 + (a[:size - 1][:5] != b[:size - 1][:5])
              for a, b in cases]
    assert got == [str(w) for w in wanted]


def where(text: bytes, part: bytes) -> int:
    """What strstr() gives: the index, or -ENOENT."""
    return text.find(part) if part in text else -errno.ENOENT


@pytest.mark.parametrize("kernel", WORLDS)
@pytest.mark.parametrize("size", SIZES)
def test_search(size: int, kernel: str) -> None:
    if size > 64 and not WORLDS[kernel].has_feature("bpf_loop"):
        size = 64  # more is too much for a verifier that has to follow each step
    cases = pairs(size, size)
    got = run_all(size, cases, WORLDS[kernel], "strstr($a, $b)")
    assert got == [str(where(a[:size - 1], b[:size - 1])) for a, b in cases]


# A literal that is longer than max_strlen, which is never less than 64 here, is refused.
@pytest.mark.parametrize(("size", "needle"), [
    (size, needle) for size in SIZES
    for needle in ["a", "ab", "abbabbab", "aabbaabba", "b" * 17, "ba" * 40, "ab" * 200] if len(needle) < max(size, 64)])
def test_search_of_a_literal(size: int, needle: str) -> None:
    chance = random.Random(needle)
    cases = [(bytes(chance.choice(b"ab") for _ in range(chance.randrange(size))), b"") for _ in range(8)]
    part = needle.encode()
    cases += [(head + part + tail, b"") for head in (b"", b"b", b"a" * 7, b"ab" * 33) for tail in (b"", b"a" * 9)]
    got = run_all(size, cases, NEW, f'strstr($a, "{needle}") * 2 + (int64)strcontains($a, "{needle}")')
    cut = [a[:size - 1] for a, _ in cases]
    assert got == [str(where(a, part) * 2 + (part in a)) for a in cut]


@pytest.mark.parametrize("pattern", ["*", "a*", "*b", "*ab*", "a*b*a", "*a?b*", "a*[ab]b*ba", "*bbbbbbbb*a*"])
@pytest.mark.parametrize("size", [16, 64, 300, 1024])
def test_patterns(size: int, pattern: str) -> None:
    chance = random.Random(pattern)
    cases = [(bytes(chance.choice(b"ab") for _ in range(chance.randrange(length + 1))), b"")
             for length in (3, 5, 12, size - 1, size - 1) for _ in range(3)]
    got = run_all(size, cases, NEW, f'(int64)globmatch($a, "{pattern}")')
    assert got == [str(int(fnmatch.fnmatchcase(a.decode(), pattern))) for a, _ in cases]


LONG = 65536


@pytest.mark.exact
def test_a_burst_of_strings_of_a_wide_type() -> None:
    """20,000 records that could have 16 KB each: 320 MB, where a ring has 64 at most."""
    done = run_sonde("-e", """config = { max_strlen = 16384 }
begin { $p = kptr((int8 *)curtask->comm); for ($i : 0..20000) { printf("%s %d\\n", str($p), $i); } exit(); }""")
    assert "Lost" not in done.stderr, done.stderr
    assert done.stdout.split()[1::2] == [str(i) for i in range(20000)]


def test_the_longest_strings() -> None:
    """64 KiB: lengths, equality up to the last character, and searches that end in the last bytes."""
    whole = b"a" * (LONG - 40) + b"needle" + b"z" * 33
    cases = [(whole, whole), (whole, whole[:-1]), (whole, whole[:-1] + b"y"), (whole, b"needlez"), (whole, b"needled"),
             (whole, b"a" * 300 + b"n"), (b"short", b"ort"), (b"", b"")]
    got = run_all(LONG, cases, NEW, 'strlen($a) * 2 + (int64)($a == $b)')
    assert got == [str(len(a) * 2 + (a == b)) for a, b in cases]
    worst = cases.pop(2)
    assert run_all(LONG, cases, NEW, "strstr($a, $b)") == [str(where(a, b)) for a, b in cases]
    with pytest.raises(judge.Unexpected, match="'loop'"):  # each position agrees in half of it: that it gave up is said
        run_all(LONG, [worst], NEW, "strstr($a, $b)")
    assert run_all(LONG, cases, NEW, 'strstr($a, "needlezz")') == [str(where(a, b"needlezz")) for a, _ in cases]
    assert run_all(LONG, cases, NEW, '(int64)globmatch($a, "a*need?e*z")') == ["1"] * 5 + ["0"] * 2


def test_strings_in_a_loop() -> None:
    """Every iteration does all of it: what the verifier once followed step by step, times the iterations."""
    if not NEW.has_feature("bpf_loop"):
        pytest.skip("kernel lacks bpf_loop: the verifier has to follow all of them")
    a, b = ctypes.create_string_buffer(b"/usr/lib/passwords/file"), ctypes.create_string_buffer(b"passwords")
    (line,) = printed(
        f"{EVENT} /pid == {os.getpid()}/ {{ $n = 0; for ($i : 0..100) {{ $a = {text(a, 1024)}; $b = {text(b, 1024)}; "
        'if ($a == $b || $a == "x") { $n += 1000000; } if (strcontains($a, $b)) { $n += strstr($a, $b); } '
        'if (strcontains($a, "passwords")) { $n += strlen($a); } if (globmatch($a, "*pass*")) { $n += 1; } } '
        'printf("%d\\n", $n); }', NEW)
    assert line == str(100 * (9 + 23 + 1))


@pytest.mark.skipif(not live_world().has_feature("long_keys"), reason="kernel lacks long_keys (Linux 5.11)")
def test_a_string_that_is_made_of_itself() -> None:
    """It gets the room that str() has: no script has to say how long it may become."""
    done = run_sonde("-q", "-e", """begin { $s = "a"; for $i : 0..600 { $s = str_concat($s, "bc"); }
        printf("%d %s\\n", sizeof($s), $s); @m["k"] = "x"; @m["k"] = str_concat("y", @m["k"]); exit(); }""")
    size, text = done.stdout.splitlines()[0].split()
    assert size == "1024" and text == ("a" + "bc" * 600)[:1024] + ".."
    assert '@m[k]: yx' in done.stdout
