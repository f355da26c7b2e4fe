"""Reading what a kernel says, from texts and files made here: no root, nothing of this machine."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
import zlib
from pathlib import Path

import pytest

from recorded_world import RecordedWorld, load_world
from sonde.arch.syscalls import syscall_names, syscall_number, syscall_numbers
from sonde.btf.codec import Writer
from sonde.errors import MachineError
from sonde.kernel import host, procfs
from sonde.kernel.features import ROWS, TABLE, Features
from sonde.kernel.foreign.ld_cache import parse_ld_cache as parse_loader_cache
from sonde.kernel.names import binaries, symbols, told_symbols
from sonde.kernel.types import tracefs
from sonde.kernel.types.btf_world import BtfWorld
from sonde.kernel.types.kernel_types import parse_c_integer
from sonde.types import (
    BOOL,
    INT8,
    INT32,
    INT64,
    KERNEL,
    UINT8,
    UINT16,
    UINT64,
    USER,
    VOID,
    Array,
    Enum,
    Int,
    Pointer,
    Str,
    Type,
)

WORLD = str(Path(__file__).parents[1] / "world.json.z")


@pytest.fixture(scope="module")
def world() -> RecordedWorld:
    return RecordedWorld(WORLD)


# ---- tracepoint formats

HEAD = "name: x\nID: 42\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"


def field(declaration: str, size: int, signed: int, world: RecordedWorld, category: str = "c") -> tuple[Type, bool]:
    text = f"{HEAD}\tfield:{declaration};\toffset:16;\tsize:{size};\tsigned:{signed};\n\nprint fmt: \"field:\"\n"
    found = tracefs.parse_format(text, category, "e", world)
    assert (found.id, len(found.args.fields), found.args.fields[0].offset) == (42, 1, 16)
    assert found.args.size == 16 + size
    return found.args.fields[0].type, found.args.fields[0].data_loc


@pytest.mark.parametrize(("declaration", "size", "signed", "expected"), [
    ("int x", 4, 1, INT32), ("pid_t x", 4, 1, INT32), ("unsigned short x", 2, 0, UINT16), ("long x", 8, 1, INT64),
    ("xfs_ino_t x", 8, 0, UINT64), ("bool x", 1, 0, BOOL), ("char x", 1, 0, Int(8, False)),
    ("char x[16]", 16, 0, Str(16)), ("const char x[8]", 8, 0, Str(8)), ("__u8 x[4]", 4, 0, Array(UINT8, 4)),
    ("unsigned long x[3]", 24, 0, Array(UINT64, 3)), ("u8 x[]", 0, 0, Array(UINT8, 0)),
    ("void * x", 8, 0, Pointer(VOID, KERNEL)), ("const char * x", 8, 0, Pointer(UINT8, KERNEL)),
    ("const void *x", 8, 0, Pointer(VOID, KERNEL)), ("int * x", 8, 0, Pointer(INT32, KERNEL)),
    ("const char *const * x", 8, 0, Pointer(Pointer(UINT8, KERNEL), KERNEL)),
    ("char __user * x", 8, 0, Pointer(UINT8, USER)), ("guid_t x", 16, 0, Array(UINT8, 16)),
])
def test_field_types(declaration: str, size: int, signed: int, expected: Type, world: RecordedWorld) -> None:
    assert field(declaration, size, signed, world) == (expected, False)


def test_fields_of_named_types(world: RecordedWorld) -> None:
    sock = field("struct sock * sk", 8, 0, world)[0]
    assert isinstance(sock, Pointer) and sock.to == world.find_struct("sock") and sock.space == KERNEL
    reason = field("enum skb_drop_reason r", 4, 0, world)[0]
    assert isinstance(reason, Enum) and "SKB_DROP_REASON_NO_SOCKET" in reason.names.values()
    narrow = field("enum skb_drop_reason r", 1, 0, world)[0]
    assert isinstance(narrow, Enum) and narrow.size == 1
    assert field("enum unknown r", 4, 0, world)[0] == Int(32, False)


def test_dynamic_fields(world: RecordedWorld) -> None:
    assert field("__data_loc char[] name", 4, 0, world) == (Str(0), True)
    assert field("__data_loc u64[] list", 4, 0, world) == (Array(UINT64, 0), True)
    assert field("__data_loc cpumask_t mask", 4, 0, world)[1]


def test_system_call_arguments_have_their_declared_types(world: RecordedWorld) -> None:
    assert field("int fd", 8, 0, world, "syscalls")[0] == INT32
    assert field("umode_t mode", 8, 0, world, "syscalls")[0] == UINT16
    assert field("const char * filename", 8, 0, world, "syscalls")[0] == Pointer(UINT8, USER)
    address = field("struct sockaddr * a", 8, 0, world, "syscalls")[0]
    assert isinstance(address, Pointer) and address.to == world.find_struct("sockaddr") and address.space == USER
    assert field("long ret", 8, 1, world, "syscalls")[0] == INT64


@pytest.mark.parametrize("line", ["\tfield:int x;\toffset:q;\tsize:4;\tsigned:1;", "\tfield:int x;\tsize:4;"])
def test_damaged_format(line: str, world: RecordedWorld) -> None:
    with pytest.raises(MachineError):
        tracefs.parse_format(HEAD + line + "\n", "c", "e", world)


def test_declarations_are_kept_for_listing() -> None:
    text = HEAD + "\tfield:const char * name;\toffset:8;\tsize:8;\tsigned:0;\n"
    assert [f.declaration for f in tracefs.parse_fields(text)] == ["const char * name"]


@pytest.mark.parametrize("name", ["../../etc", "", ".", "a/b"])
def test_event_names_are_no_paths(name: str, tmp_path: Path) -> None:
    assert tracefs.read_format(str(tmp_path), name, "passwd") is None
    assert tracefs.read_format(str(tmp_path), "sched", name) is None


# ---- the machine

@pytest.mark.parametrize(("text", "cpus"), [("0\n", [0]), ("0-3\n", [0, 1, 2, 3]), ("0-1,4,6-7", [0, 1, 4, 6, 7]),
                                            ("", [])])
def test_cpu_list(text: str, cpus: list[int]) -> None:
    assert host.parse_cpu_list(text) == cpus


@pytest.mark.parametrize(("name", "arch", "number"), [
    ("read", "x86_64", 0), ("openat", "x86_64", 257), ("newfstatat", "x86_64", 262), ("newstat", "x86_64", 4),
    ("pidfd_send_signal", "x86_64", 424), ("mseal", "x86_64", 462), ("uretprobe", "x86_64", 335),
    ("io_setup", "aarch64", 0), ("openat", "aarch64", 56), ("getppid", "aarch64", 173), ("mseal", "aarch64", 462),
    ("newuname", "aarch64", 160), ("open", "aarch64", None), ("openat", "riscv64", 56),
    ("riscv_hwprobe", "riscv64", 258),
    ("umount", "s390x", 52), ("oldumount", "s390x", 22), ("newfstat", "s390x", 108), ("bpf", "s390x", 351),
    ("nosuch", "x86_64", None), ("read", "sparc", None)])
def test_syscall_numbers(name: str, arch: str, number: int | None) -> None:
    assert syscall_number(name, arch) == number


def test_syscall_names() -> None:
    assert syscall_names("x86_64")[257] == "openat"
    for arch in ("x86_64", "aarch64", "riscv64", "s390x"):
        assert len(syscall_numbers(arch)) == len(set(syscall_numbers(arch).values())) > 300


def test_boot_to_wall() -> None:
    for clock in ("boot", "monotonic", "tai"):
        offset = host.wall_clock_offset(clock)
        known = {"boot": time.CLOCK_BOOTTIME, "monotonic": time.CLOCK_MONOTONIC, "tai": time.CLOCK_TAI}[clock]
        assert abs(time.clock_gettime_ns(known) + offset - time.time_ns()) < 50_000_000


def test_user_names() -> None:
    assert procfs.user_name(0) == "root" and procfs.user_name(1 << 30) == str(1 << 30)


@pytest.mark.parametrize(("text", "expected"), [
    ("unsigned long", UINT64), ("long unsigned int", UINT64), ("unsigned", Int(32, False)), ("char", INT8),
    ("unsigned char", UINT8), ("short int", Int(16)), ("long long", INT64), ("_Bool", BOOL),
    ("task_t", None), ("", None)])
def test_c_integers(text: str, expected: Type | None) -> None:
    assert parse_c_integer(text.split()) == expected


# ---- libraries

def ld_cache(entries: list[tuple[int, str, str, int]], prefix: bytes = b"") -> bytes:
    """An /etc/ld.so.cache of (flags, soname, path, hwcap)."""
    strings, rows = b"", b""
    start = 48 + 24 * len(entries)
    for flags, soname, path, hwcap in entries:
        rows += struct.pack("=iIIIQ", flags, start + len(strings), start + len(strings) + len(soname) + 1, 0, hwcap)
        strings += f"{soname}\0{path}\0".encode()
    head = struct.pack("=20sIIB3xI12x", b"glibc-ld.so.cache1.1", len(entries), len(strings), 0, 0)
    return prefix + head + rows + strings


ENTRIES = [(0x0303, "libc.so.6", "/lib64/libc.so.6", 0), (3, "libc.so.6", "/lib32/libc.so.6", 0),
           (0x0303, "libz.so.1", "/v3/libz.so.1", 1 << 62), (0x0303, "libz.so.1", "/lib/libz.so.1", 0)]


@pytest.mark.parametrize("prefix", [b"", b"ld.so-1.7.0\0" + bytes(60)])
def test_ld_cache(prefix: bytes) -> None:
    found = parse_loader_cache(ld_cache(ENTRIES, prefix), "x86_64")
    assert found == {"libc.so.6": "/lib64/libc.so.6", "libz.so.1": "/lib/libz.so.1"}


@pytest.mark.parametrize("cut", [0, 10, 30, 60, 100])
def test_damaged_ld_cache(cut: int) -> None:
    parse_loader_cache(ld_cache(ENTRIES)[:cut], "x86_64")


@pytest.mark.parametrize("name", ["c", "libc", "libc.so", "libc.so.6"])
def test_library_names(name: str) -> None:
    assert binaries._matching_sonames(["libcrypt.so.1", "libc.so.6", "libc++.so.1", "libcap.so.2"],
                                      name) == ["libc.so.6"]


def test_library_versions() -> None:
    assert binaries._matching_sonames(["libssl.so.1.1", "libssl.so.3", "libssl.so.10"], "ssl") == [
        "libssl.so.10", "libssl.so.3", "libssl.so.1.1"]
    assert binaries._matching_sonames(["libssl.so.3", "libssl.so"], "ssl")[0] == "libssl.so"
    assert binaries._matching_sonames(["libc-2.31.so", "libc.so.6"], "c") == ["libc.so.6", "libc-2.31.so"]


def test_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tool", "libown.so.2", "libown.so.10"):
        (tmp_path / name).write_bytes(b"\x7fELF")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "script").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    tool = str(tmp_path / "tool")
    for pattern in ("tool", tool, f"{tmp_path}/to?l"):
        assert binaries.find_binaries(pattern) == [tool]
    assert binaries.find_binaries("./tool") == binaries.find_binaries("./t*") == ["./tool"]  # as it was written
    assert binaries.find_binaries("own") == binaries.find_binaries("libown") == [str(tmp_path / "libown.so.10")]
    assert binaries.find_binaries("libown.so.2") == [str(tmp_path / "libown.so.2")]
    assert binaries.find_binaries("tool", os.getpid()) == [tool]
    with pytest.warns(RuntimeWarning, match="has not mapped ./tool"):
        assert binaries.find_binaries("./tool", os.getpid()) == ["./tool"]
    for name in ("script", "./script", "nosuch", "./nosuch", "/nosuch/x", "./nosuch*", str(tmp_path)):
        assert binaries.find_binaries(name) == []


def test_programs_that_run(tmp_path: Path) -> None:
    """Each file once, by its path; of a process its own; by way of a process where the path leads to another file."""
    own, copy = os.path.realpath("/proc/self/exe"), tmp_path / "sleep"
    shutil.copy(str(shutil.which("sleep")), copy)
    with subprocess.Popen([copy, "60"]) as first, subprocess.Popen([copy, "60"]) as second:
        try:
            paths = binaries.find_binaries("/proc/*/exe")
            assert paths.count(own) == paths.count(str(copy)) == 1
            assert binaries.find_binaries("/proc/*/exe", first.pid)[0].endswith(str(copy))
            copy.unlink()
            links = {f"/proc/{process.pid}/exe" for process in (first, second)}
            assert len(links & set(binaries.find_binaries("/proc/*/exe"))) == 1
        finally:
            first.kill()
            second.kill()


# ---- symbols

KALLSYMS = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T startup
ffffffff81000100 t helper.isra.0
ffffffff81000200 T last
ffffffffc0000000 t mod_init\t[mod]
ffffffffc0000080 t mod_work\t[mod]
ffffffffa0000000 t bpf_prog_1234_x\t[bpf]
"""


