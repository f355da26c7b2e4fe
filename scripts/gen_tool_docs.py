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

from sonde import tools  # noqa: E402
from sonde.cli import command_table, commands  # noqa: E402
from sonde.language.comments import parse_entries  # noqa: E402

PAGES = ROOT / "docs" / "tools"
TITLES = {"USAGE": "Usage", "OPTIONS": "Options", "COLUMNS": "Columns", "EXAMPLE": "Example",
          "READING": "How to read it", "NEEDS": "Needs", "NOTES": "Notes"}
VERBATIM = {"USAGE", "OPTIONS", "EXAMPLE"}
VOCABULARY = """
One thing has one name in all tools. A unit stands in parentheses; option letters are those of bcc's tool of the same
name, where there is one. Headings that people know from the tool in bpftrace, bcc or the BPF book stay: PROCESS,
C-COMM, MS, LATms.
"""
COLUMNS = """
  TIME            when, as HH:MM:SS
  TIME(s), TIME(ms), TIME(us)  when, counted from the start of the tracing
  PID, TID, PPID, UID  process, thread, parent process, user
  COMM            the thread's name; PCOMM the parent's
  LAT(us), LAT(ms)  how long one thing took; DUR(s) how long a thing lived
  BYTES           of one thing; TX_KB, RX_KB sums in units of 1024 bytes
  RET             what a call returned: a negative number is an error
  ERR             the error number, 0 for success; RESULT the same in words
  LADDR LPORT RADDR RPORT  this end and the other one of a connection; SADDR SPORT DADDR DPORT of a packet or an attempt
  PATH, DISK, FUNC, EVENT  file as the process named it, block device, function, what happened
  @usecs, @msecs  histograms of how long things took, @bytes of sizes; in brackets what they are told apart by
"""
LETTERS = """
  -p PID          only this process: Sonde's own option, or the tool's where an event is not its process's
  -c COMMAND      run this command and end with it: only it and all that it starts; it alone with tools that have a -p
                  of their own
  -T, --timestamp  a column TIME, or the time before each output of an interval
  -t, --elapsed   a column TIME(s): seconds since the tracing began
  -x, --failed    only what fails
  -n, --name NAME  only threads whose name contains NAME
  -u, --uid UID   only this user's
  -m, --milliseconds  histograms in milliseconds instead of microseconds
  -d, --disk DISK  only this disk; -D, --disks each disk by itself
  -P, --port PORTS  only these ports: 80, 80,443, or 8000-8010
  -4, --ipv4      IPv4 only; -6, --ipv6 IPv6 only
  -w, --wide      wider columns
  INTERVAL COUNT  seconds from one output to the next, and how many; SECONDS where there is one output, at the end
"""
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
        return table("column", text)
    return "\n".join(lines)


def table(what: str, text: str) -> str:
    """The entries of ``text`` as a table."""
    rows = [f"| `{name}` | {meaning.replace('|', chr(92) + '|')} |" for name, meaning in parse_entries(text)]
    return "\n".join([f"| {what} | what it is |", "|---|---|", *rows])


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
    others = [f"| [{each.name}]({each.name}.md) | {each.purpose} |"
              for each in map(commands.command_page, command_table.COMMANDS)]
    return "\n".join([MADE.format(source="tools/*.bt", which="those"), "", "# The tools", "",
                      "`sonde NAME --help` prints these pages; `sonde doctor` says which tools work on this kernel.",
                      "Every tool takes Sonde's own options too: `-f json` makes an object of each row.", "",
                      "| tool | what it is for |", "|---|---|", *rows, "",
                      "Commands that are more than a script:", "", "| command | what it is for |", "|---|---|",
                      *others, "", "## Vocabulary", "",
                      VOCABULARY.strip(), "",
                      table("column or map", COLUMNS), "", table("option", LETTERS)]) + "\n"


def pages() -> dict[str, str]:
    """File name to content."""
    found = tools.all_tools()
    return {"README.md": index(found)} | {
        f"{tool.name}.md": page(tool) for tool in [*found, *map(commands.command_page, command_table.COMMANDS)]}


def main() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for stale in {file.name for file in PAGES.glob("*.md")} - set(wanted):
        (PAGES / stale).unlink()
    for name, content in wanted.items():
        (PAGES / name).write_text(content)


if __name__ == "__main__":
    main()
