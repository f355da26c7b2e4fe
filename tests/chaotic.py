"""Simulated agents that go wrong in every way that a host can, and know what of them has to count.

``BEHAVIOURS`` has each way with the reason by which the host has to be named as missing, "" if it is none. What each
does when is drawn from its name, so that a run can be had again.
"""

from __future__ import annotations

import copy
import json
import random
import struct
import time
from collections.abc import Callable
from typing import Any

from simulated import Contents, SimulatedAgent, shape_of
from sonde.fleet.transport.protocol import Frame, delta_columns, encode_frame
from sonde.merge.delta import Differ, KeyNumbers
from sonde.merge.portable import encode_value
from sonde.spec import Config, EventSite, MapSpec, ScriptSpec
from sonde.types import INT64, Aggregate

# By name: the reason, as a regular expression.
BEHAVIOURS = {
    "honest": "", "repeats": "", "disorder": "", "slow": "", "skewed": "", "loses": "", "early": "", "late_start": "",
    "after_end": "",
    "mute": "timeout while connecting", "half_ready": "timeout while compiling", "never_starts": "timeout while ready",
    "hello_dies": "connection lost while compiling", "refuses": "BTF: none",
    "escapes": r"\\x1b\[2J not \\x07 here", "other": r"@ is lhist\(0, 7, 1\) on h\d+, but count_t on h\d+",
    "no_shape": "no JSON|makes no sense",
    "dies": "connection lost while tracing", "cut": "connection lost while tracing",
    "gap": "connection lost while tracing",
    "stalls": "silent for", "frozen": "silent for", "garbage": "no frame, but|protocol|of kind",
    "huge": "are the most", "types": "no proper", "kinds": "keys of different kinds", "flood": "more than",
    "again": "started while tracing", "twice": "a key that came twice", "ghost": "a row of a key that was not told",
    "half_bad": "a word that the value does not have", "out_of_turn": "out of turn",
}
WEIGHTS = [20 if name == "honest" else 1 for name in BEHAVIOURS]
COUNT = Aggregate("count", False)
PRINT = 0  # the site of print(@)


