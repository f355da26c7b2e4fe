"""The base of every view: a class that says which maps and events it shows, and is then given them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getsizeof

from ...runtime.provenance import Provenance
from ...runtime.records.events import Event
from ...spec import EventSite, MapSpec, ScriptSpec
from ...types import Stack, Tuple, Type
from ..progress import Progress
from ..table_rows import RowCell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from ...runtime.records.batch import Batch
    from ...runtime.records.values import Clock, DecodingContext, Item, Items, ScriptValue
    from . import Target

    RowsOf: TypeAlias = "Callable[[Batch], bytes | None]"

_PAIR = 400  # bytes of a key with its value, without the texts in the key


class View:
    """Base of the views. ``needs`` and ``example`` are for the message when nothing of a script fits."""

    needs = ""
    example = ""
    keeps_text = False  # are events that the view shows printed as text as well?
    binary = False      # is what it writes no text?
    takes_rows = False  # does it want the lines of a tool's table as rows, instead of the events?
    bar: Progress | None = None  # for what takes long, where somebody looks on
    run: Provenance | None = None  # of what is shown; known when the run is over

    def __init__(self, spec: ScriptSpec, context: Clock, write: Callable[[str | bytes], object],
                 target: Target) -> None:
        self.spec = spec
        self.context = context
        self.write = write
        self.target = target
        self.prepare()

    def prepare(self) -> None:
        """Set up what the view keeps."""

    @classmethod
    def shows_map(cls, named: MapSpec, spec: ScriptSpec) -> bool:
        """Does the view show this map of the script?"""
        return False

    @classmethod
    def shows_event(cls, site: EventSite) -> bool:
        """Does the view show what this site sends (printf, print ...)?"""
        return False

    def add_map(self, named: MapSpec, items: Items, time: int, then: str) -> None:
        """A map's contents at ``time`` (boot-clock nanoseconds); ``then`` is "clear" or "zero" if the map was emptied
        in the same step, "final" at the end, else ""."""

    def on_map_cleared(self, named: MapSpec) -> None:
        """The script emptied a map, or set its values to zero."""

    def add_event(self, event: Event, site: EventSite, text: str) -> None:
        """An event; ``text`` is what printf() made of it."""

    def compile_rows(self, index: int, site: EventSite, context: DecodingContext) -> RowsOf | None:
        """The function from many records of a site, the one with this index, to what the view writes of them, or None
        if they have to come one by one, as those of other sites have."""
        return None

    def heading(self, names: Sequence[str], table: str = "") -> None:
        """The columns of the rows that follow; only for views with ``takes_rows``."""

    def row(self, cells: Sequence[RowCell], time: int, probe: str, table: str = "") -> None:
        """A row of a ``table`` ("" of a tool without one), in place of the event that it was printed by."""

    def finish(self) -> None:
        """The run is over."""

    @property
    def left_out(self) -> int:
        """Elements of maps for which there was no room."""
        return 0

    @property
    def is_empty(self) -> bool:
        """Whether it is a picture of which nothing can be seen, since nothing was collected."""
        return False

    def entitle(self, default: str) -> str:
        """The title, and how much of the time that was asked for it covers, if that is not all."""
        coverage = self.run.coverage if self.run is not None else ""
        return (self.target.title or default) + (f" ({coverage})" if coverage else "")

    def run_comment(self, sign: str = "#") -> str:
        """The run as lines of comment. Only files have them: what reads from a pipe is a program, and people see
        standard error."""
        return self.run.format_comments(sign) if self.run is not None and self.target.is_file else ""

    def wants_samples(self, named: MapSpec) -> bool:
        """Is the map to be looked at while the script runs, since the script itself does not print it?"""
        return False

    def render_picture(self, columns: int, rows: int) -> list[str]:
        """What has been collected so far, as lines that fit a terminal of that size."""
        return []


class Totals:
    """A map's contents over a whole run, though the script may print and clear it at intervals.

    What a print() took away is kept; a print() that took nothing away is a look at what the next one has again.
    """

    def __init__(self, memory: int) -> None:
        self._room = memory
        self.left_out = 0  # pairs for which there was no room
        self.cleared: list[Item] = []
        self.latest: list[Item] = []

    def add_items(self, items: Items, then: str) -> None:
        """Contents of the map, and what happened to it in the same step."""
        self.latest = list(items)
        if then in ("clear", "zero"):
            self.on_map_cleared()

    def on_map_cleared(self) -> None:
        """The map was cleared: keep the pairs that were seen last."""
        for pair in self.latest:
            size = _PAIR + text_bytes(pair[0])
            if size > self._room:
                self.left_out += 1
            else:
                self._room -= size
                self.cleared.append(pair)
        self.latest = []

    @property
    def items(self) -> list[Item]:
        """All pairs; a key may come several times."""
        return self.cleared + self.latest


def key_types(named: MapSpec) -> tuple[Type, ...]:
    """The types of a map's keys, one by one; () for a map without keys."""
    if named.key is None or named.memory:
        return ()
    return named.key.of if isinstance(named.key, Tuple) else (named.key,)


def key_parts(key: ScriptValue) -> tuple[ScriptValue, ...]:
    """The keys of an element, one by one."""
    if key is None:
        return ()
    return key if type(key) is tuple else (key,)


def text_bytes(key: ScriptValue) -> int:
    """What the texts in a key take."""
    return sum([getsizeof(part) for part in key_parts(key) if isinstance(part, str | bytes)])


def has_stack(type: Type) -> bool:
    """Is the type a stack, or a tuple with one in it?"""
    return isinstance(type, Stack) or isinstance(type, Tuple) and any(has_stack(t) for t in type.of)


def comes_out(named: MapSpec, spec: ScriptSpec, has_rows: bool) -> bool:
    """Does a map ever leave the script: printed, shown at the end, or cleared after the script went through it? In the
    last case a script that prints rows has made them from it."""
    if is_printed(named, spec):
        return True
    return not has_rows if named.at_end == "shows" else spec.config.print_maps_on_exit


def is_printed(named: MapSpec, spec: ScriptSpec) -> bool:
    """Does the script print the map while it runs?"""
    return any(site.kind == "print_map" and site.data.get("map") == named.name for site in spec.sites)
