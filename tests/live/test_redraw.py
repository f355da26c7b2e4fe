"""What is redrawn in place: blocks of interval probes and heat maps, in a real terminal and through a pipe."""

from __future__ import annotations

import os
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from threading import Event, Thread

import pytest

from support import PATIENCE, run_sonde
from terminal import Terminal

SVG = "{http://www.w3.org/2000/svg}"
BLOCKS = ('begin { printf("the beginning\\n"); } '
          'interval:ms:200 { @n++; printf("block %d\\n", @n); printf("of two lines\\n"); }')
TALL = 'interval:ms:200 { @n++; for ($i : 0..30) { printf("line %d\\n", $i); } printf("block %d\\n", @n); }'
READER = ("import time\nwith open('/dev/zero', 'rb', 0) as file:\n"
          "    for i in range(50):\n        file.read(4321)\n        time.sleep(0.01)\n")
MY_READS = "tracepoint:syscalls:sys_exit_read /pid == cpid && args.ret == 4321/"


def child(folder: Path) -> str:
    """A command line: 50 reads of 4321 bytes in half a second or more."""
    file = folder / "child.py"
    file.write_text(READER)
    return f"{sys.executable} {file}"


def test_a_block_takes_the_place_of_the_one_before_it() -> None:
    with Terminal("--redraw", "-e", BLOCKS) as terminal:
        screen = terminal.wait_for(r"^block [3-9]$", r"^of two lines$", r"Ctrl-C ends")
        assert len(re.findall(r"^block", screen, re.MULTILINE)) == 1
        assert terminal.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"
        terminal.keys("C-c")
        left = terminal.wait_for_end()
        assert terminal.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip() == "0 1"
    assert left.count("the beginning") == 1
    (last,) = re.findall(r"^block (\d+)\nof two lines$", left, re.MULTILINE)
    assert re.search(rf"^@n: {last}$", left, re.MULTILINE) and "ended=0" in left


def test_a_terminal_that_changes_its_size() -> None:
    with Terminal("--redraw", "-e", TALL, lines=40) as terminal:
        terminal.wait_for(r"^line 29$", r"^block \d+$")
        terminal.resize(50, 10)
        screen = terminal.wait_for(r"^line 7$", r"^\.\.\. 23 more lines than fit", gone=[r"line 8"])
        assert screen.splitlines()[0].rstrip().endswith("Ctrl-C ends")
        terminal.resize(100, 40)
        terminal.wait_for(r"^line 29$", r"^block \d+$", gone=["more lines"])


def test_events_stand_below_the_blocks() -> None:
    program = 'interval:ms:200 { @n++; printf("block %d\\n", @n); } profile:hz:5 { printf("event on %d\\n", cpu); }'
    with Terminal("--redraw", "-e", program, lines=12) as terminal:
        terminal.wait_for(r"\A.*Ctrl-C ends\nblock \d+\n\n(event on \d+\n){8}")


def test_tools_redraw_and_scripts_only_when_asked() -> None:
    with Terminal("-e", BLOCKS) as terminal:
        terminal.wait_for(r"^block 1$", r"^block 2$", r"^block 3$")
    with Terminal("tcptop", "-p", str(os.getpid())) as terminal:  # which sends nothing
        terminal.wait_for(r"^tcptop +\d\d:\d\d:\d\d .*Ctrl-C ends", r"^PID +COMM")
        terminal.keys("C-c")
        left = terminal.wait_for_end()
        assert len(re.findall(r"^PID +COMM", left, re.MULTILINE)) == 1
    with Terminal("--no-redraw", "tcptop", "--count", "2") as terminal:
        left = terminal.wait_for_end()
        assert len(re.findall(r"^PID +COMM", left, re.MULTILINE)) == 2


def test_a_terminal_that_cannot_be_drawn_on() -> None:
    with Terminal("--redraw", "--count", "2", "-e", BLOCKS, before="TERM=dumb ") as terminal:
        left = terminal.wait_for_end()
    assert re.findall(r"^block (\d)$", left, re.MULTILINE) == ["1", "2"]