@pytest.fixture
def kernel_symbols(tmp_path: Path) -> symbols.KernelSymbols:
    (tmp_path / "kallsyms").write_text(KALLSYMS)
    return symbols.KernelSymbols(str(tmp_path / "kallsyms"))


@pytest.mark.parametrize(("address", "name", "offset", "module"), [
    (0xffffffff81000000, "_text", 0, ""), (0xffffffff810001ff, "helper.isra.0", 0xff, ""),
    (0xffffffffc0000081, "mod_work", 1, "mod"), (0xffffffffa0000010, "bpf_prog_1234_x", 16, "bpf")])
def test_kernel_symbol(kernel_symbols: symbols.KernelSymbols, address: int, name: str, offset: int,
                       module: str) -> None:
    assert kernel_symbols.lookup(address) == symbols.KernelSymbol(name, offset, module)


@pytest.mark.parametrize(("text", "symbol"), [
    ("do_x+0x1f/0x80", ("do_x", 0x1f, "")), ("mod_work+0x0/0x10 [mod]", ("mod_work", 0, "mod")),
    ("f.isra.0+0x2/0x4 [mod 0123abcd]", ("f.isra.0", 2, "mod")), ("0xffffffff81000000", None), ("", None),
    ("bpf_prog_0123456789abcdef_x+0x1/0x2", ("bpf_prog_0123456789abcdef_x", 1, "bpf")),
    ("bpf_prog_0123456789abcdef+0x1/0x2", ("bpf_prog_0123456789abcdef", 1, "bpf")),
    ("bpf_prog_run_array+0x1/0x2", ("bpf_prog_run_array", 1, "")),
    ("bpf_trampoline_6442+0x1/0x2", ("bpf_trampoline_6442", 1, "bpf")),
    ("bpf_trampoline_link_prog+0x1/0x2", ("bpf_trampoline_link_prog", 1, ""))])
