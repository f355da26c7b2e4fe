"""Every line that a tool can print is a row of a table that it declares, a heading, or a remark of those below."""

from __future__ import annotations

import os
from functools import cache

import pytest

from compiled import world
from sonde import compiling, tools
from sonde.errors import SondeError
from sonde.exporters.metrics import Gatherer
from sonde.output.table_rows import table_cells
from sonde.runtime.losses import Losses
from sonde.semantics.script_options import Options
from sonde.source import Source
from sonde.spec import EventSite, ScriptSpec

REMARKS = (
    "Tracing", "Measuring the time", "Refused packets are shown of sockets", "... and %lld more: see --rows\n",
    "... and %lld functions more: raise --rows\n", "%lld call%s did not return\n", "%s:\n", "\nLatency in %s:\n",
    "\t\"%s %s\" -> \"%s %d\" [label=\"%d/%d\"];\n",  # tcplife's graph, instead of rows
)
RAW = {"ttysnoop"}  # shows what a terminal shows
SAMPLES = {"PID": str(os.getpid()), "PORT": "80", "PORTS": "80"}
NOT_RECORDED = {"arplat", "criticalstat"}  # ask for what the recorded kernel has not


def variants(tool: tools.Tool) -> list[dict[str, str]]:
    """Options with which it prints other columns: none, all switches at once, and one at a time."""
    switches = [option.key for option in tool.options if not option.value]
    numbers = [{option.key: SAMPLES.get(option.value, "1")} for option in tool.options
               if option.value in ("N", "US", "NAME")]
    return [{}, dict.fromkeys(switches, "true"), *[{key: "true"} for key in switches], *numbers]


@cache
def compile_variants(name: str) -> list[ScriptSpec]:
    """The tool's forms; options that exclude one another, or that this kernel cannot serve, have none."""
    tool = tools.find_tool(name)
    assert tool is not None
    with open(tool.path, encoding="utf-8") as file:
        text = file.read()
    found = []
    for named in variants(tool):
        options = Options(params=tool.sample_arguments or ["1", "1"], named=named, unsafe=True)
        try:
            found.append(compiling.compile(Source(tool.name, text), options, world()))
        except SondeError:
            continue
    return found


def text_of(site: EventSite) -> str:
    return "".join([part.literal or f"%{part.spec}{part.length}{part.conversion}" for part in site.parts])


def lines_of_no_kind(spec: ScriptSpec) -> list[str]:
    return [text_of(site) for site in spec.sites if site.kind == "printf" and not site.data.get("severity")
            and site.fields and not site.table and not text_of(site).startswith(REMARKS)]


@pytest.mark.parametrize("name", tools.tool_names())
def test_every_line_is_a_row_or_a_remark(name: str) -> None:
    specs = compile_variants(name)
    assert specs or name in NOT_RECORDED
    for spec in specs:
        assert name in RAW or lines_of_no_kind(spec) == []
        for site in spec.sites:
            assert not site.fields or all(cell.parts for cell in table_cells(site))


@pytest.mark.parametrize("name", tools.tool_names())
def test_headings_have_the_columns_of_the_help(name: str) -> None:
    tool = tools.find_tool(name)
    assert tool is not None
    explained = {word for column in tool.columns for word in (column, *column.split(":"))}
    for spec in compile_variants(name)[:2]:
        for site in spec.sites:
            if site.table and not site.fields:
                text = "".join([part.literal for part in site.parts])
                words = set(text.replace(":", " ").replace(",", " ").split())
                assert {word for word in words if any(map(str.isalnum, word))} <= explained


@pytest.mark.parametrize("name", tools.tool_names())
def test_metrics_are_explained_and_their_labels_have_names(name: str) -> None:
    for spec in compile_variants(name):
        gatherer = Gatherer(spec, lambda map, then: [], lambda: Losses([], [], []), name)
        for metric in gatherer.maps.values():
            assert not [label for label in metric.labels if label.startswith("key")], metric.name
            assert not metric.make_family([]).help.startswith("map @"), metric.name


def test_the_check_finds_a_line_of_no_kind() -> None:
    spec = compiling.compile('table t { A: "%d"; } begin { heading(t); t(1); printf("Tracing %d.\\n", 1); '
                             'printf("%d\\n", 2); }', world=world())
    assert lines_of_no_kind(spec) == ["%d\n"]
