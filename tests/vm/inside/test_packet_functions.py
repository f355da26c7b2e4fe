"""sonde packets by kernel functions: each that takes a packet sees each packet once; drops have their rule.

``SONDE_PACKETS`` is the number of packets of each family.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest

from namespaces import Namespace, Pair
from packet_filters import has_libpcap
from printed import rows
from sonde.compiling import live_world
from support import Tracer, wait_for

PACKETS = int(os.environ.get("SONDE_PACKETS", "50"))
PASSED = {
    socket.AF_INET: ("ip_send_skb", "ip_output", "ip_finish_output2", "ip_rcv", "ip_local_deliver"),
    socket.AF_INET6: ("ip6_send_skb", "ip6_output", "ip6_finish_output2", "ipv6_rcv", "ip6_input"),
}
BOTH = ("__dev_queue_xmit", "dev_hard_start_xmit", "veth_xmit")
RULES = """table inet guard {
  chain early { udp dport 4003 counter drop; udp dport 4999 drop; }
  chain in {
    type filter hook input priority 0; policy accept;
    udp dport 4998 drop
    udp dport 4001 counter drop comment "the first"
    udp dport 4002 reject
    udp dport 4003 jump early
    udp dport vmap { 4004 : drop, 4005 : accept }
    udp dport 4005 counter
  }
  chain strict {
    type filter hook input priority 10; policy drop;
    meta l4proto != udp accept
    udp dport { 4000, 4005 } accept
  }
}"""
# The rule that drops what is sent to a port: its chain, and what it says; None: the chain's policy.
WANTED = {4001: ("in", "udp dport 4001"), 4002: ("in", "udp dport 4002"), 4003: ("early", "udp dport 4003"),
          4004: ("in", "vmap"), 4006: ("strict", None)}

pytestmark = [pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed"),
              pytest.mark.skipif(shutil.which("ip") is None, reason="ip is not installed"),
              pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Pair() as made:
        yield made


def ends(pair: Pair, family: int) -> tuple[socket.socket, socket.socket, str]:
    """A sender, a receiver at port 4000, and its address; the neighbours know each other."""
    address = pair.b.v4 if family == socket.AF_INET else pair.b.v6
    receiver, sender = (side.socket(family, socket.SOCK_DGRAM) for side in (pair.b, pair.a))
    receiver.bind((address, 4000))
    sender.sendto(b"warm", (address, 4000))
    receiver.recv(10)
    return sender, receiver, address


@pytest.mark.timeout(3600)
def test_each_function_sees_each_packet(pair: Pair) -> None:
    """Sent through two namespaces: what each function on the way counts is what was sent, IPv4 and IPv6."""
    if not any(map(live_world().has_feature, ("kprobe_multi", "tracing_multi"))):
        pytest.skip("kernel lacks kprobe_multi")
    functions = {name for _, name in live_world().kernel_functions()}
    both = [ends(pair, family) for family in PASSED]
    with Tracer("packets", "-S", "udp dst port 4000", timeout=3600) as tracer:
        for sender, receiver, address in both:
            for number in range(PACKETS):
                sender.sendto(number.to_bytes(4, "big"), (address, 4000))
                assert receiver.recv(10) == number.to_bytes(4, "big")
    for sender, receiver, _ in both:
        sender.close()
        receiver.close()
    steps = {name: int(count) for name, count in re.findall(r"^@steps\[(\w+)\]: (\d+)$", tracer.stdout, re.M)}
    for name in (*PASSED[socket.AF_INET], *PASSED[socket.AF_INET6]):
        assert name not in functions or steps[name] == PACKETS, tracer.stdout
    for name in BOTH:
        assert name not in functions or steps[name] == 2 * PACKETS, tracer.stdout
    clones = steps.get("skb_clone", 0)  # to ask again who has an address
    assert steps["skb_release_data"] == 2 * PACKETS + clones, tracer.stdout
    assert len(steps) > 50


def handle_of(side: Namespace, chain: str, says: str | None) -> str:
    """What nft itself says of a rule, as RULE has it."""
    if says is None:
        return f"inet guard {chain} policy"
    words = ["nft", "-a", "list", "chain", "inet", "guard", chain]
    listed = side.within(lambda: subprocess.run(words, capture_output=True, text=True, check=True)).stdout
    [(text, handle)] = [line.split(" # handle ") for line in listed.splitlines() if says in line]
    comment = re.search(r'comment "(.*)"', text)
    return f"inet guard {chain} handle {handle}{f' {comment[1]}' if comment else ''}"


@pytest.mark.timeout(900)
def test_drops_have_their_rule(pair: Pair) -> None:
    """By a rule, one that rejects, one of a chain that another jumps to, an element of a map, and a policy."""
    made = pair.b.within(lambda: subprocess.run(["nft", "-f", "-"], input=RULES, text=True, capture_output=True,
                                                check=False))
    if made.returncode or not live_world().has_feature("fentry"):
        pytest.skip("kernel lacks nftables" if made.returncode else "kernel lacks fentry")
    if live_world().find_struct("nft_rule_dp_last") is None:
        pytest.skip("kernel lacks nft_rule_dp_last")
    both = [ends(pair, family) for family in PASSED]
    with Tracer("packets", "--drops", "-f", "json", "udp and dst portrange 4000-4006", timeout=600) as tracer:
        for sender, receiver, address in both:
            for port in (4005, 4000, *WANTED):
                sender.sendto(port.to_bytes(2, "big"), (address, port))
            assert receiver.recv(10) == (4000).to_bytes(2, "big")
        wait_for(lambda: tracer.output().count('"row"') >= 2 * (len(WANTED) + 1))  # nobody listens at 4005
    for sender, receiver, _ in both:
        sender.close()
        receiver.close()
    dropped = Counter((re.findall(r":(\d+) udp", row["PACKET"])[-1], row["RULE"]) for row in rows(tracer.stdout)
                      if row["REASON"] == "SKB_DROP_REASON_NETFILTER_DROP")
    wanted = {(str(port), handle_of(pair.b, *rule)): 2 for port, rule in WANTED.items()}
    assert dropped == wanted, tracer.stdout + tracer.stderr


@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", PASSED)
def test_drops_of_iptables_have_their_table_and_chain(pair: Pair, family: int) -> None:
    """Of iptables-legacy, whose rules have no handles."""
    program = "iptables-legacy" if family == socket.AF_INET else "ip6tables-legacy"
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if not live_world().has_feature("fentry"):
        pytest.skip("kernel lacks fentry")
    for table, chain, port in (("filter", "INPUT", 4001), ("mangle", "PREROUTING", 4002)):
        words = [program, "-t", table, "-A", chain, "-p", "udp", "--dport", str(port), "-j", "DROP"]
        made = pair.b.within(lambda words=words: subprocess.run(  # type: ignore[misc]
            words, capture_output=True, text=True, check=False))
        if made.returncode:
            pytest.skip(f"kernel lacks iptables-legacy: {made.stderr}")
    sender, receiver, address = ends(pair, family)
    with Tracer("packets", "--drops", "-f", "json", "udp and dst portrange 4000-4002", timeout=600) as tracer:
        for port in (4001, 4002, 4000):
            sender.sendto(b"x", (address, port))
        assert receiver.recv(10) == b"x"
        wait_for(lambda: tracer.output().count('"row"') >= 2)
    sender.close()
    receiver.close()
    shown = program.removesuffix("-legacy")
    dropped = {re.findall(r":(\d+) udp", row["PACKET"])[-1]: row["RULE"] for row in rows(tracer.stdout)}
    assert dropped == {"4001": f"{shown} filter INPUT", "4002": f"{shown} mangle PREROUTING"}, \
        tracer.stdout + tracer.stderr
