"""Views fed by hand, without a kernel: scripts' specs as short as a test needs them, and a view of one."""

from __future__ import annotations

from typing import Any

from decoding import Names
from sonde import types as t
from sonde.output.views import Target, view_class
from sonde.spec import Config, EventField, EventSite, FormatPart, MapSpec, ScriptSpec

HOSTILE = "<script>alert('\"&]]>\x1b[2J\x00\udcff;\n"
COUNTS = MapSpec("@counts", "hash", 8, 8, 16, key=t.Str(16), value=t.Aggregate("count"))


def map_of(name: str, key: t.Type | None, value: t.Type) -> MapSpec:
    return MapSpec(name, "hash", 8, 8, 16, key=key, value=value, memory=key is None)


def printing(named: MapSpec, then: str = "clear") -> EventSite:
    return EventSite("print_map", None, [], 24, [], {"map": named.name, "then": then})


def script(*maps: MapSpec, sites: list[EventSite] | None = None) -> ScriptSpec:
    return ScriptSpec([], list(maps), sites or [], [], ["begin", "tracepoint:a:b"], [], Config())


def printf(*parts: FormatPart) -> EventSite:
    fields = [EventField(t.INT64, 16) for part in parts if part.conversion]
    return EventSite("printf", None, fields, 64, list(parts))


class Run:
    """A view of a script, fed by hand."""

    def __init__(self, name: str, spec: ScriptSpec, target: Target | None = None) -> None:
        self.pieces: list[Any] = []
        self.view = view_class(name)(spec, Names(), self.pieces.append, target or Target())

    def finish(self) -> str:
        self.view.finish()
        return "".join(self.pieces)

    def finish_bytes(self) -> bytes:
        """Of a view that writes no text."""
        self.view.finish()
        return b"".join(self.pieces)
