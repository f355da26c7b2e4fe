"""Rust's symbol names as in source code: those of the v0 scheme (RFC 2603, "Symbol Mangling"), and those of the older
one, which have C++'s form, escapes for what that cannot say, and a hash.

As in ``{:#}`` of Rust's own demangler, hashes are left out: what tells crates of one name apart is of no use to people.
A name refers to its own parts, so that a short one may stand for one of any length: steps, depth and text are bounded.
"""

from __future__ import annotations

import re

from ...base.record import Record
from .name_bounds import MOST_DEPTH, MOST_SHOWN, MOST_STEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_PUNYCODE = 256  # bytes of an identifier that is not ASCII: decoding takes time by their square
MOST_LIFETIMES = 64  # that one binder binds

_BASIC = {"a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize",
          "j": "usize", "l": "i32", "m": "u32", "n": "i128", "o": "u128", "p": "_", "s": "i16", "t": "u16", "u": "()",
          "v": "...", "x": "i64", "y": "u64", "z": "!"}
_SIGNED, _UNSIGNED = "ailnsx", "hjmoty"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

_SIZE = re.compile(r"[1-9][0-9]{0,4}")
_HASH = re.compile(r"h[0-9a-f]{16}")
_ESCAPE = re.compile(r"\$(?:(SP|BP|RF|LT|GT|LP|RP|C)|u([0-9a-f]{1,6}))\$|\.\.|\.")
_ESCAPES = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


class NotRustError(Exception):
    """The name is not one of the scheme's, or goes beyond the bounds."""


def demangle_rust(name: str) -> str | None:
    """``_RNvCs1234_7mycrate3foo`` → ``mycrate::foo``; None if it is no such name, of either scheme."""
    if name.startswith("_R"):
        return _demangle_v0(name)
    return _demangle_legacy(name) if name.startswith("_ZN") and "17h" in name else None


def _demangle_v0(name: str) -> str | None:
    plain, dot, suffix = name.partition(".")
    if not plain.isascii() or not plain[2:3].isupper():
        return None
    parser = _Parser(plain[2:])
    try:
        parser.print_path(True)
        if parser.at < len(parser.text):  # where it was instantiated
            parser.skip_path()
    except (NotRustError, IndexError, UnicodeError):
        return None
    return "".join(parser.out) + _shown_suffix(dot + suffix) if parser.at == len(parser.text) else None


def _shown_suffix(suffix: str) -> str:
    """``.cold``: a part that the compiler split off keeps its suffix; that which only tells copies apart goes."""
    return f" [clone {suffix}]" if suffix and not suffix.startswith(".llvm.") else ""


def _demangle_legacy(name: str) -> str | None:
    """``_ZN4core3fmt5write17h0123456789abcdefE`` → ``core::fmt::write``."""
    parts: list[str] = []
    at = 3
    while (size := _SIZE.match(name, at)) is not None:
        at = size.end() + int(size[0])
        parts.append(name[size.end():at])
    if len(parts) < 2 or name[at:at + 1] != "E" or not _HASH.fullmatch(parts.pop()) or \
            name[at + 1:at + 2] not in ("", "."):
        return None
    shown = [_ESCAPE.sub(_replace_escape, part.removeprefix("_") if part.startswith("_$") else part) for part in parts]
    return "::".join(shown) + _shown_suffix(name[at + 1:])


def _replace_escape(match: re.Match[str]) -> str:
    if match[0] in ("..", "."):
        return "::" if match[0] == ".." else "."
    if match[1]:
        return _ESCAPES[match[1]]
    code = int(match[2], 16)
    return chr(code) if 32 <= code < 0xD800 or 0xE000 <= code < 0x110000 else match[0]


class _Identifier(Record):
    text: str
    number: int  # of several of the same name


