"""User stacks by unwind tables: see :mod:`sonde.layouts.unwind_format`.

A callback of bpf_loop() finds one frame's caller at each call. Its state is in working memory: the registers that
matter, the mappings found last, and what has been read.
"""

from __future__ import annotations

from ....layouts import unwind_format as table
from ....types import UINT64, Stack
from ...compilation import STACK_FRAMES
from ...ir import BasicBlock, BpfFunction, MapAddr, Operand, Reg
from .. import memory
from ..core import Lower
from ..probes.contexts import UserFunctionContext, arch_of, task_registers
from ..state import Mem
from ..strings import words
from ..tasks import current_task, task_memory
from . import traces
from .unwind_files import find_file
from .unwind_links import apply_linked_rule, leave_vdso, set_code_address
from .unwind_work import READ, SIZE, Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SAVED = 40         # bytes before the stack pointer where a signal's frame has the frame pointer: struct sigcontext


def write_stack(lo: Lower, type: Stack, into: Mem) -> None:
    """types.Stack into memory: id of the frames, tgid, number of frames."""
    b = lo.b
    b.store(into.base, into.off, 0)
    b.store(into.base, into.off + 8, 0)
    done, user, native, walked = (b.block(n) for n in ("stacked", "user", "native", "walked"))
    with lo.scope():
        frames = lo.temp(8 * STACK_FRAMES, "frames")
        mm = memory.read_scalar(lo, task_memory(lo, current_task(lo), "mm"), UINT64)
        b.branch("jne", mm, 0, user, done)
        b.start(user)
        work = Work(lo, b.address(b.function.slot(SIZE, "unwinding", scratch=True)))
        work.clear_words()
        work.put("mm", mm)
        work.put("limit", type.limit)
        b.branch("jne", _read_registers(work), arch_of(lo).compat_state[2], native, walked)
        b.start(walked)
        work.fail("unwind_compat")
        counted = b.block("counted")
        b.jump(counted)
        b.start(native)
        words.run_loop(lo, type.limit + 1, [work.base, b.address(frames.base, frames.off)], "unwind frame",
                       lambda function: _frame_function(lo, function))
        b.start(counted)
        _count_failure(work, type)
        traces.store_walked(lo, work.get, frames, into)
        b.jump(done)
    b.start(done)


def _read_registers(work: Work) -> Operand:
    """The task's registers, as it left user space or is there; what tells whether it is a 32-bit program's."""
    lo, b, row = work.lo, work.b, arch_of(work.lo)
    own = isinstance(lo.context, UserFunctionContext) and not lo.context.filters_pid  # the context has them
    source = lo.context_pointer() if own else task_registers(lo)
    for name, offset in (("pc", row.instruction_pointer), ("sp", row.stack_pointer), ("bp", row.frame_pointer)):
        work.put(name, lo.context.register(lo, offset) if lo.context.returned else b.load(source, offset))
    if row.link_register is not None:
        work.put("link", b.load(source, row.link_register))
    work.put("exact", 1)
    state, mask, _ = row.compat_state
    return b.alu("and", b.load(source, state), mask)


def _count_failure(work: Work, type: Stack) -> None:
    """Why the stack ended early, if it did."""
    lo, b = work.lo, work.b
    failed, on = b.block("failed", cold=True), b.block("whole")
    reason = work.get("failed")
    b.branch("jne", reason, 0, failed, on)
    b.start(failed)
    for number, kind in enumerate(table.REASONS, 1):
        if kind == "unwind_deep" and type.limit < STACK_FRAMES:
            continue  # that many were asked for
        this, other = b.block("this"), b.block("other")
        b.branch("jeq", reason, number, this, other)
        b.start(this)
        lo.count_error(kind)
        b.jump(on)
        b.start(other)
    b.start(on)


# --- one frame ------------------------------------------------------------------------------------------------


