"""sonde packets: packets whose ways are known, in namespaces of the test's own.

docs/packets.md tells these incidents. ``SONDE_PACKETS`` is the number of packets of each family.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from namespaces import Namespace, Pair, ip
from packet_filters import has_libpcap
from pcapng_reader import read_pcapng
from printed import rows
from support import Tracer, run_sonde

NUMBERED = int(os.environ.get("SONDE_PACKETS", "2000"))
DROPPED_EACH = 3  # every third is for a port that a rule drops
pytestmark = [pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed"),
              pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")]


def nft(side: Namespace, text: str) -> None:
    """Add rules; without nftables in the kernel they cannot be tested."""
    done = side.within(lambda: subprocess.run(["nft", "-f", "-"], input=text, text=True, capture_output=True,
                                              check=False))
    if done.returncode:
        pytest.skip("kernel lacks nftables")


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Pair() as made:
        yield made


def udp_pair(pair: Pair, family: int, ports: tuple[int, ...]) -> tuple[socket.socket, list[socket.socket], str]:
    """A sender, a receiver for each port, and the receivers' address; the neighbours know each other."""
    address = pair.b.v4 if family == socket.AF_INET else pair.b.v6
    receivers = [pair.b.socket(family, socket.SOCK_DGRAM) for _ in ports]
    for sock, port in zip(receivers, ports):
        sock.bind((address, port))
    sender = pair.a.socket(family, socket.SOCK_DGRAM)
    sender.sendto(b"warm", (address, ports[0]))
    receivers[0].recv(10)
    return sender, receivers, address


def steps_of(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in re.findall(r"^@steps\[(\w+)\]: (\d+)$", text, re.MULTILINE)}


def test_every_numbered_packet_is_seen_at_each_step(pair: Pair) -> None:
    """What was sent is what each tracepoint saw; those that a rule drops end there, with that reason."""
    nft(pair.b, "table inet t { chain c { type filter hook input priority 0; udp dport 4001 counter drop; }; }")
    ends = [udp_pair(pair, family, (4000,)) for family in (socket.AF_INET, socket.AF_INET6)]
    only = " or ".join(f"udp src port {sender.getsockname()[1]}" for sender, _, _ in ends)
    with Tracer("packets", "-S", only) as tracer:
        for sender, (receiver,), address in ends:
            for number in range(NUMBERED):
                dropped = not number % DROPPED_EACH
                sender.sendto(number.to_bytes(4, "big"), (address, 4001 if dropped else 4000))
                assert dropped or receiver.recv(10) == number.to_bytes(4, "big")
    for sender, (receiver,), _ in ends:
        sender.close()
        receiver.close()
    steps, drops = steps_of(tracer.stdout), 2 * len(range(0, NUMBERED, DROPPED_EACH))
    for name in ("net_dev_queue", "net_dev_start_xmit", "netif_rx", "netif_receive_skb"):
        assert steps[name] == 2 * NUMBERED, tracer.stdout
    assert f"@drops[SKB_DROP_REASON_NETFILTER_DROP]: {drops}\n" in tracer.stdout
    assert f"@us[net_dev_queue, net_dev_start_xmit]: {{ .count = {2 * NUMBERED}," in tracer.stdout
    assert f"@us[netif_receive_skb, kfree_skb]: {{ .count = {drops}," in tracer.stdout


def shown_steps(form: str, path: Path) -> int:
    """How many steps a file of this form shows."""
    text = path.read_text() if form != "pcapng" else ""
    if form == "pcapng":
        return len(read_pcapng(path.read_bytes()))
    if form == "csv":
        return sum(row["table"] in ("steps", "drops") for row in csv.DictReader(text.splitlines()))
    return len(rows(text)) if form == "json" else len(re.findall(r" > \S+:4000 udp len 4", text))


def test_lines_and_losses_are_all_steps(pair: Pair, tmp_path: Path) -> None:
    """Printed and lost together are the steps that were counted, whatever shows them: of a ring with little room."""
    sender, (receiver,), address = udp_pair(pair, socket.AF_INET, (4000,))
    only, recording = f"udp and src port {sender.getsockname()[1]}", tmp_path / "run"
    with sender, receiver, Tracer("record", "packets", "--bytes", "64", "-o", str(recording), only,
                                  env={"SONDE_PERF_RB_PAGES": "1"}):
        for number in range(2000):
            sender.sendto(number.to_bytes(4, "big"), (address, 4000))
    for form in ("text", "json", "csv", "pcapng"):
        path = tmp_path / form
        said = run_sonde("replay", str(recording), "-f", form, "-o", str(path))
        content = path.read_bytes().decode(errors="replace") + said.stdout + said.stderr
        lost = re.search(r"Lost (\d+) events|\"lost_events\", \"data\": {\"events\": (\d+)", content)
        if form == "text":
            counted = sum(steps_of(content).values())
        assert shown_steps(form, path) + int((lost[1] or lost[2]) if lost else 0) == counted >= 4 * 2000


