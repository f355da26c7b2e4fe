"""Five hundred hosts of which half go wrong, each in one of many ways: every number is the exact sum of the hosts and
windows that are named, who is missing is named with the reason, and it all ends."""

from __future__ import annotations

import re
import resource
from collections import Counter, defaultdict
from typing import Any

import pytest

from chaotic import BEHAVIOURS, ChaoticAgent, chosen_behaviour
from simulated import Contents, SimulatedFleet, run_simulated, sum_contents
from sonde.fleet.state import coordinator
from sonde.fleet.state.coordinator import Fleet
from sonde.fleet.transport.hosts import expand_hosts
from sonde.fleet.transport.request import FleetRequest
from sonde.source import Source

pytestmark = pytest.mark.slow

WINDOWS, PERIOD = 6, 0.4
HOSTS = "h[001-500]"


def contents(host: str, window: int) -> Contents:
    """Keys that all have, some that come and go, and one of the host's own; larger with each window."""
    number = int(host[1:])
    found = {key: [(window + 1) * (1 + key + number % 7)] for key in range(20)}
    return {**found, 100 + (number + window) % 5: [window + 1], 1000 + number: [window + 1]}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines of a few seconds; a tenth would do but for what else the machine does."""
    monkeypatch.setattr(coordinator, "SILENCE", 12.0)
    monkeypatch.setattr(coordinator, "READYING", 6.0)
    monkeypatch.setattr("sonde.merge.table.MOST_KEYS", 5000)


@pytest.mark.usefixtures("impatient")
def test_chaos_of_five_hundred() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    transport = SimulatedFleet(contents, WINDOWS, PERIOD, chosen_behaviour, kind=ChaoticAgent)
    request = FleetRequest(Source("stdin", "begin { }"), window=PERIOD)
    fleet, printed = run_simulated(transport, HOSTS, request, 120, parallel=500, patience=6.0)
    agents: dict[str, Any] = transport.agents
    assert {agent.behaviour for agent in agents.values()} == set(BEHAVIOURS)
    _everybody_is_named(fleet, agents)
    # the sum is exact
    known = [contents(name, agent.counted - 1) for name, agent in agents.items() if agent.counted]
    assert dict(fleet.results.pairs_of("@")) == sum_contents(known)
    # so is each print, of the hosts that it names; a host that is in none of a turn that it told was late, and said so
    turns = Counter(item.name for item in printed)
    late = Counter(fleet.results.late)
    for number, item in enumerate(printed):
        assert dict(item.pairs) == sum_contents([contents(host, number) for host in item.hosts]), number
        for name in {name for name, agent in agents.items() if agent.printed > number} - item.hosts:
            late[name] -= 1
    assert turns["@"] == WINDOWS and not +late and not -late
    # what hosts lost is said
    lost = sum([agent.counted for agent in agents.values() if agent.behaviour == "loses"])
    assert fleet.lost == lost > 0 and f"lost {lost} events" in fleet.describe_state()
    assert sum(member.repeated for member in fleet.members) > 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 << 10


def _everybody_is_named(fleet: Fleet, agents: dict[str, Any]) -> None:
    """Each host that went wrong, with the reason and the windows that it completed; and no other."""
    seen = defaultdict(list)
    for member in fleet.members:
        agent = agents[member.name]
        wanted = BEHAVIOURS[agent.behaviour]
        assert member.windows == agent.counted, (agent.behaviour, member)
        if wanted:
            assert member.state == "missing" and re.search(wanted, member.reason), (agent.behaviour, member)
            assert (f"after {agent.counted} window" in member.reason) == bool(agent.counted), (agent.behaviour, member)
        else:
            assert member.state == "ended", (agent.behaviour, member)
        seen[agent.behaviour].append(member.name)
    wrong = [name for behaviour, names in seen.items() for name in names if BEHAVIOURS[behaviour]]
    state = fleet.describe_state(len(agents))
    assert state.startswith(f"{len(agents) - len(wrong)} of {len(agents)} hosts; missing: ") and "\x1b" not in state
    named = re.findall(r"(?:missing: |\), )(h\S+) \(", state)  # each group of hosts with one reason, as ranges
    assert len(named) > 20 and set(expand_hosts(named)) == set(wrong)
