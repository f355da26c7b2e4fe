"""Reading memory: which way serves which address space, and copying between them."""

from __future__ import annotations

from ...language.ast import Expr
from ...types import FLOAT, KERNEL, UINT8, USER, Buf, Int, Pointer, Str, Struct, StructField, Type
from .. import helpers as h
from ..ir import MapAddr, Operand, Reg
from .core import Lower, canonical_width
from .floats import narrow_double, widen_single
from .state import Mem

WORD_COPY = 128   # up to here a copy is a run of loads and stores, beyond it a helper call
UNROLLED_ZERO = 256


def typed_pointer(lo: Lower, value: Operand, btf_id: int) -> Reg:
    """``value`` as a pointer that may be loaded through: the verifier turns the call into a plain move."""
    if isinstance(value, Reg) and lo.state.typed.get(value) == btf_id:
        return value
    cast = lo.b.kfunc(lo.world.kfunc_id("bpf_rdonly_cast"), [value, btf_id], "rdonly_cast", pure=True)
    lo.state.typed[cast] = btf_id
    return cast


def loads_directly(lo: Lower) -> bool:
    """Whether kernel memory is loaded directly. Not with -k, which counts failed reads and so needs the helper."""
    return lo.unit.feature("rdonly_cast") and not lo.unit.options.count_reads


def typed_loads(lo: Lower) -> bool:
    """Whether the typed pointers that a tracing program gets may be loaded through; see :func:`loads_directly`."""
    return lo.unit.feature("typed_arguments") and not lo.unit.options.count_reads


def locate_pointee(lo: Lower, value: Operand, type: Pointer, default: str = KERNEL) -> Mem:
    """The memory behind a pointer."""
    space = type.space or default
    if space == KERNEL and isinstance(type.to, Struct) and type.to.btf_id and (
            loads_directly(lo) or isinstance(value, Reg) and lo.state.typed.get(value) == type.to.btf_id):
        return Mem(typed_pointer(lo, value, type.to.btf_id), 0, KERNEL, type.to.btf_id)
    return Mem(_in_register(lo, value), 0, space)


def _in_register(lo: Lower, value: Operand) -> Reg:
    return value if isinstance(value, Reg) else lo.b.mov(value)


def read_bytes(lo: Lower, mem: Mem, size: Operand, into: Mem) -> None:
    """Copy ``size`` bytes from kernel or user memory; a failure is counted and leaves zeros."""
    result, name = read_memory(lo, mem.space, into, size, lo.operand_address(mem))
    lo.on_failure(result, "read", name)


ANY = "any"  # what a plain number points into: seen at run time, kernel addresses have the highest bit set


def number_space(default: str) -> str:
    """The memory space of an untyped number used as an address."""
    return USER if default == USER else ANY


def read_memory(lo: Lower, space: str, into: Mem, size: Operand, address: Operand, text: bool = False
                ) -> tuple[Operand, str]:
    """Call the helper that reads ``space``; returns its result and its name. ``text``: read up to the NUL."""
    end = "_str" if text else ""
    kernel, user = (h.READ_KERNEL_STR, h.READ_USER_STR) if text else (h.READ_KERNEL, h.READ_USER)
    if space == ANY and isinstance(address, int):
        space = KERNEL if address >> 63 & 1 else USER
    if space != ANY:
        helper, name = (user, "probe_read_user") if space == USER else (kernel, "probe_read_kernel")
        return lo.b.call(helper, [lo.operand_address(into), size, address], name + end), name + end
    result = lo.b.function.reg("read")
    low, high, on = lo.b.block("user"), lo.b.block("kernel"), lo.b.block("read")
    lo.b.branch("jsge", address, 0, low, high)
    lo.b.start(low)
    lo.b.set(result, lo.b.call(user, [lo.operand_address(into), size, address], f"probe_read_user{end}"))
    lo.b.jump(on)
    lo.b.start(high)
    lo.b.set(result, lo.b.call(kernel, [lo.operand_address(into), size, address], f"probe_read_kernel{end}"))
    lo.b.jump(on)
    lo.b.start(on)
    return result, f"probe_read{end}"


def store_value(lo: Lower, mem: Mem, type: Type, value: Operand) -> None:
    """Store a scalar's canonical value as ``type``."""
    lo.b.store(mem.base, mem.off, narrow_double(lo, value) if type == FLOAT else value, type.size)


def read_scalar(lo: Lower, mem: Mem, type: Type) -> Operand:
    """The canonical value of a scalar in memory."""
    value = _read_word(lo, mem, type)
    return widen_single(lo, value) if type == FLOAT else value


