"""Smaller pieces of the runtime: relocations, words for failures, lists of CPUs, barriers."""

from __future__ import annotations

import errno
import os
import struct
import threading
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest

from sonde import arch
from sonde.arch.syscalls import syscall_numbers
from sonde.asm import insn
from sonde.asm.assemble import assemble
from sonde.errors import AttachError, PrivilegeError, SyscallError, VerifierError
from sonde.kernel import denials, syscalls
from sonde.kinds import KINDS
from sonde.layouts.uapi import BPF_TRACE_FEXIT_MULTI, HELPERS
from sonde.runtime.attach import links, programs, refusals
from sonde.runtime.attach.programs import apply_relocations, rejection_error
from sonde.runtime.records import ringbuf
from sonde.source import Source, Span
from sonde.spec import Attach, KernelDetail, ProgramSpec


def test_relocations() -> None:
    done = assemble([insn.map_fd(1, "@a"), insn.map_value(2, "@b", 24), insn.exit_()])
    made: Any = {"@a": SimpleNamespace(fd=SimpleNamespace(fileno=lambda: 7)),
                 "@b": SimpleNamespace(fd=SimpleNamespace(fileno=lambda: 8))}
    code = apply_relocations(done.code, done.relocations, made)
    assert len(code) == len(done.code)
    assert struct.unpack_from("=BBhi", code, 0) == (0x18, 1 | 1 << 4, 0, 7)
    assert struct.unpack_from("=BBhi", code, 8) == (0, 0, 0, 0)
    assert struct.unpack_from("=BBhi", code, 16) == (0x18, 2 | 2 << 4, 0, 8)
    assert struct.unpack_from("=BBhi", code, 24) == (0, 0, 0, 24)


@pytest.mark.parametrize(("number", "words"), [
    (errno.E2BIG, "too large"), (errno.ENOENT, "no such function"), (errno.EINVAL, "does not know"),
    (errno.EBUSY, os.strerror(errno.EBUSY))])
def test_rejections_without_a_log(number: int, words: str) -> None:
    spec = ProgramSpec("p", "kprobe", b"", [Attach("kprobe", "kprobe:f")], lines=[(0, "place")])
    error = rejection_error(spec, "", number)
    assert words in error.cause and error.span == "place" and error.message.startswith("kprobe:f: ")


@pytest.mark.parametrize(("log", "words"), [
    ("processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0\n", "list of functions that take no such"),
    ("Attaching fexit/fmod_ret to __noreturn functions is rejected.\nprocessed 0 insns\n", "__noreturn functions")])
def test_functions_that_the_kernel_gives_no_typed_programs(log: str, words: str) -> None:
    error = rejection_error(ProgramSpec("p", "tracing", b"", [Attach("fexit", "fexit:vmlinux:f")]), log, errno.EINVAL)
    assert error.message.startswith("fexit:vmlinux:f: ") and words in error.message and "insns" not in error.message


@pytest.mark.parametrize(("kind", "number", "words"), [
    ("tracepoint", errno.ENOENT, "no such tracepoint"), ("tracepoint", errno.E2BIG, "64 programs"),
    ("rawtracepoint", errno.ENOENT, "no such tracepoint"), ("hardware", errno.ENOENT, "hardware counter"),
    ("uprobe", errno.ENOENT, "there is no file"), ("uprobe", errno.EINVAL, "there is no file"),
    ("kprobe", errno.ENOENT, "no function"), ("kprobe", errno.EADDRNOTAVAIL, "several functions"),
    ("kretprobe", errno.EINVAL, "cannot be probed"), ("software", errno.ESRCH, "no process"),
    ("interval", errno.EMFILE, "open files"), ("interval", errno.EBUSY, os.strerror(errno.EBUSY))])
def test_attach_failures_in_words(kind: str, number: int, words: str) -> None:
    point = Attach(kind, f"{kind}:x", target="/no/such/file", event="x")
    error = refusals.explain_attach_error(point, SyscallError("call", number))
    assert words in error.message and error.probe == point.name and error.errno == number


def test_every_kind_can_be_attached_or_run() -> None:
    assert set(links.ATTACHERS) == {kind.name for kind in KINDS.values() if not kind.session}


def refusal(monkeypatch: pytest.MonkeyPatch, capabilities: int, call: str = "bpf(MAP_CREATE)",
            lockdown: str = "none") -> PrivilegeError:
    monkeypatch.setattr(syscalls, "effective_capabilities", lambda: capabilities)
    monkeypatch.setattr(denials, "kernel_lockdown", lambda: lockdown)
    error = syscalls.syscall_error(call, errno.EPERM)
    assert isinstance(error, PrivilegeError) and error.hints
    return error


def test_missing_privileges_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bpf, perfmon, admin = 1 << 39, 1 << 38, 1 << 21
    assert refusal(monkeypatch, 0).needs == "CAP_BPF and CAP_PERFMON"
    assert refusal(monkeypatch, bpf).needs == "CAP_PERFMON"
    assert refusal(monkeypatch, 0, "perf_event_open").needs == "CAP_PERFMON"
    assert "container" in refusal(monkeypatch, admin).hints[0]
    assert "container" in refusal(monkeypatch, bpf | perfmon).hints[0]
    assert refusal(monkeypatch, admin, lockdown="confidentiality").needs == "lockdown=integrity"


def test_distributions_that_allow_perf_events_to_root_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's and Ubuntu's kernel.perf_event_paranoid goes further than the kernel's own."""
    for kept in (False, True):
        monkeypatch.setattr(denials, "root_has_perf_events", lambda kept=kept: kept)
        error = refusal(monkeypatch, 1 << 38, "perf_event_open")
        assert error.needs == "CAP_SYS_ADMIN" and ("not permitted without" in error.message) == kept
        assert (denials.PARANOID in error.hints) == kept


