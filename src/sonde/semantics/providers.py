"""Probe kinds: one row each. A row's ``expand`` turns an attach point as written into :class:`~sonde.spec.Attach`.

``expand(finder, point, parts)`` gets the parts after the kind, which is ``finder.kind``. It returns [] when nothing
matched, after calling ``finder.report_missing`` (which obeys ``missing_probes``) or ``finder.error``.
"""

from __future__ import annotations

from ..base import regex_cache
from ..base.quantities import NANOSECONDS
from ..base.record import Record
from ..kinds import KINDS, find_kind
from ..language.ast import AttachPoint
from ..spec import Attach
from ..types import Struct
from .finder import ProbeFinder, describe_bad_number, is_pattern, parse_number, pattern_matcher
from .kernel_probes import expand_kernel_function
from .nodes import Use
from .object_probes import expand_iterator, expand_watchpoint
from .probe_arguments import (
    kernel_function_args,
    layout_by_event,
    layout_by_fields,
    no_args,
    raw_tracepoint_args,
    static_probe_layout,
    tracepoint_args,
    tracepoint_layout,
    user_function_args,
    user_function_layout,
    user_function_results,
    user_return_layout,
)
from .usdt_probes import expand_usdt
from .user_probes import expand_user_function
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import TypeAlias

Expand: TypeAlias = "Callable[[ProbeFinder, AttachPoint, list[str]], list[Attach]]"


class Provider(Record):
    """A row of the table of probe kinds. ``args``: what ``args`` is at an attach point. One program may serve two whose
    ``layout`` is equal."""

    name: str
    form: str  # how it is written, for messages and documentation
    documentation: str
    expand: Expand
    args: Callable[[Attach, World], Struct | None] = no_args
    layout: Callable[[Attach, Use], Hashable] = layout_by_event
    minimum: str = "5.8"  # the first release that can do it, for readers; none is older than the BPF ring buffer

    def expand_point(self, finder: ProbeFinder, point: AttachPoint) -> list[Attach]:
        """One attach point as written → those that exist."""
        finder.kind = self.name
        return self.expand(finder, point, point.parts[1:])


# --- special ----------------------------------------------------------------------------------------------


