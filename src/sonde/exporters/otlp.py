"""``--otlp``: a script's maps sent to an OpenTelemetry collector at intervals, as protobuf over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from ..library.data_frames import import_extra
from . import Exporter as Base
from . import complete_endpoint
from .metrics import COUNTER, EVENTS, GAUGE, HISTOGRAM, SUMMARY, Buckets, Family, Labels, Point, Summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    import opentelemetry.sdk.metrics.export as metrics

    from .resource import Facts

DEFAULT = "http://127.0.0.1:4318/v1/metrics"
TIMEOUT = 5.0  # s for one export
LAST = 3.0     # s at the end, for the one that goes on and the last
_CONNECT = 1.0  # s


class OtlpExporter(Base):
    """Sends every ``interval`` seconds, and at the end, from a thread of its own. Failures are reported with
    ``complain``; figures are totals, so the next export makes up for them, and the last has all."""

    def __init__(self, endpoint: str, gather: Callable[[], list[Family]], interval: float,
                 complain: Callable[[str], object], facts: Callable[[], Facts]) -> None:
        self._endpoint = complete_endpoint(endpoint, DEFAULT) if endpoint else DEFAULT
        self._sdk = import_extra("opentelemetry.sdk.metrics.export", "export")
        resources = import_extra("opentelemetry.sdk.resources", "export")
        scopes = import_extra("opentelemetry.sdk.util.instrumentation", "export")
        module = import_extra("opentelemetry.exporter.otlp.proto.http.metric_exporter", "export")
        self._exporter = module.OTLPMetricExporter(endpoint=self._endpoint, timeout=TIMEOUT)
        self._sdk_resource, self._resource, self._facts = resources.Resource.create(), resources.Resource, facts
        self._scope = scopes.InstrumentationScope("sonde")
        self._gather, self._interval, self._complain = gather, interval, complain
        self._began = time.time_ns()
        self._failing = False
        self._last: metrics.MetricsData | None = None
        self._ended = threading.Event()
        _silence_sdk_log()
        self._thread = threading.Thread(target=self._send_at_intervals, name="otlp", daemon=True)
        self._thread.start()

    def start_message(self) -> str:
        return f"Sending metrics to {self._endpoint} every {self._interval:g} s"

    def _send_at_intervals(self) -> None:
        while not self._ended.wait(self._interval):
            self._send_metrics(self.metrics_data())
        if self._last is not None:
            self._send_metrics(self._last)

    def finish(self) -> None:
        """The last ones are lost if the collector does not take them in time."""
        self.failed = True
        self._last = self.metrics_data()
        self._ended.set()
        self._thread.join(LAST)
        if self.failed:
            why = explain_refusal(self._endpoint, "does not answer" if self._thread.is_alive() else "")
            self._complain(f"WARNING: OTLP: {self._endpoint} {why}: the last metrics are lost")
        self._exporter.shutdown()

    def _send_metrics(self, data: metrics.MetricsData) -> None:
        """Send the metrics; report when that begins to fail, and when it works again."""
        well = self._exporter.export(data) == self._sdk.MetricExportResult.SUCCESS
        if data is self._last:
            self.failed = not well
        elif well == self._failing:
            self._complain(f"OTLP: {self._endpoint} takes metrics again" if well else
                           f"WARNING: OTLP: {self._endpoint} {explain_refusal(self._endpoint)}; "
                           "trying again with newer ones")
        self._failing = not well

    def metrics_data(self) -> metrics.MetricsData:
        """All current metrics, as the SDK represents them."""
        sdk = self._sdk
        gathered = [metric for family in self._gather() if family.points for metric in self._family_metrics(family)]
        resource = self._sdk_resource.merge(self._resource(self._facts()))
        scope = sdk.ScopeMetrics(self._scope, gathered, "")
        data: metrics.MetricsData = sdk.MetricsData([sdk.ResourceMetrics(resource, [scope], "")])
        return data

    def _family_metrics(self, family: Family) -> list[metrics.Metric]:
        sdk, now = self._sdk, time.time_ns()
        total = sdk.AggregationTemporality.CUMULATIVE

        def number_points(points: Sequence[tuple[Labels, Point]]) -> list[metrics.NumberDataPoint]:
            return [sdk.NumberDataPoint(dict(zip(family.labels, labels)), self._began, now, value)
                    for labels, value in points]

        if family.kind == HISTOGRAM:
            points = [sdk.HistogramDataPoint(dict(zip(family.labels, labels)), self._began, now, value.total, value.sum,
                                             value.counts, [float(bound) for bound in value.bounds], None, None)
                      for labels, value in family.points if isinstance(value, Buckets)]
            return [sdk.Metric(family.name, family.help, family.unit, sdk.Histogram(points, total))]
        if family.kind == SUMMARY:  # OTLP's summaries are for old systems only: two sums say the same
            stats = [(labels, value) for labels, value in family.points if isinstance(value, Summary)]
            return [sdk.Metric(f"{family.name}_count", family.help, EVENTS,
                               sdk.Sum(number_points([(labels, s.count) for labels, s in stats]), total, True)),
                    sdk.Metric(f"{family.name}_sum", family.help, family.unit,
                               sdk.Sum(number_points([(labels, s.total) for labels, s in stats]), total, False))]
        data = sdk.Sum(number_points(family.points), total, True) if family.kind == COUNTER else sdk.Gauge(
            number_points(family.points))
        assert family.kind in (COUNTER, GAUGE)
        return [sdk.Metric(family.name, family.help, family.unit, data)]


def explain_refusal(endpoint: str, otherwise: str = "") -> str:
    """What is wrong with a collector: nothing listens there, or it refuses. The SDK's exporter does not say which."""
    import socket
    from urllib.parse import urlsplit
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), _CONNECT).close()
    except OSError as error:
        return f"cannot be reached: {error.strerror or error}"
    return otherwise or "does not take the metrics"


def _silence_sdk_log() -> None:
    """Silence the SDK, which logs each failure with its stack; our report is one line."""
    import logging
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
