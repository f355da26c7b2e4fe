"""Names of Go's functions as people write them.

The linker's are ``net/http.(*conn).serve`` and ``main.Sum[go.shape.int_0]``, in some versions ``main.Sum[...]``.
"""

from __future__ import annotations

_CLONES = (".isra.", ".part.", ".constprop.", ".cold", ".lto_priv.")  # of C's functions, by GCC


def is_go_function(name: str) -> bool:
    """Whether a function of a Go program is Go's, which has its package in its name, not C's, by cgo. Of an unknown one
    ("") that is likely."""
    return not name or "." in name and not any(clone in name for clone in _CLONES)


def without_types(name: str) -> str:
    """``main.Sum[go.shape.int_0]`` → ``main.Sum[...]``: one name for what was made for each type."""
    if "[" not in name:
        return name
    text, depth = "", 0
    for character in name:
        if character == "]" and depth == 1:
            text += "..."
        depth -= character == "]" and depth > 0
        text += character if depth == 0 else ""
        depth += character == "["
    return text


def spellings(name: str) -> set[str]:
    """The name; with ``[...]`` for its types, and without those; each of them without the folder of its package."""
    short = without_types(name)
    bare = short.replace("[...]", "")
    return {name, short, bare, short.rpartition("/")[2], bare.rpartition("/")[2]}
