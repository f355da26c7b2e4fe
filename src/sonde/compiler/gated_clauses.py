"""Which clauses are behind the gate of ``--budget``, and what becomes doubtful once it has been closed."""

from __future__ import annotations

from ..kinds import KINDS
from ..semantics.script_options import Options
from ..semantics.typed import CheckedProbe, CheckedScript
from ..spec import Gate
from ..types import Aggregate


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
    facts = probe.facts
    return bool(facts.tested & facts.deleted - facts.written)


def describe_gate(checked: CheckedScript, names: list[str]) -> Gate | None:
    """What the runtime needs to know about the gate; None without a budget, or if no clause can be held back."""
    budgeted = [probe for probe in checked.probes if not is_exempt(probe)]
    if not checked.options.gated or not budgeted:
        return None
    numbers = {name: number for number, name in enumerate(names)}
    touched: dict[str, list[int]] = {}
    for probe in budgeted:
        for name in sorted(probe.facts.written | probe.facts.deleted):
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
    made = [probe for probe in probes if name in probe.facts.written]
    return bool(made) and (any(name in probe.facts.deleted for probe in probes)
                           or any(name in probe.facts.dated for probe in made)
                           and any(name in probe.facts.used for probe in probes if probe not in made))


def _is_guarded(checked: CheckedScript, name: str, probes: list[CheckedProbe]) -> bool:
    """Whether all that ends an element is let through, so that none outlives its end."""
    ends = [probe for probe in probes if name in probe.facts.used - probe.facts.written]
    return bool(ends) and not any(has_gate(checked.options, probe) for probe in ends) and not any(
        name in probe.facts.deleted & probe.facts.written for probe in probes)
