"""Declared maps of each kind."""

from __future__ import annotations

import re

import pytest

from support import run_sonde


@pytest.mark.parametrize("kind", ["hash", "lruhash", "percpuhash", "percpulruhash"])
@pytest.mark.parametrize(("value", "shown"), [("7", "7"), ("-7", "-7"), ('"text"', "text"), ("(1, -2)", "(1, -2)")])
def test_plain_values(kind: str, value: str, shown: str) -> None:
    """What a program stores is what it reads, and what is printed, whatever CPU it ran on."""
    text = f"let @m = {kind}(10); begin {{ @m[1] = {value}; print(@m[1]); print(@m); exit(); }}"
    done = run_sonde("-q", "-e", text)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line] == [shown, f"@m[1]: {shown}", f"@m[1]: {shown}"]


@pytest.mark.parametrize("without", [(), ("--no-feature", "map_lookup_percpu_elem")], ids=["as it is", "before 5.19"])
@pytest.mark.parametrize("kind", ["hash", "lruhash", "percpuhash", "percpulruhash"])
def test_counts(kind: str, without: tuple[str, ...]) -> None:
    text = f"let @m = {kind}(10); begin {{ @m[1] = count(); @m[1] = count(); print((int64)@m[1]); exit(); }}"
    done = run_sonde("-q", *without, "-e", text)
    assert [line for line in done.stdout.splitlines() if line] == ["2", "@m[1]: 2"], done.stderr


@pytest.mark.parametrize("keys", [4096, 40_000], ids=["made beforehand", "made when needed"])
@pytest.mark.parametrize("update", ["hist($i)", "hist($i, 5)", "lhist($i, 0, 1000, 10)", "stats($i)", "max($i)"])
def test_many_keys_in_a_burst(keys: int, update: str) -> None:
    """No insert fails for want of memory: a program cannot wait until there is some."""
    text = f"""config = {{ max_map_keys = {keys} }}
        begin {{ for $i : 0..1000 {{ @[$i] = {update}; @names["k" , $i] = count(); }} exit(); }}
        end {{ printf("%d %d\\n", len(@), len(@names)); clear(@); clear(@names); }}"""
    done = run_sonde("-q", "-e", text)
    assert done.stdout.split() == ["1000", "1000"] and not done.stderr, done.stderr


def test_slotted_aggregates() -> None:
    """Large per-CPU aggregates are read, merged, emptied, deleted and iterated as small ones are."""
    text = """config = { max_map_keys = 1000000 }
        begin { for $i : 0..4 { @n[$i] = sum($i); @n[$i] = sum(10); @low[$i] = min($i + 5); @low[$i] = min($i + 3);
                                @h["short", $i] = hist($i); @h["a string of more than sixteen bytes", $i] = hist($i); }
                printf("%d %d\\n", (int64)@n[3], (int64)@low[2]);
                for ($kv : @n) { if ($kv.0 == 2) { printf("2: %d\\n", (int64)$kv.1); } }
                delete(@n, 3); printf("%d %d\\n", has_key(@n, 3), len(@h)); clear(@low); exit(); }"""
    done = run_sonde("-q", "-f", "json", "-e", text)
    assert not done.stderr, done.stderr
    assert '"printf", "data": "13 5\\n"' in done.stdout and '"2: 12\\n"' in done.stdout and '"0 8\\n"' in done.stdout
    assert '"@n": {"0": 10, "1": 11, "2": 12}' in done.stdout and "@low" not in done.stdout
    assert '"a string of more than sixteen bytes,3": [{"min": 2, "max": 3, "count": 1}]' in done.stdout


def test_inserts_without_memory_are_counted() -> None:
    """With interrupts off the kernel's allocator is not filled again: what it could not give is said, exactly."""
    text = """config = { max_map_keys = 1000000 }
        interval:ms:10 { for $i : 0..20000 { @[$i] = hist($i); } exit(); }
        end { printf("%d\\n", len(@)); clear(@); }"""
    done = run_sonde("-q", "-e", text)
    lost = re.search(r"no memory for @ at that moment, or was at work on it\. \[(\d+) times\]", done.stderr)
    assert lost is not None and int(done.stdout) + int(lost[1]) == 20000, done.stderr