def test_what_the_kernel_tells_of_an_address(text: str, symbol: tuple[str, int, str] | None) -> None:
    assert told_symbols.read_symbol(text) == symbol


def test_every_address_has_the_symbol_that_is_next_below(tmp_path: Path) -> None:
    """Compared with a search through all lines; several names of one address, modules between and out of order."""
    own = [(0xffffffff81000000 + at * 16, f"own_{at}_{again}", "") for at in range(0, 90, 3)
           for again in range(1 + at % 2)]
    others = [(0xffffffff81000000 + at * 16 + 8, f"other_{at}", "[mod]") for at in (80, 5, 5, 300, 41)]
    (tmp_path / "kallsyms").write_text("".join(
        f"{address:016x} t {name}{module and chr(9)}{module}\n" for address, name, module in own + others))
    read = symbols.KernelSymbols(str(tmp_path / "kallsyms"))
    for address in range(0xffffffff80fffff0, 0xffffffff81000000 + 320 * 16, 4):
        below = [symbol for symbol in own + others if symbol[0] <= address]
        best = max(below, key=lambda symbol: symbol[0]) if below else None  # the first of several
        assert read.lookup(address) == (best and symbols.KernelSymbol(best[1], address - best[0],
                                                                      best[2].strip("[]"))), hex(address)


