"""What the current process is, by what it says of itself."""

from __future__ import annotations

from ..compiler.lower import process_title
from ..compiler.lower.calls import Builtin
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..language.ast import Reference
from ..types import Str


def _write_title(lo: Lower, node: Reference, into: Mem) -> None:
    process_title.write_title(lo, into)


ROWS = (
    Builtin("proctitle", Str(process_title.CAPACITY),
            "Title of the current process: its arguments, separated by blanks, or what it has written in their place "
            "(setproctitle); 127 bytes at most.", text=_write_title),
)
