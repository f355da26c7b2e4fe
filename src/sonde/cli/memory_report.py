"""``-v``: what the CPUs have each for itself, and what they share."""

from __future__ import annotations

from ..kernel import host
from ..layouts.event_records import DATA_RING
from ..layouts.shared_maps import SCRATCH
from ..spec import MapSpec
from ..types import Aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..library.traced_run import TracedRun
    from ..output import Output


def report_memory(trace: TracedRun, out: Output) -> None:
    """A line about each kind of memory that depends on the CPUs."""
    maps = [each.spec for each in trace.session.maps.values()]
    for line in describe_memory(maps, len(host.online_cpus()), host.possible_cpus()):
        out.write_note(line)


def describe_memory(maps: Iterable[MapSpec], online: int, possible: int) -> list[str]:
    """Sentences about the maps of a run, on a machine of so many CPUs."""
    lines: list[str] = []
    own: list[str] = []
    scratch = 0
    for spec in maps:
        if spec.name == DATA_RING:
            lines.append(f"records: one ring of {_format_size(spec.max_entries)} for all CPUs")
        elif spec.name.startswith(SCRATCH):
            scratch += spec.value_size
        elif isinstance(spec.value, Aggregate) and spec.name.startswith("@"):
            copies = possible if "percpu" in spec.type else spec.cpus
            if copies >= possible:
                own.append(spec.name)
            else:
                lines.append(f"{spec.name}: {copies} {'copy' if copies == 1 else 'copies'} of each value, which CPUs "
                            "share: all of them add to it atomically")
    if own:
        lines.insert(0, f"{', '.join(own)}: a copy of each value for each CPU")
    if scratch:
        lines.append(f"scratch memory: {_format_size(scratch)}, a part for each CPU")
    return [f"CPUs: {online} online, {possible} possible", *lines] if lines else []


def _format_size(size: int) -> str:
    return f"{size / (1 << 20):.3g} MiB" if size >= 1 << 20 else f"{size / 1024:.3g} KiB"
