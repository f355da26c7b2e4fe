"""``-f pcapng``: rows of tables with the bytes of a packet, for Wireshark and its like.

A row with a column ``BYTES`` (``buf()``) is a packet; ``LENGTH`` is how many it had, ``LINKED`` whether they begin with
a link header (else with that of IP), ``DEVICE`` and ``NETNS`` its interface. STEP, REASON, AT and RULE are its comment.
"""

from __future__ import annotations

from ...base.version import __version__
from ...layouts.packets import TAGGED, TAGS
from ...runtime.records.events import Event
from ...runtime.records.values import PacketValue, ScriptValue, to_text
from ...spec import EventSite
from ...types import Buf
from ..pcapng import ETHERNET, RAW_IP, Pcapng
from .csv import event_columns, event_values
from .view import View as Base

_COMMENT = ("STEP", "REASON", "AT", "RULE")
_ADDRESSES = 12  # bytes before a VLAN tag


class PcapngView(Base):
    """Writes packets as they come."""

    needs = "rows of a table with the bytes of packets (BYTES)"
    example = ('table t { STEP: "%s "; BYTES: "%r"; } rawtracepoint:net_dev_queue '
               '{ t("queued", buf((uint8 *)args.skb->data, 64)); }')
    binary = True

    def prepare(self) -> None:
        self._file = Pcapng(f"sonde {__version__}")

    @classmethod
    def shows_event(cls, site: EventSite) -> bool:
        return bool(site.table) and "BYTES" in event_columns(site) and any(isinstance(f.type, Buf) for f in site.fields)

    def add_event(self, event: Event, site: EventSite, text: str) -> None:
        row = dict(zip(event_columns(site), event_values(event, site)))
        linked = bool(row.get("LINKED", True))
        held = row["BYTES"]
        data, length = _with_tag(held if isinstance(held, bytes) else b"", _number(row.get("LENGTH")), linked,
                                 row.get("PACKET"))
        name, space = (to_text(row.get(column, "")) for column in ("DEVICE", "NETNS"))
        host = getattr(event, "host", "")  # of a fleet's event
        named = f"{host}:{name or 'none'}" if host else name or "none"
        interface = named, f"network namespace {space}" if space else "", ETHERNET if linked else RAW_IP
        comment = " ".join(filter(None, [to_text(row.get(column, "")) for column in _COMMENT]))
        time = self.context.wall_clock(event.time, "boot")
        self.write(self._file.packet_blocks(interface, time, (data, length), comment))

    def finish(self) -> None:
        self.write(self._file.start())


def _number(value: ScriptValue) -> int:
    return value if isinstance(value, int) else 0


def _with_tag(data: bytes, length: int, linked: bool, packet: ScriptValue) -> tuple[bytes, int]:
    """The packet with the VLAN tag that the kernel keeps beside it, as tcpdump shows it. Of that tag packet() knows the
    number alone."""
    if linked and isinstance(packet, PacketValue) and packet.read & TAGGED and len(data) > _ADDRESSES + 2 \
            and int.from_bytes(data[_ADDRESSES:_ADDRESSES + 2], "big") not in TAGS:
        tag = TAGS[0].to_bytes(2, "big") + packet.vlan.to_bytes(2, "big")
        return data[:_ADDRESSES] + tag + data[_ADDRESSES:], length + len(tag)
    return data, length
