"""The tools that watch sockets, against workloads whose answers are known exactly."""

from __future__ import annotations

import ctypes
import os
import re
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from namespaces import Pair, port_of, receive
from printed import histogram_total, rows
from support import Tracer, run_sonde, set_comm

ME = str(os.getpid())

COMM = f"sonde{os.getpid()}"  # of the workload's thread


@pytest.fixture(autouse=True)
def own_name() -> Iterator[None]:
    with open(f"/proc/self/task/{threading.get_native_id()}/comm") as file:
        before = file.read().strip()
    set_comm(COMM)
    yield
    set_comm(before)


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["v4", "v6"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    with listening(request.param) as sock:
        yield sock


def listening(family: int = socket.AF_INET, backlog: int = 5) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
    sock.listen(backlog)
    return sock


def in_thread(work: Callable[[], object]) -> None:
    """Let a thread, which has this one's name, do it: its id is not the process's."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def call(function: str, *args: object) -> int:
    """A function of the C library that Python's own would not call so, or with such arguments."""
    return int(getattr(ctypes.CDLL(None), function)(*args))


def connected(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.socket(listener.family, socket.SOCK_STREAM)
    client.connect(listener.getsockname()[:2])
    return client, listener.accept()[0]


def counts(tracer: Tracer, name: str) -> dict[str, int]:
    """``@name[KEY]: N`` by KEY."""
    return {key: int(n) for key, n in re.findall(rf"^@{name}\[(.*)\]: (\d+)$", tracer.stdout, re.M)}


def test_sockstat() -> None:
    with Tracer("sockstat", "-p", ME, "1", "2") as tracer:
        with listening() as server:
            for _ in range(3):
                client, peer = connected(server)
                client.send(b"x")
                peer.recv(1)
                client.close()
                peer.close()
            with socket.create_connection(server.getsockname()[:2]):
                os.close(call("accept", server.fileno(), None, None))
            for end in socket.socketpair():
                end.close()
        tracer.wait()
    total: dict[str, int] = {}
    for key, n in re.findall(r"^@\[(.*)\]: (\d+)$", tracer.stdout, re.M):
        total[key] = total.get(key, 0) + int(n)
    assert len(re.findall(r"^\d\d:\d\d:\d\d$", tracer.stdout, re.M)) == 2
    system = "tracepoint:syscalls:sys_enter_"
    names = "tracepoint:sock:sock_send_length", "tracepoint:sock:sock_recv_length"
    if not any(name in total for name in names):  # Linux 6.1: doctor says so
        names = "fexit:vmlinux:inet_sendmsg", "fexit:vmlinux:inet_recvmsg"
    expected = {f"{system}socket": 5, f"{system}bind": 1, f"{system}listen": 1, f"{system}connect": 4,
                f"{system}accept4": 3, f"{system}accept": 1, f"{system}socketpair": 1, names[0]: 3, names[1]: 3}
    assert total == expected


def family_workload() -> None:
    """Three, two and one connections; one refused. No count: nothing to accept, no address, and what is no socket."""
    with listening() as four, listening(socket.AF_INET6) as six, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{COMM}")
        unix.listen(1)
        for server, times in ((four, 3), (six, 2)):
            for _ in range(times):
                for sock in connected(server):
                    sock.close()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"\0{COMM}")
            os.close(call("accept", unix.fileno(), None, None))
        six.setblocking(False)
        with pytest.raises(BlockingIOError):
            six.accept()
        with socket.socket(socket.AF_INET6) as client, open("/dev/null") as null:
            assert client.connect_ex(("::1", port_of(four))) != 0
            assert call("connect", client.fileno(), ctypes.c_void_p(8), 28) == -1
            assert call("connect", null.fileno(), bytes(28), 28) == -1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect(("127.0.0.1", 9))


def test_sofamily() -> None:
    with Tracer("sofamily", "-p", ME) as tracer:
        family_workload()
    accepted = {f"{COMM}, 2, AF_INET": 3, f"{COMM}, 10, AF_INET6": 2, f"{COMM}, 1, AF_UNIX": 1}
    assert counts(tracer, "accept") == accepted
    assert counts(tracer, "connect") == accepted | {f"{COMM}, 2, AF_INET": 4, f"{COMM}, 10, AF_INET6": 3}


def test_soprotocol() -> None:
    with Tracer("soprotocol", "-p", ME) as tracer:
        family_workload()
    tcp, six = f"{COMM}, 6, IPPROTO_TCP, TCP", f"{COMM}, 6, IPPROTO_TCP, TCPv6"
    unix = [key for key in counts(tracer, "accept") if "UNIX" in key]
    assert len(unix) == 1 and unix[0].startswith(f"{COMM}, 0, IPPROTO_IP, UNIX")
    assert counts(tracer, "accept") == {tcp: 3, six: 2, unix[0]: 1}
    assert counts(tracer, "connect") == {tcp: 3, six: 4, unix[0]: 1, f"{COMM}, 17, IPPROTO_UDP, UDP": 1}


class Transfer:
    """7 writes of 1000 bytes and one of 50000 by a thread; a read that finds nothing, and one that finds the end."""

    def __init__(self, listener: socket.socket) -> None:
        self.protocol = "TCP" if listener.family == socket.AF_INET else "TCPv6"
        self.reads = 0  # that got bytes
        in_thread(lambda: self._run(listener))

    def _run(self, listener: socket.socket) -> None:
        client, server = connected(listener)
        self.client_port, self.server_port = port_of(client), port_of(server)
        for _ in range(7):
            client.send(b"x" * 1000)
        self.reads += receive(server, 7000)
        client.sendall(b"y" * 50000)
        self.reads += receive(server, 50000)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(1)
        server.setblocking(True)
        client.close()
        assert server.recv(1) == b""
        server.close()


def unix_pair() -> str:
    """3 bytes through a pair of Unix sockets; the kernel's name for those."""
    one, two = socket.socketpair()
    with one, two:
        one.send(b"abc")
        two.recv(10)
    with open("/proc/net/protocols") as file:
        return max((word for word in file.read().split() if word.startswith("UNIX")), key=len)


def test_socketio(listener: socket.socket) -> None:
    """Calls that fail count, too; a Unix socket has no port."""
    with Tracer("socketio", "-p", ME) as tracer:
        done = Transfer(listener)
        unix = unix_pair()
    mine = f"{COMM}, {ME}"
    assert counts(tracer, "io") == {
        f"{mine}, write, {done.protocol}, {done.server_port}": 8,
        f"{mine}, read, {done.protocol}, {done.client_port}": done.reads + 2,
        f"{mine}, write, {unix}, 0": 1, f"{mine}, read, {unix}, 0": 1}


def test_socketio_bytes(listener: socket.socket) -> None:
    with Tracer("socketio", "-b", "-p", ME) as tracer:
        done = Transfer(listener)
        unix = unix_pair()
    mine = f"{COMM}, {ME}"
    assert counts(tracer, "bytes") == {
        f"{mine}, write, {done.protocol}, {done.server_port}": 57000,
        f"{mine}, read, {done.protocol}, {done.client_port}": 57000,
        f"{mine}, write, {unix}, 0": 3, f"{mine}, read, {unix}, 0": 3}


def test_socksize(listener: socket.socket) -> None:
    """The read of the end is one of 0 bytes; the one that failed is none."""
    with Tracer("socksize", "-p", ME) as tracer:
        done = Transfer(listener)
    assert histogram_total(tracer.stdout, f"write_bytes[{COMM}]") == 8
    assert histogram_total(tracer.stdout, f"read_bytes[{COMM}]") == done.reads + 1
    read, written = (tracer.stdout.partition(f"@{name}_bytes[{COMM}]")[2].partition("\n@")[0]
                     for name in ("read", "write"))
    assert re.search(r"^\[512, 1K\) +7 \|", written, re.M) and re.search(r"^\[32K, 64K\) +1 \|", written, re.M)
    assert re.search(r"^\[0\] +1 \|", read, re.M)


def test_socksize_summary(listener: socket.socket) -> None:
    with Tracer("socksize", "--summary", "-p", ME) as tracer:
        done = Transfer(listener)
    assert f"@write[{COMM}]: {{ .count = 8, .average = 7125, .total = 57000 }}" in tracer.stdout
    reads = rf"{{ .count = {done.reads + 1}, .average = \d+, .total = 57000 }}"
    assert re.search(rf"^@read\[{COMM}\]: {reads}$", tracer.stdout, re.M)


def splice(sock: socket.socket, size: int) -> int:
    """Take ``size`` bytes from a socket with splice(); how many calls that took."""
    read, write = os.pipe()
    calls = 0
    while size > 0:
        moved = os.splice(sock.fileno(), write, size)
        size -= len(os.read(read, moved))
        calls += 1
    os.close(read)
    os.close(write)
    return calls


class OddReads:
    """1000 bytes peeked at three times and then read, 2000 thrown away, 3000 and 70 spliced, 3 of a datagram of 9."""

    def __init__(self) -> None:
        with listening() as server:
            client, peer = connected(server)
        with client, peer:
            self.ports = port_of(client), port_of(peer)
            client.sendall(b"a" * 1000)
            for flags in (socket.MSG_PEEK, socket.MSG_PEEK | socket.MSG_WAITALL, socket.MSG_PEEK):
                assert len(peer.recv(1000, flags)) == 1000
            self.reads = receive(peer, 1000)
            client.sendall(b"b" * 2000)
            assert peer.recv_into(bytearray(2000), 0, socket.MSG_TRUNC | socket.MSG_WAITALL) == 2000
            client.sendall(b"c" * 3000)
            self.splices = splice(peer, 3000)
        one, two = socket.socketpair()
        with one, two:
            one.send(b"d" * 70)
            assert splice(two, 70) == 1
        self.udp_write, self.udp_read = self.exchange_datagrams()

    @staticmethod
    def exchange_datagrams() -> tuple[int, int]:
        """Four of 9 bytes: 3 read, 3 read that say 9, 9 spliced, and 9 peeked at and read; the sockets' ports."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            client.connect(server.getsockname())
            server.connect(client.getsockname())
            for _ in range(4):
                client.send(b"012345678")
            assert len(server.recv(3)) == 3
            assert server.recv_into(bytearray(3), 0, socket.MSG_TRUNC) == 9
            assert splice(server, 9) == 1
            assert server.recv(20, socket.MSG_PEEK) == server.recv(20)
            return port_of(server), port_of(client)


def test_what_is_peeked_at_is_not_received_and_what_is_spliced_is() -> None:
    with Tracer("socketio", "-b", "--splice", "-p", ME) as volume, Tracer("socketio", "--splice", "-p", ME) as calls, \
            Tracer("socksize", "-s", "--splice", "-p", ME) as sizes:
        done = OddReads()
    mine = f"{COMM}, {ME}, read"
    found = {key: n for key, n in counts(volume, "bytes").items() if key.startswith(mine)}
    unix = max(found, key=lambda key: "UNIX" in key)
    assert found == {f"{mine}, TCP, {done.ports[0]}": 6000, unix: 70, f"{mine}, UDP, {done.udp_read}": 3 + 9 + 9 + 9}
    found = {key: n for key, n in counts(calls, "io").items() if key.startswith(mine)}
    assert found == {f"{mine}, TCP, {done.ports[0]}": 3 + done.reads + 1 + done.splices, unix: 1,
                     f"{mine}, UDP, {done.udp_read}": 5}
    number = done.reads + 1 + done.splices + 1 + 4
    assert re.search(rf"^@read\[{COMM}\]: {{ .count = {number}, .average = \d+, .total = 6100 }}$", sizes.stdout, re.M)


def test_tcptop_of_peeks_and_splices() -> None:
    with listening() as server, Tracer("tcptop", "--splice", "-p", ME, "-f", "json", "3", "1") as tracer:
        client, peer = connected(server)
        with client, peer:
            client.sendall(b"x" * 20480)
            assert len(peer.recv(20480, socket.MSG_PEEK | socket.MSG_WAITALL)) == 20480
            receive(peer, 10240)
            splice(peer, 10240)
            ports = port_of(client), port_of(peer)
        tracer.wait()
    assert {row["LPORT"]: (row["RX_KB"], row["TX_KB"]) for row in rows(tracer.stdout)} == {
        ports[0]: (0, 20), ports[1]: (20, 0)}


def overflow(server: socket.socket) -> int:
    """50 datagrams into a queue that is too small for them; how many arrived."""
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    server.setblocking(True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for _ in range(50):
            client.sendto(b"x" * 500, server.getsockname())
    server.setblocking(False)
    arrived = 0
    with pytest.raises(BlockingIOError):
        while server.recv(1000):
            arrived += 1
    return arrived


def refused(tracer: Tracer, port: int) -> list[str]:
    return [line for line in tracer.lines if f" port {port}, " in line]


def test_sormem() -> None:
    """Datagrams that overflow a small queue: as many refused as never arrive."""
    with Tracer("sormem") as tracer, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        port = port_of(server)
        arrived = overflow(server)
        limit = server.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert 0 < arrived < 50
    assert len(refused(tracer, port)) == 50 - arrived
    assert all(line.endswith("rc -12") for line in refused(tracer, port))
    low = 1 << limit.bit_length() - 1
    unit = f"{low // 1024}K" if low >= 1024 else str(low)
    assert re.search(rf"^\[{unit}, ", tracer.stdout.partition("@rmem_limit:")[2], re.M)


def test_sormem_of_a_process() -> None:
    """The lines of the sockets that it reads from, once it has; the tool says so."""
    with Tracer("sormem", "-p", ME) as mine, Tracer("sormem", "-p", "1") as init, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        port = port_of(server)
        overflow(server)  # not known yet
        arrived = overflow(server)
    assert f"process {ME} reads from, once it has" in mine.stdout
    assert len(refused(mine, port)) == 50 - arrived > 0
    assert refused(init, port) == []


def test_sormem_tells_a_socket_from_those_before_it() -> None:
    """A child's sockets get the memory of this process's, which are closed: their refused packets are not its."""
    program = """if 1:
        import socket, sys, time
        sockets = []
        for _ in range(100):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind(("127.0.0.1", 0))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            for _ in range(20):
                sock.sendto(b"x" * 1000, sock.getsockname())
            sockets.append(sock)
        print(*(sock.getsockname()[1] for sock in sockets))"""
    with Tracer("sormem", "-p", ME) as mine, Tracer("sormem") as every:
        for _ in range(100):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind(("127.0.0.1", 0))
                sock.sendto(b"x", sock.getsockname())
                sock.recv(2)
        time.sleep(0.3)  # the kernel frees them a little later
        done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    ports = [int(word) for word in done.stdout.split()]
    assert len(ports) == 100 and all(refused(every, port) for port in ports)
    assert [port for port in ports if refused(mine, port)] == []


@pytest.mark.parametrize(("words", "said"), [
    (["argdist", "-d", "1", "tracepoint:net:netif_receive_skb", "args.len"], True),
    (["funccount", "-d", "1", "tracepoint:net:*"], True),
    (["stackcount", "-D", "1", "tracepoint:syscalls:sys_enter_getppid"], False), (["sormem", "1"], False),
])
def test_a_process_and_events_of_interrupts(words: list[str], said: bool) -> None:
    """-p asks who runs: where the user chose events that interrupts set off too, it is said."""
    done = run_sonde(words[0], "-p", ME, *words[1:])
    assert done.returncode == 0
    assert ("interrupts set it off too" in done.stderr) == said


@pytest.mark.parametrize("kind", ["blocking", "poll", "epoll", "select"])
def test_soconnlat(kind: str) -> None:
    with listening() as server, socket.socket() as client, Tracer("soconnlat", "-p", ME) as tracer:
        begun = time.monotonic()
        if kind == "blocking":
            client.connect(server.getsockname())
        else:
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.connect(server.getsockname())
            wait_until_writable(kind, client)
        took = (time.monotonic() - begun) * 1e6
    assert len(re.findall(rf"^, {COMM}\]:", tracer.stdout, re.M)) == 1
    buckets = re.findall(r"^\[(\d+)(K?)\S* .*[)\]] +1 \|@", tracer.stdout, re.M)
    assert [int(low) * (1024 if kilo else 1) <= took for low, kilo in buckets] == [True]
    assert [int(n) for n in re.findall(r"[)\]] +(\d+) \|@", tracer.stdout)] == [1]


def wait_until_writable(kind: str, sock: socket.socket) -> None:
    if kind == "select":
        select.select([], [sock], [])
    elif kind == "poll":
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        poll.poll()
    else:
        with select.epoll() as epoll:
            epoll.register(sock, select.EPOLLOUT)
            epoll.poll()


def test_so1stbyte() -> None:
    """The server answers after 30 ms; the client's own clock is the upper bound."""
    waits = []
    with listening() as server, Tracer("so1stbyte", "-p", ME) as tracer:
        for _ in range(3):
            begun = time.monotonic()
            client = socket.create_connection(server.getsockname())
            peer = server.accept()[0]
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)  # nothing yet: no first byte
            client.setblocking(True)
            threading.Timer(0.03, peer.send, [b"x"]).start()
            client.recv(1)
            waits.append(int((time.monotonic() - begun) * 1e6))
            client.close()
            peer.close()
        unread = socket.create_connection(server.getsockname())
        unread.close()
    assert histogram_total(tracer.stdout, f"us[{COMM}, {ME}]") == 3
    buckets = re.findall(r"^\[(\d+)K, \d+K\) +(\d+) \|", tracer.stdout, re.M)
    assert min(int(low) * 1024 for low, n in buckets if int(n)) <= max(waits)
    assert all(int(low) >= 16 for low, n in buckets if int(n))


