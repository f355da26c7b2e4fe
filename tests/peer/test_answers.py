"""Programs that bpftrace 0.27 and Sonde both get: the same verdict, the same output, the same words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from peer.campaign import compare, mutated, rows
from peer.tracers import find_peer

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.skipif(bool(find_peer()[1]), reason=find_peer()[1])]

MUTATED = int(os.environ.get("SONDE_PEER_PROGRAMS", "60"))
# Seeds whose program one accepts and the other does not, for reasons that docs/compatibility.md names (`; ;`).
OTHERWISE = {178}


def otherwise() -> list[tuple[str, str]]:
    """(difference, program) of otherwise.txt: what differs, and is to go on doing so until docs/compatibility.md says
    something else."""
    lines = (Path(__file__).parent / "otherwise.txt").read_text().splitlines()
    found = []
    for line in lines:
        kind, tab, program = line.partition("\t")
        if tab and not line.startswith("#"):
            found.append((kind, program))
    return found


@pytest.mark.parametrize("program", rows())
def test_the_same_answer(program: str) -> None:
    found, peer, own = compare(program)
    assert not found, f"{found}\nbpftrace: {peer}\nsonde: {own}"


@pytest.mark.parametrize(("kind", "program"), otherwise())
def test_what_differs_on_purpose(kind: str, program: str) -> None:
    assert compare(program)[0] == kind


@pytest.mark.parametrize("seed", [seed for seed in range(MUTATED) if seed not in OTHERWISE])
def test_the_same_verdict(seed: int) -> None:
    program = mutated(seed)
    found, peer, own = compare(program)
    assert found not in ("crash", "accepted", "refused"), f"{program}\nbpftrace: {peer}\nsonde: {own}"
