"""The container, pod and unit that paths of control groups tell."""

from __future__ import annotations

import random

import pytest

from sonde.kernel.groups.cgroup_paths import (
    Membership,
    escape_unit,
    folders_of_id,
    folders_of_name,
    folders_of_pod,
    folders_of_service,
    read_cgroup_path,
    unescape_unit,
)

A, B = "0123456789abcdef" * 4, "fedcba9876543210" * 4
UID = "1b2c3d4e-0a1b-2c3d-4e5f-60718293a4b5"
FLAT = UID.replace("-", "_")
STATIC = "8d12a7be1f0c43d99c65a4f3b2e1d0c9"
BURSTABLE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FLAT}.slice"

# path -> container's id, its name where that is in the path, pod's uid, unit
PATHS = {
    "/": ("", "", "", ""),
    "": ("", "", "", ""),
    f"/docker/{A}": (A, "", "", ""),
    f"/system.slice/docker-{A}.scope": (A, "", "", f"docker-{A}.scope"),
    f"/system.slice/docker-{A}.scope/system.slice/nginx.service": (A, "", "", "nginx.service"),
    f"/docker/{A}/docker/{B}": (A, "", "", ""),
    f"/ecs/task-1/{A}": (A, "", "", ""),
    f"/default/{A}": (A, "", "", ""),
    f"/system.slice/nerdctl-{A}.scope": (A, "", "", f"nerdctl-{A}.scope"),
    f"/kubepods/burstable/pod{UID}/{A}": (A, "", UID, ""),
    f"/kubepods/besteffort/pod{UID}": ("", "", UID, ""),
    f"/kubepods/pod{UID}/{A}": (A, "", UID, ""),
    f"/kubepods/pod{STATIC}/{A}": (A, "", STATIC, ""),
    f"{BURSTABLE}": ("", "", UID, f"kubepods-burstable-pod{FLAT}.slice"),
    f"{BURSTABLE}/cri-containerd-{A}.scope": (A, "", UID, f"cri-containerd-{A}.scope"),
    f"{BURSTABLE}/crio-{A}.scope": (A, "", UID, f"crio-{A}.scope"),
    f"{BURSTABLE}/crio-{A}.scope/container": (A, "", UID, f"crio-{A}.scope"),
    f"{BURSTABLE}/crio-conmon-{A}.scope": ("", "", UID, f"crio-conmon-{A}.scope"),
    f"{BURSTABLE}/docker-{A}.scope": (A, "", UID, f"docker-{A}.scope"),
    f"/kubepods.slice/kubepods-pod{FLAT}.slice/cri-containerd-{A}.scope": (A, "", UID, f"cri-containerd-{A}.scope"),
    f"/system.slice/containerd.service/kubepods-burstable-pod{FLAT}.slice:cri-containerd:{A}":
        (A, "", UID, "containerd.service"),
    f"/docker/{A}/kubelet/kubepods/burstable/pod{UID}/{B}": (A, "", UID, ""),
    f"/docker/{A}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{FLAT}.slice/cri-containerd-{B}.scope":
        (A, "", UID, f"cri-containerd-{B}.scope"),
    f"/kubepods/burstable/pod{UID}/crio-{A}": (A, "", UID, ""),
    f"/machine.slice/libpod-{A}.scope": (A, "", "", f"libpod-{A}.scope"),
    f"/machine.slice/libpod-{A}.scope/container": (A, "", "", f"libpod-{A}.scope"),
    f"/machine.slice/libpod-conmon-{A}.scope": ("", "", "", f"libpod-conmon-{A}.scope"),
    f"/libpod_parent/libpod-{A}": (A, "", "", ""),
    f"/system.slice/web.service/libpod-payload-{A}": (A, "", "", "web.service"),
    f"/machine.slice/machine-libpod_pod_{B}.slice/libpod-{A}.scope": (A, "", B, f"libpod-{A}.scope"),
    f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope": (A, "", "", f"libpod-{A}.scope"),
    "/lxc/web": ("", "web", "", ""),
    "/lxc/101/ns/system.slice/cron.service": ("", "101", "", "cron.service"),
    "/lxc.payload.web": ("", "web", "", ""),
    "/lxc.payload.web/init.scope": ("", "web", "", "init.scope"),
    "/lxc.monitor.web": ("", "", "", ""),
    "/machine.slice/machine-deb.scope/payload/init.scope": ("", "deb", "", "init.scope"),
    r"/machine.slice/machine-my\x2dbox.scope": ("", "my-box", "", r"machine-my\x2dbox.scope"),
    r"/machine.slice/machine-qemu\x2d1\x2dvm.scope": ("", "", "", r"machine-qemu\x2d1\x2dvm.scope"),
    r"/machine.slice/machine-lxc\x2d4711\x2dbox.scope": ("", "box", "", r"machine-lxc\x2d4711\x2dbox.scope"),
    r"/machine.slice/systemd-nspawn@my\x2dbox.service/payload": ("", "my-box", "", r"systemd-nspawn@my\x2dbox.service"),
    "/init.scope": ("", "", "", "init.scope"),
    "/system.slice": ("", "", "", "system.slice"),
    "/system.slice/nginx.service": ("", "", "", "nginx.service"),
    "/system.slice/system-getty.slice/getty@tty1.service": ("", "", "", "getty@tty1.service"),
    r"/system.slice/system-systemd\x2dfsck.slice/systemd-fsck@dev-disk-by\x2duuid-1.service":
        ("", "", "", r"systemd-fsck@dev-disk-by\x2duuid-1.service"),
    "/system.slice/_cgroup.service": ("", "", "", "cgroup.service"),
    "/system.slice/docker.service/inner": ("", "", "", "docker.service"),
    "/user.slice/user-1000.slice/session-3.scope": ("", "", "", "session-3.scope"),
    "/user.slice/user-1000.slice/user@1000.service/app.slice/firefox.service": ("", "", "", "firefox.service"),
    "/system.slice/boot.mount": ("", "", "", "boot.mount"),
    f"/docker/{A[:63]}": ("", "", "", ""),
    f"/docker/{A}0": ("", "", "", ""),
    f"/docker/{A.upper()}": ("", "", "", ""),
    f"/podium/{UID}": ("", "", "", ""),
    "/tripod": ("", "", "", ""),
    "/lxc": ("", "", "", ""),
    "/lxc/": ("", "", "", ""),
}


