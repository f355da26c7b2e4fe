"""What a run does not see, in words: children of the traced process, and why a picture is empty."""

from __future__ import annotations

from ..base.record import Record
from ..spec import ScriptSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.traced_command import Process
    from . import Output

_NAMED = 3  # children


def _is_command(process: Process) -> bool:
    """Whether the run itself has started it (-c)."""
    from ..runtime.traced_command import Child
    return isinstance(process, Child)


class UntracedChildren:
    """Warns once of the processes that a traced process (-p) has started: they are not traced."""

    def __init__(self, process: Process | None) -> None:
        self._process = process if process is not None and not _is_command(process) else None
        self.count = 0  # of which was warned

    def warn(self, out: Output) -> None:
        """Say so, if there are any and it was not yet said."""
        if self._process is None or self.count:
            return
        children = self._process.children()
        self.count = len(children)
        if not children:
            return
        names = ", ".join(map(str, children[:_NAMED])) + (" ..." if self.count > _NAMED else "")
        one = self.count == 1
        out.write_note(f"WARNING: process {self._process.pid} ({self._process.name}) has {self.count} "
                       f"child{'' if one else 'ren'} ({names}), which {'is' if one else 'are'} not traced")
        out.write_note("HINT: --follow traces them, too; -p takes the id of a child; -C traces all of a container, "
                       "pod or service")


class EmptyPicture(Record):
    """A run of ``seconds`` of which a picture shows nothing; ``reason`` is why it ended (runtime.session), ``children``
    how many of the process's are not traced."""

    seconds: float
    process: Process | None
    reason: str
    spec: ScriptSpec
    children: int
    is_followed: bool

    def report(self, out: Output) -> None:
        """Say that nothing was collected, and what may be the reason."""
        out.write_note(f"ERROR: the picture is empty: nothing was collected in {self.seconds:.1f} s")
        for hint in self._hints():
            out.write_note(f"HINT: {hint}")

    def _hints(self) -> list[str]:
        process, hints = self.process, []
        if self.reason in ("process", "child"):
            hints.append("the process ended before the clauses of the script had anything to collect")
        elif process is not None:
            hints.append(f"process {process.pid} ({process.name}) did nothing that the script's clauses count"
                         + (": perhaps its children do" if self.children else ""))
            if any(point.kind == "profile" for program in self.spec.programs for point in program.attach):
                hints.append("samples show what is on a CPU; sonde flame --off-cpu shows where threads wait")
        if process is not None and _is_command(process) and not self.is_followed:
            hints.append("what the command itself starts is not traced: --follow traces it, too")
        return hints or ["the clauses of the script did not run, or their predicates were never true"]
