"""A fleet on a terminal while it goes on: its state on top, the maps as they stand, redrawn with each window."""

from __future__ import annotations

from collections import deque
from typing import Any

from ...output import json_kind
from ...output.live.screen import Screen
from ...output.text import terminal_safe, text_output
from ...spec import ScriptSpec
from ..state.results import MergedPrint
from .show import Presenter

MOST_LINES = 1000  # printed lines


class LivePresenter(Presenter):
    """Draws over standard output until the end, when all is printed as without it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._screen = Screen(1)
        self._prints: dict[str, MergedPrint] = {}  # the latest of each map
        self._lines: deque[str] = deque(maxlen=MOST_LINES)

    def begin(self, spec: ScriptSpec) -> None:
        self._screen.open()
        self.sample()

    def show_print(self, item: MergedPrint) -> None:
        self._prints[item.name] = item

    def print_lines(self, text: str) -> None:
        self._lines.extend(text.splitlines())

    def sample(self) -> None:
        """Draw the state, the maps, and as many of the last lines as there is room for."""
        from textwrap import wrap
        width, height = self._screen.size
        state = wrap(terminal_safe(self.fleet.describe_state()), width)
        maps = [line for text in self._map_texts() for line in ["", *text.splitlines()]]
        room = max(3, height - len(maps) - len(state) - 1)
        lines = list(self._lines)[-room:]
        self._screen.draw_lines([*state, "", *map(terminal_safe, [*lines, *maps])])

    def _map_texts(self) -> list[str]:
        texts = []
        for named in self._final_maps():
            item = self._prints.get(named.name)
            pieces: list[bytes] = []
            out = text_output(pieces.append)
            data = item.site.data if item is not None else {}
            pairs = item.pairs if item is not None else self.fleet.results.pairs_of(named.name)
            out.write_map(named.name, pairs, data.get("top", 0), data.get("div", 1), json_kind(named))
            texts.append(b"".join(pieces).decode("utf-8", "replace").rstrip("\n"))
        return [text for text in texts if text]

    def finish(self) -> None:
        self._close_screen()
        self.print_open_lines()
        for line in self._lines:
            super().print_lines(line + "\n")
        for item in self._prints.values():
            super().show_print(item)
        super().finish()

    def _close_screen(self) -> None:
        if self._screen.is_open:
            self._screen.close()

    def close(self) -> None:
        self._close_screen()
        super().close()
