"""Specs as plain data, and what decides whether one that was kept is still the right one."""

from __future__ import annotations

import marshal
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from compiled import world
from sonde.base import package_files
from sonde.base.cache_dir import thin_cache, write_cache
from sonde.compiling import compile, program_states, spec_cache
from sonde.compiling.spec_cache import RecordingWorld, keep_compiled, load_compiled, script_key
from sonde.compiling.spec_codec import NotPlainError, pack_spec, unpack_spec
from sonde.errors import CompileError
from sonde.kernel import places
from sonde.kernel.foreign.files import open_elf
from sonde.kernel.types.world import UserSide
from sonde.semantics.script_options import Options
from sonde.source import Source, Span
from sonde.spec import ClassicFilter, MapSpec, ScriptSpec
from sonde.tools import all_tools

SCRIPT = 'tracepoint:sched:sched_switch { @[comm] = count(); printf("%d\\n", pid); }'
SCRIPTS = [SCRIPT,
           "BEGIN { @a = (1, (2, \"x\")); @b[kstack, ustack(3)] = hist(3); @c = lhist(4, 0, 10, 1); print(@a); }",
           "BEGIN { print(*curtask); @e = curtask->se; @p = curtask; print((enum pid_type)1); }",
           'BEGIN { time("%H"); @t[strftime("%s", nsecs), ntop(1)] = stats(1); exit(3); } END { clear(@t); }',
           "struct s { struct s *next; char name[8]; } BEGIN { @ = *(struct s *)0; $x = 1 / (pid - 1); }",
           "config = { max_map_keys = 7 } kprobe:do_nanosleep { @[probe, func] = avg(arg0); } END { zero(@); }"]


def tools() -> list[Path]:
    return [Path(tool.path) for tool in all_tools()]


def spec_of(text: str) -> ScriptSpec:
    return compile(text, Options(unsafe=True), world())


def through_disk(spec: ScriptSpec) -> ScriptSpec:
    return unpack_spec(marshal.loads(marshal.dumps(pack_spec(spec), spec_cache.FORM)))


def without_span(named: MapSpec) -> list[object]:
    """What a map is: its span has another source object."""
    return [value for value in named.values() if not isinstance(value, Span)]


def assert_same(spec: ScriptSpec) -> None:
    """What comes back is what went in; beyond what the form itself has, the parts that the kernel sees."""
    back = through_disk(spec)
    assert pack_spec(back) == pack_spec(spec)
    assert [(p.code, p.relocations, p.numbers, p.functions) for p in back.programs] == \
        [(p.code, p.relocations, p.numbers, p.functions) for p in spec.programs]
    assert [without_span(m) for m in back.maps] == [without_span(m) for m in spec.maps]
    assert [(s.kind, s.size, [(f.type, f.offset) for f in s.fields], s.data) for s in back.sites] == \
        [(s.kind, s.size, [(f.type, f.offset) for f in s.fields], s.data) for s in spec.sites]
    assert [d.render() for d in back.warnings] == [d.render() for d in spec.warnings]
    assert back.config.values() == spec.config.values() and back.probes == spec.probes


@pytest.mark.parametrize("text", SCRIPTS)
def test_a_spec_comes_back_as_it_was(text: str) -> None:
    assert_same(spec_of(text))


@pytest.mark.parametrize("path", tools(), ids=lambda path: path.stem)
def test_a_tools_spec_comes_back_as_it_was(path: Path) -> None:
    try:
        spec = spec_of(path.read_text())
    except CompileError:
        pytest.skip("takes parameters, or more than the recorded kernel has")
    assert_same(spec)


def test_members_of_a_struct_that_is_printed_come_back() -> None:
    site, = [s for s in through_disk(spec_of(SCRIPTS[4])).maps if s.name == "@"]
    assert [f.name for f in site.value.fields] == ["next", "name"]  # type: ignore[union-attr]


def test_what_is_not_plain_is_refused() -> None:
    spec = spec_of(SCRIPT)
    spec.sites[0].data["odd"] = object()
    with pytest.raises(NotPlainError):
        pack_spec(spec)


# --- the key


