"""``--parquet FILE``: events and maps as Parquet files, with the types from tables.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO

from ..base.trusted_files import open_guarded
from ..errors import UsageError
from ..library.data_frames import (
    TIME,
    TableColumn,
    arrow_table,
    event_table,
    import_extra,
    map_columns,
    metadata,
    row_sites,
)
from ..runtime.provenance import Provenance
from ..runtime.records.events import Event
from ..spec import EventSite, MapSpec, ScriptSpec
from . import Exporter as Base

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pyarrow

    from ..runtime.records.batch import Batch
    from ..runtime.records.values import DecodingContext, Items

ROWS = 20_000  # events that are buffered until they are written as one row group
BLOCK_ROWS = 1 << 17  # the same of events that come many at a time


class ParquetExporter(Base):
    """One file for each table: FILE itself if there is only one, else FILE.events.parquet and FILE.MAP.parquet.

    A map has a row group for each time it was printed, and for its contents at the end; ``time`` says when. The files'
    metadata says what was lost (``sonde.losses``) and identifies the run (``sonde.run``, JSON). They can be read after
    the run.
    """

    takes_events = True

    def __init__(self, path: str, spec: ScriptSpec, wall: Callable[[int], int], run: Callable[[], Provenance],
                 about: Sequence[str] = ("probe",)) -> None:
        self._pa, self._parquet = import_extra("pyarrow", "export"), import_extra("pyarrow.parquet", "export")
        self._writers: dict[str, Any] = {}
        self._spec, self._wall, self._run, self._about = spec, wall, run, about
        self._maps = [m.name for m in spec.shown_maps]
        names = (["events"] if row_sites(spec) else []) + self._maps
        if not names:
            raise UsageError("--parquet: the script has neither maps nor printf() or print()")
        self.paths = {name: path if len(names) == 1 else table_path(path, name) for name in names}
        self._files: dict[str, BinaryIO] = {}
        for name, each in self.paths.items():  # now, not after an hour of tracing
            try:
                self._files[name] = open(open_guarded(each, os.O_WRONLY | os.O_CREAT), "wb")  # noqa: SIM115
            except OSError as error:
                self._close_files()
                raise UsageError(f"failed to open output file '{each}': {error.strerror}") from None
        self._events: list[Event] = []
        self._blocks: list[Any] = []  # tables of events that came before those
        self.rows = dict.fromkeys(names, 0)

    def start_message(self) -> str:
        return f"Writing {', '.join(self.paths.values())}"

    def export_map(self, named: MapSpec, items: Items, time: int) -> None:
        if named.name not in self.paths:
            return
        columns = map_columns(named, items)
        moments = TableColumn("time", TIME, [time] * len(columns[0].cells))
        self._write_table(named.name, arrow_table([moments, *columns]))

    def export_event(self, event: Event, site: EventSite) -> None:
        self._events.append(event)
        if len(self._events) >= ROWS:
            self._write_events()

    def compile_rows(self, index: int, context: DecodingContext) -> Callable[[Batch], object] | None:
        """Of a script with one printf() of numbers and short texts."""
        from ..library.event_blocks import table_of_block, takes_blocks
        if not takes_blocks(self._spec, index) or self._about != ("probe",):
            return None
        schema = arrow_table(event_table(self._spec, [], self._wall)).schema

        def add_block(batch: Batch) -> None:
            if self._events:
                self._end_events()
            self._blocks.append(table_of_block(self._pa, schema, self._spec, index, context, batch))
            if sum([table.num_rows for table in self._blocks]) >= BLOCK_ROWS:
                self._write_events()
        return add_block

    def _end_events(self) -> None:
        """Make a table of the events that came one by one."""
        self._blocks.append(arrow_table(event_table(self._spec, self._events, self._wall, self._about)))
        self._events = []

    def _write_events(self) -> None:
        if "events" in self.paths:
            if self._events or not self._blocks:
                self._end_events()
            self._write_table("events", self._pa.concat_tables(self._blocks))
        self._events, self._blocks = [], []

    def _write_table(self, name: str, table: pyarrow.Table) -> None:
        self.failed = True  # unless this goes well: after a full disk a writer takes nothing more
        if name not in self._writers:
            self._files[name].truncate(0)
            self._writers[name] = self._parquet.ParquetWriter(self._files[name], table.schema)
        self._writers[name].write_table(table)
        self.rows[name] += table.num_rows
        self.failed = False

    def finish(self) -> None:
        """Close the files, which cannot be read before that."""
        try:
            if not self.failed:
                self._finish_tables()
        finally:
            self._close_files()

    def _finish_tables(self) -> None:
        self._write_events()
        about = metadata(self._run())
        for writer in self._writers.values():
            writer.add_key_value_metadata(about)
            writer.close()

    def _close_files(self) -> None:
        """All of them, whatever their disk says."""
        for writer in self._writers.values():
            writer.is_open = False  # or it would write once more when it is deleted
        with ExitStack() as closing:
            for file in self._files.values():
                closing.enter_context(file)

    def end_messages(self) -> list[str]:
        """The messages at the end."""
        return [] if self.failed else [f"Wrote {path}: {self.rows[name]} row{'' if self.rows[name] == 1 else 's'}"
                for name, path in self.paths.items()]


def table_path(path: str, name: str) -> str:
    """The path for one of several tables."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}.{name.removeprefix('@') or 'map'}{suffix or '.parquet'}"
