"""What somebody meant by an attach point that the language does not have: hints."""

from __future__ import annotations

from ..kinds import kind_names
from ..language.ast import AttachPoint
from ..language.diagnostics import nearest_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .finder import ProbeFinder

# Kinds of probes elsewhere, and what they are called here.
_KINDS = {
    "syscall": "tracepoint:raw_syscalls:sys_enter is every system call, tracepoint:syscalls:sys_enter_openat "
               "one of them",
    "fbt": "kprobe:FUNCTION is the entry of a kernel function, kretprobe:FUNCTION its return",
    "pid": "uprobe:PATH:FUNCTION is the entry of a function of a program, uretprobe:PATH:FUNCTION its return",
    "proc": "tracepoint:sched:sched_process_exec is a program's start, tracepoint:sched:sched_process_exit its end",
    "io": "tracepoint:block:block_rq_issue is the start of an I/O, tracepoint:block:block_rq_complete its end",
    "probe": "a probe begins with its kind, without the word probe: begin { ... }, or kprobe:vfs_read { ... }",
    "timer": "write interval:s:1, or interval:ms:100", "tick": "write interval:s:1, or interval:ms:100",
    "kernel": "kprobe:FUNCTION is the entry of a kernel function, kretprobe:FUNCTION its return",
}
_EXAMPLES = "begin, tracepoint:syscalls:sys_enter_openat, kprobe:vfs_read, interval:s:1; sonde -l lists what is here"


def kind_hints(finder: ProbeFinder, point: AttachPoint) -> list[str]:
    """Hints for a kind of probe that there is not: a tracepoint, a system call or another tracer's kind was meant."""
    word, parts = point.parts[0], point.parts
    if word in _KINDS:
        return [_KINDS[word]]
    if close := [kind for kind in nearest_names(word, kind_names(), least=0.75) if kind != word]:
        return [f"did you mean {close[0]}?"]
    events = [f"{category}:{event}" for category, event in finder.tracepoints
              if event in (word, f"sys_enter_{word}") or [category, event] == parts[:2]]
    if events:
        return [f"did you mean tracepoint:{events[0]}?"]
    if len(parts) == 1 and (near := finder.nearest_names(word, [event for _, event in finder.tracepoints])):
        events = [f"tracepoint:{category}:{event}" for category, event in finder.tracepoints if event == near[0]]
        return [f"did you mean {events[0]}?", f"a probe begins with its kind: {_EXAMPLES}"]
    return [f"did you mean {kind}?" for kind in nearest_names(word, kind_names())[:1]] or [
        f"a probe begins with its kind: {_EXAMPLES}"]


def tracepoint_hints(finder: ProbeFinder, event: str) -> list[str]:
    """Hints for a tracepoint without its category."""
    if any(category == event for category, _ in finder.tracepoints):
        return [f"tracepoint:{event}:* is all that it has; sonde -l 'tracepoint:{event}:*' lists them"]
    return [f"did you mean tracepoint:{category}:{name}?" for category, name in finder.tracepoints if name == event][:1]
