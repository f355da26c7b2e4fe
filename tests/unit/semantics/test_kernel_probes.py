"""Kernel functions: what is attached to, and how a kernel without kprobes or without fentry is served."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from sonde.asm.insn import decode_program
from sonde.compiler.pipeline import compile_checked
from sonde.compiling import compile, mask_refusals
from sonde.errors import AttachError, CompileError, MachineError, StandInError, SyscallError
from sonde.kernel import syscalls
from sonde.layouts.shared_maps import GROUPS
from sonde.layouts.uapi import HELPERS
from sonde.library.trace import Trace
from sonde.runtime.attach.attachments import Attachments
from sonde.runtime.maps.access import create_map
from sonde.semantics import finder, kernel_probes
from sonde.semantics.script_options import Options
from sonde.spec import Attach, Config, KernelFunction, MapSpec
from sonde.types import INT32, INT64, Struct
from unit.fake_world import IOVEC, SOCK, FakeWorld, FentryWorld, KprobeWorld, check_text, findings, function, kernel


class Both(FentryWorld):
    """Kprobes and fentry."""

    features = FentryWorld.features | {"kprobes"}


def attached(text: str, world: FakeWorld) -> list[Attach]:
    return [a for p in check_text(text, world).probes for a in p.attach]


def message(text: str, world: FakeWorld) -> str:
    with pytest.raises(CompileError) as caught:
        check_text(text, world)
    return "\n".join(part for d in caught.value.diagnostics for part in (d.message, *d.hints))


@pytest.mark.parametrize(("text", "name"), [
    ("fentry:vfs_read", "fentry:vmlinux:vfs_read"), ("f:vmlinux:vfs_read", "fentry:vmlinux:vfs_read"),
    ("kfunc:vfs_read", "fentry:vmlinux:vfs_read"), ("kretfunc:vfs_read", "fexit:vmlinux:vfs_read"),
    ("fr:vfs_read", "fexit:vmlinux:vfs_read"), ("kprobe:vfs_read", "kprobe:vfs_read"),
    ("k:vmlinux:vfs_read", "kprobe:vmlinux:vfs_read"), ("kprobe:vfs_read+4", "kprobe:vfs_read+4"),
    ("kprobe:0xffffffff81000010", "kprobe:0xffffffff81000010"), ("kprobe:static_one", "kprobe:static_one"),
])
def test_full_names(text: str, name: str) -> None:
    checked = check_text(text + " { }", Both(), unsafe=True)
    assert [a.name for p in checked.probes for a in p.attach] == [name]


def test_functions_by_what_they_take() -> None:
    for text, names in (("kprobe:*(arg0=sock)", ["tcp_connect"]), ("kprobe:vfs_*(arg1=sock)", ["vfs_read"]),
                        ("fentry:vmlinux:*(arg0=sock)", ["tcp_connect"]), ("kprobe:vfs_*(arg0=sock), kprobe:vfs_read",
                                                                            ["vfs_read"])):
        assert [a.event for a in attached(text + " { }", Both())] == names, text
    assert all(a.wild for a in attached("kprobe:*(arg0=sock) { }", Both()))
    assert "no kprobe matches *(arg2=sock)" in message("kprobe:*(arg2=sock) { }", Both())
    for text in ("kprobe:*(arg0)", "kprobe:*(arg6=sock)", "kprobe:*(arg0=sock", "kprobe:*(arg00=sock)", "kprobe:f()"):
        assert "says nothing of functions" in message(text + " { }", Both())


def test_wildcards_take_what_has_a_prototype() -> None:
    names = [a.event for a in attached("fentry:* { }", FentryWorld())]
    assert names == ["vfs_read", "vfs_readv", "tcp_connect", "tcp_close", "by_value"]  # not the variadic one
    assert all(a.wild for a in attached("fentry:vfs_* { }", FentryWorld()))


def test_wildcards_leave_out_what_tracing_itself_runs() -> None:
    class More(Both):
        def kernel_functions(self) -> list[tuple[str, str]]:
            return [("vmlinux", name) for name in ("vfs_read", "vfs_die", "vfs_x.part.0", "rcu_core")]

    for pattern, names in (("kprobe:*", ["vfs_read"]), ("fentry:*", ["vfs_read"]), ("kprobe:*:vfs_die", ["vfs_die"]),
                           ("kprobe:rcu_core", ["rcu_core"]), ("kprobe:vfs_x.part.0", ["vfs_x.part.0"])):
        assert [a.event for a in attached(pattern + " { }", More())] == names


def test_typed_arguments_and_results() -> None:
    checked = check_text("fexit:vfs_read { @a = args.count; @r = retval; @o = args->file->f_mode; }", FentryWorld())
    assert {name: info.value for name, info in checked.maps.items()}["@r"] == INT64
    assert check_text("fexit:tcp_connect { @r = retval; }", FentryWorld()).maps["@r"].value in (INT32, INT64)


def test_functions_whose_arguments_lie_alike_share_a_program() -> None:
    checked = check_text("fentry:vfs_read,fentry:vfs_readv { @ = args.count; }", FentryWorld())
    assert [len(p.attach) for p in checked.probes] == [2]
    checked = check_text("fentry:vfs_read,fentry:tcp_close { @ = comm; }", FentryWorld())
    assert [len(p.attach) for p in checked.probes] == [2]


@pytest.mark.parametrize(("kind", "way"), [("kprobe", "fentry"), ("kretprobe", "fexit")])
def test_kprobes_by_fentry(kind: str, way: str) -> None:
    [point] = attached(f"{kind}:vfs_read {{ @ = comm; }}", FentryWorld())
    assert (point.kind, point.way, point.detail.btf_id) == (kind, way, 8)


@pytest.mark.parametrize(("kind", "way"), [("fentry", "kprobe"), ("fexit", "kretprobe")])
def test_fentry_by_kprobes(kind: str, way: str) -> None:
    [point] = attached(f"{kind}:vfs_read {{ @ = comm; }}", KprobeWorld())
    assert (point.kind, point.way) == (kind, way)


@pytest.mark.parametrize(("features", "text", "codes"), [
    ({"kprobe_multi"}, "kprobe:vfs_* { @ = comm; }", []), ({"kprobe_multi"}, "kretprobe:vfs_* { @[func] = 1; }", []),
    ({"kprobe_multi"}, "kprobe:vfs_* { @ = probe; }", ["too-many-probes"]),
    ({"kprobe_multi"}, "kprobe:vfs_*,kprobe:tcp_* { }", ["too-many-probes"]),
    ({"kprobe_multi"}, "kprobe:vfs_read,kprobe:vfs_readv { }", ["too-many-probes"]),
    (set(), "kprobe:vfs_* { @ = comm; }", ["too-many-probes"]),
])
def test_functions_that_one_link_serves_count_as_one(features: set[str], text: str, codes: list[str]) -> None:
    class Some(Both):
        pass

    Some.features = Both.features | features
    assert [code for code, _ in findings(f"config = {{ max_probes = 1 }} {text}", Some())] == codes


def test_many_by_kprobes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Multi(Both):
        features = Both.features | {"kprobe_multi"}

    monkeypatch.setattr(kernel_probes, "MANY", 3)
    found = attached("fentry:* { @ = comm; }", Multi())
    assert [a.event for a in found] == ["vfs_read", "vfs_readv", "tcp_connect", "tcp_close", "by_value"]
    assert all(a.way == "kprobe" and a.reason == "many" for a in found)
    assert all(not a.way for a in attached("fentry:vfs_* { @ = comm; }", Multi()))
    assert all(not a.way for a in attached("fexit:* { print(args); }", Multi()))
    # Those of another clause's stay with it, so that the two run in the script's order.
    ways = {a.event: a.way for a in attached("fentry:* { @ = comm; } fentry:tcp_* { @ = comm; }", Multi())}
    assert {name for name, way in ways.items() if not way} == {"tcp_connect", "tcp_close"} and len(ways) == 5
    assert all(a.way for a in attached("fentry:* { @ = comm; } fentry:* { @ = comm; }", Multi()))


class Together(Both):
    """A kernel that attaches one program to many functions: twelve, one of several of that name, one that returns a
    struct."""

    features = Both.features | {"kprobe_multi", "tracing_multi", "tracing_cookie", "attach_cookie",
                                "helper_get_func_arg"}

    def kernel_functions(self) -> list[tuple[str, str]]:
        return [("vmlinux", f"do_{number}") for number in range(12)] + [("vmlinux", "do_pair"), ("vmlinux", "do_two")]

    def kernel_function(self, name: str, module: str = "") -> KernelFunction | None:
        return function(name, IOVEC if name == "do_pair" else INT32, number=INT64, flags=INT64)

    def takes_typed_program(self, function: KernelFunction, returns: bool, among_many: bool = False) -> bool:
        assert among_many  # to try each would take too long
        return function.name not in ("do_two", "do_pair")


@pytest.mark.parametrize(("kind", "way"), [("kprobe", "fentry"), ("kretprobe", "fexit")])
def test_many_share_a_program_of_type_tracing(kind: str, way: str) -> None:
    spec = compile(f"{kind}:do_* {{ @[probe] = count(); }}", Options(), Together())
    shared, others = sorted(spec.programs, key=lambda program: -len(program.attach))
    assert (shared.type, shared.method, len(shared.attach)) == ("tracing", f"{way}.multi", 12)
    assert [(a.way, a.reason) for a in shared.attach] == [(way, "many")] * 12
    assert others.type == "kprobe" and [a.event for a in others.attach] == ["do_pair", "do_two"]
    typed = compile(f"{way}:do_* {{ @[probe] = count(); }}", Options(), Together()).programs
    assert [(program.method, len(program.attach)) for program in typed] == [(f"{way}.multi", 13)]


@pytest.mark.parametrize("text", [
    "fentry:do_1,fentry:do_2 { }",  # few have a copy each, which nothing but itself interrupts
    "fentry:do_* { print(socket_cookie((struct sock *)args.number)); }",  # takes a type that the verifier knows
])
def test_what_shares_no_program_of_type_tracing(text: str) -> None:
    assert all(a.reason != "many" or a.way for a in attached(text, Together()))


def test_a_shared_program_has_no_typed_context() -> None:
    """The verifier knows no arguments of it, so each word is asked for by bpf_get_func_arg()."""
    program, = compile("fentry:do_* { @[args.number] = sum(args.flags); }", Options(), Together()).programs
    called = [insn.imm for _, insn in decode_program(program.code) if insn.code == 0x85]
    assert called.count(HELPERS["get_func_arg"]) == 2


def test_many_in_a_list_by_kprobes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Multi(Both):
        features = Both.features | {"kprobe_multi"}

    monkeypatch.setattr(kernel_probes, "MANY", 1)
    found = attached("fentry:vfs_read,fentry:by_value,fentry:bpf:count_packets { @ = comm; }", Multi())
    assert [a.way for a in found] == ["kprobe", "kprobe", ""]


def test_a_few_returns_by_fexit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which misses none; but not where the function cannot be traced so, or the registers are asked for."""
    [point] = attached("kretprobe:vfs_read { @ = retval; }", Both())
    assert (point.name, point.way, point.reason) == ("kretprobe:vfs_read", "fexit", "exact")
    assert not attached("kretprobe:static_one { @ = retval; }", Both())[0].way
    assert not attached('kretprobe:vfs_read { @ = reg("ax"); }', Both())[0].way
    assert [a.way for a in attached("kretprobe:vfs_read { } fexit:vfs_re* { }", Both())] == [""] * 3
    monkeypatch.setattr(Both, "is_function_traceable", lambda self, name: False)
    assert not attached("kretprobe:vfs_read { @ = retval; }", Both())[0].way
    monkeypatch.undo()
    monkeypatch.setattr(kernel_probes, "FEW", 1)
    assert not any(a.way for a in attached("kretprobe:vfs_read* { @ = retval; }", Both()))


