"""The tools that watch TCP, in network namespaces of the tests' own, against the kernel's counters."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import threading
import time
from itertools import pairwise

import pytest

from drop_reasons import NO_SOCKET
from namespaces import Namespace, Pair, Relay, connected, converse, growth, ip, port_of, receive
from printed import histogram_total, rows
from sonde.base.record import Record
from support import Tracer

ME = str(os.getpid())


def test_tcplife(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    a, b = pair
    with b.listener(family) as listener, Tracer("tcplife", "-f", "json", "-w", "-T", "-t") as tracer:
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
        assert all(0 < float(str(row["MS"])) <= longest for row in ends)
        assert all(0 < float(str(row["TIME(s)"])) for row in ends)


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
    graph = tracer.stdout.lstrip("\n")
    assert graph.startswith("digraph tcplife {\n")  # nothing but the graph: it can be given to dot
    # the end with the higher port is the client's, unless the listener's happens to be the higher
    edge = rf'^\t"{re.escape(a.v4)} \S+" -> "{re.escape(b.v4)} {port}" \[label="60/20"\];$'
    back = rf'^\t"{re.escape(b.v4)} \S+" -> "{re.escape(a.v4)} \d+" \[label="\d+/\d+"\];$'
    assert re.search(edge, graph, re.M) or re.search(back, graph, re.M)
    assert graph.rstrip().endswith("}")


def test_tcptop(pair: tuple[Namespace, Namespace]) -> None:
    """Exact kilobytes, and the most at the top."""
    a, b = pair
    with b.listener() as listener, contextlib.ExitStack() as sockets:
        small, big = connected(a, listener), connected(a, listener)
        for sock in (*small, *big):
            sockets.enter_context(sock)
        with Tracer("tcptop", "-p", ME, "-f", "json", "4", "1") as tracer:  # a guest takes two seconds for it
            for (near, far), kilobytes in ((small, 10), (big, 300)):
                for _ in range(kilobytes):
                    near.sendall(b"x" * 1024)
                    receive(far, 1024)
            tracer.wait()
        ports = [port_of(near) for near, _ in (big, small)]
    found = rows(tracer.stdout)
    assert [(row["LPORT"], row["RX_KB"], row["TX_KB"]) for row in found if row["LADDR"] == a.v4] == [
        (ports[0], 0, 300), (ports[1], 0, 10)]
    said = [line for line in (tracer.stderr + tracer.stdout).splitlines() if "WARNING" in line]
    assert all("not traced" in line for line in said)  # our own children; half of the ends only receive
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


CLIENT = ["CLOSE", "SYN_SENT", "ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2", "CLOSE"]
SERVER = ["LISTEN", "SYN_RECV", "ESTABLISHED", "CLOSE_WAIT", "LAST_ACK", "CLOSE"]


def test_tcpstates(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    """Each end's states in their order, with its own address first; the connection stands for 50 ms."""
    a, b = pair
    with b.listener(family) as listener, Tracer("tcpstates", "-f", "json") as tracer:
        begun = time.monotonic()
        near, far = connected(a, listener)
        ports = port_of(near), port_of(far)
        time.sleep(0.05)
        near.close()
        assert far.recv(1) == b""
        far.close()
        took = (time.monotonic() - begun) * 1000
        time.sleep(0.05)
    ends = (a.v4, b.v4) if family == socket.AF_INET else (a.v6, b.v6)
    found = [row for row in rows(tracer.stdout) if ports[1] in (row["LPORT"], row["RPORT"]) and ends[1] in row.values()]
    sockets: dict[object, list[dict[str, object]]] = {}
    for row in found:
        sockets.setdefault(row["SKADDR"], []).append(row)
    client, server = sorted(sockets.values(), key=lambda chain: chain[0]["LPORT"] == ports[1])
    for chain, states in ((client, CLIENT), (server, SERVER)):
        assert [(row["OLDSTATE"], row["NEWSTATE"]) for row in chain] == list(pairwise(states))
        assert all(0 <= float(str(row["MS"])) <= took for row in chain)
        assert float(str(chain[0]["MS"])) == 0  # its beginning was not seen
        assert [float(str(row["MS"])) >= 50 for row in chain] == [row["OLDSTATE"] == "ESTABLISHED" for row in chain]
    places = "LADDR", "LPORT", "RADDR", "RPORT"
    born, *later = [tuple(row[name] for name in places) for row in server]
    assert set(later) == {(ends[1], ports[1], ends[0], ports[0])}
    assert born == later[0] or born[:2] == later[0][:2] and born[3] == 0  # before some release it has no peer yet
    assert {tuple(row[name] for name in places) for row in client[1:]} == {(ends[0], ports[0], ends[1], ports[1])}
    assert (client[0]["LPORT"], client[0]["RADDR"], client[0]["RPORT"]) == (0, ends[1], ports[1])
    assert (client[0]["C-PID"], client[0]["C-COMM"]) == (os.getpid(), own_comm())


