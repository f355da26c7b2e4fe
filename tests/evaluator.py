"""What a script means, in plain Python: a reference to compare the kernel's results with.

It walks the checked tree of a :class:`CheckedScript`. Everything is computed from the language's rules with unbounded
integers, cut to the type that the checker gave a node. Operands are evaluated from left to right, the value of
``@m[k] = v`` before its key. Whatever the language does in user space (print(@m), clear, zero) waits in a queue for
:meth:`Evaluator.process`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluator_calls import Calls, Leave
from evaluator_json import data as json_data
from evaluator_json import map_message, message
from evaluator_memory import Object, Reference, load, raw
from evaluator_text import Aggregation, c_divide, converted, cut, map_lines, text, zero
from sonde.language import ast
from sonde.language.ast import Expr
from sonde.semantics.typed import CheckedFunction, CheckedScript
from sonde.types import Aggregate, Array, Bool, Int, NoneType, Pointer, Str, Struct, Symbol, Tuple, Type

COMPARISONS = {"==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
               "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}
EXACT = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b,
         "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << (b & 63),
         ">>": lambda a, b: a >> (b & 63)}


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    """A function of the script ends; ``value`` is its result."""

    def __init__(self, value: Any) -> None:
        self.value = value


def signed(expr: Expr) -> bool:
    return isinstance(expr.type, Int) and expr.type.signed


def scale(type: Type | None) -> int:
    """What a number that is added to a value of this type is multiplied by."""
    return type.to.size if isinstance(type, Pointer) else 1


def adapts(expr: Expr) -> bool:
    """Whether the sign of an integer is that of what it meets: constants that are not negative, and booleans."""
    return isinstance(expr.const, int) and expr.const >= 0 or isinstance(expr.type, Bool)


def divides_signed(type: Type, value: Expr) -> bool:
    """Whether a division in place is signed: int64 holds both numbers, or a constant takes the other's sign."""
    unsigned = [t.bits for t, free in ((type, False), (value.type, adapts(value)))
                if isinstance(t, Int) and not t.signed and not free]
    if len(unsigned) == 2 or not isinstance(type, Int):
        return False
    if adapts(value):
        return type.signed
    return not unsigned or unsigned[0] < 64


def divided(op: str, a: int, b: int, is_signed: bool) -> int:
    """Quotient or remainder of 64 bits; 1 if there is none."""
    wide = Int(64, is_signed)
    a, b = cut(a, wide), cut(b, wide)
    if b == 0:
        return 1
    return cut(c_divide(a, b) if op == "/" else a - b * c_divide(a, b), wide)


def _unsigned(value: Any) -> Any:
    """What composite values are compared by: their numbers modulo 2**64, as mixed signs are compared."""
    if isinstance(value, tuple):
        return tuple([_unsigned(v) for v in value])
    return cut(value, Int(64, False)) if isinstance(value, int) else value


