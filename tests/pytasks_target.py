"""A Python program with tasks that wait in every way, and says so itself: the oracle of ``sonde pytasks``.

usage: python pytasks_target.py OUTPUT

When all tasks wait, OUTPUT gets, in JSON, what asyncio says of each: {name: [id, functions with their lines, the tasks
that it waits for]}. Then the program goes on to wait, for a minute. Runs on CPython 3.11 to 3.14 with nothing but the
standard library.
"""

import asyncio
import json
import os
import sys
import threading
import time


class Own(asyncio.Task):
    """A class made from asyncio's."""


async def sleeps():
    await asyncio.sleep(1000)


async def deep(depth):
    if depth:
        return await deep(depth - 1)
    await asyncio.sleep(1000)


async def gets(queue):
    return await queue.get()


async def locks(lock):
    async with lock:
        pass


async def notified(condition):
    async with condition:
        await condition.wait()


async def groups(make):
    async with asyncio.TaskGroup() as group:
        for name in ("member 1", "member 2"):
            make(name, group.create_task(sleeps(), name=name))


async def waits(tasks):
    await asyncio.wait(tasks)


async def waits_for(task):
    await asyncio.wait_for(task, 1000)


async def shields(task):
    await asyncio.shield(task)


async def awaits(task):
    await task


async def gathers(*awaited):
    await asyncio.gather(*awaited)


async def in_thread(event):
    await asyncio.to_thread(event.wait)


@asyncio.coroutines.types.coroutine
def old_style(task):
    return (yield from task)


async def through_generator(task):
    await old_style(task)


def functions_of(task):
    """(function, file, line) of each coroutine of a task, as far as Python itself follows them."""
    lines, each = [], task.get_coro()
    while True:
        kind = "cr" if hasattr(each, "cr_frame") else "gi" if hasattr(each, "gi_frame") else ""
        frame = getattr(each, f"{kind}_frame", None) if kind else None
        if frame is None:
            return lines
        lines.append((frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno))
        each = getattr(each, "cr_await" if kind == "cr" else "gi_yieldfrom")


async def run(prefix, events, everything):
    loop, tasks, edges = asyncio.get_running_loop(), {}, {}

    def make(name, coroutine, *awaited, kind=None):
        name = prefix + name
        task = coroutine if isinstance(coroutine, asyncio.Task) else \
            kind(coroutine, loop=loop, name=name) if kind else loop.create_task(coroutine, name=name)
        task.set_name(name)
        tasks[name] = task
        edges[name] = [prefix + each for each in awaited]
        return task
    lock, condition = asyncio.Lock(), asyncio.Condition()
    await lock.acquire()
    one, two, three, four, five, six, seven, eight = (make(f"leaf {number}", sleeps()) for number in range(8))
    make("deep", deep(60))
    make("queue ☕", gets(asyncio.Queue()))
    make("lock", locks(lock))
    make("condition", notified(condition))
    make("event", asyncio.Event().wait())
    make("group", groups(make), "member 1", "member 2")
    make("wait", waits([one, two]), "leaf 0", "leaf 1")
    make("wait_for", waits_for(three), "leaf 2")
    make("shield", shields(four), "leaf 3")
    make("await", awaits(five), "leaf 4")
    make("gather", gathers(six, asyncio.gather(seven, sleeps_named(make))), "leaf 5", "leaf 6", "inner")
    make("thread", in_thread(events))
    make("own", awaits(eight), "leaf 7", kind=Own)
    make("generator", through_generator(tasks[prefix + "own"]), "own")
    everything.append((tasks, edges))
    await asyncio.sleep(1000)


def sleeps_named(make):
    return make("inner", sleeps())


def main():
    everything, go_on = [], threading.Event()
    threads = [threading.Thread(target=lambda prefix=prefix: asyncio.run(run(prefix, go_on, everything)), daemon=True)
               for prefix in ("", "second ")]
    for thread in threads:
        thread.start()
    while len(everything) < 2 or not all(is_blocked(*each) for each in everything):
        time.sleep(0.01)
    time.sleep(0.1)  # the loops are back in epoll_wait()
    said = {name: (id(task), functions_of(task), sorted(edges[name]))
            for tasks, edges in everything for name, task in tasks.items()}
    with open(sys.argv[1] + ".part", "w") as file:
        json.dump(said, file)
    os.rename(sys.argv[1] + ".part", sys.argv[1])
    time.sleep(60)


def is_blocked(tasks, edges):
    return len(edges) == 25 and all(task._fut_waiter is not None for task in tasks.values())


main()
