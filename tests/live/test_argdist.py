"""``sonde argdist``: counts and histograms of expressions, against what the workload passed."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from sonde import tools
from sonde.cli.commands import command_page
from support import Tracer, run_sonde

ME = str(os.getpid())
WRITE = "tracepoint:syscalls:sys_enter_write"
SIZES = {100: 7, 200: 5, 5000: 3}


def workload() -> None:
    """Writes of known sizes: each of SIZES so often."""
    null = os.open(os.devnull, os.O_WRONLY)
    for size, times in SIZES.items():
        for _ in range(times):
            os.write(null, b"x" * size)
    os.close(null)


def counted(text: str) -> dict[int, int]:
    return {int(key): int(value) for key, value in re.findall(r"^@count\[(\d+)\]: (\d+)$", text, re.M)}


def test_counts_are_exact() -> None:
    with Tracer("argdist", "-C", "-p", ME, WRITE, "args.count") as tracer:
        workload()
    assert tracer.lines[0] == f"Counting args.count at {WRITE}. Ctrl-C to end."
    assert counted(tracer.stdout) == SIZES


@pytest.mark.parametrize("condition", ["/args.count < 1000 && args.count % 200 == 0/", "args.count == 200"])
def test_only_what_the_filter_lets_through(condition: str) -> None:
    with Tracer("argdist", "-p", ME, WRITE, "args.count", condition) as tracer:
        workload()
    assert counted(tracer.stdout) == {200: 5}


def test_histogram() -> None:
    with Tracer("argdist", "-H", "-p", ME, WRITE, "args.count") as tracer:
        workload()
    rows = re.findall(r"^\[(\w+), (\w+)\) +(\d+) ", tracer.stdout, re.M)
    assert [row for row in rows if row[2] != "0"] == [("64", "128", "7"), ("128", "256", "5"), ("4K", "8K", "3")]


def test_several_expressions_and_the_most_frequent() -> None:
    with Tracer("argdist", "-T", "2", "-f", "json", "-p", ME, WRITE, "pid, args.count") as tracer:
        workload()
    maps = [json.loads(line)["data"] for line in tracer.lines if line.startswith('{"type": "map"')]
    assert maps == [{"@count": {f"{ME},100": 7, f"{ME},200": 5}}]


def test_outputs_at_intervals_lose_nothing() -> None:
    with Tracer("argdist", "-n", "2", "-p", ME, WRITE, "args.count") as tracer:
        workload()
        tracer.wait()
    assert len(re.findall(r"^\d\d:\d\d:\d\d$", tracer.stdout, re.M)) == 2
    found: dict[int, int] = {}
    for key, value in re.findall(r"^@count\[(\d+)\]: (\d+)$", tracer.stdout, re.M):
        found[int(key)] = found.get(int(key), 0) + int(value)
    assert found == SIZES


def test_duration_ends_it() -> None:
    done = run_sonde("argdist", "-d", "1", "-p", ME, WRITE, "comm", '/comm == "100% \\" never"/')
    assert done.returncode == 0
    assert done.stdout.strip() == f'Counting comm at {WRITE} if comm == "100% \\" never". Ctrl-C to end.'


def test_a_commands_own() -> None:
    command = "dd if=/dev/zero of=/dev/null bs=3000 count=50 status=none"
    done = run_sonde("argdist", "-c", command, "tracepoint:syscalls:sys_enter_read", "args.count", "/pid == cpid/")
    assert done.returncode == 0
    assert counted(done.stdout)[3000] == 50


@pytest.mark.parametrize(("words", "said"), [
    ((), "argdist needs a PROBE and an EXPR"),
    ((WRITE,), "argdist needs a PROBE and an EXPR"),
    ((WRITE, "pid", "/pid/", "x"), "no more"),
    ((WRITE, "pid", "//"), "must not be empty"),
    ((WRITE, ""), "must not be empty"),
    (("-C", "-H", WRITE, "pid"), "one at a time"),
    (("-H", "-T", "3", WRITE, "pid"), "--top is for counts"),
    (("-n", "many", WRITE, "pid"), "--number takes a whole number"),
    (("-d", "0", WRITE, "pid"), "--duration takes"),
    (("-H", WRITE, "comm"), "hist() only supports int arguments"),
    (("-H", WRITE, "args.count)"), "syntax: expected"),
    ((WRITE, "args.nosuch"), "nosuch"),
    (("t:syscalls:nosuch", "pid"), "No matches for tracepoint"),
])
def test_mistakes_are_explained(words: tuple[str, ...], said: str) -> None:
    done = run_sonde("argdist", *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert not done.stdout


def test_help() -> None:
    done = run_sonde("argdist", "--help")
    assert done.stdout == tools.tool_help(command_page("argdist"))
    assert {"USAGE", "OPTIONS", "COLUMNS", "EXAMPLE", "NEEDS", "NOTES"} == set(command_page("argdist").sections)


@pytest.mark.parametrize("order", ["before", "behind"])
@pytest.mark.parametrize("name", ["softirqs", "superping", "arplat", "pacinglat", "tcpretrans", "nettxlat"])
def test_tools_of_interrupts_refuse_a_process(name: str, order: str) -> None:
    done = run_sonde(*(("-p", ME, name) if order == "before" else (name, "-p", ME)))
    assert done.returncode == 1 and not done.stdout
    assert f"{name} cannot be limited to a process: its events" in done.stderr


def test_shipped_tools_print_whole_numbers() -> None:
    """%d is C's: 32 bits. A tool's 64-bit value needs %lld, or it is cut without a word."""
    from sonde import compiling
    from sonde.errors import CompileError
    from sonde.library import trace
    from sonde.semantics.script_options import Options
    from sonde.types import Int
    cut, looked_at = [], 0
    for tool in tools.all_tools():
        source = trace.Source(tool.path, Path(tool.path).read_text())
        try:
            spec = compiling.compile(source, Options(params=tool.sample_arguments))
        except CompileError:  # what it needs is missing here; the doctor's tests are about that
            continue
        for site in spec.sites:
            conversions = [part for part in getattr(site, "parts", ()) or () if part.conversion]
            for part, field in zip(conversions, site.fields):
                looked_at += 1
                if part.conversion in "diuoxX" and isinstance(field.type, Int) and field.type.size == 8 \
                        and part.length in ("", "h", "hh"):
                    cut.append((tool.name, part.spec + part.conversion))
    assert not cut, cut
    assert looked_at > 300
