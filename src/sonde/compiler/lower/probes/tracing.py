"""Programs of type tracing: kernel functions by fentry and fexit, whose context is the arguments in words."""

from __future__ import annotations

from ....spec import KernelDetail, detail_of
from ....types import Int, NoneType, Pointer, Scalar, Struct, StructField, Type
from ... import helpers as h
from ...compilation import Unit
from ...ir import Operand
from .. import memory
from ..core import Lower
from ..state import Mem
from .contexts import Context


class TracedFunction(Context):
    """fentry, fexit, and the kprobes that they serve. Such programs only pin the task to its CPU, and each function has
    a copy of the program, so that one may interrupt another."""

    program = "tracing"
    exclusive = False
    preemptible = True
    beneath = "trampoline"

    def shares(self, unit: Unit) -> bool:
        return unit.feature("tracing_cookie")

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        if not isinstance(field.type, Scalar):
            return _join_words(lo, field)
        if not _is_loadable(field.type) or detail_of(lo.attach[0], KernelDetail).module.startswith("bpf:"):
            return lo.normalise(self.arg(lo, field.offset // 8), field.type)
        value = lo.b.load(lo.context_pointer(), field.offset, 8, pure=True)
        if isinstance(field.type, Pointer) and isinstance(field.type.to, Struct) and memory.typed_loads(lo):
            lo.state.typed[value] = field.type.to.btf_id
        return lo.normalise(value, field.type)

    def arg(self, lo: Lower, number: int) -> Operand:
        """Word ``number``; the helper gives what the verifier would not let a program load, too."""
        if not lo.unit.feature("helper_get_func_arg"):
            return lo.b.load(lo.context_pointer(), 8 * number, 8, pure=True)
        return _read_word(lo, h.FUNC_ARG, "func_arg", number)

    def retval(self, lo: Lower) -> Operand:
        if lo.unit.feature("helper_get_func_ret"):
            return _read_word(lo, h.FUNC_RET, "func_ret")
        known = lo.world.kernel_function(lo.attach[0].event, detail_of(lo.attach[0], KernelDetail).module)
        assert known is not None
        return lo.b.load(lo.context_pointer(), known.args.bytes, 8, pure=True)


class TracedFunctions(TracedFunction):
    """The context of many functions that share one copy of the program (tracing_multi, Linux 7.2). To the verifier
    their arguments are numbers, which only a helper returns."""

    def argument(self, lo: Lower, field: StructField) -> Operand | Mem:
        if isinstance(field.type, Scalar):
            return lo.normalise(self.arg(lo, field.offset // 8), field.type)
        first = field.offset // 8
        words = [self.arg(lo, first + at) for at in range((field.type.size + 7) // 8)]
        return memory.from_words(lo, words, field.type.size)


def _read_word(lo: Lower, helper: int, name: str, *number: int) -> Operand:
    """bpf_get_func_arg() and bpf_get_func_ret(), which the verifier replaces by a load (Linux 5.17)."""
    with lo.scope():
        slot = lo.temp(8)
        memory.clear_bytes(lo, slot, 8)
        lo.b.call(helper, [lo.context_pointer(), *number, lo.operand_address(slot)], name)
        return lo.b.load(slot.base, slot.off, 8)


def _is_loadable(type: Type) -> bool:
    """What btf_ctx_access() in kernel/bpf/btf.c has always let programs load: numbers, and pointers to structs of
    vmlinux, to numbers and to nothing in particular."""
    if not isinstance(type, Pointer):
        return True
    return isinstance(type.to, (Int, NoneType)) or isinstance(type.to, Struct) and type.to.btf_id > 0


def _join_words(lo: Lower, field: StructField) -> Mem:
    """A struct that is passed by value, put together from its words."""
    words: list[Operand] = [lo.b.load(lo.context_pointer(), field.offset + at, 8, pure=True)
                            for at in range(0, field.type.size, 8)]
    return memory.from_words(lo, words, field.type.size)
