"""sonde pytasks: against what asyncio and trio say of the tasks of a program that waits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.kernel.names.python_tasks import Task, TaskLook, TaskLooker
from support import interpreters, run_sonde

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="CPython's layouts are known for x86_64")

TARGET = Path(__file__).parents[1] / "pytasks_target.py"
Said = dict[str, tuple[int, list[list[str | int]], list[str]]]

TRIO = """
import sys, trio

async def sleeps():
    await trio.sleep(1000)

async def waits(event):
    await event.wait()

async def parent():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleeps, name="first")
        nursery.start_soon(waits, trio.Event(), name="second")

async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(parent, name="parent")
        await trio.testing.wait_all_tasks_blocked(0.05)
        open(sys.argv[1], "w").close()

import trio.testing
trio.run(main)
"""


@pytest.fixture(params=("3.11", "3.12", "3.13", "3.14"))
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, Said]]:
    """(process, what it says of its tasks) of each version that is here."""
    command = next(interpreters(request.param), None)
    if command is None:
        pytest.skip(f"python{request.param} is not installed")
    folder = tmp_path if command[0] != "chroot" else Path(f"{command[1]}/tmp/pytasks-{os.getpid()}")
    folder.mkdir(exist_ok=True)
    shutil.copy(TARGET, folder / "target.py")
    inside = folder if command[0] != "chroot" else Path("/", folder.relative_to(command[1]))
    process = subprocess.Popen([*command, str(inside / "target.py"), str(inside / "said")])
    try:
        wait_for(process, folder / "said")
        yield process.pid, json.loads((folder / "said").read_text())
    finally:
        process.kill()
        process.wait()
        if folder != tmp_path:
            shutil.rmtree(folder)


def wait_for(process: subprocess.Popen[bytes], path: Path) -> None:
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.02)


def look_once(pid: int) -> TaskLook:
    looker = TaskLooker(pid)
    try:
        return looker.look()
    finally:
        looker.close()


def test_equals_what_asyncio_says(waiting: tuple[int, Said]) -> None:
    pid, said = waiting
    look = look_once(pid)
    assert (look.changed, look.strange, look.more, look.torn, look.whole, look.cut) == (0, 0, 0, 0, True, False)
    tasks = {task.name: task for task in look.tasks if task.named}
    names = {task.id: task.name for task in look.tasks}
    assert {name: task.id for name, task in tasks.items()} == {name: id for name, (id, _, _) in said.items()}
    for name, (_, functions, awaited) in said.items():
        task = tasks[name]
        assert [[frame.function, frame.file, frame.line] for frame in task.frames] == functions, name
        assert sorted(names[id] for id in task.awaited) == awaited, name
        assert task.state == "waits"
    assert [tasks[name].awaits for name in ("gather", "await", "thread", "lock")] == \
        ["gather", "task", "a call in a thread", "Future"]
    threads = {look.threads[tasks[name].loop] for name in ("event", "second event")}
    assert len(threads) == 2 and all(os.path.exists(f"/proc/{pid}/task/{tid}") for tid in threads)
    assert len(look.tasks) == len(said) + 2  # those of asyncio.run()


def test_a_task_that_blocks_its_loop_is_seen_with_what_it_runs(tmp_path: Path) -> None:
    target = tmp_path / "blocks.py"
    target.write_text(f"""
import asyncio, time

def slow():
    open({str(tmp_path / "begun")!r}, "w").close()
    time.sleep(60)

async def block():
    slow()

async def main():
    blocks = asyncio.create_task(block(), name="blocks")
    another = asyncio.create_task(asyncio.sleep(50), name="another")
    await blocks
asyncio.run(main())
""")
    process = subprocess.Popen([sys.executable, str(target)])
    try:
        wait_for(process, tmp_path / "begun")
        done = run_sonde("pytasks", "-f", "json", "-F", "20", "-p", str(process.pid))
        folded = run_sonde("pytasks", "--flame", "--by-name", "-f", "folded", "-p", str(process.pid), "1")
    finally:
        process.kill()
        process.wait()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    tasks = {line["data"]["name"]: line["data"] for line in lines if line["type"] == "task"}
    assert [(frame["function"], frame["line"]) for frame in tasks["blocks"]["stack"]] == [("block", 9), ("slow", 6)]
    assert tasks["blocks"]["state"] == "runs" and tasks["another"]["state"] == "ready"  # it has not begun
    assert tasks["Task-1"]["awaited"] == [tasks["blocks"]["id"]] and tasks["Task-1"]["thread"] == process.pid
    assert tasks["Task-1"]["seen_s"] > 0.9 and tasks["Task-1"]["at_first"]
    looks = lines[-1]["data"]
    assert looks["looks"] >= 2 and looks["warnings"] == [] and looks["libraries"] == ["asyncio"]
    stacks = dict(line.rsplit(" ", 1) for line in folded.stdout.splitlines() if line[0] != "#")
    assert len(stacks) == 1 and next(iter(stacks)).startswith("task another;sleep (tasks.py:")
    assert next(iter(stacks)).endswith(";[ready, waits for the loop]") and int(next(iter(stacks.values()))) >= 9e8


def test_tasks_of_trio(tmp_path: Path) -> None:
    pytest.importorskip("trio", reason="trio is not installed")
    target = tmp_path / "of_trio.py"
    target.write_text(TRIO)
    process = subprocess.Popen([sys.executable, str(target), str(tmp_path / "said")])
    try:
        wait_for(process, tmp_path / "said")
        time.sleep(0.1)  # the last task ends its step
        look = look_once(process.pid)
    finally:
        process.kill()
        process.wait()
    assert look.libraries == ["trio"] and look.changed == 0
    tasks = {task.name: task for task in look.tasks}
    names = {task.id: task.name for task in look.tasks}

    def shape(task: Task) -> tuple[list[str], list[str]]:
        return [frame.function for frame in task.frames][:2], sorted(names[id] for id in task.awaited)
    assert shape(tasks["first"]) == (["sleeps", "sleep"], [])
    assert shape(tasks["second"]) == (["waits", "Event.wait"], [])
    assert shape(tasks["parent"]) == (["parent", "NurseryManager.__aexit__"], ["first", "second"])
    assert shape(tasks["__main__.main"])[1] == ["parent"]