def _expand_special(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    if parts:
        return finder.report_part_count(point, "0", finder.kind)
    return [Attach(finder.kind, finder.kind)]


def _expand_named(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    kind = finder.kind
    if len(parts) != 1:
        return finder.report_part_count(point, "1", f"{kind}:name")
    if not parts[0]:
        return finder.error("probe-form", f"{kind} probes must have a name", point, [f"write {kind}:name"])
    return [Attach(kind, f"{kind}:{parts[0]}", event=parts[0])]


def _expand_self(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    form = "self:signal:SIGUSR1"
    if len(parts) != 2:
        return finder.report_part_count(point, "2", form)
    if parts != ["signal", "SIGUSR1"]:
        wrong = f"{parts[0]} is not a supported trigger" if parts[0] != "signal" else \
            f"{parts[1]} is not a supported signal"
        return finder.error("probe-form", wrong, point, [f"write {form}"])
    return [Attach("self", form, "signal", "SIGUSR1")]


# --- tracepoints ------------------------------------------------------------------------------------------


def _expand_tracepoint(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    if len(parts) == 1 and is_pattern(parts[0]):  # of any category
        parts = ["*", *parts]
    if len(parts) != 2:
        from .meant_probes import tracepoint_hints
        return finder.report_part_count(point, "2", "tracepoint:category:event, as in tracepoint:sched:sched_switch",
                                        *tracepoint_hints(finder, parts[-1] if parts else ""))
    category, event = parts
    if not category or not event:
        return finder.error("probe-form", "tracepoint probe must have a target", point,
                            ["write tracepoint:category:event"])
    if is_pattern(category) or is_pattern(event):
        in_category, in_event = pattern_matcher(category), pattern_matcher(event)
        events = [(c, e) for c, e in finder.tracepoints if in_category(c) and in_event(e)]
        if not events:
            return finder.report_missing(point, _near_tracepoint(finder, category, event))
    elif finder.world.tracepoint_format(category, event) is None:
        return finder.report_missing(point, _near_tracepoint(finder, category, event))
    else:
        events = [(category, event)]
    pid = finder.options.lone_process
    return [Attach("tracepoint", f"tracepoint:{c}:{e}", c, e, pid=pid) for c, e in events]


def _near_tracepoint(finder: ProbeFinder, category: str, event: str) -> list[str]:
    every = finder.tracepoints
    if not every:
        return ["no tracepoints can be listed: is tracefs mounted, and are you root?"]
    same = [e for c, e in every if c == category]
    hints = finder.did_you_mean(f"tracepoint:{category}:", event, same)
    elsewhere = [f"tracepoint:{c}:{e}" for c, e in every if e == event and c != category][:3]
    if elsewhere:
        hints.insert(0, f"did you mean {' or '.join(elsewhere)}?")
    if not same and not hints:
        hints = finder.did_you_mean("tracepoint:", category, {c for c, _ in every})
    return hints


def _expand_raw_tracepoint(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    if not 1 <= len(parts) <= 2:
        return finder.report_part_count(point, "2 or 1", "rawtracepoint:[module:]event")
    module, event = parts if len(parts) == 2 else ("", parts[0])
    pid = finder.options.lone_process
    if not event:
        return finder.error("probe-form", "rawtracepoint should be attached to a function", point,
                            ["write rawtracepoint:[module:]event"])
    if not is_pattern(module) and not is_pattern(event) and finder.world.raw_tracepoint_args(event) is not None \
            and (not module or (module, event) in finder.raw_tracepoints):
        return [Attach("rawtracepoint", _raw_tracepoint_name(module, event), module, event, pid=pid)]
    in_module, in_event = pattern_matcher(module or "*"), pattern_matcher(event)
    every = finder.raw_tracepoints
    events = [(m, e) for m, e in every if in_module(m) and in_event(e)]
    if not events:
        return finder.report_missing(point, finder.did_you_mean("rawtracepoint:", event, [e for _, e in every]),
                                     wild=not module)
    return [Attach("rawtracepoint", _raw_tracepoint_name(m, e), m, e, pid=pid) for m, e in events]


def _raw_tracepoint_name(module: str, event: str) -> str:
    return f"rawtracepoint:{module or 'vmlinux'}:{event}"


# --- timers and counters ----------------------------------------------------------------------------------

LONGEST = (1 << 63) - 1  # ns; perf counts them as a signed number


def _expand_timer(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    kind = finder.kind
    given = parts[-1] if parts and parts[-1].isdecimal() else ""
    times = ("1", given or "99") if kind == "profile" else (given or "1", "99")
    forms = f"{kind}:s:{times[0]}, {kind}:ms:100, {kind}:hz:{times[1]} or {kind}:1s"
    if not 1 <= len(parts) <= 2:
        return finder.report_part_count(point, "1 or 2", forms)
    period = _parse_period(kind, parts)
    if isinstance(period, str):
        return finder.error("probe-form", period, point, [f"write {forms}"])
    pid = finder.options.own_process if KINDS[kind].samples else 0
    _warn_of_rate(finder, point, period)
    rate = parts if len(parts) == 2 or period < 1000 else ["us", str(period // 1000)]  # as bpftrace
    return [Attach(kind, f"{kind}:{':'.join(rate)}", period=period, pid=pid)]


def _parse_period(kind: str, parts: list[str]) -> int | str:
    """Nanoseconds, or what is wrong."""
    match = regex_cache.fullmatch(r"(.*?)(ns|us|ms|s|m|h|d)?", parts[-1])
    sign = parts[-1].startswith("-")
    count = parse_number(match.group(1)[sign:]) if match else None
    if match is None or count is None:
        return f"Invalid rate of {kind} probe: {describe_bad_number(parts[-1])}"
    if count <= 0 or sign:
        return f"{kind} frequency should be a positive integer"
    length = count * NANOSECONDS[match.group(2) or "ns"]
    if len(parts) == 2:
        unit, count = parts[0], length if match.group(2) else count
        if unit == "hz":
            return max(1, 10 ** 9 // count)
        if not unit:
            return f"{kind} probe must have unit of time"
        if unit not in ("s", "ms", "us", "ns"):
            return f"{unit} is not an accepted unit of time"
        length = count * NANOSECONDS[unit]
    if length > LONGEST:
        return f"Invalid rate of {kind} probe: a period has at most {LONGEST} nanoseconds"
    if length < 1000 and len(parts) == 1:
        return f"Invalid rate of {kind} probe. Minimum is 1000 or 1us. Found: {length} nanoseconds"
    return length


_SHORTEST = 10_000  # ns: perf_swevent_hrtimer() in kernel/events/core.c; of profile, interval, and the clocks below
_NEVER_LIMITED = 1_000_000  # ns: the limit is not asked for, whose answer would keep a spec from the cache


def _warn_of_rate(finder: ProbeFinder, point: AttachPoint, period: int) -> None:
    """Samples beyond the kernel's rate are left out there, and counted nowhere: they are throttled until the next tick
    (__perf_event_account_interrupt() in kernel/events/core.c)."""
    if period >= _NEVER_LIMITED or not finder.options.warnings or finder.options.compile_only:
        return
    limit = finder.world.sample_limit()
    most = min(limit or 10 ** 9, 10 ** 9 // _SHORTEST)
    if 10 ** 9 // period > most:
        why = f"sysctl kernel.perf_event_max_sample_rate is {limit}" if limit == most else \
            f"its timers have periods of {_SHORTEST // 1000} us at least"
        finder.diagnostics.warning("sample-rate", f"{10 ** 9 // period} times a second are more than the kernel's "
                                   f"{most}: the others are left out, and counted nowhere", point.span, [why])


SOFTWARE = {"cpu-clock": 1_000_000, "cpu": 1_000_000, "task-clock": 1_000_000, "page-faults": 100, "faults": 100,
            "context-switches": 1000, "cs": 1000, "cpu-migrations": 1, "minor-faults": 100, "major-faults": 1,
            "alignment-faults": 1, "emulation-faults": 1, "dummy": 1, "bpf-output": 1}
HARDWARE = {"cpu-cycles": 1_000_000, "cycles": 1_000_000, "instructions": 1_000_000, "cache-references": 1_000_000,
            "cache-misses": 1_000_000, "branch-instructions": 100_000, "branches": 100_000, "branch-misses": 100_000,
            "bus-cycles": 100_000, "frontend-stalls": 1_000_000, "backend-stalls": 1_000_000, "ref-cycles": 1_000_000}
_CLOCKS = ("cpu-clock", "cpu", "task-clock")  # they count nanoseconds
_COUNTED = {"software": SOFTWARE, "hardware": HARDWARE}
_PERF_ALIASES = {"cpu": "cpu-clock", "faults": "page-faults", "cs": "context-switches", "cycles": "cpu-cycles",
                 "branches": "branch-instructions"}


def _expand_counter(finder: ProbeFinder, point: AttachPoint, parts: list[str]) -> list[Attach]:
    kind, events = finder.kind, _COUNTED[finder.kind]
    if not 1 <= len(parts) <= 2:
        return finder.report_part_count(point, "1 or 2", f"{kind}:event[:count]")
    event = parts[0]
    if not event:
        return finder.error("probe-form", f"{kind} probe must have a {kind} event name", point,
                            [f"one of: {', '.join(events)}"])
    if is_pattern(event):
        return finder.error("unknown-event", f"wildcards are not allowed for {kind} probe type", point)
    if event not in events:
        return finder.error("unknown-event", f"{event} is not a {kind} probe", point,
                            finder.did_you_mean(f"{kind}:", event, events) or [f"one of: {', '.join(events)}"])
    count = parse_number(parts[1]) if len(parts) == 2 else events[event]
    if count is None:
        return finder.error("probe-form", f"Invalid count for {kind} probe: {describe_bad_number(parts[1])}", point)
    count = count or events[event]
    if event in _CLOCKS:
        _warn_of_rate(finder, point, count)
    name = f"{kind}:{event}:{parts[1]}" if len(parts) == 2 else f"{kind}:{event}:"
    return [Attach(kind, name, event=_PERF_ALIASES.get(event, event), period=count, pid=finder.options.own_process)]


# --- the table --------------------------------------------------------------------------------------------

PROVIDERS = (
    Provider("begin", "begin", "Once, before all other probes are attached.", _expand_special),
    Provider("end", "end", "Once, after all other probes are detached.", _expand_special),
    Provider("self", "self:signal:SIGUSR1", "When the tracer itself gets the signal.", _expand_self),
    Provider("tracepoint", "tracepoint:category:event", "A static tracepoint of the kernel.",
             _expand_tracepoint, tracepoint_args, tracepoint_layout),
    Provider("rawtracepoint", "rawtracepoint:[module:]event", "A tracepoint with its raw arguments.",
             _expand_raw_tracepoint, raw_tracepoint_args),
    Provider("kprobe", "kprobe:[module:]function[+offset]", "Entry of a kernel function.",
             expand_kernel_function),
    Provider("kretprobe", "kretprobe:[module:]function", "Return of a kernel function.",
             expand_kernel_function),
    Provider("fentry", "fentry:[module:]function",
             "Entry of a kernel function, with typed arguments; fentry:bpf:[id:]function, of a loaded BPF program; "
             "fentry:bpf:xdp:*, of all that are of a type.",
             expand_kernel_function, kernel_function_args, layout_by_fields),
    Provider("fexit", "fexit:[module:]function",
             "Return of a kernel function, with typed arguments; fexit:bpf:[id:]function, of a loaded BPF program; "
             "fexit:bpf:xdp:*, of all that are of a type.",
             expand_kernel_function, kernel_function_args, layout_by_fields),
    Provider("uprobe", "uprobe:path:function[+offset]",
             "Entry of a user function (also cpp:\"ns::f(int)\", rust:\"mod::f\", go:\"http.(*conn).serve\"), or a "
             "source line (file.c:line[:column]). The path /proc/*/exe: the programs that run; that of -p or -c.",
             expand_user_function, user_function_args, user_function_layout),
    Provider("uretprobe", "uretprobe:path:function", "Return of a user function.",
             expand_user_function, user_function_results, user_return_layout),
    Provider("usdt", "usdt:path:[provider:]name", "A static probe of a user program.",
             expand_usdt, layout=static_probe_layout),
    Provider("interval", "interval:unit:count", "A timer on one CPU.", _expand_timer),
    Provider("profile", "profile:unit:count", "A timer on every CPU, for sampling.",
             _expand_timer),
    Provider("software", "software:event[:count]", "A software event of the kernel.",
             _expand_counter),
    Provider("hardware", "hardware:event[:count]", "A counter of the CPU.",
             _expand_counter),
    Provider("watchpoint", "watchpoint:address:length:mode", "An access to memory.",
             expand_watchpoint),
    Provider("iter", "iter:kind[:pin]",
             "Every object of a kind in the kernel; with a pin, whenever the file /sys/fs/bpf/pin is read.",
             expand_iterator),
    Provider("test", "test:name", "A test of the script itself, run by --test.", _expand_named),
    Provider("bench", "bench:name", "A piece of script whose time --bench measures.",
             _expand_named),
)
BY_KIND: dict[str, Provider] = {row.name: row for row in PROVIDERS}


def find_provider(name: str) -> Provider | None:
    """The row of the kind that ``name`` or an alias means, in any case of letters."""
    kind = find_kind(name)
    return BY_KIND[kind.name] if kind is not None else None
