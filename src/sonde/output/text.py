"""Text output, as bpftrace prints it."""

from __future__ import annotations

from ..base.fast_stdlib import itemgetter
from ..base.words import divide_toward_zero
from ..source import show_expansion, show_location, shown_location
from .stream import NONE, Stream, Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from ..runtime.costs.statistics import ProbeCost
    from ..runtime.flight.dumps import Dump
    from ..runtime.losses import BudgetLosses, Losses
    from ..runtime.maps.full_maps import FullMap
    from ..runtime.provenance import Provenance
    from ..runtime.records.number_rows import NumberRows
    from ..runtime.records.values import Items, ScriptValue
    from ..source import Span
    from .format import Frame

# Characters that steer terminals, and how they are shown. Some terminals know those of C1 as single bytes too.
_PORTION = 1 << 13  # elements of a map that are made text at a time
CONTROLS = {c: f"\\x{c:02x}" for c in [*range(32), *range(127, 160)]}
_UNSAFE = {c: text for c, text in CONTROLS.items() if chr(c) not in "\n\t"} | {0xDC00 + c: CONTROLS[c]
                                                                           for c in range(128, 160)}
# Within a line nothing may end it, move a column, or change the order of what is shown; a backslash stands for itself
# only where no other character is written with one.
_FORGING = CONTROLS | _UNSAFE | {ord("\n"): "\\n", ord("\t"): "\\t", ord("\\"): "\\\\"} | {
    c: f"\\u{c:04x}" for c in (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))}


def terminal_safe(text: str) -> str:
    """Control characters as ``\\xNN``: what traced programs put into strings must not steer the terminal."""
    return text if text.isprintable() else text.translate(_UNSAFE)


def line_safe(text: str) -> str:
    """What a traced program put into a string as a part of one line, with ``\\n``, ``\\t``, ``\\xNN`` and ``\\\\``: no
    program can forge a line of its own."""
    return text if text.isprintable() and "\\" not in text else text.translate(_FORGING)


def encode_text(text: str) -> bytes:
    """Text to the bytes that it came from."""
    return text.encode("utf-8", "surrogateescape")


def _number_rows(items: Items) -> NumberRows | None:
    """The pairs as rows of numbers, which only large maps have; else None."""
    if isinstance(items, list):
        return None
    from ..runtime.records.number_rows import NumberRows
    return items if isinstance(items, NumberRows) else None


def sort_items(items: Items, top: int = 0) -> Items:
    """In the order of printing: by value for numbers and aggregates, then and for anything else by key; the last
    ``top``."""
    if (rows := _number_rows(items)) is not None:
        return rows.in_order(top)
    pairs = list(items)
    if not pairs:
        return pairs
    from ..runtime.maps.aggregates import Histogram, Stats
    from ..runtime.records.values import EnumValue
    # All that is asked of the values first: once they are sorted, their places in memory are anywhere.
    values = list(map(itemgetter(1), pairs))
    kinds = set(map(type, values))
    are_equal = kinds == {int} and values.count(values[0]) == len(values)
    del values
    pairs.sort(key=itemgetter(0) if _are_in_order([key for key, _ in pairs]) else lambda item: _key_order(item[0]))
    if are_equal:
        pass
    elif kinds == {int}:
        pairs.sort(key=itemgetter(1))
    elif all(issubclass(kind, Histogram) for kind in kinds):
        pairs.sort(key=lambda item: item[1].total if isinstance(item[1], Histogram) else 0)
    elif all(issubclass(kind, Stats) for kind in kinds):
        pairs.sort(key=lambda item: _key_order(item[1].average) if isinstance(item[1], Stats) else 0)
    elif all(issubclass(kind, float) for kind in kinds):
        pairs.sort(key=lambda item: _float_order(item[1]))
    elif all(kind is int or issubclass(kind, EnumValue) for kind in kinds):
        pairs.sort(key=lambda item: int(item[1]) if isinstance(item[1], int) else 0)
    return pairs[-top:] if top else pairs


def _are_in_order(keys: Sequence[Any]) -> bool:
    """Whether keys compare as :func:`_key_order` has it: numbers, texts of ASCII, and tuples of such of one length."""
    kinds = set(map(type, keys))
    if kinds == {str}:
        return "".join(keys).isascii()
    if kinds == {tuple} and len(set(map(len, keys))) == 1:
        return all(_are_in_order([key[at] for key in keys]) for at in range(len(keys[0])))
    return kinds == {int}


def _is_plain(values: Iterable[ScriptValue]) -> bool:
    """Whether all are numbers or texts, which print as they are."""
    return {int, str} >= set(map(type, values))


def _line_template(name: str, items: Items) -> str:
    """The form of a line, for ``key, value`` or ``*key, value``, of elements whose keys and values print as they are;
    "" of others."""
    keys: list[Any] = [key for key, _ in items]
    width = len(keys[0]) if set(map(type, keys)) == {tuple} and len(set(map(len, keys))) == 1 else 0
    parts = [[key[at] for key in keys] for at in range(width)] if width else [keys]
    plain = all(map(_is_plain, parts)) and _is_plain(map(itemgetter(1), items))
    return f"{name}[{', '.join(['%s'] * len(parts))}]: %s\n" if plain else ""


