"""``for`` loops, and ``while`` loops whose end cannot be seen. Over a map, over ranges that are long or unknown at
compile time, and where the body is too much for the verifier to follow again and again (:mod:`...verifier_work`),
the body becomes a callback function that the kernel calls (bpf_for_each_map_elem, bpf_loop); see :mod:`..state` for
how it reaches the program's variables.
"""

from __future__ import annotations

from ....base.fast_stdlib import contextmanager
from ....language.ast import Binary, Call, Clause, For, If, MapRef, Node, ScratchVar, Ternary, VarDecl, Variable, While
from ....semantics.nodes import Tree, walk_nodes
from ....semantics.typed import ScriptMap
from ....types import Aggregate, Bool, Enum, Int, Scalar, Tuple, Type, round_up
from ... import helpers as h
from ...compilation import Unit, short_type
from ...ir import BasicBlock, BpfFunction, MapFd, Operand, Reg
from .. import memory
from ..conversion import convert_tuple
from ..core import Lower
from ..maps import access, aggregates
from ..state import BROKEN, CONTEXT, OUTCOME, SHARED, FunctionState, LoopTargets, Mem
from .ordering import value_before
from .variables import assign_variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LARGE = 64  # bytes of a shared variable that is kept in scratch memory instead of the frame
MAX_LOOPS = 1 << 23  # BPF_MAX_LOOPS


def is_short(unit: Unit, stmt: For | While) -> bool:
    """Whether the loop is lowered as a loop, not as a callback."""
    if id(stmt) not in unit.short_loops:
        if isinstance(stmt, For) and stmt.end is None:
            short = isinstance(stmt.start, Call)
        elif unit.feature("bpf_loop"):
            from ...verifier_work import stays_loop
            short = stays_loop(stmt)
        else:  # the verifier may yet be able to follow it
            short = isinstance(stmt, While) or isinstance(stmt.start.const, int) \
                and stmt.end is not None and isinstance(stmt.end.const, int)
        unit.short_loops[id(stmt)] = short
    return unit.short_loops[id(stmt)]


def _long_loops(unit: Unit, tree: Tree) -> list[For | While]:
    return [n for n in walk_nodes(tree) if isinstance(n, (For, While)) and not is_short(unit, n)]


def shared_variables(unit: Unit, clause: Clause, parameters: Sequence[ScratchVar] = ()) -> dict[int, Variable]:
    """Variables that a callback uses and the code around it too, by the id of their slot."""
    shared: dict[int, Variable] = {}
    for loop in _long_loops(unit, clause.body):
        own = {id(n.target.slot) for n in walk_nodes(loop.body) if isinstance(n, VarDecl)}
        if isinstance(loop, For):
            own.add(id(loop.variable.slot))
        outside = {id(n.slot) for n in _variables_outside(clause, loop)} | {id(p) for p in parameters}
        for node in walk_nodes(_callback_nodes(loop)):
            if isinstance(node, Variable) and id(node.slot) in outside and id(node.slot) not in own:
                shared[id(node.slot)] = node
    return shared


def _callback_nodes(loop: For | While) -> Sequence[Node]:
    """The parts of a loop that become the callback."""
    return [loop.cond, *loop.body] if isinstance(loop, While) else loop.body


def _variables_outside(clause: Clause, loop: For | While) -> list[Variable]:
    """Every use of a variable that is not in the callback."""
    inner = {id(n) for n in walk_nodes(_callback_nodes(loop))}
    return [n for n in walk_nodes([clause.predicate, clause.body]) if isinstance(n, Variable) and id(n) not in inner]


def has_callbacks(unit: Unit, clause: Clause) -> bool:
    return bool(_long_loops(unit, clause.body))


