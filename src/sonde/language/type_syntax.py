"""Types as they are written: ``uint64``, ``struct sock *``, ``unsigned long long``, ``string[64]``, ``typeof(x)``."""

from __future__ import annotations

from ..base import regex_cache
from .ast import Expr, TypeSyntax
from .cursor import Cursor
from .lexer import MAX_INT, parse_integer

TAGS = frozenset(("struct", "union", "enum"))
_QUALIFIERS = frozenset(("const", "__const", "__const__", "volatile", "__volatile", "__volatile__", "restrict",
                         "__restrict", "__restrict__", "__user", "__kernel", "__rcu", "__iomem", "__percpu", "register",
                         "static", "extern", "__extension__"))
_TYPEOF = ("typeof", "__typeof__", "__typeof")
_C_WORDS = frozenset(("unsigned", "signed", "__signed__", "long", "short", "int", "char", "double", "float",
                      "__int128"))

# Names that are types everywhere; so are names that end in _t, and the typedefs of the script.
_NAMES = frozenset((
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string", "buffer", "inet",
    "void", "_Bool", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "__u8", "__u16", "__u32", "__u64", "__s8",
    "__s16", "__s32", "__s64", "__be16", "__be32", "__be64", "__le16", "__le32", "__le64", "__sum16", "__wsum",
    "uint", "ushort", "ulong", "u_int", "u_short", "__float128", "_Float128",
))

_SIZES = {"char": 1, "signed char": 1, "short": 2, "int": 4, "long": 8, "long long": 8, "float": 4, "double": 8,
          "bool": 1, "_Bool": 1, "size_t": 8, "ssize_t": 8, "uintptr_t": 8, "intptr_t": 8, "long double": 16,
          "__int128": 16, "__int128_t": 16, "__uint128_t": 16, "__float128": 16, "_Float128": 16}
_SIZED = r"(?:__)?(?:u?int|[us]|[bl]e)(8|16|32|64)(?:_t)?"

_OPERAND_STARTS = frozenset(("word", "int", "float", "str", "char", "var", "map", "param", "(", "-", "!", "~", "*", "&",
                             "++", "--", "{"))
# After "(name)" only these cannot continue an expression with name as a value.
_VALUE_STARTS = frozenset(("word", "int", "float", "str", "char", "var", "map", "param", "("))


def normalise_base_type(words: list[str]) -> str:
    """The canonical name for C's words for a base type: "long unsigned int" → "unsigned long"; "" if there is none.

    The names are: char, signed char, short, int, long, long long, __int128, each also "unsigned ...", float, double,
    long double.
    """
    counts = {word: words.count(word) for word in words}
    longs, unsigned = counts.pop("long", 0), counts.pop("unsigned", 0)
    signed = counts.pop("signed", 0) + counts.pop("__signed__", 0)
    if longs > 2 or unsigned + signed > 1 or max(counts.values(), default=1) > 1:
        return ""
    if "double" in counts and longs == len(words) - 1 < 2:
        return "long double" if longs else "double"
    if longs or "short" in counts or not counts:
        counts.setdefault("int", 1)
    base = " ".join(sorted(counts))
    if base == "int":
        name = ("int", "long", "long long")[longs]
    elif base == "int short" and not longs:
        name = "short"
    elif base == "char" and not longs:
        name = "signed char" if signed else "char"
    elif base == "__int128":
        name = base
    else:
        return base if base == "float" and not (unsigned or signed) else ""
    return f"unsigned {name}" if unsigned else name


def size_of_base(name: str) -> int | None:
    """Bytes of a base type by its name; None for any other type."""
    sized = regex_cache.fullmatch(_SIZED, name)
    return int(sized[1]) // 8 if sized is not None else _SIZES.get(name.removeprefix("unsigned "))


