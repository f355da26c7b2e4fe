"""Stack traces: taken into scratch memory, stored once under their hash."""

from __future__ import annotations

from ...types import STACK_COPY, STACK_PAGE, Stack, StackCopy
from .. import helpers as h
from ..ir import BasicBlock, MapFd, Operand
from ..unit import STACK_FRAMES
from .contexts import UserFunctionContext, arch_of, task_registers
from .core import Lower
from .state import Mem
from .tasks import process_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio: mixes well by multiplication

TRACING_FRAMES = 5  # at most so many frames of BPF itself may come first; user space leaves them out


def write_stack(lo: Lower, type: Stack, into: Mem) -> None:
    """types.Stack into memory: id of the frames, tgid (user stacks), number of frames."""
    if type.limit == 0:
        return lo.b.zero(into.base, into.off, type.size)
    with lo.scope():
        frames = lo.temp(8 * STACK_FRAMES, "frames")
        flags = h.USER_STACK if type.user else 0
        limit = type.limit if type.user else type.limit + TRACING_FRAMES
        size = lo.b.call(h.GET_STACK, [lo.context_pointer(), lo.operand_address(frames), 8 * min(limit, STACK_FRAMES),
                                       flags], "get_stack")
        good, done = lo.b.block("stack"), lo.b.block("stacked")
        lo.b.store(into.base, into.off, 0)
        lo.b.store(into.base, into.off + 8, 0)
        lo.on_failure(size, "stack_lost", "get_stack")
        lo.b.branch("jsgt", size, 0, good, done)
        lo.b.start(good)
        count = lo.b.alu("rsh", size, 3)
        identity = _hash_frames(lo, frames, count)
        store_once(lo, frames, size, identity)
        lo.b.store(into.base, into.off, identity)
        if type.user:
            lo.b.store(into.base, into.off + 8, process_id(lo), 4)
        lo.b.store(into.base, into.off + 12, count, 4)
        lo.b.start(done)


def write_copy(lo: Lower, type: StackCopy, into: Mem) -> None:
    """types.StackCopy into memory: the task's registers and as many pages of its stack as there are."""
    b = lo.b
    row = arch_of(lo)
    b.store(into.base, into.off, process_id(lo), 4)
    b.store(into.base, into.off + 4, 0, 4)
    registers = into.at(8)
    if isinstance(lo.context, UserFunctionContext) and not lo.context.filters_pid:
        source = lo.context_pointer()
    else:
        source = task_registers(lo)
    b.call(h.READ_KERNEL, [lo.operand_address(registers), type.registers, source], "probe_read_kernel")
    at = registers.at(row.stack_pointer)
    page = b.alu("and", b.load(at.base, at.off, 8), -STACK_PAGE)
    stack = registers.at(type.registers)
    done = b.block("copied")
    for offset in range(0, STACK_COPY, STACK_PAGE):
        part, more = stack.at(offset), b.block("page")
        result = b.call(h.READ_USER, [lo.operand_address(part), STACK_PAGE, b.alu("add", page, offset)],
                        "probe_read_user")
        b.branch("jsge", result, 0, more, done)  # the stack ends here; a failed read leaves zeros
        b.start(more)
        b.store(into.base, into.off + 4, offset + STACK_PAGE, 4)
    b.jump(done)
    b.start(done)


def _hash_frames(lo: Lower, frames: Mem, count: Operand) -> Operand:
    """64 bits over the frames that are there; also clears nothing: what lies after them is not read."""
    b = lo.b
    value, index = b.function.reg("hash"), b.function.reg("index")
    b.set(value, 0)
    b.set(index, 0)
    base = b.address(frames.base, frames.off)
    loop, body, inside, done = (b.block(n) for n in ("hash", "frame", "inside", "hashed"))
    b.start(loop)
    b.branch("jlt", index, STACK_FRAMES, inside, done)
    b.start(inside)
    b.branch("jlt", index, count, body, done)
    b.start(body)
    frame = b.load(b.alu("add", base, b.alu("lsh", index, 3)), 0)
    mixed = b.alu("mul", b.alu("xor", value, frame), FACTOR)
    b.set(value, b.alu("xor", mixed, b.alu("rsh", mixed, 29)))
    b.set(index, b.alu("add", index, 1))
    b.jump(loop)
    b.start(done)
    return b.alu("or", value, 1)  # never 0: that is "no stack"


def store_once(lo: Lower, frames: Mem, size: Operand, identity: Operand,
               note: Callable[[BasicBlock], None] | None = None) -> None:
    """Insert the frames unless a stack with this hash is stored already. ``note`` comes before a new one is stored; it
    branches to the block that it is given if that shall not happen."""
    b = lo.b
    name = lo.unit.stacks()
    with lo.scope():
        key = lo.temp(8, "stackid")
        b.store(key.base, key.off, identity)
        known = b.call(h.MAP_LOOKUP, [MapFd(name), lo.operand_address(key)], "map_lookup_elem")
        new, on = b.block("new", cold=True), b.block("known")
        b.branch("jeq", known, 0, new, on)
        b.start(new)
        if note is not None:
            note(on)
        _clear_rest(lo, frames, size)
        full = b.block("full", cold=True)
        b.branch("jslt", _insert_frames(lo, name, key, frames), 0, full, on, h.MAP_RESULT)
        b.start(full)
        result = _insert_frames(lo, lo.unit.stack_reserve(), key, frames)
        lo.on_failure(result, "stack_lost", "map_update_elem", bits=h.MAP_RESULT)
        b.jump(on)
        b.start(on)


def store_walked(lo: Lower, read: Callable[[str], Operand], frames: Mem, into: Mem,
                 note: Callable[[BasicBlock], None] | None = None) -> None:
    """types.Stack into memory of a walk that counted and hashed its frames: ``read`` loads what it knows by name."""
    b = lo.b
    none, some, bounded = b.block("none"), b.block("some"), b.block("bounded")
    count = read("count")
    b.branch("jne", count, 0, some, none)
    b.start(some)
    b.branch("jle", count, STACK_FRAMES, bounded, none)
    b.start(bounded)
    identity = b.alu("or", read("hash"), 1)
    b.store(into.base, into.off, identity)
    b.store(into.base, into.off + 8, process_id(lo), 4)
    b.store(into.base, into.off + 12, count, 4)
    store_once(lo, frames, b.alu("lsh", count, 3), identity, note)
    b.start(none)


def _insert_frames(lo: Lower, map: str, key: Mem, frames: Mem) -> Operand:
    return lo.b.call(h.MAP_UPDATE, [MapFd(map), lo.operand_address(key), lo.operand_address(frames), h.UPDATE_ANY],
                     "map_update_elem")


def _clear_rest(lo: Lower, frames: Mem, size: Operand) -> None:
    """Zero what lies after the frames: it is left over from another stack."""
    b = lo.b
    index = b.function.reg("clear")
    b.set(index, b.alu("rsh", size, 3))
    base = b.address(frames.base, frames.off)
    loop, body, done = b.block("clear"), b.block("clearing"), b.block("cleared")
    b.start(loop)
    b.branch("jlt", index, STACK_FRAMES, body, done)
    b.start(body)
    b.store(b.alu("add", base, b.alu("lsh", index, 3)), 0, 0)
    b.set(index, b.alu("add", index, 1))
    b.jump(loop)
    b.start(done)
