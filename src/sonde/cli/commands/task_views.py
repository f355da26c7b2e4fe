"""The tasks of a Python program as a tree, as JSON and as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...output.text import terminal_safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...kernel.names.python_tasks import Task, TaskFrame, TaskLook
    from .pytasks import Watch

_LIBRARIES = ("/asyncio/", "/trio/", "/anyio/", "/uvloop/")  # in the paths of functions that are waited in
_CSV = "id,task,named,thread,state,seen_s,at_first,awaits,awaited,stack\n"
_WIDTH = 30       # of a task's name, at least
_MOST_DEPTH = 50  # of tasks below each other


def frame_text(frame: TaskFrame, short: bool = False) -> str:
    """``function (file:line)``."""
    file = frame.file.rpartition("/")[2] if short else frame.file
    line = f"{file}:{frame.line}" if frame.line else file
    return f"{frame.function} ({line})" if line else frame.function


def awaits_text(task: Task) -> str:
    """What a task waits for: the function of a library for tasks that it has called, or the kind of its future."""
    if task.state != "waits":
        return "-"
    inside = list[str]()
    for frame in reversed(task.frames):
        if not any(part in frame.file for part in _LIBRARIES):
            break
        inside.insert(0, frame.function)
    if task.awaits not in ("Future", "") or not inside:
        return task.awaits or (task.frames[-1].function if task.frames else "?")
    return next((name for name in inside if not name.startswith("_")), inside[-1])


def tree_text(watch: Watch, every: bool) -> str:
    """All tasks, each below the one that waits for it."""
    look = watch.last
    assert look is not None
    lines = list[str]()
    for loop in dict.fromkeys([*look.threads, *[task.loop for task in look.tasks]]):
        tasks = [task for task in look.tasks if task.loop == loop]
        thread = look.threads.get(loop, 0)
        of_trio = bool("trio" in look.libraries and not thread)
        where = f"Event loop of thread {thread}" if thread else "trio's run" if of_trio else \
            "An event loop that does not run"
        lines.append(f"{where}: {len(tasks)} task{'s' * (len(tasks) != 1)}")
        if tasks:
            lines.append(f"{'TASK':<{_WIDTH}} {'STATE':<7} {'SEEN(s)':>7}  AWAITS")
            lines += _Tree(watch, look, tasks, every).lines()
    if not lines:
        lines.append("No event loop of asyncio's or trio's runs, and there is no task.")
    return "".join([terminal_safe(line) + "\n" for line in lines])


class _Tree:
    """The tasks of a loop."""

    def __init__(self, watch: Watch, look: TaskLook, tasks: list[Task], every: bool) -> None:
        self._watch, self._tasks, self._every = watch, tasks, every
        self._by_id = {task.id: task for task in look.tasks}
        self._awaited = {id for task in look.tasks for id in task.awaited}
        self._shown = set[int]()

    def lines(self) -> Iterator[str]:
        """The lines: first those that nobody waits for, then those of circles."""
        yield from self._level([task for task in self._tasks if task.id not in self._awaited], 0)
        while rest := [task for task in self._tasks if task.id not in self._shown]:
            yield from self._level(rest[:1], 0)

    def _level(self, tasks: list[Task], depth: int) -> Iterator[str]:
        groups: dict[object, list[Task]] = {}
        for task in sorted(tasks, key=_order):
            alike = task.id if self._every or task.awaited else \
                (task.state, awaits_text(task), *[frame.values() for frame in task.frames])
            groups.setdefault(alike, []).append(task)
        for group in groups.values():
            yield from self._task(group, depth)

    def _task(self, alike: list[Task], depth: int) -> Iterator[str]:
        task = alike[0]
        indent, again = "  " * depth, task.id in self._shown
        self._shown.update([each.id for each in alike])
        name = (task.name or hex(task.id)) + (f" and {len(alike) - 1} more" if len(alike) > 1 else "")
        seen, first = max(self._watch.seen_for(each) for each in alike)
        for_text = f"{'>' * first}{seen:.1f}"
        awaits, count = awaits_text(task), len(task.awaited)
        if count and awaits != "task":
            awaits += f": {count} task{'s' * (count != 1)}"
        if again and count:
            awaits += ", shown above"
        yield f"{indent + name:<{_WIDTH}} {task.state:<7} {for_text:>7}  {awaits}"
        for frame in task.frames:
            yield f"{indent}    {frame_text(frame)}"
        if not again and depth < _MOST_DEPTH:
            yield from self._level([self._by_id[id] for id in task.awaited if id in self._by_id], depth + 1)


def _order(task: Task) -> tuple[bool, str, int, str]:
    """Tasks with names first, then by number."""
    stem = task.name.rstrip("0123456789")
    digits = task.name[len(stem):]
    return not task.named, stem, int(digits[:18]) if digits.isascii() and digits else 0, digits


def json_text(watch: Watch) -> str:
    """A line for each task, and one for the looks."""
    import json

    look = watch.last
    assert look is not None
    lines = []
    for task in sorted(look.tasks, key=_order):
        seen, first = watch.seen_for(task)
        lines.append({"type": "task", "data": {
            "id": task.id, "name": _plain(task.name), "named": task.named,
            "thread": look.threads.get(task.loop) or None, "loop": task.loop, "state": task.state,
            "seen_s": round(seen, 3), "at_first": first,
            "awaits": _plain(awaits_text(task)), "awaited": task.awaited,
            "stack": [{"function": _plain(frame.function), "file": _plain(frame.file), "line": frame.line}
                      for frame in task.frames]}})
    lines.append({"type": "looks", "data": {
        "looks": watch.looks, "failed": watch.failed, "tasks": watch.seen, "changed": watch.changed, "torn": watch.torn,
        "whole": not watch.partial, "left_out": look.more, "strange": look.strange, "libraries": look.libraries,
        "warnings": watch.warnings()}})
    return "".join([json.dumps(line) + "\n" for line in lines])


def csv_text(watch: Watch) -> str:
    """A row for each task."""
    import csv
    from io import StringIO

    look = watch.last
    assert look is not None
    out = StringIO()
    out.write(_CSV)
    writer = csv.writer(out, lineterminator="\n")
    for task in sorted(look.tasks, key=_order):
        seen, first = watch.seen_for(task)
        writer.writerow([task.id, task.name, str(task.named).lower(), look.threads.get(task.loop, ""), task.state,
                         f"{seen:.3f}", str(first).lower(), awaits_text(task), " ".join(map(str, task.awaited)),
                         ";".join([frame_text(frame) for frame in task.frames])])
    return out.getvalue()


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
