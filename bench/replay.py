#!/usr/bin/env python3
"""Ten million recorded events: bytes of each, and how many a second are replayed into an aggregate and as text.

    PYTHONPATH=src:tests python bench/replay.py [EVENTS]

The events are those of ``printf("%s %d %d\\n", comm, fd, ns)`` at a million a second: three programs, two hundred
descriptors, durations of a lognormal distribution.
"""

from __future__ import annotations

import os
import random
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from recordings import write_recording
from sonde import types as t
from sonde.output import Printer, make_output
from sonde.recording.execution import Execution
from sonde.recording.queries import AnsweringTrace, Question
from sonde.recording.replay import open_recording, open_replay
from sonde.semantics.script_options import Options
from sonde.source import Source
from sonde.spec import Config, EventField, EventSite, FormatPart, ScriptSpec

NAME = "tracepoint:syscalls:sys_exit_read"
FORMAT = "name: sys_exit_read\nID: 1\nformat:\n\tfield:int fd;\toffset:16;\tsize:4;\tsigned:1;\n" \
         "\tfield:long ret;\toffset:24;\tsize:8;\tsigned:1;\n"
EVENT = t.Tuple((t.UINT64, t.UINT32, t.UINT32, t.UINT32, t.UINT32, t.Str(16), t.INT32, t.INT64),
                ("nsecs", "pid", "tid", "cpu", "uid", "comm", "args_fd", "args_ret"))
QUESTIONS = ["@ = count();", "@[comm] = count();", "@[comm, pid] = sum(args.ret);", "@[comm] = hist(args.ret);",
             "@last = nsecs;", "@s[tid] = nsecs; @d = hist(nsecs - @s[tid]); delete(@s, tid);",
             'if (args.ret > 100000) { printf("%s %d\\n", comm, args.fd); }', 'printf("%s %d\\n", comm, args.fd);']
RUN = ["@last[comm] = (args.fd, args.ret);",
       'if (strcontains(comm, "yth")) { @n++; }',
       "$i = 0; while ($i < args.fd % 7) { $i++; } @ = sum($i);"]  # event by event, over a tenth of the events


def printed(count: int) -> tuple[ScriptSpec, Iterator[tuple[int, bytes]]]:
    """A printf() and its records."""
    parts = [FormatPart("", "s"), FormatPart(" "), FormatPart("", "d"), FormatPart(" "), FormatPart("", "d", "", "ll"),
             FormatPart("\n")]
    fields = [EventField(t.Str(16), 16), EventField(t.INT32, 32), EventField(t.INT64, 40)]
    spec = ScriptSpec([], [], [EventSite("printf", None, fields, 48, parts)], [], [NAME], [], Config(),
                      Source("bench", ""))
    pack = struct.Struct("=IIQ16si4xq").pack
    return spec, ((0, pack(0, 0, *row)) for row in rows(count))


def rows(count: int) -> Iterator[tuple[int, bytes, int, int]]:
    rng, now = random.Random(1), 10**15
    few = [(int(rng.expovariate(1e-3)), rng.choice([b"cat", b"python3", b"postgres"]), rng.randrange(200),
            int(rng.lognormvariate(10, 1))) for _ in range(1 << 16)]
    for index in range(count):
        step, name, fd, ns = few[index * 40503 & 0xFFFF]
        now += step
        yield now, name, fd, ns


def kept(count: int) -> tuple[ScriptSpec, Iterator[tuple[int, bytes]]]:
    """The same events kept whole."""
    site = EventSite("print", None, [EventField(EVENT, 16)], 16 + EVENT.size)
    spec = ScriptSpec([], [], [site], [], [NAME], [], Config(), Source("bench", ""))
    pack = struct.Struct("=IIQQIIII16si4xq").pack
    return spec, ((0, pack(0, 0, now, now, 100 + fd % 7, 100, fd & 1, 0, name, fd, ns)) for now, name, fd, ns in
                  rows(count))


def measure(path: Path, question: str, count: int, way: type) -> None:
    """Ask a recording of so many events, and say how many a second were looked at."""
    begun = time.perf_counter()
    source = Source("stdin", f"tracepoint:syscalls:sys_exit_read {{ {question} }}")
    with AnsweringTrace(open_recording(str(path)), source, Options()) as asked:
        assert isinstance(asked.question, way)
        while not asked.session.done:
            asked.next_records()
    print(f"{question:64.64} {count / (time.perf_counter() - begun):,.0f} events a second", flush=True)


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = write_recording(Path(folder) / "printed", *printed(count))
        print(f"printf(): {path.stat().st_size / count:.1f} bytes an event")
        begun = time.perf_counter()
        with open_replay(str(path)) as trace, open(os.devnull, "wb") as null:
            out = make_output("text", null.fileno(), 2)
            printer = Printer(trace.spec, trace.context, out, trace.take_map)
            while not trace.session.done:
                printer.print_batches(trace.next_records(), trace.act_on_site)
                out.flush()
        print(f"replayed as text: {count / (time.perf_counter() - begun):,.0f} events a second")
        path = write_recording(Path(folder) / "kept", *kept(count), events=[{"name": NAME, "format": FORMAT}])
        print(f"kept whole: {path.stat().st_size / count:.1f} bytes an event")
        for question in QUESTIONS:
            measure(path, question, count, Question)
        path = write_recording(Path(folder) / "fewer", *kept(count // 10), events=[{"name": NAME, "format": FORMAT}])
        for question in RUN:
            measure(path, question, count // 10, Execution)
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
