"""The tools on kernels where they go another way than here, or whose queueing disciplines are not here."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator

import pytest

from kernel_survey import try_tools

# The live tier's own tests, with their oracles, of the tools that choose their probes by the kernel.
from live.conftest import pair  # noqa: F401
from live.test_tools_network import test_udplife  # noqa: F401
from live.test_tools_sockets import listening, own_name, test_socketio_bytes, test_solife, test_sormem  # noqa: F401
from live.test_tools_tcp import test_tcpdrop, test_tcptop  # noqa: F401
from namespaces import Namespace
from support import Tracer, without_counters

# Before Linux 5.13 programs cannot go through a map, before 5.17 not through a million rounds; tcp:tcp_cong_state_set
# came with 5.16; Debian builds its kernels for clouds without wireless networks.
UNABLE = {"5.10": {"biotop", "bqllat", "filetop", "funcprofile", "memleak", "netqtop", "skbstages", "slabratetop",
                   "tcpcong", "tcptop", "biopattern", "cachetop", "compactsnoop", "dirtop", "klockstat", "kvmexit",
                   "readahead", "virtiostat", "biolatpcts"},
          # kvm_exit tells of no virtual CPU on aarch64.
          "6.1 aarch64": {"kvmexit"}, "6.12 aarch64": {"kvmexit"}, "7.2 aarch64": {"kvmexit"}}
DATAGRAMS, SIZE = 20, 1000
DELAY = 20_000  # us, of netem
QUEUES = {
    "netem": f"netem delay {DELAY}us",
    "tbf": "tbf rate 1mbit burst 2kb limit 100kb",
    "red": "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.02",
    "cbs": "cbs idleslope 20000 sendslope -980000 hicredit 30 locredit -1470 offload 0",
    "fq": "fq quantum 1514 initial_quantum 1514 maxrate 1mbit",
    "codel": "codel",
    "fq_codel": "fq_codel",
}
BYPASSED = {"codel", "fq_codel"}  # they let a packet pass by an empty queue (TCQ_F_CAN_BYPASS): nothing waits


@pytest.fixture
def family() -> socket.AddressFamily:
    """Of the live tier's two, the one with the longer addresses."""
    return socket.AF_INET6


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listening(socket.AF_INET6) as sock:
        yield sock


@pytest.mark.timeout(900)  # twice 113 tools are compiled
def test_every_tool_works_or_says_why() -> None:
    """What doctor says of each is what then happens: it attaches, or is refused for the same reason, in a sentence."""
    happened, wrong = try_tools()
    assert not wrong, {name: happened[name] for name in wrong}
    broken = {name for name, obstacle in happened.items() if obstacle} - set(without_counters())
    assert broken == {"ieee80211scan", "criticalstat"} | UNABLE.get(os.environ["SONDE_VM"], set())


def burst(a: Namespace, b: Namespace) -> float:
    """Send the datagrams at once; the seconds that it took."""
    with a.socket(kind=socket.SOCK_DGRAM) as client:
        begun = time.monotonic()
        for _ in range(DATAGRAMS):
            client.sendto(b"x" * SIZE, (b.v4, 9))
        return time.monotonic() - begun


def sent(a: Namespace) -> int:
    """Packets that the root discipline has sent, as tc counts them."""
    text = a.tc("-s", "qdisc", "show", "dev", a.device)
    return int(re.search(r"Sent \d+ bytes (\d+) pkt", text)[1])  # type: ignore[index]


def test_qdiscs(pair: tuple[Namespace, Namespace]) -> None:  # noqa: F811
    """A burst through each kind: as many packets as tc counts, none earlier than the discipline lets it go."""
    a, b = pair
    burst(a, b)  # the neighbour is known from here on
    packets, taken, whole = {}, {}, {}
    with Tracer("qdisclat", "-s", "-i", a.device, timeout=150) as tracer:
        for kind, words in QUEUES.items():
            a.tc("qdisc", "add", "dev", a.device, "root", *words.split())
            begun = time.monotonic()
            taken[kind] = burst(a, b)
            while sent(a) < DATAGRAMS and time.monotonic() < begun + 10:
                time.sleep(0.05)
            packets[kind], whole[kind] = sent(a), time.monotonic() - begun
            a.tc("qdisc", "del", "dev", a.device, "root")
    found = {kind: (int(n), int(total)) for kind, n, total in
             re.findall(r"^@wait\[(\w+)\]: { .count = (\d+), .average = \d+, .total = (\d+) }$", tracer.stdout, re.M)}
    assert set(found) - {"noqueue"} == set(QUEUES) - BYPASSED, tracer.stdout
    assert "@unmatched" not in tracer.stdout
    for kind, (count, total) in found.items():
        assert DATAGRAMS <= packets[kind] == count, (kind, tracer.stdout)
        assert total <= count * whole[kind] * 1e6
    assert found["netem"][1] >= DATAGRAMS * DELAY
    rate, bucket, wire = 125_000, 2048, SIZE + 42
    least = sum(max(0, (k * wire - bucket) / rate - taken["tbf"]) for k in range(1, DATAGRAMS + 1))
    assert found["tbf"][1] >= least * 1e6
