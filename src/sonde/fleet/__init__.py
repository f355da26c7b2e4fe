"""Many hosts as one: ``sonde.fleet(hosts, script)`` and the command ``sonde fleet``.

A coordinator (:mod:`.state.coordinator`) connects (:mod:`.transport.connection`) to an agent on each host
(:mod:`.agent`). They exchange frames (:mod:`.transport.protocol`), and the results are merged (:mod:`.state.results`,
:mod:`sonde.merge`). The module can be called, as :func:`.trace.fleet`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trace import FleetTrace


class _Room(ModuleType):

    def __call__(self, *args: Any, **named: Any) -> FleetTrace:
        from .trace import fleet
        return fleet(*args, **named)


sys.modules[__name__].__class__ = _Room
