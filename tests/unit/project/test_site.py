"""The book (`make docs`): links lead somewhere, the search knows every page, nothing is fetched from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from browser import Browser
from doc_commands import ROOT, pages

pytestmark = pytest.mark.skipif(find_spec("mkdocs") is None or find_spec("material") is None,
                                reason="mkdocs is not installed")


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Not with --quiet, which has --strict overlook warnings."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    return subprocess.run(command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
                          check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("book") / "site"
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.timeout(400)
def test_the_book(site: Path) -> None:
    """One build for all of this: it is not cheap."""
    index = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    searched = {entry["location"].partition("#")[0] for entry in index}
    for page in pages()[1:]:
        name = page.removeprefix("docs/").removesuffix(".md")
        name = re.sub(r"\bREADME$", "index", name)
        assert (site / f"{name}.html").exists() and f"{name}.html" in searched, page
    assert any("What blocks my event loop?" in entry["title"] for entry in index)
    home = (site / "index.html").read_text()
    assert 'content="width=device-width' in home and home.count("data-md-color-scheme=") >= 2
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//', home)
    assert not list(site.rglob("*.py")) and not list(site.rglob("*.toml"))


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_pages_can_be_read_in_light_and_dark_and_on_a_phone(site: Path) -> None:
    """Every word has the contrast of WCAG's level AA, and no page is wider than the window. The pages have all that
    others are made of: wide tables, code in colours, output, the search's words."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server, Browser() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # Each scheme has a host of its own, since a page stores the scheme in which it was first seen.
        for scheme, name, host in (("light", "default", "127.0.0.1"), ("dark", "slate", "localhost")):
            browser.prefer(scheme)
            for page in ("api", "errors", "tools/flame"):
                browser.open(f"http://{host}:{server.server_address[1]}/{page}.html")
                browser.wait_for(f"document.body.getAttribute('data-md-color-scheme') == '{name}'")
                assert browser.faint_texts() == [], page
                for width in (320, 390, 1920):
                    browser.resize(width)
                    assert browser.eval("document.documentElement.scrollWidth") <= width, page
                browser.ask("Emulation.clearDeviceMetricsOverride")
        assert browser.complaints == []
        server.shutdown()


@pytest.mark.parametrize("link", ["nowhere.md", "#nowhere", "images/nowhere.svg"])
def test_a_link_to_nowhere_fails(link: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n[a link]({link})\n")
    own = f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: docs\nextra_css: []\nnav: [index.md]\n"
    (tmp_path / "mkdocs.yml").write_text(own)
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode and link in done.stderr


def test_every_page_is_in_the_navigation() -> None:
    """But the tools' own pages, of which docs/tools/README.md is the list."""
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]))
    there = {page.removeprefix("docs/") for page in pages()[1:] if not page.startswith("docs/tools/")}
    assert named - {"tools/README.md"} == there - {"history.md"}


def test_every_command_is_in_a_block_that_is_run() -> None:
    """Those of tests/doc_commands.py: blocks without a language."""
    for page in pages():
        for language, block in re.findall(r"^```(\S+)\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S):
            assert not re.search(r"^[#$] sonde ", block, re.M), f"{page}: {language}: {block}"
