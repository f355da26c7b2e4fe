#!/usr/bin/env python3
"""The shop that the tutorial and the cookbook trace: a few processes that do, all the time, what such pages ask about.

    scripts/shop.py [SECONDS]     until Ctrl-C, or for so long; prints the process number of each

With SHOP_REPORTS=snapshot in the environment, the warehouse's reports take the lock only to copy what they need.

    client   looks names up and orders: a connection for each order, one in five to a port where nobody listens
    web      answers: renders a page, asks the warehouse, writes its journal; looks for a file that is missing
    stock    the warehouse: each write reaches the disk (fsync) before it answers, under a lock that its reports hold
    cron     starts short-lived programs, makes and deletes files, sends signals
    meter    sends datagrams; asks for memory that it never gives back
    news     an event loop with 200 light tasks a second, and one that takes too long
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

Listener = socket.socket
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p


def name_thread(name: str) -> None:
    LIBC.prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME


def render(items: int) -> str:
    """A page: what costs CPU time."""
    return "".join(sorted(str(number * number % 1009) for number in range(items)))


def ask(address: tuple[str, int], request: bytes) -> bytes:
    with socket.create_connection(address) as sock:
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def serve(listener: Listener, answer: Callable[[bytes], bytes]) -> None:
    while True:
        sock, _ = listener.accept()
        with sock:
            sock.sendall(answer(sock.recv(65536)))


def client(web: Listener, stock: Listener, folder: str) -> None:
    port = web.getsockname()[1]
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        for number in range(1 << 30):
            socket.getaddrinfo("localhost", port)
            ask(("127.0.0.1", port), b"order %d\n" % number)
            if number % 5 == 0:
                with socket.socket() as sock:
                    sock.connect_ex(nobody.getsockname())
            time.sleep(0.02)


def web(web: Listener, stock: Listener, folder: str) -> None:
    journal = os.open(f"{folder}/journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def answer(order: bytes) -> bytes:
        if os.path.exists(f"{folder}/discounts.conf"):
            return b""
        page = render(3000)
        left = ask(stock.getsockname(), order)
        os.write(journal, order)
        return left + page.encode()
    serve(web, answer)


def stock(web: Listener, stock: Listener, folder: str) -> None:
    lock = threading.Lock()
    shelf = os.open(f"{folder}/shelf", os.O_RDWR | os.O_CREAT)

    def report() -> None:
        name_thread("reports")
        while True:
            with lock:
                time.sleep(0.001 if os.environ.get("SHOP_REPORTS") == "snapshot" else 0.1)
            time.sleep(0.1)

    def answer(order: bytes) -> bytes:
        with lock:
            os.pwrite(shelf, order.ljust(4096), 0)
            os.fsync(shelf)
        return b"taken\n"
    threading.Thread(target=report, daemon=True).start()
    serve(stock, answer)


def cron(web: Listener, stock: Listener, folder: str) -> None:
    while True:
        subprocess.run(["date", "+%s"], stdout=subprocess.DEVNULL, check=False)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="batch-") as file:
            file.write(b"x" * 10000)
        with subprocess.Popen(["sleep", "60"]) as child:
            time.sleep(0.05)
            child.send_signal(signal.SIGTERM)
        time.sleep(0.1)


def meter(web: Listener, stock: Listener, folder: str) -> None:
    kind = socket.AF_INET, socket.SOCK_DGRAM
    with socket.socket(*kind) as out, socket.socket(*kind) as box:
        box.bind(("127.0.0.1", 0))
        while True:
            for size in (100, 400):
                out.sendto(b"m" * size, box.getsockname())
                box.recv(2000)
            LIBC.malloc(4000)
            time.sleep(0.01)


def news(web: Listener, stock: Listener, folder: str) -> None:
    import asyncio

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.005)

    async def digest() -> None:
        while True:
            render(60_000)
            await asyncio.sleep(0.5)

    async def run() -> None:
        await asyncio.gather(tick(), digest())
    asyncio.run(run())


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    listeners = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    children: list[int] = []
    with tempfile.TemporaryDirectory(prefix="shop-") as folder:
        for work in (web, stock, client, cron, meter, news):
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                name_thread(work.__name__)
                work(*listeners, folder)
            children.append(child)
            print(f"{work.__name__} {child}", flush=True)
        try:
            time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 1e8)
        except KeyboardInterrupt:
            pass
        finally:
            for child in children:
                os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)


if __name__ == "__main__":
    main()
