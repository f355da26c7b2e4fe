"""``-f dot``: maps keyed by pairs as a directed graph, for Graphviz (``dot -Tsvg``)."""

from __future__ import annotations

from math import log10

from ... import types as t
from ...base.record import Record
from ...runtime.maps.aggregates import Drawing, Stats
from ...runtime.records.values import Items, ScriptValue, to_text
from ...spec import MapSpec, ScriptSpec
from ..text import CONTROLS
from .view import Totals, key_parts, key_types
from .view import View as Base

_NAMES = (t.Str, t.Inet, t.MacAddr, t.Symbol, t.USym, t.Enum, t.Buf)
_QUOTED = {ord('"'): '\\"', ord("\\"): "\\\\"} | {c: f"\\{text}" for c, text in CONTROLS.items()}


def edge_ends(named: MapSpec) -> tuple[int, int] | None:
    """Which of a map's keys are the two ends of an edge: the only two, or the first two addresses or names."""
    types = key_types(named)
    if len(types) == 2 and all(isinstance(each, (*_NAMES, t.Int)) for each in types):
        return 0, 1
    names = [i for i, each in enumerate(types) if isinstance(each, _NAMES)]
    return (names[0], names[1]) if len(names) >= 2 else None


def quote_dot(text: str) -> str:
    """A double-quoted string of the DOT language."""
    valid = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return f'"{valid.translate(_QUOTED)}"'


class Edge(Record):
    """From one node to another, by their names in the graph."""

    start: str
    end: str
    label: str
    weight: float


class DotView(Base):
    """One graph of all maps keyed by pairs; the edges are labelled with the other keys and the value."""

    needs = "maps keyed by pairs of addresses or names"
    example = "tracepoint:sched:sched_switch { @[args.prev_comm, args.next_comm] = count(); }"

    def prepare(self) -> None:
        self._totals: dict[str, Totals] = {}
        self._specs: dict[str, MapSpec] = {}

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        return edge_ends(named) is not None

    def add_map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        self._specs[named.name] = named
        self._totals.setdefault(named.name, Totals(self.target.memory)).add_items(items, then)

    @property
    def left_out(self) -> int:
        return sum([totals.left_out for totals in self._totals.values()])

    @property
    def is_empty(self) -> bool:
        return not any(totals.items for totals in self._totals.values())

    def on_map_cleared(self, named: MapSpec) -> None:
        if named.name in self._totals:
            self._totals[named.name].on_map_cleared()

    def finish(self) -> None:
        nodes: dict[str, str] = {}
        edges = [edge for name in sorted(self._totals) for edge in self._collect_edges(name, nodes)]
        heaviest = max([edge.weight for edge in edges], default=0)
        self.write(self.run_comment("//"))
        self.write(f"digraph {quote_dot(self.entitle('sonde'))} {{\n  rankdir=LR;\n"
                   '  node [shape=box, style="rounded,filled", fillcolor="#e8f0f8", fontname="sans-serif"];\n'
                   '  edge [color="#5a6b7d", fontname="sans-serif", fontsize=10];\n')
        for text, node in nodes.items():
            self.write(f"  {node} [label={quote_dot(text)}];\n")
        for edge in edges:
            self.write(f"  {edge.start} -> {edge.end} [label={quote_dot(edge.label)}, "
                       f"penwidth={_edge_width(edge.weight, heaviest)}];\n")
        self.write("}\n")

    def _collect_edges(self, name: str, nodes: dict[str, str]) -> list[Edge]:
        """An edge for each element; a key that came several times is added up."""
        spec = self._specs[name]
        pair = edge_ends(spec)
        assert pair is not None
        adds = not isinstance(spec.value, t.Aggregate) or spec.value.kind not in ("min", "max", "avg")
        lead = f"{name} " if len(self._totals) > 1 else ""
        by_ends: dict[tuple[str, str, str], list[ScriptValue]] = {}
        for key, value in self._totals[name].items:
            parts = [to_text(part) for part in key_parts(key)]
            rest = ", ".join(text for i, text in enumerate(parts) if i not in pair)
            by_ends.setdefault((parts[pair[0]], parts[pair[1]], rest), []).append(value)
        edges = []
        for (start, end, rest), values in sorted(by_ends.items()):
            values = values if adds else values[-1:]
            first = nodes.setdefault(start, f"n{len(nodes)}")
            second = nodes.setdefault(end, f"n{len(nodes)}")
            edges.append(Edge(first, second, f"{lead}{rest + ': ' if rest else ''}{_values_text(values)}",
                              _edge_weight(values)))
        return edges


def _values_text(values: list[ScriptValue]) -> str:
    numbers = [value for value in values if type(value) is int]
    if len(numbers) == len(values):
        return str(sum(numbers))
    drawings = [value for value in values if isinstance(value, Drawing)]
    return f"{sum(drawing.total for drawing in drawings)} values" if drawings else to_text(values[-1])


def _edge_weight(values: list[ScriptValue]) -> float:
    """How heavy an edge is: its number, or the number of its values."""
    return float(sum(value.count if isinstance(value, Stats) else value.total if isinstance(value, Drawing)
                     else value if isinstance(value, int) else 1 for value in values))


def _edge_width(weight: float, heaviest: float) -> str:
    """1 to 6 points, by the logarithm."""
    if heaviest <= 1 or weight <= 1:
        return "1"
    return f"{1 + 5 * log10(weight) / log10(heaviest):.2g}"
