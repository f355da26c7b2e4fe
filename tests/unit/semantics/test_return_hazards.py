"""How a file tells that something reads the return addresses on its functions' stacks: small ELF files made here, so
that no compiler of Go or Rust is needed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from sonde.base.function_ends import FunctionEnds
from sonde.errors import MachineError
from sonde.kernel.foreign import files
from sonde.kernel.names.returns import FUNCTIONS, return_hazard
from sonde.kernel.types.world import LiveWorld
from sonde.language.ast import Call
from sonde.semantics.nodes import walk_nodes
from sonde.semantics.returns import HAZARDS, PROBLEMS
from sonde.semantics.world import UserFunction
from sonde.spec import UserDetail, UserPrototype, detail_of
from unit.fake_world import FakeWorld, check_text, findings

EXEC, DYN = 2, 3
SYMTAB, DYNAMIC, NOTE, NOBITS, DYNSYM = 2, 6, 7, 8, 11
NEEDED, SONAME, FLAGS_1, PIE = 1, 14, 0x6FFFFFFB, 0x08000000
X86_64, AARCH64 = 62, 183


def cie(augmentation: str, personality: int = 0x1000) -> bytes:
    """A CIE of an .eh_frame, as compilers write it."""
    extra = b"".join({"P": b"\x00" + struct.pack("=Q", personality), "R": b"\x1b", "L": b"\x1b"}.get(letter, b"")
                     for letter in augmentation)
    body = bytes(4) + b"\1" + augmentation.encode() + b"\0" + b"\1\x78\x10" + bytes([len(extra)]) + extra
    body += bytes(-len(body) % 4)
    return struct.pack("=I", len(body)) + body


def note(owner: bytes, kind: int, text: bytes) -> bytes:
    owner += b"\0"
    return struct.pack("=III", len(owner), len(text), kind) + owner + bytes(-len(owner) % 4) + text + \
        bytes(-len(text) % 4)


def elf(*, sections: dict[str, tuple[int, bytes]] | None = None, symbols: tuple[str, ...] = (),
        imports: tuple[str, ...] = (), needed: tuple[str, ...] = (), soname: str = "", interpreter: bool = False,
        kind: int = DYN, pie: bool = False, machine: int = X86_64, code: bytes = b"\xc3",
        headers: bool = True) -> bytes:
    """An ELF file: ``symbols`` are the functions in .symtab, at one address; ``imports`` are undefined in .dynsym."""
    parts: list[tuple[str, int, bytes, int]] = [("", 0, b"", 0), (".text", 1, code, 0)]
    for name, (type, data) in (sections or {}).items():
        parts.append((name, type, data, 0))

    def table(name: str, type: int, texts: tuple[str, ...], section: int) -> None:
        strings, rows = b"\0", bytes(24)
        for text in texts:
            rows += struct.pack("=IBBHQQ", len(strings), 0x12, 0, section, 0x1000 if section else 0, len(code))
            strings += text.encode() + b"\0"
        parts.append((name, type, rows, len(parts) + 1))
        parts.append((name.replace("sym", "str"), 3, strings, 0))

    if symbols:
        table(".symtab", SYMTAB, symbols, 1)
    if imports:
        table(".dynsym", DYNSYM, imports, 0)
    if needed or soname or pie:
        strings, rows = b"\0", b""
        for tag, text in [*[(NEEDED, each) for each in needed], *[(SONAME, soname)] * bool(soname)]:
            rows += struct.pack("=qQ", tag, len(strings))
            strings += text.encode() + b"\0"
        rows += struct.pack("=qQ", FLAGS_1, PIE) if pie else b""
        parts.append((".dynamic", DYNAMIC, rows + bytes(16), len(parts) + 1))
        parts.append((".dynstr", 3, strings, 0))
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in parts) + b".shstrtab\0"
    parts.append((".shstrtab", 3, names, 0))
    body, rows, notes = b"", b"", b""
    for name, type, data, link in parts:
        rows += struct.pack("=IIQQQQIIQQ", names.index(name.encode() + b"\0"), type, 0, 0x1000 + len(body),
                            0x1000 + len(body), len(data), link, 0, 8, 24)
        notes = struct.pack("=IIQQQQQQ", 4, 4, 0x1000 + len(body), 0, 0, len(data), 0, 4) if type == NOTE else notes
        body += data + bytes(-len(data) % 8)
    segments = struct.pack("=IIQQQQQQ", 1, 5, 0x1000, 0x1000, 0, len(body), len(body), 0x1000)
    segments += struct.pack("=IIQQQQQQ", 3, 4, 0x1000, 0x1000, 0, 1, 1, 1) if interpreter else b""
    segments += notes
    at = 0x1000 + len(body) if headers else 0
    header = struct.pack("=16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1" + bytes(9), kind, machine, 1, 0x1000, 64, at, 0, 64, 56,
                         len(segments) // 56, 64, len(parts) if headers else 0, len(parts) - 1 if headers else 0)
    return (header + segments).ljust(0x1000, b"\0") + body + (rows if headers else b"")


def hazard(tmp_path: Path, data: bytes, offset: int = 0x1000) -> str:
    (tmp_path / "prog").write_bytes(data)
    return return_hazard(files.open_elf(str(tmp_path / "prog")), offset)


TABLE = {".gcc_except_table": (1, b"\xff\xff\1\0")}
PLAIN = {".eh_frame": (1, cie("zR") + bytes(4))}
CLEANUP = {".eh_frame": (1, cie("zR") + cie("zPLR") + bytes(4))}
LIBC = ("libc.so.6",)
CASES = {
    # Go: by its sections, position-independent or not, by its note, by its names
    "go": ("go", {"sections": {".gopclntab": (1, b"\xf1\xff\xff\xff")}, "kind": EXEC}),
    "go note section": ("go", {"sections": {".note.go.buildid": (NOTE, note(b"Go", 4, b"id"))}}),
    "go pie": ("go", {"sections": {".data.rel.ro.gopclntab": (1, b"x")}, "needed": LIBC, "interpreter": True}),
    "go build info": ("go", {"sections": {".go.buildinfo": (1, b"\xff Go buildinf:")}}),
    "go renamed note": ("go", {"sections": {".notes": (NOTE, note(b"GNU", 3, b"1234") + note(b"Go", 4, b"id"))}}),
    "go names": ("go", {"symbols": ("main.main", "runtime.gopanic")}),
    # C++: by imports, by what is linked in, by a library, by the names of its functions
    "c++ throws": ("c++", {"imports": ("puts", "__cxa_throw"), "needed": LIBC}),
    "c++ cleans up": ("c++", {"imports": ("__gxx_personality_v0",), "needed": LIBC}),
    "c++ library": ("c++", {"needed": ("libstdc++.so.6", "libc.so.6")}),
    "llvm's library": ("c++", {"needed": ("libc++.so.1",)}),
    "c++ function": ("c++", {"symbols": ("_ZN2ns1fEi",), "needed": LIBC}),
    "c++ plain function": ("c++", {"symbols": ("_Z1fi",), "needed": LIBC}),
    "c++ operator new": ("c++", {"imports": ("_Znwm",), "needed": LIBC}),
    "c++ static": ("c++", {"symbols": ("main", "__cxa_throw"), "kind": EXEC}),
    # Rust
    "rust": ("rust", {"symbols": ("rust_eh_personality",), "imports": ("_Unwind_Resume",), "needed": LIBC}),
    "rust stripped": ("unwound", {"imports": ("_Unwind_RaiseException",), "needed": LIBC, "sections": TABLE}),
    # what is stripped, with everything linked in, has tables
    "table": ("unwound", {"sections": TABLE, "needed": LIBC, "interpreter": True}),
    "empty table": ("", {"sections": {".gcc_except_table": (1, b"")} | PLAIN, "needed": LIBC}),
    "personality": ("unwound", {"sections": CLEANUP, "needed": LIBC}),
    "no personality": ("", {"sections": PLAIN, "needed": LIBC}),
    "library without libraries": ("unwound", {"sections": CLEANUP}),
    # C: with cleanup, without, linked with glibc
    "c cleanup": ("unwound", {"imports": ("__gcc_personality_v0", "_Unwind_Resume"), "needed": LIBC}),
    "c": ("", {"imports": ("puts", "longjmp"), "symbols": ("main",), "needed": LIBC, "interpreter": True}),
    "c like C++": ("", {"symbols": ("_Zero", "_ZeroDivisionError"), "needed": LIBC}),
    "c backtrace": ("", {"imports": ("_Unwind_Backtrace",), "needed": LIBC}),
    "libc": ("", {"sections": TABLE | CLEANUP, "soname": "libc.so.6", "needed": ("ld-linux-x86-64.so.2",),
                  "symbols": ("read", "swapcontext", "_Unwind_Resume")}),
    "libc of C++": ("c++", {"soname": "libc.so.6", "imports": ("__cxa_throw",)}),
    "static c": ("", {"sections": TABLE, "kind": EXEC, "symbols": ("main", "_Unwind_Resume", "__gcc_personality_v0")}),
    "static pie c": ("", {"sections": TABLE, "pie": True}),
    "static c++ stripped": ("unwound", {"sections": TABLE, "kind": EXEC,
                                        "code": b"\x48\xb8" + b"GNUCC++\0"[::-1] + b"\xc3"}),
    "static clang stripped": ("unwound", {"sections": TABLE, "pie": True,
                                          "code": bytes(70) + b"CLNGC++\0"[::-1]}),
    "static rust stripped": ("unwound", {"sections": CLEANUP, "pie": True, "code": b"MOZ\0RUST"}),
    "class across portions": ("unwound", {"sections": TABLE, "kind": EXEC,
                                          "code": bytes((4 << 20) - 3) + b"GNUCC++\0"[::-1]}),
    "static without tables": ("", {"kind": EXEC, "code": b"GNUCC++\0"[::-1]}),
    "static of another machine": ("unclear", {"sections": TABLE, "kind": EXEC, "machine": AARCH64}),
    # others
    "ocaml": ("collected", {"symbols": ("caml_frametable",), "needed": LIBC}),
    "haskell": ("collected", {"symbols": ("stg_upd_frame_info",), "needed": LIBC}),
    "coroutines": ("stacks", {"imports": ("makecontext", "swapcontext"), "needed": LIBC}),
    "libcrypto": ("", {"imports": ("makecontext", "setcontext", "longjmp"), "needed": LIBC}),
    "no sections": ("unclear", {"headers": False, "kind": EXEC}),
}


@pytest.mark.parametrize("name", CASES)
def test_files_tell(name: str, tmp_path: Path) -> None:
    expected, parts = CASES[name]
    assert hazard(tmp_path, elf(**parts), 0x2000) == expected  # type: ignore[arg-type]
    assert not expected or expected in HAZARDS


def test_functions_of_plain_c(tmp_path: Path) -> None:
    """By any of the names of the function there; another one stays."""
    for function, expected in FUNCTIONS.items():
        found = hazard(tmp_path, elf(symbols=("alias", function), soname="libc.so.6"))
        assert found == expected and found in HAZARDS
        assert hazard(tmp_path, elf(symbols=("alias", function), soname="libc.so.6"), 0x2000) == ""


def test_every_hazard_can_be_met() -> None:
    assert set(HAZARDS) == {expected for expected, _ in CASES.values() if expected} | set(FUNCTIONS.values())


@pytest.mark.parametrize("cut", [64, 100, 0x1000, 0x1010])
def test_a_damaged_file_is_not_safe(cut: int, tmp_path: Path) -> None:
    data = elf(symbols=("main",), needed=LIBC)[:cut]
    (tmp_path / "prog").write_bytes(data)
    assert LiveWorld().return_hazard(str(tmp_path / "prog"), 0x1000) == "unclear"
    with pytest.raises(MachineError):
        hazard(tmp_path, data)


def test_a_table_without_end(tmp_path: Path) -> None:
    """Lengths that lead nowhere end the walk of .eh_frame."""
    for frames in (b"\xff\xff\xff\xff" * 4, b"\xff\xff\xff\x7f" * 8, bytes(4096), b"\1"):
        assert hazard(tmp_path, elf(sections={".eh_frame": (1, frames)}, needed=LIBC)) == ""


# ---- what is said

class HazardousWorld(FakeWorld):
    """``go`` is a Go program; ``prog`` is not, but has a function ``main`` that returns twice."""

    def find_binaries(self, name: str, pid: int = 0) -> list[str]:
        return {"*": ["/bin/go", "/bin/prog"], "go": ["/bin/go"]}.get(name) or super().find_binaries(name, pid)

    def return_hazard(self, path: str, offset: int) -> str:
        return "go" if path == "/bin/go" else "twice" if offset == 0x100 else ""


@pytest.mark.parametrize("text, severity, names", [
    ("uretprobe:go:work { }", "ERROR", []),
    ("uretprobe:go:0x1200 { }", "ERROR", []),
    ('uretprobe:go:cpp:"work" { }', "ERROR", []),
    ("uretprobe:go:* { }", "ERROR", []),
    ("uretprobe:prog:main { }", "ERROR", []),
    ("uretprobe:prog:work, uretprobe:go:work { }", "ERROR", []),
    ("uretprobe:prog:work { }", "", ["/bin/prog:work"]),
    ("uretprobe:prog:* { }", "WARNING", ["/bin/prog:work"]),
    ("uretprobe:*:work { }", "WARNING", ["/bin/prog:work"]),
    ("uretprobe:*:* { }", "WARNING", ["/bin/prog:work"]),
    ("uprobe:go:work { }", "", ["/bin/go:work"]),
    ("usdt:go:app:stop { }", "", ["/bin/go:app:stop"]),
])
def test_harmful_returns(text: str, severity: str, names: list[str]) -> None:
    """One that is named is an error; a pattern leaves it out with a warning, unless nothing is left."""
    found = findings(text, HazardousWorld())
    assert [code for code, _ in found] == ["harmful-return"] * bool(severity)
    if severity != "ERROR":
        probes = check_text(text, HazardousWorld()).probes
        assert [item.name.partition(":")[2] for probe in probes for item in probe.attach] == names
    forced = check_text(text, HazardousWorld(), unsafe=True)
    assert forced.probes and {d.severity for d in forced.diagnostics.items} <= {"WARNING"}


def test_an_address_inside_of_a_function() -> None:
    """There a saved register is where the return address would be."""
    assert [code for code, _ in findings("uretprobe:prog:0x1204 { }")] == ["inside-function"]
    assert findings("uprobe:prog:0x1204 { }") == []
    assert findings("uretprobe:prog:0x1204 { }", unsafe=True) == []


class ReadableWorld(HazardousWorld):
    """One in which the return instructions of two of the harmful functions are known."""

    def function_ends(self, path: str, offsets: list[int]) -> list[FunctionEnds]:
        known = {0x200: FunctionEnds((0x230, 0x23F)), 0x300: FunctionEnds(problem="never")}
        return [known.get(offset, FunctionEnds(problem="unreadable")) for offset in offsets]


@pytest.mark.parametrize(("text", "returns", "exits"), [
    ("uretprobe:go:work { }", "", [(0x230, 0x23F)]),
    ("uretprobe:go:work { }", "instructions", [(0x230, 0x23F)]),
    ("uretprobe:prog:work { }", "", [()]),
    ("uretprobe:prog:work { }", "instructions", [(0x230, 0x23F)]),
    ("uretprobe:prog:work { }", "kernel", [()]),
    ("uprobe:go:work { }", "", [()]),
    ("uprobe:go:work { }", "instructions", [()]),
])
def test_the_way_of_returns(text: str, returns: str, exits: list[tuple[int, ...]]) -> None:
    checked = check_text(text, ReadableWorld(), returns=returns)
    assert not checked.diagnostics.items
    assert [item.exits for probe in checked.probes for item in probe.attach] == exits


def test_returns_that_have_no_way() -> None:
    kernel = findings("uretprobe:go:work { }", ReadableWorld(), returns="kernel")
    assert [code for code, _ in kernel] == ["harmful-return"]
    assert [code for code, _ in findings("uretprobe:prog:main { }", ReadableWorld())] == ["harmful-return"]
    assert [code for code, _ in findings("uretprobe:prog:main { }", ReadableWorld(), returns="instructions")] == [
        "harmful-return"]
    refused = [code for code, _ in findings("uretprobe:prog:* { }", FakeWorld(), returns="instructions")]
    assert refused == ["no-return-instructions"]


def test_every_problem_has_words() -> None:
    from sonde.kernel.foreign.function_problems import PROBLEMS as ANSWERS
    assert {*ANSWERS, "result"} == {*PROBLEMS}


class JumpingWorld(HazardousWorld):
    """One in which every function ends by a jump to another one, or by a return instruction."""

    def function_ends(self, path: str, offsets: list[int]) -> list[FunctionEnds]:
        return [FunctionEnds((offset + 8,), (offset + 4,)) for offset in offsets]


def test_jumps_that_are_not_known() -> None:
    """They count as returns, which is said; a script that wants the result does not see them, which is said, too."""
    checked = check_text("uretprobe:go:work { @ = count(); }", JumpingWorld())
    assert [item.exits for probe in checked.probes for item in probe.attach] == [(0x204, 0x208)]
    assert [(item.code, item.severity) for item in checked.diagnostics.items] == [("tail-call", "WARNING")]
    checked = check_text("uretprobe:go:work { @ = sum(retval); }", JumpingWorld())
    assert [(item.exits, [calls.unseen for calls in detail_of(item, UserDetail).tails])
            for probe in checked.probes for item in probe.attach] == [((0x208,), [(0x204,)])]
    assert ["are not seen" in item.message for item in checked.diagnostics.items] == [True]
    assert [code for code, _ in findings("uretprobe:prog:work { @ = sum(retval); }", JumpingWorld())] == []


class MarkedWorld(ReadableWorld):
    """One in which functions begin with an instruction that does nothing."""

    def entry_distances(self, path: str, offsets: list[int], go: bool) -> list[int]:
        return [4] * len(offsets)


def test_where_entries_are_probed() -> None:
    """Behind what marks them, and so are returns by the kernel's probe; by instructions the function tells them."""
    for text, returns, offset in (("uprobe:prog:work { }", "", 0x204), ("uretprobe:prog:work { }", "", 0x204),
                                  ("uretprobe:prog:work { }", "instructions", 0x200),
                                  ("uprobe:prog:work+8 { }", "", 0x208)):
        checked = check_text(text, MarkedWorld(), returns=returns)
        assert [item.offset for probe in checked.probes for item in probe.attach] == [offset], text


