"""sonde packets by kernel functions: each that takes a packet sees each packet once."""

from __future__ import annotations

import re
import shutil
import socket

import pytest

from namespaces import Pair
from packet_filters import has_libpcap
from sonde.compiling import live_world
from support import Tracer

PACKETS = 50
PASSED = ("ip_send_skb", "ip_output", "ip_finish_output2", "__dev_queue_xmit", "dev_hard_start_xmit", "veth_xmit",
          "ip_rcv", "ip_local_deliver", "skb_release_data")


@pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed")
@pytest.mark.skipif(shutil.which("ip") is None, reason="ip is not installed")
def test_each_function_sees_each_packet() -> None:
    """Sent through two namespaces: what each function on the way counts is what was sent, IPv4."""
    if not any(map(live_world().has_feature, ("kprobe_multi", "tracing_multi"))):
        pytest.skip("kernel lacks kprobe_multi")
    functions = {name for _, name in live_world().kernel_functions()}
    with Pair() as pair:
        receiver, sender = (side.socket(socket.AF_INET, socket.SOCK_DGRAM) for side in (pair.b, pair.a))
        receiver.bind((pair.b.v4, 4000))
        sender.sendto(b"warm", (pair.b.v4, 4000))
        receiver.recv(10)
        with sender, receiver, Tracer("packets", "-S", "udp dst port 4000", timeout=600) as tracer:
            for number in range(PACKETS):
                sender.sendto(number.to_bytes(4, "big"), (pair.b.v4, 4000))
                assert receiver.recv(10) == number.to_bytes(4, "big")
    steps = {name: int(count) for name, count in re.findall(r"^@steps\[(\w+)\]: (\d+)$", tracer.stdout, re.M)}
    for name in PASSED:
        if name in functions:
            assert steps[name] == PACKETS, tracer.stdout
    assert len(steps) > 30
