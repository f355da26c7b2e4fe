"""Events on a time line: both forms of a trace, read by their own readers, and by Perfetto's trace processor."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from browser import Browser
from perfetto_reader import TraceFile, read_packets, read_trace
from sonde import types as t
from sonde.output.views import Target
from sonde.runtime.records.events import Event
from sonde.runtime.records.values import RecordValue
from sonde.spec import EventField, EventSite, FormatPart
from trace_processor import TraceProcessor
from viewing import COUNTS, HOSTILE, Run, printf, printing, script

RECORD = type("record", (RecordValue,), {"_fields": ("name", "pid", "tid", "comm", "dur", "ret")})


def test_perfetto() -> None:
    text = printf(FormatPart("", "d"))
    record = EventSite("print", None, [EventField(t.Tuple((t.INT64,), ("name",)), 16)], 64)
    run = Run("perfetto", script(COUNTS, sites=[text, record, printing(COUNTS)]))
    run.view.add_event(Event("printf", (1 << 60,), "tracepoint:a:b", 5000, 0), text, "opened <x>\n")
    run.view.add_event(Event("print", (RECORD(("read", 10, 11, "cat", 3000, -1)),), "tracepoint:a:b", 9000, 1), record,
                       "")
    run.view.add_map(COUNTS, [("x", 5)], 10_000, "clear")
    events = json.loads(run.finish())["traceEvents"]
    instant, = [e for e in events if e["ph"] == "i"]
    assert (instant["name"], instant["ts"], instant["pid"], instant["tid"]) == ("opened <x>", 5.0, 0, 2)
    assert instant["args"] == {"arg1": str(1 << 60)}
    piece, = [e for e in events if e["ph"] == "X"]
    assert (piece["name"], piece["ts"], piece["dur"], piece["pid"], piece["tid"]) == ("read", 6.0, 3.0, 10, 11)
    assert piece["args"] == {"ret": -1}
    counter, = [e for e in events if e["ph"] == "C"]
    assert (counter["name"], counter["args"]) == ("@counts", {"x": 5})
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"] == ["tracepoint:a:b", "cat"]


def named(*names: str) -> EventSite:
    """A printf of numbers that the script calls so."""
    parts = [part for _ in names for part in (FormatPart(" "), FormatPart("", "d"))]
    return EventSite("printf", None, [EventField(t.INT64, 16, name) for name in names], 64, parts)


class HostEvent(Event):
    """An event of a fleet."""

    host: str


def test_hosts_have_processes_of_their_own() -> None:
    """Of a fleet: equal numbers on two hosts are two processes, and the ends of one's calls are not the other's."""
    site = named("pid", "tid")
    spec = script(sites=[site, named("n")])
    spec.probes = ["tracepoint:syscalls:sys_enter_read", "tracepoint:syscalls:sys_exit_read"]
    run = Run("perfetto", spec, Target(lead=("host",)))
    for time, (host, probe) in enumerate([("a", 0), ("b", 0), ("a", 1), ("b", 1)], 1):
        run.view.add_event(HostEvent("printf", (7, 8), spec.probes[probe], 1000 * time, 0, host), site, "x")
    for host in "ab":
        run.view.add_event(HostEvent("printf", (7,), spec.probes[0], 9000, 1, host), spec.sites[1], "x")
    trace = read_trace(run.finish())
    assert [(each.begin, each.end, each.track) for each in trace.slices] == [
        (1, 3, (7, 8)), (2, 4, ((1 << 22) + 7, (1 << 22) + 8))]
    assert len({(each["pid"], each["tid"]) for each in trace.instants}) == 2


def test_calls_that_begin_and_end_are_slices() -> None:
    site = named("pid", "tid")
    spec = script(sites=[site])
    spec.probes = ["tracepoint:syscalls:sys_enter_read", "tracepoint:syscalls:sys_exit_read", "kprobe:vfs_read",
                   "kretprobe:vfs_read", "kprobe:alone"]
    run = Run("perfetto", spec)
    for time, probe in enumerate([1, 0, 2, 4, 3, 1, 0, 2, 1], 1):  # one return, and one entry, without the other
        run.view.add_event(Event("printf", (7, 8), spec.probes[probe], 1000 * time, 0), site, "x")
    trace = read_trace(run.finish())
    assert [(each.name, each.begin, each.end, each.depth) for each in trace.slices] == [
        ("vfs_read", 3, 5, 1), ("read", 2, 6, 0), ("vfs_read", 8, 9, 1), ("read", 7, 9, 0)]
    assert {each.track for each in trace.slices} == {(7, 8)} and len(trace.instants) == 2


def test_rows_of_a_tool_are_slices_that_may_overlap() -> None:
    run = Run("perfetto", script(), Target(title="tcplife", table=("PID", "COMM", "MS")))
    for time, milliseconds in ((9, "4.5"), (10, "3")):
        run.view.row([("PID", "7", True), ("COMM", "curl", False), ("MS", milliseconds, True)], time * 10**6, "probe")
    trace = read_trace(run.finish())
    assert [(each.name, each.begin, each.end) for each in trace.slices] == [
        ("tcplife", 4500, 9000), ("tcplife", 7000, 10000)]
    assert trace.processes == {0: "tcplife", 7: "curl"} and trace.slices[0].args["MS"] == 4.5


def shown_trace(target: Target | None = None) -> Run:
    """Calls that nest, slices that overlap, instants, counters; texts that nobody should have in a trace."""
    site, record = named("pid", "tid"), EventSite("print", None, [EventField(t.Tuple((t.INT64,), ("name",)), 16)], 64)
    spec = script(COUNTS, sites=[site, record, printing(COUNTS)])
    spec.probes = ["tracepoint:syscalls:sys_enter_read", "tracepoint:syscalls:sys_exit_read", "kprobe:alone"]
    run = Run("perfetto", spec, target)
    for time, probe in enumerate([1, 0, 0, 1, 1, 2, 0, 1], 1):
        run.view.add_event(Event("printf", (7, 8), spec.probes[probe], 1000 * time + 1, 0), site, f"n{time}")
    for pid, comm in ((10, "cat"), (11, HOSTILE)):
        run.view.add_event(Event("print", (RECORD(("read", pid, 12, comm, 3001, -1)),), "kprobe:alone", 9007, 1),
                           record, "")
    for time in (12, 13):
        run.view.row([("PID", "7", True), ("COMM", "curl", False), ("MS", "0.005", True)], time * 1000, "p")
    run.view.add_event(Event("printf", (7, 8), "", 20_000, 0), site, HOSTILE * 30)
    run.view.add_map(COUNTS, [("x", 5), (HOSTILE, 0)], 21_000, "clear")
    run.view.add_map(COUNTS, [("x", -(1 << 63)), ("y", (1 << 64) - 1)], 22_001, "clear")
    return run


def shown_packets() -> bytes:
    return shown_trace(Target("out.pftrace", title="")).finish_bytes()


def slices(trace: TraceFile) -> list[object]:
    """What does not depend on who reads it. In Chrome's form a slice of a process alone has a thread's number, too."""
    return sorted([(each.name, each.begin, each.end, each.track[0], each.depth, sorted(each.args.items()))
                   for each in trace.slices], key=repr)


def instants(trace: TraceFile) -> list[object]:
    return [(each["name"], each["cat"], each["ts"], each["pid"], each["tid"], each["args"])
            for each in trace.instants]


def test_both_forms_of_a_trace_say_the_same() -> None:
    chrome, packets = read_trace(shown_trace().finish()), read_packets(shown_packets())
    assert slices(chrome) == slices(packets) and len(chrome.slices) == 7
    assert instants(chrome) == instants(packets) and len(chrome.instants) == 3
    assert chrome.processes == packets.processes and chrome.threads == packets.threads
    values = [(f"{each['name']}[{key}]", each["ts"], value)
              for each in chrome.counters for key, value in each["args"].items()]
    assert [(each["name"], each["ts"], each["value"]) for each in packets.counters] == values and len(values) == 4
    assert values[-1][2] == 2.0**64


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.mark.parametrize("form", ["packets", "chrome"])
def test_perfettos_trace_processor_reads_it(browser: Browser, form: str) -> None:
    """It finds nothing wrong, and in every slice, instant, counter, process and thread what our readers find."""
    data = shown_packets() if form == "packets" else shown_trace().finish().encode()
    ours = read_packets(data) if form == "packets" else read_trace(data.decode())
    with TraceProcessor(browser) as processor:
        processor.load(data)
        assert not processor.complaints()
        theirs = processor.read()
    assert slices(theirs) == slices(ours) and instants(theirs) == instants(ours)
    if form == "packets":
        counters = [(each["name"], each["ts"], float(each["value"])) for each in ours.counters]
        del ours.processes[0]  # a track of its own, of no process
        del theirs.threads[0, 0]  # that of the idle task, which is always there
    else:
        counters = [(f"{each['name']} {key}", each["ts"], float(value))
                    for each in ours.counters for key, value in each["args"].items()]
    assert [(each["name"], each["ts"], each["value"]) for each in theirs.counters] == counters
    assert theirs.processes == ours.processes and theirs.threads == ours.threads


def test_the_trace_processor_sees_what_is_wrong(browser: Browser) -> None:
    """A trace without its first packet, on which the others lean; a slice that ends as something else than it began."""
    data = shown_packets()
    with TraceProcessor(browser) as processor:
        processor.load(data[2 + data[1]:])
        assert processor.complaints()
    text = shown_trace().finish()
    assert text.count('"ph":"E"') == 3
    with TraceProcessor(browser) as processor:
        processor.load(text.replace('"ph":"E"', '"ph":"E","cat":"other"').encode())
        assert len(slices(processor.read())) == len(slices(read_trace(text))) - 3
