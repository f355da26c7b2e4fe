"""Debug files from a server that speaks debuginfod's protocol, on loopback: what it gives, and what it may not do."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from debuginfod_server import Answer, Server, send
from sonde.kernel import notices, places
from sonde.kernel.foreign import files
from sonde.kernel.names import debuginfod, symbol_store
from support import compile_c, run_sonde

SOURCE = """
static __attribute__((noinline)) int hidden(int n) { return n * 3 + 1; }
int main(int argc, char **argv) { return hidden(argc); }
"""
@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(notices, "tell", said.append)
    monkeypatch.setattr(debuginfod, "_shared", [])
    monkeypatch.setattr(places, "debuginfod_urls", None)
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return said


class Program:
    """A program that has been stripped, and its debug file."""

    def __init__(self, folder: Path) -> None:
        whole = compile_c(SOURCE, folder, "whole", "-Wl,--build-id", f"-DFOLDER={hash(folder)}", "-g")
        self.debug, self.bare = folder / "whole.debug", folder / "bare"
        subprocess.run(["objcopy", "--only-keep-debug", whole, self.debug], check=True)
        subprocess.run(["strip", "-o", self.bare, whole], check=True)
        file = files.open_elf(str(whole))
        self.build_id = file.build_id
        self.address = next(each.address for each in file.functions() if each.name == "hidden")

    def name(self) -> str:
        """Of the function, as a new look at the file finds it."""
        os.utime(self.bare)
        found = files.open_elf(str(self.bare)).function_at(self.address)
        return found[0] if found else ""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_nobody_is_asked_unless_it_is_wished(program: Program, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files[program.build_id.hex()] = program.debug.read_bytes()
    assert program.name() == "" and server.asked == []
    monkeypatch.setenv("DEBUGINFOD_URLS", f"{server.url} ima:enforcing file:///tmp ftp://127.0.0.1/")
    places.set_debuginfod_servers("")
    assert program.name() == "" and server.asked == []


def test_a_debug_file(program: Program, server: Server, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    """It is asked for once, and stays for later runs; names and source lines are those of the debug file."""
    monkeypatch.setenv("DEBUGINFOD_URLS", f"ima:enforcing {server.url}/")
    server.files[program.build_id.hex()] = program.debug.read_bytes()
    assert program.name() == "hidden"
    assert server.asked == [f"/buildid/{program.build_id.hex()}/debuginfo"]
    assert [entry.build_id for entry in symbol_store.list_symbols(symbol_store.DEBUG)] == [program.build_id.hex()]
    monkeypatch.setattr(debuginfod, "_shared", [])
    assert program.name() == "hidden" and len(server.asked) == 1
    place = files.open_elf(str(program.bare)).code_places(program.address)
    assert [(name, line) for name, _, line in place] == [("hidden", 2)]
    assert told == []


def test_what_it_does_not_have_is_asked_once(program: Program, server: Server, told: list[str]) -> None:
    places.set_debuginfod_servers(server.url)
    assert program.name() == program.name() == ""
    assert len(server.asked) == 1 and told == []


def test_the_next_server_is_asked(program: Program, server: Server, told: list[str]) -> None:
    """The first is not there, which is said; the second has another file."""
    other = Server()
    try:
        other.files["ab" * 20] = b"x"
        server.files[program.build_id.hex()] = program.debug.read_bytes()
        places.set_debuginfod_servers(f"http://127.0.0.1:1 {other.url} {server.url}")
        assert program.name() == "hidden"
        assert len(other.asked) == len(server.asked) == 1
        assert len(told) == 1 and "http://127.0.0.1:1 is not asked any more" in told[0]
    finally:
        other.close()


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(bytes(1 << 16))
    except OSError:
        pass


def dripping(handler: BaseHTTPRequestHandler) -> None:
    """Never silent for long, and never done."""
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(200):
            handler.wfile.write(b"x")
            time.sleep(0.05)
    except OSError:
        pass


def redirecting(to: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", to)
        handler.end_headers()
    return answer


@pytest.mark.parametrize("what", ["endless", "claims too much", "cut off", "silent", "dripping", "status 500",
                                  "nonsense", "another file", "leads to a file", "leads in a circle", "no HTTP"])
def test_a_server_that_does_wrong(what: str, program: Program, server: Server, tmp_path: Path, told: list[str],
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no effect but a warning: nothing of it stays, and it is not asked again."""
    monkeypatch.setattr(debuginfod, "MOST", 1 << 20)
    monkeypatch.setattr(debuginfod, "SILENCE", 0.5)
    monkeypatch.setattr(debuginfod, "WHOLE", 2.0)
    (tmp_path / "b").mkdir()
    other = Program(tmp_path / "b")
    whole = program.debug.read_bytes()
    server.answer = {
        "endless": endless, "dripping": dripping,
        "claims too much": lambda h: send(h, 200, b"x", 1 << 50),
        "cut off": lambda h: send(h, 200, whole[:-1], len(whole)),
        "silent": lambda h: time.sleep(1.5),
        "status 500": lambda h: send(h, 500, b""),
        "nonsense": lambda h: send(h, 200, b"nothing"),
        "another file": lambda h: send(h, 200, b"\x7fELF" + bytes(100)),
        "leads to a file": redirecting(f"file://{program.debug}"),
        "leads in a circle": redirecting("/buildid/x/debuginfo"),
        "no HTTP": lambda h: h.wfile.write(b"\x16\x03\x01" * 100),
    }[what]
    places.set_debuginfod_servers(server.url)
    begin = time.monotonic()
    assert program.name() == ""
    assert time.monotonic() - begin < 30
    asked = len(server.asked)
    assert other.name() == "" and len(server.asked) == asked
    assert len(told) == 1 and "is not asked any more" in told[0]
    assert symbol_store.list_symbols(symbol_store.DEBUG) == []
    assert list(Path(os.environ["XDG_CACHE_HOME"]).glob("sonde/debuginfo*")) == []