class GoWorld(ReadableWorld):
    """One in which ``go`` is built by Go 1.19."""

    def go_version(self, path: str) -> str:
        return "go1.19" if path == "/bin/go" else ""

    def user_functions(self, path: str) -> list[UserFunction]:
        functions = super().user_functions(path)
        return [*functions, UserFunction("main.work", 0x1200, 0x200, 64)] if path == "/bin/go" else functions


@pytest.mark.parametrize(("text", "warned"), [
    ("uretprobe:go:main.work { @[tid] = count(); }", True), ("uretprobe:go:main.work /@[tid]/ { }", True),
    ("uretprobe:go:main.work { @ = count(); }", False), ("uretprobe:prog:work { @[tid] = count(); }", False),
    ("uprobe:go:main.work { @[tid] = count(); }", False),
    ("uretprobe:go:work { @[tid] = count(); }", False),  # a function of C
    ("uretprobe:go:main.work /tid == 5/ { printf(\"%d\", tid); print(tid); }", False),
    ("uretprobe:go:main.work { $from = tid; @[$from] = count(); }", True),
    ("uretprobe:go:main.work { @[caller()] = count(); }", False),
])
def test_goroutines_change_threads(text: str, warned: bool) -> None:
    assert [code for code, _ in findings(text, GoWorld())] == ["goroutine-thread"] * warned


