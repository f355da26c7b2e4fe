"""Commands that are more than a script: one module each, imported when its command is used.

A module has ``PAGE``, its documentation with the sections of a tool's (see :mod:`sonde.tools`), and ``main(parsed)``,
which returns the exit status. Its OPTIONS are the command's own options. ``TAKES`` has the keys of the Sonde options
that apply to it, beyond EVERYWHERE; a command without TAKES takes those of a run.
"""

from __future__ import annotations

import sys

from ..command_table import COMMANDS, WRAPPERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from ...errors import CompileError
    from ...spec import ScriptSpec
    from ...tools import Tool
    from ..options import Parsed

EVERYWHERE = {"help", "version", "info", "quiet", "verbose", "warnings", "no-warnings", "memory"}
# Options about a script, for commands that take none.
OF_SCRIPTS = {"e", "list", "debug", "fmt", "mode", "test", "bench", "check", "btf", "events", "port"}
WITH_SCRIPT = ("FILE | TOOL", "SCRIPT", "RECORDING")  # in the usage of those that do


def command_module(name: str) -> ModuleType:
    """The module of the command called ``name``."""
    path = f"{__name__}.{name}"
    __import__(path)  # importlib, which says the same in other words, takes longer than most commands' modules
    return sys.modules[path]


def command_page(name: str) -> Tool:
    """Its documentation."""
    from ...tools import read_page
    module = command_module(name)
    return read_page(name, str(module.__file__), module.PAGE.splitlines())


def run_command(name: str, parsed: Parsed) -> int:
    """Run it, or print its ``--help``; the exit status."""
    if parsed.has("help") and (name not in WRAPPERS or len(parsed.words) < 2):  # otherwise it is the tool's
        from ...tools import tool_help
        sys.stdout.write(tool_help(command_page(name)))
        return 0
    module = command_module(name)
    if "[SECONDS]" in COMMANDS[name] and name not in WRAPPERS and parsed.get("debug").isdecimal():  # as tools have it
        parsed.words.append(parsed.options.pop("debug"))
    _refuse_options(name, parsed, getattr(module, "TAKES", None))
    return int(module.main(parsed))


def _refuse_options(name: str, parsed: Parsed, taken: set[str] | None) -> None:
    """UsageError for an option that would be ignored silently."""
    given = parsed.options.keys()
    with_script = any(word in COMMANDS[name] for word in WITH_SCRIPT)
    foreign = given - taken - EVERYWHERE if taken is not None else set() if with_script else given & OF_SCRIPTS
    if foreign:
        parsed.refuse_options(foreign, name)


def startup_warnings(spec: ScriptSpec, parsed: Parsed, pid: int) -> Iterator[str]:
    """The warnings before a trace begins: the compiler's findings, and what -p cannot do where the user chose a tool's
    or command's probes."""
    for warning in spec.warnings:
        yield warning.render()
    if pid and (parsed.tool or parsed.words[:1] in (["argdist"], ["trace"])):
        from ...tools import find_tool
        from ...tools.processes import process_caution
        tool = find_tool(parsed.tool)
        if (tool is None or tool.required_parameters) and (text := process_caution(spec.probes, pid)):
            yield text


def compile_findings(error: CompileError, parsed: Parsed | None) -> Iterator[str]:
    """The message about a script that does not compile. A tool's script is not its user's: the message says only what
    the kernel lacks, once; -v shows all."""
    tool = parsed.tool if parsed is not None and not parsed.has("verbose") else ""
    first, *others = [finding for finding in error.diagnostics if not tool or finding.severity == "ERROR"]
    if not tool:
        yield from [finding.render() for finding in (first, *others)]
        return
    from ...kernel.host import kernel_release
    from ...tools import find_tool
    page = find_tool(tool)
    needs = page.needs_in(kernel_release()) if page is not None else ""
    hints = [*([needs] if needs else []), *first.hints][:3]
    yield "\n".join([f"ERROR: {tool}: {first.message}", *[f"HINT: {hint}" for hint in hints]])
    more = f"and {len(others)} more: " if others else ""
    yield f"HINT: {more}sonde {tool} -v shows {'them' if others else 'where'}, sonde doctor says what works here"
