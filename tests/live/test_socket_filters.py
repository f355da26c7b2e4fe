"""-F of the tools that have a socket in hand, and no packet: of two connections, the one that the filter takes."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

import pytest

from namespaces import Pair, connected, port_of
from packet_filters import has_libpcap
from printed import rows
from support import Tracer, run_sonde, trace, wait_for

pytestmark = pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair() as made:
        yield made


def talk(pair: Pair, listener: socket.socket) -> tuple[int, int]:
    """A connection of which both sides send, until it is closed: its ports."""
    near, far = connected(pair.a, listener)
    ports = port_of(near), port_of(far)
    for end, other in ((near, far), (far, near)) * 3:
        end.sendall(b"x" * 1000)
        assert other.recv(1000)
    near.close()
    assert not far.recv(1)
    far.close()
    return ports


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize("tool", ["tcplife", "tcpstates", "tcpaccept", "tcptop"])
def test_tools_show_what_the_filter_takes(pair: Pair, tool: str, family: socket.AddressFamily) -> None:
    """The filter looks from here to there: a server's side has the client's port as its destination."""
    remote = pair.b.v4 if family == socket.AF_INET else pair.b.v6
    with pair.b.listener(family) as wanted, pair.b.listener(family) as other:
        port = port_of(wanted)
        filter = f"tcp dst port {port} and dst host {remote}" if tool != "tcpaccept" else f"src port {port}"
        options = ["-C"] if tool == "tcptop" else []
        with Tracer(tool, *options, "-f", "json", "-F", filter) as tracer:
            local, _ = talk(pair, wanted)
            talk(pair, other)
            time.sleep(1.2 if tool == "tcptop" else 0)
    shown = {(row["LPORT"], row["RPORT"]) for row in rows(tracer.stdout)}
    # While it looks for a port of its own, a socket has none.
    assert shown - {(0, port)} == {(port, local) if tool == "tcpaccept" else (local, port)}, tracer.stdout
    assert "WARNING" not in tracer.stderr, tracer.stderr


def test_tcprtt_of_a_filter(pair: Pair) -> None:
    with pair.b.listener() as wanted, pair.b.listener() as other, \
            Tracer("tcprtt", "-s", "-F", f"dst port {port_of(wanted)}") as tracer:
        talk(pair, wanted)
        talk(pair, other)
    assert {*re.findall(r"@srtt\[(.*?)\]", tracer.stdout)} == {pair.b.v4}, tracer.stdout


def test_tcpretrans_of_a_filter(pair: Pair) -> None:
    with pair.b.listener() as wanted, pair.b.listener() as other, \
            Tracer("tcpretrans", "-f", "json", "-F", f"dst port {port_of(wanted)}") as tracer:
        port = port_of(wanted)
        ends = [connected(pair.a, each) for each in (wanted, other)]
        pair.b.address("del")  # nobody answers now
        try:
            before = pair.a.counters()["TcpRetransSegs"]
            for near, _ in ends:
                near.sendall(b"x")
            wait_for(lambda: pair.a.counters()["TcpRetransSegs"] >= before + 6)
        finally:
            pair.b.address("add")
        for each in ends:
            for end in each:
                end.close()
    assert {row["RPORT"] for row in rows(tracer.stdout)} == {port}


def test_packets_of_a_filter_by_stages(pair: Pair) -> None:
    """Datagrams to two ports at which nobody listens: the lives of those to one."""
    with pair.a.socket(kind=socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", (pair.b.v4, 45902))  # finds out who has the address
        time.sleep(0.1)
        with Tracer("skbstages", "-F", f"udp dst port 45901 and dst host {pair.b.v4}") as tracer:
            for _ in range(7):
                sock.sendto(b"xyz", (pair.b.v4, 45901))
                sock.sendto(b"xyz", (pair.b.v4, 45902))
            time.sleep(0.2)
    assert re.search(r"@life\[dropped\]: { .count = 7,", tracer.stdout), tracer.stdout


def test_what_a_socket_does_not_say_is_told(pair: Pair) -> None:
    script = 'rawtracepoint:inet_sock_set_state /pcap("tcp[tcpflags] & tcp-syn != 0", args.sk)/ { @ = count(); }'
    with pair.b.listener() as listener:
        done = trace(script, lambda: talk(pair, listener))
    assert "@" not in done.stdout and "asked for what a socket does not say of its packets" in done.stderr
    done = run_sonde("tcplife", "-F", "greater 100")
    assert done.returncode == 1 and "a socket says only addresses, ports and the protocol" in done.stderr
