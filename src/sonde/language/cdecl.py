"""C definitions: struct, union, enum and typedef, as far as they describe data layout.

The result is plain: qualifiers are dropped, base types have the names that ``type_syntax.normalise`` gives,
pointers to functions and to arrays are ``void *``, and a flexible array has 0 elements.
"""

from __future__ import annotations

from math import prod

from .. import patterns
from ..source import Span
from .ast import CEnum, CField, CStruct, CTypedef, Expr, Name, SizeOf, TypeSyntax
from .constants import NotConstant, evaluate_constant
from .cursor import SYNTAX
from .expressions import ExpressionParser
from .lexer import Token, parse_integer
from .type_syntax import TAGS, size_of_base

# __attribute__((...)) after the closing brace
ATTRIBUTE = r"__attribute__\s*\(\(((?:[^(){};]|\([^(){};]*\))*)\)\)|(__packed)\b"

Inline = CStruct | CEnum | None


class DeclarationParser(ExpressionParser):
    """Parses C definitions. ``constants`` are the enum constants so far, ``typedefs`` the names of types."""

    constants: dict[str, int]
    _noted: list[str]  # the attributes of the member that is being parsed

    def lookup_define(self, node: Expr) -> int | None:
        """The value of a ``#define``; see the script parser."""
        raise NotImplementedError

    def parse_struct(self) -> CStruct:
        """``struct name { ... }``, whose attributes may also come before the name."""
        self.enter_level()
        start = self.token[2]
        union = self.advance()[1] == "union"
        attributes = self._parse_attributes()
        named = self.token
        name = self.advance()[1] if self.kind == "word" else ""
        attributes += self._parse_attributes()
        self._open_brace(named)
        fields: list[CField] = []
        while self.kind != "}":
            fields += self._parse_members()
        self.advance()
        attributes += self._parse_attributes()
        self.depth -= 1
        node = CStruct(self.span_since(start), name, union, fields)
        self.apply_attributes(node, attributes)
        return node

    def _open_brace(self, named: Token) -> None:
        """The ``{`` of a definition, after its name."""
        if self.kind != "{":
            self.fail(SYNTAX, "syntax: expected '{'", self.token_span(named), [f"found '{self.token[1]}'"])
        self.advance()

    def parse_enum(self) -> CEnum:
        """``enum name { A = 1, B }``."""
        start = self.advance()[2]
        named = self.token
        name = self.advance()[1] if self.kind == "word" else ""
        self._open_brace(named)
        members: dict[str, int] = {}
        value = -1
        while self.kind != "}":
            member = self.expect("word", "the name of a constant")[1]
            value = self._parse_constant() if self.accept("=") else value + 1
            if value >> 64 > 0:
                self.fail("number-too-large", f"{member} does not fit 64 bits", self.span_since(start))
            members[member] = self.constants[member] = value
            if not self.accept(",") and self.kind != "}":
                self.fail_unexpected("',' or '}'")
        self.advance()
        self._parse_attributes()
        return CEnum(self.span_since(start), name, members)

    def parse_typedef(self) -> list[CStruct | CEnum | CTypedef]:
        """``typedef type name, *other;``: the type defined along with it, if any, and the names."""
        start = self.advance()[2]
        self._noted = []
        base, inline = self._parse_specifier()
        found: list[CStruct | CEnum | CTypedef] = []
        while True:
            name, written, _ = self._parse_declarator(base, inline)
            if not name:
                self.fail_unexpected("the name of the type")
            if inline is not None and not inline.name:
                inline.name = name
                written.base = base = f"{base} {name}"
            self.typedefs.add(name)
            found.append(CTypedef(self.span_since(start), name, written))
            if not self.accept(","):
                break
        self._expect_semicolon()
        return found if inline is None else [inline, *found]

    def apply_attributes(self, node: CStruct, attributes: list[str]) -> None:
        """Note what ``__attribute__((...))`` says about a struct."""
        for attribute in attributes:
            node.packed |= attribute.strip("_") == "packed"
        node.align = max(node.align, self._requested_alignment(attributes, node.span))

    def _requested_alignment(self, attributes: list[str], span: Span) -> int:
        """The alignment that ``aligned(8)`` among the attributes asks for, in bytes; 0 if none does."""
        found = 0
        for attribute in attributes:
            name, _, argument = attribute.partition("(")
            if name.strip().strip("_") != "aligned":
                continue
            number = argument.rstrip(") ").strip()
            value = (parse_integer(number) or self.constants.get(number, 0)) if number else 16
            if value < 1 or value & value - 1 or value > 4096:
                self.diagnostics.warning("ignored-attribute", f"the attribute {attribute} is ignored", span,
                                         ["the alignment is a power of two"])
            else:
                found = max(found, value)
        return found

    def _parse_members(self) -> list[CField]:
        """One declaration within a struct: ``int a, *b[2], c : 3;``."""
        if self.accept(";"):
            return []
        start = self.token[2]
        self._noted = []
        base, inline = self._parse_specifier()
        common = [] if inline is not None else self._noted  # those of its own members are noted, too
        fields = []
        while True:
            if inline is not None and self.kind == ";":
                span = self.span_since(start)
                fields.append(CField(span, "", TypeSyntax(span, base), None, inline))
                break
            self._noted = list(common)
            name, written, bits = self._parse_declarator(base, inline)
            if name or bits is not None:
                span = self.span_since(start)
                fields.append(CField(span, name, written, bits, inline, self._requested_alignment(self._noted, span),
                                     any(word.strip("_") == "packed" for word in self._noted)))
            if not self.accept(","):
                break
        self._expect_semicolon()
        return fields

    def _parse_specifier(self) -> tuple[str, Inline]:
        """The type before the declarators: its name, and its definition if there is one."""
        self._note_attributes()
        self.skip_qualifiers()
        word = self.token[1]
        if self.kind == "word" and word in TAGS and "{" in (self.peek()[0], self.peek(2)[0]):
            inline: Inline = self.parse_enum() if word == "enum" else self.parse_struct()
            self.skip_qualifiers()
            return f"{word} {inline.name}".rstrip() if inline is not None else "", inline
        if self.kind != "word":
            self.fail_unexpected("type name")
        base = self.parse_base_name()
        if not base:
            self.fail_unexpected("type name")
        self._note_attributes()
        self.skip_qualifiers()
        return base, None

    def _parse_declarator(self, base: str, inline: Inline) -> tuple[str, TypeSyntax, int | None]:
        """``*name[2] : bits``: the name, its whole type, and the width of a bit-field."""
        start = self.token[2]
        pointers = self._parse_pointers()
        opaque = False
        name = ""
        if self.kind == "(":  # a pointer to a function or to an array
            self.advance()
            self._parse_pointers()
            name, dims = self._parse_name_and_dims()
            self.expect(")", "')'")
            opaque = True
            self._skip_parens() if self.kind == "(" else self._parse_dims()
        else:
            name, dims = self._parse_name_and_dims()
        bits = self._parse_constant(limit=64) if self.accept(":") else None
        self._note_attributes()
        if opaque:
            return name, TypeSyntax(self.span_since(start), "void", 1, dims), bits
        return name, TypeSyntax(self.span_since(start), base, pointers, dims), bits

    def _parse_pointers(self) -> int:
        count = 0
        while self.accept("*"):
            self.skip_qualifiers()
            count += 1
        return count

    def _parse_name_and_dims(self) -> tuple[str, list[int]]:
        self._note_attributes()
        name = self.advance()[1] if self.kind == "word" else ""
        if not name and self.kind != ":":
            self.fail_unexpected("the name of a field")
        return name, self._parse_dims()

    def _parse_dims(self) -> list[int]:
        dims = []
        while self.accept("["):
            dims.append(0 if self.kind == "]" else self._parse_constant(limit=1 << 32))
            self.expect("]", "']'")
        return dims

    def _expect_semicolon(self) -> None:
        """The ``;`` after a member; the last one may be missing."""
        if self.kind != "}":
            self.expect(";", "';'")

    def _parse_constant(self, limit: int | None = None) -> int:
        """A constant expression; with ``limit`` one that is neither negative nor larger."""
        node = self.parse_expression(0)
        try:
            value = evaluate_constant(node, self.lookup_constant)
        except NotConstant as error:
            self.fail("not-constant", f"'{error.node.span.text}' has no value here", error.node.span,
                      ["write the number"])
        if limit is not None and not 0 <= value <= limit:
            self.fail("bad-size", f"{value} is no size here", node.span)
        return value

    def lookup_constant(self, node: Expr) -> int | None:
        """The value of an enum constant, a ``#define`` or the ``sizeof`` of a base type or pointer."""
        if isinstance(node, Name) and node.name in self.constants:
            return self.constants[node.name]
        if isinstance(node, SizeOf) and isinstance(node.what, TypeSyntax):
            each = 8 if node.what.pointers else size_of_base(node.what.base)
            return 8 if node.what.outer else each and each * prod(node.what.dims)
        return self.lookup_define(node)

    def _parse_attributes(self) -> list[str]:
        """The attributes here, as text."""
        found = []
        while self.kind == "word" and self.token[1] in ("__attribute__", "__packed", "__aligned"):
            start, word = self.index, self.advance()[1]
            if self.kind == "(":
                self._skip_parens()
            text = "".join([token[1] for token in self.tokens[start:self.index]])  # a C macro may stand for it
            if word == "__attribute__":
                text = text[len(word):].strip(" ()\n\t").rstrip()
                text += ")" if "(" in text else ""
            found += split_attributes(text)
        return found

    def _note_attributes(self) -> None:
        self._noted = [*self._noted, *self._parse_attributes()]

    def _skip_parens(self) -> None:
        """Past the ``)`` that belongs to the current ``(``."""
        depth = 0
        while True:
            if self.kind in ("eof", "{", "}", ";", "bad"):
                self.fail_unexpected("')'")
            depth += {"(": 1, ")": -1}.get(self.advance()[0], 0)
            if depth == 0:
                return


def split_attributes(text: str) -> list[str]:
    """``packed, aligned(8)`` → each of them."""
    return [part.strip() for part in patterns.split(r",(?![^(]*\))", text) if part.strip()]
