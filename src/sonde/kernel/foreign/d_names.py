"""D's symbol names as in source code (D's specification, "Application Binary Interface", Name Mangling).

A name refers to its own parts, so that a short one may stand for one of any length: steps, depth and text are bounded.
"""

from __future__ import annotations

import re

from .name_bounds import MOST_DEPTH, MOST_SHOWN, MOST_STEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_BASIC = {"v": "void", "g": "byte", "h": "ubyte", "s": "short", "t": "ushort", "i": "int", "k": "uint", "l": "long",
          "m": "ulong", "f": "float", "d": "double", "e": "real", "o": "ifloat", "p": "idouble", "j": "ireal",
          "q": "cfloat", "r": "cdouble", "c": "creal", "b": "bool", "a": "char", "u": "wchar", "w": "dchar",
          "n": "typeof(null)", "zi": "cent", "zk": "ucent", "Nn": "noreturn"}
_MODIFIERS = {"O": "shared", "x": "const", "y": "immutable", "Ng": "inout"}
_CONVENTIONS = {"F": "", "U": "extern(C) ", "W": "extern(Windows) ", "V": "extern(Pascal) ", "R": "extern(C++) ",
                "Y": "extern(Objective-C) "}
_ATTRIBUTES = {"Na": "pure", "Nb": "nothrow", "Nc": "ref", "Nd": "@property", "Ne": "@trusted", "Nf": "@safe",
               "Ni": "@nogc", "Nj": "return", "Nl": "scope", "Nm": "@live"}
_STORAGE = {"I": "in ", "J": "out ", "K": "ref ", "L": "lazy ", "M": "scope ", "Nk": "return "}
_VARIADIC = {"X": "...", "Y": ", ...", "Z": ""}
_MEMBERS = {"__ctor": "this", "__dtor": "~this", "__postblit": "this(this)"}
_INTERNAL = {"__init": "initializer for ", "__vtbl": "vtable for ", "__Class": "ClassInfo for ",
             "__Interface": "Interface for ", "__ModuleInfo": "ModuleInfo for "}
_SIZE = re.compile(r"[0-9]{1,6}")
_DIGITS = re.compile(r"[0-9]{1,40}")
_BACK = re.compile(r"Q([A-Z]*)([a-z])")
_HEX_FLOAT = re.compile(r"NAN|INF|NINF|N?[0-9A-F]+P?N?[0-9]*")


class NotDError(Exception):
    """The name is not one of the scheme's, or goes beyond the bounds."""


def demangle_d(name: str) -> str | None:
    """``_D3app4workFiZv`` → ``app.work(int)``; None if it is no such name."""
    if name == "_Dmain":
        return "D main"
    plain, dot, suffix = name.partition(".")
    if not plain.startswith("_D") or not plain.isascii():
        return None
    parser = _Parser(plain)
    try:
        shown = parser.read_mangled()
    except (NotDError, IndexError):
        return None
    if parser.at < len(plain):
        return None
    return shown + (f" [clone .{suffix}]" if dot else "")


