"""Two network namespaces joined by a veth pair, and sockets in them; made and removed by the tests.

A socket stays in the namespace that it was made in, whoever uses it: so client and server can both be this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import select
import socket as sockets
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

CLONE_NEWNET = 0x40000000
T = TypeVar("T")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Namespace:
    """A network namespace with one end of the pair, at ``v4`` and ``v6``."""

    def __init__(self, name: str, device: str, number: int) -> None:
        self.name, self.device = name, device
        self.v4, self.v6 = f"10.77.{os.getpid() % 200}.{number}", f"fd77::{number}"

    def configure(self) -> None:
        """Bring the device up, with as little as may be of what the kernel sends of itself: without a link-local
        address it looks for no router and for no other owner of the address, and tells its groups at once."""
        ip("-n", self.name, "link", "set", "lo", "up")
        settings = Path("/proc/sys/net/ipv6/conf", self.device)
        with contextlib.suppress(OSError):  # of a container whose /proc/sys cannot be written to
            self.within(lambda: (settings / "addr_gen_mode").write_text("1"))
            self.within(lambda: (settings / "mldv2_unsolicited_report_interval").write_text("10"))  # ms, at most
        ip("-n", self.name, "link", "set", self.device, "up")
        self.address("add")

    def address(self, word: str) -> None:
        """"add" or "del" both addresses."""
        ip("-n", self.name, "addr", word, f"{self.v4}/24", "dev", self.device)
        ip("-n", self.name, "addr", word, f"{self.v6}/64", "dev", self.device, "nodad")

    def tc(self, *words: str) -> str:
        """The output of tc in here."""
        done = subprocess.run(["tc", "-n", self.name, *words], check=True, capture_output=True, text=True)
        return done.stdout

    def within(self, function: Callable[[], T]) -> T:
        """Call ``function`` in a thread that has entered the namespace."""
        found: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                with open(f"/run/netns/{self.name}") as file:
                    if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                        raise OSError(ctypes.get_errno(), "setns")
                found.append(function())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return found[0]

    def socket(self, family: int = sockets.AF_INET, kind: int = sockets.SOCK_STREAM,
               protocol: int = 0) -> sockets.socket:
        return self.within(lambda: sockets.socket(family, kind, protocol))

    def listener(self, family: int = sockets.AF_INET, backlog: int = 5) -> sockets.socket:
        sock = self.socket(family)
        sock.bind((self.v6 if family == sockets.AF_INET6 else self.v4, 0))
        sock.listen(backlog)
        return sock

    def counters(self) -> dict[str, int]:
        """The namespace's SNMP counters: ``TcpRetransSegs``, ``TcpExtTCPLossProbes``, ``Ip6InReceives`` ..."""
        return self.within(read_counters)


def read_counters() -> dict[str, int]:
    """The counters of /proc/net/{snmp,netstat,snmp6} in this thread's namespace."""
    found: dict[str, int] = {}
    for file in ("snmp", "netstat"):
        with open(f"/proc/thread-self/net/{file}") as text:
            lines = text.read().splitlines()
        for names, values in zip(lines[::2], lines[1::2]):
            group = names.split()[0].rstrip(":")
            found |= {group + n: int(v) for n, v in zip(names.split()[1:], values.split()[1:])}
    with open("/proc/thread-self/net/snmp6") as text:
        found |= {line.split()[0]: int(line.split()[1]) for line in text}
    return found


class Pair:
    """``with Pair() as (a, b)``: two namespaces, each reaching the other."""

    made = itertools.count()

    def __enter__(self) -> Self:
        tag = f"{os.getpid() % 100000}x{next(self.made)}"
        self.a = Namespace(f"sonde{tag}a", f"sa{tag}", 1)
        self.b = Namespace(f"sonde{tag}b", f"sb{tag}", 2)
        for one in (self.a, self.b):
            ip("netns", "add", one.name)
        ip("link", "add", self.a.device, "netns", self.a.name, "type", "veth",
           "peer", "name", self.b.device, "netns", self.b.name)
        for one in (self.a, self.b):
            one.configure()
        return self

    def __iter__(self) -> Iterator[Namespace]:
        return iter((self.a, self.b))

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for one in (self.a, self.b):
            subprocess.run(["ip", "netns", "del", one.name], check=False, capture_output=True)


