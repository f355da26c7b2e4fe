"""Why a kernel function cannot be probed."""

from __future__ import annotations

from ..errors import EnvironmentProblem
from . import tracefs
from .symbols import KernelSymbols, traceable_functions

_BLACKLIST = "/sys/kernel/debug/kprobes/blacklist"


def obstacle(function: str, module: str, kind: str) -> tuple[str, list[str]]:
    """(what is wrong with it, hints); ("", []) if the kernel's lists do not tell."""
    symbols = KernelSymbols()
    known = symbols.address(function)
    listed = [m for m, name in _traceable() if name == function]
    if known is None and not symbols.restricted and not listed:
        return f"this kernel has no function {function}", [
            "it is inlined wherever it is used, or not part of this kernel"]
    if listed and module not in ("", "vmlinux") and module not in listed:
        return f"{function} is not in {module} but in {listed[0]}", []
    if not listed and _traceable():
        other = [f"kprobe:{function} may do"] if kind in ("fentry", "fexit") else []
        return f"{function} is not traceable: it is not among the kernel's available_filter_functions", other
    return "", []


def _traceable() -> list[tuple[str, str]]:
    try:
        return traceable_functions(tracefs.find())
    except EnvironmentProblem:
        return []


def forbidden(function: str) -> bool:
    """Whether no kprobe may be set in a function: debugfs lists them, "0xaddr-0xaddr\tname"."""
    try:
        with open(_BLACKLIST, encoding="utf-8", errors="replace") as file:
            return any(line.split()[1:] == [function] for line in file)
    except OSError:
        return False
