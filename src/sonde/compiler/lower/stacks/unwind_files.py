"""The file that an address of the current task belongs to, from its memory map: a maple tree
(include/linux/maple_tree.h).

A node has 256 bytes: its parent, pivots, slots. A pivot is the last address covered by the slot beside it; the last
slot has none. The address of a node has its type in bits 3 to 6; leaves have mappings in their slots.
"""

from __future__ import annotations

import os

from ....base.record import Record
from ....layouts import unwind_format as table
from ....types import KERNEL, Pointer, Struct, Type
from ... import helpers as h
from ...ir import BasicBlock, MapFd, Operand, Reg
from .. import memory
from ..core import Lower
from ..state import Mem
from ..strings.texts import number_of_bytes
from ..tasks import process_id
from .unwind_work import ASK, MAPPING_SIZE, MAPPINGS, MAPPINGS_AT, NODE, Work

_DEPTH = 8            # levels of a tree: 10 slots at each are more mappings than there can be
_NODE_BYTES = 256
_TYPE_SHIFT, _TYPE_BITS, _LEAVES = 3, 15, 2  # types below the last are of leaves
_PIVOTS, _PIVOTS_SPACED = 15, 9  # of a node; of one that knows of gaps below it, type 3
_SLOTS, _SLOTS_SPACED = 128, 80  # where they begin
_PAGE_SHIFT = os.sysconf("SC_PAGE_SIZE").bit_length() - 1
# In a file's mode: FMODE_NOACCOUNT and FMODE_BACKING, which was the other bit before Linux 6.14 (include/linux/fs.h)
_UNCOUNTED, _BACKING = 1 << 29, 1 << 24 | 1 << 25
START, BYTES, BIAS, FIRST, ROWS = 0, 8, 16, 24, 32  # of a mapping that is remembered


class File(Record):
    """Where in a file an address is: ``address - bias``; its rows, if it has any."""

    bias: Reg
    first: Reg
    rows: Reg


def find_file(work: Work, address: Reg, fail: BasicBlock) -> File:
    """The file at an address; to ``fail``, with the reason noted, if there is none or its rows are not there."""
    b = work.b
    slot, have = b.function.reg("place"), b.block("found")
    for number in range(MAPPINGS):
        at = b.address(work.base, MAPPINGS_AT + number * MAPPING_SIZE)
        b.set(slot, at)
        other = b.block("other")
        b.branch("jlt", b.alu("sub", address, b.load(at, START)), b.load(at, BYTES), have, other)
        b.start(other)
    _remember_mapping(work, address, slot, fail)
    b.start(have)
    return File(b.load(slot, BIAS), b.load(slot, FIRST), b.load(slot, ROWS))


def _remember_mapping(work: Work, address: Reg, slot: Reg, fail: BasicBlock) -> None:
    """Find the mapping and file of an address, and store them in the slot of the one found longest ago."""
    lo, b = work.lo, work.b
    vma = _find_mapping(work, address, fail)
    area = _struct_at(lo, vma, "vm_area_struct")
    start, end, page, file = (_member(lo, area, "vm_area_struct", name)
                              for name in ("vm_start", "vm_end", "vm_pgoff", "vm_file"))
    above, inside, outside = b.block("above"), b.block("inside"), b.block("outside", cold=True)
    b.branch("jge", address, start, above, outside)
    b.start(above)
    b.branch("jlt", address, end, inside, outside)
    b.start(outside)
    work.fail("unwind_map")
    b.jump(fail)
    b.start(inside)
    bias, first, rows = (b.function.reg(name) for name in ("bias", "first", "rows"))
    known, named, nameless, vdso, made = (b.block(n) for n in ("known", "named", "nameless", "vdso", "made"))
    b.set(first, 0)
    b.set(rows, 0)
    b.branch("jne", file, 0, named, nameless)
    b.start(nameless)
    b.set(bias, start)
    b.branch("jeq", start, _read_map_word(work, "context", "vdso"), vdso, made)
    b.start(made)  # by the program, while it ran
    b.jump(known)
    b.start(named)
    b.set(bias, b.alu("sub", start, b.alu("lsh", page, _PAGE_SHIFT)))
    _write_key(work, file)
    looked = b.block("looked")
    b.jump(looked)
    b.start(vdso)
    for at in range(0, table.FILE_KEY.size, 8):
        b.store(work.base, ASK + at, number_of_bytes(work.lo, table.VDSO_KEY[at:at + 8]))
    b.start(looked)
    _look_up_file(work, address, first, rows, fail)
    b.start(known)
    oldest = work.get("oldest")
    work.put("oldest", b.alu("and", b.alu("add", oldest, 1), MAPPINGS - 1))
    index = b.alu("mul", b.alu("and", oldest, MAPPINGS - 1), MAPPING_SIZE)
    b.set(slot, b.alu("add", b.alu("add", work.base, MAPPINGS_AT), index))
    for at, value in ((START, start), (BYTES, b.alu("sub", end, start)), (BIAS, bias), (FIRST, first), (ROWS, rows)):
        b.store(slot, at, value)