def _read_word(lo: Lower, mem: Mem, type: Type) -> Operand:
    _, signed = canonical_width(type)
    if mem.space in ("bpf", "ctx") or mem.btf:
        value = lo.b.load(mem.base, mem.off, type.size, signed, pure=mem.space == "ctx")
        if mem.btf and isinstance(type, Pointer) and isinstance(type.to, Struct) and type.to.btf_id:
            lo.state.typed[value] = type.to.btf_id
        return value
    with lo.scope():
        slot = lo.temp(8)
        read_bytes(lo, mem, type.size, slot)
        return lo.b.load(slot.base, slot.off, type.size, signed)


def read_field(lo: Lower, mem: Mem, field: StructField, in_union: bool = False) -> Operand:
    """The canonical value of a scalar member of the struct at ``mem``."""
    if field.bit_size:
        return _read_bitfield(lo, mem, field)
    value = read_scalar(lo, mem.at(field.offset), field.type)
    if in_union and isinstance(value, Reg):
        lo.state.typed.pop(value, None)  # the verifier may have taken another member of the union
    return value


def _read_bitfield(lo: Lower, mem: Mem, field: StructField) -> Operand:
    """Load the storage that holds the bits, shift the rest out at both ends. Whatever the type, the bits are taken
    as a number without a sign, as bpftrace does. They are counted from the lowest on, on big-endian machines from the
    highest (btf_bitfield_show() in kernel/bpf/btf.c)."""
    start = field.offset * 8 + field.bit_offset
    size = 1
    while start // (size * 8) != (start + field.bit_size - 1) // (size * 8):
        size *= 2
    base = start // (size * 8) * size
    shift, little = start - base * 8, lo.byte_order == "little"
    from ...types import Int
    if size > 8:  # straddles an aligned word: two reads
        low = read_scalar(lo, mem.at(start // 64 * 8), Int(64, False))
        high = read_scalar(lo, mem.at(start // 64 * 8 + 8), Int(64, False))
        first = 64 - start % 64
        ways = ("rsh", "lsh") if little else ("lsh", "rsh")
        value: Operand = lo.b.alu("or", lo.b.alu(ways[0], low, start % 64), lo.b.alu(ways[1], high, first))
        shift, size = 0, 8
    else:
        value = read_scalar(lo, mem.at(base), Int(size * 8, False))
    up = 64 - shift - field.bit_size if little else 64 - 8 * size + shift
    value = lo.b.alu("lsh", value, up) if up else value
    return lo.b.alu("rsh", value, 64 - field.bit_size)


def copy_bytes(lo: Lower, source: Mem, into: Mem, size: int, align: int = 8) -> None:
    """Copy ``size`` bytes into BPF memory by the cheapest way."""
    plain = source.space in ("bpf", "ctx")
    if not plain and not (source.btf and size <= 64) or plain and size > WORD_COPY and source.space != "ctx":
        read_bytes(lo, Mem(source.base, source.off, source.space if not plain else KERNEL), size, into)
        return
    at = 0
    while at < size:
        step = 8
        while step > 1 and (step > size - at or not _is_aligned(source, at, step) or not _is_aligned(into, at, step)):
            step //= 2
        value = lo.b.load(source.base, source.off + at, step, pure=source.space == "ctx")
        lo.b.store(into.base, into.off + at, value, step)
        at += step


def _is_aligned(mem: Mem, at: int, step: int) -> bool:
    """Frame and map memory starts 8-aligned; so do kernel structs and contexts."""
    off = mem.off + at
    if isinstance(mem.base, MapAddr):
        off += mem.base.off
    return off % step == 0


def clear_bytes(lo: Lower, mem: Mem, size: int) -> None:
    """Clear memory: stores, or for long runs one helper call (a read from NULL fails and clears its target:
    bpf_probe_read_kernel_common() in kernel/trace/bpf_trace.c)."""
    if size <= UNROLLED_ZERO:
        lo.b.zero(mem.base, mem.off, size)
    else:
        lo.b.call(h.READ_KERNEL, [lo.operand_address(mem), size, 0], "probe_read_kernel")


def from_words(lo: Lower, words: list[Operand], size: int) -> Mem:
    """A struct of ``size`` bytes that was passed in registers, put together from its words."""
    mem = lo.temp(size)
    for number, word in enumerate(words):
        at = 8 * number
        left = min(8, size - at)
        while left > 0:
            step = 1 << left.bit_length() - 1
            lo.b.store(mem.base, mem.off + at, word, step)
            word, left, at = lo.b.alu("rsh", word, 8 * step) if left > step else word, left - step, at + step
    return mem


def locate_bytes(lo: Lower, expr: Expr) -> Mem:
    """The memory that an array, buffer, string or pointer means."""
    if isinstance(expr.type, Pointer):
        return locate_pointee(lo, lo.scalar_value(expr), expr.type, lo.context.default_space)
    if isinstance(expr.type, Int):
        return locate_pointee(lo, lo.scalar_value(expr), Pointer(UINT8), number_space(lo.context.default_space))
    mem = lo.place_value(expr)
    return mem.at(4) if isinstance(expr.type, Buf) else mem


def is_text(type: Type | None) -> bool:
    return isinstance(type, Str)
