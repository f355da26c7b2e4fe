"""Go's error values as texts: the type of each, and the strings that some types begin with.

An error is two words: the table of an interface (abi.ITab in internal/abi of Go), and where the value is. The table
points to the value's type (abi.Type), which has its name as an offset from where all types begin (runtime.types): a
byte of flags, the length as a varint, the text. All of it is the program's memory: what is read is bounded.
"""

from __future__ import annotations

from ..compiler import helpers as h
from ..compiler.ir import Operand, Reg
from ..compiler.lower import memory
from ..compiler.lower.core import Lower
from ..compiler.lower.state import Mem
from ..compiler.lower.tasks import traced_address
from ..language.ast import Call, Choice
from ..semantics.context import CheckContext
from ..semantics.go_types import types_distance
from ..types import UINT8, UINT64, USER, Int, Scalar, Str, Type
from .joining import advance_length, remaining_room

_TYPE, _FLAGS, _NAME = 8, 20, 40  # in abi.ITab and abi.Type
_STAR = 1                         # bit of the flags: the name has a * before it that is not its own
_MOST_NAME, _MOST_TEXT = 64, 128  # bytes with a NUL
_JOINTS = (": ", " ")             # before the first string, and the second

# Types that begin with strings that say something, and with how many. Others are shown by their names alone.
STRINGS = {
    "*errors.errorString": 1, "*fmt.wrapError": 1, "*fmt.wrapErrors": 1, "*errors.fundamental": 1,
    "*os.SyscallError": 1, "*exec.Error": 1, "*fs.PathError": 2, "*url.Error": 2, "*net.OpError": 2,
    "*strconv.NumError": 2,
}
CAPACITY = _MOST_NAME + 2 * _MOST_TEXT + sum(map(len, _JOINTS))


class ErrorTypes(Choice):
    """How far from the traced function the program's types begin."""

    distance: int


def check_error(context: CheckContext, node: Call) -> Type | None:
    """str() of an error."""
    distance = types_distance(context.world, context.program.attach)
    if distance is None:
        context.error("bad-argument", f"there is no telling where the types of {context.program.attach.target} are, of "
                      "which an error is one", node, ["its symbol runtime.types says it"])
        return None
    node.choice = ErrorTypes(distance)
    return Str(min(CAPACITY, context.config.text_size))


