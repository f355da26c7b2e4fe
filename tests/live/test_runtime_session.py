"""Sessions on the running kernel, with programs made by hand and workloads whose answer is known."""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest

import handmade
import sonde
from handmade import SEQUENCE, count, emit, memory, only_process, only_system_call, program, script
from sonde.arch import this_arch
from sonde.arch.syscalls import syscall_numbers
from sonde.asm import insn
from sonde.compiling import live_world
from sonde.errors import AttachError, VerifierError
from sonde.kernel import syscalls
from sonde.library.trace import Trace
from sonde.runtime.context import LiveContext
from sonde.runtime.costs.statistics import probe_costs
from sonde.runtime.losses import Losses
from sonde.runtime.records.batch import Raw
from sonde.runtime.records.ringbuf import WINDOW
from sonde.runtime.session import Session
from sonde.runtime.traced_command import Child, Process
from sonde.spec import Attach, ProgramSpec
from support import environment

pytestmark = pytest.mark.skipif(not live_world().has_feature("atomic_fetch"),
                                reason="kernel lacks atomic_fetch, by which these programs number their events")
NUMBER = syscall_numbers(this_arch().name)["getppid"]


def enter(code: list[insn.Insn | str], name: str = "rawtracepoint:sys_enter", **more: object) -> ProgramSpec:
    """A program on every getppid() of this process."""
    return program("enter", [Attach("rawtracepoint", name, event="sys_enter")],
                   [*only_system_call(NUMBER), *only_process(os.getpid()), *code], **more)


def numbered(site: int = 0) -> list[insn.Insn | str]:
    return [*count(SEQUENCE), insn.alu("mov", 8, 0), *emit(site)]


def payloads(records: list[Raw]) -> list[tuple[int, int]]:
    return [(site, struct.unpack_from("=Q", buffer, offset + (16 if site < 2 else 24))[0])
            for site, buffer, offset in records]


def times(records: list[Raw]) -> list[int]:
    return [struct.unpack_from("=Q", buffer, offset + 8)[0] for _, buffer, offset in records]


def collect(session: Session, wanted: int, seconds: float = 5) -> list[Raw]:
    found: list[Raw] = []
    end = time.monotonic() + seconds
    while len(found) < wanted and time.monotonic() < end and not session.done:
        found += session.poll(0.2)
    return found


def calls(times: int) -> None:
    for _ in range(times):
        os.getppid()


def test_records_arrive_in_order() -> None:
    with Session(script([enter(numbered())])) as session:
        session.attach()
        calls(1000)
        records = collect(session, 1000)
        records += session.stop()
        assert payloads(records) == [(0, n) for n in range(1000)]
        assert not session.losses()


def test_begin_and_end_surround_everything() -> None:
    begin = program("begin", [Attach("begin", "begin")], emit(1, payload=7))
    end = program("end", [Attach("end", "end")], emit(1, payload=9, timed=False), first_probe=1)
    with Session(script([begin, end, enter(numbered(), first_probe=2)])) as session:
        session.attach()
        calls(3)
        records = session.stop()
        assert payloads(records) == [(1, 7), (0, 0), (0, 1), (0, 2), (1, 9)]
        assert session.stop() == []


def test_printed_and_lost_are_what_was_produced() -> None:
    """Two threads of a child hammer a ring of one page: losses are certain, and none is unaccounted for."""
    source = ("import os, threading, sys; sys.stdin.read(1)\n"
              "def f():\n    for _ in range(100000): os.getppid()\n"
              "t = [threading.Thread(target=f) for _ in range(2)]\n"
              "[x.start() for x in t]; [x.join() for x in t]")
    with subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE) as child:
        hammered = program("enter", [Attach("rawtracepoint", "rawtracepoint:sys_enter", event="sys_enter")],
                           [*only_system_call(NUMBER), *only_process(child.pid), *numbered()])
        with Session(script([hammered], ring=4096)) as session:
            session.attach()
            assert child.stdin is not None
            child.stdin.write(b"x")
            child.stdin.close()
            records = []
            while child.poll() is None:
                records += session.poll(0.02)
            records += session.stop()
            produced = struct.unpack("=Q", session.maps[SEQUENCE].get())[0]
            lost = sum(n for _, n in session.losses().records)
    assert produced == 200_000
    assert lost > 0
    assert len(records) + lost == produced
    assert times(records) == sorted(times(records))


