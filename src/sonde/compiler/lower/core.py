"""The state of lowering one program, on which every other module of this folder builds.

A scalar expression becomes an operand (register or constant) that holds its canonical 64-bit value: sign- or
zero-extended from its type. Anything larger is either *located* in memory where it already is, or written *into* memory
that the caller provides: keys, map values and event records are built in place.
"""

from __future__ import annotations

from ...arch import ARCHES
from ...base.fast_stdlib import TypeVar, contextmanager
from ...kinds import KINDS
from ...language.ast import Call, Expr, Stmt, Unary
from ...semantics.typed import CheckedFunction, CheckedProbe
from ...source import Span
from ...spec import Attach
from ...types import Bool, Enum, Int, Pointer, Scalar, Type
from .. import helpers as h
from ..compilation import Unit
from ..ir import BasicBlock, BpfFunction, MapAddr, Operand, Program, Reg, Slot, SlotAt
from .state import CONTEXT, ENDING, OUTCOME, FunctionState, Mem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

Lowering = TypeVar("Lowering", bound="Callable[..., object]")


def counts_at_expression(lowering: Lowering) -> Lowering:
    """Count failures for the expression that is being lowered, not for the whole statement."""
    def lower(lo: Lower, expr: Expr, *rest: object, **more: object) -> object:
        outer, lo.expression_span = lo.expression_span, expr.span
        result = lowering(lo, expr, *rest, **more)
        lo.expression_span = outer
        return result
    return lower  # type: ignore[return-value]


