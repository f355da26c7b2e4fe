"""XDP and tc programs by name: what the language and sonde packets say of them, against what was sent through them.

An XDP program drops every third datagram; of the rest a tc program drops those with even numbers.
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

import packet_programs
from namespaces import Pair
from packet_filters import has_libpcap
from packet_programs import BPF_XDP, SCHED_CLS, XDP
from printed import rows
from sonde.compiling import live_world
from support import Tracer, run_sonde, wait_for

PORT, SENT = 4000, 60
BY_XDP = [n for n in range(SENT) if n % 3 == 0]
BY_TC = [n for n in range(SENT) if n % 3 and n % 2 == 0]
PASSED = [n for n in range(SENT) if n % 3 and n % 2]
XDP_NAME, TC_NAME = f"two_of_three_{os.getpid()}", f"odd_numbers_only_{os.getpid()}"  # longer than the kernel's 15
VERDICTS = {XDP_NAME: {"XDP_DROP": len(BY_XDP), "XDP_PASS": SENT - len(BY_XDP)},
            TC_NAME: {"TC_ACT_SHOT": len(BY_TC), "TC_ACT_OK": len(PASSED)}}

pytestmark = [pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed"),
              pytest.mark.skipif(shutil.which("ip") is None, reason="ip is not installed"),
              pytest.mark.skipif(shutil.which("tc") is None, reason="tc is not installed"),
              pytest.mark.timeout(900)]


class Way:
    """A sender in one namespace, a receiver in the other, and the programs between them."""

    def __init__(self, pair: Pair) -> None:
        self.receiver, self.sender = (side.socket(socket.AF_INET, socket.SOCK_DGRAM) for side in (pair.b, pair.a))
        self.address = (pair.b.v4, PORT)
        self.receiver.bind(self.address)
        self.sender.sendto(b"\1", self.address)  # the neighbours know each other
        assert self.receiver.recv(10) == b"\1"

    def send(self) -> None:
        """All datagrams, one after the other; the right ones arrive."""
        for number in range(SENT):
            self.sender.sendto(bytes([number]) * 8, self.address)
        assert [self.receiver.recv(10)[0] for _ in PASSED] == PASSED

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


@pytest.fixture
def way() -> Iterator[Way]:
    if not live_world().has_feature("fentry"):
        pytest.skip("kernel lacks fentry")
    with Pair() as pair, packet_programs.load_verdict(XDP_NAME, XDP, PORT, 3, 1, 2) as xdp, \
            packet_programs.load_verdict(TC_NAME, SCHED_CLS, PORT, 2, 2, 0) as tc:
        device = pair.b.device
        try:
            pair.b.within(lambda: packet_programs.attach_by_tc(tc, device, "ingress"))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"kernel lacks clsact: {error.stderr}")
        with pair.b.within(lambda: packet_programs.attach(xdp, socket.if_nametoindex(device), BPF_XDP)):
            made = Way(pair)
            yield made
            made.close()


def counts(text: str, map: str) -> dict[tuple[str, str], int]:
    """(program, verdict) -> runs, of a map printed as text."""
    return {(name, verdict): int(count) for name, verdict, count in re.findall(
        rf"^@{map}\[fexit:bpf:\d+:(\w+), (\w+)\]: (\d+)$", text, re.M)}


def wanted(name: str) -> dict[tuple[str, str], int]:
    return {(name, verdict): count for verdict, count in VERDICTS[name].items()}


def test_the_language_has_them_by_name_and_type(way: Way) -> None:
    """Typed by what the kernel passes, so that filters work; a type stands for all its programs."""
    script = f"""
    fexit:bpf:{XDP_NAME} /pcap("udp port {PORT}", args.ctx)/ {{ @xdp[probe, (enum xdp_action)retval] = count(); }}
    fexit:bpf:sched_cls:odd_* /pcap("udp port {PORT}", (struct sk_buff *)arg0)/ {{ @tc[probe, retval] = count(); }}
    fentry:bpf:xdp:{XDP_NAME} {{ @from[str(args.ctx->rxq->dev->name)] = count(); }}"""
    with Tracer("-e", script, timeout=600) as tracer:
        way.send()
    assert counts(tracer.stdout, "xdp") == wanted(XDP_NAME), tracer.stdout + tracer.stderr
    assert counts(tracer.stdout, "tc") == {(TC_NAME, "2"): len(BY_TC), (TC_NAME, "0"): len(PASSED)}, tracer.stdout
    assert re.search(rf"^@from\[sb\w+\]: {SENT}$", tracer.stdout, re.M), tracer.stdout
    listed = run_sonde("-l", "fentry:bpf:xdp:*", timeout=100).stdout
    assert XDP_NAME in listed and TC_NAME not in listed


@pytest.mark.parametrize("options", [[], ["--tracepoints"], ["-S"]])
def test_packets_shows_each_verdict(way: Way, options: list[str]) -> None:
    """Each run of a program, with its packet, where steps are functions and where they are tracepoints."""
    lines = 0 if options == ["-S"] else SENT + len(BY_TC) + len(PASSED)
    with Tracer("packets", *options, "-f", "json", f"udp dst port {PORT}", timeout=600) as tracer:
        way.send()
        wait_for(lambda: tracer.output().count('"VERDICT"') >= lines)
    found = [row for row in rows(tracer.stdout) if "VERDICT" in row]
    seen = Counter((row["STEP"].rpartition(":")[2], row["VERDICT"]) for row in found)
    assert seen == ({} if options == ["-S"] else {**wanted(XDP_NAME), **wanted(TC_NAME)}), tracer.stdout + tracer.stderr
    assert all(row["PACKET"].endswith(f":{PORT} udp len 8") and row["DEVICE"].startswith("sb") for row in found)


def test_packets_counts_verdicts(way: Way) -> None:
    with Tracer("packets", "-S", "--tracepoints", f"udp dst port {PORT}", timeout=600) as tracer:
        way.send()
    assert counts(tracer.stdout, "xdp") == wanted(XDP_NAME), tracer.stdout + tracer.stderr
    assert counts(tracer.stdout, "tc") == wanted(TC_NAME), tracer.stdout


def test_drops_of_programs(way: Way) -> None:
    """--drops has what an XDP program drops, of which the kernel says nothing, and the tc program beside the reason."""
    with Tracer("packets", "--drops", "-f", "json", f"udp dst port {PORT}", timeout=600) as tracer:
        way.send()
        wait_for(lambda: tracer.output().count('"VERDICT"') >= len(BY_XDP) + len(BY_TC))
    seen = Counter((row["STEP"].rpartition(":")[2], row["VERDICT"]) for row in rows(tracer.stdout) if "VERDICT" in row)
    assert seen == {(XDP_NAME, "XDP_DROP"): len(BY_XDP), (TC_NAME, "TC_ACT_SHOT"): len(BY_TC)}, tracer.stdout
    reasons = Counter(row["REASON"] for row in rows(tracer.stdout) if "REASON" in row)
    assert sum(reasons.values()) == len(BY_TC), tracer.stdout


def test_programs_that_cannot_be_traced_are_named(way: Way) -> None:
    """A pattern says which programs it leaves out."""
    with packet_programs.load_verdict(f"bare_{os.getpid()}", XDP, PORT, 3, 1, 2, described=False):
        done = run_sonde("-e", "fexit:bpf:xdp:* { } interval:s:1 { exit(); }", timeout=200)
    assert done.returncode == 0 and f"bare_{os.getpid()}" in done.stderr and "without function" in done.stderr
