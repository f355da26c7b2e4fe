"""A socket on which agents are asked for: each connection gets a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from ...base.installation import start_again
from ...base.sd_notify import tell_manager
from ...errors import UsageError

if TYPE_CHECKING:
    import socket

    from ...library.policy import Policy


def serve_socket(path: str, group: str, policy: Policy, policy_path: str) -> int:
    """Accept connections until a signal ends the process; ``policy.runs`` at once, further ones wait. Of the policy
    only that is asked here: each agent reads it anew from ``policy_path``."""
    import signal
    command = [*start_again(), "agent", "--socket", "-", *([f"--policy={policy_path}"] if policy_path else [])]
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
    listener = socket.socket(socket.AF_UNIX)
    try:
        members = -1 if not group else int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
        before = os.umask(0o177)
        try:
            _bind_socket(listener, path)
        finally:
            os.umask(before)
        if group:
            os.chown(path, -1, members)
            os.chmod(path, 0o660)
        listener.listen(64)
        return listener
    except KeyError:
        listener.close()
        raise UsageError(f"there is no group {group}") from None
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {path}: {error.strerror}") from None


def _bind_socket(listener: socket.socket, path: str) -> None:
    """Take the path, if need be from an agent that was killed: its socket is there still, and nobody answers."""
    import errno
    try:
        listener.bind(path)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not _is_abandoned(path):
            raise
        os.unlink(path)
        listener.bind(path)


def _is_abandoned(path: str) -> bool:
    """Whether a socket of this user's own is at a path, and refuses whoever connects."""
    import socket
    import stat
    there = os.lstat(path)
    if not stat.S_ISSOCK(there.st_mode) or there.st_uid != os.geteuid():
        return False
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            return True
    return False
