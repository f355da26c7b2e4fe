"""Debug files by build id from servers that speak debuginfod's protocol: GET URL/buildid/BUILDID/debuginfo.

Nobody is asked unless DEBUGINFOD_URLS or --debuginfod names servers. Answers go to the store as they come, within
bounds; only the reader of foreign files looks into them.
"""

from __future__ import annotations

import time

from ..basics import TypeVar
from . import notices, places, symbol_store

T = TypeVar("T")
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.client import HTTPResponse

MOST = 512 << 20         # bytes of a debug file
SILENCE = 5.0            # s that a server may be silent
WHOLE, ALL = 60.0, 120.0  # s for one file, and for all of a run
AT_THE_END = 15.0        # s for all questions once the run is to end
_PART = 1 << 16


class _Unfit(OSError):
    """An unacceptable answer."""


class DebuginfodClient:
    """Asks each server about each build id once. One that does not answer is not asked again."""

    def __init__(self) -> None:
        self._asked: set[bytes] = set()
        self._failed: set[str] = set()
        self._spent = 0.0
        self._hurried = 0.0  # s that were spent after the run was to end

    def fetch_debug_file(self, build_id: bytes, open_stored: Callable[[], T | None]) -> T | None:
        """Put the debug file of a build id into the store: what ``open_stored`` makes of it; None if there is none."""
        if len(build_id) < 8 or build_id in self._asked:
            return None
        self._asked.add(build_id)
        for server in places.debuginfod_servers():
            if server in self._failed:
                continue
            begin, hurried = time.monotonic(), notices.is_hurried()
            left = min(ALL - self._spent, AT_THE_END - self._hurried if hurried else WHOLE, WHOLE)
            if left <= 0:
                self._give_up(server, "the time for it is over")
                continue
            problem = _store_answer(server, build_id, begin + left)
            took = time.monotonic() - begin
            self._spent += took
            self._hurried += took if hurried else 0
            if problem is None:
                if (found := open_stored()) is not None:
                    return found
                symbol_store.drop_debug_file(build_id)
                problem = f"gave a file that is not of build id {build_id.hex()}"
            if problem:
                self._give_up(server, problem)
        return None

    def _give_up(self, server: str, why: str) -> None:
        self._failed.add(server)
        notices.show_notice(f"WARNING: debuginfod server {server} is not asked any more: {why}")


def _store_answer(server: str, build_id: bytes, end: float) -> str | None:
    """None: it is in the store. Otherwise what is wrong with the server; "": nothing, it does not have the file."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import (
        HTTPDefaultErrorHandler,
        HTTPErrorProcessor,
        HTTPHandler,
        HTTPRedirectHandler,
        HTTPSHandler,
        OpenerDirector,
        ProxyHandler,
        Request,
    )
    opener = OpenerDirector()  # without the handlers for files and FTP, to which an answer might redirect
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), HTTPRedirectHandler(), HTTPErrorProcessor(),
                    HTTPDefaultErrorHandler()):
        opener.add_handler(handler)
    try:
        request = Request(f"{server}/buildid/{build_id.hex()}/debuginfo", headers={"User-Agent": "sonde"})
        with opener.open(request, timeout=max(min(SILENCE, end - time.monotonic()), 0.1)) or _no_answer() as answer:
            stored = symbol_store.put_debug_file(build_id, _read_parts(answer, end))
        return None if stored else "its answer was cut off, is too large or too slow, or cannot be stored"
    except HTTPError as error:
        error.close()
        return "" if error.code in (404, 406, 410) else f"it answers with status {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__


def _no_answer() -> HTTPResponse:
    raise _Unfit("it leads to what is not HTTP")


def _read_parts(answer: HTTPResponse, end: float) -> Iterator[bytes]:
    """The body. OSError if it is cut off, too large or too slow."""
    from http.client import HTTPException
    told = answer.headers.get("Content-Length", "")
    size = int(told) if told.isascii() and told.isdecimal() and len(told) < 16 else -1
    read = 0
    while True:
        if time.monotonic() > end or max(read, size) > MOST:
            raise _Unfit
        try:
            part = answer.read1(_PART)
        except HTTPException as error:
            raise _Unfit(str(error)) from None
        if not part:
            break
        read += len(part)
        yield part
    if size >= 0 and read != size:
        raise _Unfit


_shared: list[DebuginfodClient] = []


def fetch_debug_file(build_id: bytes, open_stored: Callable[[], T | None]) -> T | None:
    """Ask the servers that are configured; see DebuginfodClient."""
    if not _shared:
        _shared.append(DebuginfodClient())
    return _shared[0].fetch_debug_file(build_id, open_stored)
