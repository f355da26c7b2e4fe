"""The gate of --budget in generated code, which clauses stand behind it, and the account that opens and closes it."""

from __future__ import annotations

import itertools
import json
import struct
from typing import Any

import pytest

from bpf_kernel import Kernel
from compiled import KERNELS, compiled, loaded
from sonde.cli.options import budget_of, parse_command_line
from sonde.compiler.lower.control.gate import PURSE
from sonde.errors import UsageError
from sonde.kernel.syscalls import ProgramInfo
from sonde.layouts.shared_maps import BUDGET, BUDGET_HEAD, STATE
from sonde.output import make_output
from sonde.output.losses import report_losses
from sonde.runtime.costs import budget as keeping
from sonde.runtime.costs.budget import Budget
from sonde.runtime.losses import BudgetLosses, Losses
from sonde.runtime.maps.state import State
from sonde.spec import ScriptSpec

BOTH = pytest.mark.parametrize("kernel", list(KERNELS))
LATENCY = ("tracepoint:syscalls:sys_enter_read { @s[tid] = nsecs; } "
           "tracepoint:syscalls:sys_exit_read /@s[tid]/ { @ns = hist(nsecs - @s[tid]); delete(@s[tid]); }")


def held(made: Kernel) -> list[int]:
    """Events that found the gate closed, by probe."""
    spec = made.maps[BUDGET].spec
    totals = [0] * len(made.spec.probes)
    for cpu in range(spec.cpus):
        at = cpu * spec.stride + 8 * BUDGET_HEAD
        for probe, count in enumerate(struct.unpack_from(f"={len(totals)}Q", made.maps[BUDGET].value.data, at)):
            totals[probe] += count
    return totals


def runs(made: Kernel) -> int:
    spec = made.maps[BUDGET].spec
    return sum(struct.unpack_from("=Q", made.maps[BUDGET].value.data, cpu * spec.stride + 8)[0]
               for cpu in range(spec.cpus))


# --- the gate ---------------------------------------------------------------------------------------------


@BOTH
def test_what_is_not_let_through_is_counted(kernel: str) -> None:
    made = loaded("rt:sched_switch /arg0 != 9/ { @ = count(); }", kernel, gated=True)
    made.set_global("allowance", 3 * PURSE)
    for number in range(200):
        made.cpu = number & 1
        made.run(context=[number % 10, 0, 0])
    passed = made.value("@")
    assert 2 * PURSE <= passed <= 3 * PURSE  # the other CPU may have a purse in hand when the gate is closed
    assert passed + held(made)[0] == 180  # the predicate comes first: what it turns away was not kept back
    assert runs(made) == 200


@BOTH
def test_only_user_space_opens_the_gate(kernel: str) -> None:
    made = loaded("rt:sched_switch { @ = count(); }", kernel, gated=True)
    made.run(context=[0, 0, 0])
    assert held(made) == [1] and made.value("@") == 0
    made.set_global("allowance", 1 << 40)
    made.run(context=[0, 0, 0])
    assert held(made) == [2]
    made.set_global("gate", 0)
    made.run(context=[0, 0, 0])
    assert held(made) == [2] and made.value("@") == 1


@BOTH
def test_attach_points_of_one_program_are_counted_apart(kernel: str) -> None:
    made = loaded("tracepoint:syscalls:sys_enter_getpid,tracepoint:syscalls:sys_enter_getppid { @ = count(); }", kernel,
                  gated=True)
    for call in (39, 110, 110, 7):
        made.run(context=[0, call])
    assert dict(zip(made.spec.probes, held(made))) == {
        "tracepoint:syscalls:sys_enter_getpid": 1, "tracepoint:syscalls:sys_enter_getppid": 2}


def test_by_cookie_too() -> None:
    made = loaded("tracepoint:sched:sched_switch,tracepoint:sched:sched_wakeup { @ = count(); }", gated=True)
    for cookie in (0, 1, 1):
        made.run(context=[0, 0, 0, 0], cookie=cookie)
    assert held(made) == [1, 2]


