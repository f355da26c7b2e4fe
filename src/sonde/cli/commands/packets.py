"""``sonde packets``: the way of packets through the kernel, by the tracepoints that carry one."""

from __future__ import annotations

from ...base.record import Record
from ...errors import UsageError
from .generated import number_option, quote_string, run_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
packets: follow packets through the kernel, step by step

USAGE
  sonde packets [OPTIONS] [FILTER]

  Shows each step of the packets that FILTER takes, a filter of tcpdump's: 'udp port 53'. Without FILTER, all packets.
  Prints how many steps there were when it ends, at Ctrl-C or after -s SECONDS.

OPTIONS
  -d, --drops         only drops, with the reason and the kernel's stack
  -t, --track         also follow packets that FILTER took once and takes no longer: after NAT
  -k, --stack         the kernel's stack below each step
  -S, --summary       no lines: the times between steps at the end
  -s, --seconds N     end after so many seconds

COLUMNS
  TIME(us)   microseconds since the tracing began
  AGE(us)    microseconds since the packet was first seen
  CPU        where
  PID        process that the CPU was working for: in interrupts, not the packet's own
  COMM       name of its thread
  NETNS      the packet's network namespace, as lsns shows it
  DEVICE     the network device that has the packet
  ID         address of the packet's memory: a packet and its clones have the same
  STEP       the tracepoint
  PACKET     what its headers say
  REASON     why it was dropped, in the kernel's words
  AT         the function that dropped it
  STACK      the kernel's stack
  @steps[STEP]     steps that were seen, including those whose lines were lost
  @us[FROM, TO]    with -S: microseconds from one step to the next: count, average, total
  @drops[REASON]   packets that were dropped

EXAMPLE
  # sonde packets -S 'udp port 4000'
  Tracing packets. Ctrl-C to end.
  ^C
  @us[net_dev_start_xmit, netif_rx]: { .count = 3, .average = 2, .total = 8 }
  @us[netif_rx, netif_receive_skb]: { .count = 3, .average = 3, .total = 9 }
  @us[net_dev_queue, net_dev_start_xmit]: { .count = 3, .average = 6, .total = 19 }
  @us[netif_receive_skb, kfree_skb]: { .count = 1, .average = 7, .total = 7 }
  @drops[SKB_DROP_REASON_NETFILTER_DROP]: 1
  @steps[kfree_skb]: 1
  @steps[net_dev_queue]: 3
  @steps[net_dev_start_xmit]: 3
  @steps[netif_receive_skb]: 3
  @steps[netif_rx]: 3

READING
  A packet that is dropped ends with kfree_skb and a reason; consume_skb is the usual end. The longest gap between two
  steps (-S) says where packets wait: qdisc_enqueue to qdisc_dequeue is a queue's own. A packet that is not
  seen where it should arrive left by the device of its last step.

NEEDS
  raw tracepoints, BTF; libpcap for a FILTER; reasons from Linux 5.17 on

NOTES
  These tracepoints are seen:
{steps}.
  What happens between them is not: routing, netfilter's verdicts other than drops, XDP and tc programs, and frees
  without a tracepoint (UDP datagrams and segments of TCP that were read). Which rule of nftables dropped a packet the
  kernel does not say; the stack of -d has the hook: ip_rcv is prerouting, ip_local_deliver input, ip_forward forward,
  __ip_local_out output, ip_output postrouting. At skb_copy_datagram_iovec and later, a UDP packet has no DEVICE and no
  NETNS any more. The kernel gives the same memory to other packets later: AGE and -t take a step for one of the same
  packet only if protocol, sequence number and length of the payload are the same, its end was not seen, and it has not
  arrived before it is sent or arrives again. Copies (the packet needed more room, GSO, GRO) and tunnels are new
  packets.
