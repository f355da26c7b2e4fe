"""The tools that watch packets and TCP, in network namespaces of the tests' own, against the kernel's counters."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from namespaces import Namespace, Relay, connected, ip, port_of, receive
from printed import histogram_total, rows
from support import Tracer

ME = str(os.getpid())


def converse(client: Namespace, listener: socket.socket, sent: int, answered: int) -> tuple[int, int]:
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


def settle(counters: dict[str, int], again: dict[str, int], *names: str) -> list[int]:
    return [again[name] - counters[name] for name in names]


def test_tcplife(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    a, b = pair
    with b.listener(family) as listener, Tracer("tcplife", "-f", "json", "-w", "-t") as tracer:
        begun = time.monotonic()
        ports = [converse(a, listener, 50 * 1024, 20 * 1024) for _ in range(3)]
        time.sleep(0.05)
        longest = (time.monotonic() - begun) * 1000
    near, far = (a.v4, b.v4) if family == socket.AF_INET else (a.v6, b.v6)
    mine = [row for row in rows(tracer.stdout) if row["PID"] == os.getpid()]
    for local, remote, laddr, raddr, tx, rx in ((0, 1, near, far, 50, 20), (1, 0, far, near, 20, 50)):
        ends = [row for row in mine if row["LADDR"] == laddr]
        assert [(row["LPORT"], row["RPORT"]) for row in ends] == [(p[local], p[remote]) for p in ports]
        assert all((row["RADDR"], row["TX_KB"], row["RX_KB"]) == (raddr, tx, rx) for row in ends)
        assert all(0 <= int(str(row["MS"])) <= longest for row in ends)


def test_tcplife_filters(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with b.listener() as listener, b.listener() as other:
        port = str(port_of(listener))
        with Tracer("tcplife", "-D", port) as to, Tracer("tcplife", "-L", port) as of, \
                Tracer("tcplife", "-p", "1") as init, Tracer("tcplife", "-p", ME) as mine:
            for server in (listener, other):
                converse(a, server, 10, 10)
            time.sleep(0.05)
    assert [len(tracer.lines) - 1 for tracer in (to, of, init)] == [1, 1, 0]
    assert len([line for line in mine.lines if a.v4 in line]) == 4
    assert to.lines[1].split()[5] == port and of.lines[1].split()[3] == port


def test_tcplife_draws_a_graph(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with b.listener() as listener, Tracer("tcplife", "--dot", "-p", ME) as tracer:
        port = port_of(listener)
        for _ in range(2):
            converse(a, listener, 30 * 1024, 10 * 1024)
        time.sleep(0.05)
    graph = tracer.stdout[tracer.stdout.index("digraph"):]
    # the end with the higher port is the client's, unless the listener's happens to be the higher
    edge = rf'^\t"{re.escape(a.v4)} \S+" -> "{re.escape(b.v4)} {port}" \[label="60/20"\];$'
    back = rf'^\t"{re.escape(b.v4)} \S+" -> "{re.escape(a.v4)} \d+" \[label="\d+/\d+"\];$'
    assert re.search(edge, graph, re.M) or re.search(back, graph, re.M)
    assert graph.rstrip().endswith("}")


def test_tcptop(pair: tuple[Namespace, Namespace]) -> None:
    """Exact kilobytes, and the most at the top."""
    a, b = pair
    with b.listener() as listener:
        small, big = connected(a, listener), connected(a, listener)
        with Tracer("tcptop", "-p", ME, "-f", "json", "1", "2") as tracer:
            for (near, far), kilobytes in ((small, 10), (big, 300)):
                for _ in range(kilobytes):
                    near.sendall(b"x" * 1024)
                    receive(far, 1024)
            tracer.wait()
        ports = [port_of(near) for near, _ in (big, small)]
        for sock in (*small, *big):
            sock.close()
    found = rows(tracer.stdout)
    assert [(row["LPORT"], row["RX_KB"], row["TX_KB"]) for row in found if row["LADDR"] == a.v4] == [
        (ports[0], 0, 300), (ports[1], 0, 10)]
    assert "WARNING" not in tracer.stderr + tracer.stdout  # half of the ends only receive
    assert [(row["RPORT"], row["RX_KB"], row["TX_KB"]) for row in found if row["LADDR"] == b.v4] == [
        (ports[0], 300, 0), (ports[1], 10, 0)]
    assert [int(str(row["RX_KB"])) + int(str(row["TX_KB"])) for row in found] == [300, 300, 10, 10]


def test_tcptop_shows_as_many_rows_as_asked_for(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with b.listener() as listener, Tracer("tcptop", "-p", ME, "--rows", "3", "1", "1") as tracer:
        for size in range(1, 6):
            converse(a, listener, size * 10240, 0)
        tracer.wait()
    block = [line for line in tracer.lines if line.startswith(f"{ME} ")]
    assert len(block) == 3
    assert [line.split()[-2:] for line in block[:2]] in ([["0", "50"], ["50", "0"]], [["50", "0"], ["0", "50"]])
    assert "loadavg: " in tracer.stdout


class Deaf:
    """The other side gives up its addresses for a while: what arrives for them is dropped, and nothing is answered."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace

    def __enter__(self) -> None:
        self.namespace.address("del")

    def __exit__(self, *unused: object) -> None:
        self.namespace.address("add")