def key_of(text: str = SCRIPT, **more: object) -> bytes:
    return script_key(Source("stdin", text), Options(**more))  # type: ignore[arg-type]


def test_the_key_is_the_same_for_the_same() -> None:
    assert key_of() == key_of() != b""


@pytest.mark.parametrize("other", [
    {"text": SCRIPT + " "}, {"params": ["1"]}, {"named": {"a": "1"}}, {"pid": 3}, {"unsafe": True}, {"mode": "test"},
    {"count_reads": True}, {"warnings": False}, {"probe_filter": "x"}, {"timed": True}, {"gated": True},
    {"env": {"BPFTRACE_MAX_STRLEN": "9"}}, {"directories": ["/tmp"]}, {"headers": ["a.h"]}], ids=str)
def test_another_script_or_option_has_another_key(other: dict[str, object]) -> None:
    assert key_of(**other) != key_of()


def test_every_option_is_in_the_key() -> None:
    """A new option that means something else to the compiler cannot be forgotten."""
    plain = Options()
    for name in Options._fields:
        changed, before = Options(), getattr(plain, name)
        setattr(changed, name, ["x"] if isinstance(before, list) else {"x": "y"} if isinstance(before, dict)
                else not before if isinstance(before, bool) else 7 if isinstance(before, int) else "x")
        assert script_key(Source("stdin", ""), changed) != script_key(Source("stdin", ""), plain), name


def test_of_the_process_of_c_counts_only_that_there_is_one() -> None:
    assert key_of(cpid=4) == key_of(cpid=5) != key_of()


def test_another_boot_other_modules_and_other_rights_have_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key_of()]
    monkeypatch.setattr(spec_cache, "_read", lambda path: b"another boot")
    keys.append(key_of())
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: real("/proc/self" if path == "/sys/module" else path))
    keys.append(key_of())
    monkeypatch.setattr(spec_cache.syscalls, "effective_capabilities", lambda: 1)
    keys.append(key_of())
    monkeypatch.setattr(spec_cache, "_identify", lambda path: (1, len(path)))
    keys.append(key_of())
    monkeypatch.setattr(spec_cache.places, "traceable_functions", "/some/list")
    assert key_of() == b"" and len(set(keys)) == len(keys)


def test_a_changed_source_of_sonde_is_another_sonde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_files, "FOLDER", str(tmp_path))
    (tmp_path / "language").mkdir()
    file = tmp_path / "language" / "lexer.py"
    file.write_text("a = 1")
    first = package_files.package_identity()
    assert package_files.package_identity() == first
    file.write_text("a = 22")
    assert package_files.package_identity() != first


def test_an_installed_sonde_is_known_by_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sonde import __version__
    monkeypatch.setattr(package_files, "FOLDER", str(tmp_path / "sonde"))
    record = tmp_path / f"sonde_tracer-{__version__}.dist-info" / "INSTALLER"
    record.parent.mkdir()
    record.write_text("first")
    first = package_files.package_identity()
    os.utime(record, ns=(1, 1))
    assert first[1] == str(record) and package_files.package_identity() != first


# --- what was asked


def test_lasting_answers_are_kept_and_others_are_not() -> None:
    def lasts(ask: object) -> bool:
        witness = RecordingWorld(world())
        witness._world.is_certain = lambda name: name != "unknown"
        ask(witness)  # type: ignore[operator]
        return witness.lasting

    assert lasts(lambda w: (w.cpus, w.find_struct("task_struct"), w.has_feature("kprobes"), w.syscall_number("read")))
    assert lasts(lambda w: w.kernel_function("vfs_read"))
    assert not lasts(lambda w: w.has_feature("unknown"))
    assert not lasts(lambda w: w.kernel_function("f", "bpf:3"))
    assert lasts(lambda w: w.kernel_symbol("bpf_trace_run4"))
    assert not lasts(lambda w: w.kernel_symbol("nowhere"))
    for name in ("process_symbol", "cgroup_id", "source_lines", "find_import"):
        assert not lasts(lambda w, name=name: getattr(w, name))
    for what in ("", "/proc/*/exe", "/proc/1/exe", "/bin/tru*", "lib*"):
        assert not lasts(lambda w, what=what: w.find_binaries(what))
    assert not lasts(lambda w: w.find_binaries("/bin/true", 1))
    assert not lasts(lambda w: w.user_functions("/no/such/file"))


