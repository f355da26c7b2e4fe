"""pcap() in the kernel: frames that a test sends, in namespaces of its own; libpcap's verdict on the same bytes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from namespaces import Pair, connected, echo_request, port_of, receive
from packet_filters import FilterMaker, PacketMaker, has_libpcap, libpcap_verdict
from packet_reader import Reader
from printed import rows
from sonde.kernel.pcap import compile_filter
from support import Tracer, run_sonde, trace, wait_for

SEED = int(os.environ.get("SONDE_FUZZ_SEED", str(int(time.time()) % (1 << 24))))
FRAMES, TOGETHER, ROUNDS = 60, 16, 6
TYPES = {b"\x08\x00", b"\x86\xdd", b"\x08\x06", b"\x81\x00", b"\x88\xa8", b"\x88\x47"}

pytestmark = pytest.mark.skipif(not has_libpcap(), reason="libpcap is not installed")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair() as made:
        yield made


def send_frames(pair: Pair, frames: list[bytes]) -> None:
    """The frames, from one end of the pair to the other."""
    with pair.a.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((pair.a.device, 0x88B5))
        for frame in frames:
            sock.send(frame)


def test_verdicts_in_the_kernel(pair: Pair) -> None:
    """Frames are told apart by what this process sends: nothing else is in ours."""
    print(f"SONDE_FUZZ_SEED={SEED}")
    maker, filters = PacketMaker(SEED), FilterMaker(SEED, chains=False)
    frames = [frame for frame, _ in (maker.frame() for _ in range(FRAMES)) if len(frame) >= 20]
    matches = 0
    for _ in range(ROUNDS):
        texts: list[str] = []
        while len(texts) < TOGETHER:
            text = filters.expression()
            answer = compile_filter(text, "ethernet")
            if answer is not None and not answer.problem:
                texts.append(text)
        bits = " | ".join(f'((uint64)pcap("{text}", args.skb) << {at})' for at, text in enumerate(texts))
        for event, side in (("net_dev_queue", pair.a), ("netif_receive_skb", pair.b)):
            script = f'rawtracepoint:{event} /args.skb.dev.name == "{side.device}"/ {{ ' \
                f'printf("%d %d\\n", args.skb.len + (args.skb.data - args.skb.head) - args.skb.mac_header, {bits}); }}'
            tracer = trace(script, lambda: send_frames(pair, frames))
            got = [tuple(map(int, line.split())) for line in tracer.lines]
            wanted = [(len(frame), sum(verdict(text, frame) << at for at, text in enumerate(texts)))
                      for frame in frames]
            assert got == wanted, f"{event}\n" + "\n".join(texts)
            assert "WARNING" not in tracer.stderr
            matches += sum(bits.bit_count() for _, bits in wanted)
    assert matches > ROUNDS * FRAMES


def test_fields_in_the_kernel(pair: Pair) -> None:
    """packet() of the same frames, where they are sent and where they arrive; as a value, and as a key."""
    print(f"SONDE_FUZZ_SEED={SEED}")
    maker = PacketMaker(SEED)
    frames = [frame for frame, _ in (maker.frame() for _ in range(FRAMES)) if len(frame) >= 20]
    for event, side in (("net_dev_queue", pair.a), ("netif_receive_skb", pair.b)):
        script = f'rawtracepoint:{event} /args.skb.dev.name == "{side.device}"/ {{ $p = packet(args.skb); ' \
            'printf("%s %s %d %d %d %d %d\\n", $p.saddr, $p.daddr, $p.protocol, $p.sport, $p.dport, $p.len, ' \
            '$p.read); @[packet(args.skb)] = count(); }'
        tracer = trace(script, lambda: send_frames(pair, frames))
        wanted = [Reader(frame, True).fields for frame in frames]
        names = ("saddr", "daddr", "protocol", "sport", "dport", "len", "read")
        values = [line for line in tracer.lines if not line.startswith("@") and line]
        assert values == [" ".join(str(fields[name]) for name in names) for fields in wanted], event
        counts = [int(line.rpartition(": ")[2]) for line in tracer.lines if line.startswith("@[")]
        assert sorted(counts) == sorted(Counter(tuple(fields.values()) for fields in wanted).values())
        assert "WARNING" not in tracer.stderr


def test_the_network_namespace_of_a_task() -> None:
    """Of one in a namespace of its own, and of this one."""
    words = ("-q", "-e", "begin { print(net_ns); exit(); }")
    done = subprocess.run(["unshare", "-n", sys.executable, "-m", "sonde", *words], capture_output=True, text=True,
                          check=True)
    own = run_sonde(*words)
    here = re.sub(r"\D", "", os.readlink("/proc/self/ns/net"))
    assert own.stdout.split() == [here] and done.stdout.strip().isdigit() and done.stdout.split() != [here]


def verdict(text: str, frame: bytes) -> bool:
    answer = compile_filter(text, "ethernet")
    assert answer is not None
    return libpcap_verdict(answer.instructions, frame)


def test_a_connection_by_its_port(pair: Pair) -> None:
    """What goes over a connection is all that a filter for its port shows, in both directions."""
    listener = pair.b.listener()
    port = port_of(listener)
    script = 'rawtracepoint:net_dev_queue /pcap(getopt("filter", ""), args.skb)/ { @ = count(); }'

    def talk() -> None:
        near, far = connected(pair.a, listener)
        near.sendall(b"x" * 5000)
        receive(far, 5000)
        far.close()
        near.close()

    before = pair.a.counters()["TcpOutSegs"] + pair.b.counters()["TcpOutSegs"]
    with Tracer("-e", script, "--", f"--filter=tcp port {port}") as tracer:
        with listener:
            talk()
        time.sleep(0.2)
    after = pair.a.counters()["TcpOutSegs"] + pair.b.counters()["TcpOutSegs"]
    [line] = tracer.lines
    assert 6 <= int(line.split()[1]) <= after - before


def test_a_header_that_is_not_there_yet(pair: Pair) -> None:
    """A segment in a socket's queue has no headers: no filter can say what it is, and that is told."""
    script = 'rawtracepoint:tcp_retransmit_skb /pcap("tcp", args.skb)/ { @ = count(); }'
    with pair.b.listener() as listener:
        near, far = connected(pair.a, listener)
        with near, far, Tracer("-e", script) as tracer:
            lost = pair.a.counters()["TcpRetransSegs"]
            pair.b.address("del")  # nobody answers now
            near.sendall(b"x" * 500)
            wait_for(lambda: pair.a.counters()["TcpRetransSegs"] > lost)
            pair.b.address("add")
    assert "without the header that the filter needs" in tracer.stderr


