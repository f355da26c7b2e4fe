"""What speedscope makes of the folded and the pprof form: by the rules of its importers (src/import/bg-flamegraph.ts
and pprof.ts of its repository), and speedscope itself, where its npm package is installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from browser import Browser
from decoding import Names
from pprof_reader import ReadProfile
from sonde import types as t
from sonde.output.views import Target, view_class
from sonde.runtime.provenance import Provenance
from sonde.runtime.records.values import StackTrace
from sonde.spec import Config, MapSpec, ScriptSpec
from speedscope import Weights, open_in_speedscope, speedscope_page

COMM, KSTACK, USTACK = t.Str(16), t.Stack(), t.Stack(user=True)
RUN = Provenance("sonde -f folded -e '@[kstack] 12'", "host", "6.18", 1_700_000_000 * 10**9, 2.5,
                 ["Lost 5 events: 5 of profile:hz:99", "99"])


def by_folded(text: str) -> Weights:
    """Each line that ends with a blank and a number is a stack, split at semicolons; all others are passed over."""
    found: Weights = {}
    for line in text.split("\n"):
        if match := re.fullmatch(r"(.*) ([0-9]+)", line):
            stack = tuple(match[1].split(";"))
            found[stack] = found.get(stack, 0) + int(match[2])
    return found


def by_pprof(data: bytes) -> tuple[Weights, str]:
    """The last type of sample, and its unit; a location is the function of its last line, labels are not looked at."""
    profile = ReadProfile(data)
    found: Weights = {}
    for (_, stack), values in profile.samples.items():
        names = tuple(name for name, _ in stack)
        found[names] = found.get(names, 0) + values[-1]
    return found, profile.types[-1][1]


def written(form: str, named: MapSpec, items: list[tuple[Any, int]], path: Path) -> bytes:
    spec = ScriptSpec([], [named], [], [], ["begin"], [], Config())
    pieces: list[Any] = []
    view = view_class(form)(spec, Names(), pieces.append, Target(str(path)))
    view.add_map(named, items, 0, "final")
    view.run = RUN
    view.finish()
    return b"".join([piece if isinstance(piece, bytes) else piece.encode() for piece in pieces])


def two_stacks(form: str, path: Path) -> bytes:
    """What a form has of two programs that waited."""
    named = MapSpec("@wait_ns", "hash", 8, 8, 16, key=t.Tuple((COMM, USTACK, KSTACK)), value=t.Aggregate("sum"),
                    labels=("comm", "", ""))
    stacks = StackTrace(USTACK, 8, 5, 1, Names()), StackTrace(KSTACK, 7, 0, 2, Names())
    return written(form, named, [(("a b;c 7\n", *stacks), 1 << 40), (("x", *stacks), 5)], path)


def without_first(folded: Weights) -> Weights:
    """A folded form's stacks without programs' names and the marks of the kernel's frames, as pprof has them."""
    plain: Weights = {}
    for stack, weight in folded.items():
        names = tuple(name.removesuffix("_[k]") for name in stack[1:])
        plain[names] = plain.get(names, 0) + weight
    return plain


def test_both_forms_show_the_same(tmp_path: Path) -> None:
    """Weights by stack; what the files say of their run is taken for no stack, though it ends with a number."""
    folded = by_folded(two_stacks("folded", tmp_path / "x").decode())
    assert sum(folded.values()) == (1 << 40) + 5 and {stack[0] for stack in folded} == {"a b:c 7\\x0a", "x"}
    assert by_pprof(two_stacks("pprof", tmp_path / "x")) == (without_first(folded), "nanoseconds")


def test_speedscope_itself_opens_both(tmp_path: Path) -> None:
    speedscope_page()
    with Browser() as browser:
        for form, name, unit in (("folded", "x.folded", "none"), ("pprof", "x.pb.gz", "nanoseconds")):
            file = tmp_path / name
            file.write_bytes(two_stacks(form, file))
            shown = open_in_speedscope(browser, file)
            assert shown == (by_folded(file.read_text()) if form == "folded" else by_pprof(file.read_bytes())[0], unit)
        assert not browser.complaints
