"""``sonde check``: compile scripts, attach nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ...errors import CompileError, SondeError, UsageError

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
check: compile scripts for this kernel or another one, and attach nothing

USAGE
  sonde check [--btf FILE] SCRIPT...

  Needs no privileges. The status is 1 if a script has errors, or cannot be read.

OPTIONS
  --btf FILE   for the kernel whose BTF this is: /sys/kernel/btf/vmlinux, copied from another machine

COLUMNS
  SCRIPT: PROBES, PROGRAMS, INSTRUCTIONS   of each script that compiles; findings are on standard error

EXAMPLE
  # sonde check opens.bt
  opens.bt: 2 probes, 2 programs, 61 instructions

NEEDS
  BTF of the kernel

NOTES
  With --btf nothing can be tried: features that a trial would find out are taken from what the types tell.
"""
TAKES = {"btf", "unsafe", "I", "include", "debuginfo", "debuginfod", "traceable-functions", "no-feature",
         "probe-filter"}


def main(parsed: Parsed) -> int:
    """Compile each; the exit status."""
    from ... import compiling
    from .. import requests
    from ..script_names import read_script
    paths = parsed.words[1:]
    if not paths:
        raise UsageError("check needs at least one script", ["sonde check --help explains"])
    if btf := parsed.named.pop("btf", ""):
        parsed.options["btf"] = btf
    world = requests.kernel_of(parsed)
    status = 0
    for path in paths:
        try:
            source = read_script(path)
        except SondeError as error:
            status = 1
            for line in [f"ERROR: {error.message}", *[f"HINT: {hint}" for hint in error.hints]]:
                requests.print_to_stderr(line)
            continue
        try:
            options = requests.options_of(parsed, [])
            options.exercises = not options.mode
            spec = compiling.compile(source, options, requests.permitted(world, parsed))
        except CompileError as error:
            status = 1
            for diagnostic in error.diagnostics:
                requests.print_to_stderr(diagnostic.render())
            continue
        for warning in spec.warnings:
            requests.print_to_stderr(warning.render())
        sys.stdout.write(f"{path}: {len(spec.probes)} probe{'s' if len(spec.probes) != 1 else ''}, "
                         f"{len(spec.programs)} program{'s' if len(spec.programs) != 1 else ''}, "
                         f"{sum(len(p.code) for p in spec.programs) // 8} instructions\n")
    return status
