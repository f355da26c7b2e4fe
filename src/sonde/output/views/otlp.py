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

_MAPPINGS, _LOCATIONS, _FUNCTIONS, _LINKS, _TEXTS, _ATTRIBUTES, _STACKS = range(1, 8)  # fields of the dictionary


class OtlpView(StackView):
    """One profile for each map."""

    binary = True

    def finish(self) -> None:
        shown = [named for named in self.spec.maps if named.name in self.map_names]
        self.write(encode_profiles(self.folded, shown, self.target.unit, self.run))


def encode_profiles(folded: Folded, maps: list[MapSpec], unit: str, run: Provenance | None) -> bytes:
    """The ProfilesData message of maps keyed by stacks; ``unit`` is that of a single map's values."""
    tables = _Dictionary()
    samples: list[list[bytes]] = [[] for _ in maps]
    for index, labels, functions, weight in split_samples(folded, maps):
        attributes = [tables.attribute(name, value) for name, value in labels]
        samples[index].append(message(2, number(1, tables.stack(functions)) + packed(2, attributes)
                                      + packed(4, [weight])))
    types = [value_type(named, unit if len(maps) == 1 else "") for named in maps]
    profiles = []
    for (kind, measured), rows in zip(types, samples):
        content = message(1, number(1, tables.text(kind)) + number(2, tables.text(measured))) + b"".join(rows)
        if run is not None:
            content += fixed64(3, run.started) + number(4, round(run.seconds * 1e9))
            content += packed(11, [tables.attribute("sonde.lost", line) for line in run.lost])
        profiles.append(message(2, content + message(7, os.urandom(16))))
    facts = {"service.name": "sonde"}
    if run is not None:
        facts |= {"host.name": run.host, "os.version": run.kernel, "sonde.command": run.command}
    resource = b"".join([message(1, text(1, key) + message(2, text(1, value))) for key, value in facts.items()])
    scope = message(1, text(1, "sonde"))
    return message(1, message(1, resource) + message(2, scope + b"".join(profiles))) + message(2, tables.encode())


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
        entries = [message(_MAPPINGS, b""), message(_MAPPINGS, number(4, self.text("[user]"))),
                   message(_MAPPINGS, number(4, self.text("[kernel.kallsyms]"))),
                   message(_LOCATIONS, b""), message(_FUNCTIONS, b""), message(_LINKS, b""), message(_ATTRIBUTES, b""),
                   message(_STACKS, b"")]
        for frame, own in self._functions.items():
            name = self.text(frame.removesuffix(KERNEL))
            entries.append(message(_FUNCTIONS, number(1, name) + number(2, name)))
            entries.append(message(_LOCATIONS, number(1, 2 if frame.endswith(KERNEL) else 1)
                                   + message(3, number(1, own))))
        for frames in self._stacks:
            entries.append(message(_STACKS, packed(1, [self._functions[frame] for frame in reversed(frames)])))
        for key, value in self._attributes:
            entries.append(message(_ATTRIBUTES, number(1, self.text(key)) + message(2, message(
                1, value.encode("utf-8", "replace")))))
        return b"".join(entries) + b"".join([message(_TEXTS, each.encode("utf-8", "replace")) for each in self._texts])
