"""pcap() of a socket: the verdict that libpcap has on the packets it sends, or none where they are not known.

``SONDE_FUZZ_SEED`` chooses the first seed, ``SONDE_FUZZ_COUNT`` how many filters there are.
"""

from __future__ import annotations

import ipaddress
import os
import random
import time

import pytest

import compiled
from packet_filters import ADDRESSES, PORTS, SIX, FilterMaker, has_libpcap, libpcap_verdict
from placed_packets import KERNELS
from sonde.compiler.lower.socket_filters import asks_unknown
from sonde.errors import CompileError
from sonde.kernel.pcap import compile_filter
from sonde.semantics.world import World
from sonde.types import Struct

COUNT = int(os.environ.get("SONDE_FUZZ_COUNT", "160"))
SEED = int(os.environ.get("SONDE_FUZZ_SEED", str(int(time.time()) % (1 << 24))))
SCRIPT = 'rawtracepoint:inet_sock_set_state {{ @ = (uint64)pcap("{}", args.sk); }}'
STATES = (1, 6, 12)  # established, TIME_WAIT, a request

pytestmark = pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed")


class Socket:
    """A socket by chance, and the beginning of a packet that it sends: what it does not say is random."""

    def __init__(self, pick: random.Random) -> None:
        self.pick, self.version = pick, pick.choice((4, 6))
        self.mapped = self.version == 4 and pick.random() < 0.3
        self.local, self.remote = (ipaddress.ip_address(pick.choice(ADDRESSES if self.version == 4 else SIX))
                                   for _ in range(2))
        self.ports = [pick.choice(PORTS) for _ in range(2)]
        self.state, self.closed = pick.choice(STATES), pick.random() < 0.3
        self.protocol = pick.choice((6, 17, 132)) if self.state == 1 else 6

    def put(self, kernel: compiled.Kernel, world: World) -> int:
        """The address of its struct sock."""
        struct, inet = world.find_struct("sock"), world.find_struct("inet_sock")
        assert struct is not None and inet is not None
        part = struct.field("__sk_common")
        assert part is not None and isinstance(part.type, Struct)
        common, whole = part.type, self.state == 1
        region = kernel.memory.add(bytes(inet.size if whole else common.size), "sock", writable=False)

        def put(of: Struct, name: str, value: bytes) -> None:
            field = of.field(name)
            assert field is not None, name
            region.data[field.offset:field.offset + len(value)] = value

        four, six = self.version == 4, self.version == 6 or self.mapped
        put(common, "skc_family", (10 if six else 2).to_bytes(2, "little"))
        put(common, "skc_state", bytes((self.state,)))
        put(common, "skc_num", (0 if whole and self.closed else self.ports[0]).to_bytes(2, "little"))
        put(common, "skc_dport", self.ports[1].to_bytes(2, "big"))
        if four:
            put(common, "skc_rcv_saddr", self.local.packed)
            put(common, "skc_daddr", self.remote.packed)
        if six:
            put(common, "skc_v6_rcv_saddr", self._six(self.local))
            put(common, "skc_v6_daddr", self._six(self.remote))
        if whole:
            put(inet, "inet_sport", self.ports[0].to_bytes(2, "big"))
            put(struct, "sk_protocol", bytes((self.protocol,)))
        return region.base

    @staticmethod
    def _six(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bytes:
        return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed

    def packet(self) -> bytes:
        ports = b"".join(port.to_bytes(2, "big") for port in self.ports) + self.pick.randbytes(60)
        addresses = self.local.packed + self.remote.packed
        if self.version == 6:
            return b"\x60" + self.pick.randbytes(5) + bytes((self.protocol, 64)) + addresses + ports
        four = b"\x45" + self.pick.randbytes(5) + bytes((0, 0, 64, self.protocol)) + self.pick.randbytes(2)
        return four + addresses + ports


@pytest.mark.parametrize("block", range(2))
def test_random_filters(block: int) -> None:
    print(f"SONDE_FUZZ_SEED={SEED}")
    matches = decided = 0
    for seed in range(SEED + block, SEED + COUNT, 2):
        kernel, pick = KERNELS[seed % len(KERNELS)], random.Random(seed)
        world, text = compiled.world(kernel), FilterMaker(seed).expression()
        answer, link = compile_filter(text, "ip"), compile_filter(text, "ethernet")
        if answer is None or link is None or answer.problem or link.problem or asks_unknown(answer.instructions):
            continue
        spec = compiled.compiled(SCRIPT.format(text), kernel)
        for _ in range(6):
            made, socket = compiled.kernel_of(spec, kernel), Socket(pick)
            made.run(0, [socket.put(made, world), 0, 0])
            kinds, got = {kind for kind, _, _ in made.errors()}, bool(made.value())
            assert kinds <= {"socket_unknown", "packet_headers"}
            if kinds:
                assert not got
                continue
            wanted = libpcap_verdict(answer.instructions, socket.packet())
            assert got == wanted, f"seed {seed} ({kernel}): {socket.__dict__}\n{text}"
            matches += got
            decided += 1
    assert decided / 20 < matches < decided


@pytest.mark.parametrize("text", ["greater 100", "ip[1] > 5", "ether host 02:00:00:00:00:01", "ip and len > 5"])
def test_what_no_socket_says(text: str) -> None:
    with pytest.raises(CompileError) as raised:
        compiled.compiled(SCRIPT.format(text))
    assert "a socket says only addresses, ports and the protocol of its packets" in str(raised.value)


def test_what_is_asked_at_run_time_is_counted() -> None:
    """The flags of TCP lie behind a header whose length the filter reads first."""
    made, socket = compiled.kernel_of(compiled.compiled(SCRIPT.format("tcp[13] & 2 != 0"))), Socket(random.Random(1))
    socket.version, socket.state, socket.protocol = 4, 1, 6
    socket.local = socket.remote = ipaddress.ip_address("10.0.0.1")
    made.run(0, [socket.put(made, compiled.world()), 0, 0])
    assert not made.value() and [kind for kind, _, _ in made.errors()] == ["socket_unknown"]


def test_others_have_no_packets_of_ip() -> None:
    made = compiled.kernel_of(compiled.compiled(SCRIPT.format("not port 1")))
    struct = compiled.world().find_struct("sock")
    assert struct is not None
    region = made.memory.add(bytes(struct.size), "sock", writable=False)
    region.data[0x10:0x12] = b"\1\0"
    made.run(0, [region.base, 0, 0])
    assert not made.value() and not made.errors()
