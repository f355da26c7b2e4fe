"""What Sonde reads of the running kernel, against what other programs and interfaces say of it."""

from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.arch.syscalls import syscall_numbers
from sonde.btf import codec, ctext, index, query
from sonde.errors import MissingFeatureError, SyscallError
from sonde.kernel import features, host, procfs, syscalls
from sonde.kernel.features import Features
from sonde.kernel.foreign import elf, files
from sonde.kernel.info import info_rows
from sonde.kernel.names import binaries, symbols, told_symbols, user_symbols
from sonde.kernel.types import tracefs
from sonde.kernel.types.btf_world import BtfWorld
from sonde.kernel.types.listing import listing_lines
from sonde.kernel.types.world import LiveWorld
from sonde.types import Int, Pointer, Struct
from support import environment

VMLINUX = "/sys/kernel/btf/vmlinux"


def output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=True, errors="replace").stdout


@pytest.fixture(scope="module")
def world() -> LiveWorld:
    return LiveWorld()


@pytest.fixture(scope="module")
def btf() -> query.Btf:
    return query.open_kernel()


@pytest.fixture(scope="module")
def raw_dump() -> str:
    return output("bpftool", "btf", "dump", "file", VMLINUX, "format", "raw")


# ---- BTF

def test_all_struct_members(btf: query.Btf, raw_dump: str) -> None:
    """Every member of every struct and union: name, type, offset, bitfield size."""
    header = re.compile(r"\[(\d+)\] (?:STRUCT|UNION) '(.*)' size=(\d+) vlen=(\d+)$")
    member = re.compile(r"\t'(.*)' type_id=(\d+) bits_offset=(\d+)(?: bitfield_size=(\d+))?$")
    expected: dict[int, tuple[str, int, list[tuple[str, int, int, int]]]] = {}
    current: list[tuple[str, int, int, int]] = []
    for line in raw_dump.splitlines():
        if found := header.match(line):
            current = []
            expected[int(found[1])] = (found[2].replace("(anon)", ""), int(found[3]), current)
        elif found := member.match(line):
            current.append((found[1].replace("(anon)", ""), int(found[2]), int(found[3]), int(found[4] or 0)))
    assert len(expected) > 5000
    for number, (name, size, members) in expected.items():
        raw = btf.raw_type(number)
        assert (raw.name, raw.value, btf.members(raw)) == (name, size, members)


def test_every_type_converts(btf: query.Btf, raw_dump: str) -> None:
    assert btf.end - 1 == len(re.findall(r"^\[\d+\]", raw_dump, re.MULTILINE))
    for number in range(1, btf.end):
        kind = btf.convert_type(number)
        if isinstance(kind, Struct):
            for field in kind.fields:
                assert field.offset + (0 if field.bit_size else field.type.size) <= max(kind.size, field.offset)
                assert field.bit_offset + field.bit_size <= field.type.size * 8 or not field.bit_size


@pytest.mark.parametrize("name", ["qstr", "path", "list_head", "sock_common", "iphdr", "tcphdr", "dentry", "msghdr"])
def test_definitions(name: str, btf: query.Btf) -> None:
    dump = output("bpftool", "btf", "dump", "file", VMLINUX, "format", "c")
    found = re.search(rf"^struct {name} {{\n.*?^}}.*?;$", dump, re.MULTILINE | re.DOTALL)
    assert found and ctext.format_definition(btf, btf.find_id(name, codec.STRUCT)) == found[0]


def test_most_definitions(btf: query.Btf) -> None:
    """All of them; the ones that differ do so in how holes are shown, and are few."""
    dump = output("bpftool", "btf", "dump", "file", VMLINUX, "format", "c")
    found = re.findall(r"^((struct|union) (\w+) {\n.*?^}.*?;)$", dump, re.MULTILINE | re.DOTALL)
    kinds = {"struct": codec.STRUCT, "union": codec.UNION}
    known = [(text, number) for text, tag, name in found if (number := btf.find_id(name, kinds[tag]))]
    same = [ctext.format_definition(btf, number) == text for text, number in known]
    assert len(same) > 5000 and sum(same) > 0.97 * len(same)


