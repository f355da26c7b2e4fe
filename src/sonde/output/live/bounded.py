"""An HTTP server that no client can exhaust: one thread, a bounded number of connections, a deadline for everything.

Any user of the machine can connect, as often and as fast as they like. A connection is for one request, which must
arrive soon. When there are too many, one that has sent no request yet makes room for the next, or else the slowest of
those that do not read; any others are closed at once, so that the kernel's own queue is never full for long.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic

from ...base.record import Record

MOST_CONNECTIONS = 64
LARGEST_HEAD = 8192
ASK_WITHIN = 5.0       # s: for the request to be there
READ_WITHIN = 20.0     # s: for an answer, or the next piece of a stream, to be taken
_EVICTABLE = 1.0       # s: after which one that does not take its answer makes room for others
_LOOK = 0.25           # s: between two looks at the deadlines
_QUEUE = 4096          # connections that the kernel holds for us
_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
            431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable"}


class HttpRequest(Record):
    """What a client asks for; the names of ``headers`` are in small letters."""

    method: str
    path: str
    headers: dict[str, str]


class Client:
    """A connection. ``asked``: its request is complete; ``streaming``: it stays until it goes by itself."""

    def __init__(self, connection: socket.socket, now: float) -> None:
        self.connection = connection
        self.head = b""
        self.has_request = False
        self.streaming = False
        self.open = True
        self.deadline = now + ASK_WITHIN
        self.answered = 0.0  # when it got something to read that it has not taken yet
        self.left = memoryview(b"")
        self.watched = 0  # for which events


class BoundedServer:
    """Listens at ``address`` until closed. :meth:`answer_request` is called in its thread, and must not wait."""

    def __init__(self, address: tuple[str, int]) -> None:
        if not 0 <= address[1] <= 65535:
            raise OSError(errno.EINVAL, "a port is a number from 0 to 65535")
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listener = socket.create_server(address, family=family, backlog=_QUEUE)
        self._listener.setblocking(False)
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._posted: deque[Callable[[], object]] = deque()
        self._stopping = False
        self._deaf = False  # not listening until the next look, for want of descriptors
        self.clients: dict[int, Client] = {}  # by descriptor, the oldest first
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run_loop, name="sonde-http", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def answer_request(self, client: Client, request: HttpRequest) -> None:
        """Give the client something to read, now (:meth:`send_data`) or later."""
        raise NotImplementedError

    def on_tick(self, now: float) -> None:
        """Called now and then, in the server's thread."""

    def call_in_thread(self, act: Callable[[], object]) -> None:
        """Have something done in the server's thread. From any thread."""
        self._posted.append(act)
        try:
            self._waker.send(b"x")
        except BlockingIOError:  # it is awake
            pass

    def stop(self) -> None:
        """Drop all clients, and stop listening."""
        def end_loop() -> None:
            self._stopping = True
        self.call_in_thread(end_loop)
        self._thread.join()
        for client in list(self.clients.values()):
            self.drop_client(client)
        self._selector.close()
        for each in (self._listener, self._wake, self._waker):
            each.close()

    # In the server's thread from here on

    def send_data(self, client: Client, data: bytes) -> None:
        """Give a client something to read, whose last piece it is unless the client is ``streaming``."""
        if client.open:
            client.left = memoryview(bytes(client.left) + data)
            client.answered = client.answered or monotonic()
            client.deadline = client.answered + READ_WITHIN
            self._write_pending(client)

    def drop_client(self, client: Client) -> None:
        """Close a connection."""
        if client.open:
            client.open = False
            del self.clients[client.connection.fileno()]
            self._watch_events(client, 0)
            client.connection.close()

    def _watch_events(self, client: Client, events: int) -> None:
        """Wait for events of a connection; for none of one that is served at once, as most are."""
        if not client.watched and events:
            self._selector.register(client.connection, events, client)
        elif client.watched and not events:
            self._selector.unregister(client.connection)
        elif client.watched != events:
            self._selector.modify(client.connection, events, client)
        client.watched = events

    def _run_loop(self) -> None:
        looked = 0.0
        while not self._stopping:
            for key, events in self._selector.select(_LOOK):
                if key.fileobj is self._listener:
                    self._accept_connections()
                elif key.fileobj is self._wake:
                    self._run_posted()
                elif key.data.open:
                    self._serve_client(key.data, events)
            now = monotonic()
            if now - looked >= _LOOK:
                looked = now
                self._drop_late_clients(now)
                self.on_tick(now)

    def _run_posted(self) -> None:
        try:
            self._wake.recv(4096)
        except BlockingIOError:
            pass
        while self._posted:
            self._posted.popleft()()

    def _drop_late_clients(self, now: float) -> None:
        for client in [c for c in self.clients.values() if c.deadline < now]:
            self.drop_client(client)
        if self._deaf:
            self._deaf = False
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _accept_connections(self) -> None:
        for _ in range(MOST_CONNECTIONS):  # then it is the clients' turn
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    self._make_room(monotonic())
                    self._selector.unregister(self._listener)
                    self._deaf = True
                    return
                continue  # it was gone before it was accepted
            self._admit_connection(connection)

    def _admit_connection(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        now = monotonic()
        try:
            begun = connection.recv(LARGEST_HEAD)
        except BlockingIOError:
            begun = None
        except OSError:
            begun = b""
        if begun == b"" or len(self.clients) >= MOST_CONNECTIONS and not self._make_room(now):
            connection.close()
            return
        client = self.clients[connection.fileno()] = Client(connection, now)
        if begun:
            self._receive_request(client, begun)
        if client.open and not client.watched:
            self._watch_events(client, selectors.EVENT_READ)

    def _make_room(self, now: float) -> bool:
        """Drop the client that has been silent for longest, or that has not taken its answer for longest."""
        silent = next((c for c in self.clients.values() if not c.has_request), None)
        slow = [c for c in self.clients.values() if c.answered and now - c.answered > _EVICTABLE]
        client = silent or min(slow, key=lambda c: c.answered, default=None)
        if client is not None:
            self.drop_client(client)
        return client is not None

    def _serve_client(self, client: Client, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            return self._write_pending(client)
        try:
            data = client.connection.recv(LARGEST_HEAD)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop_client(client)
        elif not client.has_request:  # what comes after the request is no matter
            self._receive_request(client, data)

    def _receive_request(self, client: Client, data: bytes) -> None:
        client.head += data
        if len(client.head) > LARGEST_HEAD:
            return self.refuse_request(client, 431, "the request is too long")
        if b"\r\n\r\n" not in client.head and b"\n\n" not in client.head:
            return
        client.has_request = True
        client.deadline = monotonic() + READ_WITHIN
        request = parse_request(client.head)
        if request is None:
            return self.refuse_request(client, 400, "this is no HTTP")
        if request.method != "GET":
            return self.refuse_request(client, 405, "GET only")
        try:
            self.answer_request(client, request)
        except Exception as error:
            self.refuse_request(client, 500, f"internal error: {type(error).__name__}: {error}")

    def refuse_request(self, client: Client, status: int, text: str) -> None:
        """Say no."""
        client.has_request = True
        self.send_data(client, build_response(status, "text/plain; charset=utf-8", (text + "\n").encode()))

    def _write_pending(self, client: Client) -> None:
        try:
            while client.left:
                client.left = client.left[client.connection.send(client.left):]
        except BlockingIOError:
            self._watch_events(client, selectors.EVENT_WRITE)
            return
        except OSError:
            return self.drop_client(client)
        if not client.streaming:
            _say_goodbye(client.connection)
            return self.drop_client(client)
        client.answered, client.deadline = 0.0, float("inf")
        self._watch_events(client, selectors.EVENT_READ)


def _say_goodbye(connection: socket.socket) -> None:
    """What the client has sent beyond its request is read away: else closing would reset, and the answer be lost."""
    try:
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1 << 16)
    except OSError:
        pass


def parse_request(head: bytes) -> HttpRequest | None:
    """A request's first line and headers; None if it is none."""
    first, *lines = head.decode("latin-1").replace("\r\n", "\n").partition("\n\n")[0].split("\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        return None
    pairs = [line.partition(":") for line in lines]
    return HttpRequest(words[0], words[1], {name.strip().lower(): value.strip() for name, _, value in pairs})


def build_response(status: int, kind: str, body: bytes | None, headers: dict[str, str] | None = None) -> bytes:
    """A whole answer; without a ``body`` the head of one that goes on until the connection is closed."""
    fields = {"Content-Type": kind, "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'",
              "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
              "Cross-Origin-Resource-Policy": "same-origin", "Server": "sonde", "Connection": "close",
              **({"Content-Length": str(len(body))} if body is not None else {}), **(headers or {})}
    lines = [f"HTTP/1.1 {status} {_REASONS[status]}", *[f"{name}: {value}" for name, value in fields.items()], "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace") + (body or b"")


def is_named_here(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header names this machine by an address, or one of ``names``. A page from elsewhere that had its
    own name lead here (DNS rebinding) would give that."""
    import ipaddress
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return name.lower().removesuffix(".") in names


def own_names(*others: str) -> frozenset[str]:
    """What this machine is called by itself."""
    return frozenset(name.lower() for name in ("localhost", os.uname().nodename, *others) if name)