@pytest.mark.parametrize("form", ["text", "json", "csv", "pcapng"])
def test_live_lines_and_losses_are_all_steps(pair: Pair, tmp_path: Path, form: str) -> None:
    """The same of each format as it is written while packets go by. The count comes from a recording beside it."""
    sender, (receiver,), address = udp_pair(pair, socket.AF_INET, (4000,))
    only, path, recording = f"udp and src port {sender.getsockname()[1]}", tmp_path / form, tmp_path / "run"
    to_file = ("-o", str(path)) if form in ("csv", "pcapng") else ()
    with sender, receiver, Tracer("packets", "-f", form, *to_file, "--record", str(recording), "--bytes", "64", only,
                                  env={"SONDE_PERF_RB_PAGES": "1"}) as tracer:
        for number in range(2000):
            sender.sendto(number.to_bytes(4, "big"), (address, 4000))
    if not to_file:
        path.write_text(tracer.stdout)
    said = tracer.stdout + tracer.stderr
    lost = re.search(r"Lost (\d+) events|\"lost_events\", \"data\": {\"events\": (\d+)", said)
    counted = sum(steps_of(run_sonde("replay", str(recording)).stdout).values())
    assert shown_steps(form, path) + int((lost[1] or lost[2]) if lost else 0) == counted >= 4 * 2000


def test_steps_of_a_packet_come_together(pair: Pair) -> None:
    """Packets wait in a queue while others go their way; each packet's steps are in one piece."""
    try:
        pair.a.tc("qdisc", "add", "dev", pair.a.device, "root", "tbf", "rate", "200kbit", "burst", "2kb", "limit",
                  "100kb")
    except subprocess.CalledProcessError:
        pytest.skip("kernel lacks tbf")
    sender, (receiver,), address = udp_pair(pair, socket.AF_INET, (4000,))
    only = f"udp and src port {sender.getsockname()[1]}"
    with sender, receiver, Tracer("packets", "--sort", "--tracepoints", "-f", "json", only) as tracer:
        for number in range(60):
            sender.sendto(number.to_bytes(4, "big"), (address, 4000))
        for _ in range(60):
            receiver.recv(10)
    shown: list[dict[str, Any]] = rows(tracer.stdout)
    ways = [(row["ID"], row["WAY"]) for row in shown]
    groups = [list(group) for _, group in groupby(shown, lambda row: (row["ID"], row["WAY"]))]
    assert sorted(row["TIME(us)"] for row in shown) != [row["TIME(us)"] for row in shown]
    assert len(groups) == len(set(ways)) == 60 and "in several parts" not in tracer.stderr
    for group in groups:
        steps, times = [row["STEP"] for row in group], [row["TIME(us)"] for row in group]
        # A packet that another CPU made is given back to that, and the kernel tells of it.
        way = steps[:-1] if steps[-1] == "consume_skb" else steps
        assert way[0] == "net_dev_queue" and way[-1] in ("netif_receive_skb", "skb_copy_datagram_iovec")
        assert times == sorted(times) and group[0]["AGE(us)"] == 0 and len({row["SKB"] for row in group}) == 1
    assert max(group[-1]["AGE(us)"] for group in groups) > 20_000


def test_packets_of_a_fleet(pair: Pair) -> None:
    """Each host's steps, with its name; the filter is compiled here."""
    sender, (receiver,), address = udp_pair(pair, socket.AF_INET, (4000,))
    only = f"udp and src port {sender.getsockname()[1]}"
    with sender, receiver, Tracer("fleet", "-H", "local:a", "-f", "json", "packets", "--tracepoints",
                                  only) as tracer:
        for number in range(20):
            sender.sendto(number.to_bytes(4, "big"), (address, 4000))
            receiver.recv(10)
    shown = Counter((row["host"], row["data"]["STEP"]) for row in map(json.loads, tracer.stdout.splitlines())
                    if row["type"] == "row")
    assert shown["a", "net_dev_queue"] == shown["a", "netif_receive_skb"] == 20, tracer.stdout