def test_second_start_does_not_walk(btf: query.Btf, monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(*args: object, **more: object) -> index.TypeIndex:
        raise AssertionError("walked")

    monkeypatch.setattr(index, "build_index", walk)
    task = query.open_kernel().find_struct("task_struct")
    assert task and task.field("comm")


def test_memory_of_a_first_start(tmp_path: Path) -> None:
    """Building the index must fit into what all of Sonde may use, 35 MiB (a bare Python has some 11)."""
    code = ("from sonde.kernel.types.world import LiveWorld\nassert LiveWorld().find_struct('sock').fields\n"
            "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])")
    done = subprocess.run([sys.executable, "-c", code], env=environment({"XDG_CACHE_HOME": str(tmp_path)}),
                          capture_output=True, text=True, check=True)
    assert int(done.stdout) < 35 * 1024
    assert next((tmp_path / "sonde").iterdir()).name.startswith("btf-")


def load(code: bytes, name: str, lines: list[codec.Line], log: bytearray | None = None) -> None:
    blob, functions, line_info = codec.build_program_btf(name, lines)
    with syscalls.btf_load(blob) as described:
        syscalls.prog_load(17, code, name, btf=described, func_info=functions, line_info=line_info, log=log,
                           log_level=1).close()


RETURN_0 = bytes.fromhex("b700000000000000" "9500000000000000")


def test_program_btf_is_accepted() -> None:
    load(RETURN_0, "named", [(0, "a.bt", "BEGIN { }", 1, 1), (1, "a.bt", "exit", 1, 3)])


def test_verifier_quotes_the_script() -> None:
    log = bytearray(65536)
    with pytest.raises(SyscallError):
        load(bytes.fromhex("79a0000000000000") * 1 + RETURN_0[8:], "bad", [(0, "a.bt", "the guilty line", 7, 1)], log)
    assert b"the guilty line" in log


# ---- tracepoints

def test_formats_parse(world: LiveWorld) -> None:
    events = world.tracepoints()
    assert len(events) > 500
    for category, event in events:
        found = world.tracepoint_format(category, event)
        assert found and found.id > 0
        for field in found.args.fields:
            size = 4 if field.data_loc else field.type.size
            assert field.offset + size <= found.args.size, f"{category}:{event}.{field.name}"


def test_formats_against_btf(world: LiveWorld) -> None:
    """Where an event has a BTF record of its own name, names, places and sizes agree."""
    checked = 0
    for category, event in world.tracepoints():
        record = world.find_struct(f"trace_event_raw_{event}") if category not in ("syscalls", "raw_syscalls") else None
        found = world.tracepoint_format(category, event)
        if record is None or found is None:
            continue
        places = {f.name.removeprefix("__data_loc_"): (f.offset, f.type.size) for f in record.fields}
        own = {f.name: (f.offset, 4 if f.data_loc else f.type.size) for f in found.args.fields}
        if own.keys() <= places.keys():  # else another header has an event of the same name
            checked += 1
            assert own == {name: places[name] for name in own}, f"{category}:{event}"
    assert checked > 300


def test_every_system_call_has_a_number(world: LiveWorld) -> None:
    for name in [event for category, event in tracefs.available_events(world.tracefs) if category == "syscalls"]:
        assert world.syscall_number(name.split("_", 2)[2]) is not None, name


def test_own_system_calls_have_the_right_numbers() -> None:
    """The numbers against the C library's header, as far as that goes."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    macros = subprocess.run(["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"], text=True,
                            capture_output=True, check=True).stdout
    known = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", macros)}
    for bound in ("syscalls", "arch_specific_syscall"):  # no calls: their numbers' ends, in the generic header
        known.pop(bound, None)
    own = syscall_numbers(os.uname().machine)
    assert len(known) > 200 and {name: own.get(name) for name in known} == known


def test_raw_tracepoints(world: LiveWorld) -> None:
    """Each raw tracepoint has as many arguments as its type says, with the names of the kernel's source."""
    assert world.btf
    found = world.raw_tracepoints()
    assert len(found) > 300
    for module, event in found:
        args = world.raw_tracepoint_args(event)
        owner = world.btf if module == "vmlinux" else world.modules[module]
        assert args and len(args.fields) == len(owner.function_params(owner.find_id(f"btf_trace_{event}",
                                                                                    codec.TYPEDEF))) - 1
    switch = world.raw_tracepoint_args("sched_switch")
    assert switch and switch.fields[1].name == "prev" and isinstance(switch.fields[1].type, Pointer)
    assert switch.fields[1].type.to is world.find_struct("task_struct")


def test_a_missing_tracefs_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracefs, "TRACEFS_MOUNTS", ("/nosuch/tracing",))
    with pytest.raises(MissingFeatureError, match="tracefs is not mounted"):
        tracefs.find_tracefs()


