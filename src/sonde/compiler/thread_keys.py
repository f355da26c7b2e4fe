"""Which maps have only the current thread's id as a key: ``@start[tid] = nsecs`` and what belongs to it.

Their elements are in slots; see :mod:`sonde.compiler.lower.maps.threads`.
"""

from __future__ import annotations

import sys

from ..kinds import KINDS
from ..language.ast import Assign, Call, Expr, For, MapRef, Name, Unary
from ..layouts.shared_maps import PURSE, PURSES, SLOT
from ..layouts.uapi import BPF_F_MMAPABLE
from ..semantics.callees import row_of
from ..semantics.nodes import walk_nodes
from ..semantics.typed import CheckedProbe, CheckedScript, Element, ScriptMap, WholeMap
from ..semantics.world import World
from ..spec import MapSpec
from ..types import UINT32, Scalar

LEAST_SLOTS, MOST_SLOTS = 64, 1 << 16


def maps_of_threads(checked: CheckedScript, world: World) -> set[str]:
    """The maps whose elements can lie in slots: numbers of eight bytes under ``tid`` everywhere, which are written,
    read and asked for one by one, and deleted; as a whole they are only printed, and emptied at the end.

    With a budget the runtime empties maps while programs run, which slots do not allow; nor does an iterator that is
    pinned have a runtime to read them.
    """
    if checked.options.gated or world.pid_namespace:
        return set()
    maps = {info.name for info in checked.maps.values() if _can_hold(info)}
    for probe in checked.probes:
        if not maps:
            break
        maps -= _used_otherwise(probe)
    return maps


def slot_table(spec: MapSpec, cpus: int) -> MapSpec:
    """The table of a map's slots: four for each element that it may have, and the purses that pay for elements."""
    count = min(max(1 << (4 * spec.max_entries - 1).bit_length(), LEAST_SLOTS), MOST_SLOTS)
    purses = min(cpus, PURSES)
    shares = [spec.max_entries // purses + (number < spec.max_entries % purses) for number in range(purses)]
    return MapSpec("__slots" + spec.name, "array", 4, PURSES * PURSE + count * SLOT, 1, BPF_F_MMAPABLE,
                   initial=b"".join([share.to_bytes(8, sys.byteorder).ljust(PURSE, b"\0") for share in shares]))


def slots_of(table: MapSpec) -> int:
    """How many slots a table has: a power of two."""
    return (table.value_size - PURSES * PURSE) // SLOT


def _can_hold(info: ScriptMap) -> bool:
    return info.kind in ("", "hash") and info.key == UINT32 and isinstance(info.value, Scalar) and info.value.size == 8


def _used_otherwise(probe: CheckedProbe) -> set[str]:
    """Maps that a clause uses in a way that slots do not support."""
    if KINDS[probe.attach[0].kind].iterates:
        return {node.name for node in walk_nodes(probe.trees) if isinstance(node, MapRef)}
    at_end = probe.attach[0].kind == "end"
    return {name for node in walk_nodes(probe.trees) for name in _asks_for_more(node, at_end)}


def _asks_for_more(node: object, at_end: bool) -> list[str]:
    if isinstance(node, MapRef):
        return [] if node.key is None or is_thread_id(node.key) else [node.name]
    if isinstance(node, Assign):
        target = node.target if node.op != "=" else None
        return [target.name] if isinstance(target, MapRef) else []
    if isinstance(node, Unary):
        changed = isinstance(node.operand, MapRef) and node.op in ("++", "--", "&")
        return [node.operand.name] if changed and isinstance(node.operand, MapRef) else []
    if isinstance(node, For):
        return [node.start.name] if isinstance(node.start, MapRef) else []
    if isinstance(node, Call) and isinstance(node.choice, Element):
        row = row_of(node)
        deletes = row is not None and row.on_map == "delete"
        return [] if deletes or node.choice.key is None or is_thread_id(node.choice.key) else [node.choice.map]
    if isinstance(node, Call) and isinstance(node.choice, WholeMap):
        row = row_of(node)
        use = row.on_map if row is not None else ""
        return [] if use == "print" or use in ("clear", "zero") and at_end else [node.choice.map]
    return []


def is_thread_id(key: Expr) -> bool:
    """Whether a key is the current thread's id."""
    return isinstance(key, Name) and key.name == "tid" and key.const is None
