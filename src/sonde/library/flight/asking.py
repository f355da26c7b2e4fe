"""How `sonde dump` reaches a flight: a socket of the flight in the run folder, only for its user and root."""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
from collections.abc import Iterator

from ...base.record import Record
from ...errors import SondeError, UsageError

LONGEST = 4096       # bytes of a message
WHY = 200            # characters of a reason
PATIENCE = 0.2       # s that a flight waits for a caller's request, which is sent at once
ANSWERED = 120.0     # s that a caller waits for the dump
_CREDENTIALS = struct.Struct("=iII")  # struct ucred: pid, uid, gid


def run_folder() -> str:
    """Where this process puts its socket: the folder from the service manager (RUNTIME_DIRECTORY), root's, or the
    user's."""
    given = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    if given:
        return given
    if os.geteuid() == 0:
        return ROOTS
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}", "sonde", "flights")


ROOTS = "/run/sonde/flights"  # root's; services have folders of their own in it


class DumpRequest:
    """A request for a dump, and the connection to its caller."""

    def __init__(self, connection: socket.socket, why: str) -> None:
        self.why = why
        self._connection = connection

    def answer(self, sentence: str) -> None:
        """Report the outcome; a caller who has gone does not matter."""
        _send(self._connection, {"dump": sentence})
        self._connection.close()


class Listener:
    """The socket of a flight called ``name``: NAME.PID in the run folder. Only its user and root can connect, and are
    checked when they do. Without such a folder there is no socket (``problem`` says why)."""

    def __init__(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._path = os.path.join(run_folder(), f"{name}.{os.getpid()}")
        self.problem = ""
        try:
            os.makedirs(os.path.dirname(self._path), 0o755, exist_ok=True)
            before = os.umask(0o177)
            try:
                self._socket.bind(self._path)
            finally:
                os.umask(before)
            self._socket.listen(8)
        except OSError as error:
            self.problem, self._path = f"{self._path}: {error.strerror}", ""
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Readable when there is a request."""
        return self._socket.fileno()

    def accept_requests(self) -> Iterator[DumpRequest]:
        """The requests since the last call."""
        while not self.problem:
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, ConnectionError):
                return
            request = _read_request(connection)
            if request is None:
                connection.close()
            else:
                yield request

    def close(self) -> None:
        """Remove the socket."""
        self._socket.close()
        if self._path:
            try:
                os.unlink(self._path)
            except OSError:
                pass  # somebody else has done so


def _read_request(connection: socket.socket) -> DumpRequest | None:
    """A caller's request; None if the caller may not ask, or it cannot be understood."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(credentials)[1] not in (0, os.geteuid()):
        return None
    connection.settimeout(PATIENCE)
    message = _receive(connection)
    why = message.get("why") if isinstance(message, dict) else None
    return DumpRequest(connection, why[:WHY]) if isinstance(why, str) else None


def _send(connection: socket.socket, message: dict[str, str]) -> None:
    try:
        connection.send(json.dumps(message).encode()[:LONGEST])
    except OSError:
        pass  # the caller no longer waits for it


def _receive(connection: socket.socket) -> object:
    try:
        return json.loads(connection.recv(LONGEST))
    except (OSError, ValueError):
        return None


# --- the caller ---------------------------------------------------------------------------------------------


class Flying(Record):
    """A listening flight."""

    name: str
    pid: int
    path: str


def list_flights() -> list[Flying]:
    """The flights that this user may ask: those whose process is alive, by name."""
    flights = []
    for folder in dict.fromkeys([ROOTS, run_folder()]):
        for path in [folder, *_own_folders(folder)]:
            flights += [flying for name in _names(path) if (flying := _flying(path, name)) is not None]
    return sorted({flying.path: flying for flying in flights}.values(), key=lambda flying: (flying.name, flying.pid))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _own_folders(folder: str) -> list[str]:
    """The folders of services."""
    return [path for name in _names(folder) if os.path.isdir(path := os.path.join(folder, name))
            and not os.path.islink(path)]


def _flying(folder: str, name: str) -> Flying | None:
    title, _, pid = name.rpartition(".")
    path = os.path.join(folder, name)
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return None
    if not is_socket or not title or not pid.isdigit() or not os.path.exists(f"/proc/{int(pid)}"):
        return None
    return Flying(title, int(pid), path)


def find_flight(name: str) -> Flying:
    """The flight of that name or process id. UsageError if there is none, or several."""
    flights = list_flights()
    matching = [flying for flying in flights if name in (flying.name, str(flying.pid), f"{flying.name}.{flying.pid}")]
    if len(matching) == 1:
        return matching[0]
    known = [f"{flying.name}, process {flying.pid}" for flying in matching or flights]
    raise UsageError(f"{len(matching)} flights are called {name}: give the process" if matching
                     else f"there is no flight called {name}", known)


def ask_for_dump(flying: Flying, why: str) -> str:
    """Ask a flight for a dump; its answer, a sentence. SondeError if it does not answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(ANSWERED)
        try:
            connection.connect(flying.path)
            connection.send(json.dumps({"why": why[:WHY]}).encode())
        except OSError as error:
            raise SondeError(f"{flying.path}: {error.strerror or error}") from None
        message = _receive(connection)
    sentence = message.get("dump") if isinstance(message, dict) else None
    if not isinstance(sentence, str):
        raise SondeError(f"{flying.name}, process {flying.pid}, gave no answer", ["it may have ended"])
    return sentence
