"""bpf(2), perf_event_open(2) and the few others that Python's ``os`` lacks.

Every file descriptor made here belongs to one :class:`Fd`. Every failure is a SyscallError with the call's name and
errno, or a PrivilegeError that names the missing capability. Layouts of the attribute blocks are those of
include/uapi/linux/bpf.h; kernels older than a field accept it if it is zero.
"""

from __future__ import annotations

import errno
import os
import sys

from ..arch import this_arch
from ..base.fast_stdlib import struct
from ..base.record import Record
from ..errors import PrivilegeError, SyscallError
from ..layouts import uapi
from .libc import Array, address_of, last_error
from .libc import system_call as _syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap
    from typing import Self

_numbers = this_arch().syscalls

Buffer = bytearray | memoryview


class Fd:
    """A file descriptor with one owner. Closing twice is harmless; losing an open one warns."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def fileno(self) -> int:
        """The number, as select, mmap and os functions need it."""
        return self.number

    @property
    def closed(self) -> bool:
        return self.number < 0

    def close(self) -> None:
        """Release the kernel object; may block while the kernel detaches (see runtime.attach.links)."""
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "number", -1) >= 0:
            import warnings

            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            self.close()

    def __repr__(self) -> str:
        return f"Fd({self.number})"


class ProgramInfo(Record):
    """Run-time statistics of a loaded program; ``run_*`` count only while statistics are enabled."""

    id: int
    name: str
    run_time_ns: int
    run_count: int
    recursion_misses: int
    verified_instructions: int
    type: int = 0  # BPF_PROG_TYPE_*


# ---- plumbing

DENIED = (errno.EPERM, errno.EACCES, errno.ENOSYS)  # the errno of policies


def _prctl(option: int, *arguments: int) -> int:
    """prctl(2): 0, or -1."""
    result: int = _syscall(_numbers["prctl"], option, *arguments, *[0] * (5 - len(arguments)))
    return result


def _bpf_raw(command: int, attr: Buffer) -> int:
    """bpf(2): its result, or minus errno. Retried while a signal interrupts it."""
    address, size = address_of(attr), len(attr)
    for _ in range(16):
        result: int = _syscall(_numbers["bpf"], command, address, size, 0, 0, 0)
        if result >= 0:
            return result
        number = last_error()
        if number not in (errno.EINTR, errno.EAGAIN):
            break
    return -number


def _bpf_checked(name: str, command: int, attr: Buffer) -> int:
    result = _bpf_raw(command, attr)
    if result == -errno.EPERM and command in (uapi.BPF_MAP_CREATE, uapi.BPF_PROG_LOAD) and raise_memlock_limit():
        result = _bpf_raw(command, attr)
    if result < 0:
        raise syscall_error(f"bpf({name})", -result)
    return result


def syscall_error(call: str, number: int) -> PrivilegeError | SyscallError:
    """The error for a failed call: on EPERM one that says which capability is missing and how to get it."""
    if number not in DENIED:
        return SyscallError(call, number)
    from .denials import POLICY, explain_denial
    return explain_denial(call, effective_capabilities()) if number == errno.EPERM \
        else SyscallError(call, number, [POLICY])


def effective_capabilities() -> int:
    """The effective capability set of this process, as a bit mask."""
    try:
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"CapEff:"):
                    return int(line.split()[1], 16)
    except OSError:
        pass
    return (1 << 41) - 1 if os.geteuid() == 0 else 0


def raise_memlock_limit() -> bool:
    """Lift RLIMIT_MEMLOCK, against which kernels before 5.11 charge maps and programs: a call that exceeds it is "not
    permitted". Whether it was lifted; not if it was already, or must not be."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    for limit in (resource.RLIM_INFINITY, hard):  # exceeding the hard limit takes CAP_SYS_RESOURCE
        try:
            if limit != soft:
                resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
                return True
        except (ValueError, OSError):
            continue
    return False


