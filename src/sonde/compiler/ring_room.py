"""How much room a script needs in the data ring, if only the clock and its own beginning and end make it send.

Events come at any rate, so the ring of a script that sends something at an event is as large as the machine affords
(runtime/records/ringbuf.py). An interval sends a few records, or one for each element of a map, and user space has read
them long before the next one.
"""

from __future__ import annotations

from ..kinds import KINDS
from ..language.ast import For, MapRef, Unroll, While
from ..semantics.nodes import walk_nodes
from ..semantics.typed import CheckedProbe, CheckedScript
from ..spec import EventSite, MapSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SHORTEST_PERIOD = 1_000_000  # ns
LEAST_BYTES, LEAST_TIMES = 1 << 18, 64
UNREAD = 4_000_000_000  # ns for which user space may be busy with something else


def data_ring_room(checked: CheckedScript, sites: list[EventSite], maps: Mapping[str, MapSpec]) -> int:
    """The size of the data ring that is enough, a power of two; 0: as large as there is memory for."""
    times = [_most_times(probe, maps) for probe in checked.probes if probe.facts.sends]
    if not times or 0 in times:
        return 0
    records = sum(8 + site.size for site in sites if not site.control)
    return max(LEAST_BYTES, 1 << (max(times) * records - 1).bit_length())


def _most_times(probe: CheckedProbe, maps: Mapping[str, MapSpec]) -> int:
    """How often a clause may send each of its records before they are read; 0 if nobody knows."""
    for point in probe.attach:
        kind = KINDS[point.kind]
        if not (kind.own or kind.ticks and not kind.samples) or kind.counted and point.period < SHORTEST_PERIOD:
            return 0
    rounds = 1
    for node in walk_nodes(probe.trees):
        if isinstance(node, While | Unroll) or isinstance(node, For) and not isinstance(node.start, MapRef):
            return 0
        if isinstance(node, For) and isinstance(node.start, MapRef):
            rounds *= maps[node.start.name].max_entries
    period = min([point.period for point in probe.attach if point.period], default=UNREAD)
    return max(LEAST_TIMES, max(1, UNREAD // period) * rounds)
