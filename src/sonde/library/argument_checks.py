"""What the arguments of ``sonde.trace()`` and ``sonde.fleet()`` may be."""

from __future__ import annotations

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 0


# Argument -> what it is, in words, and whether a value is such.
_ARGUMENTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "source": ("the text of a script", _is_text),
    "params": ("a list of texts: $1, $2 ... of the script", _are_texts),
    "pid": ("the id of a process (0: of all)", lambda value: _is_whole(value) and value < 1 << 31),
    "command": ("a command: a text, or a list of its words",
                lambda value: value is None or _is_text(value) or _are_texts(value)),
    "memory": ("a number of bytes", lambda value: value is None or _is_whole(value)),
    "budget": ("a share of one CPU's time from 0.001 to 1, as 0.02 for 2% (0: no budget)",
               lambda value: type(value) in (int, float) and (value == 0 or 0.001 <= value <= 1)),
    "container": ("the name of a container, pod or service", _is_text),
    "follow": ("True or False", lambda value: isinstance(value, bool)),
    "flight": ('a time like "30s", or "30s,64M" with the memory for it', _is_text),
}


def check_arguments(**values: object) -> None:
    """UsageError for the first that is nothing of the kind."""
    for name, value in values.items():
        kind, holds = _ARGUMENTS[name]
        if not holds(value):
            raise UsageError(f"{name} is {kind}, not {value!r}")