def write_error(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> Operand:
    """``*errors.errorString: the text``, or ``nil``."""
    assert isinstance(call.choice, ErrorTypes)
    if pad:
        memory.clear_bytes(lo, mem, type.capacity)
    value = lo.place_value(call.args[0])
    table, data = memory.read_scalar(lo, value, UINT64), memory.read_scalar(lo, value.at(8), UINT64)
    types = lo.b.alu("add", traced_address(lo), call.choice.distance)
    with lo.scope():
        whole = lo.temp(CAPACITY)
        memory.clear_bytes(lo, whole, CAPACITY)
        nil, some, done = lo.b.block("nil"), lo.b.block("some"), lo.b.block("done")
        lo.b.branch("jeq", table, 0, nil, some)
        lo.b.start(nil)
        lo.b.store(whole.base, whole.off, int.from_bytes(b"nil\0", lo.byte_order), 4)
        lo.b.jump(done)
        lo.b.start(some)
        _write_parts(lo, whole, _user(lo, table, _TYPE, UINT64), data, types)
        lo.b.jump(done)
        lo.b.start(done)
        return lo.b.call(h.READ_KERNEL_STR, [lo.operand_address(mem), type.capacity, lo.operand_address(whole)],
                         "probe_read_kernel_str")


def _write_parts(lo: Lower, whole: Mem, kind: Operand, data: Operand, types: Operand) -> None:
    used = lo.b.function.reg("used")
    lo.b.set(used, 0)
    _append(lo, whole, used, 0, *_name_of(lo, kind, types), _MOST_NAME)
    _mark_unread(lo, whole, used)
    strings = _count_strings(lo, whole)
    room = _MOST_NAME - 1
    for number, joint in enumerate(_JOINTS):
        more, on = lo.b.block("more"), lo.b.block("told")
        lo.b.branch("jgt", strings, number, more, on)
        lo.b.start(more)
        _append_joint(lo, whole, used, room, joint)
        at, size = _user(lo, data, 16 * number, UINT64), _user(lo, data, 16 * number + 8, UINT64)
        _append(lo, whole, used, room + len(joint), at, size, _MOST_TEXT)
        lo.b.jump(on)
        lo.b.start(on)
        room += len(joint) + _MOST_TEXT - 1


def _mark_unread(lo: Lower, whole: Mem, used: Reg) -> None:
    """A ? for the name that could not be read: most often it is in a page that the program has not used yet."""
    unread, on = lo.b.block("unread"), lo.b.block("on")
    lo.b.branch("jeq", used, 0, unread, on)
    lo.b.start(unread)
    lo.b.store(whole.base, whole.off, ord("?"), 1)
    lo.b.set(used, 1)
    lo.b.jump(on)
    lo.b.start(on)


def _name_of(lo: Lower, kind: Operand, types: Operand) -> tuple[Operand, Operand]:
    """Where the name of a type is, and its length."""
    name = lo.b.alu("add", types, _user(lo, kind, _NAME, Int(32)))
    first, second = _user(lo, name, 1, UINT8), _user(lo, name, 2, UINT8)
    star = lo.b.alu("and", lo.b.alu("rsh", _user(lo, kind, _FLAGS, UINT8), _STAR), 1)
    long = lo.b.alu("rsh", first, 7)  # the varint has a second byte
    high = lo.b.alu("mul", long, lo.b.alu("lsh", lo.b.alu("and", second, 0x7F), 7))
    size = lo.b.alu("sub", lo.b.alu("add", lo.b.alu("and", first, 0x7F), high), star)
    text = lo.b.alu("add", lo.b.alu("add", name, 2), lo.b.alu("add", long, star))
    return text, size


def _count_strings(lo: Lower, whole: Mem) -> Reg:
    """How many strings a type of that name begins with, as far as it is known."""
    strings, known = lo.b.function.reg("strings"), lo.b.block("known")
    for name, count in STRINGS.items():
        lo.b.set(strings, count)
        text, other = name.encode() + bytes(8 - len(name) % 8), lo.b.block("other")
        for at in range(0, len(text), 8):
            same = lo.b.block("same")
            lo.b.branch("jeq", lo.b.load(whole.base, whole.off + at), int.from_bytes(text[at:at + 8], lo.byte_order),
                        same, other)
            lo.b.start(same)
        lo.b.jump(known)
        lo.b.start(other)
    lo.b.set(strings, 0)
    lo.b.jump(known)
    lo.b.start(known)
    return strings


def _append(lo: Lower, whole: Mem, used: Reg, room: int, address: Operand, size: Operand, most: int) -> None:
    """So many bytes of a text, ``most`` with a NUL, after the ``used`` ones, which are ``room`` at most."""
    count, fits, cut, on = lo.b.function.reg("count"), lo.b.block("fits"), lo.b.block("cut"), lo.b.block("on")
    lo.b.set(count, most)
    lo.b.branch("jlt", size, most - 1, fits, cut)
    lo.b.start(fits)
    lo.b.set(count, lo.b.alu("add", size, 1))
    lo.b.jump(cut)
    lo.b.start(cut)
    with remaining_room(lo, whole, used, room) as target:
        length, _ = memory.read_memory(lo, USER, target, count, address, text=True)
        advance_length(lo, used, length)
    lo.b.jump(on)
    lo.b.start(on)


def _append_joint(lo: Lower, whole: Mem, used: Reg, room: int, joint: str) -> None:
    with remaining_room(lo, whole, used, room) as target:
        for at, byte in enumerate(joint.encode()):
            lo.b.store(target.base, target.off + at, byte, 1)
        lo.b.set(used, lo.b.alu("add", used, len(joint)))


def _user(lo: Lower, base: Operand, offset: int, type: Scalar) -> Operand:
    register = base if isinstance(base, Reg) else lo.b.alu("add", base, 0)
    return memory.read_scalar(lo, Mem(register, offset, USER), type)
