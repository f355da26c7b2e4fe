"""A map that another thread makes is there when it is taken, and what went wrong is said then."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sonde.errors import SondeError
from sonde.runtime.maps import ahead
from sonde.runtime.maps.ahead import MapAhead
from sonde.spec import MapSpec

RING = MapSpec("__data", "ringbuf", 0, 0, 4096, 0)


class Made:
    closed = 0

    def close(self) -> None:
        self.closed += 1


def refuse_thread(work: object, arguments: object) -> None:
    raise RuntimeError("can't start new thread")


@pytest.fixture(params=[False, True], ids=["beside", "without threads"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made()
    monkeypatch.setattr(ahead, "create_map", lambda spec, cpus: made)
    if request.param:
        monkeypatch.setattr(ahead, "start_new_thread", refuse_thread)
    return made


def test_who_takes_it_owns_it(made: Made) -> None:
    ring = MapAhead(RING)
    assert cast(Any, ring.take()) is made
    ring.close()
    assert not made.closed


def test_what_nobody_takes_is_closed_once(made: Made) -> None:
    ring = MapAhead(RING)
    ring.close()
    ring.close()
    assert made.closed == 1


def test_a_failure_is_raised_where_it_is_taken(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(spec: MapSpec, cpus: int) -> None:
        raise SondeError("no memory")

    monkeypatch.setattr(ahead, "create_map", fail)
    ring = MapAhead(RING)
    with pytest.raises(SondeError, match="no memory"):
        ring.take()
    ring.close()
