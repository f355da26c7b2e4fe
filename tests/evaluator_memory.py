"""Memory as the evaluator sees it: what lies at an address of this process, and the members of structs.

A pointer is a number; a struct is an :class:`Object`, a copy of its bytes, read through the ctypes class of its name.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from sonde.base.record import Value
from sonde.types import Array, Buf, Int, Str, Struct, Type

CLASSES: dict[str, type[ctypes.Structure]] = {}  # of the structs of scripts, by name
OBJECTS: list[ctypes.Array[Any]] = []  # what may be read


class Object(Value):
    """A struct as it was when it was read."""

    raw: bytes

    def member(self, type: Struct, name: str) -> Any:
        """A member, as a value of the evaluator."""
        return _plain(getattr(CLASSES[type.name].from_buffer_copy(self.raw), name))


class Reference(Value):
    """What ``&$x`` or ``&@m`` is; ``load`` says what is there now."""

    load: Callable[[], Any]


def _plain(value: Any) -> Any:
    if isinstance(value, ctypes.Array):
        return tuple([_plain(item) for item in value])
    return Object(bytes(value)) if isinstance(value, ctypes.Structure) else value


def bytes_at(address: int, size: int) -> bytes:
    """What lies at an address; as far as there is something."""
    for found in OBJECTS:
        start = ctypes.addressof(found)
        if start <= address < start + len(bytes(found)):
            return bytes(found)[address - start:][:size]
    raise AssertionError(f"nothing is known of address {address:#x}")


def load(address: int, type: Type) -> Any:
    """The value that lies at an address."""
    found = bytes_at(address, type.size)
    assert len(found) == type.size, f"less than a {type} at {address:#x}"
    if isinstance(type, Struct):
        return Object(found)
    if isinstance(type, Array):
        return tuple([load(address + i * type.of.size, type.of) for i in range(type.count)])
    if isinstance(type, Str):
        return found.split(b"\0")[0]
    return int.from_bytes(found, "little", signed=isinstance(type, Int) and type.signed)


def text_at(address: int, limit: int) -> bytes:
    """The C string at an address, of at most ``limit`` bytes with its NUL."""
    return bytes_at(address, limit).split(b"\0")[0][:max(0, limit - 1)]


def raw(value: Any, type: Type) -> bytes:
    """The bytes of an array, a string, a buffer, a struct or a number."""
    if isinstance(type, Array):
        return b"".join([raw(item, type.of) for item in value])
    if isinstance(value, int):
        return (value & (1 << 8 * type.size) - 1).to_bytes(type.size, "little")
    if isinstance(value, Object):
        return value.raw
    return bytes(value) if isinstance(type, Buf) else bytes(value.ljust(type.size, b"\0"))
