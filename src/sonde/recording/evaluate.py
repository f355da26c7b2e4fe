"""Clauses as Python functions over columns: what the compiler makes of them for the kernel, for events that were
kept.

A clause becomes one loop over its columns. Numbers are as the kernel has them: of 64 bits, cut to the width of their
type wherever the compiler cuts them (see compiler/lower/arithmetic.py and expressions.py).

What can be done so is what does not depend on the order of events: a predicate, ``$variables``, ``if``, and maps that
count() and its like fill. Everything else is refused, and left to :mod:`sonde.recording.execution`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import types as t
from ..errors import UsageError
from ..language import ast
from ..source import Span
from ..types import Aggregate, Type
from .events import BUILTINS, FIELD, RecordedEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..semantics.typed import ScriptMap

_MASK = (1 << 64) - 1
_ARITHMETIC = {"+", "-", "*", "&", "|", "^"}
_COMPARISONS = {"==", "!=", "<", "<=", ">", ">="}

Loop = Callable[..., None]  # (columns, then the dictionaries of each map's state)


class Refused(UsageError):
    """The recording cannot answer."""

    def __init__(self, place: Span | None, what: str) -> None:
        super().__init__(f"{place}: a recording cannot be asked for {what}" if place is not None
                         else f"a recording cannot be asked for {what}",
                         ["it has what events are made of (sonde record --events), and nothing of the machine"])


def hist_bucket(value: int, bits: int) -> int:
    """The index of a hist() bucket: see types.Aggregate."""
    if value < 2 << bits:
        return value + 1 if value >= 0 else 0
    exponent = value.bit_length() - 1
    return 1 + (exponent - bits + 1 << bits) + (value >> exponent - bits) - (1 << bits)


class ClauseWriter:
    """Writes the function of one clause. ``columns`` are the names of the event's fields that it needs, in order;
    ``states`` the maps that it fills, by the names of their dictionaries."""

    def __init__(self, event: RecordedEvent, maps: Mapping[str, ScriptMap]) -> None:
        self._event = event
        self._maps = maps
        self._variables: dict[int, str] = {}
        self._lines: list[str] = []
        self.columns: list[str] = []
        self.states: list[tuple[str, int]] = []  # (map, which of its dictionaries)

    def write(self, clause: ast.Clause) -> Loop:
        """The function. Refused for what it cannot do."""
        if clause.predicate is not None:
            self._add(2, f"if not {self._condition(clause.predicate)}: continue")
        self._body(clause.body, 2)
        columns = [f"c{i}" for i in range(len(self.columns))]
        states = [f"m{i}" for i in range(len(self.states))]
        head = [f"def loop({', '.join(['count', *columns, *states])}):"]
        head += [f"    g{i} = m{i}.get" for i in range(len(states))]
        if columns:
            names = ", ".join([f"x{i}" for i in range(len(columns))])
            head.append(f"    for {names}, in zip({', '.join(columns)}):")
        else:
            head.append("    for _ in range(count):")
        space: dict[str, Any] = {"hist_bucket": hist_bucket}
        exec(compile("\n".join([*head, *self._lines, "        pass"]), "<question>", "exec"), space)
        found: Loop = space["loop"]
        return found

    def _add(self, depth: int, line: str) -> None:
        self._lines.append("    " * depth + line)

    # statements

    def _body(self, body: Sequence[ast.Stmt], depth: int) -> None:
        for statement in body:
            self._statement(statement, depth)

    def _statement(self, node: ast.Stmt, depth: int) -> None:
        if isinstance(node, ast.Assign) and isinstance(node.target, ast.Variable):
            value = self._kept(node.value) if node.op == "=" else self._value(node.value)
            if node.op != "=":
                if node.op not in _ARITHMETIC:
                    raise Refused(node.span, f"{node.op}=")
                value = f"({self._value(node.target)} {node.op} {value})"
            self._assign(node.target, value, depth)
        elif isinstance(node, ast.VarDecl):
            empty = "b''" if isinstance(node.target.slot.type, t.Str) else "0"
            self._assign(node.target, self._kept(node.value) if node.value is not None else empty, depth)
        elif isinstance(node, ast.Assign) and isinstance(node.target, ast.MapRef) and node.op == "=":
            self._aggregate(node.target, node.value, depth)
        elif isinstance(node, ast.ExprStmt) and isinstance(node.expr, ast.Unary) \
                and node.expr.op in ("++", "--") and isinstance(node.expr.operand, ast.MapRef):
            self._step(node.expr.operand, "+ 1" if node.expr.op == "++" else "- 1", depth)
        elif isinstance(node, ast.If):
            self._add(depth, f"if {self._condition(node.cond)}:")
            self._body(node.then, depth + 1)
            self._add(depth + 1, "pass")
            if node.other:
                self._add(depth, "else:")
                self._body(node.other, depth + 1)
        elif isinstance(node, ast.Block):
            self._body(node.body, depth)
        else:
            raise Refused(node.span, "this")

    def _assign(self, target: ast.Variable, value: str, depth: int) -> None:
        type = target.slot.type
        if not isinstance(type, t.Int | t.Bool | t.Str):
            raise Refused(target.span, f"variables of type {type}")
        name = self._variables.setdefault(id(target.slot), f"v{len(self._variables)}")
        self._add(depth, f"{name} = {value if isinstance(type, t.Str) else wrap(value, type)}")

    def _state(self, name: str, part: int = 0) -> int:
        """The number of a map's dictionary in the function."""
        if (name, part) not in self.states:
            self.states.append((name, part))
        return self.states.index((name, part))

    def _step(self, target: ast.MapRef, by: str, depth: int) -> None:
        if not isinstance(self._maps[target.name].value, t.Int):
            raise Refused(target.span, "steps of what is no number")
        number = self._state(target.name)
        self._add(depth, f"k = {self._key(target)}")
        self._add(depth, f"m{number}[k] = g{number}(k, 0) {by}")

    def _aggregate(self, target: ast.MapRef, call: ast.Expr, depth: int) -> None:
        aggregate = self._maps[target.name].value
        if not isinstance(aggregate, Aggregate) or not isinstance(call, ast.Call) or call.name != aggregate.kind \
                or aggregate.kind == "tseries":
            raise Refused(call.span, "what is no aggregate: it depends on what came before")
        n = self._state(target.name)
        self._add(depth, f"k = {self._key(target)}")
        kind = aggregate.kind
        if kind == "count":
            self._add(depth, f"m{n}[k] = g{n}(k, 0) + 1")
            return
        value = self._value(call.args[0])
        if kind == "sum":
            self._add(depth, f"m{n}[k] = g{n}(k, 0) + {value}")
        elif kind in ("avg", "stats"):
            m = self._state(target.name, 1)
            self._add(depth, f"m{n}[k] = g{n}(k, 0) + 1")
            self._add(depth, f"m{m}[k] = g{m}(k, 0) + {value}")
        elif kind in ("min", "max"):
            self._add(depth, f"v = {as_signed(value) if aggregate.signed else f'({value} & {_MASK})'}; w = g{n}(k)")
            self._add(depth, f"if w is None or v {'<' if kind == 'min' else '>'} w: m{n}[k] = v")
        else:
            self._add(depth, f"v = {as_signed(value, call.args[0].type)}")
            self._add(depth, f"k = k, {_bucket_code(aggregate)}")
            self._add(depth, f"m{n}[k] = g{n}(k, 0) + 1")

    def _key(self, target: ast.MapRef) -> str:
        key = target.key
        if key is None:
            return "None"
        if isinstance(key, ast.TupleExpr):
            if key.names:
                raise Refused(key.span, "records as keys")
            return f"({', '.join(map(self._kept, key.items))},)"
        return f"({self._kept(key)},)"

    # expressions

    def _condition(self, node: ast.Expr) -> str:
        """A Python expression that is true where the condition is."""
        if isinstance(node.const, int):
            return str(bool(node.const))
        if isinstance(node, ast.Unary) and node.op == "!":
            return f"(not {self._condition(node.operand)})"
        if isinstance(node, ast.Binary) and node.op in ("&&", "||"):
            word = "and" if node.op == "&&" else "or"
            return f"({self._condition(node.left)} {word} {self._condition(node.right)})"
        if isinstance(node, ast.Binary) and node.op in _COMPARISONS:
            return self._comparison(node)
        return f"({self._value(node)} != {repr(b'') if isinstance(node.type, t.Str) else 0})"

    def _kept(self, node: ast.Expr) -> str:
        """The value as a variable or a key has it: see Lower.kept_value()."""
        value = self._value(node)
        if isinstance(node, ast.Unary) and node.op in ("-", "~") and node.const is None \
                and isinstance(node.operand.type, t.Int) and node.operand.type.bits < 64:
            return wrap(value, t.Int(node.operand.type.bits, False))
        return value

    def _comparison(self, node: ast.Binary) -> str:
        left, right = self._value(node.left), self._value(node.right)
        if isinstance(node.left.type, t.Str) and isinstance(node.right.type, t.Str):
            if node.op not in ("==", "!="):
                raise Refused(node.span, "the order of texts")
        elif isinstance(node.left.type, t.Str) or isinstance(node.right.type, t.Str):
            raise Refused(node.span, "comparisons of texts with numbers")
        elif node.compare == "signed":
            left, right = as_signed(left, node.left.type), as_signed(right, node.right.type)
        else:
            left, right = (as_unsigned(code, side.type) for code, side in ((left, node.left), (right, node.right)))
        return f"({left} {node.op} {right})"

    def _value(self, node: ast.Expr) -> str:
        """A Python expression: a number as its type has it, or the bytes of a text."""
        if isinstance(node.const, str):
            return repr(node.const.encode("utf-8", "surrogateescape"))
        if isinstance(node.const, int):
            return str((int(node.const) + (1 << 63) & _MASK) - (1 << 63))
        if isinstance(node, ast.Variable) and id(node.slot) in self._variables:
            return self._variables[id(node.slot)]
        if isinstance(node, ast.FieldAccess) and isinstance(node.operand, ast.Name) and node.operand.name == "args":
            return self._column(node, FIELD + node.name, f"args.{node.name}")
        if isinstance(node, ast.Name) or isinstance(node, ast.Call) and not node.args:
            if node.name not in BUILTINS:
                raise Refused(node.span, node.name)
            return self._column(node, node.name, node.name)
        if isinstance(node, ast.Unary) and node.op in ("-", "~"):
            return _negate(f"({node.op}{self._value(node.operand)})", node.operand.type)
        if isinstance(node, ast.Unary) and node.op == "!" or isinstance(node, ast.Binary) \
                and (node.op in ("&&", "||") or node.op in _COMPARISONS):
            return f"(1 if {self._condition(node)} else 0)"
        if isinstance(node, ast.Binary):
            return self._arithmetic(node)
        if isinstance(node, ast.Ternary) and node.then is not None and not isinstance(node.other, ast.RuledOut) \
                and isinstance(node.type, t.Int | t.Bool):
            either = f"({self._value(node.then)} if {self._condition(node.cond)} else {self._value(node.other)})"
            return wrap(either, node.type)
        if isinstance(node, ast.Cast) and isinstance(node.type, t.Int) \
                and isinstance(node.operand.type, t.Int | t.Bool):
            return wrap(self._value(node.operand), node.type)
        raise Refused(node.span, getattr(node, "name", "") or "this")

    def _column(self, node: ast.Expr, name: str, said: str) -> str:
        have = self._event.fields.get(name)
        if have is None or not isinstance(have, t.Int | t.Bool | t.Str) or have != node.type:
            raise Refused(node.span, f"{said}: {self._event.name} was recorded without it")
        if name not in self.columns:
            self.columns.append(name)
        return f"x{self.columns.index(name)}"

    def _arithmetic(self, node: ast.Binary) -> str:
        if not all(isinstance(side.type, t.Int | t.Bool) for side in (node.left, node.right)) or node.type is None:
            raise Refused(node.span, "arithmetic with what is no number")
        left, right = self._value(node.left), self._value(node.right)
        if node.op in _ARITHMETIC:
            return wrap(f"({left} {node.op} {right})", node.type)
        if node.op in ("<<", ">>"):
            if node.op == ">>":
                signed = getattr(node.left.type, "signed", False)
                left = as_signed(left, node.left.type) if signed else as_unsigned(left, node.left.type)
            return wrap(f"({left} {node.op} ({right} & 63))", node.type)
        if not isinstance(node.right.const, int) or not 0 < node.right.const < 1 << 63:
            raise Refused(node.span, "division by what is no constant above 0")
        if not getattr(node.type, "signed", False):
            return f"({as_unsigned(left, node.left.type)} {'//' if node.op == '/' else '%'} {right})"
        op = "//" if node.op == "/" else "%"
        return f"(d {op} {right} if (d := {as_signed(left, node.left.type)}) >= 0 else -(-d {op} {right}))"


