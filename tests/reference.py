"""What integer expressions are, evaluated in Python: a second opinion on the compiler's arithmetic.

It walks the checked tree and computes with unbounded integers, cut to the type that the checker gave a node.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from evaluator_text import c_divide, cut
from sonde.language.ast import (
    Binary,
    BlockExpr,
    BoolLiteral,
    Cast,
    Expr,
    ExprStmt,
    If,
    IntLiteral,
    RuledOut,
    Ternary,
    Unary,
    Variable,
)
from sonde.types import Int, Type

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
EDGES = (0, 1, 2, 3, 7, 8, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536, (1 << 31) - 1, 1 << 31,
         (1 << 32) - 1, 1 << 32, (1 << 63) - 1)


def _signed(type: Type | None) -> bool:
    return isinstance(type, Int) and type.signed


def _operands(expr: Binary, env: Mapping[str, int], signed: bool) -> tuple[int, int]:
    """Both operands as 64-bit numbers of one signedness."""
    wide = Int(64, signed)
    return cut(evaluate(expr.left, env), wide), cut(evaluate(expr.right, env), wide)


def _binary(expr: Binary, env: Mapping[str, int]) -> int:
    op = expr.op
    if op == "&&":
        return int(evaluate(expr.left, env) != 0 and evaluate(expr.right, env) != 0)
    if op == "||":
        return int(evaluate(expr.left, env) != 0 or evaluate(expr.right, env) != 0)
    if op in ("==", "!=", "<", "<=", ">", ">="):
        a, b = _operands(expr, env, expr.compare == "signed")
        return int({"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])
    if op in ("/", "%"):
        a, b = _operands(expr, env, _signed(expr.type))
        if b == 0:
            return 1
        return cut(c_divide(a, b) if op == "/" else a - b * c_divide(a, b), expr.type)
    a, b = evaluate(expr.left, env), evaluate(expr.right, env)
    if op in ("<<", ">>"):
        return cut(a << (b & 63) if op == "<<" else a >> (b & 63), expr.type)
    return cut({"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[op], expr.type)


def _branch(body: list[object], env: Mapping[str, int]) -> Expr:
    """The expression that ends the branch taken."""
    last = body[-1]
    if isinstance(last, ExprStmt):
        return last.expr
    assert isinstance(last, If)
    return _branch(list(last.then if evaluate(last.cond, env) else last.other), env)


def evaluate(expr: Expr, env: Mapping[str, int]) -> int:
    """The value of a checked integer expression; ``env`` has the variables by name."""
    if isinstance(expr.const, int):
        return int(expr.const)
    if isinstance(expr, (IntLiteral, BoolLiteral)):
        return int(expr.value)
    if isinstance(expr, Variable):
        return env[expr.name]
    if isinstance(expr, Unary):
        value = evaluate(expr.operand, env)
        if expr.op == "!":
            return int(value == 0)
        assert isinstance(expr.operand.type, Int)
        return cut(-value if expr.op == "-" else ~value, Int(64) if expr.operand.type.signed else expr.operand.type)
    if isinstance(expr, Binary):
        return _binary(expr, env)
    if isinstance(expr, Ternary):
        condition = evaluate(expr.cond, env)
        if expr.then is None:
            return cut(condition if condition else evaluate(expr.other, env), expr.type)
        chosen = expr.then if condition or isinstance(expr.other, RuledOut) else expr.other
        return cut(evaluate(chosen, env), expr.type)
    if isinstance(expr, BlockExpr):
        chosen = expr.value if expr.value is not None else _branch(expr.body, env)
        return cut(evaluate(chosen, env), expr.type)
    assert isinstance(expr, Cast), expr
    return cut(evaluate(expr.operand, env), expr.type)


def evaluate_kept(expr: Expr, env: Mapping[str, int]) -> int:
    """The value as a variable gets it: of what was negated or complemented, the bits of its own width, no sign."""
    value = evaluate(expr, env)
    if isinstance(expr, Unary) and expr.op != "!" and expr.const is None:
        assert isinstance(expr.operand.type, Int)
        return cut(value, Int(expr.operand.type.bits, False))
    return value


class Expressions:
    """Writes random integer expressions over ``$a`` ... ``$h``, one variable of each type."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = dict(zip("abcdefgh", TYPES))
        self.env = {name: cut(self.number(), _of(type)) for name, type in self.names.items()}

    def number(self) -> int:
        if self.random.random() < 0.6:
            return self.random.choice(EDGES) * self.random.choice((1, 1, -1))
        return self.random.getrandbits(self.random.randrange(1, 65)) - (1 << 62) * self.random.randrange(2)

    def definitions(self) -> str:
        """Statements that give the variables their values in a way that the compiler cannot see through."""
        return " ".join(f"@v[{i}] = (int64){cut(value, Int(64))}; let ${name}: {self.names[name]} = "
                        f"({self.names[name]})@v[{i}];" for i, (name, value) in enumerate(self.env.items()))

    def text(self, depth: int = 3) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.1:
            return f"${self.random.choice(list(self.names))}"
        left, right = self.text(depth - 1), self.text(depth - 1)
        if self.random.random() < 0.25:  # never on both sides: the checker refuses constants that overflow
            right = str(self.random.choice(EDGES))
        if pick < 0.4:
            return f"({left} {self.random.choice('+ - * & | ^'.split())} {right})"
        if pick < 0.5:  # by zero at run time only: the checker refuses a constant
            by = f"(${self.random.choice(list(self.names))} * {right})"
            return f"({left} {self.random.choice('/%')} {by})"
        if pick < 0.6:
            return f"({left} {self.random.choice(('<<', '>>'))} {self.random.choice((f'({right} & 63)', '3', '63'))})"
        if pick < 0.7:
            op = self.random.choice("-~!")
            return f"{op}({left})" if op == "!" else f"{op}({self.random.choice(TYPES)})({left})"  # not of a bool
        if pick < 0.8:
            return f"(({self.random.choice(TYPES)})({left}))"
        order = self.random.choice("== != < <= > >= && ||".split())
        if pick < 0.9:
            return f"({left} {order} {right})"
        if pick < 0.93:
            return f"(if ({left} {order} {right}) {{ {self.integer(depth - 1)} }} else {{ ({TYPES[0]})({left}) }})"
        return f"({left} {order} {right} ? {self.integer(depth - 1)} : {self.integer(depth - 1)})"

    def integer(self, depth: int) -> str:
        """An expression that is no bool: the branches of a choice are not one of each."""
        return f"({self.random.choice(TYPES)})({self.text(depth)})"


def _of(name: str) -> Int:
    return Int(int(name.lstrip("uint")), not name.startswith("u"))


__all__ = ["EDGES", "TYPES", "Expressions", "cut", "evaluate_kept"]
