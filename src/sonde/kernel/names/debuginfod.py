"""Debug files by build id from servers that speak debuginfod's protocol: GET URL/buildid/BUILDID/debuginfo.

Nobody is asked unless DEBUGINFOD_URLS or --debuginfod names servers. Answers go to the store as they come, within
bounds; only the reader of foreign files looks into them.
"""

from __future__ import annotations

import time

from ...base.fast_stdlib import TypeVar
from .. import notices, places
from . import symbol_store

T = TypeVar("T")
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.client import HTTPResponse
    from socket import socket
    from typing import Any
    from urllib.request import BaseHandler, Request

MOST = 512 << 20         # bytes of a debug file
SILENCE = 5.0            # s that a server may be silent
WHOLE, ALL = 60.0, 120.0  # s for one file, and for all of a run
AT_THE_END = 15.0        # s for all questions once the run is to end
HURRY = 0.9              # s that a question may still take when the end of the run is asked for meanwhile
_LOOK = 0.1              # s between two looks whether that is so
_PART = 1 << 16


class _BadAnswerError(OSError):
    """An unacceptable answer."""


class DebuginfodClient:
    """Asks each server about each build id once. One that does not answer is not asked again."""

    def __init__(self) -> None:
        self._requested: set[bytes] = set()
        self._failed: set[str] = set()
        self._spent = 0.0
        self._hurried = 0.0  # s that were spent after the run was to end

    def fetch_debug_file(self, build_id: bytes, open_stored: Callable[[], T | None]) -> T | None:
        """Put the debug file of a build id into the store: what ``open_stored`` makes of it; None if there is none."""
        if len(build_id) < 8 or build_id in self._requested:
            return None
        self._requested.add(build_id)
        for server in places.debuginfod_servers():
            if server in self._failed:
                continue
            begin, hurried = time.monotonic(), notices.is_hurried()
            left = min(ALL - self._spent, AT_THE_END - self._hurried if hurried else WHOLE, WHOLE)
            if left <= 0:
                self._give_up(server, "the time for it is over")
                continue
            problem = _Request(server, build_id, begin + left).wait_for_answer()
            took = time.monotonic() - begin
            self._spent += took
            self._hurried += took if hurried else 0
            if problem is None:
                if (file := open_stored()) is not None:
                    return file
                symbol_store.drop_debug_file(build_id)
                problem = f"gave a file that is not of build id {build_id.hex()}"
            if problem:
                self._give_up(server, problem)
        return None

    def _give_up(self, server: str, why: str) -> None:
        self._failed.add(server)
        notices.show_notice(f"WARNING: debuginfod server {server} is not asked any more: {why}")