@pytest.mark.parametrize("path", PATHS)
def test_path(path: str) -> None:
    found = read_cgroup_path(path)
    assert (found.container, found.name, found.pod, found.service) == PATHS[path]


def test_depth_leads_to_the_containers_own_group() -> None:
    for path, folder in ((f"/docker/{A}/x/y", f"/docker/{A}"), ("/lxc.payload.web/init.scope", "/lxc.payload.web"),
                         (f"/machine.slice/libpod-{A}.scope/container", f"/machine.slice/libpod-{A}.scope")):
        parts = path.split("/")
        assert "/".join(parts[:read_cgroup_path(path).depth + 1]) == folder


def test_folders_are_found_again() -> None:
    for folder in folders_of_id(A):
        assert read_cgroup_path(f"/x/{folder}/y").container == A
    for name in ("web", "my-box", "a.b", "grün"):
        for folder in folders_of_name(name):
            assert read_cgroup_path(f"/x/{folder}").name == name
    for uid in (UID, STATIC):
        for folder in folders_of_pod(uid):
            assert read_cgroup_path(f"/x/{folder}").pod == uid
    for unit in ("nginx.service", "_odd.service", r"a\x2db@c.service", "session-1.scope"):
        assert read_cgroup_path(f"/x/{folders_of_service(unit)[-1]}").service == unit


def test_escape_is_undone() -> None:
    for text in ("my-box", "a.b", ".hidden", "grün", "x y", "a_b:c"):
        assert unescape_unit(escape_unit(text)) == text
    assert escape_unit("my-box") == r"my\x2dbox"


def test_any_text_is_a_path() -> None:
    rng = random.Random(17)
    pieces = ["/", "docker-", A, "pod", UID, ".scope", ".slice", ".service", "\\x2d", "\\xff", "lxc", "machine-", ":",
              "\n", "\udc80", "", "libpod_pod_"]
    for _ in range(5000):
        path = "".join(rng.choices(pieces, k=rng.randrange(9)))
        assert isinstance(read_cgroup_path(path), Membership)
