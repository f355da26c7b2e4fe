"""``sonde help``: help in general, for one tool or command, or for a word of the language."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
help: the help of Sonde, of a tool, a command or a word of the language; or the answers to a question

USAGE
  sonde help [NAME | QUESTION]

  Of a tool or command, the same as `sonde NAME --help`. NAME may also be a function, a builtin, a kind of probe or a
  configuration variable. A QUESTION, in any words, finds what answers it best: tools and commands, recipes of the
  cookbook, one-liners, words of the language, options and the kernel's tracepoints.

EXAMPLE
  # sonde help tcplife
  # sonde help hist
  hist(n[, bits])
    Histogram by powers of two. (as a map's value only)
    @ = hist(args.ret)
  # sonde help dns
  ...
  gethostlatency: show lookups of host names, with their latency
      sonde gethostlatency --help

NEEDS
  nothing

NOTES
  `sonde man tcplife` shows the same as a manual page.
"""
TAKES = set[str]()


def main(parsed: Parsed) -> int:
    """Print it; the exit status."""
    if len(parsed.words) < 2:
        from ..pages.overview import overview
        sys.stdout.write(overview())
        return 0
    if len(parsed.words) > 2:
        return _answer(" ".join(parsed.words[1:]))
    text = explain_name(parsed.words[1])
    if not text:
        return _answer(parsed.words[1])
    sys.stdout.write(text)
    return 0


def explain_name(word: str) -> str:
    """The page of a tool or command, and the meanings of a word of the language; "" if there are none."""
    from ... import tools
    from ..command_table import COMMANDS, own_words
    from . import command_page
    name = own_words(word)[0]
    page = command_page(name) if name in COMMANDS else tools.find_tool(name)
    return "\n".join([*([tools.tool_help(page)] if page is not None else []), *describe_word(word)])


def _answer(question: str) -> int:
    from ..search.answering import answer_question
    sys.stdout.write(answer_question(question))
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
