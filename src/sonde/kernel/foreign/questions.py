"""What the tracer may ask of the reader, one row for each question: its name is that of the function in ``answers``.

An answer is plain data. ``shape`` says what it looks like, for the file that the reader has read may have taken it
over: a type, a list of one shape, a tuple of several, ``Maybe``, or a function that decides.
"""

from __future__ import annotations

from ...base.json_checks import Json, as_list, as_text
from ...base.record import Record
from .function_problems import PROBLEMS
from .types_by_wire import is_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

Shape: TypeAlias = "type | Maybe | Sequence[Shape] | Callable[[Json], bool]"

MOST = 4 << 20  # bytes of an answer or a question
MOST_MEMORY = 1 << 30  # bytes that the reader needs, whatever the question
_NUMBERS = range(-(1 << 63), 1 << 64)


class Maybe(Record):
    """The shape, or None."""

    of: Shape


class ReaderQuestion(Record):
    """``seconds`` of CPU time and bytes of ``memory`` are what the reader may take for it. ``debug``: it needs the
    library that reads DWARF, and gets more of both for a file that is large on disk (reader.allowance)."""

    name: str
    shape: Shape
    seconds: float = 1.3
    memory: int = 112 << 20
    debug: bool = False


def has_shape(value: Json, shape: Shape) -> bool:
    """Whether an answer has the required shape."""
    if shape is int:
        return type(value) is int and value in _NUMBERS
    if isinstance(shape, type):
        return type(value) is shape
    if isinstance(shape, Maybe):
        return value is None or has_shape(value, shape.of)
    if isinstance(shape, list):
        plain = isinstance(shape[0], tuple) and all(part in (int, str) for part in shape[0])
        fits = _fit_plain if plain else _fit_all
        return isinstance(value, list) and fits(value, shape[0])
    if isinstance(shape, tuple):
        return isinstance(value, list) and len(value) == len(shape) and all(
            has_shape(item, part) for item, part in zip(value, shape))
    assert callable(shape)
    return shape(value)


def _fit_all(items: list[Json], shape: Shape) -> bool:
    return all(has_shape(item, shape) for item in items)


def _fit_plain(rows: list[Json], shape: tuple[type, ...]) -> bool:
    """The same for rows of numbers and strings, of which there may be a hundred thousand: column by column."""
    wanted = list(shape)
    if not all(isinstance(row, list) and [*map(type, row)] == wanted for row in rows):
        return False
    columns = zip(*[as_list(row) for row in rows])
    return all(kind is str or min(column) in _NUMBERS and max(column) in _NUMBERS
               for kind, column in zip(wanted, columns))


def _is_hex(value: Json) -> bool:
    return type(value) is str and len(value) % 2 == 0 and not set(value) - set("0123456789abcdef")


def _number_of(*known: int) -> Callable[[Json], bool]:
    return lambda value: type(value) is int and value in known


def _number_within(low: int, end: int) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, int) and type(value) is int and low <= value < end


def _word_of(*known: str) -> Callable[[Json], bool]:
    return lambda value: type(value) is str and value in known


_REGISTER = _number_within(-1, 1 << 12)  # offset in struct pt_regs; -1: none
_FILE_OFFSET = _number_within(0, 1 << 63)
_OFFSET = _number_within(0, 1 << 31)     # in a struct
_BLOCK = (int, int, [(int, int, str)])  # first address, end, functions: (address, size, name)
# files.FrameRow: the register, how its value is found, a number or an expression
_RULE = (int, _word_of("offset", "value", "register", "expression", "value expression", "undefined"), int, _is_hex)
# spec.UsdtArgument, spec.UserPlace
_ARGUMENT = (_word_of("constant", "register", "memory", "unknown"), _REGISTER, int, _REGISTER, int,
             _number_within(0, 64), _number_of(1, 2, 4, 8), bool, str)
_PLACE = (_word_of("registers", "memory", "constant", "unknown"), [_REGISTER], int, str)
_VALUES = (str, _OFFSET, [(str, is_type, _OFFSET)], [(str, _PLACE)])


