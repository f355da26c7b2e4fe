"""What this kernel can do: one row per feature, decided by trying or by the kernel's own BTF, never by version.

A probe answers yes, no, or None for "could not find out" (no privileges, say). Conclusive answers are kept
in the cache directory for this boot; ``minimum`` is the first release with the feature, for information only.
"""

from __future__ import annotations

import errno
import os
from zlib import crc32

from ..arch import this_arch
from ..asm import insn
from ..asm.assemble import assemble
from ..asm.insn import Insn
from ..asm.relax import Item
from ..base.cache_dir import read_cache, write_cache
from ..base.record import Record
from ..btf import codec
from ..errors import MachineError, PrivilegeError, SyscallError
from ..layouts import uapi
from ..layouts.uapi import HELPERS
from ..types import Struct
from .places import OWN_BTF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from ..btf.query import Btf

CACHE_VERSION = 6  # raise it when the meaning of a probe changes

Probe: TypeAlias = "Callable[[Features], bool | None]"


class Feature(Record):
    """A row of the table."""

    name: str
    text: str
    minimum: str
    probe: Probe


_TRACERS = ("kprobe", "tracepoint", "perf_event", "raw_tracepoint")
_FP = 10  # the frame pointer

# bpf_probe_write_user(0, fp - 8, 8): a kernel that is locked down offers it to nobody
_WRITE_USER = (
    insn.store_imm(_FP, -8, 0, 8), insn.alu("mov", 1), insn.alu("mov", 2, _FP), insn.alu("add", 2, imm=-8),
    insn.alu("mov", 3, imm=8), insn.call_helper(HELPERS["probe_write_user"]))

# A verifier that does not take the offset from the immediate value gets to read r9, which was never written.
_LONG_JUMP = (
    insn.alu("mov", 3, imm=1), insn.branch("jeq", 3, None, 0, "read"), insn.jump_long("over"), "read",
    insn.alu("mov", 2, 9), "over")

# A number on the stack is loaded, found to be at most 8, loaded once more, and then used as the length for
# bpf_probe_read_kernel(): a verifier that knows that both are the same number accepts it.
_SPILLED = (
    insn.call_helper(HELPERS["get_smp_processor_id"]), insn.store(_FP, -8, 0, 8), insn.store_imm(_FP, -16, 0, 8),
    insn.load(1, _FP, -8, 8), insn.branch("jgt", 1, None, 8, "large"), insn.load(2, _FP, -8, 8),
    insn.alu("mov", 1, _FP), insn.alu("add", 1, imm=-16), insn.alu("mov", 3),
    insn.call_helper(HELPERS["probe_read_kernel"]),
    "large")


def _helper_call(helper: str) -> tuple[Insn]:
    return (insn.call_helper(HELPERS[helper]),)


def _encode(code: Sequence[Item]) -> bytes:
    """A program of ``code``, then ``return 0``."""
    return assemble([*code, insn.alu("mov", 0), insn.exit_()]).code


class DeniedProbeError(MachineError):
    """A call was denied the way policies of containers and security modules do: that says something about this process
    only."""


def _read_refusal(error: PrivilegeError | SyscallError, log: bytes | bytearray = b"") -> int:
    """The errno of a refusal; DeniedProbeError if a policy may have caused it: the verifier would have left a log."""
    from .syscalls import DENIED

    number = error.errno if isinstance(error, SyscallError) else errno.EPERM
    if number in DENIED and not log[:1].strip(b"\0"):
        raise DeniedProbeError(str(error)) from error
    return number


def can_load_program(program: str, code: Sequence[Item] = (), expected: int = 0, attach: int = 0) -> bool | None:
    """Whether the kernel accepts a program of ``code``, then ``return 0``; None if that could not be determined."""
    try:
        return _try_program(program, code, expected, attach)
    except DeniedProbeError:
        return None


