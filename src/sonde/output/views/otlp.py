"""``-f otlp``: stacks as OpenTelemetry profiles, for collectors and programs that read their files.

The signal is in development (profiles/v1development of OTLP's protocol, as of its release 1.9): what is written today
may not be read by a later collector. The message is ProfilesData, which has the same fields as
ExportProfilesServiceRequest.
"""

from __future__ import annotations

import os

from .pprof import value_type
from .stacks import KERNEL, Folded, StackView, split_samples
from .wire import fixed64, message, number, packed, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...runtime.provenance import Provenance
    from ...spec import MapSpec

# Fields of OTLP's messages: ProfilesData, ResourceProfiles and ScopeProfiles, Profile, Sample
_RESOURCE_PROFILES, _DICTIONARY = 1, 2
_SOURCE, _PROFILES = 1, 2            # the resource or scope, and what comes from it
_SAMPLE_TYPE, _SAMPLES, _TIME, _DURATION, _PROFILE_ID, _PROFILE_ATTRIBUTES = 1, 2, 3, 4, 7, 11
_STACK, _SAMPLE_ATTRIBUTES, _VALUES = 1, 2, 4
_MAPPINGS, _LOCATIONS, _FUNCTIONS, _LINKS, _TEXTS, _ATTRIBUTES, _STACKS = range(1, 8)  # of ProfilesDictionary
_FILENAME = 4                        # of Mapping
_LOCATION_MAPPING, _LINES, _LINE_FUNCTION = 1, 3, 1  # of Location and Line
_NAME, _SYSTEM_NAME = 1, 2           # of Function
_KEY, _VALUE, _STRING_VALUE = 1, 2, 1  # of KeyValue, KeyValueAndUnit, ValueType and AnyValue


class OtlpView(StackView):
    """One profile for each map."""

    binary = True

    def finish(self) -> None:
        shown = [named for named in self.spec.maps if named.name in self.map_names]
        self.write(encode_profiles(self.folded, shown, self.target.unit, self.run))


def encode_profiles(folded: Folded, maps: list[MapSpec], unit: str, run: Provenance | None,
                    resource: bytes = b"") -> bytes:
    """The ProfilesData message of maps keyed by stacks; ``unit`` is that of a single map's values, ``resource`` the
    encoded attributes where the run is not all that is known."""
    tables = _Dictionary()
    samples: list[list[bytes]] = [[] for _ in maps]
    for index, labels, functions, weight in split_samples(folded, maps):
        attributes = [tables.attribute(name, value) for name, value in labels]
        samples[index].append(message(_SAMPLES, number(_STACK, tables.stack(functions))
                                      + packed(_SAMPLE_ATTRIBUTES, attributes) + packed(_VALUES, [weight])))
    types = [value_type(named, unit if len(maps) == 1 else "") for named in maps]
    profiles = []
    for (kind, measured), rows in zip(types, samples):
        type = number(_KEY, tables.text(kind)) + number(_VALUE, tables.text(measured))
        content = message(_SAMPLE_TYPE, type) + b"".join(rows)
        if run is not None:
            content += fixed64(_TIME, run.started) + number(_DURATION, round(run.seconds * 1e9))
            content += packed(_PROFILE_ATTRIBUTES, [tables.attribute("sonde.lost", line) for line in run.lost])
        profiles.append(message(_PROFILES, content + message(_PROFILE_ID, os.urandom(16))))
    facts = {"service.name": "sonde"}
    if run is not None:
        facts |= {"host.name": run.host, "os.version": run.kernel, "sonde.command": run.command}
    resource = resource or b"".join([message(1, text(_KEY, key) + message(_VALUE, text(_STRING_VALUE, value)))
                         for key, value in facts.items()])
    scope = message(_SOURCE, text(1, "sonde"))
    source = message(_SOURCE, resource) + message(_PROFILES, scope + b"".join(profiles))
    return message(_RESOURCE_PROFILES, source) + message(_DICTIONARY, tables.encode())


class _Dictionary:
    """What samples refer to by number; number 0 of each table is what is not there."""

    def __init__(self) -> None:
        self._texts = {"": 0}
        self._functions: dict[str, int] = {}    # a location has the number of its function
        self._stacks: dict[tuple[str, ...], int] = {}
        self._attributes: dict[tuple[str, str], int] = {}

    def text(self, value: str) -> int:
        """The number of a text."""
        return self._texts.setdefault(value, len(self._texts))

    def attribute(self, name: str, value: str) -> int:
        """The number of an attribute."""
        return self._attributes.setdefault((name, value), len(self._attributes) + 1)

    def stack(self, frames: tuple[str, ...]) -> int:
        """The number of a stack, whose outermost frame is the first."""
        if not frames:
            return 0
        for frame in frames:
            self._functions.setdefault(frame, len(self._functions) + 1)
        return self._stacks.setdefault(frames, len(self._stacks) + 1)

    def encode(self) -> bytes:
        """The whole ProfilesDictionary."""
        entries = [message(_MAPPINGS, b""), message(_MAPPINGS, number(_FILENAME, self.text("[user]"))),
                   message(_MAPPINGS, number(_FILENAME, self.text("[kernel.kallsyms]"))),
                   message(_LOCATIONS, b""), message(_FUNCTIONS, b""), message(_LINKS, b""), message(_ATTRIBUTES, b""),
                   message(_STACKS, b"")]
        for frame, own in self._functions.items():
            name = self.text(frame.removesuffix(KERNEL))
            entries.append(message(_FUNCTIONS, number(_NAME, name) + number(_SYSTEM_NAME, name)))
            entries.append(message(_LOCATIONS, number(_LOCATION_MAPPING, 2 if frame.endswith(KERNEL) else 1)
                                   + message(_LINES, number(_LINE_FUNCTION, own))))
        for frames in self._stacks:
            entries.append(message(_STACKS, packed(1, [self._functions[frame] for frame in reversed(frames)])))
        for key, value in self._attributes:
            content = message(_STRING_VALUE, value.encode("utf-8", "replace"))
            entries.append(message(_ATTRIBUTES, number(_KEY, self.text(key)) + message(_VALUE, content)))
        return b"".join(entries) + b"".join([message(_TEXTS, each.encode("utf-8", "replace")) for each in self._texts])
