"""``sonde packets``: the way of packets through the kernel, by all functions that take one where programs can be
attached to them at once, else by the tracepoints that carry one."""

from __future__ import annotations

from ...base.record import Record
from ...errors import UsageError
from ...source import Source
from .generated import number_option, quote_string, run_script
from .packet_programs import (
    DECLARATIONS,
    NO_PART,
    LineOptions,
    clock_of,
    print_counts,
    program_clauses,
    table_rows,
    tell_of_bare_programs,
)
from .packet_rules import ANY, LOOK_UP, rule_clauses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
packets: follow packets through the kernel, step by step

USAGE
  sonde packets [OPTIONS] [FILTER]

  Shows each step of the packets that FILTER takes, a filter of tcpdump's: 'udp port 53'. Without FILTER, all packets.
  Steps are the kernel functions that take a packet (struct sk_buff *), all of them; on kernels that attach no program
  to many functions at once they are the tracepoints that carry one. The XDP and tc programs that get a packet are steps
  too, with their verdicts. Prints how many steps there were when it ends, at Ctrl-C or after -d SECONDS.

OPTIONS
  --drops             only drops, with the reason and the kernel's stack
  -t, --track         also follow packets that FILTER took once and takes no longer: after NAT
  --sort              the steps of each packet together, as soon as it has made none for a second, or at the end
  -k, --stack         the kernel's stack below each step
  -S, --summary       no lines: the times between steps at the end
  -w, --write FILE    no lines: a file for Wireshark (pcapng), each step with its packet, its name and the reason
  --bytes N           keep so many bytes of each packet, for -f pcapng (256)
  -d, --duration SECONDS  end after so long
  --functions PATTERNS   steps are only those kernel functions: 'ip_*,tcp_v4_rcv'
  --tracepoints       steps are tracepoints, also where functions can be attached to: a fraction of the cost

COLUMNS
  TIME(us)   microseconds since the tracing began
  AGE(us)    microseconds since the packet was first seen
  CPU        where
  PID        process that the CPU was working for: in interrupts, not the packet's own
  COMM       name of its thread
  NETNS      the packet's network namespace, as lsns shows it
  DEVICE     the network device that has the packet
  ID         address of the packet's memory: a packet and its clones have the same
  WAY        with --sort: when the packet was first seen, in nanoseconds since boot; ID and WAY are those of one packet
  SKB        with --sort: address of its struct sk_buff, of which a clone has one of its own
  STEP       the kernel function that gets the packet, or the tracepoint, or the program: fexit:bpf:ID:NAME
  PACKET     what its headers say
  VERDICT    what the program says of the packet: XDP_DROP, TC_ACT_OK
  REASON     why it was dropped, in the kernel's words
  AT         the function that dropped it
  RULE       the rule of nftables that dropped it, as nft -a shows it, with its comment, or the chain whose policy did;
             of iptables-legacy the table and the chain
  STACK      the kernel's stack
  LINKED     with --bytes: whether BYTES begin with a link header, else with that of IP
  LENGTH     with --bytes: the packet's length from there on
  BYTES      with --bytes: what of it lies in one piece with its headers
  @steps[STEP]     steps that were seen, including those whose lines were lost
  @us[FROM, TO]    with -S: microseconds from one step to the next: count, average, total
  @drops[REASON]   packets that were dropped
  @xdp[STEP, VERDICT], @tc[STEP, VERDICT]   packets that programs got, and what they said of them
  @undecided[STEP]   packets without any header yet, of which FILTER cannot be asked: not counted as steps

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
  raw tracepoints, BTF; libpcap for a FILTER; reasons from Linux 5.17 on; kprobe.multi (Linux 5.18) or tracing_multi
  (7.2) for all functions, kprobes for --functions, fentry and fexit for RULE (Linux 6.5) and for programs

