"""Which maps have elements in slots: those keyed by the current thread's id, or the current CPU's number, as in
``@start[tid] = nsecs``, and *shared* ones, with any numbers as keys, whose elements are deleted again.

See :mod:`sonde.compiler.lower.maps.slots`.
"""

from __future__ import annotations

import sys

from ..arch import ARCHES
from ..kinds import KINDS
from ..language.ast import Assign, Call, Expr, For, MapRef, Name, Unary, Variable
from ..layouts.shared_maps import PURSE, PURSES, SLOT, WIDE_MOST, WIDE_SLOT
from ..layouts.uapi import BPF_F_MMAPABLE
from ..semantics.callees import row_of
from ..semantics.nodes import walk_nodes
from ..semantics.typed import CheckedProbe, CheckedScript, Element, ScriptMap, WholeMap
from ..semantics.world import World
from ..spec import Attach, MapSpec
from ..types import INT64, UINT32, UINT64, Int, Scalar, Tuple, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LEAST_SLOTS, MOST_SLOTS = 64, 1 << 16
OWNERS = {"tid": UINT32, "cpu": UINT64, "running": INT64}  # keys of elements that can lie in slots, and their types
TASK_KINDS = ("uprobe", "uretprobe", "usdt", "begin", "end")  # run where nothing interrupts them that they could meet
TASK_EVENTS = ("sched_process_exit", "sched_process_exec")


def slotted_maps(checked: CheckedScript, world: World) -> tuple[set[str], set[str]]:
    """The maps whose elements can lie in slots, and those of them that are shared: numbers of eight bytes that are
    written, read, looked for and deleted one by one; the whole map is only printed, and emptied at the end. The keys
    are everywhere ``tid``, or ``cpu``, or ``caller()``, or the map is shared. Values may also be short tuples, if no
    program meets one that is being written: those of threads, in probes that do not interrupt each other.

    With a budget the runtime empties maps while programs run, which slots do not allow; nor does an iterator that is
    pinned have a runtime to read them. Who shares a script's maps knows only the kernel's.
    """
    if checked.options.gated or checked.options.shares_maps or world.pid_namespace:
        return set(), set()
    ordered = ARCHES[world.arch].ordered_memory
    wide = {info.name for info in checked.maps.values() if ordered and _is_wide(info)} - _used_in_interrupts(checked)
    owned = _without_other_uses(checked, {info.name for info in checked.maps.values() if info.key in OWNERS.values()
                                          and (_can_hold(info) or info.name in wide)}, False)
    shared = set[str]()
    if ordered:
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
    most = min(spec.max_entries, cpus) if is_of_cpus(spec) and not shared else spec.max_entries
    count = min(max(1 << (4 * most - 1).bit_length(), LEAST_SLOTS), MOST_SLOTS)
    purses = min(cpus, PURSES)
    shares = [spec.max_entries // purses + (number < spec.max_entries % purses) for number in range(purses)]
    return MapSpec("__slots" + spec.name, "array", 4, PURSES * PURSE + count * slot_size(spec), 1, BPF_F_MMAPABLE,
                   initial=b"".join([share.to_bytes(8, sys.byteorder).ljust(PURSE, b"\0") for share in shares]))


def slots_of(table: MapSpec, spec: MapSpec) -> int:
    """How many slots a map's table has: a power of two."""
    return (table.value_size - PURSES * PURSE) // slot_size(spec)


def slot_size(spec: MapSpec) -> int:
    """Bytes of a slot, by those of a value."""
    return SLOT if spec.value_size == 8 and isinstance(spec.value, Scalar) else WIDE_SLOT


def is_of_threads(spec: MapSpec) -> bool:
    """Whether a map with slots, which is not shared, is keyed by ``tid``."""
    return spec.key == OWNERS["tid"]


def is_of_cpus(spec: MapSpec) -> bool:
    """Whether a map with slots, which is not shared, is keyed by ``cpu``."""
    return spec.key == OWNERS["cpu"]


def _can_hold(info: ScriptMap) -> bool:
    return info.kind in ("", "hash") and isinstance(info.value, Scalar) and info.value.size == 8


def _is_wide(info: ScriptMap) -> bool:
    return info.kind in ("", "hash") and isinstance(info.value, Tuple) and info.value.size <= WIDE_MOST \
        and info.key in (OWNERS["tid"], OWNERS["running"])


def _used_in_interrupts(checked: CheckedScript) -> set[str]:
    """Maps that a clause uses which may interrupt another one of the same thread, or read the map meanwhile."""
    return {name for probe in checked.probes for name in probe.facts.used if not all(map(_runs_in_task, probe.attach))}


def _runs_in_task(attach: Attach) -> bool:
    return attach.kind in TASK_KINDS or attach.kind == "tracepoint" and (
        attach.target in ("syscalls", "raw_syscalls") or attach.target == "sched" and attach.event in TASK_EVENTS)


def _used_otherwise(probe: CheckedProbe, maps: Mapping[str, ScriptMap], shared: bool) -> set[str]:
    """Maps that a clause uses in a way that slots do not support."""
    if KINDS[probe.attach[0].kind].iterates:
        return probe.facts.used
    at_end, callers = probe.attach[0].kind == "end", set() if shared else _caller_variables(probe)
    return {name for node in walk_nodes(probe.trees) for name in _asks_for_more(node, maps, at_end, shared, callers)}


def _caller_variables(probe: CheckedProbe) -> set[int]:
    """Variables that hold ``caller()`` and nothing else, by the id of what they are in the checked script."""
    given, other = set[int](), set[int]()
    for node in walk_nodes(probe.trees):
        if isinstance(node, Assign) and isinstance(node.target, Variable):
            first = node.op == "=" and id(node.target.slot) not in given
            among = given if first and _owner_of(node.value) == "running" else other
            among.add(id(node.target.slot))
        elif isinstance(node, Unary) and isinstance(node.operand, Variable):
            other.add(id(node.operand.slot))
        elif isinstance(node, Call) and (row := row_of(node)) is not None:
            other |= {id(arg.slot) for arg, param in zip(node.args, row.parameters)
                      if isinstance(arg, Variable) and "var" in param.kinds}
    return given - other


def _owner_of(key: Expr) -> str:
    """Which of OWNERS a key is, or ""; ``running`` of others than the current goroutine and thread is none."""
    if isinstance(key, Call):
        given = [arg.name for arg in key.args if isinstance(arg, Name)]
        return key.name if key.name == "running" and given == ["goroutine", "tid"] else ""
    return key.name if isinstance(key, Name) and key.const is None else ""


def _asks_for_more(node: object, maps: Mapping[str, ScriptMap], at_end: bool, shared: bool, callers: set[int]
                   ) -> list[str]:
    if isinstance(node, MapRef):
        owned = node.key is None or is_owner(node.key, maps[node.name].key, callers)
        return [] if shared or owned else [node.name]
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
        return [] if shared or deletes or key is None or is_owner(key, type, callers) else [node.choice.map]
    if isinstance(node, Call) and isinstance(node.choice, WholeMap):
        row = row_of(node)
        use = row.on_map if row is not None else ""
        return [] if use == "print" or use in ("clear", "zero") and at_end else [node.choice.map]
    return []


def is_owner(key: Expr, type: Type | None, callers: Collection[int] = ()) -> bool:
    """Whether the key of a map, which has keys of a type, is the current thread's id, the current CPU's number, or
    ``caller()``, which a variable of ``callers`` has, too."""
    if isinstance(key, Variable):
        return type == OWNERS["running"] and id(key.slot) in callers
    return type is not None and OWNERS.get(_owner_of(key)) == type
