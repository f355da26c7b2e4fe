"""Side effects of printing a script's events: files and counters read, commands, packets."""

from __future__ import annotations

from ..base.fast_stdlib import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..base.end_request import Ending


class PacketSink(Protocol):
    """Takes the packets of skboutput()."""

    def write(self, time: int, packet: bytes, length: int) -> None:
        """A packet's bytes, of so many: ``time`` is nanoseconds since 1970."""


class Outside:
    """This machine, for cat(), system(), nstat() and skboutput()."""

    def read_file(self, path: bytes, limit: int) -> bytes:
        """The first ``limit`` bytes of a file. OSError, ValueError (a NUL in the path)."""
        with open(path, "rb", buffering=0, opener=_open_without_waiting) as file:
            return _read_up_to(file.read, limit)

    def may_run(self, ending: Ending) -> bool:
        """Whether a command is still to be run."""
        return ending.may_run_commands()

    def run_command(self, command: bytes, show: Callable[[bytes, bool], object], ending: Ending) -> None:
        """Run a shell command, and ``show`` what it prints, and whether more follows. OSError, ValueError."""
        from .command import run_shell_command
        run_shell_command(command, show, ending)

    def network_growth(self) -> Callable[[], Sequence[tuple[str, int]]]:
        """What gives the network counters that have grown since it was last asked."""
        from .nstat import Growth
        return Growth().take_growth

    def open_packets(self, path: str) -> PacketSink:
        """A file that packets are written to, made with the first."""
        from .packets import PacketFile
        return PacketFile(path)


def _open_without_waiting(path: str, flags: int) -> int:
    """Open what may be a pipe without a writer; what is not there yet is not read."""
    import os
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _read_up_to(read: Callable[[int], bytes | None], limit: int) -> bytes:
    """At most ``limit`` bytes; files of /proc come in pieces."""
    pieces: list[bytes] = []
    while limit > 0 and (piece := read(limit)):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)
