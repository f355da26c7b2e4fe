"""Common code of commands that generate a script and run it."""

from __future__ import annotations

from ...base.numbers import parse_whole
from ...errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..options import Parsed


def run_script(name: str, text: str, parsed: Parsed, seconds: int = 0, advice: bool = False) -> int:
    """Trace with the script ``text``, for ``seconds`` if they are not 0, with Sonde's own options in ``parsed``; with
    ``advice`` about how it is written, as parts of it are the user's. The exit status."""
    from ...source import Source
    from .. import requests, script_run
    from . import startup_warnings
    parsed.named.clear()
    parsed.process_option, parsed.seconds = "pid", seconds
    options, process = requests.options_and_process(parsed, [])
    options.advice = advice
    trace = requests.new_trace(Source(name, text, internal=True), options, process, parsed)
    for text in startup_warnings(trace.spec, parsed, options.pid) if options.warnings else []:
        requests.print_to_stderr(text)
    return script_run.run(trace, parsed)


def number_option(named: Mapping[str, str], name: str, default: int = 0, most: int = 10**6) -> int:
    """The value of the option ``name``, a number from 1 on; ``default`` if it was not given."""
    if name not in named:
        return default
    number = parse_whole(named[name], most)
    if not number:
        raise UsageError(f"--{name} takes a whole number from 1 to {most}, not '{named[name]}'")
    return number


def number_list_option(named: Mapping[str, str], name: str) -> str:
    """The value of the option ``name``, a list of numbers and ranges; "" if it was not given."""
    text = named.get(name, "")
    if name in named and not all(parse_whole(word) is not None for part in text.split(",") for word in part.split("-")):
        raise UsageError(f"--{name}: '{text}' is not a list of numbers", ["write 80, or 80,443, or 8000-8010"])
    return text


def quote_string(text: str) -> str:
    """``text`` as a string of the language."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r"), ("\0", "\\x00")):
        text = text.replace(plain, escaped)
    return f'"{text}"'
