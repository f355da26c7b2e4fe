"""Many hosts as one: ``sonde.fleet(hosts, script)`` and the command ``sonde fleet``.

A coordinator (:mod:`.coordinator`) reaches an agent on each host (:mod:`.agent`) by a connection (:mod:`.connection`);
they speak in frames (:mod:`.protocol`), and what they tell is merged (:mod:`.results`, :mod:`sonde.merge`). The module
can be called: it is what :func:`.trace.fleet` is.
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