def _are_values(value: Json) -> bool:
    """A struct's name and size, its fields: (name, type, offset), and places by name: whether each field has a place,
    and each place the registers that it needs."""
    if not has_shape(value, _VALUES):
        return False
    _, _, fields, places = as_list(value)
    locations = {as_text(name): as_list(location) for name, location in map(as_list, as_list(places))}
    return {as_text(as_list(field)[0]) for field in as_list(fields)} <= locations.keys() and all(
        registers or kind not in ("registers", "memory") for kind, registers, _, _ in locations.values())


def _is_member(value: Json) -> bool:
    """(name, type, offset, first bit, bits): a bit-field must fit a number of 64 bits."""
    return has_shape(value, (str, is_type, _OFFSET, _number_within(0, 64), _number_within(0, 65)))


QUESTIONS = {row.name: row for row in (
    # type, machine, segments, build id, whether it has symbols of its own, and debug information, its debug file's name
    ReaderQuestion("describe", (int, int, [(int, int, int, int, int, int)], _is_hex, bool, bool, str)),
    ReaderQuestion("functions", ([(str, int, int, int)], int)),  # from an index on; the next index, or 0
    ReaderQuestion("indirect_functions", [(str, int)]),  # name, address of the resolver
    ReaderQuestion("indirect_slots", [(int, int, str)]),  # see indirect.Slot
    ReaderQuestion("memory_words", [int], 0.25),
    # of a process: libraries that have tasks; threads that run a loop: (number, loop); texts; frames: (function,
    # file, line), the first two as numbers of texts; tasks: address, name, whether it has one of its own, loop, state,
    # what it awaits, what is another for another wait, frames, tasks that it waits for; what was left out (see
    # Look), and the CPU time in us
    ReaderQuestion("python_tasks", ([str], [(int, int)], [str], [(int, int, int)],
                                    [(int, int, bool, int, _word_of("waits", "ready", "runs"), int, int, [int], [int])],
                                    (int, int, int, int, bool, bool, int)), 4.0, 400 << 20),
    ReaderQuestion("text_lines", [str], 0.5),  # of a source file
    ReaderQuestion("needed", ([str], [str])),
    ReaderQuestion("return_hazard", _word_of("", "go", "c++", "rust", "unwound", "collected", "stacks", "unclear")),
    ReaderQuestion("go_version", str),
    # of functions, the first of those asked for: see function_ends.FunctionAnswer
    ReaderQuestion("function_ends", [([_FILE_OFFSET], [_FILE_OFFSET], _word_of("", *PROBLEMS),
                                      [(_FILE_OFFSET, str)], bool, [_FILE_OFFSET], [_FILE_OFFSET], [_FILE_OFFSET],
                                      [_FILE_OFFSET])]),
    ReaderQuestion("origin", str),
    ReaderQuestion("archive_members", [(str, int, int)]),  # names, offsets and sizes of those that are not compressed
    ReaderQuestion("object", Maybe((int, int))),
    ReaderQuestion("around", _BLOCK),
    ReaderQuestion("jit_around", _BLOCK),
    ReaderQuestion("static_probes", [(str, str, int, int, [_ARGUMENT])]),
    ReaderQuestion("frame_row", Maybe((Maybe((int, int)), _is_hex, [_RULE], bool, int))),
    # see unwind_rows: whether there are any, rows from an entry on, and the next entry, or 0
    ReaderQuestion("unwind_rows", (bool, _is_hex, int)),
    # of an interpreter: its version, the addresses of _PyRuntime and PyCode_Type, the first bytes of _PyRuntime
    ReaderQuestion("interpreter", Maybe((int, int, int, _is_hex))),
    ReaderQuestion("demangle", Maybe([str]), 0.25),
    ReaderQuestion("loader_cache", [(str, str)]),
    # problem, hints, args, result, declarations, a Go function's results
    ReaderQuestion("prototype", (str, [str], _are_values, Maybe(is_type), [str], _are_values), debug=True),
    ReaderQuestion("members", [_is_member], debug=True),
    ReaderQuestion("named_type", Maybe(is_type), debug=True),
    ReaderQuestion("source_lines", (str, [str], [(str, str, int)]), debug=True),
    ReaderQuestion("code_places", [(str, str, int)], debug=True),  # function, source file, line; the innermost first
    ReaderQuestion("inlined", Maybe(([str], int, str)), debug=True),
)}
