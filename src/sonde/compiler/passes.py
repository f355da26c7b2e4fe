"""The passes over one program, in order, from what lowering leaves to what :mod:`.emit` takes.

A fact is what a pass makes true and later ones may not undo; :mod:`.legal` checks those that it knows. Values are
numbered twice before the layout, for the first run folds what decides branches, and once more after it, for the bases
of slots repeat.
"""

from __future__ import annotations

from collections.abc import Callable

from ..record import Record
from . import optimize
from .ir import Function, Program
from .legal import PLACED, REACHED, check
from .lower.core import Lower
from .lower.program import define_scratch
from .place import place_slots
from .spill import spill_to_scratch
from .widen import widen_loops

Show = Callable[[str, str], None]
OPAQUE = "opaque"  # the verifier cannot count what loops count


class Pass(Record):
    """One step: its name for ``-d``, the facts that it builds on, and those that hold from then on."""

    name: str
    run: Callable[[Lower], object]
    needs: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()


def _each(run: Callable[[Function], object]) -> Callable[[Lower], object]:
    """The pass that does it to every function of the program."""
    return lambda lo: [run(function) for function in lo.program.functions]


def _place_slots(lo: Lower) -> None:
    place_slots(lo.program)
    define_scratch(lo)


PASSES = (
    Pass("cfg", _each(optimize.simplify_cfg)),
    Pass("values", _each(optimize.number_values)),
    Pass("dead", _each(optimize.remove_dead)),
    Pass("cfg2", _each(optimize.simplify_cfg)),
    Pass("values2", _each(optimize.number_values)),
    Pass("dead2", _each(optimize.remove_dead)),
    Pass("order", _each(optimize.order_blocks)),
    Pass("unused", lambda lo: optimize.drop_unused(lo.program), leaves=(REACHED,)),
    Pass("widen", lambda lo: widen_loops(lo.program, lambda: lo.unit.global_word("zero")), leaves=(OPAQUE,)),
    Pass("spill", lambda lo: spill_to_scratch(lo.program), needs=(REACHED, OPAQUE)),
    Pass("place", _place_slots, needs=(REACHED,), leaves=(PLACED,)),
    Pass("cfg3", _each(optimize.simplify_cfg)),
    Pass("values3", _each(optimize.number_values)),
    Pass("dead3", _each(optimize.remove_dead)),
    Pass("order2", _each(optimize.order_blocks)),
)


def run_passes(lo: Lower, show: Show | None, verify: bool) -> None:
    """Run them all. ``show(name, text)`` gets the program after each; ``verify``: and it is checked then."""
    facts: set[str] = set()
    _present(lo.program, "ir", show)
    for step in PASSES:
        missing = set(step.needs) - facts
        assert not missing, f"{step.name} needs {', '.join(sorted(missing))}"
        step.run(lo)
        facts |= set(step.leaves)
        if verify:
            check(lo.program, facts)
        _present(lo.program, step.name, show)


def _present(program: Program, name: str, show: Show | None) -> None:
    if show is not None:
        from .ir import dump
        show(name, f"; {program.name}\n{dump(program)}")
