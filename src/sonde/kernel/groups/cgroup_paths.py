"""What the path of a control group says: the container, the pod and the systemd unit that its tasks belong to.

Every runtime writes the container's id into the name of a folder, each in its own way::

    docker       /docker/ID                       /system.slice/docker-ID.scope
    containerd   /kubepods/burstable/podUID/ID    /kubepods.slice/.../cri-containerd-ID.scope, X:cri-containerd:ID
    CRI-O        /kubepods/burstable/podUID/crio-ID  /kubepods.slice/.../crio-ID.scope
    podman       /libpod_parent/libpod-ID         /machine.slice/libpod-ID.scope, .../libpod-payload-ID
    LXC, LXD     /lxc/NAME                        /lxc.payload.NAME
    nspawn       /machine.slice/machine-NAME.scope  /machine.slice/systemd-nspawn@NAME.service

Only paths are looked at here, and any text may be one.
"""

from __future__ import annotations

import re

from ...base.record import Value

ID = 64       # hexadecimal digits of a container's id
SHORT_ID = 12  # of them, shown to the user

IS_ID = re.compile(r"[0-9a-f]{64}\Z")
_WITH_ID = re.compile(r"(?:[a-z][a-z0-9.-]*-)?(?P<id>[0-9a-f]{64})(?:\.scope)?\Z")
_SHIMS = re.compile(r"(?:libpod|crio)-conmon-")  # the container's monitor, which is outside of it
_LXC = re.compile(r"lxc\.payload\.(?P<name>.+)\Z")
_NSPAWN = re.compile(r"systemd-nspawn@(?P<name>.+)\.service\Z")
_MACHINE = re.compile(r"machine-(?P<name>.+)\.scope\Z")
_LIBVIRT_LXC = re.compile(r"lxc-\d+-(?P<name>.+)\Z")
_POD = re.compile(r"(?:.*[^a-z0-9])?pod(?P<uid>[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}"
                  r"|[0-9a-f]{32})(?:\.slice)?\Z")
_PODMAN_POD = re.compile(r"(?:.*-)?libpod_pod_(?P<uid>[0-9a-f]{64})(?:\.slice)?\Z")
_UNIT = re.compile(r".+\.(?:service|scope|socket|mount|swap|slice)\Z")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


class Membership(Value):
    """What a path says. ``container`` is an id of 64 digits, or the ``name`` is known and there is no id; ``depth`` is
    the number of folders down to the container, itself included. ``pod`` is its uid, ``service`` the unit's name; ""
    where there is none."""

    container: str = ""
    name: str = ""
    pod: str = ""
    service: str = ""
    depth: int = 0


def read_cgroup_path(path: str) -> Membership:
    """What a path of the hierarchy says. A container within a container counts as the outer one; of units the innermost
    counts, and a slice only if there is no other unit."""
    container = name = pod = service = part_of = ""
    depth = 0
    before = ""
    for at, folder in enumerate(path.split("/"), 1):
        if not depth:
            container, name = _container_of(folder, before)
            depth = at - 1 if container or name else 0
        pod = pod or _pod_of(folder)
        if _UNIT.match(folder):
            if folder.endswith(".slice"):
                part_of = folder
            else:
                service = folder
        before = folder
    return Membership(container, name, pod, _without_guard(service or part_of), depth)


def _container_of(folder: str, parent: str) -> tuple[str, str]:
    """(id, name) of the container that a folder belongs to; ("", "") if none."""
    if _SHIMS.match(folder):
        return "", ""
    match = _WITH_ID.match(folder.rpartition(":")[2])
    if match:
        return match["id"], ""
    for pattern in (_LXC, _NSPAWN):
        if match := pattern.match(folder):
            return "", unescape_unit(match["name"])
    if match := _MACHINE.match(folder):
        name = unescape_unit(match["name"])
        if name.startswith("qemu-"):
            return "", ""
        inner = _LIBVIRT_LXC.match(name)
        return "", inner["name"] if inner else name
    return ("", folder) if parent == "lxc" and folder else ("", "")


def _pod_of(folder: str) -> str:
    """The uid of the pod that a folder belongs to, with the dashes that names of slices cannot have."""
    match = _POD.match(folder.partition(":")[0]) or _PODMAN_POD.match(folder)
    return match["uid"].replace("_", "-") if match else ""


def _without_guard(unit: str) -> str:
    """The name without the ``_`` that systemd puts before a unit's name that could clash with a file of the
    kernel's."""
    return unit[1:] if unit.startswith("_") else unit


def unescape_unit(text: str) -> str:
    r"""A part of a unit's name as it was before systemd escaped it: ``\x2d`` is a dash."""
    raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    try:
        return raw.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return raw


def escape_unit(text: str) -> str:
    r"""A text as systemd escapes it for use in a unit's name; see systemd-escape(1)."""
    return "".join([chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in ":_.") and
                    not (at == 0 and byte == 0x2e) else "-" if byte == 0x2f else f"\\x{byte:02x}"
                    for at, byte in enumerate(text.encode("utf-8", "surrogateescape"))])


def folders_of_id(container: str) -> list[str]:
    """The possible names of the folder of the container with this id, wherever it is."""
    scopes = ("docker", "cri-containerd", "crio", "libpod", "nerdctl")
    return [container, f"crio-{container}", f"libpod-{container}", f"libpod-payload-{container}",
            *[f"{runtime}-{container}.scope" for runtime in scopes]]


def folders_of_name(name: str) -> list[str]:
    """The possible names of the folder of the container of this name, where no id is part of it."""
    unit = escape_unit(name)
    return list(dict.fromkeys([f"lxc.payload.{name}", f"machine-{unit}.scope", f"systemd-nspawn@{unit}.service"]))


def folders_of_pod(uid: str) -> list[str]:
    """The possible names of the folder of the pod with this uid, wherever it is."""
    plain = uid.replace("-", "_")
    return [] if not _pod_of(f"pod{uid}") else [
        f"pod{uid}", *[f"{head}kubepods-{kind}pod{plain}.slice" for head in ("", "kubelet-")
                       for kind in ("", "burstable-", "besteffort-")]]


def folders_of_service(unit: str) -> list[str]:
    """The possible names of the folder of the unit of this name."""
    return [unit, f"_{unit}"] if _UNIT.match(unit) else []