def _struct_at(lo: Lower, address: Operand, name: str) -> Mem:
    struct = lo.world.find_struct(name)
    assert struct is not None
    return memory.locate_pointee(lo, address, Pointer(struct, KERNEL))


def _member(lo: Lower, mem: Mem, struct: str, name: str) -> Operand:
    """A scalar member of the struct at ``mem``."""
    within = lo.world.find_struct(struct)
    field = within.field(name) if within is not None else None
    assert field is not None
    return memory.read_field(lo, mem, field)


def _read_map_word(work: Work, *path: str) -> Reg:
    """A pointer in the task's mm_struct, as a number; 0 if it cannot be read."""
    b, offset = work.b, 0
    type: Type | None = work.lo.world.find_struct("mm_struct")
    for name in path:
        field = type.field(name) if isinstance(type, Struct) else None
        assert field is not None
        type, offset = field.type, offset + field.offset
    b.call(h.READ_KERNEL, [b.alu("add", work.base, NODE), 8, b.alu("add", work.get("mm"), offset)], "probe_read_kernel")
    return b.load(work.base, NODE)


def _inode_of(work: Work, file: Operand) -> Operand:
    """The inode that maps show of a mapping's file. On stacked file systems that is not the file's own, but since Linux
    6.7 that of the path which stands for it (include/linux/fs.h, file_user_inode())."""
    lo, b = work.lo, work.b
    inode = b.function.reg("inode")
    opened = _struct_at(lo, file, "file")
    b.set(inode, _member(lo, opened, "file", "f_inode"))
    backing = lo.world.find_struct("backing_file")
    path = backing.field("user_path") if backing is not None else None
    if path is None:
        return inode
    stacked, special, plain = b.block("stacked"), b.block("special"), b.block("plain")
    mode = _member(lo, opened, "file", "f_mode")
    b.branch("jset", mode, _UNCOUNTED, special, plain)
    b.start(special)
    b.branch("jset", mode, _BACKING, stacked, plain)
    b.start(stacked)
    where = _struct_at(lo, file, "backing_file").at(path.offset)
    b.set(inode, _member(lo, _struct_at(lo, _member(lo, where, "path", "dentry"), "dentry"), "dentry", "d_inode"))
    b.start(plain)
    return inode


def _write_key(work: Work, file: Operand) -> None:
    """Write what identifies a file: device, inode, size."""
    lo, b = work.lo, work.b
    inode = _struct_at(lo, _inode_of(work, file), "inode")
    system = _struct_at(lo, _member(lo, inode, "inode", "i_sb"), "super_block")
    for at, value in ((0, _member(lo, system, "super_block", "s_dev")), (8, _member(lo, inode, "inode", "i_ino")),
                      (16, _member(lo, inode, "inode", "i_size"))):
        b.store(work.base, ASK + at, value)


def _look_up_file(work: Work, address: Reg, first: Reg, rows: Reg, fail: BasicBlock) -> None:
    """Find the rows of the file whose key has been written; ask user space for them if they are not known."""
    lo, b = work.lo, work.b
    files = lo.unit.unwind_files()
    key = b.alu("add", work.base, ASK)
    row = b.call(h.MAP_LOOKUP, [MapFd(files), key], "map_lookup_elem")
    there, unknown, refused, early, bare, ready, on = (
        b.block(n) for n in ("there", "unknown", "refused", "early", "bare", "ready", "on"))
    b.branch("jne", row, 0, there, unknown)
    b.start(unknown)
    _ask(work, address)
    b.start(early)
    work.fail("unwind_early")
    b.jump(fail)
    b.start(there)
    state = b.load(row, 8, 4)
    b.branch("jeq", state, table.READY, ready, bare)
    b.start(bare)
    other = b.block("other")
    b.branch("jeq", state, table.WITHOUT, on, other)
    b.start(other)
    b.branch("jeq", state, table.ASKED, early, refused)
    b.start(refused)
    work.fail("unwind_refused")
    b.jump(fail)
    b.start(ready)
    b.set(first, b.load(row, 0, 4))
    b.set(rows, b.load(row, 4, 4))
    b.start(on)


