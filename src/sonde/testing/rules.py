"""What a test may do: the arguments of ``@pytest.mark.sonde``, the script that observes it, and the verdict."""

from __future__ import annotations

import os

from ..base import regex_cache
from ..base.quantities import NANOSECONDS
from ..base.record import Record
from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MARKER = 0x50de  # the first argument of the getpriority() by which a test says that it begins; no kernel knows it
CONNECT, OPEN, CALLS, LATENCY, STALL = 1, 2, 4, 8, 16  # what is observed, as a set of bits
MOST_ACTS = 5  # at different lines that are shown
DEPTH = 24  # functions of a stack
SEEN = ("connects", "connects6", "opens", "calls", "total", "over", "slow", "stalls")  # the maps of what was done


class Rules(Record):
    """What one test may do. ``connect``: whether it may connect to other hosts; ``open``: patterns of paths that it may
    not open; ``calls``: how often it may make a system call, by name; ``p99``: how long 99 % of the calls may take, in
    nanoseconds; ``stall``: how long an event loop may be without waiting, 0 for no limit."""

    connect: bool = True
    open: list[str] = []
    calls: dict[str, int] = {}
    p99: dict[str, int] = {}
    stall: int = 0

    @property
    def bits(self) -> int:
        """What has to be observed for them."""
        return (CONNECT * (not self.connect) | OPEN * bool(self.open) | CALLS * bool(self.calls)
                | LATENCY * bool(self.p99) | STALL * bool(self.stall))


class Act(Record):
    """Something that was done ``count`` times by a process, at a line of Python: functions as ``name (file:line)``, the
    innermost first."""

    what: str
    process: str
    stack: list[str]
    count: int


def parse_rules(given: Mapping[str, Any]) -> Rules:
    """The rules of a mark's arguments; UsageError for one that makes no sense."""
    rules = Rules()
    for name, value in given.items():
        if name == "no_connect" and isinstance(value, bool):
            rules.connect = not value
        elif name == "no_open" and isinstance(value, (str, list, tuple)):
            rules.open = [value] if isinstance(value, str) else [str(each) for each in value]
        elif name == "max_syscalls" and isinstance(value, dict):
            rules.calls = {_call_name(call): _whole(most) for call, most in value.items()}
        elif name == "p99" and isinstance(value, dict):
            rules.p99 = {_call_name(call): _duration(most) for call, most in value.items()}
        elif name == "no_stall":
            rules.stall = _duration(value)
        else:
            raise UsageError(f"{name}={value!r} is no rule of the mark sonde", [
                'the rules are no_connect=True, no_open="/etc/**", max_syscalls={"fsync": 2}, p99={"read": "2ms"}, '
                'no_stall="50ms"'])
    return rules


def _call_name(name: object) -> str:
    text = str(name)
    if not text.replace("_", "").isalnum() or not text.isascii():
        raise UsageError(f"{text!r} is not the name of a system call")
    return text


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"max_syscalls takes whole numbers, not {value!r}")
    return value


def _duration(value: object) -> int:
    """Nanoseconds of ``"2ms"``."""
    text = value if isinstance(value, str) else ""
    number = text.rstrip("nsumhd")
    unit = text[len(number):]
    try:
        length = int(float(number) * NANOSECONDS[unit])
    except (KeyError, ValueError, OverflowError):
        length = 0
    if length <= 0:
        raise UsageError(f"{value!r} is not a length of time such as '50ms' or '2s'")
    return length


# --- the script -------------------------------------------------------------------------------------------


def write_script(rules: Sequence[Rules], has_call: Mapping[str, bool], stacks: bool) -> str:
    """The script for all the rules of a run. What a test does is counted in maps, which are read when it ends; nothing
    is counted between tests, nor what has begun before the test. ``has_call``: whether the machine has a call."""
    stack = f"pystack({DEPTH})" if stacks else "0"
    who = "comm, pid"
    bits = 0
    for each in rules:
        bits |= each.bits
    parts = [f"tracepoint:syscalls:sys_enter_getpriority /args.which == {MARKER}/ "
             "{ @rules = (uint64)args.who; @began = nsecs; }"]
    if bits & CONNECT:
        parts.append(_CONNECT_PROBES.replace("WHO", who).replace("STACK", stack))
    if bits & OPEN:
        parts += [_OPEN_PROBES.replace("CALL", call).replace("NAME", name).replace("WHO", who).replace("STACK", stack)
                  for call, name in _OPENING if has_call.get(call)]
    calls = sorted({call for each in rules for call in each.calls})
    parts += [f"tracepoint:syscalls:sys_enter_{call} /@rules & {CALLS}/ "
              f'{{ @calls["{call}", {who}, {stack}] = count(); }}' for call in calls]
    for call in sorted({call for each in rules for call in each.p99}):
        limits = sorted({each.p99[call] for each in rules if call in each.p99})
        over = "".join([f'\n    if ($took > {limit}) {{ @over["{call}", {limit}] = count(); }}' for limit in limits])
        parts.append(_LATENCY_PROBES.replace("CALL", call).replace("LEAST", str(limits[0])).replace("OVER", over)
                     .replace("WHO", who).replace("STACK", stack))
    if bits & STALL:
        parts.append(_stall_probes(min(each.stall for each in rules if each.stall), has_call, stack))
    parts.append(_end_of_threads(parts))
    return "\n".join(parts)


