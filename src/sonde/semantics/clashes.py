"""Two parts of a script that do not go together: what each of them is, and where the other one stands."""

from __future__ import annotations

from ..language.ast import Node
from ..source import ExpandedSpan, Note, Span
from ..types import Aggregate, Type
from . import convert

_KIND_WORDS = {"int": "an integer", "bool": "a bool", "string": "a string", "pointer": "a pointer",
               "double": "a number with a fraction", "float": "a number with a fraction", "tuple": "a tuple",
               "record": "a record", "buffer": "a buffer", "array": "an array", "c_type": "a struct",
               "ustack": "a stack", "kstack": "a stack", "inet": "an address"}


def describe_kind(type: Type) -> str:
    """What a value is, in plain words: "an integer", "count()"."""
    if isinstance(type, Aggregate):
        return f"{type.kind}()"
    kind = convert.kind_of_type(type)
    return _KIND_WORDS.get(kind) or f"a value of type {convert.type_name(type)}"


def describe_both(one: Type, other: Type) -> tuple[str, str]:
    """Two values in plain words; by their types where the words would be the same."""
    words = describe_kind(one), describe_kind(other)
    if words[0] != words[1]:
        return words
    return f"of type {convert.type_name(one)}", f"of type {convert.type_name(other)}"


def mark_origin(origin: Span | None, at: Node, message: str) -> list[Note]:
    """The other of two places that clash, for the diagnostic about ``at``; none if it is the same, or within a macro,
    whose calls are shown anyway."""
    if origin is None or isinstance(origin, ExpandedSpan) or (origin.start, origin.end) == (at.span.start, at.span.end):
        return []
    return [Note(origin, message)]
