"""``-f pcapng``: files that a strict reader of the form takes, with the packets that were put in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from compiled import world
from pcapng_reader import Packet, read_pcapng
from sonde.compiling import compile
from sonde.output.pcapng import ETHERNET, RAW_IP, Pcapng
from sonde.output.views import Target, check_view, view_class
from sonde.runtime.records.events import Event
from sonde.runtime.records.values import InetAddress, PacketValue
from sonde.semantics.script_options import Options
from sonde.types import PACKET

TABLE = ('table t { STEP: "%s "; DEVICE: "%s "; NETNS: "%d "; PACKET: "%s "; LINKED: "%d "; LENGTH: "%d "; '
         'BYTES: "%r"; }\n')
SCRIPT = TABLE + ('rawtracepoint:net_dev_queue { t("queued", ifname(args.skb), 7, packet(args.skb), 1, 60, '
                  'buf((uint8 *)args.skb->data, 32)); }')


def test_what_is_written_is_read() -> None:
    file = Pcapng("sonde test")
    given = [Packet("eth0", "network namespace 1", ETHERNET, (3 << 32) + 5, 100, b"abc", "net_dev_queue"),
             Packet("none", "", RAW_IP, 7, 4, b"abcd", "kfree_skb \N{SNOWMAN} why"),
             Packet("eth0", "network namespace 1", ETHERNET, 1 << 63, 0, b"", ""),
             Packet("eth0", "network namespace 2", ETHERNET, 9, 70000, b"x" * 65535, "\N{SNOWMAN}" * 30000)]
    data = b"".join([file.packet_blocks(p[:3], p.time, (p.data, p.length), p.comment) for p in given])
    read = read_pcapng(data)
    assert read[:3] == given[:3] and file.start() == b""
    assert read[3].data == given[3].data and len(read[3].comment.encode()) <= 65535 and set(read[3].comment) == {"☃"}
    assert read_pcapng(Pcapng("sonde test").start()) == []


def packet(**fields: Any) -> PacketValue:
    return PacketValue((dict.fromkeys(PACKET.names, 0) | {
        "saddr": InetAddress(2, bytes(4)), "daddr": InetAddress(2, bytes(4))} | fields).values())


def test_rows_with_bytes_are_packets() -> None:
    spec, pieces = compile(SCRIPT, Options(), world()), list[bytes]()
    at = next(i for i, site in enumerate(spec.sites) if site.table and site.fields)
    clock: Any = SimpleNamespace(wall_clock=lambda time, kind: time + 1000)
    assert check_view("pcapng", spec) is view_class("pcapng")
    view = view_class("pcapng")(spec, clock, pieces.append, Target())  # type: ignore[arg-type]
    frame = bytes(12) + b"\x08\x00" + bytes(range(18))
    for step, tag, linked in (("queued", 0, 1), ("tagged", 5, 1), ("bare", 5, 0)):
        read = packet(vlan=tag, read=4 if tag else 0)
        view.add_event(Event("printf", (step, "eth0", 7, read, linked, 60, frame), "", 50, at), spec.sites[at], "")
    view.finish()
    plain, tagged, bare = read_pcapng(b"".join(pieces))
    assert plain == Packet("eth0", "network namespace 7", ETHERNET, 1050, 60, frame, "queued")
    assert tagged == Packet("eth0", "network namespace 7", ETHERNET, 1050, 64,
                            frame[:12] + b"\x81\x00\x00\x05" + frame[12:], "tagged")
    assert bare == Packet("eth0", "network namespace 7", RAW_IP, 1050, 60, frame, "bare")


@pytest.mark.parametrize("text", ["table t { BYTES: \"%s\"; } begin { t(\"text\"); }",
                                  "begin { printf(\"%r\", buf(\"x\", 1)); }"])
def test_what_has_no_bytes_of_packets_does_not_fit(text: str) -> None:
    from sonde.errors import UsageError
    with pytest.raises(UsageError, match="shows rows of a table with the bytes of packets"):
        check_view("pcapng", compile(text, Options(), world()))