def _bucket_code(aggregate: Aggregate) -> str:
    if aggregate.kind == "hist":
        if aggregate.bits:
            return f"hist_bucket(v, {aggregate.bits})"
        return "v.bit_length() + 1 if v >= 0 else 0"
    low, high, step = aggregate.low, aggregate.high, aggregate.step
    return f"0 if v < {low} else {aggregate.words - 1} if v >= {high} else (v - {low}) // {step} + 1"


def _negate(code: str, type: Type | None) -> str:
    if getattr(type, "signed", False):
        return as_signed(code)
    return wrap(code, type)


def wrap(code: str, type: Type | None) -> str:
    """A number cut to a type, and extended again."""
    if isinstance(type, t.Bool):
        return f"(1 if {code} else 0)"
    bits, signed = (type.bits, type.signed) if isinstance(type, t.Int) else (64, False)
    mask, half = (1 << bits) - 1, 1 << bits - 1
    return f"((({code}) + {half} & {mask}) - {half})" if signed else f"({code} & {mask})"


def as_signed(code: str, type: Type | None = None) -> str:
    """64 bits read as signed; as it is where the type says that it fits."""
    if isinstance(type, t.Bool) or isinstance(type, t.Int) and (type.signed or type.bits < 64):
        return code
    return wrap(code, t.INT64)


def as_unsigned(code: str, type: Type | None = None) -> str:
    """64 bits read as unsigned."""
    return code if isinstance(type, t.Bool) or isinstance(type, t.Int) and not type.signed else f"({code} & {_MASK})"
