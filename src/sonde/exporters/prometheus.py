"""``--prometheus``: an HTTP server whose ``/metrics`` shows a script's maps, read afresh for each scrape.

Scrapes that wait at the same time share one reading: however many there are, one reading follows another. When the
server runs short of connections, a reading up to a second old is served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate
from queue import SimpleQueue
from threading import Thread
from time import monotonic

from ..base.numbers import parse_whole
from ..errors import UsageError
from ..library.data_frames import import_extra
from ..output.live.bounded import (
    MOST_CONNECTIONS,
    BoundedServer,
    Client,
    HttpRequest,
    build_response,
    is_named_here,
    own_names,
)
from . import Exporter as Base
from .metrics import BYTES, COUNTER, HISTOGRAM, NUMBER, RATE, SECONDS, SUMMARY, Buckets, Family, Summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    import prometheus_client

DEFAULT = "127.0.0.1:9941"
_FORMS = 4             # formats of one reading; a request for yet another gets plain text
_PLAIN = ("", "", "")  # query, Accept, Accept-Encoding


class PrometheusExporter(Base):
    """Serves on ``address`` (``HOST:PORT``, ``[::1]:PORT`` or ``PORT``) until it is finished. A thread of its own calls
    ``gather``."""

    def __init__(self, address: str, gather: Callable[[], list[Family]]) -> None:
        client = import_extra("prometheus_client", "export")
        core = import_extra("prometheus_client.core", "export")
        host, port = split_address(address or DEFAULT)
        registry = client.CollectorRegistry(auto_describe=False)
        registry.register(Collector(core, gather))
        try:
            self._server = _ScrapeServer((host, port), client.make_wsgi_app(registry))
        except OSError as error:
            raise UsageError(f"cannot serve on {address or DEFAULT}: {error.strerror or error}") from None
        self._server.start()
        shown = f"[{host}]" if ":" in host else host
        self._where = f"http://{shown}:{self._server.port}/metrics"

    def start_message(self) -> str:
        return f"Serving metrics on {self._where}"

    def finish(self) -> None:
        self._server.finish()


class _ScrapeServer(BoundedServer):
    """Answers scrapes. The maps are read in a second thread, since that takes long."""

    def __init__(self, address: tuple[str, int], app: Callable[..., Iterable[bytes]]) -> None:
        super().__init__(address)
        self._app = app
        self._names = own_names(address[0])
        self._latest = -1.0, b""  # when the maps were last read, and the answer to a client that accepts anything
        self._waiting: SimpleQueue[tuple[Client, HttpRequest] | None] = SimpleQueue()
        self._reader = Thread(target=self._serve_scrapes, name="sonde-scrape", daemon=True)
        self._reader.start()

    def answer_request(self, client: Client, request: HttpRequest) -> None:
        host = request.headers.get("host")
        if host is not None and not is_named_here(host, self._names):
            return self.refuse_request(client, 403,
                                       "this server answers to the address and the name of its machine only")
        when, plain = self._latest
        if 2 * len(self.clients) > MOST_CONNECTIONS and monotonic() - when < 1:
            return self.send_data(client, plain)
        self._waiting.put((client, request))

    def finish(self) -> None:
        """Stop answering."""
        self._waiting.put(None)
        self._reader.join()
        self.stop()

    def _serve_scrapes(self) -> None:
        """Make one reading after another, each for all scrapes that wait then."""
        while True:
            requests = [self._waiting.get()]
            while not self._waiting.empty():
                requests.append(self._waiting.get())
            if None in requests:
                return
            made: dict[tuple[str, ...], bytes] = {}
            for client, request in filter(None, requests):
                if not client.open:
                    continue
                _, _, query = request.path.partition("?")
                wanted = (query, request.headers.get("accept", ""), request.headers.get("accept-encoding", ""))
                if wanted not in made and len(made) >= _FORMS:
                    wanted = _PLAIN
                if wanted not in made:
                    made[wanted] = self._render_metrics(*wanted)
                    if wanted == _PLAIN:
                        self._latest = monotonic(), made[wanted]
                self.call_in_thread(partial(self.send_data, client, made[wanted]))

    def _render_metrics(self, query: str, accept: str, encoding: str) -> bytes:
        """The maps, as prometheus_client writes them for a client that accepts these types."""
        response_headers: dict[str, str] = {}
        try:
            body = b"".join(self._app(
                {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "QUERY_STRING": query, "HTTP_ACCEPT": accept,
                 "HTTP_ACCEPT_ENCODING": encoding}, lambda status, headers: response_headers.update(headers)))
        except Exception as error:
            return build_response(500, "text/plain; charset=utf-8", f"{type(error).__name__}: {error}\n".encode())
        return build_response(200, response_headers.pop("Content-Type"), body, response_headers)


def split_address(text: str) -> tuple[str, int]:
    """(host, port); UsageError if it is not an address."""
    host, _, number = text.rpartition(":")
    port = parse_whole(number, 65535)
    if port is None or not is_host(host):
        raise UsageError(f"'{text}' is no address: HOST:PORT or PORT")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", port


def is_host(text: str) -> bool:
    """Whether a name can be a host's, or an address: what the resolver cannot even encode is neither."""
    try:
        return len(text.encode("idna")) < 256
    except UnicodeError:
        return False


def prometheus_unit(family: Family) -> str:
    """A metric's unit as Prometheus calls it, which its name ends with; "" if it has none."""
    unit = {SECONDS: "seconds", BYTES: "bytes", RATE: "bytes_per_second", NUMBER: "ratio"}.get(family.unit, "")
    return unit if family.name.endswith(f"_{unit}") else ""


class Collector:
    """Converts families to prometheus_client's."""

    def __init__(self, core: ModuleType, gather: Callable[[], list[Family]]) -> None:
        self._core = core
        self._gather = gather

    def collect(self) -> Iterator[prometheus_client.Metric]:
        """Called for each scrape."""
        for family in self._gather():
            yield self._convert_family(family)

    def _convert_family(self, family: Family) -> Any:
        core, name, help, labels = self._core, family.name, family.help, list(family.labels)
        unit = prometheus_unit(family)
        if family.kind == HISTOGRAM:
            return self._convert_histogram(family)
        make = {COUNTER: core.CounterMetricFamily, SUMMARY: core.SummaryMetricFamily}.get(
            family.kind, core.GaugeMetricFamily)
        converted: Any = make(name, help, labels=labels, unit=unit)
        for values, point in family.points:
            if isinstance(point, Summary):
                converted.add_metric(list(values), count_value=point.count, sum_value=point.total)
            else:
                converted.add_metric(list(values), point)
        return converted

    def _convert_histogram(self, family: Family) -> Any:
        """A histogram; one without a sum has no count either (OpenMetrics): the bucket of +Inf is its count."""
        histogram: Any = self._core.HistogramMetricFamily(family.name, family.help, labels=list(family.labels),
                                                                unit=prometheus_unit(family))
        for values, point in family.points:
            assert isinstance(point, Buckets)
            counts = list(accumulate(point.counts))
            bounds = [*[str(float(bound)) for bound in point.bounds], "+Inf"]
            histogram.add_metric(list(values), buckets=list(zip(bounds, counts)), sum_value=point.sum)
        return histogram
