"""The shipped tools' documentation: every tool has it, and ``--help`` is made from it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from sonde import tools
from sonde.cli.command_table import ALIASES, COMMANDS
from sonde.cli.options import OPTIONS, SHARED, TOOL, Option, parse_command_line
from sonde.cli.requests import options_of_tool
from sonde.errors import UsageError
from sonde.tools.tool_arguments import check_arguments
from support import run_sonde

SHIPPED = tools.tool_names()


def test_all_are_shipped() -> None:
    assert len(SHIPPED) > 10
    assert [tool.name for tool in tools.all_tools()] == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_documentation_is_complete(name: str) -> None:
    tool = tools.find_tool(name)
    assert tool is not None
    assert list(tool.sections) == [s for s in tools.SECTIONS if s in tool.sections or s not in ("OPTIONS", "READING")]
    assert all(tool.sections.values())
    assert tool.sections["USAGE"].strip().startswith(f"sonde {name}")
    assert len(tool.purpose) < 100
    assert not tool.purpose.endswith(".")


@pytest.mark.parametrize("name", SHIPPED)
def test_columns_are_those_of_the_header_line(name: str) -> None:
    """Each column that the script's own header prints is explained."""
    tool = tools.find_tool(name)
    assert tool is not None
    example = tool.sections["EXAMPLE"].splitlines()
    explained = set(tool.columns)
    lines = [line.split() for line in example if line.strip()]
    heading = next((words for words in lines if words[0].isalpha() and words[0].isupper()), [])
    assert set(heading) <= explained | {"->", ">"} or not explained


def test_help_names_purpose_and_sections() -> None:
    tool = tools.find_tool("tcpconnect")
    assert tool is not None
    text = tools.tool_help(tool)
    assert text.startswith(f"tcpconnect: {tool.purpose}\n\nUSAGE\n  sonde tcpconnect")
    assert "//" not in text
    assert text.endswith("\n") and not text.endswith("\n\n")


def test_listing_has_a_line_each() -> None:
    lines = tools.tool_listing().splitlines()
    assert [line.split()[0] for line in lines] == SHIPPED


