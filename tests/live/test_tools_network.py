"""The tools that watch packets, UDP and descriptors, in network namespaces of the tests' own, against the kernel's
counters."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from drop_reasons import NO_SOCKET, TELLS_REASONS
from namespaces import Namespace, Relay, converse, echo_request, growth, ip, port_of, read_counters
from packet_filters import has_libpcap
from printed import rows
from support import Tracer, run_sonde, wait_for

ME = str(os.getpid())


def test_superping(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    """Each answered request once, not slower than the program itself sees it; the unanswered one not at all."""
    a, b = pair
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
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
    marked4, marked6 = growth(before, b.counters(), "IpExtInCEPkts", "Ip6InCEPkts")
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
        found = re.search(rf"^@{name}\[{device}\]: {{ .count = (\d+), .average = \d+, .total = (\d+) }}$",
                          tracer.stdout, re.M)
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
    found = re.search(r"^@wait\[tbf\]: { .count = (\d+), .average = \d+, .total = (\d+) }$", tracer.stdout, re.M)
    assert found is not None
    # Equal, but for what the kernel sends of itself at either end.
    assert 20 <= sent <= int(found[1]) <= ever, (tracer.stdout, tracer.stderr)
    # The bucket holds 2 KB, so that the k-th datagram leaves (k * size - 2048) / rate after the first at the earliest,
    # and it came at most ``sending`` after that. An ARP request among them only adds to it all.
    least = sum(max(0, (k * size - 2048) / rate - sending) for k in range(1, 21))
    assert least * 1e6 <= int(found[2]) <= int(found[1]) * whole * 1e6
    assert "@us" not in other.stdout


def test_qdisclat_of_packets_that_are_split(pair: tuple[Namespace, Namespace]) -> None:
    """TCP hands over large packets, which a bucket of 2 KB takes apart: each piece has its wait, without a warning."""
    a, b = pair
    if why := slow_down(a):
        pytest.skip(f"no tbf: {why}")
    try:
        with b.listener() as listener, Tracer("qdisclat", "-s", "-i", a.device, "tbf") as tracer:
            before = queue_packets(a)
            converse(a, listener, 60_000, 10)
            time.sleep(0.2)
            sent = queue_packets(a) - before
        ever = queue_packets(a) - before
    finally:
        a.tc("qdisc", "del", "dev", a.device, "root")
    found = re.search(r"^@wait\[tbf\]: { .count = (\d+), ", tracer.stdout, re.M)
    assert found is not None and 40 <= sent <= int(found[1]) <= ever, tracer.stdout
    warnings = [line for line in tracer.stderr.splitlines() if "WARNING" in line]
    assert "@unmatched" not in tracer.stdout
    assert [line for line in warnings if "there is no network device" not in line] == []  # it is in another namespace


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


def test_nettxlat_of_a_filter(pair: tuple[Namespace, Namespace]) -> None:
    """Of packets without a link header, those to one of two ports."""
    if not has_libpcap():
        pytest.skip("libpcap is not installed")
    a, _ = pair
    name = f"sf{os.getpid() % 100000}"
    fd = tap(a, name)
    try:
        ip("-n", a.name, "link", "set", name, "up")
        ip("-n", a.name, "addr", "add", "10.78.1.1/24", "dev", name)
        with Tracer("nettxlat", "-d", "-F", "udp dst port 9 and host 10.78.1.2") as tracer, \
                a.socket(kind=socket.SOCK_DGRAM) as client:
            for port in (9, 10) * 6:
                client.sendto(b"x" * 100, ("10.78.1.2", port))
                while len(os.read(fd, 2000)) != 128:
                    pass  # IPv6's own packets
    finally:
        os.close(fd)
    found = re.search(rf"^@device\[{name}\]: *\n((?:[\[(].*\n)+)", tracer.stdout, re.M)
    assert found is not None, tracer.stdout
    assert sum(map(int, re.findall(r"[\])] +(\d+) \|", found[1]))) == 6, tracer.stdout


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
    noports, resets = growth(before, b.counters(), "UdpNoPorts", "TcpOutRsts")
    assert (noports, resets) == (9, 4)
    found = re.search(rf"^@reason\[{NO_SOCKET}\]: (\d+)$", tracer.stdout, re.M)
    assert found is not None and (int(found[1]) == 13 if TELLS_REASONS else int(found[1]) >= 13)
    stacks = re.findall(rf"^@stack\[{NO_SOCKET}, \n((?:.*\n)*?)\]: (\d+)$", tracer.stdout, re.M)
    assert sum(int(n) for stack, n in stacks if "udp" in stack) == 9
    assert sum(int(n) for stack, n in stacks if "tcp_v4_rcv" in stack) == 4


def test_skbdrop_options(pair: tuple[Namespace, Namespace]) -> None:
    """What a device holds that goes away is freed without a reason: with -a only. Neither stacks with -r, nor counters
    with -n; those are the ones of the tool's own network namespace."""
    if not TELLS_REASONS:
        pytest.skip("this kernel tells no reasons (Linux 5.17)")
    a, _ = pair
    name = f"sd{os.getpid() % 100000}"
    fd = tap(a, name)
    try:
        ip("-n", a.name, "link", "set", name, "up")
        ip("-n", a.name, "addr", "add", "10.78.1.1/24", "dev", name)
        outside = read_counters()
        with Tracer("skbdrop", "-a", "-r", "-n") as everything, Tracer("skbdrop") as usual:
            inside = read_counters()
            with a.socket(kind=socket.SOCK_DGRAM) as client:
                for _ in range(5):
                    client.sendto(b"x" * 100, ("10.78.1.2", 9))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused, \
                    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                unused.bind(("127.0.0.1", 0))
                nobodys = unused.getsockname()
                unused.close()
                for _ in range(3):
                    client.sendto(b"x", nobodys)
            inner = read_counters()
            os.close(fd)
            fd = -1
        outer = read_counters()
    finally:
        if fd >= 0:
            os.close(fd)
    plain = re.search(r"^@reason\[SKB_DROP_REASON_NOT_SPECIFIED\]: (\d+)$", everything.stdout, re.M)
    assert plain is not None and int(plain[1]) >= 5
    assert "@stack" not in everything.stdout and "@nstat" not in everything.stdout
    assert "NOT_SPECIFIED" not in usual.stdout and "@stack[" in usual.stdout
    shown = re.search(r"^@nstat\[UdpNoPorts\]: (\d+)$", usual.stdout, re.M)
    assert shown is not None
    assert 3 <= growth(inside, inner, "UdpNoPorts")[0] <= int(shown[1]) <= growth(outside, outer, "UdpNoPorts")[0]


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
        assert int(str(row["LAT(us)"])) >= 2 * relay.delay * 1e6
    assert int(str(found[relay.v6[1]]["LAT(us)"])) <= first - 2 * relay.delay * 1e6


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


