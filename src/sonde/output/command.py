"""Commands of system(): run one after another, their output passed on, none outliving the run."""

from __future__ import annotations

import os
import select

from ..base.end_request import LAST, Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 1 << 20  # bytes of output that are held; a command that prints more is printed in pieces
_LOOK = 100      # ms: so often the wish to end is looked at
_PATIENCE = 0.05  # s: how long SIGTERM may take


def run_shell_command(command: bytes, show: Callable[[bytes, bool], object], ending: Ending) -> None:
    """Run a shell command to its end and ``show`` what it prints, errors too, and whether more follows. One that still
    runs a moment after the run was to end is sent SIGTERM, unless ``end`` asked for it. It has no more than an ordinary
    priority, and neither has what it leaves behind. OSError, ValueError (it failed, or has a NUL in it)."""
    import subprocess
    with subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          preexec_fn=_be_ordinary if ending.first else None) as process:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        held = bytearray()
        while ending.in_end or not ending.is_overdue(LAST):
            if not ready.poll(_LOOK):
                continue
            piece = os.read(descriptor, 1 << 16)
            held += piece
            if len(held) > _MOST:
                show(bytes(held), bool(piece))
                held.clear()
            if not piece:
                _show_end(process.wait(), held, show)
                return
        show(bytes(held), False)
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def _show_end(status: int, held: bytearray, show: Callable[[bytes, bool], object]) -> None:
    """What is left of a command's output; ValueError if it failed."""
    if held or not status:
        show(bytes(held), False)
    if status:
        raise ValueError(f"command exited with code {status}" if status > 0 else "child process did not exit normally")


def _be_ordinary() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, 0)