def test_btf_world_agrees(world: LiveWorld) -> None:
    other = BtfWorld(VMLINUX)
    calls = [{pair for pair in each.tracepoints() if pair[0] == "syscalls"} for each in (world, other)]
    assert calls[0] == calls[1] != set()
    same = []
    for category, event in random.Random(1).sample(world.tracepoints(), 120):
        live, guessed = world.tracepoint_format(category, event), other.tracepoint_format(category, event)
        if live and guessed:
            of_live, of_guessed = ([(f.name, f.offset) for f in each.args.fields] for each in (live, guessed))
            same.append(of_live == of_guessed)
    if os.listdir("/sys/kernel/btf") == ["vmlinux"]:  # before Linux 5.11 modules tell no types
        assert len(same) > 40 and sum(same) > 0.85 * len(same)
    else:
        assert sum(same) > 90


# ---- features

def test_features_agree_with_the_machine(world: LiveWorld) -> None:
    assert world.has_feature("btf")
    assert world.has_feature("kprobes") == os.path.exists("/sys/bus/event_source/devices/kprobe")
    if not world.has_feature("kprobes"):
        assert not world.has_feature("kprobe_multi") and world.kernel_functions() == []
    assert not world.has_feature("nosuch")
    assert world.has_feature("helper_get_current_pid_tgid") and not world.has_feature("helper_nosuch")


def test_features_are_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, btf: query.Btf) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = Features(btf)
    answers = {row.name: first.check_feature(row.name) for row in features.TABLE}
    assert None not in answers.values()

    def refuse(*args: object, **more: object) -> syscalls.Fd:
        raise AssertionError("tried again")

    monkeypatch.setattr(syscalls, "prog_load", refuse)
    second = Features(btf)
    assert {row.name: second.check_feature(row.name) for row in features.TABLE} == answers


def test_helpers_against_bpftool(world: LiveWorld) -> None:
    probed = output("bpftool", "feature", "probe", "kernel")
    for name in ("bpf_loop", "bpf_for_each_map_elem", "bpf_get_attach_cookie"):
        assert world.has_feature("helper_" + name.removeprefix("bpf_")) == (f"- {name}\n" in probed)


def test_info(world: LiveWorld) -> None:
    rows = info_rows(world.features, "1.2.3")
    assert ("Build", "version", "v1.2.3") in rows
    assert ("Kernel features", "btf", "yes") in rows
    assert all(section and name and value for section, name, value in rows)


# ---- symbols

def test_kernel_symbols_against_kallsyms(world: LiveWorld) -> None:
    if world.symbols.restricted:
        pytest.skip("the kernel hides its addresses")
    lines = Path("/proc/kallsyms").read_text().splitlines()
    first: dict[int, str] = {}
    for line in lines:
        address, kind, name = line.split()[:3]
        if kind in "tT" and "[" not in line:
            first.setdefault(int(address, 16), name)
    for address in random.Random(2).sample(sorted(first), 500):
        found = world.symbols.lookup(address)
        assert found and found.offset == 0
        assert world.kernel_symbol(found.name) is not None
    assert world.kernel_symbol("nosuch_symbol") is None