def test_udplife_of_peeks() -> None:
    """Of ten bytes that are looked at twice, three are read; all ten where the call says that there were as many."""
    with Tracer("udplife", "-p", ME, "-f", "json") as tracer:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
            port = port_of(sock)
            for flags in (0, socket.MSG_TRUNC):
                sock.sendto(b"0123456789", sock.getsockname())
                for _ in range(2):
                    sock.recv(10, socket.MSG_PEEK)
                sock.recv_into(bytearray(3), 0, flags)
        wait_for(lambda: len(rows(tracer.output())) >= 1)
    assert [(row["LPORT"], row["TX_B"], row["RX_B"]) for row in rows(tracer.stdout)] == [(port, 20, 3 + 10)]


def test_udplife_of_a_command_that_ends_with_its_sockets_open(tmp_path: Path) -> None:
    """The kernel frees them after that, some milliseconds later."""
    script = tmp_path / "program.py"
    script.write_text("""
import socket
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
for number, sock in enumerate(sockets):
    sock.bind(("127.0.0.1", 0))
    sock.sendto(bytes(number + 1), sock.getsockname())
    sock.recv(100)
print(*(sock.getsockname()[1] for sock in sockets))
""")
    done = run_sonde("udplife", "-f", "json", "-c", f"{os.path.realpath(sys.executable)} -S {script}")
    said = next(line for line in done.stdout.splitlines() if line[:1].isdigit())
    found = rows("\n".join(line for line in done.stdout.splitlines() if line != said))
    mine = {row["LPORT"]: (row["TX_B"], row["RX_B"]) for row in found if row["LADDR"] == "127.0.0.1"}
    assert mine == {int(port): (number + 1, number + 1) for number, port in enumerate(said.split())}
    assert len([row for row in found if row["LADDR"] == "127.0.0.1"]) == 20


