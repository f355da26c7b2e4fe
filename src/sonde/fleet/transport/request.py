"""What the hosts of a fleet are asked to run."""

from __future__ import annotations

import os

from ...base.record import Record
from ...source import Source
from .protocol import encode_frame


class FleetRequest(Record):
    """What every host is asked to run. ``seconds`` 0: until it is stopped; ``args``: events with their arguments;
    ``columns``: of a tool's table, whose lines are to come as rows; ``live``: somebody looks on, so plain values come
    with each window."""

    source: Source
    params: list[str] = []
    named: dict[str, str] = {}
    window: float = 1.0
    seconds: float = 0.0
    budget: float = 0.0
    unsafe: bool = False
    args: bool = False
    columns: list[str] = []
    live: bool = False

    def encode_frame(self) -> bytes:
        """The frame that asks a host for it, as a run of its own."""
        text = self.source.text.encode("utf-8", "surrogateescape")
        return encode_frame("run", [text], run=os.urandom(8).hex(), name=self.source.name, tool=self.source.internal,
                            params=self.params, named=self.named, window=self.window, seconds=self.seconds,
                            budget=self.budget, unsafe=self.unsafe, args=self.args, table=self.columns, live=self.live)
