#!/usr/bin/env python3
"""A web service with five faults, and who asks it, for docs/python-programs.md. It needs the standard library alone.

    python_service.py serve [PORT [WORKERS]]
    uvicorn --app-dir docs/cases python_service:app     the same, where uvicorn is installed
    python_service.py ask PATH [SECONDS [PORT]]

``ask`` asks for /price all the time, and by two connections of its own for PATH, a few times a second. It prints how
many requests for /price were answered, and how long half of them, 99 of 100 and the slowest took.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from tempfile import gettempdir
from typing import Any

PORT = 8080
FOLDER = Path(gettempdir()) / "python_service"
CATALOGUE = [f"article {number}" for number in range(3000)]


# --- the service ----------------------------------------------------------------------------------------------


async def price() -> object:
    await asyncio.sleep(0.001)
    return {"price": 12}


async def report() -> object:
    return {"bytes": write_report()}


def write_report() -> int:
    time.sleep(0.12)  # a slow disk
    return 4096


async def order() -> object:
    for line in ("reserve", "charge", "send"):
        write_journal(line)
        await asyncio.sleep(0)
    return {"ordered": True}


def write_journal(line: str) -> None:
    journal = os.open(FOLDER / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(journal, line.encode())
    time.sleep(0.008)  # fsync() of a busy disk
    os.close(journal)


async def stock() -> object:
    return {"articles": await asyncio.to_thread(count_stock)}


def count_stock() -> int:
    count = 0
    for number in range(3_000_000):
        count += number % 7 == 0
    return count


async def search() -> object:
    return {"found": len(find_articles(["article 2999"] * 800))}


def find_articles(names: list[str]) -> list[str]:
    return [name for name in names if name in CATALOGUE]


async def login() -> object:
    for _ in range(300):
        read_settings("session")
    return {"session": 1}


def read_settings(name: str) -> object:
    with open(FOLDER / "settings.json", encoding="utf-8") as file:
        return json.load(file)[name]


HANDLERS = {f"/{handler.__name__}": handler for handler in (price, report, order, stock, search, login)}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The service, as servers of ASGI call it."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    name = scope["path"]
    task = asyncio.current_task()
    if task is not None:
        task.set_name(name)
    body = json.dumps(await HANDLERS[name]()).encode() if name in HANDLERS else b"null"
    length = b"%d" % len(body)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": body})


# --- a server -------------------------------------------------------------------------------------------------


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = b""

    async def send(message: dict[str, Any]) -> None:
        nonlocal head
        if message["type"] == "http.response.start":
            lines = [b"HTTP/1.1 %d OK" % message["status"], *[b"%s: %s" % header for header in message["headers"]]]
            head = b"\r\n".join([*lines, b"", b""])
        else:
            writer.write(head + message["body"])
            await writer.drain()

    try:
        while request := await reader.readline():
            while (await reader.readline()).strip():
                pass  # a header
            scope = {"type": "http", "path": request.split()[1].decode()}
            await asyncio.create_task(app(scope, None, send))
    except (ConnectionError, IndexError):
        pass
    writer.close()


async def serve_forever(listener: socket.socket) -> None:
    server = await asyncio.start_server(serve_connection, sock=listener)
    await server.serve_forever()


def serve(port: int = PORT, workers: int = 0) -> None:
    """In this process, or in so many that it forks."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "settings.json").write_text(json.dumps({"session": 3600}))
    listener = socket.create_server(("127.0.0.1", port))
    children = []
    while len(children) < workers:
        children.append(os.fork())
        if not children[-1]:
            break
    if not children or not children[-1]:
        asyncio.run(serve_forever(listener))
    for child in children:
        os.waitpid(child, 0)


# --- who asks -------------------------------------------------------------------------------------------------


def request(connection: socket.socket, path: str) -> float:
    """The seconds until the answer is there."""
    began = time.monotonic()
    connection.sendall(b"GET %s HTTP/1.1\r\nhost: shop\r\n\r\n" % path.encode())
    answer = b""
    while not answer.rpartition(b"\r\n")[2]:
        more = connection.recv(4096)
        if not more:
            raise SystemExit("the service has closed the connection")
        answer += more
    return time.monotonic() - began


def ask(path: str, seconds: float = 5, port: int = PORT) -> None:
    """Print what a request for /price takes while others ask for ``path``."""
    until, took = time.monotonic() + seconds, list[float]()

    def ask_for_path() -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            while time.monotonic() < until:
                request(connection, path)
                time.sleep(0.15)

    threads = [threading.Thread(target=ask_for_path) for _ in range(2)]
    for thread in threads:
        thread.start()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while time.monotonic() < until:
            took.append(1000 * request(connection, "/price"))
    for thread in threads:
        thread.join()
    took.sort()
    print(f"{len(took)} requests; half within {took[len(took) // 2]:.1f} ms, 99 of 100 within "
          f"{took[len(took) * 99 // 100]:.1f} ms, the slowest {took[-1]:.1f} ms")


def main() -> None:
    if sys.argv[1] == "serve":
        serve(*map(int, sys.argv[2:]))
    else:
        path, seconds, port = (*sys.argv[2:], *("/price", "5", str(PORT))[len(sys.argv) - 2:])
        ask(path, float(seconds), int(port))


if __name__ == "__main__":
    main()
