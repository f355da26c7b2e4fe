"""What ``args`` is at a kind's attach points, and which of these may share a program that reads arguments.

The functions here are columns of the table in :mod:`.providers`. Two *layouts* are equal where the arguments that a
clause mentions have the same types and places.
"""

from __future__ import annotations

from ..spec import Attach, KernelDetail, StaticDetail, UserDetail, detail_of, user_bits
from ..types import Struct
from .nodes import Use
from .user_probes import resolve_user_arguments, resolve_user_values, user_places
from .world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable


def no_args(item: Attach, world: World) -> Struct | None:
    """The kind has no ``args``."""
    return None


def tracepoint_args(item: Attach, world: World) -> Struct | None:
    """The event's record, as its format file says."""
    format = world.tracepoint_format(item.target, item.event)
    return format.args if format is not None else None


def raw_tracepoint_args(item: Attach, world: World) -> Struct | None:
    """The arguments that the kernel's type information says."""
    return world.raw_tracepoint_args(item.event)


def kernel_function_args(item: Attach, world: World) -> Struct | None:
    """The parameters that the kernel's type information says."""
    typed_as = item.detail.typed_as if isinstance(item.detail, KernelDetail) else ""
    known = world.kernel_function(typed_as or item.event, item.target)
    return known.args if known is not None else None


def user_function_args(item: Attach, world: World) -> Struct | None:
    """The parameters that the program's debug information says."""
    resolve_user_arguments(item, world)
    return item.args


def user_function_results(item: Attach, world: World) -> Struct | None:
    """The results that a Go program's debug information says."""
    resolve_user_values(item, world)
    return item.args


def layout_by_event(item: Attach, use: Use) -> Hashable:
    """Each event has arguments of its own."""
    return (item.target, item.event) if use.uses_args else None


def layout_by_fields(item: Attach, use: Use) -> Hashable:
    """Functions may share a program when the fields in use lie alike."""
    if not use.uses_args or use.fields is None or item.args is None:
        return layout_by_event(item, use)
    fields = [(name, item.args.field(name)) for name in sorted(use.fields)]
    return tuple([(n, f and (f.offset, f.type, f.bit_offset, f.bit_size)) for n, f in fields])


def tracepoint_layout(item: Attach, use: Use) -> Hashable:
    """So may system calls, entries and returns apart."""
    if not use.uses_args or item.target != "syscalls":
        return layout_by_event(item, use)
    return item.event.startswith("sys_exit_"), layout_by_fields(item, use)


def layout_by_bits(item: Attach, use: Use) -> Hashable:
    """Programs of 32 bits have their arguments elsewhere."""
    return user_bits(item) if user_bits(item) != 64 else None


def user_function_layout(item: Attach, use: Use) -> Hashable:
    """So may user functions, where the debug information has the fields in use in one place."""
    if not use.uses_args:
        return user_return_layout(item, use)
    if use.fields is None or item.args is None:
        return (item.target, item.offset)
    return _values_layout(item, use.fields)


def _values_layout(item: Attach, names: set[str]) -> Hashable:
    """Of which types, and where the values of these names are. Go's errors are read by how far the types of the program
    are from the function."""
    assert item.args is not None
    fields = [(name, item.args.field(name)) for name in sorted(names)]
    build: Hashable = go_build(item)
    if build:
        from .go_types import reaches_error
        if any(field is not None and reaches_error(field.type) for _, field in fields):
            build = item.target, item.offset
    return build, tuple([(n, f and f.type, repr(user_places(item).get(n))) for n, f in fields])


def user_return_layout(item: Attach, use: Use) -> Hashable:
    """And so may their returns, where nothing depends on who compiled them."""
    if item.args is None or not use.names & {"results", "retval"}:
        return layout_by_bits(item, use) or (go_build(item) if reads_registers(use) else None)
    if use.fields is None:
        return item.target, item.offset
    first = item.args.field_names()[:1] if "retval" in use.names else []
    return _values_layout(item, {*first, *use.fields})


def go_build(item: Attach) -> str:
    """Which Go built the file of a user function, and whether it is one in assembly; "" if none did."""
    go = item.detail.go if isinstance(item.detail, UserDetail) else ""
    return go and go + ".abi0" * item.event.endswith(".abi0")


def reads_registers(use: Use) -> bool:
    """Whether what a clause reads depends on who compiled the function."""
    return any(name in ("goid", "goroutine") or name.startswith("arg") for name in use.names)


def static_probe_layout(item: Attach, use: Use) -> Hashable:
    """Static probes say themselves where their arguments are."""
    if not any(name.startswith("arg") for name in use.names):
        return layout_by_bits(item, use)
    return layout_by_bits(item, use), " ".join([argument.text for argument in detail_of(item, StaticDetail).arguments])
