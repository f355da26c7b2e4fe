"""sonde pytasks: what it makes of looks."""

from __future__ import annotations

import json

import pytest

from sonde.cli.commands import pytasks, task_flame, task_views
from sonde.cli.commands.pytasks import Watch, take_looks
from sonde.errors import MachineError
from sonde.kernel.foreign.reader import ReaderError
from sonde.kernel.names.python_tasks import Task, TaskFrame, TaskLook, _unpack_look
from sonde.runtime.provenance import describe_local_run

SLEEP = TaskFrame("sleep", "/usr/lib/python3.13/asyncio/tasks.py", 718)
AEXIT = [TaskFrame("_Mixin.__aenter__", "/usr/lib/python3.13/asyncio/locks.py", 14),
         TaskFrame("Lock.acquire", "/usr/lib/python3.13/asyncio/locks.py", 110)]


def task(id: int, name: str, wait: int = 1, state: str = "waits", awaits: str = "Future", awaited: tuple[int, ...] = (),
         frames: tuple[TaskFrame, ...] = (SLEEP,), loop: int = 7) -> Task:
    own = TaskFrame(f"work_{id // 10}", "/srv/shop.py", id // 10)
    return Task(id, name, not name.startswith("Task-"), loop, state, awaits, wait, [own, *frames], list(awaited))


def look(time: float, *tasks: Task, libraries: tuple[str, ...] = ("asyncio",), changed: int = 0, strange: int = 0,
         more: int = 0, torn: int = 0, whole: bool = True) -> TaskLook:
    return TaskLook(time, [*libraries], {7: 42}, [*tasks], changed, strange, more, torn, whole, False, 0.01)


def watch_of(*looks: TaskLook) -> Watch:
    watch = Watch()
    for each in looks:
        watch.add(each)
    return watch


TREE = look(2.0, task(10, "Task-1", awaits="gather", awaited=(20, 30, 31, 32), frames=()),
            task(20, "lock", frames=(*AEXIT,)), task(30, "price-1"), task(31, "price-2"), task(32, "price-10"),
            task(40, "ready", state="ready", frames=()))


def test_the_tree_has_each_task_below_the_one_that_waits_for_it() -> None:
    watch = watch_of(look(1.0, *TREE.tasks[:4], task(31, "price-2", wait=5)), TREE)
    assert task_views.tree_text(watch, False).splitlines() == [
        "Event loop of thread 42: 6 tasks",
        "TASK                           STATE   SEEN(s)  AWAITS",
        "ready                          ready       0.0  -",
        "    work_4 (/srv/shop.py:4)",
        "Task-1                         waits      >1.0  gather: 4 tasks",
        "    work_1 (/srv/shop.py:1)",
        "  lock                         waits      >1.0  Lock.acquire",
        "      work_2 (/srv/shop.py:2)",
        "      _Mixin.__aenter__ (/usr/lib/python3.13/asyncio/locks.py:14)",
        "      Lock.acquire (/usr/lib/python3.13/asyncio/locks.py:110)",
        "  price-1 and 2 more           waits      >1.0  sleep",
        "      work_3 (/srv/shop.py:3)",
        "      sleep (/usr/lib/python3.13/asyncio/tasks.py:718)"]
    every = task_views.tree_text(watch, True)
    assert [line.split()[0] for line in every.splitlines() if "price-" in line] == ["price-1", "price-2", "price-10"]


def test_circles_and_shared_tasks_end() -> None:
    circle = look(1.0, task(10, "a", awaited=(20,)), task(20, "b", awaited=(10, 30)), task(30, "c"),
                  task(40, "d", awaited=(30,)), task(50, "e", awaited=(99,)))
    text = task_views.tree_text(watch_of(circle), False)
    assert [line.split()[0] for line in text.splitlines() if " waits " in line] == ["d", "c", "e", "a", "b", "a", "c"]
    assert text.count("shown above") == 1
    long = look(1.0, *[task(10 * number, f"t{number}", awaited=(10 * number + 10,)) for number in range(1, 2000)])
    assert "t49" in task_views.tree_text(watch_of(long), False)
    folder = task_flame.TaskFolder(False)
    folder.add_look(circle)
    folder.add_look(look(2.0, *circle.tasks))
    assert sum(folder.folded.values()) == 2 * 10 ** 9  # c and e: what they wait for is not among the tasks


def test_json_and_csv_have_the_same() -> None:
    watch = watch_of(look(1.0, TREE.tasks[0]), TREE)
    lines = [json.loads(line) for line in task_views.json_text(watch).splitlines()]
    assert lines[-1]["type"] == "looks" and lines[-1]["data"]["looks"] == 2
    first = next(line["data"] for line in lines if line["data"].get("name") == "Task-1")
    assert first == {"id": 10, "name": "Task-1", "named": False, "thread": 42, "loop": 7, "state": "waits",
                     "seen_s": 1.0, "at_first": True, "awaits": "gather", "awaited": [20, 30, 31, 32],
                     "stack": [{"function": "work_1", "file": "/srv/shop.py", "line": 1}]}
    rows = task_views.csv_text(watch).splitlines()
    assert rows[0].startswith("id,task,named,thread,state") and len(rows) == len(lines)
    assert "10,Task-1,false,42,waits,1.000,true,gather,20 30 31 32,work_1 (/srv/shop.py:1)" in rows


def test_a_flame_graph_counts_the_time_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, named = task_flame.TaskFolder(False), task_flame.TaskFolder(True)
    for each in (folder, named):
        each.add_look(TREE)
        each.add_look(look(2.5, *TREE.tasks))
        each.add_look(look(3.5, task(50, "runs", state="runs"), task(60, "t", awaits="a call in a thread", frames=())))
    assert folder.folded == {
        ("work_1 (shop.py:1)", "work_2 (shop.py:2)", "_Mixin.__aenter__ (locks.py:14)", "Lock.acquire (locks.py:110)"):
            500000000,
        ("work_1 (shop.py:1)", "work_3 (shop.py:3)", "sleep (tasks.py:718)"): 1500000000,
        ("work_4 (shop.py:4)", "[ready, waits for the loop]"): 500000000,
        ("work_6 (shop.py:6)", "[a call in a thread]"): 1000000000}
    assert ("work_1 (shop.py:1)", "task lock", "work_2 (shop.py:2)", "_Mixin.__aenter__ (locks.py:14)",
            "Lock.acquire (locks.py:110)") in named.folded
    run = describe_local_run("sonde pytasks", 0, 1.5, [])
    assert "3.5 s in 1.5 s, 3 looks" in folder.draw("flamegraph", 42, 3, run)
    assert "</html>" in folder.draw("html", 42, 3, run)
    assert folder.draw("folded", 42, 3, run).endswith("work_6 (shop.py:6);[a call in a thread] 1000000000\n")
    monkeypatch.setattr(task_flame, "MOST_STACKS", 1)
    small = task_flame.TaskFolder(False)
    small.add_look(TREE)
    small.add_look(look(3.0, *TREE.tasks))
    assert len(small.folded) == 2 and ("[left out: --memory]",) in small.folded


def test_what_is_missing_is_said() -> None:
    watch = watch_of(look(1.0, task(10, "a"), changed=2, torn=3, whole=False),
                     look(2.0, task(10, "a"), changed=1, strange=4, more=5, libraries=("asyncio", "greenlet")))
    watch.failed = 1
    assert watch.warnings() == [
        "3 of 5 tasks, in 2 looks, changed each time that they were read: they are left out of those looks",
        "1 of 3 looks were thrown away: the interpreter could not be read",
        "the lists of tasks changed each time that they were read: tasks may be missing",
        "5 tasks were not read: there are too many",
        "4 tasks are of a class that is not made from asyncio's: they are not read",
        "the program has loaded greenlet: greenlets (gevent's and others) are not shown"]
    assert watch_of(look(1.0, task(10, "a"))).warnings() == []
    nothing = watch_of(TaskLook(1.0, [], {}, [], 0, 0, 0, 0, True, False, 0.0))
    assert task_views.tree_text(nothing, False).startswith("No event loop")


def _raise(problem: Exception) -> None:
    raise problem


class FakeLooker:
    """Looks that take a fifth of a second of CPU time each, some of which fail."""

    def __init__(self, *answers: TaskLook | None) -> None:
        self.pid, self._answers = 1, [*answers]

    def look(self) -> TaskLook:
        answer = self._answers.pop(0)
        if answer is None:
            raise MachineError("it cannot be read")
        return answer


def test_looks_take_a_share_of_the_time_and_failures_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(pytasks.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(pytasks.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    monkeypatch.setattr(pytasks, "_stop_signals", lambda: lambda: False)
    dear = TaskLook(1.0, [], {}, [], 0, 0, 0, 0, True, False, 0.2)
    watch = Watch()
    looks = [*take_looks(FakeLooker(None, *[dear] * 9), watch, 4, 10)]  # type: ignore[arg-type]
    assert (len(looks), watch.looks, watch.failed) == (5, 5, 1) and 104 <= clock[0] < 104.3
    with pytest.raises(MachineError):
        [*take_looks(FakeLooker(*[None] * 9), Watch(), 4, 10)]  # type: ignore[arg-type]
    hostile = FakeLooker()
    monkeypatch.setattr(hostile, "look", lambda: _raise(ReaderError("reading it takes longer than 4 s", costly=True)))
    watch = Watch()
    with pytest.raises(ReaderError):
        [*take_looks(hostile, watch, 4, 10)]  # type: ignore[arg-type]
    assert watch.failed == 1  # it is not read again


def test_senseless_answers_are_refused() -> None:
    left_out = [0, 0, 0, 0, True, False, 1000]
    row = [1, 0, True, 7, "waits", 1, 5, [0], []]
    good = _unpack_look(1.0, [["asyncio"], [[42, 7]], ["a", "b"], [[0, 1, 3]], [row], left_out])
    assert good.tasks[0].frames[0].values() == ("a", "b", 3) and good.threads == {7: 42} and good.cost == 0.001
    for texts, frames in ((["a"], [[0, 1, 3]]), (["a", "b"], []), (["a", "b"], [[-1, 0, 1]])):
        with pytest.raises(IndexError):
            _unpack_look(1.0, [[], [], texts, frames, [row], left_out])
