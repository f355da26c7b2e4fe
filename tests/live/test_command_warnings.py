"""Warnings of commands that run scripts of their own are in the command's words: no place of a text that nobody has."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from support import run_sonde

PLACE = re.compile(r"\.bt\b|:\d+(:\d+)?-\d+:|~~")
SLEEPER = "import time\nfor i in range(200): time.sleep(0.002)"


def test_a_number_that_is_cut() -> None:
    done = run_sonde("trace", "-M", "1", 't:syscalls:sys_enter_getppid "%d", 5000000000', "-c",
                     f"{sys.executable} -c \"__import__('os').getppid()\"")
    assert "WARNING: %d shows 32 bits, and 5000000000 has more" in done.stderr.splitlines(), done.stderr
    assert not PLACE.search(done.stderr), done.stderr


def test_stacks_that_end_early(tmp_path: Path) -> None:
    """A process that begins while the graph is being made: its unwind tables are not there yet."""
    for kind in ("off-cpu", "off-wake", "chain"):
        started = time.monotonic()
        for _ in range(3):
            done = run_sonde("flame", f"--{kind}", "-f", "folded", "-o", f"{tmp_path}/x", "-c",
                             f"{sys.executable} -c '{SLEEPER}'")
            assert not PLACE.search(done.stderr), done.stderr
            warnings = [line.partition(" [")[0] for line in done.stderr.splitlines() if line.startswith("WARNING")]
            assert len(set(warnings)) == len(warnings), "each once, with one count"
            if warnings or time.monotonic() - started > 60:
                break


def test_a_script_of_ones_own_has_places(tmp_path: Path) -> None:
    script = f"{tmp_path}/own.bt"
    with open(script, "w", encoding="utf-8") as file:
        file.write('begin {\n\twarnf("mine");\n\texit();\n}\n')
    done = run_sonde(script)
    assert f"{script}:2:2-15: WARNING: mine" in done.stderr.splitlines(), done.stderr
