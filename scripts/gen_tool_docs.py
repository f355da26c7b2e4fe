#!/usr/bin/env python3
"""Write docs/tools/*.md, a page for each shipped tool, from the comments at the heads of the tools themselves."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from sonde import commands, tools  # noqa: E402

PAGES = ROOT / "docs" / "tools"
TITLES = {"USAGE": "Usage", "OPTIONS": "Options", "COLUMNS": "Columns", "EXAMPLE": "Example",
          "READING": "How to read it", "NEEDS": "Needs", "NOTES": "Notes"}
VERBATIM = {"USAGE", "OPTIONS", "EXAMPLE"}
MADE = "<!-- Written by scripts/gen_tool_docs.py from src/sonde/{source}: edit {which}. -->"


def page(tool: tools.Tool) -> str:
    """The page of one tool, or command."""
    made = MADE.format(source=Path(tool.path).relative_to(ROOT / "src" / "sonde"), which="that")
    parts = [made, f"# {tool.name}", tool.purpose[0].upper() + tool.purpose[1:] + "."]
    for section in tools.SECTIONS:
        if section in tool.sections:
            parts += [f"## {TITLES[section]}", body(section, tool.sections[section])]
    if tool.name in costs():
        parts += ["## Overhead", overhead(tool.name, costs()[tool.name])]
    return "\n\n".join(parts) + "\n"


def body(section: str, text: str) -> str:
    """Code where lines matter, a table for columns, else prose."""
    lines = [line.removeprefix("  ") for line in text.splitlines()]
    if section in VERBATIM:
        return "\n".join(["```", *lines, "```"])
    if section == "COLUMNS":
        return columns(text)
    return "\n".join(lines)


def columns(text: str) -> str:
    rows = [f"| `{name}` | {what.replace('|', chr(92) + '|')} |" for name, what in tools.pairs(text)]
    return "\n".join(["| column | what it is |", "|---|---|", *rows])


@functools.cache
def costs() -> dict[str, dict[str, Any]]:
    """What scripts/measure_tools.py has measured, by tool."""
    found: dict[str, dict[str, Any]] = json.loads((PAGES / "overhead.json").read_text())
    return found


def overhead(name: str, measured: dict[str, Any]) -> str:
    rows = [f"| `{row['probe']}` | {row['how'] or row['probe'].partition(':')[0]} | {row['runs']} | {row['ns']} |"
            for row in measured["probes"]]
    text = (f"Measured by the kernel (`sudo scripts/measure_tools.py {name}`) on Linux {measured['release']}, a\n"
            f"virtual machine of two busy CPUs; workload: {measured['parts']}. Runs that the filter by process ended\n"
            "at once are among them: the average of the others is higher.")
    if any("sys_e" in row["how"] for row in measured["probes"]):
        text += ("\nThe raw tracepoints sys_enter and sys_exit are those of all system calls: each call of\n"
                 "the machine costs a run, which ends at once when it is another call.")
    return "\n".join([text, "", "| probe | by | runs | ns per run |", "|---|---|---|---|", *rows])


def index(found: list[tools.Tool]) -> str:
    rows = [f"| [{tool.name}]({tool.name}.md) | {tool.purpose} |" for tool in found]
    others = [f"| [{each.name}]({each.name}.md) | {each.purpose} |" for each in map(commands.page, commands.COMMANDS)]
    return "\n".join([MADE.format(source="tools/*.bt", which="those"), "", "# The tools", "",
                      "`sonde NAME --help` prints these pages; `sonde doctor` says which tools work on this kernel.",
                      "Every tool takes Sonde's own options too: `-f json` makes an object of each row.", "",
                      "| tool | what it is for |", "|---|---|", *rows, "",
                      "Commands that are more than a script:", "", "| command | what it is for |", "|---|---|",
                      *others]) + "\n"


def pages() -> dict[str, str]:
    """File name to content."""
    found = tools.tools()
    return {"README.md": index(found)} | {
        f"{tool.name}.md": page(tool) for tool in [*found, *map(commands.page, commands.COMMANDS)]}


def main() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for stale in {file.name for file in PAGES.glob("*.md")} - set(wanted):
        (PAGES / stale).unlink()
    for name, content in wanted.items():
        (PAGES / name).write_text(content)


if __name__ == "__main__":
    main()
