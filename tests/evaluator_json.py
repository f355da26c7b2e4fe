"""What the evaluator's results are in JSON output: objects, written as json.dumps() writes them.

Empty buckets of histograms are left out here and, by :func:`canonical`, in what is compared with it.
"""

from __future__ import annotations

import json
from typing import Any

from evaluator_text import Aggregation, bucket_order, c_divide, divided, members, ordered, text
from sonde.types import Aggregate, Array, Bool, Buf, Enum, Int, Pointer, Struct, Tuple, Type


def message(kind: str, data: Any) -> str:
    """A line; bytes that are no text are U+FFFD in it."""
    found = json.dumps({"type": kind, "data": data}, ensure_ascii=False).encode("utf-8", "surrogateescape")
    return json.dumps(json.loads(found.decode("utf-8", "replace"))) + "\n"


def canonical(output: str) -> str:
    """Lines of JSON in one way of writing them; a line that is none is an error."""
    return "".join([json.dumps(json.loads(line, object_hook=_without_empty)) + "\n" for line in output.splitlines()])


def _without_empty(found: dict[str, Any]) -> dict[str, Any]:
    return {name: [item for item in value if not (isinstance(item, dict) and item.get("count") == 0)]
            if isinstance(value, list) else value for name, value in found.items()}


def data(value: Any, type: Type | None, div: int = 1) -> Any:
    """A value as JSON has it, its numbers divided."""
    if isinstance(value, Aggregation):
        return _aggregation(value, div)
    if isinstance(type, Tuple) and type.names:
        return {name: data(v, t, div) for name, v, t in zip(type.names, value, type.of)}
    if isinstance(type, Tuple):
        return [data(v, t, div) for v, t in zip(value, type.of)]
    if isinstance(type, Array):
        return [data(v, type.of, div) for v in value]
    if isinstance(type, Struct):
        return {name: data(v, t, div) for name, v, t in members(value, type)}
    if isinstance(type, Bool):
        return bool(value)
    if isinstance(type, Buf):
        return [b - 256 if b > 127 else b for b in value]
    if isinstance(type, Int):
        return _number(c_divide(value, div))
    return _number(value) if isinstance(type, (Enum, Pointer)) else text(value, type)


def _number(value: int) -> int | str:
    """What floating point cannot hold is a string."""
    return value if float(value) == value else str(value)


def _aggregation(value: Aggregation, div: int) -> Any:
    kind = value.type.kind
    if kind == "stats":
        average = c_divide(value.average(), max(1, div))
        return {"count": value.count, "average": _number(average), "total": _number(value.total)}
    if kind not in ("hist", "lhist"):
        return _number(int(divided(value, value.type, div)))
    found = []
    for (low, high), count in sorted(value.buckets.items(), key=bucket_order):
        bounds = {} if low is None else {"min": _number(low)}
        found.append(bounds | ({} if high is None else {"max": _number(high - 1)}) | {"count": count // max(1, div)})
    return [bucket for bucket in found if bucket["count"]]


def map_message(name: str, type: Type, key_type: Type | None, items: dict[Any, Any], top: int = 0, div: int = 1) -> str:
    """A map; nothing for an empty one."""
    shown = ordered(type, key_type, items, top)
    if not shown:
        return ""
    kinds = {"hist": "hist", "lhist": "hist", "stats": "stats", "avg": "stats"}
    kind = kinds.get(type.kind, "map") if isinstance(type, Aggregate) else "map"
    values = [_aggregation(value, div) if isinstance(value, Aggregation) else data(value, type, max(1, div))
              for _, value in shown]
    found: Any = values[0] if key_type is None else \
        {_key(key, key_type): value for (key, _), value in zip(shown, values)}
    return message(kind, {name: found})


def _key(key: Any, type: Type) -> str:
    """The text of a key, without spaces between its parts."""
    if isinstance(type, Tuple) and not type.names:
        return ",".join([_part(part, of) for part, of in zip(key, type.of)])
    return _part(key, type)


def _part(key: Any, type: Type) -> str:
    if isinstance(type, Tuple) and type.names:
        return f"{{{','.join([f'.{name}={_part(v, t)}' for name, v, t in zip(type.names, key, type.of)])}}}"
    if isinstance(type, Struct):
        return f"{{{','.join([f'.{name}={_part(v, t)}' for name, v, t in members(key, type)])}}}"
    return f"({_key(key, type)})" if isinstance(type, Tuple) else text(key, type)
