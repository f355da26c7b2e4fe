"""From a name to its definition and its uses, and renaming."""

from __future__ import annotations

import os

from ..base import regex_cache
from ..base.record import Record
from ..builtins import BUILTINS
from ..errors import UsageError
from ..functions import FUNCTIONS
from ..language.parser import ITEM_WORDS
from ..semantics.macros import LIBRARY
from ..source import Source, Span
from .scan import Scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .analysis import Document
    from .scan import Item, Token

_WORD = regex_cache.compile(r"[A-Za-z_]\w*", regex_cache.ASCII)
_RESERVED = frozenset((*ITEM_WORDS, "if", "else", "while", "for", "unroll", "return", "break", "continue", "sizeof",
                       "offsetof", "true", "false", "comptime", "in"))
_NAMED = ("macro", "fn", "table")  # items whose second word is a name that the rest of the script uses


class Range(Record):
    """Characters ``start`` to ``end`` of the document."""

    start: int
    end: int


# --- definitions ------------------------------------------------------------------------------------------


def find_definition(document: Document, offset: int) -> Span | None:
    """Where the name at ``offset`` is defined: a macro, function, table or #define, the first assignment of a map or a
    variable, or the file that is included or imported. It may be in another file."""
    token = document.scan.token_at(offset)
    if token is None:
        return None
    if token.kind == "directive" or token.kind == "str" and _item_kind(document.scan, token) == "import":
        return _included_file(document, token)
    if token.kind in ("var", "map"):
        return _first_assignment(document, token)
    return _named_item(document, token.text) if token.kind == "word" else None


def _named_item(document: Document, name: str) -> Span | None:
    """The name of the macro, function, table or #define."""
    script = document.tree.script
    items = [(node.name, node.span) for nodes in (script.macros, script.functions, script.tables) for node in nodes]
    for known, span in items:
        if known == name:
            return _name_within(span, name)
    for token in document.scan.tokens:
        words = token.text[1:].split() if token.kind == "directive" else []
        if words[:1] == ["define"] and len(words) > 1 and words[1].partition("(")[0] == name:
            return _name_within(Span(document.source, token.start, token.end), name)
    return _library_macro(name)


def _library_macro(name: str) -> Span | None:
    """A function that is a macro of the standard library."""
    row = FUNCTIONS.get(name)
    path = f"{LIBRARY}{row.library}.bt" if row is not None and row.library else ""
    if not path or not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        source = Source(path, file.read(), True)
    at = source.text.find(f"macro {name}(") + len("macro ")
    return Span(source, at, at + len(name))


def _name_within(span: Span, name: str) -> Span:
    at = span.source.text.find(name, span.start + span.text.find(" "))  # after the word that defines it
    return Span(span.source, at, at + len(name)) if 0 <= at < span.end else span


def _included_file(document: Document, token: Token) -> Span | None:
    named = regex_cache.search(r'"([^"\n]+)"', token.text)
    if named is None:
        return None
    path = os.path.join(os.path.dirname(document.source.name), named[1])
    if named[1].startswith("stdlib/") and not os.path.exists(path):
        path = os.path.join(os.path.dirname(os.path.dirname(LIBRARY)), named[1])
    return Span(Source(os.path.abspath(path), ""), 0, 0) if os.path.isfile(path) else None


def _first_assignment(document: Document, token: Token) -> Span | None:
    """Of its uses, the declaration or first assignment; else the first."""
    scan = document.scan
    uses = _uses_of(document, token)
    for use in uses:
        at = scan.tokens.index(use)
        if at and scan.tokens[at - 1].text == "let" or _is_assigned(scan, at):
            return Span(document.source, use.start, use.end)
    return Span(document.source, uses[0].start, uses[0].end) if uses else None


def _is_assigned(scan: Scan, at: int) -> bool:
    """Whether the variable or map that token ``at`` begins is given a value there."""
    depth = 0
    for token in scan.tokens[at + 1:]:
        depth += {"[": 1, "]": -1}.get(token.text, 0)
        if not depth and token.text != "]":
            return token.text == "=" or token.text in ("++", "--") or token.kind == "op" and len(token.text) > 1 \
                and token.text[-1] == "=" and token.text not in ("==", "!=", "<=", ">=")
    return False


