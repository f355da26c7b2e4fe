"""Completion of probes, for -l and in programs: by steps, as shells complete paths.

A shell inserts what all candidates have in common, so none may be left out: where there are many, each is cut after its
next part, ``kprobe:vfs_``, and stands for those that go on from there.
"""

from __future__ import annotations

from ...editor.complete import PROVIDERS_BY_NAME, complete, probe_names
from ...errors import SondeError
from ...kinds import find_kind
from .answers import Values

_MANY = 100  # names of which a list is still read


def complete_points(typed: str) -> Values:
    """Attach points, or the last of some that commas separate: ``tracepoint:sched:sched_switch``."""
    before, comma, point = typed.rpartition(",")
    names = _points(point)
    return Values([(f"{before}{comma}{name}", help) for name, help in names], None, _goes_on)


def complete_program(typed: str) -> Values:
    """A program, of which all but the word at its end stays."""
    from ...compiling import live_world
    from ...editor.analysis import Document, Machine, editor_options
    start = len(typed)
    while start and (typed[start - 1].isalnum() or typed[start - 1] in "_:/*.-"):
        start -= 1
    point = typed[start:]
    if not _is_in_block(typed[:start]):
        return Values([(typed[:start] + name, help) for name, help in _points(point)], is_part=lambda name: True)
    document = Document("-e", typed, Machine(editor_options(), live_world))
    items = [item for item in complete(document, len(typed)).items
             if item.label.startswith(typed[item.start:])]
    return Values([(typed[:item.start] + item.label, item.detail) for item in items], is_part=lambda name: True)


def _is_in_block(text: str) -> bool:
    """Whether a clause's braces are open, or its filter has begun. Strings may hold braces."""
    depth, quoted = 0, False
    for at, char in enumerate(text):
        if char == '"' and text[at - 1:at] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (char == "{") - (char == "}")
    return depth > 0 or quoted or not depth and " /" in text.rpartition("}")[2]


def _points(typed: str) -> list[tuple[str, str]]:
    kind, colon, rest = typed.partition(":")
    if not colon:
        return [(row.name + ":" * (":" in row.form), row.documentation) for row in PROVIDERS_BY_NAME.values()
                if row.name.startswith(typed)]
    known = find_kind(kind)
    if known is None:
        return []
    from ...compiling import live_world
    try:
        names = probe_names(live_world(), known.name, rest)
    except SondeError:  # such as tracefs that only root may read
        return []
    return [(f"{kind}:{name}", "") for name in cut_names([name for name in names if name.startswith(rest)], len(rest))]


def cut_names(names: list[str], typed: int) -> list[str]:
    """The names, or their beginnings where they are many: up to the next ``:`` or ``_`` behind what is typed."""
    if len(names) <= _MANY:
        return names
    return list(dict.fromkeys([_cut_name(name, typed) for name in names]))


def _cut_name(name: str, typed: int) -> str:
    at = typed
    while at < len(name) and name[at] in "_:":
        at += 1
    ends = [end for end in (name.find("_", at), name.find(":", at)) if end >= 0]
    return name[:min(ends) + 1] if ends else name


def _goes_on(name: str) -> bool:
    return name[-1:] in (":", "_")