@pytest.mark.parametrize("expression, says", [
    ("tcp port", "can't parse filter expression: syntax error"), ("port nosuchservice", "nosuchservice"),
    ("tcp and udp", "expression rejects all packets"), ("inbound", "in which direction"),
    ("ip host 1.2.3.4.5", "1.2.3.4.5"), (r"tcp\0 or udp", "NUL")])
def test_errors_stand_at_the_expression(expression: str, says: str) -> None:
    script = f'rawtracepoint:net_dev_queue /pcap("{expression}", args.skb)/ {{ @ = count(); }}'
    done = run_sonde("-e", script)
    at = script.index('"') + 1
    assert done.returncode == 1 and says in done.stderr
    assert f":1:{at}-{at + len(expression) + 2}: ERROR: " in done.stderr


def test_other_pointers_are_refused() -> None:
    done = run_sonde("-e", 'rawtracepoint:net_dev_queue /pcap("tcp", args.skb.dev)/ { @ = count(); }')
    assert done.returncode == 1 and "expects a pointer to a struct sk_buff" in done.stderr


def test_parameters(pair: Pair) -> None:
    """$1 is the filter, quoted or by str()."""
    maker = PacketMaker(7)
    frames = [frame for frame, _ in (maker.frame() for _ in range(40)) if len(frame) >= 20]
    script = f'rawtracepoint:net_dev_queue /args.skb.dev.name == "{pair.a.device}" && pcap(str($1), args.skb)/ ' \
        '{ @ = count(); }'
    with Tracer("-e", script, "ip or arp") as tracer:
        send_frames(pair, frames)
    assert tracer.lines == [f"@: {sum(verdict('ip or arp', frame) for frame in frames)}"]


def names_of(pair: Pair) -> list[dict[str, object]]:
    """Each step of three datagrams from one end of the pair to the other, both of which are known."""
    return [{"step": step, "device": end.device, "namespace": os.stat(f"/run/netns/{end.name}").st_ino}
            for _ in range(3) for step, end in (("down", pair.a), ("up", pair.b))]


STEPS = """rawtracepoint:net_dev_queue /pcap("udp dst port {port} and dst host {host}", args.skb)/ {{
  print((step="down", device=ifname(args.skb), namespace=net_ns(args.skb), id=skb_id(args.skb)));
  @[net_ns(args.skb), ifname(args.skb)] = count(); }}
rawtracepoint:netif_receive_skb /pcap("udp dst port {port} and dst host {host}", args.skb)/ {{
  print((step="up", device=ifname(args.skb), namespace=net_ns(args.skb), id=skb_id(args.skb))); }}"""