MORE = {known.name: known for known in (
    function("refused", INT32, sk=kernel(SOCK)),
    function("narrow", INT32, number=INT32, wide=INT64),
    function("seven", INT32, **{f"a{number}": INT64 for number in range(7)}))}


@pytest.mark.parametrize(("text", "ways"), [
    ("kprobe:vfs_read { @[comm] = count(); }", ["fentry"]),
    ("kprobe:vfs_read { @s = sum(arg2); @[ustack] = count(); }", ["fentry"]),
    ("kprobe:vfs_re* { @ = count(); }", ["fentry"]),
    ("kprobe:vfs_read { @a = count(); } kprobe:vfs_read { @b = count(); }", ["fentry", "fentry"]),
    ("kprobe:vfs_read { @a = count(); } kretprobe:vfs_read { @b = count(); }", ["fentry", "fexit"]),
    # What fentry does not show, or shows otherwise.
    ('kprobe:vfs_read { @ = reg("di"); }', [""]),
    ("kprobe:vfs_read { @[kstack] = count(); }", [""]),
    ("kprobe:vfs_read { @ = arg3; }", [""]),  # it has three
    ("kprobe:by_value { @ = arg2; }", [""]),  # half a register, behind a struct
    ("kprobe:narrow { @ = arg1; }", ["fentry"]),
    ("kprobe:narrow { @ = arg0; }", [""]),  # half a register: what else is there is known to kprobes only
    ("kprobe:vfs_read+4 { @ = count(); }", [""]),
    ("kprobe:0xffffffff81000010 { @ = count(); }", [""]),
    ("kprobe:static_one { @ = count(); }", [""]),
    ("kprobe:refused { @ = count(); }", [""]),
    ("kprobe:seven { @ = count(); }", [""]),  # more than there are registers
    # The order of the clauses of a function is kept by one way for all of them.
    ('kprobe:vfs_read { @a = count(); } kprobe:vfs_read { @b = reg("di"); }', ["", ""]),
    ("kprobe:vfs_read { @a = count(); } kprobe:vfs_read+0 { @b = count(); }", ["", ""]),
    ("kprobe:vfs_read { @a = count(); } fentry:vfs_read { @b = count(); }", ["", ""]),
    ("kprobe:vfs_read { @a = count(); } kprobe:vfs_* { @b = count(); }", ["", ""]),
    ("kprobe:vfs_read { @a = count(); } kprobe:0xffffffff81000010 { @b = count(); }", ["", ""]),
    ('kretprobe:vfs_read { @a = count(); } kretprobe:vfs_read { @b = reg("ax"); }', ["", ""]),
])
def test_a_few_entries_by_fentry(text: str, ways: list[str]) -> None:
    class Several(Both):
        def kernel_functions(self) -> list[tuple[str, str]]:
            return [("vmlinux", name) for name in ("vfs_read", "by_value", "static_one", *MORE)]

        def kernel_function(self, name: str, module: str = "") -> KernelFunction | None:
            return MORE.get(name) or super().kernel_function(name, module)

    checked = check_text(text, Several(), unsafe=True)
    assert [a.way for p in checked.probes for a in p.attach] == ways


