"""Statements and blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from . import ast
from .ast import Expr, Stmt
from .cdecl import DeclarationParser
from .lexer import Token
from .source import Span

_ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
_BLOCK_LIKE = (ast.If, ast.While, ast.For, ast.Unroll, ast.Block)
_LOOPS = (ast.While, ast.For, ast.Unroll)


class StatementParser(DeclarationParser):
    """Parses the bodies of probes and macros."""

    def block(self) -> list[Stmt]:
        """``{ statements }``; afterwards ``tail`` says whether its last statement is a value without ``;``."""
        self.enter()
        self.expect("{", "'{'")
        body: list[Stmt] = []
        tail = False
        while self.kind != "}":
            if self.kind == "eof" or self.token[1] == "unterminated-comment":
                self.unexpected("'}'")
            statement = self.statement()
            body.append(statement)
            tail = self.tail and isinstance(statement, (ast.ExprStmt, ast.If, ast.Block))
            if not (isinstance(statement, _LOOPS) and self._closed_by_brace(statement)) and self.accept(";"):
                tail = False
                if isinstance(statement, ast.ExprStmt) and self.kind != "}":
                    statement.span = self.since(statement.span.start)
            elif self.kind != "}" and not self._closed_by_brace(statement):
                self.unexpected("';'", self._missing_semicolon())
        self.advance()
        self.tail = tail
        self.depth -= 1
        return body

    def _missing_semicolon(self) -> list[str]:
        """Hints for when the statement seems to end before the current token, which starts another one."""
        hints = self.advice()
        return hints if hints or self.kind not in ("word", "var", "map") else ["statements are separated by ;"]

    def _closed_by_brace(self, statement: Stmt) -> bool:
        """Whether a statement needs no ``;`` behind it."""
        return isinstance(statement, _BLOCK_LIKE) and self.tokens[self.index - 1][0] == "}"

    def value_block(self) -> ast.BlockExpr:
        """``{ statements; value }``; without a value at the end ``value`` stays None."""
        start = self.token[2]
        body = self.block()
        node = ast.BlockExpr(self.since(start), body=body)
        if self.tail:
            node.value = self._value(body.pop())
        return node

    def _value(self, last: Stmt) -> Expr:
        """The last statement of a block, which has a value, as an expression."""
        if isinstance(last, ast.ExprStmt):
            return last.expr
        if isinstance(last, ast.Block):
            return ast.BlockExpr(last.span, body=last.body[:-1], value=self._value(last.body[-1]))
        return ast.BlockExpr(last.span, body=[last])

    def statement(self) -> Stmt:
        """One statement without its ``;``."""
        self.enter()
        self.count_statement()
        outer, self.height = self.height, 0
        self.tail = False
        parse = _STATEMENTS.get(self.token[1]) if self.kind in ("word", "{") else None
        if parse is None or (self.token[1] == "_" and self.peek()[0] != "="):
            node = self._simple()
        else:
            node = parse(self)
        self.grow()
        if self.height < outer:
            self.height = outer
        self.depth -= 1
        return node

    def _simple(self) -> Stmt:
        """An assignment, or an expression for its effect: one that begins with a variable or a map is none with ``?:``
        at its end, and a step stands alone."""
        start, named = self.token[2], self.kind in ("var", "map")
        target = self.operand() if named else self.expr()
        if self.kind not in _ASSIGNMENTS or not named:
            self.tail = True
            if named and not (isinstance(target, ast.Unary) and target.postfix):
                target = self.operations(target, start)
            return ast.ExprStmt(target.span, target)
        if not isinstance(target, (ast.Variable, ast.MapRef)):
            self._not_assignable(target, start)
        op = self.advance()[0]
        value = self.expr()
        self.tail = False
        if self.kind == "=":
            self.unexpected("';'", ["only one assignment per statement: $a = 1; $b = 1;"])
        return ast.Assign(self.since(start), target, "=" if op == "=" else op[:-1], value)

    def _not_assignable(self, target: Expr, start: int) -> NoReturn:
        """Only variables and maps can be assigned to."""
        if self.kind != "=" or not isinstance(target, (ast.FieldAccess, ast.TupleAccess, ast.Index)):
            self.unexpected("';'", ["only $variables and @maps can be assigned to"])
        self.advance()
        self.expr()
        wrong = "invalid assignment target" if isinstance(target, ast.Index) else \
            "Tuples and records are immutable once created. Consider creating a new value and assigning it instead."
        self.fail("not-assignable", f"syntax: {wrong}", self.since(start),
                  ["memory of the traced program or of the kernel is only read"])

    def _discard(self) -> Stmt:
        start = self.advance()[2]
        self.advance()
        value = self.expr()
        self.tail = False
        return ast.ExprStmt(self.since(start), value, True)

    def _nested(self) -> Stmt:
        """``{ ... }`` as a statement: a scope."""
        start = self.token[2]
        body = self.block()
        return ast.Block(self.since(start), body)

    def _let(self) -> Stmt:
        start = self.advance()[2]
        if self.kind == "map":
            self.unexpected("variable after 'let'", ["maps are declared outside of probes"])
        target = self.variable("after 'let'")
        declared = self.type_syntax() if self.accept(":") else None
        value = self.expr() if self.accept("=") else None
        self.tail = False
        return ast.VarDecl(self.since(start), target, declared, value)

    def if_statement(self) -> Stmt:
        """``if cond { } else if cond { } else { }``; ``tail`` tells whether each branch ends in a value."""
        self.enter()
        start = self.advance()[2]
        cond = self._condition()
        then = self._body()
        tail = self.tail
        other: list[Stmt] = []
        if self.kind == ";" and self.peek()[1] == "else" and self.tokens[self.index - 1][0] != "}":
            self.advance()
        self.depth -= 1  # what follows else is not nested deeper to the eye
        if self.at_word("else"):
            self.advance()
            other = [self.statement()] if self.at_word("if") else self._body()
            tail = tail and self.tail
        else:
            tail = False
        self.tail = tail
        return ast.If(self.since(start), cond, then, other)

    def _condition(self) -> Expr:
        """The condition of ``if`` or ``while``, behind which a statement may follow without braces."""
        self.cast_names = self.kind != "("
        cond = self.expr()
        self.cast_names = True
        if self.kind in _ASSIGNMENTS:
            self.unexpected("'{'")
        return cond

    def _body(self) -> list[Stmt]:
        """A block, or a single statement as in C."""
        if self.kind == "{":
            return self.block()
        if self.kind in ("eof", "}", ";", ")", "bad") or self.at_word("else"):
            self.unexpected("'{'")
        statement = self.statement()
        self.tail = False
        return [statement]

    def _while(self) -> Stmt:
        start = self.advance()[2]
        cond = self._condition()
        body = self._body()
        self.tail = False
        return ast.While(self.since(start), cond, body)

    def _unroll(self) -> Stmt:
        start = self.advance()[2]
        count = self._condition()
        body = self._body()
        self.tail = False
        return ast.Unroll(self.since(start), count, body)

    def _for(self) -> Stmt:
        """``for ($x : a..b) { }`` or ``for ($kv : @map) { }``; the parentheses may be missing."""
        start = self.advance()[2]
        parens = self.accept("(")
        variable = self.variable("in for loop")
        self.expect(":", "':'", ["for ($i : 0..10) { ... }, or for ($kv : @map) { ... }"])
        first = self.expr()
        last = self.expr() if self.accept("..") else None
        if parens:
            self.expect(")", "')'")
        if last is None and (not isinstance(first, ast.MapRef) or first.key is not None):
            self.fail("bad-range", "syntax: expected map or range in for loop", self.first_word(),
                      ["for ($i : 0..10) { ... }, or for ($kv : @map) { ... }"])
        body = self._body()
        self.tail = False
        return ast.For(self.since(start), variable, first, last, body)

    def _import_within(self) -> Stmt:
        """As at the top of the script: what the file defines belongs to the script, wherever it is asked for."""
        start = self.advance()[2]
        token = self.expect("str")
        self.tail = False
        self.imported(token, self.since(start))
        return ast.Block(self.since(start), [])

    def imported(self, token: Token, span: Span) -> None:
        """Read what an ``import`` names; the parser of whole scripts knows how."""
        raise AssertionError("only a script imports")

    def _break(self) -> Stmt:
        return ast.Break(self.place(self.advance()))

    def _continue(self) -> Stmt:
        return ast.Continue(self.place(self.advance()))

    def _return(self) -> Stmt:
        start = self.advance()[2]
        value = None if self.kind in (";", "}") else self.expr()
        self.tail = False
        return ast.Return(self.since(start), value)


_STATEMENTS: dict[str, Callable[[StatementParser], Stmt]] = {
    "if": StatementParser.if_statement, "while": StatementParser._while, "unroll": StatementParser._unroll,
    "for": StatementParser._for, "let": StatementParser._let, "return": StatementParser._return,
    "import": StatementParser._import_within, "break": StatementParser._break,
    "continue": StatementParser._continue, "_": StatementParser._discard,
    "{": StatementParser._nested,
}
