"""The tools that measure what data waits for on its way through the network stack, in namespaces of the tests' own."""

from __future__ import annotations

import os
import re
import socket
import time

import pytest

from drop_reasons import NO_SOCKET
from namespaces import Namespace, connected, port_of, receive
from printed import histogram_total, rows
from support import Tracer

ME = str(os.getpid())


def test_tcpsend(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    """Each call with its size; the one that would have to wait, and the one into a connection that is gone."""
    a, b = pair
    with b.listener(family) as listener:
        near, far = connected(a, listener)
        ports = port_of(near), port_of(far)
        with Tracer("tcpsend", "-p", ME, "-P", f"1,{ports[0]}", "-T", "-w", "-f", "json") as tracer:
            for size in (1, 100, 70000):
                near.sendall(b"x" * size)
                receive(far, size)
            far.sendall(b"answer")
            receive(near, 6)
            near.setblocking(False)
            filled = 0
            with pytest.raises(BlockingIOError):
                while True:
                    filled += near.send(b"y" * 65536)
            receive(far, filled)
            near.shutdown(socket.SHUT_WR)
            with pytest.raises(BrokenPipeError):
                near.send(b"z")
        near.close()
        far.close()
    found = rows(tracer.stdout)
    (near_address, far_address) = (a.v4, b.v4) if family == socket.AF_INET else (a.v6, b.v6)
    sent = [row for row in found if row["LPORT"] == ports[0]]
    assert {(r["LADDR"], r["RADDR"], r["RPORT"], r["PID"]) for r in sent} == {
        (near_address, far_address, ports[1], os.getpid())}
    good = [int(str(row["BYTES"])) for row in sent if row["RESULT"] == "Success"]
    assert good[:2] == [1, 100] and sum(good) == 70101 + filled
    assert [row["RESULT"] for row in sent if row["RESULT"] != "Success"] == [
        "Try again (operation would block)", "Broken pipe"]
    assert [(r["BYTES"], r["LADDR"]) for r in found if r["LPORT"] == ports[1]] == [(6, far_address)]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", str(row["TIME"])) for row in found)


def test_tcpsend_filters(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with b.listener() as listener:
        near, far = connected(a, listener)
        port = port_of(near)
        with Tracer("tcpsend", "-L", f"{port}-{port}") as local, Tracer("tcpsend", "-D", f"2,{port}") as remote, \
                Tracer("tcpsend", "-p", "1", "-P", str(port)) as init, \
                Tracer("tcpsend", "-s", "50", "-P", str(port)) as large, \
                Tracer("tcpsend", "-e", "-P", str(port)) as errors:
            near.sendall(b"x" * 49)
            near.sendall(b"x" * 50)
            far.sendall(b"y" * 7)
            receive(near, 7)
            far.close()
        near.close()
    sizes = [[line.split()[-2] for line in tracer.lines[1:]] for tracer in (local, remote, init, large, errors)]
    assert sizes == [["49", "50"], ["7"], [], ["50"], []]


def test_tcpnagle(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    """Of two small writes the second waits for the answer to the first, which the other side delays; unless Nagle's
    algorithm is off. What is corked waits until it is not."""
    a, b = pair
    with b.listener(family) as listener:
        near, far = connected(a, listener)
        with Tracer("tcpnagle", "-P", str(port_of(near)), "-p", ME) as tracer:
            for _ in range(10):
                far.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
                near.send(b"one")
                near.send(b"two")
                receive(far, 6)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(7):
                near.send(b"x")
                receive(far, 1)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            for _ in range(3):
                near.send(b"corked")
            receive(far, 18)
        near.close()
        far.close()
    assert "@nagle[ON]: 20\n" in tracer.stdout and "@nagle[OFF]: 7\n" in tracer.stdout
    assert "@nagle[CORK]: 3\n" in tracer.stdout
    # a second write leaves at once where the first one happens to be acknowledged in time
    assert 0 < histogram_total(tracer.stdout, "blocked_us[NAGLE]") <= 10
    assert histogram_total(tracer.stdout, "blocked_us[CORK]") == 1
    assert "@since" not in tracer.stdout and "@next" not in tracer.stdout


def test_skbdrop_shows_the_counters(pair: tuple[Namespace, Namespace]) -> None:
    """Of the namespace in which it runs, exactly what they have grown by; none of them is changed by looking."""
    a, b = pair
    with b.listener() as unused:
        address = unused.getsockname()
    tracer = Tracer("skbdrop", "-r")
    b.within(tracer.__enter__)
    try:
        before = b.counters()
        with a.socket(kind=socket.SOCK_DGRAM) as client:
            for _ in range(11):
                client.sendto(b"x", address)
        after = b.counters()
    finally:
        tracer.__exit__(None, None, None)
    shown = dict(re.findall(r"^@nstat\[(\w+)\]: (\d+)$", tracer.stdout, re.M))
    assert shown["UdpNoPorts"] == "11" == str(after["UdpNoPorts"] - before["UdpNoPorts"])
    assert "TcpCurrEstab" not in shown and "TcpRetransSegs" not in shown
    assert re.search(rf"^@reason\[{NO_SOCKET}\]: \d+$", tracer.stdout, re.M)
    with Tracer("skbdrop", "-n") as quiet:
        pass
    assert "@nstat" not in quiet.stdout


def stages(text: str, map: str) -> dict[str, tuple[int, int]]:
    """Key -> (count, total) of a map of stats()."""
    found = re.findall(rf"^@{map}\[(.*)\]: {{ .count = (\d+), .average = \d+, .total = (\d+) }}$", text, re.M)
    return {key: (int(count), int(ns)) for key, count, ns in found}


def test_skbstages(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    """Every segment passes every stage; the reader comes late, and the wait is in its queue."""
    a, b = pair
    with b.listener(family) as listener:
        near, far = connected(a, listener)
        port = port_of(near)
        with near, far, Tracer("skbstages", "-P", f"{port},{port}") as tracer, Tracer("skbstages", "-P", "1") as other:
            waited = whole = 0
            for _ in range(12):
                begun = time.monotonic_ns()
                near.send(b"x" * 900)
                sent = time.monotonic_ns()
                time.sleep(0.002)
                waited += time.monotonic_ns() - sent
                receive(far, 900)
                whole += time.monotonic_ns() - begun
    found, lives = stages(tracer.stdout, "stage"), stages(tracer.stdout, "life")
    assert lives["read"][0] == 12 == found["6 socket queue"][0]
    for stage in ("2 qdisc", "3 device", "4 receive backlog", "5 ip and tcp"):
        assert found[stage][0] == 12 + lives["acknowledgement"][0]
    assert waited <= lives["read"][1] <= whole
    assert set(lives) == {"read", "acknowledgement"}
    assert re.findall(r"^@lost_sight: (\d+)$", tracer.stdout, re.M) == ["0"]
    assert sum(ns for _, ns in found.values()) == sum(ns for _, ns in lives.values())
    assert not stages(other.stdout, "stage")


@pytest.mark.usefixtures("socket_lengths")
def test_skbstages_sees_what_nagle_holds_back(pair: tuple[Namespace, Namespace]) -> None:
    a, b = pair
    with b.listener() as listener:
        near, far = connected(a, listener)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        with near, far, Tracer("skbstages", "-P", str(port_of(near))) as tracer:
            begun = time.monotonic_ns()
            near.send(b"corked")
            sent = time.monotonic_ns()
            time.sleep(0.01)
            held = time.monotonic_ns() - sent
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
            receive(far, 6)
            whole = time.monotonic_ns() - begun
    count, ns = stages(tracer.stdout, "stage")["1 tcp send queue"]
    assert count == 1 and held <= ns <= whole


def test_lists_of_ports(pair: tuple[Namespace, Namespace], family: socket.AddressFamily) -> None:
    """Two of three listeners are asked for, one by its number and one in a range."""
    a, b = pair
    with b.listener(family) as one, b.listener(family) as two, b.listener(family) as three:
        ports = [port_of(listener) for listener in (one, two, three)]
        chosen = f"1,{ports[0]},{ports[2]}-{ports[2]}"
        with Tracer("tcpconnect", "-w", "-P", chosen, "-f", "json") as opened, \
                Tracer("tcpconnect", "-c", "-p", ME, "-P", chosen) as counted, \
                Tracer("tcpaccept", "-w", "-P", chosen, "-f", "json") as taken, \
                Tracer("tcplife", "-w", "-D", chosen, "-p", f"1,{ME}", "-f", "json") as lived, \
                Tracer("tcprtt", "-P", "1-2") as none:
            for listener in (one, two, three, three):
                near, far = connected(a, listener)
                near.send(b"x")
                receive(far, 1)
                near.close()
                assert far.recv(1) == b""
                far.close()
            time.sleep(0.05)
    wanted = [ports[0], ports[2], ports[2]]
    host = b.v4 if family == socket.AF_INET else b.v6
    assert [(row["DPORT"], row["DADDR"]) for row in rows(opened.stdout)] == [(port, host) for port in wanted]
    assert [(row["LPORT"], row["LADDR"]) for row in rows(taken.stdout)] == [(port, host) for port in wanted]
    assert [row["RPORT"] for row in rows(lived.stdout)] == wanted
    counts = re.findall(r"^@connects\[.*, (\S+), (\d+)\]: (\d+)$", counted.stdout, re.M)
    assert {(where, int(port), int(n)) for where, port, n in counts} == {(host, ports[0], 1), (host, ports[2], 2)}
    assert "@us[" not in none.stdout
