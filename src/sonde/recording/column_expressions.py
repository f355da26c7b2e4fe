"""Expressions as Python code over the recorded columns of events: the counterpart of the code compiled for the kernel.

Numbers are as in the kernel: 64 bits, truncated to the width of their type wherever the compiler does so (see
compiler/lower/arithmetic.py and expressions.py). What is refused here is left to :mod:`sonde.recording.execution`.
"""

from __future__ import annotations

from .. import types as t
from ..base.words import MASK
from ..errors import UsageError
from ..language import ast
from ..semantics.nodes import walk_nodes
from ..semantics.typed import Element
from ..source import Span
from ..types import Type
from .events import BUILTINS, FIELD, RecordedEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..semantics.typed import CheckedScript

ARITHMETIC = {"+", "-", "*", "&", "|", "^"}
_COMPARISONS = {"==", "!=", "<", "<=", ">", ">="}
_PLAIN_KINDS = ("", "hash")  # of maps: those that keep what is assigned
SINGLE = (t.Int, t.Bool, t.Str)  # values of these types are numbers or bytes in the code


class UnanswerableError(UsageError):
    """The recording cannot answer."""

    def __init__(self, span: Span | None, what: str, hints: Sequence[str] = ()) -> None:
        super().__init__(f"{span}: a recording cannot be asked for {what}" if span is not None
                         else f"a recording cannot be asked for {what}",
                         [*hints, "it has what events are made of (sonde record --events), and nothing of the machine"])


class Columns:
    """The columns of an event that are read, by the names of its fields; without an event (``begin``, ``end``) there
    are none."""

    def __init__(self, event: RecordedEvent | None) -> None:
        self._event = event
        self.names: list[str] = []

    def read(self, name: str) -> str:
        """The variable that holds a field."""
        if name not in self.names:
            self.names.append(name)
        return f"x{self.names.index(name)}"

    def read_as(self, name: str, type: Type | None, span: Span | None, reason: str) -> str:
        """The same, for a field that the script assumes to be of this type. UnanswerableError if it is not."""
        have = self._event.fields.get(name) if self._event is not None else None
        if have is None or not isinstance(have, SINGLE) or have != type:
            raise UnanswerableError(span, f"{reason}, which was not recorded")
        return self.read(name)


class States:
    """The dictionaries that hold the contents of a script's maps, for all clauses: ``used`` are (map, which of its
    dictionaries). ``ordered``: their contents depend on the order of events."""

    def __init__(self, checked: CheckedScript) -> None:
        self.maps = checked.maps
        self.used: list[tuple[str, int]] = []
        self.stepped = {ref.name for probe in checked.probes for tree in probe.trees for node in walk_nodes(tree)
                        for ref in _stepped(node)}  # maps of numbers that may have outgrown their type
        self.ordered = False
        self._counts_reads = checked.options.count_reads

    def use(self, name: str, part: int = 0) -> int:
        """The number of a map's dictionary in the code: ``m7``, and ``g7`` for its ``get``."""
        if (name, part) not in self.used:
            self.used.append((name, part))
        return self.used.index((name, part))

    def use_plain(self, name: str, span: Span | None) -> int:
        """The same for a map of plain values, whose order of insertion and deletion matters. UnanswerableError for
        other maps."""
        self.ordered = True
        return self.use_added(name, span)

    def use_added(self, name: str, span: Span | None) -> int:
        """The same, where values are only added to."""
        named = self.maps[name]
        if not isinstance(named.value, SINGLE) or named.kind not in _PLAIN_KINDS or self._counts_reads:
            raise UnanswerableError(span, "a map of other values")
        return self.use(name)


def _stepped(node: ast.Node) -> Iterator[ast.MapRef]:
    """The element that is added to."""
    target = node.operand if isinstance(node, ast.Unary) and node.op in ("++", "--") \
        else node.target if isinstance(node, ast.Assign) and node.op != "=" else None
    if isinstance(target, ast.MapRef):
        yield target


