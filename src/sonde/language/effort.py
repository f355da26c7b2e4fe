"""How much a script may have the parser do: what is written in few lines can double in each of them.

One count for the whole script, whatever files and macros it comes from.
"""

from __future__ import annotations

from ..source import Span
from .diagnostics import Diagnostics

MOST_FILES = 4_000        # files read, each as often as it is included
MOST_BYTES = 32 << 20     # characters of them
MOST_READ = 1_200_000     # tokens of what is read, of the script itself too
MOST_TOKENS = 1_000_000   # that C macros are replaced by, on the way to their last form too
LONG = 16                 # characters of a token that count as one more


class Effort:
    """What one script has cost so far. Each method raises :class:`~sonde.errors.CompileError` when it is too much."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._tokens = self._files = self._bytes = self._read = 0

    def count_tokens(self, texts: list[str], span: Span) -> None:
        """Count the tokens that replaced a macro at ``span``."""
        self._tokens += len(texts) + sum(map(len, texts)) // LONG
        if self._tokens > MOST_TOKENS:
            self._refuse(f"C macros are replaced by more than {MOST_TOKENS} tokens", span,
                         "each macro that uses another one twice doubles it")

    def count_read(self, tokens: int, span: Span) -> None:
        """Count the tokens of a definition, a probe or the like that starts at ``span``."""
        self._read += tokens
        if self._read > MOST_READ:
            self._refuse(f"it and what it includes have more than {MOST_READ} words and signs", span,
                         "do files include one another?")

    def count_file(self, size: int, span: Span) -> None:
        """Count the characters of a file that is included or imported at ``span``."""
        self._files += 1
        self._bytes += size
        if self._files > MOST_FILES:
            self._refuse(f"more than {MOST_FILES} files are included", span, "do they include one another?")
        if self._bytes > MOST_BYTES:
            self._refuse(f"more than {MOST_BYTES} characters are included", span, "do files include one another?")

    def _refuse(self, what: str, span: Span, hint: str) -> None:
        self._diagnostics.error("program-too-large", f"The program is too large: {what}", span, [hint])
        self._diagnostics.raise_if_errors()
