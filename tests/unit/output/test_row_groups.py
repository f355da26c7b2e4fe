"""Rows that agree in the columns of ``group_rows`` are printed together, bounded in time and in room."""

from __future__ import annotations

from typing import Any

import pytest

from compiled import compiled
from decoding import Names
from sonde.errors import CompileError
from sonde.layouts.event_records import read_header
from sonde.output.row_groups import QUIET, RowGroups
from sonde.spec import ScriptSpec

SCRIPT = ('config = { group_rows = "ID WAY" }\n'
          'table t { ID: "%llx"; WAY: "%d"; STEP: "%d"; } table other { X: "%d"; }\n'
          'rawtracepoint:net_dev_queue { t((uint64)1, (int32)2, (int32)3); other((int32)4); printf("plain %d\\n", 5); }'
          'end { printf("end\\n"); }')


class Rows:
    """Feeds records to groups; ``printed`` is what comes out of them: numbers of steps, and "" between two groups."""

    def __init__(self, room: int = 1 << 20) -> None:
        self.spec: ScriptSpec = compiled(SCRIPT)
        self.printed: list[Any] = []
        handlers: list[Any] = [self._print_step if site.table == "t" else self._print_kind(site.kind, site.table)
                               for site in self.spec.sites]
        self.groups = RowGroups(self.spec, Names(), handlers, lambda: self.printed.append(""), room)
        self.row = next(i for i, site in enumerate(self.spec.sites) if site.table == "t")
        self.times: list[int] = []

    def _print_step(self, buffer: bytes, offset: int) -> None:
        self.printed.append(int.from_bytes(self._field(buffer, offset, 2), "little"))
        self.times.append(read_header(buffer, offset)[2])

    def _print_kind(self, kind: str, table: str) -> Any:
        return lambda buffer, offset: self.printed.append(table or kind)

    def _field(self, buffer: bytes, offset: int, number: int) -> bytes:
        field = self.spec.sites[self.row].fields[number]
        return buffer[offset + field.offset:offset + field.offset + field.type.size]

    def add(self, time: int, id: int, way: int, step: int) -> None:
        site = self.spec.sites[self.row]
        record = bytearray(site.size)
        record[:16] = self.row.to_bytes(4, "little") + bytes(4) + time.to_bytes(8, "little")
        for field, value in zip(site.fields, (id, way, step)):
            record[field.offset:field.offset + field.type.size] = value.to_bytes(field.type.size, "little")
        self._hand(b"junk" + bytes(record), 4)

    def other(self, at: int, probe: str) -> None:
        record = at.to_bytes(4, "little") + self._probe(probe).to_bytes(4, "little") + bytes(64)
        self._hand(record, 0)

    def _probe(self, name: str) -> int:
        return next(at for at, each in enumerate(self.spec.probes) if each.endswith(name))

    def _hand(self, buffer: bytes, offset: int) -> None:
        handler = self.groups.handlers[int.from_bytes(buffer[offset:offset + 4], "little")]
        assert handler is not None
        handler(buffer, offset)


def test_rows_of_a_group_come_together() -> None:
    """A group ends when it has been quiet; one that has the same memory later is another one."""
    rows = Rows()
    for at, (id, way, step) in enumerate([(1, 1, 10), (2, 1, 20), (1, 1, 11), (1, 9, 90), (2, 1, 21)]):
        rows.add(1000 + at, id, way, step)
    assert not rows.printed
    rows.add(1000 + QUIET + 3, 3, 1, 30)  # the latest row of the first group is more than QUIET old, no other
    assert rows.printed == [10, 11]
    rows.groups.print_all()
    assert rows.printed == [10, 11, "", 90, "", 20, 21, "", 30] and rows.groups.parts == 0
    assert rows.times == [1000, 1002, 1003, 1001, 1004, 1000 + QUIET + 3]


def test_what_comes_later_is_a_part_of_its_own() -> None:
    rows = Rows()
    rows.add(1, 1, 1, 10)
    rows.add(2 + QUIET, 1, 1, 11)
    assert rows.printed == [10]
    rows.groups.print_quiet(3 + 2 * QUIET)
    assert rows.printed == [10, "", 11] and rows.groups.parts == 1


def test_rows_beyond_the_room_are_printed_early() -> None:
    rows = Rows(room=4000)
    for step in range(1000):
        rows.add(step + 1, step % 500, 1, step)
    assert 950 < len([step for step in rows.printed if step != ""]) < 1000
    rows.groups.print_all()
    assert [step for step in rows.printed if step != ""] == list(range(1000)) and rows.groups.parts == 500


def test_a_record_without_a_time_has_that_of_the_one_before() -> None:
    rows = Rows()
    rows.add(70, 1, 1, 10)
    rows.add(0, 1, 1, 11)
    rows.groups.print_all()
    assert rows.times == [70, 70]


def test_other_records_come_at_once_and_those_of_end_last() -> None:
    rows = Rows()
    sites = {site.table or site.parts[0].literal.split()[0]: at for at, site in enumerate(rows.spec.sites)}
    rows.add(1, 1, 1, 10)
    rows.other(sites["other"], "net_dev_queue")
    rows.other(sites["plain"], "net_dev_queue")
    rows.other(sites["end"], "end")
    assert rows.printed == ["other", "printf", 10, "printf"]


def test_columns_that_no_table_has() -> None:
    with pytest.raises(CompileError, match="no table has the columns ID WAX"):
        compiled(SCRIPT.replace("ID WAY", "ID WAX"))
