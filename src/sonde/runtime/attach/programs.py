"""Loading programs: relocations filled in, verified quietly, and again with a log if the kernel rejects one."""

from __future__ import annotations

import errno
from sys import byteorder

from ...base.fast_stdlib import struct
from ...errors import AttachError, PrivilegeError, SondeError, SyscallError, VerifierError
from ...kernel import syscalls
from ...kernel.syscalls import Fd, ProgramInfo
from ...kinds import KINDS
from ...layouts.uapi import (
    BPF_LOG_LEVEL1,
    BPF_LOG_STATS,
    BPF_PSEUDO_MAP_FD,
    BPF_PSEUDO_MAP_VALUE,
    BPF_TRACE_FENTRY,
    BPF_TRACE_FENTRY_MULTI,
    BPF_TRACE_FEXIT,
    BPF_TRACE_FEXIT_MULTI,
    BPF_TRACE_ITER,
    PROG_TYPES,
)
from ...spec import KernelDetail, ProgramSpec, Relocation, detail_of, program_name
from ..maps.access import Map

_DESTINATION, _SOURCE = (0x0F, 4) if byteorder == "little" else (0xF0, 0)  # of an instruction's byte with its registers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from ...source import Span

    class LoadArguments(TypedDict):
        """The arguments of prog_load() that all ways of loading share."""

        type: int
        code: bytes
        name: str
        license: str
        expected_attach: int
        attach_btf_id: int
        attach_btf: Fd | None

_LARGEST_LOG = 16 << 20
_LONGEST_LINE = 200  # characters of the script's text that the log repeats at each instruction of the line
TRACING = {"fentry": BPF_TRACE_FENTRY, "fexit": BPF_TRACE_FEXIT, "iter": BPF_TRACE_ITER}
TRACING_MULTI = {"fentry.multi": BPF_TRACE_FENTRY_MULTI, "fexit.multi": BPF_TRACE_FEXIT_MULTI}


class LoadedProgram:
    """A loaded program."""

    def __init__(self, spec: ProgramSpec, fd: Fd) -> None:
        self.spec = spec
        self.fd = fd

    def run(self) -> int:
        """Run the program once, now (begin, end and self programs)."""
        return syscalls.prog_test_run(self.fd)

    def program_info(self) -> ProgramInfo:
        """The kernel's figures: runs, nanoseconds, recursion misses."""
        return syscalls.prog_info(self.fd)

    def close(self) -> None:
        """Close the descriptor; the program lives on while links hold it."""
        self.fd.close()


def apply_relocations(code: bytes, relocations: list[Relocation], maps: dict[str, Map]) -> bytes:
    """``code`` with the maps' descriptors in its 16-byte loads.

    Such a load takes two slots; each ends in an s32 immediate. The source register of the first
    says what they mean: a map's descriptor, or the descriptor and an offset into its value.
    """
    patched = bytearray(code)
    for relocation in relocations:
        at = relocation.index * 8
        value = relocation.kind == "value"
        kind = BPF_PSEUDO_MAP_VALUE if value else BPF_PSEUDO_MAP_FD
        patched[at + 1] = patched[at + 1] & _DESTINATION | kind << _SOURCE
        struct.pack_into("=i", patched, at + 4, maps[relocation.map].fd.fileno())
        struct.pack_into("=i", patched, at + 12, relocation.offset if value else 0)
    return bytes(patched)


def split_by_function(spec: ProgramSpec) -> list[ProgramSpec]:
    """A program of type tracing is loaded once for each of its functions, or where it serves many, for each module;
    any other is loaded as it is."""
    if spec.type != "tracing":
        return [spec]
    if spec.method in TRACING_MULTI:
        modules: dict[str, list[int]] = {}
        for index, point in enumerate(spec.attach):
            modules.setdefault(detail_of(point, KernelDetail).module, []).append(index)
        return [_only_for(spec, members, TRACING_MULTI[spec.method], 0) for members in modules.values()]
    return [_only_for(spec, [index], TRACING[spec.method or point.kind], detail_of(point, KernelDetail).btf_id)
            for index, point in enumerate(spec.attach)]


def _only_for(spec: ProgramSpec, members: list[int], expected_attach: int, btf_id: int) -> ProgramSpec:
    """A program for some of its attach points."""
    points, numbers = [spec.attach[index] for index in members], [probe_index(spec, index) for index in members]
    return ProgramSpec(program_name(points), spec.type, spec.code, points, spec.relocations, spec.lines, spec.method,
                       expected_attach, btf_id, numbers[0], spec.cookies, spec.functions, numbers,
                       separate=spec.separate)


def open_attach_target(module: str) -> Fd | None:
    """What the kernel wants to know of a function that is not its own: the BTF of a module, or the program of "bpf:ID".
    None, and the load will fail and say why, if it has gone."""
    if not module.startswith("bpf:"):
        return syscalls.module_btf(module)
    try:
        return syscalls.object_by_id("program", int(module[4:]))
    except SyscallError:
        return None


def probe_index(spec: ProgramSpec, index: int) -> int:
    """Of attach point ``index`` of a program in ScriptSpec.probes: its cookie."""
    return spec.numbers[index] if spec.numbers else spec.first_probe + index


def attach_cookie(spec: ProgramSpec, index: int) -> int:
    """What a program that serves many attach points is given at one: its number; for kernel functions that of the entry
    in the low half and that of the return in the high one, since both may be one program's."""
    if spec.parts:
        entry, exit = spec.parts
        return probe_index(entry, index) | probe_index(exit, index) << 32
    own = probe_index(spec, index)
    return own | own << 32 if KINDS[spec.attach[index].method].shares_link else own