class Lower:
    """Lowers one program; see the module's docstring for the two ways in which values travel."""

    def __init__(self, unit: Unit, probe: CheckedProbe, context: Any, attach: list[Attach], name: str,
                 numbers: list[int]) -> None:
        self.unit = unit
        self.world = unit.world
        self.byte_order = ARCHES[unit.world.arch].byte_order
        self.probe = probe
        self.context = context
        self.attach = attach
        self.first_probe = numbers[0]
        self.numbers = numbers
        self.program = Program(name)
        self.expression_span: Span | None = None  # being lowered; b.span is the statement's
        self.callbacks: dict[object, str] = {}  # those that several places use: what they do → label
        self.subprograms: dict[str, str] = {}  # functions of the script that are lowered: name → label
        self.uses_cookies = self.reads_kernel_stacks = self.reads_registers = False
        self.state = FunctionState(self.add_function("main", 1))
        self.b = self.state.b

    def add_function(self, name: str, params: int) -> BpfFunction:
        """A function more of this program."""
        function = BpfFunction(name, params)
        self.program.functions.append(function)
        return function

    @contextmanager
    def building(self, state: FunctionState) -> Iterator[FunctionState]:
        """Lower into another function, then go on where we were."""
        outer, self.state, self.b = self.state, state, state.b
        yield state
        self.state, self.b = outer, outer.b

    # what any of the families may ask for; :mod:`.program` puts it together

    def scalar_value(self, expr: Expr) -> Operand:
        """The canonical 64-bit value of a scalar expression."""
        raise NotImplementedError

    def branch_on(self, expr: Expr, yes: BasicBlock, no: BasicBlock) -> None:
        """Branch on an expression. Facts learned on the way to ``yes`` stay known there; the caller starts it next."""
        raise NotImplementedError

    def locate_value(self, expr: Expr) -> Mem | None:
        """Where the value of an expression already lies; None if it has to be made."""
        raise NotImplementedError

    def write_value(self, expr: Expr, mem: Mem, type: Type, pad: bool = True) -> None:
        """Write an expression's value as ``type`` to BPF memory. With ``pad`` every byte becomes defined, so that
        the memory can be a key or be compared; without it what follows a string's NUL is left as it is."""
        raise NotImplementedError

    def store_value(self, mem: Mem, type: Type, value: Operand) -> None:
        """Store a scalar's canonical value as ``type``."""
        raise NotImplementedError

    def lower_block(self, body: list[Stmt]) -> None:
        """A run of statements."""
        raise NotImplementedError

    def place_value(self, expr: Expr) -> Mem:
        """The memory of an expression's value, which is written to temporary memory if need be."""
        mem = self.locate_value(expr)
        if mem is None:
            assert expr.type is not None
            mem = self.temp(expr.type.size)
            self.write_value(expr, mem, expr.type)
        return mem

    @property
    def frame(self) -> Mem:
        """The frame that callbacks share with the function around them; see :mod:`.state`."""
        assert self.state.frame is not None
        return self.state.frame

    def load_outcome(self) -> Reg:
        """How a callback ended: 0, or a reason to leave more than it."""
        return self.b.load(self.frame.base, self.frame.off + OUTCOME)

    def store_outcome(self, outcome: int) -> None:
        self.b.store(self.frame.base, self.frame.off + OUTCOME, outcome)

    def stored_value(self, expr: Expr) -> Operand:
        """The value of a scalar expression as it is printed or stored: a narrow number that was negated or complemented
        is cut to its own width without a sign, though arithmetic computes with it as C does."""
        value = self.scalar_value(expr)
        if not isinstance(expr, Unary) or expr.op not in ("-", "~") or expr.const is not None:
            return value
        type = expr.operand.type
        return self.b.extend(value, type.bits, False) if isinstance(type, Int) and type.bits < 64 else value

    def fetch_add(self, base: Operand, off: int, value: Operand, size: int = 8) -> Operand:
        """Add to memory; what was there. Before Linux 5.12 these are two steps: nothing that is added gets lost, but
        what another CPU adds between them is not seen."""
        if self.unit.feature("atomic_fetch"):
            return self.b.fetch_add(base, off, value, size)
        before = self.b.load(base, off, size)
        self.b.atomic_add(base, off, value, size)
        return before

    def leave_function(self) -> None:
        """Leave the function, or the callback and its loop."""
        self.destroy_iterators()
        if self.state.is_callback:
            self.b.exit(1)
        else:
            self.b.jump(self.state.done)

    def destroy_iterators(self) -> None:
        """End the loops over objects that are under way in this function."""
        for kfunc, where in reversed(self.state.iterators):
            self.destroy_iterator(kfunc, where)

    def destroy_iterator(self, kfunc: int, where: Operand) -> None:
        self.b.kfunc(kfunc, [where], "iterator_destroy")

    def leave_program(self) -> None:
        """End the action."""
        if self.state.is_callback:
            self.store_outcome(ENDING)
        self.leave_function()

    # temporaries

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Frame memory taken inside is free again afterwards."""
        self.state.temps.append([])
        yield
        for slot in self.state.temps.pop():
            self.b.release(slot)

    def temp(self, size: int, name: str = "tmp") -> Mem:
        """Memory until the end of the statement; in scratch memory beyond the on_stack_limit."""
        slot = self.b.slot(max(size, 1), name)
        self.state.temps[-1].append(slot)
        return Mem(slot)

    # regions: what is known in one arm of a branch does not hold after it

    @contextmanager
    def region(self) -> Iterator[None]:
        """Facts learned inside (lookups, the time) are forgotten at the end; facts destroyed inside stay so."""
        lookups, time = self.state.lookups, self.state.last_time
        self.state.lookups = dict(lookups)
        yield
        after = self.state.lookups
        self.state.lookups = {k: v for k, v in lookups.items() if k in after and after[k].pointer is v.pointer}
        self.state.last_time = time

    def forget(self, map: str = "") -> None:
        """Earlier lookups in ``map`` (in all maps) are no longer valid."""
        self.state.lookups = {k: v for k, v in self.state.lookups.items() if map and k[0] != map}

    def inserted(self, map: str) -> None:
        """An element was added: keys that were not there before may be there now."""
        keep = not self.unit.maps[map].type.startswith("lru")  # which may have evicted another element for it
        self.state.lookups = {k: v for k, v in self.state.lookups.items() if k[0] != map or v.present and keep}

    # counting

    def count_error(self, kind: str, helper: str = "", map: str = "") -> None:
        """Count one failure at the current place in the script."""
        self.b.atomic_add(self.unit.error(kind, self.expression_span or self.b.span, helper, map), 0, 1)

    def on_failure(self, result: Operand, kind: str, helper: str, map: str = "", bits: int = 64) -> None:
        """Count it when ``result`` (a helper's, of so many bits) is negative; go on either way."""
        failed, on = self.b.block("failed", cold=True), self.b.block("on")
        self.b.branch("jslt", result, 0, failed, on, bits)
        self.b.start(failed)
        self.count_error(kind, helper, map)
        self.b.jump(on)
        self.b.start(on)

    def count_update(self, map: str, result: Operand) -> None:
        """Distinguish "the map is full" from failures for the moment: ENOMEM, EBUSY. ``result`` is as MAP_RESULT
        says."""
        failed, full, busy, on = (self.b.block(n, cold=n != "on") for n in ("failed", "full", "busy", "on"))
        self.b.branch("jslt", result, 0, failed, on, h.MAP_RESULT)
        self.b.start(failed)
        self.b.branch("jeq", result, -h.E2BIG, full, busy, h.MAP_RESULT)
        self.b.start(full)
        self.count_error("map_full", "map_update_elem", self.unit.script_name(map))
        self.b.jump(on)
        self.b.start(busy)
        self.count_error("map_busy", "map_update_elem", self.unit.script_name(map))
        self.b.jump(on)
        self.b.start(on)

    def probe_index(self) -> Operand:
        """Which attach point fired: index in ScriptSpec.probes."""
        if self.state.probe_index is not None:
            return self.state.probe_index
        if self.state.sharing.probe_offset:
            return self.b.load(self.frame.base, self.frame.off + self.state.sharing.probe_offset)
        if len(self.attach) == 1:
            return self.first_probe
        cookie = self.attach_cookie()
        # Entry and return may share a link, which has one cookie per function: the low half is the entry's.
        kind = KINDS[self.attach[0].method]
        if self.context.returned:
            return self.b.extend(cookie, 32, False)
        if not kind.shares_link:
            return cookie
        return self.b.alu("rsh", cookie, 32) if kind.returns else self.b.extend(cookie, 32, False)

    def attach_cookie(self) -> Operand:
        """What the runtime attached this program with: runtime.attach.programs.attach_cookie()."""
        self.uses_cookies = True
        return self.b.call(h.ATTACH_COOKIE, [self.context_pointer()], "attach_cookie", pure=True)

    def context_pointer(self) -> Operand:
        """The program's context, also inside callbacks."""
        return self.b.load(self.frame.base, self.frame.off + CONTEXT) if self.state.is_callback else self.state.context

    # helpers of general use

    def operand_address(self, mem: Mem) -> Operand:
        """``mem`` as an operand of a helper call."""
        if isinstance(mem.base, Slot):
            return SlotAt(mem.base, mem.off)
        if isinstance(mem.base, MapAddr):
            return MapAddr(mem.base.map, mem.base.off + mem.off)
        return self.b.alu("add", mem.base, mem.off) if mem.off else mem.base

    def select(self, reg: Reg, cond: Callable[[BasicBlock, BasicBlock], None], yes: Callable[[], Operand],
               no: Callable[[], Operand]) -> None:
        """``reg`` = yes() or no(), as ``cond`` branches to the first or second block."""
        then, other, join = self.b.block("yes"), self.b.block("no"), self.b.block("join")
        with self.region():
            cond(then, other)
            self.b.start(then)
            self.b.set(reg, yes())
        self.b.jump(join)
        self.b.start(other)
        with self.region():
            self.b.set(reg, no())
        self.b.jump(join)
        self.b.start(join)

    def normalise(self, value: Operand, type: Type | None) -> Operand:
        """Cut a 64-bit value to ``type`` and extend it again."""
        if isinstance(type, Bool):
            return self.truth(value)
        bits, signed = canonical_width(type)
        if bits == 64:
            return value
        return self.b.extend(value, bits, signed)

    def truth(self, value: Operand) -> Operand:
        """0 or 1."""
        return int(value != 0) if isinstance(value, int) else self.flag("jne", value, 0)

    def flag(self, jump: str, left: Operand, right: Operand, bits: int = 64) -> Reg:
        """1 where the comparison holds, else 0."""
        result = self.b.function.reg("flag")
        self.b.set(result, 1)
        zero, on = self.b.block("zero"), self.b.block("on")
        self.b.branch(jump, left, right, on, zero, bits)
        self.b.start(zero)
        self.b.set(result, 0)
        self.b.start(on)
        return result




def canonical_width(type: Type | None) -> tuple[int, bool]:
    """(bits, signed) of a scalar type's canonical value."""
    if isinstance(type, (Int, Enum)):
        return type.bits, type.signed
    if isinstance(type, Bool):
        return 8, False
    return 64, False


def is_signed(expr: Expr) -> bool:
    """Whether the expression's value is a signed number; a literal adapts, so it is taken as signed."""
    return canonical_width(expr.type)[1]


def is_scalar(type: Type | None) -> bool:
    return isinstance(type, Scalar)


def is_pointer(type: Type | None) -> bool:
    return isinstance(type, Pointer)


def is_function_call(node: object) -> bool:
    """Whether a node calls a function of the script."""
    return isinstance(node, Call) and isinstance(node.callee, CheckedFunction)