def _key_order(key: ScriptValue) -> float | bytes | tuple[Any, ...]:
    """Numbers by size, strings by their bytes, tuples by element; other keys stay in the kernel's order."""
    if isinstance(key, tuple):
        return tuple(map(_key_order, key))
    if isinstance(key, str):
        return encode_text(key)
    return key if isinstance(key, int) else _float_order(key)


def _float_order(value: ScriptValue) -> float:
    """A floating-point number by its size, a NaN last; 0 for anything else."""
    return (value if value == value else float("inf")) if isinstance(value, float) else 0


def divide_value(value: ScriptValue, div: int) -> ScriptValue:
    """``value`` with each of its plain numbers, or the average of stats(), by print()'s divisor."""
    if div <= 1:
        return value
    if type(value) is int:
        return divide_toward_zero(value, div)
    if isinstance(value, float):
        return value / div
    from ..runtime.maps.aggregates import Stats
    from ..runtime.records.values import ArrayValue, RecordValue, StructValue
    if isinstance(value, Stats):
        average = value.average / div if isinstance(value.average, float) else divide_toward_zero(value.average, div)
        return Stats(value.count, average, value.total)
    if isinstance(value, StructValue):
        return StructValue({name: divide_value(member, div) for name, member in value.items()})
    if type(value) is tuple or isinstance(value, ArrayValue | RecordValue):
        return type(value)([divide_value(element, div) for element in value])
    return value


class TextOutput(Streams):
    """Prints to ``out``, and what is about the tracer itself to ``err``.

    Values from traced programs are parts of a line, on a terminal, in a pipe and in a file; of what is shown as it is
    (cat(), ``%#s``) only what steers a terminal is escaped on one. ``quiet`` (-q) silences the attach message.
    """

    takes_rows = False
    frame: Frame | None = None

    def __init__(self, out: Stream, err: Stream, quiet: bool = False) -> None:
        super().__init__(out, err, quiet)
        self.escape: Callable[[str], str] | None = line_safe
        self.escape_lines = terminal_safe if out.terminal else None
        self.write_text = self.write_texts = out.write  # printf: its text goes straight to the stream
        self.joins_text = out.buffering != NONE

    # About the tracer ---------------------------------------------------------------------------------------------

    def report_attached(self, probes: int) -> None:
        """All probes are attached."""
        if not self.quiet:
            self.write_note(f"Attached {probes} probe{'' if probes == 1 else 's'}")

    def report_lost_events(self, count: int) -> None:
        """So many records found their ring full."""
        self.write_note(f"Lost {count} events")

    def report_withheld(self, withheld: BudgetLosses) -> None:
        """What a budget kept back."""
        first, *others = withheld.sentences
        self.write_note("\n".join([f"WARNING: {first}", *[f"  {line}" for line in others]]))

    def report_unreturned(self, losses: Losses) -> None:
        """How many calls did not return."""
        self.write_note(losses.unreturned_line)

    def report_full_map(self, full: FullMap) -> None:
        """A map has no room for more keys."""
        self.write_note(f"WARNING: {full}")

    def write_note(self, message: str) -> None:
        """Write a line to stderr, after what has been printed so far."""
        self._write_error_line(terminal_safe(message))

    def _write_error_line(self, message: str) -> None:
        self.out.flush(True)
        self.err.write(encode_text(message + "\n"))
        self.err.flush(True)

    def report_runtime_error(self, message: str, span: Span | None, helper: str = "", retcode: int = 0,
                             count: int = 1) -> None:
        """Something went wrong in a program; ``helper`` names the kernel function that said so."""
        self.write_note(failure_message(message, span, helper, retcode, count))

    def report_located(self, severity: str, text: bytes, span: Span | None) -> None:
        """errorf() and warnf(): severity is ERROR or WARNING. In a macro the calls that led there follow."""
        span = shown_location(span)
        location = f"{span}: " if span is not None else ""
        message = f"{location}{severity}: {text.decode('utf-8', 'surrogateescape')}"
        self._write_error_line("\n".join([message, *show_expansion(span, severity)]))

    def report_statistics(self, costs: Sequence[ProbeCost]) -> None:
        """--stats: what each program cost (runtime.costs.statistics.ProbeCost)."""
        from .statistics import cost_lines
        for line in cost_lines(costs):
            self.write_note(line)

    def write_provenance(self, run: Provenance) -> None:
        """Which run a file shows, and what was lost."""
        self.out.write(encode_text("".join([f"# {line}\n" for line in run.lines])))

    def write_dump_head(self, dump: Dump) -> None:
        """Why a dump of flight memory was made, and what is in it."""
        self.out.write(encode_text("".join([f"# {terminal_safe(line)}\n" for line in dump.lines])))

    def write_separator(self) -> None:
        """What separates the script's own output from its maps at the end."""
        self.out.write(b"\n\n")

    # From the script ------------------------------------------------------------------------------------------------

    def write_time(self, text: str) -> None:
        self.out.write(encode_text(text))

    def write_joined(self, text: str) -> None:
        self.out.write(encode_text(text + "\n"))

    def write_file_content(self, content: bytes) -> None:
        self.out.write(encode_text(self.escape_lines(content.decode("utf-8", "surrogateescape"))) if self.escape_lines
                       else content)

    def write_command_output(self, output: bytes, more: bool = False) -> None:
        """What a command printed; ``more`` follows."""
        self.out.write(output if more else output + b"\n")

    def write_value(self, value: ScriptValue) -> None:
        """print(value)."""
        from ..runtime.records.values import to_text
        self.out.write(encode_text(to_text(value, line_safe) + "\n"))

    def write_map(self, name: str, items: Items, top: int = 0, div: int = 1, kind: str = "map",
                  incomplete: bool = False) -> None:
        """A map, whole or its ``top`` entries; nothing of an empty one. ``incomplete``: a line before it says so."""
        if not items:
            return
        from ..runtime.maps.aggregates import Drawing
        # The template first: as long as they are not sorted, the elements lie in memory one after the other.
        template = _line_template(name, items) if items and div <= 1 and isinstance(items, list) else ""
        shown = sort_items(items, top)
        if shown and incomplete:
            self.out.write(encode_text(f"{name} is incomplete:\n"))
        if shown and isinstance(shown[0][1], Drawing):
            return self._write_drawings(name, shown, div)
        if div <= 1 and (rows := _number_rows(shown)) is not None:
            return self._write_numbers(name, rows)
        for at in range(0, len(shown), _PORTION):
            text = "".join(_element_lines(name, shown[at:at + _PORTION], div, template))
            if not _is_harmless(text, len(shown[at:at + _PORTION])):
                text = "".join([_safe_line(name, key, divide_value(value, div)) for key, value in
                                shown[at:at + _PORTION]])
            self.out.write(encode_text(text))
            if at:
                self.out.flush()

    def _write_numbers(self, name: str, rows: NumberRows) -> None:
        for at in range(0, len(rows), _PORTION):
            self.out.write(rows[at:at + _PORTION].lines(name))
            if at:
                self.out.flush()

    def _write_drawings(self, name: str, items: Items, div: int) -> None:
        from ..runtime.maps.aggregates import Drawing
        for key, value in items:
            assert isinstance(value, Drawing)
            self.out.write(encode_text(f"{element_label(name, key, line_safe)}:\n{value.draw(div)}\n"))


