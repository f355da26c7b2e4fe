"""The cookbook's entries: docs/cookbook/*.md, a section for each question."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from doc_commands import goes_on

FOLDER = Path(__file__).parents[1] / "docs" / "cookbook"
_ENTRY = re.compile(r"^## (?P<question>[^\n]+)\n\n(?:<!-- (?P<options>.*?) -->\n\n)?"
                    r"(?P<block>```\n# (?P<text>.*?)```\n)"
                    r"(?P<rest>.*?)(?=^## |\Z)", re.M | re.S)


class Entry(NamedTuple):
    """A question; the command and what it printed; what the page says of it."""

    question: str
    options: dict[str, str]  # "also": more words by which it is found; scripts/gen_cookbook.py has the others
    command: str
    output: str
    block: str
    reading: str
    next: str

    @property
    def of(self) -> str:
        return self.options.get("of", "")


def entries(page: Path) -> list[Entry]:
    """Those of a page; ValueError if a section has not their form."""
    text = page.read_text()
    found = []
    for match in _ENTRY.finditer(text):
        command, output = _split(match["text"])
        reading, _, after = match["rest"].partition("\n**Next.** ")
        options = dict(part.split(": ", 1) for part in " ".join((match["options"] or "").split()).split("; ") if part)
        found.append(Entry(match["question"], options, command, output, match["block"],
                           reading.replace("\n**Reading it.** ", "", 1).strip(), after.strip()))
    if len(found) != len(re.findall("^## ", text, re.M)) or not all(each.reading and each.next for each in found):
        raise ValueError(f"{page}: a section without a command, **Reading it.** or **Next.**")
    return found


def _split(text: str) -> tuple[str, str]:
    """The command, which may have several lines, and its output."""
    lines = text.splitlines(keepends=True)
    for at in range(1, len(lines) + 1):
        command = "".join(lines[:at]).rstrip("\n")
        if not goes_on(command):
            return command, "".join(lines[at:])
    raise ValueError(f"a command that does not end: {text}")


def all_entries() -> list[Entry]:
    return [entry for path in sorted(FOLDER.glob("*.md")) if path.stem != "README" for entry in entries(path)]
