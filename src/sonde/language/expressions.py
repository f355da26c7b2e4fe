"""Expressions, by precedence climbing."""

from __future__ import annotations

from ..base import regex_cache
from ..source import Span
from . import ast
from .ast import Expr, Stmt
from .lexer import MAX_INT, Token, parse_float, parse_integer, unescape_string
from .type_syntax import TypeParser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}
_LOGICAL = 2  # up to this precedence operators are && and ||, which may be grouped at will
_LONG_CHAIN = 16
_PREFIXES = frozenset(("-", "!", "~", "*", "&", "++", "--"))
_STEPS = frozenset(("++", "--"))
_OF_TYPES = ("typeinfo", "container_of", "_Alignof", "alignof", "__alignof__", "__alignof")  # take bare types
_WIDE = ("L", "u", "U", "u8")  # before a character in C
_POSTFIXES = frozenset((".", "->", "[", "++", "--"))


def _describe_malformed_number(text: str) -> tuple[str, int, int]:
    """What is wrong with a number, and its start and end. A valid unit or suffix is read first: of ``5sec``, ``ec`` is
    wrong."""
    match = regex_cache.fullmatch(r"(0[xX][0-9a-fA-F_]*|[0-9][0-9_]*)([eE][0-9_]*)?((?:[num]?s|[mhd]|[uU]?[lL]{0,2})?)"
                               r"([a-zA-Z_]\w*)?", text)
    if regex_cache.match(r"0[xX](?![0-9a-fA-F_])", text):
        return "syntax: invalid integer: ", 0, 2
    if match is not None:
        digits, exponent, _, suffix = match.groups()
        end = len(digits if digits.endswith("_") else digits + (exponent or ""))
        if text[end - 1] == "_":
            return "syntax: trailing underscore in integer literal", end - 1, end
        if suffix and suffix.lower() != "l":
            return f"syntax: invalid integer suffix '{suffix}'", len(text) - len(suffix), len(text)
        if exponent and len(exponent) > 1 and not suffix:
            return f"syntax: coefficient part of scientific literal must be 1-9: {text}", 0, len(text)
    return f"syntax: invalid trailing bytes: {text}", 0, len(text)


