"""``sonde check``: compile scripts, attach nothing."""

from __future__ import annotations

import sys

from ...errors import CompileError, SondeError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...output.findings import ScriptFindings
    from ...semantics.world import World
    from ..options import Parsed

PAGE = """\
check: compile scripts for this kernel or another one, and attach nothing

USAGE
  sonde check [--btf FILE] [-f FORMAT] SCRIPT...

  Needs no privileges. The status is 1 if a script has errors, or cannot be read. A SCRIPT - is standard input.

OPTIONS
  --btf FILE           for the kernel whose BTF this is: /sys/kernel/btf/vmlinux, copied from another machine
  -f, --format FORMAT  text; json: a line for each script; or sarif: one SARIF 2.1.0 log, for editors and code hosts

COLUMNS
  SCRIPT: PROBES, PROGRAMS, INSTRUCTIONS   of each script that compiles; findings are on standard error

EXAMPLE
  # sonde check opens.bt
  opens.bt: 2 probes, 2 programs, 61 instructions

NEEDS
  BTF of the kernel

NOTES
  With --btf nothing can be tried: features that a trial would find out are taken from what the types tell.
  JSON and SARIF have each finding's code, message, hints, position and notes (other places that it is about).
"""
TAKES = {"btf", "unsafe", "I", "include", "debuginfo", "debuginfod", "traceable-functions", "no-feature",
         "probe-filter", "format"}
FORMATS = ("text", "json", "sarif")


def main(parsed: Parsed) -> int:
    """Compile each; the exit status."""
    from .. import requests
    paths = parsed.words[1:]
    if not paths:
        raise UsageError("check needs at least one script", ["sonde check --help explains"])
    form = parsed.named.pop("format", "") or parsed.options.pop("format", "text")
    if form not in FORMATS:
        from ...output.views import refuse_format
        refuse_format(form, FORMATS)
    if btf := parsed.named.pop("btf", ""):
        parsed.options["btf"] = btf
    world = requests.permitted(requests.kernel_of(parsed), parsed)
    checked = []
    for path in paths:
        one = _check_script(path, parsed, world)
        checked.append(one)
        if form == "text":
            _print_text(one)
        elif form == "json":
            from ...output.findings import json_line
            sys.stdout.write(json_line(one))
    if form == "sarif":
        from ...output.findings import sarif_log
        sys.stdout.write(sarif_log(checked))
    return 0 if all(one.compiles for one in checked) else 1


def _check_script(path: str, parsed: Parsed, world: World) -> ScriptFindings:
    """Read and compile one; a script that cannot be read has that as its finding."""
    from ... import compiling
    from ...output.findings import ScriptFindings
    from ...source import ERROR, Diagnostic
    from .. import requests
    from ..script_names import LARGEST, read_script, script_of
    try:
        source = script_of("stdin", sys.stdin.buffer.read(LARGEST + 1)) if path == "-" else read_script(path)
    except SondeError as error:
        return ScriptFindings(path, [Diagnostic(ERROR, "unreadable", error.message, None, error.hints)])
    options = requests.options_of(parsed, [])
    options.exercises = not options.mode
    try:
        spec = compiling.compile(source, options, world)
    except CompileError as error:
        return ScriptFindings(path, error.diagnostics)
    return ScriptFindings(path, spec.warnings, {
        "probes": len(spec.probes), "programs": len(spec.programs),
        "instructions": sum(len(program.code) for program in spec.programs) // 8})


def _print_text(one: ScriptFindings) -> None:
    from .. import requests
    for item in one.diagnostics:
        requests.print_to_stderr(item.render())
    if one.sizes is not None:
        counts = [f"{number} {name[:-1] if number == 1 and name != 'instructions' else name}"
                  for name, number in one.sizes.items()]
        sys.stdout.write(f"{one.script}: {', '.join(counts)}\n")
