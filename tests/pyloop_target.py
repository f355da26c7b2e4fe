"""An event loop that is stopped, in each way once in a round: see tests/live/test_pyloop.py.

usage: python pyloop_target.py LIBRARY ROUNDS

Prints of each stall its task, and how many milliseconds it took at least and at most, as JSON. Runs on CPython 3.11 to
3.14 with nothing but the standard library. The comments at the ends of lines are the names of tasks.
"""

import asyncio
import ctypes
import json
import sys
import threading
import time

library = ctypes.PyDLL(sys.argv[1])
lock, begin = threading.Lock(), threading.Event()
noted = []


def keep_lock():
    with lock:
        begin.wait()
        time.sleep(0.2)


def keep_gil():
    library.keep_gil(400000)


def sleeps():
    time.sleep(0.1)  # sleeps


def computes():
    end = time.thread_time() + 0.08
    while time.thread_time() < end:
        sum(range(1000))  # computes


def waits_for_lock():
    begin.set()
    with lock:  # waits_for_lock
        begin.clear()


def waits_for_gil():
    library.wait_for_gil()  # waits_for_gil


def reads_memory():
    library.read_slow_memory(200000)  # reads_memory


async def stop_loop(function):
    began = time.monotonic()
    function()
    return 1000 * (time.monotonic() - began)


async def main():
    for _ in range(int(sys.argv[2])):
        others = [threading.Thread(target=function) for function in (keep_lock, keep_gil)]
        for thread in others:
            thread.start()
        while not lock.locked():
            await asyncio.sleep(0.001)
        for function in (sleeps, computes, waits_for_lock, waits_for_gil, reads_memory):
            await asyncio.sleep(0.001)
            began = time.monotonic()
            least = await asyncio.create_task(stop_loop(function), name=function.__name__)
            noted.append((function.__name__, least, 1000 * (time.monotonic() - began)))
        for thread in others:
            thread.join()


print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
print(json.dumps(noted), flush=True)
sys.stdin.readline()
