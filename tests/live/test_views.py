"""Views of real runs: programs whose hot function, latencies and edges are known."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from browser import Browser
from perfetto_reader import read_packets, read_trace
from pprof_reader import ReadProfile
from support import Tracer, compile_c, run_sonde
from trace_processor import TraceProcessor

SVG = "{http://www.w3.org/2000/svg}"
BUSY = """
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) void hot_function(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void cool_function(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink ^= i; }
int main(void) { while (clock() < CLOCKS_PER_SEC) { hot_function(900000); cool_function(100000); } }
"""
SAMPLES = "profile:hz:199 /pid == cpid/ { @[comm, ustack, kstack] = count(); }"
READS = """tracepoint:syscalls:sys_enter_read /pid == cpid/ { @since[tid] = nsecs; }
tracepoint:syscalls:sys_exit_read /@since[tid]/ { @ns = hist(nsecs - @since[tid]); delete(@since, tid); }
interval:ms:100 { print(@ns); clear(@ns); } end { clear(@since); }"""
READER = ("import time\nwith open('/dev/zero', 'rb', 0) as file:\n"
          "    for i in range(50):\n        file.read(4096)\n        time.sleep(0.01)\n")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that spends nine tenths of its time in hot_function, and ends after a second on the CPU."""
    return str(compile_c(BUSY, tmp_path_factory.mktemp("busy"), "busy", "-O0",
                         "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"))


def child(code: str, folder: Path) -> str:
    """A command line that runs Python code."""
    file = folder / "child.py"
    file.write_text(code)
    return f"{sys.executable} {file}"


def weights(folded: str) -> dict[str, int]:
    """Weight by user function, of lines of a busy program."""
    found: dict[str, int] = {}
    for line in [line for line in folded.splitlines() if not line.startswith("# ")]:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        assert int(count) > 0
        if frames[0] != "busy":  # the moment before it was executed
            continue
        for name in {"hot_function", "cool_function", "main"} & set(frames):
            found[name] = found.get(name, 0) + int(count)
    return found


def test_folded_finds_the_hot_function(busy: str) -> None:
    done = run_sonde("-f", "folded", "-e", SAMPLES, "-c", busy)
    assert done.returncode == 0, done.stderr
    found = weights(done.stdout)
    assert found["hot_function"] > 3 * found.get("cool_function", 0) > 0
    assert found["main"] >= found["hot_function"]


def test_flame_graph_of_a_command(busy: str, tmp_path: Path) -> None:
    file = tmp_path / "busy.svg"
    done = run_sonde("flame", "-c", busy, "-o", str(file))
    assert done.returncode == 0, done.stderr
    assert f"Wrote {file}" in done.stderr
    frames = {g.attrib["data-name"]: int(g.attrib["data-weight"]) for g in ET.parse(file).iter(f"{SVG}g")
              if "data-name" in g.attrib}
    assert frames["hot_function"] > frames["all"] / 2
    assert frames["busy"] > 0.9 * frames["all"], "all but the moment before it was executed"


def test_flame_graph_of_a_process(busy: str) -> None:
    with subprocess.Popen([busy]) as process:
        process.send_signal(signal.SIGSTOP)
        with Tracer("flame", "--on-cpu", "-p", str(process.pid), "-f", "folded") as tracer:
            process.send_signal(signal.SIGCONT)
            tracer.wait()
    assert weights(tracer.stdout)["hot_function"] > 5  # of some 99 a second, on a CPU that others use too


def test_off_cpu_finds_the_sleep(tmp_path: Path) -> None:
    command = child("import time\nfor _ in range(10): time.sleep(0.05)\n", tmp_path)
    done = run_sonde("flame", "--off-cpu", "-f", "folded", "-c", command)
    assert done.returncode == 0, done.stderr
    slept = sum(int(line.rpartition(" ")[2]) for line in done.stdout.splitlines() if "nanosleep" in line)
    assert 400_000_000 < slept < 5_000_000_000


def test_the_difference_of_two_runs(busy: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = run_sonde("flame", "-f", "folded", "-c", busy, "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    done = run_sonde("flame", "--diff", str(tmp_path / "a"), str(tmp_path / "b"))
    names = [g.attrib.get("data-name") for g in ET.fromstring(done.stdout.encode()).iter(f"{SVG}g")]
    assert {"busy", "hot_function", "cool_function"} <= set(names)


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["flame", "--on-cpu", "--off-cpu"], "one flame graph at a time"),
    (["flame", "--diff", "/dev/null"], "--diff takes two files"),
    (["flame", "--diff", "/nowhere", "/dev/null"], "failed to open file '/nowhere'"),
    (["-f", "flamegraph", "-e", "begin { @[1] = count(); }"], "-f flamegraph shows maps keyed by stacks"),
    (["-f", "pie", "-e", "begin { }"], "-f takes text, json, folded"),
    (["-f", "csv", "--test", "-e", "test:a { }"], "tests and benchmarks are printed as text or json"),
])
def test_complaints(arguments: list[str], complaint: str) -> None:
    done = run_sonde(*arguments)
    assert done.returncode == 1
    assert complaint in done.stderr and "Traceback" not in done.stderr


