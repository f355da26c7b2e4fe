"""How much work the verifier has: an estimate, which decides whether loops stay loops or become callbacks of
bpf_loop().

A loop is followed iteration by iteration, with all the paths through its body; it costs least when it runs. A callback
is verified until nothing new turns up, however often it may run (check_helper_call() and is_state_visited() in
kernel/bpf/verifier.c).
"""

from __future__ import annotations

from ..language.ast import (
    Assign,
    Binary,
    Call,
    ExprStmt,
    For,
    If,
    MapRef,
    Node,
    Reference,
    Ternary,
    Unary,
    Unroll,
    Variable,
    While,
)
from ..semantics.callees import BuiltinRow, row_of
from ..semantics.nodes import Tree, walk_nodes
from ..semantics.typed import CheckedFunction
from ..types import Scalar

BUDGET = 4_000   # of a loop that stays one
ROUNDS = 256     # the most rounds of one
CALLBACK = 3     # times that the verifier looks at a callback
_OWN = ((If, 6), (Ternary, 8), (MapRef, 20), (Unary, 2))


def estimate_cost(tree: Tree) -> int:
    """Of all statements and expressions in ``tree``, in instructions, roughly."""
    if isinstance(tree, list):
        return sum([estimate_cost(item) for item in tree])
    if not isinstance(tree, Node):
        return 0
    inside = sum([estimate_cost(value) for value in tree.values() if isinstance(value, (Node, list))])
    if isinstance(tree, (For, While)):
        count = count_rounds(tree)
        return inside * (CALLBACK if count is None else min(count, max(CALLBACK, BUDGET // max(inside, 1))))
    if isinstance(tree, Unroll) and isinstance(tree.count.const, int):
        return inside * tree.count.const
    return inside + _own_cost(tree)


def _own_cost(node: Node) -> int:
    if isinstance(node, Reference) and isinstance(node.callee, BuiltinRow):
        return node.callee.cost
    if isinstance(node, Call):
        return _of_call(node)
    if isinstance(node, Binary):
        return 3 if isinstance(node.left.type, Scalar) else 120
    for kind, amount in _OWN:
        if isinstance(node, kind):
            return amount
    return 1


def _of_call(node: Call) -> int:
    if isinstance(node.callee, CheckedFunction):  # looked at for each call
        return 30 + estimate_cost(node.callee.clause.body)
    row = row_of(node)
    return row.cost if row is not None else 30


def count_rounds(loop: For | While) -> int | None:
    """The most rounds that a loop can make, if the script shows it."""
    if isinstance(loop, While):
        return _is_counted(loop)
    if loop.end is None or not isinstance(loop.start.const, int) or not isinstance(loop.end.const, int):
        return None
    return max(0, loop.end.const - loop.start.const)


def _is_counted(loop: While) -> int | None:
    """``while ($i < 10) { ... $i++; ... }``, where nothing else is done to $i and no round goes without the step. What
    $i begins with is not known, but it is hardly far from 0; one that counts down begins anywhere."""
    test = loop.cond
    if not isinstance(test, Binary) or test.op not in ("<", "<="):
        return None
    counter, bound = test.left, test.right
    if not isinstance(counter, Variable) or not isinstance(bound.const, int) or bound.const <= 0:
        return None
    steps = [n for statement in loop.body for n in _is_stepped(statement) if n.slot is counter.slot]
    changes = [n for n in walk_nodes(loop.body) if isinstance(n, Variable) and n.slot is counter.slot
               and _is_target(loop.body, n)]
    continues = any(type(n).__name__ == "Continue" for n in walk_nodes(loop.body))
    if len(steps) != 1 or len(changes) != 1 or continues and not _steps_first(loop, counter):
        return None
    return bound.const + 1


def _is_stepped(statement: Node) -> list[Variable]:
    """The variable to which a statement adds a positive constant."""
    if isinstance(statement, ExprStmt) and isinstance(statement.expr, Unary) and statement.expr.op == "++" \
            and isinstance(statement.expr.operand, Variable):
        return [statement.expr.operand]
    if isinstance(statement, Assign) and statement.op == "+" and isinstance(statement.target, Variable) \
            and isinstance(statement.value.const, int) and statement.value.const > 0:
        return [statement.target]
    return []


def _steps_first(loop: While, counter: Variable) -> bool:
    return bool(loop.body) and any(n.slot is counter.slot for n in _is_stepped(loop.body[0]))


def _is_target(body: Tree, variable: Variable) -> bool:
    """Whether this use of a variable changes it, or lets something else do so."""
    for node in walk_nodes(body):
        if isinstance(node, Assign) and node.target is variable:
            return True
        if isinstance(node, Unary) and node.op in ("++", "--", "&") and node.operand is variable:
            return True
        row = row_of(node)
        if row is not None and row.sets_variable and isinstance(node, Call) and variable in node.args:
            return True
    return False


def stays_loop(loop: For | While) -> bool:
    """Whether a loop is cheap enough for the verifier to follow round by round."""
    count = count_rounds(loop)
    if count is None or count > ROUNDS:
        return False
    return count * max(1, estimate_cost(loop.body)) <= BUDGET
