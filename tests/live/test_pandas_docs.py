"""docs/pandas.md, line by line, beside a program whose reads are known."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pd = pytest.importorskip("pandas")

PAGE = Path(__file__).parents[2] / "docs" / "pandas.md"
READS = """
import time
with open("/dev/zero", "rb", 0) as file:
    while True:
        file.read(12345)
        time.sleep(0.01)
"""


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert len(blocks) == 5 and len(blocks[0].strip().splitlines()) <= 11  # ten, and an empty one
    space: dict[str, Any] = {}
    reader = subprocess.Popen([sys.executable, "-S", "-c", READS])
    try:
        name = Path(sys.executable).name[:15]
        for block in blocks:
            exec(block, space)
    finally:
        reader.kill()
        reader.wait()
    reads = space["reads"]
    mine = reads[(reads["comm"] == name) & (reads["ret"] == 12345)]
    assert len(mine) >= 10 and (mine["ns"] > 0).all() and str(reads["ret"].dtype) == "int64"
    assert len(space["slowest"]) == 5 and space["per_second"].sum() == reads["ret"].sum()
    total, sizes = space["total"], space["sizes"]
    assert list(total.columns) == ["comm", "value"] and list(sizes.columns) == ["comm", "low", "high", "count"]
    assert total.set_index("comm")["value"][name] >= 12345
    assert sizes[(sizes["comm"] == name) & (sizes["low"] == 8192)]["count"].sum() >= 1
    assert total.attrs["lost"] == [] and total.attrs["seconds"] >= 0.9
    assert name in capsys.readouterr().out
