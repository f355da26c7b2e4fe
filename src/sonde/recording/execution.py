"""A script run over recorded events, one after another, by a machine in Python: all of the language that does not need
what a recording lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct as Layout
from sys import byteorder
from typing import Any

from .. import types as t
from ..base.words import INT_CODES
from ..kinds import SITE_KINDS, find_kind
from ..language.ast import Call, FieldAccess, Index, Node, Reference, Unary
from ..language.diagnostics import Diagnostics, nearest_names
from ..language.parser import parse_script
from ..layouts.event_records import read_time
from ..runtime.records.batch import Batch, Records
from ..semantics.callees import BuiltinRow, row_of
from ..semantics.nodes import Use, is_args, walk_nodes
from ..semantics.typed import CheckedProbe, CheckedScript
from ..source import Source
from ..spec import ErrorSite, ScriptSpec, TracepointFormat
from .bpf_machine import Machine
from .column_expressions import UnanswerableError
from .columns import NUMBER, TEXT, BlockOfRecords, Leaf, read_column
from .container import RecordingError
from .events import BUILTINS, FIELD, RecordedEvent
from .names import has_names
from .replay import Recording

LARGEST_CONTEXT = 1 << 16  # bytes of a tracepoint's record
PORTION = 1 << 18          # bytes of records that are handed out at once, about
_WITHOUT = ("args", "results", "has_cpid", "probe", "probetype")  # builtins that the compiler resolves by itself


def refuse_other_probes(source: Source, events: Sequence[str]) -> None:
    """UnanswerableError for probes that the recording does not have, whatever else is wrong with a script."""
    for clause in parse_script(source, Diagnostics()).clauses:
        for point in clause.points:
            kind = find_kind(point.parts[0]) if point.parts else None
            name = ":".join(["tracepoint", *point.parts[1:]])
            if kind is not None and kind.name not in ("begin", "end") \
                    and (kind.name != "tracepoint" or name not in events and "*" not in name):
                near = nearest_names(name, events)
                raise UnanswerableError(point.span, f"{point.text}, which it does not have",
                                        [f"did you mean {' or '.join(near[:2])}?"] if near else [])


def check_names(checked: CheckedScript, events: dict[str, RecordedEvent]) -> None:
    """UnanswerableError for what the recording does not have: other probes, builtins and arguments."""
    for probe in checked.probes:
        own = probe.attach[0].kind in ("begin", "end")
        for point in probe.clause.points:
            if "*" in point.text:
                raise UnanswerableError(point.span, "patterns: it has only some of the events that may match")
        for attach in probe.attach:
            if not own and attach.name not in events:
                raise UnanswerableError(probe.clause.span, f"{attach.name}, which it does not have")
        for tree in probe.trees:
            for node in walk_nodes(tree):
                _check_node(node, own, [] if own else [events[attach.name] for attach in probe.attach])


def _check_node(node: Node, own: bool, events: Sequence[RecordedEvent]) -> None:
    if isinstance(node, FieldAccess) and is_args(node.operand):
        for event in events:
            have = event.fields.get(FIELD + node.name)
            both = isinstance(have, t.Pointer) and isinstance(node.type, t.Pointer)  # what they point to is not kept
            if have is None or have != node.type and not both:
                raise UnanswerableError(node.span, f"args.{node.name}: {event.name} was recorded without it")
    elif isinstance(node, Unary) and node.op == "*" \
            or isinstance(node, FieldAccess | Index) and isinstance(node.operand.type, t.Pointer):
        raise UnanswerableError(node.span, "memory: it follows no pointers")
    elif isinstance(node, Call) and node.name in ("str", "buf") and node.args \
            and isinstance(getattr(node.args[0], "type", None), t.Pointer | t.Int) and node.const is None \
            and getattr(node.args[0], "const", None) is None:
        raise UnanswerableError(node.span, f"{node.name}: it has no memory")
    elif isinstance(node, Call) and (row := row_of(node)) is not None and row.machine:
        raise UnanswerableError(node.span, node.name)
    elif isinstance(node, Reference) and isinstance(node.callee, BuiltinRow) and node.callee.name not in _WITHOUT:
        if own or node.callee.name not in BUILTINS or isinstance(node, Call) and node.args:
            raise UnanswerableError(node.span, node.name)


def check_results(spec: ScriptSpec) -> None:
    """UnanswerableError for what a replay can neither carry out nor name."""
    for site in spec.sites:
        if not SITE_KINDS[site.kind].answers:
            raise UnanswerableError(site.span, f"{site.kind}()")
        if any(has_names(field.type) for field in site.fields):
            raise UnanswerableError(site.span, "names that it did not have to look up")
    for named in spec.maps:
        if any(type is not None and has_names(type) for type in (named.key, named.value)):
            raise UnanswerableError(named.span, "names that it did not have to look up")


def check_cpu(cpu: int, cpus: int) -> None:
    """RecordingError if a machine of ``cpus`` CPUs (1: the script does not ask for them) has none of this number."""
    if cpu >= cpus > 1:
        raise RecordingError(f"an event is of CPU {cpu}, and the machine had not so many")


class Runner:
    """What runs for each record of an event."""

    def __init__(self, event: RecordedEvent, form: TracepointFormat, probes: Sequence[CheckedProbe],
                 programs: list[int], machine: Machine) -> None:
        size = form.args.size
        if not 0 <= size <= LARGEST_CONTEXT:
            raise RecordingError("an event is larger than one can be")
        uses = [Use(tree) for probe in probes for tree in probe.trees]
        if any(use.fields is None for use in uses):
            raise UnanswerableError(probes[0].clause.span, "all of args at once")
        wanted = {name for use in uses for name in use.fields or ()}
        fields = sorted([field for field in form.args.fields if field.name in wanted], key=lambda field: field.offset)
        codes, end = "=", 0
        for field in fields:
            if field.offset < end or field.offset + field.type.size > size:
                raise RecordingError("an event's arguments are not where they can be")
            codes += f"{field.offset - end}x{_code(field.type)}"
            end = field.offset + field.type.size
        self.names = [*BUILTINS, *[FIELD + field.name for field in fields]]
        for name in BUILTINS:
            wants = t.Str if name == "comm" else t.Int
            if not isinstance(event.fields.get(name), wants):
                raise RecordingError("its events are none")
        self.event = event
        self._pack = Layout(codes).pack_into
        self._machine, self._programs = machine, programs
        self._context = machine.memory.add(max(size, 8))
        self._memory = machine.memory.regions[self._context >> 32]
        self._cpus = machine.cpus

    def run(self, row: tuple[Any, ...]) -> None:
        """Run the programs for one event."""
        machine = self._machine
        check_cpu(row[3], self._cpus)
        machine.now = row
        self._pack(self._memory, 0, *row[len(BUILTINS):])
        machine.run(self._programs, self._context)


def _code(type: t.Type) -> str:
    if isinstance(type, t.Str):
        return f"{type.size}s"
    return INT_CODES.get((type.size, bool(getattr(type, "signed", False))), f"{type.size}s")


class Execution:
    """A script, prepared to run over a recording. UnanswerableError, UsageError where it cannot."""

    def __init__(self, recording: Recording, checked: CheckedScript, spec: ScriptSpec,
                 events: dict[str, RecordedEvent], forms: dict[str, TracepointFormat], cpus: int, room: int) -> None:
        self.spec = spec
        self._recording = recording
        self.machine = Machine(spec, cpus, room, {})
        self.maps = self.machine.maps
        self._runners: dict[int, Runner] = {}
        for event in events.values():
            programs = self.machine.programs_of("tracepoint", event.name)
            probes = [probe for probe in checked.probes if any(a.name == event.name for a in probe.attach)]
            if programs:
                self._runners[event.site] = Runner(event, forms[event.name], probes, programs, self.machine)
        self.points = sum(len(probe.attach) for probe in checked.probes)
        self.status: int | None = None  # the argument of exit()
        self._exits = {number for number, site in enumerate(spec.sites) if site.kind == "exit"}
        self._controls = {number for number, site in enumerate(spec.sites) if site.control}

    def run(self) -> Iterator[Records]:
        """Run it; what it sends, split after each record that asks for something to be done at once."""
        self._run_own("begin")
        yield from self._take_sent()
        for portion in self._recording.portions():
            if self.status is not None:
                break
            if portion.records is not None:
                yield from self._run_block(portion.records)
                self._recording.context.moment = self.machine.now[0] or self._recording.context.moment
                yield Records()  # so that a view sees the maps as they are at this moment
        if not self._recording.truncated:
            self._run_own("end")
            yield from self._take_sent()

    def failures(self) -> list[tuple[ErrorSite, int]]:
        """Counts of failures."""
        return self.machine.failures()

    def empty_map(self, name: str, kind: str) -> None:
        """clear() or zero() a map."""
        self.maps[name].clear() if kind == "clear" else self.maps[name].zero()

    def _run_own(self, kind: str) -> None:
        machine = self.machine
        machine.now = (self._recording.context.moment, 0, 0, 0, 0, b"")
        machine.run(machine.programs_of(kind), machine.memory.add(8))

    def _run_block(self, block: BlockOfRecords) -> Iterator[Records]:
        runs: list[Callable[[tuple[Any, ...]], None] | None] = []
        rows: list[Iterator[tuple[Any, ...]]] = []
        for site, count, leaves, packed in block.site_columns():
            runner = self._runners.get(site)
            runs.append(runner.run if runner is not None else None)
            rows.append(self._rows(runner, count, leaves, packed) if runner is not None else iter(()))
        machine, due = self.machine, self.machine.produced + PORTION
        for index in block.order or [0] * block.count:
            run = runs[index]
            if run is None:
                continue
            run(next(rows[index]))
            if machine.urgent or machine.produced > due:
                yield from self._take_sent()
                due = machine.produced + PORTION
                if self.status is not None:
                    return
        yield from self._take_sent()

    def _rows(self, runner: Runner, count: int, leaves: Sequence[Leaf], packed: Sequence[bytes]) \
            -> Iterator[tuple[Any, ...]]:
        columns = []
        names = list(runner.event.fields)
        for name in runner.names:
            column, type = 2 + names.index(name), runner.event.fields[name]  # after the probe and the time
            leaf = leaves[column]
            if leaf.kind != (TEXT if isinstance(type, t.Str) else NUMBER):
                raise RecordingError("an event's columns are not those of its arguments")
            columns.append(read_column(leaf, packed[column], count, type))
        return zip(*columns)

    def _take_sent(self) -> Iterator[Records]:
        """The records that were sent, split after each that asks for something to be done at once."""
        machine = self.machine
        records, machine.sent[:], machine.urgent = machine.sent[:], [], False
        while records:
            end = next((at for at, record in enumerate(records, 1)
                        if int.from_bytes(record[:4], byteorder) in self._controls), len(records))
            part, records = records[:end], records[end:]
            site = int.from_bytes(part[-1][:4], byteorder)
            if site in self._exits:
                self._exit(part[-1], site)
            yield records_of(part)

    def _exit(self, record: bytes, site: int) -> None:
        field = self.spec.sites[site].fields[0]
        self.status = int.from_bytes(record[field.offset:field.offset + field.type.size], byteorder) & 255


def records_of(sent: Sequence[bytes]) -> Records:
    """Records that were sent, in the form that a session delivers."""
    offsets, at = [], 0
    for record in sent:
        offsets.append(at)
        at += len(record)
    times = [read_time(record, 0) for record in sent]
    return Records([Batch(0, b"".join(sent), times, [int.from_bytes(record[:4], byteorder) for record in sent],
                          offsets)])
