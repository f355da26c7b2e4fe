"""What a program sees of its event: one class per kind of context."""

from __future__ import annotations

from ....arch import ARCHES, Arch
from ....arch.go_versions import uses_stack
from ....kinds import KINDS
from ....layouts.uapi import BPF_F_RDONLY_PROG
from ....semantics.user_probes import user_places
from ....spec import Attach, MapSpec, UserDetail, detail_of, user_bits
from ....types import KERNEL, USER, Int, Pointer, Scalar, Struct, StructField
from ... import helpers as h
from ...compilation import Unit
from ...ir import BasicBlock, MapAddr, Operand, Reg
from .. import memory
from ..core import Lower
from ..state import Mem
from .compat import branch_on_compat
from .raw_fields import RawField

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


EVENTS, JUMPS, TAIL_RETURNS = range(3)


class Context:
    """Base: an event without arguments.

    ``exclusive``: no second program of this kind runs on the CPU before the first has ended, so a plain add
    to per-CPU memory that only one program writes cannot be lost.
    """

    program = "raw_tracepoint"
    exclusive = True
    preemptible = False  # another task may run the same program on this CPU in between
    default_space = KERNEL
    filters_pid = True  # -p is a predicate (otherwise the attachment itself is limited to the process)
    saved_words = 0  # of the arguments that callbacks read in the frame: see entry_arguments.py
    counter: int | None = EVENTS  # of the attach point, which counts its runs: see counted_calls.py
    beneath = ""  # whose frames a kernel stack begins with, before those of the event: see stacks.py

    def fresh(self) -> Context:
        return type(self)()

    def tracepoints(self, lo: Lower) -> list[str]:
        """The kernel's names of the tracepoints that it is attached to."""
        return [point.event for point in lo.attach]

    def must_filter_pid(self, unit: Unit, attach: Attach) -> bool:
        """Whether the program itself must check for the process of -p."""
        return self.filters_pid

    def shares(self, unit: Unit) -> bool:
        """Whether one program can serve several attach points and know which one fired."""
        return unit.feature("attach_cookie")

    def prologue(self, lo: Lower, leave: BasicBlock) -> None:
        """Leave at once for events that are not ours."""

    def begin(self, lo: Lower, leave: BasicBlock) -> None:
        """What comes before the predicate, for an event that is ours."""

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        """A field of ``args``: its value if it is a scalar, else where it lies."""
        raise AssertionError("no arguments here")

    def arg(self, lo: Lower, number: int) -> Operand:
        """``argN``."""
        raise AssertionError("no arguments here")

    def retval(self, lo: Lower) -> Operand:
        raise AssertionError("no return value here")

    def register(self, lo: Lower, offset: int) -> Operand:
        """A register of the traced code, by its offset in pt_regs."""
        raise AssertionError("no registers here")

    def usermode(self, lo: Lower) -> Operand:
        return 0

    returned = False  # the instruction has not been executed, but counts as if it had

    def may_lack_caller(self, lo: Lower, user: bool) -> bool:
        """Whether the kernel's walk by frame pointers may miss the caller of the function that has just been entered:
        the function has no frame yet, so from there that walk goes on in the caller's caller."""
        return False

    def return_address(self, lo: Lower) -> Operand:
        """Where that function returns to."""
        raise AssertionError


class TestRunContext(Context):
    """begin, end, self: run once by BPF_PROG_TEST_RUN, in Sonde's own process."""

    filters_pid = False
    beneath = "test run"

    def usermode(self, lo: Lower) -> Operand:
        return 1


class PerfEventContext(Context):
    """profile, interval, software, hardware: a perf event fired; the context starts with the interrupted registers."""

    program = "perf_event"
    exclusive = False
    filters_pid = False

    def register(self, lo: Lower, offset: int) -> Operand:
        return lo.b.load(lo.context_pointer(), offset, 8, pure=True)

    def usermode(self, lo: Lower) -> Operand:
        register, mask, user = arch_of(lo).user_state
        return lo.flag("jeq", lo.b.alu("and", self.register(lo, register), mask), user)

    def must_filter_pid(self, unit: Unit, attach: Attach) -> bool:
        """The event is that of the process's threads, but before Linux 5.13 also of processes that it starts."""
        return attach.pid != 0 and not unit.feature("inherit_thread")

    def shares(self, unit: Unit) -> bool:
        return unit.feature("attach_cookie")


