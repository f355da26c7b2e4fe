"""Unwinding by tables in the kernel: what the reader of files produces, user space stores and programs search.

The design, and why:

- ``.eh_frame`` says for each instruction how the caller's registers are found. The low-rank reader
  (:mod:`sonde.kernel.foreign.unwind_rows`) turns it into *rows* of eight bytes, sorted by the instruction's place in
  the file: u32 offset in the file, u32 rule. The rows of all files are in one array (``__unwindrows``), which programs
  address directly; a search costs one load per step. ``__unwindfiles`` says where the rows of a file are.
- A program itself finds the file that an address belongs to, in the task's own memory map (``mm->mm_mt``, a maple tree
  since Linux 6.1): what any process has just mapped is known, and no state is kept per process. A file is identified by
  its size, and by device and inode as in ``/proc/PID/maps``.
- The first stack that reaches a file whose rows are missing asks for them (``__unwindasks``, a ring) and ends early,
  which is counted. The rows for the traced processes are stored before anything is attached.
- Rules cover what compilers produce: the frame's address is stack or frame pointer plus a number, or is stored in
  memory there; the return address is right below it, and the frame pointer somewhere further below; on aarch64 the
  return address is anywhere below it, usually above the frame pointer, or in its register. Signal frames and the PLT
  have rules of their own. Code without any table (generated at run time, or in a file without ``.eh_frame``) is walked
  by frame pointers. Whatever else ends a stack is counted, by reason.
"""

from __future__ import annotations

from struct import Struct as Layout

# A row: offset in the file, rule. A rule: kind, then where the frame pointer lies, then a signed number of words.
ROW = Layout("=II")
KIND_BITS, SAVED_SHIFT, SAVED_BITS, WORDS_SHIFT = 15, 4, 0xFFF, 16
NO_TABLE = 0      # between functions
OUTERMOST = 1     # no function has called this one
SP, BP = 2, 3     # the frame's address: stack pointer + n, frame pointer + n
SP_AT, BP_AT = 4, 5  # what lies at stack pointer + n, or at frame pointer + n
SP_AT_8 = 6       # the word after what SP_AT finds
PLT = 7           # stack pointer + 8, and 8 more from byte n of an entry of 16 bytes on
SIGNAL = 8        # the stack pointer's place in what the kernel saved lies at stack pointer + n
UNKNOWN = 9       # something else
# The frame pointer: as it is; at frame pointer + 0; lost; else so many words below the frame's address
KEPT, AT_BP, GONE = 0, 0xFFE, 0xFFF
# Where calls leave the return address in a register (aarch64), a rule is: kind, how many words below the frame's
# address the return address lies, number of words. It may still be in the register. The frame pointer lies in the word
# below it (SP, BP), is as it was, or is lost. The odd kinds are based on the frame pointer.
LIES_SHIFT, LIES_BITS, DISTANCE_SHIFT = 4, 0x3FFF, 18
LINKED = 0
SP_KEPT, BP_KEPT, SP_GONE, BP_GONE = 10, 11, 12, 13

# A file: device as the kernel numbers it, inode, size. The first of its rows, their number, and what is known of it.
FILE_KEY, FILE = Layout("=QQQ"), Layout("=III4x")
ASKED, READY, WITHOUT, REFUSED = 0, 1, 2, 3  # asked for; rows are there; it has no .eh_frame; not read, or no room
ASK = Layout("=QQQQQ")  # the file's key, a process and an address at which it has it mapped
VDSO_KEY = FILE_KEY.pack(0, 1, 0)  # the kernel's own code in each process
MOST_FILES = 4096
ASKS_BYTES = 1 << 16  # of the ring
MOST_STEPS = 24   # of a search
DEVICE_MINOR_BITS = 20  # of a device's number: include/linux/kdev_t.h

REASONS = ("unwind_early", "unwind_refused", "unwind_none", "unwind_rule", "unwind_read", "unwind_map", "unwind_loop",
           "unwind_compat", "unwind_deep")  # why a stack ended early; a program notes 1 + the index


def pack_rule(kind: int, words: int = 0, saved: int = KEPT) -> int:
    """A rule as a number of 32 bits."""
    return (words & 0xFFFF) << WORDS_SHIFT | saved << SAVED_SHIFT | kind


def pack_linked_rule(kind: int, words: int = 0, lies: int = LINKED) -> int:
    """The same where calls leave the return address in a register."""
    return words << DISTANCE_SHIFT | lies << LIES_SHIFT | kind