def _object_name(name: str) -> bytes:
    """A name as the kernel accepts it: at most 15 letters, digits, '_' and '.'."""
    accepted = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in name)
    return accepted.encode()[: uapi.BPF_OBJ_NAME_LEN - 1]


# ---- maps

_MAP_CREATE = struct.Struct("=7I16s")
_ELEMENT = struct.Struct("=I4xQQQ")
_BATCH = struct.Struct("=QQQQIIQQ")
BATCHES = {False: ("bpf(MAP_LOOKUP_BATCH)", uapi.BPF_MAP_LOOKUP_BATCH),
           True: ("bpf(MAP_LOOKUP_AND_DELETE_BATCH)", uapi.BPF_MAP_LOOKUP_AND_DELETE_BATCH)}


def map_create(type: int, key_size: int, value_size: int, max_entries: int, flags: int = 0, name: str = "") -> Fd:
    """Create a map; sizes in bytes. ENOMEM and E2BIG mean that it is too large."""
    attr = bytearray(128)
    _MAP_CREATE.pack_into(attr, 0, type, key_size, value_size, max_entries, flags, 0, 0, _object_name(name))
    return Fd(_bpf_checked("MAP_CREATE", uapi.BPF_MAP_CREATE, attr))


def _element_attr(fd: Fd, key: bytes | Buffer, value: bytes | Buffer, flags: int = 0) -> bytearray:
    number = fd.number & 0xFFFFFFFF  # leave it to the kernel to refuse a closed one (EBADF)
    return bytearray(_ELEMENT.pack(number, address_of(key), address_of(value), flags))


def map_lookup(fd: Fd, key: bytes, size: int) -> bytes | None:
    """The value under ``key`` (``size`` bytes in all, every CPU's for a per-CPU map); None if there is none."""
    value = bytearray(size)
    result = _bpf_raw(uapi.BPF_MAP_LOOKUP_ELEM, _element_attr(fd, key, value))
    if result == -errno.ENOENT:
        return None
    if result < 0:
        raise syscall_error("bpf(MAP_LOOKUP_ELEM)", -result)
    return bytes(value)


def map_update(fd: Fd, key: bytes, value: bytes, flags: int = 0) -> None:
    """Set the value under ``key``; for a per-CPU map ``value`` holds every CPU's."""
    _bpf_checked("MAP_UPDATE_ELEM", uapi.BPF_MAP_UPDATE_ELEM, _element_attr(fd, key, value, flags))


def map_freeze(fd: Fd) -> None:
    """Have nobody but programs change a map from now on (Linux 5.2)."""
    _bpf_checked("MAP_FREEZE", uapi.BPF_MAP_FREEZE, bytearray(fd.number.to_bytes(4, sys.byteorder)))


def map_delete(fd: Fd, key: bytes) -> bool:
    """Delete ``key``; False if it was not there."""
    result = _bpf_raw(uapi.BPF_MAP_DELETE_ELEM, _element_attr(fd, key, b""))
    if result < 0 and result != -errno.ENOENT:
        raise syscall_error("bpf(MAP_DELETE_ELEM)", -result)
    return result >= 0


def map_lookup_and_delete(fd: Fd, key: bytes, size: int) -> bytes | None:
    """Look ``key`` up and delete it in one step; None if it was not there."""
    value = bytearray(size)
    result = _bpf_raw(uapi.BPF_MAP_LOOKUP_AND_DELETE_ELEM, _element_attr(fd, key, value))
    if result == -errno.ENOENT:
        return None
    if result < 0:
        raise syscall_error("bpf(MAP_LOOKUP_AND_DELETE_ELEM)", -result)
    return bytes(value)


def map_next_key(fd: Fd, key: bytes | None, size: int) -> bytes | None:
    """The key after ``key`` (the first for None, or when ``key`` has gone); None at the end."""
    following = bytearray(size)
    result = _bpf_raw(uapi.BPF_MAP_GET_NEXT_KEY, _element_attr(fd, key or b"", following))
    if result == -errno.ENOENT:
        return None
    if result < 0:
        raise syscall_error("bpf(MAP_GET_NEXT_KEY)", -result)
    return bytes(following)