class TypeParser(Cursor):
    """Parses types; ``typedefs`` are the type names that the script itself defines."""

    typedefs: set[str]

    def parse_expression(self, least: int = 0) -> Expr:
        """An expression; see :class:`.expressions.ExpressionParser`."""
        raise NotImplementedError

    def parse_type(self) -> TypeSyntax:
        """A type; an error if there is none."""
        written = self._try_parse_type()
        if written is None:
            self.fail_unexpected("type name")
        return written

    def parse_cast_type(self, names: bool = True) -> TypeSyntax | None:
        """``(type)`` if that, and not an expression in parentheses, starts at the current ``(``.

        With ``names``, a name that is not a known type counts as one if a value follows: ``(sector)$x``.
        """
        index, start = self.index, self.token[2]
        if self.peek()[0] != "word" or not self._typeof_ends_before(index + 1, _OPERAND_STARTS, ")"):
            return None
        self.advance()
        known = self.is_at_type()
        written = self._try_parse_type()
        if written is not None and self.kind == ")":
            after = self.peek()[0]
            plain = not known and not written.pointers
            follows = after in (_VALUE_STARTS if plain else _OPERAND_STARTS) and (names or after != "{")
            if follows and (known or names or not plain):
                self.advance()
                written.span = self.span_since(start)
                return written
        self.seek(index)
        return None

    def parse_argument_type(self) -> TypeSyntax | None:
        """A type as a whole argument, followed by ``,`` or ``)``; None if it is an expression."""
        index = self.index
        if self.kind == "word" and self._typeof_ends_before(index, frozenset((",", ")"))):
            known = self.is_at_type()
            written = self._try_parse_type()
            if written is not None and self.kind in (",", ")") and (known or written.pointers):
                return written
            self.seek(index)
        return None

    def is_at_type(self) -> bool:
        """Whether the current word can only start a type."""
        text = self.token[1]
        return self.kind == "word" and (
            text in _NAMES or text in _C_WORDS or text in _QUALIFIERS or text in self.typedefs
            or (text in TAGS and self.peek()[0] == "word")
            or (text in _TYPEOF and self.peek()[0] == "(")
            or (text.endswith("_t") and self.peek()[0] != "("))

    def skip_qualifiers(self) -> None:
        while self.kind == "word" and self.token[1] in _QUALIFIERS:
            self.advance()

    def parse_base_name(self) -> str:
        """The name of a base type, a struct with its tag, or a typedef, without pointers; "" if there is none."""
        self.skip_qualifiers()
        start, words = self.token[2], []
        while self.kind == "word" and (self.token[1] in _C_WORDS or self.token[1] in _QUALIFIERS):
            if self.token[1] in _C_WORDS:
                words.append(self.token[1])
            if len(words) > 8:  # more than any type has
                break
            self.advance()
        if words:
            name = normalise_base_type(words)
            if not name:
                self.fail("bad-type", f"there is no type '{' '.join(words)}'", self.span_since(start))
            return name
        if self.kind != "word":
            return ""
        name = self.advance()[1]
        if name in TAGS:
            return f"{name} {self.advance()[1]}" if self.kind == "word" else ""
        return "bool" if name == "_Bool" else name

    def _try_parse_type(self) -> TypeSyntax | None:
        """A type, or None with the position after what looked like one."""
        start, known = self.token[2], self.is_at_type()
        typeof = None
        if self.token[1] in _TYPEOF and self.peek()[0] == "(":
            typeof, base = self._parse_typeof(), ""
        else:
            base = self.parse_base_name()
            if not base:
                return None
        self.skip_qualifiers()
        pointers = 0
        while self.kind == "*":
            self.advance()
            self.skip_qualifiers()
            pointers += 1
        if not isinstance(typeof, TypeSyntax):
            written = TypeSyntax(self.span_since(start), base, pointers, [], typeof)
        else:
            inner = typeof.pointers + (0 if typeof.dims else pointers)
            written = TypeSyntax(self.span_since(start), typeof.base, inner, typeof.dims, typeof.typeof,
                                 typeof.outer + (pointers if typeof.dims else 0))
        while self.kind == "[":
            dim = self._parse_dim(known)
            if dim is None:
                return None
            written.dims = [*written.dims, dim]
            written.span = self.span_since(start)
        while self.kind == "*" and written.dims and self.peek()[0] in ("*", ")", ",", ";", "=", "}"):
            self.advance()
            written.outer += 1
            written.span = self.span_since(start)
        return None if self.kind == "*" and written.dims else written

    def _parse_typeof(self) -> Expr | TypeSyntax:
        self.enter_level()
        self.advance()
        self.advance()
        what = self.parse_argument_type() or self.parse_expression()
        self.expect(")")
        self.depth -= 1
        return what

    def _typeof_ends_before(self, index: int, ends: frozenset[str], closing: str = "") -> bool:
        """False if a ``typeof(...)`` starts at this token but is not a type there: looked up, never parsed twice.

        After it must come one of ``ends``, or first ``closing``.
        """
        tokens = self.tokens
        if tokens[index][1] not in _TYPEOF or tokens[index + 1][0] != "(":
            return True
        depth = 1
        index += 2
        while depth and index < len(tokens):
            depth += {"(": 1, ")": -1}.get(tokens[index][0], 0)
            index += 1
        while index < len(tokens) and tokens[index][0] in ("*", "[", "]", "int"):
            index += 1
        if closing:
            if index >= len(tokens) or tokens[index][0] != closing:
                return False
            index += 1
        return index < len(tokens) and tokens[index][0] in ends

    def find_constant(self, node: Expr) -> int | None:
        """The value of a constant expression; see the parser of C definitions."""
        return None

    def _parse_dim(self, known: bool) -> int | None:
        """``[8]``, ``[]`` (0: as many as the value has), or after a type that is ``known`` ``[LARGEST + 1]``; None if
        it is something else."""
        self.advance()
        if self.accept("]"):
            return 0
        if known and (self.kind != "int" or self.peek()[0] != "]"):
            return self._parse_constant_dim()
        value = parse_integer(self.token[1]) if self.kind == "int" else None
        if not value or value > MAX_INT >> 32 or self.peek()[0] != "]":
            return None
        self.advance()
        self.advance()
        return value

    def _parse_constant_dim(self) -> int | None:
        """A size that is an expression. What is none is not tried twice, however deep it is nested."""
        begun = (id(self.tokens), self.index)
        if begun in self._no_sizes:
            return None
        node = self.parse_expression()
        value = self.find_constant(node) if self.kind == "]" else None
        if value is None or not 0 < value <= MAX_INT >> 32:
            self._no_sizes.add(begun)
            return None
        self.advance()
        return value
