"""Lowering of functions: one row per name, in the table of what its value is.

STATEMENT_CALLS   called for their effect                SCALAR_CALLS   value in a register
CONDITION_CALLS   decided by control flow                STRING_CALLS   text into memory
VALUE_CALLS       other values into memory (stacks and builtins of that kind too)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...language.ast import Call, Expr, MapRef, TupleExpr, Variable
from ...types import (
    KERNEL,
    UINT8,
    UINT64,
    USER,
    Aggregate,
    Array,
    Buf,
    Inet,
    Int,
    MacAddr,
    Pointer,
    Scalar,
    Stack,
    StackCopy,
    Str,
    Tuple,
    Type,
)
from .. import helpers as h
from ..ir import Block, MapFd, Operand
from . import builtins, maps, memory, records, stacks
from .arithmetic import as_number
from .contexts import arch_of
from .core import Lower
from .ordering import evaluate_once, must_run_first
from .state import FunctionState, Mem
from .texts import write_literal
from .variables import set_variable


def _load_later(module: str, name: str) -> Callable[..., Any]:
    """A lowering whose module is loaded when a script needs it: start-up is counted in milliseconds."""
    def lower(*args: Any) -> Any:
        from importlib import import_module
        return getattr(import_module(f".{module}", __package__), name)(*args)
    return lower


# --- output -----------------------------------------------------------------------------------------------


def _formatted_record(kind: str, **data: Any) -> Callable[[Lower, Call], None]:
    def lower(lo: Lower, call: Call) -> None:
        if lo.attach[0].extra.get("pin"):
            from .iterators import seq_printf
            seq_printf(lo, call)
        else:
            records.send_record(lo, kind, call.args[1:], parts=call.data, data=dict(data))
    return lower


def _lower_print(lo: Lower, call: Call) -> None:
    target = call.args[0]
    if call.data:
        print_map(lo, call, "")
    elif isinstance(target, MapRef) and isinstance(target.type, Aggregate):  # user space merges what the CPUs have
        assert target.key is not None
        records.send_record(lo, "print", [target.key], data={"map": target.name})
    else:
        records.send_record(lo, "print", [target])


def print_map(lo: Lower, call: Call, then: str) -> None:
    """print(@m, top, div), and perhaps clear or zero in the same step."""
    records.send_control_record(lo, "print_map", {**call.data, "then": then})


def _request_for_map(lo: Lower, call: Call) -> None:
    lo.forget(call.data["map"])
    records.send_control_record(lo, call.name, {"map": call.data["map"]})


def _lower_exit(lo: Lower, call: Call) -> None:
    records.send_control_record(lo, "exit", {}, lo.scalar_value(call.args[0]) if call.args else 0)
    if lo.unit.stops_at_exit:
        lo.b.store(lo.unit.global_word("exiting"), 0, 1)
    lo.leave_program()


def _lower_nstat(lo: Lower, call: Call) -> None:
    records.send_record(lo, "nstat", [])


def _lower_time(lo: Lower, call: Call) -> None:
    records.send_record(lo, "time", [], data=dict(call.data), stamp=True)


JOIN_ARGUMENTS, JOIN_SIZE = 16, 1024


def _lower_join(lo: Lower, call: Call) -> None:
    """Read char *[] until NULL: up to 16 strings, NUL-separated, into one Buf."""
    from ...spec import EventSite
    limit = min(lo.unit.config.max_strlen, JOIN_SIZE)
    capacity = JOIN_ARGUMENTS * limit
    fields, size = records.lay_out_fields([Buf(capacity)])
    array = lo.scalar_value(call.args[0])
    space = call.args[0].type.space if isinstance(call.args[0].type, Pointer) else ""
    user = (space or lo.context.default_space) == USER
    site = EventSite("join", lo.b.span, fields, size, [], dict(call.data))
    reserved = records.reserve_record(lo, site)
    text = reserved.mem.at(fields[0].offset + 4)
    used = lo.b.function.reg("used")
    lo.b.set(used, 0)
    done = lo.b.block("joined")
    with lo.region(), lo.scope():
        pointer = lo.temp(8)
        for index in range(JOIN_ARGUMENTS):
            ok, have, read, on = (lo.b.block(n) for n in ("ok", "have", "read", "on"))
            result = lo.b.call(h.READ_USER if user else h.READ_KERNEL, [lo.operand_address(pointer), 8,
                               lo.b.alu("add", as_number(lo, array), 8 * index)], "probe_read")
            lo.b.branch("jeq", result, 0, ok, done)
            lo.b.start(ok)
            address = lo.b.load(pointer.base, pointer.off)
            lo.b.branch("jeq", address, 0, done, have)
            lo.b.start(have)
            lo.b.branch("jle", used, capacity - limit, read, done)
            lo.b.start(read)
            target = lo.b.alu("add", lo.b.address(text.base, text.off), used)
            helper = h.READ_USER_STR if user else h.READ_KERNEL_STR
            length = lo.b.call(helper, [target, limit, address], "probe_read_str")
            lo.b.branch("jsgt", length, 0, on, done)
            lo.b.start(on)
            lo.b.set(used, lo.b.alu("add", used, lo.b.extend(length, 32, False)))
    lo.b.start(done)
    lo.b.store(reserved.record, fields[0].offset, used, 4)
    records.submit_record(lo, reserved, lo.state.last_time if lo.state.last_time is not None else 0)


def _signal_sender(helper: int) -> Callable[[Lower, Call], None]:
    def lower(lo: Lower, call: Call) -> None:
        number = call.data["signal"]
        value = number if number is not None else lo.scalar_value(call.args[0])
        lo.on_failure(lo.b.call(helper, [value], "send_signal"), "helper", "send_signal")
    return lower


def _lower_nothing(lo: Lower, call: Call) -> None:
    """Checked when compiling."""


def _delete_statement(lo: Lower, call: Call) -> None:
    maps.delete_key(lo, call.data["map"], call.data["key"])


STATEMENT_CALLS: dict[str, Callable[[Lower, Call], None]] = {
    "printf": _formatted_record("printf"), "errorf": _formatted_record("printf", severity="ERROR"),
    "warnf": _formatted_record("printf", severity="WARNING"), "cat": _formatted_record("cat"),
    "system": _formatted_record("system"), "print": _lower_print, "clear": _request_for_map, "zero": _request_for_map,
    "exit": _lower_exit, "time": _lower_time, "join": _lower_join, "nstat": _lower_nstat,
    "signal": _signal_sender(h.SEND_SIGNAL), "signal_thread": _signal_sender(h.SEND_SIGNAL_THREAD),
    "delete": _delete_statement, "debugf": _load_later("actions", "lower_debugf"),
    "write_user": _load_later("actions", "write_user_statement"),
    "override": _load_later("actions", "lower_override"), "static_assert": _lower_nothing, "fail": _lower_nothing,
}


# --- scalars ----------------------------------------------------------------------------------------------


def _first_argument(lo: Lower, call: Call) -> Operand:
    return lo.scalar_value(call.args[0])


def _lower_delete(lo: Lower, call: Call) -> Operand:
    """1 if the key was there: the helper answers 0 or a negative error."""
    result = maps.delete_key(lo, call.data["map"], call.data["key"])
    return 1 if isinstance(result, int) else lo.flag("jeq", result, 0, h.MAP_RESULT)


def _lower_bswap(lo: Lower, call: Call) -> Operand:
    bits = call.type.size * 8 if call.type is not None else 64
    value = lo.scalar_value(call.args[0])
    return lo.normalise(value, call.type) if bits == 8 else lo.b.swap(value, bits)


def _lower_len(lo: Lower, call: Call) -> Operand:
    if not call.data:  # a stack
        place = lo.place_value(call.args[0])
        return memory.read_scalar(lo, place.at(12), Int(32, False))
    name = call.data["map"]
    if lo.unit.maps[name].memory:
        return 1
    total = _count_elements(lo, name)
    short = lo.unit.maps[name].short
    return lo.b.alu("add", total, _count_elements(lo, short)) if short else total


def _count_elements(lo: Lower, name: str) -> Operand:
    """bpf_for_each_map_elem with a callback that does nothing: it returns how many it visited."""
    function = lo.add_function(f"visit{len(lo.program.functions)}", 4)
    with lo.building(FunctionState(function, outer=lo.state)):
        lo.b.exit(0)
    return lo.b.call(h.FOR_EACH_MAP, [MapFd(name), lo.b.callback(function.name), 0, 0], "for_each_map_elem")


def _lower_find(lo: Lower, call: Call) -> Operand:
    """find(@m, k, $v): look up once, keep the value."""
    name, key = call.data["map"], call.data["key"]
    if must_run_first(key):
        key = evaluate_once(lo, key)
    ref = MapRef(call.span, name=name, key=key)
    ref.type = lo.unit.checked.maps[name].value
    target = call.args[2]
    assert isinstance(target, Variable)
    found = lo.b.function.reg("found")
    if id(target.slot) not in lo.state.variables or target.slot.span == target.span:  # declared here
        set_variable(lo, target, None)
    lo.b.set(found, 0)
    have, on = lo.b.block("have"), lo.b.block("on")
    with lo.region():
        maps.branch_on_key(lo, name, key, have, on)
        lo.b.start(have)
        set_variable(lo, target, ref)
        lo.b.set(found, 1)
    lo.b.start(on)
    return found


def _lower_memcmp(lo: Lower, call: Call) -> Operand:
    """0 if equal, else 1, or -1 where the first byte that differs is the smaller on the left."""
    length = call.data["length"]
    result = lo.b.function.reg("differs")
    with lo.scope():
        left, right = lo.temp(length), lo.temp(length)
        for side, copy in zip(call.args[:2], (left, right)):
            memory.copy_bytes(lo, _bytes_of(lo, side), copy, length)
        less, more, on = lo.b.block("less"), lo.b.block("more"), lo.b.block("on")
        lo.b.set(result, 0)
        at = 0
        while at < length:
            step = 8
            while step > length - at or (left.off + at) % step or (right.off + at) % step:
                step //= 2
            a, b = (lo.b.swap(lo.b.load(m.base, m.off + at, step), 8 * step) if step > 1
                    else lo.b.load(m.base, m.off + at, 1) for m in (left, right))  # the first byte counts most
            differ, same = lo.b.block("differ"), lo.b.block("same")
            lo.b.branch("jne", a, b, differ, same)
            lo.b.start(differ)
            lo.b.branch("jlt", a, b, less, more)
            lo.b.start(same)
            at += step
        lo.b.jump(on)
        lo.b.start(less)
        lo.b.set(result, -1)
        lo.b.jump(on)
        lo.b.start(more)
        lo.b.set(result, 1)
        lo.b.start(on)
    return result


def _bytes_of(lo: Lower, expr: Expr) -> Mem:
    """The memory that an array, buffer, string or pointer means."""
    if isinstance(expr.type, Pointer):
        return memory.locate_pointee(lo, lo.scalar_value(expr), expr.type, lo.context.default_space)
    if isinstance(expr.type, Int):
        space = memory.number_space(lo.context.default_space)
        return memory.locate_pointee(lo, lo.scalar_value(expr), Pointer(UINT8), space)
    place = lo.place_value(expr)
    return place.at(4) if isinstance(expr.type, Buf) else place


def _lower_container_of(lo: Lower, call: Call) -> Operand:
    return lo.b.alu("sub", as_number(lo, lo.scalar_value(call.args[0])), call.data["offset"])


def _lower_percpu_kaddr(lo: Lower, call: Call) -> Operand:
    """The variable's offset plus the CPU's base (__per_cpu_offset[cpu])."""
    table = lo.world.kernel_symbol("__per_cpu_offset")
    number = lo.scalar_value(call.args[1]) if len(call.args) > 1 else builtins.cpu_number(lo)
    at = lo.b.alu("add", lo.b.mov(_as_signed(table or 0)), lo.b.alu("lsh", number, 3))
    base = memory.read_scalar(lo, Mem(at, 0, KERNEL), UINT64)
    found = lo.b.alu("add", base, _as_signed(call.data["address"]))
    if len(call.args) < 2:
        return found
    result = lo.b.function.reg("percpu")  # there is no such CPU: NULL
    lo.select(result, lambda yes, no: lo.b.branch("jlt", number, lo.world.cpus, yes, no), lambda: found, lambda: 0)
    return result


def _as_signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _lower_uaddr(lo: Lower, call: Call) -> Operand:
    """Address of a symbol of the probed file, which follows from where the probe fired."""
    return lo.b.alu("add", builtins.traced_address(lo), call.data["distance"])


def _lower_reg(lo: Lower, call: Call) -> Operand:
    name = call.data["register"]
    return lo.context.register(lo, arch_of(lo).registers[name])  # type: ignore[no-any-return]


def _lower_socket_cookie(lo: Lower, call: Call) -> Operand:
    return lo.b.call(h.SOCKET_COOKIE, [lo.scalar_value(call.args[0])], "socket_cookie")


SCALAR_CALLS: dict[str, Callable[[Lower, Call], Operand]] = {
    "delete": _lower_delete, "bswap": _lower_bswap, "len": _lower_len, "find": _lower_find,
    "strncmp": _load_later("text", "lower_strncmp"), "strstr": _load_later("text", "lower_strstr"),
    "strlen": _load_later("text", "lower_strlen"), "memcmp": _lower_memcmp, "kptr": _first_argument,
    "uptr": _first_argument, "container_of": _lower_container_of, "percpu_kaddr": _lower_percpu_kaddr,
    "reg": _lower_reg, "uaddr": _lower_uaddr, "socket_cookie": _lower_socket_cookie, "ksym": _first_argument,
    "skboutput": _load_later("actions", "lower_skboutput"), "write_user": _load_later("actions", "lower_write_user"),
    "strerror": _first_argument, "signal_name": _first_argument, "syscall_name": _first_argument,
    "cgroup_path": _first_argument,
}


# --- conditions -------------------------------------------------------------------------------------------


def _branch_on_key(lo: Lower, call: Call, yes: Block, no: Block) -> None:
    maps.branch_on_key(lo, call.data["map"], call.data["key"], yes, no)


CONDITION_CALLS: dict[str, Callable[[Lower, Call, Block, Block], None]] = {
    "has_key": _branch_on_key, "strcontains": _load_later("text", "branch_on_strcontains"),
    "globmatch": _load_later("text", "branch_on_globmatch"), "one_of": _load_later("text", "branch_on_one_of"),
}


# --- strings ----------------------------------------------------------------------------------------------


def _write_str(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> None:
    """str(p[, n]): read into place; n cuts at run time too."""
    source = call.args[0]
    fixed = len(call.args) < 2 or isinstance(call.args[1].const, int)
    if isinstance(source.type, Str) or isinstance(source.type, Array) and not isinstance(source.type, Scalar):
        place = lo.place_value(source)
        if fixed and (place.space in ("bpf", "ctx") or place.btf):
            _copy_text(lo, place, source.type.size, mem, type, pad)
            return
        address: Operand = lo.operand_address(place)
        space = place.space
    else:
        address = lo.scalar_value(source)
        space = source.type.space or lo.context.default_space if isinstance(source.type, Pointer) \
            else memory.number_space(lo.context.default_space)
    if pad:
        memory.clear_bytes(lo, mem, type.capacity)
    elif not fixed:
        lo.b.store(mem.base, mem.off, 0, 1)  # a length of 0 leaves the memory as it was
    size = type.capacity if fixed else _length_operand(lo, call, type)
    result, name = memory.read_memory(lo, space, mem, size, address, text=True)
    failed, on = lo.b.block("failed", cold=True), lo.b.block("on")
    lo.b.branch("jslt", result, 0, failed, on)
    lo.b.start(failed)
    lo.b.store(mem.base, mem.off, 0, 1)
    lo.count_error("read", name)
    lo.b.jump(on)
    lo.b.start(on)


def _copy_text(lo: Lower, place: Mem, have: int, mem: Mem, type: Str, pad: bool) -> None:
    size = min(have, type.capacity)
    memory.copy_bytes(lo, place, mem, size)
    if have >= type.capacity:
        lo.b.store(mem.base, mem.off + type.capacity - 1, 0, 1)
    elif pad:
        memory.clear_bytes(lo, mem.at(size), type.capacity - size)
    else:
        lo.b.store(mem.base, mem.off + size, 0, 1)


def _length_operand(lo: Lower, call: Call, type: Str) -> Operand:
    """Bytes to read, the NUL included: a length known at run time, cut to the capacity."""
    wanted = lo.scalar_value(call.args[1])
    size = lo.b.function.reg("size")
    lo.b.set(size, type.capacity)
    shorter, on = lo.b.block("shorter"), lo.b.block("on")
    lo.b.branch("jlt", wanted, type.capacity, shorter, on)
    lo.b.start(shorter)
    lo.b.set(size, wanted)
    lo.b.start(on)
    bound = lo.b.block("bound")
    again = lo.b.block("again", cold=True)
    lo.b.branch("jle", size, type.capacity, bound, again)
    lo.b.start(again)
    lo.b.set(size, type.capacity)
    lo.b.start(bound)
    return size


def _write_path(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> None:
    if pad:
        memory.clear_bytes(lo, mem, type.capacity)
    source = call.args[0]
    address = lo.scalar_value(source) if isinstance(source.type, Pointer) else \
        lo.operand_address(lo.place_value(source))
    result = lo.b.call(h.D_PATH, [address, lo.operand_address(mem), type.capacity], "d_path")
    lo.on_failure(result, "helper", "d_path")


STRING_CALLS: dict[str, Callable[[Lower, Call, Mem, Str, bool], None]] = {
    "str": _write_str, "path": _write_path, "str_concat": _load_later("text", "write_str_concat"),
    "str_join": _load_later("text", "write_str_join")}


# --- other values -----------------------------------------------------------------------------------------


def _write_stack(lo: Lower, node: Expr, mem: Mem, type: Type) -> None:
    assert isinstance(node.type, Stack)
    if isinstance(node.type, StackCopy):
        stacks.write_copy(lo, node.type, mem)
    else:
        stacks.write_stack(lo, node.type, mem)


def _write_usym(lo: Lower, node: Expr, mem: Mem, type: Type) -> None:
    """Address, tgid, probe."""
    value = lo.scalar_value(node.args[0]) if isinstance(node, Call) and node.args else builtins.traced_address(lo)
    lo.b.store(mem.base, mem.off, value)
    lo.b.store(mem.base, mem.off + 8, builtins.process_id(lo), 4)
    lo.b.store(mem.base, mem.off + 12, 0, 4)


def _write_ntop(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    """Family, then the address's bytes, the rest zero."""
    address, family = call.data["address"], call.data["family"]
    assert isinstance(type, Inet)
    memory.clear_bytes(lo, mem.at(4), 16)
    lo.b.store(mem.base, mem.off, family or lo.scalar_value(call.data["af"]), 4)
    if isinstance(address.type, Scalar):
        lo.b.store(mem.base, mem.off + 4, lo.scalar_value(address), 4)
        return
    size = address.type.size
    place = lo.place_value(address)
    if family == 2:
        size = 4
    memory.copy_bytes(lo, place, mem.at(4), size, 4)