def test_packets_of_a_fleet_for_wireshark(pair: Pair, tmp_path: Path) -> None:
    """One file of two hosts, whose interfaces have their names; each host saw each packet, with its bytes."""
    sender, (receiver,), address = udp_pair(pair, socket.AF_INET, (4000,))
    only, path = f"udp and src port {sender.getsockname()[1]}", tmp_path / "x.pcapng"
    with sender, receiver, Tracer("fleet", "-H", "local:a,local:b", "packets", "--tracepoints", "-w", str(path),
                                  "--bytes", "96", only) as tracer:
        for number in range(20):
            sender.sendto(number.to_bytes(4, "big"), (address, 4000))
            receiver.recv(10)
    packets = read_pcapng(path.read_bytes())
    assert {packet.interface.partition(":")[0] for packet in packets} == {"a", "b"}, tracer.stderr
    for host, device, step in (("a", pair.a.device, "net_dev_queue"), ("b", pair.b.device, "netif_receive_skb")):
        numbers = [packet.data[-4:] for packet in packets
                   if packet.interface == f"{host}:{device}" and packet.comment == step]
        assert numbers == [number.to_bytes(4, "big") for number in range(20)], tracer.stderr


def test_a_recording_gives_every_format(pair: Pair, tmp_path: Path) -> None:
    """The same steps in each, as many as were counted; programs of others read the file of packets."""
    sender, (receiver,), address = udp_pair(pair, socket.AF_INET, (4000,))
    only, recording = f"udp src port {sender.getsockname()[1]}", tmp_path / "run"
    with sender, receiver, Tracer("record", "packets", "--bytes", "96", "-o", str(recording), only):
        for number in range(50):
            sender.sendto(number.to_bytes(4, "big"), (address, 4000))
            receiver.recv(10)
    shown = {}
    for form in ("text", "json", "csv", "pcapng"):
        shown[form] = tmp_path / f"x.{form}"
        assert not run_sonde("replay", str(recording), "-f", form, "-o", str(shown[form])).returncode
    steps = steps_of(shown["text"].read_text())
    assert steps["net_dev_queue"] == steps["netif_receive_skb"] == 50
    packets = Counter(packet.comment for packet in read_pcapng(shown["pcapng"].read_bytes()))
    table = list(csv.DictReader(shown["csv"].read_text().splitlines()))
    assert packets == Counter(row["STEP"] for row in rows(shown["json"].read_text())) == steps
    assert Counter(row["STEP"] for row in table if row["table"] in ("steps", "drops")) == steps
    numbers = [packet.data[-4:] for packet in read_pcapng(shown["pcapng"].read_bytes())
               if packet.comment == "netif_receive_skb"]
    assert numbers == [number.to_bytes(4, "big") for number in range(50)]
    if shutil.which("tshark"):
        said = subprocess.run(["tshark", "-r", str(shown["pcapng"]), "-T", "fields", "-e", "frame.comment", "-e",
                               "udp.dstport"], check=True, capture_output=True, text=True).stdout
        assert Counter(said.split("\n")[:-1]) == {f"{step}\t4000": count for step, count in steps.items()}
    if shutil.which("capinfos"):
        said = subprocess.run(["capinfos", "-Mc", str(shown["pcapng"])], check=True, capture_output=True,
                              text=True).stdout
        assert re.search(r"Number of packets: +(\d+)", said)[1] == str(sum(steps.values())), said


def test_a_drop_by_a_rule(pair: Pair) -> None:
    """The first incident: packets for a port never arrive; the drop's stack has the hook."""
    nft(pair.b, "table inet guard { chain in { type filter hook input priority 0; udp dport 4001 counter drop; }; }")
    sender, (receiver,), address = udp_pair(pair, socket.AF_INET, (4000,))
    with sender, receiver, Tracer("packets", "--drops", "udp port 4001 and host " + address) as tracer:
        sender.sendto(b"lost", (address, 4001))
        time.sleep(0.2)
    assert re.search(r"udp len 4 SKB_DROP_REASON_NETFILTER_DROP (nft_do_chain|nf_hook_slow)", tracer.stdout)
    assert "ip_local_deliver" in tracer.stdout and tracer.stdout.count("udp len") == 1


