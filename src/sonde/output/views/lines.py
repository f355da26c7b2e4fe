"""``-f lines``: what was counted by Python stacks, beside the lines of the source: as text, or as HTML, CSV or JSON by
the name of the file."""

from __future__ import annotations

from ...errors import UsageError
from ...runtime.records.values import Items, keep_stacks
from ...spec import MapSpec, ScriptSpec
from ...types import PYTHON, Stack, Type
from .line_forms import FORMS
from .line_table import LineTable
from .stacks import flatten_types, shows_stacks, weight_symbol
from .view import View as Base
from .view import key_types

_SUFFIXES = {".html": "html", ".htm": "html", ".csv": "csv", ".json": "json"}


class LinesView(Base):
    """Adds up each map keyed by Python stacks, whose values are numbers or can be added up."""

    needs = "maps keyed by Python stacks (pystack), with counts, sums or histograms"
    example = "profile:hz:99 { @[pystack] = count(); }"

    def prepare(self) -> None:
        form = self.target.form or _SUFFIXES.get(self.target.suffix, "text")
        if form not in FORMS:
            raise UsageError(f"lines are shown as {', '.join(FORMS)}, not as {form}")
        self._form = FORMS[form]
        shown = [named for named in self.spec.maps if named.name.startswith("@") and self.shows_map(named, self.spec)]
        room = self.target.memory // max(len(shown), 1)
        self._tables = {named.name: LineTable(named.name, self.target.unit or weight_symbol(named), self.target.source,
                                              _has_native(named), room) for named in shown}
        self._latest: dict[str, Items] = {}  # what a look at a map has shown, until it is emptied

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        return shows_stacks(named) and any(map(_is_python, flatten_types(key_types(named))))

    def add_map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        if then in ("clear", "zero", "final"):
            self._latest.pop(named.name, None)
            self._tables[named.name].add_items(items)
        else:
            keep_stacks([key for key, _ in items])
            self._latest[named.name] = items

    def on_map_cleared(self, named: MapSpec) -> None:
        self._tables[named.name].add_items(self._latest.pop(named.name, ()))

    def finish(self) -> None:
        self._take_latest()
        tables = [table for table in self._tables.values() if not table.is_empty] or [*self._tables.values()][:1]
        self.write(self._form(tables, self.run, self.entitle("Python lines")))
        self.write(self.run_comment() if self._form in (FORMS["text"], FORMS["csv"]) else "")

    def _take_latest(self) -> None:
        for name, items in self._latest.items():
            self._tables[name].add_items(items)
        self._latest = {}

    @property
    def is_empty(self) -> bool:
        self._take_latest()
        return not any(table.total for table in self._tables.values())


def _is_python(type: Type) -> bool:
    return isinstance(type, Stack) and type.mode == PYTHON


def _has_native(named: MapSpec) -> bool:
    return any(isinstance(each, Stack) and each.mode != PYTHON for each in flatten_types(key_types(named)))
