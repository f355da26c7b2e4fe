"""Every line that the script of a command prints is a row of a table that it declares, a heading, or a remark."""

from __future__ import annotations

import pytest

from command_scripts import command_scripts
from compiled import world
from sonde import compiling
from sonde.language.ast import Call, StrLiteral
from sonde.language.diagnostics import Diagnostics
from sonde.language.includes import Files
from sonde.language.parser import parse_script
from sonde.output.table_rows import table_cells
from sonde.semantics.nodes import walk_nodes
from sonde.semantics.script_options import Options
from sonde.source import Source

REMARKS = ("Tracing", "No thread", "No event loop", "Counting", "%s. Ctrl-C", "\n", "%lld call%s did not return\n")
OF_MAPS = ("ucalls", "uobjnew", "argdist", "tcpsubnet", "packets -S", "pygil")  # print maps, which have types


@pytest.mark.parametrize("name", command_scripts())
def test_every_line_is_a_row_or_a_remark(name: str) -> None:
    script = parse_script(Source(name, command_scripts()[name]), Diagnostics(), [], Files())
    calls = [node for part in (*script.clauses, *script.macros) for node in walk_nodes(part.body)
             if isinstance(node, Call)]
    for call in calls:
        if call.name == "printf":
            format = call.args[0]
            assert isinstance(format, StrLiteral) and format.value.startswith(REMARKS)
    tables = {table.name for table in script.tables}
    printed = {call.name for call in calls} & tables
    assert bool(printed) == (not name.startswith(OF_MAPS))
    assert "heading" in {call.name for call in calls} or not printed


@pytest.mark.parametrize("name", ["trace", "trace -tTCKU", "trace -M"])
def test_the_cells_of_trace(name: str) -> None:
    text = command_scripts()[name]
    spec = compiling.compile(Source(name, text), Options(unsafe=True), world())
    rows = [site for site in spec.sites if site.fields and site.kind == "printf"]
    assert all(site.table.startswith("event") and all(cell.parts for cell in table_cells(site)) for site in rows)
    cells = {cell.name: cell.number for cell in table_cells(rows[0])}
    assert cells["PID"] and cells["TID"] and not cells["COMM"] and not cells["MSG"]
