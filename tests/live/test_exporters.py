"""Exporters beside the real thing: a Prometheus server that scrapes, OTLP's own protobuf, pyarrow; known workloads."""

from __future__ import annotations

import gzip
import http.server
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from otlp_reader import ReadProfiles
from support import Tracer, compile_c, run_sonde

MISSING = ""
try:
    import prometheus_client  # noqa: F401
    import pyarrow.parquet as pq
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_service
except ImportError as error:
    MISSING = str(error)
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")

CALLS = 321
TARGET = """
#include <stdlib.h>
int counted(unsigned n) { return n; }
int main(int argc, char **argv) {
    volatile int sink = 0;
    for (unsigned i = 0; i < (unsigned)atoi(argv[1]); i++) sink += counted(i);
    return 0;
}
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that calls counted(0), counted(1) ... as often as its argument says."""
    return compile_c(TARGET, tmp_path_factory.mktemp("exporters"), "counting")


def whole(path: Path) -> io.BytesIO:
    """The file's bytes: pyarrow's threads close files that they open a moment later."""
    return io.BytesIO(path.read_bytes())


def script(target: Path) -> str:
    return (f"uprobe:{target}:counted {{ @calls[comm] = count(); @bytes[comm, arg0 % 4] = sum((uint64)arg0); "
            "@size[comm] = hist(arg0); @lin = lhist(arg0, 0, 400, 100); @s = stats(arg0); @last = (uint64)arg0; }")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Samples by name and labels, as prometheus_client's own parser reads them."""
    from prometheus_client.parser import text_string_to_metric_families
    return {(s.name, tuple(sorted(s.labels.items()))): s.value
            for family in text_string_to_metric_families(text) for s in family.samples}


def until(what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not in {seconds} s")


def answering(url: str) -> bool:
    try:
        fetch(url)
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


# Prometheus ---------------------------------------------------------------------------------------------------------

def check_samples(samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]) -> None:
    comm = ("comm", "counting")
    assert samples["sonde_calls_total", (comm,)] == CALLS
    for rest in range(4):
        assert samples["sonde_bytes_total", (comm, ("key2", str(rest)))] == sum(range(rest, CALLS, 4))
    for bound in (0, 1, 3, 7, 15, 31, 63, 127, 255):
        assert samples["sonde_size_bucket", (comm, ("le", f"{bound}.0"))] == bound + 1
    assert samples["sonde_size_bucket", (comm, ("le", "+Inf"))] == CALLS == samples["sonde_size_count", (comm,)]
    assert samples["sonde_size_sum", (comm,)] == sum(range(CALLS)) == samples["sonde_lin_sum", ()]
    assert samples["sonde_lin_bucket", (("le", "99.0"),)] == 100
    assert samples["sonde_s_count", ()] == CALLS and samples["sonde_s_sum", ()] == sum(range(CALLS))
    assert samples["sonde_last", ()] == CALLS - 1


def test_a_scrape_has_exact_counts(target: Path) -> None:
    port = free_port()
    with Tracer("export", "--prometheus", f"127.0.0.1:{port}", "-e", script(target)):
        subprocess.run([target, str(CALLS)], check=True)
        samples = parsed(fetch(f"http://127.0.0.1:{port}/metrics"))
        check_samples(samples)
        assert samples["sonde_trace_lost_events_total", (("probe", f"uprobe:{target}:counted"),)] == 0
        subprocess.run([target, "10"], check=True)
        assert parsed(fetch(f"http://127.0.0.1:{port}/metrics"))["sonde_calls_total", (("comm", "counting"),)] \
            == CALLS + 10


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[int], str]]:
    """Debian's Prometheus; call it with the port to scrape, it gives the address of its interface."""
    if not shutil.which("prometheus"):
        pytest.skip("prometheus is not installed")
    started: list[subprocess.Popen[bytes]] = []

    def start(target_port: int) -> str:
        config, port = tmp_path / "prometheus.yml", free_port()
        config.write_text("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
                          "scrape_configs: [{job_name: sonde, static_configs: "
                          f"[{{targets: ['127.0.0.1:{target_port}']}}]}}]\n")
        with open(tmp_path / "log", "wb") as log:
            started.append(subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
                 f"--storage.tsdb.path={tmp_path / 'data'}"], stdout=log, stderr=log, cwd=tmp_path))
        return f"http://127.0.0.1:{port}"
    yield start
    for process in started:
        process.terminate()
        process.wait(30)


