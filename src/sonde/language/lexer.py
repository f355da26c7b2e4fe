"""Text to tokens.

A script has two lexical worlds. Attach points are raw text (``attach_point.py``); everything else is tokens.
:meth:`Lexer.tokenize_item` makes those of one top-level item, so that nothing after it is lexed by the wrong rules.
An error in the text becomes a ``bad`` token, which is reported only if the parser gets to it.
"""

from __future__ import annotations

from ..base import regex_cache
from ..base.quantities import NANOSECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .preprocessor import Preprocessor

# (kind, text, start, end); the kind of an operator is the operator itself. Kinds besides:
#   word, int, float, str, char, var ($x), map (@x), param ($1, $#), eof, "/{" (the slash that ends a predicate),
#   bad (text is then the code of the error)
Token = tuple[str, str, int, int]

_COMMENT = r"//[^\n]*|/\*.*?\*/"

TOKEN = regex_cache.compile(
    r"\s*(?:"
    r"(?P<word>[A-Za-z_]\w*)"
    r"|(?P<comment>" + _COMMENT + ")"
    r"|(?P<bad>/\*)"
    r"|(?P<op><<=|>>=|->|\+\+|--|<<|>>|&&|\|\||\.\.|[-+*/%&|^<>=!]=|[-+*/%&|^<>=!~?.,:;(){}\[\]])"
    r"|(?P<var>\$[A-Za-z_]\w*)"
    r"|(?P<map>@(?:[A-Za-z_]\w*)?)"
    r"|(?P<float>(?<!\.)[0-9][0-9_]*(?:\.[0-9]\w*(?:(?<=[eE])[-+]\w+)?|[eE]-\w+))"
    r"|(?P<int>[0-9]\w*)"
    r'|(?P<str>"[^"\\\n]*(?:\\.[^"\\\n]*)*")'
    r"|(?P<param>\$[0-9#]\w*)"
    r"|(?P<char>'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}|[^\n]))')"
    r"|(?P<end>\Z)"
    r"|(?P<other>.))", regex_cache.ASCII | regex_cache.DOTALL)

# A comment that nobody closes goes to the end: only within an item does anything miss what it takes.
_TRIVIA = regex_cache.compile(r"(?:\s+|" + _COMMENT + r"|/\*.*\Z)*", regex_cache.ASCII | regex_cache.DOTALL)


