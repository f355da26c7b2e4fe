"""The attributes of a resource: names of OpenTelemetry's conventions, and the user's own before them."""

from __future__ import annotations

import os
import sys

import pytest

from sonde.exporters import resource
from sonde.exporters.resource import Resource
from sonde.kernel.groups.cgroup_paths import Membership
from sonde.kernel.groups.container_files import ContainerDescription
from sonde.kernel.groups.lookup import GroupIdentity

ID = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_the_machine_and_the_process_of_p() -> None:
    facts = Resource("tool", "sonde export tool", os.getpid()).facts()
    assert facts["host.name"] == os.uname().nodename and facts["os.type"] == "linux"
    assert facts["process.pid"] == os.getpid()
    assert facts["process.executable.path"] == os.path.realpath(sys.executable)
    assert facts["sonde.script"] == "tool" and facts["service.name"] == "sonde"


def test_an_instance_is_the_same_each_time_and_another_of_another_command() -> None:
    one, again, other = [Resource("", command).facts()["service.instance.id"] for command in "aab"]
    assert one == again != other


def test_the_names_are_those_of_the_conventions() -> None:
    conventions = pytest.importorskip("opentelemetry.semconv.resource",
                                      reason="opentelemetry-semantic-conventions is not installed").ResourceAttributes
    known = {value for name, value in vars(conventions).items() if name.isupper()}
    facts = {*Resource("tool", "x", os.getpid()).facts(),
             *resource._container_facts(Membership(ID, "", "uid"), ContainerDescription("web", "shop/web-1", "uid"))}
    assert {name for name in facts if not name.startswith("sonde.")} <= known


def test_the_users_own_go_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=other, team=a%20b ,broken,=x")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    facts = Resource("", "x").facts()
    assert (facts["host.name"], facts["team"], facts["service.name"]) == ("other", "a b", "mine")
    assert "" not in facts and "broken" not in facts


class FakeGroups:
    """Two groups of one container, and one of another."""

    def __init__(self) -> None:
        self.identities = {1: GroupIdentity("/a", Membership(ID, "", "uid"), ContainerDescription("web", "shop/web-1")),
                           2: GroupIdentity("/a/b", Membership(ID, "", "uid"), None),
                           3: GroupIdentity("/c", Membership("f" * 64), None)}

    def all_groups(self) -> list[int]:
        return [*self.identities]

    def is_in(self, kind: str, text: str, group: int) -> bool:
        return kind == "container" and text == "web" and group < 3

    def identity_of(self, group: int) -> GroupIdentity:
        return self.identities[group]


def test_a_container_is_known_when_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = FakeGroups()
    monkeypatch.setattr("sonde.kernel.groups.lookup.Groups", lambda: groups)
    made = Resource("", "x", group="web")
    later, groups.identities = groups.identities, {}
    assert "container.id" not in made.facts()
    groups.identities = later
    facts = made.facts()
    assert facts["container.id"] == ID and facts["k8s.pod.uid"] == "uid"
    assert "container.name" not in facts, "one of the groups does not say it"