def chosen_behaviour(host: str) -> str:
    """What goes wrong with a host: each in turn, and among them the honest ones."""
    number = int(host.removeprefix("h"))
    names = [*BEHAVIOURS]
    return names[number // 2 % len(names)] if number % 2 else "honest"


def chaotic_shape() -> bytes:
    """A script with ``@ = count()`` by key, and a ``print(@)``."""
    from sonde.fleet.transport.shapes import describe_script
    maps = [MapSpec("@", "hash", 8, 8, 100, key=INT64, value=COUNT)]
    sites = [EventSite("print_map", None, [], 0, [], {"map": "@"})]
    return json.dumps(describe_script(ScriptSpec([], maps, sites, [], ["tracepoint:a:b"], [], Config()))).encode()


class ChaoticAgent(SimulatedAgent):
    """Tells as a :class:`SimulatedAgent`, prints its map in every window, and goes wrong as ``behaviour`` says in
    window ``when``. ``counted`` is how many windows of it are complete, ``printed`` the turns of its print."""

    def __init__(self, *args: Any) -> None:
        self._mute = args[5] == "mute"
        self.random = random.Random(f"{args[1]} of {args[5]}")
        self.when = self.random.randrange(1, args[3])
        self.counted = 0
        self.printed = 0
        self._sent: list[bytes] = []
        self._late: list[tuple[float, list[bytes]]] = []
        super().__init__(*args)

    def _send(self, data: bytes) -> None:
        if not self._mute:
            super()._send(data)

    def _wall(self) -> int:
        return time.time_ns() + (5 * 10 ** 17 if self.behaviour == "skewed" else 0)

    def read(self) -> None:
        if self._mute:
            try:
                if not self.end.recv(1 << 16):
                    self.close()
            except OSError:
                self.close()
        else:
            super().read()

    def _handle(self, frame: Frame) -> None:
        if frame.kind == "ping":
            self._send(encode_frame("pong", sent=frame["sent"], wall=self._wall()))
        elif frame.kind == "run":
            self._answer_run()
        elif frame.kind == "start" and self.behaviour == "never_starts":
            self._mute = True
        elif frame.kind == "start":
            self._send(encode_frame("started", wall=self._wall(), probes=1))
            wait = 3 * self._period if self.behaviour == "late_start" else 0
            self._next = time.monotonic() + self._period + wait
        else:
            super()._handle(frame)

    def _answer_run(self) -> None:
        answers: dict[str, Callable[[], object]] = {
            "hello_dies": self.close,
            "half_ready": lambda: setattr(self, "_mute", True),
            "refuses": lambda: self._send(encode_frame("refused", message="BTF: none", hints=[])),
            "escapes": lambda: self._send(encode_frame("refused", message="\x1b[2J not\n\x07 here", hints=[])),
            "other": lambda: self._ready(shape_of(Aggregate("lhist", low=0, high=7))),
            "no_shape": lambda: self._ready(self.random.choice([b"{", b"[]", b'{"maps": 5}', b"\xff" * 99]))}
        answers.get(self.behaviour, lambda: self._ready(chaotic_shape()))()

    def _ready(self, shape: bytes) -> None:
        self._send(encode_frame("ready", [shape], warnings=[]))

    # windows

    def advance(self, now: float) -> None:
        while self._late and now >= self._late[0][0]:
            for frame in self._late.pop(0)[1]:
                self._send(frame)
        if self.closed or self._mute or not self._next or now < self._next:
            return
        last = self.when if self.behaviour == "early" else self._windows
        if self._told == last:
            self._next = 0.0
            self._end_run()
            return
        self._next += self._period
        frames = self._print_frames()
        if self._told == self.when:
            self._before = copy.deepcopy(self._differ)
        frames += self._window_frames(self._contents(self.name, self._told))
        go_wrong = getattr(self, f"_do_{self.behaviour}", None)
        at = self._told == self.when or self.behaviour in ("repeats", "disorder", "slow", "loses")
        self._told += 1
        if go_wrong is not None and at:
            go_wrong(frames)
            if BEHAVIOURS[self.behaviour]:
                self._next = 0.0  # it was the last that it told
        else:
            self._tell(frames)
        self._sent += frames

    def _tell(self, frames: list[bytes]) -> None:
        """A window that counts."""
        for frame in frames:
            self._send(frame)
        self.counted += 1
        self.printed += 1

    def _print_frames(self) -> list[bytes]:
        """A print of the map as it was at the end of the window before."""
        contents = self._contents(self.name, self._told)
        delta = Differ(COUNT, self._differ._keys).take_delta([*contents.items()])
        turn = self._told + (5 if self.behaviour == "out_of_turn" and self._told == self.when else 0)
        pieces = [*delta.split_pieces(13, 1 << 16)]
        return [self._numbered("map", delta_columns(piece), map="@", site=PRINT, turn=turn, wall=self._wall(),
                               last=piece is pieces[-1], incomplete=False) for piece in pieces]

    def _window_frames(self, contents: Contents) -> list[bytes]:
        pieces = [*self._differ.take_delta([*contents.items()]).split_pieces(13, 1 << 16)]
        lost = self._told + 1 if self.behaviour == "loses" else 0
        return [*[self._numbered("map", delta_columns(piece), map="@", site=-1, turn=0, wall=self._wall(),
                                 last=piece is pieces[-1], incomplete=False) for piece in pieces],
                self._numbered("window", until=self._wall(), lost=lost, losses=["no room"] if lost else [])]

    def _end_run(self) -> None:
        if self._late:  # behind what is held back
            self._late[-1][1].append(self._numbered("end", reason="seconds", status=0, seconds=1.0))
            return
        self._finish()
        if self.behaviour == "after_end":
            for frame in self._window_frames({1: [10 ** 9]}):
                self._send(frame)

    # what goes wrong: given the frames of a window

    def _do_repeats(self, frames: list[bytes]) -> None:
        self._tell(frames)
        for frame in self.random.choices([*self._sent, *frames], k=5):
            self._send(frame)

    def _do_disorder(self, frames: list[bytes]) -> None:
        self._tell(self.random.sample(frames, len(frames)))

    def _do_slow(self, frames: list[bytes]) -> None:
        """Each later than the one before it, in bursts."""
        since = self._late[-1][0] if self._late else time.monotonic()
        self._late.append((since + self.random.choice([0, 0, 2 * self._period]), [*frames]))
        self.counted += 1
        self.printed += 1

    def _do_loses(self, frames: list[bytes]) -> None:
        self._tell(frames)

    def _do_dies(self, frames: list[bytes]) -> None:
        """Within a window, between two frames; what was printed before that counts."""
        kept = self.random.randrange(len(frames))
        for frame in frames[:kept]:
            self._send(frame)
        self.printed += kept >= self._pieces_of_print(frames)
        self.close()

    def _pieces_of_print(self, frames: list[bytes]) -> int:
        return 1 + next(i for i, frame in enumerate(frames) if b'"last":true' in frame)

    def _do_cut(self, frames: list[bytes]) -> None:
        """Within the window's last frame."""
        for frame in frames[:-1]:
            self._send(frame)
        self.printed += 1
        super()._send(frames[-1][:self.random.randrange(1, len(frames[-1]))])
        self.close()

    def _do_gap(self, frames: list[bytes]) -> None:
        """A frame is lost; of what comes behind it nothing can count."""
        for frame in frames[1:]:
            self._send(frame)
        self.close()

    def _do_stalls(self, frames: list[bytes]) -> None:
        """It answers pings, and tells nothing more."""
        for frame in frames[:-1]:
            self._send(frame)
        self.printed += 1

    def _do_frozen(self, frames: list[bytes]) -> None:
        self._mute = True

    def _do_garbage(self, frames: list[bytes]) -> None:
        self._send(self.random.randbytes(self.random.randrange(20, 5000)))

    def _do_huge(self, frames: list[bytes]) -> None:
        self._send(struct.pack("<4sBBII", *struct.unpack_from("<4sBB", frames[0]), 10, 1 << 31))

    def _do_types(self, frames: list[bytes]) -> None:
        self._send(self._numbered("window", until="never", lost=[], losses=5))

    def _bad_window(self, *deltas: Any) -> None:
        """A window that begins well: nothing of it may count."""
        for delta in deltas:
            self._send(self._numbered("map", delta_columns(delta), map="@", site=-1, turn=0, wall=self._wall(),
                                      last=True, incomplete=False))
        self._send(self._numbered("window", until=self._wall(), lost=0, losses=[]))

    def _after_print(self, frames: list[bytes]) -> Any:
        """A window's good beginning."""
        kept = self._pieces_of_print(frames)
        for frame in frames[:kept]:
            self._send(frame)
        self.printed += 1
        self._sequence -= len(frames) - kept
        self._differ = self._before  # for the window is not told
        return self._differ.take_delta([(key, [10 ** 9]) for key in self._contents(self.name, self._told)])

    def _do_kinds(self, frames: list[bytes]) -> None:
        good = self._after_print(frames)
        bad = self._differ.take_delta([("a text", [1])])
        bad.gone = bad.gone[:0]
        self._bad_window(good, bad)

    def _do_flood(self, frames: list[bytes]) -> None:
        good = self._after_print(frames)
        self._bad_window(good, self._differ.take_delta([(key, [1]) for key in range(10 ** 6, 10 ** 6 + 6000)]))

    def _do_again(self, frames: list[bytes]) -> None:
        self._send(encode_frame("started", wall=self._wall(), probes=1))

    def _do_twice(self, frames: list[bytes]) -> None:
        """Keys that it has already come again: with others' keys they would be counted twice, and go too soon."""
        good = self._after_print(frames)
        bad = Differ(COUNT, self._differ._keys).take_delta([(key, [0]) for key in self._contents(self.name, 0)])
        self._bad_window(good, bad)

    def _do_ghost(self, frames: list[bytes]) -> None:
        good = self._after_print(frames)
        bad = Differ(COUNT, KeyNumbers(encode_value)).take_delta([(key, [1]) for key in range(500)])
        bad.keys, bad.born = [], bad.born[:0]
        self._bad_window(good, bad)

    def _do_half_bad(self, frames: list[bytes]) -> None:
        good = self._after_print(frames)
        bad = Differ(COUNT, self._differ._keys).take_delta([(0, [1])])
        bad.born, bad.word[0] = bad.born[:0], 7
        self._bad_window(good, bad)

    def _do_out_of_turn(self, frames: list[bytes]) -> None:
        for frame in frames:
            self._send(frame)
