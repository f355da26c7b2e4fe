"""``sonde help``: help in general, for one tool or command, or for a word of the language."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
help: the help of Sonde, of one of its tools and commands, or of a word of the language

USAGE
  sonde help [NAME]

  Of a tool or command, the same as `sonde NAME --help`. Else NAME is a function, a builtin, a kind of probe or a
  configuration variable.

EXAMPLE
  # sonde help tcplife
  # sonde help hist
  hist(n[, bits])
    Histogram by powers of two. (as a map's value only)
    @ = hist(args.ret)

NEEDS
  nothing

NOTES
  `man sonde` and `man sonde-tcplife` have the same pages, where Sonde was installed by pip or pipx.
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Print it; the exit status."""
    from ... import tools
    from ...language.diagnostics import nearest_names
    from ..command_table import COMMANDS, own_words
    from ..options import usage_text
    from . import command_page
    if len(parsed.words) < 2:
        sys.stdout.write(usage_text())
        return 0
    name = own_words(parsed.words[1])[0]
    page = command_page(name) if name in COMMANDS else tools.find_tool(name)
    texts = [tools.tool_help(page)] if page is not None else []
    texts += describe_word(parsed.words[1])
    if not texts:
        known = [*tools.tool_names(), *COMMANDS, *_language_words()]
        raise UsageError(f"there is no tool, command or word of the language {name}",
                         [f"did you mean {c}?" for c in nearest_names(name, known)[:1]]
                         or ["sonde tools lists the tools, and docs/language.md has the language"])
    sys.stdout.write("\n".join(texts))
    return 0


def describe_word(name: str) -> list[str]:
    """The meanings of a name in the language, each a text of some lines."""
    from ...builtins import BUILTINS
    from ...functions import FUNCTIONS
    from ...kinds import find_kind
    from ...semantics.config import VARIABLES
    from ...semantics.providers import find_provider
    texts = []
    if function := FUNCTIONS.get(name):
        limits = f" ({'; '.join(function.limits)})" if function.limits else ""
        texts.append(f"{function.signature}\n  {function.documentation}{limits}\n  {function.example}\n")
    if builtin := BUILTINS.get(name):
        limits = f" (in {', '.join(builtin.probes)})" if builtin.probes else ""
        form = f", {name}({builtin.arguments})" if builtin.arguments else ""
        texts.append(f"{name}{form}\n  {builtin.documentation}{limits}\n")
    if (kind := find_kind(name)) and (provider := find_provider(name)):
        short = f" ({', '.join(kind.aliases)})" if kind.aliases else ""
        texts.append(f"{provider.form}{short}\n  {provider.documentation}\n")
    if variable := VARIABLES.get(name):
        texts.append(f"config = {{ {variable.name} = ... }}\n  {variable.documentation}\n")
    return texts


def _language_words() -> list[str]:
    from ...builtins import BUILTINS
    from ...functions import FUNCTIONS
    from ...kinds import kind_names
    from ...semantics.config import VARIABLES
    return [*FUNCTIONS, *BUILTINS, *kind_names(), *VARIABLES]