def test_the_output_file_is_left_alone_if_the_view_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("precious")
    assert run_sonde("-f", "dot", "-o", str(file), "-e", "begin { exit(); }").returncode == 1
    assert file.read_text() == "precious"


def test_heat_map(tmp_path: Path) -> None:
    command = child(READER, tmp_path)
    done = run_sonde("-f", "heatmap", "-e", READS, "-c", command)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("@ns:\n") and re.search(r"\|.*[░▒▓█].*\|", done.stdout)
    file = tmp_path / "reads.svg"
    run_sonde("-f", "heatmap", "-o", str(file), "-e", READS, "-c", command)
    columns = [g for g in ET.parse(file).iter(f"{SVG}g") if g.attrib.get("class") == "column"]
    counted = sum(sum(map(int, column.attrib["data-counts"].split())) for column in columns)
    assert len(columns) >= 5 and counted >= 50


def test_graph(tmp_path: Path) -> None:
    done = run_sonde("-f", "dot", "-e", "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { "
                     '@[comm, "getppid"] = count(); }', "-c", child("import os\nos.getppid(); os.getppid()", tmp_path))
    assert done.returncode == 0, done.stderr
    assert re.search(r'n0 -> n1 \[label="2"', done.stdout)


def test_table_and_text_do_not_mix(tmp_path: Path) -> None:
    script = 'begin { @[1, "a,b"] = count(); @[2, "c"] = count(); time("now\\n"); exit(); }'
    done = run_sonde("-f", "csv", "-e", script)
    rows = sorted(csv.reader(io.StringIO(done.stdout)))
    assert rows == [["1", "a,b", "1"], ["2", "c", "1"], ["key1", "key2", "value"]]
    assert "now\n" in done.stderr
    file = tmp_path / "x.csv"
    done = run_sonde("-f", "csv", "-o", str(file), "-e", script)
    lines = file.read_text().splitlines()
    assert done.stdout == "now\n" and len(lines) == 6 and [line[:1] for line in lines[3:]] == ["#"] * 3


def test_trace_on_a_time_line(tmp_path: Path) -> None:
    script = """tracepoint:syscalls:sys_enter_clock_nanosleep /pid == cpid/ { @since[tid] = nsecs; }
tracepoint:syscalls:sys_exit_clock_nanosleep /@since[tid]/ {
    print((name="sleep", pid=pid, tid=tid, comm=comm, dur=nsecs - @since[tid])); printf("slept %d", pid); }"""
    done = run_sonde("-f", "perfetto", "-e", script, "-c", child("import time\ntime.sleep(0.05)\n", tmp_path))
    events = json.loads(done.stdout)["traceEvents"]
    sleep, = [e for e in events if e["ph"] == "X"]
    assert sleep["name"] == "sleep" and 50_000 <= sleep["dur"] < 5_000_000
    said, = [e for e in events if e["ph"] == "i"]
    assert said["name"] == f"slept {sleep['pid']}" and said["ts"] >= sleep["ts"] + 50_000
    assert said["tid"] == sleep["tid"] and said["args"] == {}