class Expressions:
    """Writes expressions. ``variables`` are the names of a clause's variables, by their slots; ``find_division`` gives
    the number under which divisions by zero are counted."""

    def __init__(self, columns: Columns, states: States, find_division: Callable[[Span | None], int]) -> None:
        self._columns = columns
        self._states = states
        self._find_division = find_division
        self.variables: dict[int, str] = {}

    def condition(self, node: ast.Expr) -> str:
        """A Python expression that is true where the condition is."""
        if isinstance(node.const, int):
            return str(bool(node.const))
        if isinstance(node, ast.Unary) and node.op == "!":
            return f"(not {self.condition(node.operand)})"
        if isinstance(node, ast.Binary) and node.op in ("&&", "||"):
            word = "and" if node.op == "&&" else "or"
            return f"({self.condition(node.left)} {word} {self.condition(node.right)})"
        if isinstance(node, ast.Binary) and node.op in _COMPARISONS:
            return self._comparison(node)
        if isinstance(node, ast.Call) and node.name == "has_key" and isinstance(node.choice, Element):
            number = self._states.use_plain(node.choice.map, node.span)
            return f"({self.key(node.choice.map, node.choice.key)} in m{number})"
        return f"({self.value(node)} != {repr(b'') if isinstance(node.type, t.Str) else 0})"

    def key(self, name: str, key: ast.Expr | None) -> str:
        """A map's key: None, the only part, or a tuple of the parts, each as the map keeps it."""
        type = self._states.maps[name].key
        if key is None or type is None:
            return "None"
        if not isinstance(key, ast.TupleExpr):
            return self._key_part(key, type)
        if key.names or not isinstance(type, t.Tuple):
            raise UnanswerableError(key.span, "records as keys")
        return f"({', '.join(map(self._key_part, key.items, type.of))},)"

    def _key_part(self, node: ast.Expr, type: Type) -> str:
        return self.converted(node, type, "keys")

    def converted(self, node: ast.Expr, type: Type | None, what: str) -> str:
        """The value converted to this type."""
        if isinstance(type, t.Timestamp) and isinstance(node, ast.Call) and node.name == "strftime":
            return as_unsigned(self.value(node.args[1]))
        have, given = self.stored(node), node.type
        if isinstance(type, t.Str):
            if not isinstance(given, t.Str) or given.size > type.size:
                raise UnanswerableError(node.span, f"{what} that are cut")
            return have
        if not isinstance(type, t.Int | t.Bool) or not isinstance(given, t.Int | t.Bool):
            raise UnanswerableError(node.span, f"{what} of type {type}")
        plain = isinstance(node, ast.FieldAccess | ast.Name | ast.Variable | ast.MapRef)
        return have if plain and given == type else wrap(have, type)

    def _element(self, node: ast.MapRef) -> str:
        """A map's value under a key; zero if there is none."""
        number = self._states.use_plain(node.name, node.span)
        type = self._states.maps[node.name].value
        if isinstance(type, t.Str):
            return f"g{number}({self.key(node.name, node.key)}, b'')"
        value = f"g{number}({self.key(node.name, node.key)}, 0)"
        return wrap(value, type) if node.name in self._states.stepped else value

    def stored(self, node: ast.Expr) -> str:
        """The value as a variable or a key stores it: see Lower.stored_value()."""
        value = self.value(node)
        if isinstance(node, ast.Unary) and node.op in ("-", "~") and node.const is None \
                and isinstance(node.operand.type, t.Int) and node.operand.type.bits < 64:
            return wrap(value, t.Int(node.operand.type.bits, False))
        return value

    def _comparison(self, node: ast.Binary) -> str:
        if node.compare == "float":
            raise UnanswerableError(node.span, "floating-point numbers")
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.left.type, t.Str) and isinstance(node.right.type, t.Str):
            if node.op not in ("==", "!="):
                raise UnanswerableError(node.span, "the order of texts")
        elif isinstance(node.left.type, t.Str) or isinstance(node.right.type, t.Str):
            raise UnanswerableError(node.span, "comparisons of texts with numbers")
        elif node.compare == "signed":
            left, right = as_signed(left, node.left.type), as_signed(right, node.right.type)
        else:
            left, right = (as_unsigned(code, side.type) for code, side in ((left, node.left), (right, node.right)))
        return f"({left} {node.op} {right})"

    def value(self, node: ast.Expr) -> str:
        """A Python expression: a number within its type, or the bytes of a text."""
        if isinstance(node.type, t.Float):
            raise UnanswerableError(node.span, "floating-point numbers")
        if isinstance(node.const, str):
            return repr(node.const.encode("utf-8", "surrogateescape"))
        if isinstance(node.const, int):
            return str(_cut(int(node.const), node.type))
        if isinstance(node, ast.Variable) and id(node.slot) in self.variables:
            return self.variables[id(node.slot)]
        if isinstance(node, ast.FieldAccess) and isinstance(node.operand, ast.Name) and node.operand.name == "args":
            return self._columns.read_as(FIELD + node.name, node.type, node.span, f"args.{node.name}")
        if isinstance(node, ast.MapRef):
            return self._element(node)
        if isinstance(node, ast.Call) and node.name == "has_key" and isinstance(node.choice, Element):
            return f"(1 if {self.condition(node)} else 0)"
        if isinstance(node, ast.Name) or isinstance(node, ast.Call) and not node.args:
            if node.name not in BUILTINS:
                raise UnanswerableError(node.span, node.name)
            return self._columns.read_as(node.name, node.type, node.span, node.name)
        if isinstance(node, ast.Unary) and node.op in ("-", "~"):
            return _negate(f"({node.op}{self.value(node.operand)})", node.operand.type)
        if isinstance(node, ast.Unary) and node.op == "!" or isinstance(node, ast.Binary) \
                and (node.op in ("&&", "||") or node.op in _COMPARISONS):
            return f"(1 if {self.condition(node)} else 0)"
        if isinstance(node, ast.Binary):
            return self._arithmetic(node)
        if isinstance(node, ast.Ternary) and node.then is not None and not isinstance(node.other, ast.RuledOut) \
                and isinstance(node.type, SINGLE):
            either = f"({self.value(node.then)} if {self.condition(node.cond)} else {self.value(node.other)})"
            return either if isinstance(node.type, t.Str) else wrap(either, node.type)
        if isinstance(node, ast.Cast) and isinstance(node.type, t.Int) \
                and isinstance(node.operand.type, t.Int | t.Bool):
            return wrap(self.value(node.operand), node.type)
        raise UnanswerableError(node.span, getattr(node, "name", "") or "this")

    def _arithmetic(self, node: ast.Binary) -> str:
        if not all(isinstance(side.type, t.Int | t.Bool) for side in (node.left, node.right)) or node.type is None:
            raise UnanswerableError(node.span, "arithmetic with what is no number")
        left, right = self.value(node.left), self.value(node.right)
        if node.op in ARITHMETIC:
            return wrap(f"({left} {node.op} {right})", node.type)
        if node.op in ("<<", ">>"):
            if node.op == ">>":
                signed = getattr(node.left.type, "signed", False)
                left = as_signed(left, node.left.type) if signed else as_unsigned(left, node.left.type)
            return wrap(f"({left} {node.op} ({right} & 63))", node.type)
        return self._division(node, left, right, getattr(node.type, "signed", False))

    def _division(self, node: ast.Binary, left: str, right: str, signed: bool) -> str:
        cut = as_signed if signed else as_unsigned
        left, right, op = cut(left, node.left.type), cut(right, node.right.type), "//" if node.op == "/" else "%"
        if not isinstance(node.right.const, int) or not 0 < node.right.const < 1 << 63:
            name = "quotient" if node.op == "/" else "remainder"
            number = -1 if node.right.const else self._find_division(node.span)
            return f"{name}(failed, {number}, {left}, {right})"
        return f"(d {op} {right} if (d := {left}) >= 0 else -(-d {op} {right}))" if signed else f"({left} {op} {right})"