def prepare_frame(lo: Lower, clause: Clause) -> None:
    """Make the shared part of the frame and put the shared variables there."""
    sharing = lo.state.sharing
    made = sharing.subprogram
    shared = shared_variables(lo.unit, clause, made.params if made is not None else ())
    at = SHARED
    if lo.state.probe_index is not None:
        sharing.probe_offset, at = at, at + 8
    if made is not None:
        sharing.result_offset, at = at, at + 8
    sharing.saved_offset, at = at, at + 8 * lo.context.saved_words
    offsets: dict[int, int] = {}
    for key, variable in shared.items():
        size = variable.slot.type.size
        at = round_up(at, 8)
        offsets[key] = at
        at += size if size <= LARGE else 8
    at = round_up(at, 8)
    for loop in walk_nodes(clause.body):
        if isinstance(loop, For) and loop.end is not None and not is_short(lo.unit, loop):
            sharing.starts[id(loop)] = at
            at += 8
    slot = lo.b.slot(at, "frame")
    slot.pinned = True
    lo.state.frame = Mem(slot)
    lo.b.store(slot, CONTEXT, lo.state.context)
    lo.b.store(slot, OUTCOME, 0)
    if lo.state.probe_index is not None:
        lo.b.store(slot, sharing.probe_offset, lo.state.probe_index)
    for key, offset in offsets.items():
        given, type = lo.state.variables.get(key), shared[key].slot.type
        home = lo.state.variables[key] = _shared_home(lo, key, type, offset)
        if given is not None:  # a parameter
            _keep_parameter(lo, type, given, home)
            continue
        memory.clear_bytes(lo, home, round_up(type.size, 8))
    deciding = _deciding_variables(lo.unit, clause)
    sharing.carried = {key: round_up(shared[key].slot.type.size, 8) for key in offsets
                       if key in sharing.in_frame and key not in deciding and _is_plain(shared[key].slot.type)}
    sharing.obscured -= deciding
    if not any(isinstance(n, (If, Ternary, While)) or isinstance(n, Binary) and n.op in ("&&", "||")
               for loop in _long_loops(lo.unit, clause.body) for n in walk_nodes(loop)):
        sharing.obscured = set()  # every iteration goes the same way


def _is_plain(type: Type) -> bool:
    """Whether a value contains no pointer, whose target the verifier would have to know."""
    if isinstance(type, Tuple):
        return all(map(_is_plain, type.of))
    return isinstance(type, (Int, Bool, Enum)) or not isinstance(type, Scalar)


def _forget_values(lo: Lower) -> None:
    """Make unknown to the verifier what is in the shared variables. Before Linux 6.7 (ab5cfac139ab) it follows a
    callback once, with the values at the call: it removes the branches that the first call does not take, and what
    follows the loop is for it what follows one call."""
    zero = lo.b.load(lo.unit.global_word("zero"), 0, 8) if lo.state.sharing.carried else 0
    for key, size in lo.state.sharing.carried.items():
        home = lo.state.variables.get(key)
        if isinstance(home, Mem):
            for at in range(home.off, home.off + size, 8):
                lo.b.store(home.base, at, lo.b.alu("add", lo.b.load(home.base, at), zero))


def _deciding_variables(unit: Unit, clause: Clause) -> set[int]:
    """Variables by which a ``while`` that stays a loop may come to its end, by the id of their slot."""
    from ...verifier_work import count_rounds
    loops = [n for n in walk_nodes(clause.body) if isinstance(n, While) and is_short(unit, n)]
    tests = [loop.cond for loop in loops]
    tests += [n.cond for loop in loops if count_rounds(loop) is None for n in _own_ifs(unit, loop.body)]
    return {id(n.slot) for test in tests for n in walk_nodes(test) if isinstance(n, Variable)}


def _own_ifs(unit: Unit, body: Sequence[Node]) -> list[If]:
    """The ``if`` statements of a body outside of callbacks, which do not decide how this loop ends."""
    inner = {id(n) for loop in _long_loops(unit, list(body)) for n in walk_nodes(loop)}
    return [n for n in walk_nodes(list(body)) if isinstance(n, If) and id(n) not in inner]


def _shared_home(lo: Lower, key: int, type: Type, offset: int) -> Mem:
    """A shared variable's memory: in the frame, or in scratch memory whose address is kept in the frame."""
    if type.size <= LARGE:
        lo.state.sharing.in_frame.add(key)
        if isinstance(type, (Int, Bool, Enum)):
            lo.state.sharing.obscured.add(key)
        return lo.frame.at(offset)
    slot = lo.b.function.slot(round_up(type.size, 8), "shared", scratch=True)
    lo.state.sharing.pointers[key] = offset
    lo.b.store(lo.frame.base, lo.frame.off + offset, lo.b.address(slot))
    return Mem(slot)


def _keep_parameter(lo: Lower, type: Type, given: Reg | Mem, home: Mem) -> None:
    """Put a function's parameter where callbacks can reach it."""
    if isinstance(given, Mem):
        memory.copy_bytes(lo, given, home, type.size)
    else:
        lo.store_value(home, type, given)


def lower_for(lo: Lower, stmt: For) -> None:
    if isinstance(stmt.start, Call) and stmt.end is None:
        from .object_loops import lower_object_loop
        lower_object_loop(lo, stmt)
    elif stmt.end is None:
        _loop_over_map(lo, stmt)
    elif is_short(lo.unit, stmt):
        _lower_short_range(lo, stmt)
    else:
        _lower_long_range(lo, stmt)