def own_comm() -> str:
    with open("/proc/thread-self/comm") as file:
        return file.read().strip()


class Deaf:
    """The other side gives up its addresses for a while: what arrives for them is dropped, and nothing is answered."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace

    def __enter__(self) -> None:
        self.namespace.address("del")

    def __exit__(self, *unused: object) -> None:
        self.namespace.address("add")


class Resent(Record):
    """What a connection sent again: its ports, segments by TCP_INFO; whole network's segments and tail loss probes."""

    local: int
    remote: int
    segments: int
    all_segments: int
    all_probes: int


def retransmit(pair: tuple[Namespace, Namespace], family: socket.AddressFamily, seconds: float) -> Resent:
    """Send what is dropped for ``seconds``."""
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
        segments = tcp_info(near)[8 + 23]
        after = a.counters()
        ports = port_of(near), port_of(far)
        near.close()
        far.close()
    return Resent(*ports, segments, *growth(before, after, "TcpRetransSegs", "TcpExtTCPLossProbes"))


def test_tcpretrans(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    a, b = pair
    with Tracer("tcpretrans", "-l", "-s", "-f", "json") as tracer:
        sent = retransmit(pair, family, 0.7)
    mine = [row for row in rows(tracer.stdout) if row["LPORT"] == sent.local]
    assert len(mine) == sent.segments > 0
    probes = sum(row["T>"] == "L>" for row in mine)
    if sent.segments == sent.all_segments:  # but for connections that earlier tests closed, and that go on trying
        assert probes == sent.all_probes
    assert probes <= sent.all_probes
    near, far, version = (a.v4, b.v4, 4) if family == socket.AF_INET else (a.v6, b.v6, 6)
    ends = {(row["LADDR"], row["RADDR"], row["RPORT"], row["IP"], row["STATE"]) for row in mine}
    assert ends == {(near, far, sent.remote, version, "ESTABLISHED")}
    assert len({row["SEQ"] for row in mine}) == 1  # it is one byte that is sent again and again


def test_tcpretrans_counts(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with Tracer("tcpretrans", "-c") as tracer:
        sent = retransmit(pair, socket.AF_INET, 0.4)
    counted = f"@retransmits[{a.v4}, {sent.local}, {b.v4}, {sent.remote}]: "
    assert [line for line in tracer.lines if line.startswith(counted)] == [f"{counted}{sent.segments}"]


def test_tcpretrans_of_beginning_and_end(pair: tuple[Namespace, Namespace]) -> None:
    """A SYN and a FIN that nobody answers; without -l a tail loss probe is a retransmit as others."""
    a, b = pair
    with Tracer("tcpretrans", "-f", "json") as tracer, b.listener() as listener, a.socket() as silent:
        near, far = connected(a, listener)
        ending, beginning = port_of(near), 0
        with Deaf(b):
            near.close()
            silent.setblocking(False)
            silent.connect_ex(listener.getsockname())
            beginning = port_of(silent)
            time.sleep(1.5)  # a SYN is sent again after a second (RFC 6298)
        far.close()
    mine = [row for row in rows(tracer.stdout) if row["LADDR"] == a.v4 and row["LPORT"] in (ending, beginning)]
    assert {(row["LPORT"], row["T>"], row["STATE"]) for row in mine} == {
        (ending, "R>", "FIN_WAIT1"), (beginning, "R>", "SYN_SENT")}


def test_tcpsynbl(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    """Eleven may wait: twelve connections are taken, the last one filling the backlog; a client has none."""
    a, b = pair
    with b.listener(family, backlog=11) as listener, Tracer("tcpsynbl") as tracer:
        clients = [a.socket(family) for _ in range(12)]
        for client in clients:
            client.connect(listener.getsockname()[:2])
        port, ports = port_of(listener), [port_of(client) for client in clients]
        for client in clients:
            client.close()
    body = tracer.stdout.partition("@backlog[11]:")[2].partition("\n@")[0]
    assert [int(n) for n in re.findall(r"^[\[(].*[)\]] +(\d+) \|", body, re.M)] == [1, 1, 2, 4, 4]
    full = re.findall(r"backlog is full: port (\d+), limit (\d+)$", tracer.stdout, re.M)
    assert [found for found in full if int(found[0]) in (port, *ports)] == [(str(port), "11")]


def tcp_info(sock: socket.socket) -> tuple[int, ...]:
    """struct tcp_info up to tcpi_total_retrans: 8 bytes, then words; 8 + 18 is snd_cwnd, 8 + 23 total_retrans."""
    return struct.unpack_from("8B24I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))


def segments_in(sock: socket.socket) -> int:
    """tcpi_segs_in of struct tcp_info: segments that arrived."""
    return int(struct.unpack_from("I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160), 140)[0])


def send_memory(sock: socket.socket) -> tuple[int, int]:
    """(limit of the send buffer, bytes of it in use), by SO_MEMINFO."""
    words = struct.unpack("9I", sock.getsockopt(socket.SOL_SOCKET, 55, 36))
    return words[3], words[5]


def test_tcpwin(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    """Ten questions and answers, and one more that is lost at first."""
    a, b = pair
    with b.listener(family) as listener:
        port = port_of(listener)
        with Tracer("tcpwin", "-n", "-r", "-P", str(port), "-f", "json") as tracer, \
                Tracer("tcpwin", "-P", str(port)) as short:
            begun = time.monotonic()
            near, far = connected(a, listener)
            for sock in (near, far):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 50_000)
            for _ in range(10):
                near.send(b"x" * 100)
                receive(far, 100)
                far.send(b"y")
                receive(near, 1)
            quiet = tcp_info(near)
            with Deaf(b):
                near.send(b"z")
                time.sleep(0.3)
                limit, waiting = send_memory(near)
            receive(far, 1)
            local = port_of(near)
            info = tcp_info(near)
            near.close()
            far.close()
            took = (time.monotonic() - begun) * 1e6
    mine = [row for row in rows(tracer.stdout) if row["lport"] == local]
    events = [row["event"] for row in mine]
    assert events[0] == "new" and events.count("new") == 1
    assert events.count("retrans") == info[8 + 23] > 0
    assert events.count("rcv") >= 10
    ends = (a.v4, b.v4) if family == socket.AF_INET else (a.v6, b.v6)
    assert len({row["sock"] for row in mine}) == 1
    assert all((row["laddr"], row["raddr"], row["rport"]) == (*ends, port) for row in mine)
    others = [row for row in rows(tracer.stdout) if row["lport"] == port and row["rport"] == local]
    assert [row["event"] for row in others].count("new") == 1
    assert all((row["laddr"], row["raddr"]) == ends[::-1] for row in others)
    times = [int(str(row["time_us"])) for row in mine]
    assert times == sorted(times)
    assert times[-1] - times[0] <= took
    lost = next(i for i, event in enumerate(events) if event == "retrans")
    assert mine[1]["snd_cwnd"] == 10  # the initial window (RFC 6928)
    assert mine[lost]["snd_cwnd"] == quiet[8 + 18]  # a tail loss probe does not change it
    assert all(row["snd_ssthresh"] == 2147483647 for row in mine[:lost])
    assert (mine[lost]["sk_sndbuf"], mine[lost]["sk_wmem_queued"]) == (limit, waiting)
    assert limit == 100_000 and waiting > 0
    columns = "event", "sock", "snd_cwnd", "snd_ssthresh", "sk_sndbuf", "sk_wmem_queued"
    assert short.lines[0] == "event,sock,time_us,snd_cwnd,snd_ssthresh,sk_sndbuf,sk_wmem_queued"
    received = [line.split(",") for line in short.lines[1:]]
    assert [row[:2] + row[3:] for row in received if row[1] == mine[0]["sock"]] == [
        [str(row[name]) for name in columns] for row in mine if row["event"] == "rcv"]


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
        (version, near, address[0], address[1], "-", NO_SOCKET)}
    assert all(str(row["FLAGS"]).startswith("S") for row in found)


def test_tcpdrop_has_a_stack(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with b.listener() as unused:
        address = unused.getsockname()[:2]
    with Tracer("tcpdrop", "-P", str(address[1])) as tracer, a.socket() as client:
        assert client.connect_ex(address) != 0
    assert re.search(rf"{NO_SOCKET} +S\w*\n(.*\n)*? +tcp_v4_rcv", tracer.stdout)


def test_tcprtt(pair: tuple[Namespace, Namespace], relay: Relay, family: socket.AddressFamily) -> None:
    """20 ms there and back at least, and no longer than the longest question with its answer; of both ends."""
    a, b = pair
    hosts = relay.v4 if family == socket.AF_INET else relay.v6
    longest = 0.0
    with b.socket(family) as listener:
        listener.bind((hosts[1], 0))
        listener.listen()
        port = port_of(listener)
        with Tracer("tcprtt", "-s", "-P", str(port)) as summary, Tracer("tcprtt", "-P", str(port)) as histogram:
            begun = time.monotonic()
            near, far = connected(a, listener)
            for _ in range(12):
                longest = max(longest, time.monotonic() - begun)
                begun = time.monotonic()
                near.send(b"x")
                receive(far, 1)
                far.send(b"y")
                receive(near, 1)
            longest = max(longest, time.monotonic() - begun)
            far.sendall(b"z" * 100_000)
            receive(near, 100_000)
            arrived = segments_in(near)
            near.close()
            far.close()
    for host in hosts:
        found = re.search(rf"^@srtt\[{re.escape(host)}\]: {{ .count = (\d+), .average = (\d+), .total",
                          summary.stdout, re.M)
        least = re.search(rf"^@min_us\[{re.escape(host)}\]: (\d+)$", summary.stdout, re.M)
        assert found is not None and least is not None
        assert int(found[1]) >= 12
        # a smoothed time is a mean of what was measured: each a time that ended before the answer was there
        assert 2 * relay.delay * 1e6 <= int(least[1]) <= int(found[2]) <= longest * 1e6
        assert histogram_total(histogram.stdout, f"us[{host}]") == int(found[1])
    assert histogram_total(histogram.stdout, f"us[{hosts[1]}]") == arrived - 1  # but the SYN-ACK


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
    found = re.search(rf"^@wait\[{re.escape(b.v4)}\]: {{ .count = (\d+), .average = \d+, .total = (\d+) }}$",
                      tracer.stdout, re.M)
    limit = re.search(rf"^@rate\[{re.escape(b.v4)}\]: {{ .count = \d+, .average = (\d+), .total", tracer.stdout, re.M)
    assert found is not None and limit is not None
    assert int(limit[1]) <= rate
    # the first ten segments, up to 64 KB each, go out at once; the waits are apart, so that they fit into the time
    assert (size - 10 * 65536) / rate * 1e6 <= int(found[2]) <= whole
    assert int(found[2]) >= took / 2


FAMILY_TOOLS = ("tcpconnect", "tcpaccept", "tcplife", "tcpstates", "tcptop", "tcprtt", "tcpretrans", "tcpdrop")


@pytest.mark.parametrize("option", ["-4", "-6"])
def test_one_of_the_families(pair: tuple[Namespace, Namespace], option: str) -> None:
    """Connections, lost segments and refusals of both; each tool shows those of the one it was asked for."""
    a, b = pair
    with contextlib.ExitStack() as stack:
        tracers = [stack.enter_context(Tracer(tool, option)) for tool in FAMILY_TOOLS]
        for family in (socket.AF_INET, socket.AF_INET6):
            with b.listener(family) as listener:
                address = listener.getsockname()[:2]
                converse(a, listener, 5000, 5000)
            with a.socket(family) as client:
                assert client.connect_ex(address) != 0
            retransmit(pair, family, 0.4)
        time.sleep(1.1)  # tcptop's interval
    wanted, other = (b.v4, b.v6) if option == "-4" else (b.v6, b.v4)
    for tool, tracer in zip(FAMILY_TOOLS, tracers):
        assert wanted in tracer.stdout and other not in tracer.stdout, tool


LONG = "fd77:1111:2222:3333:4444:5555:6666:777"


def test_wide_columns_keep_long_addresses_in_line() -> None:
    """Each cell of a row begins, or ends, where its heading does, though an address has all of its 39 characters."""
    with Pair() as (a, b):
        for one, last in ((a, 1), (b, 2)):
            ip("-n", one.name, "addr", "add", f"{LONG}{last}/64", "dev", one.device, "nodad")
        host = f"{LONG}2"
        with b.socket(socket.AF_INET6) as listener, contextlib.ExitStack() as stack:
            listener.bind((host, 0))
            listener.listen()
            tools = "tcpstates", "tcplife", "tcpconnect", "tcpaccept", "soconnect", "soaccept", "tcptop"
            tracers = [stack.enter_context(Tracer(tool, "-w")) for tool in tools]
            converse(a, listener, 5000, 5000)
            with b.listener(socket.AF_INET6) as short:
                converse(a, short, 5000, 5000)
            time.sleep(1.1)  # tcptop's interval
    for tool, tracer in zip(tools, tracers):
        heading = next(line for line in tracer.lines if "PID " in line or "TIME " in line)
        mine = [line for line in tracer.lines if re.search(rf"{LONG}|{a.v6}|{b.v6}", line)]
        assert len(mine) >= 2, tool
        for line in mine:
            for cell in re.finditer(r"\S+", line):
                places = [(name.start(), name.end()) for name in re.finditer(r"[^\s:]+", heading)]
                if tool == "tcptop" and cell[0].startswith("fd77:"):
                    continue  # address and port in one, which ends where the port is left-aligned
                starts, ends = [start for start, _ in places], [end for _, end in places]
                last = cell.end() == len(line)
                assert cell.start() in starts or cell.end() in ends or last, (tool, heading, line)


def test_tcpstates_filters(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with b.listener() as listener, b.listener() as other:
        port = str(port_of(listener))
        with Tracer("tcpstates", "-D", port, "-T") as to, Tracer("tcpstates", "-L", port) as of:
            for server in (listener, other) * 5:
                converse(a, server, 10, 10)
            time.sleep(0.05)
    assert len(to.lines) == len(of.lines) == 1 + 5 * 5  # a heading, and five changes each
    births = [line for line in to.lines if " CLOSE       -> SYN_SENT" in line]
    assert len(births) == 5 and all(line.endswith(" 0.000") for line in births)  # though addresses are used again
    assert {line.split()[7] for line in to.lines[1:]} == {line.split()[4] for line in of.lines[1:]} == {port}
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in to.lines[1:])
