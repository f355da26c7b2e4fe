"""--by: containers in the place of processes' names."""

from __future__ import annotations

import pytest

from compiled import world
from sonde import compiling
from sonde.cli.script_names import read_script
from sonde.errors import CompileError
from sonde.semantics.script_options import Options
from sonde.spec import ScriptSpec
from sonde.tools import Tool, all_tools
from sonde.types import Str, Symbol, Tuple

CONTAINER = Symbol("container")


def compile_by(text: str) -> ScriptSpec:
    return compiling.compile(text, Options(by="container"), world())


def test_keys_values_and_what_is_printed() -> None:
    spec = compile_by("""tracepoint:syscalls:sys_enter_openat /comm != "x" && !strcontains(comm, "y")/ {
        $name = pid > 1 ? comm : comm; @[comm] = count(); @both[pid, comm]++; @last[tid] = (1, comm); @c = comm;
        printf("%-7s %-10s\\n", "PID", "COMM"); printf("COMM      PID\\n"); printf("%s %s", comm, $name);
        print(comm); }""")
    assert spec.find_map("@").key == CONTAINER
    both, last = spec.find_map("@both").key, spec.find_map("@last").value
    assert isinstance(both, Tuple) and both.of[1] == CONTAINER
    assert isinstance(last, Tuple) and last.of[1] == CONTAINER and spec.find_map("@c").value == CONTAINER
    heading, line, names, printed = spec.sites
    assert "".join([part.literal for part in line.parts]) == "CONTAINER PID\n"
    assert [field.type for field in names.fields] == [CONTAINER, CONTAINER] and printed.fields[0].type == CONTAINER
    assert [type(field.type) for field in heading.fields] == [Str, Str]
    assert spec.groups == []  # what is compared with is the name of the process


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(CompileError, match="no names of processes"):
        compile_by("tracepoint:syscalls:sys_enter_openat /comm == \"x\"/ { @ = count(); }")


@pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)
def test_each_tool_does_it_or_says_that_it_does_not(tool: Tool) -> None:
    """Nothing else goes wrong than without it."""
    found = []
    for by in ("", "container"):
        try:
            compiling.compile(read_script(tool.name), Options(by=by, params=tool.sample_arguments), world())
            found.append(set[str]())
        except CompileError as error:
            found.append({item.code for item in error.diagnostics if item.severity == "ERROR"})
    plain, shown = found
    assert shown <= plain | {"no-process-names"}


def test_columns_of_tables() -> None:
    spec = compile_by('table t { PID: "%-7d"; COMM: "%-16s"; "C-COMM": "%s"; } '
                      "tracepoint:syscalls:sys_enter_openat { heading(t); t(pid, comm, comm); }")
    heading, row = spec.sites
    assert [column.name for column in row.columns] == ["PID", "CONTAINER", "C-CONTAINER"]
    assert "".join([part.literal for part in heading.parts]) == "PID     CONTAINER        C-CONTAINER\n"
    assert [field.type for field in row.fields[1:]] == [CONTAINER, CONTAINER]
