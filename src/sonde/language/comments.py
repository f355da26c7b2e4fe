"""What a script's comments say of its maps: the COLUMNS of its head, in the form of the tools; a comment that begins
with the map, ``// @sent: bytes sent, by process``; or what stands beside a map.

An entry of COLUMNS that begins with ``with -m:`` is of an option, and ``the same`` means what the entry before says::

    // COLUMNS
    //   @usecs       microseconds from the request to its end; with -m milliseconds
    //   @all[DISK]   with -d: the same by disk
"""

from __future__ import annotations

from ..base import regex_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_GAP = "  "  # what separates a name from its description, at least
_TIMES = "seconds"
_SAME, _WITH = "the same", ("with -", "with --")
LONGEST = 400  # characters of what is said of a map
_MOST_LINES = 10
_OF_MAP = r"(?m)^[ \t]*// (@\w+)(?:\[[\w, ]+\])?: (.+)$"  # // @sent[COMM]: bytes sent
_ALTERNATIVE = r"[;,]? with (-\w):? (\w+seconds)\b"  # what an option makes of the first word


def parse_entries(section: str) -> list[tuple[str, str]]:
    """(name, description) of each entry of a section; entries are indented by two, what continues them by more."""
    entries: list[tuple[str, str]] = []
    for line in section.splitlines():
        if line.startswith(_GAP) and not line.startswith(_GAP + " "):
            left, _, right = line.strip().partition(_GAP)
            entries.append((left, right.strip()))
        elif entries and line.strip():
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")
    return entries


def describe_columns(section: str) -> dict[str, str]:
    """What COLUMNS says of each name, of maps without their keys; the first entry of a name counts."""
    described: dict[str, str] = {}
    before = ""
    for left, right in parse_entries(section):
        condition, colon, rest = right.partition(": ")
        text = rest if colon and condition.startswith(_WITH) else right
        first, _, more = before.partition(" ")
        if text.startswith(_SAME):
            text = before + text.removeprefix(_SAME)
        elif text.endswith(_TIMES) and " " not in text and first.endswith(_TIMES):
            text = f"{text} {more}"
        else:
            before = text
        names = left.split() if left[:1] != "@" else [part for part in left.split() if part[:1] == "@"]
        for name in names:
            described.setdefault(name.partition("[")[0].rstrip(","), text)
    return described


def head_section(text: str, title: str) -> str:
    """A section of the comment at the head of a script, without the comment signs; "" if there is none."""
    section: list[str] | None = None
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        line = line[2:].removeprefix(" ").rstrip()
        if section is not None and line and line == line.upper() and not line.startswith(_GAP):
            break
        if section is not None:
            section.append(line)
        elif line == title:
            section = []
    return "\n".join(section or []).rstrip()


def column_descriptions(text: str) -> dict[str, str]:
    """What the head of a script says of its columns."""
    return describe_columns(head_section(text, "COLUMNS"))


def comment_beside(text: str, offset: int) -> str:
    """The comment at the end of the line that ``offset`` is on or, if the line begins there (but for ``let``), on the
    lines before it; "" if there is none."""
    start, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    after = _trailing_comment(text[offset:end if end >= 0 else len(text)])
    if after or text[start:offset].strip() not in ("", "let"):
        return after
    above: list[str] = []
    while start and len(above) < _MOST_LINES:
        before = text.rfind("\n", 0, start - 1) + 1
        line = text[before:start - 1].strip()
        if not line.startswith("//"):
            break
        above.append(line.lstrip("/").strip())
        start = before
    return " ".join(reversed(above))


def _trailing_comment(line: str) -> str:
    """The text after the first // outside of strings, if the map at the line's beginning is the last one before it."""
    quoted = False
    for at, char in enumerate(line):
        if char == "@" and at:
            break
        if char == '"' and line[at - 1:at] != "\\":
            quoted = not quoted
        elif char == "/" and not quoted and line.startswith("//", at):
            return line[at + 2:].strip()
    return ""


def choose_alternative(description: str, given: set[str]) -> str:
    """A description without its "with -m milliseconds", which replaces the first word if -m is ``given``."""
    match = regex_cache.search(_ALTERNATIVE, description) if "with -" in description else None
    if match is None:
        return description
    first, blank, rest = (description[:match.start()] + description[match.end():]).partition(" ")
    return f"{match[2] if match[1] in given else first}{blank}{rest}"


def given_options(text: str, named: Mapping[str, str]) -> set[str]:
    """The short names of the options that the script was given, by the OPTIONS section of its head."""
    given: set[str] = set()
    for left, _ in parse_entries(head_section(text, "OPTIONS")):
        names = [part.split()[0] for part in left.split(",") if part.strip()]
        if any(named.get(name.lstrip("-"), "false") != "false" for name in names):
            given.update(names)
    return given


class MapComments:
    """What scripts say of their maps, with these options: each head is read once."""

    def __init__(self, named: Mapping[str, str]) -> None:
        self._named = named
        self._heads: dict[str, dict[str, str]] = {}

    def describe_map(self, name: str, text: str, offset: int) -> str:
        """What ``text`` says of the map that stands at ``offset``; "" if it says nothing."""
        if text not in self._heads:
            given = given_options(text, self._named) if self._named else set()
            notes = regex_cache.finditer(_OF_MAP, text) if "// @" in text else ()  # which takes time at the start
            described = {note[1]: note[2].strip() for note in notes}
            described |= describe_columns(head_section(text, "COLUMNS"))
            self._heads[text] = {column: choose_alternative(each, given) for column, each in described.items()}
        return (self._heads[text].get(name) or comment_beside(text, offset))[:LONGEST]
