"""The programs of the campaign, as the arguments of a tracer: by hand, by mutation, at random.

A kind is a function of a seed. What a program may do is bounded by its probes: what may fire on its own is given with
``--mode codegen``, and nothing is given with ``--unsafe``.
"""

from __future__ import annotations

import functools
import os
import random
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from peer.constructs import construct
from peer.tracers import find_peer, traceable_functions

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[@$]?\w+|->|\+\+|--|&&|\|\||\.\.|<<|>>|[<>=!]=|[-+*/%&|^]=|\S')
_COMMENT = re.compile(r"^(?: \*|/\*|//).*\n", re.M)
_ADDITIONS = re.compile(r"\b(?:exists|one_of|globmatch|nstat|fn)\b")  # what only Sonde knows
_FENCE = re.compile(r"^```\n(.*?)^```$", re.M | re.S)
WORK = "dd if=/dev/zero of=/dev/null bs=1000 count=5 status=none"
_OTHERS = ["0", "1", "-1", '"a"', '"abcdef"', "$x", "@x", "@", "(1, 2)", "(a=1)", "true", "pid", "comm", "+", "-", "*",
           "/", "%", "==", "<", "&&", "|", "<<", "=", "+=", "nsecs", "uint64", "(int8)", "!", "~", "&", ";", ")", "(",
           "[", "]", "{", "}", "100", "1.5", "5s", "cpu", "str", "count", "count()", "curtask", "args", "kstack", "$1",
           "return", "string", "let", ",", ".", ":", "?"]
# A program of nothing but these runs as it stands; self:signal waits for one.
_AT_ONCE = re.compile(r"\s*(?:begin|end|BEGIN|END)\b")


