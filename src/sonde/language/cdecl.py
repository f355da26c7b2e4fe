"""C definitions: struct, union, enum and typedef, as far as they describe data layout.

The result is plain: qualifiers are dropped, base types have the names that ``type_syntax.normalise`` gives,
pointers to functions and to arrays are ``void *``, and a flexible array has 0 elements.
"""

from __future__ import annotations

from math import prod

from ..base.record import Record
from .ast import Cast, CEnum, CField, CStruct, CTypedef, Expr, Name, SizeOf, TypeSyntax
from .constants import NotConstantError, evaluate_constant
from .cursor import SYNTAX
from .expressions import ExpressionParser
from .type_syntax import TAGS, size_of_base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from ..types import Type

Definition: TypeAlias = "CStruct | CEnum | CTypedef"
FindType: TypeAlias = "Callable[[TypeSyntax, list[Definition]], Type | None]"

_ATTRIBUTES = ("__attribute__", "__packed", "__aligned", "_Alignas", "alignas")
_MOST_ALIGNED = 1 << 28
_MODES = {"QI": "signed char", "HI": "short", "SI": "int", "DI": "long", "TI": "__int128", "byte": "signed char",
          "word": "long", "pointer": "long"}

Inline = CStruct | CEnum | None


class Attributes(Record):
    """What attributes ask for: packing, an alignment of at least so many bytes (0 if none does), another integer."""

    packed: bool = False
    align: int = 0
    mode: str = ""  # the base type in place of the one that is written


