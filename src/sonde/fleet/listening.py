"""A socket on which agents are asked for: each connection gets a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..service import tell_manager

if TYPE_CHECKING:
    import socket

    from .policy import Policy


def serve_socket(path: str, group: str, policy: Policy, policy_path: str) -> int:
    """Accept connections until a signal ends the process; ``policy.runs`` at once, further ones wait. Of the policy
    only that is asked here: each agent reads it anew from ``policy_path``."""
    import signal
    command = [sys.executable, "-P", "-m", "sonde", "agent", "--socket", "-",
               *([f"--policy={policy_path}"] if policy_path else [])]
    children: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    with _open_socket(path, group) as listening:
        tell_manager("READY=1")
        try:
            while True:
                connection, _ = listening.accept()
                with connection:
                    children = _wait_for_room(children, policy.runs)
                    children.append(subprocess.Popen(command, stdin=connection.fileno(), stdout=subprocess.DEVNULL))
        except KeyboardInterrupt:
            return 0
        finally:
            os.unlink(path)
            for child in children:
                child.terminate()


def _wait_for_room(children: list[subprocess.Popen[bytes]], most: int) -> list[subprocess.Popen[bytes]]:
    """The children that still run, once they are fewer than ``most``."""
    while len(running := [child for child in children if child.poll() is None]) >= most:
        running[0].wait()
    return running


def _open_socket(path: str, group: str) -> socket.socket:
    import grp
    import socket
    found = socket.socket(socket.AF_UNIX)
    try:
        members = grp.getgrnam(group).gr_gid if group else -1
        before = os.umask(0o177)
        try:
            found.bind(path)
        finally:
            os.umask(before)
        if group:
            os.chown(path, -1, members)
            os.chmod(path, 0o660)
        found.listen(64)
        return found
    except KeyError:
        found.close()
        raise UsageError(f"there is no group {group}") from None
    except OSError as error:
        found.close()
        raise UsageError(f"cannot listen on {path}: {error.strerror}") from None