NOTES
  Functions: those whose first struct sk_buff * is one of the first six arguments, of modules too, as far as they can
  be traced; sonde -l 'kprobe:*(arg0=sk_buff)' lists those where it is the first argument. What was inlined is not
  seen. Where a packet is dropped, the tracepoint kfree_skb adds a line with the reason, which is no step. --drops needs
  that tracepoint only.
  Where functions cannot be attached to, these tracepoints are seen:
{steps}.
  What happens between them is not: routing, netfilter's verdicts other than drops, and frees without a tracepoint (UDP
  datagrams and segments of TCP that were read); nor are XDP and tc programs where there is no fentry.
  XDP and tc programs (types xdp, sched_cls, sched_act) have a line when they return, with the packet as it came: FILTER
  is asked before, as a program may change the packet or answer it. With --drops those that drop it (XDP_DROP,
  XDP_ABORTED, TC_ACT_SHOT), of which kfree_skb tells the second time what tc drops; with -S they are counted only, and
  --functions leaves them out. TCX_NEXT is shown as TC_ACT_UNSPEC, TCX_PASS as TC_ACT_OK, TCX_DROP as TC_ACT_SHOT. Not
  seen are programs that are loaded after the tracing began; those that another one calls by a tail call, or replaces
  functions of (the dispatcher of libxdp): the verdict is there, under the name of the first; and those that were loaded
  without type information, which is said at the start. What a classifier without direct-action returns is a class, and
  no verdict. A packet that the driver copies, or the program sends on (XDP_TX, XDP_REDIRECT), is a new
  one afterwards.
  RULE needs fentry and fexit, and nf_tables (from Linux 6.5 on) or ip_tables must be loaded when the tracing begins;
  elsewhere there is no such column. It is empty where no rule and no policy of these dropped the packet (arptables,
  other hooks), or where the rule's chain has more than 4096 rules; drops by rules are rows of the table rule_drops.
  Rules of iptables-legacy have no names: which one it was, its counters say (iptables-legacy -t TABLE -nvL). The stack
  of --drops has the hook: ip_rcv is prerouting, ip_local_deliver input, ip_forward forward, __ip_local_out output,
  ip_output postrouting.
  --sort: a packet that waits longer than a second comes in parts, and so does one for which there is no room
  (--memory); how many these are is told at the end. At skb_copy_datagram_iovec and later, a UDP packet has no
  DEVICE and no NETNS any more. The kernel gives the same memory to other packets later: AGE and -t take a step for one
  of the same packet only if protocol, sequence number and length of the payload are the same, its end was not seen, and
  it has not arrived before it is sent or arrives again. Copies (the packet needed more room, GSO, GRO) and tunnels are
  new packets.
"""


LEAVES, ARRIVED = 1, 2  # parts of a packet's way
POSITIONS = range(6)    # of arguments in registers
# Whether all functions can be attached to at once, or those of a pattern one by one.
_AT_ONCE = '(exists("feature:kprobe_multi") || exists("feature:tracing_multi"))'


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
config = {{ print_maps_on_exit = false{config} }}
table way {{
  "TIME(us)": "%-10lld"; "AGE(us)": "%-8lld"; CPU: "%-3d"; PID: "%-7d"; COMM: "%-15s"; NETNS: "%-10llu";
  DEVICE: "%-10s"; ID: "%-16llx";{way} STEP: "%-23s"; PACKET: "%s";
}}
"""
_SORT = '; group_rows = "ID WAY"'
_WAY = ' WAY: "%-16llu"; SKB: "%-16llx";'
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
macro has_header(skb) {
  skb->network_header != 0 || skb->mac_header != 0xffff && (uint64)skb->data - (uint64)skb->head >= skb->mac_header + 14
}
"""
_LINKED = """\
macro is_linked($skb) {
  $mac = (uint64)$skb->mac_header; $net = (uint64)$skb->network_header;
  $mac != 0xffff && ($net >= $mac + 14 || $net <= $mac && (uint64)$skb->data - (uint64)$skb->head >= $mac + 14)
}
"""
USUAL_BYTES, MOST_BYTES = 256, 1024
_GONE = "let @gone = lruhash(max_packets);\n"
_LAST = "let @last = lruhash(max_packets);\nlet @step = lruhash(max_packets);\n"


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    if "sort" in parsed.named and (parsed.command in ("top", "serve") or parsed.has("flight")):
        shown = f"sonde {parsed.command}" if parsed.command in ("top", "serve") else "--flight"
        raise UsageError(f"{shown} shows steps as they come: leave --sort out")
    text = _text_of(parsed)
    if "functions" not in parsed.named:
        tell_of_bare_programs()
    return run_script("packets", text, parsed)


def fleet_source(parsed: Parsed) -> Source:
    """The script for the hosts of a fleet, with what follows for the command line; UsageError for what many hosts have
    not."""
    from . import command_page
    if "sort" in parsed.named:
        raise UsageError("fleet packets has no --sort: the steps of all hosts come in order of time",
                         ["a packet has another address on each host"])
    if "bytes" in parsed.named and "write" not in parsed.named and parsed.get("format") != "pcapng":
        raise UsageError("fleet packets keeps bytes of packets for Wireshark only: --write FILE --bytes N")
    if words := " ".join(parsed.words[1:] + parsed.rest).strip():
        parsed.words, parsed.rest = [*parsed.words[:1], _compile_here(words)], []
    text = _text_of(parsed)
    parsed.columns, parsed.tool = command_page("packets").columns, "packets"
    parsed.named.clear()
    del parsed.words[1:], parsed.rest[:]
    return Source("packets", text, internal=True)


def _compile_here(filter: str) -> str:
    """The filter as bytecode: hosts take no text of a stranger's to libpcap, and know other names."""
    from ...compiler.lower.classic_text import write_classic
    from ...functions.packets import program_without_link
    from ...kernel.pcap import compile_filter
    link, bare = (compile_filter(filter, kind) for kind in ("ethernet", "ip"))
    if link is None or bare is None:
        raise UsageError("a FILTER needs libpcap, which is not installed")
    if link.problem:
        raise UsageError(f"{filter}: {link.problem}")
    return write_classic((link.instructions, program_without_link(bare)))