def test_solisten() -> None:
    """Of another network namespace too; not what fails, as listen() on a UDP socket does."""
    with Tracer("solisten", "-p", ME, "-f", "json") as tracer, listening(backlog=7) as four, \
            socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, \
            Pair() as (a, _), a.socket(socket.AF_INET6) as six:
        six.bind((a.v6, 0))
        in_thread(lambda: six.listen(3))
        unix.bind(f"\0{COMM}")
        unix.listen(2)
        with pytest.raises(OSError):
            datagrams.listen(1)
        ports = port_of(four), port_of(six)
        base = {"PID": os.getpid(), "COMM": COMM, "NETNS": os.stat("/proc/self/ns/net").st_ino}
        other = base | {"NETNS": os.stat(f"/run/netns/{a.name}").st_ino}
        host = a.v6
    found = rows(tracer.stdout)
    assert found[0] == base | {"PROTO": "TCP", "BACKLOG": 7, "PORT": ports[0], "ADDR": "127.0.0.1"}
    assert found[1] == other | {"PROTO": "TCPv6", "BACKLOG": 3, "PORT": ports[1], "ADDR": host}
    assert str(found[2].pop("PROTO")).startswith("UNIX")
    assert found[2:] == [base | {"BACKLOG": 2, "PORT": 0, "ADDR": "-"}]