@pytest.fixture
def tracefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache, and a tracefs with one event."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    event = tmp_path / "events" / "a" / "b"
    event.mkdir(parents=True)
    (event / "format").write_text("first")
    return tmp_path


def witness_of(tracefs: Path) -> RecordingWorld:
    witness = RecordingWorld(SimpleNamespace(tracefs=str(tracefs), tracepoint_format=lambda *event: None,
                                             find_import=None))
    witness.tracepoint_format("a", "b")
    return witness


def test_a_kept_spec_is_found_until_the_format_changes(tracefs: Path) -> None:
    spec, key = spec_of(SCRIPT), key_of()
    assert load_compiled(key) is None
    keep_compiled(key, spec, Options(), witness_of(tracefs))
    found = load_compiled(key)
    assert found is not None and pack_spec(found) == pack_spec(spec)
    (tracefs / "events/a/b/format").write_text("second")
    assert load_compiled(key) is None
    (tracefs / "events/a/b/format").unlink()
    assert load_compiled(key) is None


def test_an_event_that_was_missing_and_is_there_now_is_a_miss(tracefs: Path) -> None:
    format = tracefs / "events/a/b/format"
    format.unlink()
    keep_compiled(key_of(), spec_of(SCRIPT), Options(), witness_of(tracefs))
    assert load_compiled(key_of()) is not None
    format.write_text("now")
    assert load_compiled(key_of()) is None


def test_what_does_not_last_is_not_written(tracefs: Path) -> None:
    witness = witness_of(tracefs)
    _ = witness.find_import
    keep_compiled(key_of(), spec_of(SCRIPT), Options(), witness)
    assert load_compiled(key_of()) is None


def test_a_probe_for_the_process_of_c_alone_is_not_written(tracefs: Path) -> None:
    options, text = Options(cpid=77), "profile:hz:99 { @ = count(); }"
    spec = compile(text, options, world())
    keep_compiled(key_of(text, cpid=77), spec, options, witness_of(tracefs))
    assert load_compiled(key_of(text, cpid=78)) is None
    keep_compiled(key_of(cpid=77), compile(SCRIPT, options, world()), options, witness_of(tracefs))
    found = load_compiled(key_of(cpid=78))
    assert found is not None and not found.asks_for_processes