class _Request:
    """One request, made by a thread of its own, so that the caller waits no longer than its time or the run lasts,
    whatever is slow: name resolution, handshakes, headers, sizes of chunks, endless answers."""

    def __init__(self, server: str, build_id: bytes, end: float) -> None:
        self._server = server
        self._build_id = build_id
        self._end = end
        self._over = False
        self._sockets: list[socket] = []
        self._problem: str | None = "it is too slow"

    def wait_for_answer(self) -> str | None:
        """None: it is in the store. Otherwise what is wrong with the server; "": nothing, it does not have the file."""
        from threading import Thread
        hurried = notices.is_hurried()
        asking = Thread(target=self._ask, name="sonde-debuginfod", daemon=True)
        asking.start()
        try:
            while asking.is_alive() and (left := self._end - time.monotonic()) > 0:
                asking.join(min(left, _LOOK))
                if not hurried and notices.is_hurried():
                    hurried, self._end = True, min(self._end, time.monotonic() + HURRY)
        finally:
            self._over = asking.is_alive()
            if self._over:
                self._hang_up()
        return "it is too slow" if self._over else self._problem

    def _hang_up(self) -> None:
        """Shut the sockets down, which ends the thread."""
        from socket import SHUT_RDWR
        for each in self._sockets:
            try:
                each.shutdown(SHUT_RDWR)
            except OSError:
                pass

    def _connect(self, *args: Any, **named: Any) -> socket:
        from socket import create_connection
        made = create_connection(*args, **named)
        self._sockets.append(made)
        if self._over:
            raise _BadAnswerError
        return made

    def _ask(self) -> None:
        self._problem = self._store_answer()

    def _store_answer(self) -> str | None:
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import (
            HTTPDefaultErrorHandler,
            HTTPErrorProcessor,
            HTTPRedirectHandler,
            OpenerDirector,
            ProxyHandler,
            Request,
        )
        opener = OpenerDirector()  # without the handlers for files and FTP, to which an answer might redirect
        for handler in (ProxyHandler(), *_make_handlers(self._connect), HTTPRedirectHandler(), HTTPErrorProcessor(),
                        HTTPDefaultErrorHandler()):
            opener.add_handler(handler)
        try:
            request = Request(f"{self._server}/buildid/{self._build_id.hex()}/debuginfo",
                              headers={"User-Agent": "sonde"})
            seconds = max(min(SILENCE, self._end - time.monotonic()), 0.1)
            with opener.open(request, timeout=seconds) or _no_answer() as answer:
                stored = symbol_store.put_debug_file(self._build_id, self._read_parts(answer))
            return None if stored else "its answer was cut off, is too large or too slow, or cannot be stored"
        except HTTPError as error:
            error.close()
            return "" if error.code in (404, 406, 410) else f"it answers with status {error.code}"
        except (OSError, HTTPException, ValueError) as error:
            return str(getattr(error, "reason", error)) or type(error).__name__

    def _read_parts(self, answer: HTTPResponse) -> Iterator[bytes]:
        for part in _read_parts(answer, self._end):
            if self._over:
                raise _BadAnswerError
            yield part
        if self._over:  # the caller has given up: store nothing
            raise _BadAnswerError


def _make_handlers(connect: Callable[..., socket]) -> list[BaseHandler]:
    """The handlers of HTTP and HTTPS, whose connections are made by ``connect``."""
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.request import HTTPHandler, HTTPSHandler

    def make(kind: type[HTTPConnection]) -> Callable[..., HTTPConnection]:
        def make_connection(*args: Any, **named: Any) -> HTTPConnection:
            made: Any = kind(*args, **named)
            made._create_connection = connect
            connection: HTTPConnection = made
            return connection
        return make_connection

    class Plain(HTTPHandler):
        def http_open(self, req: Request) -> HTTPResponse:
            return self.do_open(make(HTTPConnection), req)

    class Secure(HTTPSHandler):
        def https_open(self, req: Request) -> HTTPResponse:
            return self.do_open(make(HTTPSConnection), req)
    return [Plain(), Secure()]


def _no_answer() -> HTTPResponse:
    raise _BadAnswerError("it leads to what is not HTTP")


def _read_parts(answer: HTTPResponse, end: float) -> Iterator[bytes]:
    """The body. OSError if it is cut off, too large or too slow."""
    from http.client import HTTPException
    declared = answer.headers.get("Content-Length", "")
    size = int(declared) if declared.isascii() and declared.isdecimal() and len(declared) < 16 else -1
    read = 0
    while True:
        if time.monotonic() > end or max(read, size) > MOST:
            raise _BadAnswerError
        try:
            part = answer.read1(_PART)
        except HTTPException as error:
            raise _BadAnswerError(str(error)) from None
        if not part:
            break
        read += len(part)
        yield part
    if size >= 0 and read != size:
        raise _BadAnswerError


_shared: list[DebuginfodClient] = []


def fetch_debug_file(build_id: bytes, open_stored: Callable[[], T | None]) -> T | None:
    """Ask the servers that are configured; see DebuginfodClient."""
    if not _shared:
        _shared.append(DebuginfodClient())
    return _shared[0].fetch_debug_file(build_id, open_stored)