def quotient(failed: list[int], number: int, left: int, right: int) -> int:
    """The quotient of two numbers, both signed or both unsigned; by zero it is 1, and counted as failure ``number``."""
    if not right:
        failed[number] += 1
        return 1
    magnitude = abs(left) // abs(right)
    too_large = left < 0 and magnitude == 1 << 63  # the lowest number by -1
    return -magnitude if (left < 0) != (right < 0) or too_large else magnitude


def remainder(failed: list[int], number: int, left: int, right: int) -> int:
    """The same for the remainder, which has the sign of the dividend."""
    if not right:
        failed[number] += 1
        return 1
    magnitude = abs(left) % abs(right)
    return magnitude if left >= 0 else -magnitude


def _negate(code: str, type: Type | None) -> str:
    if getattr(type, "signed", False):
        return as_signed(code)
    return wrap(code, type)


def _cut(number: int, type: Type | None) -> int:
    """A constant truncated to its type."""
    bits, signed = (type.bits, type.signed) if isinstance(type, t.Int) else (64, True)
    half = 1 << bits - 1 if signed else 0
    return (number + half & (1 << bits) - 1) - half


def wrap(code: str, type: Type | None) -> str:
    """A number truncated to a type, and extended again."""
    if isinstance(type, t.Bool):
        return f"(1 if {code} else 0)"
    bits, signed = (type.bits, type.signed) if isinstance(type, t.Int) else (64, False)
    mask, half = (1 << bits) - 1, 1 << bits - 1
    return f"((({code}) + {half} & {mask}) - {half})" if signed else f"({code} & {mask})"


def as_signed(code: str, type: Type | None = None) -> str:
    """64 bits read as signed; unchanged where the type says that it fits."""
    if isinstance(type, t.Bool) or isinstance(type, t.Int) and (type.signed or type.bits < 64):
        return code
    return wrap(code, t.INT64)


def as_unsigned(code: str, type: Type | None = None) -> str:
    """64 bits read as unsigned."""
    return code if isinstance(type, t.Bool) or isinstance(type, t.Int) and not type.signed else f"({code} & {MASK})"
