"""Statements and blocks."""

from __future__ import annotations

from ..source import Span
from . import ast
from .ast import Expr, Stmt
from .cdecl import DeclarationParser
from .lexer import Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
_BLOCK_LIKE = (ast.If, ast.While, ast.For, ast.Unroll, ast.Block)
_LOOPS = (ast.While, ast.For, ast.Unroll)


class StatementParser(DeclarationParser):
    """Parses the bodies of probes and macros."""

    def parse_block(self) -> list[Stmt]:
        """``{ statements }``; ``tail`` then says whether its last statement is a value without ``;``."""
        self.enter_level()
        self.expect("{", "'{'")
        body: list[Stmt] = []
        tail = False
        while self.kind != "}":
            if self.kind == "eof" or self.token[1] == "unterminated-comment":
                self.fail_unexpected("'}'")
            statement = self.parse_statement()
            body.append(statement)
            tail = self.tail and isinstance(statement, (ast.ExprStmt, ast.If, ast.Block))
            if not (isinstance(statement, _LOOPS) and self._closed_by_brace(statement)) and self.accept(";"):
                tail = False
                if isinstance(statement, ast.ExprStmt) and self.kind != "}":
                    statement.span = self.span_since(statement.span.start)
            elif self.kind != "}" and not self._closed_by_brace(statement):
                self.fail_unexpected("';'", self._missing_semicolon_hints())
        self.advance()
        self.tail = tail
        self.depth -= 1
        return body

    def _missing_semicolon_hints(self) -> list[str]:
        """Hints for a statement that seems to end before the current token, which starts another one."""
        hints = self.slip_hints()
        if self.kind == "word" and self.peek()[0] == ":":
            return ["a probe cannot start within a block: is a } missing before it?"]
        return hints if hints or self.kind not in ("word", "var", "map") else ["statements are separated by ;"]

    def _closed_by_brace(self, statement: Stmt) -> bool:
        """Whether a statement needs no ``;`` after it."""
        return isinstance(statement, _BLOCK_LIKE) and self.tokens[self.index - 1][0] == "}"

    def parse_value_block(self) -> ast.BlockExpr:
        """``{ statements; value }``; without a value at the end ``value`` stays None."""
        start = self.token[2]
        body = self.parse_block()
        node = ast.BlockExpr(self.span_since(start), body=body)
        if self.tail:
            node.value = self._block_value(body.pop())
        return node

    def _block_value(self, last: Stmt) -> Expr:
        """The last statement of a block, which has a value, as an expression."""
        if isinstance(last, ast.ExprStmt):
            return last.expr
        if isinstance(last, ast.Block):
            return ast.BlockExpr(last.span, body=last.body[:-1], value=self._block_value(last.body[-1]))
        return ast.BlockExpr(last.span, body=[last])

    def parse_statement(self) -> Stmt:
        """One statement without its ``;``."""
        self.enter_level()
        self.count_statement()
        outer, self.height = self.height, 0
        self.tail = False
        parse = _STATEMENTS.get(self.token[1]) if self.kind in ("word", "{") else None
        if parse is None or (self.token[1] == "_" and self.peek()[0] != "="):
            node = self._parse_simple()
        else:
            node = parse(self)
        self.grow_height()
        if self.height < outer:
            self.height = outer
        self.depth -= 1
        return node

    def _parse_simple(self) -> Stmt:
        """An assignment, or an expression for its effect. An expression that begins with a variable or a map cannot end
        in ``?:``, and ``++`` and ``--`` stand alone."""
        start, named = self.token[2], self.kind in ("var", "map")
        target = self.operand() if named else self.parse_expression()
        if self.kind not in _ASSIGNMENTS or not named:
            self.tail = True
            if named and not (isinstance(target, ast.Unary) and target.postfix):
                target = self.operations(target, start)
            return ast.ExprStmt(target.span, target)
        if not isinstance(target, (ast.Variable, ast.MapRef)):
            self._not_assignable(target, start)
        op = self.advance()[0]
        value = self.parse_expression()
        self.tail = False
        if self.kind == "=":
            self.fail_unexpected("';'", ["only one assignment per statement: $a = 1; $b = 1;"])
        return ast.Assign(self.span_since(start), target, "=" if op == "=" else op[:-1], value)

    def _not_assignable(self, target: Expr, start: int) -> NoReturn:
        """Only variables and maps can be assigned to."""
        if self.kind != "=" or not isinstance(target, (ast.FieldAccess, ast.TupleAccess, ast.Index)):
            self.fail_unexpected("';'", ["only $variables and @maps can be assigned to"])
        self.advance()
        self.parse_expression()
        wrong = "invalid assignment target" if isinstance(target, ast.Index) else \
            "Tuples and records are immutable once created. Consider creating a new value and assigning it instead."
        self.fail("not-assignable", f"syntax: {wrong}", self.span_since(start),
                  ["memory of the traced program or of the kernel is only read"])

    def _parse_discard(self) -> Stmt:
        start = self.advance()[2]
        self.advance()
        value = self.parse_expression()
        self.tail = False
        return ast.ExprStmt(self.span_since(start), value, True)

    def _parse_nested_block(self) -> Stmt:
        """``{ ... }`` as a statement: a scope."""
        start = self.token[2]
        body = self.parse_block()
        return ast.Block(self.span_since(start), body)

    def _parse_let(self) -> Stmt:
        start = self.advance()[2]
        if self.kind == "map":
            self.fail_unexpected("variable after 'let'", ["maps are declared outside of probes"])
        target = self.parse_variable("after 'let'")
        declared = self.parse_type() if self.accept(":") else None
        value = self.parse_expression() if self.accept("=") else None
        self.tail = False
        return ast.VarDecl(self.span_since(start), target, declared, value)

    def parse_if(self) -> Stmt:
        """``if cond { } else if cond { } else { }``; ``tail`` tells whether each branch ends in a value."""
        self.enter_level()
        start = self.advance()[2]
        cond = self._parse_condition()
        then = self._parse_body()
        tail = self.tail
        other: list[Stmt] = []
        if self.kind == ";" and self.peek()[1] == "else" and self.tokens[self.index - 1][0] != "}":
            self.advance()
        self.depth -= 1  # an else if does not look nested any deeper
        if self.is_at_word("else"):
            self.advance()
            other = [self.parse_statement()] if self.is_at_word("if") else self._parse_body()
            tail = tail and self.tail
        else:
            tail = False
        self.tail = tail
        return ast.If(self.span_since(start), cond, then, other)

    def _parse_condition(self) -> Expr:
        """The condition of ``if`` or ``while``, after which a statement may follow without braces."""
        if self.kind == "(" and self.peek()[0] == "word" and self.peek(2)[0] == "=":  # no record is meant there
            self.advance()
            self.advance()
            self.fail_unexpected("')'")
        self.cast_names = self.kind != "("
        cond = self.parse_expression()
        self.cast_names = True
        if self.kind in _ASSIGNMENTS:
            self.fail_unexpected("'{'")
        return cond

    def _parse_body(self) -> list[Stmt]:
        """A block, or a single statement as in C."""
        if self.kind == "{":
            return self.parse_block()
        if self.kind in ("eof", "}", ";", ")", "bad") or self.is_at_word("else"):
            self.fail_unexpected("'{'")
        statement = self.parse_statement()
        self.tail = False
        return [statement]

    def _parse_while(self) -> Stmt:
        start = self.advance()[2]
        cond = self._parse_condition()
        body = self._parse_body()
        self.tail = False
        return ast.While(self.span_since(start), cond, body)

    def _parse_unroll(self) -> Stmt:
        start = self.advance()[2]
        count = self._parse_condition()
        body = self._parse_body()
        self.tail = False
        return ast.Unroll(self.span_since(start), count, body)

    def _parse_for(self) -> Stmt:
        """``for ($x : a..b) { }`` or ``for ($kv : @map) { }``; the parentheses may be missing."""
        start = self.advance()[2]
        parens = self.accept("(")
        if self.kind != "var" or self.peek()[0] != ":":
            self._fail_in_loop()
        variable = self.parse_variable("in for loop")
        self.advance()
        begin = self.index
        first = self.parse_expression()
        last = self.parse_expression() if self.accept("..") else None
        if last is None and isinstance(first, (ast.Unary, ast.Binary, ast.FieldAccess)):
            self.seek(begin)  # report the error as if only a plain value were allowed here
            self.find_primary()(self)
        if parens:
            self.expect(")", "')'")
        if last is None and not _is_iterable(first):
            self.fail("bad-range", "syntax: expected map or range in for loop", self.first_word(),
                      ["for ($i : 0..10) { ... }, or for ($kv : @map) { ... }"])
        body = self._parse_body()
        self.tail = False
        return ast.For(self.span_since(start), variable, first, last, body)

    def _fail_in_loop(self) -> NoReturn:
        """Neither a variable nor the colon after it."""
        from .slips import loop_hints
        hints = loop_hints(self)
        if self.kind != "var":
            self.fail_unexpected("variable in for loop", hints)
        self.advance()
        self.fail_unexpected("':'", hints)

    def _parse_import_within(self) -> Stmt:
        """An import within a block: as at the top level, the definitions belong to the script."""
        start = self.advance()[2]
        token = self.expect("str")
        self.tail = False
        self.import_files(token, self.span_since(start))
        return ast.Block(self.span_since(start), [])

    def import_files(self, token: Token, span: Span) -> None:
        """Read what an ``import`` names; implemented by the parser of whole scripts."""
        raise AssertionError("only a script imports")

    def _parse_break(self) -> Stmt:
        return ast.Break(self.token_span(self.advance()))

    def _parse_continue(self) -> Stmt:
        return ast.Continue(self.token_span(self.advance()))

    def _parse_return(self) -> Stmt:
        start = self.advance()[2]
        value = None if self.kind in (";", "}") else self.parse_expression()
        self.tail = False
        return ast.Return(self.span_since(start), value)


def _is_iterable(first: ast.Expr) -> bool:
    """Whether ``for`` accepts it without a range: a map, or an iterator."""
    return isinstance(first, ast.MapRef) and first.key is None or \
        isinstance(first, ast.Call) and first.name.startswith("iter_")


_STATEMENTS: dict[str, Callable[[StatementParser], Stmt]] = {
    "if": StatementParser.parse_if, "while": StatementParser._parse_while, "unroll": StatementParser._parse_unroll,
    "for": StatementParser._parse_for, "let": StatementParser._parse_let, "return": StatementParser._parse_return,
    "import": StatementParser._parse_import_within, "break": StatementParser._parse_break,
    "continue": StatementParser._parse_continue, "_": StatementParser._parse_discard,
    "{": StatementParser._parse_nested_block,
}
