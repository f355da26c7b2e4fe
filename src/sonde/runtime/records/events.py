"""Event records and map elements as Python objects."""

from __future__ import annotations

from ...base.record import Value
from ...layouts.event_records import read_header
from ...spec import EventSite, MapSpec, ScriptSpec
from ...types import PYTHON, Aggregate, Int, Stack, Tuple, Type, round_up
from ..context import is_group
from ..maps.access import Map, RawItem, RawValue
from ..maps.aggregate_values import aggregate_value
from ..maps.aggregates import Histogram, Stats
from ..maps.merge import State, add_numbers, add_states
from .decoders import DecodeColumn, make_column_decoder, make_decoder
from .values import DecodingContext, Item, Items, ScriptValue, key_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


MANY = 1 << 15  # elements of a map whose reading may take long enough to say so


class Event(Value):
    """One record.

    ``kind`` is the site's (printf, print, join ...); ``args`` are the arguments; ``probe`` is the full name of
    the attach point that fired ("" if the record does not say); ``time`` is nanoseconds of the boot clock, 0 if
    the record only has its place after the one before it; ``site`` is the index into ScriptSpec.sites.
    """

    kind: str
    args: tuple[Any, ...]
    probe: str
    time: int
    site: int


class EventDecoder:
    """Decodes the records of a script; one function is compiled for each site when it first fires."""

    def __init__(self, spec: ScriptSpec, context: DecodingContext) -> None:
        self.spec = spec
        self.context = context
        self._sites: dict[int, Callable[[bytes, int], tuple[ScriptValue, ...]]] = {}

    def decode(self, buffer: bytes, offset: int = 0) -> Event:
        """The event of the record at ``offset``."""
        index, probe, time = read_header(buffer, offset)
        site = self.spec.sites[index]
        values = self._sites.get(index) or self._compile_site(index, site)
        name = self.spec.probes[probe] if probe < len(self.spec.probes) else ""
        return Event(site.kind, values(buffer, offset), name, time, index)

    def _compile_site(self, index: int, site: EventSite) -> Callable[[bytes, int], tuple[ScriptValue, ...]]:
        parts = [(make_decoder(field.type, self.context), field.offset) for field in site.fields]

        def decode_fields(buffer: bytes, offset: int) -> tuple[ScriptValue, ...]:
            return tuple([get(buffer, offset + at) for get, at in parts])
        self._sites[index] = decode_fields
        return decode_fields


class MapDecoder:
    """Decodes the elements of a script's map as :class:`sonde.runtime.maps.access.Map` reads them."""

    def __init__(self, spec: MapSpec, context: DecodingContext) -> None:
        assert spec.value is not None
        self._spec = spec
        self._context = context
        self._columns: tuple[DecodeColumn, DecodeColumn | None] | None = None
        self._key = make_decoder(spec.key, context) if spec.key is not None and not spec.memory else None
        self._aggregate = spec.value if isinstance(spec.value, Aggregate) else None
        self._value = make_decoder(spec.value, context) if self._aggregate is None else None

    def decode_key(self, raw: bytes) -> ScriptValue:
        """A key; None for the one element of a map without keys."""
        return self._key(raw, 0) if self._key is not None else None

    def decode_value(self, raw: RawValue) -> ScriptValue:
        """A value, from bytes or from an aggregate's merged words."""
        if isinstance(raw, bytes):
            assert self._value is not None
            return self._value(raw, 0)
        assert self._aggregate is not None
        value = aggregate_value(self._aggregate, raw)
        if self._aggregate.kind == "tseries" and not isinstance(value, int | float | Stats | Histogram):
            value.wall = round(self._context.wall_clock(0, "tai") / 1e9) * 1_000_000_000  # UTC - TAI: whole seconds
        return value

    @property
    def _value_step(self) -> int:
        """Bytes from one packed value to the next."""
        return round_up(self._spec.value_size, 8) if "percpu" in self._spec.type else self._spec.value_size

    def decode_columns(self, keys: bytes, values: bytes | Sequence[State]) -> list[Item]:
        """The pairs of packed keys, and as many values: packed, or of an aggregate its merged words."""
        assert self._spec.key is not None and self._spec.value is not None
        if self._columns is None:
            self._columns = (make_column_decoder(self._spec.key, self._context, self._spec.key_size),
                             make_column_decoder(self._spec.value, self._context, self._value_step)
                             if self._aggregate is None else None)
        of_keys, of_values = self._columns
        if isinstance(values, bytes):
            assert of_values is not None
            column = of_values(values)
            if isinstance(self._spec.value, Int):  # one object for equal numbers: they take more memory than their keys
                one: dict[ScriptValue, ScriptValue] = {}
                return list(zip(of_keys(keys), map(one.setdefault, column, column)))
            return list(zip(of_keys(keys), column))
        return list(zip(of_keys(keys), self._words_column(values)))

    def decode_numbers(self, keys: bytes, values: bytes | Sequence[State]) -> list[Sequence[Any]]:
        """The columns of packed keys and their values, of which all are numbers."""
        key, value, size = self._spec.key, self._spec.value, self._spec.key_size
        assert key is not None and value is not None
        parts = list(zip(key.of, key.offsets)) if isinstance(key, Tuple) else [(key, 0)]
        columns = [make_column_decoder(part, self._context, size, at)(keys) for part, at in parts]
        if isinstance(values, bytes):
            return [*columns, make_column_decoder(value, self._context, self._value_step)(values)]
        return [*columns, [words[0] for words in values]]

    def _words_column(self, states: Sequence[State]) -> list[ScriptValue]:
        assert self._aggregate is not None
        return [words[0] for words in states] if self._aggregate.kind == "count" \
            else [self.decode_value(words) for words in states]

    @property
    def has_names(self) -> bool:
        """Whether elements of different keys may belong together: those of a container's control groups do, and those
        of Python stacks that differ only in instructions of one line."""
        return self._spec.key is not None and (is_group(self._spec.key) or _has_lines(self._spec.key))

    def decode_items(self, raw: Sequence[RawItem]) -> list[Item]:
        """All (key, value) pairs. What belongs together is one of them, if it can be added up."""
        pairs = [(self.decode_key(key), value) for key, value in raw]
        if self.has_names and (self._aggregate is not None or self._spec.adds):
            pairs = self._merge_pairs(pairs)
        return [(key, self.decode_value(value)) for key, value in pairs]

    def _merge_pairs(self, pairs: list[tuple[ScriptValue, RawValue]]) -> list[tuple[ScriptValue, RawValue]]:
        """Pairs of raw values, with those of one name as one."""
        groups: dict[str, tuple[ScriptValue, list[RawValue]]] = {}
        for key, value in pairs:
            groups.setdefault(key_text(key), (key, []))[1].append(value)
        return [(key, values[0] if len(values) == 1 else self._add_values(values)) for key, values in groups.values()]

    def _add_values(self, values: list[RawValue]) -> RawValue:
        if self._aggregate is not None:
            return add_states(self._aggregate, [value for value in values if not isinstance(value, bytes)])
        return add_numbers([value for value in values if isinstance(value, bytes)], self._spec.value_size)


