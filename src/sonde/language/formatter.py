"""The formatter: the same tokens and comments, laid out evenly.

Only white space changes, so a formatted script means what it meant. Where lines break within a statement, and whether a
short block stays on one line, is the author's choice and is kept; formatting twice changes nothing more. ``#`` lines
and the text between ``#if`` and ``#endif`` stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..base import regex_cache
from ..base.record import Record
from ..source import Source
from . import ast
from .lexer import TOKEN

INDENT = 2
WIDTH = 100  # of a line that holds a whole block

_CONDITIONAL = r"(?m)^[ \t]*#[ \t]*(if|ifdef|ifndef|endif)\b[^\n]*"
_DIRECTIVE = r"#(?:[^\n\\]|\\\r?\n|\\)*"
_KEYWORDS = frozenset(("if", "else", "while", "for", "unroll", "return", "let", "import", "comptime", "in"))
_ITEMS = frozenset(("struct", "union", "enum", "typedef", "config", "let", "macro", "fn", "import", "table"))
_UNARY = frozenset(("-", "*", "&", "!", "~", "++", "--"))
_TIGHT = frozenset((".", "->", ".."))


class Piece(Record):
    """A token, comment, attach point or ``#`` line. ``lines``: line ends in the text before it; ``tag`` says what an
    operator is here: unary, postfix, type (a pointer's star), tight (the colon of a declaration), cast, predicate."""

    kind: str
    text: str
    start: int
    end: int
    lines: int = 0
    tag: str = ""


def format_script(source: Source, script: ast.Script) -> str:
    """The formatted text of a source that was parsed into ``script`` without errors."""
    pieces = list(_Scanner(source, script).scan_pieces())
    _tag_operators(pieces, _Positions(source, script))
    return _Printer(pieces).render_text()


# --- pieces -----------------------------------------------------------------------------------------------


def _walk_nodes(item: object) -> Iterator[ast.Node]:
    if isinstance(item, list):
        for part in item:
            yield from _walk_nodes(part)
    elif isinstance(item, ast.Node):
        yield item
        for name in item._fields:
            value = getattr(item, name)
            if isinstance(value, (list, ast.Node)):
                yield from _walk_nodes(value)


class _Positions:
    """What the tree knows about positions in the text."""

    def __init__(self, source: Source, script: ast.Script) -> None:
        self.casts: set[int] = set()          # where a cast's ) ends
        self.declared: set[int] = set()       # where a name followed by a type ends
        self.returned: set[int] = set()       # where a function's type starts
        self.types: list[tuple[int, int]] = []
        for node in _walk_nodes(script):
            if node.span.source is not source:
                continue
            if isinstance(node, ast.Cast) and node.to.span.text.startswith("("):  # and not from a C macro
                self.casts.add(node.to.span.end)
            elif isinstance(node, ast.TableColumn):
                self.declared.add(node.name_end)
            elif isinstance(node, ast.VarDecl) and node.declared is not None:
                self.declared.add(node.target.span.end)
            elif isinstance(node, ast.Subprogram) and node.returns is not None:
                self.returned.add(node.returns.span.start)
            elif isinstance(node, ast.TypeSyntax) and not regex_cache.match(r"(?!typeof\b)\w+\s*\(", node.span.text):
                self.types.append((node.span.start, node.span.end))
        self.types.sort()

    def in_type(self, at: int) -> bool:
        return any(start <= at < end for start, end in self.types)


class _Scanner:
    """Cuts the whole text into pieces; attach points and predicates are where the tree says."""

    def __init__(self, source: Source, script: ast.Script) -> None:
        self.body = source.text
        own = [c for c in script.clauses if c.span.source is source]
        self.points = {p.span.start: p.span.end for c in own for p in c.points}
        self.predicates = {c.points[-1].span.end: c.predicate.span.end for c in own if c.predicate is not None}
        self.verbatim = self._find_conditionals()

    def _find_conditionals(self) -> dict[int, int]:
        """Where each outermost #if starts and its #endif ends."""
        ends: dict[int, int] = {}
        depth = start = 0
        for line in regex_cache.finditer(_CONDITIONAL, self.body):
            if line[1] == "endif":
                depth -= 1
                if depth == 0:
                    ends[start] = line.end()
            else:
                if depth == 0:
                    start = line.start() + line[0].index("#")
                depth += 1
        return ends

    def scan_pieces(self) -> Iterator[Piece]:
        pos, last = 0, 0
        opens = closes = -1  # the positions after which a predicate's slashes are looked for
        while pos < len(self.body):
            blank = regex_cache.compile(r"\s*").match(self.body, pos)
            pos = blank.end() if blank is not None else pos
            if pos >= len(self.body):
                break
            piece = self._scan_piece(pos)
            if piece.kind == "/" and 0 <= opens <= piece.start:
                piece.tag, closes, opens = "open", self.predicates[opens], -1
            elif piece.kind == "/" and 0 <= closes <= piece.start:
                piece.tag, closes = "close", -1
            if piece.kind == "point" and piece.end in self.predicates:
                opens = piece.end
            piece.lines = self.body.count("\n", last, pos)
            yield piece
            pos = last = piece.end

    def _scan_piece(self, pos: int) -> Piece:
        text = self.body
        end = self.points.get(pos)
        if end is not None:
            return Piece("point", " ".join(text[pos:end].split()), pos, end)
        end = self.verbatim.get(pos)
        if end is None and text[pos] == "#":
            line = regex_cache.compile(_DIRECTIVE).match(text, pos)
            end = line.end() if line is not None else pos + 1
        if end is not None:
            return Piece("#", text[pos:end].rstrip(), pos, end)
        match = TOKEN.match(text, pos)
        assert match is not None
        kind = match.lastgroup or ""
        start, end = match.span(kind)
        word = match[kind]
        if kind == "comment":
            return Piece("//" if word.startswith("//") else "/*", word.rstrip(), start, end)
        return Piece(word if kind == "op" else kind, word, start, end)


def _tag_operators(pieces: list[Piece], positions: _Positions) -> None:
    """Say what the operators are."""
    tokens = [p for p in pieces if p.kind not in ("//", "/*", "#")]
    for at, piece in enumerate(tokens):
        before = tokens[at - 1] if at else None
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if piece.kind == ")" and piece.end in positions.casts:
            piece.tag = "cast"
        elif piece.kind == ":" and before is not None and (
                before.end in positions.declared or following is not None and following.start in positions.returned):
            piece.tag = "tight"
        elif piece.kind == "*" and positions.in_type(piece.start):
            piece.tag = "type"
        elif piece.kind in _UNARY and not piece.tag:
            ends = before is not None and before.tag != "cast" and (
                before.kind in ("int", "float", "str", "char", "var", "map", "param", ")", "]", "}")
                or before.kind == "word" and before.text not in _KEYWORDS or before.tag == "postfix")
            if piece.kind in ("++", "--") and ends and before is not None and before.kind in ("var", "map", "]"):
                piece.tag = "postfix"
            elif not ends or before is not None and before.kind == "}" and piece.kind in ("++", "--"):
                piece.tag = "unary"


# --- lines ------------------------------------------------------------------------------------------------


class Brace(Record):
    """An open brace: ``flat`` if its block stays on one line; ``data`` if it holds C fields or constants."""

    flat: bool
    data: bool
    parens: int


class _Printer:
    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces
        self.out: list[str] = []
        self.line = ""
        self.braces: list[Brace] = []
        self.parens = 0
        self.fresh = True      # at the start of a statement
        self.data = False      # within the head of a struct, union or enum
        self.closed: Brace | None = None  # the last brace closed, if only comments have come since
        self.in_points = False     # between attach points and their block
        self.in_predicate = False

    def render_text(self) -> str:
        for at, piece in enumerate(self.pieces):
            before = self.pieces[at - 1] if at else None
            self._put_piece(at, piece, before)
        self._break_line()
        while self.out and not self.out[-1]:
            self.out.pop()
        return "\n".join(self.out) + "\n" if self.out else ""

    # --- where lines end ----------------------------------------------------------------------------------

    def _break_line(self, blank: bool = False) -> None:
        """End the current line; with ``blank`` leave one empty line, but no more than one."""
        if self.line.strip():
            self.out.append(self.line.rstrip())
        self.line = ""
        if blank and self.out and self.out[-1]:
            self.out.append("")

    def _line_indentation(self, piece: Piece) -> str:
        level = len([b for b in self.braces if not b.flat]) - (piece.kind == "}" and not self._is_flat())
        more = 0 if self.fresh or piece.kind in ("}", "//", "/*") and not self.parens or self.in_points else 2
        return " " * (INDENT * (level + more))

    def _is_flat(self) -> bool:
        return bool(self.braces) and self.braces[-1].flat

    def _must_break(self, piece: Piece, before: Piece) -> bool:
        """Whether a line ends between the two."""
        if before.kind in ("//", "#") or piece.kind == "#":
            return True
        if piece.kind in ("//", "/*"):
            return piece.lines > 0 and not (self._is_flat() and piece.kind == "/*")
        if before.kind == "/*" and piece.lines and not self._is_flat():
            return True
        if piece.kind == "}" or before.kind == "{":
            return not self._closes_flat_block(piece, before)
        if self.fresh and before.kind in (";", "}"):
            return not self._is_flat()
        if piece.lines and piece.kind == "{" and self._is_clause_brace():
            return True
        if piece.lines and (piece.kind in (";", ",", "{", ")") or before.kind in ("[", ".")):
            return False
        return piece.lines > 0 and not self._is_flat() and not (piece.text == "else" and before.kind == "}")

    def _closes_flat_block(self, piece: Piece, before: Piece) -> bool:
        if before.kind == "{" and piece.kind == "}":
            return True
        return self._is_flat()

    def _is_clause_brace(self) -> bool:
        return not self.braces and self.in_points and not self.in_predicate

    # --- one piece ----------------------------------------------------------------------------------------

    def _put_piece(self, at: int, piece: Piece, before: Piece | None) -> None:
        if before is not None:
            if self.closed is not None and not self.fresh and self._starts_anew(piece):
                self._end_statement()
            if self._must_break(piece, before):
                joined = piece.text == "else" and before.kind == "}"
                if not joined:
                    self._break_line(piece.lines > 1 and piece.kind != "}" and before.kind != "{")
        if not self.line:
            self.line = "" if piece.kind == "#" else self._line_indentation(piece)
        elif before is not None and self._has_space_between(piece, before):
            self.line += " "
        self._track_piece(at, piece)
        text = piece.text if piece.kind != "/*" else "\n".join(t.rstrip() for t in piece.text.split("\n"))
        self.line += text
        if "\n" in self.line:  # a comment, or text kept as is
            *whole, self.line = self.line.split("\n")
            self.out += whole

    def _starts_anew(self, piece: Piece) -> bool:
        """Whether ``piece``, after a closing brace, starts a statement of its own."""
        if self.parens > (self.braces[-1].parens if self.braces else 0):
            return False
        if piece.text == "else" or piece.kind in ("//", "/*"):
            return False
        if self.closed is not None and self.closed.data and piece.kind == "word":
            return piece.text in _ITEMS
        return piece.kind in ("word", "var", "map", "point", "{", "}", "(", "#") or piece.tag == "unary"

    def _end_statement(self) -> None:
        self.fresh = True
        self.data = False

    def _track_piece(self, at: int, piece: Piece) -> None:
        """Update the state for a piece."""
        kind = piece.kind
        if kind == "point" or kind == "/" and piece.tag:
            self.in_points = True
            self.in_predicate = piece.tag == "open"
        if kind in ("//", "/*", "#"):
            return
        if kind == "{":
            self.closed = None
            self._open_brace(at)
            return
        if kind == "}":
            if self.braces:
                brace = self.braces.pop()
                self.parens = brace.parens
                self.fresh = False
                self.data = brace.data
                self.closed = brace
                if not brace.data and not self.braces and not self.in_predicate:
                    self._end_statement()
            return
        self.closed = None
        if kind in ("(", "["):
            self.parens += 1
        elif kind in (")", "]"):
            self.parens = max(0, self.parens - 1)
        if kind == "word" and piece.text in ("struct", "union", "enum") and self.fresh:
            self.data = True
        limit = self.braces[-1].parens if self.braces else 0
        if kind == ";" and self.parens <= limit:
            self._end_statement()
        else:
            self.fresh = kind == "," and bool(self.braces) and self.braces[-1].data and self.parens <= limit

    def _open_brace(self, at: int) -> None:
        clause = self._is_clause_brace()
        self.braces.append(Brace(self._fits_on_line(at), self.data, self.parens))
        self.in_points = self.in_points and not clause
        self._end_statement()

    def _fits_on_line(self, at: int) -> bool:
        """Whether the block that opens at piece ``at`` is on one line, and short enough to stay there."""
        if self._is_flat():
            return True
        depth, width = 0, len(self.line)
        for index in range(at, len(self.pieces)):
            piece = self.pieces[index]
            if index > at and piece.lines or piece.kind in ("//", "#") or "\n" in piece.text:
                return False
            width += len(piece.text) + 1
            depth += {"{": 1, "}": -1}.get(piece.kind, 0)
            if depth == 0:
                return width <= WIDTH
        return False

    # --- spaces -------------------------------------------------------------------------------------------

    def _has_space_between(self, piece: Piece, before: Piece) -> bool:
        """Whether a space stands between two pieces of a line."""
        if self._wants_space(piece, before):
            return True
        return "point" not in (piece.kind, before.kind) and self._would_merge(before.text, piece.text)

    def _wants_space(self, piece: Piece, before: Piece) -> bool:
        kind, last = piece.kind, before.kind
        if kind in ("//", "/*"):
            return True
        if kind in (",", ";", ")", "]") or last in ("(", "[") or piece.tag == "close" or before.tag == "open":
            return False
        if last == "/*":
            return True
        if kind in _TIGHT or last in _TIGHT or piece.tag in ("postfix", "tight"):
            return False
        if last == "?" and kind == ":":
            return False
        if before.tag in ("unary", "cast"):
            return False
        if before.tag == "type":
            return False if piece.tag == "type" or kind in (")", "word") else kind not in ("[", ",")
        if kind == "(":
            return self._space_before_paren(before)
        if kind == "[":
            return last not in ("word", "var", "map", ")", "]", "str")
        if kind == "{" or last in ("{", "}") or kind == "}":
            return not (last == "{" and kind == "}")
        return True

    @staticmethod
    def _space_before_paren(before: Piece) -> bool:
        if before.kind == "word":
            return before.text in _KEYWORDS
        return before.kind not in (")", "]", "map", "var")

    @staticmethod
    def _would_merge(left: str, right: str) -> bool:
        """Whether the two would lex as other tokens without a space."""
        match = TOKEN.match(left + right)
        return match is not None and match.end() != len(left) and left[:1] not in "\"'"
