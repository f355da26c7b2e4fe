"""Count names that say too little, and fail where there are more than there were: see "Words" in docs/glossary.md.

    check_words.py              count, and compare with the most that there may be
    check_words.py WORD ...     show where these words are names ("Error", "participle" for the names of classes)
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "sonde"

# The most that there may be of each, as a name or as a part of one. Whoever renames some lowers the number; nobody
# raises it. Names that recordings store do not change (map_keys_asked).
MOST = {
    "found": 1, "place": 32, "told": 0, "said": 0, "kept": 9, "how": 0, "behind": 1, "asked": 3,
    "Error": 0,        # exceptions whose names do not end in Error
    "participle": 2,  # classes named by a participle
}

_IRREGULAR = {"Built", "Chosen", "Drawn", "Found", "Given", "Gone", "Held", "Hidden", "Kept", "Known", "Lost", "Made",
              "Met", "Sent", "Shown", "Sought", "Taken", "Told", "Unread", "Withheld", "Written"}
_NO_PARTICIPLE = {"Speed", "Need", "Feed", "Seed", "Embed"}

Use = tuple[str, Path, int]  # a word, and where it is a name


def names_bound(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(name, line) of what is bound: once for each scope, however often the scope binds it."""
    scopes: list[ast.AST] = [tree]
    while scopes:
        scope = scopes.pop()
        names: dict[str, int] = {}
        nodes = list(ast.iter_child_nodes(scope))
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                names |= {node.name: node.lineno} if not isinstance(node, ast.Lambda) else {}
                scopes.append(node)
                continue
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.setdefault(node.id, node.lineno)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.setdefault(node.attr, node.lineno)
            elif isinstance(node, ast.arg):
                names.setdefault(node.arg, node.lineno)
            nodes += ast.iter_child_nodes(node)
        yield from names.items()


def classes_in(trees: Iterable[tuple[Path, ast.Module]]) -> Iterator[tuple[ast.ClassDef, list[str], Path]]:
    """Each class, with the names of its bases."""
    for path, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield node, [ast.unparse(base).rpartition(".")[2] for base in node.bases], path


def misnamed_errors(trees: Iterable[tuple[Path, ast.Module]]) -> Iterator[Use]:
    """Classes that derive from an exception, by whatever way, and do not end in Error."""
    classes = list(classes_in(trees))
    errors = {name for name, item in vars(builtins).items()
              if isinstance(item, type) and issubclass(item, BaseException)}
    while more := {node.name for node, bases, _ in classes if errors.intersection(bases)} - errors:
        errors |= more
    for node, bases, path in classes:
        if errors.intersection(bases) and not node.name.endswith("Error"):
            yield "Error", path, node.lineno


def is_participle(name: str) -> bool:
    """Whether a class's name ends in a participle, with no noun after it."""
    last = re.findall(r"[A-Z][a-z]*", name)[-1:]
    return bool(last) and (last[0] in _IRREGULAR or last[0].endswith("ed") and last[0] not in _NO_PARTICIPLE)


def unwanted_word(name: str) -> str:
    """The first of the words above in a name, "" if there is none: ``found`` in ``was_found``, ``place`` in ``places``.
    As the first of several words, "place" is a verb: ``place_slots``."""
    parts = [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    if len(parts) > 1 and parts[0] == "place":
        parts = parts[1:]
    singular = ["place" if part == "places" else part for part in parts]
    return next((part for part in singular if part in MOST and part not in ("Error", "participle")), "")


def find_uses(trees: list[tuple[Path, ast.Module]]) -> list[Use]:
    """Every use of the words above in a name."""
    uses = [(word, path, line) for path, tree in trees for name, line in names_bound(tree)
            if (word := unwanted_word(name))]
    uses += misnamed_errors(trees)
    uses += [("participle", path, node.lineno) for node, _, path in classes_in(trees) if is_participle(node.name)]
    return uses


def read_trees(root: Path) -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(root.rglob("*.py"))]


def main(words: list[str]) -> int:
    uses = find_uses(read_trees(SOURCE))
    status = 0
    for word, most in MOST.items():
        count = sum(use[0] == word for use in uses)
        if count > most:
            print(f"{word}: {count} names, and at most {most} is allowed: list them with scripts/check_words.py {word}")
            status = 1
    for word, path, line in uses:
        if word in words:
            print(f"{path.relative_to(SOURCE.parents[1])}:{line}: {word}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
