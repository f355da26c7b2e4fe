"""Live views without a kernel: what a model makes of maps and rows, the page's structure, lines over time and bars."""

from __future__ import annotations

import re
import shutil
import subprocess
import tracemalloc
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from sonde import types as t
from sonde.functions import FUNCTIONS
from sonde.output.live.model import MOST_ROWS, LiveCost, Model, Snapshot, ToolTable, value_weight
from sonde.output.live.page import build_page
from sonde.output.live.serve import plain_value
from sonde.output.look import read_asset
from sonde.runtime.losses import Losses
from sonde.runtime.maps.aggregates import Histogram, LinearHistogram, Stats
from sonde.runtime.maps.series import Series
from sonde.spec import Config, MapSpec, ScriptSpec

COMM = t.Str(16)
ROOT = Path(__file__).parents[3]


class Idle:
    """A session without programs that has lost three records."""

    programs: list[Any] = []
    traced_ns = 1_000_000_000

    def losses(self) -> Losses:
        return Losses([("tracepoint:a:b", 3)], [], [])


def model(**values: t.Type) -> Model:
    maps = [MapSpec(f"@{name}", "hash", 8, 8, 16, key=COMM, value=value) for name, value in values.items()]
    return Model(ScriptSpec([], maps, [], [], ["tracepoint:a:b"], [], Config()), "x")


def hist(*values: int) -> Histogram:
    counts = [0] * t.Aggregate("hist").words
    for value in values:
        counts[value + 1 if value < 2 else value.bit_length() + 1] += 1
    return Histogram(counts)


def looks(watched: Model, *contents: list[tuple[Any, Any]]) -> Snapshot:
    for items in contents:
        watched.read_maps(lambda name, then, items=items: items)
    return watched.take_snapshot(Idle())


def test_what_grows_is_followed_by_what_it_gains() -> None:
    table, = looks(model(n=t.Aggregate("count")), [("a", 5), ("b", 1)], [("a", 9), ("b", 1), ("c", 2)]).tables
    assert (table.name, table.columns, table.total) == ("@n", ("key", "value", "per s"), 3)
    assert [(row.cells[:2], row.spark) for row in table.rows] == [
        (("a", 9), (0, 4)), (("c", 2), (2,)), (("b", 1), (0, 0))]
    assert table.rows[0].cells[2] > 0 == table.rows[2].cells[2] and table.note == "since the start"


def test_averages_are_followed_by_their_values() -> None:
    table, = looks(model(n=t.Aggregate("avg")), [("a", 5)], [("a", 3)], []).tables
    assert table.rows == () and table.columns == ("key", "value") and table.note == "now"
    table, = looks(model(n=t.Aggregate("avg")), [("a", 5)], [], [("a", 3)]).tables
    assert table.rows[0].spark == (5, None, 3)


def test_a_map_that_the_script_empties_shows_its_last_interval() -> None:
    watched = model(n=t.Aggregate("sum"))
    looks(watched, [("a", 100)])
    for value in (7, 2):
        watched.update_map("@n", [("a", value)])
    table, = looks(watched, [("a", 999)]).tables
    assert [row.cells for row in table.rows] == [("a", 2)] and table.rows[0].spark == (0, 7, 2)
    assert table.note == "of the last interval" and table.columns == ("key", "value")


def test_histograms_have_quantiles_and_bars() -> None:
    table, = looks(model(h=t.Aggregate("hist")), [("a", hist(1, 8, 8, 8))]).tables
    assert table.columns == ("key", "count", "p50", "p90", "p99", "per s")
    assert table.rows[0].cells[1] == 4 and table.rows[0].buckets == (("[1]", 1), ("[2, 4)", 0), ("[4, 8)", 0),
                                                                    ("[8, 16)", 3))


def test_columns_show_their_unit() -> None:
    stats, count, sums, gauge = t.Aggregate("stats"), t.Aggregate("count"), t.Aggregate("sum"), t.UINT64
    watched = model(us=stats, lat_us=count, ms=sums, tx_kb=gauge)
    units = {table.name: [f"{name} {symbol}".rstrip() for name, symbol in zip(table.columns, table.symbols)]
             for table in looks(watched, []).tables}
    assert units["@us"] == ["key", "count", "average µs", "total µs", "per s"]
    assert units["@lat_us"] == ["key", "value", "per s"], "counts are no times"
    assert units["@ms"] == ["key", "value ms", "per s ms/s"] and units["@tx_kb"] == ["key", "value KB"]


def test_cells_are_shown_in_a_unit_that_suits_them() -> None:
    table = looks(model(ns=t.Aggregate("max"), pids=t.UINT64), [("a", 1_265_077_774)]).tables
    cells = [made.cell_text(1, made.rows[0].cells[1]) for made in table]
    assert cells == ["1.27 s", "1265077774"] and [made.note for made in table] == ["now, in ns, by its name", "now"]


