"""How an agent is reached: as a process (ssh, or one of this machine) that speaks on its standard input and output, or
by its Unix socket."""

from __future__ import annotations

import os
import socket
import subprocess
from collections import deque
from collections.abc import Sequence

from ...base.installation import start_again
from ...errors import SondeError
from .hosts import LOCAL, SOCKET

PIECE = 1 << 18  # bytes that are read at once
_STDERR_BYTES = 4096     # bytes of what ssh or the agent says on standard error
_MOST_WAITING = 1 << 26  # bytes that may wait for an agent to read them

# Run by the shell of the other side, whichever that is.
_AS_ROOT = 'if [ "$(id -u)" = 0 ]; then exec {0}; else exec sudo -n {0}; fi'
# Reads Sonde as a zipapp of so many bytes into memory, and runs it from there: no file is made, no cache kept.
_BOOT = """\
import os, sys
if sys.version_info < (3, 11): sys.exit("needs Python 3.11, and python3 is %d.%d" % sys.version_info[:2])
left, file = int(sys.argv[1]), os.memfd_create("sonde", 0)
while left:
    data = os.read(0, min(left, 65536))
    if not data: sys.exit(1)
    left -= len(data)
    while data: data = data[os.write(file, data):]
os.environ["XDG_CACHE_HOME"] = "/proc/self/none"
os.execv(sys.executable, [sys.executable, "/proc/self/fd/%d" % file, "agent", "--stdio"])
"""


class UnreachableError(SondeError):
    """An agent cannot be reached."""


class Transport:
    """Connects to hosts with the ``ssh`` command, where Sonde is called ``remote``; ``push`` is Sonde itself in bytes,
    sent before all else. ``clock_pause``: the least seconds between two questions for a host's time;
    ``message_seconds``: roughly the work for a message to a host."""

    clock_pause = 1.0
    message_seconds = 5e-5

    def __init__(self, ssh: Sequence[str] = ("ssh",), remote: str = "sonde", push: bytes = b"") -> None:
        self.ssh = [*ssh]
        self.remote = remote
        self.push = push

    def close(self) -> None:
        """Let go of what all connections share."""

    def connect(self, host: str, seconds: float) -> Connection:
        """A connection to a host's agent, which may yet fail; ssh gives up after so many ``seconds``."""
        if host.startswith(SOCKET):
            return Connection(_connect_socket(host.removeprefix(SOCKET)), None)
        if host.startswith(LOCAL):
            return _start_process([*start_again(), "agent", "--stdio"], b"")
        from shlex import quote
        command = f"python3 -c {quote(_BOOT)} {len(self.push)}" if self.push else f"{self.remote} agent --stdio"
        remote = f"exec sh -c {quote(_AS_ROOT.format(command))}"
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={max(1, int(seconds))}", "-o", "ServerAliveInterval=5",
                   "-o", "ServerAliveCountMax=3", "-T"]
        return _start_process([*self.ssh, *options, "--", host, remote], self.push)


class Connection:
    """Bytes to and from an agent, never waiting. ``fileno`` is for a selector."""

    def __init__(self, end: socket.socket, process: subprocess.Popen[bytes] | None) -> None:
        self._end = end
        self.process = process
        self._waiting: deque[memoryview] = deque()
        self._bytes = 0
        self._stderr = b""
        end.setblocking(False)
        if process is not None and process.stderr is not None:
            os.set_blocking(process.stderr.fileno(), False)

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits for room."""
        return bool(self._waiting)

    def read_bytes(self) -> bytes | None:
        """What has come: b"" at the end, None if there is nothing now."""
        try:
            return self._end.recv(PIECE)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def write_bytes(self, data: bytes) -> None:
        """Send this as soon as there is room; UnreachableError if the agent has not read for too long."""
        self._waiting.append(memoryview(data))
        self._bytes += len(data)
        self.write_waiting()
        if self._bytes > _MOST_WAITING:
            raise UnreachableError("it reads nothing")

    def write_waiting(self) -> None:
        """Send what there is room for. That nobody is there any more is seen when reading."""
        while self._waiting:
            view = self._waiting[0]
            try:
                sent = self._end.send(view)
            except BlockingIOError:
                return
            except OSError:
                self._waiting.clear()
                return
            self._bytes -= sent
            if sent < len(view):
                self._waiting[0] = view[sent:]
            else:
                self._waiting.popleft()

    def read_stderr(self) -> list[str]:
        """The lines of standard error, the last ones."""
        process = self.process
        if process is not None and process.stderr is not None:
            try:
                while data := os.read(process.stderr.fileno(), _STDERR_BYTES):
                    self._stderr = (self._stderr + data)[-_STDERR_BYTES:]
            except OSError:
                pass
        return self._stderr.decode("utf-8", "replace").splitlines()

    @property
    def exit_status(self) -> int | None:
        """Of the process, once it has ended."""
        return self.process.poll() if self.process is not None else None

    def hang_up(self) -> None:
        """Close our end: an agent ends when it sees that."""
        self._end.close()

    def await_exit(self, seconds: float) -> bool:
        """Wait so long for the process to end; whether it has."""
        if self.process is None:
            return True
        try:
            self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def release(self) -> None:
        """End a process that has not ended by itself, and let go of it."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            if not self.await_exit(1.0):
                self.process.kill()
                self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


def _connect_socket(path: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(path)
    except OSError as error:
        client.close()
        raise UnreachableError(f"no agent listens there: {error.strerror}") from None
    return client


def _start_process(command: Sequence[str], preamble: bytes) -> Connection:
    """A process in a session of its own, so that the terminal's Ctrl-C is ours alone."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.PIPE,
                                   start_new_session=True, env=_environment())
    except OSError as error:
        ours.close()
        raise UnreachableError(f"{command[0]}: {error.strerror}") from None
    finally:
        theirs.close()
    connection = Connection(ours, process)
    if preamble:
        connection.write_bytes(preamble)
    return connection


def _environment() -> dict[str, str]:
    """Ours, with which a child finds the same Sonde."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root}


def pack_sonde() -> bytes:
    """This Sonde as a zipapp: the file that it runs from, or one made of its modules."""
    import io
    import zipfile
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.path.dirname(package)
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return file.read()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zip:
        zip.writestr("__main__.py", "import sys\nfrom sonde.__main__ import main\nsys.exit(main())\n")
        for folder, folders, files in os.walk(package):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                path = os.path.join(folder, name)
                zip.write(path, os.path.join("sonde", os.path.relpath(path, package)))
    return archive.getvalue()