"""


LEAVES, ARRIVED = 1, 2  # parts of a packet's way


class Step(Record):
    """A raw tracepoint with a packet ``args.skb``: the part of the way that it is in, whether it ends there, when there
    is a packet (``guard``), and when it is another one than was in that part of the way before (``fresh``)."""

    name: str
    part: int = ARRIVED
    ends: bool = False
    guard: str = "true"
    fresh: str = "false"


# What a program sends has a socket; what arrived and is sent on has none.
STEPS = (
    Step("net_dev_queue", LEAVES, fresh=f"(uint64)$skb->sk != 0 && $seen.4 == {ARRIVED}"),
    Step("qdisc_enqueue", LEAVES), Step("qdisc_dequeue", LEAVES, guard="(uint64)args.skb != 0"),
    Step("net_dev_start_xmit", LEAVES), Step("netif_rx", fresh=f"$seen.4 == {ARRIVED}"),
    Step("napi_gro_receive_entry", fresh=f"$seen.4 == {ARRIVED}"), Step("netif_receive_skb"), Step("icmp_send"),
    Step("tcp_probe"), Step("tcp_bad_csum"), Step("sock_rcvqueue_full"), Step("udp_fail_queue_rcv_skb"),
    Step("skb_copy_datagram_iovec"), Step("consume_skb", ends=True), Step("kfree_skb", ends=True),
)
_NAMES = [step.name for step in STEPS]
PAGE = PAGE.replace("{steps}", ",\n".join("  " + ", ".join(_NAMES[at:at + 6]) for at in range(0, len(_NAMES), 6)))
_COLUMNS = """\
config = { print_maps_on_exit = false }
table way {
  "TIME(us)": "%-10lld"; "AGE(us)": "%-8lld"; CPU: "%-3d"; PID: "%-7d"; COMM: "%-15s"; NETNS: "%-10llu";
  DEVICE: "%-10s"; ID: "%-16llx"; STEP: "%-23s"; PACKET: "%s";
}
"""
_MAPS = """\
let @first = lruhash(max_packets);
macro is_drop() {
  if (exists("args.reason")) { args.reason > SKB_DROP_REASON_NOT_SPECIFIED } else { true }
}
macro drop_reason() { if (exists("args.reason")) { args.reason } else { "not known" } }
macro same_packet($p, $seen) { $seen.1 == $p.protocol && $seen.2 == $p.seq && $seen.3 == $p.payload }
macro is_last(skb) {
  $shared = (struct skb_shared_info *)((uint64)skb->head + skb->end);
  ($shared->dataref.counter & 0xffff) < 2
}
"""
_LAST = "let @last = lruhash(max_packets);\nlet @step = lruhash(max_packets);\n"


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    return run_script("packets", build_script(parsed.named, parsed.words[1:] + parsed.rest), parsed)


def build_script(named: dict[str, str], words: list[str]) -> str:
    """The program for these options; UsageError if they make no sense."""
    if "summary" in named and named.keys() & {"drops", "stack"}:
        raise UsageError("--summary prints no lines: leave --drops and --stack out")
    filter = " ".join(words)
    if "track" in named and not filter:
        raise UsageError("--track needs a FILTER: without one, all packets are followed")
    stack = "drops" in named or "stack" in named
    seconds = number_option(named, "seconds")
    limit = f"interval:s:{seconds} {{ exit(); }}\n" if seconds else ""
    below = ' STACK: "\\n%s";' if stack else ""
    steps = [step for step in STEPS if "drops" not in named or step.name == "kfree_skb"]
    tables = f'table steps {{ way;{below} }}\ntable drops {{ way; REASON: "%s"; AT: "%s";{below} }}\n'
    start = 'printf("Tracing packets. Ctrl-C to end.\\n");' if "summary" in named else \
        "heading(drops);"
    parts = [_COLUMNS, tables, _MAPS, _match_macro(filter, "track" in named), f"begin {{ {start} }}\n",
             *([_LAST] if "summary" in named else []), *[_probe(step, named, stack) for step in steps], limit,
             f"end {{ {'print(@us); ' if 'summary' in named else ''}print(@drops); print(@steps); clear(@first); }}\n"]
    return "".join(parts)


def _match_macro(filter: str, track: bool) -> str:
    """Whether a packet is shown: the filter takes it, or has taken it before."""
    passes = f"pcap({quote_string(filter)}, skb)" if filter else "true"
    if track:
        passes = f"$same || {passes}"
    return f"macro wanted(skb, $same) {{ {passes} }}\n"


def _probe(step: Step, named: dict[str, str], stack: bool) -> str:
    """The clause of a tracepoint."""
    summary = "summary" in named
    conditions = [f'exists("rawtracepoint:{step.name}")', step.guard, "is_drop()" if "drops" in named else "true"]
    forget = " ".join(f"delete({name}, $id);" for name in ("@first", *(("@last", "@step") if summary else ())))
    end = f"if (is_last($skb)) {{ {forget} }}" if step.ends else ""
    count = "if (is_drop()) { @drops[drop_reason()] = count(); }" if step.name == "kfree_skb" else ""
    return (f"rawtracepoint:{step.name} /{' && '.join(conditions)}/ {{\n"
            f"  $skb = (struct sk_buff *)args.skb; $id = skb_id($skb); $p = packet($skb); $seen = @first[$id];\n"
            f"  $now = nsecs; $same = has_key(@first, $id) && same_packet($p, $seen) && !({step.fresh});\n"
            f"  if (wanted($skb, $same)) {{\n"
            f'    @steps["{step.name}"] = count(); {count}\n'
            f"    if (!$same || $seen.4 != {step.part}) {{\n"
            f"      $seen = ($same ? $seen.0 : $now, $p.protocol, $p.seq, $p.payload, (uint8){step.part});\n"
            f"      @first[$id] = $seen;\n"
            f"    }}\n    {_summary_of(step) if summary else _line_of(step, stack)}\n    {end}\n  }}\n}}\n")


def _line_of(step: Step, stack: bool) -> str:
    values = ("elapsed / 1000, (int64)($now - $seen.0) / 1000, (int32)cpu, pid, comm, net_ns($skb), ifname($skb), $id, "
              f'"{step.name}", $p')
    below = ", kstack(12)" if stack else ""
    if step.name == "kfree_skb":
        return f"drops({values}, drop_reason(), ksym((uint64)args.location){below});"
    return f"steps({values}{below});"


def _summary_of(step: Step) -> str:
    """The time since the step before."""
    return (f'if ($same && has_key(@last, $id)) {{ @us[@step[$id], "{step.name}"] = stats(($now - @last[$id]) / 1000); '
            f'}}\n    @last[$id] = $now; @step[$id] = "{step.name}";')