def load_program(spec: ProgramSpec, maps: dict[str, Map], license: str = "GPL", log_size: int = 1_000_000,
                 expected_attach: int | None = None, attach_btf: Fd | None = None) -> LoadedProgram:
    """Load ``spec``; ``attach_btf`` is that of its function's module. Raises VerifierError with the script's place,
    PrivilegeError, or AttachError if it is the function that cannot be attached to."""
    arguments: LoadArguments = {
        "type": PROG_TYPES[spec.type], "code": apply_relocations(spec.code, spec.relocations, maps), "name": spec.name,
        "license": license,
        "expected_attach": spec.expected_attach if expected_attach is None else expected_attach,
        "attach_btf_id": spec.attach_btf_id, "attach_btf": attach_btf,
    }
    try:
        return LoadedProgram(spec, _load_quietly(spec, arguments))
    except SyscallError as error:
        if error.errno in (errno.ENOMEM, errno.EMFILE, errno.ENFILE):
            raise
        level = BPF_LOG_STATS if error.errno == errno.E2BIG else BPF_LOG_LEVEL1  # it gave up, no matter where
    return LoadedProgram(spec, _load_with_log(spec, arguments, log_size, level))


def _load_quietly(spec: ProgramSpec, arguments: LoadArguments) -> Fd:
    """Without a log, and without type information unless the program has callbacks: those must be functions in BTF."""
    if len(spec.functions) < 2:
        return syscalls.prog_load(**arguments)
    btf, func_info, _ = _load_type_information(spec, [])
    try:
        return syscalls.prog_load(**arguments, btf=btf, func_info=func_info)
    finally:
        if btf is not None:
            btf.close()


def _load_with_log(spec: ProgramSpec, arguments: LoadArguments, log_size: int, level: int) -> Fd:
    """Try again, with line information, to learn why; with a bigger log if it does not fit. Before Linux 6.4 a log that
    is full keeps its beginning: what does not fit the largest is asked for without the instructions, the reason alone.
    """
    btf, func_info, line_info = _load_type_information(spec, spec.lines)
    size = min(max(log_size, 1 << 16), _LARGEST_LOG)
    try:
        while True:
            log = bytearray(size)
            try:
                return syscalls.prog_load(**arguments, btf=btf, func_info=func_info, line_info=line_info,
                                          log=log, log_level=level)
            except SyscallError as error:
                if error.errno != errno.ENOSPC or level == BPF_LOG_STATS:
                    raise rejection_error(spec, log.split(b"\0", 1)[0].decode(errors="replace"), error.errno) from None
                if size == _LARGEST_LOG:
                    level = BPF_LOG_STATS
                size = min(size * 4, _LARGEST_LOG)
    finally:
        if btf is not None:
            btf.close()


def _load_type_information(spec: ProgramSpec, lines: list[tuple[int, Span]]) -> tuple[Fd | None, bytes, bytes]:
    """(BTF in the kernel, func_info, line_info); nothing when it would say nothing, or the kernel will not have it."""
    from ...btf.codec import Line, build_program_btf

    if not lines and len(spec.functions) < 2:
        return None, b"", b""
    entries: list[Line] = []
    texts: dict[tuple[str, int], str] = {}
    for index, span in lines:
        number, column = span.source.line_and_column(span.start)
        key = span.source.name, number
        if key not in texts:
            texts[key] = span.source.line_text(number)[:_LONGEST_LINE]
        entries.append((index, span.source.name, texts[key], number, column))
    blob, func_info, line_info = build_program_btf(spec.name, entries, spec.functions, spec.separate)
    try:
        return syscalls.btf_load(blob), func_info, line_info
    except (SyscallError, PrivilegeError):
        return None, b"", b""  # the log is then without script lines; spans come from spec.lines all the same


def rejection_error(spec: ProgramSpec, log: str, number: int) -> SondeError:
    """The error for a rejected program; an AttachError if the kernel did not even look at its instructions, since it
    is not to be attached there, and the call's own if it was not the verifier that refused."""
    import re

    from .verifier import explain_log, first_sentence
    if not log.strip() and number in (errno.EACCES, errno.ENOSYS):
        return syscalls.syscall_error("bpf(PROG_LOAD)", number)
    if "helper bpf_probe_read_kernel" in log or "unknown func bpf_probe_read_kernel" in log:
        from ...kernel.denials import lockdown_hints
        if hints := lockdown_hints(errno.EPERM):
            return PrivilegeError(f"{spec.attach[0].name}: programs may not read kernel memory: kernel lockdown "
                                  "(confidentiality)", "lockdown=integrity", hints)
    if spec.type == "tracing" and log.strip() and not re.search(r"^\d+: ", log, re.MULTILINE):
        why = first_sentence(log) or "the kernel has it on a list of functions that take no such programs"
        return AttachError(f"{spec.attach[0].name}: {why}", spec.attach[0].name, number)

    explanation = explain_log(log, spec.lines)
    if not log.strip():
        explanation.cause = {
            errno.E2BIG: "the program is too large for this kernel",
            errno.ENOENT: "the kernel has no such function to attach to",
            errno.EINVAL: "this kernel does not know a feature that the program uses",
        }.get(number, SyscallError("bpf(PROG_LOAD)", number).message)
    probe = spec.attach[0].name if spec.attach else spec.name
    span = explanation.span if explanation.span is not None else spec.lines[0][1] if spec.lines else None
    return VerifierError(f"{probe}: the kernel rejected the program: {explanation.cause}", spec.name, log,
                         explanation.cause, span)
