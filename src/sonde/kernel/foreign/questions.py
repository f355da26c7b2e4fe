"""What the tracer may ask of the reader, one row for each question: its name is that of the function in ``answers``.

An answer is plain data. ``shape`` says what it looks like, for the reader may be in the hands of the file that it has
read: a type, a list of one shape, a tuple of several, ``Maybe``, or a function that decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...record import Record
from .types_by_wire import is_type

MOST = 4 << 20  # bytes of an answer or a question
MOST_MEMORY = 1 << 30  # bytes that the reader takes, whatever the question
_NUMBERS = range(-(1 << 63), 1 << 64)


class Maybe(Record):
    """The shape, or nothing."""

    of: Any


class Question(Record):
    """``seconds`` of CPU time and bytes of ``memory`` are what the reader may take for it. ``debug``: it needs the
    library that reads DWARF, and there is more of both for a file that is large on disk (reader.allowance)."""

    name: str
    shape: Any
    seconds: float = 1.3
    memory: int = 112 << 20
    debug: bool = False


def has_shape(value: Any, shape: Any) -> bool:
    """Whether an answer has the shape that it must have."""
    if shape is int:
        return type(value) is int and value in _NUMBERS
    if isinstance(shape, type):
        return type(value) is shape
    if isinstance(shape, Maybe):
        return value is None or has_shape(value, shape.of)
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(item, shape[0]) for item in value)
    if isinstance(shape, tuple):
        return isinstance(value, list) and len(value) == len(shape) and all(
            has_shape(item, part) for item, part in zip(value, shape))
    decide: Callable[[Any], bool] = shape
    return decide(value)


_BLOCK = (int, int, [(int, int, str)])  # first address, end, functions: (address, size, name)
_ARGUMENT = (str, int, int, int, int, int, int, bool, str)
_PLACE = (str, [int], int, str)

QUESTIONS = {row.name: row for row in (
    # type, machine, segments, build id, whether it has symbols of its own, and debug information, its debug file's name
    Question("describe", (int, int, [(int, int, int, int, int, int)], str, bool, bool, str)),
    Question("functions", ([(str, int, int, int)], int)),  # from an index on; the next index, or 0
    Question("object", Maybe((int, int))),
    Question("around", _BLOCK),
    Question("jit_around", _BLOCK),
    Question("static_probes", [(str, str, int, int, [_ARGUMENT])]),
    Question("frame_row", Maybe((Maybe((int, int)), str, [(int, str, int, str)], bool, int))),
    Question("demangle", Maybe([str]), 0.25),
    Question("loader_cache", [(str, str)]),
    # problem, hints, args' name and size, fields: (name, type, offset), places by name, result, declarations
    Question("prototype", (str, [str], str, int, [(str, is_type, int)], [(str, _PLACE)], Maybe(is_type), [str]),
             debug=True),
    Question("members", [(str, is_type, int, int, int)], debug=True),
    Question("source_lines", (str, [str], [(str, str, int)]), debug=True),
    Question("inlined", Maybe(([str], int, str)), debug=True),
)}
