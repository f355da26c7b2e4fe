"""An sshd of the tests' own: on loopback, with keys made for it, nothing of the user's read or changed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")


def sshd_obstacle() -> str:
    """Why there can be none; "" if there can."""
    for command in ("sshd", "ssh", "ssh-keygen"):
        if shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            return f"{command} is not installed"
    return "" if os.geteuid() == 0 else "needs root"


class Sshd:
    """Serves ADDRESSES at one port; ``ssh`` is the command that reaches it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            port = free.getsockname()[1]
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # where it locks itself in, by its own convention
        (self.folder / "server").write_text("".join([f"ListenAddress {a}:{port}\n" for a in ADDRESSES]) + (
            f"HostKey {self.folder}/host\nAuthorizedKeysFile {self.folder}/user.pub\nPidFile none\nUsePAM no\n"
            "StrictModes no\nPermitRootLogin prohibit-password\nMaxStartups 100\n"))
        (self.folder / "client").write_text(
            f"Host *\n  Port {port}\n  User root\n  IdentityFile {self.folder}/user\n  IdentitiesOnly yes\n"
            "  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n  LogLevel ERROR\n")
        sshd = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin")
        assert sshd is not None
        self.process = subprocess.Popen([sshd, "-D", "-e", "-f", self.folder / "server"], stderr=subprocess.DEVNULL)
        self._await_port(port)
        return self

    def _await_port(self, port: int) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection((ADDRESSES[-1], port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("sshd does not listen")

    @property
    def ssh(self) -> list[str]:
        return ["ssh", "-F", str(self.folder / "client")]

    def __exit__(self, *exc: object) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait()
