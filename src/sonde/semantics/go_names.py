"""Names of Go's functions as people write them.

The linker's are ``net/http.(*conn).serve`` and ``main.Sum[go.shape.int_0]``, in some versions ``main.Sum[...]``.
"""

from __future__ import annotations


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
