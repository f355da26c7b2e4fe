"""The command of -c and everything it starts, for tools whose USAGE names ``[-c COMMAND]``.

A process is identified by its ``struct signal_struct``, which all its threads share, which stays the same when it runs
another program, and whose memory is not reused before its last task is freed; its PID may be reused before that.
``task_newtask`` and ``sched_process_fork`` fire before the new task runs (copy_process() and kernel_clone() in
kernel/fork.c), so nothing that a child does is missed; ``sched_process_free`` fires after everything else done on its
behalf, such as closing its files. Where a program can be preempted the kernel skips it for others meanwhile: a process
is then noted by the other of the two.
"""

from __future__ import annotations

from ..layouts.shared_maps import FAMILY
from ..source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.losses import Losses
    from ..runtime.maps.access import Map
    from ..runtime.session import Session

# The leader exits last, unless another thread called execve().
# Numbers in place of args: before Linux 5.18 these have no types.
FOLLOW = Source("processes of -c", """
config = { print_maps_on_exit = 0 }
let @family = hash(65536);
rawtracepoint:task_newtask /pid == cpid || has_key(@family, (uint64)curtask.signal)/ {
  @family[(uint64)((struct task_struct *)arg0).signal] = (uint64)1;
}
rawtracepoint:sched_process_fork /pid == cpid || has_key(@family, (uint64)curtask.signal)/ {
  @family[(uint64)((struct task_struct *)arg1).signal] = (uint64)1;
}
rawtracepoint:sched_process_free
/((struct task_struct *)arg0).group_leader == (struct task_struct *)arg0
    && has_key(@family, (uint64)((struct task_struct *)arg0).signal)/ {
  delete(@family, (uint64)((struct task_struct *)arg0).signal);
}
""", internal=True)


BEGINNINGS = "task_newtask", "sched_process_fork"


class FamilyLog:
    """Keeps the script's map of the family from now on. ``session`` is that of FOLLOW, not loaded yet, which knows the
    command as ``cpid``; ``maps`` are those of the script, which is not attached yet."""

    is_prompt, rest = False, 0.0
    fds: list[int] = []

    def __init__(self, session: Session, maps: dict[str, Map]) -> None:
        self._session = session
        session.maps["@family"] = maps[FAMILY]
        try:
            session.attach()
        except BaseException:
            self._close_session()
            raise

    def drain_rings(self) -> None:
        """It tells nothing."""

    def count_losses(self, losses: Losses) -> None:
        """Add the processes that are not in the map."""
        own = self._session.losses()
        skipped = dict(own.skipped)
        # No more than this were skipped at both.
        twice = min([skipped.pop(f"rawtracepoint:vmlinux:{name}", 0) for name in BEGINNINGS])
        unnoted = max([count for _, count in own.errors], default=0)  # what finds no room finds none twice
        losses.strayed += twice + unnoted + sum(skipped.values())

    def close(self) -> None:
        """Stop following."""
        self._session.stop()
        self._close_session()

    def _close_session(self) -> None:
        self._session.losses()
        self._session.maps.pop("@family", None)  # it is the script's
        self._session.close()
