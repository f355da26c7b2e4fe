"""The order in which records leave a session."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.end_request import Ending
from sonde.runtime.records.batch import Batch, Event, Records
from sonde.runtime.records.delivery import CALM, Delivery
from sonde.runtime.records.order import Sequencer
from sonde.spec import EventSite

CONTROL = 99


def event(time: int, position: int) -> Event:
    return time, position, 0, b"", position


def batch(events: list[Event]) -> Batch:
    """Events of one buffer, which lies at position 0."""
    return Batch(0, events[0][3] if events else b"", [e[0] for e in events], [e[2] for e in events],
                 [e[1] for e in events])


def offsets(records: Records) -> list[int]:
    """Positions of data records, CONTROL for the others."""
    return [offset if site == 0 else CONTROL for site, _, offset in records]


def test_records_wait_until_they_are_old() -> None:
    sequencer = Sequencer()
    sequencer.add_batch(batch([event(10, 0), event(20, 8)]), 16)
    assert sequencer.oldest_time() == 10
    assert offsets(sequencer.release_records(15)) == [0]
    assert offsets(sequencer.release_records(20)) == []
    assert offsets(sequencer.release_records(21)) == [8]
    assert not sequencer


def test_late_comers_are_put_in_their_place() -> None:
    sequencer = Sequencer()
    sequencer.add_batch(batch([event(10, 0), event(30, 8)]), 16)
    sequencer.add_batch(batch([event(20, 16)]), 24)
    assert offsets(sequencer.release_records(None)) == [0, 16, 8]


def test_equal_times_keep_the_ring_order() -> None:
    sequencer = Sequencer()
    sequencer.add_batch(batch([event(10, 0), event(5, 8), event(10, 16), event(10, 24)]), 32)
    assert offsets(sequencer.release_records(None)) == [8, 0, 16, 24]


def test_control_waits_for_the_data_before_it() -> None:
    sequencer = Sequencer()
    sequencer.add_control(16, (1, b"", 0))
    sequencer.add_batch(batch([event(10, 0), event(30, 8), event(20, 16)]), 24)
    assert offsets(sequencer.release_records(25)) == [0, 16]
    assert offsets(sequencer.release_records(31)) == [8, CONTROL]


def test_control_comes_at_once_when_nothing_is_before_it() -> None:
    sequencer = Sequencer()
    sequencer.add_batch(batch([event(10, 0)]), 8)
    sequencer.add_control(0, (1, b"", 0))
    assert offsets(sequencer.release_records(5)) == [CONTROL]
    assert offsets(sequencer.release_records(11)) == [0]


def test_control_waits_for_data_that_is_still_being_written() -> None:
    sequencer = Sequencer()
    sequencer.add_batch(batch([event(10, 0)]), 8)
    sequencer.add_control(16, (1, b"", 0))
    assert offsets(sequencer.release_records(50)) == [0]
    assert sequencer
    sequencer.add_batch(batch([event(12, 8)]), 16)
    assert offsets(sequencer.release_records(50)) == [8, CONTROL]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=60), st.data())
def test_laws(records: list[tuple[int, int]], data: st.DataObject) -> None:
    """However records come and go: all leave, sorted by time, controls after what was in the ring before them."""
    sequencer = Sequencer()
    out: list[int] = []
    controls: dict[int, int] = {}  # number -> position
    placed: list[tuple[int, list[int]]] = []
    clock = 0
    for index, (jitter, what) in enumerate(records):
        clock += 10
        position = index * 8
        if what == 0:
            controls[len(controls)] = position
            sequencer.add_control(position, (1, b"", len(controls) - 1))
        else:
            sequencer.add_batch(batch([(clock + jitter, position, 0, b"", position)]), position + 8)
        sequencer.add_batch(batch([]), position + 8)
        if data.draw(st.booleans()):
            collect(sequencer.release_records(clock - 60), out, placed)
    collect(sequencer.release_records(None), out, placed)
    data_records = [(i * 10 + 10 + jitter, i * 8) for i, (jitter, what) in enumerate(records) if what]
    assert out == [position for _, position in sorted(data_records)]
    assert [number for number, _ in placed] == sorted(controls)
    for number, before in placed:
        assert {p for _, p in data_records if p < controls[number]} <= set(before)


def collect(released: Records, out: list[int], placed: list[tuple[int, list[int]]]) -> None:
    for site, _, offset in released:
        if site:
            placed.append((offset, list(out)))
        else:
            out.append(offset)


def test_what_comes_too_late_is_counted() -> None:
    sequencer = Sequencer()
    sequencer.add_batch(batch([(10, 0, 0, b"", 0), (20, 8, 0, b"", 0)]), 16)
    assert len(sequencer.release_records(15)) == 1 and sequencer.late == 0
    sequencer.add_batch(batch([(12, 16, 0, b"", 0)]), 24)
    assert sequencer.late == 0, "20 has not left yet"
    assert len(sequencer.release_records(None)) == 2
    sequencer.add_batch(batch([(19, 24, 1, b"", 0), (25, 32, 1, b"", 0)]), 40)
    assert sequencer.late == 1
    assert [raw[0] for raw in sequencer.release_records(None)] == [1, 1]


class Standing:
    """A data ring whose first record is still being written; a control ring that is always full of records."""

    def __init__(self, number: int = 0) -> None:
        self.position, self.size, self._number = 0, 1 << 20, number

    def unread_bytes(self) -> int:
        return 64

    def read_records(self, limit: int = 0) -> Batch:
        return Batch(0, bytes(16) + (100).to_bytes(8, sys.byteorder), [0] * self._number, 0, [0] * self._number)


def test_controls_behind_a_record_that_is_being_written_are_not_collected_without_end() -> None:
    site = EventSite("clear", None, [], 0, [], {})  # type: ignore[arg-type]
    spec: Any = SimpleNamespace(sites=[site], probes=["BEGIN"])
    data: Any = Standing()
    control: Any = Standing(1000)
    delivery, seen = Delivery(spec, data, control, 1 << 20, Ending()), []
    for _ in range(100):
        delivery.read_data()
        delivery.read_controls(lambda *record: seen.append(record))
        assert not delivery.take_records()
    assert 4096 <= len(seen) < 6000
    data.position = 100  # it has been written
    delivery.read_data()
    assert len(delivery.take_records()) == len(seen)
    delivery.read_controls(lambda *record: seen.append(record))
    assert len(seen) > 6000 - 1000


class Written:
    """A data ring of ``number`` records that are complete."""

    def __init__(self, number: int) -> None:
        self.position, self.size, self._number = 0, 1 << 20, number

    def unread_bytes(self) -> int:
        return 16 * self._number

    def read_records(self, limit: int = 0) -> Batch:
        number, self._number = self._number, 0
        times = range(1 << 60, (1 << 60) + number)
        return Batch(self.position, bytes(16), times, 0, [0] * number)


@pytest.mark.parametrize("number", [2, 5000])
def test_what_came_before_a_slow_detachment_is_handed_over(number: int) -> None:
    """A portion of it: the run was asked to end long ago."""
    site = EventSite("printf", None, [], 0, [], {})  # type: ignore[arg-type]
    spec: Any = SimpleNamespace(sites=[site], probes=["BEGIN"])
    data: Any = Written(number)
    ending = Ending()
    ending.requested_at = 1e-9
    delivery = Delivery(spec, data, None, 1 << 20, ending)
    handed = sum(len(records) for records in delivery.drain_rings(lambda *record: None))
    assert handed + sum(delivery.dropped) == number
    assert handed == min(number, 256)


@pytest.mark.parametrize(("size", "number", "rests"), [(16 << 20, 100, True), (16 << 20, 0, False),
                                                       (16 << 20, 5000, False), (8 << 20, 100, False)])
def test_a_large_ring_into_which_little_comes_is_read_now_and_then(size: int, number: int, rests: bool) -> None:
    """After as long a pause the order of what was read before is certain; a ring that may fill is read at once."""
    spec: Any = SimpleNamespace(sites=[], probes=["BEGIN"])
    data: Any = Written(number)
    data.size = size
    delivery = Delivery(spec, data, None, 1 << 20, Ending())
    assert delivery.seconds_until_due() == 0
    delivery.read_data()
    assert 0 < delivery.seconds_until_due() <= CALM if rests else delivery.seconds_until_due() == 0


@given(st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2)), max_size=12), max_size=12), st.data())
def test_batches_leave_as_sorted_records_would(reads: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    """Whatever the reads, in whatever portions: what leaves is what sorting all that is held gives, each record with
    its own site, buffer and offset."""
    sequencer, held, position, last = Sequencer(), [], 0, 0
    for number, read in enumerate(reads):
        events = [(time + 5 * number, position + 8 * i, site, b"%d" % number, 8 * i)
                  for i, (time, site) in enumerate(read)]
        same = len({site for _, _, site, _, _ in events}) == 1
        sequencer.add_batch(Batch(position, b"%d" % number, [e[0] for e in events],
                                  events[0][2] if same else [e[2] for e in events], range(0, 8 * len(events), 8)),
                            position + 8 * len(events))
        position += 8 * len(events)
        held += events
        before, most = data.draw(st.integers(0, 100) | st.none()), data.draw(st.integers(0, 20))
        held.sort()
        due = [event for event in held if before is None or event[0] < before][:most]
        assert list(sequencer.release_records(before, most)) == [event[2:] for event in due]
        held = held[len(due):]
        last = max([last, *[event[0] for event in due]])
        assert sequencer.newest_time() == (held[-1][0] if held else last)
    assert list(sequencer.release_records(None)) == [event[2:] for event in held]
    assert not sequencer and sequencer.held_bytes() == 0