def _try_program(program: str, code: Sequence[Item] = (), expected: int = 0, attach: int = 0,
                 flags: int = 0) -> bool | None:
    """The same, or DeniedProbeError."""
    from . import syscalls

    log = bytearray(1 << 12)
    try:
        syscalls.prog_load(uapi.PROG_TYPES[program], _encode(code), "probe", expected_attach=expected,
                           attach_btf_id=attach, flags=flags, log=log, log_level=uapi.BPF_LOG_STATS).close()
    except (PrivilegeError, SyscallError) as error:
        number = _read_refusal(error, log)
        if number != errno.ENOSPC:  # of the log: the program was accepted
            return None if number in (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN) else False
    return True


def _combine_answers(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _probe_paths(*paths: str) -> Probe:
    return lambda host: any(os.path.exists(path) for path in paths)


def _probe_program(program: str, code: Sequence[Item] = ()) -> Probe:
    return lambda host: _try_program(program, code)


def _probe_tracers(code: Sequence[Item]) -> Probe:
    return lambda host: _combine_answers([_try_program(program, code) for program in _TRACERS])


def _probe_map(kind: str, key: int, value: int, entries: int, flags: int = 0) -> Probe:
    def probe(host: Features) -> bool | None:
        from . import syscalls

        try:
            syscalls.map_create(uapi.MAP_TYPES[kind], key, value, entries, flags, "probe").close()
        except (PrivilegeError, SyscallError) as error:
            _read_refusal(error)
            return False
        return True
    return probe


def _probe_btf(name: str, *kinds: int) -> Probe:
    """Whether the kernel's BTF has a type or function of that name (None without BTF)."""
    return lambda host: bool(host.btf.find_id(name, *kinds)) if host.btf else None


def _probe_rdonly_cast(program: str) -> Probe:
    """task = bpf_get_current_task(); p = bpf_rdonly_cast(task, struct task_struct); load from p."""
    def probe(host: Features) -> bool | None:
        if host.ids is None:
            return False
        kfunc = host.ids.find_id("bpf_rdonly_cast", codec.FUNC)
        task = host.ids.find_id("task_struct", codec.STRUCT)
        if not kfunc or not task:
            return False
        code = (*_helper_call("get_current_task"), insn.alu("mov", 1, 0), insn.alu("mov", 2, imm=task),
                insn.call_kfunc(kfunc),
                insn.load(3, 0, 0, 8))
        return _try_program(program, code)
    return probe


def _probe_rdonly_memory(program: str) -> Probe:
    """task = bpf_get_current_task(); p = bpf_rdonly_cast(task, void); load four bytes from p + 1."""
    def probe(host: Features) -> bool | None:
        kfunc = host.ids.find_id("bpf_rdonly_cast", codec.FUNC) if host.ids is not None else 0
        code = (*_helper_call("get_current_task"), insn.alu("mov", 1, 0), insn.alu("mov", 2, imm=0),
                insn.call_kfunc(kfunc), insn.load(3, 0, 1, 4))
        return _try_program(program, code) if kfunc else False
    return probe


def _can_call_kfunc(host: Features, kfunc: int, program: str) -> bool | None:
    """Load a program that calls it without arguments, and read why the verifier refuses."""
    from . import syscalls

    log = bytearray(1 << 16)
    tracing = program == "tracing"
    target = host.ids.find_id("bpf_iter_task", codec.FUNC) if tracing and host.ids else 0
    try:
        syscalls.prog_load(uapi.PROG_TYPES[program], _encode([insn.call_kfunc(kfunc)]), "probe",
                           expected_attach=uapi.BPF_TRACE_ITER if tracing else 0, attach_btf_id=target, log=log,
                           log_level=1).close()
    except PrivilegeError:
        pass
    except SyscallError:
        pass
    if not log[0]:
        return None
    return b"R10=fp0" in log and b"is not allowed" not in log  # the first says that it followed the program at all


def _probe_tracing(function: str, expected: int, code: Sequence[Item] = ()) -> Probe:
    def probe(host: Features) -> bool | None:
        target = host.ids.find_id(function, codec.FUNC) if host.ids else 0
        return _try_program("tracing", code, expected, target) if target else False
    return probe


def _has_fentry(host: Features) -> bool | None:
    """Attach a program to a function that only test runs call. aarch64 loads such programs from 6.0 on, but cannot
    attach them before 6.4: its ftrace had no direct calls."""
    from . import syscalls

    target = host.ids.find_id("bpf_fentry_test1", codec.FUNC) if host.ids else 0
    if not target:
        return False
    answer = _try_program("tracing", (), uapi.BPF_TRACE_FENTRY, target)
    if not answer:
        return answer
    with syscalls.prog_load(uapi.PROG_TYPES["tracing"], _encode([]), "probe",
                            expected_attach=uapi.BPF_TRACE_FENTRY, attach_btf_id=target) as program:
        try:
            syscalls.raw_tracepoint_open("", program).close()
        except SyscallError as error:
            return None if error.errno in syscalls.DENIED else False
    return True


def _has_tracing_multi(host: Features) -> bool | None:
    """Attach to that function. Some architectures load such programs and cannot attach them."""
    from . import syscalls

    answer = _combine_answers([host.check_feature("fentry"), _probe_btf("bpf_tracing_multi_link", _STRUCT)(host)])
    target = host.ids.find_id("bpf_fentry_test1", codec.FUNC) if host.ids else 0
    if not answer or not target or not _try_program("tracing", (), uapi.BPF_TRACE_FENTRY_MULTI):
        return answer and False
    with syscalls.prog_load(uapi.PROG_TYPES["tracing"], _encode([]), "probe",
                            expected_attach=uapi.BPF_TRACE_FENTRY_MULTI) as program:
        try:
            syscalls.link_tracing_multi(program, uapi.BPF_TRACE_FENTRY_MULTI, [target], [0]).close()
        except SyscallError as error:
            return None if error.errno in syscalls.DENIED else False
    return True


def _has_typed_arguments(host: Features) -> bool | None:
    """Load the struct sock pointer that tcp_close() gets, and the first word through it."""
    return _probe_tracing("tcp_close", uapi.BPF_TRACE_FENTRY,
                          (insn.load(1, 1, 0, 8), insn.load(2, 1, 0, 8)))(host)


def _has_missed_counts(host: Features) -> bool | None:
    """struct bpf_link_info says how many calls a link missed."""
    info = host.btf.find_struct("bpf_link_info") if host.btf else None
    if info is None:
        return None
    links = info.field("kprobe_multi")
    return links is not None and isinstance(links.type, Struct) and links.type.field("missed") is not None


def _has_callbacks(helper: str) -> Probe:
    """Whether programs can call a helper that calls back: the kernel has it, and compiles programs, as its interpreter
    follows no address of a function (fixup_call_args() in kernel/bpf/verifier.c)."""
    return lambda host: _combine_answers([host.has_helper(helper), host.check_feature("jit")])


def _has_jit(host: Features) -> bool | None:
    from . import syscalls

    try:
        with syscalls.prog_load(uapi.PROG_TYPES["raw_tracepoint"], _encode([]), "probe") as program:
            return syscalls.is_compiled(program)
    except (PrivilegeError, SyscallError) as error:
        _read_refusal(error)
        return None


def _has_compat_syscalls(host: Features) -> bool | None:
    """32-bit processes run too (CONFIG_IA32_EMULATION, CONFIG_COMPAT)."""
    return bool(host.btf.find_id(this_arch().compat_function, codec.FUNC)) if host.btf else None


def _has_inherit_thread(host: Features) -> bool | None:
    from . import syscalls

    flags = uapi.PERF_ATTR_DISABLED | uapi.PERF_ATTR_INHERIT | uapi.PERF_ATTR_INHERIT_THREAD
    try:
        syscalls.perf_event_open(uapi.PERF_TYPE_SOFTWARE, uapi.PERF_COUNT_SW_CPU_CLOCK, pid=0, flags=flags).close()
    except (PrivilegeError, SyscallError) as error:
        return None if _read_refusal(error) != errno.EINVAL else False
    return True


def _has_preemptible_raw_tp(host: Features) -> bool | None:
    """Where the kernel lets those of system calls sleep, it keeps none from being preempted."""
    return _try_program("raw_tracepoint", flags=uapi.BPF_F_SLEEPABLE)


def _has_uretprobe_func(host: Features) -> bool | None:
    """bpf_get_func_ip() works for uprobes where struct bpf_trace_run_ctx says that it is one."""
    context = host.btf.find_struct("bpf_trace_run_ctx") if host.btf else None
    return context is not None and context.field("is_uprobe") is not None if host.btf else None


def _has_current_task_variable(host: Features) -> bool | None:
    """Where that is known, and the CPU's number needs no call (from Linux 6.10 on, as cookies of raw tracepoints)."""
    from . import syscalls
    from .tasks.current_task import make_locator
    from .tasks.locator import load_locator

    answer = _combine_answers([host.check_feature("rdonly_cast"), host.check_feature("raw_tp_cookie")])
    locator = make_locator(host.ids, 1) if host.ids else None
    if not answer or locator is None:
        return answer and False
    with syscalls.map_create(uapi.MAP_TYPES["array"], 4, 8, 1, uapi.BPF_F_MMAPABLE, "probe") as table:
        try:
            load_locator(locator, table).close()
        except SyscallError:
            return False
    return True


_KPROBE = "/sys/bus/event_source/devices/kprobe"
_UPROBE = "/sys/bus/event_source/devices/uprobe"
def _has_syscall_stacks(host: Features) -> bool | None:
    from .syscall_stacks import has_syscall_stacks

    return has_syscall_stacks()


_STRUCT = codec.STRUCT
_FETCH_ADD = (insn.alu("mov", 1), insn.store(10, -8, 1, 8), insn.atomic_exchange("fetch_add", 10, -8, 1, 8))

TABLE = [
    Feature("btf", "type information of the kernel", "5.2", _probe_paths(OWN_BTF)),
    Feature("kprobes", "probes on kernel functions", "4.17", _probe_paths(_KPROBE)),
    Feature("uprobes", "probes on user functions", "4.17", _probe_paths(_UPROBE)),
    Feature("raw_tp", "raw tracepoints", "4.17", _probe_program("raw_tracepoint")),
    Feature("fentry", "typed probes on kernel functions", "5.5", _has_fentry),
    Feature("typed_arguments", "loads through typed arguments", "5.5", _has_typed_arguments),
    Feature("tracing_cookie", "a number per attach point for fentry and fexit", "5.19",
            _probe_tracing("bpf_fentry_test1", uapi.BPF_TRACE_FENTRY, _helper_call("get_attach_cookie"))),
    Feature("tracing_multi", "one link for fentry and fexit of many functions", "7.2", _has_tracing_multi),
    Feature("iter_task", "iterator over tasks", "5.8", _probe_tracing("bpf_iter_task", uapi.BPF_TRACE_ITER)),
    Feature("kprobe_multi", "one link for many kernel functions", "5.18",
            lambda host: _combine_answers([_probe_paths(_KPROBE)(host),
                                           _probe_btf("bpf_kprobe_multi_link", _STRUCT)(host)])),
    Feature("kprobe_session", "entry and return in one program", "6.10",
            lambda host: _combine_answers([host.check_feature("kprobe_multi"), host.check_feature("jit"),
                                           _probe_btf("bpf_session_run_ctx", _STRUCT)(host)])),
    Feature("probe_misses", "counts of the calls that kprobes and kretprobes miss", "6.8", _has_missed_counts),
    Feature("uprobe_multi", "one link for many user functions", "6.6", _probe_btf("bpf_uprobe_multi_link", _STRUCT)),
    Feature("syscall_stacks", "kernel stacks at classic tracepoints of system calls", "6.12", _has_syscall_stacks),
    Feature("preemptible_raw_tp", "programs of raw tracepoints can be preempted", "7.2", _has_preemptible_raw_tp),
    Feature("inherit_thread", "counters that new threads inherit and new processes do not", "5.13",
            _has_inherit_thread),
    Feature("uretprobe_func", "the function of a uretprobe", "6.7", _has_uretprobe_func),
    Feature("jit", "the JIT compiler, for programs that call kernel functions or use callbacks", "", _has_jit),
    Feature("ringbuf", "ring buffer", "5.8", _probe_map("ringbuf", 0, 0, 4096)),
    Feature("map_mmap", "maps that user space can map", "5.5", _probe_map("array", 4, 8, 1, uapi.BPF_F_MMAPABLE)),
    Feature("map_allocation", "map elements that are allocated on demand, in any program",
            "6.1", _probe_btf("bpf_mem_alloc", _STRUCT)),
    Feature("attach_cookie", "a number per attach point", "5.15",
            lambda host: _combine_answers([_try_program(p, _helper_call("get_attach_cookie"))
                                           for p in ("kprobe", "tracepoint", "perf_event")])),
    Feature("raw_tp_cookie", "the same for raw tracepoints", "6.10",
            _probe_program("raw_tracepoint", _helper_call("get_attach_cookie"))),
    Feature("get_current_task_btf", "the current task as a typed pointer", "5.11",
            _probe_tracers(_helper_call("get_current_task_btf"))),
    Feature("current_task_variable", "the current task without a call", "6.10", _has_current_task_variable),
    Feature("rdonly_cast", "typed loads through any kernel pointer", "6.2",
            lambda host: _combine_answers([host.check_feature(f"rdonly_cast_{program}") for program in _TRACERS])),
    *[Feature(f"rdonly_cast_{program}", f"the same in {program} programs", "6.2", _probe_rdonly_cast(program))
      for program in _TRACERS],
    Feature("rdonly_memory", "loads of any size through any kernel pointer", "6.17",
            lambda host: _combine_answers([_probe_rdonly_memory(program)(host) for program in _TRACERS])),
    Feature("isa_v4", "sign extension and signed division", "6.6",
            _probe_program("raw_tracepoint", (insn.alu("mov", 0), insn.sign_extend(1, 0, 8)))),
    Feature("long_jumps", "jumps of more than 32,767 instructions", "6.6",
            _probe_program("raw_tracepoint", _LONG_JUMP)),
    Feature("spilled_bounds", "a number on the stack has the bounds that the verifier knows of its copy", "6.8",
            _probe_program("kprobe", _SPILLED)),
    Feature("bpf_loop", "loops that the verifier does not unroll", "5.17", _has_callbacks("loop")),
    Feature("atomic_fetch", "atomic additions that return the previous value", "5.12",
            _probe_program("raw_tracepoint", _FETCH_ADD)),
    Feature("long_keys", "keys of maps of more than 512 bytes", "5.11", _probe_map("hash", 520, 8, 1)),
    Feature("for_each_map_elem", "iteration over a map", "5.13", _has_callbacks("for_each_map_elem")),
    Feature("map_lookup_percpu_elem", "another CPU's value of a map", "5.19",
            lambda host: host.has_helper("map_lookup_percpu_elem")),
    Feature("signal", "signals sent by programs", "5.5", lambda host: host.has_helper("send_signal_thread")),
    Feature("write_user", "programs may write user memory", "4.8", _probe_program("kprobe", _WRITE_USER)),
    Feature("override", "programs may make kernel functions fail", "4.16",
            _probe_program("kprobe", (insn.alu("mov", 2), *_helper_call("override_return")))),
    Feature("compat_syscalls", "32-bit processes make system calls", "", _has_compat_syscalls),
]
ROWS = {row.name: row for row in TABLE}


def is_feature(name: str) -> bool:
    """Whether this may be asked for: a row, or a helper or kernel function of whatever name."""
    return name in ROWS or name.startswith(("helper_", "kfunc_"))


class Features:
    """The answers for the running kernel."""

    def __init__(self, btf: Btf | None = None, own: bool = True) -> None:
        self.btf = btf
        self.ids = btf if own else None  # the kernel can be asked for a type by its number only if it has types itself
        self._known: dict[str, bool] | None = None
        self._denied: set[str] = set()  # what this process is not permitted to find out

    def __contains__(self, name: str) -> bool:
        return name in ROWS

    def has(self, name: str) -> bool:
        """Whether the kernel can do ``name``; "could not find out" counts as no.

        ``helper_NAME`` and ``kfunc_NAME`` ask for any helper or kfunc, ``kfunc_NAME@PROGRAM`` whether programs of that
        type (``kprobe``, ``raw_tracepoint`` ...) may call it.
        """
        return self.check_feature(name) or False

    def check_feature(self, name: str) -> bool | None:
        """The same; None if it could not be determined. Raises KeyError for a name that is in no row."""
        if name.startswith("helper_"):
            return self.has_helper(name.removeprefix("helper_"))
        if name.startswith("kfunc_"):
            return self.has_kfunc(*name.removeprefix("kfunc_").partition("@")[::2])
        row = ROWS[name]
        known = self._load_cache()
        if name in self._denied:
            return None
        if name not in known:
            try:
                answer = row.probe(self)
            except DeniedProbeError:
                if self._is_denied():
                    self._denied.add(name)
                    return None
                answer = False
            except MachineError:
                answer = None
            if answer is None:
                return None
            known[name] = answer
            self._save_cache()
        return known[name]

    def _is_denied(self) -> bool:
        """Whether this process is denied even what every kernel can do; if not, it is the kernel that lacks more."""
        try:
            return not (_probe_program("raw_tracepoint")(self) and _probe_map("array", 4, 8, 1)(self))
        except DeniedProbeError:
            return True

    def has_helper(self, name: str) -> bool | None:
        """Whether the helper ``bpf_NAME`` exists: enum bpf_func_id of the kernel's BTF lists them."""
        return self.btf.enum_constant(f"BPF_FUNC_{name}") is not None if self.btf else None

    def has_kfunc(self, name: str, program: str = "") -> bool | None:
        """Whether the kernel has this kfunc: its BTF tags them (pahole 1.26), an older one has only the function's
        name. With ``program``, whether the verifier lets programs of that type call it: it says so before anything
        else."""
        number = self.ids.find_id(name, codec.FUNC) if self.ids else 0
        if not self.ids or not number or self.check_feature("jit") is False:
            return False
        tagged = {self.ids.raw_type(tag).value for tag, kind in self.ids.ids_of_name("bpf_kfunc")
                  if kind == codec.DECL_TAG}
        if tagged and number not in tagged:
            return False
        return _can_call_kfunc(self, number, program) if program else True

    # the cache: a line "name 0" or "name 1" for each answer

    def _cache_name(self) -> str:
        """The cache's name; "" if nothing distinguishes this boot from others."""
        try:
            with open("/proc/sys/kernel/random/boot_id", "rb") as file:
                boot = file.read()
        except OSError:
            return ""
        own = b"" if os.path.exists(OWN_BTF) else b" without types"
        return f"features-{crc32(boot + os.uname().version.encode() + own):08x}-{CACHE_VERSION}"

    def _load_cache(self) -> dict[str, bool]:
        if self._known is None:
            file = self._cache_name()
            text = (read_cache(file) or b"").decode("ascii", "replace") if file else ""
            pairs = [line.split() for line in text.splitlines()]
            self._known = {p[0]: p[1] == "1" for p in pairs if len(p) == 2 and p[0] in ROWS}
        return self._known

    def _save_cache(self) -> None:
        file = self._cache_name()
        if file and self._known:
            write_cache(file, ["".join([f"{name} {answer:d}\n" for name, answer in self._known.items()]).encode()])
