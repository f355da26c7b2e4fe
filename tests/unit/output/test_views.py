"""Views: what fits which script, and the structure of what they draw."""

from __future__ import annotations

import csv
import html.parser
import io
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiled import world
from decoding import Names
from sonde import compiling
from sonde import types as t
from sonde.errors import SondeError, UsageError
from sonde.output.look import read_asset
from sonde.output.text import text_output
from sonde.output.units import scale_value
from sonde.output.views import VIEWS, Target, ViewPrinter, check_view, fitting_views, view_class
from sonde.output.views.csv import event_columns, key_columns
from sonde.output.views.flame_diff import flame_diff
from sonde.output.views.flamegraph import describe_early, flame_graph
from sonde.output.views.flamegraph import fit_name as fitting_name
from sonde.output.views.heat import Heat, HeatCollector, HeatColumn, bucket_label, bucket_range, colour_level
from sonde.output.views.heat_svg import heat_document
from sonde.output.views.heatmap import terminal_lines
from sonde.output.views.stacks import build_tree, folded_lines, read_folded
from sonde.runtime.losses import Losses
from sonde.runtime.maps.aggregates import Bucket, Histogram, LinearHistogram, Stats
from sonde.runtime.records.batch import Batch, Records
from sonde.runtime.records.events import Event
from sonde.runtime.records.values import InetAddress, StackTrace
from sonde.spec import ErrorSite, EventField, EventSite, FormatPart, ScriptSpec
from viewing import COUNTS, HOSTILE, Run, map_of, printf, printing, script

COMM = t.Str(16)
KSTACK, USTACK = t.Stack(), t.Stack(user=True)
PYSTACK = t.Stack(user=True, mode=t.PYTHON)
COUNT, SUM, HIST, STATS = (t.Aggregate(kind) for kind in ("count", "sum", "hist", "stats"))
SVG = "{http://www.w3.org/2000/svg}"
SECOND = 1_000_000_000


def hist(*values: int) -> Histogram:
    counts = [0] * t.Aggregate("hist").words
    for value in values:
        counts[value + 1 if value < 2 else value.bit_length() + 1] += 1
    return Histogram(counts)


def kernel_stack() -> StackTrace:
    return StackTrace(KSTACK, 7, 0, 2, Names())


def user_stack() -> StackTrace:
    return StackTrace(USTACK, 8, 5, 1, Names())


# --- what fits --------------------------------------------------------------------------------------------

STACKS = map_of("@", t.Tuple((COMM, USTACK, KSTACK)), COUNT)
LATENCY = map_of("@usecs", None, HIST)
PAIRS = map_of("@pairs", t.Tuple((t.Inet(), t.Inet(), t.Int(16))), SUM)


@pytest.mark.parametrize(("spec", "views"), [
    (script(STACKS), ["folded", "flamegraph", "pprof", "otlp", "html", "csv"]),
    (script(LATENCY), ["heatmap", "html", "csv"]),
    (script(LATENCY, sites=[printing(LATENCY)]), ["heatmap", "html", "csv"]),
    (script(PAIRS), ["dot", "html", "csv"]),
    (script(COUNTS), ["html", "csv"]),
    (script(COUNTS, sites=[printing(COUNTS)]), ["html", "csv", "perfetto"]),
    (script(sites=[EventSite("printf", None, [EventField(COMM, 16)], 32, [FormatPart("", "s")])]),
     ["html", "csv", "perfetto"]),
    (script(sites=[EventSite("time", None, [], 16, [], {"format": "%H"})]), []),
    (script(map_of("@", COMM, KSTACK)), ["html", "csv"]),
    (script(map_of("@", KSTACK, t.Aggregate("avg"))), ["html", "csv"]),
    (script(map_of("@", KSTACK, STATS)), ["folded", "flamegraph", "pprof", "otlp", "html", "csv"]),
    (script(map_of("@", t.Tuple((t.Int(), t.Int())), COUNT)), ["dot", "html", "csv"]),
    (script(map_of("@", t.Tuple((t.Int(), t.Int(), t.Int())), COUNT)), ["html", "csv"]),
])
def test_what_fits(spec: ScriptSpec, views: list[str]) -> None:
    assert fitting_views(spec) == [view for view in VIEWS if view in views]