def test_stopped_and_continued() -> None:
    with Terminal("--redraw", "-e", BLOCKS, before="set -m; ") as terminal:
        terminal.wait_for(r"^block [2-9]$")
        terminal.keys("C-z")
        terminal.wait_for(r"^ended=\d+", gone=["block"])  # the shell goes on: the job is stopped
        assert terminal.tmux("display-message", "-p", "#{alternate_on}").strip() == "0"


def test_blocks_are_counted() -> None:
    done = run_sonde("--count", "3", "-e", BLOCKS)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"block (\d)\nof two lines\n", done.stdout) == ["1", "2", "3"]
    assert "block 4" not in done.stdout
    done = run_sonde("tcptop", "--count", "2")
    assert done.returncode == 0 and done.stdout.count("LADDR") == 2
    done = run_sonde("--count", "2", "-e", "interval:ms:100 { @[1] = count(); print(@); clear(@); }")
    assert done.stdout.partition("\n\n\n")[0] == "@[1]: 1\n@[1]: 1"


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["--count", "0", "-e", BLOCKS], "--count takes a whole number from 1 up"),
    (["--count", "2", "-e", "begin { }"], "this script has none"),
    (["--heatmap", "--every", "x", "-e", "begin { @ = hist(1); }"], "--every takes seconds"),
    (["--heatmap", "-f", "csv", "-e", "begin { @ = hist(1); }"], "one form at a time"),
])
def test_complaints(arguments: list[str], complaint: str) -> None:
    done = run_sonde(*arguments)
    assert done.returncode == 1 and complaint in done.stderr


# --- bars of long work --------------------------------------------------------------------------------------


def test_a_capture_says_how_far_it_is(tmp_path: Path) -> None:
    file = tmp_path / "x.svg"
    with Terminal("flame", "-c", "sleep 900", "-o", str(file), "600") as terminal:
        terminal.wait_for(r"^tracing  \[#* *\]  \d+ of 600 s$")
        terminal.keys("C-c")
        left = terminal.wait_for_end()
    assert "tracing" not in left and f"Wrote {file}" in left
    done = run_sonde("flame", "-c", child(tmp_path), "-o", str(file), "600")
    assert "tracing" not in done.stderr and "\r" not in done.stderr
    with Terminal("-q", "runqlat", "1") as terminal:
        assert "tracing" not in terminal.wait_for_end()


def test_a_large_map_says_how_far_it_is_read() -> None:
    program = "let @x = hash(400000); begin { for ($i : 0..400000) { @x[$i] = 1; } exit(); }"
    with Terminal("-o", "/dev/null", "-e", program) as terminal:
        terminal.wait_for(r"^reading @x  \[#* *\]  [\d,]+ of 400,000 keys$|^ended=0")
        assert "reading" not in terminal.wait_for_end()
    done = run_sonde("-e", program, timeout=110)
    assert done.stdout.count("@x[") == 400_000 and "reading" not in done.stderr


# --- heat maps --------------------------------------------------------------------------------------------


def counts(path: Path) -> list[list[int]]:
    """The counts of each column of a heat map in SVG."""
    columns = [g for g in ET.parse(path).iter(f"{SVG}g") if g.attrib.get("class") == "column"]
    return [[int(count) for count in column.attrib["data-counts"].split() if count != "-"] for column in columns]


def test_a_map_that_the_script_does_not_print_is_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "x.svg"
    done = run_sonde("--heatmap", "--every", "0.1", "-o", str(file), "-c", child(tmp_path),
                     "-e", f"{MY_READS} {{ @bytes = hist(args.ret); }}")
    assert done.returncode == 0, done.stderr
    found = counts(file)
    assert len(found) >= 4 and sum(map(sum, found)) == 50
    assert sum(1 for column in found if sum(column)) >= 3