def _text_of(parsed: Parsed) -> str:
    """The script that the command line asks for, with what -w says of the output."""
    if "write" in parsed.named:
        for name, value in (("format", "pcapng"), ("output", parsed.named["write"])):
            if parsed.has(name):
                raise UsageError(f"--write FILE is -f pcapng -o FILE: leave --{name} out")
            parsed.options[name] = value
    if parsed.get("format") == "pcapng":
        parsed.named.setdefault("bytes", str(USUAL_BYTES))
    return build_script(parsed.named, parsed.words[1:] + parsed.rest)


def build_script(named: dict[str, str], words: list[str]) -> str:
    """The program for these options; UsageError if they make no sense."""
    return _Script(named, " ".join(words)).text()


class _Script:
    """The options, and the program that they ask for."""

    def __init__(self, named: dict[str, str], filter: str) -> None:
        self.filter, self.seconds = filter, number_option(named, "duration")
        self.drops, self.track, self.summary, self.sort = (name in named
                                                           for name in ("drops", "track", "summary", "sort"))
        self.stack = self.drops or "stack" in named
        self.bytes = number_option(named, "bytes", most=MOST_BYTES) if "bytes" in named else 0
        self.writes = "write" in named
        self.functions = named.get("functions", "")
        self.tracepoints = "tracepoints" in named or self.drops
        if self.summary and self.stack:
            raise UsageError("--summary prints no lines: leave --drops and --stack out")
        if self.summary and self.bytes:
            raise UsageError("--summary shows no packets: leave --write and --bytes out")
        if self.summary and self.sort:
            raise UsageError("--summary prints no steps: leave --sort out")
        if self.track and not filter:
            raise UsageError("--track needs a FILTER: without one, all packets are followed")
        if self.functions and self.tracepoints:
            raise UsageError("--functions asks for functions: leave --drops and --tracepoints out")
        if not all(part.replace("*", "").replace(".", "").isidentifier() or set(part) == {"*"}
                   for part in self.functions.split(",") if self.functions):
            raise UsageError(f"--functions: '{self.functions}' names no functions",
                             ["write 'ip_*', or 'ip_*,tcp_v4_rcv'"])

    def text(self) -> str:
        """All of it."""
        below = ' STACK: "\\n%s";' if self.stack else ""
        below += ' LINKED: " linked %d"; LENGTH: " length %d"; BYTES: " %r";' if self.bytes else ""
        drops = 'way; REASON: "%s"; AT: "%s"; RULE: "%s'
        tables = (f'table steps {{ way;{below} }}\ntable drops {{ {drops}" if {ANY};{below} }}\n'
                  f'{table_rows(below)}table rule_drops {{ {drops} handle %llu%s";{below} }}\n')
        start = 'printf("Tracing packets. Ctrl-C to end.\\n");' if self.summary or self.writes else "heading(drops);"
        limit = f"interval:s:{self.seconds} {{ exit(); }}\n" if self.seconds else ""
        undecided = "print(@undecided); " if self.filter else ""
        programs = "" if self.functions else f"{print_counts()} "
        columns = _COLUMNS.format(config=_SORT if self.sort else "", way=_WAY if self.sort else "")
        return "".join([
            DECLARATIONS, columns, tables, _MAPS,
            self._match_macro(), f"begin {{ {start} }}\n", self._say_what_is_not_seen(),
            *([_LAST] if self.summary else [self._rule_clauses()]), *([_LINKED] if self.bytes else []),
            *self._function_clauses(), self._program_clauses(),
            *[self._probe(step) for step in STEPS if not self.drops or step.name == "kfree_skb"], self._reasons(),
            limit,
            f"end {{ {'print(@us); ' if self.summary else ''}print(@drops); {programs}print(@steps); {undecided}"
            "clear(@first); }\n"])

    @property
    def _by_functions(self) -> str:
        """The condition under which steps are functions, known when the script is compiled."""
        return "false" if self.tracepoints else "true" if self.functions else _AT_ONCE

    def _say_what_is_not_seen(self) -> str:
        if self.tracepoints:
            return ""
        if self.functions:
            exists = " || ".join(f'exists("{point}")' for at in POSITIONS for point in self._points(at))
            return (f'begin /!({exists})/ {{ errorf("no function of these names takes a packet and can be attached to '
                    f'here"); exit(1); }}\n')
        return (f'begin /!{_AT_ONCE}/ {{ warnf("this kernel attaches no program to many functions at once: only the '
                f'tracepoints are seen, and nothing of what happens between them"); }}\n')

    def _match_macro(self) -> str:
        """Whether the filter takes a packet."""
        passes = f"pcap({quote_string(self.filter)}, skb)" if self.filter else "true"
        return f"macro takes(skb) {{ {passes} }}\n"

    def _rule_clauses(self) -> str:
        return rule_clauses("takes($skb) || has_key(@first, skb_id($skb))" if self.track else "takes($skb)")

    def _program_clauses(self) -> str:
        return "" if self.functions else program_clauses(LineOptions(
            "takes($skb)", self.track, not self.summary, self.drops, self.sort, self.stack, self.bytes))

    # functions

    def _function_clauses(self) -> list[str]:
        """A clause for each position of the argument; and for the end of a packet's memory, with its map."""
        if self.tracepoints:
            return []
        clauses = []
        for at in POSITIONS:
            points = self._points(at)
            exists = " || ".join(f'exists("{point}")' for point in points)
            body = self._body("func", f"(struct sk_buff *)arg{at}", "false", NO_PART, "")
            clauses.append(f"{', '.join(points)} /{self._by_functions} && ({exists}) && arg{at} != 0/ {{\n{body}}}\n")
        given_back = "has_key(@first, $id) && is_last($skb)"
        return [_GONE, *clauses, self._end_clause("skb_release_data", given_back, "@gone[$id] = true;"),
                self._end_clause("kfree_skbmem", "has_key(@gone, $id)", f"delete(@gone, $id); {self._forget()}")]

    def _points(self, position: int) -> list[str]:
        """The attach points of functions that take a packet as this argument."""
        return [f"kprobe:{pattern}(arg{position}=sk_buff)" for pattern in (self.functions or "*").split(",")]

    def _end_clause(self, function: str, condition: str, action: str) -> str:
        """A packet's memory is given back in one function, and the last one that has the packet is another."""
        both = " && ".join(f'exists("kprobe:{name}")' for name in ("skb_release_data", "kfree_skbmem"))
        return (f"kprobe:{function} /{self._by_functions} && {both}/ {{\n  $skb = (struct sk_buff *)arg0; "
                f"$id = skb_id($skb); if ({condition}) {{ {action} }}\n}}\n")

    # tracepoints

    def _probe(self, step: Step) -> str:
        """The clause of a tracepoint, where steps are no functions."""
        conditions = [f"!({self._by_functions})", f'exists("rawtracepoint:{step.name}")', step.guard,
                      "is_drop()" if self.drops else "true"]
        end = f"if (is_last($skb)) {{ {self._forget()} }}" if step.ends else ""
        body = self._body(f'"{step.name}"', "(struct sk_buff *)args.skb", step.fresh, step.part, end)
        return f"rawtracepoint:{step.name} /{' && '.join(conditions)}/ {{\n{body}}}\n"

    def _reasons(self) -> str:
        """Beside functions the tracepoint that says why a packet is dropped: a line of its own, and no step."""
        if self.tracepoints:
            return ""
        body = self._body("", "(struct sk_buff *)args.skb", "false", NO_PART, "")
        return f"rawtracepoint:kfree_skb /{self._by_functions} && is_drop()/ {{\n{body}}}\n"

    # both

    def _forget(self) -> str:
        maps = ("@first", "@last", "@step") if self.summary else ("@first",)
        return " ".join(f"delete({name}, $id);" for name in maps)

    def _body(self, name: str, packet: str, fresh: str, part: int, end: str) -> str:
        """What happens at a step of this name; "": where a packet is dropped, besides functions. ``fresh``: whether the
        packet is another one than was there before."""
        same = f"$known && same_packet($p, $seen) && !({fresh})"
        seen = "$seen = @first[$id]; $known = $seen.4 != 0;"
        lines = [f"$skb = {packet}; $id = skb_id($skb);{' ' + seen if self.track else ''}"]
        if self.filter and name:
            lines.append(f"if (!has_header($skb)) {{ @undecided[{name}] = count(); return; }}")
        lines.append(f"$taken = takes($skb); if (!$taken{' && !$known' if self.track else ''}) {{ return; }}")
        lookup, clock = "" if self.track else f"{seen} ", clock_of(self.sort)
        lines.append(f"$p = packet($skb); {lookup}$now = {clock}; $same = {same};")
        if self.track:
            lines.append("if (!$taken && !$same) { return; }")
        lines.append(f"if (!$same || $seen.4 != {part}) {{")
        lines.append(f"  $seen = ($same ? $seen.0 : $now, $p.protocol, $p.seq, $p.payload, (uint8){part}); "
                     "@first[$id] = $seen;\n  }")
        if self.bytes and not self.summary:
            lines += ["$linked = is_linked($skb); $at = (int64)($linked ? $skb->mac_header : $skb->network_header);",
                      "$held = (int64)$skb->tail - $at; if ($held < 0) { $held = 0; }"]
        if name in ('"kfree_skb"', ""):
            lines.append("if (is_drop()) { @drops[drop_reason()] = count(); }")
        if name:
            shown = self._summary_of(name) if self.summary else self._line_of(name)
            lines += [f"@steps[{name}] = count();", shown, end]
        elif not self.summary:
            lines.append(self._line_of('"kfree_skb"'))
        return "".join(f"  {line}\n" for line in lines if line)

    def _line_of(self, name: str) -> str:
        time = "elapsed" if self.sort else "$now"
        values = (f"{time} / 1000, (int64)($now - $seen.0) / 1000, (int32)cpu, pid, comm, net_ns($skb), ifname($skb), "
                  f"$id, {'$seen.0, (uint64)$skb, ' if self.sort else ''}{name}, $p")
        below = ", kstack(12)" if self.stack else ""
        if self.bytes:
            below += (f", $linked, (int32)($skb->len + $skb->data - $skb->head - $at), "
                      f"buf((uint8 *)($skb->head + $at), $held < {self.bytes} ? $held : {self.bytes})")
        if name == '"kfree_skb"':
            values += ", drop_reason(), ksym((uint64)args.location)"
            return (f"if ({ANY}) {{ {LOOK_UP}  if ($by_rule && $rule.1 != 0) {{ "
                    f"rule_drops({values}, $rule.0, $rule.1, $rule.2{below}); }} else {{ "
                    f'drops({values}, $by_rule ? $rule.0 : ""{below}); }}\n  }} else {{ drops({values}, ""{below}); }}')
        return f"steps({values}{below});"

    def _summary_of(self, name: str) -> str:
        """The time since the step before."""
        return (f"if ($same && has_key(@last, $id)) {{ @us[@step[$id], {name}] = stats(($now - @last[$id]) / 1000); "
                f"}}\n    @last[$id] = $now; @step[$id] = {name};")