def asked(server: str, query: str) -> dict[tuple[tuple[str, str], ...], float]:
    """What a Prometheus server answers, by labels."""
    try:
        answer = json.loads(fetch(f"{server}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
    except (urllib.error.URLError, ConnectionError):
        return {}
    drop = {"__name__", "instance", "job"}
    return {tuple(sorted((k, v) for k, v in row["metric"].items() if k not in drop)): float(row["value"][1])
            for row in answer["data"]["result"]}


def test_a_prometheus_server_scrapes_it(target: Path, server: Callable[[int], str]) -> None:
    port = free_port()
    with Tracer("export", "--prometheus", str(port), "-e", script(target)):
        subprocess.run([target, str(CALLS)], check=True)
        address = server(port)
        key = (("comm", "counting"),)
        until("calls in Prometheus", lambda: asked(address, "sonde_calls_total").get(key) == CALLS)
        for query, wanted in (  # a scrape that takes too long takes all of them away until the next
                ('sonde_size_bucket{le="127.0"}', {(*key, ("le", "127.0")): 128}),
                ('sonde_size_bucket{le="+Inf"}', {(*key, ("le", "+Inf")): CALLS}),
                ("sum by (comm) (sonde_bytes_total)", {key: sum(range(CALLS))}),
                ("127 <= histogram_quantile(0.5, sonde_size_bucket) <= bool 255", {key: 1}),
                ("up", {(): 1}),
                ("sonde_trace_lost_events_total", {(("probe", f"uprobe:{target}:counted"),): 0})):
            until(query, lambda query=query, wanted=wanted: asked(address, query) == wanted)


def test_label_sets_are_bounded(target: Path) -> None:
    """The greatest keys stay, the rest is one; a key that has come stays what it is."""
    port = free_port()
    program = f"uprobe:{target}:counted {{ @[arg0] = sum((uint64)arg0); @g[arg0] = (uint64)arg0; }}"
    with Tracer("export", "--prometheus", f"127.0.0.1:{port}", "--keys", "5", "-e", program):
        subprocess.run([target, "20"], check=True)
        url = f"http://127.0.0.1:{port}/metrics"
        first = {dict(labels)["arg0"]: value for (name, labels), value in parsed(fetch(url)).items()
                 if name == "sonde_map_total"}
        assert first == {"19": 19, "18": 18, "17": 17, "16": 16, "15": 15, "other": sum(range(15))}
        subprocess.run([target, "1000"], check=True)
        samples = parsed(fetch(url))
        second = {dict(labels)["arg0"]: value for (name, labels), value in samples.items() if name == "sonde_map_total"}
        assert set(second) == set(first) and second["19"] == 38
        assert sum(second.values()) == sum(range(20)) + sum(range(1000))
        assert samples["sonde_trace_other_keys", (("map", "@"),)] == 1000 - 5
        gauges = [value for (name, _), value in samples.items() if name == "sonde_g"]
        assert len(gauges) == 5, "values that cannot be added up are left out beyond the bound, and counted"


def test_what_a_script_clears_is_added_up(target: Path) -> None:
    port = free_port()
    program = (f"uprobe:{target}:counted {{ @n = count(); @k[comm] = count(); }} "
               "interval:ms:20 { print(@n); clear(@n); print(@k); clear(@k); }")
    with Tracer("export", "--prometheus", f"127.0.0.1:{port}", "-e", program):
        for _ in range(5):
            subprocess.run([target, str(CALLS)], check=True)
            time.sleep(0.03)
        samples = parsed(fetch(f"http://127.0.0.1:{port}/metrics"))
    assert samples["sonde_n_total", ()] == 5 * CALLS == samples["sonde_k_total", (("comm", "counting"),)]


def test_what_a_script_keeps_for_itself_is_no_metric(target: Path, tmp_path: Path) -> None:
    """As the tools have it: a map that ``end`` clears and nobody prints."""
    port, file = free_port(), tmp_path / "x.parquet"
    program = f"uprobe:{target}:counted {{ @since[tid] = nsecs; @n = count(); }} end {{ clear(@since); }}"
    with Tracer("export", "--prometheus", f"127.0.0.1:{port}", "--parquet", str(file), "-e", program):
        subprocess.run([target, "5"], check=True)
        names = {name for name, _ in parsed(fetch(f"http://127.0.0.1:{port}/metrics"))}
    assert "sonde_n_total" in names and not [name for name in names if "since" in name]
    assert pq.read_table(whole(file))["value"].to_pylist() == [5]


UNITS = ("\n// The argument, in microseconds\n@lat_us = hist(arg0); @total_ms = sum((uint64)arg0);\n"
         "// @spent[NAME]: seconds of work\n@spent[comm] = stats(arg0); @read_kb[comm] = sum((uint64)1); "
         "@below = hist((int64)arg0 - 1); @real_ms = hist(0.25); ")


def test_metrics_are_in_base_units_with_unit_and_help(target: Path) -> None:
    port = free_port()
    with Tracer("export", "--prometheus", f"127.0.0.1:{port}", "-e", f"uprobe:{target}:counted {{ {UNITS} }}"):
        subprocess.run([target, str(CALLS)], check=True)
        address = f"http://127.0.0.1:{port}/metrics"
        plain = fetch(address)
        asked = urllib.request.Request(address, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            opened = answer.read().decode()
    samples = parsed(plain)
    for bound, count in (("0.0", 1), ("1e-06", 2), ("7e-06", 8), ("0.000255", 256), ("+Inf", CALLS)):
        assert samples["sonde_lat_seconds_bucket", (("le", bound),)] == count
    assert samples["sonde_seconds_total", ()] == sum(range(CALLS)) / 1000
    assert samples["sonde_spent_seconds_sum", (("name", "counting"),)] == sum(range(CALLS))
    assert samples["sonde_lat_seconds_sum", ()] == pytest.approx(sum(range(CALLS)) / 1e6)
    assert samples["sonde_real_seconds_sum", ()] == CALLS * 0.25 / 1000
    assert samples["sonde_below_bucket", (("le", "-1.0"),)] == 1 and ("sonde_below_sum", ()) not in samples
    assert samples["sonde_read_bytes_total", (("comm", "counting"),)] == CALLS * 1024
    assert "# HELP sonde_lat_seconds The argument, in seconds\n# TYPE sonde_lat_seconds histogram\n" in plain
    assert "# HELP sonde_spent_seconds seconds of work\n" in plain
    for name, unit in (("lat", "seconds"), ("read", "bytes"), ("trace_detached", "seconds")):
        assert f"# UNIT sonde_{name}_{unit} {unit}\n" in opened
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    read = {family.name: family for family in text_string_to_metric_families(opened)}  # ValueError: not by the standard
    assert read["sonde_lat_seconds"].unit == "seconds" and read["sonde_below"].type == "histogram"
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=plain, capture_output=True, text=True,
                              check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("words", [["export", "--prometheus", "0"], ["unit", "--prometheus"]])
def test_a_tool_that_has_no_metrics_says_what_to_use(words: list[str]) -> None:
    if words[0] == "unit":
        said = run_sonde(*words, "opensnoop").stderr
    else:
        address = f"127.0.0.1:{free_port()}"
        with Tracer("export", "--prometheus", address, "opensnoop", "-p", str(os.getpid())) as tracer:
            pass
        said = tracer.stderr
    assert "WARNING: no metrics but Sonde's own: opensnoop prints rows, and keeps no numbers in maps" in said
    assert "sonde export --parquet FILE opensnoop, sonde -f json opensnoop, sonde serve opensnoop" in said


# OTLP ---------------------------------------------------------------------------------------------------------------

class Receiver:
    """A collector: what was sent to it, decoded."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.profiles: list[tuple[str, bytes]] = []
        self.logs: list[Any] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                coding = self.headers.get("Content-Encoding", "")
                body = {"gzip": gzip.decompress, "deflate": zlib.decompress}.get(coding, bytes)(body)
                if self.path == "/v1development/profiles":
                    outer.profiles.append((self.headers["Content-Type"], body))
                elif self.path == "/v1/logs":
                    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_service
                    logs = logs_service.ExportLogsServiceRequest()
                    logs.ParseFromString(body)
                    outer.logs.append(logs)
                else:
                    request = metrics_service.ExportMetricsServiceRequest()
                    request.ParseFromString(body)
                    outer.requests.append((self.path, request))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(metrics_service.ExportMetricsServiceResponse().SerializeToString())

            def log_message(self, format: str, *args: Any) -> None:
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/metrics"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Receiver:
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the last request, by name."""
        resource, = self.requests[-1][1].resource_metrics
        scope, = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}


def labels_of(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def test_otlp_has_exact_counts(target: Path) -> None:
    with Receiver() as receiver:
        with Tracer("export", "--otlp", receiver.url, "--interval", "0.2", "-e", script(target)) as tracer:
            subprocess.run([target, str(CALLS)], check=True)
            until("two requests", lambda: len(receiver.requests) >= 2)
        assert tracer.status == 0
        assert {path for path, _ in receiver.requests} == {"/v1/metrics"}
        metrics, about = receiver.metrics, labels_of(receiver.requests[-1][1].resource_metrics[0].resource)
    assert about["host.name"] == os.uname().nodename and about["os.version"] == os.uname().release
    assert about["service.name"] == "sonde"
    calls, = metrics["sonde_calls"].sum.data_points
    assert calls.as_int == CALLS and labels_of(calls) == {"comm": "counting"}
    assert metrics["sonde_calls"].sum.is_monotonic and metrics["sonde_calls"].sum.aggregation_temporality == 2
    size, = metrics["sonde_size"].histogram.data_points
    assert list(size.explicit_bounds) == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511]
    assert list(size.bucket_counts) == [1, 1, 2, 4, 8, 16, 32, 64, 128, CALLS - 256, 0] and size.count == CALLS
    assert size.sum == sum(range(CALLS))
    assert metrics["sonde_s_sum"].sum.data_points[0].as_int == sum(range(CALLS))
    assert metrics["sonde_last"].gauge.data_points[0].as_int == CALLS - 1
    units = {name: metric.unit for name, metric in metrics.items()}
    assert all(units.values()) and all(metric.description for metric in metrics.values())
    assert (units["sonde_calls"], units["sonde_bytes"], units["sonde_size"]) == ("{event}", "By", "1")
    assert units["sonde_trace_traced_seconds"] == "s"
    assert {p.as_int for p in metrics["sonde_trace_lost_events"].sum.data_points} == {0}


def test_rows_and_profiles_at_intervals_are_exact(target: Path) -> None:
    """Whatever the maps are cleared for, nothing of them is lost to the metrics."""
    program = (f'uprobe:{target}:counted {{ printf("n=%d by %s\\n", arg0, comm); @n[comm] = count(); '
               "@[ustack(1)] = count(); }")
    with Receiver() as receiver:
        address = receiver.url.removeprefix("http://").removesuffix("/v1/metrics")
        with Tracer("export", "--otlp-logs", address, "--otlp-profiles", address, "--otlp", address,
                    "--interval", "0.1", "-e", program) as tracer:
            for times in (1, 2):
                subprocess.run([target, str(CALLS)], check=True)
                until("a profile", lambda times=times: len(receiver.profiles) >= times)
        assert tracer.status == 0 and f"Sent {2 * CALLS} rows" in tracer.stderr, tracer.stderr
        metrics = receiver.metrics
    records = [record for request in receiver.logs for resource in request.resource_logs
               for scope in resource.scope_logs for record in scope.log_records]
    assert [record.body.string_value for record in records] == [f"n={n} by counting" for n in range(CALLS)] * 2
    assert all(records[at].time_unix_nano <= records[at + 1].time_unix_nano for at in range(len(records) - 1))
    values = {each.key: each.value for each in records[7].attributes}
    assert values["n"].int_value == 7 and values["sonde.probe"].string_value == f"uprobe:{target}:counted"
    about = labels_of(receiver.logs[0].resource_logs[0].resource)
    assert about["host.name"] == os.uname().nodename and about["service.instance.id"]
    profiles = [ReadProfiles(body, "ExportProfilesServiceRequest") for _, body in receiver.profiles]
    assert sum([count for each in profiles for samples in each.samples for count in samples.values()]) == 2 * CALLS
    assert all(later.times[0][0] >= sum(each.times[0]) for each, later in pairwise(profiles))
    assert profiles[0].resource["service.instance.id"] == about["service.instance.id"]
    point, = metrics["sonde_map"].sum.data_points
    assert point.as_int == 2 * CALLS


def test_a_collector_that_is_away_is_said_once(target: Path) -> None:
    """And at the end that the metrics are lost."""
    url = f"http://127.0.0.1:{free_port()}/v1/metrics"
    with Tracer("export", "--otlp", url, "--interval", "0.1", "-e", script(target)) as tracer:
        until("the warning", lambda: "cannot be reached: Connection refused" in tracer._read(tracer._err))
        subprocess.run([target, "3"], check=True)
    warnings = [line for line in tracer.stderr.splitlines() if "cannot be reached" in line]
    assert tracer.status == 1 and len(warnings) == 2
    assert warnings[0].endswith("trying again with newer ones") and warnings[1].endswith(": the last metrics are lost")


def test_a_collector_that_never_answers_is_not_waited_for_long() -> None:
    def export_to(address: str) -> tuple[float, subprocess.CompletedProcess[str]]:
        begun = time.monotonic()
        done = run_sonde("export", "--otlp", address, "--interval", "0.2",
                         "-e", "begin { @ = count(); } interval:s:1 { exit(); }")
        return time.monotonic() - begun, done
    with Receiver() as receiver:
        answered, _ = export_to(receiver.url)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        waited, done = export_to(f"127.0.0.1:{silent.getsockname()[1]}")
    assert waited < 2 * answered + 6, "5 seconds, once, and not for each interval"
    assert done.returncode == 1
    assert done.stderr.count("/v1/metrics does not answer: the last metrics are lost") == 1
    assert "trying again" not in done.stderr


def test_an_address_without_a_path(target: Path) -> None:
    with Receiver() as receiver:
        program = f"uprobe:{target}:counted {{ @[ustack(1)] = count(); }}"
        address = receiver.url.removeprefix("http://").removesuffix("/v1/metrics")
        done = run_sonde("export", "--otlp", address, "--otlp-profiles", f"http://{address}/", "-e", program,
                         "-c", f"{target} 5")
        assert done.returncode == 0, done.stderr
        assert receiver.requests[-1][0] == "/v1/metrics" and len(receiver.profiles) == 1


def test_a_profile_that_nobody_takes(target: Path) -> None:
    done = run_sonde("export", "--otlp-profiles", str(free_port()), "-e",
                     f"uprobe:{target}:counted {{ @[ustack(1)] = count(); }}", "-c", f"{target} 5")
    assert done.returncode == 1 and "cannot be reached" in done.stderr


def test_a_profile_goes_to_a_collector_and_to_a_file(target: Path, tmp_path: Path) -> None:
    """With exact counts: also of what the script printed and cleared while it ran, and beside the metrics."""
    program = f"""uprobe:{target}:counted {{
            @calls[comm, ustack(1)] = count(); @sent_bytes[ustack(1)] = sum((uint64)arg0); }}
        interval:ms:50 {{ print(@calls); clear(@calls); }}"""
    with Receiver() as receiver:
        url = receiver.url.replace("/v1/metrics", "/v1development/profiles")
        with Tracer("export", "--otlp-profiles", url, "--otlp", receiver.url, "-e", program) as tracer:
            subprocess.run([target, str(CALLS)], check=True)
        assert tracer.status == 0 and f"Sending a profile to {url}" in tracer.stderr
        (kind, body), = receiver.profiles
        assert kind == "application/x-protobuf" and receiver.requests
    file = tmp_path / "profile"
    with Tracer("-f", "otlp", "-o", str(file), "-e", program) as tracer:
        subprocess.run([target, str(CALLS)], check=True)
    for found in (ReadProfiles(body, "ExportProfilesServiceRequest"), ReadProfiles(file.read_bytes())):
        assert found.types == [("calls", "count"), ("sent_bytes", "bytes")]
        assert found.samples == [
            {((("comm", "counting"),), (("counted", "[user]"),)): CALLS},
            {((), (("counted", "[user]"),)): sum(range(CALLS))}]
        assert "sonde" in found.resource["sonde.command"] and found.times[0][0] > 0


# Parquet ------------------------------------------------------------------------------------------------------------

def test_parquet_has_every_event_and_map(target: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    program = (f'uprobe:{target}:counted {{ printf("n=%d comm=%s\\n", arg0, comm); @size[comm] = hist(arg0); '
               "@ = count(); }")
    done = run_sonde("export", "--parquet", str(file), "-e", program, "-c", f"{target} {CALLS}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and f"Wrote {tmp_path}/out.events.parquet: {CALLS} rows" in done.stderr
    events = pq.read_table(whole(tmp_path / "out.events.parquet"))
    assert events.column_names == ["time", "probe", "n", "comm"]
    assert events["n"].to_pylist() == list(range(CALLS)) and set(events["comm"].to_pylist()) == {"counting"}
    sizes = pq.read_table(whole(tmp_path / "out.size.parquet")).to_pylist()
    assert sum(row["count"] for row in sizes) == CALLS and sizes[3]["low"] == 4 and sizes[3]["count"] == 4
    assert pq.read_table(whole(tmp_path / "out.map.parquet"))["value"].to_pylist() == [CALLS]
    assert pq.read_metadata(whole(tmp_path / "out.map.parquet")).metadata[b"sonde.losses"] == b""


def test_parquet_has_the_unit_and_what_the_script_says(target: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    program = f"uprobe:{target}:counted {{ @wait = stats(arg0); // time in the queue, in ms\n}}"
    with Tracer("export", "--parquet", str(file), "-e", program):
        subprocess.run([target, "5"], check=True)
    schema = pq.read_table(whole(file)).schema
    about = {b"sonde.about": b"time in the queue, in ms"}
    assert {name: schema.field(name).metadata for name in ("count", "total")} == {
        "count": about, "total": about | {b"sonde.unit": b"ms"}}


def test_a_single_table_is_the_file_itself(tmp_path: Path) -> None:
    file = tmp_path / "one.parquet"
    done = run_sonde("export", "--parquet", str(file), "-e", "begin { @x[1] = 7; print(@x); exit(3); }")
    assert done.returncode == 3
    table = pq.read_table(whole(file))
    assert table["key"].to_pylist() == [1, 1] and table["value"].to_pylist() == [7, 7]  # printed, and at the end
    assert file.exists() and os.listdir(tmp_path) == ["one.parquet"]


@pytest.mark.parametrize("rows", [6_000, 60_000])  # they are written at the end; on the way
def test_a_full_disk(tmp_path: Path, rows: int) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], check=True)
    try:
        done = run_sonde("export", "--parquet", str(tmp_path / "x.parquet"), "--otlp", str(free_port()), "-e",
                         'begin { @ = 1; } begin { '
                         f'for ($i : 0..{rows}) {{ printf("n=%d t=%d\\n", rand, nsecs); }} exit(); }}')
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    said = [line for line in done.stderr.splitlines() if "Lost" not in line and "trying again" not in line]
    assert done.returncode == 1 and said[-1] == "ERROR: No space left on device" and len(said) == 5
    assert said[-2].endswith(": the last metrics are lost"), "the others are finished too"


@pytest.mark.parametrize(("words", "complaint"), [
    (["-e", "begin { }"], "export where to?"),
    (["--otlp", "collector", "-e", "begin { }"], "--otlp takes an address, not 'collector'\nHINT: for example"),
    (["--otlp", "ftp://x", "-e", "begin { @ = 1; }"], "'ftp://x' is no address of a collector: http://"),
    (["--otlp", "h:99999", "-e", "begin { @ = 1; }"], "'h:99999' is no address of a collector"),
    (["--prometheus", "host", "-e", "begin { }"], "--prometheus takes an address, not 'host'"),
    (["--parquet", "-q", "-e", "begin { @ = 1; }"], "option '--parquet' requires an argument"),
    (["--prometheus", "127.0.0.1:99999", "-e", "begin { }"], "is no address"),
    (["--prometheus", "127.0.0.1:9", "--keys", "0", "-e", "begin { }"], "--keys takes a whole number from 1 up"),
    (["--parquet", "/nowhere/x", "-e", "begin { @ = 1; }"], "failed to open output file '/nowhere/x'"),
    (["--parquet", "/tmp/x", "-e", "begin { }"], "the script has neither maps nor printf()"),
    (["--prometheus"], "filename or -e 'program' required"),
])
def test_complaints(words: list[str], complaint: str) -> None:
    done = run_sonde("export", *words)
    assert done.returncode == 1 and complaint in done.stderr


def test_an_address_that_is_taken(target: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run_sonde("export", "--prometheus", f"127.0.0.1:{taken.getsockname()[1]}", "-e", script(target))
    assert done.returncode == 1 and "cannot serve on 127.0.0.1" in done.stderr


def test_a_missing_package_is_one_sentence() -> None:
    code = ("import sys; sys.modules['prometheus_client'] = None; from sonde.cli.main import main; "
            "sys.exit(main(['export', '--prometheus', '-e', 'begin { @ = count(); }']))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.match(r"ERROR: this needs prometheus_client: .*python\S* -m pip install prometheus-client ", done.stderr)
