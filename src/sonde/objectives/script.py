"""The script that observes what objectives are about."""

from __future__ import annotations

import os

from ..base import regex_cache
from .rules import CALLS, CONNECT, LATENCY, OPEN, STALL, Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MARKER = 0x50de  # the first argument of the getpriority() by which a test says that it begins; no kernel knows it
DEPTH = 24  # functions of a stack


def write_script(rules: Sequence[Rules], has_call: Mapping[str, bool], stacks: bool, always: bool = False) -> str:
    """The script for all the rules of a run. What a test does is counted in maps, which are read when it ends; nothing
    is counted between tests, nor what has begun before the test. ``always``: there are no tests, and everything is
    counted from the beginning. ``has_call``: whether the machine has a call."""
    stack = f"pystack({DEPTH})" if stacks else "0"
    who = "comm, pid"
    bits = 0
    for each in rules:
        bits |= each.bits
    begins = f"begin {{ @rules = (uint64){bits};" if always else \
        f"tracepoint:syscalls:sys_enter_getpriority /args.which == {MARKER}/ {{ @rules = (uint64)args.who;"
    parts = [f"{begins} @began = nsecs; }}"]
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


def tell_kernel(bits: int) -> None:
    """Have what these bits say observed of this process from now on: by a system call that does nothing, and that the
    script sees in its turn among those of the process."""
    try:
        os.getpriority(MARKER, bits)
    except OSError:
        pass
