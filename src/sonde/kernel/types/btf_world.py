"""A kernel of which a file of BTF is known and nothing else (``sonde check --btf FILE``)."""

from __future__ import annotations

import os

from ...arch import ARCHES
from ...arch.syscalls import syscall_number
from ...base.fast_stdlib import cached_property
from ...btf import codec
from ...btf.query import Btf, open_file
from ...errors import MachineError
from ...spec import TracepointFormat
from ...types import Str, Struct, StructField
from ..features import ROWS
from . import tracefs
from .kernel_types import KernelTypes
from .world import UserSide


class BtfWorld(KernelTypes, UserSide):
    """A kernel that is known by its BTF file: enough to check scripts for it.

    Its tracepoints are taken from the structs ``trace_event_raw_*``. BTF does not have their categories, so any is
    accepted. Features that are tested by loading a program are derived from BTF.
    """

    pid_namespace = False

    def __init__(self, path: str, arch: str = "", release: str = "") -> None:
        self.cpus: int = os.cpu_count() or 1  # nothing is loaded here, so no sysfs is asked
        self.release: str = release or os.path.basename(path)
        self._path = path
        self.arch: str = arch or self._named_arch() or os.uname().machine

    def _named_arch(self) -> str:
        """The architecture in the names of the kernel's system call functions, else ""."""
        return next((row.name for row in ARCHES.values()
                     if self.btf and self.btf.find_id(f"{row.syscall_prefix}getpid", codec.FUNC)), "")

    def _open_btf(self) -> Btf | None:
        return open_file(self._path)

    def has_feature(self, name: str) -> bool:
        """What the presence of helpers and types implies; kprobes are assumed, since BTF cannot tell."""
        btf = self.btf
        if name.startswith("kfunc_"):
            return self.kfunc_id(name.removeprefix("kfunc_").partition("@")[0]) != 0
        if name.startswith("helper_"):
            return self.has_helper(name.removeprefix("helper_"))
        if btf is None or name not in ROWS:
            return False
        if name == "compat_syscalls":
            return bool(btf.find_id(ARCHES[self.arch].compat_function, codec.FUNC))
        if name in _IMPLIED_BY:
            kind, sign = _IMPLIED_BY[name]
            return bool(btf.find_id(sign, kind)) if kind else btf.enum_constant(sign) is not None
        return name.startswith("rdonly_cast") and bool(btf.find_id("bpf_rdonly_cast", codec.FUNC))

    def tracepoints(self) -> list[tuple[str, str]]:
        """(category, event): the category is that of this machine, otherwise guessed from the event's first word; those
        of system calls, which BTF does not have and are the same everywhere, are this machine's."""
        syscalls = [(category, event) for event, category in self._event_categories.items() if category == "syscalls"]
        return [(self._event_categories.get(event) or event.partition("_")[0], event)
                for _, event in self.raw_tracepoints()] + syscalls

    @cached_property
    def _event_categories(self) -> dict[str, str]:
        """Event → category, as far as this machine has them."""
        try:
            return {event: category for category, event in tracefs.available_events(tracefs.find_tracefs(mount=False))}
        except MachineError:
            return {}

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        """The format of the event's class; for system calls, which are the same everywhere, this machine's."""
        if category == "syscalls":
            try:
                text = tracefs.read_format(tracefs.find_tracefs(mount=False), category, event)
            except MachineError:
                return None
            return tracefs.parse_format(text, category, event, self) if text is not None else None
        record = self._event_record(event)
        if record is None:
            return None
        fields = tuple([_record_field(f) for f in record.fields if f.name not in ("ent", "__data")])
        args = Struct(f"_tracepoint_{category}_{event}", record.bytes, lambda: fields)
        return TracepointFormat(category, event, 0, args)

    def _event_record(self, event: str) -> Struct | None:
        """The record of an event. Events of one class share it; those classes are recognised by their
        ``perf_trace_CLASS`` function, which has the event's own parameters, and, of several, by the event's fields on
        this machine, or by its name."""
        own = self.find_struct(f"trace_event_raw_{event}")
        params = self.raw_tracepoint_params(event)
        if own or params is None:
            return own
        records = [(name, record) for name in self._event_classes.get(tuple([kind for _, kind in params[1]]), [])
                   if (record := self.find_struct(f"trace_event_raw_{name}")) is not None]
        if local := self._local_fields(event):
            likeness, record = max(((_field_similarity(record, local), record) for _, record in records),
                                   key=lambda row: row[0], default=(0.0, None))
            if likeness > 0.7:
                return record
        best = max(records, key=lambda record: _common_prefix_length(record[0], event), default=("", None))
        return best[1] if _common_prefix_length(best[0], event) > 3 else None

    def _local_fields(self, event: str) -> set[str]:
        """Names of the event's fields on this machine; empty if it has no such event."""
        category = self._event_categories.get(event)
        if category is None:
            return set()
        text = tracefs.read_format(tracefs.find_tracefs(mount=False), category, event) or ""
        return {field.name for field in tracefs.parse_fields(text)}

    @cached_property
    def _event_classes(self) -> dict[tuple[int, ...], list[str]]:
        """Event classes by the types of their parameters."""
        classes: dict[tuple[int, ...], list[str]] = {}
        for name, number in self.btf.named_types(codec.FUNC) if self.btf else ():
            if name.startswith("perf_trace_") and self.btf:
                types = tuple([param.type for param in self.btf.function_params(number)[1:]])
                classes.setdefault(types, []).append(name.removeprefix("perf_trace_"))
        return classes

    def syscall_number(self, name: str) -> int | None:
        """From the table of the architecture."""
        return syscall_number(name, self.arch)

    def kernel_functions(self) -> list[tuple[str, str]]:
        """Every function that BTF knows."""
        return [(module, name) for module, btf in self._all_btfs() for name, _ in btf.named_types(codec.FUNC)]

    def kernel_symbol(self, name: str) -> int | None:
        """Addresses are not in BTF; a known function gets 1, which is enough for checking."""
        return 1 if self.btf and self.btf.find_id(name, codec.FUNC, codec.VAR) else None