def test_a_delay_in_a_queue(pair: Pair) -> None:
    """The second: a shaper holds packets back. Their time in its queue is that of its rate."""
    try:
        pair.a.tc("qdisc", "add", "dev", pair.a.device, "root", "tbf", "rate", "1mbit", "burst", "2kb", "limit",
                  "100kb")
    except subprocess.CalledProcessError:
        pytest.skip("kernel lacks tbf")
    sender, (receiver,), address = udp_pair(pair, socket.AF_INET, (4000,))
    with sender, receiver, Tracer("packets", "-S", "udp port 4000") as tracer:
        for _ in range(20):
            sender.sendto(bytes(1000), (address, 4000))
        for _ in range(20):
            receiver.recv(2000)
    found = re.search(r"@us\[qdisc_enqueue, qdisc_dequeue\]: { .count = \d+, .average = (\d+),", tracer.stdout)
    assert found and int(found[1]) >= 20 * 1000 * 8 / 4  # us at 1 bit per us: half of the way to the last one, at least


class Router:
    """A client, a router, and two servers behind it: ``a`` - ``r`` - ``b``, ``c``; each on a network of its own."""

    def __enter__(self) -> Router:
        tag = f"{os.getpid() % 100000}"
        self.names = {side: f"sonder{tag}{side}" for side in "rabc"}
        for name in self.names.values():
            ip("netns", "add", name)
        self.toward: dict[str, str] = {}  # the router's devices
        self.sides = {side: Namespace(name, f"r{side}{tag}", 0) for side, name in self.names.items()}
        for number, side in enumerate("abc", 1):
            near, far = f"r{side}{tag}", f"to{side}{tag}"
            ip("link", "add", near, "netns", self.names[side], "type", "veth", "peer", "name", far, "netns",
               self.names["r"])
            for name, device, last in ((self.names[side], near, 2), (self.names["r"], far, 1)):
                ip("-n", name, "addr", "add", f"10.88.{number}.{last}/24", "dev", device)
                ip("-n", name, "link", "set", device, "up")
            ip("-n", self.names[side], "route", "add", "default", "via", f"10.88.{number}.1")
            self.toward[side] = far
        self.sides["r"].within(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))
        return self

    def __exit__(self, *unused: object) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_a_packet_that_leaves_by_the_wrong_device() -> None:
    """The third: a rule sends packets for a service to a server that a stale route has behind another device."""
    with Router() as router:
        nft(router.sides["r"], "table ip n { chain p { type nat hook prerouting priority -100; "
            "udp dport 53 dnat to 10.88.2.2:5353; }; }")
        ip("-n", router.names["r"], "route", "add", "10.88.2.2/32", "via", "10.88.3.2")
        with router.sides["a"].socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"warm", ("10.88.1.1", 53))
            time.sleep(0.2)
            with Tracer("packets", "--track", "-f", "json", "udp dst port 53 and host 10.88.1.1") as tracer:
                sender.sendto(b"query", ("10.88.1.1", 53))
                time.sleep(0.3)
        way = [(row["STEP"], row["DEVICE"], row["PACKET"].partition(" > ")[2]) for row in rows(tracer.stdout)]
        assert ("netif_receive_skb", router.toward["a"], "10.88.1.1:53 udp len 5") in way, tracer.stdout
        assert ("net_dev_queue", router.toward["c"], "10.88.2.2:5353 udp len 5") in way, tracer.stdout
        assert len({row["ID"] for row in rows(tracer.stdout)}) == 1


def test_options_that_make_no_sense() -> None:
    assert "leave --drops" in run_sonde("packets", "-S", "--drops").stderr
    assert "leave --sort" in run_sonde("packets", "-S", "--sort").stderr
    assert "as they come" in run_sonde("top", "packets", "--sort").stderr
    fleet = ("fleet", "-H", "local:a")
    assert "has no --sort" in run_sonde(*fleet, "packets", "--sort").stderr
    assert "syntax error" in run_sonde(*fleet, "packets", "tcp port").stderr
    assert "for Wireshark only" in run_sonde(*fleet, "packets", "--bytes", "64").stderr
    assert "needs a FILTER" in run_sonde("packets", "-t").stderr
    assert "leave --write" in run_sonde("packets", "-S", "-w", "x").stderr
    assert "leave --format out" in run_sonde("packets", "-w", "x", "-f", "json").stderr
    assert "names no functions" in run_sonde("packets", "--functions", "ip_*,/x/").stderr
    nothing = run_sonde("packets", "--functions", "no_such_function")
    assert nothing.returncode == 1 and "no function of these names takes a packet" in nothing.stderr
    assert "leave --drops" in run_sonde("packets", "--drops", "--functions", "ip_*").stderr
    assert "syntax error" in run_sonde("packets", "tcp port").stderr