def test_a_call_on_a_time_line(tmp_path: Path) -> None:
    script = """tracepoint:syscalls:sys_enter_clock_nanosleep /pid == cpid/ { printf("%d %d", pid, tid); }
tracepoint:syscalls:sys_exit_clock_nanosleep /pid == cpid/ { printf("%d %d %d", pid, tid, args.ret); }"""
    done = run_sonde("-f", "perfetto", "-e", script, "-c", child("import time\ntime.sleep(0.05)\n", tmp_path))
    sleep, = read_trace(done.stdout).slices
    assert sleep.name == "clock_nanosleep" and 50_000 <= sleep.end - sleep.begin < 5_000_000


def test_calls_and_counters_in_perfettos_own_form(tmp_path: Path) -> None:
    """Each of some processes calls as often as it says; its calls are slices on the track of its thread, in order, and
    what the map has is a counter. Their times are those of the machine."""
    script = """tracepoint:syscalls:sys_enter_clock_nanosleep /pid == cpid/ {
    printf("%d %d", pid, tid); @n[pid] = count(); }
tracepoint:syscalls:sys_exit_clock_nanosleep /pid == cpid/ { printf("%d %d %d", pid, tid, args.ret); print(@n); }"""
    program = """import os, threading, time
def nap():
    for _ in range(5):
        time.sleep(0.002)
threads = [threading.Thread(target=nap) for _ in range(2)]
for each in threads: each.start()
for each in threads: each.join()
print(os.getpid(), *[each.native_id for each in threads])"""
    file = tmp_path / "naps.pftrace"
    begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    done = run_sonde("-f", "perfetto", "-o", str(file), "-e", script, "-c", child(program, tmp_path))
    end = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    pid, *threads = map(int, done.stdout.split()[:3])
    trace = read_packets(file.read_bytes())
    for tid in threads:
        naps = [each for each in trace.slices if each.track == (pid, tid)]
        assert [each.name for each in naps] == ["clock_nanosleep"] * 5
        assert all(2000 <= each.end - each.begin and begin <= each.begin * 1000 and each.end * 1000 <= end
                   for each in naps)
        assert all(one.end <= next.begin for one, next in itertools.pairwise(naps))
    counts = [each["value"] for each in trace.counters if each["name"] == f"@n[{pid}]"]
    assert counts and counts[-1] == 10 and counts == sorted(counts)
    assert str(script.split()[0]) in trace.about["command"]
    with Browser() as browser, TraceProcessor(browser) as processor:
        processor.load(file.read_bytes())
        assert not processor.complaints()
        theirs = processor.read()
    rows = [sorted((each.name, each.begin, each.end, each.track, each.depth) for each in found.slices)
            for found in (theirs, trace)]
    assert rows[0] == rows[1] and len(rows[0]) >= 10
    assert [(each["name"], each["ts"], each["value"]) for each in theirs.counters] == [
        (each["name"], each["ts"], each["value"]) for each in trace.counters]


CONNECTION = """import socket, threading, time
server = socket.create_server(("127.0.0.1", 0))
one = socket.create_connection(server.getsockname())
other, _ = server.accept()
print(server.getsockname()[1], one.getsockname()[1], flush=True)
one.sendall(b"x" * 2048)
time.sleep(0.1)
one.close(); other.close()"""


def test_a_tools_table_has_its_own_columns(tmp_path: Path) -> None:
    file = tmp_path / "lives.csv"
    done = run_sonde("-f", "csv", "-o", str(file), "tcplife", "-c", child(CONNECTION, tmp_path))
    port, other = done.stdout.split()
    rows = {row["LPORT"]: row for row in csv.DictReader(file.read_text().splitlines()) if row["LPORT"] in (port, other)}
    assert set(rows) == {port, other}, file.read_text()
    assert list(rows[other]) == ["time", "PID", "COMM", "LADDR", "LPORT", "RADDR", "RPORT", "TX_KB", "RX_KB", "MS"]
    assert rows[other]["TX_KB"] == rows[port]["RX_KB"] == "2.00" and rows[other]["COMM"].startswith("python")


