"""The state of lowering one program, and what every other module of this folder builds on.

A scalar expression becomes an operand (register or constant) that holds its canonical 64-bit value: sign- or
zero-extended from its type. Anything larger is either *located* in memory where it already lies, or written
*into* memory that the caller provides: keys, map values and event records are built in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from ...language.ast import Call, Expr, Stmt, Unary, Variable
from ...record import Record
from ...semantics.nodes import walk
from ...semantics.typed import CheckedProbe
from ...spec import Attach
from ...types import Bool, Enum, Int, Pointer, Scalar, Type
from .. import helpers as h
from ..builder import Builder
from ..ir import Block, Function, MapAddr, Operand, Program, Reg, Slot, SlotAt
from ..unit import Unit


class Mem(Record):
    """Bytes at ``base + off`` in ``space``: "bpf" (frame, maps, event records: plain loads and stores), "ctx",
    "kernel" or "user". ``btf`` is set when ``base`` is a pointer that the verifier lets us load through."""

    base: Any  # Reg | Slot | MapAddr
    off: int = 0
    space: str = "bpf"
    btf: int = 0

    def at(self, off: int) -> Mem:
        """``off`` bytes further."""
        return Mem(self.base, self.off + off, self.space, self.btf)


class Lookup(Record):
    """The result of a map lookup that is still good: the value's address (0 if there was none)."""

    pointer: Reg
    present: bool


class Loop(Record):
    """Where break and continue go; in a callback they leave it with 1 and 0."""

    leave: Block
    again: Block


Lowering = TypeVar("Lowering", bound=Callable[..., object])


def placed(lowering: Lowering) -> Lowering:
    """Failures on the way belong to the expression that is lowered, not to the whole statement."""
    def lower(lo: Any, expr: Any, *rest: Any, **more: Any) -> Any:
        outer, lo.place = lo.place, expr.span
        result = lowering(lo, expr, *rest, **more)
        lo.place = outer
        return result
    return cast(Lowering, lower)


