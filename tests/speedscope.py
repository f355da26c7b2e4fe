"""speedscope itself, as its npm package has it, in Chromium: what it makes of a file, by what it exports of it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from browser import Browser

Weights = dict[tuple[str, ...], int]

# A page cannot save files here: what it would save is kept.
_CATCH = """(() => {
    window.saved = null;
    const make = URL.createObjectURL;
    URL.createObjectURL = blob => { blob.text().then(text => { window.saved = text; }); return make(blob); };
    HTMLAnchorElement.prototype.click = () => {};
    window.dispatchEvent(new KeyboardEvent("keydown", {key: "s", ctrlKey: true}));
    return true;
})()"""


def speedscope_page() -> Path:
    """Its page: of SONDE_SPEEDSCOPE (the package's folder), of this virtual environment, or of $PATH."""
    command = shutil.which("speedscope")
    places = [Path(os.environ["SONDE_SPEEDSCOPE"])] if "SONDE_SPEEDSCOPE" in os.environ else [
        Path(sys.prefix) / "node" / "node_modules" / "speedscope",
        *([Path(command).resolve().parent.parent] if command else [])]
    for place in places:
        if (page := place / "dist" / "release" / "index.html").exists():
            return page
    pytest.skip("speedscope is not installed (npm; SONDE_SPEEDSCOPE names its package's folder)")


def open_in_speedscope(browser: Browser, file: Path) -> tuple[Weights, str]:
    """The weights of the profile that it shows first, by stack with the outermost first, and their unit.

    It is opened as the package's command opens it: by a script beside the file that hands over its contents.
    """
    page = speedscope_page()
    loader = file.with_name(file.name + ".js")
    content = base64.b64encode(file.read_bytes()).decode()
    loader.write_text(f"speedscope.loadFileFromBase64({json.dumps(file.name)}, {json.dumps(content)})")
    browser.open("about:blank")  # another fragment of the same page would not be loaded
    browser.open(f"{page.resolve().as_uri()}#localProfilePath={loader}")
    browser.wait_for(f"document.title.startsWith({json.dumps(file.name)})")
    assert browser.eval(_CATCH)
    saved = json.loads(browser.wait_for("window.saved"))
    return _weights(saved)


def _weights(saved: dict[str, Any]) -> tuple[Weights, str]:
    """By speedscope's own format: frames are opened and closed, and what lies between is the innermost one's own."""
    names = [frame["name"] for frame in saved["shared"]["frames"]]
    profile = saved["profiles"][saved["activeProfileIndex"]]
    found: Weights = {}
    if profile["type"] == "sampled":
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            key = tuple(names[frame] for frame in stack)
            found[key] = found.get(key, 0) + weight
        return found, profile["unit"]
    open: list[str] = []
    last = profile["startValue"]
    for event in profile["events"]:
        if event["at"] > last:
            found[tuple(open)] = found.get(tuple(open), 0) + event["at"] - last
        last = event["at"]
        if event["type"] == "O":
            open.append(names[event["frame"]])
        else:
            assert open.pop() == names[event["frame"]]
    assert not open and last == profile["endValue"]
    return found, profile["unit"]