def test_names_that_others_have() -> None:
    """Each is a tool or a command with its options, on the command line and for sonde help; docs/bcc.md tells it."""
    for alias, words in ALIASES.items():
        name, *options = words.split()
        assert name in [*SHIPPED, *COMMANDS] and alias not in [*SHIPPED, *COMMANDS]
        done = run_sonde(alias, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"{name}: ")
        parsed = parse_command_line(["-q", alias, "5"], options_of_tool)
        assert (parsed.words, parsed.first) == ([name, "5"], name)
        assert not options or parsed.named["language"] == options[1]
    assert run_sonde("help", "javagc").stdout == run_sonde("ugc", "--help").stdout
    text = (ROOT / "docs" / "bcc.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text, re.M))
    for what, languages in re.findall(r"^\| `LANGUAGE(\w+)` \| `u\w+ -l LANGUAGE` \| bcc, for ([\w, ]+):", text, re.M):
        told |= {f"{language}{what}": f"u{what} -l {language}" for language in re.findall(r"\w+", languages)
                 if language != "and"}
    assert told == ALIASES


def test_unknown_tool() -> None:
    assert tools.find_tool("nosuchtool") is None
    assert tools.find_tool("../tools/execsnoop") is None


def test_header_without_purpose_is_refused() -> None:
    with pytest.raises(UsageError):
        tools.parse_tool("x", "x.bt", "// y: other\n")
    with pytest.raises(UsageError):
        tools.parse_tool("x", "x.bt", "begin { }\n")


ROOT = Path(__file__).parents[3]
HEADER = """// x: for tests
//
// OPTIONS
//   -P, --port PORT   only this port
//                     (of the server)
//   -t, --timestamp   a column with the time
//   --count N         so often
//
// COLUMNS
//   TIME   when
//   LADDR:LPORT -> RADDR   both
//   @map   no column
"""


def test_options_of_a_header() -> None:
    found = tools.parse_tool("x", "x.bt", HEADER).options
    assert [(o.names, o.value, o.help, o.key) for o in found] == [
        (("-P", "--port"), "PORT", "only this port (of the server)", "port"),
        (("-t", "--timestamp"), "", "a column with the time", "timestamp"),
        (("--count",), "N", "so often", "count"),
    ]


@pytest.mark.parametrize(("usage", "required"), [
    ("sonde x", []), ("sonde x [OPTIONS] [SECONDS [COUNT]]", []), ("sonde x [OPTIONS] PATTERN [COUNT]", ["PATTERN"]),
    ("sonde x --port PORT NAME", ["NAME"]),
])
def test_required_parameters(usage: str, required: list[str]) -> None:
    tool = tools.parse_tool("x", "x.bt", f"// x: y\n// USAGE\n//   {usage}\n// EXAMPLE\n//   # sonde x -a 'b c'\n")
    assert tool.required_parameters == required
    assert tool.sample_arguments == (["b c"] if required else [])


PAGE = """// x: y
//
// USAGE
//   sonde x --port PORT [OPTIONS] [-p PID] NAME [INTERVAL [COUNT]]
//
// OPTIONS
//   -P, --port PORT       only this port
//   -L, --ports PORTS     only these
//   -b, --bytes BYTES     at least
//   -o, --processes PIDS  only these
//   -s, --sort reads|writes  by these
//   -q, --process PID     only this
//   -f, --flag            a switch
//   -d, --duration SECONDS  end after so long
//
// EXAMPLE
//   # sonde x --port 80 a
"""


@pytest.mark.parametrize(("parameters", "options", "said"), [
    (["a"], {"port": "80"}, ""), (["a", "1", "2"], {"port": "80", "ports": "80,443,8000-8010", "flag": "true"}, ""),
    (["a"], {"port": "80", "processes": "1"}, ""), (["a"], {"port": "80", "processes": "1,4194999"}, ""),
    ([], {"port": "80"}, "x needs a NAME"), (["a", "1", "2", "3"], {"port": "80"}, "takes no parameter '3'"),
    (["a"], {}, "x needs --port PORT"), (["a", "soon"], {"port": "80"}, "INTERVAL is a whole number, not 'soon'"),
    (["a", "1", "-2"], {"port": "80"}, "COUNT is a whole number, not '-2'"),
    (["a", "0"], {"port": "80"}, "INTERVAL is a whole number from 1 up, not '0'"),
    (["a"], {"port": "80", "duration": "0"}, "--duration is a whole number from 1 up, not '0'"),
    (["a"], {"port": "80", "duration": "0.5"}, "--duration is a whole number, not '0.5'"),
    (["a"], {"port": "http"}, "--port: 'http' is not a list of numbers"),
    (["a"], {"port": "80", "ports": "1,65536"}, "--ports: 65536 is no port"),
    (["a"], {"port": "80", "bytes": "1k"}, "--bytes is a whole number, not '1k'"),
    (["a"], {"port": "80", "processes": "4194999"}, "there is no process 4194999"),
    (["a"], {"port": "80", "sort": "writes", "process": "1"}, ""),
    (["a"], {"port": "80", "sort": "pages"}, "--sort is one of reads, writes, not 'pages'"),
    (["a"], {"port": "80", "process": "1,2"}, "--process is the number of a process, not '1,2'"),
])
def test_what_is_given_to_a_tool_is_checked(parameters: list[str], options: dict[str, str], said: str) -> None:
    tool = tools.parse_tool("x", "x.bt", PAGE)
    if not said:
        assert check_arguments(tool, parameters, options) == []
        return
    with pytest.raises(UsageError) as caught:
        check_arguments(tool, parameters, options)
    assert said in caught.value.message


def test_a_device_that_is_not_there_is_a_warning() -> None:
    usage = "// x: y\n// USAGE\n//   sonde x [OPTIONS]\n// OPTIONS\n//   -i, --interface DEVICE  only this\n"
    tool = tools.parse_tool("x", "x.bt", usage)
    assert check_arguments(tool, [], {"interface": "lo"}) == []
    warning, = check_arguments(tool, [], {"interface": "nosuch0"})
    assert warning.startswith("WARNING: there is no network device 'nosuch0' now: there are ") and "lo" in warning


def test_columns_of_a_header() -> None:
    assert tools.parse_tool("x", "x.bt", HEADER).columns == ["TIME", "LADDR:LPORT", "RADDR"]


@pytest.mark.parametrize("name", SHIPPED)
def test_options_are_those_that_the_script_asks_for(name: str) -> None:
    tool = tools.find_tool(name)
    assert tool is not None
    asked = set(re.findall(r'getopt\("([\w-]+)"', Path(tool.path).read_text()))
    assert asked == {option.key for option in tool.options} - SHARED - {"regexp"}
    assert all(option.help and not option.value.startswith("[") for option in tool.options)
    ours = {n for row in OPTIONS for n in row.names if n.startswith("--") and not re.match(r"\w+: ", row.help)}
    ours -= {"--count"}  # which a tool may have for what it counts itself: behind its name that one is meant
    ours -= {f"--{key}" for key in SHARED}
    assert not ours & {n for option in tool.options for n in option.names}, "long global options stay"


@pytest.mark.parametrize("name", SHIPPED)
def test_what_options_do_stands_in_one_column(name: str) -> None:
    tool = tools.find_tool(name)
    assert tool is not None
    lines = [line for line in tool.sections.get("OPTIONS", "").splitlines() if line.startswith("  -")]
    assert len({len(line) - len(line.strip().partition("  ")[2].lstrip()) for line in lines}) <= 1


LETTERS = {"timestamp": "-T", "elapsed": "-t", "failed": "-x", "uid": "-u", "disk": "-d", "milliseconds": "-m",
           "wide": "-w", "ipv4": "-4", "ipv6": "-6"}


@pytest.mark.parametrize("name", SHIPPED)
def test_options_have_the_letters_of_the_vocabulary(name: str) -> None:
    """As docs/tools/README.md has them; a letter may mean something else where bcc's tool of that name has it so."""
    tool = tools.find_tool(name)
    assert tool is not None
    letters = {option.key: option.names[0] for option in tool.options if option.key in LETTERS}
    assert letters == {key: LETTERS[key] for key in letters}


def own(name: str) -> list[Option]:
    return [Option(("-l", "--lost"), "", TOOL, ""), Option(("-P", "--port"), "N", TOOL, "")] if name == "x" else []


def test_own_options_win_behind_the_name() -> None:
    found = parse_command_line(["-v", "x", "-l", "-P", "80", "1", "-f", "json"], own)
    assert found.named == {"lost": "true", "port": "80"}
    assert found.words == ["x", "1"]
    assert found.options == {"verbose": "yes", "format": "json"}
    assert parse_command_line(["x", "--port=81", "-lq"], own).named == {"port": "81", "lost": "true"}
    assert parse_command_line(["-l", "x"], own).get("list") == "x"
    with pytest.raises(UsageError):
        parse_command_line(["y", "-P", "80"], own)


@pytest.mark.parametrize(("words", "named", "options"), [
    (["export", "--prometheus", "opensnoop", "--failed"], {"failed": "true"}, {"prometheus": ""}),
    (["export", "--otlp", "h:4318", "opensnoop", "-x", "--interval", "5"], {"failed": "true"},
     {"otlp": "h:4318", "interval": "5"}),
    (["unit", "--prometheus", "iosnoop", "-Q"], {"queue": "true"}, {"prometheus": ""}),
    (["cost", "--seconds", "3", "opensnoop", "-d", "1"], {"duration": "1"}, {"seconds": "3"}),
])
def test_options_of_a_tool_that_a_command_runs_are_the_tools(words: list[str], named: dict[str, str],
                                                             options: dict[str, str]) -> None:
    """An optional address before the tool's name does not take the name as its value."""
    parsed = parse_command_line(words, options_of_tool)
    assert (parsed.named, parsed.command_options) == (named, options)
    assert len(parsed.words) == 2 and parsed.first == words[0]


def test_a_number_with_a_dash_is_an_option_where_there_is_one() -> None:
    four = [Option(("-4", "--ipv4"), "", TOOL, "")]
    found = parse_command_line(["x", "-4", "-5"], lambda name: four if name == "x" else [])
    assert (found.named, found.words) == ({"ipv4": "true"}, ["x", "-5"])
    assert parse_command_line(["y", "-4"], lambda name: []).words == ["y", "-4"]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_tool_docs", ROOT / "scripts" / "gen_tool_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_current() -> None:
    """Run scripts/gen_tool_docs.py after a change of a tool's header."""
    folder = ROOT / "docs" / "tools"
    assert {file.name: file.read_text() for file in folder.glob("*.md")} == generator().pages()


@pytest.mark.parametrize(("release", "says"), [("5.10.0", True), ("5.18.19", True), ("5.19.1", False), ("", False)])
def test_needs_are_said_where_they_name_a_younger_kernel(release: str, says: bool) -> None:
    tool = tools.find_tool("compactsnoop")
    assert tool is not None
    assert tool.needs_in(release) == (says and "it needs tracepoints compaction:mm_compaction_{begin,end} with their "
                                      "arguments in BTF (Linux 5.19)" or "")
