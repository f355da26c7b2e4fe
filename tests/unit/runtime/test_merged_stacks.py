"""Frames of Python in the place of its interpreter's."""

from __future__ import annotations

import pytest

from sonde.runtime.records.python_frames import merge_python_frames

EVAL = "_PyEval_EvalFrameDefault"
BELOW = ["PyEval_EvalCode", "Py_BytesMain", "_start"]


@pytest.mark.parametrize(("native", "python", "merged"), [
    # what ! marks, C has called the interpreter for
    (["read", "os_read", EVAL, *BELOW], ["inner", "<module>!"], ["read", "os_read", "inner", "<module>"]),
    (["read", EVAL, "_PyEval_Vector", "list_sort", "sorted", EVAL, *BELOW], ["key!", "outer", "<module>!"],
     ["read", "key", "list_sort", "sorted", "outer", "<module>"]),
    ([EVAL, "gen_iternext", EVAL, "a", EVAL, "_start"], ["x!", "y!", "z!"], ["x", "gen_iternext", "y", "a", "z"]),
    # not all of them were found, or seen: what is between them is not certain
    (["read", EVAL, "sorted", "nobody"], ["key!", "<module>!"], ["read", "key", "<module>"]),
    (["read", EVAL, "sorted", EVAL, "_start"], ["key!", "outer"], ["read", "key", "outer"]),
    (["read", EVAL, "sorted", EVAL, "_start"], ["key", "outer"], ["read", "key", "outer"]),
    # nor the interpreter at all
    (["read", "wrong"], ["inner", "<module>!"], ["read", "inner", "<module>"]),
    ([], ["inner!"], ["inner"]),
    (["read", "main", "_start"], [], ["read", "main", "_start"]),
])
def test_merging(native: list[str], python: list[str], merged: list[str]) -> None:
    entered = [name.endswith("!") for name in python]
    assert merge_python_frames(native, native, [name.rstrip("!") for name in python], entered) == merged


def test_what_came_from_elsewhere_does_not_tell() -> None:
    assert merge_python_frames([EVAL, "x", EVAL], [EVAL, "x", EVAL], ["a", "b"], []) == ["a", "b"]
