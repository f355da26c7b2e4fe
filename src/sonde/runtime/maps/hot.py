"""What CPUs counted in the hot elements of an aggregate (see layouts/shared_maps.py)."""

from __future__ import annotations

from ...layouts.shared_maps import HOT_KEY, HOT_TAKEN
from ...spec import MapSpec
from ...types import Aggregate, round_up
from .merge import State, merge_states


def read_hot(spec: MapSpec, table: MapSpec, memory: bytes) -> dict[bytes, State]:
    """Key -> merged words of all CPUs; ``spec`` is the aggregate's map, ``memory`` the contents of its ``table``."""
    assert isinstance(spec.value, Aggregate)
    first, size = HOT_KEY + round_up(spec.key_size, 8), spec.value.size
    states = memoryview(memory).cast("Q")[::table.stride // 8].tolist()
    cells: dict[bytes, list[bytes]] = {}
    for at in [number * table.stride for number, state in enumerate(states) if state == HOT_TAKEN]:
        key = memory[at + HOT_KEY:at + HOT_KEY + spec.key_size]
        cells.setdefault(key, []).append(memory[at + first:at + first + size])
    return {key: merge_states(spec.value, b"".join(parts), len(parts))[0] for key, parts in cells.items()}
