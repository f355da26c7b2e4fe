"""The traced command and the awaited process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sonde.base.end_request import Ending
from sonde.errors import SondeError, UsageError
from sonde.runtime.signals import Signals
from sonde.runtime.traced_command import Child, Process
from support import environment


def test_it_waits_for_start(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    child = Child(["touch", str(mark)])
    try:
        time.sleep(0.05)
        assert child.poll() is None and not mark.exists()
        child.start()
        assert child.wait() == 0 and mark.exists()
        assert select.select([child.fd], [], [], 0)[0]
    finally:
        child.close()


def test_command_lines_are_split_like_a_shells() -> None:
    child = Child(f"{sys.executable} -c 'raise SystemExit(7)'")
    child.start()
    assert child.wait() == 7
    child.close()


def test_death_by_signal_has_a_shells_status() -> None:
    child = Child(["sleep", "60"])
    child.start()
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == 128 + signal.SIGKILL
    child.close()


def test_closing_ends_it() -> None:
    child = Child(["sleep", "60"])
    child.start()
    child.close()
    assert child.status == 128 + signal.SIGTERM
    child.close()


def test_closing_one_that_ignores_the_request() -> None:
    child = Child([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"])
    child.start()
    time.sleep(0.3)
    child.close()
    assert child.status == 128 + signal.SIGKILL


def test_one_that_never_started_goes_quietly() -> None:
    child = Child(["sleep", "60"])
    child.close()
    assert child.status == 127


@pytest.mark.parametrize(("command", "message"), [
    ("", "empty"), ("no-such-command-here", "does not exist"), ("/etc/passwd", "not executable"),
    ("/nonexistent/x", "does not exist"), ("echo 'open", "quotation")])
def test_wrong_commands(command: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Child(command)


def test_a_file_that_cannot_be_executed(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("not a program")
    script.chmod(0o755)
    child = Child([str(script)])
    with pytest.raises(SondeError, match="cannot execute"):
        child.start()
    child.close()


def test_no_such_process() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
        with pytest.raises(UsageError, match="Unable to open pidfd"):
            Process(gone.pid)


def test_the_end_of_a_process() -> None:
    with subprocess.Popen(["sleep", "0.1"]) as other:
        process = Process(other.pid)
        assert select.select([process.fd], [], [], 5)[0]
        process.close()


def test_signals_are_events() -> None:
    before = signal.getsignal(signal.SIGTERM)
    ending = Ending()
    signals = Signals(ending, ["SIGUSR1", "USR2"])
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        assert select.select([signals.fd], [], [], 1)[0]
        assert signals.take_names() == ["SIGUSR2"] and signals.take_names() == [] and not signals.interrupted
        assert not ending.requested_at
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.interrupted == signal.SIGTERM and ending.requested_at and not ending.is_overdue()
    finally:
        signals.close()
        signals.close()
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_second_interrupt_kills() -> None:
    """One at the heels of the first is the same wish: ``timeout`` sends two."""
    source = ("import os, signal, time\nfrom sonde.runtime.signals import Signals\n"
              "from sonde.base.end_request import Ending\n"
              "s = Signals(Ending()); os.kill(os.getpid(), 2); os.kill(os.getpid(), 15); print(s.interrupted,"
              " flush=True)\n"
              "time.sleep(0.6); os.kill(os.getpid(), 2); time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE,
                          env=environment()) as other:
        out, _ = other.communicate(timeout=20)
        assert out == b"2\n" and other.returncode == -signal.SIGINT


def test_an_ignored_hangup_stays_ignored() -> None:
    source = ("import os, signal\nfrom sonde.runtime.signals import Signals\n"
              "from sonde.base.end_request import Ending\n"
              "signal.signal(1, signal.SIG_IGN if os.environ.get('NOHUP') else signal.SIG_DFL)\n"
              "s = Signals(Ending()); os.kill(os.getpid(), 1); print(s.interrupted)")
    for more, expected in (({"NOHUP": "1"}, b"0\n"), ({}, b"1\n")):
        done = subprocess.run([sys.executable, "-c", source], stdout=subprocess.PIPE, env=environment() | more,
                              check=True, timeout=20)
        assert done.stdout == expected