def test_what_ends_another_is_let_through() -> None:
    spec = compiled(LATENCY, gated=True)
    assert spec.gate is not None and spec.gate.pairs == ["@s"] and spec.gate.unguarded == []
    made = loaded(LATENCY, gated=True)
    enter, leave = made.spec.programs
    made.set_global("allowance", 1)
    made.run(enter, context=[made.task.base, 0])
    assert made.map("@s")
    made.set_global("gate", 1)
    regs = made.memory.add(bytes(168), "registers", writable=False)
    made.run(leave, context=[regs.base, 0])  # of call 0: read
    assert made.map("@s") == {} and sum(made.value("@ns").counts) == 1
    made.run(enter, context=[regs.base, 0])
    made.run(leave, context=[regs.base, 0])
    assert sum(made.value("@ns").counts) == 1 and held(made) == [1, 0]


@pytest.mark.parametrize(("script", "pairs", "unguarded"), [
    ("rt:sched_switch { if (arg0) { @x[tid] = 1; } else { delete(@x, tid); } }", ["@x"], ["@x"]),
    ("rt:sched_switch { @x[tid] = nsecs; } rt:sched_wakeup { @y = hist(nsecs - @x[tid]); }", ["@x"], ["@x"]),
    ("rt:sched_switch { @x[tid] = comm; } rt:sched_wakeup { print(@x[tid]); }", [], []),
    ("rt:sched_switch { @x[tid] = count(); delete(@x, tid); }", [], []),
    ("rt:sched_switch { @x = nsecs; } rt:sched_wakeup { print(@x); }", [], []),
    ("begin { @x[1] = nsecs; } rt:sched_wakeup { print(@x[1]); }", [], []),
])
def test_which_maps_a_gap_makes_meaningless(script: str, pairs: list[str], unguarded: list[str]) -> None:
    gate = compiled(script, gated=True).gate
    assert gate is not None and (gate.pairs, gate.unguarded) == (pairs, unguarded)


def test_maps_by_the_probes_that_change_them() -> None:
    gate = compiled("begin { @a = 1; } rt:sched_switch { @b[tid]++; print(@a); } "
                    "rt:sched_wakeup { @b[1] = 2; @c = count(); } interval:s:1 { @d = count(); }", gated=True).gate
    assert gate is not None and gate.touched == {"@b": [1, 2], "@c": [2]}


@pytest.mark.parametrize("script", ["begin { @ = 1; }", "interval:s:1 { @ = count(); } end { clear(@); }"])
def test_there_may_be_nothing_to_keep_back(script: str) -> None:
    spec = compiled(script, gated=True)
    assert spec.gate is None and [p.code for p in spec.programs] == [p.code for p in compiled(script).programs]


def test_without_a_budget_there_is_no_gate() -> None:
    spec = compiled(LATENCY)
    assert spec.gate is None and spec.globals == [] and BUDGET not in [m.name for m in spec.maps]


# --- the option -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("2", 0.02), ("0.5%", 0.005), ("100%", 1.0), (".1", 0.001)])
def test_shares(text: str, share: float) -> None:
    assert budget_of(parse_command_line(["--budget", text, "-e", "x"])) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "%", "x", "0", "0.01%", "101", "-1", "1e1", "2%%", "nan", "1" * 5000, "١"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(UsageError):
        budget_of(parse_command_line([f"--budget={text}", "-e", "x"]))


def test_tests_run_whole() -> None:
    with pytest.raises(UsageError):
        budget_of(parse_command_line(["--budget", "2", "--test", "-e", "x"]))
    assert budget_of(parse_command_line(["-e", "x"])) == 0.0


# --- the account ------------------------------------------------------------------------------------------


class FakeMap:
    def __init__(self, spec: Any) -> None:
        self.spec, self.memory, self.taken = spec, bytearray(spec.value_size), 0

    def read_and_clear(self) -> list[Any]:
        self.taken += 1
        return [(b"", b"")]


