"""The user's headers: their types and macros; whatever else a header declares is skipped."""

from __future__ import annotations

from copy import copy

from ..base import regex_cache
from ..source import Source, Span
from .ast import CEnum, CStruct, CTypedef
from .cursor import ParseError
from .file_parser import FileParser
from .type_syntax import TAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ONCE = r"(?m)^[ \t]*#[ \t]*pragma[ \t]+once\b"
MISSING = ("header-not-found", "include-depth")  # libclang could do no better with these
_LINKAGE = r'extern\s*"C(?:\+\+)?"\s*\{'  # a header for C and C++


class HeaderParser(FileParser):
    """Adds what a header defines to the script of the parser that includes it."""

    @property
    def is_read_once(self) -> bool:
        """Whether the header asks to be read only once."""
        return regex_cache.search(_ONCE, self.source.text) is not None

    def parse_whole_header(self) -> None:
        """Parse the header; with libclang if this reader does not understand all of it and the extra is installed. If
        clang does not understand it either, this reader's result stays."""
        from ..base.installation import install_command
        from . import libclang
        state, known = self._save_state(), len(self.diagnostics.items)
        self.parse_header()
        beyond = [item for item in self.diagnostics.items[known:] if item.code not in MISSING]
        if not beyond:
            return
        span = beyond[0].span
        self.note_unread(f"not all of {self.source.name} was understood" + (
            "" if span is None else f": see line {span.line} of {span.source.name}"))
        if not libclang.has_libclang():
            for item in beyond:
                item.hints.append(f"{install_command('headers')}: libclang reads what this reader does not")
            return
        before, defines = state[0], state[1]
        text, complaints = libclang.translate_header(self.source.name, self.files, defines,
                                               frozenset([_definition_tag(item) for item in before]))
        if complaints:
            for complaint in complaints:
                self.diagnostics.warning("bad-header", f"libclang: {complaint}", Span(self.source, 0, 0))
            return
        self.diagnostics.keep_only(self.diagnostics.items[:known])
        self._restore_state(state)
        HeaderParser(Source(self.source.name, text), self.diagnostics, (), self.files, self._load_file,
                     self).parse_header()

    def _save_state(self) -> list[Any]:
        """The current state of everything that reading a header adds to."""
        return [copy(table) for table in self._shared_tables()]

    def _restore_state(self, state: list[Any]) -> None:
        for table, before in zip(self._shared_tables(), state):
            if isinstance(table, list):
                table[:] = before
            else:
                table.clear()
                table.update(before)

    def _shared_tables(self) -> list[Any]:
        made = self._preprocessor
        return [self._script.definitions, made.defines, made.macros, self.typedefs, self.constants, self.defined,
                self._script.unread]

    def parse_header(self) -> None:
        """Every definition; a declaration that is not understood gives a warning."""
        text, end = self.source.text, len(self.source.text)
        pos = self._lexer.skip_directives(0)
        while pos < end and not self.should_stop():
            linkage = regex_cache.compile(_LINKAGE).match(text, pos)
            if linkage is not None or text.startswith(("}", ";"), pos):
                pos = self._lexer.skip_directives(linkage.end() if linkage is not None else pos + 1)
                continue
            after = self._skip_empty_macro(pos)
            if after > pos:
                pos = self._lexer.skip_directives(after)
                continue
            known = len(self.diagnostics.items)
            try:
                self._parse_declaration(pos)
            except ParseError:
                self.diagnostics.weaken_errors(known)
            pos = self._lexer.skip_directives(max(self.tokens[-1][2], pos + 1))
        self._preprocessor.check_conditionals_closed()

    def _parse_declaration(self, pos: int) -> None:
        """One declaration, from ``pos`` on."""
        word = self._first_word(pos)
        macro = self._preprocessor.macros.get(word)
        if macro is not None and macro.params is not None:
            self._parse_macro_use(pos)
        elif word == "typedef":
            self.load_tokens(self._lexer.tokenize_item(pos, closing=";"))
            self.skip_qualifiers()
            self._script.definitions += self.parse_typedef()
        elif word in ("struct", "union", "enum"):
            self.load_tokens(self._lexer.tokenize_item(pos, closing=";"))
            self.skip_qualifiers()
            if self.has_body():
                node = self.parse_enum() if word == "enum" else self.parse_struct()
                if node.name or word == "enum":
                    self._script.definitions.append(node)
            else:
                self.load_tokens(self._lexer.tokenize_item(pos))  # a function's text may follow
        else:
            self.load_tokens(self._lexer.tokenize_item(pos))

    def _parse_macro_use(self, pos: int) -> None:
        """``DEFINE_NUMBER_OF(thing)``: what it stands for may be whole, with no ``;`` after it."""
        end = self._lexer.skip_parentheses(pos)
        tokens = self._preprocessor.expand_tokens(self._lexer.tokenize_line(pos, end))
        if len(tokens) > 1 and tokens[-2][0] not in ("}", ";"):  # the text after it belongs to it
            self.load_tokens(self._lexer.tokenize_item(pos))
            return
        self.load_tokens(tokens)
        while self.kind != "eof":
            if self.is_at_word("typedef"):
                self._script.definitions += self.parse_typedef()
            elif self.kind == "word" and self.token[1] in TAGS and self.has_body():
                self._script.definitions.append(self.parse_enum() if self.is_at_word("enum") else self.parse_struct())
            else:
                self._skip_declaration()

    def _skip_declaration(self) -> None:
        """Past the next ``;`` or body."""
        depth = 0
        while self.kind != "eof":
            kind = self.advance()[0]
            depth += {"{": 1, "}": -1}.get(kind, 0)
            if depth <= 0 and kind in (";", "}"):
                return

    def _skip_empty_macro(self, pos: int) -> int:
        """The position after a macro that stands for nothing, like ``__BEGIN_DECLS``."""
        word = regex_cache.compile(r"\w+", regex_cache.ASCII).match(self.source.text, pos)
        macro = None if word is None else self._preprocessor.macros.get(word[0])
        return pos if word is None or macro is None or macro.params is not None or macro.body else word.end()

    def _first_word(self, pos: int) -> str:
        """The first word of a declaration, after any ``__extension__``; for a macro, the first word of its body."""
        match = regex_cache.compile(r"(?:__extension__\s+)?(\w*)", regex_cache.ASCII).match(self.source.text, pos)
        assert match is not None
        macro = self._preprocessor.macros.get(match[1])
        return macro.body[0][1] if macro is not None and macro.params is None and macro.body else match[1]


def _definition_tag(item: CStruct | CEnum | CTypedef) -> str:
    """``struct x``, ``union x``, ``enum x``, or a typedef's name."""
    if isinstance(item, CStruct):
        return f"{'union' if item.union else 'struct'} {item.name}"
    return f"enum {item.name}" if isinstance(item, CEnum) else item.name