@pytest.mark.parametrize("name", ["c", "python3", "bash"])
def test_functions_against_nm(name: str) -> None:
    path = binaries.find_binaries(name)[0]
    dynamic = output("nm", "-D", "--defined-only", path)
    own = {(f.address, f.name) for f in files.open_elf(path).functions()}
    listed = [line.split() for line in dynamic.splitlines()]
    # W and V are data too; elf says which, so only T and t (functions and nothing else) are compared
    with open(path, "rb") as stream:
        text = elf.Elf(stream.fileno()).find_section(".text")
    assert text
    missing = [row for row in listed if len(row) == 3 and row[1] in "Tt" and row[2].partition("@")[0]
               and text.address <= int(row[0], 16) < text.address + text.size
               and (int(row[0], 16), row[2].partition("@")[0]) not in own]
    assert len(listed) > 100 and missing == []


SOURCE = """
int counter = 7;
static int __attribute__((noinline)) inner(int x) { return x * counter; }
int outer(int x) { return inner(x) + 1; }
int main(int argc, char **argv) { return outer(argc) == 3; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("elf")
    (folder / "p.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-Wl,--build-id", "-o", str(folder / "p"), str(folder / "p.c")], check=True)
    return str(folder / "p")


def test_compiled_program(program: str) -> None:
    rows = [line.split() for line in output("nm", program).splitlines()]
    known = {row[2]: int(row[0], 16) for row in rows if len(row) == 3}
    file = files.open_elf(program)
    functions = {f.name: f for f in file.functions()}
    for name in ("inner", "outer", "main"):
        assert functions[name].address == known[name]
        assert file.offset_to_address(functions[name].offset) == known[name]
        assert file.function_at(known[name] + 1) == (name, 1)
    assert file.find_object("counter") == (known["counter"], 4)
    assert file.build_id.hex() in output("readelf", "-n", program)
    with open(program, "rb") as data:
        data.seek(file.address_to_offset(known["counter"]) or 0)
        assert data.read(4) == (7).to_bytes(4, sys.byteorder)


def test_stripped_program_with_debug_link(program: str, tmp_path: Path) -> None:
    output("objcopy", "--only-keep-debug", program, str(tmp_path / "p.debug"))
    shutil.copy(program, tmp_path / "p")
    output("strip", str(tmp_path / "p"))
    assert "inner" not in {f.name for f in files.open_elf(str(tmp_path / "p")).functions()}
    subprocess.run(["objcopy", "--add-gnu-debuglink=p.debug", "p"], cwd=tmp_path, check=True)
    found = {f.name: f.address for f in files.open_elf(str(tmp_path / "p")).functions()}
    assert found["inner"] == next(f.address for f in files.open_elf(program).functions() if f.name == "inner")


def test_libraries_against_ldconfig() -> None:
    listed = output("/sbin/ldconfig", "-p")
    marks = {"x86_64": "(libc6,x86-64)", "aarch64": "(libc6,AArch64)", "s390x": "(libc6,64bit)"}
    expected: dict[str, str] = {}
    for line in listed.splitlines():
        if marks[os.uname().machine] in line:
            soname, _, path = line.strip().partition(" => ")
            expected.setdefault(soname.split()[0], path)
    assert expected and binaries.ld_cache() == expected


def test_own_addresses() -> None:
    """The C library's functions, found by the loader and by us."""
    users = user_symbols.UserSymbols()
    libc = ctypes.CDLL(None)
    for name in ("getppid", "strtol", "qsort"):
        address = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0
        found = users.lookup(os.getpid(), address)
        assert found and found.offset == 0 and "libc" in found.module
        path = binaries.find_binaries("c")[0]
        aliases = {f.name for f in files.open_elf(path).functions()
                   if f.address == next(g.address for g in files.open_elf(path).functions() if g.name == name)}
        assert found.name in aliases
    assert users.lookup(os.getpid(), 16) is None