@pytest.mark.parametrize("kind", ["uprobe", "uretprobe"])
@pytest.mark.parametrize(("body", "programs"), [("@[goroutine] = count();", 2), ("@ = count();", 1)])
def test_what_depends_on_the_compiler_has_a_program_for_each(kind: str, body: str, programs: int) -> None:
    checked = check_text(f"{kind}:prog:work, {kind}:go:main.work {{ {body} }}", GoWorld(), returns="instructions")
    assert not checked.diagnostics.items and len(checked.probes) == programs


class RunningWorld(GoWorld):
    """One in which a program of C and one of Go run."""

    def find_binaries(self, name: str, pid: int = 0) -> list[str]:
        return ["/bin/prog", "/bin/go"] if name == "/proc/*/exe" and not pid else super().find_binaries(name, pid)


@pytest.mark.parametrize(("text", "command", "names"), [
    ("uprobe:/proc/*/exe:*work { }", "", ["/bin/prog:work", "/bin/go:work"]),
    ('uprobe:/proc/*/exe:go:"main.work" { }', "", ["/bin/go:main.work"]),
    ('uprobe:/proc/*/exe:go:"*work" { }', "", ["/bin/go:work"]),  # not that of C
    ("uprobe:/proc/*/exe:work { }", "prog", ["/bin/prog:work"]),
    ('uprobe:prog:work, uprobe:/proc/*/exe:go:"main.work" { }', "prog", ["/bin/prog:work"]),
    ('uprobe:prog:work, uprobe:/proc/*/exe:go:"main.work" { }', "script.sh", ["/bin/prog:work"]),
])
def test_programs_that_run(text: str, command: str, names: list[str]) -> None:
    """All of them, or the one of -c, which is yet to run; of Go's names none need be there."""
    checked = check_text(text, RunningWorld(), command=command)
    assert not checked.diagnostics.items
    assert [item.name.partition(":")[2] for probe in checked.probes for item in probe.attach] == names