def test_a_key_of_the_same_name_and_a_damaged_file_are_misses(tracefs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec_cache, "_file_name", lambda key: "spec-same")
    keep_compiled(key_of(), spec_of(SCRIPT), Options(), witness_of(tracefs))
    assert load_compiled(key_of(SCRIPT + " ")) is None and load_compiled(key_of()) is not None
    file = tracefs / "cache" / "sonde" / "spec-same"
    data = file.read_bytes()
    for at in (0, 5, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        assert load_compiled(key_of()) is None
    file.write_bytes(data[:3])
    assert load_compiled(key_of()) is None


def test_the_oldest_go_when_there_are_too_many(tracefs: Path) -> None:
    folder = tracefs / "cache" / "sonde"
    for number in range(6):
        assert write_cache(f"spec-{number}", [bytes(100)])
        os.utime(folder / f"spec-{number}", ns=(number, number))
    write_cache("features-x", [bytes(1000)])
    thin_cache("spec-", 4, 1000)
    assert sorted(os.listdir(folder)) == ["features-x", "spec-2", "spec-3", "spec-4", "spec-5"]
    thin_cache("spec-", 4, 250)
    assert sorted(os.listdir(folder)) == ["features-x", "spec-4", "spec-5"]


def test_a_script_that_looks_for_files_says_so(tmp_path: Path) -> None:
    from sonde.language.includes import Files
    from sonde.source import Source as Text
    for name, quoted, looks in (("linux/sched.h", False, False), ("own.h", True, True), ("own.h", False, True)):
        files = Files()
        files.find_header(name, quoted, Text("stdin", ""))
        assert files.looked is looks
    files = Files([str(tmp_path)])
    files.find_header("linux/sched.h", False, Text("stdin", ""))
    assert files.looked


def test_a_spec_with_a_filter_is_kept_as_long_as_libpcap_makes_the_same_of_it(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Names of hosts and services may come to mean something else."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = {"ethernet": ClassicFilter([(6, 0, 0, 1)]), "ip": ClassicFilter([(6, 0, 0, 2)])}
    monkeypatch.setattr("sonde.kernel.pcap.compile_filter", lambda expression, link: made[link])
    witness = RecordingWorld(SimpleNamespace(packet_filter=lambda expression, link: made[link]))
    for link in made:
        witness.packet_filter("port http", link)
    keep_compiled(b"key", spec_of(SCRIPT), Options(), witness)
    assert witness.lasting and load_compiled(b"key") is not None
    made["ip"] = ClassicFilter([(6, 0, 0, 3)])
    assert load_compiled(b"key") is None


# --- programs


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of a name that nothing else has, which was made long ago, and folders in which it is found."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/first:{tmp_path}/bin")
    monkeypatch.setattr(program_states, "SETTLED", -10**12)
    monkeypatch.setattr(places, "debug_directories", [str(tmp_path / "debug")])
    file = tmp_path / "bin" / "only-here"
    file.parent.mkdir()
    shutil.copy("/bin/true", file)
    return file


def is_recalled(program: Path) -> bool:
    """Whether a spec with answers about a program is found after it was to be stored."""
    witness = RecordingWorld(UserSide())
    assert witness.find_binaries(program.name) == [str(program)]
    assert witness.user_bits(str(program)) == 64
    keep_compiled(b"key", spec_of(SCRIPT), Options(), witness)
    return load_compiled(b"key") is not None


def test_answers_about_a_program_last_until_it_is_another(program: Path) -> None:
    assert is_recalled(program)
    os.utime(program, ns=(1, 1))
    assert load_compiled(b"key") is None and is_recalled(program)
    shutil.copy("/bin/false", program.with_name("other"))
    os.replace(program.with_name("other"), program)
    assert load_compiled(b"key") is None and is_recalled(program)
    program.unlink()
    assert load_compiled(b"key") is None


def test_a_program_of_the_same_name_that_comes_first_is_seen(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_recalled(program)
    first = program.parent.parent / "first"
    first.mkdir()
    shutil.copy(program, first / program.name)
    assert load_compiled(b"key") is None
    shutil.rmtree(first)
    assert load_compiled(b"key") is not None
    monkeypatch.setenv("PATH", "/bin")
    assert load_compiled(b"key") is None


def test_debug_information_that_comes_is_seen(program: Path) -> None:
    assert is_recalled(program)
    digits = open_elf(str(program)).build_id.hex()
    debug = program.parent.parent / "debug" / ".build-id" / digits[:2] / f"{digits[2:]}.debug"
    debug.parent.mkdir(parents=True)
    debug.write_bytes(b"something")
    assert load_compiled(b"key") is None and is_recalled(program)
    assert write_cache(f"debuginfo-{digits}", [b"something"])
    assert load_compiled(b"key") is None


def test_a_program_that_was_changed_just_now_may_be_changed_again(program: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_states, "SETTLED", 10**12)
    assert not is_recalled(program)


def test_a_program_that_changes_while_it_is_asked_about_is_not_believed(program: Path) -> None:
    witness = RecordingWorld(UserSide())
    assert witness.user_bits(str(program)) == 64 and witness.lasting
    os.utime(program, ns=(1, 1))
    keep_compiled(b"key", spec_of(SCRIPT), Options(), witness)
    assert load_compiled(b"key") is None


@pytest.mark.parametrize(("visible", "lasting"), [(True, True), (False, False)])
def test_a_symbol_that_is_not_there_stays_away_where_addresses_can_be_seen(visible: bool, lasting: bool) -> None:
    witness = RecordingWorld(SimpleNamespace(kernel_symbol=lambda name: 1 if visible and name == "_stext" else None))
    assert witness.kernel_symbol("page_offset_base") is None and witness.lasting == lasting
