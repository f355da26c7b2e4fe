"""``sonde pytasks``: the tasks of a Python program, and what each of them waits for."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ...errors import MachineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...kernel.names.python_tasks import Task, TaskLook, TaskLooker
    from ..options import Parsed
    from .task_flame import TaskFolder

PAGE = """\
pytasks: show the tasks of a Python program (asyncio, trio), what each waits for, in which line, and since when

USAGE
  sonde pytasks [OPTIONS] -p PID [SECONDS]
  sonde pytasks --flame [--by-name] [-F HZ] -p PID [-o FILE] [-f FORMAT] [SECONDS]

  Looks at the process for SECONDS (1; with --flame 10), or until Ctrl-C, and then prints what the last look saw.

OPTIONS
  -a, --all            each task by itself; else tasks beside each other that wait alike are one line
  -F, --frequency HZ   look so many times a second (10); less often where a look takes long: Sonde uses a fifth of the
                       time at most
  --flame              a flame graph of what tasks waited for: SVG, or with -f html a page, with -f folded text
  --by-name            with --flame: a frame for each task to which the program has given a name

COLUMNS
  TASK      its name, below the task that waits for it; "and 4 more" where others wait alike
  STATE     waits, ready (to run as soon as the loop gets to it), or runs
  SEEN(s)   for how long the looks saw it wait like this; > if it did already at the first look
  AWAITS    the function of asyncio's or trio's that it waits in, or the kind of its future, and how many tasks
  below     its functions, the innermost last

EXAMPLE
  # sonde pytasks -p 4242
  Event loop of thread 4242: 5 tasks
  TASK                           STATE   SEEN(s)  AWAITS
  Task-1                         waits      >1.0  gather: 2 tasks
      main (/srv/shop.py:31)
    orders                       waits      >1.0  Queue.get
        orders (/srv/shop.py:12)
        Queue.get (/usr/lib/python3.13/asyncio/queues.py:186)
    price-1 and 1 more           waits       0.4  Lock.acquire
        price (/srv/shop.py:20)
        Lock.acquire (/usr/lib/python3.13/asyncio/locks.py:110)

READING
  Follow a task that is late down to what it waits for. Many tasks in the same Lock.acquire or Queue.get: look at who
  holds the lock, or feeds the queue. "ready" tasks wait for the loop alone: sonde pyloop shows what stops it.

NEEDS
  CPython 3.11 to 3.14 with the GIL, x86_64; the right to read the process's memory (CAP_SYS_PTRACE). No BPF is used.

NOTES
  The process is neither stopped nor changed: its memory is read from outside, twice. What is not the same the second
  time is read again; a task that changes each time is left out of that look, and a warning says how many were. Lists of
  tasks that changed while they were read are counted, too.

  Which task waits for which is known from the callbacks of tasks and futures: await, gather(), wait(), wait_for(),
  shield() and TaskGroup, with any number of futures between; not as_completed().

  Two waits are the same if the functions, their instructions and the addresses of what they await are. A task that
  awoke between two looks, and came to wait for a new future at the same address, looks like one that went on waiting.
  trio counts the waits of its tasks, so there this cannot happen.

  With --flame each look adds the time since the one before to what each task waits for: those that wait for other tasks
  are below them and not counted again. Tasks that run are left out.

  Of a process up to 10,000 tasks are read, in 2 s of CPU time. Tasks of a class of their own, not made from asyncio's,
  are counted. anyio's tasks are asyncio's, or trio's. Greenlets (gevent), curio's tasks and Twisted's callbacks are not
  read; if one of these libraries is loaded, it is said.