def _frame_function(lo: Lower, function: BpfFunction) -> None:
    """callback(index, state): note a frame and find its caller; 1 ends the walk."""
    b, state = lo.b, function.params[1]
    work = Work(lo, b.load(state, 0))
    here, end, deep, again = (b.block(n) for n in ("here", "end", "deep", "again"))
    pc = work.get("pc")
    b.branch("jne", pc, 0, here, end)
    b.start(here)
    _note_frame(work, b.load(state, 8), pc, deep)
    address = b.alu("add", b.alu("sub", pc, 1), work.get("exact"))  # after a call; the call belongs to the function
    file = find_file(work, address, end)
    tabled, pointers = b.block("tabled"), b.block("pointers")
    b.branch("jne", file.rows, 0, tabled, pointers)
    b.start(pointers)
    linked = arch_of(lo).link_register is not None
    if linked:
        leave_vdso(work, pc, again)
    _step_by_pointers(work, end, again)
    b.start(tabled)
    rule = _find_rule(work, b.alu("sub", address, file.bias), file.first, file.rows)
    if linked:
        apply_linked_rule(work, rule, pc, end, again)
    else:
        _apply_rule(work, rule, address, end, again)
    b.start(deep)
    work.fail("unwind_deep")
    b.start(end)
    b.exit(1)
    b.start(again)
    b.exit(0)


def _note_frame(work: Work, frames: Reg, pc: Reg, deep: BasicBlock) -> None:
    b = work.b
    wanted, inside, count = b.block("wanted"), b.block("inside"), work.get("count")
    b.branch("jlt", count, work.get("limit"), wanted, deep)
    b.start(wanted)
    b.branch("jlt", count, STACK_FRAMES, inside, deep)
    b.start(inside)
    b.store(b.alu("add", frames, b.alu("lsh", count, 3)), 0, pc)
    mixed = b.alu("mul", b.alu("xor", work.get("hash"), pc), traces.FACTOR)
    work.put("hash", b.alu("xor", mixed, b.alu("rsh", mixed, 29)))
    work.put("count", b.alu("add", count, 1))


def _find_rule(work: Work, offset: Reg, first: Reg, rows: Reg) -> Reg:
    """The rule for an offset in a file, by binary search in its rows."""
    lo, b = work.lo, work.b
    base = b.address(MapAddr(lo.unit.unwind_rows()))
    mask = lo.unit.options.unwind_rows - 1
    low, left, step = b.function.reg("low"), b.function.reg("left"), b.function.reg("step")
    b.set(low, first)
    b.set(left, rows)
    b.set(step, 0)

    def row(index: Operand) -> Reg:
        return b.alu("add", base, b.alu("lsh", b.alu("and", index, mask), 3))

    head, body, more, nearest = (b.block(n) for n in ("search", "halve", "more", "row"))
    b.start(head)
    b.branch("jlt", step, table.MOST_STEPS, more, nearest)
    b.start(more)
    b.branch("jgt", left, 1, body, nearest)
    b.start(body)
    half = b.alu("rsh", left, 1)
    beyond = b.alu("sub", b.alu("sub", b.load(row(b.alu("add", low, half)), 0, 4), offset), 1)
    b.set(low, b.alu("add", low, b.alu("and", b.alu("arsh", beyond, 63), half)))  # negative: it is not beyond
    b.set(left, b.alu("sub", left, half))
    b.set(step, b.alu("add", step, 1))
    b.jump(head)
    b.start(nearest)
    at = row(low)
    rule, there, on = b.function.reg("rule"), b.block("there"), b.block("rule")
    b.set(rule, table.NO_TABLE)
    b.branch("jle", b.load(at, 0, 4), offset, there, on)
    b.start(there)
    b.set(rule, b.load(at, 4, 4))
    b.start(on)
    return rule


def _apply_rule(work: Work, rule: Reg, address: Reg, end: BasicBlock, again: BasicBlock) -> None:
    """Set the registers to the caller's."""
    b = work.b
    kind = b.alu("and", rule, table.KIND_BITS)
    offset = b.alu("lsh", b.alu("arsh", b.alu("lsh", rule, 32), 48), 3)
    frame = b.function.reg("frame")
    framed, unread = b.block("framed"), b.block("unread", cold=True)

    def when(wanted: int) -> BasicBlock:
        """Go on in a block for rules of this kind; the one for others."""
        this, other = b.block("kind"), b.block("other")
        b.branch("jeq", kind, wanted, this, other)
        b.start(this)
        return other

    def based_on(name: str) -> None:
        b.set(frame, b.alu("add", work.get(name), offset))
        b.jump(framed)

    def read_at(name: str, more: int = 0) -> None:
        good = b.block("good")
        work.read(8, b.alu("add", work.get(name), offset), good, unread)
        b.start(good)
        b.set(frame, b.alu("add", b.load(work.base, READ), more))
        b.jump(framed)

    rules: dict[int, Callable[[], None]] = {
        table.SP: lambda: based_on("sp"), table.BP: lambda: based_on("bp"), table.OUTERMOST: lambda: b.jump(end),
        table.PLT: lambda: _set_plt_frame(work, frame, address, offset, framed),
        table.SIGNAL: lambda: _leave_signal(work, offset, again, unread),
        table.SP_AT: lambda: read_at("sp"), table.BP_AT: lambda: read_at("bp"),
        table.SP_AT_8: lambda: read_at("sp", 8)}
    for wanted, define in rules.items():
        other = when(wanted)
        define()
        b.start(other)
    other = when(table.NO_TABLE)
    work.fail("unwind_none")
    b.jump(end)
    b.start(other)
    work.fail("unwind_rule")
    b.jump(end)
    b.start(unread)
    work.fail("unwind_read")
    b.jump(end)
    b.start(framed)
    _leave_frame(work, rule, frame, end, again, unread)


