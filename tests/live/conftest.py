"""What the tests of the network tools share."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from namespaces import Namespace, Pair, Relay
from sonde.kernel.types.world import LiveWorld


@pytest.fixture
def socket_lengths() -> None:
    """For what traces sock:sock_send_length."""
    if LiveWorld().tracepoint_format("sock", "sock_send_length") is None:
        pytest.skip("this kernel has no sock:sock_send_length (Linux 6.3)")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Namespace, Namespace]]:
    with Pair() as (a, b):
        yield a, b


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["v4", "v6"])
def family(request: pytest.FixtureRequest) -> socket.AddressFamily:
    found: socket.AddressFamily = request.param
    return found


@pytest.fixture
def relay(pair: tuple[Namespace, Namespace]) -> Iterator[Relay]:
    """A second link between the two that takes 10 ms each way."""
    with Relay(pair, 0.01) as found:
        yield found
