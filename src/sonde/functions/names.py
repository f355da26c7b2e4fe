"""Names for numbers: symbols, errors, signals, control groups."""

from __future__ import annotations

from ..compiler.ir import MapAddr, Operand, Reg
from ..compiler.lower import memory, tasks
from ..compiler.lower.calls import Function, first_argument
from ..compiler.lower.core import Lower
from ..compiler.lower.probes.compat import branch_on_compat, sees_compat_calls
from ..compiler.lower.state import Mem
from ..language.ast import (
    Call,
)
from ..layouts.c_library_texts import COMPAT_FROM, TEXT_BYTES, list_compat_texts, list_texts, text_table
from ..semantics.callees import Types
from ..semantics.context import CheckContext, fold_constant
from ..types import (
    UINT64,
    Str,
    Symbol,
    Type,
    USym,
)


def _write_usym(lo: Lower, call: Call, mem: Mem, type: Type) -> None:
    tasks.write_user_symbol(lo, lo.scalar_value(call.args[0]), mem)


def _library_index(lo: Lower, call: Call) -> Operand:
    """The index of a number's text in a function's table, also for a number without a text."""
    last = len(list_texts(call.name, lo.world.arch)) - 1
    index = lo.b.function.reg("index")
    lo.b.set(index, lo.b.extend(lo.scalar_value(call.args[0]), 32, True))
    if call.name == "strerror":
        negative, on = lo.b.block("negative"), lo.b.block("on")
        lo.b.branch("jslt", index, 0, negative, on)
        lo.b.start(negative)
        lo.b.set(index, lo.b.neg(index))
        lo.b.jump(on)
        lo.b.start(on)
    named = lo.b.block("named")
    if call.name == "syscall_name" and call.args[0].const is None and sees_compat_calls(lo.unit, lo.attach):
        native, compat = lo.b.block("native"), lo.b.block("compat", cold=True)
        branch_on_compat(lo, native, compat)
        lo.b.start(compat)
        _limit(lo, index, len(list_compat_texts(lo.world.arch)) - 1)
        lo.b.set(index, lo.b.alu("add", index, COMPAT_FROM))
        lo.b.jump(named)
        lo.b.start(native)
    _limit(lo, index, last)
    lo.b.jump(named)
    lo.b.start(named)
    return index


def _limit(lo: Lower, index: Reg, last: int) -> None:
    """The number, or for one beyond the last text, the last text's."""
    unknown, known = lo.b.block("unknown"), lo.b.block("known")
    lo.b.branch("jgt", index, last, unknown, known)
    lo.b.start(unknown)
    lo.b.set(index, last)
    lo.b.jump(known)
    lo.b.start(known)


def _write_library_text(lo: Lower, call: Call, mem: Mem, type: Str, pad: bool) -> None:
    """Copy the text from a table of all of them."""
    index = _library_index(lo, call)
    table = lo.b.address(MapAddr(lo.unit.text_table(call.name, text_table(call.name, lo.world.arch))))
    text = Mem(lo.b.alu("add", table, lo.b.alu("mul", index, TEXT_BYTES)))
    memory.copy_bytes(lo, text, mem, min(type.capacity, TEXT_BYTES))
    if type.capacity < TEXT_BYTES:
        lo.b.store(mem.base, mem.off + type.capacity - 1, 0, 1)


def check_cgroup_path(context: CheckContext, node: Call, types: Types) -> Type:
    if context.world.cgroup_id("/") is None:
        context.warning("no-cgroups", "cgroup_path() is empty here: it names control groups of version 2, and there "
                        "are none", node, ["mount -t cgroup2 none /sys/fs/cgroup"])
    return Symbol("cgroup_path", node.args[1].const if len(node.args) > 1 else "")


def check_cgroupid(context: CheckContext, node: Call, types: Types) -> Type | None:
    cgroup = context.world.cgroup_id(node.args[0].const)
    if cgroup is None:
        context.error("unknown-cgroup", f"No cgroup at '{node.args[0].const}'", node.args[0],
                      ["only those of version 2 have ids, and none is mounted: mount -t cgroup2 none /sys/fs/cgroup"]
                      if context.world.cgroup_id("/") is None else [])
        return None
    return fold_constant(node, cgroup, UINT64)



_NO_CODE = 'Cannot cast from "{type}" to "int32"'

ROWS = (
    Function("ksym", ("address:int|ptr",), Symbol("ksym"), "Kernel symbol of an address.", "ksym(args.location)",
             wrong={"address": "ksym() expects an integer or pointer argument"}, scalar=first_argument),
    Function("usym", ("address:int|ptr",), USym(), "User symbol of an address.", 'usym(reg("ip"))',
             wrong={"address": "usym() expects an integer or pointer argument"}, value=_write_usym),
    Function("strerror", ("error:int|bool|ptr",), Str(TEXT_BYTES), "Text of an error number.",
             "strerror(-args.ret)", wrong={"error": _NO_CODE}, macro=True, scalar=_library_index,
             text=_write_library_text),
    Function("signal_name", ("signal:int|bool|ptr",), Str(TEXT_BYTES), "Name of a signal.",
             "signal_name(args.sig)", wrong={"signal": _NO_CODE}, macro=True, scalar=_library_index,
             text=_write_library_text),
    Function("syscall_name", ("number:int|bool|ptr",), Str(TEXT_BYTES), "Name of a system call.",
             "syscall_name(args.id)", wrong={"number": _NO_CODE}, macro=True, scalar=_library_index,
             text=_write_library_text),
    Function("cgroup_path", ("id:int", "filter:literal?"), None, "Path of a cgroup id.", "cgroup_path(cgroup)",
             wrong={"filter": "cgroup_path() only supports string arguments ({given} provided)"},
             rule=check_cgroup_path,
             scalar=first_argument),
    Function("cgroupid", ("path:literal",), None, "Id of a cgroup's path.", 'cgroupid("/sys/fs/cgroup/user.slice")',
             check_cgroupid, machine=True),
)
