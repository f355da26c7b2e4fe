"""What a script's comments say of its maps and columns."""

from __future__ import annotations

import pytest

from sonde import tools
from sonde.language.comments import LONGEST, MapComments, column_descriptions, comment_beside
from sonde.output.units import column_heading
from unit.fake_world import check_text

HEAD = """\
// x: shows something
//
// OPTIONS
//   -m, --milliseconds   milliseconds instead of microseconds
//
// COLUMNS
//   PID, COMM       the process
//   LAT             milliseconds until the end
//   LAT(us)         microseconds, too
//   @usecs[DISK]    microseconds from begin to end,
//                   by disk
//   @msecs          with -m: milliseconds
//   @all[A], @each  with -s: the same, summed up
//   @usecs          with -d: the same, as a line that comes second
//   @mean           microseconds of all; with -m milliseconds
//
// NOTES
//   @none           is no column
"""


def test_a_head_explains_maps_and_columns() -> None:
    said = column_descriptions(HEAD)
    begin = "microseconds from begin to end, by disk"
    assert said == {"PID": "the process", "COMM": "the process", "LAT": "milliseconds until the end",
                    "LAT(us)": "microseconds, too", "@usecs": begin,
                    "@msecs": "milliseconds from begin to end, by disk",
                    "@all": "microseconds from begin to end, by disk, summed up",
                    "@each": "microseconds from begin to end, by disk, summed up",
                    "@mean": "microseconds of all; with -m milliseconds"}
    assert column_descriptions("// x: y\nbegin {}\n// COLUMNS\n//   @a   b\n") == {}, "the head ends with the comment"


@pytest.mark.parametrize(("named", "said"), [
    ({}, "microseconds of all"), ({"milliseconds": "true"}, "milliseconds of all"),
    ({"milliseconds": "false"}, "microseconds of all"), ({"other": "true"}, "microseconds of all")])
def test_an_option_decides_on_the_unit(named: dict[str, str], said: str) -> None:
    assert MapComments(named).describe_map("@mean", HEAD, 0) == said


@pytest.mark.parametrize(("text", "said"), [
    ("@x = count(); // how many", "how many"), ("  @x[\"//\"] = count(); // by text", "by text"),
    ("// how many\nlet @x = hash(10);", "how many"), ("begin {\n\t// how\n\t// many\n\t@x = count();", "how many"),
    ("@x = count();", ""), ("@x = 1; @y = 2; // the other", ""), ("// of the line\nif (a) { @x = 1; }", ""),
    ("// how many\n\n@x = 1;", ""), ("@x = str(\"//\");", "")])
def test_what_stands_beside_a_map(text: str, said: str) -> None:
    assert comment_beside(text, text.index("@x")) == said


def test_a_comment_that_begins_with_a_map_is_of_it_wherever_it_stands() -> None:
    text = "begin { @x = 1; }\n\n\t// @x: what it is\nend { clear(@x); }"
    assert MapComments({}).describe_map("@x", text, text.index("@x")) == "what it is"
    long = f"// @x: {'a' * 9999}"
    assert len(MapComments({}).describe_map("@x", long, 0)) == LONGEST


def test_a_compiled_map_knows_what_is_said_of_it() -> None:
    maps = check_text("begin { @x = 1; // the first\n @y = 2; }").maps
    assert (maps["@x"].about, maps["@y"].about) == ("the first", "")


@pytest.mark.parametrize(("name", "said", "text", "symbol"), [
    ("LAT", "milliseconds until the end", "LAT", "ms"), ("LAT(us)", "microseconds", "LAT", "µs"),
    ("TX_KB", "kilobytes (1024) sent", "TX_KB", ""), ("PID", "the process", "PID", ""),
    ("S", "seconds in all", "S", "s"), ("MS", "milliseconds", "MS", ""),
    ("LAST", "the time, in seconds", "LAST", "s"), ("HIT", "the percentage", "HIT", ""),
    ("BUSY", "of all, in percent", "BUSY (%)", ""), ("BYTES(x)", "bytes", "BYTES(x)", "")])
def test_a_columns_heading_has_the_unit(name: str, said: str, text: str, symbol: str) -> None:
    heading = column_heading(name, said)
    assert (heading.text, heading.symbol) == (text, symbol)


def test_all_maps_that_tools_explain_are_described() -> None:
    """What a tool says of a map must stand by itself: it is the help of a metric."""
    for tool in tools.all_tools():
        for name, said in tool.descriptions.items():
            alone = len(said.split()) > 1 and not said.startswith(("the same", "with -"))
            assert alone or name[:1] != "@", (tool.name, name)
