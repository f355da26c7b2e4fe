"""The architecture, enforced: what may import what, and what start-up may cost."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sonde.arch import ARCHES

ROOT = Path(__file__).parents[3] / "src" / "sonde"
FILES = sorted(ROOT.rglob("*.py"))
LONGEST = 600  # lines

WAIST = {"base", "source", "errors", "types", "type_codec", "kinds", "spec"}
FLOOR = WAIST | {"arch", "layouts", "asm", "btf"}
FRONT = {"language", "semantics", "compiler", "functions", "builtins"}
BACK = {"kernel", "runtime", "output"}

# Room -> the rooms that it may import. Imports only go down, and the two halves never meet below ``compiling``.
MAY_IMPORT: dict[str, set[str]] = {
    "base": set(),
    "source": {"base"},
    "errors": {"source"},
    "types": {"base"},
    "type_codec": {"base", "types"},
    "kinds": {"base"},
    "spec": {"base", "source", "types", "kinds"},
    "arch": {"base", "errors"},
    "layouts": {"base", "errors", "arch"},
    "asm": {"base", "source", "errors", "spec"},
    "btf": {"base", "errors", "types"},
    "language": WAIST - {"spec"} | {"arch"},
    "semantics": WAIST | {"arch", "layouts", "language"},
    "compiler": FLOOR - {"btf"} | {"language", "semantics"},
    "functions": WAIST | {"arch", "layouts", "language", "semantics", "compiler"},
    "builtins": WAIST | {"arch", "layouts", "language", "semantics", "compiler"},
    "kernel": FLOOR,
    "runtime": FLOOR | {"kernel"},
    "output": WAIST | {"layouts", "runtime"},
    "compiling": WAIST | FRONT | {"layouts", "kernel"},
    "merge": WAIST | {"runtime"},
    "library": WAIST | BACK | {"layouts", "asm", "semantics", "compiling"},
    "recording": WAIST | BACK | {"arch", "layouts", "asm", "language", "semantics", "compiler", "compiling", "library"},
    "exporters": WAIST | BACK | {"library"},
    "comparing": WAIST | BACK | {"library", "recording"},
    "fleet": WAIST | BACK | {"layouts", "language", "semantics", "compiling", "merge", "library", "recording",
                             "exporters"},
    "editor": WAIST | {"layouts", "language", "semantics", "functions", "builtins", "compiling"},
    "objectives": WAIST | {"runtime", "compiling", "library"},
    "testing": WAIST | {"objectives"},
    "tools": {"base", "errors", "kinds", "arch", "language"},
    "cli": FLOOR | FRONT | BACK | {"compiling", "library", "recording", "exporters", "comparing", "fleet", "editor",
                                   "tools"},
    "__init__": {"base", "errors", "semantics", "compiling", "runtime", "library", "fleet",
                 "objectives"},  # the public names
    "__main__": {"base", "cli"},
}
MOST_AT_THE_ROOT = 10  # modules beside the rooms

# system calls; the C++ runtime's demangler; libpcap
CTYPES_HOMES = {"kernel/libc.py", "kernel/foreign/demangle.py", "kernel/pcap.py"}

# Libraries of the extras, and who may import them: in the function that needs them, never at module level.
EXTRAS = {"kernel/foreign/dwarf.py": {"elftools"}, "kernel/foreign/dwarf_places.py": {"elftools"},
          "kernel/foreign/dwarf_ranges.py": {"elftools"},
          "kernel/foreign/reader_process.py": {"elftools"},
          "language/libclang.py": {"clang"}, "fleet/transport/dask.py": {"distributed"}}

# Modules whose import costs a visible part of the start-up budget: import them in the function that needs them.
HEAVY = {
    "argparse", "asyncio", "concurrent", "dataclasses", "datetime", "decimal", "email", "enum", "fractions",
    "http", "importlib", "inspect", "json", "logging", "multiprocessing", "pathlib", "platform", "random", "shlex",
    "shutil", "socket", "subprocess", "tempfile", "textwrap", "traceback", "unittest", "urllib",
}  # fmt: skip

# Those that "Starting fast" names: of the rooms below, which a traced run imports, no module has them at its head, but
# for the files that few runs need.
DEAR = {"bisect", "collections", "contextlib", "enum", "functools", "importlib", "re", "threading", "typing"}
RUN_ROOMS = ("base/", "builtins/", "cli/commands/generated", "cli/commands/__init__", "cli/commands/profile",
             "cli/options", "cli/requests", "cli/script_run", "compiler/", "compiling/", "kernel/", "layouts/",
             "runtime/", "semantics/", "tools/")
FEW_RUNS = {
    "kernel/foreign/d_names.py", "kernel/foreign/demangle.py", "kernel/foreign/dwarf_ranges.py",
    "kernel/foreign/return_hazards.py", "kernel/foreign/rust_names.py", "kernel/foreign/swift_names.py",
    "kernel/foreign/usdt.py",
    "kernel/groups/cgroup_paths.py", "kernel/names/indirect.py", "runtime/attach/iterators.py",
    "runtime/attach/verifier.py", "runtime/costs/budget.py",
}  # fmt: skip


# Files that are imported only when what they do is asked for -> what they may import at their head.
WHEN_ASKED = {"output/live/serve.py": {"json"}, "output/live/bounded.py": {"socket"},
              "fleet/transport/connection.py": {"socket", "subprocess"}, "fleet/agent/listening.py": {"subprocess"},
              "fleet/transport/dask.py": {"asyncio", "inspect", "socket", "urllib", "uuid"},
              "fleet/transport/relay.py": {"asyncio"},
              "output/live/top.py": {"textual", "rich"}, "output/live/slider.py": {"textual"},
              "kernel/foreign/reader_process.py": {"json"},
              "comparing/runs.py": {"json"}, "comparing/report.py": {"json"},
              "library/flight/asking.py": {"json", "socket"},
              "editor/server.py": {"asyncio", "lsprotocol", "pygls"},
              "cli/mcp/server.py": {"anyio", "asyncio", "json", "mcp", "mcp_types", "tempfile"},
              "cli/mcp/jobs.py": {"json"}, "cli/mcp/child.py": {"json"}, "cli/mcp/result_tables.py": {"json"},
              "testing/plugin.py": {"pytest"}, "objectives/tracer.py": {"json"},
              "objectives/client.py": {"json", "subprocess"},
              "recording/recorder.py": {"json"}, "recording/snapshots.py": {"json"}}


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def imports(path: Path) -> list[tuple[str, int, bool]]:
    """(dotted name, line, at module level) of everything that ``path`` imports; relative names made absolute. What only
    type checkers see is left out, unless it is our own."""
    return list(walk_imports(path))


def walk_imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    tree = parse(path)
    unseen = type_checked(tree)
    package = ("sonde", *path.relative_to(ROOT).parent.parts)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        outer = id(node) not in inner
        if isinstance(node, ast.Import):
            for alias in node.names if id(node) not in unseen else ():
                yield alias.name, node.lineno, outer
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            if module == "sonde":  # from . import x: x is a room, or a public name of the package itself
                for alias in node.names:
                    yield f"sonde.{alias.name}", node.lineno, outer
            elif id(node) not in unseen or module.startswith("sonde"):
                yield module, node.lineno, outer


def room(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_room_is_on_the_plan() -> None:
    assert {room(p) for p in FILES} == MAY_IMPORT.keys()
    assert len(list(ROOT.glob("*.py"))) <= MOST_AT_THE_ROOT


def test_the_plan_has_no_circles() -> None:
    assert not [here for here in MAY_IMPORT if here in reached(MAY_IMPORT, here)]


def test_imports_go_down() -> None:
    upward = [
        f"{name(path)}:{line}: imports {target}"
        for path in FILES
        for target, line, _ in imports(path)
        if target.startswith("sonde.") and (there := target.split(".")[1]) != room(path)
        if there not in MAY_IMPORT[room(path)] and there in MAY_IMPORT
    ]
    assert not upward


def imported_modules(path: Path) -> Iterator[str]:
    """Dotted names of what a file imports when it runs, modules or names in them."""
    tree = parse(path)
    unseen = type_checked(tree)
    package = ("sonde", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in unseen:
            base = [*package[:len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from [module, *[f"{module}.{alias.name}" for alias in node.names]]
        elif isinstance(node, ast.Import) and id(node) not in unseen:
            yield from [alias.name for alias in node.names]


def type_checked(tree: ast.AST) -> set[int]:
    """The nodes, by id, that only type checkers see."""
    return {id(node) for block in ast.walk(tree) if isinstance(block, ast.If)
            and "TYPE_CHECKING" in ast.dump(block.test) for node in ast.walk(block)}


def module_of(path: Path) -> str:
    return ".".join(["sonde", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")


def test_no_modules_import_one_another() -> None:
    """Imports within functions included."""
    modules = {module_of(path): path for path in FILES}
    graph = {module: {target for target in imported_modules(path) if target in modules and target != module}
             for module, path in modules.items()}
    reach = {module: reached(graph, module) for module in graph}
    circles = {frozenset(other for other in reach[module] if module in reach[other]) for module in graph
               if module in reach[module]}
    assert not circles


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """All modules that one leads to, itself if there is a way back."""
    found: set[str] = set()
    pending = [start]
    while pending:
        for module in graph[pending.pop()] - found:
            found.add(module)
            pending.append(module)
    return found


def test_only_the_standard_library() -> None:
    foreign = [
        f"{name(path)}:{line}: imports {target}"
        for path in FILES
        for target, line, outer in imports(path)
        if (top := target.split(".")[0]) != "sonde" and top not in sys.stdlib_module_names
        if outer or top not in EXTRAS.get(name(path), ())
        if top not in WHEN_ASKED.get(name(path), set())
    ]
    assert not foreign


def test_few_modules_know_ctypes() -> None:
    assert not [f"{name(path)}:{line}" for path in FILES if name(path) not in CTYPES_HOMES
                for target, line, _ in imports(path) if target.split(".")[0] in ("ctypes", "_ctypes")]


def test_heavy_modules_are_imported_where_they_are_used() -> None:
    heavy = [
        f"{name(path)}:{line}: imports {target} at module level"
        for path in FILES
        for target, line, outer in imports(path)
        if outer and target.split(".")[0] in HEAVY - WHEN_ASKED.get(name(path), set())
    ]
    assert not heavy


def test_a_run_imports_none_of_the_dear_modules() -> None:
    """Where only annotations need them, under TYPE_CHECKING; else base/fast_stdlib has what a run needs of them."""
    dear = {name(path) for path in FILES if name(path).startswith(RUN_ROOMS)
            for target, _, outer in imports(path) if outer and target.split(".")[0] in DEAR}
    assert dear == {file for file in FEW_RUNS if file.startswith(RUN_ROOMS)}


def asked_architectures(tree: ast.AST) -> list[int]:
    """Lines in which something is compared with an architecture's name."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Compare)
            and any(isinstance(part, ast.Constant) and part.value in ARCHES for part in ast.walk(node))]


def test_no_file_asks_which_architecture_it_is() -> None:
    """What differs stands in its row (sonde.arch), which is asked instead."""
    assert not [f"{name(path)}:{line}" for path in FILES for line in asked_architectures(parse(path))]


def test_files_fit_a_sitting() -> None:
    assert not [name(path) for path in FILES if len(path.read_text().splitlines()) > LONGEST]


def test_a_question_for_the_architecture_is_caught() -> None:
    assert asked_architectures(ast.parse(
        'x = 1\nif arch == "x86_64" or row.name in ("aarch64",):\n    pass\n')) == [2, 2]


def test_the_rules_catch_what_they_are_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upward relative import and a heavy one are seen, and told from one inside a function."""
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "kernel" / "x.py"
    file.parent.mkdir()
    file.write_text("from ..semantics import world\nfrom .. import api\nimport json\ndef f():\n    import enum\n")
    assert list(imports(file)) == [
        ("sonde.semantics", 1, True),
        ("sonde.api", 2, True),
        ("json", 3, True),
        ("enum", 5, False),
    ]
