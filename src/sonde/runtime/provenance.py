"""The run that an output comes from, included in everything that Sonde writes."""

from __future__ import annotations

import os
import time

from ..base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..base.json_checks import JsonObject
    from .losses import Losses
    from .session import Session

LONGEST = 2000  # characters of a command
LEEWAY = 0.1    # seconds by which a run may be shorter than intended
NOTHING_LOST = "nothing was lost"
_CONTROL = {c: f"\\x{c:02x}" for c in [*range(32), *range(127, 160)]}


class Provenance(Record):
    """The command, where and when it ran, for how long, and what was lost. Texts are without control characters.
    ``intended``: for how many seconds it was to run; 0: until its end. ``early_user_stacks`` lack outer frames; a run
    that is replayed does not know how many."""

    command: str
    host: str
    kernel: str
    started: int   # nanoseconds since 1970
    seconds: float  # to the millisecond: a recording has no more, and a replay says the same
    lost: list[str]
    intended: float = 0.0
    early_user_stacks: int = 0

    @property
    def coverage(self) -> str:
        """``1.2 of 5 s`` of a run that ended before its time; else nothing."""
        short = self.intended - self.seconds > max(LEEWAY, self.intended / 100)
        return f"{self.seconds:.1f} of {self.intended:g} s" if short else ""

    @property
    def summary(self) -> str:
        """The run in a line."""
        return f"{self.command} on {self.origin}"

    @property
    def origin(self) -> str:
        """Where, when and for how long."""
        when = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(self.started // 1_000_000_000))
        return f"{self.host} (Linux {self.kernel}), {when}, traced for {self.coverage or f'{self.seconds:.1f} s'}"

    @property
    def verdict(self) -> list[str]:
        """What was lost, or that nothing was."""
        return self.lost or [NOTHING_LOST]

    @property
    def lines(self) -> list[str]:
        """All of it."""
        return [self.command, self.origin, *self.verdict]

    def format_comments(self, sign: str = "#") -> str:
        """All of it as lines of comment. They end with a full stop, since scripts take a number there for a weight."""
        return "".join([f"{sign} {line.rstrip('.')}.\n" for line in self.lines])

    def as_json(self) -> JsonObject:
        """All of it as plain data."""
        fields: JsonObject = {"command": self.command, "host": self.host, "kernel": self.kernel,
                              "started": self.started, "seconds": self.seconds, "lost": self.lost}
        if self.intended:
            fields["asked"] = self.intended
        return fields


def describe_run(command: str, session: Session, losses: Losses, intended: float = 0.0) -> Provenance:
    """The record of a run as it is now."""
    made = describe_local_run(command, session.period.started, session.period.nanoseconds / 1e9, losses.sentences,
                              intended)
    made.early_user_stacks = losses.early_user_stacks
    return made


def describe_local_run(command: str, started: int, seconds: float, lost: Sequence[str],
                       intended: float = 0.0) -> Provenance:
    """The record of a run on this machine that began at ``started`` (nanoseconds since 1970)."""
    machine = os.uname()
    return Provenance(_sanitize_text(command), _sanitize_text(machine.nodename), _sanitize_text(machine.release),
                      started, round(seconds, 3), [_sanitize_text(line) for line in lost], intended)


def _sanitize_text(text: str) -> str:
    text = text.translate(_CONTROL).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
