"""What may be given to a tool, by the names that its page has for it: checked before anything is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..errors import UsageError
from . import Tool

NUMBERS = {"SECONDS", "INTERVAL", "COUNT", "N", "US", "BYTES"}
LAST_PORT = 65535


def check(tool: Tool, parameters: Sequence[str], options: Mapping[str, str]) -> None:
    """UsageError if a parameter is missing, too many or no number, or if an option's value cannot be meant."""
    hints = [f"see sonde {tool.name} --help"]
    if len(parameters) < len(tool.required):
        raise UsageError(f"{tool.name} needs a {tool.required[len(parameters)]}", hints)
    for option in tool.options:
        if option.key not in options and any(name in tool.required_options for name in option.names):
            raise UsageError(f"{tool.name} needs --{option.key} {option.value}", hints)
    if len(parameters) > len(tool.parameters):
        raise UsageError(f"{tool.name} takes no parameter '{parameters[len(tool.parameters)]}'", hints)
    for name, value in zip(tool.parameters, parameters):
        _check_value(name, name, value)
    for option in tool.options:
        if option.value and option.key in options:
            _check_value(f"--{option.key}", option.value, options[option.key])


def _check_value(what: str, kind: str, value: str) -> None:
    if kind in NUMBERS and not _is_number(value):
        raise UsageError(f"{what} is a number, not '{value}'")
    if kind in ("PORT", "PORTS"):
        _check_ports(what, value)
    if kind in ("PID", "PIDS"):
        _check_processes(what, value)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _numbers(what: str, value: str) -> list[int]:
    """Those of a list such as 80,443 or 8000-8010, the ends of a range for the range."""
    words = [word for part in value.split(",") for word in part.split("-")]
    if not all(_is_number(word) for word in words):
        raise UsageError(f"{what}: '{value}' is not a list of numbers", ["write 80, or 80,443, or 8000-8010"])
    return [int(word) for word in words]


def _check_ports(what: str, value: str) -> None:
    for number in _numbers(what, value):
        if number > LAST_PORT:
            raise UsageError(f"{what}: {number} is no port: the last one is {LAST_PORT}")


def _check_processes(what: str, value: str) -> None:
    """One of them has to be there; of a range that is not asked."""
    numbers = _numbers(what, value)
    if not any(os.path.exists(f"/proc/{number}") for number in numbers) and "-" not in value:
        raise UsageError(f"there is no process {value}")