def map_lookup_batch(fd: Fd, token_in: bytearray | None, token_out: bytearray, keys: Buffer, values: Buffer, count: int,
                     take: bool = False) -> tuple[int, int]:
    """Read (``take``: and delete) up to ``count`` elements of a hash map into ``keys`` and ``values``.

    ``token_in`` is the place to continue from (None: the start), ``token_out`` receives the next one; both have
    at least max(4, key size) bytes. Returns (elements read, errno): ENOENT at the end of the map, ENOSPC when one hash
    bucket holds more than ``count``, EINVAL or ENOTSUPP where the kernel or the map type has no batches.
    """
    attr = bytearray(_BATCH.pack(address_of(token_in) if token_in is not None else 0, address_of(token_out),
                                 address_of(keys), address_of(values), count, fd.number, 0, 0))
    call, command = BATCHES[take]
    result = _bpf_raw(command, attr)
    if result == -errno.EPERM:
        raise syscall_error(call, -result)
    read = int(_BATCH.unpack_from(attr)[4]) if result in (0, -errno.ENOENT) else 0
    return read, -min(result, 0)


# ---- programs

_PROG_LOAD = struct.Struct("=IIQQIIQII16sIIIIQIIQIII")
_TEST_RUN = struct.Struct("=IIIIQQIIIIQQIII")


def prog_load(type: int, code: bytes, name: str = "", license: str = "GPL", flags: int = 0, expected_attach: int = 0,
              attach_btf_id: int = 0, attach_btf: Fd | None = None, btf: Fd | None = None, func_info: bytes = b"",
              line_info: bytes = b"", log: Buffer | None = None, log_level: int = 0) -> Fd:
    """Load a program. ``attach_btf_id`` is in terms of ``attach_btf``: a module's BTF, or a program (the two fields of
    union bpf_attr are one); by default vmlinux's.
    ``func_info``/``line_info`` are arrays of 8- and 16-byte records in terms of ``btf``.

    The verifier's log goes to ``log`` (NUL-terminated) if given. Raises SyscallError: EACCES or EINVAL for a
    rejected program, ENOSPC when only the log was too small (the program would have been accepted).
    """
    license_text = license.encode() + b"\0"
    attr = bytearray(160)
    _PROG_LOAD.pack_into(
        attr, 0, type, len(code) // 8, address_of(code), address_of(license_text),
        log_level if log else 0, len(log) if log else 0, address_of(log) if log else 0, 0, flags, _object_name(name),
        0, expected_attach, btf.number if btf else 0,
        8 if func_info else 0, address_of(func_info), len(func_info) // 8,
        16 if line_info else 0, address_of(line_info), len(line_info) // 16,
        attach_btf_id, attach_btf.number if attach_btf else 0)
    return Fd(_bpf_checked("PROG_LOAD", uapi.BPF_PROG_LOAD, attr))


def prog_test_run(fd: Fd, context: bytes = bytes(uapi.BPF_MAX_RAW_TP_CONTEXT), cpu: int | None = None) -> int:
    """Run a raw_tracepoint or syscall program once, now and here (a raw_tracepoint one perhaps on another CPU), with
    ``context``; the value that it returned."""
    attr = bytearray(80)
    _TEST_RUN.pack_into(attr, 0, fd.number, 0, 0, 0, 0, 0, 0, 0, len(context), 0, address_of(context), 0,
                        0 if cpu is None else uapi.BPF_F_TEST_RUN_ON_CPU, cpu or 0, 0)
    _bpf_checked("PROG_TEST_RUN", uapi.BPF_PROG_TEST_RUN, attr)
    return int(_TEST_RUN.unpack_from(attr)[1])


def prog_info(fd: Fd) -> ProgramInfo:
    """Statistics of a program; ``recursion_misses`` (Linux 5.12) always counts."""
    raw = _object_info(fd, 232)
    time, runs, misses, instructions = struct.unpack_from("=QQQI", raw, 192)
    return ProgramInfo(id=struct.unpack_from("=I", raw, 4)[0], name=raw[64:80].rstrip(b"\0").decode(),
                       run_time_ns=time, run_count=runs, recursion_misses=misses, verified_instructions=instructions,
                       type=struct.unpack_from("=I", raw)[0])


