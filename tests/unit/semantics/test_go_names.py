"""Names of Go's functions as people write them."""

from __future__ import annotations

import pytest

from sonde.semantics.go_names import is_go_function, spellings, without_types


@pytest.mark.parametrize(("name", "short"), [
    ("main.main", "main.main"), ("main.Sum[go.shape.int_0]", "main.Sum[...]"), ("main.Sum[...]", "main.Sum[...]"),
    ("a.(*T[go.shape.[]uint8,b.X[int]]).M.func1", "a.(*T[...]).M.func1"), ("odd]name[", "odd]name[")])
def test_without_types(name: str, short: str) -> None:
    assert without_types(name) == short


def test_spellings() -> None:
    assert spellings("net/http.(*conn).serve") == {"net/http.(*conn).serve", "http.(*conn).serve"}
    assert spellings("a/b.Sum[c/d.T]") == {"a/b.Sum[c/d.T]", "a/b.Sum[...]", "a/b.Sum", "b.Sum[...]", "b.Sum"}


def test_functions_of_c() -> None:
    """A Go program has some if it uses cgo."""
    assert all(map(is_go_function, ("main.main", "net/http.(*conn).serve", "main.Sum[go.shape.int_0]", "")))
    assert not any(map(is_go_function, ("strlen", "x_cgo_init", "add.isra.0", "_ZN2ns1fEi", "main")))