def test_vdso() -> None:
    vdso = next((m for m in user_symbols.read_maps(os.getpid()) if m.name == "[vdso]"), None)
    if vdso is None:
        pytest.skip("this machine maps no vdso")
    found = user_symbols.UserSymbols().lookup(os.getpid(), vdso.start + 8)
    assert found == user_symbols.UserSymbol("[vdso]", 8, "[vdso]")


def test_a_process_that_has_gone(program: str) -> None:
    users = user_symbols.UserSymbols()
    with subprocess.Popen(["sleep", "60"]) as child:
        while not any("libc" in m.name for m in user_symbols.read_maps(child.pid)):
            pass
        users.remember_process(child.pid)
        mapping = next(m for m in user_symbols.read_maps(child.pid) if "libc" in m.name)
        assert binaries.find_binaries("libc", child.pid) == [mapping.path]
        child.kill()
    found = users.lookup(child.pid, mapping.start + 0x1000)
    assert found and "libc" in found.module
    assert user_symbols.UserSymbols().lookup(child.pid, mapping.start + 0x1000) is None


def test_jit_map() -> None:
    import mmap

    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, 4096, flags, prot=mmap.PROT_READ | mmap.PROT_EXEC | mmap.PROT_WRITE) as code:
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        path = Path(f"/tmp/perf-{os.getpid()}.map")
        path.write_text(f"{address:x} 100 py::f some file.py\nnonsense\n")
        try:
            found = user_symbols.UserSymbols().lookup(os.getpid(), address + 3)
        finally:
            path.unlink()
        assert found == user_symbols.UserSymbol("py::f some file.py", 3, str(path))


# ---- processes, cgroups

def test_cgroups() -> None:
    mount = procfs.cgroup2_mount_point()
    if mount is None:
        pytest.skip("cgroup v2 is not mounted")
    folder = Path(mount) / f"sonde-test-{os.getpid()}"
    folder.mkdir()
    try:
        number = procfs.cgroup_id(str(folder))
        assert number == folder.stat().st_ino == procfs.cgroup_id(f"/{folder.name}")
        cgroups = procfs.Cgroups()
        assert cgroups.cgroup_paths(number) == [("unified", f"/{folder.name}")]
        assert cgroups.cgroup_paths(number, "uni*") and not cgroups.cgroup_paths(number, "x*")
    finally:
        folder.rmdir()
    assert procfs.cgroup_id("/nosuch") is None


def test_cpus() -> None:
    assert host.possible_cpus() >= len(host.online_cpus()) == os.cpu_count()
    assert os.uname().release.startswith(host.kernel_release())


# ---- listing

@pytest.mark.parametrize("pattern", ["tracepoint:sched:*", "tracepoint:syscalls:sys_enter_open*", "tracepoint:net:*"])
@pytest.mark.parametrize("verbose", [False, True])
def test_listing_against_bpftrace(pattern: str, verbose: bool, world: LiveWorld) -> None:
    expected = output("bpftrace", *(["-lv"] if verbose else ["-l"]), pattern)
    assert list(listing_lines(world, pattern, verbose)) == expected.splitlines()


@pytest.mark.parametrize("pattern", ["struct qstr", "union nf_inet_addr", "enum pid_type", "struct tcp_s*"])
def test_listing_of_types(pattern: str, world: LiveWorld) -> None:
    assert list(listing_lines(world, pattern)) == output("bpftrace", "-l", pattern).splitlines()


@pytest.mark.parametrize("pattern", ["struct qstr", "union nf_inet_addr", "enum pid_type"])
def test_listing_of_definitions(pattern: str, world: LiveWorld) -> None:
    lines = "".join([line + "\n" for line in listing_lines(world, pattern, True)])
    expected = output("bpftrace", "-lv", pattern)
    if not expected and pattern.startswith("enum") and lines:
        pytest.skip("this bpftrace finds no enum in this kernel's type information")
    assert lines == expected


def test_listing_of_raw_tracepoints(world: LiveWorld) -> None:
    lines = list(listing_lines(world, "rawtracepoint:*:inet_sock_set_state", True))
    assert lines == ["rawtracepoint:vmlinux:inet_sock_set_state", "    const struct sock * sk",
                     "    const int oldstate", "    const int newstate"]
    assert list(listing_lines(world, "rt:inet_sock_set_state")) == lines[:1]


