"""Stack traces: taken into scratch memory, stored once under their hash."""

from __future__ import annotations

from ....base.words import to_signed
from ....layouts.shared_maps import DISCOVERED
from ....semantics.world import World
from ....types import STACK_COPY, STACK_PAGE, Stack, StackCopy
from ... import helpers as h
from ...compilation import STACK_FRAMES
from ...ir import BasicBlock, MapFd, Operand, Reg
from ..core import Lower
from ..probes.contexts import UserFunctionContext, arch_of, task_registers
from ..state import Mem
from ..tasks import process_id, traced_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio: mixes well by multiplication

# A kernel stack may begin with frames of the tracing itself, by what is beneath the program. User space leaves them
# out; where only so many frames are wanted, the program does, or what lies beyond those would tell stacks apart.
_BENEATH = {"raw tracepoint": ("bpf_trace_run{count}", "__bpf_trace_{event}", "__traceiter_{event}"),
            "classic tracepoint": ("__traceiter_{event}",)}
_LENGTHS = {"bpf_trace_run": 1024}  # bytes of such functions, or more; the others have some 100
_LENGTH = 128     # of those, and from a function's address to where its call of a trampoline returns
TRACING_FRAMES, _TRACING_MASK = 5, 7  # at most
_LAST_OF_FIRST_PAGE = 4095
_MOST_EVENTS = 8  # of a program, whose functions are looked for
_CALLBACK = 8     # offset in struct bpf_raw_event_map (include/linux/trace_events.h)


def write_stack(lo: Lower, type: Stack, into: Mem) -> None:
    """types.Stack into memory: id of the frames, tgid (user stacks), number of frames. Where the script counts frames,
    the tracing's own are not among them, and the kernel's last seven are given up for that."""
    if type.limit == 0:
        return lo.b.zero(into.base, into.off, type.size)
    lo.reads_kernel_stacks |= not type.user
    with lo.scope():
        flags = h.USER_STACK if type.user else 0
        others = _TRACING_MASK if lo.context.beneath and not type.user else 0
        limit = min(type.limit, STACK_FRAMES - others) if lo.unit.counts_frames else type.limit
        before = type.limit > 1 and lo.context.may_lack_caller(lo, type.user)
        frames = lo.temp(8 * (before + STACK_FRAMES + others), "frames").at(8 * before)
        size = lo.b.call(h.GET_STACK, [lo.context_pointer(), lo.operand_address(frames),
                                       8 * min(limit + others, STACK_FRAMES), flags], "get_stack")
        good, done = lo.b.block("stack"), lo.b.block("stacked")
        lo.b.store(into.base, into.off, 0)
        lo.b.store(into.base, into.off + 8, 0)
        lo.on_failure(size, "stack_lost", "get_stack")
        lo.b.branch("jsgt", size, 0, good, done)
        lo.b.start(good)
        count = taken = lo.b.alu("rsh", size, 3)
        if others and limit + others <= STACK_FRAMES:
            frames, count = _leave_out_tracing(lo, frames, count, limit)
        if type.user and lo.context.returned:
            lo.b.store(frames.base, frames.off, lo.context.return_address(lo))
        if before:
            frames, count = _insert_caller(lo, frames, count, type.limit)
        if type.user and lo.unit.counts_frames:
            count = _leave_out_null(lo, frames, count)
        if count is not taken:
            size = lo.b.alu("lsh", count, 3)
        identity = _hash_frames(lo, frames, count)
        store_once(lo, frames, size, identity)
        lo.b.store(into.base, into.off, identity)
        if type.user:
            lo.b.store(into.base, into.off + 8, process_id(lo), 4)
        lo.b.store(into.base, into.off + 12, count, 4)
        lo.b.start(done)


