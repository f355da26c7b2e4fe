"""Compiling scripts for a recorded kernel, and running what comes out in the interpreter."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bpf_kernel import Kernel
from bpf_machine import Region
from recorded_world import RecordedWorld
from sonde.compiling import compile
from sonde.semantics.script_options import Options
from sonde.spec import ScriptSpec

BENEATH = 0xFFFFFFFF81230000  # a function that calls programs at raw tracepoints
WORLD = Path(__file__).parent / "unit" / "world.json.z"
OLD = dict.fromkeys(("rdonly_cast", "rdonly_cast_kprobe", "rdonly_cast_tracepoint", "rdonly_cast_perf_event",
                     "rdonly_cast_raw_tracepoint", "isa_v4", "raw_tp_cookie", "spilled_bounds",
                     "uretprobe_func", "current_task_variable"), False)
OLDEST = OLD | dict.fromkeys((
    "attach_cookie", "tracing_cookie", "bpf_loop", "for_each_map_elem", "atomic_fetch", "long_keys",
    "map_lookup_percpu_elem", "get_current_task_btf", "kprobe_multi", "kprobe_session", "uprobe_multi",
    "helper_get_func_ip", "helper_get_func_arg", "helper_get_func_ret", "helper_loop", "helper_task_pt_regs",
    "helper_trace_vprintk", "map_allocation"), False)
# What the recorded kernel was built without, and what was not asked of it, so that it can be compiled for.
BUILT = dict.fromkeys(("kprobes", "fentry", "override", "write_user", "spilled_bounds", "uretprobe_func",
                       "atomic_fetch", "long_keys", "current_task_variable", "map_allocation"), True)
# Tracepoints of modules that the recorded machine did not have: (type, name, offset, size) of each field, from 6.12.
MODULES: dict[str, list[tuple[str, str, int, int]]] = {
    "cfg80211:rdev_scan": [("char", "wiphy_name[32]", 8, 32)],
    "mac80211:drv_config": [("char", "wiphy_name[32]", 8, 32), ("u32", "changed", 40, 4), ("u32", "flags", 44, 4),
                            ("u32", "control_freq", 60, 4)],
    "mac80211:drv_sw_scan_complete": [("char", "wiphy_name[32]", 8, 32)],
    "mac80211:api_scan_completed": [("char", "wiphy_name[32]", 8, 32), ("bool", "aborted", 40, 1)],
}
KERNELS: dict[str, dict[str, bool]] = {"6.18": {}, "6.1": OLD}  # the features that differ
OLDER = {"5.10": OLDEST}  # which refuses some scripts
NEWER = {"7.2": {"preemptible_raw_tp": True}}


@functools.cache
def world(kernel: str = "6.18", arch: str = "x86_64") -> RecordedWorld:
    """The recorded kernel, or what it would be if it were older or on another CPU; always of two CPUs."""
    made = RecordedWorld(str(WORLD), BUILT | (KERNELS | OLDER | NEWER)[kernel])
    made.arch, made.cpus = arch, 2
    made._data["symbols"].setdefault("__per_cpu_offset", 0xFFFFFFFF82000000)
    made._data["symbols"].setdefault("bpf_trace_run4", BENEATH)
    for name, fields in MODULES.items():
        made._data["tracepoints"].setdefault(name, format_text(name, fields))
    for path, binary in made._data["binaries"].items():
        binary["names"].append(path.removeprefix("/usr"))  # merged /usr: both are paths of one file
    return made


def format_text(name: str, fields: list[tuple[str, str, int, int]]) -> str:
    """What tracefs would tell of the event ``category:name``."""
    lines = [f"\tfield:{type} {field};\toffset:{at};\tsize:{size};\tsigned:0;" for type, field, at, size in fields]
    return "\n".join([f"name: {name.partition(':')[2]}", "ID: 1", "format:", *lines, ""])


def compiled(text: str, kernel: str = "6.18", arch: str = "x86_64", **options: Any) -> ScriptSpec:
    """A script's spec; the intermediate code is checked after every pass."""
    return compile(text, Options(**options), world(kernel, arch), verify=True)


def kernel_of(spec: ScriptSpec, kernel: str = "6.18", arch: str = "x86_64") -> Kernel:
    """The programs of a spec, ready to run where no task is looked at."""
    here = world(kernel, arch)
    return Kernel(spec, here.cpus, {"cast": here.kfunc_id("bpf_rdonly_cast")}, arch)


def run_interrupted(made: Kernel, program: int, at: int, interrupt: Callable[[], object]) -> bool:
    """Run a program, and before its instruction number ``at`` what interrupts it; False if it ended before."""
    done: list[int] = []

    def between(steps: int) -> None:
        if steps == at and not done:
            done.append(steps)
            interrupt()

    made.between = between
    made.run(program)
    made.between = lambda steps: None
    return bool(done)


def loaded(text: str, kernel: str = "6.18", **options: Any) -> Kernel:
    """A script's programs, ready to run."""
    here = world(kernel)
    made = kernel_of(compiled(text, kernel, **options), kernel)
    parent = made.memory.add(bytes(len(made.task.data)), "parent task", writable=False)
    fill_task(here, made.task, pid=made.tid, tgid=made.pid, comm=made.comm, real_parent=parent.base,
              group_leader=made.task.base)
    fill_task(here, parent, pid=77, tgid=77, comm=b"parent")
    return made


def set_task(made: Kernel, tid: int, comm: str = "tester", kernel: str = "6.18") -> None:
    """Let programs run for a thread."""
    made.tid, made.comm = tid, comm.encode()
    fill_task(world(kernel), made.task, pid=tid, tgid=made.pid, comm=made.comm.ljust(16, b"\0"))


def fill_task(here: RecordedWorld, region: Region, **members: int | bytes) -> None:
    """Members of a task_struct."""
    task = here.find_struct("task_struct")
    assert task is not None
    for name, content in members.items():
        field = task.field(name)
        assert field is not None
        raw = content if isinstance(content, bytes) else content.to_bytes(field.type.size, "little")
        region.data[field.offset:field.offset + len(raw)] = raw


def run(text: str, kernel: str = "6.18", times: int = 1, **options: Any) -> Kernel:
    """Run a script's first program so many times."""
    made = loaded(text, kernel, **options)
    for _ in range(times):
        made.run()
    return made


def begin(statements: str, kernel: str = "6.18", **options: Any) -> Kernel:
    """Run statements once."""
    return run(f"BEGIN {{ {statements} }}", kernel, **options)


def value(expression: str, kernel: str = "6.18", before: str = "", **options: Any) -> Any:
    """What an expression is, as print() would send it."""
    return begin(f"{before} print(({expression}));", kernel, **options).events[0].args[0]
