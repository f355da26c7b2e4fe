"""``sonde serve``: the page in a real browser, and what the server refuses."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from browser import Browser
from support import Tracer, run_sonde

CALLS = """
import os, sys, time
with open("/proc/self/comm", "w") as file: file.write("<b>callee")
for i in range(300): os.getppid()
sys.stdin.read()
"""
SCRIPT = """tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == "<b>callee"/ {
    @calls[comm] = count(); @sizes[pid] = lhist(7, 0, 10, 1); }
interval:ms:200 { @ticks++; printf("tick <i>%d</i>\\n", @ticks); @level["a"] = 5; @level["b"] = 9;
    @wait_ns["<img src=x>"] = max(1265077774);
    @large = max(18446744073709551615); @gain_ns = hist(@ticks * 100000); }"""


class Served(Tracer):
    """A running ``sonde serve``; ``url`` is what it printed."""

    @property
    def url(self) -> str:
        deadline = time.monotonic() + self.timeout
        while not (found := re.search(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", self._read(self._err))):
            assert time.monotonic() < deadline, self._read(self._err)
            time.sleep(0.02)
        return found[0]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    code = tmp_path / "calls.py"
    code.write_text(CALLS)
    feed = tmp_path / "feed"
    os.mkfifo(feed)
    hold = os.open(feed, os.O_RDWR)
    try:
        with Served("serve", "--every", "0.1", "-c", f"/bin/sh -c 'exec {sys.executable} {code} < {feed}'",
                    "-e", SCRIPT) as running:
            yield running
    finally:
        os.close(hold)


def get(url: str, host: str = "", path: str | None = None) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, body) of a request to the server at ``url``."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=30)
    try:
        connection.request("GET", path if path is not None else parts.path, headers={"Host": host or parts.netloc})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@pytest.mark.timeout(400)
def test_in_the_browser(served: Served) -> None:
    with Browser() as browser:
        browser.open(served.url)
        rows = 'Array.from(document.querySelectorAll(\'[data-table="@calls"] tbody tr\')).map(r => r.innerText)'
        browser.wait_for(f"{rows}.some(r => r.includes('<b>callee') && r.includes('300'))")
        assert browser.eval("document.querySelectorAll('b').length") == 0  # a name is text, never an element
        browser.wait_for("document.querySelector('#lines').textContent.includes('tick <i>2</i>')")
        _the_tables_sort_and_filter(browser)
        browser.wait_for("document.querySelectorAll('[data-table=\"@sizes\"] .bars i').length == 1")
        assert "300" in browser.eval("document.querySelector('[data-table=\"@sizes\"] .bars').innerText")
        _numbers_are_scaled_and_drawn(browser)
        _rows_are_pinned_and_chosen_by_keys(browser)
        assert "% of a CPU" in browser.eval("document.querySelector('#cost').textContent")
        _pausing_holds_the_picture(browser)
        _it_can_be_read_at_any_width(browser)
        browser.prefer("dark")
        dark = browser.eval("getComputedStyle(document.body).backgroundColor")
        browser.prefer("light")
        assert dark != browser.eval("getComputedStyle(document.body).backgroundColor")
        os.kill(served.pid, signal.SIGINT)
        browser.wait_for("document.querySelector('#state').textContent == 'ended: interrupted'")
        assert not browser.complaints
    served.wait()
    assert "@calls[<b>callee]: 300\n" in served.output()


def _the_tables_sort_and_filter(browser: Browser) -> None:
    names = 'Array.from(document.querySelectorAll(\'[data-table="@level"] tbody tr\')).map(r => r.cells[2].innerText)'
    browser.wait_for(f"{names}.join() == 'b,a'")  # the greatest first
    browser.click('[data-table="@level"] th', "value")
    browser.wait_for(f"{names}.join() == 'b,a'")
    browser.click('[data-table="@level"] th', "value")
    browser.wait_for(f"{names}.join() == 'a,b'")
    browser.click("#filter")
    browser.type("callee")
    browser.wait_for(f"{names}.length == 0")
    assert "0 match" in browser.eval("document.querySelector('[data-table=\"@level\"] p').innerText")
    browser.eval("(() => { const f = document.querySelector('#filter'); f.value = ''; "
                 "f.dispatchEvent(new Event('input')); })()")
    browser.wait_for(f"{names}.length == 2")


def _numbers_are_scaled_and_drawn(browser: Browser) -> None:
    cell = "document.querySelector('[data-table=\"@wait_ns\"] tbody td.number')"
    assert browser.eval(f"[{cell}.innerText, {cell}.title]") == ["1.27 s", "1,265,077,774 ns"]
    assert browser.eval("document.querySelectorAll('img').length") == 0, "a key is text"
    note = browser.eval("document.querySelector('[data-table=\"@wait_ns\"] p').innerText")
    assert "in ns, by its name" in note
    browser.wait_for("new Set(Array.from(document.querySelectorAll('[data-table=\"@level\"] .plot polyline'))"
                     ".map(line => line.getAttribute('class'))).size == 2")
    ticks = "Array.from(document.querySelectorAll('[data-table=\"@wait_ns\"] .plot text')).map(t => t.textContent)"
    assert {"0", "1 s"} <= {*browser.wait_for(ticks)}
    large = ticks.replace("@wait_ns", "@large")
    assert {"0", "1e+19"} <= {*browser.wait_for(large)}, "axes have short numbers"
    coloured = ("(c => { const d = c.getContext('2d').getImageData(80, 0, c.width - 90, c.height - 26).data; "
                "return d.some(v => v > 0); })(document.querySelector('[data-table=\"@gain_ns\"] canvas'))")
    browser.wait_for("!document.querySelector('[data-table=\"@gain_ns\"] canvas').parentNode.hidden")
    browser.wait_for(coloured)
    browser.eval("document.querySelector('[data-table=\"@level\"] .plot').focus()")
    browser.key("ArrowLeft")
    browser.wait_for("document.querySelector('[data-table=\"@level\"] .tip').innerText.includes('[b]  9')")


def _rows_are_pinned_and_chosen_by_keys(browser: Browser) -> None:
    """A pinned row stays on top, and where it is while it has the focus and others change."""
    line = '[data-table="@level"] tbody tr'
    browser.eval(f"document.querySelectorAll('{line}')[1].focus()")
    browser.key("p")
    browser.wait_for(f"document.querySelector('{line}').cells[2].innerText == 'b'")
    assert browser.eval("document.activeElement.cells[2].innerText") == "b"
    assert browser.eval(f"document.querySelector('{line} button').getAttribute('aria-pressed')") == "true"
    browser.click('[data-table="@level"] td button')
    browser.wait_for(f"document.querySelector('{line}').cells[2].innerText == 'a'")
    browser.eval("document.activeElement.blur()")
    browser.key("/")
    browser.wait_for("document.activeElement.id == 'filter'")
    browser.key("Escape")
    browser.wait_for("document.activeElement.id != 'filter'")


def _it_can_be_read_at_any_width(browser: Browser) -> None:
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        assert browser.faint_texts() == []
    for width in (320, 768, 1920):
        browser.resize(width)
        browser.wait_for(f"document.querySelector('svg').clientWidth < {width}")
        assert browser.eval("document.documentElement.scrollWidth") <= width
    browser.ask("Emulation.clearDeviceMetricsOverride")


def _pausing_holds_the_picture(browser: Browser) -> None:
    browser.click("#pause")
    browser.wait_for("document.querySelector('#state').textContent.startsWith('paused')")
    before = browser.eval("document.querySelector('#lines').textContent")
    clock = "performance.now()"
    start = browser.eval(clock)
    browser.wait_for(f"{clock} - {start} > 600")
    assert browser.eval("document.querySelector('#lines').textContent") == before
    browser.click("#pause")
    browser.wait_for(f"document.querySelector('#lines').textContent.length > {len(before)}")


def test_who_is_let_in(served: Served) -> None:
    url = served.url
    status, headers, body = get(url)
    assert status == 200 and b"<!DOCTYPE html>" in body
    assert "default-src 'none'" in headers["Content-Security-Policy"] and "unsafe" not in str(headers)
    assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    port = urlsplit(url).port
    for path in ("/", "/events", "/x/", f"/{'A' * 32}/events", "//", f"{urlsplit(url).path}nothing", "/%C3%A9"):
        assert get(url, path=path)[0] == 404
    for host in ("example.net", f"example.net:{port}", "127.0.0.1", f"127.0.0.1:{port}.example.net"):
        assert get(url, host)[0] == 403
    assert get(url, f"localhost:{port}")[0] == 200


def test_it_listens_on_loopback_only(served: Served) -> None:
    port = urlsplit(served.url).port
    listening = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[3] for line in listening.splitlines()] == [f"127.0.0.1:{port}"]


def test_the_events_and_too_many_who_want_them(served: Served) -> None:
    parts = urlsplit(served.url)
    request = f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
    clients = [socket.create_connection(("127.0.0.1", parts.port), 30) for _ in range(17)]
    try:
        answers = []
        for client in clients:
            client.sendall(request)
            answers.append(client.recv(64).split()[1])
        assert answers == [b"200"] * 16 + [b"503"]
        snapshot = _snapshot(clients[0])
    finally:
        for client in clients:
            client.close()
    calls = next(table for table in snapshot["tables"] if table["name"] == "@calls")
    assert calls["columns"] == ["comm", "value", "per s"] and snapshot["losses"] == []
    deadline = time.monotonic() + 60  # those that are gone make room
    while (status := _status(parts, request)) != b"200":
        assert status == b"503" and time.monotonic() < deadline
        time.sleep(0.1)


def _status(parts: Any, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", parts.port), 30) as client:
        client.sendall(request)
        return client.recv(64).split()[1]


def _snapshot(client: socket.socket) -> dict[str, Any]:
    """The first snapshot that a client gets whole."""
    text = b""
    while not (found := re.search(rb"\ndata: (\{.*\})\n\n", text)):
        piece = client.recv(1 << 16)
        assert piece
        text += piece
    snapshot: dict[str, Any] = json.loads(found[1])
    return snapshot


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_sonde("serve", "--port", str(taken.getsockname()[1]), "-e", "interval:s:1 { }")
    assert done.returncode == 1 and "cannot listen on 127.0.0.1" in done.stderr


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["--port", "x"], "--port takes a whole number"), (["--port", "70000"], "cannot listen"),
    (["-f", "csv"], "sonde serve shows a running script"), (["--dry-run"], "sonde serve shows a running script"),
    (["--every", "0"], "--every takes seconds")])
def test_complaints(arguments: list[str], complaint: str) -> None:
    done = run_sonde("serve", *arguments, "-e", "interval:s:1 { }")
    assert done.returncode == 1 and complaint in done.stderr