@pytest.fixture(scope="module")
def steps(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What live runs and the replay of a recording print, by format."""
    port, file = 45900 + os.getpid() % 100, str(tmp_path_factory.mktemp("steps") / "x.sonde")
    script = STEPS.format(port=port, host=pair.b.v4)
    with pair.a.socket(kind=socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", (pair.b.v4, 9))
        time.sleep(0.1)
        with Tracer("-e", script) as text, Tracer("-f", "json", "-e", script) as json_lines, \
                Tracer("-f", "csv", "-e", script) as csv, Tracer("record", "-o", file, "-e", script):
            for _ in range(3):
                sock.sendto(b"x", (pair.b.v4, port))
    return {"text": text.stdout, "json": json_lines.stdout, "csv": csv.stdout,
            "replayed": run_sonde("replay", "-f", "json", file).stdout}


@pytest.mark.parametrize("format", ["json", "replayed"])
def test_device_namespace_and_identity(pair: Pair, steps: dict[str, str], format: str) -> None:
    messages = [json.loads(line) for line in steps[format].splitlines() if line]
    values = [each["data"] for each in messages if each["type"] == "value"]
    assert [{name: value for name, value in each.items() if name != "id"} for each in values] == names_of(pair)
    ids = [int(each["id"]) for each in values]
    assert ids[::2] == ids[1::2] and min(ids) >> 63  # veth hands the packet itself over
    [counted] = [each["data"] for each in messages if each["type"] == "map"]
    namespace = os.stat(f"/run/netns/{pair.a.name}").st_ino
    assert counted == {"@": {f"{namespace},{pair.a.device}": 3}}


def test_device_and_namespace_as_text(pair: Pair, steps: dict[str, str]) -> None:
    namespace = os.stat(f"/run/netns/{pair.b.name}").st_ino
    assert steps["text"].count(f".device = {pair.b.device}, .namespace = {namespace},") == 3, steps["text"]
    assert steps["csv"].count(pair.b.device) == 3 and str(namespace) in steps["csv"], steps["csv"]


# A tool, what it prints of a datagram that its filter takes, and of one that it does not.
TOOLS = {
    "netsize": (["-s"], r"@recv\[{b}\]: {{ .count = (\d+)"),
    "skbdrop": (["-r", "-n"], r"@reason\[SKB_DROP_REASON_NO_SOCKET\]: (\d+)"),
    "ipecn": (["-c"], r"@from\[{v4}\]: (\d+)"),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_show_what_the_filter_takes(pair: Pair, tool: str) -> None:
    """Of datagrams to two ports at which nobody listens, those to one."""
    options, pattern = TOOLS[tool]
    port, other = 45100 + os.getpid() % 100, 45300 + os.getpid() % 100
    with pair.a.socket(kind=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 3)
        sock.sendto(b"x", (pair.b.v4, other))  # finds out who has the address
        time.sleep(0.1)
        with Tracer(tool, *options, "-F", f"udp dst port {port} and dst host {pair.b.v4}") as tracer:
            for _ in range(7):
                sock.sendto(b"xyz", (pair.b.v4, port))
                sock.sendto(b"xyz", (pair.b.v4, other))
            time.sleep(0.2)
    counts = re.findall(pattern.format(b=pair.b.device, v4=re.escape(pair.a.v4)), tracer.stdout)
    assert sum(map(int, counts)) == 7, tracer.stdout


def test_tcpdrop_of_a_filter(pair: Pair) -> None:
    """Attempts to connect to two ports at which nobody listens: those to one of them are shown."""
    ports = [45500 + os.getpid() % 100, 45700 + os.getpid() % 100]
    with Tracer("tcpdrop", "-n", "-f", "json", "-F", f"tcp dst port {ports[0]} and dst host {pair.b.v4}") as tracer:
        for port in ports * 3:
            with pair.a.socket() as sock, pytest.raises(ConnectionRefusedError):
                sock.connect((pair.b.v4, port))
    assert [row["DPORT"] for row in rows(tracer.stdout)] == [ports[0]] * 3


def test_qdisclat_and_superping_of_a_filter(pair: Pair) -> None:
    """Of requests that all are answered and have a queue to go through, those of one size."""
    try:
        pair.a.tc("qdisc", "add", "dev", pair.a.device, "root", "tbf", "rate", "1mbit", "burst", "2kb", "limit",
                  "100kb")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tbf: {error.stderr}")
    try:
        only = f"icmp and dst host {pair.b.v4} and greater 90"
        with Tracer("qdisclat", "-s", "-i", pair.a.device, "-F", only, "tbf") as waits, \
                Tracer("superping", "-F", only, "-f", "json") as pings, \
                pair.a.socket(kind=socket.SOCK_RAW, protocol=socket.IPPROTO_ICMP) as sock:
            for sequence in range(1, 7):
                request = echo_request(socket.AF_INET, os.getpid() & 0xFFFF, sequence)
                sock.sendto(request if sequence % 2 else with_payload(request, 100), (pair.b.v4, 0))
            time.sleep(0.3)
    finally:
        pair.a.tc("qdisc", "del", "dev", pair.a.device, "root")
    assert [row["SEQ"] for row in rows(pings.stdout)] == [2, 4, 6], pings.stdout
    assert re.search(r"@wait\[tbf\]: { .count = 3,", waits.stdout) and "unmatched" not in waits.stdout, waits.stdout


def with_payload(request: bytes, zeros: int) -> bytes:
    """A request with so many zeros at its end, which leave its checksum as it is."""
    return request + bytes(zeros)


def test_without_libpcap() -> None:
    """It is said what is missing, and how to get it."""
    hidden = "import sonde.kernel.pcap as pcap; pcap._libraries.append(None); from sonde.compiling import compile; " \
        "compile('rawtracepoint:net_dev_queue { print(pcap(\"tcp\", args.skb)); }')"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert "pcap() needs libpcap, which is not installed" in done.stderr and "libpcap0.8" in done.stderr
