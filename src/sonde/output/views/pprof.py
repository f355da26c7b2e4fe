"""``-f pprof``: stacks as a profile that pprof reads: profile.proto from its repository, compressed by gzip.

A sample is a stack with a value for each of the script's maps; the other parts of the maps' keys are its labels.
Functions are known only by name: there are no addresses left to look up again.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from ...kinds import KINDS
from ...spec import MapSpec, ProgramSpec
from ...types import Aggregate
from ..units import map_symbol
from .stacks import KERNEL, Folded, StackView, split_samples
from .wire import message, number, packed

# What pprof calls units; it knows how to convert these.
_UNITS = {"ns": "nanoseconds", "µs": "microseconds", "ms": "milliseconds", "s": "seconds", "B": "bytes",
          "KB": "kilobytes", "samples": "count"}
_USER, _KERNEL = 1, 2                 # ids of the mappings
# Fields of pprof's messages: Profile, ValueType and Label, Sample, Mapping, Location, Line, Function
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING_TABLE = range(1, 7)
_TIME_NANOS, _DURATION_NANOS, _PERIOD_TYPE, _PERIOD, _COMMENT = range(9, 14)
_KEY, _VALUE = 1, 2
_LOCATION_IDS, _VALUES, _LABEL = 1, 2, 3
_ID, _MAPPING_ID, _LINE, _FILENAME, _HAS_FUNCTIONS = 1, 2, 4, 5, 7
_FUNCTION_ID, _NAME, _SYSTEM_NAME = 1, 2, 3


class PprofView(StackView):
    """One profile of everything that was collected."""

    binary = True

    def finish(self) -> None:
        shown = [named for named in self.spec.maps if named.name in self.map_names]
        profile = _Profile(shown, [value_type(named, self.target.unit if len(shown) == 1 else "") for named in shown])
        profile.add_stacks(self.folded)
        profile.add_period(self.spec.programs)
        if self.run is not None:
            profile.add_run(self.run.started, round(self.run.seconds * 1e9), self.run.lines)
        self.write(gzip.compress(profile.encode(), mtime=0))


def value_type(named: MapSpec, unit: str) -> tuple[str, str]:
    """What the values of a map are, and their unit."""
    counts = isinstance(named.value, Aggregate) and (named.value.kind == "count" or named.value.row.buckets)
    unit = unit or ("" if counts else map_symbol(named))
    return named.name.removeprefix("@") or "samples", _UNITS.get(unit, unit) or "count"


class _Profile:
    """A Profile message in the making; the numbers of fields are profile.proto's."""

    def __init__(self, maps: list[MapSpec], types: list[tuple[str, str]]) -> None:
        self._maps = maps
        self._texts = {"": 0}
        self._functions: dict[tuple[str, int], int] = {}  # (name, mapping) -> id, of the location too
        self._body = bytearray()
        for kind, unit in types:
            self._body += message(_SAMPLE_TYPE, self._pair(kind, unit))
        for mapping, name in ((_USER, "[user]"), (_KERNEL, "[kernel.kallsyms]")):
            self._body += message(_MAPPING, number(_ID, mapping) + number(_FILENAME, self._text(name))
                                  + number(_HAS_FUNCTIONS, 1))

    def add_stacks(self, folded: Folded) -> None:
        """The samples."""
        values: dict[tuple[tuple[str, str], ...], dict[tuple[str, ...], list[int]]] = {}
        for index, labels, functions, weight in split_samples(folded, self._maps):
            values.setdefault(labels, {}).setdefault(functions, [0] * len(self._maps))[index] += weight
        for labels, stacks in values.items():
            tags = b"".join([message(_LABEL, self._pair(name, text)) for name, text in labels])
            for functions, weights in stacks.items():
                locations = [self._location(name) for name in reversed(functions)]
                self._body += message(_SAMPLE, packed(_LOCATION_IDS, locations) + packed(_VALUES, weights) + tags)

    def add_period(self, programs: Iterable[ProgramSpec]) -> None:
        """How much time a sample stands for, of a script that samples."""
        periods = {point.period for program in programs for point in program.attach if KINDS[point.kind].samples}
        others = any(not KINDS[point.kind].samples and not KINDS[point.kind].exempt
                     for program in programs for point in program.attach)
        if len(periods) == 1 and not others:
            self._body += message(_PERIOD_TYPE, self._pair("cpu", "nanoseconds")) + number(_PERIOD, periods.pop())

    def add_run(self, started: int, took: int, lines: Iterable[str]) -> None:
        """Which run it was, and what was lost in it."""
        self._body += number(_TIME_NANOS, started) + number(_DURATION_NANOS, took)
        self._body += packed(_COMMENT, map(self._text, lines))

    def encode(self) -> bytes:
        """The whole message."""
        body = bytearray(self._body)
        for (name, mapping), own in self._functions.items():
            text = self._text(name)
            body += message(_FUNCTION, number(_ID, own) + number(_NAME, text) + number(_SYSTEM_NAME, text))
            body += message(_LOCATION, number(_ID, own) + number(_MAPPING_ID, mapping)
                            + message(_LINE, number(_FUNCTION_ID, own)))
        return bytes(body) + b"".join([message(_STRING_TABLE, text.encode("utf-8", "replace")) for text in self._texts])

    def _location(self, frame: str) -> int:
        name = frame.removesuffix(KERNEL)
        return self._functions.setdefault((name, _USER if name == frame else _KERNEL), len(self._functions) + 1)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _pair(self, first: str, second: str) -> bytes:
        """Of two texts: a ValueType, a Label."""
        return number(_KEY, self._text(first)) + number(_VALUE, self._text(second))
