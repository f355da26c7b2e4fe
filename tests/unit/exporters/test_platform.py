"""What platform teams get of a script: labels, a dashboard, alerts; checked by Grafana's own types and promtool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compiled import world
from sonde import compiling, tools
from sonde.errors import UsageError
from sonde.exporters.alerts import format_rules, make_alerts, read_alerts, undeclared_maps
from sonde.exporters.dashboard import make_dashboard, sample_name
from sonde.exporters.metrics import Family, Gatherer, label_names
from sonde.runtime.losses import Losses
from sonde.semantics.script_options import Options
from sonde.source import Source
from sonde.spec import ScriptSpec

SCRIPT = """
// alert @wait_us p99.9 > 1.5s for 10m: requests wait long
// alert @size average > 64KB: they are large
// alert @calls rate > 100 for 1h: "too" many
// alert @gone, @last value > 5%: unused

// @wait_us[COMM, PORT]: microseconds in the queue
// @size: bytes of each
begin {
    @wait_us[comm, pid] = hist(nsecs); @size[comm] = stats(nsecs); @calls[comm, args.ret, "x"] = count(); @last = 1;
    @plain = hist(5); @busy_pct = max(7);
}
""".replace("args.ret", "pid + 1")
DECLARING = [tool.name for tool in tools.all_tools() if read_alerts(Path(tool.path).read_text())]


def spec_of(text: str, name: str = "x.bt", params: tuple[str, ...] = ()) -> ScriptSpec:
    return compiling.compile(Source(name, text), Options(params=[*params], unsafe=True, sums=True), world())


def families_of(spec: ScriptSpec, prefix: str) -> dict[str, Family]:
    return Gatherer(spec, lambda name, then: [], lambda: Losses([], [], []), prefix).describe_families()


@pytest.fixture(scope="module")
def families() -> dict[str, Family]:
    return families_of(spec_of(SCRIPT), "x")


def test_labels_are_named_as_the_script_declares_its_keys() -> None:
    spec = spec_of("// @q[LE, le, 9x]: odd\n"
                   "begin { @q[1, 2, 3] = count(); @w[comm, 1, 1] = count(); @le[comm] = count(); }")
    assert {named.name: label_names(spec.source.text, named) for named in spec.shown_maps} == {
        "@q": ("le_", "le__", "_9x"), "@w": ("comm", "key2", "key3"), "@le": ("comm",)}


def test_keys_in_columns_count_where_there_are_as_many() -> None:
    head = "// x: y\n//\n// COLUMNS\n//   @a[DISK, FLAGS]   with -D: by both\n//   @a[DISK]          by disk\n\n"
    assert families_of(spec_of(head + "begin { @a[1] = count(); }"), "x")["@a"].labels == ("disk",)
    assert families_of(spec_of(head + "begin { @a[1, 2] = count(); }"), "x")["@a"].labels == ("disk", "flags")
    assert families_of(spec_of(head + "begin { @a[1, 2, 3] = count(); }"), "x")["@a"].labels == ("key1", "key2", "key3")


# the dashboard --------------------------------------------------------------------------------------------------------


def differences(mine: Any, theirs: Any, path: str = "") -> list[str]:
    """What of ``mine`` is not in ``theirs``."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return [line for key, value in mine.items() for line in
                ([f"{path}.{key}"] if key not in theirs else differences(value, theirs[key], f"{path}.{key}"))]
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        return [line for index, pair in enumerate(zip(mine, theirs)) for line in differences(*pair, f"{path}[{index}]")]
    return [] if mine == theirs else [f"{path}: {mine!r} is {theirs!r}"]


def test_grafana_knows_every_part_of_the_dashboard(families: dict[str, Family]) -> None:
    """Read and written again by Grafana's own classes, it is the same, but for their defaults."""
    dashboards = pytest.importorskip("grafana_foundation_sdk.models.dashboard",
                                     reason="grafana-foundation-sdk is not installed")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import heatmap, timeseries

    def written(model: Any) -> Any:
        return json.loads(json.dumps(model, cls=JSONEncoder))
    made = make_dashboard("x", "what it does", [*families.values()])
    assert differences(made, written(dashboards.Dashboard.from_json(made))) == []
    options = {"heatmap": heatmap.Options, "timeseries": timeseries.Options}
    panels = [panel for panel in made["panels"] if panel["type"] in options]
    assert {panel["type"] for panel in panels} == {*options}
    for panel in panels:
        assert differences(panel["options"], written(options[panel["type"]].from_json(panel["options"]))) == []
        custom = panel["fieldConfig"]["defaults"].get("custom", {})
        assert differences(custom, written(timeseries.FieldConfig.from_json(custom))) == []


