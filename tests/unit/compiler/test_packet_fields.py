"""packet(): what it tells of packets of every form of header, in the interpreter; an independent reader of the bytes.

``SONDE_FUZZ_SEED`` chooses the packets, ``SONDE_FUZZ_COUNT`` how many there are.
"""

from __future__ import annotations

import os
import random
import time
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any

import pytest

import compiled
from packet_filters import PacketMaker
from packet_reader import Reader
from placed_packets import KERNELS, VARIABLES, Placed
from recorded_world import RecordedWorld
from sonde.layouts.packets import NETWORK, TRANSPORT
from sonde.merge.portable import decode_value, encode_value
from sonde.output.json import to_json
from sonde.runtime.records.values import InetAddress, PacketValue, to_text
from sonde.types import PACKET

SEED = int(os.environ.get("SONDE_FUZZ_SEED", str(int(time.time()) % (1 << 24))))
PACKETS = int(os.environ.get("SONDE_FUZZ_COUNT", "160")) // len(KERNELS)
SCRIPT = "rawtracepoint:net_dev_queue { @ = packet(args.skb); }"


@pytest.fixture(autouse=True)
def symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that says where its pages are."""
    ask = RecordedWorld.kernel_symbol
    monkeypatch.setattr(RecordedWorld, "kernel_symbol", lambda world, name: VARIABLES.get(name) or ask(world, name))


@pytest.mark.parametrize("kernel", KERNELS)
def test_fields(kernel: str) -> None:
    print(f"SONDE_FUZZ_SEED={SEED}")
    pick, maker = random.Random(SEED), PacketMaker(SEED)
    made, read = compiled.kernel_of(compiled.compiled(SCRIPT, kernel), kernel), set[int]()
    for number in range(PACKETS):
        placed = Placed(maker, pick)
        made.run(0, [placed.put(made), 0, 0])
        value: Any = made.value()
        got = dict(zip(PACKET.names, value)) | {"saddr": str(value.saddr), "daddr": str(value.daddr)}
        wanted = Reader(placed.packet, placed.link).fields
        assert got == wanted, f"number {number}: {placed.__dict__}"
        assert to_text(decode_value(encode_value(value))) == to_text(value)
        read.add(value.read)
    assert NETWORK | TRANSPORT in read and len(read) > 1
    assert not made.errors()


def value_of(**fields: Any) -> PacketValue:
    filled = dict.fromkeys(PACKET.names, 0) | {"saddr": "10.0.0.1", "daddr": "10.0.0.2", "link": 0x0800} | fields
    six = ":" in filled["saddr"]
    for name in ("saddr", "daddr"):
        filled[name] = InetAddress(10 if six else 2, inet_pton(AF_INET6 if six else AF_INET, filled[name]))
    return PacketValue(filled.values())


@pytest.mark.parametrize("fields, text", [
    ({"link": 0}, "(no header)"), ({"link": 0x88CC, "len": 9}, "ethertype 0x88cc len 9"),
    ({"len": 5}, "ip (header not read) len 5"),
    ({"read": 3, "protocol": 6, "sport": 5, "dport": 443, "flags": 0x12, "seq": 7, "ack": 8, "payload": 3},
     "10.0.0.1:5 > 10.0.0.2:443 tcp [S.] seq 7 ack 8 len 3"),
    ({"read": 7, "vlan": 12, "link": 0x86DD, "saddr": "fd00::1", "daddr": "fd00::2", "protocol": 17, "sport": 5,
      "dport": 53, "payload": 9}, "vlan 12 [fd00::1]:5 > [fd00::2]:53 udp len 9"),
    ({"read": 1, "protocol": 17, "len": 30}, "10.0.0.1 > 10.0.0.2 udp (header not read) len 30"),
    ({"read": 1, "protocol": 17, "fragment": 1481, "len": 1500}, "10.0.0.1 > 10.0.0.2 udp fragment 1480+ len 1500"),
    ({"read": 3, "protocol": 1, "flags": 8 << 8, "sport": 3, "seq": 2, "payload": 56},
     "10.0.0.1 > 10.0.0.2 icmp echo request id 3 seq 2 len 56"),
    ({"read": 3, "protocol": 1, "flags": 0x0303}, "10.0.0.1 > 10.0.0.2 icmp port unreachable len 0"),
    ({"read": 3, "protocol": 58, "flags": 0x6363}, "10.0.0.1 > 10.0.0.2 icmp6 type 99 code 99 len 0"),
    ({"read": 1, "protocol": 200, "len": 30}, "10.0.0.1 > 10.0.0.2 protocol 200 len 30"),
    ({"read": 1, "link": 0x0806, "flags": 1}, "arp who has 10.0.0.2 tell 10.0.0.1"),
    ({"read": 1, "link": 0x0806, "flags": 2}, "arp 10.0.0.1 is here, to 10.0.0.2"),
])
def test_text(fields: dict[str, Any], text: str) -> None:
    assert to_text(value_of(**fields)) == text


def test_json_has_what_was_read() -> None:
    assert to_json(value_of(link=0)) == '{"text": "(no header)"}'
    assert to_json(value_of(read=3, protocol=17, sport=5, dport=53, len=30, payload=2)) == (
        '{"text": "10.0.0.1:5 > 10.0.0.2:53 udp len 2", "link": "ip", "len": 30, "saddr": "10.0.0.1", '
        '"daddr": "10.0.0.2", "protocol": "udp", "fragment": 0, "more_fragments": false, "sport": 5, "dport": 53, '
        '"payload": 2}')


def test_a_record_of_other_things_is_printed_as_one() -> None:
    assert to_text(PacketValue([1] * len(PACKET.of))).startswith("{ .saddr = 1, ")
