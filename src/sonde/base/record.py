"""Plain data classes that cost next to nothing at import.

``dataclasses`` compiles each class when it is defined, which for a compiler's hundred small classes would take a third
of Sonde's start-up budget. ``Record`` looks the same to the reader and the type checker (PEP 681), with one generic
``__init__`` shared by all of them.
"""

from __future__ import annotations

from .fast_stdlib import dataclass_transform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

_MISSING = object()


@dataclass_transform(eq_default=False)
class RecordMeta(type):
    """Turns the annotations of a class into slots, in order, after those of its base.

    A default is any immutable value assigned in the class body; a ``list``, ``dict`` or
    ``set`` (``[]``, ``{}``, ``set()``) is copied for each instance.
    """

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> RecordMeta:
        own = [n for n in space.get("__annotations__", {}) if not n.startswith("_")]
        fields: list[str] = []
        defaults: dict[str, Any] = {}
        for base in bases:
            fields += [n for n in getattr(base, "_fields", ()) if n not in fields]
            defaults.update(getattr(base, "_defaults", {}))
        slots = [n for n in own if n not in fields]
        for field in own:
            value = space.pop(field, _MISSING)
            if value is not _MISSING:
                defaults[field] = value
        fields += slots
        space["__slots__"] = tuple(slots)
        space["_fields"] = tuple(fields)
        space["_defaults"] = defaults
        return super().__new__(mcs, name, bases, space)


class Record(metaclass=RecordMeta):
    """Base of plain data: positional or keyword construction, ``repr``, equality by value on demand."""

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = self._fields
        if len(args) > len(fields):
            raise TypeError(f"{type(self).__name__} takes {len(fields)} values, got {len(args)}")
        for name, value in zip(fields, args):
            setattr(self, name, value)
        for name in fields[len(args):]:
            if name in kwargs:
                setattr(self, name, kwargs.pop(name))
            else:
                value = self._defaults.get(name, _MISSING)
                if value is _MISSING:
                    raise TypeError(f"{type(self).__name__} needs {name}")
                setattr(self, name, value.copy() if type(value) in (list, dict, set) else value)
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no {', '.join(kwargs)}")

    def values(self) -> tuple[Any, ...]:
        """The field values, in order of declaration."""
        return tuple([getattr(self, name) for name in self._fields])

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({inner})"


class Value(Record):
    """A ``Record`` that is compared and hashed by its fields; treat it as immutable."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.values()))
