"""Why a kernel function cannot be probed: a made-up kallsyms and list of functions, and real debug information."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from sonde.btf.query import Btf
from sonde.kernel.names.symbols import KernelSymbols
from sonde.kernel.types import functions
from support import compile_c

KALLSYMS = """\
ffffffff81000000 T _stext
ffffffff81001000 T plain
ffffffff81001100 t quiet
ffffffff81001200 t gone.isra.0
ffffffff81001300 t gone.part.0
ffffffff81001400 t split.constprop.0.cold
ffffffff81002000 T __noinstr_text_start
ffffffff81002010 t early
ffffffff81003000 T __noinstr_text_end
ffffffff82000000 D counter
ffffffff82001000 T _sdata
ffffffff82001010 T ticks
ffffffff82002000 T _edata
ffffffff83000000 T _sinittext
ffffffff83000010 t boots
ffffffff83001000 T _einittext
ffffffffc0001000 t in_module\t[mod]
ffffffffc0001100 t other.llvm.77\t[mod]
"""
TRACEABLE = [("vmlinux", "plain"), ("vmlinux", "gone.isra.0"), ("mod", "in_module"), ("mod", "other.llvm.77")]


@pytest.fixture
def symbols(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelSymbols:
    path = tmp_path / "kallsyms"
    path.write_text(KALLSYMS)
    monkeypatch.setattr(functions, "_all_traceable_functions", lambda: TRACEABLE)
    monkeypatch.setattr(functions.places, "kernel_files", list)
    monkeypatch.setattr(functions, "_BLACKLIST", str(tmp_path / "none"))
    return KernelSymbols(str(path))


@pytest.mark.parametrize(("function", "module", "why", "hint"), [
    ("plain", "", "", ""),
    ("in_module", "mod", "", ""),
    ("in_module", "nf", "is not in nf but in mod", "probe fentry:mod:in_module"),
    ("quiet", "", "not among the kernel's available_filter_functions", "kprobe:quiet may do"),
    ("early", "", "before tracing is possible (noinstr)", ""),
    ("boots", "", "its code is gone (__init)", ""),
    ("counter", "", "is not a function but data", ""), ("ticks", "", "is not a function but data", ""),
    ("gone", "", "no function gone under that name",
     "the compiler made gone.isra.0 of it (with other arguments than the source has): kprobe:gone.isra.0"),
    ("gone", "", "no function gone under that name",
     "gone.part.0 of it (a part of it, the rest of which is inlined where it is called), which is not traceable"),
    ("split", "", "no function split under that name", "(with some of its arguments fixed, what seldom runs of it)"),
    ("other", "", "no function other under that name", "other.llvm.77 of it (under another name): kprobe:other."),
    ("nothing", "", "this kernel has no function nothing", "only the kernel's debug package would tell"),
])
def test_reasons(function: str, module: str, why: str, hint: str, symbols: KernelSymbols) -> None:
    problem, hints = functions.function_obstacle(function, module, "fentry", symbols)
    assert why in problem and bool(why) == bool(problem)
    assert any(hint in text for text in hints) if hint else not hints


def test_functions_that_the_compiler_changed(symbols: KernelSymbols, tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found out once for each kernel."""
    class Types:
        def find_id(self, name: str, *kinds: int) -> int:
            return int(name in ("plain", "gone", "other"))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert functions.changed(cast(Btf, Types())) == {"gone"}
    monkeypatch.setattr(functions, "_all_traceable_functions", list)
    assert functions.changed(cast(Btf, Types())) == {"gone"}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert functions.changed(cast(Btf, Types())) == set() and not list(tmp_path.glob("other/*/changed*"))


def test_hidden_addresses_tell_nothing(tmp_path: Path, symbols: KernelSymbols) -> None:
    path = tmp_path / "hidden"
    path.write_text("".join(f"{0:016x}{line[16:]}\n" for line in KALLSYMS.splitlines()))
    hidden = KernelSymbols(str(path))
    assert functions.function_obstacle("plain", "", "kprobe", hidden) == ("", [])
    problem, hints = functions.function_obstacle("early", "", "kprobe", hidden)
    assert "not traceable" in problem and not hints


def test_what_a_function_was_inlined_into(tmp_path: Path, symbols: KernelSymbols,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel's debug information; a program of ours is in its place."""
    pytest.importorskip("elftools")
    source = """
    static inline __attribute__((always_inline)) int nothing(int a) { return a * a + 1; }
    __attribute__((noinline)) int first(int a) { return nothing(a) + 1; }
    __attribute__((noinline)) int second(int a) { return nothing(a + 2) * nothing(a); }
    int main(int argc, char **argv) { return first(argc) + second(argc); }
    """
    program = compile_c(source, tmp_path, "vmlinux", "-O2", "-g")
    monkeypatch.setattr(functions.places, "kernel_files", lambda: ["/no/such/file", str(program)])
    problem, _ = functions.function_obstacle("nothing", "", "kprobe", symbols)
    assert problem == "nothing has no code of its own: it is inlined into first, second (3 places)"
    assert "this kernel has no function absent" in functions.function_obstacle("absent", "", "kprobe", symbols)[0]