def test_typed_arguments_by_kprobes_as_far_as_registers_go() -> None:
    assert findings("fentry:vfs_read { @ = args.count; }", KprobeWorld()) == []
    assert "fits no register" in message("fentry:by_value { @ = args.last; }", KprobeWorld())
    assert "fits no register" in message("fexit:by_value { @ = args.last; }", KprobeWorld())


@pytest.mark.parametrize(("text", "asks"), [
    ("fexit:vfs_read { @ = args.count; }", True),
    ("kprobe:vfs_read { @x[tid] = 1; } fexit:vfs_read /has_key(@x, tid)/ { @ = args.count; delete(@x, tid); }", False)])
def test_entry_and_return_ask_for_the_same_group(text: str, asks: bool) -> None:
    """What one keeps the other takes, or the next call there would seem to be one whose return was missed."""
    world = KprobeWorld()
    spec = compile_checked(check_text(text, world, group="web"), world, verify=True)
    both = [program for program in spec.programs if program.attach[0].kind == "fexit"]
    assert [any(r.map == GROUPS for r in program.relocations) for program in both] == [asks, asks]


@pytest.mark.parametrize(("text", "kept", "programs"), [
    ("fexit:vfs_read { @ = args.count; }", [80], [("kprobe", 0), ("kretprobe", 1)]),
    ("fexit:vfs_read { print(args); }", [160], [("kprobe", 0), ("kretprobe", 1)]),
    ("fexit:vfs_read { @ = args.count; } fexit:vfs_read { @n = (args.count, args.buf); }", [80, 120],
     [("kprobe", 0), ("kretprobe", 2)]),
    ("fexit:vfs_read { @ = retval; }", [], [("kretprobe", 1)]),
    ("fentry:vfs_read { @ = args.count; }", [], [("kprobe", 1)]),
])
def test_arguments_at_a_return_by_kprobes(text: str, kept: list[int], programs: list[tuple[str, int]]) -> None:
    """A program at the entry keeps those that are read; it is none of the script's clauses."""
    world = KprobeWorld()
    spec = compile_checked(check_text(text, world), world, verify=True)
    assert [map.value_size for map in spec.maps if map.name.startswith("__args")] == kept
    assert [(program.method, program.clauses) for program in spec.programs] == programs
    assert len(spec.probes) == 1


