"""What leaves Sonde says of which run it is, and what is missing in it."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import socket
import time
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import sonde
from sonde.base.record import Record
from support import Tracer, run_sonde

# Nine keys for a map of two: seven updates fail.
SCRIPT = """config = { max_map_keys = 2 }
begin {
    for ($i : 0..9) { @stacks[kstack, $i] = count(); }
    @sizes = hist(7);
    @pairs["a", "b"] = 1;
    printf("number=%d\\n", 5);
}
interval:ms:300 { exit(); }"""
LOST = "Map full; can't update element"
TRACED = 0.3  # s, at least


class Facts(Record):
    """What an artefact says of its run: ``started`` in seconds since 1970, ``seconds`` for how long it traced."""

    command: str
    host: str
    kernel: str
    started: float
    seconds: float
    lost: str


PLACE = re.compile(r"(\S+) \(Linux (\S+)\), (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}), traced for (\d+\.\d) s")


def sentences(command: str, place: str, lost: list[str]) -> Facts:
    """Of an artefact that is read by people."""
    found = PLACE.search(place)
    assert found is not None, place
    started = datetime.strptime(found[3], "%Y-%m-%d %H:%M:%S %z").timestamp()
    return Facts(command, found[1], found[2], started, float(found[4]), " ".join(lost))


def data(run: dict[str, Any]) -> Facts:
    """Of one that is read by programs."""
    lost = " ".join(run["lost"])
    return Facts(run["command"], run["host"], run["kernel"], run["started"] / 1e9, run["seconds"], lost)


def of_comments(text: str, sign: str = "# ") -> Facts:
    command, place, *lost = [line.removeprefix(sign).removesuffix(".") for line in text.splitlines()
                             if line.startswith(sign)][-3:]
    return sentences(command, place, lost)


def of_svg(text: str) -> Facts:
    texts = [each for each in ET.fromstring(text).iter() if each.tag.endswith("}text")]
    lost = [each for each in texts if each.get("class") == "lost"]
    assert all(float(each.get("y", "99")) < 60 for each in lost)  # on top
    *command, place = [each.text or "" for each in texts if each.get("class") == "soft"
                       and float(each.get("y", "0")) > float(texts[0].get("y", "0"))][-_foot(texts):]
    return sentences(" ".join(command), place, [each.text or "" for each in lost])


def _foot(texts: list[ET.Element]) -> int:
    """How many lines there are from that with the command on."""
    return next(i for i, each in enumerate(reversed(texts), 1) if (each.text or "").startswith("sonde "))


def of_html(text: str) -> Facts:
    command, place = re.search(r'<p class="soft"><code>(.*?)</code><br/>(.*?)</p>', text, re.S).groups()  # type: ignore[union-attr]
    lost = re.search(r'<ul class="lost">(.*?)</ul>', text, re.S)
    return sentences(html.unescape(command), html.unescape(place), [html.unescape(lost[1])] if lost else [])


def of_perfetto(text: str) -> Facts:
    found = json.loads(text)
    marks = [event["name"] for event in found["traceEvents"] if event.get("cat") == "lost" and event["s"] == "g"]
    assert marks == found["otherData"]["lost"]
    return data(found["otherData"])


def of_json(text: str) -> Facts:
    last = json.loads(text.splitlines()[-1])
    assert last["type"] == "run"
    return data(last["data"])


# -f -> suffix of the file, what reads it
FILES: dict[str, tuple[str, Callable[[str], Facts]]] = {
    "text": ("txt", of_comments), "json": ("json", of_json), "folded": ("folded", of_comments),
    "flamegraph": ("svg", of_svg), "heatmap to svg": ("svg", of_svg), "heatmap to html": ("html", of_html),
    "heatmap to text": ("txt", of_comments), "dot": ("dot", lambda text: of_comments(text, "// ")),
    "html": ("html", of_html), "csv": ("csv", of_comments), "perfetto": ("json", of_perfetto),
}


def file_of(kind: str, folder: Path, script: str = SCRIPT) -> str:
    file = folder / f"out.{FILES[kind][0]}"
    done = run_sonde("-f", kind.split()[0], "-o", str(file), "-e", script)
    assert done.returncode == 0, done.stderr
    return file.read_text()


def diff(folder: Path) -> str:
    """The flame graph of two runs' difference."""
    for name in ("before", "after"):
        assert run_sonde("-f", "folded", "-o", str(folder / name), "-e", SCRIPT).returncode == 0
    assert run_sonde("flame", "--diff", str(folder / "before"), str(folder / "after"), "-o",
                     str(folder / "diff.svg")).returncode == 0
    return (folder / "diff.svg").read_text()


def of_diff(when: str) -> Callable[[Path], Facts]:
    def read(folder: Path) -> Facts:
        texts = [each.text or "" for each in ET.fromstring(diff(folder)).iter() if each.tag.endswith("}text")]
        first = next(i for i, text in enumerate(texts) if text.startswith(f"Incomplete {when}: "))
        last = next(i for i, text in enumerate(texts) if i >= first and text.endswith("times]"))
        lost = [" ".join(texts[first:last + 1])]  # it is wrapped
        begin = next(i for i, text in enumerate(texts) if text.startswith(f"{when}: sonde"))
        end = next(i for i, text in enumerate(texts) if i > begin and PLACE.search(text))
        return sentences(" ".join(texts[begin:end]), texts[end], lost)
    return read


def parquet(folder: Path) -> Facts:
    done = run_sonde("export", "--parquet", str(folder / "x.parquet"), "-e", SCRIPT)
    assert done.returncode == 0, done.stderr
    files = sorted(folder.glob("*.parquet"))
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    about = [pq.read_metadata(file).metadata for file in files]
    assert len(files) == 4 and all(each[b"sonde.run"] == about[0][b"sonde.run"] for each in about)
    facts = data(json.loads(about[0][b"sonde.run"]))
    assert about[0][b"sonde.losses"].decode() == facts.lost
    return facts


