"""Members of one object."""

from __future__ import annotations

import pytest

from sonde.output.json import distinct_names


@pytest.mark.parametrize("names,wanted", [
    (["a", "b"], ["a", "b"]), (["a", "a", "a"], ["a", "a #2", "a #3"]), (["a", "a", "a #2"], ["a", "a #2", "a #2 #2"]),
    (["a #2", "a", "a"], ["a #2", "a", "a #3"]), ([], []),
])
def test_distinct_names(names: list[str], wanted: list[str]) -> None:
    assert distinct_names([f'"{name}"' for name in names]) == [f'"{name}"' for name in wanted]


def test_many_of_one_name() -> None:
    assert len(set(distinct_names(['"a"'] * 50_000))) == 50_000
