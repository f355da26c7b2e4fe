"""The passes over one program, in order, from the result of lowering to the input of :mod:`.emit`.

A fact is something that a pass makes true and later ones may not undo; :mod:`.legal` checks those that it knows. Values
are numbered twice before the layout, because the first run folds what decides branches, and once more after it, because
slots' base addresses repeat.
"""

from __future__ import annotations

from ..base.record import Record
from . import optimize
from .current import load_current_tasks
from .forward import forward_stores
from .ir import BpfFunction, Program
from .legal import PLACED, REACHED, check_program
from .lower.core import Lower
from .lower.program import define_scratch
from .place import place_slots
from .spill import spill_to_scratch
from .widen import widen_loops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

Show: TypeAlias = "Callable[[str, str], None]"
OPAQUE = "opaque"  # the verifier cannot count what loops count


class Pass(Record):
    """One step: its name for ``-d``, the facts that it builds on, and those that hold from then on."""

    name: str
    run: Callable[[Lower], object]
    needs: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()


def _for_each_function(run: Callable[[BpfFunction], object]) -> Callable[[Lower], object]:
    """A pass that runs ``run`` on every function of the program."""
    return lambda lo: [run(function) for function in lo.program.functions]


def _place_slots(lo: Lower) -> None:
    place_slots(lo.program)
    define_scratch(lo)


PASSES = (
    Pass("cfg", _for_each_function(optimize.simplify_cfg)),
    Pass("values", _for_each_function(optimize.number_values)),
    Pass("forward", _for_each_function(forward_stores)),
    Pass("dead", _for_each_function(optimize.remove_dead)),
    Pass("cfg2", _for_each_function(optimize.simplify_cfg)),
    Pass("values2", _for_each_function(optimize.number_values)),
    Pass("dead2", _for_each_function(optimize.remove_dead)),
    Pass("current", load_current_tasks),
    Pass("order", _for_each_function(optimize.order_blocks)),
    Pass("unused", lambda lo: optimize.drop_unused(lo.program), leaves=(REACHED,)),
    Pass("widen", lambda lo: widen_loops(lo.program, lambda: lo.unit.global_word("zero")), leaves=(OPAQUE,)),
    Pass("spill", lambda lo: spill_to_scratch(lo.program), needs=(REACHED, OPAQUE)),
    Pass("place", _place_slots, needs=(REACHED,), leaves=(PLACED,)),
    Pass("cfg3", _for_each_function(optimize.simplify_cfg)),
    Pass("values3", _for_each_function(optimize.number_values)),
    Pass("dead3", _for_each_function(optimize.remove_dead)),
    Pass("order2", _for_each_function(optimize.order_blocks)),
    Pass("unused2", lambda lo: optimize.drop_unused(lo.program)),  # a branch decided since may have held the only call
)


def run_passes(lo: Lower, show: Show | None, verify: bool) -> None:
    """Run all passes. ``show(name, text)`` gets the program after each; with ``verify`` it is checked after each."""
    facts: set[str] = set()
    _show_program(lo.program, "ir", show)
    for step in PASSES:
        missing = set(step.needs) - facts
        assert not missing, f"{step.name} needs {', '.join(sorted(missing))}"
        step.run(lo)
        facts |= set(step.leaves)
        if verify:
            check_program(lo.program, facts)
        _show_program(lo.program, step.name, show)


def _show_program(program: Program, name: str, show: Show | None) -> None:
    if show is not None:
        from .ir import format_program
        show(name, f"; {program.name}\n{format_program(program)}")
