#!/usr/bin/env python3
"""Manual pages and completions, from the heads and tables that --help is made from: python3 scripts/manual.py FOLDER"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from sonde import __version__, tools  # noqa: E402
from sonde.cli import command_table, commands  # noqa: E402
from sonde.cli.options import OPTIONS, Option, usage_text  # noqa: E402
from sonde.output.views import FORMATS  # noqa: E402
from sonde.tools import Tool, ToolOption  # noqa: E402

MAN = "share/man/man1"
VALUES = {"FILE": "file", "FILE[:FILE]": "file", "DIR": "file", "DIR[:DIR]": "file", "BEFORE": "file", "PID": "pid"}


def roff(text: str) -> str:
    """Text that troff prints as it stands: no line begins with a request, and no dash becomes a hyphen."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").split("\n")
    return "\n".join(["\\&" + line if line.startswith(".") else line for line in lines])


def man_page(name: str, purpose: str, sections: Iterable[tuple[str, str]]) -> str:
    """A page of section 1; the sections are set as they are laid out."""
    parts = [f'.TH "{name.upper()}" "1" "" "sonde {__version__}" "Sonde"', ".SH NAME",
             f"{roff(name)} \\- {roff(purpose)}"]
    for title, body in sections:
        parts += [f'.SH "{title}"', ".nf", roff(body), ".fi"]
    return "\n".join(parts) + "\n"


def main_page(found: Sequence[Tool]) -> str:
    """``man sonde``."""
    synopsis, _, rest = usage_text().partition("\n\n")
    listing = [("TOOLS AND COMMANDS", "".join([f"  {tool.name:16} {tool.purpose}\n" for tool in found]).rstrip())]
    sections = [(head.rstrip(":"), body) for head, _, body in (part.partition("\n") for part in rest.split("\n\n"))]
    return man_page("sonde", "a tracer for Linux: bpftrace's language, compiled in Python straight to eBPF",
                    [("SYNOPSIS", synopsis.partition("\n")[2]), *sections, *listing])


def tool_page(tool: Tool) -> str:
    """``man sonde-tcplife``."""
    titles = {"USAGE": "SYNOPSIS"}
    return man_page(f"sonde-{tool.name}", tool.purpose,
                    [(titles.get(title, title), tool.sections[title]) for title in tools.SECTIONS
                     if title in tool.sections] + [("SEE ALSO", "sonde(1)")])


def bash(found: Sequence[Tool]) -> str:
    """For bash-completion, which loads it by the command's name."""
    own = "\n".join([f"        {tool.name}) words=\"$words {words(tool.options)}\" ;;" for tool in found
                     if tool.options])
    files = "|".join(sorted({name for row in OPTIONS if VALUES.get(row.value) == "file" for name in row.names}))
    return f"""# Written by scripts/manual.py
_sonde() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" tool="" each words
    case "$before" in
        -f|--format) COMPREPLY=($(compgen -W "{' '.join(FORMATS)}" -- "$word")); return ;;
        -p|--pid) COMPREPLY=($(compgen -W "$(cd /proc && echo [0-9]*)" -- "$word")); return ;;
        {files}) COMPREPLY=($(compgen -f -- "$word")); return ;;
    esac
    words="{words(OPTIONS)}"
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$each" in top|serve|help|-*) ;; *) tool="$each"; break ;; esac
    done
    case "$tool" in
        "") words="$words {' '.join(tool.name for tool in found)}" ;;
{own}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ -z "$tool" ] && COMPREPLY+=($(compgen -f -X '!*.bt' -- "$word"))
}}
complete -o filenames -F _sonde sonde
"""


def words(rows: Iterable[Option | ToolOption]) -> str:
    """All names of options."""
    return " ".join([name for row in rows for name in row.names])


def zsh(found: Sequence[Tool]) -> str:
    """A function for zsh's completion system."""
    own = "\n".join([f"        {tool.name}) _arguments -s {' '.join(map(zsh_option, tool.options))} '*:file:_files' ;;"
                     for tool in found if tool.options])
    names = "\n".join([f"        {quoted(f'{tool.name}:{tool.purpose}')}" for tool in found])
    rows = " ".join([zsh_option(row) for row in OPTIONS])
    return f"""#compdef sonde
# Written by scripts/manual.py
_sonde() {{
    local context state line
    local -a names
    names=(
{names}
    )
    _arguments -s -C {rows} '1: :->program' '*::: :->rest'
    case "$state" in
    program) _describe 'tool or command' names; _files -g '*.bt' ;;
    rest)
        case "$line[1]" in
{own}
        *) _files ;;
        esac ;;
    esac
}}
_sonde "$@"
"""


def zsh_option(row: Option | ToolOption) -> str:
    """A specification of _arguments."""
    names = "{" + ",".join(row.names) + "}" if len(row.names) > 1 else row.names[0]
    kind = {"file": "_files", "pid": "_pids"}.get(VALUES.get(row.value, ""), " ")
    help = row.help.replace("[", "(").replace("]", ")").replace(":", " -")
    value = f":{row.value.strip('[]').lower().replace(':', ' ')}:{kind}" if row.value else ""
    return names + quoted(f"[{help}]{value}")


def quoted(text: str) -> str:
    """A word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def fish(found: Sequence[Tool]) -> str:
    """For fish."""
    lines = ["# Written by scripts/manual.py"]
    lines += [f"complete -c sonde -n __fish_use_subcommand -a {tool.name} -d {quoted(tool.purpose)}" for tool in found]
    lines += [fish_option(row, "") for row in OPTIONS]
    lines += [fish_option(row, f" -n '__fish_seen_subcommand_from {tool.name}'")
              for tool in found for row in tool.options]
    return "\n".join(lines) + "\n"


def fish_option(row: Option | ToolOption, condition: str) -> str:
    """A line for an option."""
    names = " ".join([f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in row.names])
    value = "" if not row.value or row.value.startswith("[") else " -r" if VALUES.get(row.value) == "file" else " -x"
    return f"complete -c sonde{condition} {names}{value} -d {quoted(row.help)}"


def files() -> dict[str, str]:
    """Every file, by its path below the prefix."""
    found = [*tools.all_tools(), *[commands.command_page(name) for name in command_table.COMMANDS]]
    return {f"{MAN}/sonde.1": main_page(found), **{f"{MAN}/sonde-{tool.name}.1": tool_page(tool) for tool in found},
            "share/bash-completion/completions/sonde": bash(found), "share/zsh/site-functions/_sonde": zsh(found),
            "share/fish/vendor_completions.d/sonde.fish": fish(found)}


def write_answers(folder: Path) -> None:
    """The index of answers, into a package that is being built below ``folder``; what makes it is left out there."""
    from sonde.cli.search.build import collect_entries
    from sonde.cli.search.index import INDEX, index_text
    target = folder / Path(INDEX).relative_to(ROOT / "src")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(index_text(collect_entries()))
    (target.parent / "build.py").unlink(missing_ok=True)


def write_files(folder: Path) -> dict[str, list[str]]:
    """Write them below ``folder``; as setuptools' data_files: the folder of each, and its files."""
    placed: dict[str, list[str]] = {}
    for path, text in files().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        placed.setdefault(str(Path(path).parent), []).append(str(target))
    return placed


if __name__ == "__main__":
    write_files(Path(sys.argv[1]))