def test_time_series_are_heat_maps_too(tmp_path: Path) -> None:
    file = tmp_path / "x.svg"
    done = run_sonde("--heatmap", "-o", str(file), "-c", child(tmp_path), "-e",
                     f'config = {{ unstable_tseries = "enable" }} {MY_READS} '
                     '{ @reads[comm] = tseries(1, 100ms, 1000, "sum"); }')
    assert done.returncode == 0, done.stderr
    found = counts(file)
    assert len(found) >= 5 and sum(map(sum, found)) == 50
    assert "python" in file.read_text()


@pytest.mark.parametrize(("settings", "look"), [
    ({"COLORTERM": "truecolor"}, r"\x1b\[48;2;\d+;\d+;\d+m"), ({}, r"\x1b\[48;5;\d+m"), ({"NO_COLOR": "1"}, "[░▒▓█]")])
def test_a_heat_map_grows_on_the_terminal(settings: dict[str, str], look: str) -> None:
    with Terminal("--heatmap", "--every", "0.1", "-e", "profile:hz:99 { @cpu = lhist(cpu, 0, 4, 1); }", env=settings,
                  before="export COLORTERM; " if settings else "unset COLORTERM; ") as terminal:
        terminal.wait_for(r"^@cpu:", r"^\[0\] *\|.{6,}\|", "Ctrl-C ends")
        picture = terminal.screen(colours=True)
        terminal.keys("C-c")
        terminal.wait_for_end()
        left = terminal.screen(colours=True)
    if "COLORTERM" not in settings and not settings:
        assert re.search(look, picture)
    assert re.search(look, left) and "[0]" in left


@pytest.mark.parametrize("tool", ["runqlat", "biolatency"])
def test_a_tool_that_prints_only_when_asked_has_a_heat_map(tool: str, tmp_path: Path) -> None:
    """What their pages show: without -i the script prints no map, so that the map itself is looked at each moment."""
    if tool == "biolatency" and not os.listdir("/sys/block"):
        pytest.skip("vm guests have no disk")
    over = Event()

    def write() -> None:
        while not over.wait(0.05):
            with open(tmp_path / "written", "wb") as file:
                file.write(b"x" * 4096)
                file.flush()
                os.fsync(file.fileno())

    writer = Thread(target=write)
    writer.start()
    try:
        with Terminal(tool, "--heatmap", "--every", "0.2") as terminal:
            terminal.wait_for(r"^@usecs:", r"^\[\d[^|]*[\])] *\|.{8,}\|", "Ctrl-C ends")
            terminal.keys("C-c")
            terminal.wait_for_end()
    finally:
        over.set()
        writer.join()


@pytest.mark.parametrize("line", [["runqlat", "30"], ["biolatency", "30"], ["qdisclat", "--duration", "30"],
                                  ["profile", "30"], ["argdist", "-d", "30", "tracepoint:sched:sched_switch", "pid"]])
def test_a_tool_for_some_seconds_says_how_many_have_passed(line: list[str]) -> None:
    """Until it has something to show; then the bar is gone."""
    with Terminal(*line) as terminal:
        terminal.wait_for(r"^tracing +\[#+ +\]  [1-9]\d* of 30 s")
        terminal.keys("C-c")
        assert "of 30 s" not in terminal.wait_for_end()


def test_measuring_says_how_far_it_is() -> None:
    with Terminal("overhead", "30") as terminal:
        terminal.wait_for(r"^measuring +\[#+ +\]  [1-9]\d* of 30 s")
        terminal.keys("C-c")
        assert "of 30 s" not in terminal.wait_for_end()


@pytest.mark.timeout(6 * PATIENCE)
def test_compiling_all_tools_says_how_far_it_is() -> None:
    """It takes 8 s of CPU, and more than a minute where others want the CPUs as well."""
    with Terminal("doctor") as terminal:
        terminal.wait_for(r"^compiling +\[#+ +\]  [1-9]\d* of \d+ tools")
        assert "compiling" not in terminal.wait_for_end(seconds=5 * PATIENCE)
