"""``sonde top`` over a recording: the same view, with a slider in time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.widgets import RichLog, Static

from ...base.end_request import Ending
from .fitting import fit_pieces
from .model import Snapshot
from .top import TopApp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class ShownMoment(Protocol):
        """What is shown of a moment: see recording/pictures.py."""

        at: float
        wall: int
        snapshot: Snapshot

FAR = 10    # frames of a long step
TICK = 0.1  # s between two looks at what is to be shown while it plays


class SliderApp(TopApp):
    """Shows one of ``frames``."""

    CSS = TopApp.CSS + "#slider { height: 1; padding: 0 1; background: $panel; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "go(-1)", "back", priority=True), Binding("right", "go(1)", "on", priority=True),
        Binding("shift+left,pageup", f"go(-{FAR})", "far back", show=False, priority=True),
        Binding("shift+right,pagedown", f"go({FAR})", "far on", show=False, priority=True),
        Binding("home", "ends(0)", "begin", priority=True), Binding("end", "ends(1)", "end", priority=True),
        Binding("space", "pause", "play")]

    def __init__(self, frames: Sequence[ShownMoment]) -> None:
        super().__init__(lambda: None, Ending())
        self._frames = frames
        self._at = len(frames) - 1
        self._playing = 0.0  # monotonic time that stands for the recording's begin; 0: it stands still

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            if widget.id == "status":
                yield Static("", id="slider", markup=False)
            yield widget

    async def on_ready(self) -> None:
        self.set_interval(TICK, self._play_on)
        await self._show_frame()

    async def _show_frame(self) -> None:
        self.query_one(RichLog).clear()
        self._written = 0
        self._shown = self._frames[self._at].snapshot
        await self._draw_all()

    def _draw_status(self, snapshot: Snapshot) -> None:
        super()._draw_status(snapshot)
        frame, last = self._frames[self._at], self._frames[-1].at
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(frame.wall // 10 ** 9))
        state = "plays" if self._playing else "recorded"
        self.query_one("#head", Static).update(fit_pieces(
            [snapshot.title, f"{moment}.{frame.wall // 10 ** 8 % 10}", state, *self._notes], self.size.width - 2))
        self.query_one("#status", Static).update(" · ".join(snapshot.losses) or "nothing lost")
        self.query_one("#slider", Static).update(
            draw_slider(frame.at, last, max(10, self.size.width - 30)))

    # what the user does

    async def action_go(self, by: int) -> None:
        """So many frames on, or back."""
        self._playing = 0.0
        self._at = min(max(self._at + by, 0), len(self._frames) - 1)
        await self._show_frame()

    async def action_ends(self, which: int) -> None:
        """To the begin or the end."""
        self._playing = 0.0
        self._at = which * (len(self._frames) - 1)
        await self._show_frame()

    async def action_pause(self) -> None:
        """Play from here on (at the end: from the begin) as fast as it happened, or stand still."""
        if self._playing:
            self._playing = 0.0
        else:
            self._at = 0 if self._at == len(self._frames) - 1 else self._at
            self._playing = time.monotonic() - self._frames[self._at].at
        await self._show_frame()

    async def _play_on(self) -> None:
        if not self._playing:
            return
        passed, before = time.monotonic() - self._playing, self._at
        while self._at + 1 < len(self._frames) and self._frames[self._at + 1].at <= passed:
            self._at += 1
        if self._at == len(self._frames) - 1:
            self._playing = 0.0
        if self._at != before:
            await self._show_frame()

    async def on_click(self, event: Click) -> None:
        """A click on the slider goes there."""
        if event.widget is self.query_one("#slider", Static):
            width = max(10, self.size.width - 30)
            wanted = min(max(event.x - 1, 0), width) / width * self._frames[-1].at
            self._at = min(range(len(self._frames)), key=lambda at: abs(self._frames[at].at - wanted))
            await self.action_go(0)
        else:
            await super().on_click(event)


def draw_slider(at: float, last: float, width: int) -> str:
    """Where in the recording this is."""
    position = round(width * at / last) if last else width
    return f"{'─' * position}●{'─' * (width - position)} {_clock(at)} / {_clock(last)}"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}.{int(seconds * 10) % 10}"
