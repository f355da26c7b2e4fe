"""Views of real runs in a real browser: flame graphs zoom, search and explain; a click on a heat map's column tells."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser
from sonde.output.views.flamegraph import flame_graph
from support import compile_c, run_sonde

BUSY = """
volatile unsigned long sink;
__attribute__((noinline)) void hot_function(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void cool_function(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink ^= i; }
int main(void) { for (;;) { hot_function(900000); cool_function(300000); } }
"""
READER = ("import time\nwith open('/dev/zero', 'rb', 0) as file:\n"
          "    for i in range(60):\n        file.read(4321 if i % 2 else 100)\n        time.sleep(0.01)\n")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.fixture(autouse=True)
def without_complaints(browser: Browser) -> Iterator[None]:
    browser.complaints.clear()
    browser.prefer("light")
    yield
    assert not browser.complaints


@pytest.fixture(scope="module")
def flame(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The flame graph of a program with two functions."""
    folder = tmp_path_factory.mktemp("flame")
    compile_c(BUSY, folder, "busy", "-O0", "-fno-omit-frame-pointer")
    done = run_sonde("flame", "-c", str(folder / "busy"), "-o", str(folder / "busy.svg"), "2")
    assert done.returncode == 0, done.stderr
    return folder / "busy.svg"


@pytest.fixture(scope="module")
def heat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A heat map of reads of two sizes: 30 of 100 bytes, 30 of 4321."""
    folder = tmp_path_factory.mktemp("heat")
    (folder / "child.py").write_text(READER)
    done = run_sonde("--heatmap", "--every", "0.1", "-o", str(folder / "x.html"), "-c",
                     f"{sys.executable} {folder / 'child.py'}", "-e",
                     "tracepoint:syscalls:sys_exit_read /pid == cpid && (args.ret == 100 || args.ret == 4321)/ "
                     "{ @bytes = hist(args.ret); }")
    assert done.returncode == 0, done.stderr
    return folder / "x.html"


def frame(name: str) -> str:
    return f'.frame[data-name="{name}"]'


def width(browser: Browser, name: str) -> float:
    found = browser.eval(f"document.querySelector('{frame(name)} rect').getBoundingClientRect().width")
    return float(found)


def test_a_click_zooms(browser: Browser, flame: Path) -> None:
    browser.open(flame)
    whole, hot = width(browser, "all"), width(browser, "hot_function")
    assert whole / 2 < hot < whole
    browser.click(frame("hot_function"))
    browser.wait_for("document.querySelector('.reset').getAttribute('visibility') == 'visible'")
    assert width(browser, "hot_function") == pytest.approx(whole, abs=0.1)
    assert browser.eval(f"document.querySelector('{frame('cool_function')}').style.display") == "none"
    assert browser.eval(f"document.querySelector('{frame('main')}').classList.contains('under')")
    browser.click(".reset")
    browser.wait_for("document.querySelector('.reset').getAttribute('visibility') == 'hidden'")
    assert width(browser, "hot_function") == pytest.approx(hot, abs=0.1)
    browser.click(frame("cool_function"))
    browser.key("Escape")
    browser.wait_for("document.querySelector('.reset').getAttribute('visibility') == 'hidden'")


def frames(browser: Browser) -> dict[str, list[list[float]]]:
    """Weight, x, y and width of the frames that are to be seen, by name, from the lowest to the highest."""
    found = browser.eval("Array.from(document.querySelectorAll('.frame')).filter(f => f.getClientRects().length).map("
                         "f => { const r = f.querySelector('rect').getBoundingClientRect(); "
                         "return [f.dataset.name, +f.dataset.weight, r.x, r.y, r.width]; })")
    by_name: dict[str, list[list[float]]] = {}
    for name, *place in sorted(found, key=lambda each: (-each[3], each[2])):
        by_name.setdefault(name, []).append(place)
    return by_name


STACKS = {("app", "main", "work", "read_[k]"): 50, ("app", "main", "work"): 30, ("app", "idle"): 5,
          ("app", "main", "other", "read_[k]"): 15}


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """The flame graph of STACKS."""
    (tmp_path / "known.svg").write_text(flame_graph(STACKS, "known", None, 1, "samples"))
    return tmp_path / "known.svg"


def test_icicles_hang_down(browser: Browser, known: Path) -> None:
    browser.open(known)
    before = frames(browser)
    heights = [before[name][0][2] for name in ("all", "app", "main", "work", "read_[k]")]
    assert heights == sorted(heights, reverse=True)
    browser.click(".icicle")
    browser.wait_for("location.hash == '#form=icicle'")
    after = frames(browser)
    assert [after[name][-1][2] for name in ("all", "app", "main", "work", "read_[k]")] == pytest.approx(heights[::-1])
    assert [sorted(each[0] for each in after[name]) for name in before] == [
        sorted(each[0] for each in before[name]) for name in before]
    browser.click(".icicle")
    assert frames(browser) == before and browser.eval("location.hash") in ("", "#")


def test_inverted_stacks_begin_with_what_ran(browser: Browser, known: Path) -> None:
    browser.open(known)
    upright = frames(browser)
    browser.click(".invert")
    browser.wait_for("location.hash == '#form=inverted'")
    found = frames(browser)
    assert {name: [each[0] for each in places] for name, places in found.items()} == {
        "all": [100], "read_[k]": [65], "work": [30, 50], "idle": [5], "other": [15], "main": [30, 15, 50],
        "app": [5, 30, 15, 50]}
    whole = found["all"][0][3]
    assert found["read_[k]"][0][3] == pytest.approx(whole * 0.65, abs=0.1)
    browser.hover(f".frames:not([style*=none]) {frame('read_[k]')} rect")
    assert browser.wait_for("(t => t.startsWith('read') && t)(document.querySelector('.detail').textContent)") \
        == "read: 65 samples (65.00%)"
    browser.click(f".frames:not([style*=none]) {frame('read_[k]')}")
    assert set(frames(browser)) == {"all", "read_[k]", "work", "other", "main", "app"}
    browser.click(".invert")
    assert frames(browser) == upright


def test_an_address_has_the_whole_state(browser: Browser, known: Path) -> None:
    browser.open(known)
    browser.click(".icicle")
    browser.click(frame("work"))
    browser.reply = "re|main"
    browser.key("/")
    browser.wait_for("location.hash.includes('search')")
    shown, address = frames(browser), browser.eval("location.href")
    assert address.startswith(known.resolve().as_uri() + "#form=icicle&zoom=")
    browser.open("about:blank")
    browser.open(address)
    assert frames(browser) == shown and "other" not in shown
    matched = "document.querySelector('.matched').textContent"
    assert browser.eval(matched) == "matched: 95.00%"
    browser.key("Escape")
    browser.wait_for(f"location.hash == '#form=icicle' && {matched} == ' '")
    browser.eval("location.hash = '#form=inverted'")  # somebody edits the address
    browser.wait_for(f"document.querySelectorAll('.frames:not([style*=none]) {frame('work')}').length == 2")


TALL = {tuple(f"frame_{i}" for i in range(120)): 9_000_000_000,
        ("frame_0", "frame_1", "x"): 1_265_077_774, ("frame_0", "frame_1", "--", "wake_[k]"): 850_000}


@pytest.mark.parametrize(("folded", "width"), [(TALL, 1280), (TALL, 1800), (STACKS, 1280), (STACKS, 700)])
def test_a_graph_has_its_natural_height_and_the_windows_width(browser: Browser, tmp_path: Path, width: int,
                                                              folded: dict[tuple[str, ...], int]) -> None:
    """A tall one is scrolled, a flat one takes no more than it needs; names can be read in both."""
    (tmp_path / "x.svg").write_text(flame_graph(folded, "Off the CPU", None, 1, "ns"))
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(tmp_path / "x.svg")
        sizes = browser.eval("(r => [r.width, r.height])(document.documentElement.getBoundingClientRect())")
        levels = max(map(len, folded)) + 1
        assert width - 20 <= sizes[0] <= width and sizes[1] == pytest.approx(58 + 28 + 17 * levels)
        rows = browser.eval("Array.from(document.querySelectorAll('.frame rect')).map(r => "
                            "r.getBoundingClientRect().height)")
        assert set(map(round, rows)) == {16}
        assert frames(browser)["all"][0][3] == pytest.approx(sizes[0] - 20, abs=0.1)
        browser.eval("window.scrollTo(0, 1e6)")
        assert (browser.eval("window.scrollY") > 1000) == (folded is TALL)
        browser.ask("Emulation.setDeviceMetricsOverride", width=width - 60, height=800, deviceScaleFactor=1,
                    mobile=False)
        browser.wait_for(f"document.documentElement.getBoundingClientRect().width < {width - 40}")
        ends = browser.eval("Array.from(document.querySelectorAll('.control, .legend')).map(c => "
                            "c.getBoundingClientRect()).map(r => [r.left, r.right])")
        assert all(0 <= left < right <= width - 60 for left, right in ends)
        assert sorted(ends) == sorted(ends, key=lambda end: end[1]), "nothing lies over anything else"
        assert all(one[1] < other[0] for one, other in zip(sorted(ends), sorted(ends)[1:]))
    finally:
        browser.ask("Emulation.clearDeviceMetricsOverride")


def test_a_page_and_its_script_scale_alike(browser: Browser, tmp_path: Path) -> None:
    """What flame.js says of a weight is what Python says."""
    weights = (1, 999, 1234, 99_949, 999_949, 999_950, 5_000_000, 1_265_077_774, 987_654_321_000)
    for unit, weight in itertools.product(("ns", "µs", "KB", "samples"), weights):
        (tmp_path / "x.svg").write_text(flame_graph({("main",): weight}, "t", None, 0, unit))
        browser.open(tmp_path / "x.svg")
        tips = "Array.from(document.querySelectorAll('.frames:not([style*=none]) title')).map(t => " \
               "t.textContent.split(' (')[0]).sort()"
        ours = browser.eval(tips)
        browser.click(".invert")
        browser.wait_for("location.hash == '#form=inverted'")
        assert browser.eval(tips) == ours


def test_a_report_can_be_read_and_sorted(browser: Browser, tmp_path: Path) -> None:
    """At any width and in both modes, with numbers in a unit that suits them."""
    file = tmp_path / "x.html"
    done = run_sonde("-f", "html", "-o", str(file), "-e",
                     'begin { @ns["<b>x"] = max(999); @ns["y"] = max(1265077774); @ns["z"] = max(5000000); '
                     '@h_ns = hist(70000); @s[kstack] = count(); printf("text"); exit(); }')
    assert done.returncode == 0, done.stderr
    browser.open(file)
    cells = "Array.from(document.querySelectorAll('table.map tbody tr')).map(r => r.innerText.replace(/\\s+/, ' '))"
    assert browser.eval(cells) == ["y 1.27 s", "z 5 ms", "<b>x 999 ns"]
    browser.click("th button", "value")
    browser.click("th button", "value")
    assert browser.eval(cells) == ["<b>x 999 ns", "z 5 ms", "y 1.27 s"]
    assert browser.eval("document.querySelector('table.map td.number').title") == "999 ns"
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        assert browser.faint_texts() == []
    try:
        for width in (320, 768, 1920):
            browser.resize(width)
            assert browser.eval("document.documentElement.scrollWidth") <= width
    finally:
        browser.ask("Emulation.clearDeviceMetricsOverride")


def test_the_words_of_drawings_can_be_read(browser: Browser, known: Path, tmp_path: Path) -> None:
    """Frames of every colour in both modes, and what stands beside them."""
    names = {(f"{kind}{n}{end}",): 50 for n in range(24) for kind, end in (("a", ""), ("k", "_[k]"))}
    waker = {("w", "--", f"v{n}", f"k{n}_[k]"): 50 for n in range(12)}
    (tmp_path / "all.svg").write_text(flame_graph(names | waker, "t", None, 1, "ns"))
    (tmp_path / "change.svg").write_text(flame_graph(STACKS, "t", {("app", "main", "work"): 90}, 1, "samples"))
    for file in (known, tmp_path / "all.svg", tmp_path / "change.svg"):
        browser.open(file)
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            assert browser.faint_texts() == []


def test_graphs_of_one_page_have_a_state_each(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "x.html"
    done = run_sonde("-f", "html", "-o", str(file), "-e",
                     "begin { @a[kstack] = count(); @b[kstack, comm] = count(); exit(); }")
    assert done.returncode == 0, done.stderr
    browser.open(file)
    look = "Array.from(document.querySelectorAll('svg .icicle')).map(e => e.textContent)"
    browser.eval("document.querySelectorAll('svg')[1].querySelector('.icicle').classList.add('second')")
    browser.click(".second")
    browser.wait_for("location.hash == '#form1=icicle'")
    assert browser.eval(look) == ["icicles", "flames"]
    browser.click(".icicle")
    browser.wait_for("location.hash == '#form1=icicle&form=icicle'")
    assert browser.eval(look) == ["flames", "flames"]


def test_searching(browser: Browser, flame: Path) -> None:
    browser.open(flame)
    browser.reply = "^(hot|cool)_"
    browser.key("/")
    matched = browser.wait_for("(document.querySelector('.matched').textContent.match(/matched: ([0-9.]+)%/) || [])[1]")
    weights = {name: browser.eval(f"+document.querySelector('{frame(name)}').dataset.weight")
               for name in ("all", "hot_function", "cool_function")}
    assert float(matched) == pytest.approx(100 * (weights["hot_function"] + weights["cool_function"]) / weights["all"],
                                           abs=0.01)
    assert browser.eval("document.querySelectorAll('.frame.found').length") == 2
    lit = browser.eval(f"getComputedStyle(document.querySelector('{frame('hot_function')} rect')).fill")
    assert lit != browser.eval(f"getComputedStyle(document.querySelector('{frame('main')} rect')).fill")
    browser.click(".search")
    browser.wait_for("document.querySelectorAll('.frame.found').length == 0")
    browser.reply = "[("  # no regular expression: taken as it stands
    browser.click(".search")
    browser.wait_for("document.querySelector('.matched').textContent == 'matched: 0.00%'")


def test_what_the_mouse_is_over_is_told(browser: Browser, flame: Path) -> None:
    browser.open(flame)
    browser.hover(frame("hot_function") + " rect")
    told = browser.wait_for("(t => t.startsWith('hot_function') && t)(document.querySelector('.detail').textContent)")
    assert "samples (" in told
    assert told == browser.eval(f"document.querySelector('{frame('hot_function')} title').textContent")


def test_dark_mode(browser: Browser, flame: Path, heat: Path) -> None:
    for path in (flame, heat):
        browser.open(path)
        look = "getComputedStyle(document.querySelector('svg')).backgroundColor"
        ink = "getComputedStyle(document.querySelector('svg text')).fill"
        light = browser.eval(look), browser.eval(ink)
        browser.prefer("dark")
        dark = browser.eval(look), browser.eval(ink)
        browser.prefer("light")
        assert light[0] == "rgb(255, 255, 255)" and dark[0] != light[0] and dark[1] != light[1]


def test_a_column_of_a_heat_map(browser: Browser, heat: Path) -> None:
    browser.open(heat)
    bars = "Array.from(document.querySelectorAll('.bar')).map(b => b.textContent)"
    totals = browser.eval(bars)
    assert "[64, 128) B: 30" in totals and "[4K, 8K) B: 30" in totals
    assert browser.eval("document.querySelector('.caption').textContent") == "all columns: 60 values"
    percentiles = "document.querySelector('.percentiles').textContent"
    whole = browser.eval(percentiles)
    assert (found := re.fullmatch(r"p50 (\d+) B, p90 ([\d.]+) KiB, p99 ([\d.]+) KiB", whole)) is not None
    assert 64 <= int(found[1]) <= 128 and all(4 <= float(found[i]) < 8 for i in (2, 3))
    columns = browser.eval("Array.from(document.querySelectorAll('.column')).map(c => c.dataset.counts)")
    at, counts = next((i, c) for i, c in enumerate(columns) if int(c.split()[0]) > 0)
    browser.eval(f"document.querySelectorAll('.column')[{at}].classList.add('sought')")
    browser.click(".column.sought .all")
    browser.wait_for("document.querySelectorAll('.column.chosen').length == 1")
    shown = browser.eval(bars)
    assert [text.rpartition(": ")[2] for text in shown] == counts.split() != ["30"] * len(shown)
    assert browser.eval("document.querySelector('.caption').textContent") == browser.eval(
        "document.querySelector('.column.chosen').dataset.time")
    few = browser.eval(percentiles)
    assert few == browser.eval("document.querySelector('.column.chosen').dataset.percentiles") != ""
    cells = browser.eval("Array.from(document.querySelectorAll('.column.chosen rect[data-count] title')).map("
                         "t => t.textContent)")
    times = sum(int(count) for count in counts.split())
    assert [cell.partition(" B: ")[2] for cell in cells] == [
        f"{count} of {times} ({int(count) / times:.2%})" for count in counts.split() if int(count)]
    browser.click(".column.chosen .all")
    browser.wait_for("document.querySelectorAll('.column.chosen').length == 0")
    assert browser.eval(bars) == totals and browser.eval(percentiles) == whole


def test_the_page_of_everything(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "x.html"
    done = run_sonde("-f", "html", "-o", str(file), "-e",
                     'begin { for ($i : 0..12) { @n[$i] = ($i * 5) % 12; } printf("<img src=x>\\n"); exit(); }')
    assert done.returncode == 0, done.stderr
    browser.open(file)
    values = "Array.from(document.querySelectorAll('table.map tbody tr')).filter(r => r.style.display != 'none')" \
             ".map(r => +r.cells[1].textContent)"
    browser.click("table.map th", "value")
    assert browser.eval(values) == sorted(browser.eval(values), reverse=True)
    browser.click("table.map th", "value")
    assert browser.eval(values) == sorted(browser.eval(values))
    browser.click("input")
    browser.type("11")
    browser.wait_for(f"{values}.length == 2")  # the key 11, and the value 11
    assert browser.eval("document.querySelectorAll('img').length") == 0
