"""The current task, loaded without a call: on each CPU it is the one that the helper and the process itself know."""

from __future__ import annotations

import os
import sys

import pytest

import sonde
from sonde.compiling import live_world
from sonde.kernel.host import possible_cpus
from sonde.kernel.tasks import locator
from sonde.layouts.shared_maps import CURRENT

CALLS = 500
SCRIPT = """tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == "current"/ {
    @[cpu, pid, tid, comm] = count();
}
tracepoint:sched:sched_switch { if (args.prev_pid == tid) { @right = count(); } else { @wrong = count(); } }"""
CODE = f"""import os
open("/proc/self/comm", "w").write("current")
for cpu in os.sched_getaffinity(0):
    os.sched_setaffinity(0, [cpu])
    for _ in range({CALLS}):
        os.getppid()"""


@pytest.fixture(autouse=True)
def supported() -> None:
    if not live_world().has_feature("current_task_variable"):
        pytest.skip("where this kernel keeps the current task is not known (Linux 6.10, x86_64)")


@pytest.mark.parametrize("located", [True, False])
def test_who_runs(monkeypatch: pytest.MonkeyPatch, located: bool) -> None:
    """Found by the variable, and by the helper where that was not found on any CPU."""
    if not located:
        monkeypatch.setattr(locator, "locate_current_tasks", lambda found, table, cpus: None)
    with sonde.trace(SCRIPT, command=[sys.executable, "-c", CODE], world=live_world()) as trace:
        words = memoryview(trace.session.maps[CURRENT].memory).cast("Q").tolist()[:possible_cpus()]
        online = os.cpu_count() or 1
        assert sum(word != 0 for word in words) == (online if located else 0)
        trace.run(timeout=60)
        child = trace.session.process
        assert child is not None
        pid = child.pid
    cpus = sorted(os.sched_getaffinity(0))
    assert dict(trace.maps["@"].items()) == {(cpu, pid, pid, "current"): CALLS for cpu in cpus}
    assert trace.maps["@right"].value and trace.maps["@wrong"].value is None
