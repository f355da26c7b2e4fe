"""What acts on the traced system, and the end of the trace."""

from __future__ import annotations

from ..base.numbers import parse_whole
from ..compiler import helpers as h
from ..compiler.ir import MapAddr, Operand
from ..compiler.lower import records
from ..compiler.lower.calls import Function
from ..compiler.lower.core import Lower
from ..kinds import kinds_with
from ..language.ast import (
    Call,
    Choice,
)
from ..semantics.callees import Types, choice_of
from ..semantics.constants import signal_number
from ..semantics.context import CheckContext
from ..types import (
    BPF,
    INT64,
    NOTHING,
    VOID,
    Pointer,
    Type,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _lower_exit(lo: Lower, call: Call) -> None:
    records.send_control_record(lo, "exit", {}, lo.scalar_value(call.args[0]) if call.args else 0)
    if lo.unit.stops_at_exit:
        lo.b.store(lo.unit.global_word("exiting"), 0, 1)
    lo.leave_program()


# --- the flight recorder --------------------------------------------------------------------------------


def check_dump(context: CheckContext, node: Call, types: Types) -> Type | None:
    context.report_unstable(node, "dump", context.config.unstable_dump)
    if not context.options.flight:
        context.warning("no-flight", "dump() does nothing here: there is no flight recorder", node,
                        ["--flight 30s keeps what the script sends, for dump() to give out"])
    return VOID


def _lower_dump(lo: Lower, call: Call) -> None:
    """Ask for a dump, unless one has been asked for since user space last reset ``dump_requested`` to 0."""
    if not lo.unit.options.flight:
        return
    pending = lo.unit.global_word("dump_requested")
    ask, held, on = [lo.b.block(name) for name in ("ask", "held", "asked")]
    lo.b.branch("jeq", lo.b.load(pending, 0), 0, ask, held)
    lo.b.start(ask)
    lo.b.store(lo.b.address(pending), 0, 1)
    records.send_control_record(lo, "dump", {"why": str(call.args[0].const) if call.args else ""})
    lo.b.jump(on)
    lo.b.start(held)
    lo.b.atomic_add(lo.b.address(lo.unit.global_word("dumps_held")), 0, 1)
    lo.b.start(on)


# --- signals --------------------------------------------------------------------------------------------


_SIGNALLING = kinds_with("signals")
_NOT_SIGNALLING = {"probe": "{name}() can not be used for this probetype {type}"}


class Signal(Choice):
    """The signal to send; None if it is known only at run time."""

    number: int | None


def check_signal(context: CheckContext, node: Call, types: Types) -> Type | None:
    given = node.args[0].const
    if isinstance(given, str):
        number = parse_whole(given) if given.isdigit() else signal_number(given)
        if number is None:
            context.error("bad-argument", f"Invalid string for signal: {given}", node.args[0])
            return None
        given = number
    if isinstance(given, int) and not 0 < given < 65:
        context.error("bad-argument", "signal() accepts a string literal or an integer between 1 and 64 (inclusive)",
                      node.args[0])
        return None
    node.choice = Signal(given)
    return NOTHING


def _signal_sender(helper: int) -> Callable[[Lower, Call], None]:
    def lower(lo: Lower, call: Call) -> None:
        number = choice_of(call, Signal).number
        value = number if number is not None else lo.scalar_value(call.args[0])
        lo.on_failure(lo.b.call(helper, [value], "send_signal"), "helper", "send_signal")
    return lower


# --- memory and results ---------------------------------------------------------------------------------


class UserWrite(Choice):
    """How many bytes are written, and whether the value is the address of the data: a pointer into BPF memory."""

    length: int
    by_address: bool


def check_write_user(context: CheckContext, node: Call, types: Types) -> Type | None:
    source = types[1]
    assert source is not None
    if not context.world.has_feature("write_user"):
        context.error("missing-feature", "this kernel lets no program write user memory", node,
                      ["it may be locked down: /sys/kernel/security/lockdown"])
        return None
    by_address = isinstance(source, Pointer) and source.space == BPF
    size = source.to.size if isinstance(source, Pointer) and by_address else source.size
    length = node.args[2].const if len(node.args) > 2 else size
    if not 0 < length <= size:
        context.error("bad-argument", f"write_user: length must be between 1 and {size}, the size of what is written "
                      f"({length} provided)", node.args[-1])
        return None
    node.choice = UserWrite(length, by_address)
    return INT64


def lower_write_user(lo: Lower, call: Call) -> Operand:
    """bpf_probe_write_user(): 0, or a negative error."""
    target, source, written = lo.scalar_value(call.args[0]), call.args[1], choice_of(call, UserWrite)
    with lo.scope():
        data: Operand | MapAddr
        if written.by_address:
            data = lo.scalar_value(source)
        else:
            assert source.type is not None
            mem = lo.temp(source.type.size)
            lo.write_value(source, mem, source.type)
            data = lo.operand_address(mem)
        return lo.b.call(h.WRITE_USER, [target, data, written.length], "probe_write_user")


def write_user_statement(lo: Lower, call: Call) -> None:
    lo.on_failure(lower_write_user(lo, call), "helper", "probe_write_user")


def check_override(context: CheckContext, node: Call, types: Types) -> Type | None:
    if not context.world.has_feature("override"):
        context.error("missing-feature", "this kernel has no error injection (CONFIG_BPF_KPROBE_OVERRIDE)", node)
        return None
    return VOID


def lower_override(lo: Lower, call: Call) -> None:
    result = lo.b.call(h.OVERRIDE_RETURN, [lo.context_pointer(), lo.scalar_value(call.args[0])], "override_return")
    lo.on_failure(result, "helper", "override_return")


def check_unwatch(context: CheckContext, node: Call, types: Types) -> Type | None:
    context.error("not-supported", "unwatch() belonged to watchpoints that were set while tracing", node,
                  ["a watchpoint lasts as long as the trace; a predicate can turn its events away"])
    return None


ROWS = (
    Function("exit", ("status:int?",), NOTHING, "End tracing.", "exit()", sends="control", ends=True,
             statement=_lower_exit),
    Function("dump", ("why:literal?",), VOID, "Write the records of the flight recorder (--flight).", 'dump("slow")',
             check_dump, sends="control", statement=_lower_dump),
    Function("signal", ("signal:int|literal",), NOTHING, "Send a signal to the current process.", 'signal("KILL")',
             check_signal, unsafe=True, machine=True, macro=True, probes=_SIGNALLING, wrong=_NOT_SIGNALLING,
             statement=_signal_sender(h.SEND_SIGNAL)),
    Function("signal_thread", ("signal:int|literal",), NOTHING, "Send a signal to the current thread.",
             'signal_thread("KILL")', check_signal, unsafe=True, machine=True, macro=True, probes=_SIGNALLING,
             wrong=_NOT_SIGNALLING, statement=_signal_sender(h.SEND_SIGNAL_THREAD)),
    Function("override", ("value:int",), NOTHING, "Make the probed function return at once.", "override(-12)",
             check_override, unsafe=True, machine=True, macro=True, probes=("kprobe",),
             statement=lower_override,
             wrong={"probe": "override() can only be used inside kprobes",
                    **dict.fromkeys(("begin", "end", "self"), "The ctx builtin can not be used with '{kind}' probes")}),
    Function("write_user", ("to:ptr|int", "value:any", "length:number?"), None, "Write user memory.",
             "write_user(arg0, $x, 8)", check_write_user, unsafe=True, machine=True, macro=True, acts=True,
             statement=write_user_statement, scalar=lower_write_user),
    Function("unwatch", ("address:int",), None, "Remove a watchpoint.", "unwatch(5)", check_unwatch,
             machine=True),
)
