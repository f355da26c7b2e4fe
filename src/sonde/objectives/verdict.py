"""The verdict: which objectives were broken, by whom, and at which lines."""

from __future__ import annotations

import os

from ..base.record import Record
from ..errors import SondeError
from .rules import Rules, format_duration, matches_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MOST_ACTS = 5  # at different lines that are shown


class Act(Record):
    """Something that was done ``count`` times by a process, at a line of Python: functions as ``name (file:line)``, the
    innermost first."""

    what: str
    process: str
    stack: list[str]
    count: int


class Broken(Record):
    """An objective that was broken. ``rule`` is the argument that declares it, ``subject`` what it is about: an
    address, a path, a system call, "" for no_stall. ``measured`` is how often it was done, of p99 how many calls took
    longer, of no_stall the longest stall (ns). ``acts`` are those who did it, where; as text it is all of that."""

    rule: str
    subject: str
    measured: int
    acts: list[Act]
    text: str

    @property
    def message(self) -> str:
        """What was broken, in a line."""
        return self.text.partition("\n")[0]

    def __str__(self) -> str:
        return self.text


class ObjectiveError(SondeError):
    """Objectives were broken; ``broken`` has them."""

    def __init__(self, broken: Sequence[Broken]) -> None:
        super().__init__("\n".join(map(str, broken)))
        self.broken = list(broken)


def judge(rules: Rules, seen: Mapping[str, Any], folder: str) -> list[Broken]:
    """What was against the rules; ``seen`` has the maps' rows, ``folder`` is where relative paths begin."""
    return [*_connects(rules, seen), *_opens(rules, seen, folder), *_calls(rules, seen), *_latencies(rules, seen),
            *_stalls(rules, seen)]


def _connects(rules: Rules, seen: Mapping[str, Any]) -> list[Broken]:
    if rules.connect:
        return []
    rows = [Act(f"{address}:{port}", *rest) for name in ("connects", "connects6")
            for address, port, *rest in _rows(seen, name)]
    return [_broken("no_connect", what, acts, f"connected to {what} (no_connect)")
            for what, acts in _by_thing(rows).items()]


def _opens(rules: Rules, seen: Mapping[str, Any], folder: str) -> list[Broken]:
    broken = []
    for what, acts in _by_thing([Act(path, *rest) for path, *rest in _rows(seen, "opens")]).items():
        path = os.path.normpath(os.path.join(folder, what))
        pattern = next((each for each in rules.open if matches_path(path, each)), None)
        if pattern is not None:
            broken.append(_broken("no_open", what, acts, f"opened {what} (no_open={pattern!r})"))
    return broken


def _calls(rules: Rules, seen: Mapping[str, Any]) -> list[Broken]:
    things = _by_thing([Act(name, *rest) for name, *rest in _rows(seen, "calls")])
    broken = []
    for call, acts in things.items():
        count, most = sum([act.count for act in acts]), rules.calls.get(call)
        if most is not None and count > most:
            broken.append(_broken("max_syscalls", call, acts,
                                  f"{call}() was called {_times(count)}, and at most {most} is allowed"))
    return broken


def _latencies(rules: Rules, seen: Mapping[str, Any]) -> list[Broken]:
    broken = []
    for call, limit in rules.p99.items():
        over = sum([count for key, count in seen.get("over", ()) if key == [call, limit]])
        total = max(over, sum([count for name, count in seen.get("total", ()) if name == call]))
        if 100 * over > total:
            acts = [Act(name, *rest) for name, *rest in _rows(seen, "slow") if name == call and rest[-1] > limit]
            text = f"{over} of {_times(total, 'call')} of {call}() took longer than {format_duration(limit)}, " \
                   "and at most 1 % may (p99)"
            broken.append(Broken("p99", call, over, acts, text + _describe(acts, "the longest took")))
    return broken


def _stalls(rules: Rules, seen: Mapping[str, Any]) -> list[Broken]:
    acts = [Act("", *rest) for rest in _rows(seen, "stalls") if rest[-1] > rules.stall] if rules.stall else []
    if not acts:
        return []
    longest = max(act.count for act in acts)
    text = f"the event loop did not wait for {format_duration(longest)}, and at most {format_duration(rules.stall)} " \
           "is allowed"
    return [Broken("no_stall", "", longest, acts, text + _describe(acts, "stalled for"))]


def _broken(rule: str, what: str, acts: list[Act], text: str) -> Broken:
    return Broken(rule, what, sum([act.count for act in acts]), acts, text + _describe(acts))


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
