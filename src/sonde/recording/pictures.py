"""A recording as a sequence of pictures: what ``sonde top`` would have shown at each moment, for its slider."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.record import Record
from ..kinds import SITE_KINDS
from ..language.comments import column_descriptions
from ..library.run_loop import RunLoop
from ..output.live.model import Model, ModelPrinter, Snapshot
from .queries import AnsweringTrace
from .replay import ReplayTrace, reporting_damage

MOST = 600   # frames; longer recordings keep every second, fourth ... of them
STEP = 0.1   # s of the recording between two, at least

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..output import Handler
    from ..spec import EventSite

Tell = Callable[[int, int], object]  # is called with how much of the file has been read


class TimeSlice(Record):
    """The state known at a moment: ``at`` seconds after the first one, ``wall`` in nanoseconds since 1970."""

    at: float
    wall: int
    snapshot: Snapshot


def read_frames(trace: ReplayTrace, title: str, tool: str, columns: Sequence[str],
                tell: Tell = lambda done, whole: None) -> list[TimeSlice]:
    """All of a recording, in order; the last is the end. What maps held between readings is not known: they are shown
    as last read."""
    return _SliceReader(trace, title, tool, columns).read(tell)


class _RecordedPrinter(ModelPrinter):
    """Shows a map that the script empties as it was last read, where the recording does not have what it then held."""

    def __init__(self, trace: ReplayTrace, model: Model) -> None:
        self._trace = trace
        super().__init__(trace.spec, trace.context, trace.take_map, model, trace.options.warnings, trace.outside)

    def _site_handler(self, site: EventSite) -> Handler | None:
        handle = super()._site_handler(site)
        if handle is None or not SITE_KINDS[site.kind].empties:
            return handle
        name, knows_map, shown = site.data["map"], self._trace.knows_map, handle
        return lambda buffer, offset: shown(buffer, offset) if knows_map(name) else None


class _SliceReader:
    def __init__(self, trace: ReplayTrace, title: str, tool: str, columns: Sequence[str]) -> None:
        self._trace = trace
        self._moment = self._first = trace.recording.facts.time
        self._frames: list[TimeSlice] = []
        self._step, self._due = STEP, 0.0
        self._model = Model(trace.spec, title, tool, columns, self._elapsed,
                            column_descriptions(trace.spec.source.text))
        self._printer = _RecordedPrinter(trace, self._model)

    def _elapsed(self) -> float:
        return max(0, self._moment - self._first) / 1e9

    def read(self, tell: Tell) -> list[TimeSlice]:
        """The frames."""
        trace = self._trace
        trace.keeps_maps = False
        with reporting_damage(trace.recording.name):
            for records in RunLoop(trace):
                self._printer.print_records(records, trace.act_on_site)
                self._moment = max(self._moment, trace.recording.context.moment)
                tell(*trace.recording.position)
                self._read_maps()
                if self._elapsed() >= self._due:
                    self._add()
            self._read_maps()
            self._add(trace.session.reason)
        return self._frames

    def _read_maps(self) -> None:
        """The maps whose contents are known."""
        held = None if isinstance(self._trace, AnsweringTrace) else self._trace.held_maps
        self._model.read_maps(self._trace.take_map, held)

    def _add(self, ended: str = "") -> None:
        trace, at = self._trace, self._elapsed()
        snapshot = self._model.take_snapshot(trace.session, ended)
        self._frames.append(TimeSlice(at, trace.context.wall_clock(self._moment, "boot"), snapshot))
        if len(self._frames) > MOST and not ended:
            del self._frames[1::2]
            self._step *= 2
        self._due = at + self._step
