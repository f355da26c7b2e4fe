"""JSON output (-f json): one object per line, ``{"type": ..., "data": ...}``, in bpftrace's shapes."""

from __future__ import annotations

from os import strerror

from ..runtime.costs.statistics import ProbeCost
from ..runtime.maps.aggregates import Bucket, Drawing, Histogram, Stats
from ..runtime.maps.series import Series
from ..runtime.provenance import Provenance
from ..runtime.records.values import (
    ArrayValue,
    Buffer,
    EnumValue,
    Items,
    PointerValue,
    RecordValue,
    ScriptValue,
    StackTrace,
    StructValue,
    to_text,
)
from ..source import shown_location
from .format import HARMLESS, Frame
from .stream import NONE, Stream, Streams
from .text import CONTROLS, divide_value, encode_text, sort_items, terminal_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..runtime.flight.dumps import Dump
    from ..runtime.losses import BudgetLosses, Losses
    from ..runtime.maps.full_maps import FullMap
    from ..source import Span

_ESCAPES = {c: f"\\u{c:04x}" for c in CONTROLS} | {ord(c): e for c, e in zip('"\\\b\f\n\r\t', (
    '\\"', "\\\\", "\\b", "\\f", "\\n", "\\r", "\\t"))}


def quote_json(text: str) -> str:
    """A JSON string; bytes that are not UTF-8 become U+FFFD."""
    if not text.isascii():
        text = encode_text(text).decode("utf-8", "replace")
    return f'"{text.translate(_ESCAPES)}"'