"""
TAKES = {"pid", "format", "output"}
FORMATS, FLAME_FORMATS = ("text", "json", "csv"), ("flamegraph", "html", "folded")
MOST_SHARE = 0.2  # of the time that looks take
MOST_FAILURES = 5  # looks before the first that succeeds


class Watch:
    """What several looks have seen: the last one, and since when each task waits like that. ``failed`` looks could not
    be taken; ``changed`` and ``seen`` count tasks over all looks."""

    def __init__(self) -> None:
        self.last: TaskLook | None = None
        self.looks = self.failed = self.changed = self.seen = self.torn = 0
        self.partial = False
        self._since: dict[tuple[int, str, int], tuple[float, bool]] = {}

    def add(self, look: TaskLook) -> None:
        """Take a look into account."""
        first, known = self.last is None, self._since
        keys = [_wait_of(task) for task in look.tasks]
        self._since = {key: known.get(key, (look.time, first)) for key in keys}
        self.last = look
        self.looks += 1
        self.seen += len(look.tasks) + look.changed
        self.changed += look.changed
        self.torn += look.torn
        self.partial = self.partial or not look.whole

    def seen_for(self, task: Task) -> tuple[float, bool]:
        """(seconds for which the looks have seen a task wait like this, whether the first one did already)."""
        assert self.last is not None
        since, first = self._since.get(_wait_of(task), (self.last.time, False))
        return self.last.time - since, first

    def warnings(self) -> list[str]:
        """What is missing, in sentences."""
        from ...kernel.names.python_tasks import UNREAD
        look, lines = self.last, []
        if look is None:
            return []
        if self.changed:
            lines.append(f"{self.changed} of {self.seen} tasks, in {self.looks} looks, changed each time that they "
                         "were read: they are left out of those looks")
        if self.failed:
            lines.append(f"{self.failed} of {self.looks + self.failed} looks were thrown away: the interpreter could "
                         "not be read")
        if self.partial:
            lines.append("the lists of tasks changed each time that they were read: tasks may be missing")
        if look.more:
            lines.append(f"{look.more} tasks were not read: there are too many")
        if look.strange:
            lines.append(f"{look.strange} tasks are of a class that is not made from asyncio's: they are not read")
        if look.cut:
            lines.append("too many tasks wait for others: not all are shown below those")
        lines += [f"the program has loaded {name}: {UNREAD[name]} are not shown" for name in look.libraries
                  if name in UNREAD]
        return lines


def _wait_of(task: Task) -> tuple[int, str, int]:
    return task.id, task.state, task.wait


def main(parsed: Parsed) -> int:
    """Look, print; the exit status."""
    from ...kernel.names.python_tasks import TaskLooker
    from .. import requests
    from .generated import number_option
    from .runtimes import seconds_of
    flame, by_name = bool(parsed.named.pop("flame", "")), bool(parsed.named.pop("by-name", ""))
    form = _choose_format(parsed, flame)
    if by_name and not flame:
        raise UsageError("--by-name is for --flame")
    pid = requests.pid_of(parsed)
    if not pid:
        raise UsageError("pytasks needs a process that runs: -p PID", ["see sonde pytasks --help"])
    words = parsed.words[1:] + parsed.rest
    seconds = (seconds_of("pytasks", words) or [10 if flame else 1])[0]
    hertz, every = number_option(parsed.named, "frequency", 10, 1000), bool(parsed.named.get("all"))
    folder = _make_folder(by_name) if flame else None
    started, looker, watch = time.time_ns(), TaskLooker(pid), Watch()
    try:
        for look in take_looks(looker, watch, seconds, hertz):
            if folder is not None:
                folder.add_look(look)
    finally:
        looker.close()
    text = _flame(parsed, form, watch, folder, started, pid) if folder is not None else _show(form, watch, every)
    descriptor = requests.open_output(parsed)
    with open(descriptor, "w", encoding="utf-8", errors="replace", closefd=descriptor != 1) as file:
        file.write(text)
    for line in watch.warnings():
        requests.print_to_stderr(f"WARNING: {line}.")
    if flame and "output" in parsed.options:
        requests.print_to_stderr(f"Wrote {parsed.get('output')}")
    return 0


def _make_folder(by_name: bool) -> TaskFolder:
    from .task_flame import TaskFolder
    return TaskFolder(by_name)


def _choose_format(parsed: Parsed, flame: bool) -> str:
    known = FLAME_FORMATS if flame else FORMATS
    form = parsed.get("format", known[0])
    if form not in known:
        raise UsageError(f"{'a flame graph of tasks' if flame else 'a list of tasks'} is written as "
                         f"{', '.join(known[:-1])} or {known[-1]}, not {form}")
    if flame and form == "flamegraph" and "output" not in parsed.options and os.isatty(1):
        parsed.options["output"] = "tasks.svg"
    return form


def take_looks(looker: TaskLooker, watch: Watch, seconds: float, hertz: float) -> Iterator[TaskLook]:
    """Look ``hertz`` times a second, and once at the end; each look. MachineError if the process could not be read even
    once."""
    stopped, end = _stop_signals(), 0.0
    while True:
        cost = 0.0
        try:
            look = looker.look()
        except MachineError as problem:
            watch.failed += 1
            over = getattr(problem, "costly", False) or not os.path.exists(f"/proc/{looker.pid}")
            if over and watch.last is not None:
                return
            if watch.last is None and (over or watch.failed >= MOST_FAILURES):
                raise
        else:
            cost = look.cost
            watch.add(look)
            yield look
        now = time.monotonic()
        end = end or now + seconds
        if now >= end and watch.last is not None:
            return
        following = min(now + max(1 / hertz, cost / MOST_SHARE), end)
        while not stopped() and (left := following - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
        if stopped():
            return


def _stop_signals() -> Callable[[], bool]:
    """A function that says whether Ctrl-C, or a signal to end, has come."""
    import signal
    seen: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: seen.append(number))
    return lambda: bool(seen)


def _show(form: str, watch: Watch, every: bool) -> str:
    from . import task_views
    if form == "json":
        return task_views.json_text(watch)
    return task_views.csv_text(watch) if form == "csv" else task_views.tree_text(watch, every)


def _flame(parsed: Parsed, form: str, watch: Watch, folder: TaskFolder, started: int, pid: int) -> str:
    from shlex import join

    from ...runtime.provenance import describe_local_run
    run = describe_local_run(join(["sonde", *parsed.given]), started, folder.seconds, watch.warnings())
    return folder.draw(form, pid, watch.looks, run)
