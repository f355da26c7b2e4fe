"""``sonde argdist``: how often an expression has each value at a probe, or how its values are distributed."""

from __future__ import annotations

import re

from ...errors import UsageError
from .generated import number_option, quote_string, run_script
from .specifiers import Specifier, read_specifier, split_at_closing, split_outside_brackets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..options import Parsed

PAGE = """\
argdist: count the values of an expression at a probe, or draw their distribution

USAGE
  sonde argdist [-C | -H] [OPTIONS] [-p PID | -c COMMAND] PROBE EXPR [/FILTER/]
  sonde argdist [-C | -H] [OPTIONS] [-p PID | -c COMMAND] SPECIFIER ...

  PROBE is any attach point of the language, EXPR what can be written there: args.count, retval, comm, str(args.name).
  With -C several, with commas between them, are counted together. FILTER is a condition. Prints when it ends: at
  Ctrl-C, with the process, or after -d. SPECIFIER is a probe in bcc's form, each with a map of its own:
  {p,r,t,u}:{[LIBRARY],CATEGORY}:FUNCTION(SIGNATURE)[:TYPE[,TYPE...]:EXPR[,EXPR...][:FILTER]][#LABEL]

OPTIONS
  -C, --counts             how often EXPR had each value (the default)
  -H, --histogram          its values in powers of two; EXPR is a number
  -i, --interval SECONDS   print, and begin anew, every so many seconds, with the time before each output
  -n, --number COUNT       end after so many outputs; every second, without -i
  -d, --duration SECONDS   end after so long
  -T, --top COUNT          print the most frequent ones only; not with -H
  -t, --tid TID            only this thread
  -z, --size BYTES         characters of a string at most
  --cumulative             with -i: what has come since the beginning, each time

COLUMNS
  @count[EXPR]   how often EXPR had this value
  @hist          with -H: how often it was in each interval
  @LABEL         of a SPECIFIER: either of them, by its label or its function

EXAMPLE
  # sonde argdist -c 'dd if=/dev/zero of=/dev/null bs=3000 count=50 status=none' \\
      tracepoint:syscalls:sys_enter_read args.count '/pid == cpid/'
  Counting args.count at tracepoint:syscalls:sys_enter_read if pid == cpid. Ctrl-C to end.
  @count[832]: 1
  @count[4096]: 2
  @count[3000]: 50

  # sonde argdist -C 'p:c:write(int fd):int:fd#fds'
  Counting: p:c:write(int fd):int:fd#fds. Ctrl-C to end.
  @fds[2]: 1
  @fds[88]: 6
  @fds[12]: 16
  @fds[1]: 28

NEEDS
  what PROBE needs

NOTES
  -p counts what happens while the process runs. Interrupts, timers and most packets are handled while any process
  does: filter such events by what they carry, args.pid for one. -c ends with the command, and counts all processes:
  add a filter such as '/pid == cpid/'. An EXPR that begins with a dash stands after --. A SPECIFIER's expressions are
  those of C, as for sonde trace, and $retval, $entry(PARAMETER), $latency (nanoseconds), $PID and $TID; all of one run
  are counts, or histograms.
"""


def main(parsed: Parsed) -> int:
    """Trace; the exit status."""
    return run_script("argdist", build_script(parsed.named, parsed.words[1:] + parsed.rest), parsed,
                      number_option(parsed.named, "duration"), advice=True)


def build_script(named: dict[str, str], words: list[str]) -> str:
    """The program for these options and words; UsageError if they make no sense."""
    if "histogram" in named and "counts" in named:
        raise UsageError("one at a time: -C counts or -H a histogram")
    if "histogram" in named and "top" in named:
        raise UsageError("--top is for counts: a histogram is printed whole")
    made = specified_clauses if words and is_specifier(words[0]) else plain_clauses
    maps, heading, clauses = made(words, "histogram" in named, _build_filters(named))
    top = number_option(named, "top")
    shown = " ".join(f"print({name}, {top});" if top else f"print({name});" for name in maps)
    cleared = " ".join(f"clear({name});" for name in maps)
    settings = f"max_strlen = {number_option(named, 'size', 0, 4096)}; " if "size" in named else ""
    paired = [f"@began{index}" for index in range(len(words)) if any(f"@began{index}," in text for text in clauses)]
    if paired:
        maps_of_threads = [*paired, *[name.replace("began", "depth") for name in paired]]
        declared = [f"let {name} = hash(max_threads);" for name in maps_of_threads]
        clauses = [*declared, *clauses, "end { tell_left(@left); }"]
    return "\n".join([f"config = {{ {settings}print_maps_on_exit = false }}",
                      f'begin {{ printf("%s. Ctrl-C to end.\\n", {quote_string(heading)}); }}', *clauses,
                      *_output_clauses(named, shown, "" if "cumulative" in named else cleared)]) + "\n"


def _build_filters(named: dict[str, str]) -> list[str]:
    tid = number_option(named, "tid", 0, 1 << 22)
    return [f"tid == {tid}"] if tid else []


def plain_clauses(words: list[str], histogram: bool, filters: list[str]) -> tuple[list[str], str, list[str]]:
    """The map, its heading, and the clauses, for PROBE EXPR /FILTER/."""
    probe, expression, condition = _split_words(words)
    target, value = ("@hist", f"hist({expression})") if histogram else (f"@count[{expression}]", "count()")
    heading = f"{'Histogram of' if histogram else 'Counting'} {expression} at {probe}"
    if condition:
        heading += f" if {condition}"
    return [target.partition("[")[0]], heading, [probe, _guard_action([*filters, condition], f"{target} = {value};")]