class TracepointContext(Context):
    """A classic tracepoint: the context is the event's record, laid out as its format file says."""

    program = "tracepoint"
    beneath = "classic tracepoint"

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        pointer = lo.context_pointer()
        assert isinstance(pointer, Reg)
        context = Mem(pointer, field.offset, "ctx")
        if field.data_loc:
            where = lo.b.load(context.base, field.offset, 4, pure=True)
            start = lo.b.alu("and", where, 0xFFFF)
            return Mem(lo.b.alu("add", context.base, start), 0, KERNEL)
        if isinstance(field.type, Scalar):
            return memory.read_scalar(lo, context, field.type)
        return context


class RawEventContext(Context):
    """A raw tracepoint: the context is an array of u64, the arguments as the kernel passes them.

    ``fields`` says how a classic tracepoint's fields come from those arguments.
    """

    beneath = "raw tracepoint"

    def __init__(self, fields: dict[str, RawField] | None = None) -> None:
        self.fields = fields

    def fresh(self) -> Context:
        return RawEventContext(self.fields)

    def shares(self, unit: Unit) -> bool:
        return unit.feature("raw_tp_cookie")

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        if self.fields is not None:
            return self.fields[field.name](lo, field)
        value = lo.b.load(lo.context_pointer(), field.offset, 8, pure=True)
        return lo.normalise(value, field.type) if isinstance(field.type, Scalar) else value

    def arg(self, lo: Lower, number: int) -> Operand:
        return lo.b.load(lo.context_pointer(), 8 * number, 8, pure=True)


class SyscallContext(Context):
    """``tracepoint:syscalls:`` served by one of the two raw tracepoints that see every system call."""

    beneath = "raw tracepoint"

    def shares(self, unit: Unit) -> bool:
        return True  # by the number of the call

    def registers(self, lo: Lower) -> Mem:
        """The task's saved registers: the first argument of both tracepoints."""
        pointer = lo.b.load(lo.context_pointer(), 0, 8, pure=True)
        struct = lo.world.find_struct("pt_regs")
        return memory.locate_pointee(lo, pointer, Pointer(
            struct or Struct("pt_regs", arch_of(lo).pt_regs_size, lambda: ()), KERNEL))

    def call_number(self, lo: Lower) -> Operand:
        raise AssertionError

    def prologue(self, lo: Lower, leave: BasicBlock) -> None:
        calls = {lo.world.syscall_number(a.event.split("_", 2)[2]): n for a, n in zip(lo.attach, lo.numbers)}
        number = self.call_number(lo)
        if len(calls) == 1:
            ours = lo.b.block("ours")
            lo.b.branch("jeq", number, next(iter(calls)) or 0, ours, leave)
            lo.b.start(ours)
        else:
            self._dispatch(lo, calls, number, leave)
        self._skip_compat(lo, leave)

    def _dispatch(self, lo: Lower, calls: dict[Any, int], number: Operand, leave: BasicBlock) -> None:
        """Find the attach point in a table by number: 0 is "not traced"."""
        size = (max(calls) + 1 + 3) // 4 * 4
        table = bytearray(2 * size)
        for call, probe in calls.items():
            table[2 * call:2 * call + 2] = (probe + 1).to_bytes(2, lo.byte_order)
        name = f"__calls{sum(known.startswith('__calls') for known in lo.unit.maps)}"
        lo.unit.internal(name, lambda: MapSpec(
            name, "array", 4, len(table), 1, BPF_F_RDONLY_PROG, initial=bytes(table)))
        inside, ours = lo.b.block("inside"), lo.b.block("ours")
        lo.b.branch("jlt", number, size, inside, leave)
        lo.b.start(inside)
        at = lo.b.alu("add", lo.b.address(MapAddr(name)), lo.b.alu("lsh", number, 1))
        entry = lo.b.load(at, 0, 2)
        lo.b.branch("jne", entry, 0, ours, leave)
        lo.b.start(ours)
        lo.state.probe_index = lo.b.alu("sub", entry, 1)

    def _skip_compat(self, lo: Lower, leave: BasicBlock) -> None:
        """A 32-bit program's call has another numbering; the classic tracepoints leave it out too
        (ARCH_TRACE_IGNORE_COMPAT_SYSCALLS)."""
        if lo.unit.feature("compat_syscalls"):
            native = lo.b.block("native")
            branch_on_compat(lo, native, leave, self.registers)
            lo.b.start(native)