def test_tcpbind() -> None:
    with Tracer("tcpbind", "-p", ME, "-f", "json") as tracer, socket.socket() as one, socket.socket() as two, \
            socket.socket(socket.AF_INET6) as six, socket.socket(socket.AF_INET6) as other, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        one.bind(("127.0.0.1", 0))
        port = port_of(one)
        with pytest.raises(OSError):
            two.bind(("127.0.0.1", port))
        with pytest.raises(OSError):
            two.bind(("192.0.2.1", 4321))  # an address for documentation: nobody's
        in_thread(lambda: six.bind(("::1", 0)))
        port6 = port_of(six)
        with pytest.raises(OSError):
            other.bind(("::1", port6))
        datagrams.bind(("127.0.0.1", 0))
    base = {"PID": os.getpid(), "COMM": COMM}
    good, used = {"RET": 0, "ERROR": "Success"}, {"RET": -98, "ERROR": "Address already in use"}
    nobodys = {"RET": -99, "ERROR": "Cannot assign requested address"}
    assert rows(tracer.stdout) == [
        base | good | {"PROTO": "TCP", "ADDR": "127.0.0.1", "PORT": port},
        base | used | {"PROTO": "TCP", "ADDR": "127.0.0.1", "PORT": port},
        base | nobodys | {"PROTO": "TCP", "ADDR": "192.0.2.1", "PORT": 4321},
        base | good | {"PROTO": "TCPv6", "ADDR": "::1", "PORT": port6},
        base | used | {"PROTO": "TCPv6", "ADDR": "::1", "PORT": port6},
    ]