def _has_lines(type: Type) -> bool:
    """Whether values of the type are stacks of Python functions, which are shown by lines, or tuples with such."""
    if isinstance(type, Tuple):
        return any(map(_has_lines, type.of))
    return isinstance(type, Stack) and type.mode == PYTHON


class MapReader:
    """Reads maps as (key, value) pairs of Python values; ``maps`` are those of a session."""

    def __init__(self, maps: Mapping[str, Map], context: DecodingContext) -> None:
        self.maps = maps
        self.context = context
        self._decoders: dict[str, MapDecoder] = {}
        self.progress: Callable[[str, int, int], object] | None = None  # (map, elements read, of how many)

    def __call__(self, name: str, then: str = "") -> Items:
        """The pairs of a map; ``then`` is "clear" to empty it in the same step, "zero" to zero its values."""
        source = self.maps[name]
        if source.spec.memory or source.spec.key is None or self.map_decoder(name).has_names:
            items: Items = self.map_decoder(name).decode_items(self.read_raw(name, then))
        else:
            items = self._decode_columns(name, list(source.columns(then == "clear")))
            if then == "zero":
                source.zero()
        return [*items, *self(source.spec.short, then)] if source.spec.short else items

    def read_raw(self, name: str, then: str = "") -> list[RawItem]:
        """The elements of one map of the kernel, keys and plain values as bytes, aggregates as merged words."""
        source = self.maps[name]
        raw = source.read_and_clear() if then == "clear" else source.items()
        if then == "zero":
            source.zero()
        return raw

    def _decode_columns(self, name: str, pieces: list[tuple[bytes, bytes | list[State]]]) -> Items:
        """The pairs of a map; ``progress`` is told of one that takes a while, as it goes on and at the end."""
        decoder, size = self.map_decoder(name), self.maps[name].spec.key_size
        items: list[Item] = []
        whole = sum([len(keys) for keys, _ in pieces]) // size
        tell = self.progress if whole >= MANY else None
        rows = None
        if whole >= MANY:
            from .number_rows import make_rows
            rows = make_rows(self.maps[name].spec)
        while pieces:
            keys, values = pieces.pop(0)
            count = len(keys) // size
            width = len(values) // count if count else 1
            for at in range(0, count, MANY):
                part = keys[at * size:(at + MANY) * size], values[at * width:(at + MANY) * width]
                if rows is not None:
                    rows.append_columns(decoder.decode_numbers(*part))
                else:
                    items += decoder.decode_columns(*part)
                if tell is not None:
                    tell(name, len(items if rows is None else rows), whole)
        return items if rows is None else rows

    def map_decoder(self, name: str) -> MapDecoder:
        """The decoder of a map's elements, made when it is first needed."""
        known = self._decoders.get(name)
        if known is None:
            known = self._decoders[name] = MapDecoder(self.maps[name].spec, self.context)
        return known
