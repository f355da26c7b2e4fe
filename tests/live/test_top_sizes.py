"""``sonde top`` in terminals of 80x24 and 200x50: what does not fit is shortened or left out, and said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from terminal import Terminal

pytest.importorskip("textual", reason="needs the extra 'ui'")

NUMBERS = [123456789012345 + n for n in range(8)]
WIDE = ("tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @wide[comm, "
        + ", ".join(map(str, NUMBERS)) + ", 55] = count(); @sizes[comm] = lhist(7, 0, 10, 1); }")
CALLS = "import os, time\nfor i in range(300): os.getppid()\ntime.sleep(600)\n"
OPENS = "import os, time\nwhile True:\n    os.close(os.open({path!r}, os.O_RDONLY)); time.sleep(0.05)\n"
KEYS = ("? help", "q quit", "space pause", "tab next", "s sort", "r flip", "/ find", "l text", "h bars")


def program(folder: Path, text: str) -> str:
    (folder / "program.py").write_text(text)
    return f"{sys.executable} {folder / 'program.py'}"


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50)])
def test_numbers_are_whole_and_what_is_left_out_is_said(columns: int, lines: int, tmp_path: Path) -> None:
    command = program(tmp_path, CALLS)
    with Terminal("top", "--every", "0.1", "-c", command, "-e", WIDE, columns=columns, lines=lines) as terminal:
        screen = terminal.wait_for("@sizes  since the start|@wide  since the start", r"live")
        if "@wide  since" not in screen:
            terminal.keys("Tab")
            screen = terminal.wait_for("@wide  since the start", "123456789012345")
        screen = terminal.wait_for("123456789012345 ")
        head, table = screen.splitlines()[0], screen.splitlines()[3]
        numbers = [word for word in table.split() if word.isdigit()]
        assert set(numbers) <= {*map(str, NUMBERS), "55", "300"} and len(numbers) >= 3, "each one whole"
        assert ("columns left out" in head) == (columns == 80)
        assert all(key in screen for key in KEYS)
        terminal.tmux("resize-window", "-x", "200", "-y", "50")
        wide = terminal.wait_for("123456789012352", gone=["left out"])
        assert "123456789012351" in wide
        terminal.keys("q")
        terminal.wait_for_end()


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50)])
def test_the_histogram_leaves_room_for_the_table(columns: int, lines: int, tmp_path: Path) -> None:
    script = "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @sizes[comm] = lhist(7, 0, 10, 1); }"
    with Terminal("top", "--every", "0.1", "-c", program(tmp_path, CALLS), "-e", script, columns=columns,
                  lines=lines) as terminal:
        screen = terminal.wait_for(r"\[7\].* 300 █{18}", r"^ \S+ +300 +\d+ +\d+ +\d+ ", "nothing lost", "h bars")
        assert all(len(line) <= columns for line in screen.splitlines())
        terminal.keys("q")
        terminal.wait_for_end()


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50)])
def test_a_tools_tab_has_the_tools_name_and_a_long_path_its_end(columns: int, lines: int, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    (folder / "wanted.txt").write_text("x")
    command = program(tmp_path, OPENS.format(path=str(folder / "wanted.txt")))
    with Terminal("top", "opensnoop", "-c", command, columns=columns, lines=lines) as terminal:
        screen = terminal.wait_for(r"^ \d+ +\S+ +\d+ +0 +\S+/wanted\.txt", "the last rows")
        assert screen.splitlines()[1].split() == ["opensnoop", "costs"], screen
        rows = [line for line in screen.splitlines() if line.endswith("/wanted.txt") and "…" in line]
        assert bool(rows) == (columns == 80) and len(screen.splitlines()[0].split("opensnoop")) == 2
        terminal.keys("q")
        terminal.wait_for_end()