class _Parser:
    """Reads the name from left to right, and returns texts."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 2
        self._steps = self._depth = self._made = 0

    def read_mangled(self) -> str:
        """What follows ``_D``: a qualified name, and its type or Z."""
        shown = self._qualified()
        if self._take("Z"):
            *outer, last = shown.split(".")
            return _INTERNAL[last] + ".".join(outer) if last in _INTERNAL and outer else shown
        self._type()
        return shown

    # reading

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise NotDError

    def _bounded(self, text: str) -> str:
        self._made += len(text)
        if self._made > MOST_SHOWN:
            raise NotDError
        return text

    def _take(self, text: str) -> bool:
        taken = self.text.startswith(text, self.at)
        self.at += len(text) if taken else 0
        return taken

    def _take_key(self, table: dict[str, str]) -> str | None:
        """A key of one or two characters."""
        for size in (2, 1):
            key = self.text[self.at:self.at + size]
            if len(key) == size and key in table:
                self.at += size
                return key
        return None

    def _number(self) -> int:
        match = _SIZE.match(self.text, self.at)
        if match is None:
            raise NotDError
        self.at = match.end()
        return int(match[0])

    def _back(self) -> int:
        """Where a back reference leads."""
        match = _BACK.match(self.text, self.at)
        if match is None or len(match[1]) > 5:
            raise NotDError
        distance = 0
        for digit in match[1]:
            distance = distance * 26 + ord(digit) - ord("A")
        target = self.at - (distance * 26 + ord(match[2]) - ord("a"))
        if not 2 <= target < self.at:
            raise NotDError
        self.at = match.end()
        return target

    def _is_name(self) -> bool:
        """Whether the next thing is a name: its length, a template, or a reference to a name."""
        here = self.text[self.at:self.at + 1]
        if here.isdigit() or self.text.startswith(("__T", "__U"), self.at):
            return True
        if here != "Q":
            return False
        at = self.at
        try:
            return self.text[self._back()].isdigit()
        except NotDError:
            return False
        finally:
            self.at = at

    # names

    def _qualified(self) -> str:
        parts = []
        while True:
            self._step()
            while self._take("0"):  # without a name
                self._step()
            part = self._identifier()
            before = self.at
            arguments = self._arguments_of_name()
            if arguments is None or self.at == len(self.text):  # no part of the name
                self.at, arguments = before, ""
            parts.append(part + arguments)
            if not self._is_name():
                return self._bounded(".".join(parts))

    def _arguments_of_name(self) -> str | None:
        modifiers = ""
        try:
            if self._take("M"):
                while (key := self._take_key(_MODIFIERS)) is not None:
                    modifiers += f" {_MODIFIERS[key]}"
            if self._take_key(_CONVENTIONS) is None:
                return None
            self._attributes()
            return f"({self._parameters()}){modifiers}"
        except (NotDError, IndexError):
            if self._steps > MOST_STEPS or self._made > MOST_SHOWN:
                raise
            return None

    def _identifier(self) -> str:
        if self.text.startswith("Q", self.at):
            target = self._back()
            after, self.at = self.at, target
            if not self.text[target].isdigit():
                raise NotDError
            name = self._deeper(self._identifier)
            self.at = after
            return name
        if self.text.startswith(("__T", "__U"), self.at):
            return self._deeper(self._template)
        size = self._number()
        end = self.at + size
        if not size or end > len(self.text):
            raise NotDError
        if self.text.startswith(("__T", "__U"), self.at):  # as compilers wrote templates until 2018
            name = self._deeper(self._template)
            if self.at != end:
                raise NotDError
            return name
        name, self.at = self.text[self.at:end], end
        return self._bounded(_MEMBERS.get(name, name))

    def _deeper(self, read: Callable[..., str], *arguments: str) -> str:
        self._step()
        self._depth += 1
        if self._depth > MOST_DEPTH:
            self._steps = MOST_STEPS + 1  # nothing goes on after it
            raise NotDError
        text = read(*arguments)
        self._depth -= 1
        return text

    def _template(self) -> str:
        self.at += 3
        name, arguments = self._identifier(), []
        while not self._take("Z"):
            self._step()
            self._take("H")
            arguments.append(self._template_argument())
        return self._bounded(f"{name}!({', '.join(arguments)})")

    def _template_argument(self) -> str:
        kind = self.text[self.at]
        self.at += 1
        if kind == "T":
            return self._type()
        if kind == "V":
            type = self._type()
            return self._value(type)
        if kind == "S":
            return self._symbol_argument()
        if kind == "X":
            size = self._number()
            end = self.at + size
            text, self.at = self.text[self.at:end], end
            if len(text) == size:
                return self._bounded(text)
        raise NotDError

    def _symbol_argument(self) -> str:
        if self._take("_D"):
            return self._deeper(self.read_mangled)
        if self.text.startswith("Q", self.at) or not (match := _SIZE.match(self.text, self.at)) or \
                not self.text.startswith("_D", match.end()):
            return self._deeper(self._qualified)
        self.at = match.end() + 2
        return self._deeper(self.read_mangled)

    # types

    def _type(self) -> str:
        return self._bounded(self._deeper(self._read_type))

    def _read_type(self) -> str:
        if (key := self._take_key(_MODIFIERS)) is not None:
            return f"{_MODIFIERS[key]}({self._type()})"
        if (key := self._take_key(_BASIC)) is not None:
            return _BASIC[key]
        if self.text.startswith("Q", self.at):
            return self._type_again()
        if self.text[self.at] in _CONVENTIONS:
            return self._function_type()
        kind = self.text[self.at]
        self.at += 1
        return self._compound(kind)

    def _compound(self, kind: str) -> str:
        if kind == "A":
            return f"{self._type()}[]"
        if kind == "P":
            return f"{self._function_type()} function" if self.text[self.at] in _CONVENTIONS else f"{self._type()}*"
        if kind == "G":
            size = self._number()
            return f"{self._type()}[{size}]"
        if kind == "H":
            key = self._type()
            return f"{self._type()}[{key}]"
        if kind in "CSETI":
            return self._qualified()
        if kind == "D":
            modifiers = ""
            while (key_ := self._take_key(_MODIFIERS)) is not None:
                modifiers += f" {_MODIFIERS[key_]}"
            type = self._type_again() if self.text.startswith("Q", self.at) else self._function_type()
            return f"{type} delegate{modifiers}"
        if kind == "B":
            if self.text[self.at].isdigit():  # as compilers wrote it until 2019
                return f"Tuple!({', '.join([self._type() for _ in range(self._count())])})"
            return f"Tuple!({self._parameters()})"
        if kind == "N" and self._take("h"):
            return f"__vector({self._type()})"
        raise NotDError

    def _type_again(self) -> str:
        target = self._back()
        after, self.at = self.at, target
        text = self._type()
        self.at = after
        return text

    def _function_type(self) -> str:
        convention = self._take_key(_CONVENTIONS)
        if convention is None:
            raise NotDError
        attributes = self._attributes()
        parameters = self._parameters()
        result = self._type()
        return f"{_CONVENTIONS[convention]}{result}({parameters}){attributes}"

    def _attributes(self) -> str:
        text = ""
        while (key := self._take_key(_ATTRIBUTES)) is not None:
            self._step()
            text += f" {_ATTRIBUTES[key]}"
        return text

    def _parameters(self) -> str:
        """Up to the character that ends them."""
        shown: list[str] = []
        while (end := self._take_key(_VARIADIC)) is None:
            self._step()
            storage = ""
            while (key := self._take_key(_STORAGE)) is not None:
                storage += _STORAGE[key]
                self._step()
            shown.append(storage + self._type())
        text = ", ".join(shown) + _VARIADIC[end]
        return self._bounded(text.removeprefix(", "))

    # values

    def _value(self, type: str = "") -> str:
        return self._bounded(self._deeper(self._read_value, type))

    def _read_value(self, type: str) -> str:
        kind = self.text[self.at]
        if kind.isdigit() or kind in "iN" and not self._is_float():
            self.at += 0 if kind.isdigit() else 1
            return self._integer(type, kind == "N")
        self.at += 1
        if kind == "n":
            return "null"
        if kind == "e":
            return self._float()
        if kind == "c":
            real = self._float()
            if self._take("c"):
                return f"{real}+{self._float()}i"
        if kind in "awd":
            return self._string(kind)
        if kind == "A":
            return self._array(type)
        if kind == "S":
            return f"{type}({', '.join([self._value() for _ in range(self._count())])})"
        if kind == "f" and self._take("_D"):
            return self.read_mangled()
        raise NotDError

    def _is_float(self) -> bool:
        return self.text.startswith(("NAN", "NINF"), self.at)

    def _count(self) -> int:
        count = self._number()
        if count > MOST_STEPS:
            raise NotDError
        return count

    def _integer(self, type: str, negative: bool) -> str:
        value = self._number_text()
        if type == "bool":
            return "true" if value != "0" else "false"
        if type in ("char", "wchar", "dchar") and not negative and 32 <= int(value) < 127:
            return f"'{chr(int(value))}'"
        suffix = {"ulong": "uL", "long": "L", "uint": "u"}.get(type, "")
        return f"{'-' * negative}{value}{suffix}"

    def _number_text(self) -> str:
        match = _DIGITS.match(self.text, self.at)
        if match is None:
            raise NotDError
        self.at = match.end()
        return match[0]

    def _float(self) -> str:
        match = _HEX_FLOAT.match(self.text, self.at)
        if match is None:
            raise NotDError
        self.at = match.end()
        text = match[0]
        if text in ("NAN", "INF", "NINF"):
            return {"NAN": "NaN", "INF": "Inf", "NINF": "-Inf"}[text]
        sign = "-" * text.startswith("N")
        digits, _, exponent = text.removeprefix("N").partition("P")
        return f"{sign}0x{digits[0]}.{digits[1:]}p{exponent.replace('N', '-')}"

    def _string(self, kind: str) -> str:
        size = self._number()
        if not self._take("_") or self.at + 2 * size > len(self.text):
            raise NotDError
        raw, self.at = self.text[self.at:self.at + 2 * size], self.at + 2 * size
        if not re.fullmatch("[0-9a-fA-F]*", raw):
            raise NotDError
        text = bytes.fromhex(raw).decode("utf-8", "replace")
        return '"' + "".join([c if c.isprintable() and c not in '"\\' else f"\\x{ord(c):02x}" for c in text]) + \
            '"' + (kind if kind != "a" else "")

    def _array(self, type: str) -> str:
        count = self._count()
        if type.endswith("]") and not type.endswith("[]") and not type[:-1].rpartition("[")[2].isdigit():
            return f"[{', '.join([f'{self._value()}:{self._value()}' for _ in range(count)])}]"
        return f"[{', '.join([self._value() for _ in range(count)])}]"