class Lower:
    """Lowers one program; see the module's docstring for the two ways in which values travel."""

    def __init__(self, unit: Unit, probe: CheckedProbe, context: Any, attach: list[Attach], name: str,
                 numbers: list[int]) -> None:
        self.unit = unit
        self.world = unit.world
        self.probe = probe
        self.context = context
        self.attach = attach
        self.first_probe = numbers[0]
        self.numbers = numbers
        self.program = Program(name)
        self.function = Function("main", 1)
        self.program.functions.append(self.function)
        self.b = Builder(self.function)
        self.place: Any = None  # span of the expression that is being lowered, where b.span is the statement's
        self.ctx: Operand = self.function.params[0]
        self.scratch = self.scratch_base()
        self.bases: dict[Function, Reg] = {self.function: self.scratch}
        self.variables: dict[int, Reg | Mem] = {}
        self.addressed = {id(n.operand.slot) for n in walk(probe.trees) if isinstance(n, Unary) and n.op == "&"
                          and isinstance(n.operand, Variable)}  # they have to be in memory
        self.lookups: dict[Any, Lookup] = {}
        self.typed: dict[Reg, int] = {}  # registers that the verifier knows as pointers to that BTF type
        self.last_time: Operand | None = None
        self.loops: list[Loop] = []
        self.temps: list[list[Slot]] = [[]]
        self.frame: Mem | None = None
        self.frame_vars: set[int] = set()
        self.counted: set[int] = set()  # those whose values the verifier shall not know; see compiler.widen
        self.carried: dict[int, int] = {}  # shared variables whose values callbacks carry on: their bytes
        self.frame_pointers: dict[int, int] = {}  # where the frame keeps the addresses of large shared variables
        self.frame_starts: dict[int, int] = {}  # where a callback loop keeps its first index
        self.shared: dict[object, str] = {}  # callbacks that several places use: what they do → label
        self.subprograms: dict[str, str] = {}  # functions of the script that are lowered: name → label
        self.result_at: Operand | None = None  # where the function that is being lowered writes its result
        self.subprogram: Any = None  # CheckedFunction | None: the one that is being lowered
        self.return_at = 0  # where in its frame a callback leaves the result
        self.done: Block | None = None  # where this program ends
        self.cookies = False
        self.dispatch: Operand | None = None  # index of the attach point, where the prologue knows it

    # what any of the families may ask for; :mod:`.program` puts it together

    def scalar_value(self, expr: Expr) -> Operand:
        """The canonical 64-bit value of a scalar expression."""
        raise NotImplementedError

    def branch_on(self, expr: Expr, yes: Block, no: Block) -> None:
        """Branch on an expression. Facts learned on the way to ``yes`` stay known there; the caller starts it next."""
        raise NotImplementedError

    def locate_value(self, expr: Expr) -> Mem | None:
        """Where the value of an expression already lies; None if it has to be made."""
        raise NotImplementedError

    def write_value(self, expr: Expr, mem: Mem, type: Type, pad: bool = True) -> None:
        """Write an expression's value as ``type`` to BPF memory. With ``pad`` every byte becomes defined, so that
        the memory can be a key or be compared; without it what follows a string's NUL is left as it is."""
        raise NotImplementedError

    def lower_block(self, body: list[Stmt]) -> None:
        """A run of statements."""
        raise NotImplementedError

    def place_value(self, expr: Expr) -> Mem:
        """Where the value of an expression lies, in temporary memory if need be."""
        place = self.locate_value(expr)
        if place is None:
            assert expr.type is not None
            place = self.temp(expr.type.size)
            self.write_value(expr, place, expr.type)
        return place

    def leave_program(self, value: Operand = 0) -> None:
        """End the action; from a callback by way of a flag that the loop's owner looks at."""
        if self.b.function is self.function:
            assert self.done is not None
            self.b.jump(self.done)
            return
        assert self.frame is not None
        self.b.store(self.frame.base, self.frame.off + 8, 1)
        self.b.exit(1)

    # scratch memory

    def scratch_base(self) -> Reg:
        """The address of this CPU's scratch memory; disappears when nothing is placed there."""
        return self.b.mov(0, "scratch")

    # temporaries

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Frame memory taken inside is free again afterwards."""
        self.temps.append([])
        yield
        for slot in self.temps.pop():
            self.b.release(slot)

    def temp(self, size: int, name: str = "tmp") -> Mem:
        """Memory until the end of the statement; in scratch memory beyond the on_stack_limit."""
        slot = self.b.slot(max(size, 1), name)
        self.temps[-1].append(slot)
        return Mem(slot)

    # regions: what is known in one arm of a branch does not hold behind it

    @contextmanager
    def region(self) -> Iterator[None]:
        """Facts learned inside (lookups, the time) are forgotten at the end; facts destroyed inside stay so."""
        lookups, time = self.lookups, self.last_time
        self.lookups = dict(lookups)
        yield
        after = self.lookups
        self.lookups = {k: v for k, v in lookups.items() if k in after and after[k].pointer is v.pointer}
        self.last_time = time

    def forget(self, map: str = "") -> None:
        """Lookups of ``map`` (of all maps) are no longer good."""
        self.lookups = {k: v for k, v in self.lookups.items() if map and k[0] != map}

    def inserted(self, map: str) -> None:
        """An element was added: what was looked up and not found may be there now."""
        keep = not self.unit.maps[map].type.startswith("lru")  # which may have evicted another element for it
        self.lookups = {k: v for k, v in self.lookups.items() if k[0] != map or v.present and keep}

    # counting

    def count_error(self, kind: str, helper: str = "", map: str = "") -> None:
        """Count one failure at the current place in the script."""
        self.b.atomic_add(self.unit.error(kind, self.place or self.b.span, helper, map), 0, 1)

    def on_failure(self, result: Operand, kind: str, helper: str, map: str = "", bits: int = 64) -> None:
        """Count it when ``result`` (a helper's, of so many bits) is negative; go on either way."""
        failed, on = self.b.block("failed", cold=True), self.b.block("on")
        self.b.branch("jslt", result, 0, failed, on, bits)
        self.b.start(failed)
        self.count_error(kind, helper, map)
        self.b.jump(on)
        self.b.start(on)

    def probe_index(self) -> Operand:
        """Which attach point fired: index in ScriptSpec.probes."""
        if self.dispatch is not None:
            return self.dispatch
        if len(self.attach) == 1:
            return self.first_probe
        self.cookies = True
        cookie = self.b.call(h.ATTACH_COOKIE, [self.context_pointer()], "attach_cookie", pure=True)
        # Entry and return may share a link, which has one cookie per function: the low half is the entry's.
        kind = self.attach[0].extra.get("how", self.attach[0].kind)
        return self.b.alu("rsh", cookie, 32) if kind == "kretprobe" else \
            self.b.extend(cookie, 32, False) if kind == "kprobe" else cookie

    def context_pointer(self) -> Operand:
        """The program's context, also inside callbacks."""
        if self.b.function is self.function:
            return self.ctx
        assert self.frame is not None
        return self.b.load(self.frame.base, self.frame.off, 8)

    # helpers of general use

    def operand_address(self, mem: Mem) -> Any:
        """``mem`` as an operand of a helper call."""
        if isinstance(mem.base, Slot):
            return SlotAt(mem.base, mem.off)
        if isinstance(mem.base, MapAddr):
            return MapAddr(mem.base.map, mem.base.off + mem.off)
        return self.b.alu("add", mem.base, mem.off) if mem.off else mem.base

    def select(self, reg: Reg, cond: Callable[[Block, Block], None], yes: Any, no: Any) -> None:
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
        bits, signed = width(type)
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

    def store_value(self, mem: Mem, type: Type, value: Operand) -> None:
        self.b.store(mem.base, mem.off, value, type.size)



def width(type: Type | None) -> tuple[int, bool]:
    """(bits, signed) of a scalar type's canonical value."""
    if isinstance(type, (Int, Enum)):
        return type.bits, type.signed
    if isinstance(type, Bool):
        return 8, False
    return 64, False


def is_signed(expr: Expr) -> bool:
    """Whether the expression's value is a signed number; a literal adapts, so it is taken as signed."""
    return width(expr.type)[1]


def is_scalar(type: Type | None) -> bool:
    return isinstance(type, Scalar)


def is_pointer(type: Type | None) -> bool:
    return isinstance(type, Pointer)


def is_function_call(node: object) -> bool:
    """Whether a node calls a function of the script."""
    return isinstance(node, Call) and isinstance(node.data, dict) and "subprogram" in node.data



def option(node: Expr, key: str) -> Any:
    """What the call form of a builtin chose; None in the bare form."""
    return (node.data or {}).get(key) if isinstance(node, Call) else None