def to_json(value: ScriptValue) -> str:
    """A value: numbers, booleans, arrays (also tuples) and objects (structs, records); all else is its text."""
    if type(value) is int or isinstance(value, PointerValue | EnumValue):
        return json_number(int(value))
    if type(value) is str:
        return quote_json(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(value) if value - value == 0 else f'"{value}"'  # JSON has no infinities and NaNs
    if type(value) is tuple or isinstance(value, ArrayValue):
        return f"[{','.join(map(to_json, value))}]"
    if isinstance(value, StructValue):
        return _json_object(value)
    if isinstance(value, RecordValue):
        return _json_object(value._asdict())
    if isinstance(value, Stats):
        return _json_object({"count": value.count, "average": value.average, "total": value.total})
    if isinstance(value, Histogram):
        return _json_buckets(value, 1)
    if isinstance(value, Series):
        return _json_series(value)
    if isinstance(value, Buffer):
        return f"[{','.join([str(b - (b >> 7 << 8)) for b in value])}]"
    return "null" if value is None else quote_json(to_text(value))


def json_number(value: int) -> str:
    """A number that readers of JSON, who have floating point, understand; as a string where it would be rounded."""
    return str(value) if abs(value) < 1 << 53 or int(float(value)) == value else f'"{value}"'


def _json_object(fields: Mapping[str, ScriptValue]) -> str:
    inner = ", ".join([f"{quote_json(name)}: {to_json(value)}" for name, value in fields.items()])
    return f"{{{inner}}}"


def _json_buckets(histogram: Histogram, div: int) -> str:
    div = div if histogram.divides else 1
    return f"[{','.join([_json_bucket(b, div) for b in histogram])}]"


def _json_series(series: Series) -> str:
    points = [f'{{"interval_start":"{series.format_date(p.start)}","value":{json_number(p.value)}}}'
              for p in series if p.value is not None]
    return f"[{','.join(points)}]"


def _json_bucket(bucket: Bucket, div: int) -> str:
    if not isinstance(bucket.low, int | None) or not isinstance(bucket.high, int | None):
        return _json_float_bucket(bucket, div)
    if bucket.low is bucket.high is None:
        return f'{{"nan": true, "count": {bucket.count // div}}}'
    low = "" if bucket.low is None else f'"min": {json_number(bucket.low)}, '
    high = "" if bucket.high is None else f'"max": {json_number(bucket.high - 1)}, '
    return f'{{{low}{high}"count": {bucket.count // div}}}'


def _json_float_bucket(bucket: Bucket, div: int) -> str:
    """Numbers with a fraction have no greatest one below a bound: "below" is the bound itself."""
    low = "" if bucket.low is None else f'"min": {float(bucket.low)}, '
    high = "" if bucket.high is None else f'"below": {float(bucket.high)}, '
    return f'{{{low}{high}"count": {bucket.count // div}}}'


def json_key(key: ScriptValue) -> str:
    """A map key as a member's name: its text, without spaces between elements."""
    if type(key) is tuple:
        return ",".join(map(_json_key_part, key))
    return _json_key_part(key)


def _json_key_part(key: ScriptValue) -> str:
    if isinstance(key, StackTrace):
        return key.render(0)
    if type(key) is tuple:
        return f"({','.join(map(_json_key_part, key))})"
    if isinstance(key, RecordValue | StructValue):
        fields = key._asdict() if isinstance(key, RecordValue) else key
        return f"{{{','.join([f'.{name}={_json_key_part(value)}' for name, value in fields.items()])}}}"
    return to_text(key)


def distinct_names(names: list[str]) -> list[str]:
    """JSON strings for the members of one object: what is in it already gets `` #2``, `` #3`` ... at its end. Keys that
    differ may print the same (bytes that are not UTF-8, stacks in the same functions, structs with different padding),
    and readers keep one of several members of a name."""
    taken, numbers = set[str](), dict[str, int]()
    for at, name in enumerate(names):
        while names[at] in taken:
            numbers[name] = numbers.get(name, 1) + 1
            names[at] = f'{name[:-1]} #{numbers[name]}"'
        taken.add(names[at])
    return names


class JsonOutput(Streams):
    """Prints objects to ``out``; the interface is TextOutput's."""

    # Nothing that a terminal could trip over survives the quoting.
    escape: Callable[[str], str] | None = None
    escape_lines: Callable[[str], str] | None = None
    takes_rows = True

    def __init__(self, out: Stream, err: Stream, quiet: bool = False) -> None:
        super().__init__(out, err, quiet)
        self.write_texts = out.write  # of many printf(), each in its frame
        self.joins_text = out.buffering != NONE
        self.frame = Frame('{"type": "printf", "data": "', '"}\n', lambda text: quote_json(text)[1:-1],
                           HARMLESS.replace(b'"', b""))

    def _write_message(self, kind: str, data: str, more: str = "") -> None:
        self.out.write(encode_text(f'{{"type": "{kind}"{more}, "data": {data}}}\n'))

    def _write_text_message(self, kind: str, data: bytes) -> None:
        self._write_message(kind, quote_json(data.decode("utf-8", "surrogateescape")))

    # About the tracer ---------------------------------------------------------------------------------------------

    def report_attached(self, probes: int) -> None:
        """All probes are attached."""
        if not self.quiet:
            self._write_message("attached_probes", f'{{"probes": {probes}}}', f', "count": {probes}')

    def report_lost_events(self, count: int) -> None:
        """So many records found their ring full."""
        self._write_message("lost_events", f'{{"events": {count}}}')

    def report_withheld(self, withheld: BudgetLosses) -> None:
        """What a budget kept back."""
        events, dropped = (", ".join([f"{quote_json(name)}: {count}" for name, count in rows])
                           for rows in (withheld.events, withheld.dropped))
        spent = withheld.spent_ns / max(withheld.traced_ns, 1)
        self._write_message("withheld",
                            f'{{"share": {withheld.share:g}, "spent": {spent:.6f}, '
                                  f'"seconds": {withheld.traced_ns / 1e9:.6f}, '
                                  f'"detached_seconds": {withheld.detached_ns / 1e9:.6f}, '
                                  f'"skipped": {{{events}}}, "dropped": {{{dropped}}}}}')

    def report_unreturned(self, losses: Losses) -> None:
        """How many calls did not return, by function."""
        calls = ", ".join([f"{quote_json(name)}: {count}" for name, count in losses.unreturned])
        self._write_message("unreturned_calls", f'{{"calls": {{{calls}}}, "at_least": {str(losses.at_least).lower()}}}')

    def report_full_map(self, full: FullMap) -> None:
        """A map has no room for more keys."""
        self._write_message("map_full", f'{{"map": {quote_json(full.map)}, "keys": {full.keys}, "count": {full.count}, '
                                        f'"remedy": {quote_json(full.remedy)}}}')
        self.out.flush(True)

    def write_note(self, message: str) -> None:
        """Write a line to stderr."""
        self.out.flush(True)
        self.err.write(encode_text(terminal_safe(message) + "\n"))
        self.err.flush(True)

    def report_runtime_error(self, message: str, span: Span | None, helper: str = "", retcode: int = 0,
                             count: int = 1) -> None:
        """Something went wrong in a program, ``count`` times; with a ``helper`` it is a helper_error that says what its
        code means."""
        message = strerror(-retcode) if helper else message
        more = f', "helper": {quote_json(helper)}, "retcode": {retcode}' if helper else ""
        more += f', "count": {count}' if count > 1 else ""
        self._write_located("helper_error" if helper else "runtime_error", message, more, span)

    def report_located(self, severity: str, text: bytes, span: Span | None) -> None:
        """errorf() and warnf(): severity is ERROR or WARNING."""
        kind = "errorf" if severity == "ERROR" else "warnf"
        self._write_located(kind, text.decode("utf-8", "surrogateescape"), "", span)

    def _write_located(self, kind: str, message: str, more: str, span: Span | None) -> None:
        """Messages with a place have their members side by side with ``type``, as bpftrace's have."""
        if (span := shown_location(span)) is not None:
            line, column = span.source.line_and_column(span.start)
            more += f', "filename": {quote_json(span.source.name)}, "line": {line}, "col": {column}'
        self.out.write(encode_text(f'{{"type": "{kind}", "msg": {quote_json(message)}{more}}}\n'))

    def report_statistics(self, costs: Sequence[ProbeCost]) -> None:
        """--stats: what each program cost (runtime.costs.statistics.ProbeCost)."""
        self._write_message("stats", _cost_json(costs))

    def write_provenance(self, run: Provenance) -> None:
        """Which run a file shows, and what was lost."""
        from json import dumps
        self._write_message("run", dumps(run.as_json()))

    def write_dump_head(self, dump: Dump) -> None:
        """Why a dump of flight memory was made, and what is in it."""
        from json import dumps
        self._write_message("dump", dumps(dump.as_json()))

    def write_separator(self) -> None:
        """Nothing separates the maps at the end from what went before."""

    # From the script ------------------------------------------------------------------------------------------------

    def write_text(self, text: bytes) -> None:
        """What printf() formatted."""
        self._write_text_message("printf", text)

    def write_heading(self, names: Sequence[str], table: str = "") -> None:
        """A tool's heading: its names are in each row."""

    def write_row(self, cells: Sequence[tuple[str, str, bool]], table: str = "") -> None:
        """A row: (column, text, whether it is a number) of each cell."""
        members = [f"{quote_json(name)}: {_json_cell(text) if number else quote_json(text)}"
                   for name, text, number in cells]
        self._write_message("row", f"{{{', '.join(members)}}}", f', "table": {quote_json(table)}' if table else "")

    def write_time(self, text: str) -> None:
        self._write_message("time", quote_json(text))

    def write_joined(self, text: str) -> None:
        self._write_message("join", quote_json(text))

    def write_file_content(self, content: bytes) -> None:
        self._write_text_message("cat", content)

    def write_command_output(self, output: bytes, more: bool = False) -> None:
        """What a command printed: one object, or several if it is long."""
        self._write_text_message("syscall", output)

    def write_value(self, value: ScriptValue) -> None:
        """print(value)."""
        self._write_message("value", to_json(value))

    def write_map(self, name: str, items: Items, top: int = 0, div: int = 1, kind: str = "map",
                  incomplete: bool = False) -> None:
        """A map, whole or its ``top`` entries; nothing at all for an empty one."""
        shown = sort_items(items, top)
        if not shown:
            return
        first = shown[0][1]
        kind = first.kind if isinstance(first, Drawing) else kind
        pairs = [(key, _json_buckets(value, div) if isinstance(value, Histogram) else to_json(divide_value(value, div)))
                 for key, value in shown]
        if pairs[0][0] is None:
            data = pairs[0][1]
        else:
            names = distinct_names([quote_json(json_key(key)) for key, _ in pairs])
            data = f"{{{', '.join([f'{name}: {text}' for name, (_, text) in zip(names, pairs)])}}}"
        self._write_message(kind, f"{{{quote_json(name)}: {data}}}", ', "incomplete": true' if incomplete else "")


def _json_cell(text: str) -> str:
    """A number's text, by :func:`json_number`."""
    return text if len(text) < 16 or "." in text else json_number(int(text))


def _cost_json(costs: Sequence[ProbeCost]) -> str:
    """The data of a "stats" object."""
    probes = [f'{{"probe": {quote_json(c.probe)}, "points": {c.points}, "how": {quote_json(c.method)}, '
              f'"runs": {c.runs}, "time_ns": {c.time_ns}, "ns_per_run": {c.mean:.1f}, "cpu_share": {c.share:.6f}, '
              f'"skipped": {c.skipped}, "lost": {c.lost}}}' for c in costs]
    return f'{{"seconds": {costs[0].seconds if costs else 0:.6f}, "probes": [{", ".join(probes)}]}}'