def test_a_locked_kernel_is_the_reason_for_a_helper_that_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    log = "0: (85) call bpf_probe_read_kernel#113\nprogram of this type cannot use helper bpf_probe_read_kernel#113\n"
    spec = ProgramSpec("p", "kprobe", b"", [Attach("kprobe", "kprobe:f")])
    for lockdown, kind in (("confidentiality", PrivilegeError), ("integrity", VerifierError), ("none", VerifierError)):
        monkeypatch.setattr(denials, "kernel_lockdown", lambda lockdown=lockdown: lockdown)
        assert isinstance(rejection_error(spec, log, errno.EINVAL), kind)


def test_other_failures_keep_their_number() -> None:
    error = syscalls.syscall_error("bpf(MAP_CREATE)", errno.ENOMEM)
    assert isinstance(error, SyscallError) and (error.call, error.errno) == ("bpf(MAP_CREATE)", errno.ENOMEM)


def test_a_lost_descriptor_warns() -> None:
    with pytest.warns(ResourceWarning, match="unclosed Fd"):
        syscalls.Fd(os.open("/dev/null", os.O_RDONLY))
    with syscalls.Fd(os.open("/dev/null", os.O_RDONLY)) as fd:
        assert not fd.closed
    fd.close()
    assert fd.closed


def test_barrier_of_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64"))
    fence = ringbuf._make_memory_barrier()
    fence()
    fence()


def test_architectures() -> None:
    x86, arm = arch.find_arch("x86_64"), arch.find_arch("arm64")
    assert x86 is not None and arm is not None and arch.find_arch("vax") is None
    assert (x86.arguments[0], x86.syscall_arguments[3], x86.return_value, x86.syscall_number) == (112, 56, 80, 120)
    assert (arm.arguments[7], arm.syscall_arguments[0], arm.return_value, arm.syscall_number) == (56, 272, 0, 280)
    assert set(x86.syscalls) == set(arm.syscalls)
    for row in (x86, arm):
        assert row.syscalls.items() <= syscall_numbers(row.name).items()


def test_helper_numbers() -> None:
    assert (HELPERS["map_lookup_elem"], HELPERS["ringbuf_reserve"], HELPERS["loop"]) == (1, 131, 181)


@pytest.mark.parametrize("most", [0, 2, 64])
def test_links_are_closed_by_as_many_threads_as_there_can_be(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def start_if_allowed(thread: threading.Thread) -> None:
        if len(started) == most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)
    monkeypatch.setattr(threading.Thread, "start", start_if_allowed)
    held, fds = links.Links(), [syscalls.Fd(os.eventfd(0)) for _ in range(10)]
    for fd in fds:
        held.hold_link(fd, waits=True)
    held.detach_all()
    assert all(fd.closed for fd in fds) and len(held) == 0 and len(started) == min(most, 10)


def test_one_program_is_attached_to_what_the_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twenty functions in two modules two are refused; each that is attached has its own number."""
    refused, asked = {3, 17}, list[dict[int, int]]()

    def attach(program: syscalls.Fd, attach_type: int, functions: list[int], cookies: list[int]) -> syscalls.Fd:
        assert attach_type == BPF_TRACE_FEXIT_MULTI
        asked.append(dict(zip(functions, cookies)))
        if refused & set(functions):
            raise SyscallError("bpf(LINK_CREATE)", errno.EINVAL)
        return syscalls.Fd(os.eventfd(0))
    monkeypatch.setattr(syscalls, "link_tracing_multi", attach)
    points = [Attach("fexit", f"fexit:f{number}", event=f"f{number}", wild=True,
                     detail=KernelDetail(number, "xfs" if number % 2 else "vmlinux")) for number in range(20)]
    spec = ProgramSpec("p", "tracing", b"", points, method="fexit.multi", first_probe=100)
    held, missing, count = links.Links(), list[str](), 0
    for part in programs.split_by_function(spec):
        assert (part.expected_attach, part.attach_btf_id) == (BPF_TRACE_FEXIT_MULTI, 0)
        assert len({point.detail.module for point in part.attach if isinstance(point.detail, KernelDetail)}) == 1
        with syscalls.Fd(os.eventfd(0)) as program:
            def miss(_: AttachError, point: Attach) -> None:
                missing.append(point.event)
            if not links.attach_multi(part, program, held, miss):
                count += links.attach_program(part, program, held, miss)
                assert links.attach_multi(part, program, held, miss)  # what is left can be attached again, by one link
    held.close()
    # None of a module's functions is asked for in another's program, and all but the two have been attached.
    assert count == 8 and missing == ["f3", "f17"]
    assert all(cookie == 100 + number for links_ in asked for number, cookie in links_.items())


def test_lines_without_end_cost_little_when_a_program_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script in one line of a megabyte: neither we nor the kernel's log have that for each of its instructions."""
    blobs: list[bytes] = []

    def load(blob: bytes) -> None:
        blobs.append(blob)
        raise SyscallError("bpf(BTF_LOAD)", errno.EPERM)
    monkeypatch.setattr(syscalls, "btf_load", load)
    source = Source("x", "begin { " + "@ = 1; " * 150_000 + "}")
    spec = ProgramSpec("p", "raw_tracepoint", b"", [], lines=[(n, Span(source, 8 + 7 * n, 14 + 7 * n))
                                                              for n in range(300)])
    tracemalloc.start()
    programs._load_type_information(spec, spec.lines)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 10 << 20 and len(blobs[0]) < 10_000 and b"begin { @ = 1;" in blobs[0]