def _ask(work: Work, address: Reg) -> None:
    """Ask user space to read a file, once."""
    lo, b = work.lo, work.b
    key = b.alu("add", work.base, ASK)
    new, on = b.block("new"), b.block("asked")
    with lo.scope():
        file = lo.temp(table.FILE.size, "asked")
        memory.clear_bytes(lo, file, table.FILE.size)
        result = b.call(h.MAP_UPDATE, [MapFd(lo.unit.unwind_files()), key, lo.operand_address(file), h.UPDATE_NEW],
                        "map_update_elem")
        b.branch("jslt", result, 0, on, new, h.MAP_RESULT)
    b.start(new)
    b.store(work.base, ASK + table.FILE_KEY.size, process_id(lo))
    b.store(work.base, ASK + table.FILE_KEY.size + 8, address)
    b.call(h.RING_OUTPUT, [MapFd(lo.unit.unwind_asks()), key, table.ASK.size, 0], "ringbuf_output")
    b.start(on)


# --- the tree -------------------------------------------------------------------------------------------------


def _find_mapping(work: Work, address: Reg, fail: BasicBlock) -> Reg:
    """The address of the vm_area_struct that the tree has for an address."""
    b = work.b
    entry, depth = b.function.reg("entry"), b.function.reg("depth")
    b.set(entry, _read_map_word(work, "mm_mt", "ma_root"))
    b.set(depth, 0)
    level, node, read, lost, leaf, there = (b.block(n) for n in ("level", "node", "read", "lost", "leaf", "there"))
    b.start(level)
    b.branch("jlt", depth, _DEPTH, node, lost)
    b.start(node)
    b.set(depth, b.alu("add", depth, 1))
    result = b.call(h.READ_KERNEL, [b.alu("add", work.base, NODE), _NODE_BYTES, b.alu("and", entry, -_NODE_BYTES)],
                    "probe_read_kernel")
    b.branch("jsge", result, 0, read, lost)
    b.start(lost)
    work.fail("unwind_map")
    b.jump(fail)
    b.start(read)
    type = b.alu("and", b.alu("rsh", entry, _TYPE_SHIFT), _TYPE_BITS)
    b.set(entry, _slot_for(work, address, type))
    b.branch("jlt", type, _LEAVES, leaf, level)
    b.start(leaf)
    b.branch("jne", entry, 0, there, lost)
    b.start(there)
    return entry


def _slot_for(work: Work, address: Reg, type: Reg) -> Reg:
    """The slot for an address in the node that was read."""
    b = work.b
    spaced = b.alu("and", b.alu("and", type, b.alu("rsh", type, 1)), 1)  # 1 for type 3 alone, of those that there are
    # Of bits that the verifier knows in part, such as those of 9 or 15, Linux 6.16 to 6.18 get bounds wrong where an
    # index is compared, and warn of their own fault in the kernel's log (reg_bounds_sanity_check()).
    pivots = b.obscure_number(b.alu("sub", _PIVOTS, b.alu("mul", spaced, _PIVOTS - _PIVOTS_SPACED)),
                              work.lo.unit.zero(8), _PIVOTS)
    slots = b.alu("sub", _SLOTS, b.alu("mul", spaced, _SLOTS - _SLOTS_SPACED))
    index = b.function.reg("index")
    b.set(index, 0)
    head, inside, look, later, on, child = (b.block(n) for n in ("pivots", "inside", "look", "later", "on", "found"))
    b.start(head)
    b.branch("jlt", index, _PIVOTS, inside, child)
    b.start(inside)
    b.branch("jlt", index, pivots, look, child)
    b.start(look)
    pivot = b.load(b.alu("add", work.base, b.alu("lsh", index, 3)), NODE + 8)
    b.branch("jge", pivot, address, child, later)
    b.start(later)
    b.branch("jne", pivot, 0, on, child)  # after the last one there are zeros
    b.start(on)
    b.set(index, b.alu("add", index, 1))
    b.jump(head)
    b.start(child)
    at = b.alu("add", b.alu("lsh", b.alu("and", index, 15), 3), slots)
    return b.load(b.alu("add", work.base, b.alu("and", at, _NODE_BYTES - 8)), NODE)