def _lower_short_range(lo: Lower, stmt: For) -> None:
    assert stmt.end is not None
    counter = lo.b.function.reg("counter")
    lo.b.set(counter, lo.scalar_value(stmt.start))
    lo.forget()
    lo.state.last_time = None
    head, body, again, leave = (lo.b.block(n) for n in ("for", "body", "again", "leave"))
    lo.b.start(head)
    lo.b.branch("jslt", counter, lo.scalar_value(stmt.end), body, leave)
    lo.b.start(body)
    assign_variable(lo, stmt.variable, counter)
    lo.state.loops.append(LoopTargets(leave, again))
    with lo.region():
        lo.lower_block(stmt.body)
    lo.state.loops.pop()
    lo.b.start(again)
    lo.b.set(counter, lo.b.alu("add", counter, 1))
    lo.b.jump(head)
    lo.forget()
    lo.b.start(leave)


@contextmanager
def _build_callback(lo: Lower, name: str, params: int, context_param: int) -> Iterator[BpfFunction]:
    """Lower a loop's body as a function of its own, then come back."""
    function = lo.add_function(f"{name}{len(lo.program.functions)}", params)
    outer, around = lo.frame, lo.state
    with lo.building(FunctionState(function, lo.b.span, outer=around)) as state:
        frame = function.params[context_param]
        state.frame = Mem(frame)
        state.variables = {key: Mem(frame, home.off - outer.off) for key, home in around.variables.items()
                           if key in state.sharing.in_frame and isinstance(home, Mem)}
        state.variables |= {key: Mem(lo.b.load(frame, offset)) for key, offset in state.sharing.pointers.items()}
        yield function


def _lower_body(lo: Lower, stmt: For | While, tell: bool = False) -> None:
    """The loop's body; ``tell``: a break is noted in the frame."""
    leave, again = lo.b.block("leave"), lo.b.block("again")
    lo.state.loops.append(LoopTargets(leave, again))
    lo.lower_block(stmt.body)
    lo.state.loops.pop()
    lo.b.start(again)
    lo.b.exit(0)
    lo.b.start(leave)
    if tell:
        lo.store_outcome(BROKEN)
    lo.b.exit(1)


def _run_callback(lo: Lower, helper: int, first: object, function: BpfFunction, name: str,
                  broken: BasicBlock | None = None) -> Reg:
    """Call the helper that runs the callback; the program ends if the callback said so. ``broken``: where to go if it
    noted a break."""
    address = lo.b.callback(function.name)
    lo.forget()
    _forget_values(lo)
    result = lo.b.call(helper, [first, address, lo.operand_address(lo.frame), 0], name)  # type: ignore[list-item]
    lo.forget()
    _forget_values(lo)
    ended, on = lo.b.block("ended"), lo.b.block("on")
    outcome = lo.load_outcome()
    lo.b.branch("jne", outcome, 0, ended, on)
    lo.b.start(ended)
    if broken is not None:
        leave, forget = lo.b.block("leave"), lo.b.block("broken")
        lo.b.branch("jeq", outcome, BROKEN, forget, leave)
        lo.b.start(forget)
        lo.store_outcome(0)
        lo.b.jump(broken)
        lo.b.start(leave)
    lo.leave_function()
    lo.b.start(on)
    return result


def _lower_long_range(lo: Lower, stmt: For) -> None:
    """bpf_loop(n, callback(u32 index, void *ctx), ctx, 0)."""
    assert stmt.end is not None
    start = value_before(lo, stmt.start, stmt.end)
    end = lo.scalar_value(stmt.end)
    some, none = lo.b.block("loop"), lo.b.block("looped")
    # Not a call with a count of 0: the verifier would drop the callback then, and stumble over its address.
    lo.b.branch("jsgt", end, start, some, none)
    lo.b.start(some)
    count = lo.b.alu("sub", end, start)
    with _build_callback(lo, "loop", 2, 1) as function:
        index = lo.b.extend(function.params[0], 32, False)
        assign_variable(lo, stmt.variable, lo.b.alu("add", index, _start_value(lo, stmt)))
        _lower_body(lo, stmt)
    _store_start(lo, stmt, start)
    result = _run_callback(lo, h.LOOP, count, function, "loop")
    lo.on_failure(result, "helper", "loop")
    lo.b.start(none)


