"""docs/platform.md, step by step: its commands, its configuration of Prometheus, and what a real Prometheus makes of
the dashboard's queries and of the alerts."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doc_commands import ROOT, shown_commands
from sonde import tools
from sonde.cli.main import main
from sonde.exporters.alerts import read_alerts
from support import Tracer

PAGE = "docs/platform.md"
PORT = "9941"
MISSING = ""
try:
    import prometheus_client  # noqa: F401
except ImportError as error:
    MISSING = str(error)
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: str, condition: Callable[[], Any], seconds: float = 90) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.1)
    raise AssertionError(f"{what}: not in {seconds} s")


def fetch(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def commands() -> dict[str, list[str]]:
    """The page's commands, as words, by what they do."""
    return {shown.text: shlex.split(shown.text) for shown in shown_commands(PAGE)}


def print_unit(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """What ``sonde unit`` prints, in this process."""
    status = main(words[1:words.index(">")])
    done = capfd.readouterr()
    assert status == 0 and not done.err, done.err
    return done.out


def test_the_page_leads_to_a_dashboard_and_to_alerts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for program in ("prometheus", "promtool"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    port, web = str(free_port()), free_port()
    for words in commands().values():
        if words[:2] == ["sonde", "unit"] and ("--alerts" in words or "--dashboard" in words):
            (tmp_path / words[-1]).write_text(print_unit(words, capfd))
    config = re.findall(r"```yaml\n(.*?)```", (ROOT / PAGE).read_text(), re.S)[0]
    (tmp_path / "prometheus.yml").write_text(config.replace(PORT, port).replace("15s", "300ms"))
    subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], check=True, capture_output=True)
    with Tracer("export", "--prometheus", f"127.0.0.1:{port}", "runqlat"), open(tmp_path / "log", "wb") as log:
        assert re.search(r"^sonde_runqlat_seconds_sum \d", fetch(f"http://127.0.0.1:{port}/metrics"), re.M)
        server = subprocess.Popen(
            ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", f"--web.listen-address=127.0.0.1:{web}",
             f"--storage.tsdb.path={tmp_path / 'data'}"], stdout=log, stderr=log, cwd=tmp_path)
        try:
            check_queries(f"http://127.0.0.1:{web}", json.loads((tmp_path / "sonde-runqlat.json").read_text()))
            check_rules(f"http://127.0.0.1:{web}")
        finally:
            server.terminate()
            server.wait(30)


def check_queries(address: str, dashboard: Any) -> None:
    """Each query of the dashboard has a result; what Sonde lost may be of no probe."""
    def ask(query: str) -> Any:
        text = fetch(f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
        answer = json.loads(text or '{"status": "none yet"}')
        assert answer["status"] in ("success", "none yet"), answer
        return [row for row in answer.get("data", {}).get("result", []) if row["value"][1] != "NaN"]
    queries = [target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")
               for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(queries) > 8
    for query in queries:
        if "sonde_trace_" in query and "lost" not in query:
            ask(query)
        else:
            until(query, lambda query=query: ask(query))
    variable = next(each for each in dashboard["templating"]["list"] if each["name"] == "instance")["query"]
    metric = re.fullmatch(r"label_values\((\w+), instance\)", variable)
    assert metric and ask(metric[1])[0]["metric"]["instance"].startswith("127.0.0.1:")


def check_rules(address: str) -> None:
    """Prometheus has evaluated the alerts; that the exporter is away is none of those that fire."""
    def evaluated() -> Any:
        groups = json.loads(fetch(f"{address}/api/v1/rules") or '{"data": {"groups": []}}')["data"]["groups"]
        rules = {rule["name"]: rule for group in groups for rule in group["rules"]}
        return rules if rules and all(rule["health"] == "ok" for rule in rules.values()) else {}
    rules = until("evaluation of the rules", evaluated)
    assert {"SondeRunqlatSecondsP99", "SondeRunqlatAbsent", "SondeEventsLost"} <= {*rules}
    assert rules["SondeRunqlatAbsent"]["state"] == "inactive"


def test_the_other_commands_of_the_page(capfd: pytest.CaptureFixture[str]) -> None:
    """The units; one of each kind is made."""
    made = 0
    for text, words in commands().items():
        if words[:2] != ["sonde", "unit"] or "--alerts" in words or "--dashboard" in words:
            assert words[0] in ("curl", "systemctl") or words[1] in ("export", "unit"), text
        elif "biolatency" not in words:
            text = print_unit(words, capfd)
            assert "\nExecStart=" in text
            assert ("EnvironmentFile=-/etc/sonde/otlp.env" in text) == any("otlp" in word for word in words)
            made += 1
    assert made == 3


@pytest.mark.parametrize(("words", "problem"), [
    (["--dashboard", "--otlp", "runqlat"], "--dashboard and --otlp exclude each other"),
    (["--alerts", "--flight", "5s", "runqlat"], "--alerts and --flight exclude each other"),
    (["--alerts", "-p", "1", "runqlat"], "neither -p nor -c"),
    (["--otlp-logs", "-e", "begin { @ = 1; }"], "this script has neither"),
    (["--otlp-profiles", "-e", "begin { @ = 1; }"], "this script has none"),
    (["--alerts", "-e", "// alert @x p99 > 5\nbegin { @ = 1; }"], "is no alert")])
def test_what_is_refused(words: list[str], problem: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["unit", *words]) == 1 and problem in capfd.readouterr().err


def test_the_page_names_the_tools_that_declare_alerts() -> None:
    declaring = [tool.name for tool in tools.all_tools() if read_alerts(Path(tool.path).read_text())]
    assert f"Of the tools, {', '.join(declaring[:-1])} and {declaring[-1]} declare" in " ".join(
        (ROOT / PAGE).read_text().split())
