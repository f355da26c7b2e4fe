"""Reading tasks from a process's memory: this process's own, as it is and damaged; and how its changes are noticed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sonde.kernel.foreign import process_pages, python_look
from sonde.kernel.foreign.process_pages import PAGE, Comparison, Note, Pages, UnreadableError
from sonde.kernel.foreign.python_look import Look, pack_look
from sonde.kernel.foreign.questions import QUESTIONS, has_shape
from sonde.kernel.names.python_process import PythonProcess
from sonde.layouts.cpython_tasks import TASK_LAYOUTS

knows_this = pytest.mark.skipif(os.uname().machine != "x86_64" or sys.version_info[:2] not in TASK_LAYOUTS,
                                reason="not an interpreter that is known")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """(descriptor, file) of four pages of memory, of which the first is at address 0."""
    path = tmp_path / "memory"
    path.write_bytes(bytes(4 * PAGE))
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor, path
    os.close(descriptor)


def put(path: Path, address: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(address)
        file.write(data)


def test_pages_are_read_once_and_within_bounds(memory: tuple[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor, path = memory
    put(path, 2 * PAGE - 4, b"12345678")
    pages = Pages(descriptor)
    assert pages.read(2 * PAGE - 4, 8) == b"12345678"
    put(path, 2 * PAGE - 4, b"another!")
    assert pages.word(2 * PAGE - 4) == int.from_bytes(b"12345678", "little")
    for address, size in ((0, 8), (-8, 8), (4 * PAGE - 4, 8), (1 << 47, 8), ((1 << 64) - 8, 8)):
        with pytest.raises(UnreadableError):
            pages.read(address, size)
    monkeypatch.setattr(process_pages, "MOST_PAGES", len(pages._pages))
    with pytest.raises(UnreadableError):
        pages.read(1, 8)


def test_what_changed_is_noticed_and_nothing_else(memory: tuple[int, Path]) -> None:
    descriptor, path = memory
    before = Pages(descriptor)
    before.read(PAGE, 3 * PAGE)
    put(path, 2 * PAGE + 8, b"x")
    comparison = Comparison(before, Pages(descriptor))
    assert comparison.holds([(PAGE, PAGE), (2 * PAGE, 8), (2 * PAGE + 9, PAGE)])
    assert not comparison.holds([(2 * PAGE + 8, 1)])
    assert not comparison.holds([(PAGE, 8), Note("value", [(PAGE, 8), Note("inner", [(2 * PAGE, 16)])])])


@pytest.fixture(scope="module")
def waiting() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop of this process, whose tasks wait."""
    async def leaf() -> None:
        await asyncio.sleep(1000)

    async def root() -> None:
        await asyncio.gather(asyncio.create_task(leaf(), name="one \U0001f40d"), leaf())
    loop = asyncio.new_event_loop()
    task = loop.create_task(root(), name="root")
    loop.run_until_complete(asyncio.sleep(0.01))
    yield loop
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


def look_at_this() -> Look:
    descriptor = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        look = Look(descriptor, PythonProcess(os.getpid()).words, sys.version_info[:2], {})
        look.take()
        return look
    finally:
        os.close(descriptor)


@knows_this
def test_tasks_of_this_process(waiting: asyncio.AbstractEventLoop) -> None:
    look = look_at_this()
    tasks = {task.address: task for task in look.tasks}
    there = asyncio.all_tasks(waiting)
    assert {id(task) for task in there} <= {*tasks}
    root, one = [next(tasks[id(task)] for task in there if task.get_name()[:4].rstrip() == name)
                 for name in ("root", "one")]
    assert (root.name, root.named, root.state, root.awaits) == ("root", True, "waits", "gather")
    assert one.name == "one \U0001f40d" and one.address in root.awaited and len(root.awaited) == 2
    assert [(function, file) for function, file, _ in one.frames] == [
        ("waiting.<locals>.leaf", __file__), ("sleep", asyncio.tasks.__file__)]
    assert has_shape(_as_json(pack_look(look)), QUESTIONS["python_tasks"].shape)


def _as_json(value: object) -> Any:
    return json.loads(json.dumps(value))


@knows_this
def test_damaged_memory_ends_in_a_look_or_is_unreadable(
        waiting: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    generator, fetch, lists = random.Random(7), Pages._fetch, Look._read_lists
    seed, share = [0], [0.0]
    known: dict[tuple[int, int, int], dict[str, int]] = {}
    words, descriptor = PythonProcess(os.getpid()).words, os.open("/proc/self/mem", os.O_RDONLY)

    def damaged(pages: Pages, start: int) -> bytes:
        """The same damage whenever a page is read, so that it is not taken for a change."""
        if not share[0]:
            return fetch(pages, start)
        page = bytearray(fetch(pages, start))
        noise = random.Random(start ^ seed[0])
        for _ in range(noise.choice((1, 8, 64)) if page and noise.random() < share[0] else 0):
            at = noise.randrange(0, PAGE, 8)
            value = noise.choice((0, 1, start + at, start, (1 << 64) - 1, noise.getrandbits(64), noise.getrandbits(47)))
            page[at:at + 8] = value.to_bytes(8, "little")
        pages._pages[start] = bytes(page)
        return pages._pages[start]

    def read_lists(look: Look) -> list[tuple[int, int]]:
        """Lists are damaged in some looks only: else hardly any task would be reached."""
        share[0] = generator.choice((0.0, 0.0, 0.02))
        listed = lists(look)
        share[0] = 0.3
        return listed
    looks = 0
    try:
        monkeypatch.setattr(Pages, "_fetch", damaged)
        monkeypatch.setattr(Look, "_read_lists", read_lists)
        monkeypatch.setattr(python_look, "LIST_TRIES", 2)
        for _ in range(40):
            seed[0] = generator.getrandbits(32)
            look = Look(descriptor, words, sys.version_info[:2], known)
            try:
                look.take()
            except UnreadableError:
                continue
            looks += 1
            assert has_shape(_as_json(pack_look(look)), QUESTIONS["python_tasks"].shape)
    finally:
        os.close(descriptor)
    assert looks > 10


@knows_this
def test_tasks_that_change_are_left_out_and_counted(
        waiting: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    root = next(id(task) for task in asyncio.all_tasks(waiting) if task.get_name() == "root")
    whole, is_same = look_at_this(), Pages.is_same
    at = root + PythonProcess(os.getpid()).words["task_name"] - 16
    monkeypatch.setattr(Pages, "changed_pages", lambda *_: {at & -PAGE})
    monkeypatch.setattr(Pages, "is_same", lambda pages, after, address, size:
                        not address <= at < address + size and is_same(pages, after, address, size))
    look = look_at_this()
    assert look.changed == 1 and len(look.tasks) == len(whole.tasks) - 1
    assert root not in {task.address for task in look.tasks}