def _field_similarity(record: Struct, fields: set[str]) -> float:
    """The share of fields that both have: 0 to 1."""
    own = {field.name.removeprefix("__data_loc_") for field in record.fields} - {"ent", "__data"}
    return len(own & fields) / len(own | fields)


def _common_prefix_length(a: str, b: str) -> int:
    """Length of the common prefix of two names."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


_IMPLIED_BY: dict[str, tuple[int, str]] = {
    "btf": (codec.STRUCT, "task_struct"),
    "kprobes": (codec.STRUCT, "kretprobe"),
    "fentry": (codec.FUNC, "register_ftrace_direct"),
    "uprobes": (codec.STRUCT, "uprobe"),
    "raw_tp": (codec.STRUCT, "bpf_raw_event_map"),
    "typed_arguments": (codec.STRUCT, "bpf_trampoline"),
    "tracing_cookie": (codec.FUNC, "bpf_get_attach_cookie_tracing"),
    "tracing_multi": (codec.STRUCT, "bpf_tracing_multi_link"),
    "iter_task": (codec.FUNC, "bpf_iter_task"),
    "kprobe_multi": (codec.STRUCT, "bpf_kprobe_multi_link"),
    "kprobe_session": (codec.STRUCT, "bpf_session_run_ctx"),
    "uprobe_multi": (codec.STRUCT, "bpf_uprobe_multi_link"),
    "jit": (codec.FUNC, "bpf_jit_alloc_exec"),
    "ringbuf": (0, "BPF_MAP_TYPE_RINGBUF"),
    "map_mmap": (0, "BPF_F_MMAPABLE"),
    "map_allocation": (codec.STRUCT, "bpf_mem_alloc"),
    "attach_cookie": (0, "BPF_FUNC_get_attach_cookie"),
    "raw_tp_cookie": (codec.FUNC, "bpf_get_attach_cookie_tracing"),
    "get_current_task_btf": (0, "BPF_FUNC_get_current_task_btf"),
    "bpf_loop": (0, "BPF_FUNC_loop"),
    "atomic_fetch": (0, "BPF_FUNC_for_each_map_elem"),  # one release later
    "long_keys": (0, "BPF_FUNC_for_each_map_elem"),
    "for_each_map_elem": (0, "BPF_FUNC_for_each_map_elem"),
    "map_lookup_percpu_elem": (0, "BPF_FUNC_map_lookup_percpu_elem"),
    "signal": (0, "BPF_FUNC_send_signal_thread"),
}


def _record_field(field: StructField) -> StructField:
    """A member of ``trace_event_raw_*``: ``u32 __data_loc_name`` is what the format calls ``name``."""
    if field.name.startswith("__data_loc_"):
        return StructField(field.name.removeprefix("__data_loc_"), Str(0), field.offset, data_loc=True)
    return field