def test_listing_of_functions(program: str, world: LiveWorld) -> None:
    assert list(listing_lines(world, f"uprobe:{program}:*ner")) == [f"uprobe:{program}:inner"]
    with pytest.warns(RuntimeWarning, match="left out, whose return probes could end the traced program"):
        assert f"uretprobe:{program}:main" in list(listing_lines(world, f"ur:{program}:*"))
    assert list(listing_lines(world, "uprobe:/nosuch:*")) == []


def test_listing_of_all(world: LiveWorld) -> None:
    kinds = {line.partition(":")[0] for line in listing_lines(world)}
    assert {"tracepoint", "rawtracepoint", "software", "hardware"} <= kinds and "uprobe" not in kinds
    assert kinds == {line.partition(":")[0] for line in listing_lines(world, "*")}
    found = list(listing_lines(world, "*nanosleep*"))
    assert "tracepoint:syscalls:sys_enter_nanosleep" in found and all("nanosleep" in line for line in found)
    assert list(listing_lines(world, "interval:*")) == ["interval:hz:", "interval:ms:", "interval:s:", "interval:us:"]
    assert list(listing_lines(world, "software:cs:,hardware:cycles:")) == ["software:cs:", "hardware:cycles:"]


def test_integers_of_the_kernel(world: LiveWorld) -> None:
    for name, size in (("u64", 8), ("pid_t", 4), ("umode_t", 2), ("unsigned long", 8), ("char", 1)):
        kind = world.named_type(name)
        assert isinstance(kind, Int) and kind.size == size


def test_memory_that_is_charged_to_a_limit(tmp_path: Path) -> None:
    """Kernels before 5.11: what is charged beyond RLIMIT_MEMLOCK is "not permitted". Here a wrapper says so."""
    code = """
import errno, resource, sys
from sonde.kernel import syscalls
from sonde.cli.main import main
from sonde.layouts.uapi import BPF_MAP_CREATE, BPF_PROG_LOAD
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]))
real, refused = syscalls._bpf_raw, []
def as_before_5_11(command, attr):
    if command in (BPF_MAP_CREATE, BPF_PROG_LOAD) and resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == 65536:
        refused.append(command)
        return -errno.EPERM
    return real(command, attr)
syscalls._bpf_raw = as_before_5_11
status = main(["-e", "begin { @[1] = 2; exit(); }"])
print(status, len(refused))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env=environment())
    assert "@[1]: 2" in done.stdout and done.stdout.endswith("0 1\n"), done.stderr


def test_what_the_kernel_tells_of_addresses_is_what_kallsyms_has() -> None:
    """Of code that stays, at any distance from the beginnings."""
    teller, read = told_symbols.load_teller(), symbols.KernelSymbols()
    if teller is None or read.restricted:
        pytest.skip("kernel lacks bpf_snprintf in programs that are run from user space, or readable addresses")
    rows = [line.split() for line in Path("/proc/kallsyms").read_text().splitlines()]
    code = [int(row[0], 16) for row in rows if row[1] in "tT" and row[2].startswith(("vfs_", "tcp_", "bpf_"))
            and "[bpf]" not in row]
    known = {address: read.lookup(address) for start in random.Random(1).sample(code, 300)
             for address in (start, start + random.Random(start).randrange(64))}
    asked = {address: parts and symbols.KernelSymbol(*parts) for address in known for parts in [teller.find(address)]}
    teller.close()
    by_text = symbols.KernelSymbols()
    assert by_text.symbol_type("vfs_read") in ("t", "T")  # has read the whole text, and asks no more
    assert {at: symbol for at, symbol in asked.items() if symbol is not None} == {
        at: by_text.lookup(at) for at, symbol in asked.items() if symbol is not None}
    assert sum(symbol is not None for symbol in asked.values()) > 550
    assert known == {at: by_text.lookup(at) for at in known}