@pytest.mark.parametrize(("arch", "version", "warned"), [
    ("aarch64", "go1.19", False), ("aarch64", "go1.16", True), ("riscv64", "go1.19", True)])
def test_goroutines_that_cannot_be_told(arch: str, version: str, warned: bool) -> None:
    """Where no register has them, and the thread's own memory is out of reach."""
    world = GoWorld()
    world.arch = arch
    world.go_version = lambda path: version if path == "/bin/go" else ""  # type: ignore[method-assign]
    reported = findings("uretprobe:go:main.work { @[caller()] = count(); }", world)
    assert [code for code, _ in reported] == ["goroutine-thread"] * warned


class ResultWorld(GoWorld):
    """One in which the function of Go returns a number, and an address."""

    def user_prototype(self, path: str, offset: int, own: bool = False) -> UserPrototype:
        return super().user_prototype("/bin/svc" if path == "/bin/go" else path, 0x100)


@pytest.mark.parametrize(("text", "programs", "type"), [
    ("uretprobe:go:main.work { print(retval); }", 1, "int64"),
    ("uretprobe:go:main.work { print(results.r1); }", 1, "int64"),
    ("uretprobe:go:main.w* { print(retval); }", 1, "uint64"),
    ("uretprobe:prog:work { print(retval); }", 1, "uint64"),
    ("uretprobe:prog:work, uretprobe:go:main.work { print(retval); }", 2, "uint64"),
])
def test_results_of_go(text: str, programs: int, type: str) -> None:
    """Of a function that is named; in a clause for others too, each has a program of its own."""
    checked = check_text(text, ResultWorld())
    assert not checked.diagnostics.items and len(checked.probes) == programs
    call = next(node for node in walk_nodes(checked.probes[0].clause.body) if isinstance(node, Call))
    assert str(call.args[0].type) == type


def test_results_of_others() -> None:
    assert [code for code, _ in findings("uretprobe:prog:work { print(results); }", ResultWorld())] == ["no-args"]
    assert [code for code, _ in findings("uprobe:go:main.work { print(results); }", ResultWorld())] == ["builtin-probe"]
