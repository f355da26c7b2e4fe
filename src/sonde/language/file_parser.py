"""A parser of one file: what it shares with the files that include it, and its ``#`` lines."""

from __future__ import annotations

from ..source import Source, Span
from . import ast
from .ast import Expr, Script
from .cdecl import Attributes
from .constants import NotConstantError, evaluate_constant
from .cursor import ParseError
from .diagnostics import Diagnostics
from .includes import NO_FILES, Files, is_system_header, kernel_version_code
from .lexer import Lexer, parse_integer
from .preprocessor import Preprocessor
from .statements import StatementParser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..types import Type
    from .ast import TypeSyntax
    from .cdecl import FindType
    from .lexer import Token


class FileParser(StatementParser):
    """The layer below scripts and headers. ``load_file(parser, path, span)`` parses a file that this one includes;
    ``outer`` is the parser of the file that includes or imports this one: they share what they define.
    ``find_type(written, definitions)`` knows the types: those of the definitions, and the kernel's."""

    _preprocessor: Preprocessor
    _script: Script

    def __init__(self, source: Source, diagnostics: Diagnostics, params: Sequence[str], files: Files,
                 load_file: Callable[[FileParser, str, Span], None], outer: FileParser | None = None,
                 find_type: FindType | None = None) -> None:
        shared = outer._preprocessor if outer is not None else None
        self._preprocessor = Preprocessor(source, diagnostics, self._condition_holds,
                                          files.predefines, self._include_file, shared)
        self.effort = self._preprocessor.effort
        super().__init__(source, diagnostics)
        self._find_type: FindType | None = find_type if outer is None else outer._find_type
        self.params = params
        self.files = files
        self.within: int = 0 if outer is None else outer.within + 1
        self.loaded: set[str] = set() if outer is None else outer.loaded  # imports, and headers read only once
        self._load_file = load_file
        self.packs = self._preprocessor.packs
        self._lexer = Lexer(source.text, self._preprocessor)
        self._script = Script(Span(source, 0, len(source.text))) if outer is None else outer._script
        self._noted = Attributes()
        self.typedefs = set() if outer is None else outer.typedefs
        self.constants = {} if outer is None else outer.constants
        self.defined = [] if outer is None else outer.defined

    def load_tokens(self, tokens: list[Token]) -> None:
        self.effort.count_read(len(tokens), self.token_span(tokens[0]))
        super().load_tokens(tokens)

    def _include_file(self, name: str, quoted: bool, span: Span, following: bool = False) -> None:
        """#include: a user's header is read; the system's are not needed. ``following``: #include_next."""
        path = self.files.find_header(name, quoted, self.source, following)
        if path is not None:
            self._load_file(self, path, span)
        elif is_system_header(name):
            self.note_unread(f"<{name}> was not read, since the kernel's own types are known: -I DIR reads it")
        else:
            self.report_inclusion("header-not-found", f"'{name}' file not found", span,
                                  [NO_FILES if self.files.sealed else "-I DIR says where to look for headers"])

    def note_unread(self, hint: str) -> None:
        """Keep what to say of a header where something is missed that it may define."""
        if hint not in self._script.unread:
            self._script.unread.append(hint)

    def report_inclusion(self, code: str, message: str, span: Span, hints: Sequence[str] = ()) -> None:
        """Add an error about an #include or import. These may stand between items, so no item is abandoned."""
        if not self.should_stop():
            self.diagnostics.error(code, message, span, hints)

    def find_defined_type(self, written: TypeSyntax) -> Type | None:
        return None if self._find_type is None else self._find_type(written, self.defined)

    # --- preprocessor -------------------------------------------------------------------------------------

    def lookup_define(self, node: Expr) -> int | None:
        """The value of a ``#define`` that is a number, or of what a compiler defines."""
        if not isinstance(node, ast.Name):
            return None
        text = self._preprocessor.defines.get(node.name)
        return self.files.predefined_value(node.name) if text is None else parse_integer(text)

    def _condition_holds(self, start: int, end: int) -> bool:
        """The condition of an ``#if``, whose text is between two offsets."""
        outer = (self.tokens, self.index, self.depth, self.height)
        tokens = self._answer_defined(_without_prefixes(self._lexer.tokenize_line(start, end)))
        self.load_tokens(self._preprocessor.expand_tokens(tokens))
        try:
            node = self.parse_expression()
            if self.kind != "eof":
                self.fail_unexpected("an operator")
            return bool(evaluate_constant(node, self._lookup_condition_name))
        except ParseError:
            return False
        except NotConstantError as error:
            self.diagnostics.error(
                "bad-condition", f"'{error.node.span.text}' has no value in a condition", error.node.span,
                ["types come from this kernel (BTF), so that scripts need no #if for its version"])
            return False
        finally:
            self.tokens, index, self.depth, self.height = outer
            self.seek(index)

    def _answer_defined(self, tokens: list[Token]) -> list[Token]:
        """The tokens with 0 or 1 for ``defined X`` and ``defined(X)``, where macros are not expanded."""
        for index in range(len(tokens) - 2, -1, -1):
            if tokens[index][1] != "defined":
                continue
            enclosed = [token[0] for token in tokens[index + 1:index + 4]] == ["(", "word", ")"]
            name, last = (tokens[index + 2], tokens[index + 3]) if enclosed else (tokens[index + 1], tokens[index + 1])
            if name[0] == "word":
                answer = str(int(self._preprocessor.is_defined(name[1])))
                tokens[index:index + 2 + 2 * enclosed] = [("int", answer, tokens[index][2], last[3])]
        return tokens

    def _lookup_condition_name(self, node: Expr) -> int | None:
        """Names: as in C, those that are not defined are 0."""
        if isinstance(node, ast.Call) and node.name == "KERNEL_VERSION" and len(node.args) == 3:
            major, minor, patch = [evaluate_constant(a, self._lookup_condition_name) if isinstance(a, Expr) else 0
                                   for a in node.args]
            return kernel_version_code(major, minor, patch)
        if isinstance(node, ast.Name) and node.name == "LINUX_VERSION_CODE":
            return self.files.version_code
        if isinstance(node, ast.Name):
            if node.name in self._preprocessor.defines:
                return self.lookup_define(node)
            return self.files.predefined_value(node.name) or int(self._preprocessor.is_defined(node.name))
        return None


def _without_prefixes(tokens: list[Token]) -> list[Token]:
    """The tokens with ``'x'`` for ``L'x'``."""
    return [token for token, after in zip(tokens, [*tokens[1:], tokens[-1]])
            if not (token[1] in ("L", "u", "U", "u8") and after[0] == "char" and after[2] == token[3])]
