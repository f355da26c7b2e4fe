"""Which clauses are behind the gate of ``--budget``, and what becomes doubtful once it has been closed."""

from __future__ import annotations

from ..kinds import KINDS
from ..language.ast import Assign, Call, MapRef, Unary
from ..semantics.callees import deletes_key, is_clock
from ..semantics.nodes import Tree, walk_nodes
from ..semantics.script_options import Options
from ..semantics.typed import CheckedProbe, CheckedScript, Element
from ..spec import Gate
from ..types import Aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def has_gate(options: Options, probe: CheckedProbe) -> bool:
    """Whether a clause's action can be held back. An action that ends what another clause began cannot: held back, it
    would leave a beginning that the next end would match wrongly."""
    return options.gated and asks_for_group(probe)


def asks_for_group(probe: CheckedProbe) -> bool:
    """Whether -C applies to a clause: its events belong to a task, and it does not end what another clause began."""
    return not is_exempt(probe) and not _ends_others(probe)


def is_exempt(probe: CheckedProbe) -> bool:
    """Whether no budget applies to a clause."""
    return KINDS[probe.attach[0].kind].exempt


def _ends_others(probe: CheckedProbe) -> bool:
    """Whether the predicate reads an element that the action deletes and does not make."""
    read = {node.name for node in walk_nodes(probe.clause.predicate) if isinstance(node, MapRef)}
    return bool(read & deleted_maps(probe) - assigned_maps(probe))


def assigned_maps(probe: CheckedProbe) -> set[str]:
    """The maps that a clause writes to."""
    return set(_assigned_maps(probe.trees))


def _assigned_maps(trees: Tree) -> Iterator[str]:
    for node in walk_nodes(trees):
        target = node.target if isinstance(node, Assign) else \
            node.operand if isinstance(node, Unary) and node.op in ("++", "--") else None
        if isinstance(target, MapRef):
            yield target.name


def deleted_maps(probe: CheckedProbe) -> set[str]:
    """The maps that a clause deletes elements of."""
    return {node.choice.map for node in walk_nodes(probe.trees) if deletes_key(node) and isinstance(node, Call)
            and isinstance(node.choice, Element) and node.choice.key is not None}


def used_maps(probe: CheckedProbe) -> set[str]:
    """All maps that a clause uses."""
    return {node.name for node in walk_nodes(probe.trees) if isinstance(node, MapRef)}


def dated_maps(probe: CheckedProbe) -> set[str]:
    """The maps in which a clause stores the time."""
    return {node.target.name for node in walk_nodes(probe.trees) if isinstance(node, Assign) and isinstance(
        node.target, MapRef) and any(is_clock(n) for n in walk_nodes(node.value))}


def describe_gate(checked: CheckedScript, names: list[str]) -> Gate | None:
    """What the runtime needs to know about the gate; None without a budget, or if no clause can be held back."""
    budgeted = [probe for probe in checked.probes if not is_exempt(probe)]
    if not checked.options.gated or not budgeted:
        return None
    numbers = {name: number for number, name in enumerate(names)}
    touched: dict[str, list[int]] = {}
    for probe in budgeted:
        for name in sorted(assigned_maps(probe) | deleted_maps(probe)):
            known = touched.setdefault(name, [])
            known += [numbers[point.name] for point in probe.attach if numbers[point.name] not in known]
    pairs = sorted(name for name in touched if _is_pair(checked, name, budgeted))
    return Gate(touched, pairs, [name for name in pairs if not _is_guarded(checked, name, budgeted)])


def _is_pair(checked: CheckedScript, name: str, probes: list[CheckedProbe]) -> bool:
    """Whether one event makes an element that another one is to find: it is deleted again, or it is a time that another
    clause reads."""
    info = checked.maps[name]
    if info.key is None or isinstance(info.value, Aggregate):
        return False
    made = [probe for probe in probes if name in assigned_maps(probe)]
    return bool(made) and (any(name in deleted_maps(probe) for probe in probes)
                           or any(name in dated_maps(probe) for probe in made)
                           and any(name in used_maps(probe) for probe in probes if probe not in made))


def _is_guarded(checked: CheckedScript, name: str, probes: list[CheckedProbe]) -> bool:
    """Whether all that ends an element is let through, so that none outlives its end."""
    ends = [probe for probe in probes if name in used_maps(probe) - assigned_maps(probe)]
    return bool(ends) and not any(has_gate(checked.options, probe) for probe in ends) and not any(
        name in deleted_maps(probe) & assigned_maps(probe) for probe in probes)