def test_lives_on_a_time_line(tmp_path: Path) -> None:
    file = tmp_path / "lives.json"
    done = run_sonde("-f", "perfetto", "-o", str(file), "tcplife", "-c", child(CONNECTION, tmp_path))
    ports = {int(port) for port in done.stdout.split()}
    trace = read_trace(file.read_text())
    lives = [each for each in trace.slices if each.args.get("LPORT") in ports]
    assert len(lives) == 2
    for life in lives:
        assert life.args["MS"] * 1000 == pytest.approx(life.end - life.begin, abs=1) and life.args["MS"] >= 100
        assert trace.processes[life.track[0]].startswith("python")


def test_page(tmp_path: Path) -> None:
    file = tmp_path / "x.html"
    done = run_sonde("-f", "html", "-o", str(file), "-e",
                     'begin { @a["<b>"] = count(); @h = hist(3); printf("<i>\\n"); exit(); }')
    assert done.returncode == 0 and done.stdout == "<i>\n"
    text = file.read_text()
    assert "&lt;b&gt;" in text and "&lt;i&gt;" in text and "<b>" not in text


def test_plain_runs_do_not_import_views() -> None:
    code = ("import sys; from sonde.cli.main import main; main(['-e', 'begin { @[1] = count(); exit(); }']); "
            "assert not [m for m in sys.modules if m.startswith('sonde.output.views')]")
    source = os.path.join(os.path.dirname(__file__), "..", "..", "src")
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": source}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_end_goes_through_and_clears_is_shown() -> None:
    script = 'begin { @a[1] = 7; @a[2] = 8; @b[1] = 1; exit(); } ' \
             'end { for ($kv : @a) { printf("%d\\n", $kv.0); } clear(@a); clear(@b); }'
    done = run_sonde("-f", "csv", "-e", script)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert {(row["key"], row["value"]) for row in rows if row["table"] == "@a"} == {("1", "7"), ("2", "8")}
    assert not [row for row in rows if row["table"] == "@b"]


def test_pprof_has_what_folded_has(tmp_path: Path) -> None:
    """One run in both forms, by its recording; read by protobuf's decoder."""
    recording, file = tmp_path / "run.sonde", tmp_path / "x.pb.gz"
    done = run_sonde("record", "-o", str(recording), "-e", "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ "
                     "{ @[comm, kstack, ustack] = count(); }", "-c", child("import os\nfor _ in range(100):\n"
                                                                         "    os.getppid()\n", tmp_path))
    assert done.returncode == 0, done.stderr
    assert run_sonde("replay", str(recording), "-f", "pprof", "-o", str(file)).returncode == 0
    found = ReadProfile(file.read_bytes())
    assert found.types == [("samples", "count")] and sum(value for value, in found.samples.values()) == 100
    lines = {";".join([*[text for _, text in labels], *[name + "_[k]" * (mapping == "[kernel.kallsyms]")
                                                       for name, mapping in stack]]) + f" {value}"
             for (labels, stack), (value,) in found.samples.items()}
    folded = run_sonde("replay", str(recording), "-f", "folded").stdout.splitlines()
    assert lines == {line for line in folded if not line.startswith("#")}
    assert {name for labels, _ in found.samples for name, _ in labels} == {"comm"}
    assert found.comments and found.comments[-1] == "nothing was lost"


def test_pprof_itself_reads_it(tmp_path: Path) -> None:
    """pprof: of $PATH, or the program that SONDE_PPROF names (Go's distribution has one among its tools)."""
    pprof = os.environ.get("SONDE_PPROF") or shutil.which("pprof")
    if pprof is None:
        pytest.skip("pprof is not installed (SONDE_PPROF names one that is elsewhere)")
    file = tmp_path / "x.pb.gz"
    done = run_sonde("-f", "pprof", "-o", str(file), "-e", "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ "
                     "{ @[comm, kstack, ustack] = count(); }", "-c", child("import os\nfor _ in range(100):\n"
                                                                         "    os.getppid()\n", tmp_path))
    assert done.returncode == 0, done.stderr
    environment = os.environ | {"HOME": str(tmp_path)}
    said = {form: subprocess.run([pprof, form, str(file)], capture_output=True, text=True, timeout=60, check=True,
                                 env=environment).stdout for form in ("-top", "-comments", "-tags")}
    assert "Type: samples" in said["-top"] and "100 total" in said["-top"]
    assert "nothing was lost" in said["-comments"] and "comm: Total 100" in said["-tags"]