class _Parser:
    """Reads the name from left to right, and prints while it reads."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.out: list[str] = []
        self._shown, self._steps, self._depth, self._lifetimes = 0, 0, 0, 0
        self._silent = False

    # reading

    def _next(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def _take(self, character: str) -> bool:
        taken = self.text[self.at:self.at + 1] == character
        self.at += taken
        return taken

    def _read_base62(self) -> int:
        """``_`` is 0, ``0_`` is 1."""
        if self._take("_"):
            return 0
        value = 0
        while not self._take("_"):
            value = value * 62 + _DIGITS.index(digit) if (digit := self._next()) in _DIGITS else self._give_up()
            if value >= 1 << 64:
                self._give_up()
        return value + 1

    def _read_optional(self, tag: str) -> int:
        return self._read_base62() + 1 if self._take(tag) else 0

    def _read_decimal(self) -> int:
        begin = self.at
        if self._take("0"):
            return 0
        while self.text[self.at:self.at + 1].isdigit() and self.at - begin < 6:
            self.at += 1
        if begin == self.at:
            self._give_up()
        return int(self.text[begin:self.at])

    def _read_identifier(self) -> _Identifier:
        number = self._read_optional("s")
        return _Identifier(self._read_bytes(), number)

    def _read_bytes(self) -> str:
        coded = self._take("u")
        size = self._read_decimal()
        self._take("_")
        text = self.text[self.at:self.at + size]
        if len(text) < size:
            self._give_up()
        self.at += size
        if not coded:
            return text
        if size > MOST_PUNYCODE:
            self._give_up()
        head, between, tail = text.rpartition("_")
        decoded = (head + "-" * bool(between) + tail).encode("ascii").decode("punycode")
        return "".join([c if c.isprintable() else "\ufffd" for c in decoded])

    def _give_up(self) -> int:
        raise NotRustError

    # printing

    def _print(self, text: str) -> None:
        if not self._silent:
            self._shown += len(text)
            if self._shown > MOST_SHOWN:
                self._give_up()
            self.out.append(text)

    def _enter(self) -> None:
        self._steps += 1
        self._depth += 1
        if self._steps > MOST_STEPS or self._depth > MOST_DEPTH:
            self._give_up()

    def _print_separated(self, print_one: Callable[[], None], separator: str = ", ") -> int:
        """All items until the E that ends them; how many there were."""
        count = 0
        while not self._take("E"):
            if count:
                self._print(separator)
            print_one()
            count += 1
        return count

    def _follow(self, print_it: Callable[[], None]) -> None:
        """Print what stands at an earlier position."""
        begin, target = self.at - 1, self._read_base62()
        if target >= begin:
            self._give_up()
        if not self._silent:  # it was read before
            here, self.at = self.at, target
            print_it()
            self.at = here

    # paths

    def skip_path(self) -> None:
        """Read a path that is not shown."""
        silent, self._silent = self._silent, True
        self.print_path(False)
        self._silent = silent

    def print_path(self, value: bool) -> None:
        """A path; ``value``: of a function or variable, not of a type."""
        self._enter()
        tag = self._next()
        if tag == "C":
            self._print(self._read_identifier().text)
        elif tag == "N":
            self._print_nested(value)
        elif tag in "MXY":
            self._print_implementation(tag)
        elif tag == "I":
            self.print_path(value)
            self._print("::<" if value else "<")
            self._print_separated(self._print_generic)
            self._print(">")
        elif tag == "B":
            self._follow(lambda: self.print_path(value))
        else:
            self._give_up()
        self._depth -= 1

    def _print_nested(self, value: bool) -> None:
        space = self._next()
        if not space.isalpha():
            self._give_up()
        self.print_path(value)
        name = self._read_identifier()
        if space.isupper():
            kind = {"C": "closure", "S": "shim"}.get(space, space)
            self._print(f"::{{{kind}{':' if name.text else ''}{name.text}#{name.number}}}")
        elif name.text:
            self._print(f"::{name.text}")

    def _print_implementation(self, tag: str) -> None:
        """``<T>`` or ``<T as Trait>``; where an implementation stands is not shown."""
        if tag != "Y":
            self._read_optional("s")
            self.skip_path()
        self._print("<")
        self._print_type()
        if tag != "M":
            self._print(" as ")
            self.print_path(False)
        self._print(">")

    def _print_generic(self) -> None:
        if self._take("L"):
            self._print_lifetime(self._read_base62())
        elif self._take("K"):
            self._print_constant()
        else:
            self._print_type()

    # types

    def _print_type(self) -> None:
        tag = self._next()
        if tag in _BASIC:
            self._print(_BASIC[tag])
            return
        self._enter()
        if tag in "RQ":
            self._print("&")
            if self._take("L") and (lifetime := self._read_base62()):
                self._print_lifetime(lifetime)
                self._print(" ")
            self._print("mut " if tag == "Q" else "")
            self._print_type()
        elif tag in "PO":
            self._print("*const " if tag == "P" else "*mut ")
            self._print_type()
        elif tag in "AS":
            self._print_array(tag)
        elif tag == "T":
            self._print("(")
            self._print(",)" if self._print_separated(self._print_type) == 1 else ")")
        elif tag == "F":
            self._bind(self._print_function)
        elif tag == "D":
            self._print_object()
        elif tag == "B":
            self._follow(self._print_type)
        else:
            self.at -= 1
            self.print_path(False)
        self._depth -= 1

    def _print_array(self, tag: str) -> None:
        self._print("[")
        self._print_type()
        if tag == "A":
            self._print("; ")
            self._print_constant()
        self._print("]")

    def _print_function(self) -> None:
        if self._take("U"):
            self._print("unsafe ")
        if self._take("K"):
            abi = "C" if self._take("C") else self._read_bytes().replace("_", "-")
            self._print(f'extern "{abi}" ')
        self._print("fn(")
        self._print_separated(self._print_type)
        self._print(")")
        if not self._take("u"):  # else it returns nothing
            self._print(" -> ")
            self._print_type()

    def _print_object(self) -> None:
        self._print("dyn ")
        self._bind(lambda: self._print_separated(self._print_bound, " + "))
        if not self._take("L"):
            self._give_up()
        if lifetime := self._read_base62():
            self._print(" + ")
            self._print_lifetime(lifetime)

    def _print_bound(self) -> None:
        """A trait, with its associated types between those brackets that its arguments have."""
        before = len(self.out)
        self.print_path(False)
        opened = len(self.out) > before and self.out[-1] == ">"
        if opened and self.text[self.at:self.at + 1] == "p":
            self.out.pop()
        first = True
        while self._take("p"):
            self._print(", " if opened or not first else "<")
            first = False
            self._print(f"{self._read_bytes()} = ")
            self._print_type()
        if not first:
            self._print(">")

    # lifetimes

    def _bind(self, print_it: Callable[[], object]) -> None:
        """``for<'a, 'b>`` and what it is for."""
        count = self._read_optional("G")
        if count > MOST_LIFETIMES:
            self._give_up()
        outside = self._lifetimes
        if count:
            self._print("for<")
            for index in range(count):
                self._lifetimes += 1
                self._print(", " if index else "")
                self._print_lifetime(1)
            self._print("> ")
        print_it()
        self._lifetimes = outside

    def _print_lifetime(self, index: int) -> None:
        """By how many binders it is away; 0 has no name."""
        if index == 0:
            self._print("'_")
            return
        depth = self._lifetimes - index
        if depth < 0:
            self._give_up()
        self._print(f"'{chr(ord('a') + depth)}" if depth < 26 else f"'_{depth}")

    # constants

    def _print_constant(self) -> None:
        self._enter()
        tag = self._next()
        if tag == "B":
            self._follow(self._print_constant)
        elif tag == "p":
            self._print("_")
        elif tag in _SIGNED or tag in _UNSIGNED:
            sign = "-" if tag in _SIGNED and self._take("n") else ""
            value = self._read_hex()
            self._print(f"{sign}{value}" if value < 1 << 64 else f"{sign}{value:#x}")
        elif tag in "bc":
            self._print_letter(tag, self._read_hex())
        else:
            self._give_up()  # strings and structs, which Rust itself calls unstable
        self._depth -= 1

    def _print_letter(self, tag: str, value: int) -> None:
        if tag == "b" and value < 2:
            self._print("true" if value else "false")
        elif tag == "c" and (32 <= value < 0xD800 or 0xE000 <= value < 0x110000):
            self._print(repr(chr(value)))
        else:
            self._give_up()

    def _read_hex(self) -> int:
        begin = self.at
        while not self._take("_"):
            if self._next() not in "0123456789abcdef" or self.at - begin > 32:
                self._give_up()
        return int(self.text[begin:self.at - 1] or "0", 16)
