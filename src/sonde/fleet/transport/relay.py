"""What a Dask worker runs: the bytes between an agent's socket and the coordinator. The workers get this file as text
(:mod:`.dask`) and may be of another Python, from 3.10 on, and without Sonde: it imports the standard library alone."""

from __future__ import annotations

import asyncio

_PIECE = 1 << 20  # bytes that are passed on at once
_LINGER = 0.002   # s that a worker waits for more of what has begun to come: each message costs Dask a millisecond


class Relay:
    """An actor on a worker: the connection to the agent of its host."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def _stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self._streams is not None
        return self._streams

    async def open_socket(self) -> str:
        """Connect; "" or what kept it from that."""
        try:
            self._streams = await asyncio.open_unix_connection(self._path)
        except OSError as error:
            return f"no agent listens at {self._path}: {error.strerror}"
        return ""

    async def read_bytes(self, seconds: float) -> bytes | None:
        """What the agent sends next, and what follows at once; b"" at the end, None if nothing comes for so long."""
        try:
            data = await asyncio.wait_for(self._stream[0].read(_PIECE), seconds)
        except asyncio.TimeoutError:  # noqa: UP041  (until Python 3.11 this is not TimeoutError)
            return None
        except OSError:
            return b""
        try:
            if data:
                data += await asyncio.wait_for(self._stream[0].read(_PIECE), _LINGER)
        except (OSError, asyncio.TimeoutError):  # noqa: UP041
            pass
        return data

    async def write_bytes(self, data: bytes) -> None:
        """Send this to the agent."""
        self._stream[1].write(data)
        await self._stream[1].drain()

    async def close_socket(self) -> None:
        """Hang up."""
        self._stream[1].close()