def is_compiled(fd: Fd) -> bool:
    """Whether a program is the machine's own code (jited_prog_len of struct bpf_prog_info)."""
    return any(_object_info(fd, 232)[16:20])


def prog_functions(fd: Fd) -> tuple[str, int, int, list[tuple[int, int]]]:
    """Of a program: (name, type, id of its BTF or 0, [(first instruction, type id in that BTF) of each function]).

    struct bpf_prog_info has the name at 64, btf_id at 128, the size of a func_info record and func_info at 132 and 136,
    nr_func_info at 144. The first call asks how many functions there are, the second for them.
    """
    raw = bytearray(_object_info(fd, 232))
    count, = struct.unpack_from("=I", raw, 144)
    name, btf = raw[64:80].rstrip(b"\0").decode(), struct.unpack_from("=I", raw, 128)[0]
    records = bytearray(8 * count)
    if count:
        request = bytearray(232)
        struct.pack_into("=IQI", request, 132, 8, address_of(records), count)
        object_info(fd, request)
    return name, struct.unpack_from("=I", raw)[0], btf, list(struct.iter_unpack("=II", records))


def btf_blob(fd: Fd) -> bytes:
    """The bytes of a BTF object; struct bpf_btf_info starts with where to write them and their size."""
    size, = struct.unpack_from("=I", _object_info(fd, 32), 8)
    blob = bytearray(size)
    info = bytearray(struct.pack("=QIIQII", address_of(blob), size, 0, 0, 0, 0))
    _bpf_checked("OBJ_GET_INFO_BY_FD", uapi.BPF_OBJ_GET_INFO_BY_FD,
                 bytearray(struct.pack("=IIQ", fd.number, len(info), address_of(info))))
    return bytes(blob)


def _object_info(fd: Fd, size: int) -> bytes:
    return object_info(fd, bytearray(size))


def object_info(fd: Fd, info: bytearray) -> bytes:
    """What the kernel reports about an object; ``info`` requests, by counts and pointers within, what else to write."""
    attr = bytearray(struct.pack("=IIQ", fd.number, len(info), address_of(info)))
    _bpf_checked("OBJ_GET_INFO_BY_FD", uapi.BPF_OBJ_GET_INFO_BY_FD, attr)
    return bytes(info)


def object_by_id(kind: str, number: int) -> Fd:
    """A descriptor of the object of that ``kind`` ("program", "map", "btf") and id."""
    command = {"program": uapi.BPF_PROG_GET_FD_BY_ID, "map": uapi.BPF_MAP_GET_FD_BY_ID,
               "btf": uapi.BPF_BTF_GET_FD_BY_ID}[kind]
    return Fd(_bpf_checked(f"{kind.upper()}_GET_FD_BY_ID", command, bytearray(struct.pack("=III", number, 0, 0))))


def object_ids(kind: str) -> list[int]:
    """Ids of all objects of a ``kind`` ("program", "map", "btf") in the kernel. PrivilegeError."""
    command = {"program": uapi.BPF_PROG_GET_NEXT_ID, "map": uapi.BPF_MAP_GET_NEXT_ID,
               "btf": uapi.BPF_BTF_GET_NEXT_ID}[kind]
    ids: list[int] = []
    attr = bytearray(12)
    while (result := _bpf_raw(command, attr)) == 0:
        ids.append(struct.unpack_from("=I", attr, 4)[0])
        struct.pack_into("=I", attr, 0, ids[-1])
    if result != -errno.ENOENT:
        raise syscall_error(f"bpf({kind.upper()}_GET_NEXT_ID)", -result)
    return ids


