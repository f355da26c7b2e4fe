#!/usr/bin/env python3
"""Cut a version: ``scripts/cut_version.py 0.3.0 2027-01-31``.

Makes the version's section of CHANGELOG.md from the fragments in changelog.d, removes them, and writes the version into
src/sonde/base/version.py. ``--dry-run`` prints the section and changes nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADINGS = ("Added", "Changed", "Fixed")
_VERSION = re.compile(r'^__version__ = "(.*)"$', re.M)


class FragmentError(ValueError):
    """A line of a fragment that belongs to no entry: where it is, and what it says."""

    def __init__(self, name: str, number: int, line: str) -> None:
        super().__init__(f"{name}:{number}: not a heading ({', '.join(HEADINGS)}) and not below one: {line}")
        self.name, self.number, self.line = name, number, line


def read_entries(name: str, text: str) -> dict[str, list[str]]:
    """The entries of a fragment by heading, each as one line."""
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("### ") and line[4:].strip() in HEADINGS:
            current = entries.setdefault(line[4:].strip(), [])
        elif line.startswith("- ") and current is not None:
            current.append(line.strip())
        elif line.startswith("  ") and current:
            current[-1] += f" {line.strip()}"
        elif line.strip():
            raise FragmentError(name, number, line)
    return entries


def write_section(version: str, day: date, fragments: Mapping[str, str]) -> str:
    """The version's section: the entries of all fragments by heading, in the order of the fragments' names."""
    read = [read_entries(name, fragments[name]) for name in sorted(fragments)]
    parts = [f"## {version} ({day.isoformat()})"]
    for heading in HEADINGS:
        if lines := [line for entries in read for line in entries.get(heading, [])]:
            parts.append(f"### {heading}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def insert_section(changelog: str, section: str) -> str:
    """The changelog with the section before those of older versions."""
    head, mark, rest = changelog.partition("\n## ")
    return f"{head}\n{section}{mark}{rest}"


def version_key(version: str) -> tuple[int, ...]:
    """``0.10.1`` as numbers that compare. A ValueError for anything else than three numbers."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"a version is three numbers, such as 0.3.0: {version}")
    return tuple(int(part) for part in version.split("."))


def cut_version(root: Path, version: str, day: date, dry_run: bool) -> str:
    """The new section; unless it is a dry run, the files have it then.

    A ValueError if there is nothing to cut or the version is not above the one before.
    """
    paths = [path for path in sorted((root / "changelog.d").glob("*.md")) if path.name != "README.md"]
    source = root / "src" / "sonde" / "base" / "version.py"
    declared = _VERSION.search(source.read_text())
    assert declared is not None
    if not paths:
        raise ValueError("changelog.d has no fragments")
    if version_key(version) <= version_key(declared[1]):
        raise ValueError(f"{version} is not above {declared[1]}")
    section = write_section(version, day, {path.name: path.read_text() for path in paths})
    if not dry_run:
        changelog = root / "CHANGELOG.md"
        changelog.write_text(insert_section(changelog.read_text(), section))
        source.write_text(_VERSION.sub(f'__version__ = "{version}"', source.read_text()))
        for path in paths:
            path.unlink()
    return section


def main() -> int:
    parser = argparse.ArgumentParser(description="Cut a version.")
    parser.add_argument("version", help="three numbers, such as 0.3.0")
    parser.add_argument("day", type=date.fromisoformat, help="the day of the release, such as 2027-01-31")
    parser.add_argument("--dry-run", action="store_true", help="print the section, change nothing")
    arguments = parser.parse_args()
    try:
        print(cut_version(ROOT, arguments.version, arguments.day, arguments.dry_run), end="")
    except ValueError as error:
        print(f"cut_version: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
