"""What completion answers with."""

from __future__ import annotations

from ...base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Candidate(Record):
    """A word that could stand there; ``is_part``: more will follow it, without a space between."""

    word: str
    help: str = ""
    is_part: bool = False


class Answer(Record):
    """All that could stand there. ``files`` is None, or how the names of files that could stand there too end ("": any
    file)."""

    candidates: list[Candidate] = []
    files: str | None = None


class Values(Record):
    """(name, help) of each; ``files`` as in Answer; ``is_part``: whether more will follow a name."""

    names: Iterable[tuple[str, str]] = ()
    files: str | None = None
    is_part: Callable[[str], bool] | None = None