def test_names_of_this_kernel() -> None:
    """The lines are in order, as the search takes them to be."""
    read = symbols.KernelSymbols()
    if read.restricted:
        pytest.skip("kernel lacks readable addresses in /proc/kallsyms")
    text = Path("/proc/kallsyms").read_text()
    addresses = [int(line[:16], 16) for line in text.splitlines() if "\t[" not in line]
    assert addresses == sorted(addresses)


@pytest.mark.parametrize("address", [0, 5, 0x7fff00000000, 0xffffffff90000000])
def test_no_kernel_symbol(kernel_symbols: symbols.KernelSymbols, address: int) -> None:
    assert kernel_symbols.lookup(address) is None


def test_kernel_address(kernel_symbols: symbols.KernelSymbols) -> None:
    assert kernel_symbols.symbol_address("last") == 0xffffffff81000200
    assert kernel_symbols.symbol_address("mod_init") == 0xffffffffc0000000
    assert kernel_symbols.symbol_address("ast") is None and kernel_symbols.symbol_address("") is None


@pytest.mark.parametrize("text", ["", "0000000000000000 T _text\n0000000000000000 T startup\n"])
def test_hidden_addresses(text: str, tmp_path: Path) -> None:
    (tmp_path / "kallsyms").write_text(text)
    hidden = symbols.KernelSymbols(str(tmp_path / "kallsyms"))
    assert hidden.restricted and hidden.lookup(0xffffffff81000000) is None and hidden.symbol_address("_text") is None
    assert symbols.KernelSymbols(str(tmp_path / "none")).restricted


