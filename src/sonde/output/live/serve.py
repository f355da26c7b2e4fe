"""``sonde serve``: a live view as one page in a browser, on this machine only.

The server listens on 127.0.0.1. Other users of the machine can connect to that too, so everything is below a path that
holds a secret of 192 bits, which is printed for the one who started the server; and a request has to name this machine
in its Host header, so that no page from elsewhere can be made to talk to it under another name. Snapshots go to the
browser as server-sent events.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ...errors import SondeError
from ...record import Record
from .model import Snapshot
from .page import page

HOST = "127.0.0.1"
MOST_CLIENTS = 16
_BEAT = 15.0    # s: after which a client that is gone is noticed
_SLOW = 20.0    # s: what a client may take to read or to ask
_POLICY = ("default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; "
           "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class Server:
    """Serves the page; :meth:`publish` gives every browser the next snapshot. Threads of its own, until closed."""

    def __init__(self, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._news = threading.Condition()
        self._number = 0
        self._latest = b""
        self._closed = False
        self.clients = 0
        try:
            self._http = _Http((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise SondeError(f"cannot listen on {HOST}:{port}: {getattr(error, 'strerror', error)}",
                             ["without --port any free one is taken"]) from None
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), name="sonde-http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """Where the page is, the secret included."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def publish(self, snapshot: Snapshot) -> None:
        """Send a snapshot to every browser that looks on, and to those that come until the next one."""
        data = json.dumps(plain(snapshot), ensure_ascii=True, separators=(",", ":")).encode()
        with self._news:
            self._latest = data
            self._number += 1
            self._news.notify_all()

    def wait(self, seen: int) -> tuple[int, bytes, bool]:
        """(number, snapshot, whether there will be no more) as soon as there is one after number ``seen``."""
        with self._news:
            self._news.wait_for(lambda: self._number > seen or self._closed, _BEAT)
            return self._number, self._latest, self._closed

    def arrive(self) -> bool:
        """A browser wants snapshots; False if there are too many."""
        with self._news:
            if self.clients >= MOST_CLIENTS:
                return False
            self.clients += 1
            return True

    def leave(self) -> None:
        """A browser is gone."""
        with self._news:
            self.clients -= 1
            self._news.notify_all()

    def close(self) -> None:
        """Tell the browsers that this was all, and stop listening."""
        with self._news:
            self._closed = True
            self._news.notify_all()
            self._news.wait_for(lambda: self.clients == 0, 1.0)
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def plain(value: Any) -> Any:
    """Records as objects, tuples as arrays; bytes that are no UTF-8 were replaced when the cells were made."""
    if isinstance(value, Record):
        found = {name: plain(getattr(value, name)) for name in value._fields}
        if isinstance(value, Snapshot):
            found["share"] = value.share
        return found
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no matter for the terminal."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"
    server_version = "sonde"
    sys_version = ""
    timeout = _SLOW

    def do_GET(self) -> None:
        owner = self.server.owner
        _, token, rest = [*self.path.split("/", 2), "", ""][:3]
        if not self._is_for_us(owner):
            return self._refuse(403, "this server answers to its own address only")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), owner.token.encode()):
            return self._refuse(404, "nothing here: open the whole address that sonde printed")
        if rest == "":
            return self._page()
        if rest == "events":
            return self._events(owner)
        self._refuse(404, "nothing here")

    def _is_for_us(self, owner: Server) -> bool:
        return self.headers.get("Host", "") in (f"{HOST}:{owner.port}", f"localhost:{owner.port}")

    def _refuse(self, status: int, text: str) -> None:
        body = (text + "\n").encode()
        self._head(status, "text/plain; charset=utf-8", len(body))
        self.wfile.write(body)

    def _head(self, status: int, kind: str, length: int | None, policy: str = "default-src 'none'") -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Security-Policy", policy), ("Cache-Control", "no-store"),
                            ("Referrer-Policy", "no-referrer"), ("X-Content-Type-Options", "nosniff"),
                            ("X-Frame-Options", "DENY"), ("Cross-Origin-Resource-Policy", "same-origin")):
            self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _page(self) -> None:
        nonce = secrets.token_urlsafe(16)
        body = page(nonce).encode()
        self._head(200, "text/html; charset=utf-8", len(body), _POLICY.format(nonce=nonce))
        self.wfile.write(body)

    def _events(self, owner: Server) -> None:
        if not owner.arrive():
            return self._refuse(503, f"{MOST_CLIENTS} browsers look on already")
        self.close_connection = True
        try:
            self._head(200, "text/event-stream; charset=utf-8", None)
            seen, over = 0, False
            while not over:
                number, data, over = owner.wait(seen)
                self.wfile.write(b"id: %d\ndata: %s\n\n" % (number, data) if number > seen else b": still here\n\n")
                seen = number
            self.wfile.write(b"event: over\ndata: {}\n\n")
        except OSError:  # gone, or too slow
            pass
        finally:
            owner.leave()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news."""


__all__ = ["HOST", "MOST_CLIENTS", "Server", "plain"]
