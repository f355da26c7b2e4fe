"""Many records of one printf() as an Arrow table, by columns: no record becomes an object of Python."""

from __future__ import annotations

from array import array
from typing import Any

from .. import types as t
from ..output.blocks import Rows, has_plain_fields
from ..runtime.records.batch import Batch
from ..runtime.records.decoders import make_text_cutter
from ..runtime.records.values import DecodingContext
from ..spec import ScriptSpec
from .data_frames import row_sites

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pyarrow


def takes_blocks(spec: ScriptSpec, index: int) -> bool:
    """Whether the events table has the records of this site alone, and they have numbers and short texts."""
    site = spec.sites[index]
    return row_sites(spec) == [index] and site.kind == "printf" and not site.table and has_plain_fields(site)


def table_of_block(pa: Any, schema: pyarrow.Schema, spec: ScriptSpec, index: int, context: DecodingContext,
                   batch: Batch) -> pyarrow.Table:
    """The rows of a batch of the site's records: time, probe, then the fields."""
    site = spec.sites[index]
    rows = Rows(batch.buffer, batch.offsets, site.size)
    offset = context.wall_clock(0, "boot")
    times = array("q", [time + offset for time in batch.times]).tobytes()
    columns = [_fixed(pa, schema[0].type, times), _probes(pa, spec, rows)]
    for column, field in zip(schema.types[2:], site.fields):
        data = rows.field_bytes(field.offset, field.type.size)
        columns.append(_texts(pa, data, field.type, context) if isinstance(field.type, t.Str)
                       else _fixed(pa, column, data))
    return pa.table(columns, schema=schema)


def _fixed(pa: Any, type: Any, data: bytes) -> Any:
    """An array of values of a fixed size from their bytes."""
    return pa.Array.from_buffers(type, len(data) * 8 // type.bit_width, [None, pa.py_buffer(data)])


def _probes(pa: Any, spec: ScriptSpec, rows: Rows) -> Any:
    numbers = _fixed(pa, pa.int32(), rows.probe_numbers())
    return pa.DictionaryArray.from_arrays(numbers, pa.array(spec.probes, pa.string()))


def _texts(pa: Any, data: bytes, type: t.Str, context: DecodingContext) -> Any:
    """Texts: each different one is cut and decoded once."""
    encoded = _fixed(pa, pa.binary(type.size), data).dictionary_encode()
    cut = make_text_cutter(type.capacity, context)
    different = [cut(text).decode("utf-8", "replace") for text in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(different, pa.string())).dictionary_decode()
