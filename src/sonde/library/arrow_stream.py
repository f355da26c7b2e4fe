"""Events as a stream of Arrow record batches, while their script runs."""

from __future__ import annotations

from collections.abc import Iterator

from .data_frames import arrow_table, event_table, import_extra
from .event_blocks import table_of_block, takes_blocks
from .loss_warning import warn_of_losses
from .run_loop import RunLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pyarrow

    from ..runtime.records.batch import Batch, Records
    from .traced_run import TracedRun


def stream_events(trace: TracedRun, timeout: float | None) -> pyarrow.RecordBatchReader:
    """A reader that gives batches as records come, until the script ends or ``timeout`` seconds have passed. The
    values of a printf() of numbers and short texts go from the ring into the columns, and no event becomes an object
    of Python. The last step says, by a RuntimeWarning, if something was lost."""
    pa = import_extra("pyarrow", "tables")
    stream = _Stream(trace)
    return pa.RecordBatchReader.from_batches(stream.schema, stream.read(timeout))


class _Stream:
    """Tables of what comes, all of one schema."""

    def __init__(self, trace: TracedRun) -> None:
        self._trace, self._spec = trace, trace.spec
        self._session = trace.session  # UsageError if it is not attached
        self._blocks = {index for index in range(len(self._spec.sites)) if takes_blocks(self._spec, index)}
        self.schema = arrow_table(event_table(self._spec, [], self._wall)).schema

    def _wall(self, time: int) -> int:
        return self._trace.context.wall_clock(time, "boot")

    def read(self, timeout: float | None) -> Iterator[pyarrow.RecordBatch]:
        for records in RunLoop(self._trace, timeout):
            yield from self._batches(records)
        if self._session.done:
            for records in self._trace.drain_batches():
                yield from self._batches(records)
        warn_of_losses(self._trace)

    def _batches(self, records: Records) -> Iterator[pyarrow.RecordBatch]:
        for batch in records.batches:
            if len(batch):
                yield from self._table(batch).to_batches()

    def _table(self, batch: Batch) -> pyarrow.Table:
        if isinstance(batch.sites, int) and batch.sites in self._blocks:
            return table_of_block(import_extra("pyarrow", "tables"), self.schema, self._spec, batch.sites,
                                  self._trace.context, batch)
        events = self._trace.decode_records(batch)
        return arrow_table(event_table(self._spec, events, self._wall))
