"""Give many programs to both tracers, and say in what their answers differ: ``python campaign.py random 200``.

Kinds: ``random`` (tests/fuzz/programs.py), ``mutated`` (a token of a program of rows.txt or of the documentation is
changed, dropped or doubled), ``rows`` (rows.txt: by hand, for each row of the language).
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from peer.tracers import Answer, ask_peer, ask_sonde, difference, find_peer  # noqa: E402

HERE = Path(__file__).parent
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[@$]?\w+|->|\+\+|--|&&|\|\||[<>=!]=|\S')
_OTHERS = ["0", "1", "-1", '"a"', '"abcdef"', "$x", "@x", "(1, 2)", "true", "pid", "comm", "+", "-", "*", "/", "==",
           "<", "&&", "nsecs", "uint64", "(int8)", "!", "~", ";", ")", "(", "[", "]", "{", "}", "100", "cpu", "str",
           "count"]


def rows() -> list[str]:
    """Programs by hand; a line each."""
    return [line for line in (HERE / "rows.txt").read_text().splitlines() if line and not line.startswith("#")]


def mutated(seed: int) -> str:
    """A row with one of its tokens changed."""
    chance = random.Random(seed)
    program = chance.choice(rows())
    tokens = list(_TOKEN.finditer(program))
    at = chance.choice(tokens[2:])
    new = chance.choice(["", at[0] + " " + at[0], *[chance.choice(_OTHERS) for _ in range(4)],
                         chance.choice(tokens)[0]])
    return f"{program[:at.start()]}{new}{program[at.end():]}"


def written(seed: int) -> str:
    from fuzz.programs import Writer
    return Writer(seed, 3).script()


def programs(kind: str, count: int, first: int) -> Iterator[tuple[str, str]]:
    """(name, program)."""
    if kind == "rows":
        yield from [(f"row {at}", row) for at, row in enumerate(rows())]
    for seed in range(first, first + count) if kind != "rows" else ():
        yield f"{kind} {seed}", written(seed) if kind == "random" else mutated(seed)


def compare(program: str, *more: str) -> tuple[str, Answer, Answer]:
    peer, own = ask_peer(program, *more), ask_sonde(program, *more)
    return difference(peer, own), peer, own


def main(kind: str, count: str = "100", first: str = "0") -> None:
    if find_peer()[1]:
        sys.exit(find_peer()[1])
    seen: Counter[str] = Counter()
    for name, program in programs(kind, int(count), int(first)):
        found, peer, own = compare(program)
        seen[found or "same"] += 1
        if found:
            print(f"{found}: {name}: {program}")
            print(f"  bpftrace: {peer.status} {peer.output[:300]!r} {peer.first}")
            print(f"  sonde:    {own.status} {own.output[:300]!r} {own.first}", flush=True)
    print(dict(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
