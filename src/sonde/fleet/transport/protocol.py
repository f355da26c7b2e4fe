"""The frames between a coordinator and its agents.

::

    4 bytes   "SNDF"
    u8        version
    u8        kind: a row of KINDS
    u32 u32   bytes of the head, bytes of the body; everything is little-endian
    head      a JSON object: the fields of the kind, and "rows": how long each column of the body is
    body      the columns, one after another

Nothing in a frame is ever run. Whatever the bytes are, :class:`Decoder` gives frames that are as KINDS has them, or
raises ProtocolError; it holds one frame at most.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import mul
from typing import Any, TypeAlias

from ...base.json_checks import Json, JsonObject, as_integers
from ...base.record import Record
from ...errors import SondeError
from ...merge.delta import Delta

VERSION = 2
MAGIC = b"SNDF"
LARGEST_HEAD = 1 << 18  # bytes
LARGEST_BODY = 1 << 24
PIECE_ROWS, PIECE_BYTES = 1 << 17, 1 << 22  # of a delta in one frame
_HEAD = struct.Struct("<4sBBII")
_SIZES = {"B": 1, "I": 4, "Q": 8}
_SAFE = 1 << 63  # no number of a head is larger

Check: TypeAlias = "Callable[[Json], bool]"
Column: TypeAlias = "bytes | array[int]"


class ProtocolError(SondeError):
    """Bytes that are no frame, or a frame that is not expected."""


class Frame(Record):
    """``columns`` are arrays of numbers, or bytes."""

    kind: str
    fields: JsonObject
    columns: list[Column] = []

    def __getitem__(self, name: str) -> Any:
        """A field, which is what KINDS has it to be."""
        return self.fields[name]

    def bytes_at(self, index: int) -> bytes:
        """A column of bytes."""
        column = self.columns[index]
        assert isinstance(column, bytes)
        return column

    def numbers_at(self, index: int) -> array[int]:
        """A column of numbers."""
        column = self.columns[index]
        assert isinstance(column, array)
        return column

    def texts_at(self, index: int) -> list[bytes]:
        """The texts of two columns, TEXTS; ProtocolError if they do not fit."""
        return unpack_texts(self.numbers_at(index), self.bytes_at(index + 1))


class FrameKind(Record):
    """A kind of frame: what its fields have to be, and its columns: I and Q of numbers (u32, u64), B of bytes."""

    name: str
    fields: dict[str, Check]
    columns: str = ""


# What fields are ----------------------------------------------------------------------------------------------------

def _is_number(value: Json) -> bool:
    return type(value) is int and -_SAFE <= value < _SAFE


def _is_count(value: Json) -> bool:
    return type(value) is int and 0 <= value < _SAFE


def _is_share(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 << 32


def _is_flag(value: Json) -> bool:
    return type(value) is bool


def _is_name(value: Json) -> bool:
    return type(value) is str and len(value) <= 256


def _is_text(value: Json) -> bool:
    return type(value) is str and len(value) <= 1 << 16


def _is_list(value: Json) -> bool:
    return isinstance(value, list) and len(value) <= 4096 and all(map(_is_text, value))


def _is_mapping(value: Json) -> bool:
    return isinstance(value, dict) and len(value) <= 4096 and all(map(_is_text, value.values()))


TEXTS = "IB"  # lengths, and all of them one after another
KINDS = [
    # to the agent
    FrameKind("run", {"run": _is_name, "name": _is_text, "tool": _is_flag, "params": _is_list, "named": _is_mapping,
                      "window": _is_share, "seconds": _is_share, "budget": _is_share, "unsafe": _is_flag,
                      "args": _is_flag, "table": _is_list, "live": _is_flag}, "B"),  # the script
    FrameKind("start", {"at": _is_count}),                # Unix nanoseconds by the agent's clock
    FrameKind("stop", {}),
    FrameKind("ping", {"sent": _is_count}),
    # from the agent
    FrameKind("hello", {"host": _is_name, "boot": _is_name, "kernel": _is_name, "machine": _is_name,
                        "sonde": _is_name}),
    FrameKind("pong", {"sent": _is_count, "wall": _is_count}),
    FrameKind("refused", {"message": _is_text, "hints": _is_list}),
    FrameKind("ready", {"warnings": _is_list}, "B"),      # the shape of the script, JSON
    FrameKind("started", {"wall": _is_count, "probes": _is_count}),
    # from the agent, numbered: each counts once
    # wall, site, probe; what was printed; arguments
    FrameKind("events", {"sequence": _is_count}, "QII" + TEXTS + TEXTS),
    FrameKind("map", {"sequence": _is_count, "map": _is_name, "site": _is_number, "turn": _is_count, "wall": _is_count,
                      "last": _is_flag, "incomplete": _is_flag}, TEXTS + "IIIIQI" + TEXTS),  # see Delta
    FrameKind("window", {"sequence": _is_count, "until": _is_count, "lost": _is_count, "losses": _is_list}),
    FrameKind("end", {"sequence": _is_count, "reason": _is_name, "status": _is_number, "seconds": _is_share}),
]
_BY_NAME = {kind.name: number for number, kind in enumerate(KINDS)}
TO_AGENT = frozenset({"run", "start", "stop", "ping"})
FROM_AGENT = frozenset(kind.name for kind in KINDS) - TO_AGENT


# Encoding -----------------------------------------------------------------------------------------------------------

def encode_frame(kind: str, columns: Sequence[Column] = (), **fields: Json) -> bytes:
    """The bytes of a frame."""
    from json import dumps
    head = dumps({**fields, "rows": [len(column) for column in columns]}, separators=(",", ":")).encode()
    body = b"".join([_column_bytes(column) for column in columns])
    return b"".join([_HEAD.pack(MAGIC, VERSION, _BY_NAME[kind], len(head), len(body)), head, body])


def _column_bytes(column: Column) -> bytes:
    if isinstance(column, array) and sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column.tobytes() if isinstance(column, array) else bytes(column)


def shorten_lines(lines: Sequence[str]) -> list[str]:
    """Lines for people, as many and as long as a frame has room for."""
    short = [line if len(line) <= 1000 else f"{line[:1000]}..." for line in lines[:100]]
    return short if len(lines) <= 100 else [*short, f"... and {len(lines) - 100} more"]


def pack_texts(texts: Sequence[bytes]) -> list[Column]:
    """Texts as two columns."""
    return [array("I", map(len, texts)), b"".join(texts)]


def unpack_texts(lengths: Sequence[int], joined: bytes) -> list[bytes]:
    """The texts of two columns; ProtocolError if they do not fit."""
    if sum(lengths) != len(joined):
        raise ProtocolError("texts of other lengths than it says")
    texts, at = [], 0
    for length in lengths:
        texts.append(joined[at:at + length])
        at += length
    return texts


def delta_columns(delta: Delta) -> list[Column]:
    """A delta as the columns of a ``map`` frame."""
    return [*pack_texts(delta.keys), delta.born, delta.gone, delta.key, delta.word, delta.number, delta.valued,
            *pack_texts(delta.texts)]


def read_delta(frame: Frame) -> Delta:
    """The delta of a ``map`` frame."""
    born, gone, key, word, number, valued = map(frame.numbers_at, range(2, 8))
    return Delta(frame.texts_at(0), born, gone, key, word, number, valued, frame.texts_at(8))


# Decoding -----------------------------------------------------------------------------------------------------------

class Decoder:
    """Frames of a stream of bytes. ``expected`` are the kinds that may come from this side."""

    def __init__(self, expected: frozenset[str]) -> None:
        self._expected = expected
        self._buffer = bytearray()

    def feed_bytes(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now. ProtocolError for what is none, after those before it; nothing is to be read
        after that."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= _HEAD.size:
            kind, head, body = self._read_lengths(at)
            start, end = at + _HEAD.size, at + _HEAD.size + head + body
            if len(buffer) < end:
                break
            yield _read_frame(kind, bytes(buffer[start:start + head]), bytes(buffer[start + head:end]))
            at = end
        del buffer[:at]

    @property
    def pending(self) -> bytes:
        """The beginning of a frame whose end has not come."""
        return bytes(self._buffer[:_HEAD.size])

    def _read_lengths(self, at: int) -> tuple[FrameKind, int, int]:
        magic, version, number, head, body = _HEAD.unpack_from(self._buffer, at)
        if magic != MAGIC:
            raise ProtocolError(f"no frame, but {bytes(self._buffer[at:at + 40])!r}")
        if version != VERSION:
            raise ProtocolError(f"protocol {version}, and this is {VERSION}", ["the same Sonde everywhere: --push"])
        if number >= len(KINDS) or KINDS[number].name not in self._expected:
            raise ProtocolError(f"a frame of kind {number}, which does not belong there")
        if head > LARGEST_HEAD or body > LARGEST_BODY:
            raise ProtocolError(f"a frame of {head} + {body} bytes: {LARGEST_HEAD} + {LARGEST_BODY} are the most")
        return KINDS[number], head, body


def _read_frame(kind: FrameKind, head: bytes, body: bytes) -> Frame:
    from json import loads
    try:
        fields: Json = loads(head)
    except (ValueError, RecursionError):
        raise ProtocolError(f"{kind.name}: no JSON") from None
    if not isinstance(fields, dict):
        raise ProtocolError(f"{kind.name}: no object")
    for name, check in kind.fields.items():
        if name not in fields or not check(fields[name]):
            raise ProtocolError(f"{kind.name}: no proper {name}")
    return Frame(kind.name, {name: fields[name] for name in kind.fields}, _read_columns(kind, fields.get("rows"), body))


def _read_columns(kind: FrameKind, rows: Json, body: bytes) -> list[Column]:
    try:
        counts = as_integers(rows, 0, _SAFE)
        size = sum(map(mul, map(_SIZES.__getitem__, kind.columns), counts))
        if len(counts) != len(kind.columns) or size != len(body):
            raise ValueError
    except ValueError:
        raise ProtocolError(f"{kind.name}: columns of other lengths than it says") from None
    columns: list[Column] = []
    at = 0
    for code, count in zip(kind.columns, counts):
        piece = body[at:at + _SIZES[code] * count]
        at += len(piece)
        columns.append(piece if code == "B" else _read_array(code, piece))
    return columns


def _read_array(code: str, piece: bytes) -> array[int]:
    column = array(code, piece)
    if sys.byteorder == "big":
        column.byteswap()
    return column
