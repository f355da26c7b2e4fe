"""Sonde: a tracer for Linux, from one-liner to tool, compiled in Python straight to eBPF."""

from __future__ import annotations

from .base.version import __version__

_ARCHIVE = getattr(__spec__.loader, "archive", "")
if _ARCHIVE:  # sonde.pyz: other modules are read from here on
    from .base.single_file import use_single_file
    use_single_file(_ARCHIVE)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .compiling import compile
    from .errors import (
        AttachError,
        CompileError,
        MachineError,
        MissingFeatureError,
        PrivilegeError,
        SondeError,
        SyscallError,
        UsageError,
        VerifierError,
    )
    from .fleet.trace import FleetTrace, fleet
    from .library.flight.reading import FlightDump
    from .library.map_view import MapView
    from .library.trace import Trace, trace
    from .objectives.verdict import Broken, ObjectiveError
    from .objectives.watch import Watch, watch
    from .runtime.losses import Losses
    from .runtime.maps.aggregates import Bucket, Histogram, LinearHistogram, Stats
    from .runtime.records.events import Event
    from .semantics.script_options import Options

# Where the names come from that are only imported when they are used: start-up stays short.
_LAZY = {
    "compile": "library.trace", "trace": "library.trace", "Trace": "library.trace", "MapView": "library.map_view",
    "Options": "semantics.script_options", "FleetTrace": "fleet.trace", "FlightDump": "library.flight.reading",
    "watch": "objectives.watch", "Watch": "objectives.watch", "Broken": "objectives.verdict",
    "ObjectiveError": "objectives.verdict", "Event": "runtime.records.events", "Losses": "runtime.losses",
    "Bucket": "runtime.maps.aggregates", "Histogram": "runtime.maps.aggregates",
    "LinearHistogram": "runtime.maps.aggregates", "Stats": "runtime.maps.aggregates",
} | dict.fromkeys(("AttachError", "CompileError", "MachineError", "MissingFeatureError", "PrivilegeError", "SondeError",
                   "SyscallError", "UsageError", "VerifierError"), "errors")

__all__ = [
    "AttachError",
    "Broken",
    "Bucket",
    "CompileError",
    "Event",
    "FleetTrace",
    "FlightDump",
    "Histogram",
    "LinearHistogram",
    "Losses",
    "MachineError",
    "MapView",
    "MissingFeatureError",
    "ObjectiveError",
    "Options",
    "PrivilegeError",
    "SondeError",
    "Stats",
    "SyscallError",
    "Trace",
    "UsageError",
    "VerifierError",
    "Watch",
    "__version__",
    "compile",
    "fleet",
    "trace",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name == "EnvironmentProblem":  # until 0.1
        from warnings import warn
        warn("sonde.EnvironmentProblem is now sonde.MachineError", DeprecationWarning, stacklevel=2)
        from .errors import MachineError
        return MachineError
    if name not in _LAZY and name != "fleet":  # "from . import cli" asks, too, before it imports
        raise AttributeError(f"module 'sonde' has no attribute {name!r}")
    from importlib import import_module
    if name == "fleet":  # the room itself, which can be called
        return import_module(".fleet", __name__)
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
