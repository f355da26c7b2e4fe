"""``--when '@errors > 10 within 1s'``: a condition on a map, checked from time to time in user space."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from operator import eq, ge, gt, le, lt

from ...errors import UsageError
from ...runtime.maps.aggregates import Stats
from ...spec import ScriptSpec
from ...types import Aggregate, Bool, Float, Int
from .settings import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...runtime.records.values import Items, ScriptValue

LOOK = 0.25      # s between two looks, unless the condition itself needs more
LOOKS = 10       # looks in the time of "within"
SHORTEST = 0.02  # s
SHARE = 100      # a slow look is followed by a pause of this many times its own time

_FORM = re.compile(r"""\s*(@\w*)(?:\[([^\]]*)\])?\s*(>=|<=|==|>|<)\s*(-?\d+)\s*(?:within\s+(\S+))?\s*""")
_KEY = re.compile(r"""\s*(?:(-?\d+)|"([^"]*)")\s*(?:,|$)""")
_TESTS: dict[str, Callable[[int | float, int], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le, "==": eq}


class MapCondition:
    """The condition in the text; UsageError if it is malformed, or the map does not exist or holds no numbers.

    Without ``within`` it holds when the value of any element (or of the one whose key is given) satisfies the
    comparison; with it, when the value's growth in that time does.
    """

    def __init__(self, text: str, spec: ScriptSpec) -> None:
        match = _FORM.fullmatch(text)
        if match is None:
            raise UsageError(f"--when takes a condition like '@errors > 10 within 1s', not '{text}'",
                             ["@map, @map[key]; > >= < <= ==; a whole number"])
        self.text = text.strip()
        self.map, key, self._test, number, within = match.groups()
        self._limit = int(number)
        self._window = parse_duration(within, "within") / 1e9 if within else 0.0
        self._key = _parse_key(key) if key is not None else None
        self._check_map(spec)
        self._seen: deque[tuple[float, dict[ScriptValue, int | float]]] = deque()
        self._held = False
        self._next = 0.0
        self._pause = min(LOOK, max(self._window / LOOKS, SHORTEST)) if within else LOOK

    def _check_map(self, spec: ScriptSpec) -> None:
        named = next((m for m in spec.maps if m.name == self.map), None)
        if named is None:
            raise UsageError(f"--when: the script has no map {self.map}",
                             [f"it has {', '.join(m.name for m in spec.shown_maps)}"] if spec.shown_maps else [])
        value = named.value
        has_number = value.row.number or value.kind == "stats" if isinstance(value, Aggregate) \
            else isinstance(value, Int | Float | Bool)
        if not has_number:
            raise UsageError(f"--when: {self.map} holds no numbers")
        if self._key is not None and named.key is None:
            raise UsageError(f"--when: {self.map} has no keys")

    @property
    def wait(self) -> float:
        """Seconds until the next check."""
        return max(0.0, self._next - time.monotonic())

    def begins(self, take_map: Callable[[str], Items]) -> bool:
        """Whether it has become true since the last check."""
        begun = time.monotonic()
        if begun < self._next:
            return False
        held, self._held = self._held, self._holds(begun, _read_numbers(take_map(self.map)))
        done = time.monotonic()
        self._next = done + max(self._pause, SHARE * (done - begun))
        return self._held and not held

    def _holds(self, now: float, values: dict[ScriptValue, int | float]) -> bool:
        before: dict[ScriptValue, int | float] = {}
        if self._window:
            seen = self._seen
            seen.append((now, values))
            while seen[0][0] < now - self._window:
                seen.popleft()
            if self._test in ("<", "<=", "==") and now - seen[0][0] < self._window - 2 * self._pause:
                return False  # there was no look for that long
            before = seen[0][1]
        test, keys = _TESTS[self._test], values.keys() if self._key is None else [self._key]
        return any(test(values.get(key, 0) - before.get(key, 0), self._limit) for key in keys)


def _parse_key(text: str) -> ScriptValue:
    parts: list[int | str] = []
    at = 0
    while at < len(text):
        match = _KEY.match(text, at)
        if match is None:
            break
        parts.append(int(match[1]) if match[1] is not None else match[2])
        at = match.end()
    if at < len(text) or not parts:
        raise UsageError(f"--when: keys are whole numbers and strings, not [{text}]")
    return tuple(parts) if len(parts) > 1 else parts[0]


def _read_numbers(items: Items) -> dict[ScriptValue, int | float]:
    return {key: value.average if isinstance(value, Stats) else value for key, value in items
            if isinstance(value, Stats | int | float)}
