"""Sonde: a tracer for Linux, from one-liner to tool, compiled in Python straight to eBPF."""

from __future__ import annotations

from .errors import (
    AttachError,
    CompileError,
    EnvironmentProblem,
    MissingFeatureError,
    PrivilegeError,
    SondeError,
    SyscallError,
    UsageError,
    VerifierError,
)
from .version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .api import Trace, trace
    from .compiling import compile
    from .fleet.trace import FleetTrace, fleet
    from .flight.reading import FlightDump
    from .map_view import MapView
    from .runtime.aggregates import Bucket, Histogram, LinearHistogram, Stats
    from .runtime.events import Event
    from .runtime.losses import Losses
    from .semantics.options import Options

# Where the names come from that are only imported when they are used: start-up stays short.
_LAZY = {
    "compile": "api", "trace": "api", "Trace": "api", "MapView": "map_view", "Options": "semantics.options",
    "FleetTrace": "fleet.trace", "FlightDump": "flight.reading", "Event": "runtime.events", "Losses": "runtime.losses",
    "Bucket": "runtime.aggregates", "Histogram": "runtime.aggregates", "LinearHistogram": "runtime.aggregates",
    "Stats": "runtime.aggregates",
}

__all__ = [
    "AttachError",
    "Bucket",
    "CompileError",
    "EnvironmentProblem",
    "Event",
    "FleetTrace",
    "FlightDump",
    "Histogram",
    "LinearHistogram",
    "Losses",
    "MapView",
    "MissingFeatureError",
    "Options",
    "PrivilegeError",
    "SondeError",
    "Stats",
    "SyscallError",
    "Trace",
    "UsageError",
    "VerifierError",
    "__version__",
    "compile",
    "fleet",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY and name != "fleet":  # "from . import cli" asks, too, before it imports
        raise AttributeError(f"module 'sonde' has no attribute {name!r}")
    from importlib import import_module
    if name == "fleet":  # the room itself, which can be called
        return import_module(".fleet", __name__)
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
