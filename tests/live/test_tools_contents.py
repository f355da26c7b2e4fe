"""The tools that look into what programs say to each other: Unix sockets, OpenSSL."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from printed import histogram_total, rows
from sonde.kernel.types.world import LiveWorld
from support import Tracer

ME = str(os.getpid())


def test_undump() -> None:
    """Streams that are read in pieces, datagrams, and bytes that are no text; nothing of an IP socket."""
    with Tracer("undump", "-p", ME) as tracer:
        near, far = socket.socketpair()
        with near, far:
            near.sendall(b"Hello, world\n\x00\xff")
            assert far.recv(5) + far.recv(100) == b"Hello, world\n\x00\xff"
            for size in (3000, 4000):
                near.sendall(b"a" * size)
                assert far.recv(size) == b"a" * size
        near, far = socket.socketpair(type=socket.SOCK_DGRAM)
        with near, far:
            near.send(b"datagram")
            far.recv(4)
        with socket.create_server(("127.0.0.1", 0)) as listener, \
                socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
            client.sendall(b"by the network")
            server.recv(100)
    comm = Path("/proc/self/comm").read_text().strip()
    found = re.findall(rf"^\d\d:\d\d:\d\d {re.escape(comm)} +{ME} +(\d+) +(.*)$", tracer.stdout, re.M)
    assert found[:2] == [("5", "Hello"), ("10", ", world\\x0a\\x00\\xff")]
    length = 1024 if LiveWorld().has_feature("long_keys") else 200
    assert found[2:] == [("3000", "a" * length), ("4000", "(in pages)"), ("4", "data")]
    assert "by the network" not in tracer.stdout


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Files: one signed by itself, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("needs the program openssl")
    key, cert = str(tmp_path / "key"), str(tmp_path / "cert")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days",
                    "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    if not any("libssl" in line for line in Path("/proc/self/maps").read_text().splitlines()):
        pytest.skip("this Python has OpenSSL in itself")
    return cert, key


ROUNDS = 7


def converse(cert: str, key: str) -> int:
    """A connection with TLS and so many questions and answers; the nanoseconds that it took."""
    answers = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    answers.load_cert_chain(cert, key)
    asks = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asks.load_verify_locations(cert)
    begun = time.monotonic_ns()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve() -> None:
            with answers.wrap_socket(listener.accept()[0], server_side=True) as sock:
                for _ in range(ROUNDS):
                    sock.sendall(sock.recv(100))

        thread = threading.Thread(target=serve)
        thread.start()
        with asks.wrap_socket(socket.create_connection(listener.getsockname()), server_hostname="localhost") as sock:
            for _ in range(ROUNDS):
                sock.sendall(b"question")
                assert sock.recv(100) == b"question"
        thread.join()
    return time.monotonic_ns() - begun


def plain(name: str) -> str:
    """SSL_read and SSL_read_ex are one: which one it is depends on the program."""
    return name.removesuffix("_ex")


def test_sslsnoop(certificate: tuple[str, str]) -> None:
    """Both ends: a handshake each with one signature, as many reads and writes as there were."""
    with Tracer("sslsnoop", "-p", ME, "-f", "json") as tracer, Tracer("sslsnoop", "-p", ME, "-s", "60000000") as slow:
        took = converse(*certificate)
    found = rows(tracer.stdout)
    calls = [(plain(str(row["FUNC"])), row["TID"]) for row in found if int(str(row["RET"])) > 0]
    threads = {tid for _, tid in calls}
    assert len(threads) == 2
    for tid in threads:
        mine = [name for name, owner in calls if owner == tid]
        assert mine.count("SSL_do_handshake") == 1
        assert mine.count("SSL_read") == mine.count("SSL_write") == ROUNDS
        assert "EVP_PKEY_derive" in mine[:mine.index("SSL_do_handshake")]
    assert all(0 <= int(str(row["LAT(us)"])) * 1000 <= took for row in found)
    verified = [tid for name, tid in calls if name == "EVP_DigestVerify"]
    signed = [tid for name, tid in calls if name == "EVP_DigestSign"]
    assert len(set(verified)) == 1 == len(set(signed)) and verified[0] != signed[0]
    assert "SSL_" not in slow.stdout


def test_ssllatency(certificate: tuple[str, str]) -> None:
    with Tracer("ssllatency", "-p", ME) as tracer:
        took = converse(*certificate)
    stats = {name: (int(n), int(us)) for name, n, us in re.findall(
        r"^@stat\[(\w+)\]: { .count = (\d+), .average = \d+, .total = (\d+) }$", tracer.stdout, re.M)}
    by_name = {plain(name): values for name, values in stats.items()}
    assert by_name["SSL_do_handshake"][0] == 2
    assert by_name["SSL_read"][0] == by_name["SSL_write"][0] == 2 * ROUNDS
    for name, (count, us) in stats.items():
        assert histogram_total(tracer.stdout, f"hist[{name}]") == count
        assert us * 1000 <= 2 * took
    assert "@called" not in tracer.stdout and "@depth" not in tracer.stdout
