"""What leaves Sonde says of which run it is, and what is missing in it."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import sonde
from support import run_sonde

# Nine keys for a map of two: seven updates fail.
SCRIPT = """config = { max_map_keys = 2 }
begin {
    for ($i : 0..9) { @stacks[kstack, $i] = count(); }
    @sizes = hist(7);
    @pairs["a", "b"] = 1;
    printf("number=%d\\n", 5);
    exit();
}"""
LOST = "Map full; can't update element"
FILES = ["folded", "flamegraph", "heatmap.svg", "heatmap.html", "heatmap.txt", "dot", "html", "csv", "perfetto", "text",
         "json"]


def write(kind: str, folder: Path, script: str) -> str:
    form, _, suffix = kind.partition(".")
    file = folder / f"out.{suffix or form}"
    done = run_sonde("-f", form, "-o", str(file), "-e", script)
    assert done.returncode == 0, done.stderr
    return file.read_text()


@pytest.mark.parametrize("kind", FILES)
def test_a_file_says_what_it_shows_and_what_it_lacks(kind: str, tmp_path: Path) -> None:
    text = write(kind, tmp_path, SCRIPT)
    host, release = os.uname().nodename, os.uname().release
    assert LOST in text.replace("&#39;", "'") and "[7 times]" in text
    assert host in text and release in text and re.search(r"sonde -f \w+ -o", text)
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}, traced for \d+\.\d s", text) \
        or json.loads(text.splitlines()[-1] if kind == "json" else text)
    if kind == "perfetto":
        found = json.loads(text)
        assert found["otherData"]["seconds"] >= 0 and LOST in found["otherData"]["lost"][0]
        assert [event["s"] for event in found["traceEvents"] if event.get("cat") == "lost"] == ["g"]
    elif kind == "json":
        last = json.loads(text.splitlines()[-1])
        assert last["type"] == "run" and LOST in last["data"]["lost"][0] and last["data"]["host"] == host
    elif kind in ("flamegraph", "heatmap.svg"):
        texts = [each for each in ET.fromstring(text).iter() if each.get("class") == "lost"]
        assert len(texts) == 1 and float(texts[0].get("y", "99")) < 30  # on top


@pytest.mark.parametrize("kind", ["text", "json"])
def test_where_nothing_was_lost_files_are_as_bpftrace_writes_them(kind: str, tmp_path: Path) -> None:
    text = write(kind, tmp_path, 'begin { printf("x\\n"); exit(); }')
    assert os.uname().release not in text and "sonde" not in text


@pytest.mark.parametrize("kind", ["flamegraph", "html", "csv"])
def test_where_nothing_was_lost_nothing_is_red(kind: str, tmp_path: Path) -> None:
    text = write(kind, tmp_path, "begin { @[kstack] = count(); exit(); }")
    assert os.uname().nodename in text and 'class="lost"' not in text


def test_in_python() -> None:
    with sonde.trace(SCRIPT) as tracing:
        list(tracing.events())
    assert re.fullmatch(r"stdin:3:\d+-\d+: Map full.*\[7 times\]", str(tracing.losses))
    run = tracing.provenance
    assert run.host == os.uname().nodename and run.lost == [str(tracing.losses)] and "max_map_keys" in run.command
    assert LOST.replace("'", "&#39;") in tracing.maps["@sizes"]._repr_html_()
    with sonde.trace("begin { exit(); }") as tracing:
        list(tracing.events())
    assert str(tracing.losses) == "nothing was lost"
