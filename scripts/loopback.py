#!/usr/bin/env python3
"""A client and a server in conversation over loopback, for the examples: 40 connections, each of a request of 1000
bytes and an answer of 200 to 25600."""

from __future__ import annotations

import socket
import threading
import time

ANSWERS = [200 << (number % 8) for number in range(40)]


def name_thread(name: str) -> None:
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as comm:
        comm.write(name)


def receive(sock: socket.socket, count: int) -> None:
    while count > 0:
        chunk = sock.recv(65536)
        if not chunk:
            raise ConnectionError("the other side hung up")
        count -= len(chunk)


def serve(listener: socket.socket) -> None:
    name_thread("web-server")
    for answer in ANSWERS:
        sock, _ = listener.accept()
        with sock:
            receive(sock, 1000)
            sock.sendall(b"a" * answer)
            sock.recv(1)  # the client closes first


def main() -> None:
    name_thread("web-client")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        for answer in ANSWERS:
            with socket.create_connection(listener.getsockname()) as sock:
                sock.sendall(b"q" * 1000)
                receive(sock, answer)
            time.sleep(0.001)
        server.join()


if __name__ == "__main__":
    main()
