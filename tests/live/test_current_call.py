"""syscall_id, syscall_arg0: of the current task, in and out of system calls."""

from __future__ import annotations

import os
import sys

import pytest

from sonde.compiling import live_world
from support import run_sonde

pytestmark = [pytest.mark.skipif(os.uname().machine != "x86_64", reason="syscall_id is for x86_64"),
              pytest.mark.skipif(not live_world().has_feature("helper_task_pt_regs"),
                                 reason="kernel lacks task_pt_regs (Linux 5.15)")]


def test_the_call_at_its_tracepoint_at_a_switch_and_in_user_mode() -> None:
    """close() of a number that is no descriptor, a sleep, and a computation."""
    program = ("import os, time\n"
               "try:\n    os.close(1234567)\n"
               "except OSError:\n    time.sleep(0.01)\n"
               "end = time.process_time() + 0.2\n"
               "while time.process_time() < end:\n    sum(range(100000))")
    done = run_sonde("-c", f"{sys.executable} -c '{program}'", "-e", """
        tracepoint:syscalls:sys_enter_close /pid == cpid && args.fd == 1234567/ {
            printf("close %d %d\\n", syscall_id, syscall_arg0); }
        tracepoint:sched:sched_switch /pid == cpid && syscall_id == 230/ { @slept = count(); }
        profile:hz:199 /pid == cpid && usermode/ { @users[syscall_id, syscall_arg0] = count(); }""")
    assert "close 3 1234567\n" in done.stdout
    assert "@slept: " in done.stdout and "@users[-1, 0]: " in done.stdout
    assert done.stdout.count("@users[") == 1
