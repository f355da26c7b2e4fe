"""A walk over the tokens of one item, and the syntax errors that can end it."""

from __future__ import annotations

from ..base import regex_cache
from ..source import Note, Source, Span
from .diagnostics import Diagnostics
from .lexer import COMPLAINTS, Token, confusion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

# Limit of nesting, in the text and in the tree, so that neither the parser nor walkers of the tree recurse too deeply.
# One level of text costs the parser at most four Python frames.
MAX_DEPTH = 200
MAX_STATEMENTS = 15_000  # of a file, as written, attach points among them; see semantics/size.py

SYNTAX = "syntax-error"


class ParseError(Exception):
    """The item cannot be parsed any further; the diagnostic is already added."""


class Cursor:
    """The current token, how to move on, and how to fail.

    ``height`` is the height of the tallest expression since it was last reset: the tree of ``a + b + c ...`` grows to
    the left without any recursion here, and must be bounded as well.
    """

    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.statements = 0
        self.load_tokens([("eof", "", 0, 0)])

    def load_tokens(self, tokens: list[Token]) -> None:
        """Start over with other tokens; the last one is an ``eof``."""
        self.tokens = tokens
        self._no_sizes: set[tuple[int, int]] = set()  # see the parser of types
        self.depth = 0
        self.height = 0
        self.seek(0)

    def seek(self, index: int) -> None:
        """Go to the token with this index."""
        self.index = index
        self.token = self.tokens[index]
        self.kind = self.token[0]

    def advance(self) -> Token:
        """Take the current token."""
        token = self.token
        if token[0] != "eof":
            self.index += 1
            self.token = self.tokens[self.index]
            self.kind = self.token[0]
        return token

    def peek(self, ahead: int = 1) -> Token:
        """A token further on; the ``eof`` token after the end."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def is_at_word(self, text: str) -> bool:
        return self.token[1] == text and self.kind == "word"

    def accept(self, kind: str) -> bool:
        """Take the current token if it is of this kind."""
        if self.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, what: str = "", hints: Sequence[str] = ()) -> Token:
        """Take the current token, which must be of this kind; ``what`` describes it in the error."""
        if self.kind != kind:
            self.fail_unexpected(what or f"'{kind}'", hints)
        return self.advance()

    # --- places -------------------------------------------------------------------------------------------

    def token_span(self, token: Token) -> Span:
        return Span(self.source, token[2], token[3])

    def span_since(self, start: int) -> Span:
        """From character ``start`` to the end of the token that was taken last."""
        return Span(self.source, start, self.tokens[self.index - 1][3] if self.index else start)

    # --- depth --------------------------------------------------------------------------------------------

    def enter_level(self) -> None:
        """Go one level of nesting deeper; the caller undoes it with ``depth -= 1``."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail_too_deep()

    def grow_height(self) -> None:
        """Note that a node was put on top of the current expression."""
        self.height += 1
        if self.height > MAX_DEPTH:
            self.fail_too_deep()

    def count_statement(self) -> None:
        """Count another statement or attach point."""
        self.statements += 1
        if self.statements > MAX_STATEMENTS:
            self.fail("program-too-large", f"The program is too large: more than {MAX_STATEMENTS} statements and "
                      "attach points", self.token_span(self.token))

    def fail_too_deep(self) -> NoReturn:
        self.fail("too-deep", "nested too deeply", self.token_span(self.token),
                  ["split the expression, or keep parts of it in variables"])

    # --- errors -------------------------------------------------------------------------------------------

    def error(self, code: str, message: str, span: Span | None, hints: Sequence[str] = (),
              notes: Sequence[Note] = ()) -> None:
        """Add an error and go on, unless there are too many already."""
        self.diagnostics.error(code, message, span, hints, notes)
        if self.should_stop():
            raise ParseError

    def should_stop(self) -> bool:
        """Whether there are so many errors, or the program is so large, that parsing should stop."""
        return self.diagnostics.is_full or self.statements > MAX_STATEMENTS

    def fail(self, code: str, message: str, span: Span, hints: Sequence[str] = (), notes: Sequence[Note] = (),
             ) -> NoReturn:
        """Add an error and give up this item."""
        self.error(code, message, span, hints, notes)
        raise ParseError

    def fail_unexpected(self, expected: str, hints: Sequence[str] = ()) -> NoReturn:
        """Fail at the current token, and say what would be right."""
        kind, text, start, end = self.token
        if kind == "bad" and text in COMPLAINTS:
            message, *advice = COMPLAINTS[text]
            within = text == "unterminated-string" and end < len(self.source.text)  # ended by a newline
            if within and self.source.text[end + 1:end + 2] == '"':
                advice = ["the \\n has become a newline before Sonde got it: in Python write the script as a raw "
                          'string, r"..."', *advice]
            self.fail(text, message or f"syntax: expected {expected}", Span(self.source, start if within else end, end),
                      advice, self._opening(text, start, within))
        if kind == "eof":
            self._fail_unexpected_end(expected)
        shown = "a string" if kind == "str" else f"'{self.token_span(self.token).text}'"
        code, advice = (text, confusion(self.source.text[start])) if kind == "bad" else (SYNTAX, self.slip_hints())
        self.fail(code, f"syntax: expected {expected}", self.first_word(), [f"found {shown}", *(hints or advice)])

    def _opening(self, code: str, start: int, shown: bool) -> list[Note]:
        """Where a string or comment that is not closed begins, unless the error shows it."""
        length = {"unterminated-string": 1, "unterminated-comment": 2}.get(code, 0)
        if shown or not length:
            return []
        what = "comment" if length == 2 else "string"
        return [Note(Span(self.source, start, start + length), f"the {what} begins here")]

    def first_word(self) -> Span:
        """What an error about the current token underlines: a word or number, one character of anything else, or the
        use of the C macro that produced the token."""
        kind, text, start, end = self.token
        if kind == "int":
            word = regex_cache.compile(r"[\w.]+", regex_cache.ASCII).match(self.source.text, start)
            end = word.end() if word is not None else end
        elif kind not in ("word", "var", "map", "param") and (kind == "bad" or end - start == len(text)):
            end = min(end, start + 1)
        return Span(self.source, start, end)

    def _fail_unexpected_end(self, expected: str) -> NoReturn:
        """Fail at the end of the text; the last brace still open is the likely cause."""
        start = self.token[2]
        brace = self.find_unclosed("{", "}")
        hints, notes = ["the text ends here"], []
        if brace is not None:
            hints.append(f"the {{ in line {self.token_span(brace).line} is not closed: a }} is missing")
            notes.append(Note(self.token_span(brace), "this { is not closed"))
        self.fail("unclosed-brace" if brace else SYNTAX, f"syntax: expected {expected}",
                  Span(self.source, start, start), hints, notes)

    def find_unclosed(self, opening: str, closing: str) -> Token | None:
        """The innermost ``opening`` before the current token that has no ``closing``."""
        open_: list[Token] = []
        for token in self.tokens[:self.index]:
            if token[0] == opening:
                open_.append(token)
            elif token[0] == closing and open_:
                open_.pop()
        return open_[-1] if open_ else None

    def slip_hints(self) -> list[str]:
        """Hints for common slips."""
        from .slips import slip_hints
        return slip_hints(self)