class ExpressionParser(TypeParser):
    """Parses expressions; blocks within them are parsed by the statement parser."""

    cast_names = True  # whether "(name) value" may be a cast; not where it would be "if (name) statement"

    def parse_value_block(self) -> ast.BlockExpr:
        """``{ ...; value }``; see the statement parser."""
        raise NotImplementedError

    def parse_if(self) -> Stmt:
        """``if``, with ``tail`` set if each branch ends in a value; see the statement parser."""
        raise NotImplementedError

    _chosen: Expr | None = None  # the last __builtin_constant_p()
    tail = False  # whether the block or if that was parsed last ends in a value

    def parse_expression(self, least: int = 0) -> Expr:
        """An expression of operators that bind tighter than ``least``; with 0 also ``?:``."""
        self.enter_level()
        outer, self.height = self.height, 0
        left = self.operand()
        start = left.span.start  # after parentheses
        left = self.operations(left, start, least)
        if self.kind == "?" and least == 0:
            left = self._parse_ternary(left, start)
        if self.height < outer:
            self.height = outer
        self.depth -= 1
        return left

    def operations(self, left: Expr, start: int, least: int = 0) -> Expr:
        """The operators after ``left``, which starts at ``start``, that bind tighter than ``least``."""
        while (precedence := PRECEDENCE.get(self.kind, 0)) > least:
            if precedence <= _LOGICAL:
                left = self._parse_logical_chain(left, start, precedence)
                continue
            op = self.advance()[0]
            right = self.parse_expression(precedence)
            left = ast.Binary(self.span_since(start), op=op, left=left, right=right)
            self.grow_height()
        return left

    def _parse_logical_chain(self, first: Expr, start: int, precedence: int) -> Expr:
        """A chain ``a || b || c ...``, as a flat tree if it is long: generated filters have hundreds of terms."""
        op = self.kind
        terms = [first]
        while self.accept(op):
            terms.append(self.parse_expression(precedence))
        if len(terms) <= _LONG_CHAIN:
            whole = first
            for term in terms[1:]:
                whole = ast.Binary(Span(self.source, start, term.span.end), op=op, left=whole, right=term)
                self.grow_height()
            whole.span = self.span_since(start)
            return whole
        while len(terms) > 1:
            terms = [self._join_terms(op, terms[i:i + 2]) for i in range(0, len(terms), 2)]
            self.grow_height()
        return terms[0]

    def _join_terms(self, op: str, terms: list[Expr]) -> Expr:
        if len(terms) == 1:
            return terms[0]
        left, right = terms
        return ast.Binary(left.span.to(right.span), op=op, left=left, right=right)

    def _parse_ternary(self, cond: Expr, start: int) -> Expr:
        """``? then : other`` or ``?: other``, after its condition."""
        self.advance()
        then = None if self.kind == ":" else self.parse_expression()
        self.expect(":", "':'")
        other = self.parse_expression()
        if cond is self._chosen and then is not None:
            return then
        self.grow_height()
        return ast.Ternary(self.span_since(start), cond=cond, then=then, other=other)

    def operand(self) -> Expr:
        """A primary expression with what comes before it (operators, casts) and after it (members, indices)."""
        kind = self.kind
        before: list[tuple[int, str | ast.TypeSyntax]] = []
        while kind in _PREFIXES or kind == "(":
            start = self.token[2]
            if kind == "(":
                cast = self.parse_cast_type(self.cast_names)
                if cast is None:
                    break
                before.append((start, cast))
            else:
                self.advance()
                before.append((start, kind))
                if kind == "&" and self.kind not in ("var", "map"):
                    self._no_address(self.first_word())
            kind = self.kind
        if kind == "&&":
            self._no_address(Span(self.source, self.token[2] + 1, self.token[3]))
        value = self.find_primary()(self)
        start = value.span.start
        while self.kind in _POSTFIXES and not (before and before[-1][1] == "&"):
            value = self._parse_postfix(value, start)
            self.grow_height()
        for start, what in reversed(before):
            value = self._apply_prefix(start, what, value)
            self.grow_height()
        return value

    def find_primary(self) -> Callable[[ExpressionParser], Expr]:
        """The method that parses the primary expression that begins here."""
        primary = _PRIMARY.get(self.kind)
        if primary is None:
            self.fail_unexpected("expression")
        return primary

    def _no_address(self, of: Span) -> NoReturn:
        self.fail("bad-operand", "syntax: address-of operator (&) can only be used on a map or variable", of)

    def _apply_prefix(self, start: int, what: str | ast.TypeSyntax, operand: Expr) -> Expr:
        if not isinstance(what, str):
            return ast.Cast(self.span_since(start), to=what, operand=operand)
        if what in _STEPS:
            self._check_stepped(operand, start)
        node = ast.Unary(self.span_since(start), op=what, operand=operand)
        if what not in ("-", "~") or not _is_narrow(operand):
            return node
        mask = ast.IntLiteral(node.span, value=(1 << 32) - 1, narrow=True)
        return ast.Binary(node.span, op="&", left=node, right=mask)

    def _check_stepped(self, operand: Expr, at: int) -> None:
        """Check what the ``++`` or ``--`` at ``at`` is applied to."""
        if not isinstance(operand, (ast.Variable, ast.MapRef)):
            self.fail("not-assignable", "syntax: increment/decrement requires a variable or map",
                      Span(self.source, at, at + 2), ["only $variables and @maps can be changed"])

    def _parse_postfix(self, value: Expr, start: int) -> Expr:
        """``.name``, ``->name``, ``.0``, ``[i]``, ``++`` or ``--`` after ``value``, which starts at ``start``."""
        kind, _, at, _ = self.advance()
        if kind == "[":
            index = self.parse_expression()
            self.expect("]")
            return ast.Index(self.span_since(start), operand=value, index=index)
        if kind in _STEPS:
            self._check_stepped(value, at)
            return ast.Unary(self.span_since(start), op=kind, operand=value, postfix=True)
        if self.kind == "word":
            name = self.advance()[1]
            return ast.FieldAccess(self.span_since(start), operand=value, name=name, arrow=kind == "->")
        if self.kind == "int" and kind == ".":
            return self._parse_tuple_access(value, start)
        self.fail_unexpected(f"field name after '{kind}'")

    def _parse_tuple_access(self, value: Expr, start: int) -> Expr:
        index = self.integer_value(self.advance())
        return ast.TupleAccess(self.span_since(start), operand=value, index=index)

    # --- primary expressions ------------------------------------------------------------------------------

    def _parse_int(self) -> Expr:
        token = self.advance()
        value = self.integer_value(token)
        return ast.IntLiteral(self.token_span(token), value=value, narrow=token[1][-1] == "U" and value >> 32 == 0)

    def _parse_float(self) -> Expr:
        token = self.advance()
        value = parse_float(token[1])
        if value is None:
            self.error("invalid-number", f"syntax: {token[1][:40]} is no number", self.token_span(token),
                       ["numbers with a fraction are written 1.5 or 1.5e-3"])
        return ast.FloatLiteral(self.token_span(token), value=value or 0.0)

    def integer_value(self, token: Token) -> int:
        """The value of an ``int`` token; an error (and 0) if it is malformed or does not fit 64 bits."""
        text = token[1]
        value = parse_integer(text)
        shown = text if len(text) <= 40 else text[:40] + "..."
        if value is None:
            hints = []
            if text[0] == "0" and text.isdigit():
                hints.append("a number that starts with 0 is octal")
            elif text[-1] in "eE" and self.kind == "+":
                hints.append("write 1e6, or 1.0e+6")
            message, start, end = _describe_malformed_number(shown)
            self.error("invalid-number", message, Span(self.source, token[2] + start, token[2] + end), hints)
            return 0
        if value > MAX_INT:
            self.error("number-too-large", f"syntax: overflow error, maximum value is {MAX_INT}: "
                       f"{regex_cache.sub('^0[xX]?', '', shown)}",
                       self.token_span(token))
            return 0
        return value

    def string_value(self, token: Token) -> str:
        """The value of a ``str`` token."""
        start = token[2] + 1
        value, wrong = unescape_string(token[1][1:-1])
        for at, end in wrong:
            span = Span(self.source, start + at, start + end)
            message = f"syntax: invalid escape character '{span.text}'"
            if span.text == "\\x":
                message = "syntax: invalid hex escape sequence"
                span = Span(self.source, span.end, max(span.end + 1, min(span.end + 2, token[3] - 1)))
            elif len(span.text) > 2:
                message = f"syntax: octal escape sequence out of range '{span.text}'"
            else:
                span = Span(self.source, span.start + 1, span.end)
            self.error("invalid-escape", message, span,
                       ["escapes are \\n \\t \\r \\\\ \\\" and bytes as \\x41 or \\101"])
        return value

    def _parse_string(self) -> Expr:
        token = self.advance()
        return ast.StrLiteral(self.token_span(token), value=self.string_value(token))

    def _parse_char(self) -> Expr:
        token = self.advance()
        value = self.string_value(token)
        return ast.IntLiteral(self.token_span(token), value=ord(value) if value else 0)

    def parse_variable(self, where: str = "such as $x") -> ast.Variable:
        """``$x``, required here; ``where`` describes it in the error."""
        token = self.expect("var", f"variable {where}",
                            [f"a variable has a $: ${self.token[1]}"] if self.kind == "word" else [])
        return ast.Variable(self.token_span(token), name=token[1][1:])

    def _parse_positional(self) -> Expr:
        token = self.advance()
        text = token[1][1:]
        if text != "#" and not (text.isdigit() and len(text) < 6 and int(text) > 0):
            self.fail("invalid-parameter", f"syntax: param {token[1][:20]} is out of integer range "
                      "[1, 9223372036854775807]" if text.isdigit() else f"'{token[1][:20]}' is no positional parameter",
                      self.token_span(token),
                      ["they are $1, $2 ... and $# for their number; names of variables start with a letter"])
        return ast.Positional(self.token_span(token), number=0 if text == "#" else int(text))

    def _parse_map(self) -> Expr:
        token = self.advance()
        if self.kind != "[":
            return ast.MapRef(self.token_span(token), name=token[1])
        self.advance()
        key_start = self.token[2]
        if self.kind == "]":
            self.fail_unexpected("expression", [f"for a map without keys write {token[1]}"])
        keys = [self.parse_expression()]
        while self.accept(","):
            keys.append(self.parse_expression())
        key = keys[0] if len(keys) == 1 else ast.TupleExpr(self.span_since(key_start), items=keys)
        self.expect("]", "']'")
        self.grow_height()
        return ast.MapRef(self.span_since(token[2]), name=token[1], key=key)

    def _parse_parenthesized(self) -> Expr:
        """``(a)``, a tuple ``(a, b)`` or a record ``(x=1, y=2)``."""
        start = self.advance()[2]
        if self.kind == "word" and self.peek()[0] == "=":
            return self._parse_record(start)
        self.cast_names = True
        if self.accept(")"):
            return ast.TupleExpr(self.span_since(start))
        first = self.parse_expression()
        if self.kind != ",":
            self.expect(")", "')'")
            return first
        items = [first]
        while self.accept(",") and self.kind != ")":
            items.append(self.parse_expression())
        self.expect(")", "')'")
        self.grow_height()
        return ast.TupleExpr(self.span_since(start), items=items)

    def _parse_record(self, start: int) -> Expr:
        items, names = [], []
        while True:
            name = self.expect("word", "identifier")
            self.expect("=", "'='")
            items.append(self.parse_expression())
            if name[1] in names:
                self.error("duplicate-field", f"syntax: Named argument list already contains name: {name[1]}",
                           self.span_since(name[2]))
            names.append(name[1])
            if not self.accept(",") or self.kind == ")":
                break
        self.expect(")", "')'")
        self.grow_height()
        return ast.TupleExpr(self.span_since(start), items=items, names=names)

    def _parse_word(self) -> Expr:
        """A name, a call, or a keyword."""
        token = self.token
        name = token[1]
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self)
        self.advance()
        if self.kind == "(":
            return self._parse_call(token[2], name)
        if self.kind == "char" and name in _WIDE:
            return self._parse_char()
        return ast.Name(self.token_span(token), name=name)

    def _parse_call(self, start: int, name: str) -> Expr:
        """The arguments of a call, from the ``(`` on."""
        self.enter_level()
        self.advance()
        args: list[Expr | ast.TypeSyntax] = []
        while self.kind != ")":
            args.append(self._type_argument(name) or self.parse_expression())
            if self.kind != ")":
                self.expect("," if name != "typeinfo" else ")", "')'")
                if self.kind == ")":
                    self.fail_unexpected("expression")
        self.advance()
        if name == "str" and args and isinstance(args[0], ast.Positional):
            args[0].as_text = True
        self.grow_height()
        self.depth -= 1
        return ast.Call(self.span_since(start), name=name, args=args)

    def _type_argument(self, function: str) -> ast.TypeSyntax | None:
        """A type as an argument: in most calls ``typeof(type)``."""
        return self.parse_argument_type() if function in _OF_TYPES or self.is_at_word("typeof") else None

    def _parse_bool(self) -> Expr:
        token = self.advance()
        return ast.BoolLiteral(self.token_span(token), value=token[1] == "true")

    def _parse_sizeof(self) -> Expr:
        start = self.advance()[2]
        self.expect("(", "'('")
        what = self.parse_argument_type() or self.parse_expression()
        self.expect(")", "')'")
        self.grow_height()
        return ast.SizeOf(self.span_since(start), what=what)

    def _parse_offsetof(self) -> Expr:
        start = self.advance()[2]
        self.expect("(", "'('")
        what = self.parse_argument_type() or self.parse_expression()
        self.expect(",", "','")
        path = [self.expect("word", "')'", ["a member is missing, as in offsetof(struct task_struct, pid)"])[1]]
        while self.accept("."):
            path.append(self.expect("word", "identifier")[1])
        self.expect(")", "')'")
        self.grow_height()
        return ast.OffsetOf(self.span_since(start), what=what, path=path)

    def _parse_constant_p(self) -> Expr:
        """``__builtin_constant_p(e)`` is true: what it chooses between are ways to the same value."""
        start = self.advance()[2]
        self.expect("(", "'('")
        self.parse_expression()
        self.expect(")", "')'")
        self._chosen = ast.IntLiteral(self.span_since(start), value=1)
        return self._chosen

    def _parse_comptime(self) -> Expr:
        """``comptime e`` is kept as a call of that name."""
        self.enter_level()
        start = self.advance()[2]
        value = self.operand()
        self.grow_height()
        self.depth -= 1
        return ast.Call(self.span_since(start), name="comptime", args=[value])

    def _parse_if_expression(self) -> Expr:
        start = self.token[2]
        body = self.parse_if()
        if not self.tail:
            self.fail("no-value", "this if has no value", self.span_since(start),
                      ["as an expression it needs an else, and a value without ; at the end of each branch"])
        self.grow_height()
        return ast.BlockExpr(self.span_since(start), body=[body])

    def _parse_block_expression(self) -> Expr:
        block = self.parse_value_block()
        self.grow_height()
        return block