def _set_plt_frame(work: Work, frame: Reg, address: Reg, offset: Reg, framed: BasicBlock) -> None:
    b = work.b
    pushed, boundary = b.block("pushed"), b.alu("rsh", offset, 3)
    b.set(frame, b.alu("add", work.get("sp"), 8))
    b.branch("jge", b.alu("and", address, 15), boundary, pushed, framed)
    b.start(pushed)
    b.set(frame, b.alu("add", frame, 8))
    b.jump(framed)


def _leave_signal(work: Work, offset: Reg, again: BasicBlock, unread: BasicBlock) -> None:
    """The registers that the kernel saved when it called the handler."""
    b, good = work.b, work.b.block("good")
    work.read(_SAVED + 16, b.alu("sub", b.alu("add", work.get("sp"), offset), _SAVED), good, unread)
    b.start(good)
    for name, at in (("bp", 0), ("sp", _SAVED), ("pc", _SAVED + 8)):
        work.put(name, b.load(work.base, READ + at))
    work.put("exact", 1)
    b.jump(again)


def _leave_frame(work: Work, rule: Reg, frame: Reg, end: BasicBlock, again: BasicBlock, unread: BasicBlock) -> None:
    """Return address and frame pointer from where an ordinary frame has them."""
    b = work.b
    saved = b.alu("and", b.alu("rsh", rule, table.SAVED_SHIFT), table.SAVED_BITS)
    back, read, near, elsewhere, gone, at_bp, good = (
        b.block(n) for n in ("back", "read", "near", "elsewhere", "gone", "kept", "good"))
    upwards, loops = b.block("upwards"), b.block("loops", cold=True)
    b.branch("jgt", frame, work.get("sp"), upwards, loops)
    b.start(loops)
    work.fail("unwind_loop")
    b.jump(end)
    b.start(upwards)
    work.read(8, b.alu("sub", frame, 8), back, unread)
    b.start(back)
    work.put("pc", b.load(work.base, READ))
    work.put("sp", frame)
    work.put("exact", 0)
    b.branch("jeq", saved, table.KEPT, again, read)
    b.start(read)
    where = b.function.reg("where")
    b.set(where, b.alu("sub", frame, b.alu("lsh", saved, 3)))
    b.branch("jlt", saved, table.AT_BP, near, elsewhere)
    b.start(elsewhere)
    b.branch("jeq", saved, table.GONE, gone, at_bp)
    b.start(gone)
    work.put("bp", 0)
    b.jump(again)
    b.start(at_bp)
    b.set(where, work.get("bp"))
    b.start(near)
    work.read(8, where, good, unread)
    b.start(good)
    work.put("bp", b.load(work.base, READ))
    b.jump(again)


def _step_by_pointers(work: Work, end: BasicBlock, again: BasicBlock) -> None:
    """Code without tables is taken to keep frame pointers: that of the caller, then the return address lie there."""
    b = work.b
    some, upwards, good, bad = (b.block(n) for n in ("some", "upwards", "good", "bad"))
    pointer = work.get("bp")
    b.branch("jne", pointer, 0, some, end)
    b.start(some)
    b.branch("jge", pointer, work.get("sp"), upwards, bad)
    b.start(upwards)
    record = b.alu("add", pointer, arch_of(work.lo).frame_record)
    work.read(16, record, good, bad)
    b.start(bad)
    work.fail("unwind_none")
    b.jump(end)
    b.start(good)
    work.put("sp", b.alu("add", record, 16))
    work.put("bp", b.load(work.base, READ))
    set_code_address(work, b.load(work.base, READ + 8))
    if arch_of(work.lo).link_register is not None:
        work.put("loose", 1)  # what lies above the two words may still be of this frame
    work.put("exact", 0)
    b.jump(again)
