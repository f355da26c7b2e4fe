"""``--info``: what this machine and its kernel offer, with the sections and names that bpftrace's bug reports and test
suites use; our own rows come after them."""

from __future__ import annotations

import os
import sys

from ..errors import MachineError
from . import host
from .denials import kernel_lockdown
from .features import TABLE, Features
from .types import tracefs

Row = tuple[str, str, str]  # section, name, value

# name → the enumerator of bpf_func_id, without BPF_FUNC_
HELPERS = {
    "probe_read": "", "probe_read_str": "", "probe_read_user": "", "probe_read_user_str": "", "probe_read_kernel": "",
    "probe_read_kernel_str": "", "get_current_cgroup_id": "", "send_signal": "", "send_signal_thread": "",
    "override_return": "", "get_boot_ns": "ktime_get_boot_ns", "dpath": "d_path", "skboutput": "skb_output",
    "get_tai_ns": "ktime_get_tai_ns", "get_func_ip": "", "jiffies64": "", "for_each_map_elem": "",
    "lookup_percpu_elem": "map_lookup_percpu_elem", "loop": "", "get_stackid": "", "get_task_stack": "", "strncmp": "",
    "get_socket_cookie": "",
}
# name → the enumerator of bpf_map_type, without BPF_MAP_TYPE_
MAP_TYPES = {
    "hash": "", "percpu hash": "percpu_hash", "array": "", "percpu array": "percpu_array", "stack_trace": "",
    "perf_event_array": "", "ringbuf": "", "lru hash": "lru_hash", "percpu lru hash": "lru_percpu_hash",
    "prog_array": "", "cgroup_array": "", "task_storage": "",
}
# name → the feature that it needs
PROBE_TYPES = {
    "kprobe": "kprobes", "tracepoint": "", "perf_event": "", "fentry": "fentry", "kprobe_multi": "kprobe_multi",
    "kprobe_session": "kprobe_session", "uprobe": "uprobes", "uprobe_multi": "uprobe_multi", "rawtracepoint": "raw_tp",
    "iter": "iter_task",
}


def info_rows(features: Features, version: str) -> list[Row]:
    """Every row, in order."""
    def format_constant_answer(constant: str) -> str:
        return _format_answer(features.btf.enum_constant(constant) is not None if features.btf else None)

    rows = _system_rows(features) + _build_rows(version)
    rows += [("Kernel helpers", name, format_constant_answer(f"BPF_FUNC_{helper or name}"))
             for name, helper in HELPERS.items()]
    # Kernels with ring buffers, which Sonde needs, have these three.
    rows += [("Kernel features", "Instruction limit", "1000000"), ("Kernel features", "Loop support", "yes"),
             ("Kernel features", "map batch", "yes"),
             ("Kernel features", "module btf", _format_answer(_has_module_btf())),
             ("Kernel features", "uprobe refcount", _format_answer(_has_uprobe_refcount()))]
    rows += [("Kernel features", row.name, _format_answer(features.check_feature(row.name))) for row in TABLE]
    rows += [("Map types", name, format_constant_answer(f"BPF_MAP_TYPE_{(kind or name).upper()}"))
             for name, kind in MAP_TYPES.items()]
    rows += [("Probe types", name, _format_answer(features.check_feature(needed) if needed else True))
             for name, needed in PROBE_TYPES.items()]
    return rows


def _system_rows(features: Features) -> list[Row]:
    uname = os.uname()
    return [("System", *pair) for pair in [
        ("OS", f"{uname.sysname} {uname.release} {uname.version}"), ("Arch", uname.machine),
        ("CPUs", _format_cpu_count()),
        ("BTF", "vmlinux" if features.btf else "no"), ("tracefs", _tracefs_mount()), ("lockdown", kernel_lockdown()),
        ("perf_event_paranoid", _read_sysctl("kernel/perf_event_paranoid")),
        ("kptr_restrict", _read_sysctl("kernel/kptr_restrict")),
        ("unprivileged_bpf_disabled", _read_sysctl("kernel/unprivileged_bpf_disabled"))]]


def _build_rows(version: str) -> list[Row]:
    return [("Build", *pair) for pair in [
        ("version", f"v{version}"), ("Python", sys.version.split()[0]), ("LLVM", "no"),
        ("libclang (headers)", _format_answer(_is_installed("clang"))),
        ("pyelftools (DWARF support)", _format_answer(_is_installed("elftools")))]]


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec
    return find_spec(module) is not None


def _has_module_btf() -> bool:
    try:
        return any(name != "vmlinux" for name in os.listdir("/sys/kernel/btf"))
    except OSError:
        return False


def _has_uprobe_refcount() -> bool:
    return os.path.exists("/sys/bus/event_source/devices/uprobe/format/ref_ctr_offset")


def _format_answer(answer: bool | None) -> str:
    return "unknown" if answer is None else "yes" if answer else "no"


def _format_cpu_count() -> str:
    try:
        return f"{len(host.online_cpus())} online, {host.possible_cpus()} possible"
    except MachineError as problem:
        return problem.message


def _tracefs_mount() -> str:
    try:
        return tracefs.find_tracefs()
    except MachineError as problem:
        return problem.message


def _read_sysctl(name: str) -> str:
    try:
        with open(f"/proc/sys/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