def btf_load(btf: bytes, log: Buffer | None = None) -> Fd:
    """Load BTF for programs and maps."""
    attr = bytearray(struct.pack("=QQIIIIIi", address_of(btf), address_of(log) if log else 0, len(btf),
                                 len(log) if log else 0, 1 if log else 0, 0, 0, 0))
    return Fd(_bpf_checked("BTF_LOAD", uapi.BPF_BTF_LOAD, attr))


def module_btf(name: str) -> Fd | None:
    """The BTF of a loaded module as the kernel has it; None if it has none."""
    for number in object_ids("btf"):
        try:
            fd = object_by_id("btf", number)
        except SyscallError:
            continue  # it was unloaded meanwhile
        text = bytearray(64)
        info = bytearray(struct.pack("=QIIQII", 0, 0, 0, address_of(text), len(text), 0))
        attr = bytearray(struct.pack("=IIQ", fd.number, len(info), address_of(info)))
        _bpf_checked("OBJ_GET_INFO_BY_FD", uapi.BPF_OBJ_GET_INFO_BY_FD, attr)
        if text.partition(b"\0")[0].decode() == name:
            return fd
        fd.close()
    return None


def enable_stats() -> Fd:
    """Count run time and runs of all programs for as long as the descriptor is open (Linux 5.8)."""
    return Fd(_bpf_checked("ENABLE_STATS", uapi.BPF_ENABLE_STATS,
                           bytearray(struct.pack("=I", uapi.BPF_STATS_RUN_TIME))))


# ---- links

def raw_tracepoint_open(name: str, program: Fd, cookie: int = 0) -> Fd:
    """Attach to a raw tracepoint (``name`` "": to the program's own attach_btf_id). A cookie needs Linux 6.10."""
    text = name.encode() + b"\0"
    attr = bytearray(struct.pack("=QIIQ", address_of(text) if name else 0, program.number, 0, cookie))
    return Fd(_bpf_checked("RAW_TRACEPOINT_OPEN", uapi.BPF_RAW_TRACEPOINT_OPEN, attr))


def _link_create(program: Fd, target: int, attach_type: int, flags: int, rest: bytes) -> Fd:
    attr = bytearray(struct.pack("=IIII", program.number, target, attach_type, flags) + rest.ljust(48, b"\0"))
    return Fd(_bpf_checked("LINK_CREATE", uapi.BPF_LINK_CREATE, attr))


def link_perf_event(program: Fd, event: Fd, cookie: int = 0) -> Fd:
    """Run a program on a perf event (Linux 5.15). Closing the link stops it; the event itself may live on."""
    return _link_create(program, event.number, uapi.BPF_PERF_EVENT, 0, struct.pack("=Q", cookie))


def link_tracing(program: Fd, attach_type: int, cookie: int = 0) -> Fd:
    """Attach a program of type tracing to its attach_btf_id; the cookie needs Linux 5.19."""
    return _link_create(program, 0, attach_type, 0, struct.pack("=I4xQ", 0, cookie))


def link_tracing_multi(program: Fd, attach_type: int, functions: list[int], cookies: list[int]) -> Fd:
    """Attach to many kernel functions at once (Linux 7.2), by their numbers in the BTF that the program was loaded for;
    expected_attach is FENTRY_MULTI or FEXIT_MULTI. EINVAL if one of them cannot be attached to."""
    count = len(functions)
    ids, marks = struct.pack(f"={count}I", *functions), struct.pack(f"={count}Q", *cookies)
    return _link_create(program, 0, attach_type, 0, struct.pack("=QQI", address_of(ids), address_of(marks), count))


def link_iterator(program: Fd) -> Fd:
    """A link of an iterator program; see :func:`iterator_create`."""
    return _link_create(program, 0, uapi.BPF_TRACE_ITER, 0, b"")


def iterator_create(link: Fd) -> Fd:
    """A descriptor that runs the iterator program when read."""
    return Fd(_bpf_checked("ITER_CREATE", uapi.BPF_ITER_CREATE, bytearray(struct.pack("=II", link.number, 0))))


