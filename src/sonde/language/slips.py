"""Hints for syntax errors: slips that are made often, by those who have just written C, Python or awk among others."""

from __future__ import annotations

from ..base import regex_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cursor import Cursor
    from .lexer import Token

_WORDS = {"and": "write && for and", "or": "write || for or", "not": "write ! for not", "is": "write == for is",
          "xor": "write ^ for xor", "then": "there is no then: if (condition) { ... }"}
_STATEMENTS = {  # first words of statements elsewhere
    "elif": "write else if for elif", "elsif": "write else if for elsif", "elseif": "write else if for elseif",
    "var": "a variable needs no var: $x = 1;", "const": "a variable needs no const: $x = 1;",
    "local": "a variable needs no local: $x = 1;", "auto": "a variable needs no auto: $x = 1;",
    "foreach": "write for ($kv : @map) { ... }", "do": "there is no do: while (condition) { ... }",
    "loop": "write while (condition) { ... }, or for ($i : 0..10) { ... }",
    "switch": "there is no switch: if (...) { ... } else if (...) { ... }",
    "def": "a function stands outside of probes: fn name($x : int64) : int64 { return $x; }",
    "function": "a function stands outside of probes: fn name($x : int64) : int64 { return $x; }",
    "try": "there are no exceptions: a value that cannot be read is 0",
}
_TYPES = frozenset(("int", "long", "short", "char", "unsigned", "signed", "float", "double", "bool", "string", "size_t",
                    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "u8", "u16", "u32", "u64",
                    "s8", "s16", "s32", "s64", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "int32_t", "int64_t"))
_BLOCK = "the statements of a probe stand in braces: begin { ... }"


def slip_hints(cursor: Cursor) -> list[str]:
    """Hints for what the current token may be a slip of, the likeliest alone; none where nothing is typical."""
    kind, text = cursor.kind, cursor.token[1]
    before = cursor.peek(-1) if cursor.index else ("", "", 0, 0)
    for token in (cursor.token, before):
        if token[1] in _WORDS and token[0] == "word":
            return [_WORDS[token[1]]]
    if hint := _operator_hint(kind, text, before, cursor.peek()[0]):
        return [hint]
    first = _first_of_statement(cursor)
    if first[1] in _STATEMENTS and first[0] == "word":
        return [_STATEMENTS[first[1]]]
    if before[1] in _TYPES and first == before and kind == "word":
        return [f"a variable has a $ and takes its type from its value: ${text} = 1;"]
    if text in (";", "{", "=", ")") and (missing := _missing_end(cursor, text)):
        return [missing]
    if text == "=":
        return _assignment_hints(cursor, before, first)
    if text == ":":
        return _colon_hints(cursor)
    if text == "else":
        return ["else follows the } of an if directly"]
    if kind in ("str", "var", "map", "int") and before[0] == "word" and before == first:
        rest = regex_cache.compile(r"[^;}\n]*").match(cursor.source.text, cursor.token[2])
        assert rest is not None
        return [f"a function has its arguments in parentheses: {before[1]}({rest[0].strip()})"]
    return []


def _operator_hint(kind: str, text: str, before: Token, following: str) -> str:
    """A hint for two operators in a row that are one elsewhere."""
    if text in ("&&", "||") and before[1] in ("&&", "||", "&", "|"):
        return "something to compare is missing between the two operators"
    if text == "=" and before[0] in ("==", "!="):
        return f"write {before[0]} for {before[0]}="
    if kind == ":" and following == "=":
        return "write = for :="
    if kind == ">" and before[0] == "<":
        return "write != for <>"
    if kind == "*" and before[0] == "*":
        return "there is no operator for powers: 1 << n is 2 to the power of n"
    if text == "=" and following in ("~", "bad") or kind in ("~", "bad") and before[1] == "=" and text == "~":
        return 'strcontains(text, "part") searches in text, globmatch("part*", text) compares it with a pattern'
    return ""


