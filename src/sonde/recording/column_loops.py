"""Scripts as loops over columns: what each clause does for a record of its event is translated to Python, and compiled.

This covers predicates, ``$variables``, ``if``, maps that count() and its like fill, maps of numbers and texts that are
read, assigned, incremented and deleted from, printf() of such values; in ``begin`` and ``end`` also print() and clear()
of maps. Everything else is refused, and left to :mod:`sonde.recording.execution`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from struct import Struct as Layout
from typing import Any

from .. import types as t
from ..base.record import Record
from ..base.words import INT_CODES, MASK
from ..language import ast
from ..layouts.event_records import HEADER, RECORD_HEADER
from ..semantics.typed import CheckedProbe, CheckedScript, Element, WholeMap
from ..source import Span
from ..spec import EventSite, ScriptSpec
from ..types import Aggregate, Type
from .column_expressions import (
    ARITHMETIC,
    SINGLE,
    Columns,
    Expressions,
    States,
    UnanswerableError,
    as_signed,
    quotient,
    remainder,
    wrap,
)
from .events import RecordedEvent

Loop = Callable[..., None]  # (rows of each event, the dictionaries of the maps, counts of errors, send)


def hist_bucket(value: int, bits: int) -> int:
    """The index of a hist() bucket: see types.Aggregate."""
    if value < 2 << bits:
        return value + 1 if value >= 0 else 0
    exponent = value.bit_length() - 1
    return 1 + (exponent - bits + 1 << bits) + (value >> exponent - bits) - (1 << bits)


class Step(Record):
    """The code for each record of an event: its lines with their indentation, and the columns that they read."""

    lines: list[tuple[int, str]]
    columns: list[str]


class ScriptWriter:
    """Writes the code of a script; ``states`` are the dictionaries that it needs in the order of its parameters."""

    def __init__(self, checked: CheckedScript, spec: ScriptSpec) -> None:
        self.spec = spec
        self.states = States(checked)
        self.space: dict[str, Any] = {"hist_bucket": hist_bucket, "quotient": quotient, "remainder": remainder}

    def write_step(self, event: RecordedEvent | None, probes: Sequence[tuple[CheckedProbe, str]]) -> Step:
        """The clauses on one event, each with the attach point's name, in order. UnanswerableError if it cannot run
        them."""
        columns = Columns(event)
        lines: list[tuple[int, str]] = []
        for probe, name in probes:
            _ClauseWriter(self, columns, lines, name, event is None).write(probe.clause)
        return Step(lines, columns.names)

    def compile_loop(self, steps: Sequence[Step]) -> Loop:
        """A function over the rows of one event; or of several, each row starting with the index of its event in
        ``steps``, -1 for other events."""
        names = [f"r{n}" for n in range(len(steps))]
        lines = []
        if len(steps) == 1:
            lines += [f"    for {_row(steps[0])} in r0:", *_indent(steps[0], 2)]
        else:
            lines += [f"    n{n} = r{n}.__next__" for n in range(len(steps))]
            lines.append("    for place in order:")
            for n, step in enumerate(steps):
                lines += [f"        if place == {n}:", f"            {_row(step)} = n{n}()", *_indent(step, 3),
                          "            continue"]
            names.insert(0, "order")
        loop: Loop = self._compile("loop", names, lines)
        return loop

    def compile_own(self, step: Step) -> Callable[..., Iterator[None]]:
        """A generator that runs the clauses of ``begin`` or ``end`` once, at ``now``; it pauses where a record asks for
        something to be done at once."""
        own: Callable[..., Iterator[None]] = self._compile(
            "own", ["now"], [*_indent(step, 1), "    return", "    yield"])
        return own

    def _compile(self, name: str, parameters: Sequence[str], lines: Sequence[str]) -> Any:
        states = [f"m{n}" for n in range(len(self.states.used))]
        head = [f"def {name}({', '.join([*parameters, 'failed', 'send', *states])}):",
                *[f"    g{n} = m{n}.get" for n in range(len(states))]]
        try:
            exec(compile("\n".join([*head, *lines]), "<question>", "exec"), self.space)
        except (SyntaxError, RecursionError, MemoryError):  # more levels than Python allows
            raise UnanswerableError(None, "this") from None
        return self.space[name]

    def find_site(self, kinds: Sequence[str], span: Span | None, types: Sequence[Type | None]) -> int:
        """The index of the site for a statement's record. UnanswerableError if the compiler made none for it."""
        for number, site in enumerate(self.spec.sites):
            if site.kind in kinds and site.span == span and [field.type for field in site.fields] == types:
                return number
        raise UnanswerableError(span, "this")

    def find_error(self, name: str, span: Span) -> int:
        """The number under which updates of a full map are counted."""
        for number, site in enumerate(self.spec.errors):
            if site.kind == "map_full" and site.map == name and site.span is not None \
                    and span.start <= site.span.start < span.end:
                return number
        raise UnanswerableError(span, "this")

    def find_division(self, span: Span | None) -> int:
        """The number under which divisions by zero are counted."""
        for number, site in enumerate(self.spec.errors):
            if site.kind == "divide" and site.span == span:
                return number
        raise UnanswerableError(span, "this")


