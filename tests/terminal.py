"""A real terminal for tests: a tmux server of the test's own, typed into and read back."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pytest

from support import PATIENCE, environment, sonde_command


class Terminal:
    """``with Terminal("tcptop") as t: t.wait_for("PID"); t.keys("q"); t.wait_for_end()`` runs sonde in a terminal.

    The shell below it prints ``ended=STATUS`` when sonde has ended, so that what is then on the screen can be read.
    """

    def __init__(self, *args: str, columns: int = 120, lines: int = 40, env: dict[str, str] | None = None,
                 before: str = "") -> None:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not installed")
        self.args, self.columns, self.lines, self.before = args, columns, lines, before
        self.env = env or {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="sonde-tmux-")  # tmux leaves its socket behind
        command = f"trap : INT; {self.before}{shlex.join(sonde_command(self.args))}; echo ended=$?; exec cat"
        env = environment({"PS1": "$ "} | self.env)
        for name in ("TMUX", "COLUMNS", "LINES"):  # pytest's processes are told a size, which is not the terminal's
            env.pop(name, None)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(self.columns), "-y", str(self.lines),
                  "/bin/sh", "-c", command, env=env)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.tmux("kill-server", check=False)
        self._folder.cleanup()

    def tmux(self, *args: str, check: bool = True, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(["tmux", "-S", f"{self._folder.name}/socket", *args], capture_output=True, text=True,
                              check=False, env=env)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def screen(self, colours: bool = False) -> str:
        """What is to be seen; with ``colours`` also the escape sequences that make them."""
        return self.tmux("capture-pane", "-p", *(["-e", "-N"] if colours else []))

    def history(self) -> str:
        """What is to be seen, and what has been scrolled off."""
        return self.tmux("capture-pane", "-p", "-S", "-")

    def keys(self, *keys: str) -> None:
        """Type: names of keys as tmux has them, or text."""
        self.tmux("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def wait_for(self, *patterns: str, gone: Sequence[str] = (), seconds: float = PATIENCE) -> str:
        """The screen, once it has all these (regular expressions) and none of ``gone``."""
        deadline = time.monotonic() + seconds
        while True:
            text = self.screen()
            if all(re.search(p, text, re.MULTILINE) for p in patterns) and not any(re.search(g, text) for g in gone):
                return text
            assert time.monotonic() < deadline, f"waited for {patterns}, not {gone}; the screen has:\n{text}"
            time.sleep(0.02)

    def wait_for_end(self, seconds: float = PATIENCE) -> str:
        """Everything that is left on the terminal, once sonde has ended; its status is in the last line."""
        self.wait_for(r"^ended=\d+", seconds=seconds)
        return self.history()
