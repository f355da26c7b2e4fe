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
        space["_copied"] = tuple([name for name, value in defaults.items() if type(value) in (list, dict, set)])
        return super().__new__(mcs, name, bases, space)


class Record(metaclass=RecordMeta):
    """Base of plain data: positional or keyword construction, ``repr``, equality by value on demand."""

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]
    _copied: ClassVar[tuple[str, ...]]  # of these defaults each instance has its own

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = self._fields
        for name, value in zip(fields, args):
            setattr(self, name, value)
        rest = fields[len(args):]
        if rest:
            values = self._defaults | kwargs if kwargs else self._defaults
            try:
                for name in rest:
                    setattr(self, name, values[name])
            except KeyError:
                raise TypeError(f"{type(self).__name__} needs {name}") from None
            for name in self._copied:
                if name in rest and name not in kwargs:
                    setattr(self, name, values[name].copy())
        elif len(args) > len(fields):
            raise TypeError(f"{type(self).__name__} takes {len(fields)} values, got {len(args)}")
        if kwargs and (unknown := [name for name in kwargs if name not in rest]):
            raise TypeError(f"{type(self).__name__} has no {', '.join(unknown)}")

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
