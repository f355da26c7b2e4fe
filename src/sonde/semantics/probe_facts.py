"""What a checked program uses and does, from one walk over its tree: later stages ask the facts, not the tree."""

from __future__ import annotations

from ..language.ast import Assign, Call, For, MapRef, Reference, Unary, Variable
from ..types import Stack
from .callees import is_clock, row_of
from .nodes import walk_nodes
from .typed import CheckedProbe, Element, ProbeFacts, WholeMap


def gather_facts(probe: CheckedProbe) -> ProbeFacts:
    """The facts of a program whose tree is final."""
    facts = ProbeFacts()
    facts.tested = {node.name for node in walk_nodes(probe.clause.predicate) if isinstance(node, MapRef)}
    for node in walk_nodes(probe.trees):
        if isinstance(node, MapRef):
            facts.used.add(node.name)
        elif isinstance(node, Assign):
            _add_assignment(facts, node)
        elif isinstance(node, Unary):
            _add_operation(facts, node)
        elif isinstance(node, For):
            if isinstance(node.start, MapRef):
                facts.observed.add(node.start.name)
        elif isinstance(node, Reference):
            facts.names.add(node.name)
            facts.kernel_stacks |= isinstance(node.type, Stack) and not node.type.user
            if isinstance(node, Call):
                _add_call(facts, node)
    if facts.written & facts.cleared:
        from .filled_maps import left_filled
        facts.left = left_filled(probe.trees)
    else:
        facts.left = facts.written
    return facts


def _add_assignment(facts: ProbeFacts, node: Assign) -> None:
    if isinstance(node.target, MapRef):
        facts.written.add(node.target.name)
        if node.op not in ("+", "-"):
            facts.replaced.add(node.target.name)
        if any(is_clock(part) for part in walk_nodes(node.value)):
            facts.dated.add(node.target.name)


def _add_operation(facts: ProbeFacts, node: Unary) -> None:
    if isinstance(node.operand, Variable) and node.op == "&":
        facts.addressed.add(id(node.operand.slot))
    elif isinstance(node.operand, MapRef) and node.op in ("++", "--"):
        facts.written.add(node.operand.name)


def _add_call(facts: ProbeFacts, node: Call) -> None:
    row, choice = row_of(node), node.choice
    facts.counts_frames |= node.name == "len" and isinstance(node.args[0].type, Stack)
    if row is None:
        return
    facts.exits |= row.ends
    facts.sends |= row.sends == "data" and not isinstance(choice, WholeMap)  # else user space is to print it
    if isinstance(choice, WholeMap | Element) and row.on_map != "print":
        (facts.cleared if row.on_map in ("clear", "zero") else facts.observed).add(choice.map)
    if isinstance(choice, Element) and choice.key is not None and row.on_map == "delete":
        facts.deleted.add(choice.map)