def lower_long_while(lo: Lower, stmt: While) -> None:
    """bpf_loop(as often as it may, callback(u32 index, void *ctx), ctx, 0); the callback looks at the condition."""
    with _build_callback(lo, "while", 2, 1):
        body, leave = lo.b.block("body"), lo.b.block("end")
        with lo.scope():
            lo.branch_on(stmt.cond, body, leave)
        lo.b.start(body)
        _lower_body(lo, stmt)
        lo.b.start(leave)
        lo.b.exit(1)
        function = lo.b.function
    made = _run_callback(lo, h.LOOP, MAX_LOOPS, function, "loop")
    stopped, on = lo.b.block("stopped", cold=True), lo.b.block("on")
    lo.b.branch("jlt", made, MAX_LOOPS, on, stopped)
    lo.b.start(stopped)
    lo.count_error("loop")
    lo.b.start(on)


def _start_value(lo: Lower, stmt: For) -> Operand:
    """The first index as the callback sees it: a constant, or kept in the frame."""
    if isinstance(stmt.start.const, int):
        return stmt.start.const
    return lo.b.load(lo.frame.base, lo.frame.off + lo.state.sharing.starts[id(stmt)])


def _store_start(lo: Lower, stmt: For, start: Operand) -> None:
    if not isinstance(stmt.start.const, int):
        lo.b.store(lo.frame.base, lo.frame.off + lo.state.sharing.starts[id(stmt)], start)


def _loop_over_map(lo: Lower, stmt: For) -> None:
    """bpf_for_each_map_elem(map, callback(map, key, value, ctx), ctx, 0)."""
    assert isinstance(stmt.start, MapRef)
    info = access.info_of(lo, stmt.start)
    assert info.key is not None
    short = lo.unit.maps[info.name].short
    if not short:
        _over_one_map(lo, stmt, info, info.name, info.key)
        return
    rest = lo.b.block("rest")
    _over_one_map(lo, stmt, info, short, short_type(info.key), rest)
    _over_one_map(lo, stmt, info, info.name, info.key, rest)
    lo.b.start(rest)


def _over_one_map(lo: Lower, stmt: For, info: ScriptMap, name: str, key_type: Type,
                  broken: BasicBlock | None = None) -> None:
    """Loop over one of a map's two halves. ``broken``: where a break in the body leads, past the other half."""
    pair = stmt.variable.slot.type
    assert isinstance(pair, Tuple)
    with _build_callback(lo, "each", 4, 3) as function:
        _, key, value, _ = function.params
        shared = lo.state.variables.get(id(stmt.variable.slot))  # a loop inside of this one looks at the pair
        slot = shared if isinstance(shared, Mem) else Mem(lo.b.slot(pair.size, "pair"))
        memory.clear_bytes(lo, slot, pair.size)
        _copy_key(lo, Mem(key), key_type, slot.at(pair.offsets[0]), pair.of[0])
        second = slot.at(pair.offsets[1])
        if isinstance(info.value, Aggregate):
            merged = _merged_value(lo, name, info, Mem(key), Mem(value))
            lo.b.store(second.base, second.off, merged, pair.of[1].size)
        elif isinstance(info.value, Scalar):
            lo.store_value(second, pair.of[1], memory.read_scalar(lo, Mem(value), info.value))
        else:
            memory.copy_bytes(lo, Mem(value), second, info.value.size)
        lo.state.variables[id(stmt.variable.slot)] = slot
        _lower_body(lo, stmt, tell=broken is not None)
    _run_callback(lo, h.FOR_EACH_MAP, MapFd(name), function, "for_each_map_elem", broken)


def _copy_key(lo: Lower, key: Mem, have: Type, into: Mem, want: Type) -> None:
    if isinstance(have, Tuple) and isinstance(want, Tuple) and have != want:
        convert_tuple(lo, key, have, into, want)
    else:
        memory.copy_bytes(lo, key, into, min(have.size, want.size))


def _merged_value(lo: Lower, name: str, info: ScriptMap, key: Mem, value: Mem) -> Operand:
    """The element's value over all CPUs (the callback gets only one CPU's)."""
    assert isinstance(info.value, Aggregate)
    if lo.unit.maps[name].stride:
        assert isinstance(value.base, Reg)
        return aggregates.merged_slots(lo, name, info.value, value.base)
    if not lo.unit.maps[name].type.endswith("percpu_hash"):
        return aggregates.merged_words(lo, value, info.value)
    return aggregates.merged_at(lo, name, info, lo.operand_address(key))
