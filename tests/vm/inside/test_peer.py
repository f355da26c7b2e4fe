"""Programs of kernel functions beside bpftrace 0.27, on a kernel that can probe them: verdict, output, words."""

from __future__ import annotations

import pytest

from peer.campaign import compare
from peer.programs import otherwise, rows
from peer.tracers import find_peer

pytestmark = pytest.mark.skipif(bool(find_peer()[1]), reason=find_peer()[1])


@pytest.mark.parametrize("arguments", rows("functions"), ids=" ".join)
def test_the_same_answer(arguments: list[str]) -> None:
    found, peer, own = compare(arguments)
    assert not found, f"{found}\nbpftrace: {peer}\nsonde: {own}"


@pytest.mark.parametrize(("kind", "arguments"), otherwise("functions_otherwise"))
def test_what_differs_on_purpose(kind: str, arguments: list[str]) -> None:
    assert compare(arguments)[0] == kind