def _leave_out_tracing(lo: Lower, frames: Mem, count: Reg, limit: int) -> tuple[Mem, Reg]:
    """Where the event's own frames begin, behind those of the tracing itself, and how many there are, up to ``limit``.
    Where it is not known how many those of the tracing are, all stay."""
    b = lo.b
    first, left = b.function.reg("first"), b.function.reg("left")
    b.set(first, b.address(frames.base, frames.off))
    b.set(left, count)
    others = b.obscure_number(_count_tracing(lo, frames, count), lo.unit.zero(8), _TRACING_MASK)
    some, more, done = (b.block(name) for name in ("some", "more", "left"))
    if lo.context.beneath != "classic tracepoint":  # there 0 is a number
        known = b.block("known")
        b.branch("jne", others, 0, known, done)
        b.start(known)
    b.branch("jgt", count, others, some, done)
    b.start(some)
    b.set(first, b.alu("add", first, b.alu("lsh", others, 3)))
    b.set(left, b.alu("sub", count, others))
    b.branch("jgt", left, limit, more, done)
    b.start(more)
    b.set(left, limit)
    b.jump(done)
    b.start(done)
    return Mem(first), left


def _leave_out_null(lo: Lower, frames: Mem, count: Reg) -> Reg:
    """How many frames there are without a last one at address 0, which means nothing: the kernel followed an invalid
    frame pointer."""
    b = lo.b
    left, last = b.function.reg("left"), b.alu("sub", count, 1)
    b.set(left, count)
    inside, null, done = (b.block(name) for name in ("inside", "null", "left"))
    b.branch("jlt", last, STACK_FRAMES, inside, done)
    b.start(inside)
    frame = b.load(b.alu("add", b.address(frames.base, frames.off), b.alu("lsh", last, 3)), 0)
    b.branch("jeq", frame, 0, null, done)
    b.start(null)
    b.set(left, last)
    b.start(done)
    return left


def _insert_caller(lo: Lower, frames: Mem, count: Reg, limit: int) -> tuple[Mem, Reg]:
    """Make the caller the second frame where it is missing, the first one moving to the element before; where they
    begin and how many there are then. Where calls push the return address, the kernel may have found it: from
    Linux 6.11 on it does in functions that begin as those with frame pointers do (is_uprobe_at_func_entry() in
    arch/x86/events/core.c)."""
    b = lo.b
    caller = lo.context.return_address(lo)
    first, left = b.function.reg("first"), b.function.reg("left")
    b.set(first, b.address(frames.base, frames.off))
    b.set(left, count)
    missing, insert, more, done = (b.block(name) for name in ("missing", "insert", "more", "called"))
    b.branch("jgt", caller, _LAST_OF_FIRST_PAGE, missing, done)  # at a program's start it is how many arguments it has
    b.start(missing)
    if arch_of(lo).link_register is None:
        second = b.block("second")
        b.branch("jgt", count, 1, second, insert)
        b.start(second)
        b.branch("jeq", b.load(frames.base, frames.off + 8, 8), caller, done, insert)
    else:
        b.jump(insert)
    b.start(insert)
    before = frames.at(-8)
    b.store(before.base, before.off, b.load(frames.base, frames.off, 8))
    b.store(before.base, before.off + 8, caller)
    b.set(first, b.address(before.base, before.off))
    b.branch("jlt", count, limit, more, done)
    b.start(more)
    b.set(left, b.alu("add", count, 1))
    b.jump(done)
    b.start(done)
    return Mem(first), left


def _count_tracing(lo: Lower, frames: Mem, count: Operand) -> Reg:
    """How many of the first frames belong to the tracing; 0 also if that is not known."""
    b = lo.b
    others, done = b.function.reg("others"), b.block("counted")
    trampoline = lo.context.beneath == "trampoline"
    # The program and its trampoline; in callbacks and functions of the program there are more.
    b.set(others, 2 if trampoline and b.function is lo.program.functions[0] else 0)
    functions = _functions_beneath(lo)
    for number in range(TRACING_FRAMES):
        there = b.block("beneath")
        b.branch("jgt", count, number, there, done)
        b.start(there)
        frame = b.load(frames.base, frames.off + 8 * number, 8)
        for start, length in functions:
            inside, outside = b.block("inside"), b.block("outside")
            b.branch("jlt", b.alu("sub", frame, start), length, inside, outside)
            b.start(inside)
            b.set(others, number if trampoline else number + 1)
            b.jump(done if trampoline else outside)
            b.start(outside)
    b.jump(done)
    b.start(done)
    return others