@pytest.mark.parametrize(("text", "why"), [
    ("kprobe:vfs_read { @ = reg(\"ip\"); }", "reg() does not work there"),
    ("kprobe:vfs_read+4 { }", "whole functions only"),
    ("kprobe:0xffffffff81000010 { }", "whole functions only"),
    ("fexit:tcp_close { @ = retval; }", "returns nothing (void)"),
    ("fentry:_printk { }", "variable number of arguments"),
    ("fentry:static_one { }", "type information does not have it"),
    ("fentry:vfs_raed { }", "did you mean fentry:vfs_read"),
    ("fentry:inlined { }", "the compiler made inlined.isra.0 of it"),
    ("fentry:vfs_read+4 { }", "only kprobes"),
    ("fentry:nosuch_* { }", "no fentry matches nosuch_*"),
    ("fentry:other:vfs_read { }", "it is in vmlinux: fentry:vmlinux:vfs_read"),
])
def test_why_not(text: str, why: str) -> None:
    assert why in message(text, FentryWorld())


class Changed(Both):
    """Functions that are there under other names only."""

    def kernel_functions(self) -> list[tuple[str, str]]:
        gone = ("vfs_readv", "tcp_close")
        names = [name for module, name in super().kernel_functions() if name not in gone]
        names += ["vfs_readv.isra.0", "halved.part.0", "halved.cold", "twice.isra.0.part.0", "twice.constprop.0",
                  "twice.constprop.1", "kernel_clone", "get_noprof", "sk_skb_reason_drop"]
        return [*[("vmlinux", name) for name in names], ("mod", "own.llvm.7")]