def scraped(port: int) -> str:
    """The metrics, once they are served."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return str(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode())
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def metrics(folder: Path) -> Facts:
    """What Prometheus reads: the losses are a metric by kind, line and message."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Tracer("export", "--prometheus", str(port), "-e", SCRIPT.replace("ms:300", "s:600")):
        time.sleep(TRACED)
        text = scraped(port)

    def value(name: str) -> float:
        return float(re.search(rf"^sonde_trace_{name} (.*)$", text, re.M)[1])  # type: ignore[index]

    def labels(name: str) -> dict[str, str]:
        found = re.search(rf"^sonde_trace_{name}{{(.*)}} (.*)$", text, re.M)
        assert found is not None, text
        return {key: json.loads(f'"{each}"') for key, each in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[1])} \
            | {"value": found[2]}
    info, failures = labels("info"), labels("failures_total")
    return Facts(info["command"], info["host"], info["kernel"], value("start_time_seconds"), value("traced_seconds"),
                 f"{failures['message']} [{float(failures['value']):.0f} times]")


def traced() -> Any:
    with sonde.trace(SCRIPT) as tracing:
        list(tracing.events())
    return tracing


def notebook(folder: Path) -> Facts:
    return of_html(traced().maps["@sizes"]._repr_html_())


def flame_in_a_notebook(folder: Path) -> Facts:
    return of_html(traced().maps["@stacks"]._repr_html_())


def data_frame(folder: Path) -> Facts:
    with pytest.warns(RuntimeWarning, match="incomplete"):
        return data(traced().maps["@sizes"].to_pandas().attrs)


def arrow(folder: Path) -> Facts:
    with pytest.warns(RuntimeWarning, match="incomplete"):
        return data(json.loads(traced().maps["@sizes"].to_arrow().schema.metadata[b"sonde.run"]))


def library(folder: Path) -> Facts:
    return data(traced().provenance.as_json())


def overhead(form: str) -> Callable[[Path], Facts]:
    """Nothing can be lost there: every program's runs are the kernel's own count."""
    def read(folder: Path) -> Facts:
        done = run_sonde("overhead", "-f", form, "-o", str(folder / "x"), str(TRACED))
        assert done.returncode == 0, done.stderr
        text = (folder / "x").read_text()
        return of_json(text) if form == "json" else of_comments(text)
    return read


def of_file(kind: str) -> Callable[[Path], Facts]:
    return lambda folder: FILES[kind][1](file_of(kind, folder))


ARTEFACTS: dict[str, Callable[[Path], Facts]] = {
    **{kind: of_file(kind) for kind in FILES}, "diff: before": of_diff("before"), "diff: after": of_diff("after"),
    "parquet": parquet, "metrics": metrics, "library": library, "notebook": notebook,
    "notebook: flame graph": flame_in_a_notebook, "data frame": data_frame, "arrow": arrow,
    "overhead": overhead("text"), "overhead as json": overhead("json"),
}


@pytest.mark.parametrize("artefact", ARTEFACTS)
def test_an_artefact_says_what_it_shows_and_what_it_lacks(artefact: str, tmp_path: Path) -> None:
    before = time.time()
    facts = ARTEFACTS[artefact](tmp_path)
    assert "sonde" in facts.command and ("max_map_keys" in facts.command) == (not artefact.startswith("overhead"))
    assert (facts.host, facts.kernel) == (os.uname().nodename, os.uname().release)
    assert before - 1 <= facts.started <= time.time() and TRACED - 0.1 <= facts.seconds < 60
    if artefact.startswith("overhead"):
        assert facts.lost in ("nothing was lost", "")  # JSON has an empty list
    else:
        assert LOST in facts.lost and "[7 times]" in facts.lost


@pytest.mark.parametrize("kind", ["text", "json"])
def test_where_nothing_was_lost_files_are_as_bpftrace_writes_them(kind: str, tmp_path: Path) -> None:
    text = file_of(kind, tmp_path, 'begin { printf("x\\n"); exit(); }')
    assert os.uname().release not in text and "sonde" not in text


@pytest.mark.parametrize("kind", ["flamegraph", "html", "csv"])
def test_where_nothing_was_lost_nothing_is_red(kind: str, tmp_path: Path) -> None:
    text = file_of(kind, tmp_path, "begin { @[kstack] = count(); exit(); }")
    assert os.uname().nodename in text and 'class="lost"' not in text


def test_the_command_can_be_run_again(tmp_path: Path) -> None:
    facts = FILES["csv"][1](file_of("csv", tmp_path, "begin { @['a'] = 1; exit(); }".replace("'", '"')))
    assert run_sonde(*shlex.split(facts.command)[1:]).returncode == 0


def test_a_file_of_somebody_elses_stacks_says_so(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("main;work 5\n")
    done = run_sonde("flame", "--diff", str(tmp_path / "x"), str(tmp_path / "x"))
    assert "does not say of which run it is" in done.stdout and 'class="lost"' not in done.stdout


def test_the_start_stays() -> None:
    tracing = traced()
    started = tracing.provenance.started
    time.sleep(0.2)
    assert abs(tracing.provenance.started - started) < 10**7
    assert re.fullmatch(r"stdin:3:\d+-\d+: Map full.*\[7 times\]", str(tracing.losses))
    with sonde.trace("begin { exit(); }") as tracing:
        list(tracing.events())
    assert str(tracing.losses) == "nothing was lost"
