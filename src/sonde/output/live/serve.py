"""``sonde serve``: a live view as one page in a browser, on this machine only.

The server listens on 127.0.0.1. Other users of the machine can connect to that too, so everything is below a path that
contains a 192-bit secret, which is printed for whoever started the server; and a request must name this machine in its
Host header, so that no page from elsewhere can be made to talk to it under another name. Snapshots go to the browser as
server-sent events. `bounded` ensures that nobody can keep the server from answering.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections import deque
from time import monotonic

from ...base.record import Record
from ...errors import SondeError
from .bounded import BoundedServer, Client, HttpRequest, build_response
from .model import Snapshot
from .page import build_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...base.json_checks import Json

HOST = "127.0.0.1"
MOST_CLIENTS = 16
_EXACT = (1 << 53) - 1  # JavaScript's Number.MAX_SAFE_INTEGER
_BEAT = 15.0    # s: after which a client that is gone is noticed
MOST_FRAMES, MOST_FRAME_BYTES = 900, 4 << 20  # of what charts show, for browsers that come later
_POLICY = ("default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; "
           "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class PageServer:
    """Serves the page in a thread of its own until closed; :meth:`publish_snapshot` sends each browser a snapshot."""

    def __init__(self, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        try:
            self._http = _Http((HOST, port), self.token)
        except OSError as error:
            raise SondeError(f"cannot listen on {HOST}:{port}: {error.strerror}",
                             ["without --port any free one is taken"]) from None
        self._http.start()

    @property
    def port(self) -> int:
        return self._http.port

    @property
    def url(self) -> str:
        """Where the page is, the secret included."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def publish_snapshot(self, snapshot: Snapshot) -> None:
        """Send a snapshot to every browser that looks on, and to those that come until the next one; what charts show
        is sent once to each."""
        frame: dict[str, Json] = {
            table.name: [[moment.time, [[point.id, point.value, point.gains] for point in moment.points]]
                         for moment in table.moments] for table in snapshot.tables if table.moments}
        data = _encode({**members_of(snapshot, "tables"),
                        "tables": [members_of(table, "moments") for table in snapshot.tables]})
        self._http.call_in_thread(lambda: self._http.publish_data(data, _encode(frame)))

    def close(self) -> None:
        """Tell the browsers that this was all, and stop listening."""
        self._http.call_in_thread(self._http.announce_end)
        self._http.nobody.wait(1.0)
        self._http.stop()


def _encode(value: Json) -> bytes:
    return json.dumps(plain_value(value), ensure_ascii=True, separators=(",", ":")).encode()


def members_of(record: Record, without: str = "") -> dict[str, Json]:
    """A record's members, and a snapshot's whole share of a CPU, as plain data."""
    members = {name: plain_value(getattr(record, name)) for name in record._fields if name != without}
    return {**members, "share": record.share} if isinstance(record, Snapshot) else members


def plain_value(value: Record | Json) -> Json:
    """Records as objects, tuples as arrays, and numbers that JavaScript or JSON has not (large integers, infinities) as
    text; bytes that are no UTF-8 were replaced when the cells were made."""
    if isinstance(value, Record):
        return members_of(value)
    if isinstance(value, (tuple, list)):
        return [plain_value(part) for part in value]
    if type(value) is int and abs(value) > _EXACT:
        return str(value)
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, dict):
        return {str(plain_value(name)): plain_value(part) for name, part in value.items()}
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value


class _Http(BoundedServer):
    """The pages below the secret. A browser that reads slowly gets the latest snapshot when it is ready, not each."""

    def __init__(self, address: tuple[str, int], token: str) -> None:
        super().__init__(address)
        self._token = token
        self._number = 0
        self._latest = b""
        self._frames: deque[tuple[int, bytes]] = deque(maxlen=MOST_FRAMES)  # what charts show, with the number
        self._frame_bytes = 0
        self._seen: dict[Client, int] = {}  # those who look on -> the number of the snapshot that they got last
        self._beat = monotonic()
        self._over = False
        self.nobody = threading.Event()  # no browser is connected, after the end

    def answer_request(self, client: Client, request: HttpRequest) -> None:
        _, token, rest = [*request.path.split("/", 2), "", ""][:3]
        if request.headers.get("host", "") not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            return self.refuse_request(client, 403, "this server answers to its own address only")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode()):
            return self.refuse_request(client, 404, "nothing here: open the whole address that sonde printed")
        if rest == "":
            return self._send_page(client)
        if rest == "events":
            return self._start_stream(client)
        self.refuse_request(client, 404, "nothing here")

    def _send_page(self, client: Client) -> None:
        nonce = secrets.token_urlsafe(16)
        policy = {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
        self.send_data(client, build_response(200, "text/html; charset=utf-8", build_page(nonce).encode(), policy))

    def _start_stream(self, client: Client) -> None:
        """Let a browser look on."""
        if len(self._seen) >= MOST_CLIENTS:
            return self.refuse_request(client, 503, f"{MOST_CLIENTS} browsers look on already")
        client.streaming = True
        self._seen[client] = 0
        self.send_data(client, build_response(200, "text/event-stream; charset=utf-8", None))
        self._catch_up(client)

    def publish_data(self, data: bytes, frame: bytes = b"{}") -> None:
        """There is a new snapshot, and what it adds to the charts."""
        self._latest = data
        self._number += 1
        if len(self._frames) == MOST_FRAMES:
            self._frame_bytes -= len(self._frames[0][1])
        self._frames.append((self._number, frame))
        self._frame_bytes += len(frame)
        while self._frame_bytes > MOST_FRAME_BYTES and len(self._frames) > 1:
            self._frame_bytes -= len(self._frames.popleft()[1])
        for client in list(self._seen):
            self._catch_up(client)

    def _catch_up(self, client: Client) -> None:
        """Send the latest snapshot, if it is new to a browser that has taken all before; after the last, the end."""
        if client.left:
            return
        if self._seen[client] < self._number:
            frames = b",".join([b"[%d,%s]" % frame for frame in self._frames if frame[0] > self._seen[client]])
            self._seen[client] = self._number
            self.send_data(client, b'id: %d\ndata: %s,"frames":[%s]}\n\n' % (self._number, self._latest[:-1], frames))
        if self._over and not client.left:
            client.streaming = False
            self.send_data(client, b"event: over\ndata: {}\n\n")

    def announce_end(self) -> None:
        """There will be no more snapshots."""
        self._over = True
        self.on_tick(monotonic())
        if not self._seen:
            self.nobody.set()

    def on_tick(self, now: float) -> None:
        beat = now - self._beat > _BEAT
        self._beat = now if beat else self._beat
        for client in list(self._seen):
            if client.open and beat and not client.left:
                self.send_data(client, b": still here\n\n")
            if client.open:
                self._catch_up(client)

    def drop_client(self, client: Client) -> None:
        super().drop_client(client)
        self._seen.pop(client, None)
        if self._over and not self._seen:
            self.nobody.set()