def rows(name: str = "rows") -> list[list[str]]:
    """By hand, for each row of the language: a line each, ``[OPTIONS] PROGRAM``; it is given with ``-e``. A line that
    begins with ``-`` is a whole command line, WORK a program that reads."""
    found = []
    for line in (HERE / f"{name}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            found.append(_arguments(line))
    return found


def otherwise(name: str = "otherwise") -> list[tuple[str, list[str]]]:
    """(difference, arguments) of such lines behind the difference and a tab: what differs from bpftrace, and is to go
    on doing so until docs/compatibility.md says something else."""
    lines = (HERE / f"{name}.txt").read_text().splitlines()
    return [(kind, _arguments(line)) for kind, tab, line in [line.partition("\t") for line in lines]
            if tab and not kind.startswith("#")]


def _arguments(line: str) -> list[str]:
    if line.startswith("-"):
        return shlex.split(line)
    options, _, program = line[1:].partition("] ") if line.startswith("[") else ("", "", line)
    return [*[WORK if word == "WORK" else word for word in shlex.split(options)], "-e", program]


@functools.cache
def seeds() -> list[str]:
    """Programs to be mutated: rows, what the documentation shows, the shipped tools, and those that came with the
    peer (SONDE_PEER_TOOLS, a folder)."""
    found = [arguments[-1] for arguments in rows() if len(arguments) == 2] * 5
    for page in sorted((ROOT / "docs").glob("*.md")):
        found += [text.strip() for text in _FENCE.findall(page.read_text()) if "{" in text and "sonde" not in text]
    folders = [ROOT / "src/sonde/tools", Path(os.environ.get("SONDE_PEER_TOOLS", "/nowhere"))]
    tools = [path for folder in folders for path in folder.glob("*.bt")]
    found += [_COMMENT.sub("", path.read_text()).strip() for path in sorted(tools)]
    return [text for text in found if not _ADDITIONS.search(text)]


def mutate(program: str, chance: random.Random) -> str:
    """A program with one of its tokens dropped, doubled, changed, or moved."""
    tokens = list(_TOKEN.finditer(program))
    at = chance.choice(tokens[2:])
    other = chance.choice(tokens)[0]
    new = chance.choice(["", f"{at[0]} {at[0]}", other, f"{at[0]} {other}",
                         *[chance.choice(_OTHERS) for _ in range(4)]])
    return f"{program[:at.start()]}{new}{program[at.end():]}"


def mutated(seed: int) -> list[str]:
    chance = random.Random(seed)
    return given(mutate(chance.choice(seeds()), chance))


def documented(seed: int) -> list[str]:
    """What is shown and shipped, as it stands."""
    found = list(dict.fromkeys(seeds()))
    return given(found[seed % len(found)])


# Calls of a macro of bpftrace's library within one another, and a step behind a block: which it refuses.
_REFUSED = re.compile(r"(str_concat|has_key)\([^;]*\b\1\(|\} (?:\+\+|--)")


def written(seed: int) -> list[str]:
    from fuzz.programs import Writer
    found = next(text for part in range(1000) if not _REFUSED.search(
        text := Writer(seed + part * 10 ** 9, 3, common=True).script()))
    return given(found)


def formatted(seed: int) -> list[str]:
    chance = random.Random(seed)
    program = chance.choice(seeds())
    return ["--fmt", *given(mutate(program, chance) if chance.random() < 0.5 else program)]


def as_json(seed: int) -> list[str]:
    return ["-f", "json", *(given(construct(seed)) if seed % 2 else given(random.Random(seed).choice(seeds())))]


def shown(seed: int) -> list[str]:
    """A program of which the tree is asked for: it is accepted or refused, and what is printed is each tracer's own."""
    program = construct(seed) if seed % 2 else mutated(seed)[-1]
    return ["-d", "ast", "-e", program]


@functools.cache
def _names() -> list[list[str]]:
    """Of some kinds the probes that there are, as the peer lists them."""
    patterns = ("tracepoint:*", "rawtracepoint:*", "iter:*", "software:*", "hardware:*", "uprobe:/bin/sh:*",
                "uprobe:libc:*", "kprobe:*")
    command = [find_peer()[0], *traceable_functions(), "-l"]
    found = [subprocess.run([*command, pattern], capture_output=True, text=True, check=False).stdout.split()
             for pattern in patterns]
    return [names for names in found if names]


def listed(seed: int) -> list[str]:
    """A search among the probes: part of a name that there is, with and without wildcards."""
    chance = random.Random(seed)
    parts = chance.choice(chance.choice(_names())).rstrip(":").split(":")
    at = chance.randrange(len(parts))
    part = parts[at]
    first = chance.randrange(len(part))
    last = chance.randint(first + 1, len(part))
    parts[at] = chance.choice([
        part[:last] + "*", "*" + part[first:], f"*{part[first:last]}*", part, part[:last], "*",
        f"{part[:first]}?{part[first + 1:]}", f"{part[:first]}[{part[first]}x]{part[first + 1:]}"])
    wanted = chance.choice([":".join(parts)] * 6 + [parts[at], ":".join(parts[:at + 1]), f"*:{':'.join(parts[1:])}"])
    return [chance.choice(["-l", "-l", "-lv"]), wanted]


def given(program: str, *more: str) -> list[str]:
    """The arguments that run a program, or only compile it where it might not end."""
    return [*([] if _runs_at_once(program) else ["--mode", "codegen"]), "-e", program, *more]


def _runs_at_once(program: str) -> bool:
    depth, heads = 0, [""]
    for token in _TOKEN.findall(program):
        depth += (token == "{") - (token == "}")
        if token == "}" and depth == 0:
            heads.append("")
        elif depth == 0:
            heads[-1] += f"{token} "
    kinds = ("config", "macro", "struct", "enum", "union", "let", "import", "fn")
    return all(not head.strip() or _AT_ONCE.match(head) or head.split()[0] in kinds for head in heads)


LISTS = ("rows", "functions")
KINDS: dict[str, Callable[[int], list[str]]] = {
    "mutated": mutated, "documented": documented, "random": written, "format": formatted, "json": as_json,
    "tree": shown, "listing": listed, "construct": lambda seed: given(construct(seed))}


def programs(kind: str, first: int, count: int) -> Iterator[tuple[str, list[str]]]:
    """(name, arguments)."""
    if kind in LISTS:
        yield from [(f"{kind} {at}", row) for at, row in enumerate(rows(kind))][first:first + count]
    else:
        yield from ((f"{kind} {seed}", KINDS[kind](seed)) for seed in range(first, first + count))