def _first_of_statement(cursor: Cursor) -> Token:
    """The token that the statement begins with, in which the current one is."""
    index = cursor.index
    while index > 0 and cursor.tokens[index - 1][0] not in (";", "{", "}"):
        index -= 1
    return cursor.tokens[index]


def _missing_end(cursor: Cursor, text: str) -> str:
    """A hint at what should have been closed before the current token."""
    if text in (";", "{") and cursor.find_unclosed("(", ")"):
        return "a ) is missing"
    if text != "{" and cursor.find_unclosed("[", "]"):
        return "a ] is missing"
    if text != "{" and cursor.find_unclosed("?", ":"):
        return "a choice has two values: condition ? value : other"
    start = cursor.tokens[0][2]
    if text == "{" and cursor.source.text[:start].rstrip().endswith("/"):
        return "a / is missing after the condition"
    return ""


def _assignment_hints(cursor: Cursor, before: Token, first: Token) -> list[str]:
    """Hints for a = where none may stand: a name without its $, or a comparison."""
    if before == first and before[0] == "word" and cursor.index > 1:
        return [f"a variable has a $, a map an @: ${before[1]} = ..., or @{before[1]} = ..."]
    return ["compare with ==; an assignment is a statement of its own: $x = 1;"]


def _colon_hints(cursor: Cursor) -> list[str]:
    """Hints for a colon: the start of the next probe, or of a block as in Python."""
    if _starts_line(cursor, cursor.index - 1):
        return ["a probe cannot start within a block: is a } missing before it?"]
    if _first_of_statement(cursor)[1] in ("if", "while", "for", "else"):
        return ["a block stands in braces: if (condition) { ... }"]
    return []


def _starts_line(cursor: Cursor, index: int) -> bool:
    """Whether a token is the first of its line."""
    if index < 1:
        return index == 0
    return "\n" in cursor.source.text[cursor.tokens[index - 1][3]:cursor.tokens[index][2]]


def loop_hints(cursor: Cursor) -> list[str]:
    """Hints for the head of a for loop that is not ``($x : ...)``; of one as in C, the same loop."""
    counted = regex_cache.compile(r"\s*\(?\s*(?:int\s+)?\$?(\w+)\s*=\s*(\w+)\s*;\s*\$?\w+\s*<(=?)\s*([\w.>$-]+)").match(
        cursor.source.text, _head_of_loop(cursor))
    if counted is not None:
        name, least, inclusive, limit = counted.groups()
        return [f"write for (${name} : {least}..{limit}{' + 1' if inclusive else ''}) {{ ... }}"]
    hints = ["for ($i : 0..10) { ... }, or for ($kv : @map) { ... }"]
    if cursor.kind == "word":
        hints.insert(0, f"a variable has a $: ${cursor.token[1]}")
    return hints


def _head_of_loop(cursor: Cursor) -> int:
    """The character after the ``for`` that the current token is behind."""
    index = cursor.index
    while index > 0 and cursor.tokens[index][1] != "for":
        index -= 1
    return cursor.tokens[index][3]


def missing_block_hints(text: str, start: int, pos: int) -> list[str]:
    """Hints for what stands at ``pos`` in the place of a block, after an attach point that begins at ``start``."""
    word = regex_cache.compile(r"\w*").match(text, pos)
    assert word is not None
    if regex_cache.compile(r".*\}\s*;\s*\Z", regex_cache.DOTALL).match(text, max(0, start - 100), pos):
        return ["no ; stands after the } of a probe"]
    if text.startswith(":", word.end()):
        return ["several probes for one block are separated by commas"]
    if word[0] in ("if", "when", "where"):
        return ["a condition for the whole block stands between slashes: begin /pid == 1/ { ... }"]
    head = text[start:pos].split()
    if head[:1] == ["probe"]:
        return ["a probe begins with its kind, without the word probe: begin { ... }, or kprobe:vfs_read { ... }"]
    if head and head[0] in ("def", "function", "func"):
        return [_STATEMENTS["def"]]
    if head == ["}"]:
        return ["there is a } too many"]
    return [_BLOCK]
