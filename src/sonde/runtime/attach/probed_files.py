"""Probed files in memory while probes are attached.

Linux looks at a probed instruction only where the file is mapped (install_breakpoint() in kernel/events/uprobes.c), and
then refuses one that it cannot probe. Where no process has the file yet it takes the probe, and later installs nothing,
in silence.
"""

from __future__ import annotations

from ...errors import MachineError
from ...kernel.foreign.opening import map_regular
from ..traced_command import Child
from .refusals import semaphore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from mmap import mmap

    from ...spec import Attach
    from ..traced_command import Process


def map_probed_files(points: Iterable[Attach], process: Process | None) -> list[mmap]:
    """Map the files of user probes: in this process, to be closed when all is attached, or, if they are for a command
    that is yet to be executed, in its process. One that cannot be mapped is left to the kernel. A static probe with a
    semaphore is at a nop, which can be probed."""
    mappings = []
    for path, pid in sorted({(point.target, point.pid) for point in points if not semaphore(point)}):
        if isinstance(process, Child) and pid == process.pid:
            process.map_file(path)
        elif not pid:
            try:
                mappings.append(map_regular(path))
            except MachineError:
                continue
    return mappings
