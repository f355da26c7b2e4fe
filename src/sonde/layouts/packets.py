"""Numbers in packets, and in what packet() says of one (types.PACKET)."""

from __future__ import annotations

# Bits of ``read``: which headers could be read. TAGGED: there is a ``vlan``.
NETWORK, TRANSPORT, TAGGED = 1, 2, 4
MORE_FRAGMENTS = 1  # bit of ``fragment``, whose other bits are the offset in bytes

ETHERTYPES = {0x0800: "ip", 0x86DD: "ip6", 0x0806: "arp"}
TAGS = (0x8100, 0x88A8, 0x9100)  # EtherTypes of VLAN tags
PROTOCOLS = {1: "icmp", 2: "igmp", 4: "ipip", 6: "tcp", 17: "udp", 41: "ip6", 47: "gre", 50: "esp", 51: "ah",
             58: "icmp6", 89: "ospf", 112: "vrrp", 132: "sctp", 136: "udplite"}
