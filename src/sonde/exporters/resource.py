"""Whose figures, rows and profiles are sent: the attributes of a resource, by OpenTelemetry's semantic conventions.

    service.*     Sonde; the instance is the same whenever this command runs on this machine
    host.*, os.*  the machine
    process.*     the process of -p or -c
    container.*   the container of -C, or that in which the process of -p runs, and its pod (k8s.*)

OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME go before them.
"""

from __future__ import annotations

import os

from ..kernel.groups.cgroup_paths import Membership, read_cgroup_path
from ..kernel.groups.container_files import ContainerDescription, ContainerFiles
from ..output.views.csv import utf8
from ..types import GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from ..kernel.groups.lookup import Groups

Facts: TypeAlias = "dict[str, str | int]"

_ARCHES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm32", "i686": "x86"}
_MACHINE_ID = "/etc/machine-id"
_NAMESPACE = "4d63009a-8d0f-11ee-aad7-4c796ed8e320"  # of service.instance.id, as the conventions have it
_PROC_LINE = 4096  # bytes of /proc/PID/cgroup that are read
_MOST_SETTINGS = 128  # of OTEL_RESOURCE_ATTRIBUTES


class Resource:
    """The attributes of one run: of a script, limited to a ``process`` (0: none) or to a container, pod or service
    called ``group`` ("": none). Those of a container may become known only when it has started."""

    def __init__(self, script: str, command: str, process: int = 0, group: str = "") -> None:
        self._group = group
        self._groups: Groups | None = None
        self._facts = _machine_facts(script, command) | _process_facts(process)
        self._target: Facts = {}

    def facts(self) -> Facts:
        """All attributes, as far as they are known now."""
        if self._group and not self._target:
            from ..kernel.groups.lookup import Groups
            self._groups = self._groups or Groups()
            self._target = _group_facts(self._group, self._groups)
        return {name: utf8(fact) if isinstance(fact, str) else fact
                for name, fact in (self._facts | self._target | _user_facts()).items()}


def _machine_facts(script: str, command: str) -> Facts:
    from uuid import UUID, uuid5

    from ..base.version import __version__
    machine = os.uname()
    try:
        with open(_MACHINE_ID, encoding="ascii", errors="replace") as file:
            unique = file.read(64).strip()
    except OSError:
        unique = machine.nodename
    facts: Facts = {
        "service.name": "sonde", "service.version": __version__,
        "service.instance.id": str(uuid5(UUID(_NAMESPACE), f"{unique}\n{command}")),
        "host.name": machine.nodename, "host.arch": _ARCHES.get(machine.machine, machine.machine),
        "os.type": "linux", "os.version": machine.release, "sonde.command": command}
    return facts | ({"sonde.script": script} if script else {})


def _process_facts(pid: int) -> Facts:
    """What /proc says of the process that is traced, and of the container that it is in."""
    if not pid:
        return {}
    facts: Facts = {"process.pid": pid}
    try:
        path = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
        facts |= {"process.executable.path": path, "process.executable.name": os.path.basename(path)}
    except OSError:
        pass  # a thread of the kernel's, or gone
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(_PROC_LINE).splitlines()
    except OSError:
        return facts
    path = next((line[3:] for line in lines if line.startswith("0::")), "")
    belongs = read_cgroup_path(path)
    described = ContainerFiles().describe(belongs.container) if belongs.container else None
    return facts | _container_facts(belongs, described or ContainerDescription())


def _container_facts(belongs: Membership, described: ContainerDescription) -> Facts:
    namespace, _, pod = described.pod.rpartition("/")
    facts: Facts = {"container.id": belongs.container, "container.name": belongs.name or described.name,
                    "k8s.pod.uid": belongs.pod or described.uid, "k8s.pod.name": pod, "k8s.namespace.name": namespace}
    return {name: text for name, text in facts.items() if text}


def _group_facts(text: str, groups: Groups) -> Facts:
    """What the groups of a container, pod or service have in common."""
    common: Facts | None = None
    for group in groups.all_groups():
        if not any(groups.is_in(kind, text, group) for kind in GROUPS):
            continue
        identity = groups.identity_of(group)
        if identity is None:
            continue
        facts = _container_facts(identity.belongs, identity.described or ContainerDescription())
        common = facts if common is None else {
            name: each for name, each in common.items() if facts.get(name) == each}
    return common or {}


def _user_facts() -> Facts:
    """What the user's environment says, as the SDK reads it."""
    from urllib.parse import unquote
    facts: Facts = {}
    for setting in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")[:_MOST_SETTINGS]:
        name, equals, text = setting.partition("=")
        if equals and name.strip():
            facts[name.strip()] = unquote(text.strip())
    name = os.environ.get("OTEL_SERVICE_NAME", "")
    return facts | ({"service.name": name} if name else {})
