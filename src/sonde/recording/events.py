"""Events recorded in full, so that they can be queried later: the script that does it, and what the head says about
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from .. import types as t
from ..base.json_checks import Json, JsonObject, as_list, as_object, as_text
from ..base.record import Record
from ..errors import UsageError
from ..spec import ScriptSpec
from .container import RecordingError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..semantics.world import World

BUILTINS = ("nsecs", "pid", "tid", "cpu", "uid", "comm")
FIELD = "args_"  # prefix of a field's name
_KINDS = ("tracepoint", "t")


class RecordedEvent(Record):
    """A tracepoint whose events are all in the recording: ``fields`` are the types of what is kept of each, in the
    order of the columns, by the builtin's name or FIELD and the argument's."""

    name: str      # tracepoint:category:event
    format: str    # as in tracefs
    site: int
    fields: dict[str, t.Type]


def events_script(wanted: str, world: World) -> str:
    """The script that records the events of tracepoints, a comma-separated list of names or patterns, with all
    arguments that are numbers, pointers or strings of fixed length. UsageError for anything else."""
    return "".join([_event_clause(world, *name) for name in find_tracepoints(wanted, world)])


def find_tracepoints(wanted: str, world: World) -> list[tuple[str, str]]:
    """(category, event) of each."""
    tracepoints: dict[tuple[str, str], None] = {}
    for point in wanted.split(","):
        kind, _, pattern = point.strip().partition(":")
        if kind not in _KINDS or pattern.count(":") != 1:
            raise UsageError(f"--events takes tracepoint:CATEGORY:EVENT, not '{point}'",
                             ["events of other probes are recorded by a script"])
        names = [name for name in world.tracepoints() if fnmatchcase(":".join(name), pattern)]
        if not names:
            raise UsageError(f"nothing matches {point}")
        tracepoints |= dict.fromkeys(sorted(names))
    return list(tracepoints)


def _event_clause(world: World, category: str, event: str) -> str:
    values = [f"{name}={name}" for name in BUILTINS]
    values += [f"{FIELD}{name}=args.{name}" for name in recorded_arguments(world, category, event)]
    return f"tracepoint:{category}:{event} {{ print(({', '.join(values)})); }}\n"


def recorded_arguments(world: World, category: str, event: str) -> list[str]:
    """The arguments that columns can hold."""
    format = world.tracepoint_format(category, event)
    return [field.name for field in format.args.fields if not field.data_loc and not field.bit_size
            and isinstance(field.type, t.Int | t.Bool | t.Pointer | t.Str)] if format is not None else []


def plain_events(wanted: str, world: World) -> list[Json]:
    """What the head of a recording says about its events: one site for each, in this order."""
    from ..kernel.types.tracefs import find_tracefs, read_format
    return [{"name": f"tracepoint:{category}:{event}", "format": read_format(find_tracefs(), category, event)}
            for category, event in find_tracepoints(wanted, world)]


def read_events(plain: Json, spec: ScriptSpec) -> list[RecordedEvent]:
    """The events that a head describes. RecordingError if they are invalid; UsageError if there are none."""
    if plain is None:
        raise UsageError("the recording has no events that could be asked: it keeps what its script printed",
                         ["sonde record --events PROBE[,PROBE] keeps events whole"])
    events = [_read_event(each, number, spec) for number, each in enumerate(map(as_object, as_list(plain)))]
    if len(events) != len(spec.sites) or len({event.name for event in events}) != len(events):
        raise RecordingError("its events are not those of its script")
    return events


def _read_event(plain: JsonObject, number: int, spec: ScriptSpec) -> RecordedEvent:
    name, format = as_text(plain.get("name")), as_text(plain.get("format"))
    if name.count(":") != 2 or number >= len(spec.sites):
        raise RecordingError("its events are not those of its script")
    if spec.sites[number].kind != "print" or len(spec.sites[number].fields) != 1:
        raise RecordingError("its events are none")
    type = spec.sites[number].fields[0].type
    if not isinstance(type, t.Tuple) or len(type.names) != len(type.of) or len(set(type.names)) != len(type.names) \
            or any(isinstance(part, t.Tuple | t.Stack | t.USym) or not part.size for part in type.of):
        raise RecordingError("its events are none")
    return RecordedEvent(name, format, number, dict(zip(type.names, type.of)))


def tracepoint_names(events: Sequence[RecordedEvent]) -> Iterator[tuple[str, str]]:
    """(category, event) of each."""
    for event in events:
        _, category, name = event.name.split(":")
        yield category, name
