"""Containers by the files of their runtimes, in folders made as docker, containerd, podman and CRI-O make them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sonde.kernel.groups.container_files import LARGEST, ContainerDescription, ContainerFiles
from sonde.kernel.groups.lookup import Groups
from sonde.kernel.procfs import Cgroups

A, B, C, D = ("0123456789abcdef" * 4, "fedcba9876543210" * 4, "a5" * 32, "5a" * 32)
OTHER = "5e4d3c2b-1a0b-2c3d-4e5f-0123456789ab"
UID = "1b2c3d4e-0a1b-2c3d-4e5f-60718293a4b5"
CRI = {"io.kubernetes.cri.container-name": "api", "io.kubernetes.cri.container-type": "container",
       "io.kubernetes.cri.sandbox-name": "shop-7d4b9", "io.kubernetes.cri.sandbox-namespace": "prod",
       "io.kubernetes.cri.sandbox-uid": UID}


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A root folder with a container of each runtime."""
    write(tmp_path / f"var/lib/docker/containers/{A}/config.v2.json",
          {"ID": A, "Name": "/web", "Config": {"Labels": {"maintainer": "x"}}})
    write(tmp_path / f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{B}/config.json", {"annotations": CRI})
    storage = tmp_path / "var/lib/containers/storage/overlay-containers"
    write(storage / "containers.json", [{"id": C, "names": ["db"], "metadata": "{}"}, {"id": D, "names": ["k8s_x_y"]}])
    write(tmp_path / f"run/containers/storage/overlay-containers/{D}/userdata/config.json", {"annotations": {
        "io.kubernetes.container.name": "cache", "io.kubernetes.pod.name": "redis-0",
        "io.kubernetes.pod.namespace": "prod", "io.kubernetes.pod.uid": OTHER}})
    return tmp_path


def test_each_runtime(machine: Path) -> None:
    files = ContainerFiles(str(machine))
    assert files.describe(A) == ContainerDescription("web")
    assert files.describe(B) == ContainerDescription("api", "prod/shop-7d4b9", UID)
    assert files.describe(C) == ContainerDescription("db")
    assert files.describe(D) == ContainerDescription("cache", "prod/redis-0", OTHER)
    assert files.describe("00" * 32) is None
    assert sorted(files.ids()) == sorted([A, B, C, D])
    assert files.pods == {UID: "prod/shop-7d4b9", OTHER: "prod/redis-0"}


def test_kubernetes_over_docker_and_what_holds_a_pod(tmp_path: Path) -> None:
    labels = {"io.kubernetes.container.name": "api", "io.kubernetes.pod.name": "shop",
              "io.kubernetes.pod.namespace": "prod", "io.kubernetes.pod.uid": UID}
    write(tmp_path / f"var/lib/docker/containers/{A}/config.v2.json",
          {"Name": f"/k8s_api_shop_prod_{UID}_0", "Config": {"Labels": labels}})
    write(tmp_path / f"run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/{B}/config.json",
          {"annotations": CRI | {"io.kubernetes.cri.container-type": "sandbox"}})
    files = ContainerFiles(str(tmp_path))
    assert files.describe(A) == ContainerDescription("api", "prod/shop", UID)
    assert files.describe(B) == ContainerDescription("POD", "prod/shop-7d4b9", UID)


@pytest.mark.parametrize("content", [
    "", "[]", "{", "null", "7", '{"Name": 7, "Config": 1}', '{"Name": ["/x"], "Config": {"Labels": []}}', "[" * 100_000,
    '{"Name": "/' + "x" * 300 + '"}', "\x00", "{" + " " * LARGEST + "}"], ids=range(11))
def test_damaged_files_tell_nothing(tmp_path: Path, content: str) -> None:
    write(tmp_path / f"var/lib/docker/containers/{A}/config.v2.json", content)
    found = ContainerFiles(str(tmp_path)).describe(A)
    assert found is None or found == ContainerDescription()


def test_a_file_that_others_may_write_is_not_believed(machine: Path) -> None:
    path = machine / f"var/lib/docker/containers/{A}/config.v2.json"
    path.chmod(0o666)
    assert ContainerFiles(str(machine)).describe(A) is None


class Told(Cgroups):
    """Groups that are known from what was learned alone."""

    def _scan_hierarchy(self, wanted: int) -> list[tuple[str, str]]:
        return []


def test_names_of_groups(machine: Path) -> None:
    groups = Groups(Told(), ContainerFiles(str(machine)))
    pod = f"/kubepods/burstable/pod{UID}"
    for number, path in enumerate(["/", f"/docker/{A}/init", f"{pod}/{B}", pod, f"/docker/{'0' * 64}",
                                   "/lxc.payload.box", "/system.slice/cron.service"], 1):
        groups.learn(number, path)
    names = [(groups.name_of("container", n), groups.name_of("pod", n), groups.name_of("service", n))
             for n in range(1, 8)]
    assert names == [("", "", ""), ("web", "", ""), ("api", "prod/shop-7d4b9", ""), ("", "prod/shop-7d4b9", ""),
                     ("0" * 12, "", ""), ("box", "", ""), ("", "", "cron.service")]
    assert groups.name_of("container", 99) == "cgroup 99"


def test_what_a_filter_takes(machine: Path) -> None:
    groups = Groups(Told(), ContainerFiles(str(machine)))
    groups.learn(2, f"/docker/{A}/init")
    groups.learn(3, f"/kubepods/burstable/pod{UID}/{B}")
    groups.learn(4, f"/kubepods/burstable/pod{OTHER}")
    groups.learn(5, f"/docker/{'0' * 64}")
    groups.learn(6, "/lxc.payload.box/system.slice/cron.service")
    cases = {
        ("container", "web"): [True, False, False, None, False],
        ("container", A[:12]): [True, False, False, None, False],
        ("container", "0" * 64): [False, False, False, True, False], ("container", ""): [True, True, False, True, True],
        ("container", "box"): [False, False, False, None, True], ("pod", ""): [False, True, True, False, False],
        ("pod", "shop-7d4b9"): [False, True, None, False, False], ("pod", UID): [False, True, None, False, False],
        ("pod", "prod/shop-7d4b9"): [False, True, None, False, False],
        ("service", "cron.service"): [False, False, False, False, True],
        ("service", "nginx.service"): [False, False, False, False, False],
        ("service", ""): [False, False, False, False, True],
    }
    for (kind, text), expected in cases.items():
        assert [groups.is_in(kind, text, group) for group in range(2, 7)] == expected, (kind, text)
    assert groups.is_in("container", "web", 99) is None


def test_folders_lead_to_what_is_named(machine: Path) -> None:
    groups = Groups(Told(), ContainerFiles(str(machine)))
    asked = [("container", "web"), ("container", A[:12]), ("container", "0" * 64), ("container", "box"),
             ("container", "api"), ("pod", "shop-7d4b9"), ("pod", "prod/redis-0"), ("pod", UID),
             ("service", "cron.service"), ("service", "x.scope")]
    group = 10
    for kind, text in asked:
        folders = groups.folders_of(kind, text)
        assert folders
        for folder in folders:
            group += 1
            groups.learn(group, f"/a/{folder}")
            assert groups.is_in(kind, text, group), (kind, text, folder)
    assert groups.folders_of("container", "") == []
