"""Rules of machines on which a call leaves the return address in a register (aarch64).

The rows are those of :mod:`sonde.layouts.unwind_format`.

The called function stores it where it likes, usually above the frame pointer: the two are a frame record. Until then,
and in leaf functions, it is still in the register; in callers' frames it cannot be. The kernel's code to which signal
handlers return has no table, and is recognised by its instructions.
"""

from __future__ import annotations

from ....layouts import unwind_format as table
from ...ir import BasicBlock, Operand, Reg
from ..probes.contexts import arch_of
from ..strings.texts import number_of_bytes
from .unwind_work import READ, Work


def set_code_address(work: Work, value: Operand) -> None:
    """Have the walk go on at a return address, which may be signed."""
    b, over = work.b, 64 - arch_of(work.lo).code_address_bits
    work.put("pc", b.alu("rsh", b.alu("lsh", value, over), over) if over else value)


def leave_vdso(work: Work, pc: Reg, again: BasicBlock) -> None:
    """If this is where a signal's handler returned to: what the kernel saved of the registers when it called it."""
    b, row = work.b, arch_of(work.lo)
    code, saved = row.signal_return
    if not code:
        return
    there, signal, good, other = (b.block(n) for n in ("there", "signal", "good", "other"))
    work.read(8, pc, there, other)
    b.start(there)
    b.branch("jeq", b.load(work.base, READ), b.mov(number_of_bytes(work.lo, code)), signal, other)
    b.start(signal)
    first = row.dwarf_frame_pointer
    size = 8 * (len(row.dwarf_registers) + 1 - first)  # frame pointer, link register, stack pointer, pc
    work.read(size, b.alu("add", work.get("sp"), saved + 8 * first), good, other)
    b.start(good)
    for at, name in enumerate(("bp", "link", "sp", "pc")):
        work.put(name, b.load(work.base, READ + 8 * at))
    work.put("loose", 0)
    work.put("exact", 1)
    b.jump(again)
    b.start(other)


def _leave_plt(work: Work, pc: Reg, again: BasicBlock) -> None:
    """If the thread is in an entry of the PLT that linkers make no table of: it has been called, and only jumps on to
    the function."""
    b, row = work.b, arch_of(work.lo)
    here, there, leave, other = (b.block(n) for n in ("here", "entry", "leave", "other"))
    b.branch("jne", work.get("exact"), 0, here, other)
    b.start(here)
    work.read(4 * len(row.plt_entry), pc, there, other)
    b.start(there)
    for at in range(len(row.plt_entry)):
        word, on = b.load(work.base, READ + 4 * at, 4), b.block("on")
        jumps = b.block("jumps")
        b.branch("jeq", word, row.plt_jump, leave, jumps)
        b.start(jumps)
        for bits, value in row.plt_entry:
            no = b.block("no")
            b.branch("jeq", b.alu("and", word, bits), value, on, no)
            b.start(no)
        b.jump(other)
        b.start(on)
    b.jump(other)
    b.start(leave)
    set_code_address(work, work.get("link"))
    work.put("exact", 0)
    b.jump(again)
    b.start(other)


def apply_linked_rule(work: Work, rule: Reg, pc: Reg, end: BasicBlock, again: BasicBlock) -> None:
    """Set the registers to the caller's."""
    b = work.b
    kind = b.alu("and", rule, table.KIND_BITS)
    bare, ruled, called, known, unknown = (b.block(n) for n in ("bare", "ruled", "called", "known", "unknown"))
    b.branch("jeq", kind, table.NO_TABLE, bare, ruled)
    b.start(bare)
    leave_vdso(work, pc, again)
    _leave_plt(work, pc, again)
    work.fail("unwind_none")
    b.jump(end)
    b.start(ruled)
    b.branch("jeq", kind, table.OUTERMOST, end, called)
    b.start(called)
    b.branch("jeq", kind, table.UNKNOWN, unknown, known)
    b.start(unknown)
    work.fail("unwind_rule")
    b.jump(end)
    b.start(known)
    lies = b.alu("lsh", b.alu("and", b.alu("rsh", rule, table.LIES_SHIFT), table.LIES_BITS), 3)
    frame = _find_frame(work, rule, kind, lies, end)
    stored, held = b.block("stored"), b.block("held")
    b.branch("jne", lies, 0, stored, held)
    b.start(held)
    _follow_link(work, frame, unknown)
    b.jump(again)
    b.start(stored)
    _read_return(work, frame, kind, lies, end)
    b.jump(again)


