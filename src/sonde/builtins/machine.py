"""The machine, and the run that the script is part of."""

from __future__ import annotations

from ..compiler import helpers as h
from ..compiler.ir import Operand
from ..compiler.lower import memory
from ..compiler.lower.calls import Builtin, helper_caller
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..compiler.lower.strings.texts import write_literal
from ..language.ast import Reference
from ..semantics.context import CheckContext
from ..types import (
    BOOL,
    UINT32,
    UINT64,
    Str,
    Tuple,
    Type,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _type_of_ncpus(context: CheckContext, node: Reference) -> Type:
    node.const = context.world.cpus
    return UINT64


def _type_of_cpid(context: CheckContext, node: Reference) -> Type:
    if not context.options.cpid and "has_cpid" not in node.span.source.text:
        context.advise("no-child", "No child command (`-c`); cpid is zero", node)
    return UINT32


def _type_of_config(context: CheckContext, node: Reference) -> Type:
    """A record; ``config.name`` is folded where the member is checked."""
    return Tuple(tuple([BOOL if isinstance(value, bool) else UINT64 if isinstance(value, int)
                        else Str(len(value.encode()) + 1) for value in context.config.values()]),
                 context.config._fields)


def _global_reader(name: str) -> Callable[[Lower, Reference], Operand]:
    return lambda lo, node: lo.b.load(lo.unit.global_word(name), 0, 8)


def _write_config(lo: Lower, node: Reference, mem: Mem, type: Type) -> None:
    """All configuration variables, as a record."""
    assert isinstance(type, Tuple)
    memory.clear_bytes(lo, mem, type.size)
    for value, part, offset in zip(lo.unit.config.values(), type.of, type.offsets):
        if isinstance(part, Str):
            write_literal(lo, value.encode(), mem.at(offset), part.capacity, False)
        else:
            lo.store_value(mem.at(offset), part, int(value))



ROWS = (
    Builtin("cpu", UINT64, "Number of the CPU on which the program runs.",
            scalar=lambda lo, node: lo.b.cpu_number()),
    Builtin("ncpus", _type_of_ncpus, "Number of CPUs."),
    Builtin("numaid", UINT64, "Number of the NUMA node on which the program runs.",
            scalar=helper_caller(h.NUMA_NODE, "numa_node", bits=32)),
    Builtin("rand", UINT64, "A random number.", pure=False,
            scalar=helper_caller(h.RANDOM, "random", pure=False, bits=32)),
    Builtin("config", _type_of_config, "The configuration variables, as a record.", value=_write_config),
    Builtin("cpid", _type_of_cpid,
            "Process id of the child started with -c, or with --follow of the process of -p; else 0.",
            scalar=_global_reader("cpid")),
    Builtin("has_cpid", BOOL, "Whether there is a cpid.",
            scalar=lambda lo, node: lo.truth(lo.b.load(lo.unit.global_word("cpid"), 0, 8))),
)