def test_traceable_functions(tmp_path: Path) -> None:
    assert symbols.traceable_functions(str(tmp_path)) == []
    (tmp_path / "available_filter_functions").write_text("vfs_read\nmod_work [mod]\n__ftrace_invalid_address___12\n")
    assert symbols.traceable_functions(str(tmp_path)) == [("vmlinux", "vfs_read"), ("mod", "mod_work")]


# ---- worlds from files

def test_recorded_world(world: RecordedWorld) -> None:
    task = world.find_struct("task_struct")
    assert task and task.btf_id and task.field("comm") is not None
    assert world.find_struct("nosuch") is None
    assert world.named_type("u64") == UINT64 and world.named_type("enum pid_type") is not None
    assert world.named_type("struct task_struct") is task and world.named_type("nosuch") is None
    listen = world.enum_constant("TCP_LISTEN")
    assert listen and listen[0] == 10
    assert ("sched", "sched_switch") in world.tracepoints()
    assert world.tracepoint_format("sched", "nosuch") is None
    assert ("vmlinux", "sched_switch") in world.raw_tracepoints()
    switch = world.raw_tracepoint_args("sched_switch")
    assert switch and [f.name for f in switch.fields][:3] == ["preempt", "prev", "next"]
    assert [f.offset for f in switch.fields] == [8 * i for i in range(len(switch.fields))]
    assert world.raw_tracepoint_args("nosuch") is None
    assert world.syscall_number("openat") == 257
    assert world.kfunc_id("bpf_rdonly_cast") and not world.kfunc_id("nosuch")
    assert world.kernel_symbol("schedule") and world.kernel_symbol("nosuch") is None
    assert "task_struct" in world.struct_names()


def test_recorded_features(world: RecordedWorld) -> None:
    assert world.has_feature("ringbuf") and not world.has_feature("nosuch") and not world.has_feature("kprobes")
    assert world.kernel_functions() == []
    assert ("vmlinux", "vfs_read") in RecordedWorld(WORLD, {"kprobes": True}).kernel_functions()


def test_recorded_binaries(world: RecordedWorld) -> None:
    path = world.find_binaries("libc")[0]
    malloc = next(f for f in world.user_functions(path) if f.name == "malloc")
    assert world.user_object(path, "malloc") == (malloc.address, malloc.size)
    assert world.user_offset(path, malloc.address + 3) == malloc.offset + 3
    assert world.find_binaries("nosuch") == [] and world.user_functions("/nosuch") == []
    assert world.user_object(path, "nosuch") is None and world.user_offset(path, 1) is None


