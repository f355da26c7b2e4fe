"""``--prometheus``: an HTTP server whose ``/metrics`` has a script's maps, read anew for each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from ..errors import UsageError
from ..runtime.aggregates import Stats
from ..tables import require
from . import Exporter as Base
from .metrics import COUNTER, HISTOGRAM, SUMMARY, Buckets, Family

DEFAULT = "127.0.0.1:9941"


class Exporter(Base):
    """Serves on ``address`` (``HOST:PORT``, ``[::1]:PORT`` or ``PORT``) until it is finished. ``gather`` may be called
    from the server's threads."""

    def __init__(self, address: str, gather: Callable[[], list[Family]]) -> None:
        client = require("prometheus_client", "export")
        core = require("prometheus_client.core", "export")
        host, port = split_address(address or DEFAULT)
        registry = client.CollectorRegistry(auto_describe=False)
        registry.register(Collector(core, gather))
        try:
            self._server, self._thread = client.start_http_server(port, host, registry)
        except OSError as error:
            raise UsageError(f"cannot serve on {address or DEFAULT}: {error.strerror or error}") from None
        shown = f"[{host}]" if ":" in host else host
        self._where = f"http://{shown}:{self._server.server_port}/metrics"

    def where(self) -> str:
        return f"Serving metrics on {self._where}"

    def finish(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def split_address(text: str) -> tuple[str, int]:
    """(host, port); UsageError if it is no address."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"'{text}' is no address: HOST:PORT or PORT")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


class Collector:
    """Turns families into prometheus_client's."""

    def __init__(self, core: Any, gather: Callable[[], list[Family]]) -> None:
        self._core = core
        self._gather = gather

    def collect(self) -> Iterator[Any]:
        """Called for each scrape."""
        for family in self._gather():
            yield self._family(family)

    def _family(self, family: Family) -> Any:
        core, name, help, labels = self._core, family.name, family.help, list(family.labels)
        if family.kind == HISTOGRAM:
            return self._histogram(family)
        make = {COUNTER: core.CounterMetricFamily, SUMMARY: core.SummaryMetricFamily}.get(
            family.kind, core.GaugeMetricFamily)
        found = make(name, help, labels=labels)
        for values, point in family.points:
            if isinstance(point, Stats):
                found.add_metric(list(values), count_value=point.count, sum_value=point.total)
            else:
                found.add_metric(list(values), point)
        return found

    def _histogram(self, family: Family) -> Any:
        """Without a sum: a map of buckets does not know it, and a guess would look like the truth."""
        found = self._core.HistogramMetricFamily(family.name, family.help, labels=list(family.labels))
        for values, point in family.points:
            assert isinstance(point, Buckets)
            counts = list(accumulate(point.counts))
            bounds = [*[str(float(bound)) for bound in point.bounds], "+Inf"]
            found.add_metric(list(values), buckets=list(zip(bounds, counts)), sum_value=None)
            found.add_sample(f"{family.name}_count", dict(zip(family.labels, values)), point.total)
        return found
