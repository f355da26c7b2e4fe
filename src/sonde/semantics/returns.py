"""By which way a user function's return is probed: by the kernel's return probe, or at its return instructions.

The kernel's return probe replaces the return address on the stack. Whoever else reads it there sees that of the
kernel's trampoline: the run-time systems of whole files (the World says which), and some functions of plain C. There
the probes are set at the function's return instructions, which touches no stack. Where these are not known either, the
return is refused before anything is attached.
"""

from __future__ import annotations

from ..base.function_ends import TailCalls
from ..language.ast import AttachPoint
from ..spec import Attach, UserDetail, detail_of
from .finder import ProbeFinder
from .go_probes import goroutine_ways
from .tail_calls import TailFollower

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

# What World.function_ends answers where there is no probing a function's return instructions.
PROBLEMS = {
    "no function": "the file does not say which instructions are the function's",
    "unreadable": "its instructions cannot be read",
    "overlaps": "another function begins inside of it",
    "computed": "it jumps to an address that it computes, which may be another function's",
    "tail": "it may end with a jump to another function, which returns in its place",
    "result": "it ends with a jump to another function, which returns in its place: one that is not known, or in "
              "another file, into which -p and -c follow it",
    "never": "it has no return instruction",
    "too large": "it is too large for its instructions to be read",
    "other cpu": "its return instructions are not known on this CPU architecture",
    "unprobed": "it returns by an instruction at which no probe can be set",
}

def choose_ways(finder: ProbeFinder, point: AttachPoint, attach: list[Attach]) -> list[Attach]:
    """The attach points of ``point``, with the way of those that are returns. Without those that have none: an error if
    none is left, or if ``point`` names one function, else a warning. With --unsafe the harmful ones stay, with a
    warning."""
    returns = [item for item in attach if item.kind == "uretprobe"]
    if not returns or finder.options.compile_only:
        return attach
    _warn_of_threads(finder, point, returns)
    hazards = {item.name: finder.world.return_hazard(item.target, item.offset) for item in returns}
    by_instructions = finder.options.returns == "instructions"
    problems = _set_exits(finder, point, [item for item in returns if by_instructions or hazards[item.name]]) \
        if finder.options.returns != "kernel" else {item.name: "" for item in returns if hazards[item.name]}
    refused = {item.name: item for item in returns if item.name in problems}
    harmful = [item for item in refused.values() if hazards[item.name]]
    if harmful and finder.options.unsafe and not by_instructions:
        if finder.options.warnings:
            finder.diagnostics.warning("harmful-return", _harm(harmful[0], hazards), point.span)
        return attach
    return _leave_out(finder, point, attach, refused, hazards, problems) if refused else attach


def _set_exits(finder: ProbeFinder, point: AttachPoint, returns: list[Attach]) -> dict[str, str]:
    """Have returns be probed where the functions end by their instructions. By name, those of which these are not
    known, each with a key of PROBLEMS."""
    problems: dict[str, str] = {}
    unknown: list[str] = []
    with_result = "retval" in finder.use.names
    follower = TailFollower(finder)
    for path in {item.target: None for item in returns}:
        items = [item for item in returns if item.target == path]
        for item, function in zip(items, finder.world.function_ends(path, [item.offset for item in items])):
            tails, jumps = follower.follow(item, function)
            exits = function.instructions + (() if with_result else jumps)
            if function.problem or not exits and not any(calls.returns for calls in tails):
                problems[item.name] = function.problem or ("result" if jumps else "never")
                continue
            if jumps:
                unknown.append(item.name)
            if jumps and with_result:
                tails += (TailCalls(path, unseen=jumps),)
            detail = detail_of(item, UserDetail)
            detail.exits, detail.tails = tuple(sorted(exits)), tails
    if unknown and finder.options.warnings:
        hints = ["with -p or -c, jumps to functions of other files are followed"] if follower.lacks_process else []
        finder.diagnostics.warning("tail-call", _say_unknown_jumps(unknown, with_result), point.span, hints)
    return problems


def _warn_of_threads(finder: ProbeFinder, point: AttachPoint, returns: list[Attach]) -> None:
    """Warn where a clause recognizes a call of a Go function by its thread."""
    if not finder.options.warnings or "tid" not in finder.use.held:
        return
    item = next((item for item in returns if detail_of(item, UserDetail).go and not (
        "goroutine" in finder.use.names and any(goroutine_ways(finder.world, item)))), None)
    if item is not None:
        finder.diagnostics.warning(
            "goroutine-thread", f"{item.name}: a goroutine may return on another thread than the one on which it was "
            "called, so that calls that are matched by thread get mixed up", point.span,
            ["caller() and goid are by goroutine: match by one of them instead of tid"]
            if any(goroutine_ways(finder.world, item)) else [])


def _say_unknown_jumps(names: list[str], with_result: bool) -> str:
    """What becomes of the calls of functions that end by jumps to others which are not followed."""
    others = len(names) - 1
    text = "the calls that end so are counted, but their returns are not seen" if with_result else \
        "that jump counts as the return, and what the other function takes is not part of it"
    return (f"{names[0]}{f' and {others} more' if others else ''} may end with a jump to another function, which is "
            f"not known and returns in its place: {text}")


def _leave_out(finder: ProbeFinder, point: AttachPoint, attach: list[Attach], refused: dict[str, Attach],
               hazards: dict[str, str], problems: dict[str, str]) -> list[Attach]:
    """The attach points without the refused ones, of which the first is shown."""
    name, item = next(iter(refused.items()))
    rest = [item for item in attach if item.name not in refused]
    if not rest and hazards[name]:
        return finder.report_unattachable("harmful-return", _harm(item, hazards), point,
                                          _hints(finder, item, hazards[name], problems[name]))
    why = PROBLEMS.get(problems[name], "")
    if not rest:
        return finder.report_unattachable("no-return-instructions", f"{name} has no known return instructions: {why}",
                                          point, ["--returns kernel uses the kernel's return probe"])
    if finder.options.warnings:
        names = list(refused)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        reason = "since they could end the traced program" if hazards[name] else \
            "whose return instructions are not known"
        hints = [", and ".join(filter(None, [HAZARDS.get(hazards[name], ""), why]))]
        finder.diagnostics.warning("harmful-return", f"left out, {reason}: {', '.join(names[:3])}{more}", point.span,
                                   [f"of {name}, {hints[0]}"])
    return rest


def _harm(item: Attach, hazards: dict[str, str]) -> str:
    return f"{item.name} could end the traced program: {HAZARDS[hazards[item.name]]}"


def _hints(finder: ProbeFinder, item: Attach, hazard: str, problem: str) -> list[str]:
    """What to use instead of the return probe of a function with a hazard, and, where its return instructions were
    looked for, with a problem."""
    entry = f"uprobe:{item.name.partition(':')[2]}"
    hints = [f"nor can its return instructions be probed: {PROBLEMS[problem]}" if problem else
             "--returns instructions sets the probes at its return instructions, which does no harm"]
    hints.append(f"its calls are seen without harm by {entry} {{ @[ustack(5)] = count(); }}")
    if static := finder.world.usdt_probes(item.target):
        hints.append(f"the file has static probes, which are safe: usdt:{item.target}:{static[0].provider}:"
                     f"{static[0].name}{' ...' if static[1:] else ''}")
    if hazard == "unclear" and (unread := finder.world.file_problem(item.target)):
        hints.append(unread)
    return [*hints, "--unsafe attaches it all the same"]
