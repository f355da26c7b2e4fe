#!/usr/bin/env python3
"""What the one-liners are run on: a process whose every call is known. Its parts are named on the command line.

It says "ready" and waits for SIGUSR1, does its parts, says "done" and waits for SIGUSR1 again: by signals, so that
waiting makes no call that a one-liner could count.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from loopback import receive

ANSWERS = [200 << (number % 8) for number in range(40)]  # bytes; 255000 in all
REQUEST = 1000
READS, SLEEPS, POLLS, OPENS, REFUSED, DATAGRAMS = 1000, 10, 4, 3, 5, 30
UNANSWERED = "10.213.7.1"  # the address that nobody answers, in a network namespace of its own


def name_thread(name: str) -> None:
    """As long as it lives; no call that is in any one-liner."""
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME


def serve(listener: socket.socket) -> None:
    name_thread("web-server")
    for answer in ANSWERS:
        sock, _ = listener.accept()
        with sock:
            receive(sock, REQUEST)
            sock.sendall(b"a" * answer)
            sock.recv(1)  # the client closes first


def tcp() -> None:
    """40 connections: a request of 1000 bytes, an answer of 200 to 25600."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        for answer in ANSWERS:
            with socket.create_connection(listener.getsockname()) as sock:
                sock.sendall(b"q" * REQUEST)
                receive(sock, answer)
        server.join()


def refused() -> None:
    """Five connections to a port where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for _ in range(REFUSED):
            with socket.socket() as sock:
                sock.connect_ex(unused.getsockname())


def udp() -> None:
    """30 datagrams of 100 bytes, each answered by one of 50."""
    kind = socket.AF_INET, socket.SOCK_DGRAM
    with socket.socket(*kind) as server, socket.socket(*kind) as client:
        server.bind(("127.0.0.1", 0))
        for _ in range(DATAGRAMS):
            client.sendto(b"q" * 100, server.getsockname())
            _, back = server.recvfrom(1000)
            server.sendto(b"a" * 50, back)
            client.recv(1000)


def polls() -> None:
    """Four calls of poll() for two descriptors."""
    with socket.socket() as one, socket.socket() as two:
        poll = select.poll()
        poll.register(one)
        poll.register(two)
        for _ in range(POLLS):
            poll.poll(0)


def reads() -> None:
    """1000 reads of 512 bytes."""
    fd = os.open("/dev/zero", os.O_RDONLY)
    for _ in range(READS):
        os.read(fd, 512)
    os.close(fd)


def busy() -> None:
    """Half a second of CPU time, nearly all of it in read()."""
    fd = os.open("/dev/zero", os.O_RDONLY)
    while time.process_time() < busy_until:
        os.read(fd, 1 << 20)
    os.close(fd)


def sleeps() -> None:
    """Ten sleeps of a millisecond."""
    for _ in range(SLEEPS):
        time.sleep(0.001)


def opens() -> None:
    """A file, three times."""
    for _ in range(OPENS):
        os.close(os.open("/etc/hostname", os.O_RDONLY))


def unanswered() -> None:
    """A connection to a host that never answers, through a device that nobody reads, until its first segment was sent
    twice: one retransmit, a second after the first."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "unshare")
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", b"nobody0", 0x1001))  # TUNSETIFF: IFF_TUN, no header
    for words in ("addr add 10.213.7.2/24 dev nobody0", "link set nobody0 up"):
        subprocess.run(["ip", *words.split()], check=True)
    with socket.socket() as sock:
        sock.settimeout(1.7)
        sock.connect_ex((UNANSWERED, 80))
    os.close(device)


def shaped() -> None:
    """50 datagrams of 1000 bytes through a token bucket of 8 Mbit/s, into a device that is read."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "unshare")
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", b"slow0", 0x1001))
    for words in ("ip addr add 10.213.8.2/24 dev slow0", "ip link set slow0 up",
                  "tc qdisc add dev slow0 root tbf rate 8mbit burst 2kb limit 200kb"):
        subprocess.run(words.split(), check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(50):
            sock.sendto(b"x" * 1000, ("10.213.8.1", 9))
    seen = 0
    while seen < 50:
        seen += len(os.read(device, 2000)) == 1028  # others are IPv6's own
    os.close(device)


def execs() -> None:
    """Twenty processes that run true."""
    for _ in range(20):
        subprocess.run(["/bin/true"], check=True)


def shells() -> None:
    """Twenty commands to an interactive shell."""
    import pty
    child, master = pty.fork()
    if child == 0:
        os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], {"PATH": os.environ["PATH"], "TERM": "dumb"})
    for word in [*["true"] * 20, "exit"]:
        os.write(master, word.encode() + b"\n")
    try:
        while os.read(master, 4096):
            pass
    except OSError:
        pass  # it has gone
    os.waitpid(child, 0)
    os.close(master)


def writes() -> None:
    """50 blocks written to disk."""
    import tempfile
    with tempfile.TemporaryFile(dir="/var/tmp") as file:
        for _ in range(50):
            os.write(file.fileno(), b"x" * 4096)
            os.fsync(file.fileno())


def names() -> None:
    """100 look-ups of the machine's own name."""
    for _ in range(100):
        socket.getaddrinfo("localhost", 80)


def fds() -> None:
    """A descriptor sent and received, 50 times."""
    one, two = socket.socketpair()
    with one, two:
        for _ in range(50):
            socket.send_fds(one, [b"x"], [0])
            for fd in socket.recv_fds(two, 1, 1)[1]:
                os.close(fd)


def udpconnects() -> None:
    """50 UDP sockets that are given an address."""
    for _ in range(50):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", 9))


def listens() -> None:
    """50 sockets that listen."""
    for _ in range(50):
        with socket.create_server(("127.0.0.1", 0)):
            pass


def kills() -> None:
    """50 signals that only ask whether the process is there."""
    for _ in range(50):
        os.kill(os.getpid(), 0)


def identities() -> None:
    """50 changes to the user that the process has already."""
    for _ in range(50):
        os.setuid(os.getuid())


def threads() -> None:
    """50 threads that end at once."""
    for _ in range(50):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()


def handshakes() -> None:
    """20 TLS handshakes in memory, without certificates."""
    import ssl
    kinds = [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)]
    for context in kinds:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AECDH-AES128-SHA:@SECLEVEL=0")
    kinds[1].check_hostname = False
    kinds[1].verify_mode = ssl.CERT_NONE
    for _ in range(20):
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [kinds[0].wrap_bio(there, back, server_side=True), kinds[1].wrap_bio(back, there)]
        while ends:
            for end in list(ends):
                try:
                    end.do_handshake()
                    ends.remove(end)
                except ssl.SSLWantReadError:
                    pass


PARTS: dict[str, Callable[[], None]] = {part.__name__: part for part in (
    tcp, refused, udp, polls, reads, busy, sleeps, opens, unanswered, shaped, execs, shells, writes, names, fds,
    udpconnects, listens, kills, identities, threads, handshakes)}
busy_until = 0.0


def main() -> None:
    global busy_until
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    name_thread("web-client")
    print("ready", flush=True)
    signal.sigwait({signal.SIGUSR1})
    busy_until = time.process_time() + 0.5
    for part in sys.argv[1:]:
        PARTS[part]()
    print("done", flush=True)
    signal.sigwait({signal.SIGUSR1})


if __name__ == "__main__":
    main()
