"""What somebody meant by a word of the command line that cannot be: hints, and refusals with hints."""

from __future__ import annotations

import os

from ..errors import UsageError
from ..kinds import kind_names
from ..language.diagnostics import nearest_names
from .command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_LONGEST_SCRIPT = 120  # characters of one that a hint repeats
_MOST_FILES = 2000  # of a folder whose names are compared with that of a file that there is not
_MOST_OPTIONS = 12  # of a tool that a hint lists


def refuse_choice(message: str, given: str, allowed: Sequence[str], hints: Sequence[str] = ()) -> NoReturn:
    """UsageError: ``given`` is none of the words that are allowed."""
    raise UsageError(message, [*[f"did you mean {close}?" for close in nearest_names(given, allowed)[:1]], *hints])


def hints_of_no_file(words: Sequence[str]) -> list[str]:
    """What was meant by the name of a file that there is not: a script without -e, a probe, a tool or command, or
    another file."""
    name = words[0]
    if any("{" in word for word in words):
        return [f"a script in the command line comes after -e, in quotes: sonde -e {_quoted(words)}"]
    kind = name.partition(":")[0]
    if ":" in name and kind in kind_names():
        return [f"sonde -e '{name} {{ print(comm); }}' traces it, sonde -l '{name}' lists what matches"]
    if "(" in name:
        return [f"a script has probes, and comes after -e: sonde -e {_quoted(['begin', '{', *words, '}'])}"]
    if "/" in name or "." in name:
        return [f"did you mean {close}?" for close in _near_files(name)] or [
            "sonde tools lists the tools; a script in the command line comes after -e: sonde -e 'begin { ... }'"]
    from ..tools import tool_names
    close = nearest_names(name, [*tool_names(), *COMMANDS])[:1]
    return [f"did you mean the {'command' if each in COMMANDS else 'tool'} {each}?" for each in close] + [
        f"sonde help {_quoted([name])} finds what is about it, sonde tools lists the tools"]


def _quoted(words: Sequence[str]) -> str:
    """Words as one of the shell's."""
    from shlex import quote
    text = " ".join(words)
    return quote(text) if len(text) <= _LONGEST_SCRIPT and text.isprintable() else "'begin { ... }'"


def _near_files(path: str) -> list[str]:
    """The file in the same folder whose name is most like that of ``path``."""
    folder, name = os.path.split(path)
    names = []
    try:
        with os.scandir(folder or ".") as entries:
            for entry, _ in zip(entries, range(_MOST_FILES)):
                names.append(entry.name)
    except OSError:
        return []
    return [os.path.join(folder, close) for close in nearest_names(name, names, least=0.75)[:1]]


def hints_of_process(text: str) -> list[str]:
    """What a process is called, where its number was wanted."""
    name = text.strip()
    if not name or not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name[0].isdigit():
        return ["-p takes a process's number"]
    return [f"-p takes a process's number, which pgrep {name} finds; in a script /comm == \"{name}\"/ goes by the name"]


def hints_of_probe(wanted: str, tracepoints: Sequence[tuple[str, str]]) -> list[str]:
    """The tracepoint that is most like a pattern of -l that nothing matches."""
    word = wanted.rpartition(":")[2].strip("*")
    short = {event.removeprefix("sys_enter_"): f"{category}:{event}" for category, event in tracepoints}
    close = nearest_names(word.removeprefix("sys_enter_"), short, least=0.7)[:1]
    return [f"did you mean tracepoint:{short[name]}?" for name in close]


def hints_of_options(program: str, names: Sequence[str]) -> list[str]:
    """The options that a tool or command has."""
    more = " ..." if len(names) > _MOST_OPTIONS else ""
    listed = [f"its options are {', '.join(names[:_MOST_OPTIONS])}{more}"] if names else []
    return [*listed, f"see sonde {program} --help"]