def test_tcpbind_all() -> None:
    with Tracer("tcpbind", "-a", "-p", ME) as tracer, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, \
            socket.socket(socket.AF_UNIX) as unix:
        sock.bind(("127.0.0.1", 0))
        unix.bind(f"\0{COMM}")  # has no IP address: not shown
        port = port_of(sock)
    assert [line.split()[2:6] for line in tracer.lines[1:]] == [["0", "UDP", "127.0.0.1", str(port)]]


def test_udpconnect() -> None:
    """By a thread, to addresses other than the sockets' own; neither TCP nor what is refused."""
    def work() -> None:
        four, six = socket.AF_INET, socket.AF_INET6
        for family, host in ((four, "127.0.0.2"), (six, "::1"), (six, "::ffff:127.0.0.2")):
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.connect((host, 4321))
        with socket.socket(four, socket.SOCK_DGRAM) as sock, pytest.raises(OSError, match=r"denied|unreachable"):
            sock.connect(("255.255.255.255", 4321))  # without SO_BROADCAST, or without a way there
        with listening() as server:
            for sock in connected(server):
                sock.close()

    with Tracer("udpconnect", "-p", ME) as tracer:
        in_thread(work)
    assert [line.split()[1:] for line in tracer.lines[1:]] == [
        [ME, COMM, "4", "127.0.0.2", "4321"], [ME, COMM, "6", "::1", "4321"],
        [ME, COMM, "6", "::ffff:127.0.0.2", "4321"]]


