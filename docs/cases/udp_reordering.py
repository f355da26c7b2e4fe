#!/usr/bin/env python3
"""A publisher and its subscribers on one host whose datagrams get out of order, for docs/cases/udp-reordering.md.

    udp_reordering.py [ROUNDS [READERS]]      in a network namespace of its own, as root

Two threads send by turns, to a multicast group, datagrams with a running number (32 bits, big endian, at byte 8). What
one of them sends is received on CPU 0, which is kept busy by other datagrams; what the other sends on CPU 1, which is
not. (Receive packet steering of the loopback device says which CPU it is; it may be a sender that wanders between CPUs
just as well.) So the second thread's datagrams overtake those of the first.

The record of what was done is printed as JSON: {"sent": [[thread, number], ...], "read": {pid: [numbers]}}.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading

GROUP, PORT, OFFSET = "239.101.3.2", 45040, 8
OTHER_GROUP, OTHER_PORT, OTHERS, BUSY = "239.101.3.3", 45041, 100, 120
STEERING = "/sys/class/net/lo/queues/rx-0/rps_cpus"
BATCH = 3  # datagrams that a thread sends before it is the other one's turn


def name_thread(name: str) -> None:
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write(name)


def subscriber(group: str, port: int, buffer: int = 0) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, 33, buffer)  # SO_RCVBUFFORCE
    sock.bind((group, port))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                    socket.inet_aton(group) + socket.inet_aton("127.0.0.1"))
    return sock


def publisher() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    return sock


def read(count: int, ready: int, result: int) -> None:
    """A reader's life: all numbers in the order in which they come."""
    sock = subscriber(GROUP, PORT, 32 << 20)
    name_thread("reader")
    sock.settimeout(20)
    os.write(ready, b".")
    numbers = []
    try:
        while len(numbers) < count:
            numbers.append(struct.unpack_from(">I", sock.recv(2000), OFFSET)[0])
    except TimeoutError:
        pass  # what is missing is missing from the record
    with open(result, "w") as file:
        json.dump(numbers, file)


class Senders:
    """Two threads that take turns. Before the first has its turn again all that kept CPU 0 busy has arrived."""

    def __init__(self, rounds: int, other: socket.socket) -> None:
        self.rounds, self.arrived = rounds, other
        self.sent: list[tuple[int, int]] = []
        self.next = 0
        self.turns = [threading.Semaphore(1), threading.Semaphore(0)]
        self.out, self.other = publisher(), publisher()

    def run(self, which: int) -> None:
        name_thread(f"sender{which}")
        os.sched_setaffinity(0, {1})  # on CPU 0 it would have to deliver, at once, what it sends
        for _ in range(self.rounds):
            self.turns[which].acquire()
            with open(STEERING, "w") as file:
                file.write("1" if which == 0 else "2")
            if which == 0:
                for _ in range(BUSY):
                    self.other.sendto(b"busy" * 300, (OTHER_GROUP, OTHER_PORT))
            for _ in range(BATCH):
                self.out.sendto(bytes(OFFSET) + struct.pack(">I", self.next) + bytes(80), (GROUP, PORT))
                self.sent.append((threading.get_native_id(), self.next))
                self.next += 1
            if which == 1:
                for _ in range(BUSY):
                    self.arrived.recv(2000)
            self.turns[1 - which].release()


def main(rounds: int = 50, readers: int = 2) -> None:
    ready, started = os.pipe()
    results: dict[int, int] = {}
    for _ in range(readers):
        near, far = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(near)
            read(2 * rounds * BATCH, started, far)
            os._exit(0)
        os.close(far)
        results[pid] = near
    for _ in range(readers):
        os.read(ready, 1)
    others = [subscriber(OTHER_GROUP, OTHER_PORT, 4 << 20) for _ in range(OTHERS)]
    others[0].settimeout(20)
    senders = Senders(rounds, others[0])
    threads = [threading.Thread(target=senders.run, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {}
    for pid, near in results.items():
        with open(near) as file:
            found[pid] = json.load(file)
        os.waitpid(pid, 0)
    for sock in others:
        sock.close()
    json.dump({"sent": senders.sent, "read": found}, sys.stdout)
    print()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