def _row(step: Step) -> str:
    """The names that a row is unpacked into."""
    return f"({''.join([f'x{n}, ' for n in range(len(step.columns))])})"


def _indent(step: Step, depth: int) -> list[str]:
    return ["    " * (depth + more) + line for more, line in [*step.lines, (0, "pass")]]


class _ClauseWriter:
    """Writes one clause. ``own``: it belongs to ``begin`` or ``end``."""

    def __init__(self, script: ScriptWriter, columns: Columns, lines: list[tuple[int, str]], probe: str,
                 own: bool) -> None:
        self._script = script
        self._states = script.states
        self._columns = columns
        self._lines = lines
        self._probe = probe
        self._own = own
        self._code = Expressions(columns, script.states, script.find_division)
        self._early: dict[str, str] = {}
        self._depth = 0

    def write(self, clause: ast.Clause) -> None:
        """Its predicate and its action; variables first met within an ``if`` begin empty."""
        start, depth = len(self._lines), 0
        if clause.predicate is not None:
            self._add(0, f"if {self._code.condition(clause.predicate)}:")
            depth = 1
        self._depth = depth
        self._body(clause.body, depth)
        self._add(depth, "pass")
        self._lines[start:start] = [(0, f"{name} = {empty}") for name, empty in self._early.items()]

    def _add(self, depth: int, line: str) -> None:
        self._lines.append((depth, line))

    def _body(self, body: Sequence[ast.Stmt], depth: int) -> None:
        emptied = ""
        for statement in body:
            if emptied and _on_map(statement, ("clear", "zero")) == emptied:
                emptied = ""  # in one step with the print() before it
                continue
            emptied = self._statement(statement, depth)

    def _statement(self, node: ast.Stmt, depth: int) -> str:
        """Write a statement; the map that a print() empties together with the next statement, if it does."""
        if isinstance(node, ast.Assign) and isinstance(node.target, ast.Variable):
            self._assign(node.target, node.value, node.op, depth)
        elif isinstance(node, ast.VarDecl):
            self._assign(node.target, node.value, "=", depth)
        elif isinstance(node, ast.Assign) and isinstance(node.target, ast.MapRef):
            self._assign_map(node, node.target, depth)
        elif isinstance(node, ast.If):
            self._add(depth, f"if {self._code.condition(node.cond)}:")
            self._body(node.then, depth + 1)
            self._add(depth + 1, "pass")
            if node.other:
                self._add(depth, "else:")
                self._body(node.other, depth + 1)
                self._add(depth + 1, "pass")
        elif isinstance(node, ast.Block):
            self._body(node.body, depth)
        elif isinstance(node, ast.ExprStmt):
            return self._effect(node, depth)
        else:
            raise UnanswerableError(node.span, "this")
        return ""

    def _assign(self, target: ast.Variable, given: ast.Expr | None, op: str, depth: int) -> None:
        type = target.slot.type
        if not isinstance(type, SINGLE) or op not in ("=", *ARITHMETIC):
            raise UnanswerableError(target.span, f"variables of type {type}")
        empty = "b''" if isinstance(type, t.Str) else "0"
        value = empty
        if given is not None and op == "=":
            value = self._code.converted(given, type, "texts")
        elif given is not None:
            value = wrap(f"({self._code.value(target)} {op} {self._code.value(given)})", type)
        name = self._code.variables.setdefault(id(target.slot), f"v{len(self._code.variables)}")
        if depth > self._depth:
            self._early[name] = empty
        self._add(depth, f"{name} = {value}")

    def _effect(self, node: ast.ExprStmt, depth: int) -> str:
        expr = node.expr
        if isinstance(expr, ast.Unary) and expr.op in ("++", "--") and isinstance(expr.operand, ast.MapRef):
            self._step(expr.operand, expr.op[0], "1", node.span, depth)
        elif isinstance(expr, ast.Call) and expr.name == "delete" and isinstance(expr.choice, Element):
            number = self._states.use_plain(expr.choice.map, expr.span)
            self._add(depth, f"m{number}.pop({self._code.key(expr.choice.map, expr.choice.key)}, None)")
        elif isinstance(expr, ast.Call) and isinstance(expr.choice, WholeMap):
            return self._request(node, expr.choice, depth)
        elif isinstance(expr, ast.Call) and expr.name in ("printf", "errorf", "warnf", "print"):
            self._send(expr.span, expr.args[expr.name != "print":], depth)
        else:
            raise UnanswerableError(node.span, "this")
        return ""

    # maps

    def _assign_map(self, node: ast.Assign, target: ast.MapRef, depth: int) -> None:
        type = self._states.maps[target.name].value
        if isinstance(type, Aggregate):
            if node.op != "=":
                raise UnanswerableError(node.span, "this")
            self._aggregate(target, node.value, depth)
        elif node.op == "=":
            number = self._states.use_plain(target.name, node.span)
            value = self._code.converted(node.value, type, "texts")
            self._store(target, number, value, "v", node.span, depth)
        elif node.op in ARITHMETIC:
            self._step(target, node.op, self._code.value(node.value), node.span, depth)
        else:
            raise UnanswerableError(node.span, f"{node.op}=")

    def _step(self, target: ast.MapRef, op: str, by: str, span: Span, depth: int) -> None:
        if not isinstance(self._states.maps[target.name].value, t.Int):
            raise UnanswerableError(target.span, "steps of what is no number")
        if op not in ("+", "-"):
            self._states.ordered = True
        number = self._states.use_added(target.name, span)
        self._store(target, number, by, f"g{number}(k, 0) {op} v", span, depth)

    def _store(self, target: ast.MapRef, number: int, given: str, value: str, span: Span, depth: int) -> None:
        """Evaluate ``given`` as v in any case; then store ``value``, an expression of v, under the key, k."""
        self._add(depth, f"v = {given}")
        named = self._script.spec.find_map(target.name)
        self._add(depth, f"k = {self._code.key(target.name, target.key)}")
        if target.key is None:
            self._add(depth, f"m{number}[k] = {value}")
            return
        if named.short or named.slots:
            raise UnanswerableError(span, "this")
        self._add(depth, f"if k in m{number} or len(m{number}) < {named.max_entries}: m{number}[k] = {value}")
        self._add(depth, f"else: failed[{self._script.find_error(target.name, span)}] += 1")

    def _aggregate(self, target: ast.MapRef, call: ast.Expr, depth: int) -> None:
        aggregate = self._states.maps[target.name].value
        if not isinstance(aggregate, Aggregate) or not isinstance(call, ast.Call) or call.name != aggregate.kind \
                or aggregate.kind == "tseries" or aggregate.floating:
            raise UnanswerableError(call.span, "what is no aggregate: it depends on what came before")
        n = self._states.use(target.name)
        self._add(depth, f"k = {self._code.key(target.name, target.key)}")
        kind = aggregate.kind
        if kind == "count":
            self._add(depth, f"m{n}[k] = g{n}(k, 0) + 1")
            return
        value = self._code.value(call.args[0])
        if kind == "sum":
            self._add(depth, f"m{n}[k] = g{n}(k, 0) + {value}")
        elif kind in ("avg", "stats"):
            m = self._states.use(target.name, 1)
            self._add(depth, f"m{n}[k] = g{n}(k, 0) + 1")
            self._add(depth, f"m{m}[k] = g{m}(k, 0) + {value}")
        elif kind in ("min", "max"):
            self._add(depth, f"v = {as_signed(value) if aggregate.signed else f'({value} & {MASK})'}; w = g{n}(k)")
            self._add(depth, f"if w is None or v {'<' if kind == 'min' else '>'} w: m{n}[k] = v")
        else:
            self._add(depth, f"v = {as_signed(value, call.args[0].type)}")
            self._add(depth, f"k = k, {_bucket_code(aggregate)}")
            self._add(depth, f"m{n}[k] = g{n}(k, 0) + 1")

    # records

    def _send(self, span: Span, values: Sequence[ast.Expr], depth: int) -> None:
        number = self._script.find_site(("printf", "print"), span, [value.type for value in values])
        site = self._script.spec.sites[number]
        codes, end, fields = HEADER, RECORD_HEADER, []
        for value, field in zip(values, site.fields):
            for part, type, at in _parts_of(value, field.type, field.offset):
                if not isinstance(type, (t.Timestamp, *SINGLE)):
                    raise UnanswerableError(span, "what is more than numbers and texts")
                codes += f"{at - end}x{_code(type)}"
                end = at + type.size
                fields.append(self._code.converted(part, type, "texts"))
        self._pack(number, codes + f"{site.size - end}x", fields, depth)

    def _request(self, node: ast.ExprStmt, choice: WholeMap, depth: int) -> str:
        assert isinstance(node.expr, ast.Call)
        kind = {"print": "print_map", "clear": "clear"}.get(node.expr.name, "")
        number = self._script.find_site((kind,), node.expr.span, [])
        site: EventSite = self._script.spec.sites[number]
        if not self._own or site.then == "zero":
            raise UnanswerableError(node.span, "a map as it is on the way")
        self._pack(number, f"{HEADER}{site.size - RECORD_HEADER}x", [], depth)
        self._add(depth, "yield")
        return choice.map if site.data.get("then") else ""

    def _pack(self, number: int, codes: str, fields: Sequence[str], depth: int) -> None:
        self._states.ordered = True
        self._script.space[f"pack{number}"] = Layout(codes).pack
        now = "now" if self._own else self._columns.read("nsecs")
        probe = self._script.spec.probes.index(self._probe)
        self._add(depth, f"send(pack{number}({', '.join([str(number), str(probe), now, *fields])}))")