def pin_object(fd: Fd, path: str) -> None:
    """Give a program, map or link a name in a BPF file system, which keeps it alive."""
    text = os.fsencode(path) + b"\0"
    _bpf_checked("OBJ_PIN", uapi.BPF_OBJ_PIN, bytearray(struct.pack("=QII", address_of(text), fd.number, 0)))


def link_uprobe_multi(program: Fd, path: str, offsets: list[int], cookies: list[int],
                      semaphores: list[int] | None = None, pid: int = 0, returns: bool = False) -> Fd:
    """Attach at many offsets of one file at once (Linux 6.6); the program needs expected_attach UPROBE_MULTI."""
    text, count = os.fsencode(path) + b"\0", len(offsets)
    packed = struct.pack(f"={count}Q", *offsets)
    marks = struct.pack(f"={count}Q", *cookies)
    counters = struct.pack(f"={count}Q", *semaphores) if semaphores else b""
    rest = struct.pack("=QQQQIII", address_of(text), address_of(packed), address_of(counters), address_of(marks), count,
                       uapi.BPF_F_UPROBE_MULTI_RETURN if returns else 0, pid)
    return _link_create(program, 0, uapi.BPF_TRACE_UPROBE_MULTI, 0, rest)


def link_kprobe_multi(program: Fd, functions: list[str], cookies: list[int], returns: bool = False,
                      session: bool = False) -> Fd:
    """Attach to many kernel functions at once (Linux 5.18 with FPROBE); expected_attach KPROBE_MULTI, or for a
    ``session`` (6.10) KPROBE_SESSION."""
    count = len(functions)
    table = Array([name.encode() for name in functions])
    marks = struct.pack(f"={count}Q", *cookies)
    rest = struct.pack("=IIQQQ", uapi.BPF_F_KPROBE_MULTI_RETURN if returns else 0, count, table.address, 0,
                       address_of(marks))
    kind = uapi.BPF_TRACE_KPROBE_SESSION if session else uapi.BPF_TRACE_KPROBE_MULTI
    return _link_create(program, 0, kind, 0, rest)


def link_missed(link: Fd) -> int:
    """How often a kprobe link's function was called without the program being run (Linux 6.8; 0 before)."""
    raw = _object_info(link, 80)
    kind, detail = struct.unpack_from("=I12xI", raw)
    if kind == uapi.BPF_LINK_TYPE_KPROBE_MULTI:
        return int(struct.unpack_from("=Q", raw, 32)[0])
    if kind == uapi.BPF_LINK_TYPE_PERF_EVENT and detail in (3, 4):  # BPF_PERF_EVENT_KPROBE, _KRETPROBE
        return int(struct.unpack_from("=Q", raw, 48)[0])
    return 0


# ---- perf events

def perf_event_open(type: int, config: int, pid: int = -1, cpu: int = -1, sample_period: int = 0, flags: int = 0,
                    config1: int | bytes = 0, config2: int = 0, bp_type: int = 0, sample_type: int = 0,
                    wakeup: int = 1) -> Fd:
    """Open a perf event; a breakpoint's address and length are in ``config1`` and ``config2``. ``config1`` may be
    bytes: then their address (with NUL added) is passed. ``wakeup``: after how many events, or bytes with
    PERF_ATTR_WATERMARK, a poll of the event returns."""
    text = config1 + b"\0" if isinstance(config1, bytes) else b""
    attr = bytearray(128)
    struct.pack_into("=IIQQQQQIIQQ", attr, 0, type, len(attr), config, sample_period, sample_type, 0,
                     flags if sys.byteorder == "little" else _mirror_bits(flags), wakeup, bp_type,
                     address_of(text) if isinstance(config1, bytes) else config1, config2)
    result: int = _syscall(_numbers["perf_event_open"], address_of(attr), pid, cpu, -1, uapi.PERF_FLAG_FD_CLOEXEC, 0)
    if result < 0:
        raise syscall_error("perf_event_open", errno.EPERM if last_error() == errno.EACCES
                            else last_error())
    return Fd(result)


def _mirror_bits(word: int) -> int:
    """As bit fields of 64 bits lie on big-endian machines: the first is the highest."""
    return int(f"{word:064b}"[::-1], 2)