def test_columns_of_rows_show_the_unit_that_the_script_says() -> None:
    table = ToolTable("x", {"LAT": "milliseconds of all", "PID": "the process"})
    table.write_row([("PID", "7", True), ("LAT", "3", True)])
    table.write_row([("PID", "8", True), ("LAT", "4", True)])
    made = table.build_table()
    assert made.columns == ("PID", "LAT") and made.total == 2, "one block of two rows"
    assert [made.cell_text(i, cell) for i, cell in enumerate(made.rows[0].cells)] == ["8", "4 ms"]


def moments(watched: Model, *contents: list[tuple[Any, Any]]) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Of each look the keys that charts show, and what their histograms gained."""
    table, = looks(watched, *contents).tables
    return [[(point.id, tuple([count for _, _, count in point.gains])) for point in moment.points]
            for moment in table.moments]


def test_what_histograms_gain_between_looks() -> None:
    watched = model(h=t.Aggregate("hist"))
    first, more = hist(2, 2, 8), hist(2, 2, 2, 8)
    found = moments(watched, [("a", first)], [("a", more), ("b", first)], [("a", first), ("b", first)])
    assert found[0] == [], "nothing says when the first contents came"
    assert found[1] == [("[a]", (1, 0, 0)), ("[b]", (2, 0, 1))], "what is new has come since"
    assert {*found[2]} == {("[a]", (2, 0, 1)), ("[b]", (0, 0, 0))}, "what has less than before began again"
    assert moments(watched) == [], "each look is given once"


def test_portions_are_gains_and_none_is_left_out() -> None:
    watched = model(h=t.Aggregate("hist"))
    for value in (hist(2), hist(2, 2)):
        watched.update_map("@h", [("a", value)])
    assert moments(watched) == [[("[a]", (1,))], [("[a]", (2,))]]


def test_keys_in_charts_stay_while_others_pass_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.output.live.moments.MOST_CHARTED", 1)
    found = moments(model(n=t.Int()), [("a", 3), ("b", 2), ("c", 1)], [("a", 3), ("b", 4), ("c", 1)])
    assert [[key for key, _ in look] for look in found] == [["[a]"], ["[b]", "[a]"]]


def test_intervals_of_time_series_are_drawn_when_they_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    second, start = 10**9, 1_700_000_000
    kind = t.Aggregate("tseries", low=second, high=20, step=1, agg="sum")
    watched = model(n=kind)
    def look(at: float, *values: int) -> list[tuple[float, list[tuple[str, int | float]]]]:
        monkeypatch.setattr("time.time_ns", lambda: int((start + at) * second))
        table, = looks(watched, [("a", Series(second, {start + each: 10 * each for each in values}))]).tables
        return [(moment.time, [(point.id, point.value) for point in moment.points]) for moment in table.moments]

    assert look(3.5, 1, 2, 3) == [], "the third may have been read before it ended"
    first, second_ = look(4.5, 1, 2, 3)
    assert [first[1], second_[1]] == [[("[a]", 10)], [("[a]", 20)]] and second_[0] - first[0] == 1
    assert [points for _, points in look(6, 2, 3, 4, 5)] == [[("[a]", 30)]], "each once"


def test_of_many_buckets_the_last_are_shown() -> None:
    kind = t.Aggregate("lhist", low=0, high=1000, step=1)
    value = LinearHistogram([0, *[3] * 1000, 0], 0, 1000, 1)
    table, = looks(model(h=kind), [("a", value)]).tables
    buckets = table.rows[0].buckets
    assert len(buckets) == 120 and buckets[0] == ("... 881 before", None) and buckets[-1] == ("[999]", 3)


def test_the_greatest_are_shown_and_the_rest_is_counted() -> None:
    table, = looks(model(n=t.Int()), [(f"k{i}", i) for i in range(2 * MOST_ROWS)]).tables
    assert table.total == 2 * MOST_ROWS and len(table.rows) == MOST_ROWS
    assert table.rows[0].cells == ("k999", 999) and table.rows[-1].cells == ("k500", 500)


def test_text_cannot_steer_the_terminal() -> None:
    watched = model(n=t.Int())
    watched.out.write_text(b"\x1b[31mred\x1b[0m \x1b[2J\xff\nunfinished")
    snapshot = looks(watched, [("\x1b]0;x\x07", 1)])
    assert snapshot.lines == ("red \\x1b[2J\ufffd",) and snapshot.written == 1
    assert snapshot.tables[0].rows[0].cells[0] == "\\x1b]0;x\\x07"
    assert snapshot.losses == ("Lost 3 events",)


@pytest.mark.parametrize(("value", "expected"), [(5, 5), (hist(1, 2), 2), (Stats(3, 1, 3), 3), ("x", None)])
def test_weights(value: Any, expected: int | None) -> None:
    assert value_weight(value) == expected


def test_a_snapshot_as_plain_data() -> None:
    snapshot = Snapshot("t\udcff", 1.5, (), ("a",), 1, (),
                        (LiveCost("p", 2, 3.0, 0.25, 0), LiveCost("q", 1, 1.0, 0.5, 0)))
    found = plain_value(snapshot)
    assert found["share"] == 0.75 and found["title"] == "t\ufffd" and found["costs"][0]["runs"] == 2


def test_the_page_needs_nothing_else() -> None:
    text = build_page("N0nce")
    assert text.count("<script nonce=\"N0nce\">") == text.count("<style nonce=\"N0nce\">") == 1
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|(inner|outer)HTML|insertAdjacent|document\.write", text)
    markup = re.sub(r"<(style|script).*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r" (style|on\w+)=", markup)
    ids = set(re.findall(r'id="(\w+)"', text))
    assert set(re.findall(r'\bat\("(\w+)"\)', read_asset("serve.js"))) <= ids


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_the_script_parses(tmp_path: Path) -> None:
    file = tmp_path / "x.js"
    file.write_text(read_asset("scale.js", "chart.js", "serve.js"))
    done = subprocess.run(["node", "--check", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_lines_over_time_and_bars() -> None:
    pytest.importorskip("textual", reason="needs the extra 'ui'")
    from sonde.output.live.top import draw_chart, draw_sparkline
    assert draw_sparkline((0, None, 5, 10)).lstrip() == "▁ ▄█" and len(draw_sparkline(())) == 24
    assert draw_sparkline((-4, 0, 4)).strip() == "▁▄█" and draw_sparkline((0, 0)).strip() == "▁▁"
    lines = draw_chart((("[1]", 1), ("[2, 4)", 2), ("[4, 8)", None)), 10).splitlines()
    assert [line.rstrip() for line in lines] == [
        f"[1]            1 {'█' * 9}", f"[2, 4)         2 {'█' * 18}", "[4, 8)"]
    assert draw_chart((("a", 1), ("b", 1), ("c", 1)), 2).splitlines()[0] == "... 1 lines before"


def test_the_pictures_of_the_documents() -> None:
    texts = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    maker = "".join([(ROOT / name).read_text() for name in ("scripts/screenshots.py", "bench/growth.py")])
    for path in (ROOT / "docs" / "images").iterdir():
        assert f"images/{path.name}" in texts, f"nothing shows {path.name}"
        made_as = "growth-{name}.svg" if path.name.startswith("growth-") else \
            f'"{path.stem}"' if path.stem in ("off-wake", "chain") else path.name
        assert made_as in maker, f"no script makes {path.name}"
        if path.suffix == ".svg":
            ET.parse(path)
        else:
            assert path.read_bytes().startswith(b"\x89PNG")


def test_maps_that_a_tool_keeps_for_itself_are_no_tabs() -> None:
    """What biolatency clears in ``end`` and never prints; percentiles have the unit of the map's name."""
    from sonde.cli.script_names import read_script
    from sonde.language.diagnostics import Diagnostics
    from sonde.language.parser import parse_script
    from sonde.semantics.naming import what_end_does
    at_end = what_end_does(parse_script(read_script("biolatency"), Diagnostics(), []), FUNCTIONS)
    assert at_end["@issued"] == at_end["@passed"] == "clears" and "@usecs" not in at_end
    maps = [MapSpec(name, "hash", 8, 8, 16, key=None, value=t.Aggregate("hist"), memory=True,
                    at_end=at_end.get(name, ""))
            for name in ("@issued", "@usecs", "@h")]
    made = Model(ScriptSpec([], maps, [], [], ["begin"], [], Config()), "x")
    tables = {table.name: {*zip(table.columns, table.symbols)} for table in made.take_snapshot(Idle()).tables}
    assert set(tables) == {"@usecs", "@h"}
    assert {("p50", "µs"), ("p90", "µs"), ("p99", "µs")} <= tables["@usecs"] and ("p50", "") in tables["@h"]


