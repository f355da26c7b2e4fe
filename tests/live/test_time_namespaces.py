"""In a time namespace, whose clocks are ahead of the kernel's own or behind them, times are the same as outside."""

from __future__ import annotations

import re
import subprocess
import time
from datetime import UTC, datetime

import pytest

from support import environment, sonde_command

AWAY = 864_000  # s: ten days
CLOCKS = ("nsecs", "nsecs(monotonic)", "nsecs(tai)", "nsecs(sw_tai)")
SCRIPT = 'begin { printf("%s\\n", strftime("%%s", CLOCK)); } interval:ms:100 { print(elapsed); exit(); }'


def run_elsewhere(offset: int, *args: str) -> str:
    """What Sonde prints in a namespace whose clocks are ``offset`` seconds ahead."""
    moved = ["unshare", "-T", "--boottime", str(offset), "--monotonic", str(offset), "-f"]
    result = subprocess.run([*moved, *sonde_command(args)], env=environment(), capture_output=True, text=True,
                            timeout=120)
    if "unshare" in result.stderr:
        pytest.skip(f"no time namespaces here: {result.stderr}")
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("offset", [AWAY, -60])
@pytest.mark.parametrize("clock", CLOCKS)
def test_times_of_events(clock: str, offset: int) -> None:
    before = time.time()
    script = SCRIPT.replace("%%", "%").replace("CLOCK", clock)
    shown, elapsed = run_elsewhere(offset, "-e", script).split()
    assert int(before) - 1 <= int(shown) <= time.time() + 1
    assert 100_000_000 <= int(elapsed) < (time.time() - before) * 1e9


def test_times_in_files() -> None:
    """The rows' own."""
    before = time.time()
    output = run_elsewhere(AWAY, "-f", "csv", "-e", 'interval:ms:50 { print(("x", 1)); } interval:ms:400 { exit(); }')
    stamps = re.findall(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", output, re.MULTILINE)
    assert stamps
    for stamp in stamps:
        moment = datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
        assert before - 1 <= moment <= time.time() + 1
