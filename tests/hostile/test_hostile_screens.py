"""Full screens on a terminal that takes nothing any more (Ctrl-S, a window that hangs), or is gone: they end all the
same, within the second that every end has."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType
from typing import Self

import pytest

from hostile.test_bounds import SLACK
from support import environment

pytestmark = pytest.mark.live

FLOOD = ('interval:ms:20 { @[nsecs / 100000000] = count(); for ($i : 0..50) '
         '{ printf("%d: a line that is rather long, so that much is drawn each time\\n", nsecs); } }')
COMMANDS = {"redrawn": ("--redraw", "-e", FLOOD), "top": ("top", "--every", "0.05", "-e", FLOOD),
            "scrolled": ("-e", FLOOD)}


class Window:
    """``sonde`` on a terminal of its own, which is read until it has drawn for a second."""

    def __init__(self, *args: str) -> None:
        self._args = args

    def __enter__(self) -> Self:
        self.terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 40, 80, 0, 0))  # top shows texts, too
        size = {"COLUMNS": "80", "LINES": "40"}  # pytest-xdist sets others
        self.process = subprocess.Popen([sys.executable, "-m", "sonde", *self._args], stdin=theirs, stdout=theirs,
                                        stderr=theirs, env=environment({"TERM": "xterm"} | size),
                                        start_new_session=True)
        os.close(theirs)
        deadline, seen, text = time.monotonic() + 60, 0.0, b""
        while time.monotonic() < (seen + 1 if seen else deadline):
            if select.select([self.terminal], [], [], 0.05)[0]:
                text += os.read(self.terminal, 1 << 16)
            if b"rather long" in text and not seen:
                seen = time.monotonic()
        if not seen:
            self.__exit__(None, None, None)
        assert seen, text
        return self

    def seconds_to_end(self) -> float:
        """How long it takes from now on; AssertionError if it does not end."""
        begun = time.monotonic()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            raise AssertionError("it does not end") from None
        return time.monotonic() - begun

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        if self.terminal >= 0:
            os.close(self.terminal)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("form", COMMANDS)
def test_nobody_reads(form: str, number: int) -> None:
    if form == "top":
        pytest.importorskip("textual", reason="needs the extra 'ui'")
    with Window(*COMMANDS[form]) as window:
        time.sleep(1)  # the kernel holds a few thousand bytes for who does not read
        window.process.send_signal(number)
        assert window.seconds_to_end() < 1 + SLACK
        assert window.process.returncode == 0


@pytest.mark.parametrize("form", COMMANDS)
def test_the_terminal_is_gone(form: str) -> None:
    if form == "top":
        pytest.importorskip("textual", reason="needs the extra 'ui'")
    with Window(*COMMANDS[form]) as window:
        os.close(window.terminal)
        window.terminal = -1
        assert window.seconds_to_end() < 1 + SLACK


def test_a_signal_ends_a_view_that_is_read() -> None:
    """It stays when the script ends by itself, to be looked at; a signal is the user's wish."""
    pytest.importorskip("textual", reason="needs the extra 'ui'")
    with Window(*COMMANDS["top"]) as window:
        window.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        while window.process.poll() is None and time.monotonic() < begun + 30:
            if select.select([window.terminal], [], [], 0.05)[0]:
                try:
                    os.read(window.terminal, 1 << 16)
                except OSError:  # nobody has the other side any more
                    break
        assert window.seconds_to_end() < 1 + SLACK and window.process.returncode == 0