def test_sofdsnoop(tmp_path: Path) -> None:
    """Forty descriptors of which 32 are shown, by a thread; neither without any, nor credentials, nor what fails."""
    names = [f"file-{number}" for number in range(40)]
    for name in names:
        (tmp_path / name).write_text("")
    one, two = socket.socketpair()
    sent: list[int] = []
    got: list[int] = []
    tids: list[int] = []

    def work() -> None:
        tids.append(threading.get_native_id())
        sent.extend(os.open(tmp_path / name, os.O_RDONLY) for name in names)
        socket.send_fds(one, [b"hi"], sent[:2])
        got.extend(socket.recv_fds(two, 10, 4)[1])
        one.send(b"no descriptors")
        two.recv(100)
        mine = struct.pack("3i", os.getpid(), os.getuid(), os.getgid())
        one.sendmsg([b"who"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, mine)])
        socket.send_fds(one, [b"many"], sent)
        two.close()
        with pytest.raises(BrokenPipeError):
            socket.send_fds(one, [b"late"], sent[:1])

    with Tracer("sofdsnoop", "-p", ME, "-f", "json") as tracer, one, two:
        ends = one.fileno(), two.fileno()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        for fd in (*sent, *got):
            os.close(fd)
    seen = [(row["ACTION"], row["SOCKET"], row["FD"], row["NAME"]) for row in rows(tracer.stdout)]
    first = [("SEND", ends[0], fd, name) for fd, name in zip(sent[:2], names)]
    assert seen == [*first, *(("RECV", ends[1], fd, name) for fd, name in zip(got, names)),
                    *(("SEND", ends[0], fd, name) for fd, name in zip(sent, names))]
    assert {row["TID"] for row in rows(tracer.stdout)} == set(tids)


ROWS = {  # tool -> the columns of its rows
    "tcpconnect": ["TIME", "PID", "COMM", "IP", "SADDR", "DADDR", "DPORT"],
    "tcpaccept": ["TIME", "IP", "RADDR", "RPORT", "LADDR", "LPORT", "BL"],
    "soconnect": ["PID", "PROCESS", "FAM", "ADDRESS", "PORT", "LAT(us)", "RESULT"],
    "soaccept": ["PID", "PROCESS", "FAM", "ADDRESS", "PORT", "RESULT"],
    "udpconnect": ["TIME", "PID", "COMM", "IP", "RADDR", "RPORT"],
    "gethostlatency": ["TIME", "PID", "COMM", "LATms", "HOST"],
    "ipecn": ["TIME", "DIR", "ADDRESS"],
    "superping": ["IP", "ID", "SEQ", "US"],
}


def test_each_event_is_a_row_of_named_values(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    a, b = pair
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    near, far, version = (a.v4, b.v4, 4) if family == socket.AF_INET else (a.v6, b.v6, 6)
    with contextlib.ExitStack() as stack:
        tracers = {tool: stack.enter_context(Tracer(tool, "-f", "json")) for tool in ROWS}
        with b.listener(family) as listener:
            port = port_of(listener)
            ports = converse(a, listener, 10, 10)
        with a.socket(family, socket.SOCK_DGRAM) as client:
            client.connect((far, 4321))
            if family == socket.AF_INET:
                client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 3)
            else:
                client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 3)
            client.send(b"x")
        socket.getaddrinfo("localhost", 80)
        with a.socket(family, socket.SOCK_RAW, protocol) as sock:
            sock.sendto(echo_request(family, 4711, 5), (far, 0))
            reply(sock, family)
    found = {tool: rows(tracer.stdout) for tool, tracer in tracers.items()}
    for tool, columns in ROWS.items():
        assert found[tool] and all(list(row) == columns for row in found[tool]), tool
        messages = [json.loads(line)["type"] for line in tracers[tool].lines]
        assert messages.count("printf") <= 1 and set(messages) <= {"attached_probes", "row", "printf"}, tool
    assert [(row["IP"], row["DADDR"]) for row in found["tcpconnect"] if row["DPORT"] == port] == [(version, far)]
    taken = [row for row in found["tcpaccept"] if row["LPORT"] == port]
    assert [(row["RADDR"], row["RPORT"], row["LADDR"], row["BL"]) for row in taken] == [(near, ports[0], far, "0/5")]
    assert [(row["FAM"], row["ADDRESS"], row["RESULT"]) for row in found["soconnect"] if row["PORT"] == port] == [
        (family, far, "Success")]
    assert [(row["FAM"], row["ADDRESS"]) for row in found["soaccept"] if row["PORT"] == ports[0]] == [(family, near)]
    assert (version, far, 4321) in [(row["IP"], row["RADDR"], row["RPORT"]) for row in found["udpconnect"]]
    assert ("from", near) in [(row["DIR"], row["ADDRESS"]) for row in found["ipecn"]]
    [ping] = [row for row in found["superping"] if (row["ID"], row["SEQ"]) == (4711, 5)]
    assert ping["IP"] == f"IPv{version}"
