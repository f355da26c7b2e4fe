"""Which maps have elements in slots: those keyed by the current thread's id, or the current CPU's number, as in
``@start[tid] = nsecs``, and *shared* ones, with any numbers as keys, whose elements are deleted again.

See :mod:`sonde.compiler.lower.maps.slots`.
"""

from __future__ import annotations

import sys

from ..arch import ARCHES
from ..kinds import KINDS
from ..language.ast import Assign, Call, Expr, For, MapRef, Name, Unary
from ..layouts.shared_maps import PURSE, PURSES, SLOT
from ..layouts.uapi import BPF_F_MMAPABLE
from ..semantics.callees import row_of
from ..semantics.nodes import walk_nodes
from ..semantics.typed import CheckedProbe, CheckedScript, Element, ScriptMap, WholeMap
from ..semantics.world import World
from ..spec import MapSpec
from ..types import UINT32, UINT64, Int, Scalar, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_SLOTS, MOST_SLOTS = 64, 1 << 16
OWNERS = {"tid": UINT32, "cpu": UINT64}  # keys of elements that can lie in slots, and their types


def slotted_maps(checked: CheckedScript, world: World) -> tuple[set[str], set[str]]:
    """The maps whose elements can lie in slots, and those of them that are shared: numbers of eight bytes that are
    written, read, looked for and deleted one by one; the whole map is only printed, and emptied at the end. The keys
    are everywhere ``tid``, or ``cpu``, or the map is shared.

    With a budget the runtime empties maps while programs run, which slots do not allow; nor does an iterator that is
    pinned have a runtime to read them. Who shares a script's maps knows only the kernel's.
    """
    if checked.options.gated or checked.options.shares_maps or world.pid_namespace:
        return set(), set()
    owned = _without_other_uses(checked, {info.name for info in checked.maps.values() if _can_hold(info)
                                          and info.key in OWNERS.values()}, False)
    shared = set[str]()
    if ARCHES[world.arch].ordered_memory:
        numbers = {info.name for info in checked.maps.values() if _can_hold(info) and isinstance(info.key, Int)
                   and info.key.size >= 4} - owned
        deleted = {name for probe in checked.probes for node in walk_nodes(probe.trees) for name in _deleted(node)}
        shared = _without_other_uses(checked, numbers & deleted, True)
    return owned | shared, shared


def _without_other_uses(checked: CheckedScript, maps: set[str], shared: bool) -> set[str]:
    for probe in checked.probes:
        if not maps:
            break
        maps = maps - _used_otherwise(probe, checked.maps, shared)
    return maps


def _deleted(node: object) -> list[str]:
    """The map that a call deletes a key from."""
    if not isinstance(node, Call) or not isinstance(node.choice, Element) or node.choice.key is None:
        return []
    row = row_of(node)
    return [node.choice.map] if row is not None and row.on_map == "delete" else []


def slot_table(spec: MapSpec, cpus: int, shared: bool) -> MapSpec:
    """The table of a map's slots: four for each element that it may have, and the purses that pay for elements."""
    most = spec.max_entries if shared or is_of_threads(spec) else min(spec.max_entries, cpus)
    count = min(max(1 << (4 * most - 1).bit_length(), LEAST_SLOTS), MOST_SLOTS)
    purses = min(cpus, PURSES)
    shares = [spec.max_entries // purses + (number < spec.max_entries % purses) for number in range(purses)]
    return MapSpec("__slots" + spec.name, "array", 4, PURSES * PURSE + count * SLOT, 1, BPF_F_MMAPABLE,
                   initial=b"".join([share.to_bytes(8, sys.byteorder).ljust(PURSE, b"\0") for share in shares]))


def slots_of(table: MapSpec) -> int:
    """How many slots a table has: a power of two."""
    return (table.value_size - PURSES * PURSE) // SLOT


def is_of_threads(spec: MapSpec) -> bool:
    """Whether a map with slots is keyed by threads; else by CPUs."""
    return spec.key == OWNERS["tid"]


def _can_hold(info: ScriptMap) -> bool:
    return info.kind in ("", "hash") and isinstance(info.value, Scalar) and info.value.size == 8


def _used_otherwise(probe: CheckedProbe, maps: Mapping[str, ScriptMap], shared: bool) -> set[str]:
    """Maps that a clause uses in a way that slots do not support."""
    if KINDS[probe.attach[0].kind].iterates:
        return probe.facts.used
    at_end = probe.attach[0].kind == "end"
    return {name for node in walk_nodes(probe.trees) for name in _asks_for_more(node, maps, at_end, shared)}


def _asks_for_more(node: object, maps: Mapping[str, ScriptMap], at_end: bool, shared: bool) -> list[str]:
    if isinstance(node, MapRef):
        return [] if shared or node.key is None or is_owner(node.key, maps[node.name].key) else [node.name]
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
        key, type = node.choice.key, maps[node.choice.map].key
        deletes = row is not None and row.on_map == "delete" and type == OWNERS["tid"]
        return [] if shared or deletes or key is None or is_owner(key, type) else [node.choice.map]
    if isinstance(node, Call) and isinstance(node.choice, WholeMap):
        row = row_of(node)
        use = row.on_map if row is not None else ""
        return [] if use == "print" or use in ("clear", "zero") and at_end else [node.choice.map]
    return []


def is_owner(key: Expr, type: Type | None) -> bool:
    """Whether the key of a map, which has keys of a type, is the current thread's id or the current CPU's number."""
    return isinstance(key, Name) and key.const is None and type is not None and OWNERS.get(key.name) == type
