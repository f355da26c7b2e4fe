"""Which functions of a program a pattern means."""

from __future__ import annotations

import pytest

from sonde.base.wildcards import function_matcher


@pytest.mark.parametrize("pattern, name, is_meant", [
    ("f", "f", True), ("f*", "f.cold", False), ("*", "g.cold.3", False), ("f.cold", "f.cold", True),
    ("*.cold*", "g.cold.3", True), ("*.cold*", "g", False), ("f*", "f.part.0", True),
])
def test_cold_parts_of_functions_are_named_in_full(pattern: str, name: str, is_meant: bool) -> None:
    assert function_matcher(pattern)(name) is is_meant
