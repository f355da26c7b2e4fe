"""Rust's symbol names: by examples of the RFC, against binutils' demangler where that is installed, and forged."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace import pieces
from sonde.kernel.foreign.demangle import demangle
from sonde.kernel.foreign.rust_names import MOST_SHOWN, demangle_rust


@pytest.mark.parametrize("mangled, shown", [
    ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
    ("_RNvC6_123foo3bar", "123foo::bar"),
    ("_RNvNtNtCsjrHSEGnQ3l9_3std3sys3pal4main.cold", "std::sys::pal::main [clone .cold]"),
    ("_RNvC3foo3bar.llvm.1234", "foo::bar"),
    ("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"),
    ("_RNSNvC1a1b4call6vtableB2_", None),
    ("_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
     "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>"),
    ("_RNvMC0INtC8arrayvec8ArrayVechKj7b_E3new", "<arrayvec::ArrayVec<u8, 123>>::new"),
    ("_RINvCs3f_1c1gKln5_Kb1_Kc78_E", "c::g::<-5, true, 'x'>"),
    ("_RYFG_EuNtC1c1t", "<for<'a> fn() as c::t>"),
    ("_RINvC1c1fFUKCPhOaElE", 'c::f::<unsafe extern "C" fn(*const u8, *mut i8) -> i32>'),
    ("_RINvC1c1fRSjQAtj3_TEThEE", "c::f::<&[usize], &mut [u16; 3], (), (u8,)>"),
    ("_RINvC1c1fRSjQAtKj3_TEThEE", None),
    ("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y", "utf8_idents::საჭმელად_გემრიელი_სადილი"),
    ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
    ("_ZN46_$LT$r..Thing$LT$T$GT$$u20$as$u20$r..Speak$GT$5speak17h3e2b2de790c34a2eE",
     "<r::Thing<T> as r::Speak>::speak"),
    ("_ZN99_$LT$r..Thing$LT$T$GT$$u20$as$u20$r..Speak$GT$5speak17h3e2b2de790c34a2eE", None),
    ("_ZN1r13gr$uf6$$udf$e17h575aac7250418c8eE.llvm.77", "r::größe"),
    ("_ZN4core3fmt5write17h0123456789abcdeE", None), ("_ZN2ns1fEi", None), ("_R", None), ("_RB_", None),
    ("_RNvB_1a", None), ("_Rust", None), ("_RNvYTB_B_ENtC1a1b1c", None), ("_R9NvC3foo3bar", None),
])
def test_names(mangled: str, shown: str | None) -> None:
    assert demangle_rust(mangled) == shown


def test_others_stay() -> None:
    assert [demangle(name) for name in ("main", "_Rust", "_RNvC3foo3bar")] == ["main", "_Rust", "foo::bar"]


def doubling(levels: int) -> str:
    """A name whose text doubles with each of its types: each is a pair of the one before."""
    text, at = "INvC1a1b", []
    for level in range(levels):
        at.append(len(text))
        text += "TllE" if not level else f"TB{base62(at[-2])}B{base62(at[-2])}E"
    return f"_R{text}E"


def base62(number: int) -> str:
    digits, text = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", ""
    number -= 1
    while number >= 0 and (number or not text):
        text, number = digits[number % 62] + text, number // 62
    return f"{text}_"


def test_a_short_name_of_a_long_text() -> None:
    """Of a doubling one the first are shown, and the longest stay as they are, soon."""
    assert demangle_rust(doubling(2)) == "a::b::<(i32, i32), ((i32, i32), (i32, i32))>"
    begin = time.process_time()
    shown = demangle_rust(doubling(60))
    assert shown is None and pieces(time.process_time() - begin) < 20
    deep = demangle_rust("_RINvC1a1b" + "S" * 500 + "lE")
    assert deep is None


@settings(max_examples=400, deadline=None)
@given(st.text("NvtCIMXYBEs0123_abLKTFDpGURQPOASun7.", max_size=60))
def test_forged_names(text: str) -> None:
    """No text is an error, and none is shown at a length without bounds."""
    shown = demangle_rust("_R" + text)
    assert shown is None or len(shown) <= MOST_SHOWN + len(text) + 20


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["C1a", "NvC1a1b", "INvC1a1b", "l", "TllE", "B_", "B0_", "B2_", "E", "FuEu", "Kj3_",
                                 "RL_h", "DNtC1a1bEL_", "G_", "p1xl"]), max_size=30))
def test_forged_parts(parts: list[str]) -> None:
    demangle_rust("_R" + "".join(parts))


RUST = r"""
mod inner {
    pub struct Thing<T> { pub v: T }
    pub trait Speak { fn speak(&self, n: u32) -> u32; }
    impl<T: Clone> Thing<T> { #[inline(never)] pub fn get(&self) -> T { self.v.clone() } }
    impl<T> Speak for Thing<T> { #[inline(never)] fn speak(&self, n: u32) -> u32 { n + 1 } }
}
use inner::Speak;
#[inline(never)] fn generic<const N: usize>(x: [u8; N]) -> usize { x.iter().map(|v| *v as usize).sum::<usize>() + N }
#[inline(never)] fn apply(f: &dyn for<'b> Fn(&'b str) -> (u8,)) -> usize { f("x").0 as usize }
fn main() {
    let n = std::env::args().count() as u32;
    let thing = inner::Thing { v: n };
    println!("{} {} {} {}", thing.get(), thing.speak(n), generic([1, 2, 3]), apply(&|s| (s.len() as u8 + n as u8,)));
}
"""


@pytest.mark.parametrize("options", [["-C", "symbol-mangling-version=v0"], []])
def test_every_name_of_a_program(options: list[str], tmp_path: Path) -> None:
    """All of them can be shown, and those of the standard library are as binutils shows them."""
    if not shutil.which("rustc") or not shutil.which("c++filt"):
        pytest.skip("needs rustc and c++filt")
    (tmp_path / "t.rs").write_text(RUST)
    made = subprocess.run(["rustc", *options, "-o", tmp_path / "prog", tmp_path / "t.rs"], capture_output=True,
                          text=True)
    if made.returncode:
        pytest.skip(f"rustc: {made.stderr[-200:]}")
    table = subprocess.run(["nm", tmp_path / "prog"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in table.splitlines() if " _R" in line or "17h" in line and "$" not in line]
    names = [name for name in names if "." not in name]
    shown = subprocess.run(["c++filt", "-s", "rust"], input="\n".join(names), capture_output=True, text=True).stdout
    assert len(names) > 10
    pairs = [(demangle_rust(name), re.sub(r"\[[0-9a-f]{12,16}\]|::h[0-9a-f]{16}$|(?<=\d): usize", "", theirs))
             for name, theirs in zip(names, shown.splitlines())]
    assert [pair for pair in pairs if pair[0] != pair[1]] == []
