"""Worlds from files: what some kernel once answered (tests compile against that, anywhere and without root), and what a
kernel's BTF alone says (``sonde check --btf FILE``).

The file of a RecordedWorld is zlib-compressed JSON::

    arch, cpus, release      as in World
    features                 name → bool
    btf                      base64 of a BTF blob
    tracepoints              "category:event" → text of the format file
    symbols                  kernel symbol → address
    functions                [[module, function], ...], the traceable ones
    binaries                 path → {"names": [...], "functions": [[name, address, offset, size], ...],
                             "objects": {name: [address, size]}}
"""

from __future__ import annotations

import os
from functools import cached_property

from ...arch import ARCHES
from ...arch.syscalls import syscall_number
from ...btf import codec
from ...btf.query import Btf, open_file, parse_btf
from ...errors import MachineError
from ...spec import (
    ClassicFilter,
    FunctionEnds,
    Implementation,
    Inlined,
    SourceLines,
    TracepointFormat,
    UsdtProbe,
    UserFunction,
    UserPrototype,
)
from ...types import Str, Struct, StructField, Type
from ..features import ROWS
from . import tracefs
from .kernel_types import KernelTypes
from .world import UserSide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RecordedWorld(KernelTypes):
    """Implements World. ``features`` overrides recorded ones."""

    pid_namespace = False

    def __init__(self, path: str, features: dict[str, bool] | None = None) -> None:
        data = load_world(path)
        self.arch: str = data["arch"]
        self.cpus: int = data["cpus"]
        self.release: str = data["release"]
        self._data = data
        self._features: dict[str, bool] = data["features"] | (features or {})

    def _open_btf(self) -> Btf | None:
        from binascii import a2b_base64

        return parse_btf(a2b_base64(self._data["btf"]))

    def has_feature(self, name: str) -> bool:
        """As recorded; helpers and kfuncs that were not are looked up in BTF, anything else is absent."""
        if name.startswith("kfunc_") and name not in self._features:
            return self.kfunc_id(name.removeprefix("kfunc_")) != 0
        if name.startswith("helper_") and name not in self._features:
            return self.has_helper(name.removeprefix("helper_"))
        return self._features.get(name, False)

    def tracepoints(self) -> list[tuple[str, str]]:
        """(category, event) of the recorded ones."""
        return [(category, event) for category, _, event in [name.partition(":") for name in self._data["tracepoints"]]]

    def tracepoint_format(self, category: str, event: str) -> TracepointFormat | None:
        """A recorded format."""
        text = self._data["tracepoints"].get(f"{category}:{event}")
        return tracefs.parse_format(text, category, event, self) if text else None

    def syscall_number(self, name: str) -> int | None:
        """From the table of the recorded architecture."""
        return syscall_number(name, self.arch)

    def kernel_functions(self) -> list[tuple[str, str]]:
        """The recorded functions, if the feature kprobes is set."""
        return [(module, name) for module, name in self._data["functions"]] if self.has_feature("kprobes") else []

    def kernel_symbol(self, name: str) -> int | None:
        """A recorded address."""
        address: int | None = self._data["symbols"].get(name)
        return address

    def find_binaries(self, name: str, pid: int = 0) -> list[str]:
        """Recorded binaries whose path, or one of whose names, matches."""
        from fnmatch import fnmatchcase

        return [path for path, binary in self._data["binaries"].items()
                if any(fnmatchcase(known, name) for known in (path, *binary["names"]))]

    def user_functions(self, path: str) -> list[UserFunction]:
        """Recorded functions."""
        return [UserFunction(*row) for row in self._data["binaries"].get(path, {}).get("functions", ())]

    def implementations(self, path: str, names: list[str], pid: int = 0) -> dict[int, Implementation]:
        """None are recorded."""
        return {}

    def user_object(self, path: str, symbol: str) -> tuple[int, int] | None:
        """A recorded symbol."""
        binary = self._data["binaries"].get(path)
        if binary is None:
            return None
        rows = {name: (address, size) for name, address, _, size in binary["functions"]}
        rows |= {name: (address, size) for name, (address, size) in binary["objects"].items()}
        return rows.get(symbol)

    def file_size(self, path: str) -> int:
        """None are recorded."""
        return 0

    def user_offset(self, path: str, address: int) -> int | None:
        """The offset of an address within a recorded function."""
        for function in self.user_functions(path):
            if function.address <= address < function.address + max(function.size, 1):
                return function.offset + address - function.address
        return None

    def is_instruction_start(self, path: str, offset: int, distance: int) -> bool:
        """No instructions are recorded."""
        return True

    def go_version(self, path: str) -> str:
        """None is recorded."""
        return ""

    def stack_check_length(self, path: str, offset: int) -> int:
        """No instructions are recorded."""
        return 0

    def return_hazard(self, path: str, offset: int) -> str:
        """None is recorded."""
        return ""

    def function_ends(self, path: str, offsets: list[int]) -> list[FunctionEnds]:
        """No instructions are recorded."""
        return [FunctionEnds(problem="unreadable") for _ in offsets]

    def process_symbol(self, pid: int, name: str) -> int | None:
        """No process is recorded."""
        return None

    def user_prototype(self, path: str, offset: int) -> UserPrototype:
        """None are recorded."""
        return UserPrototype(problem="debug information is not recorded")

    def user_type(self, path: str, name: str) -> Type | None:
        """None are recorded."""
        return None

    def source_lines(self, path: str, source: str, line: int, column: int = 0) -> SourceLines:
        """None are recorded."""
        return SourceLines(problem="debug information is not recorded")

    def inlined_copies(self, path: str, name: str, own: bool = False) -> Inlined | None:
        """None are recorded."""
        return None

    def demangle(self, names: list[str], source: str = "") -> list[str] | None:
        """The names as recorded."""
        return names

    def file_problem(self, path: str) -> str:
        """Recorded files are in order."""
        return ""

    def usdt_probes(self, path: str) -> list[UsdtProbe]:
        """None are recorded."""
        return []

    def packet_filter(self, expression: str, link: str) -> ClassicFilter | None:
        """What libpcap says here: it does not depend on the kernel."""
        from ..pcap import compile_filter

        return compile_filter(expression, link)

    def cgroup_id(self, path: str) -> int | None:
        """The root's id."""
        return 1 if path in ("/", "/sys/fs/cgroup") else None


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


def load_world(path: str) -> dict[str, Any]:
    """The file's contents. MachineError if it is not such a file."""
    import json
    import zlib

    try:
        with open(path, "rb") as file:
            data = json.loads(zlib.decompress(file.read()))
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from None
    except (zlib.error, ValueError):
        raise MachineError(f"{path}: not a recorded world") from None
    if not isinstance(data, dict) or not {"arch", "cpus", "release", "features", "btf"} <= data.keys():
        raise MachineError(f"{path}: not a recorded world")
    return {"tracepoints": {}, "symbols": {}, "functions": [], "binaries": {}} | data


def save_world(path: str, data: dict[str, Any]) -> None:
    """Write such a file."""
    import json
    import zlib

    with open(path, "wb") as file:
        file.write(zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9))
