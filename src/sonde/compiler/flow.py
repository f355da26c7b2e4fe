"""Where values go: backwards from their uses."""

from __future__ import annotations

from .ir import MEMORY, BpfFunction, Op, Reg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def find_sources(function: BpfFunction, sinks: set[int], is_sink: Callable[[Op], bool]) -> set[int]:
    """Ids of the registers whose values flow into the registers ``sinks``, into addresses, or into what ``is_sink``
    chooses."""
    sources = set(sinks)
    flows: dict[int, set[int]] = {}
    for block in function.blocks:
        for op in block.ops:
            if is_sink(op):
                sources |= {r.id for r in op.registers()}
            elif op.kind in MEMORY and type(op.args[0]) is Reg:
                sources.add(op.args[0].id)
            elif op.dst is not None:
                flows.setdefault(op.dst.id, set()).update(r.id for r in op.registers())
    pending = list(sources)
    while pending:
        for id in flows.get(pending.pop(), ()):
            if id not in sources:
                sources.add(id)
                pending.append(id)
    return sources