@pytest.mark.parametrize("data", [None, b"", b"x", zlib.compress(b"[]"), zlib.compress(b"{}")])
def test_no_recorded_world(data: bytes | None, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "w").write_bytes(data)
    with pytest.raises(MachineError):
        load_world(str(tmp_path / "w"))


def test_btf_world(world: RecordedWorld, tmp_path: Path) -> None:
    from binascii import a2b_base64

    path = tmp_path / "vmlinux.btf"
    path.write_bytes(a2b_base64(load_world(WORLD)["btf"]))
    other = BtfWorld(str(path), "x86_64")
    assert other.find_struct("task_struct") == world.find_struct("task_struct")
    assert other.has_feature("ringbuf") and not other.has_feature("nosuch")
    assert other.raw_tracepoint_args("sched_switch") is not None
    with pytest.raises(MachineError):
        BtfWorld(str(tmp_path / "none")).find_struct("x")


@pytest.mark.parametrize(("names", "arch", "has"), [
    (["__arm64_sys_getpid", "__arm64_compat_sys_ioctl"], "aarch64", {"compat_syscalls"}),
    (["__arm64_sys_getpid", "register_ftrace_direct"], "aarch64", {"fentry"}),
    (["__x64_sys_getpid", "__ia32_compat_sys_ioctl"], "x86_64", {"compat_syscalls"})])
def test_the_architecture_of_a_btf_file(names: list[str], arch: str, has: set[str], tmp_path: Path) -> None:
    """It is in the names of functions, as are what 32-bit processes need, and direct calls of ftrace."""
    btf = Writer()
    prototype = btf.add_prototype(btf.add_integer("int", 4), [])
    for name in names:
        btf.add_function(name, prototype)
    (tmp_path / "vmlinux").write_bytes(btf.build_blob())
    other = BtfWorld(str(tmp_path / "vmlinux"))
    assert other.arch == arch
    assert {name for name in ("compat_syscalls", "fentry") if other.has_feature(name)} == has


# ---- features

def test_feature_table() -> None:
    assert len(ROWS) == len(TABLE)
    assert all(row.text and row.name == row.name.lower() for row in TABLE)


def test_unknown_feature() -> None:
    with pytest.raises(KeyError):
        Features().check_feature("nosuch")


def test_features_without_btf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    features = Features()
    assert features.check_feature("bpf_loop") is None and not features.has("bpf_loop")
    assert features.check_feature("helper_loop") is None and not features.has("rdonly_cast_kprobe")
    assert features.check_feature("btf") in (True, False)
    assert "btf" in (next((tmp_path / "sonde").iterdir())).read_text()
    assert Features().check_feature("btf") == features.check_feature("btf")


def test_what_is_known_of_cgroups_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of cgroups that come and go, as whoever may make them can have any number of."""
    monkeypatch.setattr(procfs, "cgroup2_mount_point", lambda: str(tmp_path))
    monkeypatch.setattr(procfs, "_MOST_CGROUPS", 10_000)
    for name in range(40):
        (tmp_path / f"group{name}").mkdir()
    cgroups = procfs.Cgroups()
    for number in range(1 << 62, (1 << 62) + 200):
        assert cgroups.cgroup_paths(number) == []
        assert cgroups._known.size <= 10_000
    for name in range(40):
        folder = tmp_path / f"group{name}"
        assert cgroups.cgroup_paths(folder.stat().st_ino) == [("unified", f"/group{name}")]


def test_memory_is_what_the_control_groups_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.setattr(procfs, "cgroup2_mount_point", lambda: str(tmp_path))
    monkeypatch.setattr(procfs, "_own_cgroup2", lambda: "/outer/inner")
    whole = procfs.available_memory()
    assert whole == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    (inner / "memory.max").write_text("max\n")
    assert procfs.available_memory() == whole
    (tmp_path / "outer" / "memory.max").write_text("8192\n")
    assert procfs.available_memory() == 8192
    (inner / "memory.max").write_text("4096\n")
    assert procfs.available_memory() == 4096
    monkeypatch.setattr(procfs, "cgroup2_mount_point", lambda: None)
    assert procfs.available_memory() == whole
