"""OTLP over HTTP without the SDK: messages that are sent, and what a collector says of them.

OTEL_EXPORTER_OTLP_HEADERS, and the variable of the one signal, give the headers that a collector asks for.
"""

from __future__ import annotations

import os

from ..base.record import Value
from ..output.views.wire import message, number, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .resource import Facts

TIMEOUT = 5.0  # s for one message
_ANSWER = 1 << 16  # bytes of an answer that are read
_LATER = (408, 429, 502, 503, 504)  # statuses of a collector that may take the same message later
_MOST_HEADERS = 64

# Fields of the common messages: KeyValue, AnyValue
_KEY, _VALUE = 1, 2
_STRING, _BOOL, _INT, _DOUBLE = 1, 2, 3, 4


class Answer(Value):
    """What became of a message: ``problem`` is "" if the collector took it, but for ``rejected`` of its parts;
    ``again``: it may take it later."""

    problem: str = ""
    again: bool = False
    rejected: int = 0


def post_message(endpoint: str, body: bytes, signal: str) -> Answer:
    """Send a message; ``signal`` is LOGS or PROFILES."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen
    headers = {"Content-Type": "application/x-protobuf", "User-Agent": "sonde", **user_headers(signal)}
    try:
        with urlopen(Request(endpoint, body, headers), timeout=TIMEOUT) as answer:
            return Answer(rejected=read_rejected(answer.read(_ANSWER)))
    except HTTPError as error:
        error.close()
        return Answer(f"answers with status {error.code}", error.code in _LATER)
    except ValueError:  # whose text would show the header, which is a secret
        return Answer("cannot be asked: OTEL_EXPORTER_OTLP_HEADERS has what is no header")
    except (OSError, HTTPException) as error:
        return Answer(f"cannot be reached: {getattr(error, 'reason', error)}", True)


def user_headers(signal: str) -> dict[str, str]:
    """The headers that the user's environment gives."""
    from urllib.parse import unquote
    headers: dict[str, str] = {}
    for variable in ("OTEL_EXPORTER_OTLP_HEADERS", f"OTEL_EXPORTER_OTLP_{signal}_HEADERS"):
        for setting in os.environ.get(variable, "").split(",")[:_MOST_HEADERS]:
            name, equals, value = setting.partition("=")
            if equals and name.strip():
                headers[name.strip()] = unquote(value.strip())
    return headers


def read_rejected(body: bytes) -> int:
    """How many parts a collector did not take: the first number of the first message in an Export...Response. 0 where
    the answer is no such message."""
    key, at = _read_varint(body, 0)
    if key != 1 << 3 | 2:
        return 0
    size, at = _read_varint(body, at)
    inner = body[at:at + size]
    key, at = _read_varint(inner, 0)
    return _read_varint(inner, at)[0] if key == 1 << 3 else 0


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(data[at:at + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, at + shift + 1
    return 0, len(data)


def any_value(value: object) -> bytes:
    """The content of an AnyValue: a flag, a number or a text; an integer that has no 64 bits with a sign is a text."""
    if isinstance(value, bool):
        return number(_BOOL, value, True)
    if isinstance(value, int) and -1 << 63 <= value < 1 << 63:
        return number(_INT, value, True)
    if isinstance(value, float):
        from ..output.views.wire import double
        return double(_DOUBLE, value)
    return message(_STRING, str(value).encode("utf-8", "replace"))


def key_values(field: int, facts: Facts | dict[str, object]) -> bytes:
    """Attributes, as fields of a message."""
    return b"".join([message(field, text(_KEY, key) + message(_VALUE, any_value(value)))
                     for key, value in facts.items()])