@pytest.mark.parametrize(("text", "names"), [
    ("kprobe:inlined { @ = comm; }", "kprobe:inlined.isra.0"),
    ("kretprobe:inlined { @ = comm; }", "kretprobe:inlined.isra.0"),
    ("fentry:inlined { @ = comm; }", "fentry:vmlinux:inlined.isra.0"),
    ("kprobe:halved { @ = comm; }", "kprobe:halved.part.0"),
    ("kprobe:twice { @ = comm; }", "kprobe:twice.constprop.0 kprobe:twice.constprop.1"),
    ("kprobe:vmlinux:twice { @ = comm; }", "kprobe:vmlinux:twice.constprop.0 kprobe:vmlinux:twice.constprop.1"),
    ("kprobe:own { @ = comm; }", "kprobe:own.llvm.7"), ("kprobe:mod:own { @ = comm; }", "kprobe:mod:own.llvm.7"),
    ("kprobe:get { @ = arg0; }", "kprobe:get_noprof"), ("kprobe:vfs_readv { @ = arg1; }", "kprobe:vfs_readv.isra.0"),
    ("fentry:vfs_readv { @ = args.count; }", "fentry:vmlinux:vfs_readv.isra.0"),
    ("kprobe:_do_fork { @ = arg0; }", "kprobe:kernel_clone"),
    ("kretprobe:_do_fork { @ = retval; }", "kretprobe:kernel_clone"),
    ("kprobe:kfree_skb { @ = comm; }", "kprobe:sk_skb_reason_drop"),
    ("kprobe:vfs_read { @ = comm; }", "kprobe:vfs_read"),
])
def test_what_has_the_work_of_a_function_is_probed_in_its_place(text: str, names: str) -> None:
    checked = check_text(text, Changed())
    assert " ".join(a.name for p in checked.probes for a in p.attach) == names
    said = [d for d in checked.diagnostics.items if d.code == "stand-in"]
    assert len(said) == (names != "kprobe:vfs_read")
    assert all(name.rpartition(":")[2] in said[0].message for name in names.split() if said)