def _is_narrow(node: Expr) -> bool:
    """Whether a constant is an ``unsigned int`` in C: of the suffix U, and of nothing longer."""
    if isinstance(node, ast.Binary):
        constant = (ast.IntLiteral, ast.Binary, ast.Name)
        return _is_narrow(node.left) and isinstance(node.right, constant) \
            or _is_narrow(node.right) and isinstance(node.left, constant)
    return isinstance(node, ast.IntLiteral) and node.narrow


_PRIMARY: dict[str, Callable[[ExpressionParser], Expr]] = {
    "word": ExpressionParser._parse_word, "int": ExpressionParser._parse_int,
    "float": ExpressionParser._parse_float, "str": ExpressionParser._parse_string,
    "char": ExpressionParser._parse_char, "var": ExpressionParser.parse_variable,
    "param": ExpressionParser._parse_positional,
    "map": ExpressionParser._parse_map, "(": ExpressionParser._parse_parenthesized,
    "{": ExpressionParser._parse_block_expression,
}
_SPECIAL: dict[str, Callable[[ExpressionParser], Expr]] = {
    "true": ExpressionParser._parse_bool, "false": ExpressionParser._parse_bool,
    "sizeof": ExpressionParser._parse_sizeof,
    "offsetof": ExpressionParser._parse_offsetof, "__builtin_offsetof": ExpressionParser._parse_offsetof,
    "__builtin_constant_p": ExpressionParser._parse_constant_p, "comptime": ExpressionParser._parse_comptime,
    "if": ExpressionParser._parse_if_expression,
}
