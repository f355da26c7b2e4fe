"""Functions by the names that they have in their language's source code: C++ and Rust."""

from __future__ import annotations

from ..base import regex_cache
from ..base.wildcards import pattern_matcher
from ..spec import UserFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LANGUAGES = {"cpp": "C++", "cxx": "C++", "rust": "Rust"}
_OF_RUST = r"_R.*|_ZN.*17h[0-9a-f]{16}E(\..*)?"


def functions_named(functions: list[UserFunction], names: list[str], language: str, text: str) -> list[UserFunction]:
    """The functions that ``text`` means, one for each place; ``names`` are as in source code, those of C as they are.

    C++: without parameters all overloads, C's function of that name among them. Rust: without ``::<T>`` all instances.
    """
    matches = pattern_matcher(_without_spaces(text))
    short = _short_name(language, text)
    chosen = {function.offset: function for function, name in reversed(list(zip(functions, names)))
              if (name == function.name or is_of(language, function.name)) and matches(_without_spaces(short(name)))}
    return list(reversed(chosen.values()))


def known_names(functions: list[UserFunction], names: list[str], language: str, text: str) -> list[str]:
    """What could have been meant instead."""
    short = _short_name(language, text)
    return sorted({short(name) for function, name in zip(functions, names)
                   if name != function.name and is_of(language, function.name)})


def is_of(language: str, symbol: str) -> bool:
    """Whether a mangled name may be of a language. Rust's older names have the form of C++'s, and go as these too."""
    return regex_cache.fullmatch(_OF_RUST, symbol) is not None if language == "rust" else not symbol.startswith("_R")


def short_name(language: str, name: str) -> str:
    """A name without what tells its overloads, or instances, apart."""
    return _instance_name(name) if language == "rust" else function_name(name)


def _short_name(language: str, text: str) -> Callable[[str], str]:
    whole = "::<" in text if language == "rust" else "(" in text.replace("(anonymous namespace)", "")
    return (lambda name: name) if whole else (lambda name: short_name(language, name))


def _without_spaces(name: str) -> str:
    """``f(int, char)`` and ``f(int,char)`` are one name; ``unsigned int`` keeps its space."""
    return regex_cache.sub(r"\s*([,*&<>()])\s*", r"\1", name)


def _instance_name(name: str) -> str:
    """``mycrate::f::<u32>`` → ``mycrate::f``."""
    name = regex_cache.sub(r"( \[clone [^\]]*\])+$", "", name)
    depth = 0
    for at in range(len(name) - 1, -1, -1) if name.endswith(">") else ():
        arrow = name[at] == ">" and name[at - 1:at] == "-"
        depth += 0 if arrow else {">": 1, "<": -1}.get(name[at], 0)
        if depth == 0:
            return name[:at].removesuffix("::") if name[:at].endswith("::") else name
    return name


def function_name(name: str) -> str:
    """A demangled name without its parameters, and without the result that templates have in front.

    ``void ns::f<int>(int) const`` → ``ns::f<int>``.
    """
    name = regex_cache.sub(r"( \[clone [^\]]*\])+$", "", name)
    end = name.rfind(")")
    if end >= 0 and not name.endswith("operator()"):
        depth = 0
        for at in range(end, -1, -1):
            depth += {")": 1, "(": -1}.get(name[at], 0)
            if depth == 0:
                name = name[:at] or name
                break
    operator = regex_cache.search(r"\boperator\b", name)
    head = name[:operator.start()] if operator else name
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += {">": 1, ")": 1, "<": -1, "(": -1}.get(head[at], 0)
        if head[at] == " " and depth == 0:
            return name[at + 1:]
    return name