@pytest.mark.parametrize("name", ["folded", "flamegraph", "heatmap", "dot"])
def test_what_does_not_fit_says_what_does(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_view(name, script(COUNTS))
    assert f"-f {name} shows" in caught.value.message
    assert any("text, json, html, csv" in hint for hint in caught.value.hints)
    assert any(f"sonde -f {name} -e" in hint for hint in caught.value.hints)


def test_there_is_no_such_view() -> None:
    with pytest.raises(UsageError, match='Invalid output format "pie"'):
        view_class("pie")


# --- stacks -----------------------------------------------------------------------------------------------


def test_folded() -> None:
    run = Run("folded", script(STACKS))
    run.view.add_map(STACKS, [(("a;b\n", user_stack(), kernel_stack()), 3)], 0, "clear")
    run.view.add_map(STACKS, [(("a;b\n", user_stack(), kernel_stack()), 4), (("x", user_stack(), kernel_stack()), 0)],
                     0, "final")
    assert run.finish() == "a:b\\x0a;main;[unknown]_[k];do_x_[k] 7\n"


def test_what_was_printed_and_not_cleared_counts_once() -> None:
    run = Run("folded", script(STACKS))
    for count, then in ((1, ""), (5, "final")):
        run.view.add_map(STACKS, [(("x", user_stack(), kernel_stack()), count)], 0, then)
    assert run.finish().endswith(" 5\n")
    run = Run("folded", script(STACKS))
    run.view.add_map(STACKS, [(("x", user_stack(), kernel_stack()), 2)], 0, "")
    run.view.on_map_cleared(STACKS)
    run.view.add_map(STACKS, [(("x", user_stack(), kernel_stack()), 3)], 0, "final")
    assert run.finish().endswith(" 5\n")


def test_several_maps_stand_side_by_side() -> None:
    other = map_of("@other", KSTACK, HIST)
    run = Run("folded", script(STACKS, other))
    run.view.add_map(STACKS, [(("x", user_stack(), kernel_stack()), 2)], 0, "final")
    run.view.add_map(other, [(kernel_stack(), hist(1, 2, 3))], 0, "final")
    assert run.finish() == "@;x;main;[unknown]_[k];do_x_[k] 2\n@other;[unknown]_[k];do_x_[k] 3\n"


def test_a_wakers_stack_stands_over_that_of_the_woken() -> None:
    waker = StackTrace(KSTACK, 9, 0, 2, Waking())
    named = map_of("@", t.Tuple((KSTACK, KSTACK)), STATS)
    run = Run("folded", script(named))
    run.view.add_map(named, [((kernel_stack(), waker), Stats(2, 5, 10))], 0, "final")
    assert run.finish() == "[unknown]_[k];do_x_[k];--;do_x_[k];[unknown]_[k] 10\n"


@pytest.mark.parametrize("native,shown", [
    (["poll", "time_sleep", "_PyEval_EvalFrameDefault", "_PyEval_Vector", "main"],
     "outer (a.py:9);inner (a.py:7);time_sleep;poll"),
    (["poll", "lost"], "outer (a.py:9);inner (a.py:7);poll"),
    ([], "outer (a.py:9);inner (a.py:7)"),
])
def test_python_frames_take_the_interpreters_place(native: list[str], shown: str) -> None:
    named = map_of("@", t.Tuple((USTACK, PYSTACK, KSTACK)), STATS)
    run = Run("folded", script(named))
    key = (StackTrace(USTACK, 3 if native else 0, 4, len(native), Pythonic(native)),
           StackTrace(PYSTACK, 5, 4, 2, Pythonic([])), kernel_stack())
    run.view.add_map(named, [(key, Stats(2, 5, 2))], 0, "final")
    assert run.finish() == f"{shown};[unknown]_[k];do_x_[k] 2\n"


class Pythonic(Names):
    def __init__(self, native: list[str]) -> None:
        super().__init__()
        self.native = native

    def stack_frames(self, stack: int) -> tuple[int, ...]:
        return (1 << 63, 1 << 63 | 1) if stack == 5 else tuple(range(len(self.native)))

    def usym(self, address: int, tgid: int) -> tuple[str, int, str]:
        python = [("inner", 7, "/srv/a.py"), ("outer", 9, "/srv/a.py")]
        return python[address & 1] if address >> 63 else (self.native[address], 0, "/lib/x.so")


class Waking(Names):
    def stack_frames(self, stack: int) -> tuple[int, ...]:
        return (0x1001, 0x2002)


def test_reading_folded(tmp_path: Path) -> None:
    file = tmp_path / "x.folded"
    file.write_text("# comment\nmain;a b;c 3\n\nmain;a b;c 2\nmain 1.0\n")
    folded = read_folded(str(file))
    assert folded == {("main", "a b", "c"): 5, ("main",): 1}
    assert "".join(folded_lines(folded)) == "main 1\nmain;a b;c 5\n"
    for wrong in ("main;x", "nothing at all", "a;b -3", "a inf"):
        file.write_text(f"a 1\n{wrong}\n")
        with pytest.raises(SondeError, match=r"x\.folded:2: not a folded stack"):
            read_folded(str(file))
    with pytest.raises(SondeError, match="failed to open"):
        read_folded(str(tmp_path / "none"))


FOLDED = {("busy", "main", "hot"): 90, ("busy", "main", "cool"): 10, ("busy", "main", "hot", "irq_[k]"): 20}


def frames_of(text: str) -> dict[str, ET.Element]:
    root = ET.fromstring(text)
    return {g.attrib["data-name"]: g for g in root.iter(f"{SVG}g") if "data-name" in g.attrib}


def box(frame: ET.Element) -> dict[str, str]:
    found = frame.find(f"{SVG}rect")
    assert found is not None
    return found.attrib


def test_flame_graph() -> None:
    frames = frames_of(flame_graph(FOLDED, "title", None, 1, "samples"))
    assert set(frames) == {"all", "busy", "main", "hot", "cool", "irq_[k]"}
    width = {name: float(box(frame)["width"]) for name, frame in frames.items()}
    assert width["all"] == width["busy"] == width["main"] == 1180
    assert width["hot"] == pytest.approx(1180 * 110 / 120, abs=0.01)
    assert width["cool"] == pytest.approx(1180 * 10 / 120, abs=0.01)
    assert float(box(frames["cool"])["x"]) < float(box(frames["hot"])["x"])  # in order of the names
    assert [re.sub(r"\d", "", box(frames[name])["class"]) for name in ("all", "busy", "main", "irq_[k]")] \
        == ["head", "head", "user", "kernel"]
    ys = [int(box(frames[name])["y"]) for name in ("all", "busy", "main", "hot", "irq_[k]")]
    assert ys == sorted(ys, reverse=True) and len(set(ys)) == 5
    tips = {name: frame.findtext(f"{SVG}title") for name, frame in frames.items()}
    assert tips["hot"] == "hot: 110 samples (91.67%)"
    assert tips["irq_[k]"] == "irq (kernel): 20 samples (16.67%)"
    assert frames["irq_[k]"].findtext(f"{SVG}text") == "irq"


def texts_of(graph: str, look: str) -> list[str]:
    """The texts of an SVG file that have a class."""
    return [each.text or "" for each in ET.fromstring(graph.encode()).iter(f"{SVG}text")
            if look in each.attrib.get("class", "").split()]


def test_the_colours_of_a_flame_graph_are_explained() -> None:
    """Each colour that is in it, and no other."""
    assert texts_of(flame_graph(FOLDED, "title"), "legend") == ["names", "user, Python, JIT", "kernel"]
    woken = {("busy", "main", "--", "wake", "irq_[k]"): 5}
    graph = flame_graph(woken, "title")
    assert texts_of(graph, "legend") == ["names", "user, Python, JIT", "waker", "waker's kernel"]
    assert texts_of(flame_graph({("busy",): 1}, "title"), "legend") == ["names"]
    assert texts_of(flame_graph({}, "title"), "legend") == []
    assert texts_of(flame_graph(FOLDED, "title", FOLDED), "legend") == ["greater share than before", "lesser"]
    kinds = {re.sub(r"\d", "", box(frame)["class"]) for frame in frames_of(graph).values()}
    assert kinds == {re.sub(r"\d", "", each.attrib["class"]) for each in ET.fromstring(graph.encode())
                     if each.tag == f"{SVG}rect"}


@pytest.mark.parametrize(("value", "symbol", "expected"), [
    (1_265_077_774, "ns", "1.27 s"), (999, "ns", "999 ns"), (0, "ns", "0 ns"), (12_345, "ns", "12.3 µs"),
    (999_950, "ns", "1 ms"), (999_400, "ns", "999 µs"), (1500, "µs", "1.5 ms"), (12.34, "ms", "12.3 ms"),
    (7200, "s", "7,200 s"), (4096, "B", "4 KiB"), (1023, "B", "1,023 B"), (3, "KB", "3 KiB"),
    (5 << 40, "B", "5 TiB"), (-5000, "ns", "-5 µs"), (123_456, "samples", "123,456 samples"), (5, "", "5"),
    (1, "samples", "1 sample"), (12, "%", "12 %")])
def test_values_are_shown_in_the_unit_that_suits_them(value: float, symbol: str, expected: str) -> None:
    assert scale_value(value, symbol) == expected


def test_times_of_a_flame_graph_are_scaled() -> None:
    frames = frames_of(flame_graph({("a", "b"): 1_265_077_774}, "t", None, 1, "ns"))
    assert frames["b"].findtext(f"{SVG}title") == "b: 1.27 s (100.00%)"


def test_a_difference_of_times_knows_its_unit(tmp_path: Path) -> None:
    """A file of folded stacks says what its numbers are."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text("# sonde flame.\n# here.\n# nothing was lost.\n# the numbers are ns.\np;a 500000\n")
    after.write_text("# sonde flame.\n# here.\n# nothing was lost.\n# the numbers are ns.\np;a 1500000\n")
    graph = flame_diff(str(before), str(after))
    assert "after: 1.5 ms, compared with before: 500 µs" in graph and "a: 1.5 ms (100.00%)" in graph
    assert "Incomplete" not in graph


@pytest.mark.parametrize(("symbol", "low", "high", "expected"), [
    ("ns", 1 << 19, 1 << 20, "[524 µs, 1.05 ms)"), ("ns", 0, 1, "[0 ns]"), ("µs", 1000, None, "[1 ms, ...)"),
    ("ns", None, 2000, "(..., 2 µs)"), ("B", 4096, 8192, "[4K, 8K) B"), ("", 4096, 8192, "[4K, 8K)")])
def test_ranges_of_times_are_scaled(symbol: str, low: int | None, high: int | None, expected: str) -> None:
    assert bucket_label(Bucket(low, high, 1), symbol) == expected


def test_flame_graph_needs_nothing_else() -> None:
    text = flame_graph(FOLDED, "title")
    assert not re.search(r"""(href|src|url\(|@import)""", text)
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in text and "@media print" in text


def test_narrow_frames_are_left_out_and_deep_stacks_are_drawn() -> None:
    deep = tuple(f"f{i}" for i in range(3000))
    frames = frames_of(flame_graph({deep: 1_000_000, ("tiny",): 1}, "t"))
    assert len(frames) == 3001 and "tiny" not in frames


def test_no_stacks() -> None:
    assert "no stacks were collected" in "".join(ET.fromstring(flame_graph({}, "t")).itertext())


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5), st.text(max_size=20))
def test_flame_graphs_of_any_names_are_well_formed(names: list[str], title: str) -> None:
    text = flame_graph({tuple(names): 5}, title)
    ET.fromstring(text.encode())
    assert text.count("<script>") == 1


def test_hostile_names_stay_names() -> None:
    folded = {(HOSTILE, "main"): 5}
    text = flame_graph(folded, HOSTILE)
    root = ET.fromstring(text.encode())
    assert len(list(root.iter(f"{SVG}script"))) == 1
    assert "\x1b" not in text and "\x00" not in text
    names = [g.attrib["data-name"] for g in root.iter(f"{SVG}g") if "data-name" in g.attrib]
    assert names[1].startswith("<script>alert('\"&]]>\\x1b[2J\\x00")


@pytest.mark.parametrize(("name", "width", "expected"), [
    ("main", 100, "main"), ("a_long_function_name", 60, "a_long…"), ("main", 20, ""), ("x", 20, "x")])
def test_names_are_cut_to_fit(name: str, width: float, expected: str) -> None:
    assert fitting_name(name, width) == expected


def test_differences(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text("p;a 50\np;b 50\np;gone 100\n")
    after.write_text("p;a 90\np;b 10\n")
    frames = frames_of(flame_diff(str(before), str(after)))
    assert set(frames) == {"all", "p", "a", "b"}
    assert str(frames["a"].findtext(f"{SVG}title")).endswith("a: 90 (90.00%), +65.00% of all")
    assert str(frames["b"].findtext(f"{SVG}title")).endswith("b: 10 (10.00%), -15.00% of all")
    assert "hsl(0," in box(frames["a"])["style"] and "hsl(215," in box(frames["b"])["style"]


def test_the_tree_adds_up() -> None:
    root = build_tree(FOLDED, {("busy",): 7})
    busy = root.children["busy"]
    assert (root.total, root.before, busy.before, busy.children["main"].children["hot"].total) == (120, 7, 7, 110)


# --- heat maps --------------------------------------------------------------------------------------------


def collected(*columns: tuple[Histogram, str]) -> Any:
    collector = HeatCollector("@h")
    for i, (value, then) in enumerate(columns):
        collector.add_items([(None, value)], i * SECOND, then)
    return collector.heats


def test_columns_of_a_map_that_is_cleared() -> None:
    heat, = collected((hist(1, 1), "clear"), (hist(8), "clear"), (hist(), "final"))
    assert [(row.low, row.high) for row in heat.rows] == [(1, 2), (2, 4), (4, 8), (8, 16)]
    assert [column.counts for column in heat.columns] == [[2, 0, 0, 0], [0, 0, 0, 1]]
    assert (heat.greatest_count, heat.row_totals) == (2, [2, 0, 0, 1])


def test_columns_of_a_map_that_grows() -> None:
    heat, = collected((hist(1), ""), (hist(1, 1, 1), ""), (hist(1, 1, 1, 1), "final"))
    assert [column.counts for column in heat.columns] == [[1], [2], [1]]
    collector = HeatCollector("@h")
    collector.add_items([(None, hist(1, 1))], 0, "")
    collector.on_map_cleared()
    collector.add_items([(None, hist(1, 1, 1))], 1, "")
    assert [column.counts for column in collector.heats[0].columns] == [[2], [3]]


def test_a_heat_map_for_each_key() -> None:
    collector = HeatCollector("@h")
    collector.add_items([("sda", hist(1)), ("sdb", hist(2, 4))], 0, "clear")
    collector.add_items([("sda", hist(1))], 1, "clear")
    assert [heat.name for heat in collector.heats] == ["@h[sda]", "@h[sdb]"] or \
        [heat.name for heat in collector.heats] == ["@h[sdb]", "@h[sda]"]
    assert {len(heat.columns) for heat in collector.heats} == {2}


def test_linear_histograms() -> None:
    heat, = collected((LinearHistogram([1, 2, 0, 4], 0, 20, 10), "clear"))
    assert [bucket_range(row) for row in heat.rows] == ["(..., 0)", "[0, 10)", "[10, 20)", "[20, ...)"]


def test_heat_map_on_a_terminal() -> None:
    heat, = collected(*[(hist(*[4] * (i + 1)), "clear") for i in range(200)])
    for width, colours in ((80, 0), (80, 256), (40, 1 << 24)):
        lines = "".join(terminal_lines(heat, width, colours)).splitlines()
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
        assert plain[0] == "@h:" and plain[1].startswith("[4, 8) ")
        assert all(len(line) <= width for line in plain)
        assert ("\x1b" in "".join(lines)) == bool(colours)
    assert any("48;2;" in line for line in terminal_lines(heat, 80, 1 << 24))
    assert any("48;5;" in line for line in terminal_lines(heat, 80, 256))


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 1), (25, 5), (100, 10)])
def test_levels(count: int, expected: int) -> None:
    assert colour_level(count, 100, 10) == expected


@pytest.mark.parametrize("columns", [1, 3, 9, 11, 14, 200])
def test_the_legend_and_the_times_have_lines_of_their_own(columns: int) -> None:
    """However far right the end time is."""
    root = ET.fromstring(heat_document(collected(*[(hist(4), "clear")] * columns), "t").encode())
    times = {text.attrib["y"] for text in root.iter(f"{SVG}text") if re.match(r"\d\d:\d\d:\d\d", text.text or "")}
    legend = {float(rect.attrib["y"]) for rect in root.iter(f"{SVG}rect") if rect.attrib.get("height") == "10"}
    assert times and legend and max(map(float, times)) < min(legend)


def test_heat_map_as_svg() -> None:
    collector = HeatCollector("@h")
    for i in range(3):
        collector.add_items([(HOSTILE, hist(1, 8, 8))], i * SECOND, "clear")
    root = ET.fromstring(heat_document(collector.heats, HOSTILE).encode())
    columns = [g for g in root.iter(f"{SVG}g") if g.attrib.get("class") == "column"]
    assert [column.attrib["data-counts"] for column in columns] == ["1 0 0 2"] * 3
    cells = [rect.attrib["data-count"] for column in columns for rect in column if "data-count" in rect.attrib]
    assert cells == ["1", "2"] * 3
    bars = [rect for rect in root.iter(f"{SVG}rect") if rect.attrib.get("class") == "bar"]
    assert [bar.attrib["data-count"] for bar in bars] == ["3", "0", "0", "6"]
    assert "no values" in "".join(ET.fromstring(heat_document([], "t")).itertext())


@pytest.mark.parametrize("suffix", [".svg", ".html", ""])
def test_the_files_name_decides_what_a_heat_map_is(suffix: str) -> None:
    spec = script(LATENCY, sites=[printing(LATENCY)])
    run = Run("heatmap", spec, Target(f"x{suffix}" if suffix else "", 80, 0, "t"))
    run.view.add_map(LATENCY, [(None, hist(3))], 5 * SECOND, "clear")
    start = {".svg": "<?xml", ".html": "<!DOCTYPE html>", "": "@usecs:\n"}[suffix]
    assert run.finish().startswith(start)


# --- graphs, tables, traces, pages ------------------------------------------------------------------------


def dot_of(text: str) -> str:
    """What Graphviz makes of a graph, where it is installed."""
    if shutil.which("dot"):
        return subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True).stdout
    return ""


def test_dot() -> None:
    here, there = InetAddress(2, bytes([127, 0, 0, 1])), InetAddress(2, bytes([10, 0, 0, 1]))
    run = Run("dot", script(PAIRS))
    run.view.add_map(PAIRS, [((here, there, 80), 5)], 0, "clear")
    run.view.add_map(PAIRS, [((here, there, 80), 7), ((there, here, 443), 1)], 0, "final")
    text = run.finish()
    assert 'n0 [label="10.0.0.1"]' in text and 'n1 [label="127.0.0.1"]' in text
    assert 'n1 -> n0 [label="80: 12", penwidth=6];' in text and 'n0 -> n1 [label="443: 1", penwidth=1];' in text
    drawn = dot_of(text)
    assert not drawn or "127.0.0.1" in drawn


def test_dot_of_hostile_names() -> None:
    named = map_of("@", t.Tuple((COMM, COMM)), COUNT)
    run = Run("dot", script(named))
    run.view.add_map(named, [((HOSTILE, '\\N"];\\'), 5)], 0, "final")
    text = run.finish()
    assert text.count("\n") == len(text.splitlines()) == 8
    assert r'[label="\\N\"];\\"]' in text
    dot_of(text)


def test_csv_of_several_maps() -> None:
    record = map_of("@r", t.Tuple((t.Int(), COMM), ("pid", "comm")), STATS)
    run = Run("csv", script(record, LATENCY))
    run.view.add_map(LATENCY, [(None, hist(1, 3))], 0, "final")
    run.view.add_map(record, [((5, 'a,"b"\n'), Stats(2, 5, 10))], 0, "final")
    rows = list(csv.DictReader(io.StringIO(run.finish())))
    assert [(row["table"], row["low"], row["high"], row["count"]) for row in rows[:2]] \
        == [("@usecs", "1", "2", "1"), ("@usecs", "2", "4", "1")]
    assert (rows[2]["pid"], rows[2]["comm"], rows[2]["average"], rows[2]["total"]) == ("5", 'a,"b"\n', "5", "10")


def test_csv_of_one_map_and_stacks() -> None:
    run = Run("csv", script(STACKS))
    run.view.add_map(STACKS, [(("x", user_stack(), kernel_stack()), 2)], 0, "final")
    assert run.finish() == "key1,key2,key3,value\nx,main,[unknown]_[k];do_x_[k],2\n"


def test_the_report_has_units_and_what_the_script_says() -> None:
    waits = map_of("@wait", COMM, t.Aggregate("stats"))
    waits.about = "milliseconds in the <queue>"
    run = Run("html", script(waits))
    run.view.add_map(waits, [("cat", Stats(2, 5, 10))], 5 * SECOND, "final")
    text = run.finish()
    assert "<th>count</th><th>average</th><th>total</th>" in text
    assert 'data-value="10" title="10 ms">10 ms</td>' in text and "in ms, as the script says" in text
    assert '<p class="soft">milliseconds in the &lt;queue&gt;</p>' in text


def test_csv_of_events() -> None:
    site = printf(FormatPart("pid="), FormatPart("", "d"), FormatPart(" took: "), FormatPart("", "d"),
                  FormatPart(" of "), FormatPart("", "d"))
    assert event_columns(site) == ("pid", "took", "arg3")
    run = Run("csv", script(sites=[site]))
    run.view.add_event(Event("printf", (1, 2, "x\udcff"), "tracepoint:a:b", 5 * SECOND, 0), site, "")
    assert run.finish() == "time,pid,took,arg3\n2023-11-14T22:13:25.000000000Z,1,2,x\ufffd\n"


@pytest.mark.parametrize("name", [b"plain name", b"", b"a,b", b'"', b"\xff\x1b", b"\\"])
def test_csv_of_many_events_is_that_of_each(name: bytes) -> None:
    """Times with all numbers of leading zeros, across seconds, in order and not; texts that need quotes, and not."""
    fields = [EventField(t.INT64, 16), EventField(COMM, 24), EventField(t.INT16, 40)]
    site = EventSite("printf", None, fields, 48, [FormatPart("", "d"), FormatPart("", "s"), FormatPart("", "d")])
    steps = [0, 1, 1, 8, 90, 900, 9_000, 90_000, 899_999, 9_000_000, 90_000_000, SECOND, 5, 3 * SECOND - 7]
    ordered = [5 * SECOND + sum(steps[:count + 1]) for count in range(len(steps))]
    for times in (ordered, ordered[::-1]):
        data = b"".join([struct.pack("=IIQq16shxxxxxx", 0, 1, time, -time, name, number % 3 - 1)
                         for number, time in enumerate(times)])
        written = []
        for records in (Records([Batch(0, data, times, 0, range(0, len(data), 48))]),
                        Records([Batch(0, data, [time], 0, [at * 48]) for at, time in enumerate(times)])):
            run = Run("csv", script(sites=[site]))
            text = text_output(run.pieces.append)
            printer = ViewPrinter(run.view.spec, Names(), text, lambda *_: [], print, run.view)
            printer.print_batches(records, print)
            written.append(b"".join([piece.encode() if isinstance(piece, str) else piece for piece in run.pieces]))
        assert written[0] == written[1] and written[0].count(b"\n") == 1 + len(times)


def test_csv_of_a_tools_tables() -> None:
    """The columns are those of the heading; another heading begins another table."""
    site = printf(FormatPart("", "d"))
    run = Run("csv", script(COUNTS, sites=[site]), Target(title="x", table=("PID", "COMM", "NEW")))
    run.view.heading(["PID", "COMM"])
    run.view.row([("PID", "7", True), ("COMM", "a,b\x1b", False)], 5 * SECOND, "probe")
    run.view.row([("NEW", "1", True)], 6 * SECOND, "probe")
    first, one, second, two = csv.reader(io.StringIO(run.finish()))
    assert first == ["time", "table", "key", "PID", "COMM", "value"] and one[1:] == ["x", "", "7", "a,b\\x1b", ""]
    assert second == ["time", "table", "key", "NEW", "value"] and two[1:] == ["x", "", "1", ""]


def test_columns_are_called_as_the_script_calls_the_values() -> None:
    spec = compiling.compile('begin { printf("%d %s a=%d %d %d", pid, comm, 1, tid, tid); '
                       '@a[comm, pid] = count(); @b[pid, pid, (uint8)cpu] = 1; @c[ntop(2), "x"] = count(); '
                       "@p = 1; } end { clear(@p); }", world=world())
    assert event_columns(spec.sites[0]) == ("pid", "comm", "a", "arg4", "arg5")
    assert [key_columns(spec.find_map(name)) for name in ("@a", "@b", "@c")] == [
        ("comm", "pid"), ("key1", "key2", "cpu"), ("ntop", "key2")]
    assert [named.name for named in spec.shown_maps] == ["@a", "@b", "@c"] and spec.find_map("@p").at_end == "clears"


class Elements(html.parser.HTMLParser):
    """Checks that elements nest, and counts them."""

    VOID = {"meta", "input", "br"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page() -> None:
    site = printf(FormatPart("", "s"))
    spec = script(STACKS, LATENCY, COUNTS, map_of("@h", COMM, HIST), sites=[site, printing(LATENCY)])
    run = Run("html", spec, Target(title=HOSTILE))
    run.view.add_event(Event("printf", ("x",), "begin", 1, 0), site, HOSTILE)
    run.view.add_map(STACKS, [((HOSTILE, user_stack(), kernel_stack()), 2)], 0, "final")
    run.view.add_map(LATENCY, [(None, hist(1, 3))], 0, "clear")
    run.view.add_map(COUNTS, [(HOSTILE, 5), *[(f"n{i}", i) for i in range(20)]], 0, "final")
    run.view.add_map(spec.maps[3], [(HOSTILE, hist(5))], 0, "final")
    text = run.finish()
    found = Elements(text)
    assert found.count["script"] == 1 and found.count["svg"] == 2 and found.count["input"] == 1
    assert "<b>n19</b>" not in text and "\x1b" not in text and "alert('" not in text
    assert re.findall(r"<h2>([^<]*)", text) == ["@", "@usecs (µs)", "@counts", "@h", "output"]
    assert "<h3>@h[" in text and "1 values: p50 " in text
    assert "default-src 'none'" in text


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
@pytest.mark.parametrize("code", [read_asset(f"{name}.js") for name in ("scale", "flame", "heat", "tables")],
                         ids=["scale", "flame", "heat", "tables"])
def test_scripts_parse(code: str, tmp_path: Path) -> None:
    file = tmp_path / "x.js"
    file.write_text(code)
    done = subprocess.run(["node", "--check", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("early", "samples", "lines"), [
    (48, 200, ["48 of 200 samples (24%) have a user stack that lacks its outer frames"]), (0, 200, []), (201, 200, [])])
def test_the_share_of_stacks_that_end_early(early: int, samples: int, lines: list[str]) -> None:
    assert describe_early(early, samples) == lines


def test_which_stacks_end_early() -> None:
    errors = [(ErrorSite(kind, None), 5) for kind in ("unwind_none", "unwind_map", "unwind_deep", "read")]
    assert Losses([], errors, [], short=2).early_user_stacks == 12


def test_rows_name_their_values() -> None:
    assert bucket_range(Bucket(0, 1, 1)) == "[0]" and bucket_range(Bucket(1024, 2048, 1)) == "[1K, 2K)"
    assert bucket_range(Bucket(1000, 1024, 1)) == "[1000, 1K)" and bucket_range(Bucket(1 << 20, 1 << 30,
                                                                                       1)) == "[1M, 1G)"


def test_csv_has_no_columns_of_maps_that_never_come_out() -> None:
    spec = compiling.compile('config = { print_maps_on_exit = false } begin { printf("%-7s\\n", "PID"); } '
                       'interval:s:1 { @mine[comm, pid] = count(); for ($pair : @mine) { '
                       'printf("%-7d\\n", $pair.0.1); } clear(@mine); }', world=world())
    run = Run("csv", spec, Target(title="x", table=("PID",)))
    run.view.heading(["PID"])
    run.view.row([("PID", "7", True)], 5 * SECOND, "probe")
    assert [row[1:] for row in csv.reader(io.StringIO(run.finish()))] == [["PID"], ["7"]]


def test_the_histogram_stands_beside_the_cells() -> None:
    """Of few columns too: it does not float at the other end of the page."""
    for count in (2, 600):
        heat = Heat("@x", [Bucket(0, 1, 0)], [HeatColumn(second * 10**9, [1]) for second in range(count)])
        root = ET.fromstring(heat_document([heat], "t").encode())
        edge = next(each for each in root.iter(f"{SVG}rect") if each.attrib.get("class") == "edge")
        bar = next(each for each in root.iter(f"{SVG}rect") if each.attrib.get("class") == "bar")
        right, panel = float(edge.attrib["x"]) + float(edge.attrib["width"]), float(bar.attrib["x"])
        assert right < panel < max(right, 430) + 100 and panel + 190 <= 1200