def test_a_large_ring_is_mapped_in_part() -> None:
    """Three windows of records: all are read, and the process shows the memory of one."""
    with Session(script([enter(numbered())], ring=16 << 20)) as session:
        session.attach()
        calls(3 * WINDOW // 32)
        records = collect(session, 3 * WINDOW // 32, 60)
        with open("/proc/self/maps") as maps:
            shown = [line.split()[0].split("-") for line in maps if "r--s" in line and "bpf-map" in line]
        assert sum(int(last, 16) - int(first, 16) for first, last in shown) <= 2 * WINDOW
        records += session.stop()
    assert payloads(records) == [(0, n) for n in range(3 * WINDOW // 32)]


def test_stopping_in_full_flight_loses_nothing() -> None:
    stop = threading.Event()

    def hammer() -> None:
        while not stop.is_set():
            calls(100)

    threads = [threading.Thread(target=hammer) for _ in range(2)]
    with Session(script([enter(numbered())])) as session:
        session.attach()
        for thread in threads:
            thread.start()
        records = collect(session, 5000)
        records += session.stop()
        produced = struct.unpack("=Q", session.maps[SEQUENCE].get())[0]
        stop.set()
        for thread in threads:
            thread.join()
        lost = sum(n for _, n in session.losses().records)
        assert struct.unpack("=Q", session.maps[SEQUENCE].get())[0] == produced
        assert len(records) + lost == produced
        assert len(set(payloads(records))) == len(records)


def test_control_records_keep_their_place() -> None:
    """print_map is sent at every tenth call: it comes after exactly the records before it."""
    code = [*count(SEQUENCE), insn.alu("mov", 8, 0), *emit(0), insn.alu("mov", 1, 8), insn.alu("mod", 1, imm=10),
            insn.branch("jne", 1, None, 9, "out"), *emit(3, control=True)]
    with Session(script([enter(code)])) as session:
        session.attach()
        calls(100)
        records = payloads(session.stop())
    expected: list[tuple[int, int]] = []
    for n in range(100):
        expected += [(0, n), (3, n)] if n % 10 == 9 else [(0, n)]
    assert records == expected


def test_exit_ends_the_session_at_its_place() -> None:
    code = [*count(SEQUENCE), insn.alu("mov", 8, 0), *emit(0), insn.branch("jne", 8, None, 5, "out"),
            *emit(2, control=True, payload=3)]
    with Session(script([enter(code)])) as session:
        session.attach()
        calls(20)
        records = collect(session, 1000)
        assert session.done and session.reason == "exit" and session.status == 3
        records += session.stop()
        assert payloads(records) == [(0, n) for n in range(6)] + [(2, 3)] + [(0, n) for n in range(6, 20)]


def test_exit_in_begin_ends_the_session_when_all_is_attached() -> None:
    begin = program("begin", [Attach("begin", "begin")], emit(2, control=True, payload=0))
    with Session(script([begin, enter(numbered(), first_probe=1)])) as session:
        session.attach()
        assert session.done and session.attached == 2
        assert payloads(session.stop())[0] == (2, 0)


def test_globals_are_set_before_begin() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    spec = script([enter(numbered())], names=["start_ns", "mine"])
    with Session(spec, values={"mine": -1}) as session:
        session.load()
        start, mine = struct.unpack_from("=QQ", session.maps["__state"].memory, 8)
        assert before <= start <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        assert mine == 2**64 - 1


def perf(kind: str, **more: object) -> ProgramSpec:
    return program("timer", [Attach(kind, f"{kind}:x", **more)], numbered(), type="perf_event")


def test_interval_fires_on_one_cpu() -> None:
    with Session(script([perf("interval", period=5_000_000)])) as session:
        session.attach()
        records = collect(session, 5)
        assert len(records) >= 5


def test_profile_of_one_process_sees_its_threads() -> None:
    with subprocess.Popen([sys.executable, "-c", "import threading\ndef f():\n  print('on', flush=True)\n"
                                                 "  while True: pass\nthreading.Thread(target=f).start()"],
                          stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"on\n"
            with Session(script([perf("profile", period=2_000_000, pid=child.pid)])) as session:
                session.attach()
                assert session.attached >= 1
                assert len(collect(session, 5, 30)) >= 5  # a guest beside others on a busy machine is slow
        finally:
            child.kill()


def test_software_event() -> None:
    with Session(script([perf("software", event="page-faults", period=1, pid=os.getpid())])) as session:
        session.attach()
        with mmap.mmap(-1, 64 * mmap.PAGESIZE) as fresh:
            for page in range(64):
                fresh[page * mmap.PAGESIZE] = 1
        assert len(collect(session, 64)) >= 64


def test_unknown_software_event_names_the_known() -> None:
    with Session(script([perf("software", event="nonsense", period=1)])) as session:
        with pytest.raises(AttachError) as caught:
            session.attach()
        assert caught.value.probe == "software:x" and "page-faults" in caught.value.hints[0]


def test_classic_tracepoint() -> None:
    point = Attach("tracepoint", "tracepoint:syscalls:sys_enter_getppid", target="syscalls", event="sys_enter_getppid")
    spec = script([program("classic", [point], [*only_process(os.getpid()), *numbered()], type="tracepoint")])
    with Session(spec) as session:
        session.attach()
        calls(50)
        assert len(session.stop()) == 50
        calls(50)
        assert session.maps[SEQUENCE].get() == struct.pack("=Q", 50)


def test_missing_tracepoint_and_policies() -> None:
    bad = Attach("rawtracepoint", "rawtracepoint:no_such", event="no_such")
    good = Attach("rawtracepoint", "rawtracepoint:sys_enter", event="sys_enter")
    both = program("both", [bad, good], [*only_system_call(NUMBER), *only_process(os.getpid()), *numbered()])
    with Session(script([both])) as session, pytest.raises(AttachError, match="no such tracepoint"):
        session.attach()
    with Session(script([both], missing_probes="warn")) as session:
        session.attach()
        assert [w.probe for w in session.warnings] == ["rawtracepoint:no_such"]
        calls(3)
        assert len(session.stop()) == 3
    alone = program("alone", [bad], numbered())
    with (Session(script([alone], missing_probes="warn")) as session,
          pytest.raises(AttachError, match="Attachment failed for all probes")):
        session.attach()


def test_rejected_program_is_explained() -> None:
    wrong = program("wrong", [Attach("rawtracepoint", "rawtracepoint:sys_enter", event="sys_enter")],
                    [insn.alu("mov", 1, imm=64), insn.load(2, 1, 0, 8)])
    with Session(script([wrong])) as session:
        with pytest.raises(VerifierError) as caught:
            session.attach()
        assert caught.value.program == "wrong" and "invalid mem access" in caught.value.log
        assert "number is used as an address" in caught.value.cause


def test_child_starts_after_attaching_and_ends_the_session() -> None:
    child = Child([sys.executable, "-c", "import os; os.getppid(); raise SystemExit(3)"])
    spec = script([program("enter", [Attach("rawtracepoint", "rawtracepoint:sys_enter", event="sys_enter")],
                           [*only_system_call(NUMBER), *only_process(child.pid), *numbered()])], names=["cpid"])
    with Session(spec, process=child) as session:
        session.attach()
        records = collect(session, 1000)
        assert session.reason == "child" and session.status == 3
        records += session.stop()
        assert len(records) == 1


def test_end_of_a_process_ends_the_session() -> None:
    with subprocess.Popen(["sleep", "0.3"]) as other, \
            Session(script([enter(numbered())]), process=Process(other.pid)) as session:
        session.attach()
        collect(session, 1)
        assert session.reason == "process"


def test_signal_ends_the_session() -> None:
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    with Session(script([enter(numbered())]), handle_signals=True) as session:
        session.attach()
        timer.start()
        collect(session, 1)
        assert session.done and session.reason == "signal"
    timer.join()
    assert signal.getsignal(signal.SIGINT) is before


def test_self_signal_runs_its_program() -> None:
    spec = script([program("usr", [Attach("self", "self:signal:SIGUSR1", target="signal", event="SIGUSR1")],
                           emit(0, payload=5))])
    with Session(spec) as session:
        session.attach()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert payloads(collect(session, 1)) == [(0, 5)]


def test_time_outs_return_nothing() -> None:
    with Session(script([enter(numbered())])) as session:
        session.attach()
        assert not session.poll(0.01)


class Restless:
    """A log that always has something to tell, which can wait."""

    is_prompt = False

    def __init__(self, rest: float) -> None:
        self.fds = [os.eventfd(1, os.EFD_CLOEXEC)]
        self.rest = rest
        self.readings = 0

    def drain_rings(self) -> None:
        self.readings += 1

    def count_losses(self, losses: Losses) -> None:
        """It has none."""


@pytest.mark.parametrize("rest", [0.0, 0.05])
def test_what_logs_tell_can_wait_and_records_cannot(rest: float) -> None:
    """Many reports wake no more often than few; a record is handed over as soon as ever."""
    log, waited = Restless(rest), []
    with Session(script([enter(numbered())])) as session:
        session.follow(log)
        session.attach()
        log.readings, begun = 0, time.monotonic()
        assert not session.poll(1)
        assert 1 < log.readings <= (time.monotonic() - begun) / (rest + 0.005) + 3
        for _ in range(20):
            begun = time.monotonic()
            calls(1)
            assert payloads(collect(session, 1))
            waited.append(time.monotonic() - begun)
    assert min(waited) < 0.045
    os.close(log.fds[0])


def test_an_event_loop_lets_logs_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    log, waits = Restless(0.05), []
    monkeypatch.setattr(LiveContext, "mapping_log", property(lambda context: log))
    script = f'tracepoint:syscalls:sys_enter_getppid /pid == {os.getpid()}/ {{ printf("called %d", pid); }}'

    async def take_events() -> None:
        begun = time.monotonic()
        async for _ in trace.events(timeout=1):
            raise AssertionError("nothing has happened yet")
        assert 1 < log.readings <= (time.monotonic() - begun) / 0.055 + 4
        for _ in range(20):
            begun = time.monotonic()
            calls(1)
            async for event in trace.events(timeout=5):
                assert event.args == (os.getpid(),)
                waits.append(time.monotonic() - begun)
                break
        assert len(waits) == 20 and min(waits) < 0.045

    with Trace(script) as trace:
        log.readings = 0
        asyncio.run(take_events())
    os.close(log.fds[0])


def test_run_statistics() -> None:
    with Session(script([enter(numbered())]), run_statistics=True) as session:
        session.attach()
        calls(10)
        session.stop()
        cost, = probe_costs(session)
        assert cost.probe == "rawtracepoint:sys_enter" and cost.runs >= 10 and cost.time_ns > 0
        assert 0 < cost.share < 1 and cost.mean * cost.runs == pytest.approx(cost.time_ns)


def test_nothing_is_left_after_kill_9() -> None:
    source = ("import sys, os; sys.path.insert(0, sys.argv[1])\n"
              "from handmade import *; from sonde.runtime.session import Session\n"
              "p = program('leftover_test', [Attach('rawtracepoint', 'r', event='sys_enter')], count(SEQUENCE))\n"
              "s = Session(script([p])); s.attach(); print('ready', flush=True); s.poll()")
    with subprocess.Popen([sys.executable, "-c", source, os.path.dirname(handmade.__file__)], stdout=subprocess.PIPE,
                          env=environment()) as other:
        assert other.stdout is not None and other.stdout.readline() == b"ready\n"
        assert "leftover_test" in _program_names()
        other.kill()
    deadline = time.monotonic() + 5
    while "leftover_test" in _program_names() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "leftover_test" not in _program_names()


def _program_names() -> set[str]:
    found = set()
    for fdinfo_id in _program_ids():
        try:
            with syscalls.object_by_id("program", fdinfo_id) as fd:
                found.add(syscalls.prog_info(fd).name)
        except syscalls.SyscallError:
            pass  # gone meanwhile
    return found


def _program_ids() -> list[int]:
    return syscalls.object_ids("program")


def test_memory_map_is_shared() -> None:
    spec = script([enter(count("@n"))], maps=[memory("@n", initial=struct.pack("=Q", 40))])
    with Session(spec) as session:
        session.attach()
        calls(2)
        assert session.maps["@n"].get() == struct.pack("=Q", 42)


def test_an_end_from_another_thread_is_seen_at_once() -> None:
    """poll() without a time-out, with nothing to come: only end() can wake it."""
    with Session(script([enter(numbered())])) as session:
        session.attach()
        ending = threading.Timer(0.2, session.request_end, ["quit"])
        ending.start()
        assert not session.poll() and session.done and session.reason == "quit"
        ending.join()


def test_a_map_is_emptied_at_once_and_only_once() -> None:
    """By the first look at the rings, though what the script prints before has not had its turn; but one that it hands
    to print() in its turn."""
    script = """tracepoint:syscalls:sys_enter_getppid /pid == $1/ {
        @n++; printf("%d\\n", @n); @kept[@n] = count(); @printed[@n] = count();
        if (@n == 1) { clear(@kept); clear(@printed); }
    } begin { @begun[1] = 1; clear(@begun); } end { print(@printed); }"""
    trace = sonde.trace(script, params=[str(os.getpid())])
    trace.clears_at_once = True
    with trace:
        assert not trace.maps["@begun"]
        os.getppid()
        first = trace.next_records(0)
        assert not trace.maps["@kept"]
        os.getppid()
        events = list(trace.decode_records(first))
        assert not trace.maps["@begun"]
        while len(events) < 2:
            events += trace.decode_records(trace.next_records(5))
        assert dict(trace.maps["@kept"]) == {2: 1} and 1 not in trace.maps["@printed"]