def test_own_options_are_checked() -> None:
    assert "'http' is not a list of numbers" in run_sonde("tcplife", "-L", "http").stderr
    assert "unrecognized option" in run_sonde("tcplife", "--nosuch").stderr
    assert "needs a PORT" in run_sonde("tcplife", "-L").stderr


def test_solife(listener: socket.socket) -> None:
    """A connection lasts until its last descriptor is closed: the client's copy keeps it open 50 ms longer."""
    with Tracer("solife", "-p", ME, "-f", "json") as tracer:
        begun = time.monotonic()
        client, server = connected(listener)
        ports = port_of(client), port_of(server)
        copy = os.dup(client.fileno())
        client.close()
        server.close()
        time.sleep(0.05)
        os.close(copy)
        longest = (time.monotonic() - begun) * 1000
        unconnected = socket.socket()
        unconnected.close()
    host = listener.getsockname()[0]
    protocol = "TCP" if listener.family == socket.AF_INET else "TCPv6"
    found = rows(tracer.stdout)
    base = {"PID": os.getpid(), "COMM": COMM, "PROTO": protocol, "LADDR": host, "RADDR": host}
    spans = [int(str(row.pop("MS"))) for row in found]
    assert found == [base | {"LPORT": ports[1], "RPORT": ports[0]}, base | {"LPORT": ports[0], "RPORT": ports[1]}]
    assert spans[0] <= longest and 50 <= spans[1] <= longest


def test_solife_of_a_connection_that_was_reset(listener: socket.socket) -> None:
    """Both ends have their ports still."""
    with Tracer("solife", "-p", ME, "-f", "json") as tracer:
        client, server = connected(listener)
        ports = port_of(client), port_of(server)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with pytest.raises(ConnectionResetError):
            server.recv(1)
        server.close()
    found = [(row["LPORT"], row["RPORT"]) for row in rows(tracer.stdout)]
    assert found == [ports, ports[::-1]]
