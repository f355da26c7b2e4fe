"""Manual pages, from the pages that --help prints."""

from __future__ import annotations

from ...base.version import __version__
from ...errors import UsageError
from ...tools import Tool, all_tools, find_tool
from ...tools.page_layout import COMMAND, ENTRY, GAP, TEXT, VERBATIM, Block, blocks_of, lay_out
from ...tools.subjects import related_tools
from ..command_table import COMMANDS, TOPICS
from ..commands import command_page
from ..options import OPTIONS
from .overview import EXAMPLES, SYNOPSIS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PURPOSE = "a tracer for Linux: bpftrace's language, compiled in Python straight to eBPF"
_DESCRIPTION = "Sonde shows what programs and the kernel do. It runs scripts in bpftrace's language, and tools, " \
    "which are such scripts. `sonde man NAME` shows the page of a tool or a command; `sonde man --write DIR` writes " \
    "all of them for man."
# Options of Sonde's that hold for tools; those of a process only where the tool says that it can be limited to one.
_FOR_TOOLS = ("output", "format", "record", "count", "budget", "verbose")
_FOR_PROCESSES = ("pid", "cmd", "container", "follow")
_TITLES = {"READING": "HOW TO READ IT", "NEEDS": "REQUIREMENTS"}


def manual_page(name: str) -> str:
    """The source of ``man sonde-NAME``, of ``man sonde`` for "" and "sonde"; UsageError if there is none."""
    if name in ("", "sonde"):
        return _main_page()
    page = command_page(name) if name in COMMANDS else find_tool(name)
    if page is None:
        raise UsageError(f"there is no manual page of {name}", ["sonde --help lists tools and commands"])
    return _page(f"sonde-{name}", page.purpose, _sections_of(page))


def manual_names() -> list[str]:
    """What has a page beside ``sonde``."""
    return [*[tool.name for tool in all_tools()], *COMMANDS]


def _main_page() -> str:
    sections = [("SYNOPSIS", [Block(COMMAND, line.strip().partition("  ")[0]) for line in SYNOPSIS.splitlines()]),
                ("DESCRIPTION", [Block(TEXT, _DESCRIPTION)])]
    for topic, names in TOPICS.items():
        sections.append((topic, [Block(ENTRY, command_page(name).purpose, name) for name in names.split()]))
    sections.append(("TOOLS", [Block(ENTRY, tool.purpose, tool.name) for tool in all_tools()]))
    for topic in dict.fromkeys(row.group for row in OPTIONS):
        sections.append((f"OPTIONS: {topic}", _option_blocks(row.key for row in OPTIONS if row.group == topic)))
    sections += [("EXAMPLES", [Block(VERBATIM, line) for line in EXAMPLES.splitlines()]),
                 ("SEE ALSO", [Block(TEXT, _references(["help", "tools", "doctor"]))])]
    return _page("sonde", PURPOSE, sections)


def _option_blocks(keys: Iterable[str]) -> list[Block]:
    rows = {row.key: row for row in OPTIONS}
    return [Block(ENTRY, rows[key].help, ", ".join(rows[key].names) + f" {rows[key].value}".rstrip()) for key in keys]


def _sections_of(page: Tool) -> list[tuple[str, list[Block]]]:
    """SYNOPSIS, DESCRIPTION, OPTIONS and the page's own others, SEE ALSO."""
    usage = blocks_of("USAGE", page.sections.get("USAGE", ""))
    commands = [block for block in usage if block.kind == COMMAND]
    purpose = f"{page.purpose[:1].upper()}{page.purpose[1:]}."
    described = [Block(TEXT, purpose), *usage[len(commands):]]
    own = blocks_of("OPTIONS", page.sections.get("OPTIONS", ""))
    sections = [("SYNOPSIS", commands), ("DESCRIPTION", described), ("OPTIONS", [*own, *_common_options(page)])]
    sections += [(_TITLES.get(title, title), blocks_of(title, text)) for title, text in page.sections.items()
                 if title not in ("USAGE", "OPTIONS")]
    return [*sections, ("SEE ALSO", [Block(TEXT, _references(_related(page)))])]


def _common_options(page: Tool) -> list[Block]:
    """Sonde's own options that hold for a tool, but for those that it has itself."""
    if page.name in COMMANDS:
        return [Block(GAP), Block(TEXT, "Sonde's options are in sonde(1).")]
    own = {name for option in page.options for name in option.names}
    keys = [*(_FOR_PROCESSES if page.asks_who_runs else ()), *_FOR_TOOLS]
    rows = [row for row in OPTIONS if row.key in keys and not own & set(row.names)]
    return [Block(GAP), Block(TEXT, "Of Sonde's own options, which sonde(1) lists, these are of use here:"),
            *_option_blocks(sorted((row.key for row in rows), key=keys.index))]


def _related(page: Tool) -> list[str]:
    """What the page names, then its neighbours: tools of its subject, commands of its topic."""
    text = " ".join([text for title, text in page.sections.items() if title != "EXAMPLE"])
    words = [word.strip(".,;:()`'") for word in text.split()]
    tools = set(manual_names()) - set(COMMANDS)
    named = [word for before, word in zip(["", *words], words)
             if word in tools and len(word) > 5 or before == "sonde" and word in (COMMANDS | dict.fromkeys(tools, ""))]
    topic = next((names.split() for names in TOPICS.values() if page.name in names.split()), [])
    return [name for name in dict.fromkeys([*named, *related_tools(page.name), *topic[:6]]) if name != page.name]


def _references(names: list[str]) -> str:
    return ", ".join(["sonde(1)", *[f"sonde-{name}(1)" for name in names]])


# --- troff ------------------------------------------------------------------------------------------------


def _page(name: str, purpose: str, sections: Iterable[tuple[str, list[Block]]]) -> str:
    parts = [f'.TH "{name.upper()}" "1" "" "sonde {__version__}" "Sonde"', ".nh", ".ad l", ".SH NAME",
             f"{_roff(name)} \\- {_roff(purpose)}"]
    for title, blocks in sections:
        parts += [f'.SH "{title}"', *_requests(blocks)]
    return "\n".join(parts) + "\n"


def _requests(blocks: list[Block]) -> list[str]:
    """The lines of troff for blocks."""
    lines: list[str] = []
    last = ""
    for block in blocks:
        is_set, was_set = (kind in (COMMAND, VERBATIM) for kind in (block.kind, last))
        if is_set != was_set:
            lines.append(".nf" if is_set else ".fi")
        if block.kind == COMMAND:
            lines += [_roff(line[2:]) for line in lay_out([block], 74)]
        elif block.kind == VERBATIM:
            lines.append(_roff(block.text.removeprefix("  ")) or "\\&")
        elif block.kind == ENTRY:
            lines += [".TP", f"\\fB{_roff(block.name)}\\fR", _roff(block.text) or "\\&"]
        elif block.kind == TEXT:
            lines += [*([".PP"] if last else []), _roff(block.text)]
        last = block.kind
    return [*lines, *([".fi"] if last in (COMMAND, VERBATIM) else [])]


def _roff(text: str) -> str:
    """Text that troff prints as it stands: no line begins with a request, and no dash becomes a hyphen."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text
