"""Attach points: raw text such as ``uprobe:"/path with space":fn``, up to a comma, a predicate or a block."""

from __future__ import annotations

from ..base import regex_cache
from ..kinds import KINDS
from ..source import Source, Span
from .ast import AttachPoint
from .cursor import SYNTAX, ParseError
from .diagnostics import Diagnostics
from .lexer import confusion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_PIECE = regex_cache.compile(r'"[^"\n]*"|\$[0-9]+|[^\s",{}/:$()]+|.', regex_cache.ASCII | regex_cache.DOTALL)
_PARAMETER = regex_cache.compile(r"\$[0-9]+", regex_cache.ASCII)
_ALIAS = regex_cache.compile(r"([A-Za-z_]\w*)[ \t]*=[ \t]*(?=[A-Za-z*])", regex_cache.ASCII)

# Probes whose second part is a file; its slashes start no predicate.
_FILE_PROBES = frozenset([name for kind in KINDS.values() if kind.user for name in (kind.name, *kind.aliases)])
_PATH_STARTS = ("/", "./", "../", "~")


class AttachPointReader:
    """Reads the attach points of a source, one after another; ``params`` replace ``$1`` and so on."""

    def __init__(self, source: Source, diagnostics: Diagnostics, params: Sequence[str]) -> None:
        self._source = source
        self._diagnostics = diagnostics
        self._params = params
        self._missing = ""

    def read(self, pos: int) -> tuple[AttachPoint, int]:
        """The attach point at ``pos``, and where it ends. Raises :class:`ParseError` if there is none."""
        start, alias = pos, ""
        named = _ALIAS.match(self._source.text, pos)
        if named is not None:
            alias, pos = named[1], named.end()
        self._missing = ""
        parts, text, end = self._read_parts(pos)
        span = Span(self._source, start, end)
        if end == pos:
            self._fail_no_attach_point(end)
        return AttachPoint(span, text, parts, alias, _PARAMETER.fullmatch(span.text) is not None, self._missing), end

    def _read_parts(self, pos: int) -> tuple[list[str], str, int]:
        """The parts between unquoted colons, the text with parameters replaced, and the end."""
        parts, shown, parens = [""], "", 0
        source = self._source.text
        for match in _PIECE.finditer(source, pos):
            piece, start = match[0], match.start()
            if not piece.isprintable() and not piece.isspace():
                at, char = next((at, char) for at, char in enumerate(piece, start) if not char.isprintable())
                self._fail("invalid-character", f"invalid character U+{ord(char):04X}", at, at + 1, confusion(char))
            if piece == "}" and start == pos:
                return ["}"], piece, start + 1
            if piece.isspace() or piece in "{}" or (piece == "," and not parens):
                return parts, shown, start
            if piece == "/" and self._is_predicate(parts, start):
                return parts, shown, start
            if piece == ":":
                parts.append("")
                shown += piece
                continue
            parens += {"(": 1, ")": -1}.get(piece, 0)
            value = self._unquote_piece(piece, match.start())
            if parts == [""] and piece[0] == "$":  # it may be a whole attach point
                parts = value.split(":")
            else:
                parts[-1] += value
            shown += f'"{value}"' if piece[0] == '"' else value
        return parts, shown, len(source)

    def _unquote_piece(self, piece: str, start: int) -> str:
        """A piece without its quotes and with its parameters."""
        if piece == '"':
            self._fail("unterminated-string", "syntax: unterminated string", start, start + 1, ['close it with "'])
        if piece[0] == '"':
            return regex_cache.sub(r"\$([0-9]+)", lambda m: self._positional_parameter(m[1]), piece)[1:-1]
        after = self._source.text[start + len(piece):start + len(piece) + 1]
        if piece == "$" and after.isalpha() and self._source.text[start - 1:start] == ":":
            self._fail("invalid-parameter", f"invalid trailing character for positional param: {after}. Try quoting "
                       f'this entire part if this is intentional e.g. "${after}".', start, start + 2,
                       ["positional parameters are $1, $2 ...; variables have no place in a probe"])
        if piece[0] == "$" and len(piece) > 1:
            return self._positional_parameter(piece[1:])
        return piece

    def _positional_parameter(self, digits: str) -> str:
        number = int(digits[:6])
        if 0 < number <= len(self._params):
            return self._params[number - 1]
        self._missing = f"${digits[:6]}"
        return ""

    def _is_predicate(self, parts: list[str], pos: int) -> bool:
        """Whether the slash at ``pos``, after these parts, starts a predicate (or a comment) and not a path."""
        if len(parts) > 1 and (parts[-1] in ("", ".", "..") or parts[-1].startswith(_PATH_STARTS)):
            return False
        if parts[0] not in _FILE_PROBES:
            return True
        if len(parts) == 2:
            return False
        # A slash in a function's name, as Go has, unless the text up to the block reads /.../
        before_block = self._source.text[pos + 1:pos + 1000].partition("{")[0].rstrip()
        return before_block.endswith("/") and not regex_cache.search(r"\s/", before_block[:-1])

    def _fail_no_attach_point(self, pos: int) -> NoReturn:
        """There is no attach point at ``pos``."""
        char = self._source.text[pos:pos + 1]
        hints = []
        if char == "{":
            hints.append("say when this is to run: begin { ... }, or tracepoint:syscalls:sys_enter_openat { ... }")
        shown = f"found '{char}'" if char else "the text ends here"
        self._fail(SYNTAX, "syntax: expected attach point", pos, pos + len(char), [shown, *hints])

    def _fail(self, code: str, message: str, start: int, end: int, hints: Sequence[str]) -> NoReturn:
        self._diagnostics.error(code, message, Span(self._source, start, end), hints)
        raise ParseError
