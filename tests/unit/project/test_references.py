"""What docstrings and pages refer to is there: ``:func:`name``` and the other roles, and files by their paths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SRC = ROOT / "src"
ROLE = re.compile(r":(mod|class|func|meth|attr|exc|data):`~?([\w.]+)`")
FILE = re.compile(r"(?<![\w/.*~}])[\w*][\w*/.-]*\.py\b")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FOLDERS = ("src", "tests", "scripts", "bench", "deploy", "docs", "examples")

# Files of examples, which are the reader's own.
EXAMPLES = {"first.py", "shop.py", "sorting.py", "stats.py", "t.py", "test_names.py", "NAME.py"}

SOURCES = sorted(SRC.rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in PAGES if page.name not in ("CHANGELOG.md", "history.md")]


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


@cache
def all_files() -> list[str]:
    return [f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def file_of(parts: list[str]) -> Path | None:
    """The file of a module, by its full name."""
    path = SRC.joinpath(*parts)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def names_in(path: Path) -> dict[str, frozenset[str]]:
    """What a module's scopes define: names by class, and those of the module by ""."""
    scopes: dict[str, set[str]] = {"": set()}
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scopes[""].add(node.name)
        if isinstance(node, ast.Import | ast.ImportFrom):
            scopes[""] |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            scopes[""].add(node.id)
        if isinstance(node, ast.ClassDef):
            scopes[node.name] = {
                item.name if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) else item.id
                for item in ast.walk(node) if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
                or isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    return {name: frozenset(names) for name, names in scopes.items()}


def imported_files(path: Path) -> Iterator[Path]:
    """The modules of ours from which a module imports names."""
    package = list(path.relative_to(SRC).parts[:-1])
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ImportFrom):
            base = package[:len(package) + 1 - node.level] if node.level else []
            parts = [*base, *(node.module or "").split(".")] if node.module else base
            for file in [file_of(parts), *[file_of([*parts, alias.name]) for alias in node.names]]:
                if file is not None:
                    yield file


def resolves(path: Path, target: str) -> bool:
    """Whether a role's target, as written in this module, is something that there is."""
    package = list(path.relative_to(SRC).parts[:-1])
    if target.startswith("."):
        up = len(target) - len(target.lstrip("."))
        parts = [*package[:len(package) + 1 - up], *target.lstrip(".").split(".")]
    elif target.startswith("sonde"):
        parts = target.split(".")
    else:
        return is_known(path, target.split(".")) or file_of([*package, *target.split(".")]) is not None
    for length in range(len(parts), 0, -1):
        if (file := file_of(parts[:length])) is not None:
            return length == len(parts) or is_known(file, parts[length:])
    return False


def is_known(path: Path, names: list[str]) -> bool:
    """Whether a module, or one that it imports from, has a class with this member, or just a name."""
    files = [path, *imported_files(path)]
    if len(names) == 1:
        return names[0] in names_in(path)[""] or any(names[0] in scope for file in files
                                                     for name, scope in names_in(file).items() if name)
    return any(names[1] in names_in(file).get(names[0], ()) for file in files)


@cache
def is_there(name: str) -> bool:
    return any(fnmatch(file, f"*/{name}") for file in all_files())


def missing_files(text: str) -> list[str]:
    """The files that a text names and that there are not."""
    return [name for name in FILE.findall(text) if name.rpartition("/")[2] not in EXAMPLES and not is_there(name)]


def test_docstrings_refer_to_what_is_there() -> None:
    missing = {}
    for path in (path for path in SOURCES if ROLE.search(text := path.read_text()) or FILE.search(text)):
        text = "\n".join(docstrings(path))
        roles = [match[0] for match in ROLE.finditer(text) if not resolves(path, match[2])]
        missing[str(path)] = roles + missing_files(text)
    assert not {path: names for path, names in missing.items() if names}


def test_pages_name_files_that_there_are() -> None:
    missing = {str(path): missing_files(FENCE.sub("", path.read_text())) for path in PAGES}
    assert not {path: names for path, names in missing.items() if names}


@pytest.mark.parametrize("target", [
    "nothing", ".nothing", "sonde.nothing", "sonde.recording.replay.Nothing", "ReplayTrace.nothing", "...nothing.more"])
def test_wrong_references_are_noticed(target: str) -> None:
    assert not resolves(SRC / "sonde" / "recording" / "replay.py", target)


@pytest.mark.parametrize("target", [
    "ReplayTrace", ".container", "sonde.recording.container", "..spec", "sonde.spec.Attach", "ReplayTrace.held_maps"])
def test_right_references_are_accepted(target: str) -> None:
    assert resolves(SRC / "sonde" / "recording" / "replay.py", target)


def test_wrong_files_are_noticed() -> None:
    text = "see kernel/nowhere.py, recording/replay.py, tests/unit/kernel/test_r*.py"
    assert missing_files(text) == ["kernel/nowhere.py"]
