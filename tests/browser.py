"""A real browser for tests: Debian's Chromium without a window, driven through its debugging pipe (DevTools protocol).

``with Browser() as b: b.open(url); b.click("#x"); b.wait_for("document.title == 'y'")``. Everything goes through two
pipes: no port is opened, and nothing but the standard library and Chromium is needed.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

PATIENCE = 180.0  # s; beside two guests on two CPUs Chromium took more than 90
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
         "--hide-scrollbars", "--no-default-browser-check", "--disable-extensions", "--window-size=1280,900")
# The protocol is spoken on descriptors 3 and 4, whichever numbers the pipes had.
_START = """
import fcntl, os, sys
read, write = [fcntl.fcntl(int(n), fcntl.F_DUPFD, 20) for n in sys.argv[1:3]]
os.dup2(read, 3); os.dup2(write, 4); os.close(read); os.close(write)
os.execvp(sys.argv[3], sys.argv[3:])
"""

_FAINT_TEXTS = """(() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => {
    const v = c[i] / 255; return sum + part * (v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4)); }, 0);
  const ground = (e) => {
    const frame = e.closest("g.frame");
    if (frame) { return parse(getComputedStyle(frame.querySelector("rect")).fill); }
    const layers = [];
    for (let at = e; at; at = at.parentElement) { layers.push(parse(getComputedStyle(at).backgroundColor)); }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const faults = new Set(), walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || e.closest("script, style, title") || !e.getClientRects().length) { continue; }
    const style = getComputedStyle(e), below = ground(e), colour = e instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(over(parse(colour), below)), light(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) { faults.add(text.slice(0, 30) + " " + ratio.toFixed(2)); }
  }
  return [...faults];
})()"""


class Browser:
    """Chromium with one page."""

    def __init__(self) -> None:
        if shutil.which("chromium") is None:
            pytest.skip("chromium is not installed")
        self._number = 0
        self._left = b""
        self.complaints: list[str] = []  # errors of scripts and of the page's policy
        self.reply = ""  # what a question of the page (window.prompt) is answered with

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._write = os.pipe()
        self._read, theirs_too = os.pipe()
        command = [sys.executable, "-c", _START, str(theirs), str(theirs_too), "chromium", *FLAGS,
                   f"--user-data-dir={self._folder.name}", "about:blank"]
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL, pass_fds=(theirs, theirs_too),
                                            start_new_session=True)
        finally:
            os.close(theirs)
            os.close(theirs_too)
        self._session = ""
        try:
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.ask(f"{domain}.enable")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        os.close(self._write)  # Chromium ends when nobody speaks to it
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._read)
        self._folder.cleanup()

    # the protocol: objects, each followed by a zero byte

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method; its result."""
        number = self._send(method, **params)
        for answer in self._answers():
            if answer.get("id") == number:
                assert "error" not in answer, answer
                found: dict[str, Any] = answer["result"]
                return found
        raise AssertionError("Chromium has ended")

    def _send(self, method: str, **params: Any) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._number

    def _answers(self) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE
        while True:
            *messages, self._left = self._left.split(b"\0")
            for at, text in enumerate(messages):
                answer = json.loads(text)
                self._note(answer)
                if "id" in answer:
                    self._left = b"\0".join([*messages[at + 1:], self._left])
                    yield answer
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            data = os.read(self._read, 1 << 20)
            if not data:
                return
            self._left += data

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(message["params"]["exceptionDetails"].get("exception", message["params"])))
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.complaints.append(message["params"]["entry"]["text"])
        elif message.get("method") == "Page.javascriptDialogOpening":
            self._send("Page.handleJavaScriptDialog", accept=True, promptText=self.reply)

    # the page

    def open(self, url: str | Path) -> None:
        """Go there, and wait until it has been loaded."""
        where = url.resolve().as_uri() if isinstance(url, Path) else url
        answer = self.ask("Page.navigate", url=where)
        assert "errorText" not in answer, answer
        self.wait_for(f"document.readyState == 'complete' && location.href.startsWith({json.dumps(where[:12])})")

    def eval(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """The value of an expression, once it is true."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.eval(expression)):
            assert time.monotonic() < deadline, f"waited for {expression}; complaints: {self.complaints}"
            time.sleep(0.03)
        return value

    def click(self, selector: str, text: str = "") -> None:
        """Press the mouse in the middle of an element; with ``text`` of the first one that has that text."""
        found = (f"Array.from(document.querySelectorAll({json.dumps(selector)}))"
                 f".find(e => e.textContent.includes({json.dumps(text)}))")
        box = self.wait_for(f"(() => {{ const e = {found}; if (!e) return null; e.scrollIntoView({{block: 'center'}});"
                            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left",
                     clickCount=0 if kind == "mouseMoved" else 1)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        for char in text:
            self.ask("Input.dispatchKeyEvent", type="char", text=char)

    def key(self, name: str) -> None:
        """Press one key: Escape, Enter, /, Tab ..."""
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        extra = {"text": text} if text else {}
        code = {"Escape": 27, "Enter": 13, "Tab": 9}.get(name, ord(name[0].upper()))
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, **extra)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def prefer(self, scheme: str) -> None:
        """light or dark."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def resize(self, width: int, height: int = 900) -> None:
        """Another size of the window."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def faint_texts(self) -> list[str]:
        """The texts with less contrast to what is behind them than WCAG's level AA asks for (4.5 to 1), with it."""
        found: list[str] = self.eval(_FAINT_TEXTS)
        return found

    def hover(self, selector: str) -> None:
        """Move the mouse over the first element that the selector finds."""
        box = self.wait_for(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
                            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])

    def screenshot(self, path: Path, selector: str = "") -> None:
        """A picture of what is to be seen, PNG; with ``selector`` of that element's drawing alone."""
        import base64
        clip = {"clip": self.eval(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBBox(), "
            f"m = document.querySelector({json.dumps(selector)}).getScreenCTM(); return {{x: m.a * r.x + m.e, "
            "y: m.d * r.y + m.f, width: m.a * r.width, height: m.d * r.height, scale: 1}; })()")} if selector else {}
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png", **clip)["data"]))
