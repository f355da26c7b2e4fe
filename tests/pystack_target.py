"""A Python program that notes its own stack at each close() of a number that is no descriptor: the oracle of pystack.

usage: python pystack_target.py OUTPUT ROUNDS

OUTPUT gets a line of JSON for each such call: [number, [[file, qualified name, line], ...]], innermost first. The call
and what notes the stack stand on one line. Runs on CPython 3.11 to 3.14 with nothing but the standard library.
"""

import asyncio
import ctypes
import functools
import itertools
import json
import os
import re
import sys
import threading
import time

BASE = 1 << 20
numbers = itertools.count(BASE)  # next() is one step, whatever thread asks
noted = []


def note(number):
    frame, stack = sys._getframe(1), []
    while frame is not None:
        stack.append((frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno))
        frame = frame.f_back
    noted.append((number, stack))
    return number


def close(number):
    try:
        note(number), os.close(number)
    except OSError:
        pass


def call(*_):
    close(next(numbers))
    return 0


def plain(depth=5):
    if depth:
        return plain(
            depth
            - 1)
    call()
    return call()


class Thing:
    def method(self):
        call()

    @classmethod
    def of_class(cls):
        cls().method()

    @staticmethod
    def of_none():
        (lambda: call())()

    @property
    def attribute(self):
        return call()

    def __getattr__(self, name):
        return call()

    def __enter__(self):
        call()

    def __exit__(self, *_):
        call()

    def __del__(self):
        call()

    def __lt__(self, other):
        return bool(call())


def objects():
    with Thing() as _:
        Thing.of_class()
        Thing.of_none()
    thing = Thing()
    _ = thing.attribute == thing.missing
    del thing


def numbers_up_to(count):
    for number in range(count):
        call()
        yield number


def delegating(count):
    yield from numbers_up_to(count)
    yield call()


def generators():
    for _ in delegating(3):
        call()
    sum(call() for _ in range(2))
    [call() for _ in range(2)]
    {call(): call() for _ in range(2)}
    running = delegating(5)
    next(running)
    running.close()


def callbacks():
    sorted([3, 1, 2], key=call)
    sorted([Thing(), Thing()])
    list(map(functools.partial(call, 1), range(3)))
    functools.reduce(lambda a, b: call(), range(4))
    re.sub("a", lambda match: str(call()), "banana")
    json.loads('{"a": {"b": 1}}', object_hook=call)
    max([1, 2], key=functools.cache(lambda n: call()))
    type("Made", (), {"__init_subclass__": classmethod(call)})
    memoryview(bytearray(3)).tolist()
    try:
        raise ValueError
    except ValueError:
        call()
    finally:
        call()


async def asynchronous_numbers():
    for number in range(2):
        call()
        await asyncio.sleep(0)
        yield number


async def child(depth):
    if depth:
        await child(depth - 1)
    await asyncio.sleep(0)
    call()


async def parent():
    await asyncio.gather(child(3), child(1))
    async for _ in asynchronous_numbers():
        call()
    asyncio.get_running_loop().call_soon(call)
    await asyncio.sleep(0)


def made_of_text(turn):
    """Code that is gone again, so that the next has its place: only the name, or only the line, tells them apart."""
    space = {"call": call}
    exec(f"def made_{turn}():\n    call()\nmade_{turn}()\n", space)
    exec("\n" * (turn % 7) + "def always():\n    call()\nalways()\n", space)
    exec(f"def always():\n{'    pass' + chr(10) if turn % 2 else ''}    call()\nalways()\n", space)


def größe():
    def 内側():
        call()
    内側()


def forked():
    pid = os.fork()
    if not pid:
        noted.clear()
        next(numbers)
        for _ in range(3):
            plain()
        write(sys.argv[1] + f".{os.getpid()}")
        os._exit(0)
    os.waitpid(pid, 0)
    for _ in range(100):  # they were the child's
        next(numbers)


INSIDE = """
import itertools, os, sys
numbers, noted = itertools.count(%d), []
def inner(depth=2):
    if depth:
        return inner(depth - 1)
    number, stack, frame = next(numbers), [], sys._getframe()
    while frame is not None:
        stack.append((frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno))
        frame = frame.f_back
    stack[0] = (*stack[0][:2], %d)
    noted.append((number, stack))
    try:
        os.close(number)
    except OSError:
        pass
for _ in range(5): inner()
sorted([1, 2], key=lambda _: inner() or 0)
with open(%r, "w") as file:
    import json
    file.writelines(json.dumps(each) + "\\n" for each in noted)
"""
LINE = INSIDE.splitlines().index("        os.close(number)") + 1


def in_another_interpreter():
    try:
        import _interpreters as module
    except ImportError:
        import _xxsubinterpreters as module
    first = next(numbers)
    for _ in range(100):
        next(numbers)
    made = module.create()
    module.run_string(made, INSIDE % (first, LINE, f"{sys.argv[1]}.{first}"))
    call()
    module.destroy(made)
    plain(2)


def work(rounds):
    for turn in range(rounds):
        plain()
        objects()
        generators()
        callbacks()
        made_of_text(turn)
        größe()


def threads_of_c(count):
    """Threads that Python did not make: the interpreter has a state for each only while it calls."""
    libc = ctypes.CDLL(None)
    called = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: plain(2))
    for _ in range(count):
        made = ctypes.c_ulong()
        libc.pthread_create(ctypes.byref(made), None, called, None)
        libc.pthread_join(made, None)


def write(path):
    with open(path, "w") as file:
        file.writelines(json.dumps(each) + "\n" for each in noted)


def main():
    rounds = int(sys.argv[2])
    time.sleep(0.5)  # a process is known a moment after it began
    work(rounds)
    for _ in range(rounds):
        asyncio.run(parent())
    threads = [threading.Thread(target=work, args=(rounds // 4,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    threads_of_c(rounds)
    forked()
    for _ in range(2):
        in_another_interpreter()
    other = threading.Thread(target=in_another_interpreter)
    other.start()
    plain(3)
    other.join()
    threads_of_c(rounds)
    write(sys.argv[1])


main()