def _find_frame(work: Work, rule: Reg, kind: Reg, lies: Reg, end: BasicBlock) -> Reg:
    """The frame's address. After code that was walked by frame pointers the stack pointer is not known, and the frame
    record says it."""
    b = work.b
    frame, offset = b.function.reg("frame"), b.alu("lsh", b.alu("rsh", rule, table.DISTANCE_SHIFT), 3)
    pointer, stack, loose, tight, record, stored, lost, framed = (
        b.block(n) for n in ("pointer", "stack", "loose", "tight", "record", "has", "lost", "framed"))
    b.branch("jset", kind, 1, pointer, stack)
    b.start(pointer)
    b.set(frame, b.alu("add", work.get("bp"), offset))
    b.jump(framed)
    b.start(stack)
    b.branch("jne", work.get("loose"), 0, loose, tight)
    b.start(tight)
    b.set(frame, b.alu("add", work.get("sp"), offset))
    b.jump(framed)
    b.start(loose)
    b.branch("jeq", kind, table.SP, record, lost)
    b.start(record)
    b.branch("jne", lies, 0, stored, lost)
    b.start(lost)
    work.fail("unwind_none")
    b.jump(end)
    b.start(stored)
    b.set(frame, b.alu("add", b.alu("add", work.get("bp"), lies), 8 + arch_of(work.lo).frame_record))
    b.jump(framed)
    b.start(framed)
    return frame


def _follow_link(work: Work, frame: Reg, unknown: BasicBlock) -> None:
    """The return address is still where the call has left it. Of a caller's frame that cannot be."""
    b, leaf, upwards = work.b, work.b.block("leaf"), work.b.block("upwards")
    b.branch("jne", work.get("exact"), 0, leaf, unknown)
    b.start(leaf)
    b.branch("jge", frame, work.get("sp"), upwards, unknown)
    b.start(upwards)
    set_code_address(work, work.get("link"))
    work.put("sp", frame)
    work.put("exact", 0)


def _read_return(work: Work, frame: Reg, kind: Reg, lies: Reg, end: BasicBlock) -> None:
    """Return address, and frame pointer if it lies below it, from the stack."""
    b = work.b
    upwards, loops, record, alone, gone, both, one, left = (
        b.block(n) for n in ("upwards", "loops", "record", "alone", "gone", "both", "one", "left"))
    unread = b.block("unread", cold=True)
    b.branch("jgt", frame, work.get("sp"), upwards, loops)
    b.start(loops)
    work.fail("unwind_loop")
    b.jump(end)
    b.start(unread)
    work.fail("unwind_read")
    b.jump(end)
    b.start(upwards)
    where = b.alu("sub", frame, lies)
    b.branch("jle", kind, table.BP, record, alone)
    b.start(record)
    work.read(16, b.alu("sub", where, 8), both, unread)
    b.start(both)
    work.put("bp", b.load(work.base, READ))
    set_code_address(work, b.load(work.base, READ + 8))
    b.jump(left)
    b.start(alone)
    work.read(8, where, one, unread)
    b.start(one)
    set_code_address(work, b.load(work.base, READ))
    b.branch("jge", kind, table.SP_GONE, gone, left)
    b.start(gone)
    work.put("bp", 0)
    b.jump(left)
    b.start(left)
    work.put("sp", frame)
    work.put("loose", 0)
    work.put("exact", 0)
