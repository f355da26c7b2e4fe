"""Things that can be turned into a table."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ..runtime.provenance import Provenance
    from .data_frames import TableColumn


class Tabular:
    """What can be turned into a table; needs the extra ``tables``."""

    def _columns(self) -> list[TableColumn]:
        raise NotImplementedError

    def _provenance(self) -> Provenance:
        raise NotImplementedError

    def to_arrow(self) -> pyarrow.Table:
        """All of it as a pyarrow.Table, with the run in its metadata. A RuntimeWarning says if something was lost."""
        from .data_frames import arrow_table
        return arrow_table(self._columns(), self._provenance())

    def to_reader(self) -> pyarrow.RecordBatchReader:
        """The same as a stream of record batches, which DuckDB, Polars and others read without a copy."""
        return self.to_arrow().to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface: libraries take this object as it is."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas.DataFrame, with the run in its ``attrs``."""
        from .data_frames import to_pandas
        return to_pandas(self._columns(), self._provenance())

    def to_polars(self) -> polars.DataFrame:
        """The same as a polars.DataFrame."""
        from .data_frames import to_polars
        return to_polars(self._columns())
