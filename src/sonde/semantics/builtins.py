"""Checking builtins: where they work, their types, their call forms."""

from __future__ import annotations

from ..kinds import KINDS
from ..language.ast import Call, Choice, Name, Reference, StrLiteral
from ..language.diagnostics import nearest_names
from ..types import VOID, Type
from . import convert
from .callees import BuiltinRow
from .context import ARGUMENT, CheckContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CLOCKS = ("boot", "monotonic", "tai", "sw_tai")
STACK_LIMIT = 127  # /proc/sys/kernel/perf_event_max_stack

class ClockChoice(Choice):
    """One of CLOCKS."""

    clock: str


def knows_function(context: CheckContext, node: Reference) -> bool:
    """Whether a program can learn which function it was attached to. At a user function's return the registers no
    longer say so, and older kernels do not tell."""
    needed = "attach_cookie" if context.program.attach.by_instructions else "uretprobe_func"
    if context.program.kind != "uretprobe" or context.world.has_feature(needed):
        return True
    version = "5.15" if context.program.attach.by_instructions else "6.7"
    context.error("missing-feature",
                  f"this kernel does not tell programs the function of a uretprobe (Linux {version})", node,
                  ["probe has its name"])
    return False


def probe_type(context: CheckContext) -> str:
    """The kind of the probe; begin and end are special."""
    kind = context.program.kind
    return "special" if KINDS[kind].own else kind


def _word_argument(node: object) -> str:
    return node.name if isinstance(node, Name) else node.value if isinstance(node, StrLiteral) else ""


def choice_checker(kind: Callable[[str], Choice], allowed: tuple[str, ...]
                    ) -> Callable[[CheckContext, Call], Type | None]:
    def check_choice(context: CheckContext, node: Call) -> Type | None:
        word = _word_argument(node.args[0])
        if len(node.args) > 1:
            context.error("arity", f"{node.name}() takes up to one argument ({len(node.args)} provided)", node)
            return None
        if word not in allowed:
            _report_no_choice(context, node, kind is ClockChoice, word, allowed)
            return None
        node.args[0].type = VOID
        node.choice = kind(word)
        return type_of(context, context.builtins[node.name], node)
    return check_choice


def _report_no_choice(context: CheckContext, node: Call, clock: bool, word: str, allowed: tuple[str, ...]) -> None:
    given = node.args[0]
    hints = [f"did you mean {c}?" for c in nearest_names(word, allowed)[:1]] if word else []
    if isinstance(given, Name) and given.name not in context.builtins:
        context.error("bad-argument", f"Invalid timestamp mode: {word}" if clock else
                      f"Invalid PID namespace mode: {word} (expects: curr_ns or init)", given, hints)
        return
    type = context.check_value(given, ARGUMENT)
    if type is not None:
        context.error("bad-argument",
                      f"{node.name}() only supports timestamp_mode arguments ("
                      f"{context.aggregate_of(given) or convert.kind_of_type(type)} "
                      "provided)" if clock else f"{node.name}() only supports curr_ns and init as the argument", node,
                      [f"one of: {', '.join(allowed)}"])


def type_of(context: CheckContext, row: BuiltinRow, node: Reference) -> Type | None:
    """The row's type here, or None after saying why it has none."""
    node.callee = row
    kind = context.program.kind
    of_program = row.of_programs and context.program.attach.target.startswith("bpf:") and KINDS[kind].typed
    if row.probes and kind not in row.probes and not of_program:
        problem = row.misuse.format(kind=kind, type=probe_type(context), instead=_instead(context))
        from .meant import elsewhere_hints
        context.error("builtin-probe", f"The {node.name} builtin {problem}", node,
                      [*elsewhere_hints(context, node.name),
                       f"it works in: {', '.join(p for p in KINDS if p in row.probes)}"])
        return None
    return row.type if isinstance(row.type, Type) else row.type(context, node)


def _instead(context: CheckContext) -> str:
    return " (try to use args.ret instead)" if context.program.attach.target == "syscalls" else ""


def check_builtin_call(context: CheckContext, row: BuiltinRow, node: Call) -> Type | None:
    """``pid()``, ``nsecs(tai)``, ``kstack(perf, 3)`` ..."""
    if not node.args:
        return type_of(context, row, node)
    if row.call is None:
        context.error("arity", convert.no_match(node.name), node, [f"{node.name}() takes no arguments"])
        return None
    node.callee = row
    return row.call(context, node)