def port_of(sock: sockets.socket) -> int:
    return int(sock.getsockname()[1])


def receive(sock: sockets.socket, size: int) -> int:
    """Read ``size`` bytes; how many calls that took."""
    calls = 0
    while size > 0:
        chunk = sock.recv(size)
        if not chunk:
            raise ConnectionError("the other side hung up")
        size -= len(chunk)
        calls += 1
    return calls


def connected(client: Namespace, listener: sockets.socket) -> tuple[sockets.socket, sockets.socket]:
    """(client's socket, server's socket) of a new connection."""
    sock = client.socket(listener.family)
    sock.connect(listener.getsockname()[:2])
    return sock, listener.accept()[0]


def converse(client: Namespace, listener: sockets.socket, sent: int, answered: int) -> tuple[int, int]:
    """A connection over which ``sent`` bytes go and ``answered`` come back; its ports."""
    near, far = connected(client, listener)
    ports = port_of(near), port_of(far)
    near.sendall(b"x" * sent)
    receive(far, sent)
    far.sendall(b"y" * answered)
    receive(near, answered)
    near.close()
    assert far.recv(1) == b""
    far.close()
    return ports


def echo_request(family: int, identifier: int, sequence: int) -> bytes:
    """An ICMP echo request, without the headers before it."""
    kind = 8 if family == sockets.AF_INET else 128
    packet = struct.pack("!BBHHH", kind, 0, 0, identifier, sequence) + b"sonde"*4
    total = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    total = (total & 0xffff) + (total >> 16)
    return packet[:2] + struct.pack("!H", ~total & 0xffff) + packet[4:]


def growth(counters: dict[str, int], again: dict[str, int], *names: str) -> list[int]:
    """By how much the counters called ``names`` have grown."""
    return [again[name] - counters[name] for name in names]


TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000


class Relay:
    """A second link between the two, over devices whose wire this process is: each packet takes ``delay`` seconds.

    Addresses are ``v4[0]``, ``v4[1]``, ``v6[0]``, ``v6[1]``; the devices ``devices[0]``, ``devices[1]``.
    """

    def __init__(self, pair: tuple[Namespace, Namespace], delay: float) -> None:
        self.pair, self.delay = pair, delay
        tag = f"{os.getpid() % 100000}"
        self.devices = f"ra{tag}", f"rb{tag}"
        self.v4 = tuple(f"10.79.{os.getpid() % 200}.{n}" for n in (1, 2))
        self.v6 = tuple(f"fd79::{n}" for n in (1, 2))
        self.stopping = False

    def __enter__(self) -> Self:
        self.fds = [one.within(lambda name=name: self._tap(name)) for one, name in zip(self.pair, self.devices)]
        for one, name, four, six in zip(self.pair, self.devices, self.v4, self.v6):
            ip("-n", one.name, "link", "set", name, "up")
            ip("-n", one.name, "addr", "add", f"{four}/24", "dev", name)
            ip("-n", one.name, "addr", "add", f"{six}/64", "dev", name, "nodad")
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        return self

    @staticmethod
    def _tap(name: str) -> int:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        return fd

    def _run(self) -> None:
        pending: list[tuple[float, int, int, bytes]] = []
        number = 0
        while not self.stopping:
            wait = max(0.0, pending[0][0] - time.monotonic()) if pending else 0.05
            for fd in select.select(self.fds, [], [], min(wait, 0.05))[0]:
                number += 1
                other = self.fds[1 - self.fds.index(fd)]
                heapq.heappush(pending, (time.monotonic() + self.delay, number, other, os.read(fd, 70000)))
            while pending and pending[0][0] <= time.monotonic():
                _, _, fd, packet = heapq.heappop(pending)
                os.write(fd, packet)

    def __exit__(self, *unused: object) -> None:
        self.stopping = True
        self.thread.join()
        for fd in self.fds:
            os.close(fd)
