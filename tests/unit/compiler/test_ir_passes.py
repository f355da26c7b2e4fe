"""The intermediate code: folding, passes, legality, register allocation and slots, by random functions that are run."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import takewhile
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpf_machine import MASK, Machine, Memory, compute, holds, to_signed
from sonde.asm.assemble import assemble
from sonde.compiler import allocate, optimize
from sonde.compiler.builder import Builder
from sonde.compiler.emit import emit_program
from sonde.compiler.forward import forward_stores
from sonde.compiler.ir import ALU, CONDITIONS, BpfFunction, MapFd, Op, Program, Reg, Slot, SlotAt, format_program
from sonde.compiler.legal import PLACED, IllegalIRError, check_program
from sonde.compiler.liveness import Liveness
from sonde.compiler.lower.core import Lower
from sonde.compiler.passes import PASSES
from sonde.compiler.place import place_slots

NUMBERS = st.one_of(st.sampled_from([0, 1, -1, 2, 7, 8, 255, 256, 1 << 31, (1 << 32) - 1, -(1 << 63), (1 << 63) - 1]),
                    st.integers(-(1 << 63), (1 << 63) - 1))
HELPER = 6  # mixes its five arguments: every one matters


def helper(machine: Machine, a: int, b: int, c: int, d: int, e: int) -> int:
    return (a * 3 + b * 5 + c * 7 + d * 11 + e * 13) & MASK


def optimise(function: BpfFunction) -> None:
    """The passes before the layout, each checked."""
    program = Program("test")
    program.functions.append(function)
    lowered = cast(Lower, SimpleNamespace(program=program))
    for step in takewhile(lambda step: step.name != "widen", PASSES):
        step.run(lowered)
        check_program(program)


def execute(function: BpfFunction, *params: int, passes: bool, v4: bool = True) -> int:
    """Compile a function (this consumes it) and run it."""
    program = Program("test")
    program.functions.append(function)
    optimize.simplify_cfg(function)
    if passes:
        optimise(function)
    function.scratch_base = function.reg("base")
    place_slots(program)
    check_program(program, [PLACED])
    items, _ = emit_program(program, v4, bounds=v4)
    code = assemble(items, [function.name]).code
    return Machine(code, {}, Memory(), {HELPER: helper}, {}).run(*params)


@pytest.mark.parametrize("scratch", [False, True])
def test_what_comes_back_from_scratch_memory_is_loaded(scratch: bool) -> None:
    """A load of what was just stored in the frame is the value that was stored; one from scratch memory stays: by it a
    pointer becomes a number that may be computed with, before Linux 6.2."""
    function = BpfFunction("test")
    b = Builder(function)
    slot, value = function.slot(8, "plain", scratch=scratch), b.call(HELPER, [1, 2, 3, 4, 5], "helper")
    b.store(slot, 0, value)
    b.store(slot, 0, b.alu("add", b.load(slot, 0), 1))
    forward_stores(function)
    assert any(op.kind == "load" for block in function.blocks for op in block.ops) == scratch


# --- folding ----------------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(ALU)), NUMBERS, NUMBERS, st.sampled_from([32, 64]))
def test_fold_is_what_the_cpu_computes(op: str, a: int, b: int, bits: int) -> None:
    if op in ("sdiv", "smod", "arsh") and bits == 32:
        return  # not made by the compiler
    folded = optimize.fold_operation(op, a, b, bits)
    signed_op = op in ("sdiv", "smod")
    assert folded == to_signed(compute(op[1:] if signed_op else op, a, b, bits, int(signed_op)))


@given(st.sampled_from(sorted(CONDITIONS)), NUMBERS, NUMBERS, st.sampled_from([32, 64]))
def test_conditions_are_what_the_cpu_decides(cond: str, a: int, b: int, bits: int) -> None:
    assert optimize.evaluate_condition(cond, a, b, bits) == holds(cond, a, b, bits)


# --- random functions -------------------------------------------------------------------------------------


class Writer:
    """Writes a random function of two parameters: arithmetic, diamonds, counted loops, calls, slots."""

    def __init__(self, seed: int, pressure: int) -> None:
        self.random = random.Random(seed)
        self.function = BpfFunction("main", 2)
        self.b = Builder(self.function)
        self.values: list[Reg | int] = [*self.function.params, 0, 1, -1, 1 << 40]
        self.slots: list[Slot] = []
        self.several = [self.function.reg("var") for _ in range(3)]
        for reg in self.several:
            self.b.set(reg, self.random.choice(self.values))
        self.pressure = pressure

    def operand(self) -> Reg | int:
        if self.random.random() < 0.2:
            return self.random.choice(self.several)
        return self.random.choice(self.values[-self.pressure:])

    def operation(self) -> None:
        b, pick = self.b, self.random.random()
        if pick < 0.5:
            op = self.random.choice(sorted(ALU))
            right: Reg | int = self.operand()
            if isinstance(right, int) and op in ("div", "mod", "sdiv", "smod", "lsh", "rsh", "arsh"):
                right = self.random.choice((3, b.mov(right)))  # as a constant it may be illegal
            self.values.append(b.alu(op, self.operand(), right))
        elif pick < 0.6:
            kind = self.random.choice(("neg", "swap", "sext", "zext"))
            bits = self.random.choice((16, 32, 64) if kind == "swap" else (8, 16, 32))
            a = self.operand()
            self.values.append(b.neg(a) if kind == "neg" else b.swap(a, bits) if kind == "swap"
                               else b.extend(a, bits, kind == "sext"))
        elif pick < 0.75:
            args = [self.operand() for _ in range(5)]
            self.values.append(b.call(HELPER, args, pure=self.random.random() < 0.3))  # type: ignore[arg-type]
        elif pick < 0.85:
            b.set(self.random.choice(self.several), self.operand())
        elif pick < 0.95:
            size = self.random.choice((1, 2, 4, 8))
            slot = b.slot(8)
            b.store(slot, 0, 0)
            b.store(slot, size * self.random.randrange(8 // size), self.operand(), size)
            self.values.append(b.load(slot, 0, size, self.random.random() < 0.5))
        else:
            self.values.append(b.mov(self.operand()))

    def body(self, depth: int) -> None:
        for _ in range(self.random.randrange(1, 8)):
            if depth and self.random.random() < 0.25:
                self.random.choice((self.diamond, self.loop))(depth - 1)
            else:
                self.operation()

    def arm(self, depth: int) -> None:
        known = list(self.values)
        self.body(depth)
        self.values = known

    def diamond(self, depth: int) -> None:
        b = self.b
        then, other, join = b.block("then"), b.block("else", cold=self.random.random() < 0.3), b.block("join")
        a, c = self.operand(), self.operand()
        b.branch(self.random.choice(sorted(CONDITIONS)), a, c, then, other, self.random.choice((32, 64)))
        for block in (then, other):
            b.start(block)
            self.arm(depth)
            b.jump(join)
        b.start(join)

    def loop(self, depth: int) -> None:
        b = self.b
        counter = self.function.reg("counter")
        b.set(counter, 0)
        head, inside, leave = b.block("head"), b.block("inside"), b.block("leave")
        b.start(head)
        b.branch("jlt", counter, self.random.randrange(4), inside, leave)
        b.start(inside)
        self.arm(depth)
        b.set(counter, b.alu("add", counter, 1))
        b.jump(head)
        b.start(leave)

    def write(self) -> BpfFunction:
        self.body(3)
        result: Reg | int = 0
        for value in [*self.several, *self.values[-12:]]:
            result = self.b.alu("xor", self.b.alu("mul", result, 31), value)
        self.b.exit(result)
        return self.function


@settings(max_examples=300)
@given(st.integers(0, 1 << 32), st.integers(2, 30), NUMBERS, NUMBERS)
def test_passes_keep_what_a_function_computes(seed: int, pressure: int, a: int, b: int) -> None:
    """The same with and without passes, and on kernels without the newest instructions: nothing is clobbered."""
    results = {execute(Writer(seed, pressure).write(), a, b, passes=passes, v4=v4)
               for passes in (False, True) for v4 in (False, True)}
    assert len(results) == 1


@settings(max_examples=150)
@given(st.integers(0, 1 << 32), st.integers(2, 30))
def test_live_registers_never_share_a_place(seed: int, pressure: int) -> None:
    """Wherever a value is live behind an operation, what is written there goes elsewhere; calls spare it."""
    function = Writer(seed, pressure).write()
    optimize.simplify_cfg(function)
    liveness = Liveness(function)
    homes = allocate.allocate_registers(function).homes
    registers = {r.id: r for r in function.registers}
    for block in function.blocks:
        live = {registers[id] for id in liveness.after(block)}
        for op in reversed(block.ops):
            if op.dst is not None:
                live.discard(op.dst)
                assert all(homes[r] != homes[op.dst] for r in live if op.dst in homes), op
            if op.kind == "call":
                assert all(homes[r] not in allocate.SCRATCHED for r in live), op
            live |= {a for a in op.args if type(a) is Reg}


def test_pure_calls_are_made_once() -> None:
    function = BpfFunction("main", 1)
    b = Builder(function)
    first = b.call(14, [], "pid_tgid", pure=True)
    second = b.call(14, [], "pid_tgid", pure=True)
    third, fourth = b.call(7, [], "random"), b.call(7, [], "random")
    b.exit(b.alu("add", b.alu("add", first, second), b.alu("add", third, fourth)))
    optimise(function)
    calls = [op.imm for op in function.blocks[0].ops if op.kind == "call"]
    assert calls == [14, 7, 7]


@pytest.mark.parametrize(("write", "left"), [
    (lambda b, p: b.alu("add", b.alu("add", p, 5), -5), []),
    (lambda b, p: b.alu("mul", p, 8), ["lsh"]), (lambda b, p: b.alu("div", p, 16), ["rsh"]),
    (lambda b, p: b.alu("mod", p, 16), ["and"]), (lambda b, p: b.alu("mul", p, 0), []),
    (lambda b, p: b.alu("and", b.extend(p, 8, False), 255), ["zext"]),
    (lambda b, p: b.extend(b.extend(p, 16, False), 32, True), ["zext"]),
    (lambda b, p: b.alu("sub", b.alu("add", p, 8), 3), ["add"]), (lambda b, p: b.alu("add", 2, 3), []),
    (lambda b, p: b.alu("xor", b.alu("rsh", p, 32), b.alu("rsh", p, 32)), ["rsh", "xor"]),
    (lambda b, p: b.alu("sdiv", p, 1), []), (lambda b, p: b.alu("sdiv", p, 8), ["sdiv"]),
])
def test_arithmetic_is_simplified(write: Callable[[Builder, Reg], Reg], left: list[str]) -> None:
    function = BpfFunction("main", 1)
    b = Builder(function)
    b.exit(write(b, function.params[0]))
    optimise(function)
    assert [op.kind for op in function.blocks[0].ops if op.kind not in ("exit", "mov")] == left


@pytest.mark.parametrize(("between", "size", "left"), [
    (lambda b, slot, p: None, 8, 0), (lambda b, slot, p: None, 2, 0),
    (lambda b, slot, p: b.call(14, [], "pid_tgid", pure=True), 8, 0),  # a helper that changes nothing
    (lambda b, slot, p: b.store(b.slot(8), 0, p), 8, 0),               # other memory
    (lambda b, slot, p: b.store(slot, 4, 1, 4), 8, 1),                 # a part of it
    (lambda b, slot, p: b.store(slot, 4, 1, 4), 4, 0),                 # not a part of these four bytes
    (lambda b, slot, p: b.call(4, [SlotAt(slot), 8, p], "probe_read"), 8, 1),
    (lambda b, slot, p: b.call(16, [SlotAt(slot), 8], "comm", pure=True), 8, 1),
    (lambda b, slot, p: b.store(b.address(slot), 0, p), 8, 1),         # by its address
    (lambda b, slot, p: b.atomic_add(slot, 0, 1), 8, 1),
    (lambda b, slot, p: [b.store(b.slot(8), 0, p) for _ in range(5)], 8, 1),  # registers are few
])
def test_what_was_just_stored_is_not_loaded(between: Callable[[Builder, Slot, Reg], object], size: int,
                                            left: int) -> None:
    function = BpfFunction("main", 1)
    b = Builder(function)
    slot, value = b.slot(8), b.alu("add", function.params[0], 5)
    b.store(slot, 0, value, size)
    between(b, slot, value)
    b.exit(b.alu("add", b.load(slot, 0, size), b.call(1, [SlotAt(slot)], "uses the slot")))
    optimise(function)
    kinds = [op.kind for op in function.blocks[0].ops]
    assert kinds.count("load") == left and "store" in kinds


def test_decided_branches_and_empty_blocks_go() -> None:
    function = BpfFunction("main", 1)
    b = Builder(function)
    yes, no, on = b.block("yes"), b.block("no"), b.block("on")
    b.branch("jeq", b.alu("add", 1, 1), 2, yes, no)
    b.start(yes)
    b.jump(on)
    b.start(no)
    b.store(b.slot(8), 0, 1)
    b.start(on)
    b.exit(0)
    optimise(function)
    assert len(function.blocks) == 1 and [op.kind for op in function.blocks[0].ops] == ["exit"]


# --- legality ---------------------------------------------------------------------------------------------


def broken(write: Callable[[BpfFunction, Builder], None]) -> str:
    """The checker's complaint about a function that ``write`` spoils."""
    program, function = Program("test"), BpfFunction("main", 1)
    program.functions.append(function)
    write(function, Builder(function))
    with pytest.raises(IllegalIRError) as caught:
        check_program(program)
    assert format_program(program)
    return str(caught.value)


