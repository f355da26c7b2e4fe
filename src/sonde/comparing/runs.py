"""What is compared: a run as counts, values and distributions, read from a recording or from JSON output."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..base.json_checks import Json, JsonObject, as_object, as_text
from ..base.memory_budget import Memory
from ..base.record import Record, Value
from ..errors import SondeError
from ..library.data_frames import row_sites
from ..recording.container import MAGIC
from ..recording.replay import ReplayTrace, open_replay, reporting_damage
from ..runtime.maps.aggregates import Bucket, Histogram, Stats
from ..runtime.records.values import EnumValue, Item, key_text
from ..spec import EventSite, MapSpec
from ..types import Aggregate

COUNT, VALUE, DISTRIBUTION = "count", "value", "distribution"
MOST_LINE = 16 << 20  # characters of a line of JSON

Bounds = tuple[int | float | None, int | float | None]  # from, up to but not including; None: unbounded


class Label(Value):
    """What is measured: a map (``@x``) or field, and the key as text, "" where there is none."""

    name: str
    key: str
    kind: str

    def __str__(self) -> str:
        return f"{self.name}[{self.key}]" if self.key else self.name


class Run(Record):
    """A run's measurements: counts and values as numbers, distributions as {bounds: count}. ``seconds`` is 0 if the
    duration is unknown, or it ended with its command."""

    title: str
    seconds: float
    numbers: dict[Label, float]
    distributions: dict[Label, Counter[Bounds]]

    def add_number(self, label: Label, number: float) -> None:
        """Add to a count or a value."""
        self.numbers[label] = self.numbers.get(label, 0) + number

    def add_buckets(self, label: Label, buckets: Iterable[tuple[Bounds, int]]) -> None:
        """Add to a distribution."""
        held = self.distributions.setdefault(label, Counter())
        for bounds, count in buckets:
            if count:
                held[bounds] += count


def read_run(path: str, fields: Sequence[str] = (), memory: Memory | None = None) -> Run:
    """The run in a file: a recording, or what ``-f json`` wrote. ``fields`` of printf() and of tools' rows are
    distributions too. SondeError if it is neither, or incomplete."""
    try:
        with open(path, "rb") as file:
            is_recording = file.read(len(MAGIC) - 1) == MAGIC[:-1]
    except OSError as error:
        raise SondeError(f"{path}: {error.strerror}") from None
    return _read_recording(path, fields, memory) if is_recording else _read_json(path, fields)


# Recordings ---------------------------------------------------------------------------------------------------------

def _read_recording(path: str, fields: Sequence[str], memory: Memory | None) -> Run:
    run = Run(path, 0.0, {}, {})
    with open_replay(path, memory) as trace, reporting_damage(path):
        _add_events(run, trace, fields)
        if trace.recording.truncated:
            raise SondeError(f"{path} ends before the run did: its numbers are not whole",
                             ["sonde replay shows what there is"])
        for named in trace.spec.shown_maps:
            _add_items(run, named, trace.take_map(named.name))
        run.title = trace.provenance.summary
        if trace.session.reason != "child":  # a command's work is the same, however long it takes
            run.seconds = trace.provenance.seconds
    return run


def _add_events(run: Run, trace: ReplayTrace, fields: Sequence[str]) -> None:
    from ..output.views.csv import event_columns, event_values
    sites = trace.spec.sites
    names = {i: event_columns(sites[i]) for i in row_sites(trace.spec)}
    counted: Counter[int] = Counter()
    for event in trace.events():
        site = sites[event.site]
        if site.kind == "print_map":
            if site.then == "clear":  # what it held is gone from it, but counts
                _add_items(run, trace.spec.find_map(event.args[0]), event.args[1])
        elif event.site in names:
            counted[event.site] += 1
            for name, value in zip(names[event.site], event_values(event, site)) if fields else ():
                if name in fields and isinstance(value, float):
                    run.add_buckets(Label(name, "", DISTRIBUTION), [(_float_bounds(value), 1)])
                elif name in fields and isinstance(value, int):
                    run.add_buckets(Label(name, "", DISTRIBUTION), [((int(value), int(value) + 1), 1)])
    for index, count in counted.items():
        run.add_number(Label(_site_name(sites[index]), "", COUNT), count)


def _site_name(site: EventSite) -> str:
    return f"{site.kind}()" + (f" of line {site.span.line}" if site.span is not None else "")


def _add_items(run: Run, named: MapSpec, items: Iterable[Item]) -> None:
    counts = isinstance(named.value, Aggregate) and named.value.kind == "count"
    for key, value in items:
        text = "" if key is None else key_text(key)
        if isinstance(value, Histogram):
            run.add_buckets(Label(named.name, text, DISTRIBUTION), _bounds_of(value.buckets))
        elif isinstance(value, Stats):
            _add_stats(run, named.name, text, value.count, value.total)
        elif isinstance(value, float):
            run.add_number(Label(named.name, text, VALUE), value)
        elif type(value) is int or isinstance(value, EnumValue):
            run.add_number(Label(named.name, text, COUNT if counts else VALUE), int(value))


def _float_bounds(value: float) -> Bounds:
    """The bounds of one number; a NaN has none."""
    return (value, value) if value == value else (None, None)


def _bounds_of(buckets: Iterable[Bucket]) -> Iterator[tuple[Bounds, int]]:
    return (((bucket.low, bucket.high), bucket.count) for bucket in buckets)


def _add_stats(run: Run, name: str, key: str, count: int, total: float) -> None:
    run.add_number(Label(f"{name}.count", key, COUNT), count)
    if count:
        run.numbers[Label(f"{name}.average", key, VALUE)] = total / count


# JSON ---------------------------------------------------------------------------------------------------------------

def _read_json(path: str, fields: Sequence[str]) -> Run:
    run = Run(path, 0.0, {}, {})
    with open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_LINE), b""), 1):
            if not line.strip():
                continue
            try:
                item = as_object(json.loads(line))
                _add_object(run, as_text(item["type"]), item.get("data"), fields)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise SondeError(f"{path} is neither a recording nor the output of -f json: line {number}") from None
    return run


def _add_object(run: Run, kind: str, data: Json, fields: Sequence[str]) -> None:
    if kind in ("map", "hist", "stats"):
        for name, held in as_object(data).items():
            _forget(run, name)  # for a map that is printed several times the last contents count
            _add_json_map(run, kind, name, held)
    elif kind == "row":
        run.add_number(Label("row", "", COUNT), 1)
        for name in fields:
            cell = as_object(data).get(name)
            if isinstance(cell, int) and type(cell) is int:
                run.add_buckets(Label(name, "", DISTRIBUTION), [((cell, cell + 1), 1)])
    elif kind in ("printf", "value"):
        run.add_number(Label(kind, "", COUNT), 1)
    elif kind == "run":
        about = as_object(data)
        run.seconds = float(str(about["seconds"]))
        run.title = f"{about['command']} on {about['host']}"


def _forget(run: Run, name: str) -> None:
    for held in (run.numbers, run.distributions):
        for label in [label for label in held if label.name.split(".")[0] == name]:
            del held[label]


def _add_json_map(run: Run, kind: str, name: str, held: Json) -> None:
    is_keyed = isinstance(held, dict) and not (kind == "stats" and held.keys() == {"count", "average", "total"})
    for key, value in as_object(held).items() if is_keyed else [("", held)]:
        if isinstance(value, list) and kind == "hist":
            run.add_buckets(Label(name, key, DISTRIBUTION), list(map(_read_bucket, map(as_object, value))))
        elif isinstance(value, dict) and kind == "stats":
            _add_stats(run, name, key, _number(value["count"]),
                       total if isinstance(total := value["total"], float) else _number(total))
        elif type(value) is int or isinstance(value, str) and value.lstrip("-").isdigit():
            run.add_number(Label(name, key, VALUE), _number(value))
        elif isinstance(value, float):
            run.add_number(Label(name, key, VALUE), value)


def _read_bucket(plain: JsonObject) -> tuple[Bounds, int]:
    low, high, below = plain.get("min"), plain.get("max"), plain.get("below")
    if isinstance(low, float) or isinstance(below, float):
        return (_fraction(low), _fraction(below)), _number(plain["count"])
    return (None if low is None else _number(low), None if high is None else _number(high) + 1), _number(plain["count"])


def _fraction(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _number(value: Json) -> int:
    """A whole number; JSON has large ones as strings."""
    return int(value if isinstance(value, int | float) else as_text(value))