def trickle(*pieces: bytes) -> Callable[[socket.socket], None]:
    """A server that sends the last piece again and again, a little at a time, and never ends."""
    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        for piece in pieces[:-1]:
            connection.sendall(piece)
        while True:
            connection.sendall(pieces[-1])
            time.sleep(0.02)
    return answer


SLOW = {
    "a header": trickle(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
    "a status": trickle(b"HTTP/1.1 200 ", b"O"),
    "continue": trickle(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a chunk's size": trickle(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "a body": trickle(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
}


@pytest.fixture
def slow_server(request: pytest.FixtureRequest) -> Iterator[str]:
    def serve() -> None:
        try:
            while True:
                connection, _ = listening.accept()
                with connection:
                    try:
                        SLOW[request.param](connection)
                    except OSError:
                        hung_up.set()
        except OSError:
            pass
    hung_up = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert hung_up.wait(20), "the connection to a server that is too slow stays open"
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("slow_server", SLOW, indirect=True)
def test_a_server_that_trickles_is_given_up_in_time(slow_server: str, program: Program, told: list[str],
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debuginfod, "WHOLE", 1.0)
    places.set_debuginfod_servers(slow_server)
    begin = time.monotonic()
    assert program.name() == ""
    assert time.monotonic() - begin < 20  # it would be for ever
    assert len(told) == 1 and "is not asked any more" in told[0]
    assert symbol_store.list_symbols(symbol_store.DEBUG) == []


@pytest.mark.parametrize("slow_server", ["continue", "a header"], indirect=True)
def test_the_end_of_a_run_ends_a_question(slow_server: str, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has 60 s otherwise."""
    places.set_debuginfod_servers(slow_server)
    begin = time.monotonic()
    monkeypatch.setattr(notices, "is_hurried", lambda: time.monotonic() - begin > 0.5)
    assert program.name() == ""
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("kept", [0.5, 0.8, 0.95])
def test_a_damaged_debug_file(kept: float, program: Program, server: Server) -> None:
    """It says that it is the one, and is empty from somewhere on: no name, or the right one."""
    whole = program.debug.read_bytes()
    server.files[program.build_id.hex()] = whole[:int(kept * len(whole))] + bytes(len(whole) - int(kept * len(whole)))
    places.set_debuginfod_servers(server.url)
    assert program.name() in ("", "hidden")


def test_a_redirection(program: Program, server: Server) -> None:
    other = Server()
    try:
        server.answer = redirecting(f"{other.url}/buildid/{program.build_id.hex()}/debuginfo")
        other.files[program.build_id.hex()] = program.debug.read_bytes()
        places.set_debuginfod_servers(server.url)
        assert program.name() == "hidden"
    finally:
        other.close()


def test_the_time_of_a_run_is_limited(program: Program, server: Server, monkeypatch: pytest.MonkeyPatch,
                                      told: list[str]) -> None:
    monkeypatch.setattr(debuginfod, "ALL", 0.0)
    server.files[program.build_id.hex()] = program.debug.read_bytes()
    places.set_debuginfod_servers(server.url)
    assert program.name() == "" and server.asked == []
    assert "the time for it is over" in told[0]


def test_the_option() -> None:
    done = run_sonde("--debuginfod", "file:///tmp", "-e", "begin { exit(); }")
    assert done.returncode == 1 and "begin with http:// or https://" in done.stderr