@pytest.mark.parametrize(("ops", "why"), [
    (lambda f, b: [Op("mov", f.reg(), [1])], "has no end"),
    (lambda f, b: [Op("exit", None, [0]), Op("exit", None, [0])], "terminator inside"),
    (lambda f, b: [Op("fly", f.reg(), [1]), Op("exit", None, [0])], "unknown kind"),
    (lambda f, b: [Op("add", f.reg(), [1]), Op("exit", None, [0])], "number of operands"),
    (lambda f, b: [Op("call", f.reg(), [1] * 6), Op("exit", None, [0])], "number of operands"),
    (lambda f, b: [Op("branch", None, [1, 2], cond="jeq", then=b.current)], "incomplete branch"),
    (lambda f, b: [Op("branch", None, [1, 2], cond="maybe", then=b.current, other=b.current)], "incomplete branch"),
    (lambda f, b: [Op("load", f.reg(), [f.slot(8)], size=3), Op("exit", None, [0])], "bad size"),
    (lambda f, b: [Op("load", f.reg(), [f.slot(8)], off=4, size=8), Op("exit", None, [0])], "outside of its slot"),
    (lambda f, b: [Op("load", f.reg(), [f.slot(8)], off=2, size=4), Op("exit", None, [0])], "misaligned"),
    (lambda f, b: [Op("load", f.reg(), [5]), Op("exit", None, [0])], "not an address"),
    (lambda f, b: [Op("zext", f.reg(), [5], bits=12), Op("exit", None, [0])], "bad width"),
    (lambda f, b: [Op("mov", f.reg(), [SlotAt(f.slot(8))]), Op("exit", None, [0])], "only for calls"),
    (lambda f, b: [Op("add", f.reg(), [MapFd("@"), 1]), Op("exit", None, [0])], "only for calls"),
])
def test_illegal_operations(ops: Callable[[BpfFunction, Builder], list[Op]], why: str) -> None:
    assert why in broken(lambda f, b: b.current.ops.extend(ops(f, b)))