def _parts_of(value: ast.Expr, type: Type, offset: int) -> Iterator[tuple[ast.Expr, Type, int]]:
    """A value, or those of a tuple: each with its type and where it goes."""
    if isinstance(value, ast.TupleExpr) and isinstance(type, t.Tuple):
        for item, part, at in zip(value.items, type.of, type.offsets):
            yield from _parts_of(item, part, offset + at)
    else:
        yield value, type, offset


def _code(type: Type) -> str:
    return f"{type.size}s" if isinstance(type, t.Str) else INT_CODES[type.size, bool(getattr(type, "signed", False))]


def _on_map(node: ast.Stmt, names: Sequence[str]) -> str:
    """The map for which a statement calls one of these functions."""
    call = node.expr if isinstance(node, ast.ExprStmt) else None
    return call.choice.map if isinstance(call, ast.Call) and call.name in names and isinstance(call.choice, WholeMap) \
        else ""


def _bucket_code(aggregate: Aggregate) -> str:
    if aggregate.kind == "hist":
        if aggregate.bits:
            return f"hist_bucket(v, {aggregate.bits})"
        return "v.bit_length() + 1 if v >= 0 else 0"
    low, high, step = aggregate.low, aggregate.high, aggregate.step
    return f"0 if v < {low} else {aggregate.words - 1} if v >= {high} else (v - {low}) // {step} + 1"


def rows_of(columns: Sequence[Sequence[Any]], count: int) -> Iterator[tuple[Any, ...]]:
    """The rows of an event's columns, which may be none."""
    return zip(*columns) if columns else repeat((), count)
