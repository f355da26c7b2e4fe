"""D's and Swift's symbol names: by examples of D's specification, against binutils' demangler where that is installed,
by examples of Swift's document, and forged."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace import pieces
from sonde.kernel.foreign.d_names import MOST_SHOWN, demangle_d
from sonde.kernel.foreign.demangle import demangle
from sonde.kernel.foreign.swift_names import demangle_swift

SAME = """
_Dmain _D3app4workFiZv _D8demangle4testFaZv _D8demangle4testFAiZv _D8demangle4testFG42iZv _D8demangle4testFHilZv
_D8demangle4testFPiZv _D8demangle4testFPFiZvZv _D8demangle4testFDFiZvZv _D8demangle4testFDxFiZvZv
_D8demangle4testFPUNaNbiZvZv _D8demangle4testFC5classZv _D8demangle4testFxiOyiNgaZv _D8demangle4testFIiJiKiLiMiZv
_D8demangle4testFiXv _D8demangle4testFiYv _D8demangle4testFNaNbNiNfZv _D8demangle4test6__ctorMFZCQz
_D8demangle4test6__dtorMFZv _D8demangle4test6__initZ _D8demangle4test6__vtblZ _D8demangle4test7__ClassZ
_D8demangle12__ModuleInfoZ _D8demangle4test6memberMxFZi _D8demangle4test6memberMxFiZ5innerMFZi _D8demangle9__T4testZv
_D8demangle11__T4testTaZv _D8demangle__T4testTaZv _D8demangle__T4testTiVii42Zv _D8demangle__T4testVbi1Zv
_D8demangle__T4testVmi7Zv _D8demangle__T4testVai97Zv _D8demangle__T4testVAyaa3_616263Zv
_D8demangle__T4testS8demangle4mainZv _D3foo3barFNjNlNhG16iZv _D3foo3barFNkKiZv _D3foo3barFZ3bazMFZv
_D8demangle__T4testVde0A8P6Zv _D8demangle__T4testVPinZv _D8demangle__T4testVAiA4i1i2i3i4Zv
_D8demangle4testFB2iiZv _D8demangle__T4testVHiiA2i1i2i3i4Zv _D8demangle__T4testVS8demangle1SS2i1a3_616263Zv
_D4mainZ _D _D3 _D9demangle3
_D3fooQzi _DYNAMIC""".split()


@pytest.mark.parametrize("mangled, shown", [
    ("_D3app4workFiZv", "app.work(int)"), ("_Dmain", "D main"),
    ("_D3app5Queue3addMxFNaNbAyaZi", "app.Queue.add(immutable(char)[]) const"),
    ("_D8demangle4testFBiiZZv", "demangle.test(Tuple!(int, int))"), ("_D3foo3barFNnZNn", "foo.bar(noreturn)"),
    ("_D8demangle__T4testTaTbZv", "demangle.test!(char, bool)"),
    ("_D3app4workFiZv.cold", "app.work(int) [clone .cold]"),
    ("_D8demangle4testFPUNaNbiZvZv", "demangle.test(extern(C) void(int) pure nothrow function)"),
    ("_DYNAMIC", None), ("_D3fooQzi", None), ("_D8demangle4testFiZ", None), ("_D99999foo", None),
    ("_D8demangle__T4testVAyaa3_61zz63Zv", None), ("_D3appQbi", None)])
def test_names_of_d(mangled: str, shown: str | None) -> None:
    assert demangle_d(mangled) == shown


def test_as_binutils_shows_them() -> None:
    if shutil.which("c++filt") is None:
        pytest.skip("c++filt is not installed")
    shown = subprocess.run(["c++filt", "-s", "dlang"], input="\n".join(SAME), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    assert [demangle_d(name) or name for name in SAME] == shown


@pytest.mark.parametrize("mangled, shown", [
    ("$s4main3fooyyF", "main.foo"), ("_$s4main3fooyyF", "main.foo"), ("$s3app5QueueC3addyySiF", "app.Queue.add"),
    ("$s4main3FooV3bar3baz3quxS2i_SitF", "main.Foo.bar"), ("$s4main3FooCACycfC", "main.Foo.init"),
    ("$s4main3FooCfD", "main.Foo.deinit"), ("$s4main3FooC5countSivg", "main.Foo.count.getter"),
    ("$s4main3FooC5countSivs", "main.Foo.count.setter"), ("$s4main3FooV3barSiyFZ", "main.Foo.bar"),
    ("$s4main5OuterV5InnerO3runyyKF", "main.Outer.Inner.run"), ("$s5Hello0A5WorldV3runyyF", "Hello.HelloWorld.run"),
    ("$s4main3Foo33_0123456789ABCDEF0123456789ABCDEFLLV3baryyF", "main.Foo.bar"),
    ("$ss5print_9separator10terminatoryypd_S2StF", "Swift.print"),
    # local functions, extensions, witnesses
    ("$s4main3fooyyF3barL_yyF", None), ("$sSS4mainE3fooyyF", None), ("$s13call_protocol1CCAA1PA2aDP3fooSiyFTW", None),
    ("$s", None), ("$s4main", None), ("$s4mainMXX", None), ("$s0A3fooyyF", None), ("$s4main0z3fooyyF", None)])
def test_names_of_swift(mangled: str, shown: str | None) -> None:
    assert demangle_swift(mangled) == shown


def test_they_are_shown_with_the_others() -> None:
    names = ["main", "_DYNAMIC", "_D3app4workFiZv", "$s4main3fooyyF", "_RNvC3foo3bar"]
    assert [demangle(name) for name in names] == ["main", "_DYNAMIC", "app.work(int)", "main.foo", "foo::bar"]


def doubling(levels: int) -> str:
    """Types of which each is an associative array of the one before twice."""
    text, at = "_D1a1bF", []
    for _ in range(levels):
        at.append(len(text))
        text += "Hii" if len(at) == 1 else f"HQ{distance(len(text) + 1 - at[-2])}"
        if len(at) > 1:
            text += f"Q{distance(len(text) - at[-2])}"
    return f"{text}Zv"


def distance(number: int) -> str:
    digits = chr(ord("a") + number % 26)
    while number := number // 26:
        digits = chr(ord("A") + number % 26) + digits
    return digits


def test_names_that_would_be_huge() -> None:
    assert demangle_d(doubling(3)) == "a.b(int[int], int[int][int[int]], int[int][int[int]][int[int][int[int]]])"
    began = time.process_time()
    for name in (doubling(200), "_D1a1bF" + "A" * 8000 + "iZv", "_D" + "1a" * 4000 + "FZv", "_D" + "0" * 8000 + "1aZ",
                 "_D1a" + "FC1b" * 1000 + "Zv", "_D1aF" + "DM" * 4000, "_D" + "__T1a" * 1000, "_D1aQb" * 1000,
                 "$s4main" + "1a" * 1000 + "yyF", "$s4main3foo" + "_" * 2000, "$s4main3foo" + "S2" * 900 + "F"):
        assert len(demangle_d(name) or demangle_swift(name) or "") <= MOST_SHOWN
    assert pieces(time.process_time() - began) < 50


@settings(max_examples=300)
@given(st.one_of(
    st.text(st.sampled_from("FZvi0123456789QabTUVMSNnCHADGB_x"), max_size=60).map(lambda text: f"_D1a{text}"),
    st.text(st.sampled_from("main0123456789FyVCOSiA_LZfcvg$s"), max_size=60).map(lambda text: f"$s{text}")))
def test_forged_names(name: str) -> None:
    for text in (demangle_d(name), demangle_swift(name)):
        assert text is None or text.isprintable()
