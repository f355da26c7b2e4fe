"""What can be an answer."""

from __future__ import annotations

from ...base.record import Record

COMMAND, TOOL, QUESTION, ONE_LINER = "command", "tool", "question", "one-liner"
FUNCTION, BUILTIN, PROBE, VARIABLE, OPTION = "function", "builtin", "probe", "variable", "option"
TRACEPOINT = "tracepoint"


class Entry(Record):
    """Something that answers questions. ``name`` is what it is called ("" for what has none), ``head`` its first line,
    ``action`` the command to run or to read on with. ``queries`` are words that people ask for it by, ``also`` more
    that it is about."""

    kind: str
    name: str
    head: str
    action: str
    queries: str = ""
    also: str = ""