@pytest.mark.parametrize("clauses, found", [
    ("end { clear(@a); }", "clears"),
    ("end { { print(1); clear(@a); } }", "clears"),  # as what a macro stands for
    ("end { for ($kv : @a) { printf(\"%d\\n\", $kv.1); } clear(@a); }", "shows"),
    ("i:s:1 { if (1) { for ($kv : @a) { @b[$kv.0] = $kv.1; } } } END { clear(@a); }", "shows"),
    ("interval:ms:5 { for ($kv : @b) { @a[$kv.0] = 1; } } end { clear(@a); }", "clears"),
    ("profile:hz:9 { for ($kv : @a) { delete(@a, $kv.0); } } end { clear(@a); }", "clears"),
    ("end { for ($kv : @a) { printf(\"%d\\n\", $kv.1); } }", ""),
    ("end { if (1) { clear(@a); } }", ""),
    ("interval:s:1 { print(@a); } end { clear(@a); }", ""),
    ("end { for ($kv : @a) { delete(@a, $kv.0); } }", ""),  # begin fills it too
    ("interval:s:1 { @a[2] = 1; } end { clear(@a); }", "clears")])
def test_what_end_does_with_a_map(clauses: str, found: str) -> None:
    from sonde.language.diagnostics import Diagnostics
    from sonde.language.parser import parse_script
    from sonde.semantics.naming import what_end_does
    from sonde.source import Source
    script = parse_script(Source("x", f"begin {{ @a[1] = 1; @b[1] = 1; }} {clauses}"), Diagnostics(), [])
    assert what_end_does(script, FUNCTIONS).get("@a", "") == found


