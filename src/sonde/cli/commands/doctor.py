"""``sonde doctor``: which tools work here, how, and what keeps the others from working."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
doctor: which tools work on this kernel, by what probes, and what keeps the others from it

USAGE
  sonde doctor [--btf FILE]

  Compiles every tool; nothing is loaded or attached, but counters of the CPU are tried. The status is 0 if all of
  them work. `sonde tools --check` is the same.

OPTIONS
  --btf FILE   for the kernel whose BTF this is, instead of the running one

COLUMNS
  TOOL     its name
  VERDICT  the kinds of probes that it has here, or what is missing

EXAMPLE
  # sonde doctor
  biolatency  works: raw tracepoint
  ...
  83 of 83 tools work on this kernel (6.12.0).

NEEDS
  the rights that tracing needs, as root has them: what is not permitted can be found out by no trial

NOTES
  With --btf, what takes a trial (kprobes, and where fentry may attach) is taken for allowed.
"""
TAKES = {"btf", "check"}


def main(parsed: Parsed) -> int:
    """Examine and report; the exit status."""
    from ...base.installation import as_root
    from ...output.progress import make_progress
    from .. import requests
    from ..doctor import build_report
    btf = parsed.named.pop("btf", "") or parsed.get("btf")
    parsed.options |= {"btf": btf} if btf else {}
    allowed = bool(btf) or may_trace()
    if not allowed:
        requests.print_to_stderr(f"WARNING: this user may not trace, so that nothing can be tried\nHINT: {as_root()}")
    kernel = requests.permitted(requests.kernel_of(parsed), parsed)
    text, all_work = build_report(kernel, btf, allowed, make_progress(parsed.has("quiet")))
    sys.stdout.write(text)
    return 0 if all_work else 1


def may_trace() -> bool:
    """Whether the caller may create maps, the least that tracing needs."""
    from ...errors import SondeError
    from ...kernel import syscalls
    from ...layouts.uapi import MAP_TYPES
    try:
        syscalls.map_create(MAP_TYPES["percpu_array"], 4, 8, 1, 0, "may_trace").close()
    except SondeError:
        return False
    return os.geteuid() == 0 or _has_capabilities()


def _has_capabilities() -> bool:
    """CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        word = next((line.split()[1] for line in file if line.startswith("CapEff:")), "0")
    held = int(word, 16)
    return bool(held >> 21 & 1 or held >> 38 & 1 and held >> 39 & 1)