class Evaluator(Calls):
    """Runs a checked script. ``builtins`` has the values of pid, comm ...; ``output`` is what was printed:
    text, or ``json``."""

    def __init__(self, checked: CheckedScript, builtins: Mapping[str, Any] | None = None, json: bool = False) -> None:
        self.checked = checked
        self.json = json
        self.builtins = dict(builtins or {})
        self.variables: dict[int, Any] = {}
        self.maps: dict[str, dict[Any, Any]] = {name: {} for name in checked.maps}
        self.queue: list[tuple[str, Any]] = []
        self.output: list[str] = []
        self.exited = False
        self.functions: Mapping[str, CheckedFunction] = {}  # those of the program that runs
        self.function: CheckedFunction | None = None  # the one that runs

    # running

    def run(self, kind: str) -> None:
        """Every program of that kind of probe, once."""
        for probe in self.checked.probes:
            if probe.attach[0].kind == kind and (kind == "end" or not self.exited):
                self.variables = {}
                self.functions, self.function = probe.functions, None
                self.builtins["probe"] = probe.attach[0].name.encode()
                try:
                    if probe.clause.predicate is None or self.true(probe.clause.predicate):
                        self.block(probe.clause.body)
                except Leave:
                    pass

    def process(self) -> None:
        """What user space does with the records."""
        for kind, data in self.queue:
            if kind == "printf":
                self.output.append(message("printf", data) if self.json else data)
            elif kind == "value":
                self.output.append(message("value", json_data(*data)) if self.json else text(*data) + "\n")
            elif kind == "print_map":
                self.output.append(self.map_text(*data, unset=True))
            else:
                self._reset(data, kind)
        self.queue.clear()

    def _reset(self, name: str, kind: str) -> None:
        kept = self.maps[name] if kind == "zero" else []
        self.maps[name] = {key: zero(self.checked.maps[name].value) for key in kept}

    def map_text(self, name: str, top: int = 0, div: int = 1, unset: bool = False) -> str:
        """A map as it is printed; ``unset``: one without key and value shows zero, unless it is drawn."""
        info = self.checked.maps[name]
        items = self.maps[name]
        if unset and info.key is None and getattr(info.value, "kind", "") not in ("hist", "lhist", "tseries"):
            items = items or {None: zero(info.value)}
        what = name, info.value, info.key, items, top, div
        return map_message(*what) if self.json else "".join([line + "\n" for line in map_lines(*what)])

    def final_maps(self) -> str:
        """All maps, as they are printed at the end."""
        return ("" if self.json else "\n\n") + "".join([self.map_text(name) for name in sorted(self.maps)])

    # statements

    def block(self, body: list[Any]) -> None:
        for statement in body:
            getattr(self, "_do_" + type(statement).__name__.lower())(statement)

    def _do_exprstmt(self, node: ast.ExprStmt) -> None:
        self.value(node.expr)

    def _do_block(self, node: ast.Block) -> None:
        self.block(node.body)

    def _do_vardecl(self, node: ast.VarDecl) -> None:
        slot = node.target.slot
        self.variables[id(slot)] = zero(slot.type) if node.value is None else \
            converted(self.kept(node.value), node.value.type, slot.type)

    def _do_assign(self, node: ast.Assign) -> None:
        target = node.target
        if isinstance(target, ast.MapRef):
            self._assign_map(node, target)
            return
        assert isinstance(target, ast.Variable)
        type = target.slot.type
        have = type
        if node.op == "=":
            value, have = self.kept(node.value), node.value.type
        else:
            value = self._compound(node, self.value(target), self.value(node.value), type)
        self.variables[id(target.slot)] = converted(value, have, type)

    def _assign_map(self, node: ast.Assign, target: ast.MapRef) -> None:
        info = self.checked.maps[target.name]
        call = node.value
        if isinstance(info.value, Aggregate):
            assert isinstance(call, ast.Call)
            amount = self.value(call.args[0]) if call.args else 1
            self.maps[target.name].setdefault(self._key(target), Aggregation(info.value)).add(amount)
            return
        value, have = (self.kept if node.op == "=" else self.value)(node.value), node.value.type
        key = self._key(target)
        if node.op != "=":
            have = info.value
            value = self._compound(node, self.maps[target.name].get(key, 0), value, info.value)
        self.maps[target.name][key] = converted(value, have, info.value)

    def _compound(self, node: ast.Assign, old: int, value: int, type: Type) -> int:
        """``x op= value`` is ``x = x op value``."""
        if node.op not in ("/", "%"):
            return int(EXACT[node.op](old, value * scale(type)))
        return divided(node.op, old, value, divides_signed(type, node.value))

    def _do_if(self, node: ast.If) -> None:
        self.block(node.then if self.true(node.cond) else node.other)

    def _once(self, body: list[Any]) -> bool:
        """One round of a loop; whether another may follow."""
        try:
            self.block(body)
        except _Continue:
            pass
        except _Break:
            return False
        return True

    def _do_while(self, node: ast.While) -> None:
        while self.true(node.cond) and self._once(node.body):
            pass

    def _do_unroll(self, node: ast.Unroll) -> None:
        for _ in range(self.value(node.count)):
            if not self._once(node.body):
                break

    def _do_for(self, node: ast.For) -> None:
        slot = node.variable.slot
        rounds: Any
        if node.end is not None:
            rounds = range(self.value(node.start), self.value(node.end))
        else:
            assert isinstance(node.start, ast.MapRef)
            rounds = list(self.maps[node.start.name].items())
        for item in rounds:
            if isinstance(item, tuple) and isinstance(item[1], Aggregation):
                item = item[0], item[1].value()
            self.variables[id(slot)] = cut(item, slot.type) if isinstance(item, int) else item
            if not self._once(node.body):
                break

    def _do_break(self, node: ast.Break) -> None:
        raise _Break

    def _do_continue(self, node: ast.Continue) -> None:
        raise _Continue

    def _do_return(self, node: ast.Return) -> None:
        value = None if node.value is None else self.value(node.value)
        if self.function is not None:
            raise _Return(None if node.value is None else converted(value, node.value.type, self.function.result))
        raise Leave

    # expressions

    def true(self, expr: Expr) -> bool:
        return bool(self.value(expr))

    def value(self, expr: Expr) -> Any:
        """The value of an expression, in the range of its type."""
        return getattr(self, "_" + type(expr).__name__.lower())(expr)

    def _as(self, expr: Expr, type: Type | None) -> Any:
        return converted(self.value(expr), expr.type, type)

    def _kept_as(self, expr: Expr, type: Type | None) -> Any:
        return converted(self.kept(expr), expr.type, type)

    def _key(self, ref: ast.MapRef) -> Any:
        return None if ref.key is None else self._kept_as(ref.key, self.checked.maps[ref.name].key)

    def _intliteral(self, expr: ast.IntLiteral) -> int:
        return expr.value

    def _boolliteral(self, expr: ast.BoolLiteral) -> int:
        return int(expr.value)

    def _strliteral(self, expr: ast.StrLiteral) -> bytes:
        return expr.value.encode("utf-8", "surrogateescape")

    def _constant(self, expr: Expr) -> Any:
        assert expr.const is not None
        return expr.const.encode("utf-8", "surrogateescape") if isinstance(expr.const, str) else expr.const

    _positional = _sizeof = _offsetof = _constant

    def _name(self, expr: ast.Name) -> Any:
        return self._constant(expr) if expr.const is not None else self.builtins[expr.name]

    def _variable(self, expr: ast.Variable) -> Any:
        found = self.variables.get(id(expr.slot))
        return zero(expr.slot.type) if found is None else found

    def _mapref(self, expr: ast.MapRef) -> Any:
        found = self.maps[expr.name].get(self._key(expr))
        if found is None:
            found = zero(self.checked.maps[expr.name].value)
        return found.value() if isinstance(found, Aggregation) and not isinstance(expr.type, Aggregate) else found

    def _tupleexpr(self, expr: ast.TupleExpr) -> tuple[Any, ...]:
        assert isinstance(expr.type, Tuple)
        return tuple([self._kept_as(item, type) for item, type in zip(expr.items, expr.type.of)])

    def _tupleaccess(self, expr: ast.TupleAccess) -> Any:
        return self.value(expr.operand)[expr.index]

    def _fieldaccess(self, expr: ast.FieldAccess) -> Any:
        owner, type = self.value(expr.operand), expr.operand.type
        if isinstance(type, Pointer):
            owner, type = load(owner, type.to), type.to
        if isinstance(type, Struct):
            assert isinstance(owner, Object)
            return owner.member(type, expr.name)
        assert isinstance(type, Tuple)
        return owner[type.names.index(expr.name)]

    def _index(self, expr: ast.Index) -> Any:
        values, at, type = self.value(expr.operand), self.value(expr.index), expr.operand.type
        if isinstance(type, Pointer):
            return load(values + at * type.to.size, type.to)
        if isinstance(type, Str):
            values = [cut(byte, expr.type) for byte in raw(values, type)]
        return values[at] if 0 <= at < len(values) else values[0]

    def _blockexpr(self, expr: ast.BlockExpr) -> Any:
        self.block(expr.body)
        assert expr.value is not None
        return self._as(expr.value, expr.type)

    def _ternary(self, expr: ast.Ternary) -> Any:
        if expr.then is not None:
            chosen = isinstance(expr.other, ast.RuledOut) or self.true(expr.cond)
            return self._as(expr.then if chosen else expr.other, expr.type)
        first = self.value(expr.cond)
        return converted(first, expr.cond.type, expr.type) if first else self._as(expr.other, expr.type)

    def _cast(self, expr: ast.Cast) -> Any:
        value, have, want = self.value(expr.operand), expr.operand.type, expr.type
        if isinstance(want, Array) and have is not None:
            size = want.of.size
            bits = raw(value, have).ljust(want.size, b"\0")
            return tuple([cut(int.from_bytes(bits[i * size:i * size + size], "little"), want.of)
                          for i in range(want.count)])
        if isinstance(have, Array) and isinstance(want, Int):
            return cut(int.from_bytes(raw(value, have), "little"), want)
        return int(bool(value)) if isinstance(want, Bool) else converted(value, have, want)

    def _unary(self, expr: ast.Unary) -> Any:
        if expr.op in ("++", "--"):
            return self._step(expr)
        if expr.op == "&":
            return Reference(lambda: self.value(expr.operand))
        value = self.value(expr.operand)
        if expr.op == "*":
            assert expr.type is not None
            return value.load() if isinstance(value, Reference) else load(value, expr.type)
        if expr.op == "!":
            return int(not value)
        exact = -value if expr.op == "-" else ~value
        type = expr.operand.type
        if isinstance(expr.const, int) and not isinstance(expr.operand, ast.Cast):
            return self._exact(expr, exact if expr.op == "-" else cut(exact, expr.type))
        return cut(exact, type if isinstance(type, Int) and not type.signed else Int(64, signed(expr)))

    def kept(self, expr: Expr) -> Any:
        """The value as it is printed or put into a variable, tuple or key: of what was negated or complemented,
        the bits of its own width without a sign."""
        value = self.value(expr)
        if isinstance(expr, ast.Unary) and expr.op in ("-", "~") and expr.const is None \
                and isinstance(expr.operand.type, Int):
            return cut(value, Int(expr.operand.type.size * 8, False))
        return value

    def _exact(self, expr: Expr, value: int) -> int:
        """Constants are computed exactly; the checker must have found the same."""
        wrapped = value if -(1 << 63) <= value < 1 << 64 else cut(value, Int(64, value < 0))
        wrapped = cut(wrapped, Int(64)) if signed(expr) else wrapped
        assert expr.const == wrapped, (expr.span.text, expr.const, wrapped)
        return wrapped

    def _step(self, expr: ast.Unary) -> int:
        amount = 1 if expr.op == "++" else -1
        target = expr.operand
        if isinstance(target, ast.Variable):
            old = self.value(target)
            new = self.variables[id(target.slot)] = cut(old + amount * scale(target.slot.type), target.slot.type)
        else:
            assert isinstance(target, ast.MapRef)
            key, elements = self._key(target), self.maps[target.name]
            old = elements.get(key, 0)
            new = elements[key] = cut(old + amount, self.checked.maps[target.name].value)
        return old if expr.postfix else new

    def _binary(self, expr: ast.Binary) -> int:
        op = expr.op
        if op in ("&&", "||"):
            return int(self.true(expr.left) and self.true(expr.right) if op == "&&"
                       else self.true(expr.left) or self.true(expr.right))
        a, b = self.value(expr.left), self.value(expr.right)
        folded = isinstance(expr.left.const, int) and isinstance(expr.right.const, int)
        if op in COMPARISONS:
            if expr.compare in ("signed", "unsigned") and not folded:
                wide = Int(64, expr.compare == "signed")
                a, b = cut(a, wide), cut(b, wide)
            if expr.compare == "bytes":
                a, b = _unsigned(a), _unsigned(b)
            return int(COMPARISONS[op](a, b))
        if op in ("/", "%"):
            exact = (c_divide(a, b) if op == "/" else a - b * c_divide(a, b)) if folded else \
                divided(op, a, b, signed(expr))
        else:
            to_left, to_right = scale(expr.right.type), scale(expr.left.type)
            if to_left > 1 and to_right > 1:
                return cut(a - b, Int(64)) // to_left
            exact = EXACT[op](a * to_left, b * to_right)
        return self._exact(expr, exact) if folded else cut(exact, expr.type)

    # calls

    def _call(self, expr: ast.Call) -> Any:
        if expr.name in self.functions:
            return self._function(self.functions[expr.name], expr.args)
        rule = getattr(self, "_call_" + expr.name, None)
        if rule is None:
            return self._constant(expr) if expr.const is not None else self.builtins[expr.name]
        return rule(expr)

    def _function(self, called: CheckedFunction, args: list[Expr]) -> Any:
        """A function of the script: all arguments, then its statements."""
        values = [converted(self.value(arg), arg.type, param.type) for arg, param in zip(args, called.params)]
        for param, value in zip(called.params, values):
            self.variables[id(param)] = value
        caller, self.function = self.function, called
        try:
            self.block(called.clause.body)
        except _Return as returned:
            return returned.value
        finally:
            self.function = caller
        return None if isinstance(called.result, NoneType) else zero(called.result)


__all__ = ["Evaluator", "Symbol", "cut"]