@pytest.mark.parametrize("tool", ["biotop", "cachetop", "dirtop", "filetop", "slabratetop", "tcptop"])
def test_the_order_of_a_tool_s_rows_is_not_shown(tool: str) -> None:
    """The map in which it puts them in order is its own: the clause that fills it works it off."""
    from compiled import compiled
    from sonde.cli.script_names import read_script
    shown = [named.name for named in compiled(read_script(tool).text).shown_maps]
    assert "@rank" not in shown and shown


def test_keys_that_come_and_go_have_no_histories_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held after 80 looks at keys none of which is seen twice is what is held of a few."""
    monkeypatch.setattr("sonde.output.live.model.MOST_HISTORIES", 200)
    watched = model(n=t.Aggregate("count"), m=t.Int())
    held = []
    tracemalloc.start()
    for look in range(80):
        watched.read_maps(lambda name, then, look=look: [(f"{look} {key}", key + 1) for key in range(150)])
        watched.take_snapshot(Idle())
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert held[-1] < 1.3 * held[5]


def test_the_greatest_have_histories_when_not_all_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.output.live.model.MOST_HISTORIES", 2)
    watched = model(n=t.Int())
    table, = looks(watched, [("a", 1), ("b", 3), ("c", 2)], [("a", 1), ("b", 3), ("c", 2)]).tables
    assert [(row.cells[0], row.spark) for row in table.rows] == [("b", (3, 3)), ("c", (2, 2)), ("a", ())]
    table, = looks(watched, [("d", 9), ("c", 1)]).tables  # b is gone
    assert [(row.cells[0], row.spark) for row in table.rows] == [("d", (9,)), ("c", (2, 2, 1))]


def test_what_a_key_gains_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of keys that look alike, of one that was gone, and behind a time in which there were too many to follow."""
    pair = t.Tuple([COMM, COMM])
    maps = [MapSpec("@n", "hash", 8, 8, 16, key=pair, value=t.Aggregate("count"))]
    watched = Model(ScriptSpec([], maps, [], [], [], [], Config()), "x")
    alike, too = ("a, b", "c"), ("a", "b, c")
    table, = looks(watched, [(alike, 5), (too, 7)], [(alike, 6), (too, 17)]).tables
    assert [row.spark for row in table.rows] == [(0, 10), (0, 1)]
    table, = looks(watched, [(too, 17)], [(alike, 9), (too, 17)]).tables
    assert [row.spark for row in table.rows] == [(0, 10, 0, 0), (0, 1, None, 9)]
    monkeypatch.setattr("sonde.output.live.model.MOST_FOLLOWED", 1)
    looks(watched, [(alike, 1000), (too, 2000)])
    monkeypatch.undo()
    table, = looks(watched, [(alike, 2000), (too, 2000)]).tables
    assert [row.spark for row in table.rows] == [(0,), (0,)] and {row.cells[-1] for row in table.rows} == {0.0}


def test_text_without_lines_is_not_held() -> None:
    watched = model(n=t.Int())
    tracemalloc.start()
    for _ in range(500):
        watched.out.write_text(b"x" * 100_000)
        watched.gather_text()
    watched.out.write_text(b"\nthe last\n")
    snapshot = looks(watched, [])
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 3 << 20 and snapshot.lines[-1] == "the last" and max(map(len, snapshot.lines)) <= 4096


def test_integers_that_javascript_would_round_are_sent_as_text() -> None:
    assert plain_value((1 << 53) - 1) == (1 << 53) - 1 and plain_value(-(1 << 53) + 1) == -(1 << 53) + 1
    assert plain_value(((1 << 64) - 1, -(1 << 53))) == ["18446744073709551615", "-9007199254740992"]
    assert plain_value(True) is True and plain_value({"a": (float("nan"), float("inf"))}) == {"a": ["nan", "inf"]}
