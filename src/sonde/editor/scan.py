"""The tokens of a script that need not be one yet: whatever is typed, each character belongs to some token or to none.

The parser reports the first error of an item and leaves the rest of the item out, so an editor cannot build on its tree
alone. The scan knows items, attach points, braces and words, by the same expressions as the parser's lexer.
"""

from __future__ import annotations

from ..base import regex_cache
from ..base.record import Record
from ..language.attach_point import AttachPointReader
from ..language.cursor import ParseError
from ..language.diagnostics import Diagnostics
from ..language.lexer import TOKEN
from ..language.parser import ITEM, ITEM_WORDS
from ..source import Source

_DIRECTIVE = regex_cache.compile(r"#(?:[^\n\\]|\\\r?\n|\\)*")
_LINE_END = regex_cache.compile(r"[^\s{}]+|[{}]")


class Token(Record):
    """A token. Kinds: those of the lexer, an operator's being ``op``; ``comment``; ``directive``, a ``#`` line;
    ``point``, an attach point; ``unclosed``, a string or comment that is not closed. ``item`` is the index of its
    item, -1 outside of items."""

    kind: str
    text: str
    start: int
    end: int
    item: int = -1


class Item(Record):
    """A top-level item. ``kind``: clause, config, let, macro, import, c, typedef, fn or table. ``body`` is the offset
    of its first brace, or its end; ``first`` and ``last`` (exclusive) are indices of tokens."""

    kind: str
    start: int
    end: int
    body: int
    first: int
    last: int


class Scan:
    """The tokens and items of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.items: list[Item] = []
        self._points = AttachPointReader(Source("", text), Diagnostics(), ())
        pos = 0
        while pos < len(text):
            pos = self._scan_item(pos)

    def token_at(self, offset: int) -> Token | None:
        """The token that ``offset`` is in or at the end of; of two that meet there, the one with a name."""
        touching = [token for token in self._near(offset) if token.start <= offset <= token.end]
        return next((token for token in touching if token.kind in ("word", "var", "map", "param")),
                    touching[-1] if touching else None)

    def item_at(self, offset: int) -> Item | None:
        """The item around ``offset``: one that is not closed goes on to the next."""
        around = next((item for item in self.items if item.start <= offset <= item.end), None)
        if around is not None and offset == around.end and self.text[around.end - 1:around.end] in ("}", ";"):
            return None
        return around

    def tokens_of(self, item: Item) -> list[Token]:
        return self.tokens[item.first:item.last]

    def before(self, offset: int) -> list[Token]:
        """The tokens that begin before ``offset``."""
        return self.tokens[:self._index(offset)]

    def _near(self, offset: int) -> list[Token]:
        at = self._index(offset)
        return self.tokens[max(0, at - 1):at + 1]

    def _index(self, offset: int) -> int:
        """How many tokens begin before ``offset``."""
        low, high = 0, len(self.tokens)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.tokens[middle].start < offset else (low, middle)
        return low

    # --- items --------------------------------------------------------------------------------------------

    def _scan_item(self, pos: int) -> int:
        """Scan what begins at ``pos``; where it ends."""
        pos = self._skip_trivia(pos)
        if pos >= len(self.text):
            return pos
        if self.text[pos] in ";}":
            return self._add(self.text[pos], "op", pos, pos + 1)
        is_item = self.text.startswith(ITEM_WORDS, pos)
        item = regex_cache.compile(ITEM, regex_cache.ASCII).match(self.text, pos) if is_item else None
        kind = (item.lastgroup or "") if item is not None else "clause"
        first, number = len(self.tokens), len(self.items)
        self.items.append(Item(kind, pos, pos, pos, first, first))
        if kind == "clause":
            end = self._scan_points(pos)
        else:
            end = self._scan_tokens(pos, ";" if kind in ("let", "import", "typedef") else "}")
        tokens = self.tokens[first:]
        for token in tokens:
            token.item = number
        body = next((token.start for token in tokens if token.kind == "op" and token.text == "{"), end)
        self.items[number] = Item(kind, pos, end, body, first, len(self.tokens))
        return end

    def _scan_points(self, pos: int) -> int:
        """``points /predicate/ { body }``; where it ends."""
        text = self.text
        while True:
            pos = self._scan_point(pos)
            pos = self._skip_trivia(pos)
            if not text.startswith(",", pos):
                break
            pos = self._skip_trivia(self._add(",", "op", pos, pos + 1))
            if pos >= len(text) or text[pos] in "{/":
                break
        if text.startswith("/", pos):
            return self._scan_tokens(self._add("/", "op", pos, pos + 1), "}", predicate=True)
        return self._scan_tokens(pos, "}") if text.startswith("{", pos) else pos

    def _scan_point(self, pos: int) -> int:
        try:
            end = self._points.read(pos)[1]
        except ParseError:
            word = _LINE_END.match(self.text, pos)
            end = word.end() if word is not None else pos + 1
        return self._add(self.text[pos:end], "point", pos, end)

    def _scan_tokens(self, pos: int, closing: str, predicate: bool = False) -> int:
        """The tokens to the end of an item, which ends where the parser's does."""
        depth = 0
        while pos < len(self.text):
            pos = self._skip_trivia(pos)
            if pos >= len(self.text):
                break
            token = self._scan_token(pos)
            pos = token.end
            if token.kind != "op":
                continue
            if predicate and not depth and token.text == "/" and self._ends_predicate(pos):
                predicate = False
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            if not depth and token.text == ";" or depth <= 0 and token.text == "}" and closing == "}":
                break
        return pos

    def _scan_token(self, pos: int) -> Token:
        match = TOKEN.match(self.text, pos)
        assert match is not None  # any character is one
        kind = match.lastgroup or ""
        start, end = match.span(kind)
        if kind == "bad" or kind == "other" and self.text[start] == '"':
            stop = -1 if kind == "bad" else self.text.find("\n", start)
            kind, end = "unclosed", len(self.text) if stop < 0 else stop
        self._add(self.text[start:end], kind, start, end)
        return self.tokens[-1]

    def _ends_predicate(self, pos: int) -> bool:
        rest = regex_cache.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", regex_cache.DOTALL).match(self.text, pos)
        after = rest.end() if rest is not None else pos
        return after >= len(self.text) or self.text[after] == "{"

    def _skip_trivia(self, pos: int) -> int:
        """The position after spaces, comments and ``#`` lines, the latter two of which are added."""
        text = self.text
        while pos < len(text):
            if text[pos].isspace():
                pos += 1
            elif text.startswith(("//", "/*"), pos):
                match = TOKEN.match(text, pos)
                closed = match is not None and match.lastgroup == "comment"
                end = match.end() if match is not None and closed else len(text)
                pos = self._add(text[pos:end], "comment" if closed else "unclosed", pos, end)
            elif text[pos] == "#" and not text[text.rfind("\n", 0, pos) + 1:pos].strip():
                line = _DIRECTIVE.match(text, pos)
                end = line.end() if line is not None else pos + 1
                pos = self._add(text[pos:end], "directive", pos, end)
            else:
                break
        return pos

    def _add(self, text: str, kind: str, start: int, end: int) -> int:
        self.tokens.append(Token(kind, text, start, end))
        return end