class Lexer:
    """Cuts the text of one source into tokens; ``#`` lines go to the preprocessor wherever they are."""

    def __init__(self, text: str, preprocessor: Preprocessor) -> None:
        self.text = text
        self._preprocessor = preprocessor

    def skip_directives(self, pos: int) -> int:
        """The position after spaces, comments, ``#`` lines and ``_Pragma``."""
        text = self.text
        while True:
            pos = self.skip_trivia(pos)
            if self._preprocessor.macros or text.startswith("_Pragma", pos):
                end = self._preprocessor.handle_pragma(pos)
                if end > pos:
                    pos = end
                    continue
            if not text.startswith("#", pos) or not self._starts_line(pos):
                return pos
            pos = self._preprocessor.handle_directive(pos)

    def skip_trivia(self, pos: int) -> int:
        """The position after spaces and comments."""
        trivia = _TRIVIA.match(self.text, pos)
        return trivia.end() if trivia else pos

    def tokenize_item(self, pos: int, closing: str = "}", predicate: bool = False) -> list[Token]:
        """The tokens from ``pos`` to the end of the item, and an ``eof`` token.

        The item ends after a ``;`` outside of braces, and (``closing`` "}") after the brace that closes its first
        one. With ``predicate``, ``pos`` is after the opening slash.
        """
        text, scan = self.text, TOKEN.match
        tokens: list[Token] = []
        depth = expanded = 0
        while True:
            match = scan(text, pos)
            assert match is not None  # "other" takes any character
            kind = match.lastgroup or ""
            start, pos = match.span(kind)
            if kind == "op":
                op = match[kind]
                if op == "{":
                    depth += 1
                elif op == "/" and predicate and depth == 0 and self._ends_predicate(pos):
                    tokens.append(("/{", op, start, pos))
                    predicate = False
                    continue
                tokens.append((op, op, start, pos))
                if op == "}":
                    depth -= 1
                    if depth <= 0 and closing == "}" and not (predicate and self._predicate_goes_on(pos)):
                        break
                elif op == ";" and depth <= 0:
                    break
            elif kind == "end":
                break
            elif kind in ("other", "bad"):
                if self._preprocessor.macros:  # a macro that is defined within the item is not for what comes before
                    tokens[expanded:] = self._preprocessor.expand_tokens(tokens[expanded:])
                expanded = len(tokens)
                pos = self._take_non_token(start, tokens)
            elif kind != "comment":
                tokens.append((kind, match[kind], start, pos))
        tokens.append(("eof", "", pos, pos))
        if self._preprocessor.macros:
            tokens[expanded:] = self._preprocessor.expand_tokens(tokens[expanded:])
        return tokens

    def tokenize_line(self, start: int, end: int) -> list[Token]:
        """The tokens of a stretch of one line (the condition of an ``#if``)."""
        tokens: list[Token] = []
        while True:
            match = TOKEN.match(self.text, start, end)
            assert match is not None
            kind = match.lastgroup or ""
            at, start = match.span(kind)
            text = match[kind]
            if kind == "other" and self.text.startswith(("\\\n", "\\\r\n"), at):
                continue  # the line goes on
            if kind in ("other", "bad"):
                tokens.append(("bad", "invalid-character" if kind == "other" else "unterminated-comment", at, end))
            elif kind not in ("comment", "end"):
                tokens.append((text if kind == "op" else kind, text, at, start))
            if kind in ("end", "other", "bad"):
                return [*tokens, ("eof", "", end, end)]

    def skip_parentheses(self, pos: int) -> int:
        """The position after the ``)`` that closes the first ``(`` from ``pos`` on; the end if none does."""
        depth = 0
        while True:
            match = TOKEN.match(self.text, pos)
            assert match is not None
            pos = match.end()
            depth += {"(": 1, ")": -1}.get(match["op"], 0)
            if not depth and match["op"] == ")" or match["end"] is not None:
                return pos

    def _predicate_goes_on(self, pos: int) -> bool:
        """Whether a predicate continues after the brace that ends at ``pos``: it may contain a block."""
        rest = self.text[self.skip_trivia(pos):][:5]
        return rest[:1] in tuple("/)]&|=!<>+-*%^?:.,[") or rest[:4] == "else" and not rest[4:].isalnum()

    def _ends_predicate(self, pos: int) -> bool:
        """Whether a slash that ends at ``pos`` is the last one of a predicate."""
        pos = self.skip_trivia(pos)
        return pos == len(self.text) or self.text[pos] == "{"

    def _starts_line(self, pos: int) -> bool:
        pos -= 1
        while pos >= 0 and self.text[pos] in " \t":
            pos -= 1
        return pos < 0 or self.text[pos] == "\n"

    def _take_non_token(self, start: int, tokens: list[Token]) -> int:
        """Take what is not a token: a ``#`` line, or an error."""
        text = self.text
        char = text[start]
        if char == "#" and self._starts_line(start):
            return self._preprocessor.handle_directive(start)
        if char == "/":
            tokens.append(("bad", "unterminated-comment", start, len(text)))
            return len(text)
        if char == '"':
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            tokens.append(("bad", "unterminated-string", start, end))
            return end
        tokens.append(("bad", "invalid-character", start, start + 1))
        return start + 1


_CONFUSED = {
    "'": 'strings are written in double quotes: "text"',
    "\u2018": 'strings are written in double quotes: "text"',
    "\u2019": 'strings are written in double quotes: "text"',
    "\u201c": 'this is a typographic quote; use "',
    "\u201d": 'this is a typographic quote; use "',
    "\u00a0": "this is a no-break space; use a plain one",
    "\u2013": "this is a typographic dash; use -",
    "\u2014": "this is a typographic dash; use --",
    "\u2212": "this is a typographic minus; use -",
    "\ufeff": "this is a byte order mark; remove it",
    "#": "comments start with //",
    "$": "a variable has a name: $x; a positional parameter a number: $1",
    "\\": "there are no line continuations; a statement may simply go on in the next line",
}


