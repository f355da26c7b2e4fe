"""A map's contents as blocks of a recording: its keys and values as in the kernel, aggregates merged.

Layout of a block's data: u32 length, that many bytes of JSON (``map``, ``count``, ``key`` bytes, ``value`` bytes or
``words``, ``signed``, ``incomplete``, ``more``: another block continues), the keys, then the values: bytes, or u64 or
s64 words.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from struct import Struct as Layout

from ..base.json_checks import Json, JsonObject, as_integer
from ..base.record import Record
from ..runtime.maps.access import RawItem
from ..runtime.records.events import MapReader
from ..spec import MapSpec, ScriptSpec
from ..types import Aggregate
from .container import LARGEST, RecordingError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..runtime.records.values import Item

_LENGTH = Layout("<I")
_PIECE = 1 << 20  # bytes of a block, about
_OBJECT = 64       # bytes that an element takes beside its text: a list of nothing, with its place in another
MOST_JSON = 64 << 20  # bytes of one block's JSON once it is objects, at most; a recorder's has a megabyte of text


class MapSnapshot(Record):
    """What a map held at one moment."""

    items: list[RawItem]
    incomplete: bool = False


def pack_snapshot(named: MapSpec, snapshot: MapSnapshot) -> Iterator[bytes]:
    """The data of the blocks that hold a snapshot."""
    items = snapshot.items
    key_size = len(items[0][0]) if items else 0
    aggregate = named.value if isinstance(named.value, Aggregate) else None
    words = aggregate.words if aggregate is not None else 0
    value_size = 0 if aggregate is not None or not items else len(items[0][1])
    step = max(1, _PIECE // (key_size + value_size + 8 * words + 1))
    for at in range(0, max(len(items), 1), step):
        part = items[at:at + step]
        keys = b"".join([key for key, _ in part])
        signed = False
        if aggregate is not None:
            numbers = list(chain.from_iterable([value for _, value in part]))
            signed = min(numbers, default=0) < 0
            values = array("q" if signed else "Q", numbers).tobytes()
        else:
            values = b"".join([bytes(value) for _, value in part])
        yield pack_with_head({"map": named.name, "count": len(part), "key": key_size, "value": value_size,
                              "words": words, "signed": signed, "incomplete": snapshot.incomplete,
                              "more": at + step < len(items)}, keys + values)


def pack_with_head(head: Mapping[str, Json], data: bytes) -> bytes:
    """JSON and bytes after it."""
    text = json.dumps(head).encode()
    return _LENGTH.pack(len(text)) + text + data


def split_head(data: bytes) -> tuple[JsonObject, bytes]:
    """The JSON object at the head of a block's data, and the bytes after it."""
    length = int.from_bytes(data[:4], "little")
    head = read_json(data[4:4 + length])
    if len(data) < 4 + length or not isinstance(head, dict):
        raise RecordingError("a block has no head")
    return head, data[4 + length:]


def read_json(data: bytes) -> Json:
    """JSON; RecordingError if it is invalid, nested too deeply, or would take too much memory as objects."""
    if len(data) + _OBJECT * sum([data.count(sign) for sign in (b",", b"[", b"{", b":")]) > MOST_JSON:
        raise RecordingError("a block has too much JSON in it")
    try:
        plain: Json = json.loads(data)
        return plain
    except (ValueError, RecursionError):
        raise RecordingError("a text is no JSON") from None


class ItemReader(MapReader):
    """Reads maps element by element, as they are stored in a recording."""

    def __call__(self, name: str, then: str = "") -> list[Item]:
        items = self.map_decoder(name).decode_items(self.read_raw(name, then))
        short = self.maps[name].spec.short
        return items + self(short, then) if short else items


class SnapshotReader:
    """Assembles the snapshots of a moment; all of them take ``memory`` bytes at most."""

    def __init__(self, spec: ScriptSpec, memory: int) -> None:
        self._maps = {named.name: named for named in spec.maps}
        self._memory = memory
        self._room = memory
        self._open: MapSnapshot | None = None
        self._snapshots: dict[str, MapSnapshot] = {}

    def add_block(self, data: bytes) -> None:
        """Take the next block's data. RecordingError if it is not part of a snapshot."""
        head, rest = split_head(data)
        named = self._maps.get(str(head.get("map")))
        numbers = [as_integer(head.get(name), 0, LARGEST + 1) for name in ("count", "key", "value", "words")]
        if named is None:
            raise RecordingError("a snapshot is of no map of the script")
        self._room -= len(rest) + 100 * numbers[0]
        if self._room < 0:
            raise RecordingError("its maps are larger than there is room for", hints=["--memory gives them more room"])
        items = _split_items(named, numbers, bool(head.get("signed")), rest)
        if self._open is None:
            if named.name in self._snapshots:
                raise RecordingError("a snapshot comes twice")
            self._open = self._snapshots[named.name] = MapSnapshot([], head.get("incomplete") is True)
        elif self._snapshots.get(named.name) is not self._open:
            raise RecordingError("a snapshot does not go on")
        self._open.items += items
        if head.get("more") is not True:
            self._open = None

    def take(self) -> dict[str, MapSnapshot]:
        """The snapshots by map; starts over. RecordingError if one has no end."""
        if self._open is not None:
            raise RecordingError("a snapshot has no end")
        snapshots, self._snapshots, self._room = self._snapshots, {}, self._memory
        return snapshots


def _split_items(named: MapSpec, numbers: Sequence[int], signed: bool, rest: bytes) -> list[RawItem]:
    count, key, value, words = numbers
    aggregate = named.value if isinstance(named.value, Aggregate) else None
    if len(rest) != count * (key + value + 8 * words) or count and (
            named.key is not None and not named.memory and key < named.key.size
            or (words != aggregate.words if aggregate is not None else words or value < _size(named))):
        raise RecordingError("a snapshot is not as long as it should be")
    keys = [rest[at * key:(at + 1) * key] for at in range(count)]
    cells = rest[count * key:]
    if aggregate is None:
        return [(each, cells[at * value:(at + 1) * value]) for at, each in enumerate(keys)]
    numbers = array("q" if signed else "Q", cells).tolist()
    return [(each, tuple(numbers[at * words:(at + 1) * words])) for at, each in enumerate(keys)]


def _size(named: MapSpec) -> int:
    return named.value.size if named.value is not None else 0
