"""How a script looks in an editor: what can be folded, what each token means, and the list of its items."""

from __future__ import annotations

from ..base.record import Record
from ..builtins import BUILTINS
from ..functions import FUNCTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .scan import Scan, Token

TOKEN_TYPES = ("comment", "string", "number", "keyword", "operator", "variable", "property", "function", "macro",
               "event", "type", "struct", "parameter", "enumMember")
MODIFIERS = ("defaultLibrary", "static")  # a name of the language; a map, which all clauses share
_KEYWORDS = frozenset("""if else while for unroll return break continue let config struct union enum typedef macro
import fn table sizeof offsetof true false comptime in""".split())
_TYPES = frozenset("""int8 int16 int32 int64 uint8 uint16 uint32 uint64 u8 u16 u32 u64 s8 s16 s32 s64 bool string void
char short int long unsigned signed float double""".split())
_BY_KIND = {"comment": "comment", "str": "string", "char": "string", "unclosed": "string", "int": "number",
            "float": "number", "var": "variable", "param": "parameter", "point": "event", "directive": "macro"}


class Colour(Record):
    """The meaning of the characters ``start`` to ``end``: an index of TOKEN_TYPES, and a set of bits of MODIFIERS."""

    start: int
    end: int
    type: int
    modifiers: int = 0


class Fold(Record):
    """Lines, counted from 0, of which the first stays visible; ``comment`` if these are comments."""

    first: int
    last: int
    comment: bool = False


class Symbol(Record):
    """An item for the editor's outline; ``kind`` is that of the scan."""

    name: str
    kind: str
    start: int
    end: int


def find_folds(scan: Scan) -> list[Fold]:
    """Blocks and comments of more than one line."""
    folds: list[Fold] = []
    opened: list[int] = []
    line = last = 0
    for token in scan.tokens:
        line += scan.text.count("\n", last, token.start)
        last = token.start
        end = line + token.text.count("\n")
        if token.kind == "comment":
            previous = folds[-1] if folds else None
            if previous is not None and previous.comment and previous.last == line - 1:
                previous.last = end
            else:
                folds.append(Fold(line, end, True))
        elif token.text == "{" and token.kind == "op":
            opened.append(line)
        elif token.text == "}" and token.kind == "op" and opened:
            folds.append(Fold(opened.pop(), line - 1))
    return [fold for fold in folds if fold.last > fold.first]


def colour_tokens(scan: Scan) -> list[Colour]:
    """The meaning of each token that has one, in order."""
    own = {words[1].text: item.kind for item in scan.items if item.kind in ("macro", "fn", "table")
           for words in [[token for token in scan.tokens_of(item) if token.kind == "word"]] if len(words) > 1}
    colours = []
    before: Token | None = None
    for token in scan.tokens:
        kind, modifiers = _meaning(scan, token, before, own)
        if kind:
            colours.append(Colour(token.start, token.end, TOKEN_TYPES.index(kind), modifiers))
        if token.kind != "comment":
            before = token
    return colours


def _meaning(scan: Scan, token: Token, before: Token | None, own: dict[str, str]) -> tuple[str, int]:
    """The token type, "" for none, and the modifiers."""
    if token.kind == "map":
        return "variable", 2
    if token.kind == "op":
        return ("operator", 0) if token.text not in "(){}[];,:" else ("", 0)
    if token.kind != "word":
        return _BY_KIND.get(token.kind, ""), 0
    if before is not None and before.text in (".", "->"):
        return "property", 0
    if before is not None and before.text in ("struct", "union", "enum"):
        return "struct", 0
    if token.text in own:
        return {"macro": "macro", "fn": "function", "table": "struct"}[own[token.text]], 0
    if token.text in _KEYWORDS:
        return "keyword", 0
    if token.text in _TYPES:
        return "type", 0
    called = scan.text[token.end:token.end + 1] == "("
    if token.text in FUNCTIONS and called:
        return "function", 1
    if token.text in BUILTINS:
        return "variable", 1
    return ("enumMember", 0) if token.text.isupper() else ("", 0)


def list_symbols(scan: Scan) -> list[Symbol]:
    """Each item by its attach points, or by its name."""
    symbols = []
    for item in scan.items:
        tokens = scan.tokens_of(item)
        points = [" ".join(token.text.split()) for token in tokens if token.kind == "point"]
        words = [token.text for token in tokens if token.kind in ("word", "map", "str")]
        name = ", ".join(points) or " ".join(words[:2])
        symbols.append(Symbol(name or item.kind, item.kind, item.start, max(item.start, item.end)))
    return symbols
