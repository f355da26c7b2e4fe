"""Programs that bpftrace 0.27 and Sonde both get: the same verdict, the same output, the same words."""

from __future__ import annotations

import os

import pytest

from peer.campaign import compare
from peer.programs import mutated, otherwise, rows
from peer.tracers import find_peer

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.skipif(bool(find_peer()[1]), reason=find_peer()[1])]

MUTATED = int(os.environ.get("SONDE_PEER_PROGRAMS", "60"))


@pytest.mark.parametrize("arguments", rows(), ids=lambda arguments: arguments[-1])
def test_the_same_answer(arguments: list[str]) -> None:
    found, peer, own = compare(arguments)
    assert not found, f"{found}\nbpftrace: {peer}\nsonde: {own}"


@pytest.mark.parametrize(("kind", "arguments"), otherwise())
def test_what_differs_on_purpose(kind: str, arguments: list[str]) -> None:
    assert compare(arguments)[0] == kind


def test_the_same_verdict() -> None:
    """Of one program in fifty the verdict may differ: docs/compatibility.md says in what."""
    found = {seed: compare(mutated(seed))[0] for seed in range(MUTATED)}
    assert "crash" not in found.values(), found
    assert sum(kind in ("accepted", "refused") for kind in found.values()) <= max(2, MUTATED // 50), found
