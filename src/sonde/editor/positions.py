"""Between offsets of characters and the lines and columns of the Language Server Protocol.

Lines end in ``\\n``, ``\\r\\n`` or ``\\r``. Columns count code units of UTF-16 unless client and server agree on
another encoding (``positionEncoding``, LSP 3.17).
"""

from __future__ import annotations

from ..base import regex_cache


class Lines:
    """The lines of a text. ``encoding`` is "utf-16", "utf-8" or "utf-32"."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self._text = text
        self._encoding = encoding
        self._plain = text.isascii() or encoding == "utf-32"
        self.starts = [0, *[match.end() for match in regex_cache.finditer(r"\r\n|\n|\r", text)]]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 0, of an offset, which may be past the end."""
        offset = max(0, min(offset, len(self._text)))
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.starts[middle] <= offset else (low, middle)
        start = self.starts[low]
        return low, offset - start if self._plain else self._units(self._text[start:offset])

    def offset(self, line: int, column: int) -> int:
        """The offset of a position; one that is past the end of its line is taken for the end."""
        if line < 0 or line >= len(self.starts):
            return len(self._text) if line > 0 else 0
        start = self.starts[line]
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self._text)
        text = self._text[start:end].rstrip("\r\n")
        if self._plain:
            return start + max(0, min(column, len(text)))
        units = 0
        for at, char in enumerate(text):
            if units >= column:
                return start + at
            units += self._units(char)
        return start + len(text)

    def _units(self, text: str) -> int:
        if self._encoding == "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        return len(text) + sum([char > "\uffff" for char in text])
