"""A flame graph of what the tasks of a Python program waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...output.views.stacks import LEFT_OUT, Folded, clean_text, folded_lines
from .task_views import frame_text

if TYPE_CHECKING:
    from ...kernel.names.python_tasks import Task, TaskLook
    from ...runtime.provenance import Provenance

MOST_STACKS = 50000    # that are told apart; the others are added up
_MOST_DEPTH = 50       # of tasks that wait for each other
_READY = "[ready, waits for the loop]"


class TaskFolder:
    """Adds up, in nanoseconds, for how long tasks were in each wait. ``seconds``: between the first look and the
    last."""

    def __init__(self, by_name: bool) -> None:
        self.folded: Folded = {}
        self.seconds = 0.0
        self._by_name, self._last = by_name, 0.0

    def add_look(self, look: TaskLook) -> None:
        """Add the time since the look before."""
        passed = look.time - self._last if self._last else 0.0
        self._last = look.time
        self.seconds += passed
        if not passed:
            return
        by_id = {task.id: task for task in look.tasks}
        waiter = {id: task for task in reversed(look.tasks) for id in task.awaited}
        for task in look.tasks:
            if task.state == "runs" or any(id in by_id for id in task.awaited):
                continue
            frames = self._stack(task, waiter)
            if frames not in self.folded and len(self.folded) >= MOST_STACKS:
                frames = LEFT_OUT
            self.folded[frames] = self.folded.get(frames, 0) + round(passed * 1e9)

    def _stack(self, task: Task, waiter: dict[int, Task]) -> tuple[str, ...]:
        """The frames of a task, below them those of the one that waits for it, and so on."""
        chain, seen = [task], {task.id}
        while len(chain) < _MOST_DEPTH and chain[-1].id in waiter:
            above = waiter[chain[-1].id]
            if above.id in seen:
                break
            seen.add(above.id)
            chain.append(above)
        frames = list[str]()
        for each in reversed(chain):
            frames += [f"task {each.name}"] * (self._by_name and each.named)
            frames += [frame_text(frame, short=True) for frame in each.frames]
        if task.state == "ready":
            frames.append(_READY)
        elif task.awaits not in ("", "Future", "gather", "task"):
            frames.append(f"[{task.awaits}]")
        return tuple([clean_text(frame) or "-" for frame in frames]) or ("-",)

    def draw(self, form: str, pid: int, looks: int, run: Provenance) -> str:
        """The graph in this form."""
        from ...output.units import scale_value
        from ...output.views import svg
        from ...output.views.flamegraph import flame_graph
        total = scale_value(sum(self.folded.values()), "ns")
        title = f"Tasks of process {pid}, waiting: {total} in {self.seconds:.1f} s, {looks} looks"
        if form == "folded":
            return run.format_comments("#") + "# the numbers are ns.\n" + "".join(folded_lines(self.folded))
        if form == "html":
            return self._page(title, run)
        return flame_graph(self.folded, title, None, 0, "ns", svg.about_run(run))

    def _page(self, title: str, run: Provenance) -> str:
        from ...output.look import page_style, read_asset
        from ...output.views import svg
        from ...output.views.flamegraph import STYLE, flame_element
        from ...output.views.html import card
        graph = flame_element(self.folded, "tasks, waiting", 0, "ns")
        body = (f"<header><h1>{svg.escape_markup(title)}</h1>\n{svg.run_html(run)}</header>\n<main class=\"cards\">\n",
                card("tasks, waiting", [f'<div class="across">{graph}</div>'], True), "</main>")
        return svg.html_page(title, page_style() + STYLE, body, read_asset("scale.js", "tables.js", "flame.js"))