def test_panels_do_not_overlap_and_show_every_metric(families: dict[str, Family]) -> None:
    panels: list[Any] = make_dashboard("x", "", [*families.values()])["panels"]
    cells = [(x, y) for panel in panels for at in [panel["gridPos"]]
             for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) == 23
    queries = " ".join([target["expr"] for panel in panels for target in panel.get("targets", [])])
    assert all(sample_name(family) in queries or f"{family.name}_bucket" in queries for family in families.values())
    units = {panel["title"]: panel["fieldConfig"]["defaults"].get("unit") for panel in panels if "fieldConfig" in panel}
    assert units["x wait, p99"] == "s" and units["x size, average"] == "bytes" and units["x busy"] == "percentunit"


# alerts -------------------------------------------------------------------------------------------------------------


def promtool(*words: str, text: str = "") -> str:
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    done = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return done.stdout


def test_alerts_are_those_of_the_script_and_of_losses(families: dict[str, Family]) -> None:
    alerts = {alert.name: alert for alert in make_alerts("x", SCRIPT, families)}
    assert alerts["SondeXWaitSecondsP999"].expression == (
        "histogram_quantile(0.999, sum by (le, job, instance, comm, port) "
        "(rate(sonde_x_wait_seconds_bucket[5m]))) > 1.5")
    assert alerts["SondeXSizeBytesAverage"].expression.endswith("> 65536")
    assert (alerts["SondeXCallsRate"].span, alerts["SondeXCallsRate"].summary) == ("1h", '"too" many')
    assert alerts["SondeXLastValue"].expression == "sonde_x_last > 0.05"
    assert {"SondeXAbsent", "SondeEventsLost", "SondeEventsSkipped", "SondeKeysLeftOut"} <= {*alerts}
    assert undeclared_maps("// alert @gone value > 5: x", families) == ["@gone"]


def test_queries_of_dashboard_and_alerts_are_promql(families: dict[str, Family], tmp_path: Path) -> None:
    """Of this script and of the tools that declare alerts, each alone accepted by Prometheus' parser."""
    assert len(DECLARING) >= 8
    files = [tmp_path / "x.yml"]
    dashboard: list[Any] = make_dashboard("x", "", [*families.values()])["panels"]
    rules = format_rules("x", make_alerts("x", SCRIPT, families))
    for index, target in enumerate([target for panel in dashboard for target in panel.get("targets", [])]):
        query = json.dumps(target["expr"].replace("$__rate_interval", "5m"))
        rules += f"      - record: panel:{index}\n        expr: {query}\n"
    files[0].write_text(rules)
    for name in DECLARING:
        tool = tools.find_tool(name)
        assert tool is not None
        text = Path(tool.path).read_text()
        own = families_of(spec_of(text, f"{name}.bt", ("1", "1")), name)
        assert undeclared_maps(text, own) == []
        files.append(tmp_path / f"{name}.yml")
        files[-1].write_text(format_rules(name, make_alerts(name, text, own)))
    said = promtool("check", "rules", *map(str, files))
    assert said.count("SUCCESS") == len(files) and not re.search("(?i)error|duplicate|warning", said), said


@pytest.mark.parametrize(("line", "problem"), [
    ("@x p99 >= 5: y", "is no alert"), ("@x p99 > 5 s: y", "is no alert"), ("@x p99 > 5 for 10: y", "is no alert"),
    ("@x p99 > 5parsecs: y", "is no alert"), ("@calls p99 > 5: y", "whose metric is a counter"),
    ("@size rate > 5: y", "whose metric is a summary")])
def test_an_alert_that_is_none(line: str, problem: str, families: dict[str, Family]) -> None:
    with pytest.raises(UsageError, match=problem):
        make_alerts("x", f"// alert {line}\n", families)
