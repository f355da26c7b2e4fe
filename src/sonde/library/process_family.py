"""The process of -p or -c and everything it starts: for --follow, and for tools whose USAGE names ``[-c COMMAND]``.

A process is identified by its ``struct signal_struct``, which all its threads share, which stays the same when it runs
another program, and whose memory is not reused before its last task is freed; its PID may be reused before that.
``task_newtask`` and ``sched_process_fork`` fire before the new task runs (copy_process() and kernel_clone() in
kernel/fork.c), so nothing that a child does is missed; ``sched_process_free`` fires after everything else done on its
behalf, such as closing its files. Where a program can be preempted the kernel skips it for others meanwhile: a process
is then noted by the other of the two. Where no program sees the end of a process, its key goes when a process of
another family begins at the same address.

Children that are there before are known by their parents. One whose parent has ended is no longer anybody's.
"""

from __future__ import annotations

from ..compiling import compile_or_recall
from ..errors import CompileError, MissingFeatureError
from ..layouts.shared_maps import FAMILY
from ..runtime.session import Session
from ..semantics.script_options import Options
from ..source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..runtime.losses import Losses
    from ..runtime.maps.access import Map

# The leader exits last, unless another thread called execve().
# Numbers in place of args: before Linux 5.18 these have no types.
FOLLOW = Source("processes of -p or -c", """
config = { print_maps_on_exit = 0 }
let @family = hash(65536);
macro begin_process(@family, process) {
  if (pid == cpid || has_key(@family, (uint64)curtask.signal)) {
    @family[process] = (uint64)1;
  } else if (has_key(@family, process)) {
    delete(@family, process);
  }
}
rawtracepoint:task_newtask { begin_process(@family, (uint64)((struct task_struct *)arg0).signal); }
rawtracepoint:sched_process_fork { begin_process(@family, (uint64)((struct task_struct *)arg1).signal); }
rawtracepoint:sched_process_free
/((struct task_struct *)arg0).group_leader == (struct task_struct *)arg0
    && has_key(@family, (uint64)((struct task_struct *)arg0).signal)/ {
  delete(@family, (uint64)((struct task_struct *)arg0).signal);
}
""", internal=True)

# Its numbers are those of the namespace of who reads. A task that has been released (its sighand is gone) was perhaps
# freed before it was noted: then nobody else takes it out again.
LOOK = Source("processes that are there", """
config = { print_maps_on_exit = 0 }
let @family = hash(65536);
let @added = hash(1);
macro number(task) { task.thread_pid.numbers[curtask.thread_pid.level].nr }
iter:task
/ctx.task.group_leader == ctx.task && !has_key(@family, (uint64)ctx.task.signal)
    && (number(ctx.task) == cpid || has_key(@family, (uint64)ctx.task.real_parent.signal))/ {
  @family[(uint64)ctx.task.signal] = (uint64)1;
  if ((uint64)ctx.task.sighand == 0) {
    delete(@family, (uint64)ctx.task.signal);
  } else {
    @added[(uint64)0] = (uint64)1;
  }
}
""", internal=True)

BEGINNINGS = "task_newtask", "sched_process_fork"
MOST_LOOKS = 100  # each sees the children of those that are known


class FamilyLog:
    """Keeps the script's map of the family from now on. ``maps`` are those of the script, which is not attached yet;
    ``values`` the globals of programs, with the first process as ``cpid``. ``looks``: for the first process and its
    children that are there already. MissingFeatureError where that cannot be."""

    is_prompt, rest = False, 0.0
    fds: list[int] = []

    def __init__(self, maps: Mapping[str, Map], values: Mapping[str, int], looks: bool) -> None:
        self._family, self._values = maps[FAMILY], values
        self._unseen = 0
        self._session = self._share_map(FOLLOW)
        try:
            self._session.attach()
            if looks:
                self._look()
        except BaseException:
            self._close_session(self._session)
            raise

    def _share_map(self, source: Source) -> Session:
        """A session of a script whose ``@family`` is the traced script's."""
        session = Session(compile_or_recall(source, Options(cpid=self._values["cpid"], shares_maps=True)),
                          values=self._values)
        session.maps["@family"] = self._family
        return session

    def _look(self) -> None:
        """Note the first process and its children that are there. Those that they start meanwhile are noted as they
        start, so a look that finds no more has found all."""
        for _ in range(MOST_LOOKS):
            if not self._look_once():
                return
        self._unseen = 1

    def _look_once(self) -> bool:
        try:
            session = self._share_map(LOOK)
        except CompileError as error:
            raise MissingFeatureError("the children of a process are found by an iterator (Linux 5.8)", "iter_task",
                                      ["-c COMMAND --follow needs none"]) from error
        try:
            session.attach()
            while not session.done:
                session.poll()
            self._unseen += sum([count for _, count in session.losses().errors])
            return bool(list(session.maps["@added"].items()))
        finally:
            self._close_session(session)

    def drain_rings(self) -> None:
        """It tells nothing."""

    def count_losses(self, losses: Losses) -> None:
        """Add the processes that are not in the map."""
        own = self._session.losses()
        skipped = dict(own.skipped)
        # No more than this were skipped at both.
        twice = min([skipped.pop(f"rawtracepoint:vmlinux:{name}", 0) for name in BEGINNINGS])
        unnoted = max([count for _, count in own.errors], default=0)  # what finds no room finds none twice
        losses.strayed += twice + unnoted + sum(skipped.values()) + self._unseen

    def close(self) -> None:
        """Stop following."""
        self._session.stop()
        self._close_session(self._session)

    def _close_session(self, session: Session) -> None:
        session.losses()
        session.maps.pop("@family", None)  # it is the script's
        session.close()
