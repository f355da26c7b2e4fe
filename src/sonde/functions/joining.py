"""Texts joined: those of an array, printed or as a string, and one after another."""

from __future__ import annotations

from ..base.fast_stdlib import contextmanager
from ..compiler import helpers as h
from ..compiler.ir import Operand, Reg
from ..compiler.lower import memory, records
from ..compiler.lower.arithmetic import as_number
from ..compiler.lower.calls import Function
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..compiler.lower.strings.texts import capacity_of, plain_memory
from ..language.ast import (
    Call,
)
from ..semantics import convert
from ..semantics.callees import Types, value_type
from ..semantics.context import CheckContext
from ..semantics.expressions import MAX_STRING
from ..spec import EventSite
from ..types import (
    KERNEL,
    USER,
    VOID,
    Array,
    Buf,
    Pointer,
    Str,
    Type,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def check_join(context: CheckContext, node: Call, types: Types) -> Type | None:
    given = value_type(types[0])
    element = given.to if isinstance(given, Pointer) else given.of if isinstance(given, Array) else None
    if not isinstance(element, (Pointer, Array)) and convert.as_int(given) is None:
        context.error("bad-argument", f"join() expects an array of strings ({convert.type_name(given)} provided)",
                      node.args[0])
        return None
    return VOID


def _separator(call: Call) -> str:
    return str(call.args[1].const) if len(call.args) > 1 else " "


PRINTED, PRINTED_SIZE = 16, 1024  # strings that join() prints, and bytes of each


def _lower_join(lo: Lower, call: Call) -> None:
    """Read char *[] until NULL: up to 16 strings, NUL-separated, into one Buf."""
    limit = min(lo.unit.config.max_strlen, PRINTED_SIZE)
    capacity = PRINTED * limit
    fields, size = records.lay_out_fields([Buf(capacity)])
    array = lo.scalar_value(call.args[0])
    space = call.args[0].type.space if isinstance(call.args[0].type, Pointer) else ""
    user = (space or lo.context.default_space) == USER
    site = EventSite("join", lo.b.span, fields, size, [], {"separator": _separator(call)})
    reserved = records.reserve_record(lo, site)
    text = reserved.mem.at(fields[0].offset + 4)
    used = lo.b.function.reg("used")
    lo.b.set(used, 0)
    done = lo.b.block("joined")
    with lo.region(), lo.scope():
        pointer = lo.temp(8)
        for index in range(PRINTED):
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


# --- one text of several --------------------------------------------------------------------------------

PATIENCE = 8  # passes after which a string that still grows is assumed to feed itself

def check_str_concat(context: CheckContext, node: Call, types: Types) -> Type | None:
    capacity = 1 + sum(type.capacity - 1 for type in types if isinstance(type, Str))
    if all(isinstance(arg.const, str) for arg in node.args):
        node.const = "".join([arg.const for arg in node.args])
        capacity = len(node.const.encode("utf-8", "surrogateescape")) + 1
    elif context.passes > PATIENCE and isinstance(node.type, Str) and capacity > node.type.capacity:
        capacity = max(node.type.capacity, context.config.text_size)  # $s = str_concat($s, ...) would grow for ever
    return Str(min(capacity, MAX_STRING))


def write_str_concat(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> Operand:
    """Each text is copied to where the one before it ended; a string read stops at its NUL."""
    if pad:
        memory.clear_bytes(lo, mem, type.capacity)
    else:
        lo.b.store(mem.base, mem.off, 0, 1)
    with lo.scope():
        whole = lo.temp(sum(capacity_of(arg) for arg in call.args))
        memory.clear_bytes(lo, whole, 8)
        used = lo.b.function.reg("used")
        lo.b.set(used, 0)
        room = 0
        for arg in call.args:
            text = plain_memory(lo, lo.place_value(arg), capacity_of(arg))
            _append_text(lo, whole, used, room, text, capacity_of(arg))
            room += capacity_of(arg) - 1
        return lo.b.call(h.READ_KERNEL_STR, [lo.operand_address(mem), type.capacity, lo.operand_address(whole)],
                         "probe_read_kernel_str")


def _append_text(lo: Lower, whole: Mem, used: Reg, room: int, text: Mem, capacity: int) -> None:
    """``used`` is at most ``room`` before, and grows by the characters of the text."""
    with remaining_room(lo, whole, used, room) as target:
        length, _ = memory.read_memory(lo, KERNEL, target, capacity, lo.operand_address(text), text=True)
        advance_length(lo, used, length)


@contextmanager
def remaining_room(lo: Lower, whole: Mem, used: Reg, room: int) -> Iterator[Mem]:
    """The memory for the next text, if ``used`` is at most ``room``."""
    fits, on = lo.b.block("fits"), lo.b.block("on")
    lo.b.branch("jle", used, room, fits, on)  # where it always is, the verifier needs the check
    lo.b.start(fits)
    yield Mem(lo.b.alu("add", lo.b.address(whole.base, whole.off), used))
    lo.b.jump(on)
    lo.b.start(on)


def advance_length(lo: Lower, used: Reg, length: Operand) -> None:
    """Advance by the characters of a text whose ``length`` counts its NUL; a negative one means that nothing could be
    read."""
    read, on = lo.b.block("read"), lo.b.block("grown")
    lo.b.branch("jsgt", length, 0, read, on)
    lo.b.start(read)
    lo.b.set(used, lo.b.alu("sub", lo.b.alu("add", used, lo.b.extend(length, 32, False)), 1))
    lo.b.jump(on)
    lo.b.start(on)


def check_str_join(context: CheckContext, node: Call, types: Types) -> Type | None:
    """The result is as long as str()'s, so that one that was cut is marked in the same way."""
    return None if check_join(context, node, types) is None else Str(context.config.text_size)

JOINED = 20  # strings that str_join() joins

def write_str_join(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> Operand:
    """The strings of a char *[] until its NULL, each after the separator; "..." stands for those beyond."""
    if pad:
        memory.clear_bytes(lo, mem, type.capacity)
    source, own = call.args[0].type, lo.context.default_space
    space = source.space or own if isinstance(source, Pointer) else memory.number_space(own)
    separator, more = _separator(call).encode("utf-8", "surrogateescape"), b"..."
    done = lo.b.block("joined")
    with lo.scope():
        array = lo.b.mov(lo.scalar_value(call.args[0]))
        whole, element = lo.temp(type.capacity + max(type.capacity, len(separator) + len(more) + 1)), lo.temp(8)
        lo.b.store(whole.base, whole.off, 0, 1)
        used = lo.b.function.reg("used")
        lo.b.set(used, 0)
        for index in range(JOINED + 1):
            read, have = lo.b.block("ok"), lo.b.block("have")
            result, name = memory.read_memory(lo, space, element, 8, lo.b.alu("add", array, 8 * index))
            failed = lo.b.block("failed", cold=True)
            lo.b.branch("jeq", result, 0, read, failed)
            lo.b.start(failed)
            lo.count_error("read", name)
            lo.b.jump(done)
            lo.b.start(read)
            address = lo.b.load(element.base, element.off)
            lo.b.branch("jeq", address, 0, done, have)
            lo.b.start(have)
            with remaining_room(lo, whole, used, type.capacity) as target:
                before = separator if index else b""
                for at, byte in enumerate(before + (more if index == JOINED else b"") + b"\0"):
                    lo.b.store(target.base, target.off + at, byte, 1)
                if index < JOINED:
                    length, _ = memory.read_memory(lo, space, target.at(len(before)), type.capacity - len(before),
                                                   address, text=True)
                    advance_length(lo, used, length)
                    lo.b.set(used, lo.b.alu("add", used, len(before)))
        lo.b.jump(done)
        lo.b.start(done)
        return lo.b.call(h.READ_KERNEL_STR, [lo.operand_address(mem), type.capacity, lo.operand_address(whole)],
                         "probe_read_kernel_str")

MOST_WORDS = 64  # strings that words() takes


def check_words(context: CheckContext, node: Call, types: Types) -> Type | None:
    """As many bytes as str() has characters."""
    most = node.args[1].const if len(node.args) > 1 else JOINED
    if not isinstance(most, int) or not 0 < most <= MOST_WORDS:
        context.error("bad-argument", f"words() takes a constant number of strings, from 1 to {MOST_WORDS}", node)
        return None
    return None if check_join(context, node, types) is None else Buf(context.config.text_size)


def write_words(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    """u32 length, then the strings of a char *[] up to its NULL, each with its NUL: what has none was cut."""
    assert isinstance(type, Buf)
    most = call.args[1].const if len(call.args) > 1 else JOINED
    assert isinstance(most, int)
    source, own = call.args[0].type, lo.context.default_space
    space = source.space or own if isinstance(source, Pointer) else memory.number_space(own)
    done, short, long = lo.b.block("joined"), lo.b.block("short"), lo.b.block("long")
    with lo.scope():
        array = lo.b.mov(lo.scalar_value(call.args[0]))
        whole, element = lo.temp(2 * type.capacity), lo.temp(8)
        memory.clear_bytes(lo, whole, type.capacity)
        used = lo.b.function.reg("used")
        lo.b.set(used, 0)
        for index in range(most):
            read, have = lo.b.block("ok"), lo.b.block("have")
            result, name = memory.read_memory(lo, space, element, 8, lo.b.alu("add", array, 8 * index))
            lo.on_failure(result, "read", name)
            lo.b.branch("jeq", result, 0, read, done)
            lo.b.start(read)
            address = lo.b.load(element.base, element.off)
            lo.b.branch("jeq", address, 0, done, have)
            lo.b.start(have)
            with remaining_room(lo, whole, used, type.capacity - 1) as target:
                length, name = memory.read_memory(lo, space, target, type.capacity, address, text=True)
                lo.on_failure(length, "read", name)
                advance_length(lo, used, length)
                lo.b.set(used, lo.b.alu("add", used, 1))
        lo.b.jump(done)
        lo.b.start(done)
        lo.b.branch("jle", used, type.capacity, short, long)
        lo.b.start(long)
        lo.b.set(used, type.capacity)
        lo.b.start(short)
        lo.b.store(mem.base, mem.off, used, 4)
        memory.copy_bytes(lo, whole, mem.at(4), type.capacity, 4)


ROWS = (
    Function("words", ("array:ptr|array|int", "most:integer?"), None,
             "An array of strings as one buffer, each with its NUL, for %rq; twenty unless `most` is given.",
             'printf("%rq", words(args.argv))', check_words, value=write_words),
    Function("join", ("array:ptr|array|int", "separator:literal?"), VOID, "Print an array of strings.",
             "join(args.argv)", check_join, sends="data", statement=_lower_join),
    Function("str_join", ("array:ptr|array|int", "separator:literal?"), None,
             "An array of strings as one, as join() prints it; twenty at most.", 'str_join(args.argv)', check_str_join,
             text=write_str_join),
    Function("str_concat", ("text:text", "more:text"), None, "Two strings as one.", 'str_concat(comm, "!")',
             check_str_concat, cost=150, macro=True, text=write_str_concat),
)
