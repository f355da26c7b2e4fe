"""uprobes with types, by C++ name and by source line, against the fake World."""

from __future__ import annotations

import pytest

from sonde.semantics.mangled_names import function_name, functions_named
from sonde.semantics.user_probes import whole_functions
from sonde.semantics.world import UserFunction
from sonde.types import INT32
from unit.fake_world import check_text, findings


@pytest.mark.parametrize("text, code, at", [
    ("uprobe:prog:work { print(args.count) }", "", ""),
    ("uprobe:prog:work { print(args.pair.low) }", "", ""),
    ("uprobe:prog:work { print(args.gone) }", "no-argument", "args.gone"),
    ("uprobe:prog:work { print(args.nope) }", "unknown-field", "args.nope"),
    ("uprobe:prog:work { print(args) }", "args-left-out", "uprobe:prog:work"),
    ("uprobe:prog:main { print(args) }", "no-args", "args"),
    ("uprobe:prog:work+4 { print(args) }", "no-args", "args"),
    ("uprobe:prog:prog.c:12 { print(args) }", "no-args", "args"),
    ("uprobe:prog:* { print(args.count) }", "no-args", "uprobe:prog:*"),
    ("uprobe:prog:prog.c:13 { }", "missing-probe", "uprobe:prog:prog.c:13"),
    ("uretprobe:prog:prog.c:12 { }", "probe-form", "uretprobe:prog:prog.c:12"),
    ('uprobe:prog:cpp:"nope" { }', "missing-probe", 'uprobe:prog:cpp:"nope"'),
    ("uprobe:prog:cpp { }", "missing-probe", "uprobe:prog:cpp"),
])
def test_findings(text: str, code: str, at: str) -> None:
    found = findings(text)
    assert [f[0] for f in found] == ([code] if code else [])
    assert all(at in f[1] for f in found)


@pytest.mark.parametrize("form", ["prog.c:12", "@prog.c:12"])
def test_a_source_line(form: str) -> None:
    attach = check_text(f"uprobe:prog:{form} {{ }}").probes[0].attach
    assert [(a.name, a.event, a.offset) for a in attach] == [("uprobe:/bin/prog:prog.c:12", "work", 0x208)]


def test_retval_has_a_type_where_it_is_followed_and_functions_agree() -> None:
    def result(text: str) -> object:
        return check_text(text).probes[0].attach[0].result

    assert result("uretprobe:prog:work { @ = *retval }") == INT32
    assert result("uretprobe:prog:work { @ = retval }") is None
    assert result("uretprobe:prog:work, uretprobe:prog:main { @ = *retval }") is None
    assert result("uretprobe:prog:w* { @ = *retval }") is None


@pytest.mark.parametrize("text, names", [
    ("f", ["f", "g"]), ("*", ["f", "g"]), ("f.cold", ["f", "f.cold", "g.cold.3", "g"]),
    ("*.cold*", ["f", "f.cold", "g.cold.3", "g"]),
])
def test_a_cold_part_is_no_function_of_its_own(text: str, names: list[str]) -> None:
    functions = [UserFunction(name, 0, 0, 8) for name in ("f", "f.cold", "g.cold.3", "g")]
    assert [function.name for function in whole_functions(functions, text)] == names


@pytest.mark.parametrize("whole, name", [
    ("ns::f(int)", "ns::f"), ("ns::point::sum(int) const", "ns::point::sum"), ("f()", "f"), ("plain", "plain"),
    ("void ns::f<int>(int)", "ns::f<int>"), ("ns::f(int (*)(char))", "ns::f"),
    ("std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector<int, std::allocator<int> >::push_back"),
    ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"), ("ns::operator()(int)", "ns::operator()"),
    ("ns::x::operator bool() const", "ns::x::operator bool"), ("operator new(unsigned long)", "operator new"),
    ("f(int) [clone .cold]", "f"), ("ns::x::~x()", "ns::x::~x"),
])
def test_names_without_parameters(whole: str, name: str) -> None:
    assert function_name(whole) == name


@pytest.mark.parametrize("language, text, chosen", [
    ("rust", "a::f", ["f1", "f2"]), ("rust", "a::f::<u8>", ["f1"]), ("rust", "a::*", ["f1", "f2", "g"]),
    ("rust", "plain", ["plain"]), ("rust", "<T as a::B>::f", ["h"]), ("rust", "ns::f", []),
    ("rust", "old::f", ["old"]), ("cpp", "old::f", ["old"]),
    ("cpp", "ns::f", ["c1", "c2"]), ("cpp", "ns::f(int)", ["c1"]),
    ("cpp", "plain", ["plain", "c3"]), ("cpp", "a::f", []), ("cpp", "*plain*", ["plain", "c3"]),
    ("rust", "a::f::<fn(u8) -> a::C<u8>>", ["f2"]),
])
def test_names_in_source_code(language: str, text: str, chosen: list[str]) -> None:
    rows = {"f1": ("_RNvC1a1f1", "a::f::<u8>"), "f2": ("_RNvC1a1f2", "a::f::<fn(u8) -> a::C<u8>>"),
            "g": ("_RNvC1a1g", "a::g"), "h": ("_RNvXC1a1h", "<T as a::B>::f"), "plain": ("plain", "plain"),
            "old": ("_ZN3old1f17h0123456789abcdefE", "old::f"), "c1": ("_ZN2ns1fEi", "ns::f(int)"),
            "c2": ("_ZN2ns1fEd", "ns::f(double)"), "c3": ("_Z5plaind", "plain(double)")}
    functions = [UserFunction(symbol, 0x1000 + index, index, 1) for index, (symbol, _) in enumerate(rows.values())]
    named = functions_named(functions, [name for _, name in rows.values()], language, text)
    assert [list(rows)[function.offset] for function in named] == chosen