def _functions_beneath(lo: Lower) -> list[tuple[Operand, int]]:
    """(address, length) of the functions of the tracing that may be in a stack, or of the traced function."""
    beneath = lo.context.beneath
    if beneath == "trampoline":
        traced = traced_address(lo)
        return [(to_signed(traced) if isinstance(traced, int) else traced, _LENGTH)]
    names: dict[str, None] = {}
    callbacks: list[tuple[Operand, int]] = []
    for event in lo.context.tracepoints(lo)[:_MOST_EVENTS]:
        args = lo.world.raw_tracepoint_args(event)
        for count in range(1, 13) if args is None else [len(args.fields)]:
            names.update(dict.fromkeys([name.format(count=count, event=event) for name in _BENEATH.get(beneath, ())]))
        if beneath == "raw tracepoint" and lo.world.kernel_symbol(f"__bpf_trace_{event}") is None:
            if (callback := _callback_of_class(lo, event)) is not None:
                callbacks.append((callback, _LENGTH))
            else:
                names.update(dict.fromkeys(_callbacks_alike(lo.world, event)))
    return callbacks + [(to_signed(address), _LENGTHS.get(name.rstrip("0123456789"), _LENGTH))
                        for name in names if (address := lo.world.kernel_symbol(name))]


def _callback_of_class(lo: Lower, event: str) -> Reg | None:
    """Address of the function that calls bpf_trace_run for an event that shares it with others: it has the name of
    their class, which is written nowhere; the kernel's list of raw tracepoints has its address, which the first stack
    reads. None if the kernel does not name its data (CONFIG_KALLSYMS_ALL)."""
    entry = lo.world.kernel_symbol(f"__bpf_trace_tp_map_{event}")
    if entry is None:
        return None
    b = lo.b
    address, unread, read = b.function.reg("callback"), b.block("unread", cold=True), b.block("callback")
    word = lo.unit.global_word(f"{DISCOVERED}callback of {event}")
    b.set(address, b.load(word, 0))
    b.branch("jne", address, 0, read, unread)
    b.start(unread)
    b.call(h.READ_KERNEL, [b.address(word), 8, to_signed(entry + _CALLBACK)], "probe_read_kernel")
    b.set(address, b.load(word, 0))
    b.jump(read)
    b.start(read)
    return address


def _callbacks_alike(world: World, event: str) -> list[str]:
    """The names of all such functions with the event's arguments: they are never the event's own frames."""
    args = world.raw_tracepoint_args(event)
    if args is None or world.kernel_symbol("bpf_trace_run1") is None:
        return []
    taken = [field.type for field in args.fields]
    callbacks = [(name, world.kernel_function(name)) for _, name in world.function_names()
                 if name.startswith("__bpf_trace_")]
    return [name for name, known in callbacks if known is not None and [f.type for f in known.args.fields][1:] == taken]


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
    if lo.context.returned:
        b.store(at.base, at.off, lo.context.register(lo, row.stack_pointer))
        pc = registers.at(row.instruction_pointer)
        b.store(pc.base, pc.off, lo.context.return_address(lo))
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
    """A 64-bit hash of the frames. It reads nothing after them, so that nothing needs to be cleared first."""
    b = lo.b
    value, index = b.function.reg("hash"), b.function.reg("index")
    b.set(value, 0)
    base = b.address(frames.base, frames.off)
    b.set(index, 0)
    loop, inside, body, done = (b.block(name) for name in ("loop", "inside", "frame", "hashed"))
    b.start(loop)
    b.branch("jlt", index, STACK_FRAMES, inside, done)
    b.start(inside)
    b.branch("jgt", count, index, body, done)  # not index < count: before Linux 6.3 that tells the verifier too little
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