class SyscallEnterContext(SyscallContext):
    """sys_enter(struct pt_regs *regs, long id)."""

    def tracepoints(self, lo: Lower) -> list[str]:
        return ["sys_enter"]

    def call_number(self, lo: Lower) -> Operand:
        return lo.b.load(lo.context_pointer(), 8, 8, pure=True)

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        if field.name == "__syscall_nr":
            return self.call_number(lo)
        index = (field.offset - 16) // 8
        register = self.registers(lo).at(arch_of(lo).syscall_arguments[index])
        value = memory.read_scalar(lo, register, Int(64, False))
        return lo.normalise(value, field.type)


class SyscallExitContext(SyscallContext):
    """sys_exit(struct pt_regs *regs, long ret)."""

    def tracepoints(self, lo: Lower) -> list[str]:
        return ["sys_exit"]

    def call_number(self, lo: Lower) -> Operand:
        row = arch_of(lo)
        type = Int(8 * row.syscall_number_size, False)
        return memory.read_scalar(lo, self.registers(lo).at(row.syscall_number), type)

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        if field.name == "__syscall_nr":
            return self.call_number(lo)
        return lo.b.load(lo.context_pointer(), 8, 8, pure=True)


def task_registers(lo: Lower) -> Reg:
    """A typed pointer to the current task's registers, as it left user space."""
    return lo.b.call(h.TASK_REGISTERS, [lo.b.call(h.TASK_BTF, [], "current_task_btf")], "task_pt_regs")


class RecordedContext(SyscallContext):
    """The same by ``raw_syscalls:``, whose record has no registers: they are where the task left user space."""

    program = "tracepoint"
    beneath = "classic tracepoint"

    def registers(self, lo: Lower) -> Mem:
        return Mem(task_registers(lo), 0, KERNEL, btf=1)


class RecordedEnterContext(RecordedContext, SyscallEnterContext):
    """struct trace_event_raw_sys_enter: after a head of 8 bytes the call's number, and its six arguments."""

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        if field.name == "__syscall_nr":
            return self.call_number(lo)
        return lo.normalise(lo.b.load(lo.context_pointer(), field.offset, 8, pure=True), field.type)


class RecordedExitContext(RecordedContext, SyscallExitContext):
    """struct trace_event_raw_sys_exit: after a head of 8 bytes the call's number, and its result."""

    def call_number(self, lo: Lower) -> Operand:
        return lo.b.load(lo.context_pointer(), 8, 8, pure=True)

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        return self.call_number(lo) if field.name == "__syscall_nr" else \
            lo.b.load(lo.context_pointer(), 16, 8, pure=True)


class UserFunctionContext(Context):
    """uprobe, uretprobe, usdt: the context is the task's registers. Such programs can be preempted."""

    program = "kprobe"
    exclusive = False
    preemptible = True  # bpf_prog_run_array_uprobe() only pins the task to its CPU
    default_space = USER
    filters_pid = False

    def arg(self, lo: Lower, number: int) -> Operand:
        row = traced_arch(lo)
        registers, above = argument_places(row, lo.attach[0])
        if number < len(registers):
            return self.register(lo, registers[number])
        stack = self.register(lo, row.stack_pointer)
        assert isinstance(stack, Reg)
        at = Mem(stack, above + row.word * (number - len(registers)), self.default_space)
        return memory.read_scalar(lo, at, Int(8 * row.word, False))

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        """A parameter, from the location that debug information gives."""
        location = user_places(lo.attach[0])[field.name]
        if location.kind == "constant":
            return lo.normalise(location.offset, field.type)
        if location.kind == "memory":
            base = self.register(lo, location.registers[0])
            assert isinstance(base, Reg)
            mem = Mem(base, location.offset, USER)
            return memory.read_scalar(lo, mem, field.type) if isinstance(field.type, Scalar) else mem
        words = [self.register(lo, register) for register in location.registers]
        return lo.normalise(words[0], field.type) if isinstance(field.type, Scalar) else \
            memory.from_words(lo, words, field.type.size)

    def retval(self, lo: Lower) -> Operand:
        return self.register(lo, arch_of(lo).return_value)

    def usermode(self, lo: Lower) -> Operand:
        return int(self.default_space == USER)

    def register(self, lo: Lower, offset: int) -> Operand:
        return lo.b.load(lo.context_pointer(), offset, traced_arch(lo).word, pure=True)

    def may_lack_caller(self, lo: Lower, user: bool) -> bool:
        return user and all(point.kind == "uprobe" and detail_of(point, UserDetail).entry for point in lo.attach)

    def return_address(self, lo: Lower) -> Operand:
        row = traced_arch(lo)
        if row.link_register is not None:
            return self.register(lo, row.link_register)
        stack = self.register(lo, row.stack_pointer)
        assert isinstance(stack, Reg)
        return memory.read_scalar(lo, Mem(stack, 0, USER), Int(8 * row.word, False))


