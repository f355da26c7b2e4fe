"""Fleets on a Dask cluster: a worker of each host, which has no rights of its own, reaches the agent beside it by the
agent's Unix socket and passes bytes on.

The bytes are the frames of :mod:`.protocol`; Dask's own serialization carries them and nothing else, and the agent
never sees any of it. Workers need no Sonde: they are sent :mod:`.relay` as text, which any Python of theirs can read,
where code pickled by value would be the bytecode of ours. A cluster is one trust domain: whoever may submit tasks to it
may ask the agents what their policy lets the workers' user ask. Needs the extra ``fleet``.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from inspect import getsource
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from ...errors import UsageError
from ..state.member import clean_line
from .connection import Connection, Transport
from .relay import Relay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future

    import distributed

SOCKET_PATH = "/run/sonde/agent.socket"
READS = 440       # that wait at once: each keeps one of the 512 connections that Dask has at most, and writes need some
TURN = 2.0        # s that a read waits if there are more hosts than that
CLOSING = 5.0     # s that what is on its way has at the end
_LONG = 3600.0    # s that a read waits else
_PIECE = 1 << 20  # bytes that are passed on at once
# Run by a worker: what ``relay``, the text of that module, calls Relay.
_MAKE = "[space := {}, exec(relay, space), space['Relay'](path)][-1]"


class DaskTransport(Transport):
    """The workers of a cluster as hosts, one of each machine unless ``every`` is said; ``path`` is the agent's socket
    on each. ``client`` is a distributed.Client, or a scheduler's address: one that is not on loopback has to have
    TLS (``tls://``), since Dask's control messages are pickled."""

    clock_pause = 10.0
    message_seconds = 0.005

    def __init__(self, client: distributed.Client | str, path: str = SOCKET_PATH, every: bool = False) -> None:
        super().__init__()
        self._path = path
        self._own = isinstance(client, str)
        if isinstance(client, str):
            require_safe(client)
            client = _connect_client(client)
        else:
            require_safe(client.scheduler.address)
        self._client = client
        self._workers = _workers_of(client, every)
        self._relay = getsource(sys.modules[Relay.__module__])
        self._turns = asyncio.Semaphore(READS)
        self._passing: list[Future[None]] = []

    @property
    def hosts(self) -> list[str]:
        """The names of the workers."""
        return list(self._workers)

    def connect(self, host: str, seconds: float) -> Connection:
        ours, theirs = socket.socketpair()
        connection = RelayConnection(ours, None)
        worker = self._workers[host]
        made = self._client.submit(eval, _MAKE, {"relay": self._relay, "path": self._path}, workers=[worker],
                                   key=f"sonde-relay-{uuid4()}", allow_other_workers=False, retries=0, actor=True)
        passing = self._pass_bytes(made, worker, theirs, connection)
        self._passing.append(asyncio.run_coroutine_threadsafe(passing, self._client.loop.asyncio_loop))
        return connection

    async def _pass_bytes(self, made: distributed.Future, worker: str, end: socket.socket,
                          connection: RelayConnection) -> None:
        """Pass bytes on between an actor and a connection's other end, until both have no more. ``made`` is held as
        long: a worker forgets the actor of which nobody has the future. The actor is addressed from here, and not
        fetched: what a worker makes of its class is pickled."""
        from distributed import Actor
        reader, writer = await asyncio.open_connection(sock=end)
        try:
            if problem := await made.exception(asynchronous=True):
                raise problem
            with self._client.as_current():  # which an Actor looks for; there may be none, or that of another cluster
                actor = Actor(Relay, worker, made.key)
                connection.problem = await actor.open_socket()
                if not connection.problem:
                    await asyncio.gather(self._pass_from_agent(actor, writer), _pass_to_agent(actor, reader))
        except Exception as error:  # whatever Dask raises when a worker has gone
            connection.problem = f"Dask: {error or type(error).__name__}"
        finally:
            writer.close()

    async def _pass_from_agent(self, actor: Any, writer: asyncio.StreamWriter) -> None:
        seconds = TURN if len(self._workers) > READS else _LONG
        data: bytes | None = None
        while data != b"":
            async with self._turns:
                data = await actor.read_bytes(seconds)
            if data:
                writer.write(data)
                await writer.drain()
        writer.write_eof()

    def close(self) -> None:
        """Let go of the workers, once what is on its way to them has come there."""
        from concurrent.futures import wait
        for passing in wait(self._passing, CLOSING).not_done:
            passing.cancel()
        wait(self._passing, CLOSING)
        if self._own:
            self._client.close()


class RelayConnection(Connection):
    """A connection whose other end is in a worker; ``problem`` is what Dask says of it."""

    problem = ""

    def read_stderr(self) -> list[str]:
        return self.problem.splitlines()


async def _pass_to_agent(actor: Any, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(_PIECE):
        await actor.write_bytes(data)
    await actor.close_socket()


def require_safe(address: str) -> None:
    """UsageError for a scheduler that others could reach, or listen to, without TLS."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme not in ("tls", "inproc") and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(f"the scheduler at {address} has no TLS: who can reach it could run code on every worker",
                         ["tls://...; only on loopback it may be without"])
    if os.geteuid() == 0 and parts.scheme not in ("tls", "inproc") and not _root_listens(parts.port or 0):
        raise UsageError(f"root does not connect to {address}: whoever listens there could run code as root",
                         ["tls://... with certificates, a scheduler that root has started, or another user's account: "
                          "the agents, not the coordinator, need rights"])


def _root_listens(port: int) -> bool:
    """Whether all sockets that listen at a TCP port of this machine are root's, and there are some (proc_net_tcp:
    local_address, st 0A and uid)."""
    users = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        users += [row[7] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]
    return bool(users) and set(users) == {"0"}


def _connect_client(address: str) -> distributed.Client:
    try:
        from distributed import Client, Security
    except ModuleNotFoundError as error:
        from ...base.installation import install_command
        raise UsageError(f"--dask needs the Python package {error.name}", [install_command("fleet")]) from None
    if address.startswith("tls:") and Security().get_connection_args("client").get("ssl_context") is None:
        raise UsageError(f"the scheduler at {address} has TLS, and Dask's configuration no certificate", [
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT, __CLIENT__KEY; or distributed.comm.tls in a file"])
    try:
        return Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"no scheduler at {address}: {error}",
                         ["certificates are Dask's: distributed.comm.tls in its configuration"]) from None


def _workers_of(client: distributed.Client, every: bool) -> dict[str, str]:
    """Addresses of workers by name: of each machine the first, or all."""
    workers: dict[str, str] = {}
    machines = set()
    for address, worker in sorted(client.scheduler_info(n_workers=-1)["workers"].items()):
        if every or worker["host"] not in machines:
            machines.add(worker["host"])
            workers[clean_line(str(worker["name"]))] = address
    if not workers:
        raise UsageError("the cluster has no workers")
    return workers