def _write_pton(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    for offset, byte in enumerate(call.data["bytes"]):
        lo.b.store(mem.base, mem.off + offset, byte, 1)


def _write_macaddr(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    assert isinstance(type, MacAddr)
    memory.copy_bytes(lo, _bytes_of(lo, call.args[0]), mem, 6, 2)


def _write_strftime(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    lo.b.store(mem.base, mem.off, lo.scalar_value(call.args[1]))


def _write_buf(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    """u32 length, then the bytes."""
    assert isinstance(type, Buf) and isinstance(call.type, Buf)
    place = _bytes_of(lo, call.args[0])
    most = min(type.capacity, call.type.capacity)  # its place may have room for more
    length = call.args[1].const if len(call.args) > 1 else most
    if not isinstance(length, int):
        memory.clear_bytes(lo, mem.at(4), type.capacity)
        size = _cut_length(lo, lo.scalar_value(call.args[1]), most)
        lo.b.store(mem.base, mem.off, size, 4)
        memory.read_bytes(lo, place, size, mem.at(4))
        return
    most = min(most, length)
    lo.b.store(mem.base, mem.off, most, 4)
    memory.copy_bytes(lo, place, mem.at(4), most, 4)
    if most < type.capacity:
        memory.clear_bytes(lo, mem.at(4 + most), type.capacity - most)


def _cut_length(lo: Lower, value: Operand, most: int) -> Operand:
    size = lo.b.function.reg("size")
    lo.b.set(size, value)
    long, on = lo.b.block("long"), lo.b.block("on")
    lo.b.branch("jle", size, most, on, long)
    lo.b.start(long)
    lo.b.set(size, most)
    lo.b.start(on)
    return size


def _write_constants(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    """A record of literals."""
    record = TupleExpr(call.span, items=call.data)
    record.type = call.type
    lo.write_value(record, mem, type)


def _write_config(lo: Lower, node: Expr, mem: Mem, type: Type) -> None:
    """The configuration variables."""
    assert isinstance(type, Tuple)
    memory.clear_bytes(lo, mem, type.size)
    for value, part, offset in zip(lo.unit.config.values(), type.of, type.offsets):
        if isinstance(part, Str):
            write_literal(lo, value.encode(), mem.at(offset), part.capacity, False)
        else:
            lo.store_value(mem.at(offset), part, int(value))


VALUE_CALLS: dict[str, Callable[[Lower, Any, Mem, Type], None]] = {
    "kstack": _write_stack, "ustack": _write_stack, "dw_ustack": _write_stack, "usym": _write_usym,
    "func": _write_usym, "ntop": _write_ntop, "pton": _write_pton, "macaddr": _write_macaddr,
    "strftime": _write_strftime, "buf": _write_buf, "typeinfo": _write_constants, "config": _write_config,
}