def _end_of_threads(parts: Sequence[str]) -> str:
    """The end of a thread, which may be killed within a call: what is kept by its number ends with it."""
    names = sorted({name for part in parts for name in regex_cache.compile(r"(@\w+)\[tid\] = ").findall(part)})
    deletes = " ".join([f"if (has_key({name}, tid)) {{ delete({name}, tid); }}" for name in names])
    return f"tracepoint:sched:sched_process_exit {{ {deletes} }}" if names else ""


_OPENING = (("openat", "filename"), ("open", "filename"), ("openat2", "filename"), ("creat", "pathname"))
_WAITING = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6")
# What a call is given is read when it returns: before, it may not be in memory, and could not be read.
_OPEN_PROBES = f"""tracepoint:syscalls:sys_enter_CALL /@rules & {OPEN}/ {{ @path_CALL[tid] = args.NAME; }}
tracepoint:syscalls:sys_exit_CALL /@path_CALL[tid]/ {{
  if (@rules & {OPEN}) {{ @opens[str(@path_CALL[tid]), WHO, STACK] = count(); }}
  delete(@path_CALL, tid);
}}"""
_CONNECT_PROBES = f"""tracepoint:syscalls:sys_enter_connect /@rules & {CONNECT}/ {{ @to[tid] = args.uservaddr; }}
tracepoint:syscalls:sys_exit_connect /@to[tid]/ {{
  $to = @to[tid];
  if ($to.sa_family == 2) {{
    $four = (struct sockaddr_in *)$to;
    @connects[ntop($four.sin_addr.s_addr), bswap($four.sin_port), WHO, STACK] = count();
  }} else if ($to.sa_family == 10) {{
    $six = (struct sockaddr_in6 *)$to;
    @connects6[ntop($six.sin6_addr.in6_u.u6_addr8), bswap($six.sin6_port), WHO, STACK] = count();
  }}
  delete(@to, tid);
}}"""
_LATENCY_PROBES = f"""tracepoint:syscalls:sys_enter_CALL /@rules & {LATENCY}/ {{ @start_CALL[tid] = nsecs; }}
tracepoint:syscalls:sys_exit_CALL /@start_CALL[tid]/ {{
  $took = nsecs - @start_CALL[tid];
  $own = @start_CALL[tid] >= @began;
  delete(@start_CALL, tid);
  if ((@rules & {LATENCY}) && $own) {{
    @total["CALL"] = count();OVER
    if ($took > LEAST) {{ @slow["CALL", WHO, STACK] = max($took); }}
  }}
}}"""


def _stall_probes(least: int, has_call: Mapping[str, bool], stack: str) -> str:
    """A thread that waits for events is a loop. While it does not wait, its stack is noted whenever it gives up the
    CPU, and a hundred times a second; the last one is shown."""
    waits = [call for call in _WAITING if has_call.get(call)]
    begins = ", ".join([f"tracepoint:syscalls:sys_enter_{call}" for call in waits])
    ends = ", ".join([f"tracepoint:syscalls:sys_exit_{call}" for call in waits])
    return f"""{ends} /@rules & {STALL}/ {{ @awake[tid] = nsecs; }}
tracepoint:sched:sched_switch, profile:hz:100 /@awake[tid]/ {{ @at[tid] = {stack}; }}
{begins} /@awake[tid]/ {{
  $took = nsecs - @awake[tid];
  if ((@rules & {STALL}) && @awake[tid] >= @began && $took > {least}) {{ @stalls[comm, pid, @at[tid]] = max($took); }}
  delete(@awake, tid);
  delete(@at, tid);
}}"""


