"""Many records as an Arrow table: the same rows as those of the events one by one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from decoding import Names
from sonde import types as t
from sonde.exporters.parquet import ParquetExporter
from sonde.runtime.provenance import Provenance
from sonde.runtime.records.batch import Batch
from sonde.runtime.records.events import EventDecoder
from sonde.spec import Config, EventField, EventSite, FormatPart, ScriptSpec

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

FIELDS = [EventField(t.INT64, 16), EventField(t.Str(16), 24), EventField(t.INT16, 40), EventField(t.UINT32, 44)]


def test_rows_of_blocks_are_those_of_events(tmp_path: Path) -> None:
    import pyarrow.parquet
    site = EventSite("printf", None, FIELDS, 48, [FormatPart("", code) for code in "dsdu"])
    spec = ScriptSpec([], [], [site], [], ["tracepoint:a:b", "tracepoint:a:c"], [], Config())
    times = [10**9 + 7 * number for number in range(40)]
    data = b"".join([struct.pack("=IIQq16shxxI", 0, number & 1, time, -number, b"name\xff" * (number % 3), -1, 1 << 31)
                     for number, time in enumerate(times)])
    batches = [Batch(0, data, times, 0, range(0, len(data), 48)), Batch(0, data, times, 0, [48, 0, 96])]
    batches[1].times = [times[1], times[0], times[2]]
    decode, tables = EventDecoder(spec, Names()).decode, []
    for many in (True, False):
        path = tmp_path / f"{many}.parquet"
        exporter = ParquetExporter(str(path), spec, lambda time: Names().wall_clock(time, "boot"),
                                   lambda: Provenance("a command", "host", "6.18", 0, 1.0, []))
        rows = exporter.compile_rows(0, Names())
        assert rows is not None
        for batch in batches:
            if many:
                rows(batch)
            for _, buffer, offset in [*batch][:1 if many else None]:  # one between the blocks
                exporter.export_event(decode(buffer, offset), site)
            if not many:
                exporter.export_event(decode(batch.buffer, batch.offsets[0]), site)
        exporter.finish()
        tables.append(pyarrow.parquet.read_table(path).replace_schema_metadata())
    assert tables[0].schema == tables[1].schema and tables[0].num_rows == 45
    assert tables[0].to_pylist() == tables[1].to_pylist()
