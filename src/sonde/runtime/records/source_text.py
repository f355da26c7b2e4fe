"""A file of Python's source, beside which views show what they counted."""

from __future__ import annotations

from ...base.record import Record


class SourceText(Record):
    """``lines`` of the file; none, and a ``problem``, if it was not read. ``changed``: it is newer than the process, so
    that these may not be the lines that ran."""

    lines: list[str] = []
    changed: bool = False
    problem: str = ""

    def line_at(self, number: int) -> str:
        """The text of a line, counted from 1; "" if there is none."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""