@pytest.mark.parametrize("text", [
    "kprobe:_do_fork,kprobe:kernel_clone { @ = comm; }", "kprobe:_do_fork { @ = comm; } kprobe:kernel_* { @ = comm; }",
    'kprobe:_do_fork /exists("kprobe:_do_fork")/ { @ = comm; } kprobe:kernel_clone { @ = comm; }'])
def test_what_the_script_probes_itself_is_no_stand_in(text: str) -> None:
    """Scripts for several kernels name the alternatives themselves."""
    checked = check_text("config = { missing_probes = ignore } " + text, Changed())
    assert [a.name for p in checked.probes for a in p.attach] == ["kprobe:kernel_clone"]


def test_a_stand_in_is_told_once() -> None:
    checked = check_text("kprobe:inlined { @ = comm; } kretprobe:inlined { @ = comm; }", Changed())
    assert [d.code for d in checked.diagnostics.items] == ["stand-in"]


@pytest.mark.parametrize("text", [
    "kprobe:inlined { @ = arg0; }", "kprobe:inlined { @ = reg(\"di\"); }", "kretprobe:inlined { @ = retval; }",
    "fentry:inlined { print(args); }", "kprobe:halved { @ = arg0; }", "kprobe:kfree_skb { @ = arg0; }",
    "kprobe:inlined+4 { @ = comm; }", "kprobe:own:get { }", "kprobe:halve { }", "fexit:vfs_readv { @ = retval; }",
])
def test_no_stand_in_where_the_clause_would_see_something_else(text: str) -> None:
    assert [code for code, _ in findings(text, Changed())][:1] in (["missing-probe"], ["unknown-field"], ["no-module"])


def test_a_kernel_without_type_information_is_said_to_have_none() -> None:
    class Bare(FakeWorld):
        def find_struct(self, name: str, union: bool = False) -> Struct | None:
            return None

    assert "has no type information (BTF)" in message("begin { print(((struct sk_buff *)0).len); }", Bare())
    assert "(BTF)" in message("iter:task { }", Bare())
    assert "(BTF)" not in message("begin { print(((struct sk_buf *)0).len); }", FakeWorld())


