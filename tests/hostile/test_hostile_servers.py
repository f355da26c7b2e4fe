"""`sonde serve` and `sonde export --prometheus` beside a user who opens connections as fast as he can."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sonde.exporters.prometheus import _ScrapeServer
from sonde.output.live.bounded import (
    LARGEST_HEAD,
    MOST_CONNECTIONS,
    BoundedServer,
    Client,
    HttpRequest,
    build_response,
    is_named_here,
    own_names,
    parse_request,
)
from sonde.output.live.serve import PageServer

# Opens connections as fast as it can: silent ones, such that send the half of a request, or whole ones whose answer is
# not read. As many as its limit lets it have are open at once; the oldest are given up for new ones.
ATTACKER = """
import collections, os, resource, socket, sys
port, kind = int(sys.argv[1]), sys.argv[2]
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
most = min(900, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 20)
words = {"silent": b"", "half": b"GET /metrics HTTP/1.1\\r\\nHo", "whole": b"GET /metrics HTTP/1.1\\r\\n\\r\\n"}[kind]
held = collections.deque()
print("begun", flush=True)
while True:
    each = socket.socket()
    each.setblocking(False)
    each.connect_ex(("127.0.0.1", port))
    held.append(each)
    if len(held) >= most:
        held.popleft().close()
    if words and len(held) > 5:
        try:
            held[-5].send(words)
        except OSError:
            pass
"""


class Attack:
    """Two processes that open connections to a port."""

    def __init__(self, port: int, kind: str) -> None:
        self._command = [sys.executable, "-c", ATTACKER, str(port), kind]

    def __enter__(self) -> None:
        self._processes = [subprocess.Popen(self._command, stdout=subprocess.PIPE) for _ in range(2)]
        for each in self._processes:
            assert each.stdout is not None and each.stdout.readline() == b"begun\n"

    def __exit__(self, *exc: object) -> None:
        for each in self._processes:
            each.kill()
            each.wait()
            assert each.stdout is not None
            each.stdout.close()


class Echo(BoundedServer):
    """Says what it was asked for."""

    def answer_request(self, client: Client, request: HttpRequest) -> None:
        self.send_data(client, build_response(200, "text/plain", request.path.encode() * self.times))

    times = 1


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo(("127.0.0.1", 0))
    server.start()
    yield server
    server.stop()


def ask(port: int, request: bytes = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", timeout: float = 10) -> bytes:
    """The whole answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        connection.sendall(request)
        pieces = []
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
        return b"".join(pieces)


def answered(port: int, times: int, wanted: bytes) -> int:
    """How many of so many requests are answered."""
    found = 0
    for _ in range(times):
        try:
            found += wanted in ask(port)
        except OSError:
            pass
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("kind", ["silent", "half", "whole"])
def test_it_answers_under_attack(echo: Echo, kind: str) -> None:
    with Attack(echo.port, kind):
        time.sleep(0.3)
        assert answered(echo.port, 8, b"\r\n\r\n/metrics") >= 6
        assert len(echo.clients) <= MOST_CONNECTIONS
    assert answered(echo.port, 5, b"\r\n\r\n/metrics") == 5


@pytest.mark.parametrize("kind", ["silent", "whole"])
def test_metrics_are_scraped_under_attack(kind: str) -> None:
    readings = []

    def app(environ: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        readings.append(time.monotonic())
        time.sleep(0.02)
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"sonde_calls_total 7\n"]
    server = _ScrapeServer(("127.0.0.1", 0), app)
    server.start()
    try:
        with Attack(server.port, kind):
            time.sleep(0.3)
            begun = len(readings), time.monotonic()
            assert answered(server.port, 8, b"sonde_calls_total 7") >= 6
            assert len(readings) - begun[0] <= (time.monotonic() - begun[1]) / 0.02 + 2  # one after the other, whatever
    finally:
        server.finish()