# What a ``bad`` token means in any place: message ("": what was expected is missing) and hints.
COMPLAINTS = {
    "unterminated-string": ("syntax: unterminated string",
                            'close it with " on the same line; a newline within a string is \\n'),
    "unterminated-comment": ("", "close it with */"),
    "macro-arguments": ("wrong number of arguments for a C macro", "see its #define"),
}


def confusion(char: str) -> list[str]:
    """Hints for a character that the language does not use."""
    return [_CONFUSED[char]] if char in _CONFUSED else []


# Patterns for what few scripts have are compiled on first use: start-up time is budgeted.
_NUMBER = r"(?:0[xX]([0-9a-fA-F_]+)|0([0-7_]+)|([0-9][0-9_]*)(?:[eE]([0-9_]+))?)([a-zA-Z]*)"
_COEFFICIENTS = frozenset("123456789")
_C_SUFFIXES = frozenset(("", "u", "l", "ul", "lu", "ll", "ull", "llu"))
MAX_INT = 2**64 - 1


def parse_integer(text: str) -> int | None:
    """The value of an ``int`` token (durations in nanoseconds), or None if it is malformed.

    A value above ``MAX_INT`` is not exact: it only says that the literal is too large.
    """
    if text.isdigit() and text.isascii() and len(text) <= 64 and (text[0] != "0" or len(text) == 1):
        return int(text)
    match = regex_cache.fullmatch(_NUMBER, text, regex_cache.ASCII)
    if match is None:
        return None
    hexadecimal, octal, decimal, exponent, suffix = match.groups()
    written = hexadecimal or octal or decimal
    digits = written.replace("_", "").lstrip("0") or "0"
    if suffix.lower() not in _C_SUFFIXES and (hexadecimal or suffix not in NANOSECONDS):
        return None
    if decimal and len(decimal) > 1 and decimal[0] == "0":  # an octal number with an 8 or 9
        return None
    if written[-1] == "_" or exponent and (exponent[-1] == "_" or written not in _COEFFICIENTS):
        return None
    value = int(digits, 16 if hexadecimal else 8 if octal else 10) if len(digits) <= 64 else 1 << 64
    if exponent:
        power = exponent.replace("_", "").lstrip("0")
        value *= 10 ** (int(power or "0") if len(power) <= 2 else 99)
    return value * NANOSECONDS.get(suffix, 1)


_DIGITS = r"[0-9](?:_?[0-9])*"


def parse_float(text: str) -> float | None:
    """The value of a ``float`` token, the double nearest to it; None if it is malformed or there is none."""
    if regex_cache.fullmatch(rf"{_DIGITS}(?:\.{_DIGITS})?(?:[eE][-+]?[0-9]+)?", text, regex_cache.ASCII) is None:
        return None
    value = float(text)
    return value if value < float("inf") else None


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}
_ESCAPE = r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))"


def unescape_string(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text between the quotes of a ``str`` token with escapes replaced, and where (start, end) escapes are wrong.

    Bytes from 0x80 on (``\\xff``) that are not valid UTF-8 together become surrogates, as in file names:
    ``value.encode("utf-8", "surrogateescape")`` gives the bytes that were meant.
    """
    wrong: list[tuple[int, int]] = []

    def replace_escape(match: regex_cache.Match[str]) -> str:
        hexadecimal, octal, char = match.groups()
        if char is not None:
            if char not in _ESCAPES:
                wrong.append(match.span())
            return _ESCAPES.get(char, char)
        byte = int(hexadecimal, 16) if hexadecimal else int(octal, 8)
        if byte > 255:
            wrong.append(match.span())
        byte &= 255
        return chr(byte) if byte < 128 else chr(0xDC00 + byte)

    value = regex_cache.sub(_ESCAPE, replace_escape, text, flags=regex_cache.DOTALL) if "\\" in text else text
    if not value.isascii():
        try:
            value = value.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:  # a surrogate that stands for no byte
            return "", [*wrong, (error.start, error.end)]
    return value, wrong