def test_use_before_definition() -> None:
    def write(function: BpfFunction, b: Builder) -> None:
        yes, on = b.block("yes"), b.block("on")
        b.branch("jeq", function.params[0], 0, yes, on)
        b.start(yes)
        value = b.mov(5)
        b.start(on)
        b.exit(value)
    assert "used before it is defined" in broken(write)


# --- slots ------------------------------------------------------------------------------------------------


def test_large_slots_go_to_scratch_memory() -> None:
    program, function = Program("test"), BpfFunction("main", 1)
    program.functions.append(function)
    b = Builder(function)
    base = b.mov(0, "scratch")
    small, large, larger = b.slot(16, "small"), b.slot(300, "large"), b.slot(1024, "larger")
    b.store(large, 8, 1)
    b.call(HELPER, [SlotAt(larger, 24), SlotAt(small), 0, 0, 0])
    b.exit(b.load(larger, 1016))
    function.scratch_base = base
    place_slots(program)
    check_program(program)
    assert (small.scratch, large.scratch, larger.scratch) == (False, False, True)
    assert (small.offset, large.offset, program.scratch_size) == (-16, -320, 1024)
    kinds = [(op.kind, op.args[0] is base, op.off) for op in function.blocks[0].ops if op.kind in ("add", "load")]
    assert kinds == [("add", True, 0), ("load", True, 1016)]


def test_callbacks_share_the_stack_with_their_caller() -> None:
    """512 bytes for all frames that can be on the stack at once (MAX_BPF_STACK)."""
    program = Program("test")
    for name in ("main", "each", "loop"):
        function = BpfFunction(name, 1)
        program.functions.append(function)
        b = Builder(function)
        function.scratch_base = b.mov(0, "scratch")
        for size in (200, 100, 64, 40, 16, 8):
            b.store(b.slot(size), 0, 1)
        if name != "loop":
            b.store(b.slot(8), 0, b.callback({"main": "each", "each": "loop"}[name]))
        b.exit(0)
    place_slots(program)
    used = sum((s.size + 7) // 8 * 8 for f in program.functions for s in f.slots if not s.scratch)
    assert used <= 512 - 64 and program.scratch_size >= 3 * 200