# --- uses -------------------------------------------------------------------------------------------------


def find_uses(document: Document, offset: int) -> list[Range]:
    """Every use of the variable, map, macro, function or table at ``offset`` in this document; [] if it is none."""
    token = document.scan.token_at(offset)
    return [Range(use.start, use.end) for use in _uses_of(document, token)] if token is not None else []


def _uses_of(document: Document, token: Token) -> list[Token]:
    scan = document.scan
    if token.kind == "var":  # each item has its own
        return [other for other in scan.tokens if other.kind == "var" and other.text == token.text
                and other.item == token.item]
    if token.kind == "map":
        own = _is_parameter(scan, token)
        return [other for other in scan.tokens if other.kind == "map" and other.text == token.text
                and (other.item == token.item if own else not _is_parameter(scan, other))]
    if token.kind == "word" and token.text in _defined_names(scan):
        return [other for at, other in enumerate(scan.tokens) if other.kind == "word" and other.text == token.text
                and not (at and scan.tokens[at - 1].text in (".", "->", "struct", "union", "enum"))
                and not _is_parameter(scan, other)]
    return []


def _defined_names(scan: Scan) -> list[str]:
    """The names of the document's macros, functions and tables."""
    return [words[1].text for item in scan.items if item.kind in _NAMED
            for words in [[token for token in scan.tokens_of(item) if token.kind == "word"]] if len(words) > 1]


def _is_parameter(scan: Scan, token: Token) -> bool:
    """Whether a macro around it has the name as a parameter of its own."""
    item = scan.items[token.item] if token.item >= 0 else None
    return item is not None and item.kind == "macro" and any(
        other.text == token.text and other.kind == token.kind for other in _parameters(scan, item))


def _parameters(scan: Scan, item: Item) -> list[Token]:
    head = [token for token in scan.tokens_of(item) if token.start < item.body]
    return head[2:]


def _item_kind(scan: Scan, token: Token) -> str:
    return scan.items[token.item].kind if token.item >= 0 else ""


# --- renaming ---------------------------------------------------------------------------------------------


def renamed_range(document: Document, offset: int) -> Range | None:
    """What a renaming at ``offset`` would rename; None if nothing there can be."""
    token = document.scan.token_at(offset)
    return Range(token.start, token.end) if token is not None and _uses_of(document, token) and token.text != "@" \
        else None


def rename(document: Document, offset: int, name: str) -> list[tuple[Range, str]]:
    """The edits that give a variable, map, macro, function or table another name, with or without its ``$`` or ``@``.
    UsageError if it would mean something else then."""
    token = document.scan.token_at(offset)
    if token is None or renamed_range(document, offset) is None:
        raise UsageError("only variables, maps, and the script's own macros, functions and tables can be renamed")
    sign = {"var": "$", "map": "@"}.get(token.kind, "")
    plain = name.removeprefix(sign)
    if _WORD.fullmatch(plain) is None or not sign and plain in _RESERVED:
        raise UsageError(f"'{name}' is not a name")
    fresh = sign + plain
    if fresh == token.text:
        return []
    taken = [other for other in document.scan.tokens if other.text == fresh and other.kind == token.kind
             and (token.kind != "var" or other.item == token.item)]
    if taken or not sign and (fresh in FUNCTIONS or fresh in BUILTINS or _defined_elsewhere(document, fresh)):
        raise UsageError(f"there is a {fresh} already")
    if token.kind != "var" and _is_used_elsewhere(document, token):
        raise UsageError(f"{token.text} is also used in a file that this script imports")
    return [(Range(use.start, use.end), fresh) for use in _uses_of(document, token)]


def _defined_elsewhere(document: Document, name: str) -> bool:
    script = document.tree.script
    return name in script.defines or any(node.name == name for nodes in (script.macros, script.functions, script.tables)
                                         for node in nodes)


def _is_used_elsewhere(document: Document, token: Token) -> bool:
    """Whether a file that the script imports has the name as well."""
    script = document.tree.script
    sources = {id(node.span.source): node.span.source for nodes in (script.macros, script.functions, script.clauses)
               for node in nodes if node.span.source is not document.source and not node.span.source.internal}
    return any(other.text == token.text for source in sources.values() for other in Scan(source.text).tokens)