def test_who_asks_nothing_is_dropped(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.output.live.bounded.ASK_WITHIN", 0.3)
    with socket.create_connection(("127.0.0.1", echo.port), timeout=30) as connection:
        connection.sendall(b"GET / HTTP")
        assert connection.recv(1) == b""
    assert not echo.clients


def test_who_does_not_read_is_dropped(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.output.live.bounded.READ_WITHIN", 0.3)
    echo.times = 8 << 20
    with socket.create_connection(("127.0.0.1", echo.port), timeout=30) as connection:
        connection.sendall(b"GET /xx HTTP/1.1\r\n\r\n")
        deadline = time.monotonic() + 30
        while not echo.clients and time.monotonic() < deadline:
            time.sleep(0.01)
        while echo.clients and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not echo.clients
    echo.times = 1
    assert b"/after" in ask(echo.port, b"GET /after HTTP/1.1\r\n\r\n")


def test_slow_readers_make_room(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there is room for, none of whom reads."""
    monkeypatch.setattr("sonde.output.live.bounded._EVICTABLE", 0.2)
    echo.times = 2 << 20
    held = [socket.create_connection(("127.0.0.1", echo.port), timeout=30) for _ in range(MOST_CONNECTIONS)]
    try:
        for each in held:
            each.sendall(b"GET /xxxx HTTP/1.1\r\n\r\n")
        deadline = time.monotonic() + 30
        while len(echo.clients) < MOST_CONNECTIONS and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(echo.clients) == MOST_CONNECTIONS
        time.sleep(0.3)
        echo.times = 1
        assert b"/after" in ask(echo.port, b"GET /after HTTP/1.1\r\n\r\n")
    finally:
        for each in held:
            each.close()


def test_without_descriptors_it_waits_and_goes_on(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    accept = socket.socket.accept

    def refused(listener: socket.socket) -> Any:
        calls.append(time.monotonic())
        if len(calls) <= 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return accept(listener)
    monkeypatch.setattr(socket.socket, "accept", refused)
    begun = time.monotonic()
    assert b"/metrics" in ask(echo.port)
    assert calls[3] - calls[0] > 0.3 and len(calls) < 10  # a pause after each, no spinning
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("request_, status", [
    (b"nonsense\r\n\r\n", b"400"), (b"GET http://evil/ HTTP/1.1\r\n\r\n", b"400"), (b"POST / HTTP/1.1\r\n\r\n", b"405"),
    (b"GET /" + b"x" * LARGEST_HEAD + b" HTTP/1.1\r\n\r\n", b"431"), (b"GET / HTTP/1.1\r\n\xff: \x00\r\n\r\n", b"200"),
    (b"GET / HTTP/2\r\n\r\n", b"400"), (b"\r\n\r\n", b"400"), (b"GET / HTTP/1.0\n\n", b"200")])
def test_odd_requests(echo: Echo, request_: bytes, status: bytes) -> None:
    assert ask(echo.port, request_).startswith(b"HTTP/1.1 " + status)


def test_headers_are_found_in_any_case_of_letters() -> None:
    found = parse_request(b"GET /a?b HTTP/1.1\r\nHOST:  x:1 \r\nAccept: y\r\n\r\nbody")
    assert found is not None and (found.method, found.path) == ("GET", "/a?b")
    assert found.headers == {"host": "x:1", "accept": "y"}


@pytest.mark.parametrize("host, here", [
    ("127.0.0.1:9941", True), ("localhost", True), ("LOCALHOST:80", True), ("[::1]:9941", True), ("10.1.2.3", True),
    (f"{os.uname().nodename}:9941", True), ("monitored:1", True), ("evil.example", False),
    ("127.0.0.1.evil.example", False), ("localhost.evil.example:9941", False), ("", False), ("[evil]", False)])
def test_hosts(host: str, here: bool) -> None:
    assert is_named_here(host, own_names("monitored")) == here


def test_metrics_are_not_for_pages_of_other_origins() -> None:
    def app(environ: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"1"]
    server = _ScrapeServer(("127.0.0.1", 0), app)
    server.start()
    try:
        assert ask(server.port, b"GET / HTTP/1.1\r\nHost: evil.example:9941\r\n\r\n").startswith(b"HTTP/1.1 403")
        assert ask(server.port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1:9941\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert ask(server.port, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
    finally:
        server.finish()


def test_the_end_waits_for_no_browser_where_there_is_none() -> None:
    server = PageServer()
    server.close()
    assert server._http.nobody.is_set()
