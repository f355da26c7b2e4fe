"""Makes a failing program small: ``PYTHONPATH=tests:src python -m fuzz.shrink SEED|FILE`` prints what is left of it.

Pieces of text are taken out, or replaced by something simpler, as long as the program fails in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import judge
from sonde.errors import CompileError

PAIRS = {"(": ")", "{": "}", "[": "]"}


def failure(script: str, json: bool = False) -> str:
    """How a program fails: "" if it does not."""
    try:
        got, wanted = judge.compare(script, json=json, verify=False)
    except CompileError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"
    return "" if got == wanted else "differs"


def groups(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of everything in brackets, the outer ones first."""
    open_, found, quoted = [], [], False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif not quoted and c in PAIRS:
            open_.append(i)
        elif not quoted and open_ and c == PAIRS[text[open_[-1]]]:
            found.append((open_.pop(), i + 1))
    return iter(sorted(found, key=lambda span: span[0] - span[1]))


def parts(text: str, start: int, end: int, separators: str) -> list[tuple[int, int]]:
    """What stands between separators within a group, at its own level."""
    found, at, depth, quoted = [], start + 1, 0, False
    for i in range(start + 1, end - 1):
        c = text[i]
        if c == '"':
            quoted = not quoted
        elif not quoted:
            depth += (c in PAIRS) - (c in PAIRS.values())
            if depth == 0 and (c in separators or c == "}" and ";" in separators):
                found.append((at, i + 1))
                at = i + 1
    return [*found, (at, end - 1)]


def candidates(text: str) -> Iterator[str]:
    """Smaller texts, those that lack most first."""
    lines = text.splitlines(keepends=True)
    for i in range(len(lines)):
        yield "".join(lines[:i] + lines[i + 1:])
    for start, end in groups(text):
        if text[start] == "{":
            for a, b in parts(text, start, end, ";"):
                if b > a:
                    yield text[:a] + text[b:]
        if text[start] == "(":
            for simple in ("1", "@zero", '"a"'):
                if end - start > len(simple) + 2:
                    yield text[:start] + simple + text[end:]
        for a, b in [*parts(text, start, end, "?:&|,"), *groups(text[start + 1:end - 1])]:
            inner = text[a:b].strip("?:&|, ") if text[a:b] in text[start:end] else ""
            if inner and len(inner) < end - start - 2 and text[start] == "(":
                yield text[:start] + f"({inner})" + text[end:]
        if text[start] == "{":
            yield text[:start] + text[start + 1:end - 1] + text[end:]


def shrunk(text: str, fails: Callable[[str], bool]) -> str:
    again = True
    while again:
        again = False
        for smaller in candidates(text):
            if len(smaller) < len(text) and fails(smaller):
                text, again = smaller, True
                break
    return text


def main(what: str, json: bool) -> None:
    from fuzz.test_programs import program
    script = program(int(what)) if what.isdigit() else Path(what).read_text()
    wanted = failure(script, json)
    print(wanted or "does not fail", file=sys.stderr)
    if wanted:
        print(shrunk(script, lambda smaller: failure(smaller, json) == wanted))


if __name__ == "__main__":
    main(sys.argv[1], "json" in sys.argv)
