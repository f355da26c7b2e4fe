"""How a page of documentation is laid out: its sections as blocks, and the blocks as text of 80 columns.

The lines of a section are indented by two. In OPTIONS and COLUMNS each begins an entry, ``name   description``, which
deeper lines continue; in USAGE the lines before the first empty one are commands. EXAMPLE is output and stays as it is.
All else is prose, but for lines that are indented deeper or have columns of their own, which stay too.
"""

from __future__ import annotations

from ..base.record import Record

TEXT, ENTRY, COMMAND, VERBATIM, GAP = "text", "entry", "command", "verbatim", "gap"
WIDTH = 80
_WIDEST_NAME = 24  # of entries whose description begins beside the name
_TABLES = ("OPTIONS", "COLUMNS")


class Block(Record):
    """A paragraph, an entry (``name``: its left side), a command line, a line that stays, or the gap between."""

    kind: str
    text: str = ""
    name: str = ""


def blocks_of(title: str, body: str) -> list[Block]:
    """The blocks of a section."""
    if title == "EXAMPLE":
        return [Block(VERBATIM, line) for line in body.splitlines()]
    blocks: list[Block] = []
    for line in body.splitlines():
        text = line.strip()
        is_deep, last = line.startswith("   "), blocks[-1].kind if blocks else GAP
        is_command = title == "USAGE" and not any(block.kind == GAP for block in blocks)
        if not text:
            blocks.append(Block(GAP))
        elif is_deep and (last in (ENTRY, COMMAND) or title in _TABLES and last == TEXT):
            blocks[-1].text = f"{blocks[-1].text} {text}".strip()
        elif title in _TABLES and not is_deep:
            name, _, right = text.partition("  ")
            blocks.append(Block(ENTRY, right.strip(), name) if right or " " not in name else Block(TEXT, name))
        elif is_command:
            blocks.append(Block(COMMAND, text))
        elif is_deep or "  " in text:
            blocks.append(Block(VERBATIM, line))
        elif last == TEXT:
            blocks[-1].text += f" {text}"
        else:
            blocks.append(Block(TEXT, text))
    return blocks


def lay_out(blocks: list[Block], width: int = WIDTH) -> list[str]:
    """The lines of a section."""
    names = [len(block.name) for block in blocks if block.kind == ENTRY]
    column = 4 + max([length for length in names if length <= _WIDEST_NAME], default=4)
    lines: list[str] = []
    for block in blocks:
        if block.kind == ENTRY:
            lines += lay_out_entry(block.name, block.text, 2, column, width)
        elif block.kind == COMMAND:
            lines += wrap_words(block.text, "  ", "  " + " " * _hanging(block.text), width)
        elif block.kind == TEXT:
            lines += wrap_words(block.text, "  ", "  ", width)
        else:
            lines.append(block.text)
    return lines


def lay_out_entry(name: str, text: str, indent: int, column: int, width: int = WIDTH) -> list[str]:
    """A name and, from ``column`` on, what is said of it; below a name that reaches further."""
    margin, start = " " * column, f"{'':{indent}}{name}"
    if len(start) + 2 > column and text:
        return [*wrap_words(name, " " * indent, " " * (indent + 2), width), *wrap_words(text, margin, margin, width)]
    return wrap_words(text, f"{start:{column}}", margin, width)


def wrap_words(text: str, first: str, following: str, width: int = WIDTH) -> list[str]:
    """Lines of words; one that is too long has a line of its own. A group in brackets that fits stays in one line."""
    lines, current, is_empty = [], first, True
    for word in _words(text, width - len(following)):
        if not is_empty and len(current) + 1 + len(word) > width:
            lines.append(current)
            current, is_empty = following, True
        current += word if is_empty else f" {word}"
        is_empty = False
    return [*lines, current.rstrip()]


def _words(text: str, most: int) -> list[str]:
    """What is not to be broken: words, and an option with its value, ``[-p PID | -c COMMAND]``."""
    words: list[str] = []
    depth = 0
    for word in text.split(" "):
        if depth and words and len(words[-1]) + 1 + len(word) <= most:
            words[-1] += f" {word}"
        elif word:
            words.append(word)
            depth = 0
        depth = max(0, depth + word.count("[") - word.count("]"))
    return words


def _hanging(command: str) -> int:
    """How far the lines that continue ``sonde NAME ...`` are indented."""
    return len(" ".join(command.split(" ")[:2])) + 1