def _guard_action(conditions: list[str], action: str) -> str:
    held = " && ".join(f"({condition})" for condition in conditions if condition)
    return f"{{ if ({held}) {{ {action} }} }}" if held else f"{{ {action} }}"


def is_specifier(word: str) -> bool:
    """Whether it is a probe in bcc's form, with a signature: ``p:c:write(int fd):int:fd``."""
    return re.match(r"[prtu]:[^:]*:[^:()]+\(", word) is not None


def specified_clauses(words: list[str], histogram: bool, filters: list[str]) -> tuple[list[str], str, list[str]]:
    """The maps, their headings, and the clauses, for probes in bcc's form."""
    maps, clauses = [], []
    for index, word in enumerate(words):
        if not is_specifier(word):
            raise UsageError(f"'{word}': probes in bcc's form stand by themselves",
                             ["'p:c:write(int fd):int:fd:fd > 2'"])
        text, _, label = word.partition("#")
        probe = read_specifier(text)
        name = "@" + (re.sub(r"\W+", "_", label) or f"{probe.name}{index or ''}")
        name = name if re.fullmatch(r"@[A-Za-z]\w*", name) and name not in maps else f"@probe{index}"
        maps.append(name)
        clauses += _probe_clauses(probe, name, histogram, filters, index)
    return maps, f"{'Histogram' if histogram else 'Counting'}: {', '.join(words)}", clauses


def _probe_clauses(probe: Specifier, name: str, histogram: bool, filters: list[str], index: int) -> list[str]:
    """The clauses of one probe; values from the function's entry are saved by a second one."""
    types, values, condition = (*split_outside_brackets(probe.rest.removeprefix(":"), ":"), "", "", "")[:3]
    condition = ":".join(split_outside_brackets(probe.rest.removeprefix(":"), ":")[2:]) or condition
    kinds = split_outside_brackets(types, ",") if types else []
    default = "retval" if probe.kind == "r" else "1"
    wanted = split_outside_brackets(values, ",") if values else [default]
    saved: list[str] = []  # values from the entry

    def translate_entry(text: str) -> str:
        while (match := re.search(r"\$entry\(", text)) is not None:
            inside, rest = split_at_closing(text[match.end():])
            value = Specifier("p", "", "", "", probe.parameters, "").translate_expression(inside)
            saved.extend([value] if value not in saved else [])
            text = f"{text[:match.start()]}$call.3.{saved.index(value)}{rest}"
        text = text.replace("$latency", "(nsecs - $call.0)")
        return probe.translate_expression(text)

    keys = [f"str({translate_entry(value)})" if kind.replace(" ", "").startswith("char*") else translate_entry(value)
            for value, kind in zip(wanted, [*kinds, *["u64"] * len(wanted)])]
    if histogram and len(keys) != 1:
        raise UsageError("a histogram is of one value")
    guard = translate_entry(condition) if condition else ""
    update = f"{name} = hist({keys[0]});" if histogram else f"{name}[{', '.join(keys)}] = count();"
    if not saved and "$latency" not in probe.rest:
        return [probe.attach_point, _guard_action([*filters, guard], update)]
    if probe.kind != "r":
        raise UsageError("$entry and $latency are of probes at a function's return: r:")
    return _paired_clauses(probe, index, saved, _guard_action([*filters, guard], update))


def _paired_clauses(probe: Specifier, index: int, saved: list[str], action: str) -> list[str]:
    """The clauses of a return that needs values of the entry, which are ``$call.3``."""
    maps = f"@depth{index}, @began{index}, @left"
    values = f", ({', '.join(saved)},)" if saved else ""
    return [probe.entry_point, f"{{ enter_call({maps}{values}); }}",
            probe.attach_point, f"/has_key(@depth{index}, caller())/",
            f"{{ return_call({maps}, $call, {action}); }}",
            "tracepoint:sched:sched_process_exit", f"/has_key(@depth{index}, caller())/",
            f"{{ end_calls(@depth{index}, @began{index}); }}"]


def _split_words(words: list[str]) -> tuple[str, str, str]:
    """Probe, expression and condition, which may be empty."""
    if not 2 <= len(words) <= 3:
        raise UsageError(f"argdist needs a {'PROBE and an EXPR' if len(words) < 2 else 'PROBE, an EXPR and a /FILTER/'}"
                         f"{', no more' * (len(words) > 3)}",
                         ["sonde argdist -H tracepoint:syscalls:sys_enter_read args.count '/pid != 1/'"])
    probe, expression, condition = (*words, "")[:3]
    condition = condition.strip()
    if len(condition) > 1 and condition[0] == condition[-1] == "/":
        condition = condition[1:-1].strip()
    if not probe.strip() or not expression.strip() or len(words) == 3 and not condition:
        raise UsageError("PROBE, EXPR and FILTER must not be empty")
    return probe.strip(), expression.strip(), condition


def _output_clauses(named: dict[str, str], shown: str, cleared: str) -> list[str]:
    """The clauses that print: at intervals, and at the end what came since."""
    interval, outputs, duration = (number_option(named, name) for name in ("interval", "number", "duration"))
    if outputs and not interval:
        interval = 1
    last = f"/@outputs < {outputs}/ " if outputs else ""
    at_interval = 'time("%H:%M:%S\\n"); ' if interval else ""
    lines = [f"end {last}{{ {at_interval}{shown} }}"]
    if interval:
        ends = f" if (@outputs >= {outputs}) {{ exit(); }}" if outputs else ""
        lines.insert(0, f"interval:s:{interval} {{ {at_interval}{shown} {cleared} @outputs++;{ends} }}")
    if duration:
        lines.insert(0, f"interval:s:{duration} {{ exit(); }}")
    return lines
