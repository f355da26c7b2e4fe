"""``sonde top`` in a real terminal: typed into and read back."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support import run_sonde
from terminal import Terminal

pytest.importorskip("textual", reason="needs the extra 'ui'")

CALLS = """
import os, sys, time
with open("/proc/self/comm", "w") as file: file.write("[b]callee")
for i in range(300): os.getppid()
time.sleep(600)
"""
SCRIPT = """tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {
    @calls[comm] = count(); @sizes[comm] = lhist(7, 0, 10, 1); }
interval:ms:200 { @ticks++; printf("tick \\033[31m\\033[2J%d\\n", @ticks);
    @level["a"] = 5; @level["b"] = 9; @level["c"] = 7; }
end { printf("the end after %d\\n", @ticks); }"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    """A program that makes 300 calls under a name that looks like markup, and waits."""
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    return f"{sys.executable} {file}"


def rows(names: str) -> str:
    """A pattern: the rows of @level with these keys, one below the other, and nothing behind them."""
    return "".join([rf"^ {name} +\d.*\n" for name in names]) + r"\s*$"


def test_tables(command: str) -> None:
    with Terminal("top", "--every", "0.1", "-c", command, "-e", SCRIPT) as terminal:
        screen = terminal.wait_for(r"^ \[b\]callee +300 ", r"live", r"nothing lost", r"costs \d+\.\d+% of a CPU",
                                   r"^tick \\x1b\[2J\d+")
        assert "@calls  since the start, 1 row" in screen
        terminal.keys("Tab")
        screen = terminal.wait_for(r"@sizes  since the start", r"^ \[b\]callee +300 ", r"\[7\].* 300 █{18}")
        terminal.keys("h")
        terminal.wait_for(r"@sizes", gone=["█{18}"])
        for _ in range(2):
            terminal.keys("Tab")
        terminal.wait_for("@ticks  now, 1 row|@level  now, 3 rows")
        terminal.keys("C-c")
        left = terminal.wait_for_end()
    assert "@calls[[b]callee]: 300" in left and "ended=0" in left
    assert re.search(r"^the end after \d+", left, re.MULTILINE)


def test_sorting_filtering_and_pausing(command: str) -> None:
    with Terminal("top", "--every", "0.1", "-e", SCRIPT, "-c", command) as terminal:
        terminal.wait_for("@calls  since")
        terminal.keys("Tab", "Tab")
        terminal.wait_for("@level  now, 3 rows", rows("bca"))
        terminal.keys("s")
        terminal.wait_for(r"key ↓", rows("cba"))
        terminal.keys("r")
        terminal.wait_for(r"key ↑", rows("abc"))
        terminal.keys("s")
        terminal.wait_for(r"value ↓", rows("bca"))
        terminal.keys("/")
        terminal.wait_for("show rows that contain")
        terminal.keys("7")
        terminal.wait_for("1 match '7'")
        terminal.keys("Enter")
        terminal.wait_for(r"3 rows, 1 match '7'", rows("c"))
        terminal.keys("Escape")
        terminal.wait_for(r"3 rows", rows("bca"), gone=["match"])
        terminal.keys("Space")
        first = terminal.wait_for("paused: the tracing goes on")
        held = re.findall(r"^tick.*", first, re.MULTILINE)
        terminal.keys("l")
        terminal.wait_for("paused", gone=[r"tick \\"])
        terminal.keys("l")
        again = terminal.wait_for("paused", r"tick \\")
        assert re.findall(r"^tick.*", again, re.MULTILINE) == held
        terminal.keys("Space")
        terminal.wait_for("live")
        terminal.keys("q")
        terminal.wait_for_end()


def test_the_keys_are_told(command: str) -> None:
    with Terminal("top", "--every", "0.1", "-e", SCRIPT, "-c", command) as terminal:
        terminal.wait_for("@calls  since", r"\? help")
        terminal.keys("?")
        terminal.wait_for("Tab, Shift-Tab   the next table", "what the script prints", "@calls  since")
        terminal.keys("?")
        terminal.wait_for("@calls  since", gone=["Shift-Tab"])
        terminal.keys("q")
        terminal.wait_for_end()


def test_a_tools_table_and_what_it_costs() -> None:
    with Terminal("top", "tcptop") as terminal:
        terminal.wait_for(r"sonde tcptop", r"PID +COMM +LADDR +LPORT +RADDR +RPORT +RX_KB +TX_KB",
                          r"live  the last block", "^  tcptop ")
        terminal.keys("Tab")
        terminal.wait_for("^ sonde tcptop .*@received  ")
        terminal.keys("BTab", "BTab")
        terminal.wait_for("costs  of the programs in the kernel", r"probe +runs +ns per run +% of a CPU",
                          r"^ (tracepoint:sock:sock_send_length|fexit:vmlinux:inet6?_sendmsg).* +\d+")
        terminal.keys("q")
        terminal.wait_for_end()


def test_a_smaller_window(command: str) -> None:
    with Terminal("top", "--every", "0.1", "-e", SCRIPT, "-c", command) as terminal:
        terminal.wait_for(r"^ \[b\]callee +300 ")
        terminal.resize(60, 15)
        screen = terminal.wait_for(r"^ \[b\]callee +300 ", r"nothing lost")
        assert max(map(len, screen.splitlines())) <= 60
        terminal.keys("q")
        terminal.wait_for_end()


def test_a_script_that_ends_is_left_on_the_screen() -> None:
    with Terminal("top", "-e", 'interval:ms:300 { @x = 42; exit(); }') as terminal:
        terminal.wait_for(r"ended: the script called exit\(\)", r"^ +42")
        terminal.keys("q")
        assert "@x: 42" in terminal.wait_for_end()


def test_without_a_terminal() -> None:
    done = run_sonde("top", "-e", "interval:s:1 { }")
    assert done.returncode == 1 and "sonde top needs a terminal" in done.stderr


TICKS = """begin { printf("the beginning\\n"); } interval:ms:100 { @ticks++; @half[@ticks / 10] = count();
    if (@ticks % 5 == 0) { print(@ticks); printf("tick %d\\n", @ticks); } if (@ticks == 50) { exit(); } }"""


def test_a_recording_has_a_slider(tmp_path: Path) -> None:
    path = str(tmp_path / "ticks.sonde")
    assert run_sonde("record", "-q", "-o", path, "-e", TICKS).returncode == 0
    with Terminal("top", path) as terminal:
        terminal.wait_for(r"@half  ", r"─● 0:0\d\.\d / 0:0\d\.\d", "recorded", r"^ ?tick 50", "nothing lost")
        terminal.keys("Home")
        terminal.wait_for(r"^ ●─+ 0:00\.\d / 0:0", gone=["tick 50"])
        terminal.keys("Tab")
        seen = []
        for _ in range(40):
            screen = terminal.wait_for(r"@ticks  ")
            found = re.search(r"^ +(\d+) +", screen, re.MULTILINE)
            seen += [int(found[1])] if found else []
            if seen[-1:] == [50]:
                break
            terminal.keys("Right")
            terminal.wait_for("recorded")
        assert seen == sorted(seen) and len(set(seen)) >= 3 and seen[-1] == 50
        terminal.keys("Home")
        terminal.wait_for(r"^ ●─")
        terminal.keys("Space")
        terminal.wait_for("plays")
        terminal.wait_for(r"─● 0:0[45]", "recorded", gone=["plays"])
        terminal.keys("q")
        assert "ended=0" in terminal.wait_for_end()


def test_a_question_has_its_maps_at_any_time(tmp_path: Path) -> None:
    path = str(tmp_path / "events.sonde")
    calls = f"{sys.executable} -S -c 'import os, time; [(os.getppid(), time.sleep(0.01)) for i in range(300)]'"
    done = run_sonde("record", "-q", "--events", "tracepoint:syscalls:sys_enter_getppid", "-o", path, "-c", calls)
    assert done.returncode == 0, done.stderr
    with Terminal("top", path, "-e", "tracepoint:syscalls:sys_enter_getppid { @calls[comm] = count(); }") as terminal:
        terminal.wait_for(r"^ python\S* +3\d\d ", r"@calls  since the start, 1 row")
        terminal.keys("Left", "Left", "Left")
        screen = terminal.wait_for(r"^ python\S* +[12]?\d\d ")
        assert "recorded" in screen
        terminal.keys("q")
        assert "ended=0" in terminal.wait_for_end()


def test_a_recording_that_cannot_be_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "bad.sonde"
    path.write_bytes(b"sonde recording1" + b"x" * 100)
    done = run_sonde("top", str(path))
    assert done.returncode == 1 and "damaged" in done.stderr
    done = run_sonde("top", "-f", "json", str(path))
    assert done.returncode == 1 and "the run is over" in done.stderr


@pytest.mark.parametrize("empties", ["clear", "zero"])
def test_a_recording_of_a_map_that_is_emptied_unread(empties: str, tmp_path: Path) -> None:
    """The recording does not have what it held at that moment: it stays as it was last read."""
    path = str(tmp_path / "emptied.sonde")
    run_sonde("record", "-o", path, "-e", f"""begin {{ @seen[7] = sum(42); }}
        interval:ms:100 {{ {empties}(@seen); @seen[7] = sum(42); @rounds++; if (@rounds == 3) {{ exit(); }} }}""")
    with Terminal("top", path) as terminal:
        terminal.wait_for("recorded", "@seen", r"─● 0:00\.\d", "nothing lost")
        terminal.keys("q")
        assert "ended=0" in terminal.wait_for_end()
