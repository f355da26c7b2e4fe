"""A Python program that notes its task at each close() of a number that is no descriptor: the oracle of pytask.

usage: python pytask_target.py OUTPUT ROUNDS

OUTPUT gets a line of JSON for each such call: [number, name of the task, its id]. Until there is a file OUTPUT.known,
its only task is called "waits": a process is known a moment after it began. Runs on CPython 3.11 to 3.14 with nothing
but the standard library.
"""

import asyncio
import ctypes
import functools
import itertools
import json
import os
import sys
import tempfile
import threading

FOLDER = tempfile.mkdtemp()  # for sockets: a path that fits into an address

BASE = 3 << 29  # beyond what pystack_target.py closes, which is looked for in all processes
numbers = itertools.count(BASE)  # next() is one step, whatever thread asks
noted = []


def call():
    """What asyncio says of the task; close()."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    number = next(numbers)
    noted.append((number, task.get_name() if task else "", id(task) if task else 0))
    try:
        os.close(number)
    except OSError:
        pass


class Own(asyncio.Task):
    """A class made from asyncio's."""


def generate():
    for _ in range(2):
        call()
        yield


async def deep(depth):
    if depth:
        return await deep(depth - 1)
    call()
    for _ in generate():
        await asyncio.sleep(0)
    call()


async def unnamed():
    call()
    await asyncio.sleep(0.0001)
    call()


async def renamed():
    call()
    asyncio.current_task().set_name("another " + asyncio.current_task().get_name())
    await asyncio.sleep(0)
    call()


async def in_threads():
    call()
    await asyncio.get_running_loop().run_in_executor(None, call)
    await asyncio.to_thread(call)
    call()


async def calls_back():
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.call_soon(call)  # of no task
    loop.call_later(0.0001, lambda: (call(), done.set()))
    await done.wait()
    call()


async def serves():
    async def serve(reader, writer):
        call()
        writer.write(await reader.readline())
        await writer.drain()
        call()
        writer.close()
    path = f"{FOLDER}/{threading.get_ident()}.socket"
    server = await asyncio.start_unix_server(serve, path)
    for _ in range(3):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"line\n")
        await reader.readline()
        call()
        writer.close()
    server.close()
    if os.path.exists(path):  # from 3.13 on the server removes it
        os.unlink(path)


async def eager():
    if sys.version_info < (3, 12):
        return
    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)
    try:
        task = loop.create_task(deep(2))  # runs before this goes on
        call()
        await task
    finally:
        loop.set_task_factory(None)
    call()


async def work(number):
    loop = asyncio.get_running_loop()
    names = ["plain", f"number {number}", "ü", "naïve ☕", "\U0001f40d" * 4, "x" * 63, "a b", ""]
    tasks = [loop.create_task(deep(depth), name=name) for depth, name in enumerate(names)]
    tasks += [loop.create_task(unnamed()) for _ in range(4)]
    tasks += [loop.create_task(renamed(), name="first"), Own(deep(3), loop=loop, name="own")]
    tasks += [loop.create_task(part()) for part in (in_threads, calls_back, serves)]
    call()
    await asyncio.gather(*tasks)
    await eager()


async def wait_until_known(path):
    asyncio.current_task().set_name("waits")
    while not os.path.exists(path):
        call()
        await asyncio.sleep(0.01)


def run(rounds):
    call()
    for number in range(rounds):
        asyncio.run(work(number))
        call()


def follow():
    """Threads that get the number of one that has ended, whose memory has begun to be used for something else."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    for _ in range(8):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        for _ in range(1000):
            libc.memset(libc.malloc(200), 255, 64)


def main():
    asyncio.run(wait_until_known(sys.argv[1] + ".known"))
    rounds = int(sys.argv[2])
    others = [threading.Thread(target=functools.partial(run, rounds)) for _ in range(3)]
    for thread in others:
        thread.start()
    run(rounds)
    for thread in others:
        thread.join()
    follow()
    with open(sys.argv[1], "w") as file:
        file.writelines(json.dumps(each) + "\n" for each in noted)
    os.rmdir(FOLDER)


main()