def retransmit(pair: tuple[Namespace, Namespace], family: socket.AddressFamily, seconds: float) -> tuple[int, int, int]:
    """Send what is dropped for ``seconds``; (local port, retransmitted segments, tail loss probes) by the counters."""
    a, b = pair
    with b.listener(family) as listener:
        near, far = connected(a, listener)
        near.send(b"warm")
        receive(far, 4)
        before = a.counters()
        with Deaf(b):
            near.send(b"x")
            time.sleep(seconds)
        receive(far, 1)
        after = a.counters()
        port = port_of(near)
        near.close()
        far.close()
    segments, probes = settle(before, after, "TcpRetransSegs", "TcpExtTCPLossProbes")
    return port, segments, probes


def test_tcpretrans(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    a, b = pair
    with Tracer("tcpretrans", "-l", "-f", "json") as tracer:
        port, segments, probes = retransmit(pair, family, 0.7)
    mine = [row for row in rows(tracer.stdout) if row["LPORT"] == port]
    assert len(mine) == segments > 0
    assert sum(row["T>"] == "L>" for row in mine) == probes
    near, far, version = (a.v4, b.v4, 4) if family == socket.AF_INET else (a.v6, b.v6, 6)
    ends = {(row["LADDR"], row["RADDR"], row["IP"], row["STATE"]) for row in mine}
    assert ends == {(near, far, version, "ESTABLISHED")}


def test_tcpretrans_counts(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with Tracer("tcpretrans", "-c") as tracer:
        port, segments, _ = retransmit(pair, socket.AF_INET, 0.4)
    assert re.search(rf"^@retransmits\[{re.escape(a.v4)}, {port}, {re.escape(b.v4)}, \d+\]: {segments}$",
                     tracer.stdout, re.M)


def test_tcpsynbl(pair: tuple[Namespace, Namespace]) -> None:
    """Five may wait: six connections are taken, the last one filling the backlog."""
    a, b = pair
    with b.listener(backlog=5) as listener, Tracer("tcpsynbl") as tracer:
        clients = [a.socket() for _ in range(6)]
        for client in clients:
            client.connect(listener.getsockname())
        port = port_of(listener)
        for client in clients:
            client.close()
    body = tracer.stdout.partition("@backlog[5]:")[2]
    assert [int(n) for n in re.findall(r"^[\[(].*[)\]] +(\d+) \|", body, re.M)][:4] == [1, 1, 2, 2]
    assert len(re.findall(rf"backlog is full: port {port}, limit 5$", tracer.stdout, re.M)) == 1


def tcp_info(sock: socket.socket) -> tuple[int, ...]:
    """struct tcp_info up to tcpi_total_retrans: 8 bytes, then words; 8 + 18 is snd_cwnd, 8 + 23 total_retrans."""
    return struct.unpack_from("8B24I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))


def test_tcpwin(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with b.listener() as listener:
        port = port_of(listener)
        with Tracer("tcpwin", "-n", "-r", "-P", str(port), "-f", "json") as tracer:
            near, far = connected(a, listener)
            for _ in range(10):
                near.send(b"x" * 100)
                receive(far, 100)
                far.send(b"y")
                receive(near, 1)
            quiet = tcp_info(near)
            with Deaf(b):
                near.send(b"z")
                time.sleep(0.3)
            receive(far, 1)
            local = port_of(near)
            info = tcp_info(near)
            near.close()
            far.close()
    mine = [row for row in rows(tracer.stdout) if row["lport"] == local]
    events = [row["event"] for row in mine]
    assert events[0] == "new" and events.count("new") == 1
    assert events.count("retrans") == info[8 + 23] > 0
    assert events.count("rcv") >= 10
    assert len({row["sock"] for row in mine}) == 1
    assert all((row["raddr"], row["rport"]) == (b.v4, port) for row in mine)
    times = [int(str(row["time_us"])) for row in mine]
    assert times == sorted(times)
    lost = next(i for i, event in enumerate(events) if event == "retrans")
    assert mine[1]["snd_cwnd"] == 10  # the initial window (RFC 6928)
    assert mine[lost]["snd_cwnd"] == quiet[8 + 18]  # a tail loss probe does not change it
    assert all(row["snd_ssthresh"] == 2147483647 for row in mine[:lost])


def echo_request(family: socket.AddressFamily, identifier: int, sequence: int) -> bytes:
    kind = 8 if family == socket.AF_INET else 128
    packet = struct.pack("!BBHHH", kind, 0, 0, identifier, sequence) + b"sonde"*4
    total = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    total = (total & 0xffff) + (total >> 16)
    return packet[:2] + struct.pack("!H", ~total & 0xffff) + packet[4:]


def test_superping(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    """Each answered request once, not slower than the program itself sees it; the unanswered one not at all."""
    a, b = pair
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.getprotobyname("ipv6-icmp")
    host = b.v4 if family == socket.AF_INET else b.v6
    identifier = os.getpid() & 0xffff
    seen = []
    with Tracer("superping") as tracer, a.socket(family, socket.SOCK_RAW, protocol) as sock:
        for sequence in range(1, 6):
            begun = time.monotonic()
            sock.sendto(echo_request(family, identifier, sequence), (host, 0))
            reply(sock, family)
            seen.append((time.monotonic() - begun) * 1e6)
        sock.sendto(echo_request(family, identifier, 9), (host.rpartition(host[-1])[0] + "9", 0))
    version = 4 if family == socket.AF_INET else 6
    found = re.findall(rf"^IPv{version} ping, ID {identifier} seq (\d+): (\d+) us$", tracer.stdout, re.M)
    assert [int(sequence) for sequence, _ in found] == [1, 2, 3, 4, 5]
    assert all(int(us) <= limit for (_, us), limit in zip(found, seen))


def reply(sock: socket.socket, family: socket.AddressFamily) -> None:
    """Wait for an echo reply; other ICMP messages come by."""
    sock.settimeout(5)
    while True:
        data = sock.recv(200)
        if (data[20] == 0) if family == socket.AF_INET else (data[0] == 129):
            return


def test_ipecn(pair: tuple[Namespace, Namespace]) -> None:
    """Datagrams with a CE mark: as many as the receiver's kernel counts, in both directions and protocols."""
    a, b = pair
    before = b.counters()
    with Tracer("ipecn", "-o") as tracer, b.socket(kind=socket.SOCK_DGRAM) as four, \
            b.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six:
        four.bind((b.v4, 0))
        six.bind((b.v6, 0))
        with a.socket(kind=socket.SOCK_DGRAM) as client:
            for mark in (3, 3, 1, 3, 0, 3, 2):
                client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, mark)
                client.sendto(b"x", four.getsockname())
        with a.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
            for mark in (3, 1, 3, 0):
                client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, mark)
                client.sendto(b"x", six.getsockname()[:2])
        time.sleep(0.05)
    marked4, marked6 = settle(before, b.counters(), "IpExtInCEPkts", "Ip6InCEPkts")
    assert (marked4, marked6) == (4, 2)
    for direction, four_host, six_host in (("from", a.v4, a.v6), ("to", b.v4, b.v6)):
        lines = [line for line in tracer.lines if f"ECN CE {direction}: " in line]
        assert sum(line.endswith(f" {four_host}") for line in lines) == marked4
        assert sum(line.endswith(f" {six_host}") for line in lines) == marked6


def device_counters(namespace: Namespace) -> dict[str, tuple[int, int, int, int]]:
    """Device -> bytes and packets received, bytes and packets sent."""
    def read() -> dict[str, tuple[int, int, int, int]]:
        found = {}
        with open("/proc/thread-self/net/dev") as file:
            for line in file.read().splitlines()[2:]:
                name, _, numbers = line.partition(":")
                n = [int(word) for word in numbers.split()]
                found[name.strip()] = n[0], n[1], n[8], n[9]
        return found
    return namespace.within(read)


def test_netsize(pair: tuple[Namespace, Namespace]) -> None:
    """Packets and bytes of both devices are those of /proc/net/dev; a received packet is without its link header."""
    a, b = pair
    with b.listener() as listener, Tracer("netsize", "-s") as tracer:
        before = device_counters(a)[a.device], device_counters(b)[b.device]
        converse(a, listener, 200_000, 3000)
        time.sleep(0.05)
        after = device_counters(a)[a.device], device_counters(b)[b.device]

    def summary(name: str, device: str) -> tuple[int, int]:
        found = re.search(rf"^@{name}\[{device}\]: count (\d+), average \d+, total (\d+)$", tracer.stdout, re.M)
        assert found is not None, name
        return int(found[1]), int(found[2])

    for namespace, old, new in zip(pair, before, after):
        received, sent = (new[0] - old[0], new[1] - old[1]), (new[2] - old[2], new[3] - old[3])
        packets, size = summary("nic_send", namespace.device)
        assert (size, packets) == sent
        assert summary("send", namespace.device) == (packets, size)
        packets, size = summary("recv", namespace.device)
        assert (size + 14 * packets, packets) == received


def slow_down(namespace: Namespace) -> str:
    """Let the device send 1 Mbit/s: tbf, or the reason why not."""
    try:
        namespace.tc("qdisc", "add", "dev", namespace.device, "root", "tbf", "rate", "1mbit", "burst", "2kb",
                     "limit", "100kb")
    except subprocess.CalledProcessError as error:
        return str(error.stderr)
    return ""


def queue_packets(namespace: Namespace) -> int:
    """Packets that the root queueing discipline has sent, as tc counts them."""
    found = re.search(r"Sent \d+ bytes (\d+) pkt", namespace.tc("-s", "qdisc", "show", "dev", namespace.device))
    assert found is not None
    return int(found[1])


def test_qdisclat(pair: tuple[Namespace, Namespace]) -> None:
    """A burst of 20 datagrams into a token bucket: each waits for those before it, and tc counts as many."""
    a, b = pair
    if why := slow_down(a):
        pytest.skip(f"no tbf: {why}")
    size, rate = 1000 + 42, 125_000
    try:
        with Tracer("qdisclat", "-s", "-i", a.device, "tbf") as tracer, Tracer("qdisclat", "netem") as other:
            before = queue_packets(a)
            with a.socket(kind=socket.SOCK_DGRAM) as client:
                client.sendto(b"x", (b.v4, 9))  # packets for a neighbour yet to be found wait elsewhere
                time.sleep(0.1)
                begun = time.monotonic()
                for _ in range(20):
                    client.sendto(b"x" * 1000, (b.v4, 9))
                sending = time.monotonic() - begun
            time.sleep(20 * size / rate + 0.15)
            sent = queue_packets(a) - before
            whole = time.monotonic() - begun
        ever = queue_packets(a)
    finally:
        a.tc("qdisc", "del", "dev", a.device, "root")
    found = re.search(r"^@wait\[tbf\]: count (\d+), average \d+, total (\d+)$", tracer.stdout, re.M)
    assert found is not None
    assert 20 <= sent <= int(found[1]) <= ever  # equal, but for what the kernel sends of itself at either end
    # The bucket holds 2 KB, so that the k-th datagram leaves (k * size - 2048) / rate after the first at the earliest,
    # and it came at most ``sending`` after that. An ARP request among them only adds to it all.
    least = sum(max(0, (k * size - 2048) / rate - sending) for k in range(1, 21))
    assert least * 1e6 <= int(found[2]) <= int(found[1]) * whole * 1e6
    assert "@us" not in other.stdout


def tap(namespace: Namespace, name: str) -> int:
    """A device whose packets this process is the wire for."""
    import fcntl

    def make() -> int:
        fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))  # TUNSETIFF: IFF_TUN, no header
        return fd
    return namespace.within(make)


def test_nettxlat(pair: tuple[Namespace, Namespace]) -> None:
    """A device that takes 20 ms for each of 10 packets."""
    a, _ = pair
    name = f"st{os.getpid() % 100000}"
    fd = tap(a, name)
    try:
        ip("-n", a.name, "link", "set", name, "up")
        ip("-n", a.name, "addr", "add", "10.78.0.1/24", "dev", name)
        with Tracer("nettxlat", "-d") as tracer, a.socket(kind=socket.SOCK_DGRAM) as client:
            begun = time.monotonic()
            for _ in range(10):
                client.sendto(b"x" * 100, ("10.78.0.2", 9))
                time.sleep(0.02)
                while len(os.read(fd, 2000)) != 128:
                    pass  # IPv6's own packets
            longest = (time.monotonic() - begun) * 1e6
    finally:
        os.close(fd)
    found = re.search(rf"^@device\[{name}\]: *\n((?:[\[(].*\n)+)", tracer.stdout, re.M)
    assert found is not None, tracer.stdout
    buckets = [(int(low) * 1024, int(n)) for low, n in re.findall(r"^\[(\d+)K, \d+K\) +(\d+) \|", found[1], re.M)]
    assert sum(n for low, n in buckets if 16 * 1024 <= low <= longest) >= 10


def test_skbdrop(pair: tuple[Namespace, Namespace]) -> None:
    """Datagrams and SYNs to ports without a socket: NO_SOCKET, as often as counted; no port answers."""
    a, b = pair
    with b.listener() as unused:
        address = unused.getsockname()
    before = b.counters()
    with Tracer("skbdrop") as tracer:
        with a.socket(kind=socket.SOCK_DGRAM) as client:
            for _ in range(9):
                client.sendto(b"x", address)
        for _ in range(4):
            with a.socket() as client:
                assert client.connect_ex(address) != 0
    noports, resets = settle(before, b.counters(), "UdpNoPorts", "TcpOutRsts")
    assert (noports, resets) == (9, 4)
    found = re.search(r"^@reason\[SKB_DROP_REASON_NO_SOCKET\]: (\d+)$", tracer.stdout, re.M)
    assert found is not None and int(found[1]) == 13
    stacks = re.findall(r"^@stack\[SKB_DROP_REASON_NO_SOCKET, \n((?:.*\n)*?)\]: (\d+)$", tracer.stdout, re.M)
    assert sum(int(n) for stack, n in stacks if "udp" in stack) == 9
    assert sum(int(n) for stack, n in stacks if "tcp_v4_rcv" in stack) == 4


def test_tcpdrop(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    a, b = pair
    with b.listener(family) as unused:
        address = unused.getsockname()[:2]
    with Tracer("tcpdrop", "-n", "-P", str(address[1]), "-f", "json") as tracer:
        ports = []
        for _ in range(3):
            with a.socket(family) as client:
                client.bind((a.v4 if family == socket.AF_INET else a.v6, 0))
                ports.append(port_of(client))
                assert client.connect_ex(address) != 0
    found = rows(tracer.stdout)
    assert [row["SPORT"] for row in found] == ports
    near, version = (a.v4, 4) if family == socket.AF_INET else (a.v6, 6)
    assert {(row["IP"], row["SADDR"], row["DADDR"], row["DPORT"], row["STATE"], row["REASON"]) for row in found} == {
        (version, near, address[0], address[1], "-", "SKB_DROP_REASON_NO_SOCKET")}
    assert all(str(row["FLAGS"]).startswith("S") for row in found)


def test_tcpdrop_has_a_stack(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with b.listener() as unused:
        address = unused.getsockname()[:2]
    with Tracer("tcpdrop", "-P", str(address[1])) as tracer, a.socket() as client:
        assert client.connect_ex(address) != 0
    assert re.search(r"NO_SOCKET +S\w*\n(.*\n)*? +tcp_v4_rcv", tracer.stdout)


DELAY = 0.01  # one way


@pytest.fixture
def relay(pair: tuple[Namespace, Namespace]) -> Iterator[Relay]:
    with Relay(pair, DELAY) as found:
        yield found


def test_tcprtt(pair: tuple[Namespace, Namespace], relay: Relay) -> None:
    """20 ms there and back at least; the average and the shortest are those of TCP_INFO, up to the last sample."""
    a, b = pair
    with b.socket() as listener:
        listener.bind((relay.v4[1], 0))
        listener.listen()
        port = port_of(listener)
        with Tracer("tcprtt", "-s", "-P", str(port)) as summary, Tracer("tcprtt", "-P", str(port)) as histogram:
            near, far = connected(a, listener)
            for _ in range(12):
                near.send(b"x")
                receive(far, 1)
                far.send(b"y")
                receive(near, 1)
            info = tcp_info(near)
            near.close()
            far.close()
    found = re.search(rf"^@srtt\[{re.escape(relay.v4[1])}\]: count (\d+), average (\d+), total", summary.stdout, re.M)
    shortest = re.search(rf"^@min_us\[{re.escape(relay.v4[1])}\]: (\d+)$", summary.stdout, re.M)
    assert found is not None and shortest is not None
    assert int(found[1]) >= 12
    assert int(shortest[1]) >= 2 * DELAY * 1e6
    # srtt is a mean of the samples, none of which is below the shortest, and moves by an eighth of a new one at a time
    assert int(shortest[1]) <= int(found[2]) <= max(2 * info[8 + 15], 4 * int(shortest[1]))
    assert histogram_total(histogram.stdout, f"us[{relay.v4[1]}]") == int(found[1])


def test_arplat(pair: tuple[Namespace, Namespace], relay: Relay) -> None:
    """Both ways take 20 ms: the first ping waits so much longer than the second."""
    a, _ = pair
    with Tracer("arplat", "-f", "json") as tracer:
        for family, host in ((socket.AF_INET, relay.v4[1]), (socket.AF_INET6, relay.v6[1])):
            protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
            with a.socket(family, socket.SOCK_RAW, protocol) as sock:
                begun = time.monotonic()
                sock.sendto(echo_request(family, 7, 1), (host, 0))
                reply(sock, family)
                first = (time.monotonic() - begun) * 1e6
    found = {row["TARGET"]: row for row in rows(tracer.stdout) if row["DEV"] == relay.devices[0]}
    for host, protocol_name in ((relay.v4[1], "ARP"), (relay.v6[1], "ND")):
        row = found[host]
        assert (row["PROTO"], row["STATE"], row["TRIES"]) == (protocol_name, "REACHABLE", 1)
        assert int(str(row["US"])) >= 2 * DELAY * 1e6
    assert int(str(found[relay.v6[1]]["US"])) <= first - 2 * DELAY * 1e6


def test_pacinglat(pair: tuple[Namespace, Namespace]) -> None:
    """What a socket with a rate of 1 MB/s is given takes its time: nearly all of it is spent waiting to be sent."""
    a, b = pair
    size, rate = 400_000, 1_000_000
    with b.listener() as listener, Tracer("pacinglat", "-s") as tracer:
        near, far = connected(a, listener)
        near.setsockopt(socket.SOL_SOCKET, 47, rate)  # SO_MAX_PACING_RATE
        begun = time.monotonic()
        sender = threading.Thread(target=near.sendall, args=[b"x" * size])
        sender.start()
        receive(far, size)
        took = (time.monotonic() - begun) * 1e6
        sender.join()
        near.close()
        far.close()
    whole = (time.monotonic() - begun) * 1e6  # the end of the connection can wait too
    found = re.search(rf"^@wait\[{re.escape(b.v4)}\]: count (\d+), average \d+, total (\d+)$", tracer.stdout, re.M)
    limit = re.search(rf"^@rate\[{re.escape(b.v4)}\]: count \d+, average (\d+), total", tracer.stdout, re.M)
    assert found is not None and limit is not None
    assert int(limit[1]) <= rate
    # the first ten segments, up to 64 KB each, go out at once; the waits are apart, so that they fit into the time
    assert (size - 10 * 65536) / rate * 1e6 <= int(found[2]) <= whole
    assert int(found[2]) >= took / 2


def test_udplife() -> None:
    host = ("127.0.0.1", 0)
    with Tracer("udplife", "-p", ME, "-f", "json") as tracer:
        begun = time.monotonic()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(host)
            address = server.getsockname()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.connect(address)
                local = port_of(client)
                for _ in range(10):
                    client.send(b"x" * 100)
                    server.recv(2000)
                for _ in range(5):
                    server.sendto(b"y" * 50, client.getsockname())
                    client.recv(100)
                time.sleep(0.1)
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six:
            six.connect(("::1", 9))
            six.send(b"z" * 33)
        wait_for(lambda: len(rows(tracer.output())) >= 3)
        longest = (time.monotonic() - begun) * 1000
    found = {row["LPORT"]: row for row in rows(tracer.stdout)}
    client_row, server_row = found[local], found[address[1]]
    names = "RADDR", "RPORT", "TX_B", "RX_B"
    assert [client_row[name] for name in names] == ["127.0.0.1", address[1], 1000, 250]
    assert [server_row[name] for name in names] == ["0.0.0.0", 0, 250, 1000]
    assert 100 <= int(str(client_row["MS"])) <= longest
    assert [row["TX_B"] for row in found.values() if row["RADDR"] == "::1"] == [33]


def wait_for(done: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_sofdsnoop(tmp_path: Path) -> None:
    names = ["first-file", "second-file"]
    for name in names:
        (tmp_path / name).write_text("")
    one, two = socket.socketpair()
    with Tracer("sofdsnoop", "-p", ME, "-f", "json") as tracer, one, two:
        fds = [os.open(tmp_path / name, os.O_RDONLY) for name in names]
        socket.send_fds(one, [b"hi"], fds)
        got = socket.recv_fds(two, 10, 4)[1]
        one.send(b"no descriptors")
        two.recv(100)
        ends = one.fileno(), two.fileno()
        for fd in (*fds, *got):
            os.close(fd)
    seen = [(row["ACTION"], row["SOCKET"], row["FD"], row["NAME"]) for row in rows(tracer.stdout)]
    assert seen == [("SEND", ends[0], fd, name) for fd, name in zip(fds, names)] + [
        ("RECV", ends[1], fd, name) for fd, name in zip(got, names)]
