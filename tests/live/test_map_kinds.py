"""Declared maps of each kind."""

from __future__ import annotations

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


@pytest.mark.parametrize("kind", ["hash", "lruhash", "percpuhash", "percpulruhash"])
def test_counts(kind: str) -> None:
    text = f"let @m = {kind}(10); begin {{ @m[1] = count(); @m[1] = count(); print((int64)@m[1]); exit(); }}"
    done = run_sonde("-q", "-e", text)
    assert [line for line in done.stdout.splitlines() if line] == ["2", "@m[1]: 2"], done.stderr