class GoEntryContext(UserFunctionContext):
    """uprobe of a function of Go's at the jump by which its check of the stack ends: if that will be taken, the
    function begins once more."""

    def prologue(self, lo: Lower, leave: BasicBlock) -> None:
        taken = traced_arch(lo).go_check_taken
        assert taken is not None
        register, bits = taken
        goes_on = lo.b.block("goes_on")
        lo.b.branch("jeq", lo.b.alu("and", self.register(lo, register), bits), 0, goes_on, leave)
        lo.b.start(goes_on)


def checks_stack(arch: str, point: Attach) -> bool:
    """Whether a probe is at such a jump."""
    return point.kind == "uprobe" and isinstance(point.detail, UserDetail) and bool(
        point.detail.go and point.detail.skipped) and ARCHES[arch].go_check_taken is not None


class ReturnInstructionContext(UserFunctionContext):
    """uretprobe at a function's return instructions: registers and stacks are as they are when these have been
    executed, which is when the kernel's own return probe runs its programs."""

    returned = True

    def register(self, lo: Lower, offset: int) -> Operand:
        row = traced_arch(lo)
        if offset == row.instruction_pointer:
            return self.return_address(lo)
        value = super().register(lo, offset)
        popped = row.word if row.link_register is None else 0  # the return address
        return lo.b.alu("add", value, popped) if offset == row.stack_pointer and popped else value

    def may_lack_caller(self, lo: Lower, user: bool) -> bool:
        return False

    def return_address(self, lo: Lower) -> Operand:
        row = traced_arch(lo)
        if row.link_register is not None:
            return super().register(lo, row.link_register)
        stack = super().register(lo, row.stack_pointer)
        assert isinstance(stack, Reg)
        return memory.read_scalar(lo, Mem(stack, 0, USER), Int(8 * row.word, False))

    def function_address(self, lo: Lower) -> Operand:
        """Where the function begins: so far before the return instruction as the cookie's high half says."""
        at = super().register(lo, arch_of(lo).instruction_pointer)
        return lo.b.alu("sub", at, lo.b.alu("arsh", lo.attach_cookie(), 32))


class KernelFunctionContext(UserFunctionContext):
    """kprobe, kretprobe: as for user functions, with the kernel's registers."""

    preemptible = False
    default_space = KERNEL
    filters_pid = True

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        return lo.normalise(self.arg(lo, field.offset // 8), field.type)

    def register(self, lo: Lower, offset: int) -> Operand:
        row, returns = arch_of(lo), KINDS[lo.attach[0].method].returns
        plain: set[int | None] = {row.return_value, row.instruction_pointer, row.stack_pointer}
        if not returns:
            plain |= {*row.arguments, row.frame_pointer, row.link_register}
        lo.reads_registers |= offset not in plain
        lo.reads_kernel_stacks |= returns and offset == row.stack_pointer
        return super().register(lo, offset)

    def may_lack_caller(self, lo: Lower, user: bool) -> bool:
        """Where calls push it, the kernel has tables for its own functions, and finds it."""
        return not user and arch_of(lo).link_register is not None and all(
            point.method == "kprobe" and point.offset == 0 for point in lo.attach)


def argument_places(row: Arch, attach: Attach) -> tuple[tuple[int, ...], int]:
    """The registers of a function's first arguments, and where the next lies above the stack pointer."""
    version = attach.detail.go if isinstance(attach.detail, UserDetail) else ""
    if not version:
        return row.arguments, row.stack_arguments
    by_stack = uses_stack(version, row.name) or attach.event.endswith(".abi0")
    return () if by_stack else row.go_arguments, row.go_stack_arguments


def arch_of(lo: Lower) -> Arch:
    return ARCHES[lo.world.arch]


def traced_arch(lo: Lower) -> Arch:
    """That of the traced program, which may be one of 32 bits (x86's alone: see arch.NARROW)."""
    return ARCHES["i386"] if user_bits(lo.attach[0]) == 32 else arch_of(lo)
