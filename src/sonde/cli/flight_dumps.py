"""Writing a dump: printed, or to a file in a folder that keeps the newest."""

from __future__ import annotations

import os
import re
from itertools import chain

from ..base.fast_stdlib import contextmanager
from ..base.trusted_files import open_guarded
from ..errors import SondeError
from ..library.flight.reading import maps_in_dumps
from ..library.traced_run import TracedRun
from ..output import Output, Printer, json_kind, make_output
from ..runtime.flight.dumps import Dump
from ..runtime.flight.rings import merge_stretches
from ..runtime.records.batch import Records
from ..spec import MapSpec
from .flight_settings import FORMATS, MOST_DUMPS, Settings
from .options import Parsed
from .requests import recording_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from ..runtime.records.values import Items


def make_printer(trace: TracedRun, parsed: Parsed, out: Output) -> Printer:
    """A printer of the script's records to ``out``."""
    columns = parsed.columns if parsed.get("format") == "json" else ()
    return Printer(trace.spec, trace.context, out, trace.take_map, trace.options.warnings, columns)


Contents: TypeAlias = "Sequence[tuple[MapSpec, Items]]"  # maps and their contents


def read_maps(trace: TracedRun) -> Contents:
    """The current contents of the maps that are part of each dump, by name."""
    return [(named, list(trace.take_map(named.name))) for named in maps_in_dumps(trace.spec)]


def print_dump(trace: TracedRun, dump: Dump, contents: Contents, out: Output, printer: Printer) -> None:
    """Print its head, the output of ``begin``, the records, of which a portion at least when the run is to end, and the
    maps."""
    out.write_dump_head(dump)
    for records in _beginning(trace):
        printer.print_batches(records, _do_nothing)
    portions = merge_stretches(dump.stretches)
    for records in portions:
        printer.print_batches(records, _do_nothing)
        out.flush()
        if trace.ending.is_overdue() and next(portions, None) is not None:
            out.write_note(f"WARNING: dump {dump.number} is not whole: the run was to end")
            break
    for named, items in contents:
        out.write_map(named.name, items, kind=json_kind(named), incomplete=trace.session.is_incomplete(named.name))
    out.flush(True)


def _beginning(trace: TracedRun) -> Sequence[Records]:
    """The output of ``begin``, a heading perhaps."""
    return trace.session.flight.beginning if trace.session.flight is not None else []


def _do_nothing(site: int) -> None:
    """Nothing: sites that only the session acts on send nothing to flight memory."""


class DumpFolder:
    """A folder of dumps, called NAME.0001.txt and so on. OSError and SondeError if it cannot be written to."""

    def __init__(self, settings: Settings) -> None:
        self.path = settings.folder
        self._pattern = re.compile(re.escape(settings.name) + r"\.(\d{4,9})\." + FORMATS[settings.form])
        self._name, self._ending = settings.name, FORMATS[settings.form]
        try:
            os.makedirs(self.path, 0o700, exist_ok=True)
            self._folder = open_guarded(f"{self.path}/.", os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise SondeError(f"--flight-to {self.path}: {error.strerror}") from None

    def next_number(self) -> int:
        """One more than that of the last dump, including those of earlier runs."""
        return max(self._numbers(), default=0) + 1

    def _numbers(self) -> list[int]:
        return sorted([int(match[1]) for name in os.listdir(self._folder) if (match := self._pattern.fullmatch(name))])

    def _file_name(self, number: int) -> str:
        return f"{self._name}.{number:04d}.{self._ending}"

    @contextmanager
    def write_file(self, number: int) -> Iterator[int]:
        """A descriptor to write a dump to; it gets its name when it is complete, and then the oldest is removed."""
        part = f".{self._file_name(number)}.part"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
                             dir_fd=self._folder)
        try:
            yield descriptor
            os.rename(part, self._file_name(number), src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            os.unlink(part, dir_fd=self._folder)
            raise
        finally:
            os.close(descriptor)
        for old in self._numbers()[:-MOST_DUMPS]:
            os.unlink(self._file_name(old), dir_fd=self._folder)

    def path_of(self, number: int) -> str:
        """The path of a dump."""
        return os.path.join(self.path, self._file_name(number))

    def close(self) -> None:
        """Close the folder."""
        os.close(self._folder)


def record_dump(trace: TracedRun, parsed: Parsed, dump: Dump, descriptor: int) -> None:
    """A recording of a dump, as of a run that delivered just that."""
    from ..recording.recorder import Notes
    notes = Notes(descriptor, trace.spec, trace.session, trace.context)
    facts = recording_facts(parsed) | {"title": parsed.get("title") or dump.lines[0], "dump": dump.as_json()}
    notes.write_head(trace.options.warnings, facts)
    for records in chain(_beginning(trace), merge_stretches(dump.stretches)):
        for batch in notes.note_records(records).batches:
            for _ in batch:
                pass  # it is noted when it is taken
    notes.look_at_maps("final", [named.name for named in trace.spec.maps if named.name.startswith("@")])
    notes.write_end(trace.provenance)


def write_dump(trace: TracedRun, parsed: Parsed, dump: Dump, contents: Contents, folder: DumpFolder) -> str:
    """Write a dump to a file in the folder; its path."""
    with folder.write_file(dump.number) as descriptor:
        if parsed.get("format") == "recording":
            record_dump(trace, parsed, dump, descriptor)
        else:
            out = make_output(parsed.get("format", "text"), descriptor, 2, "full", True, trace.ending)
            print_dump(trace, dump, contents, out, make_printer(trace, parsed, out))
            out.close()
    return folder.path_of(dump.number)