def judge(rules: Rules, seen: Mapping[str, Any], folder: str) -> list[str]:
    """What was against the rules, in words with the lines; ``seen`` has the maps' rows, ``folder`` is where relative
    paths begin."""
    broken: list[str] = []
    if not rules.connect:
        rows = [Act(f"{address}:{port}", *rest) for name in ("connects", "connects6")
                for address, port, *rest in _rows(seen, name)]
        broken += [f"connected to {what} (no_connect)" + _describe(acts) for what, acts in _by_thing(rows).items()]
    if rules.open:
        rows = [Act(path, *rest) for path, *rest in _rows(seen, "opens")]
        for what, acts in _by_thing(rows).items():
            path = os.path.normpath(os.path.join(folder, what))
            pattern = next((each for each in rules.open if matches_path(path, each)), None)
            if pattern is not None:
                broken.append(f"opened {what} (no_open={pattern!r})" + _describe(acts))
    for call, most in rules.calls.items():
        acts = [Act(name, *rest) for name, *rest in _rows(seen, "calls") if name == call]
        count = sum([act.count for act in acts])
        if count > most:
            broken.append(f"{call}() was called {_times(count)}, and at most {most} is allowed" + _describe(acts))
    for call, limit in rules.p99.items():
        total = sum([count for name, count in seen.get("total", ()) if name == call])
        over = sum([count for key, count in seen.get("over", ()) if key == [call, limit]])
        if 100 * over > total:
            slow = [Act(name, *rest) for name, *rest in _rows(seen, "slow") if name == call and rest[-1] > limit]
            broken.append(f"{over} of {_times(total, 'call')} of {call}() took longer than {format_duration(limit)}, "
                          "and at most 1 % may (p99)" + _describe(slow, "the longest took"))
    stalls = [Act("", *rest) for rest in _rows(seen, "stalls") if rest[-1] > rules.stall] if rules.stall else []
    if stalls:
        longest = max(act.count for act in stalls)
        broken.append(f"the event loop did not wait for {format_duration(longest)}, and at most "
                      f"{format_duration(rules.stall)} is allowed" + _describe(stalls, "stalled for"))
    return broken


def _rows(seen: Mapping[str, Any], name: str) -> list[list[Any]]:
    """A map's rows: the parts of what was done, the process, the stack, the number."""
    return [[*key[:-3], f"{key[-3]} ({key[-2]})", key[-1], value] for key, value in seen.get(name, ())]


def _by_thing(acts: list[Act]) -> dict[str, list[Act]]:
    """What was done, by thing."""
    things: dict[str, list[Act]] = {}
    for act in sorted(acts, key=lambda act: act.what):
        things.setdefault(act.what, []).append(act)
    return things


def _merge(acts: list[Act], longest: bool) -> list[Act]:
    """One for each process and stack: a line that is run at two instructions is one line. The most frequent first."""
    merged: dict[tuple[str, ...], Act] = {}
    for act in acts:
        same = merged.setdefault((act.process, *act.stack), act)
        if same is not act:
            same.count = max(same.count, act.count) if longest else same.count + act.count
    return sorted(merged.values(), key=lambda act: -act.count)


def _describe(acts: list[Act], length: str = "") -> str:
    """Who did it where, the most frequent first; numbers are nanoseconds where ``length`` says of what."""
    lines = []
    acts = _merge(acts, bool(length))
    for act in acts[:MOST_ACTS]:
        number = f"{length} {format_duration(act.count)}" if length else _times(act.count)
        stack = [f"    {frame}" for frame in shown_frames(act.stack)] or ["    (no Python function)"]
        lines += [f"  {number}, by {act.process}", *stack]
    more = len(acts) - MOST_ACTS
    return "".join([f"\n{line}" for line in [*lines, *([f"  and at {more} more places"] if more > 0 else [])]])


def shown_frames(stack: list[str]) -> list[str]:
    """The innermost frames of a stack, up to where pytest calls the test."""
    frames = []
    for frame in stack:
        if "/_pytest/" in frame or "/pluggy/" in frame or frame.startswith("pytest_"):
            break
        frames.append(frame)
    return frames[:12]


def _times(count: int, noun: str = "") -> str:
    if noun:
        return f"{count} {noun}" + "s" * (count != 1)
    return "once" if count == 1 else f"{count} times"


def format_duration(nanoseconds: float) -> str:
    """``1.5ms``, ``2s``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g}{unit}"
    return f"{nanoseconds:.0f}ns"


def matches_path(path: str, pattern: str) -> bool:
    """Whether a path matches: ``*`` and ``?`` stay within a folder, ``**`` goes below."""
    return _matches(path.split("/"), pattern.split("/"))


def _matches(parts: list[str], patterns: list[str]) -> bool:
    from fnmatch import fnmatchcase
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_matches(parts[at:], patterns[1:]) for at in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])
