"""How programs find the running goroutine."""

from __future__ import annotations

from ..arch import ARCHES
from ..arch.go_versions import uses_stack
from ..spec import Attach, UserDetail
from .world import World


def goroutine_ways(world: World, attach: Attach) -> tuple[bool, bool]:
    """Whether a register, and whether the thread's own memory has the address of the running goroutine at a probe of a
    user function; neither if that is none of Go's."""
    version = attach.detail.go if isinstance(attach.detail, UserDetail) else ""
    if not version:
        return False, False
    return not uses_stack(version, world.arch) and not attach.event.endswith(".abi0"), has_thread_pointer(world)


def has_thread_pointer(world: World) -> bool:
    """Whether programs can read the running thread's pointer to its own memory."""
    thread, name = world.find_struct("thread_struct"), ARCHES[world.arch].thread_pointer
    return bool(name) and thread is not None and thread.field(name) is not None
