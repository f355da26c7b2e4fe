"""XDP and tc programs as steps of ``sonde packets``: what each says of a packet, by fentry and fexit on the programs.

The filter is asked before the program runs, which may change the packet or answer it; the verdict is known when it
returns. Of the programs of a type those functions are meant that the kernel calls, so the result is a verdict.
"""

from __future__ import annotations

from ...base.record import Record

NO_PART = 3  # neither functions nor programs say in which part of its way a packet is (0: not yet seen)


class Programs(Record):
    """Programs whose argument is a pointer to the struct ``packet``: their ``types``; ``verdict``, an enum; conditions
    for verdicts: it ``drops`` the packet, the packet's memory ``ends`` to be this packet's, as far as nothing else
    tells; expressions of the packet's place."""

    name: str
    types: tuple[str, ...]
    packet: str
    verdict: str
    drops: str
    ends: str
    id: str
    device: str
    netns: str

    @property
    def exists(self) -> str:
        """Whether there are any, when the script is compiled."""
        return " || ".join(f'exists("fexit:bpf:{type}:*")' for type in self.types)

    def points(self, kind: str) -> str:
        """The attach points."""
        return ", ".join(f"{kind}:bpf:{type}:*" for type in self.types)


_XDP_DEVICE = "$skb->rxq->dev"
PROGRAMS = (
    Programs("xdp", ("xdp",), "xdp_buff", "xdp_action", "$verdict == XDP_DROP || $verdict == XDP_ABORTED",
             "$verdict != XDP_PASS",
             "(uint64)$skb->data_hard_start", f"str({_XDP_DEVICE}->name, 16)", f"{_XDP_DEVICE}->nd_net.net->ns.inum"),
    Programs("tc", ("sched_cls", "sched_act"), "sk_buff", "tc_verdict", "$verdict == TC_ACT_SHOT", "",
             "skb_id($skb)", "str($skb->dev->name, 16)", "net_ns($skb)"),
)
# include/uapi/linux/pkt_cls.h has macros; tcx_action_base has the same numbers.
DECLARATIONS = """\
enum tc_verdict { TC_ACT_UNSPEC = -1, TC_ACT_OK, TC_ACT_RECLASSIFY, TC_ACT_SHOT, TC_ACT_PIPE, TC_ACT_STOLEN,
                  TC_ACT_QUEUED, TC_ACT_REPEAT, TC_ACT_REDIRECT, TC_ACT_TRAP };
"""


class LineOptions(Record):
    """What of the programs the command line asks for. ``passes``: whether the filter takes $skb; ``below``: columns
    behind the verdict."""

    passes: str
    track: bool
    lines: bool
    drops: bool
    sort: bool
    stack: bool
    bytes: int


def tell_of_bare_programs() -> None:
    """Say that all programs of these types are ones to which nothing can be attached. (Where some can be traced, the
    compiler says which it leaves out.)"""
    from ...kernel.types.bpf_programs import attach_obstacle, loaded_programs
    from ..requests import print_to_stderr
    types = {type for each in PROGRAMS for type in each.types}
    loaded = [program for program in loaded_programs() if program.type_name in types]
    obstacles = [obstacle for program in loaded if (obstacle := attach_obstacle(program))]
    if loaded and len(obstacles) == len(loaded):
        print_to_stderr(f"WARNING: XDP and tc programs are not seen: {obstacles[0]}"
                        f"{f' ({len(loaded)} such programs)' if len(loaded) > 1 else ''}")


def table_rows(below: str) -> str:
    """The tables of their lines."""
    return "".join(f'table {each.name}_verdicts {{ way; VERDICT: "%s";{below} }}\n' for each in PROGRAMS)


def program_clauses(options: LineOptions) -> str:
    """The clauses that follow packets through programs."""
    return "let @entered = lruhash(4096);\n" + "".join(
        _entry(each, options) + _exit(each, options) for each in PROGRAMS)


def clock_of(sort: bool) -> str:
    """What gives the times of steps, and when a packet was first seen. One reading serves both columns; WAY needs the
    time since boot."""
    return "nsecs" if sort else "elapsed"


def print_counts() -> str:
    """At the end."""
    return " ".join(f"print(@{each.name});" for each in PROGRAMS)


def _entry(programs: Programs, options: LineOptions) -> str:
    known = " && !$known" if options.track else ""
    other = "  if (!$taken && !$same) { return; }\n" if options.track else ""
    return f"""\
{programs.points("fentry")} /{programs.exists}/ {{
  $skb = (struct {programs.packet} *)arg0; $id = {programs.id}; $known = has_key(@first, $id);
  $taken = {options.passes}; if (!$taken{known}) {{ return; }}
  $p = packet($skb); $seen = @first[$id]; $same = $known && same_packet($p, $seen);
{other}\
  if (!$same) {{
    $seen = ({clock_of(options.sort)}, $p.protocol, $p.seq, $p.payload, (uint8){NO_PART}); @first[$id] = $seen;
  }}
  @entered[arg0] = ($seen.0, $id, $p);
}}
"""


def _exit(programs: Programs, options: LineOptions) -> str:
    shown = f"  if ({programs.drops}) {{ {_line(programs, options)} }}\n" if options.drops else \
        f"  {_line(programs, options)}\n" if options.lines else ""
    end = f"  if ({programs.ends}) {{ delete(@first, $entered.1); }}\n" if programs.ends else ""
    return f"""\
{programs.points("fexit")} /({programs.exists}) && has_key(@entered, arg0)/ {{
  $entered = @entered[arg0]; delete(@entered, arg0);
  $skb = (struct {programs.packet} *)arg0; $verdict = (enum {programs.verdict})(int32)retval;
  @{programs.name}[probe, $verdict] = count();
{shown}{end}}}
"""


def _line(programs: Programs, options: LineOptions) -> str:
    """A line of the packet as it came."""
    way = "$entered.0, arg0, " if options.sort else ""
    below = ", kstack(12)" if options.stack else ""
    if options.bytes:
        begin, length = ("$skb->data", "($skb->data_end - $skb->data)") if programs.packet == "xdp_buff" else \
            ("$skb->head + $skb->mac_header", "($skb->len + $skb->data - $skb->head - $skb->mac_header)")
        held = "(int64)$skb->data_end - (int64)$skb->data" if programs.packet == "xdp_buff" else \
            "(int64)$skb->tail - (int64)$skb->mac_header"
        below += (f", true, (int32){length}, buf((uint8 *)({begin}), ({held}) < {options.bytes} ? ({held}) : "
                  f"{options.bytes})")
    return (f"{programs.name}_verdicts(elapsed / 1000, (int64)({clock_of(options.sort)} - $entered.0) / 1000, "
            f"(int32)cpu, pid, comm, {programs.netns}, {programs.device}, $entered.1, {way}probe, "
            f"$entered.2, $verdict{below});")
