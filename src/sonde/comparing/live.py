"""Runs made for comparing: ``sonde record`` as a child, beside a command or for a given time."""

from __future__ import annotations

import os
import sys

from ..base.installation import command_path
from ..errors import SondeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket
    from subprocess import Popen

ATTACHING = 120.0  # s until everything must be attached
ENDING = 120.0     # s from the signal to the end


def record_beside(command: str, script: Sequence[str], path: str) -> None:
    """Record a script beside a command. SondeError if that failed."""
    import subprocess
    subprocess.run(_words(path, ["-c", command, *script]), stdout=sys.stderr, check=False)
    if not os.path.exists(path):  # a nonzero status is the command's own affair
        raise SondeError(f"the run beside {command!r} could not be recorded")


def record_for(seconds: float, script: Sequence[str], path: str) -> None:
    """Record a script for a given time once it is attached; less if it ends by itself. SondeError if that failed."""
    import signal
    import subprocess
    from socket import AF_UNIX, SOCK_DGRAM, socket
    ready = f"{path}.ready"
    with socket(AF_UNIX, SOCK_DGRAM) as notices:
        notices.bind(ready)
        child = subprocess.Popen(_words(path, script), stdout=sys.stderr, env=os.environ | {"NOTIFY_SOCKET": ready},
                                 start_new_session=True)  # Ctrl-C is for this process, which ends the child
        try:
            _await_ready(notices, child)
            try:
                child.wait(seconds)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGINT)
                child.wait(ENDING)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            os.unlink(ready)
    if child.returncode < 0 or not os.path.exists(path):
        raise SondeError("the script could not be recorded")


def _await_ready(notices: socket, child: Popen[bytes]) -> None:
    """Wait until the child says that everything is attached, or has ended."""
    from time import monotonic
    notices.settimeout(0.2)
    until = monotonic() + ATTACHING
    while child.poll() is None and monotonic() < until:
        try:
            if b"READY=1" in notices.recv(4096):
                return
        except TimeoutError:
            pass
    if child.poll() is None:
        raise SondeError(f"the script was not attached within {ATTACHING:g} seconds")


def _words(path: str, script: Sequence[str]) -> list[str]:
    from shlex import split
    return [*split(command_path()), "record", "-q", "-o", path, *script]
