"""Return probes that would harm the traced program are refused before anything is attached.

The kernel's return probe replaces the return address on the stack. Whoever else reads it there sees that of the
kernel's trampoline: the run-time systems of whole files (the World says which), and some functions of plain C.
"""

from __future__ import annotations

from ..language.ast import AttachPoint
from ..spec import Attach
from .finder import ProbeFinder

# What World.return_hazard answers, and why a return probe is no good there.
HAZARDS = {
    "go": "Go's runtime reads the return addresses on its stacks",
    "c++": "C++ exceptions are unwound by the return addresses on the stack",
    "rust": "Rust panics are unwound by the return addresses on the stack",
    "unwound": "its functions are unwound by the return addresses on the stack (exceptions, or cleanup of C)",
    "collected": "its run-time system reads the return addresses on its stacks",
    "stacks": "its code changes from one stack to another",
    "unclear": "there is no telling whether anything reads the return addresses on its stack",
    "twice": "it returns once more to the return address that it keeps",
    "caller": "it looks at its return address",
    "no address": "it has no return address on the stack",
    "callback": "exceptions of the functions that it calls are unwound by the return addresses on the stack",
}


def leave_out_harmful(finder: ProbeFinder, point: AttachPoint, attach: list[Attach]) -> list[Attach]:
    """The attach points of ``point`` without the return probes that could end the traced program: an error if none is
    left, or if ``point`` names one function, else a warning. With --unsafe they stay, with a warning."""
    returns = [item for item in attach if item.kind == "uretprobe"]
    if not returns or finder.options.compile_only:
        return attach
    harmful = _harmful(finder, returns)
    if not harmful:
        return attach
    item, why = next(iter(harmful.values()))
    message = f"{item.name} could end the traced program: {why}"
    if finder.options.unsafe:
        if finder.options.warnings:
            finder.diagnostics.warning("harmful-return", message, point.span)
        return attach
    rest = [item for item in attach if item.name not in harmful]
    if not rest:
        return finder.report_unattachable("harmful-return", message, point, _hints(finder, item, why))
    if finder.options.warnings:
        names = list(harmful)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        finder.diagnostics.warning("harmful-return", f"left out, since they could end the traced program: "
                                   f"{', '.join(names[:3])}{more}", point.span, [f"of {names[0]}, {why}"])
    return rest


def _harmful(finder: ProbeFinder, returns: list[Attach]) -> dict[str, tuple[Attach, str]]:
    """The return probes that would do harm, with the reason, by name."""
    hazards = [finder.world.return_hazard(item.target, item.offset) for item in returns]
    return {item.name: (item, HAZARDS[hazard]) for item, hazard in zip(returns, hazards) if hazard}


def _hints(finder: ProbeFinder, item: Attach, why: str) -> list[str]:
    """What to use instead."""
    entry = f"uprobe:{item.name.partition(':')[2]}"
    hints = [f"its calls are seen without harm by {entry} {{ @[ustack(5)] = count(); }}"]
    if item.event and item.name.endswith(f"{item.target}:{item.event}"):
        hints.append(f"its return, too, at its ret instructions: {entry}+OFFSET, where objdump -d shows them")
    if static := finder.world.usdt_probes(item.target):
        hints.append(f"the file has static probes, which are safe: usdt:{item.target}:{static[0].provider}:"
                     f"{static[0].name}{' ...' if static[1:] else ''}")
    if why == HAZARDS["unclear"] and (problem := finder.world.file_problem(item.target)):
        hints.append(problem)
    return [*hints, "--unsafe attaches it all the same"]