@pytest.mark.parametrize("type", ["ringbuf", "array"])
def test_a_kernel_that_is_too_old_is_said_to_be(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 5.8 there was no ring buffer, before 5.5 no array that can be mapped: the kernel says EINVAL."""
    def refuse(*_: object) -> None:
        raise SyscallError("bpf(MAP_CREATE)", errno.EINVAL)

    monkeypatch.setattr(syscalls, "map_create", refuse)
    with pytest.raises(MachineError, match="no BPF ring buffer") as caught:
        create_map(MapSpec("@x", type, 4, 8, 1, memory=type == "array"), 2)
    assert "Linux 5.8" in caught.value.hints[0]
    with pytest.raises(SyscallError):
        create_map(MapSpec("@x", "hash", 4, 8, 1), 2)


def test_without_a_list_of_functions() -> None:
    """tracefs is not mounted: a function that is named is looked for in type information; a pattern needs the list."""
    class Unlisted(Both):
        def kernel_functions(self) -> list[tuple[str, str]]:
            raise MachineError("tracefs is not mounted")

        def is_function_traceable(self, name: str) -> bool:
            return False

    for text in ("kprobe:vfs_read", "fexit:vfs_read", "kprobe:vfs_read+4"):
        assert [a.event for a in attached(text + " { }", Unlisted())] == ["vfs_read"]
    with pytest.raises(MachineError, match="tracefs is not mounted"):
        attached("kprobe:vfs_* { }", Unlisted())


@pytest.mark.parametrize("name", [
    "kprobe:vfs_raed", "fentry:tcp_conect", "tracepoint:sched:sched_swich", "rawtracepoint:sched_swich",
    "fentry:bpf:count_pakets", "uprobe:/bin/app:mian", "software:cpu-clok", "iter:taks"])
@pytest.mark.parametrize("world", [Both, FentryWorld, FakeWorld])
def test_asking_for_a_probe_looks_for_no_like_names(name: str, world: type[FakeWorld],
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would see them, and among a kernel's functions they take seconds to find."""
    def refuse(*_: object) -> list[str]:
        raise AssertionError

    monkeypatch.setattr(finder, "nearest_names", refuse)
    assert not check_text(f'begin /exists("{name}")/ {{ }} end {{ }}', world()).probes[1:]


def test_neither() -> None:
    assert "CONFIG_KPROBE_EVENTS" in message("kprobe:tcp_connect { }", FakeWorld())
    assert "has no fentry" in message("fentry:tcp_connect { }", FakeWorld())
    assert "tracepoint:sock:inet_sock_set_state" in message("fentry:tcp_connect { }", FakeWorld())


@pytest.mark.parametrize(("arch", "release", "why"), [
    ("aarch64", "6.1.0-50", "this kernel (6.1.0-50) has no fentry (Linux 6.4)\n"),
    ("x86_64", "6.1.0-50", "this kernel (6.1.0-50) has no fentry\n"),
    ("aarch64", "6.12.1", "this kernel (6.12.1) has no fentry\n")])
def test_what_is_too_old_for_fentry(arch: str, release: str, why: str) -> None:
    world = FakeWorld()
    world.arch, world.release = arch, release
    assert why in message("fexit:tcp_connect { print(args.sk); }", world)


def test_functions_of_bpf_programs() -> None:
    [point] = attached("fexit:bpf:count_packets { @ = retval; @d = args.sk->sk_rcvbuf; }", FentryWorld())
    assert (point.name, point.target, point.detail.module) == ("fexit:bpf:12:count_packets", "bpf:12", "bpf:12")
    assert [a.name for a in attached("fentry:bpf:12:count_* { }", FentryWorld())] == ["fentry:bpf:12:count_packets"]
    assert [a.name for a in attached("fentry:bpf:12:* { }", FentryWorld())] == ["fentry:bpf:12:count_packets",
                                                                             "fentry:bpf:12:checksum"]


def test_types_of_bpf_programs() -> None:
    """A type stands for the functions that the kernel calls, whose arguments have numbers as they may bear any name."""
    [point] = attached("fexit:bpf:xdp:* /arg0 != 0/ { @ = retval; }", FentryWorld())
    assert point.name == "fexit:bpf:12:count_packets"
    for type, there in (("xdp", 1), ("x*", 1), ("sched_cls", 0), ("lsm", 0)):
        checked = check_text(f'fentry:tcp_connect /exists("fexit:bpf:{type}:*")/ {{ }} begin {{ }}', FentryWorld())
        assert len(checked.probes) == 1 + there
    assert "arg0 builtin can only be used" in message("fexit:tcp_connect { @ = arg0; }", FentryWorld())


def test_a_pattern_says_which_bpf_programs_it_leaves_out() -> None:
    checked = check_text("fentry:bpf:*:* { } fexit:bpf:*:* { }", FentryWorld())
    said = [(found.message, found.hints[0]) for found in checked.diagnostics.items]
    assert said == [("left out, since the kernel attaches to no such program: bare (13)",
                     "program 13 was loaded without function information (BTF)")]


@pytest.mark.parametrize(("text", "why"), [
    ("fentry:bpf:count_pakets { }", "did you mean fentry:bpf:count_packets"),
    ("fentry:bpf:13:count_packets { }", "program 12 has it: fentry:bpf:12:count_packets"),
    ("fentry:bpf:bare { }", "without function information"),
    ("fentry:bpf:sched_cls:* { }", "without function information"),
    ("fentry:bpf:lsm:* { }", "no loaded BPF program has such a function"),
    ("fentry:bpf:a:b:c { }", "fentry:bpf:[id:]function"),
    ("fentry:bpf:a:b:c { }", "a type of program may stand for the id"),
])
def test_why_not_that_bpf_program(text: str, why: str) -> None:
    assert why in message(text, FentryWorld())
    assert "has no fentry" in message("fentry:bpf:count_packets { }", KprobeWorld())


def test_a_stand_in_that_is_refused_is_not_chosen_again() -> None:
    text = "kprobe:vfs_read { } kretprobe:tcp_close { }"
    assert [(a.way, a.reason) for a in attached(text, Both())] == [("fentry", "cheap"), ("fexit", "exact")]
    first: Any = mask_refusals(Both(), ["vfs_read"])
    assert [a.way for a in attached(text, first)] == ["", "fexit"]
    both: Any = mask_refusals(first, ["tcp_close"])
    assert [a.way for a in attached(text, both)] == ["", ""]
    assert [a.kind for a in attached("fentry:vfs_read { }", first)] == ["fentry"]  # what is asked for is tried


@pytest.mark.parametrize("policy", ["error", "warn", "ignore"])
def test_what_the_kernel_refuses_to_attach(policy: str) -> None:
    refused = AttachError("no room", "kprobe:vfs_read", errno.E2BIG)
    attachments = Attachments(Config(missing_probes=policy))
    no_loader: Any = None
    by_choice, = attached("kprobe:vfs_read { }", Both())
    attachments.miss(refused, by_choice)
    with pytest.raises(StandInError) as caught:
        attachments.attach_all([], no_loader, False, lambda: None)
    assert caught.value.functions == ["vfs_read"] and caught.value.errno == errno.E2BIG and not attachments.warnings
    as_asked, only_way = attached("fentry:vfs_read { }", Both()) + attached("kprobe:vfs_read { }", FentryWorld())
    for point in (as_asked, only_way):  # there is no other way
        if policy == "error":
            with pytest.raises(AttachError) as plain:
                attachments.miss(refused, point)
            assert plain.value is refused
        else:
            attachments.miss(refused, point)
    if policy != "error":
        with pytest.raises(AttachError, match="Attachment failed for all probes") as none:
            attachments.require_any()
        assert none.value.errno == errno.E2BIG and none.value.hints == ["no room"] * (len(attachments.warnings) or 1)


def test_a_trace_goes_on_with_what_the_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    closed: list[object] = []

    class Kernel:
        """A session whose kernel has no room at vfs_read."""

        process: object = None
        tell: object = str

        def __init__(self, trace: Trace) -> None:
            self.spec = trace.spec

        def load(self) -> None:
            pass

        def attach(self) -> None:
            points = [point for program in self.spec.programs for point in program.attach]
            seen.append([point.method for point in points])
            for point in points:
                if point.reason and point.event == "vfs_read":
                    raise StandInError(AttachError("no room", point.name, errno.E2BIG), [point.event])

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr(Trace, "_new_session", lambda trace, ring=None: Kernel(trace))
    monkeypatch.setattr(Trace, "_bind_session", lambda trace: None)
    trace = Trace("kprobe:vfs_read { @ = count(); } kretprobe:tcp_close { @ = count(); }", world=Both())
    first = trace.spec
    trace.attach()
    assert seen == [["fentry", "fexit"], ["kprobe", "fexit"]] and len(closed) == 1
    assert [site.kind for site in first.sites] == [site.kind for site in trace.spec.sites]


class SystemCalls(KprobeWorld):
    """Functions of system calls: ftrace lists one of the names that an address has."""

    ADDRESSES = {"__x64_sys_getppid": 0x100, "__do_sys_getppid": 0x100, "__se_sys_getppid": 0x100,
                 "__ia32_sys_getppid": 0x100, "__x64_sys_read": 0x200, "__do_sys_read": 0x300, "__x64_sys_pread": 0x400}

    def kernel_functions(self) -> list[tuple[str, str]]:
        return [("vmlinux", name) for name in ("__do_sys_getppid", "__x64_sys_read", "__x64_sys_pread", "vfs_read")]

    def kernel_symbol(self, name: str) -> int | None:
        return self.ADDRESSES.get(name)


@pytest.mark.parametrize("name", ["__x64_sys_getppid", "__se_sys_getppid", "__ia32_sys_getppid", "__do_sys_getppid"])
def test_another_name_of_a_system_calls_function(name: str) -> None:
    for kind in ("kprobe", "kretprobe"):
        assert [a.event for a in attached(f"{kind}:{name} {{ }}", SystemCalls())] == ["__do_sys_getppid"]


@pytest.mark.parametrize(("name", "meant"), [
    ("sys_getppid", "__do_sys_getppid"), ("sys_read", "__x64_sys_read"), ("__do_sys_read", "__x64_sys_read")])
def test_a_name_that_is_no_address_of_its_own(name: str, meant: str) -> None:
    """Of another address, or none: not the same function, but perhaps the one that is meant."""
    assert f"the system call's function is kprobe:{meant}" in message(f"kprobe:{name} {{ }}", SystemCalls())
