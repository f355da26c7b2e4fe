"""Every picture of docs that shows a run is made anew, of shorter runs than those in docs. (bench/growth.py draws the
others from its figures.)"""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWS = {
    "on-cpu.svg": "parse_request", "off-cpu.svg": "handle_request", "off-wake.svg": "relay", "chain.svg": "relay",
    "difference.svg": "compress_reply", "heatmap.svg": "read_ns", "top.svg": "@ns",
}


@pytest.mark.slow
def test_each_is_made_and_shows_what_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "scripts" / "screenshots.py")
    assert spec is not None and spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    for name, value in (("IMAGES", tmp_path), ("SHOWN", str(tmp_path)), ("SECONDS", 2)):
        monkeypatch.setattr(maker, name, value)
    maker.main()
    ours = {path.name for path in (ROOT / "docs" / "images").iterdir() if not path.name.startswith("growth-")}
    assert {path.name for path in tmp_path.iterdir()} == ours
    for name in ours:
        if name.endswith(".png"):
            assert (tmp_path / name).read_bytes().startswith(b"\x89PNG") and (tmp_path / name).stat().st_size > 20_000
        else:
            texts = "".join(ET.parse(tmp_path / name).getroot().itertext())
            assert SHOWS[name] in texts.replace("\xa0", " "), name
