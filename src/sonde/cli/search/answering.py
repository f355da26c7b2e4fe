"""``sonde help WORDS`` and ``sonde tools WORDS``: what is printed of the answers."""

from __future__ import annotations

from ...errors import UsageError
from .entries import COMMAND, ONE_LINER, QUESTION, TOOL, TRACEPOINT, Entry
from .index import load_entries
from .ranking import find_answers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 3
_MOST_MORE = 8  # names of answers that are nearly as good
_WIDEST = 78  # columns of a first line
_LONGEST_ACTION = 400


def answer_question(question: str, tools_only: bool = False) -> str:
    """The three best answers, each with its first line and what to type. UsageError if there are none."""
    entries = load_entries()
    if tools_only:
        entries = [entry for entry in entries if entry.kind in (TOOL, COMMAND)]
    else:
        entries += tracepoint_entries()
    best, more, corrected = find_answers(question, entries, _SHOWN)
    if not best:
        raise UsageError(f"nothing is about '{question}'", [
            *_near_names(question, entries),
            "sonde tools lists the tools, docs/language.md has the language",
            "other words may find it: what is slow, who does it, what it is done to"])
    lines = [f"({word} is taken for {meant})" for word, meant in corrected.items()]
    for entry in best:
        lines += _describe_answer(entry)
    names = [entry.name.split("(")[0] for entry in more if entry.name and entry.kind != QUESTION][:_MOST_MORE]
    if names:
        lines += ["", f"also: {', '.join(names)}"]
    return "\n".join(lines).strip("\n") + "\n"


def _near_names(question: str, entries: list[Entry]) -> list[str]:
    """A hint at the name that is most like a word that is none."""
    from ...language.diagnostics import nearest_names
    names = {entry.name.split("(")[0] for entry in entries if entry.kind not in (QUESTION, ONE_LINER, TRACEPOINT)}
    return [f"did you mean {close}?" for close in nearest_names(question.lower(), names)[:1]]


def _describe_answer(entry: Entry) -> list[str]:
    """An answer: its first line, and under it what to type."""
    head = entry.head if entry.kind in (QUESTION, ONE_LINER) or not entry.head else f"{entry.name}: {entry.head}"
    where = f"   ({entry.name})" if entry.kind == QUESTION else ""
    action = entry.action if len(entry.action) <= _LONGEST_ACTION else entry.action[:_LONGEST_ACTION] + " ..."
    return ["", *_wrapped(head or entry.name), f"    {action}{where}"]


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap
    return wrap(text, _WIDEST, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def tracepoint_entries() -> list[Entry]:
    """The kernel's tracepoints, by their names; none where they cannot be listed."""
    from ...kernel.types.world import LiveWorld
    try:
        points: Sequence[tuple[str, str]] = LiveWorld().tracepoints()
    except Exception:  # whatever the kernel refuses: the other answers do not need it
        return []
    return [Entry(TRACEPOINT, f"tracepoint:{category}:{event}", "", f"sonde -lv tracepoint:{category}:{event}")
            for category, event in sorted(points)]
