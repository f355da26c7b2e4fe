"""What the current task belongs to: a container, a pod, a service. In the kernel each is the id of the control
group."""

from __future__ import annotations

from ..compiler.lower.calls import Builtin
from ..compiler.lower.groups import current_group
from ..types import Symbol


def _group(kind: str, documentation: str) -> Builtin:
    return Builtin(kind, Symbol(kind), documentation, scalar=lambda lo, node: current_group(lo))


ROWS = (
    _group("container", "Name of the current task's container, or 12 digits of its id; \"\" outside of containers."),
    _group("pod", "The current task's Kubernetes pod, as namespace/name, or its uid; \"\" outside of pods."),
    _group("service", "The current task's unit of systemd; \"\" if it is in none."),
)
