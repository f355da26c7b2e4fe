#!/usr/bin/env python3
"""Write docs/language.md and docs/errors.md from the tables that the compiler itself works by.

    PYTHONPATH=src python scripts/gen_docs.py          # write
    PYTHONPATH=src python scripts/gen_docs.py --check  # only say whether they are as they would be written
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from doc_examples import (
    BUILTIN_EXAMPLES,
    CONFIG_EXAMPLES,
    CONVERSIONS,
    ERRORS,
    ERRORS_INTRODUCTION,
    FLOATS,
    OPERATORS,
    OPTION_EXAMPLES,
    PROBES,
    STATEMENTS,
    TYPES,
)
from mistakes import example_text, mistakes_text

from sonde.builtins import BUILTINS
from sonde.cli.options import OPTIONS
from sonde.functions import FUNCTIONS
from sonde.semantics.config import VARIABLES

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "sonde"
REPORTERS = {"error", "warning", "fail", "_error", "_fail", "Diagnostic"}
NOTE = "<!-- Written by scripts/gen_docs.py: change the tables, not this file. -->\n"


def codes() -> set[str]:
    """Every diagnostic code in the source: the first plain word that a reporting call is given."""
    found: set[str] = set()
    rooms = ("language", "semantics", "compiler", "functions", "builtins")
    for path in [p for room in rooms for p in (SOURCES / room).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _called(node) in REPORTERS:
                found |= {c for arg in node.args[:2] for c in _words(arg)}
                if path.parent.name != "lower" and isinstance(node.func, ast.Attribute) \
                        and isinstance(node.args[0], ast.Constant):
                    found |= {c for c in [node.args[0].value] if isinstance(c, str) and c.isalpha() and c.islower()}
    return found


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _words(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            word = part.value
            if word in ERRORS or "-" in word.strip("-") and all(c.islower() or c == "-" for c in word):
                yield word


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *[f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]])


def _function_rows() -> list[list[str]]:
    return [[f"`{row.signature}`", row.documentation + (f" ({'; '.join(row.limits)})" if row.limits else ""),
             f"`{row.example}`"] for row in FUNCTIONS.values()]


def language() -> str:
    builtins = [[f"`{row.name}`" + (f" `{row.name}({row.arguments})`" if row.arguments else ""), row.documentation,
                 ", ".join(row.probes) or "all", f"`{BUILTIN_EXAMPLES[row.name]}`"]
                for _, row in sorted(BUILTINS.items())]
    config = [[f"`{row.name}`", row.documentation, f"`config = {{ {row.name} = {CONFIG_EXAMPLES[row.name]} }}`"]
              for row in VARIABLES.values()]
    options = [[f"`{', '.join(row.names)}{' ' + row.value if row.value else ''}`", row.help,
                f"`{OPTION_EXAMPLES[row.key]}`" if row.key in OPTION_EXAMPLES else ""] for row in OPTIONS]
    parts = [
        "# The language", NOTE,
        "A script is a list of probes with blocks: `probe /predicate/ { statements }`. This page is generated from "
        "the compiler's own tables, and a test compiles each example.",
        "This is the reference: all that there is, a line for each. [Five minutes](language/README.md) are an "
        "introduction for who knows awk and a little C, and chapters explain [probes](language/probes.md), "
        "[maps](language/maps.md), [strings](language/strings.md), [stacks](stacks.md), "
        "[structs](language/structs.md) and [tables](language/tables.md).",
        "## Probes", table(["probe", "fires", "example"], [[f"`{n}`", d, f"`{e}`"] for n, d, e in PROBES]),
        "## Statements and top-level forms",
        *[f"**{name}**: {text}\n\n```\n{example}\n```" for name, text, example in STATEMENTS],
        "## Types and literals", table(["type", "meaning", "example"], [[f"`{n}`", d, f"`{e}`"] for n, d, e in TYPES]),
        "## Floating-point numbers", FLOATS[0], f"```\n{FLOATS[1]}\n```", *FLOATS[2:],
        "## Operators", table(["operators", "meaning", "example"], [[f"`{n}`", d, f"`{e}`"] for n, d, e in OPERATORS]),
        "## Conversions of printf", table(["conversion", "prints", "example"],
                                          [[f"`{n}`", d, f"`{e}`"] for n, d, e in CONVERSIONS]),
        "## Builtins", table(["builtin", "value", "in", "example"], builtins),
        "## Functions", table(["function", "does", "example"], _function_rows()),
        "## Configuration variables",
        "Set them in the script, `config = { max_strlen = 128 }`, or in the environment, `SONDE_MAX_STRLEN=128` "
        "(`BPFTRACE_MAX_STRLEN` does the same), which wins.", table(["variable", "meaning", "example"], config),
        "## Options", table(["option", "meaning", "example"], options),
    ]
    return "\n\n".join(parts) + "\n"


def errors() -> str:
    parts = ["# Diagnostics", NOTE, ERRORS_INTRODUCTION, "## Common mistakes", mistakes_text(), "## Codes",
             "Each diagnostic has a code, which does not change between versions. The example below a code causes it."]
    for code, (text, example) in sorted(ERRORS.items()):
        parts.append(f"### {code}\n\n{text}" + (example_text(code, example) if example else ""))
    return "\n\n".join(parts) + "\n"


def main() -> int:
    status = 0
    for name, text in (("language.md", language()), ("errors.md", errors())):
        path = ROOT / "docs" / name
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"docs/{name} is out of date: run scripts/gen_docs.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