class DeclarationParser(ExpressionParser):
    """Parses C definitions. ``constants`` are the enum constants so far, ``typedefs`` the names of types, ``defined``
    all definitions, those within others before them."""

    constants: dict[str, int]
    defined: list[Definition]
    packs: list[int]  # see the preprocessor
    _noted: Attributes  # those of the member that is being parsed

    def find_defined_type(self, written: TypeSyntax) -> Type | None:
        """The type that is so written, of those defined so far and the kernel's; see the file parser."""
        raise NotImplementedError

    def lookup_define(self, node: Expr) -> int | None:
        """The value of a ``#define``; see the script parser."""
        raise NotImplementedError

    def parse_struct(self) -> CStruct:
        """``struct name { ... }``."""
        self.enter_level()
        start = self.token[2]
        union = self.advance()[1] == "union"
        own = Attributes()
        name = self._parse_head(own)
        fields: list[CField] = []
        while self.kind != "}":
            fields += self._parse_members()
        self.advance()
        self.parse_attributes(own)
        self.depth -= 1
        node = CStruct(self.span_since(start), name, union, fields, own.packed, own.align, self.packs[-1])
        self.defined.append(node)
        return node

    def _parse_head(self, own: Attributes) -> str:
        """The name of a definition, and its ``{``; attributes may come before the name and after it."""
        self.parse_attributes(own)
        named = self.token
        name = self.advance()[1] if self.kind == "word" else ""
        self.parse_attributes(own)
        if self.kind != "{":
            self.fail(SYNTAX, "syntax: expected '{'", self.token_span(named), [f"found '{self.token[1]}'"])
        self.advance()
        return name

    def has_body(self) -> bool:
        """Whether the struct, union or enum here is defined here: only attributes and a name come before the brace."""
        index, depth, before = self.index + 1, 0, ""
        while True:
            kind, text, _, _ = self.tokens[index]
            if kind == "eof" or not depth and (kind not in ("word", "(") or kind == "(" and before not in _ATTRIBUTES):
                return kind == "{"
            depth += {"(": 1, ")": -1}.get(kind, 0)
            index, before = index + 1, text

    def parse_enum(self) -> CEnum:
        """``enum name { A = 1, B }``."""
        start = self.advance()[2]
        own = Attributes()
        name = self._parse_head(own)
        members: dict[str, int] = {}
        value = -1
        while self.kind != "}":
            named = self.expect("word", "the name of a constant")
            member = named[1]
            if member in members:
                self.fail("redefinition", f"redefinition of '{member}'", self.token_span(named))
            value = self._parse_constant() if self.accept("=") else value + 1
            if value >> 64 > 0:
                self.fail("number-too-large", f"{member} does not fit 64 bits", self.span_since(start))
            members[member] = self.constants[member] = value
            if not self.accept(",") and self.kind != "}":
                self.fail_unexpected("',' or '}'")
        self.advance()
        self.parse_attributes(own)
        node = CEnum(self.span_since(start), name, members, own.packed, own.align)
        self.defined.append(node)
        return node

    def parse_typedef(self) -> list[CStruct | CEnum | CTypedef]:
        """``typedef type name, *other;``: the type defined along with it, if any, and the names."""
        start = self.advance()[2]
        base, inline = self._parse_specifier()
        typedefs: list[CStruct | CEnum | CTypedef] = []
        common = self._noted
        while True:
            name, written, _ = self._parse_declarator(base, common)
            if not name:
                self.fail_unexpected("the name of the type")
            if inline is not None and not inline.name:
                inline.name = name
                written.base = base = f"{base} {name}"
            self.typedefs.add(name)
            typedefs.append(CTypedef(self.span_since(start), name, written, self._noted.align))
            self.defined.append(typedefs[-1])
            if not self.accept(","):
                break
        self._expect_semicolon()
        return typedefs if inline is None else [inline, *typedefs]

    def _parse_members(self) -> list[CField]:
        """One declaration within a struct: ``int a, *b[2], c : 3;``."""
        if self.accept(";"):
            return []
        start = self.token[2]
        base, inline = self._parse_specifier()
        common = self._noted
        fields = []
        while True:
            if inline is not None and self.kind == ";":
                span = self.span_since(start)
                fields.append(CField(span, "", TypeSyntax(span, base), None, inline))
                break
            name, written, bits = self._parse_declarator(base, common)
            if name or bits is not None:
                span = self.span_since(start)
                fields.append(CField(span, name, written, bits, inline, self._noted.align, self._noted.packed))
            if not self.accept(","):
                break
        self._expect_semicolon()
        return fields

    def _parse_specifier(self) -> tuple[str, Inline]:
        """The type before the declarators: its name, and its definition if there is one. The attributes of what it
        declares are noted."""
        self._noted = noted = Attributes()
        self.parse_attributes(noted)
        word = self.token[1]
        if self.kind == "word" and word in TAGS and self.has_body():
            inline: Inline = self.parse_enum() if word == "enum" else self.parse_struct()
            self._noted = noted  # again: its members had theirs
            return f"{word} {inline.name}".rstrip() if inline is not None else "", inline
        if self.kind != "word":
            self.fail_unexpected("type name")
        base = self.parse_base_name()
        if not base:
            self.fail_unexpected("type name")
        self.parse_attributes(noted)
        return base, None

    def _parse_declarator(self, base: str, common: Attributes) -> tuple[str, TypeSyntax, int | None]:
        """``*name[2] : bits``: the name, its whole type, and the width of a bit-field. Its attributes are noted beside
        those it has in ``common`` with others."""
        start = self.token[2]
        self._noted = Attributes(common.packed, common.align, common.mode)
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
            if self.kind == "(":  # a function
                self._skip_parens()
                base, pointers = "void", 0
        bits = self._parse_constant(limit=64) if self.accept(":") else None
        self.parse_attributes(self._noted)
        if opaque:
            return name, TypeSyntax(self.span_since(start), "void", 1, dims), bits
        if self._noted.mode:
            base = f"unsigned {self._noted.mode.removeprefix('signed ')}" if base[0] == "u" else self._noted.mode
        return name, TypeSyntax(self.span_since(start), base, pointers, dims), bits

    def _parse_pointers(self) -> int:
        count = 0
        while self.accept("*"):
            self.skip_qualifiers()
            count += 1
        return count

    def _parse_name_and_dims(self) -> tuple[str, list[int]]:
        self.parse_attributes(self._noted)
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
        value = self._evaluate(node)
        if limit is not None and not 0 <= value <= limit:
            self.fail("bad-size", f"{value} is no size here", node.span)
        return value

    def _evaluate(self, node: Expr) -> int:
        """The value of a constant expression; an error if it has none."""
        try:
            return evaluate_constant(node, self.lookup_constant)
        except NotConstantError as error:
            self.fail("not-constant", f"'{error.node.span.text}' has no value here", error.node.span,
                      ["write the number"])

    def find_constant(self, node: Expr) -> int | None:
        try:
            return evaluate_constant(node, self.lookup_constant)
        except NotConstantError:
            return None

    def lookup_constant(self, node: Expr) -> int | None:
        """The value of an enum constant, a ``#define``, a cast, or of what the types decide."""
        if isinstance(node, Name):
            return self.constants[node.name] if node.name in self.constants else self.lookup_define(node)
        if isinstance(node, SizeOf) and isinstance(node.what, TypeSyntax):
            each = 8 if node.what.pointers else size_of_base(node.what.base)
            size = 8 if node.what.outer else each and each * prod(node.what.dims)
            if size is not None:
                return size
        from .sizes import convert_constant, measure_constant
        if isinstance(node, Cast):
            return convert_constant(evaluate_constant(node.operand, self.lookup_constant), node,
                                    self.find_defined_type)
        return measure_constant(node, self.find_defined_type)

    def parse_attributes(self, into: Attributes | CStruct | CEnum) -> None:
        """Attributes, and qualifiers, which mean nothing, up to anything else."""
        self.skip_qualifiers()
        while self.kind == "word" and self.token[1] in _ATTRIBUTES:
            if not self.is_at_word("__attribute__"):
                self._parse_attribute(into)
            else:
                self.advance()
                self.expect("(")
                self.expect("(")
                while not self.accept(")"):
                    if not self.accept(","):
                        self._parse_attribute(into)
                self.expect(")")
            self.skip_qualifiers()

    def _parse_attribute(self, into: Attributes | CStruct | CEnum) -> None:
        """``packed``, ``aligned``, ``aligned(8)``, or another, which does not change a layout."""
        start, name = self.token[2], self.expect("word", "an attribute")[1].strip("_")
        into.packed |= name == "packed"
        if name == "mode" and self.kind == "(":
            self._parse_mode(into)
            return
        if name in ("aligned", "Alignas", "alignas"):
            align = self._parse_alignment()
            if align < 1 or align & align - 1 or align > _MOST_ALIGNED:
                span = self.span_since(start)
                self.diagnostics.warning("ignored-attribute", f"the attribute {span.text} is ignored", span,
                                         ["the alignment is a power of two"])
            else:
                into.align = max(into.align, align)
        elif self.kind == "(":
            self._skip_parens()

    def _parse_mode(self, into: Attributes | CStruct | CEnum) -> None:
        """``mode(DI)``: the integer that is declared has so many bytes."""
        self.advance()
        word = self.expect("word", "a mode")[1].strip("_")
        if isinstance(into, Attributes):
            into.mode = _MODES.get(word, "")
        self.expect(")", "')'")

    def _parse_alignment(self) -> int:
        """``(8)``, ``(long)``; without it, the largest that any type of C has here."""
        if not self.accept("("):
            return self.lookup_define(Name(self.token_span(self.token), name="__BIGGEST_ALIGNMENT__")) or 16
        start = self.token[2]
        written = self.parse_argument_type()
        value = self._parse_constant() if written is None else self._evaluate(
            SizeOf(self.span_since(start), what=written))
        self.expect(")", "')'")
        return value

    def _skip_parens(self) -> None:
        """Past the ``)`` that belongs to the current ``(``."""
        depth = 0
        while True:
            if self.kind in ("eof", "{", "}", ";", "bad"):
                self.fail_unexpected("')'")
            depth += {"(": 1, ")": -1}.get(self.advance()[0], 0)
            if depth == 0:
                return