class Flood:
    """A simulated machine: events come at a rate, let through ones take some time each, others at the gate less."""

    AROUND, WORK, AT_GATE = 50, 400, 60

    def __init__(self, spec: ScriptSpec, rate: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.rate, self.attached, self.produced, self.passed, self.unseen = 10**9, rate, True, 0, 0, 0
        self.took, self.count, self.attachments = 0, 0, 0
        self.look, self.looks = 0, 0  # ns that each look takes, and all have taken
        self.maps: dict[str, Any] = {m.name: FakeMap(m) for m in spec.maps}
        self.state = State(spec, self.maps[STATE])
        monkeypatch.setattr(keeping.time, "monotonic_ns", lambda: self.now)
        monkeypatch.setattr(keeping.time, "thread_time_ns", lambda: self.looks)
        monkeypatch.setattr(keeping, "try_enable_statistics", lambda: None)
        monkeypatch.setattr(keeping, "stats_always_enabled", lambda: True)
        monkeypatch.setattr(keeping, "Floor", lambda programs: self)
        monkeypatch.setattr(keeping.attaching, "attach_program", self.attach)
        self.spec = spec.programs[0]
        self.budget = Budget(0.02, spec, self.maps, self, lambda: None)  # type: ignore[arg-type]
        monkeypatch.setattr(keeping.threading.Thread, "start", lambda thread: None)
        self.budget.start([self])  # type: ignore[list-item]
        self.fd = None

    # what the budget asks of the floor, of links, and of a program

    def overhead_ns(self, program: Any) -> float:
        return self.AROUND

    def count_slow_links(self) -> int:
        return 0

    def close(self) -> None:
        self.attached = False

    def attach(self, *arguments: Any) -> int:
        self.attached = True
        self.attachments += 1
        return 1

    def program_info(self) -> ProgramInfo:
        self.looks += self.look
        return ProgramInfo(1, "", self.took, self.count, 0, 0)

    # time passes

    def run(self, seconds: float) -> None:
        end = self.now + int(seconds * 1e9)
        wait = 0.005
        while self.now < end:
            self.pass_time(int(wait * 1e9))
            wait = self.budget._check_account()

    def pass_time(self, span: int) -> None:
        self.now += span
        events = self.rate * span // 10**9
        self.produced += events
        if not self.attached:
            self.unseen += events
            return
        passed = min(events, max(self.state.read_global("allowance"), 0)) if not self.state.read_global("gate") else 0
        self.state.write_global("allowance", self.state.read_global("allowance") - passed)
        if passed < events:
            self.state.write_global("gate", 1)
        memory, slot = self.maps[BUDGET].memory, 8 * BUDGET_HEAD
        struct.pack_into("=Q", memory, slot, struct.unpack_from("=Q", memory, slot)[0] + events - passed)
        self.passed += passed
        self.count += events
        self.took += passed * self.WORK + (events - passed) * self.AT_GATE


SCRIPT = "rt:sched_switch { @ = count(); }"


@pytest.mark.parametrize(("rate", "detached"), [(1_000, False), (60_000, False), (400_000, True), (5_000_000, True)])
def test_the_share_is_kept_to(rate: int, detached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    flood = Flood(compiled(SCRIPT, gated=True), rate, monkeypatch)
    flood.run(10)
    kept = flood.budget.withheld()
    spent = flood.took + flood.count * flood.AROUND
    assert kept.spent_ns == pytest.approx(spent, rel=0.1)
    if rate == 1_000:  # 0.05%: nothing is kept back
        assert not kept and flood.passed == flood.produced and not flood.budget.notices
        return
    assert spent / 10e9 == pytest.approx(0.02, abs=0.005)
    assert bool(flood.attachments) == bool(kept.detached_ns) == detached
    (_, skipped), = kept.events
    assert flood.passed + skipped + flood.unseen == flood.produced and flood.passed
    assert flood.unseen == pytest.approx(rate * kept.detached_ns / 1e9, rel=0.02) if detached else not flood.unseen
    assert flood.budget.is_incomplete("@") and not flood.budget.is_incomplete("@other")
    assert len(flood.budget.notices) == 1 + detached


@pytest.mark.parametrize("look", [100_000, 1_000_000, 10_000_000])
def test_looks_leave_most_of_the_share(look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine, too, where one takes more than the share of the time between two: events go on to be let
    through."""
    flood = Flood(compiled(SCRIPT, gated=True), 60_000, monkeypatch)
    flood.look = look
    passed = []
    for _ in range(4):
        flood.run(10)
        passed.append(flood.passed)
    spent = flood.took + flood.count * flood.AROUND
    assert (spent + flood.looks) / 40e9 == pytest.approx(0.02, abs=0.005)
    assert flood.looks < spent
    assert all(after > before for before, after in itertools.pairwise(passed))


def test_without_statistics_the_programs_count_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    flood = Flood(compiled(SCRIPT, gated=True), 5_000_000, monkeypatch)
    flood.budget._measured = False
    monkeypatch.setattr(flood, "program_info", lambda: pytest.fail("the kernel was asked"))
    struct.pack_into("=Q", flood.maps[BUDGET].memory, 8, 100_000)
    flood.now += 10_000_000
    flood.budget._check_account()
    assert not flood.attached and flood.budget.withheld().spent_ns >= 100_000 * flood.AROUND


def test_beginnings_whose_end_was_missed_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    flood = Flood(compiled(LATENCY, gated=True), 5_000_000, monkeypatch)
    flood.run(2)
    assert flood.maps["@s"].taken == flood.attachments > 0
    assert flood.budget.withheld().dropped == [("@s", flood.attachments)]


def test_a_trace_that_cannot_be_attached_again_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from sonde.errors import AttachError
    flood = Flood(compiled(SCRIPT, gated=True), 5_000_000, monkeypatch)

    def refuse(*arguments: Any) -> int:
        raise AttachError("it has gone", "x", 2)
    monkeypatch.setattr(keeping.attaching, "attach_program", refuse)
    waits = iter(range(100))
    monkeypatch.setattr(flood.budget._ending, "wait", lambda wait: (
        flood.pass_time(int(wait * 1e9)), next(waits) > 90)[1])
    monkeypatch.setattr(keeping.os, "setpriority", lambda *arguments: None)
    flood.budget._keep_budget()
    assert flood.budget.notices[-1].endswith("cannot attach again what it has detached: it has gone")
    assert flood.state.read_global("gate") == 1 and not flood.attached
    before = flood.budget.withheld().detached_ns
    flood.now += 10**9
    assert flood.budget.withheld().detached_ns == before + 10**9


# --- what is said -----------------------------------------------------------------------------------------


KEPT = BudgetLosses(0.02, [("tracepoint:a:b", 7)], 1_500_000_000, 10_000_000_000, 199_000_000, [("@s", 3)])


def test_what_was_withheld_in_words(tmp_path: Any) -> None:
    said: list[str] = []
    out = make_output("text", 1, 2)
    out.write_note = said.append  # type: ignore[method-assign]
    report_losses(out, Losses([], [], [], withheld=KEPT))
    assert said == [
        "WARNING: --budget 2%: the programs took 2% of one CPU's time in 10.0 s\n"
        "  7 events of tracepoint:a:b skipped for the budget\n"
        "  for 1.5 of 10.0 s probes were detached: nothing counted what came then\n"
        "  3 elements of @s dropped: what would have ended them may have been missed"]


def test_what_was_withheld_as_an_object(tmp_path: Any) -> None:
    with (tmp_path / "out").open("w+b") as file:
        out = make_output("json", file.fileno(), 2)
        report_losses(out, Losses([], [], [], withheld=KEPT))
        out.write_map("@x", [(None, 5)], incomplete=True)
        out.write_map("@y", [(None, 5)])
        out.flush(True)
        file.seek(0)
        found = [json.loads(line) for line in file]
    assert found == [
        {"type": "withheld", "data": {"share": 0.02, "spent": 0.0199, "seconds": 10.0, "detached_seconds": 1.5,
                                      "skipped": {"tracepoint:a:b": 7}, "dropped": {"@s": 3}}},
        {"type": "map", "incomplete": True, "data": {"@x": 5}}, {"type": "map", "data": {"@y": 5}}]


def test_maps_are_marked_in_text(tmp_path: Any) -> None:
    with (tmp_path / "out").open("w+b") as file:
        out = make_output("text", file.fileno(), 2)
        out.write_map("@x", [(None, 5)], incomplete=True)
        out.write_map("@y", [], incomplete=True)
        out.flush(True)
        file.seek(0)
        assert file.read() == b"@x is incomplete:\n@x: 5\n"


def test_nothing_withheld_is_nothing_said() -> None:
    assert not Losses([], [], [], withheld=BudgetLosses(0.02, [], 0, 10**9, 10**6, []))
    assert STATE in [m.name for m in compiled(SCRIPT, gated=True).maps]
