"""What could stand at the cursor of a shell: one answer for all shells, from the tables that parsing and --help use."""

from __future__ import annotations

from ...base.record import Record
from ...tools import Tool, find_tool, tool_names
from ..command_table import COMMANDS, VIEWERS, WRAPPERS, own_words
from ..commands import command_page
from ..options import OPTIONS, Option, find_abbreviated
from ..requests import options_of_tool
from .answers import Answer, Candidate, Values
from .values import FILES, NOTHING, PIDS, PROBES, SCRIPTS, SHELLS, values_of, values_of_kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OF_PAGES = {"help", "man"}  # commands that take the name of a tool or command
# What the words of a command name, where its USAGE cannot say it to a program.
_WORDS = {"argdist": PROBES, "trace": PROBES, "completion": SHELLS,
          "check": SCRIPTS, "tools": NOTHING, "doctor": NOTHING,
          "lsp": NOTHING, "mcp": NOTHING, "version": NOTHING}


class _Line(Record):
    """The words before the cursor, read as parsing reads them."""

    options: dict[str, Option]      # that the next word may be, by name: the tool's own come first
    awaited: Option | None = None   # whose value the next word is
    page: Tool | None = None        # the tool or command that was named
    viewer: str = ""
    has_program: bool = False       # -e, a file, a tool
    words: list[str] = []           # what is no option, after the program


def complete_words(words: Sequence[str], current: str) -> Answer:
    """What ``current`` could become, behind ``words``, which do not begin with ``sonde`` itself."""
    line = _read_words(words)
    if line.awaited is not None:
        answer = _complete_value(line.awaited, line, current)
        is_optional = line.awaited.value.startswith("[")
        return answer if not is_optional or not current.startswith("-") else _complete_option(line, current)
    if current.startswith("--") and "=" in current:
        name, _, value = current.partition("=")
        row = line.options.get(name)
        answer = _complete_value(row, line, value) if row is not None and row.value else Answer()
        return Answer([Candidate(f"{name}={each.word}", each.help, each.is_part) for each in answer.candidates],
                      answer.files)
    if current.startswith("-"):
        return _complete_option(line, current)
    return _complete_word(line, current)


def _read_words(words: Sequence[str]) -> _Line:
    line = _Line({name: row for row in OPTIONS for name in row.names})
    for word in words:
        row = None if word == "-" else line.options.get(word)
        if row is None and word.startswith("--"):
            row = line.options.get(word.partition("=")[0]) or find_abbreviated(word, line.options)
        if line.awaited is not None and not (line.awaited.value.startswith("[") and row is not None):
            line.awaited = None
            continue
        line.awaited = row if row is not None and row.value and "=" not in word else None
        line.has_program = line.has_program or row is not None and row.key == "e"
        if row is None and (word == "-" or word[:1] != "-"):
            _take_word(line, word)
    return line


def _take_word(line: _Line, word: str) -> None:
    name = own_words(word)[0]
    wraps = line.page is not None and line.page.name in WRAPPERS
    if line.page is None and not line.has_program and not line.viewer and name in VIEWERS:
        line.viewer = name
    elif not line.has_program and (line.page is None or wraps):
        page = command_page(name) if name in COMMANDS and not wraps and not line.viewer else find_tool(name)
        line.has_program = page is None or name not in WRAPPERS
        if page is not None:
            own = {each: row for row in options_of_tool(name) for each in row.names}
            line.options = own | {each: row for each, row in line.options.items() if each not in own}
            line.page = page
    else:
        line.words.append(word)


def _complete_option(line: _Line, typed: str) -> Answer:
    """Names of options, the tool's own first; the long name of each, but where a short one was begun."""
    rows = list({id(row): row for row in line.options.values()}.values())
    if not typed.startswith("--"):
        names = [(name, row) for row in rows for name in row.names]
    else:
        names = [(name, row) for row in rows for name in row.names if name.startswith("--")]
    return Answer([Candidate(name, row.help) for name, row in names if name.startswith(typed)])


def _complete_value(row: Option, line: _Line, typed: str) -> Answer:
    return _answer(values_of(row, line.page, typed), typed)


def _complete_word(line: _Line, typed: str) -> Answer:
    """A tool or command where the program is to come; then what it takes."""
    page = line.page
    if page is not None and page.name in _OF_PAGES:
        topics = _help_topics() if page.name == "help" else _pages()
        return _answer(Values(topics if not line.words else ()), typed)
    if not line.has_program:
        names = _pages() if page is None and not line.viewer else [(name, _purpose(name)) for name in tool_names()]
        return _answer(Values(names, ".bt" if line.viewer != "top" else ""), typed)  # top also shows recordings
    kind = FILES if page is None else _WORDS.get(page.name) or _kind_of_parameter(page, len(line.words))
    return _answer(values_of_kind(kind, typed), typed)


def _kind_of_parameter(page: Tool, index: int) -> str:
    """What the next parameter is, by its name in USAGE."""
    parameters = page.parameters
    name = parameters[min(index, len(parameters) - 1)] if parameters else ""
    kinds = {"PID": PIDS, "FUNCTION": PROBES, "PROBE": PROBES}
    if page.name in COMMANDS and not name:
        return FILES
    return kinds.get(name, FILES if page.name in COMMANDS else NOTHING)


def _pages() -> Iterator[tuple[str, str]]:
    for name in (*tool_names(), *COMMANDS):
        yield name, _purpose(name)


def _purpose(name: str) -> str:
    page = command_page(name) if name in COMMANDS else find_tool(name)
    return page.purpose if page is not None else ""


def _help_topics() -> Iterator[tuple[str, str]]:
    """All that ``sonde help`` knows by its name."""
    from ...builtins import BUILTINS
    from ...functions import FUNCTIONS
    from ...semantics.config import VARIABLES
    from ...semantics.providers import PROVIDERS
    yield from _pages()
    yield from [(name, row.documentation) for name, row in FUNCTIONS.items()]
    yield from [(name, row.documentation) for name, row in BUILTINS.items()]
    yield from [(name, row.documentation) for name, row in VARIABLES.items()]
    yield from [(row.name, row.documentation) for row in PROVIDERS]


def _answer(values: Values, typed: str) -> Answer:
    known = {name: help for name, help in values.names if name.startswith(typed)}
    is_part = values.is_part or (lambda name: False)
    return Answer([Candidate(name, help, is_part(name)) for name, help in known.items()], values.files)