def perf_event_ioctl(event: Fd, request: int, argument: int = 0) -> None:
    """ENABLE, DISABLE or SET_BPF on a perf event."""
    import fcntl

    try:
        fcntl.ioctl(event.number, request, argument)
    except OSError as error:
        raise syscall_error("ioctl(perf_event)", error.errno or errno.EINVAL) from None


# ---- processes

def die_with_parent() -> None:
    """Have this process killed when the thread that forked it ends (forgotten if it executes a set-user-ID file)."""
    _prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL


def drop_privileges() -> None:
    """Drop every capability for good: this process has none, and cannot gain any by executing a file."""
    _prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    _prctl(47, 4)  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL
    _prctl(4, 0)   # PR_SET_DUMPABLE: no other process of the same user can look into it
    head, sets = struct.pack("=II", 0x20080522, 0), bytes(24)  # _LINUX_CAPABILITY_VERSION_3; all sets empty
    if _syscall(_numbers["capset"], address_of(head), address_of(sets), 0, 0, 0, 0) != 0:
        raise syscall_error("capset", last_error())


def receive_message(socket: int, size: int) -> tuple[bytes, list[int]]:
    """At most ``size`` bytes from a socket, and up to two descriptors that came with them: recvmsg(2) by its own
    number. The C library of s390x makes it by socketcall(2), whose operation seccomp cannot filter."""
    data, control = bytearray(size), bytearray(24)
    vector = struct.pack("=QQ", address_of(data), size)
    head = struct.pack("=QQQQQQQ", 0, 0, address_of(vector), 1, address_of(control), len(control), 0)
    result: int = _syscall(_numbers["recvmsg"], socket, address_of(head), 0, 0, 0, 0)
    if result < 0:
        raise OSError(last_error(), os.strerror(last_error()))
    length, level, kind = struct.unpack_from("=QII", control)
    passed = (length - 16) // 4 if (level, kind) == (1, 1) else 0  # SOL_SOCKET, SCM_RIGHTS
    return bytes(data[:result]), list(struct.unpack_from(f"={max(passed, 0)}i", control, 16))


def filter_system_calls(program: bytes) -> bool:
    """Install a seccomp filter (struct sock_filter, one after the other); False where the kernel has none."""
    block = struct.pack("=H6xQ", len(program) // 8, address_of(program))
    return _prctl(22, 2, address_of(block)) == 0  # PR_SET_SECCOMP, MODE_FILTER


# ---- files

def open_in_root(root: int, path: str, flags: int, resolve: int = 0x10) -> int:
    """Open a path as a process with that root directory sees it: no link leads out of it (openat2, Linux 5.6), unless
    ``resolve`` is something other than RESOLVE_IN_ROOT."""
    text = os.fsencode(path) + b"\0"
    request = struct.pack("=QQQ", flags, 0, resolve)
    result: int = _syscall(_numbers["openat2"], root, address_of(text), address_of(request), len(request), 0, 0)
    if result < 0:
        raise OSError(last_error(), os.strerror(last_error()), path)
    return result


# ---- memory

def wait_for_running_programs() -> bool:
    """Wait until every program running now has ended: membarrier(GLOBAL) waits for one RCU grace period.

    After closing the links, this ensures that a program writes no more. False if the kernel cannot do it (nohz_full).
    Sleepable programs are not covered.
    """
    return bool(_syscall(_numbers["membarrier"], 1, 0, 0, 0, 0, 0) == 0)


def mmap_fd(fd: Fd, length: int, offset: int = 0, writable: bool = True) -> mmap:
    """Map a BPF map's memory, shared (a ``mmap.mmap``). It keeps the kernel object alive until closed."""
    import mmap as memory

    protection = memory.PROT_READ | (memory.PROT_WRITE if writable else 0)
    try:
        return memory.mmap(fd.number, length, memory.MAP_SHARED, protection, offset=offset)
    except OSError as error:
        raise syscall_error("mmap", error.errno or errno.EINVAL) from None