def element_label(name: str, key: ScriptValue, escape: Callable[[str], str] | None = None) -> str:
    """``@x`` or ``@x[1, foo]``."""
    if key is None:
        return name
    from ..runtime.records.values import key_text
    return f"{name}[{key_text(key, escape)}]"


def _safe_line(name: str, key: ScriptValue, value: ScriptValue) -> str:
    from ..runtime.records.values import to_text
    return f"{element_label(name, key, line_safe)}: {to_text(value, line_safe)}\n"


def _is_harmless(text: str, lines: int) -> bool:
    """Whether a text has nothing to escape but the ends of its lines."""
    return text.count("\n") == lines and "\\" not in text and text.replace("\n", "").isprintable()


def _element_lines(name: str, items: Items, div: int, template: str) -> list[str]:
    """The lines of elements, by a template where there is one."""
    if not template:
        from ..runtime.records.values import key_text, to_text
        return [f"{name if key is None else f'{name}[{key_text(key)}]'}: {to_text(divide_value(value, div))}\n"
                for key, value in items]
    if type(items[0][0]) is tuple:
        return [template % (*key, value) for key, value in items if isinstance(key, tuple)]
    return list(map(template.__mod__, items))


def failure_message(message: str, span: Span | None, helper: str, retcode: int, count: int) -> str:
    """What went wrong in a program: where, what, how often, the line, an underline, the same of calls of macros."""
    from ..runtime.losses import with_times
    report = f"{with_times(message, count)}" + \
        (f"\nAdditional Info - helper: {helper}, retcode: {retcode}" if helper else "")
    if (span := shown_location(span)) is None:
        return f"WARNING: {report}"
    return "\n".join([*show_location(span, "WARNING", report), *show_expansion(span, "WARNING")])


class _Sink(Stream):
    """What is written goes to ``write``."""

    terminal = True  # so that control characters of traced programs are escaped

    def __init__(self, write: Callable[[bytes], object]) -> None:
        super().__init__(-1)
        self.write = write

    def flush(self, end: bool = False) -> None:
        """Nothing is held back."""


def text_output(write: Callable[[bytes], object]) -> TextOutput:
    """A text output to a function."""
    sink = _Sink(write)
    return TextOutput(sink, sink)
