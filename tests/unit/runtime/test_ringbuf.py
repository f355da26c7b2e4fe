"""The ring buffer's consumer, over a file that plays the kernel's part."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.kernel.syscalls import Fd
from sonde.runtime.records import ringbuf
from sonde.runtime.records.ringbuf import Ring, data_ring_bytes

PAGE = mmap.PAGESIZE
BUSY, DISCARD = 1 << 31, 1 << 30


class Producer:
    """Writes records as the kernel does; the second copy of the data is kept by hand."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = Fd(os.memfd_create("ring"))
        os.ftruncate(self.fd.fileno(), 2 * PAGE + 2 * size)
        self.memory = mmap.mmap(self.fd.fileno(), 2 * PAGE + 2 * size)
        self.position = 0

    def put(self, site: int, time: int, payload: bytes = b"", flags: int = 0) -> int:
        record = struct.pack("=IIQ", site, 0, time) + payload
        raw = struct.pack("=II", len(record) | flags, 0) + record + bytes(-len(record) % 8)
        for index, byte in enumerate(raw):
            at = (self.position + index) % self.size
            self.memory[2 * PAGE + at] = self.memory[2 * PAGE + self.size + at] = byte
        start, self.position = self.position, self.position + len(raw)
        struct.pack_into("=Q", self.memory, PAGE, self.position)
        return start

    def finish(self, start: int) -> None:
        for copy in (0, self.size):
            at = 2 * PAGE + copy + start % self.size
            struct.pack_into("=I", self.memory, at, struct.unpack_from("=I", self.memory, at)[0] & ~BUSY)

    def consumed(self) -> int:
        return int(struct.unpack_from("=Q", self.memory)[0])

    def close(self) -> None:
        self.memory.close()
        self.fd.close()


@pytest.fixture
def producer() -> Iterator[Producer]:
    made = Producer(PAGE)
    yield made
    made.close()


@pytest.fixture
def ring(producer: Producer) -> Iterator[Ring]:
    made = Ring(producer.fd, producer.size, PAGE)
    yield made
    made.close()


def test_an_empty_ring(ring: Ring) -> None:
    assert ring.unread_bytes() == 0 and not ring.read_records()


def test_records_come_out_whole(producer: Producer, ring: Ring) -> None:
    producer.put(1, 100, b"abc")
    second = producer.put(2, 200, b"defgh")
    batch = ring.read_records()
    events = batch.events()
    assert [(time, site) for time, _, site, _, _ in events] == [(100, 1), (200, 2)]
    assert events[1][1] == second + 8, "behind its header"
    _, _, _, buffer, offset = events[0]
    assert buffer[offset + 16:offset + 19] == b"abc"
    assert producer.consumed() == producer.position == ring.position
    assert not ring.read_records()


def test_reading_stops_at_a_record_that_is_being_written(producer: Producer, ring: Ring) -> None:
    producer.put(1, 100)
    busy = producer.put(2, 200, flags=BUSY)
    producer.put(3, 300)
    assert [site for site, _, _ in ring.read_records()] == [1]
    assert ring.position == busy and ring.unread_bytes() > 0
    assert not ring.read_records()
    producer.finish(busy)
    assert [site for site, _, _ in ring.read_records()] == [2, 3]


def test_discarded_records_are_passed_over(producer: Producer, ring: Ring) -> None:
    producer.put(1, 100, flags=DISCARD)
    assert not ring.read_records() and ring.unread_bytes() == 0
    producer.put(2, 200, b"x", flags=DISCARD)
    producer.put(3, 300)
    assert [site for site, _, _ in ring.read_records()] == [3]


def test_a_record_without_time_takes_its_predecessors(producer: Producer, ring: Ring) -> None:
    producer.put(1, 100)
    assert ring.read_records().times == [100]
    producer.put(2, 0)
    producer.put(3, 300)
    producer.put(4, 0)
    assert ring.read_records().times == [100, 300, 300]


def test_many_times_around(producer: Producer, ring: Ring) -> None:
    seen, sent = [], 0
    for round_ in range(200):
        for _ in range(round_ % 20 + 1):
            producer.put(1, 1, struct.pack("=Q", sent) + b"!" * (sent % 30))
            sent += 1
        while batch := ring.read_records():
            seen += [struct.unpack_from("=Q", buffer, offset + 16)[0] for _, buffer, offset in batch]
    assert seen == list(range(sent))
    assert producer.position > 10 * producer.size


# ---- the window

@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[Producer]:
    """A ring of eight windows."""
    monkeypatch.setattr(ringbuf, "WINDOW", 4 * PAGE)
    made = Producer(32 * PAGE)
    yield made
    made.close()


def read_all(ring: Ring) -> list[tuple[int, bytes]]:
    """The site of each record, and a payload that begins with its length."""
    records = []
    while ring.unread_bytes():
        for site, buffer, offset in ring.read_records():
            length, = struct.unpack_from("=Q", buffer, offset + 16)
            records.append((site, buffer[offset + 24:offset + 24 + length]))
    return records


def put_text(producer: Producer, site: int, text: bytes) -> None:
    producer.put(site, 1, struct.pack("=Q", len(text)) + text)


def mapped_bytes(producer: Producer) -> int:
    """Of the ring's data, by the consumer."""
    inode, total = os.fstat(producer.fd.fileno()).st_ino, 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights, offset, _, number, *_ = line.split()
            if int(number) == inode and rights[1] == "-" and int(offset, 16) >= 2 * PAGE:
                first, last = (int(part, 16) for part in span.split("-"))
                total += last - first
    return total


def test_a_window_moves_with_the_reader(large: Producer) -> None:
    """Records end in the next window, and begin at the end of the data."""
    ring = Ring(large.fd, large.size, PAGE)
    sent = 0
    while large.position < 4 * large.size:
        texts = [bytes([65 + sent % 26]) * (sent * 31 % 900 + each) for each in range(sent % 50 + 1)]
        for text in texts:
            put_text(large, 1, text)
        sent += 1
        assert read_all(ring) == [(1, text) for text in texts]
        assert mapped_bytes(large) <= 6 * PAGE, "the window, the rest of its first page and of its last record"
    assert large.consumed() == large.position
    ring.close()
    assert not mapped_bytes(large)


@pytest.mark.parametrize("pages", [3, 4, 9, 31])
def test_a_record_larger_than_the_window(large: Producer, pages: int) -> None:
    ring = Ring(large.fd, large.size, PAGE)
    for each in range(10):
        text = bytes([65 + each]) * (pages * PAGE - 100 * each)
        put_text(large, 7, text)
        put_text(large, 8, b"next")
        assert read_all(ring) == [(7, text), (8, b"next")]
    ring.close()


def test_sizes() -> None:
    assert data_ring_bytes(64, 4096, 0) == 64 * 4096
    assert data_ring_bytes(65, 4096, 0) == 128 * 4096
    assert data_ring_bytes(0, 4096, 1 << 30) == 4 << 20
    assert data_ring_bytes(0, 4096, 4 << 30) == data_ring_bytes(0, 4096, 7 << 30) == 16 << 20
    assert data_ring_bytes(0, 4096, 1 << 40) == 64 << 20
    assert data_ring_bytes(0, 4096, 100) == 4 << 20


@given(st.lists(st.tuples(st.sampled_from([0, 0, 0, DISCARD, BUSY]), st.integers(1, 3), st.integers(0, 3),
                          st.sampled_from([0, 8, 8, 8, 8, 24])), max_size=30), st.integers(8, 400))
def test_any_records_are_read_as_they_were_written(records: list[tuple[int, int, int, int]], limit: int) -> None:
    """Against a reader that looks at one record after the other, which is this test."""
    producer = Producer(PAGE)
    ring = Ring(producer.fd, producer.size, PAGE)
    try:
        wanted, busy, last = [], [], 0
        for flags, site, time, size in records:
            start = producer.put(site, time, bytes([site]) * size, flags)
            busy += [start] if flags == BUSY else []
            if flags != DISCARD:
                last = time or last
                wanted.append((site, last, bytes([site]) * size))
        read = []
        for _ in range(3 * len(records) + 1):
            batch = ring.read_records(limit)
            stop = min([*busy, producer.position])
            assert ring.position <= stop
            read += [(site, time, buffer[offset + 16:offset + 16 + len(wanted[len(read) + i][2])])
                     for i, ((site, buffer, offset), time) in enumerate(zip(batch, batch.times))]
            if ring.position == stop and busy:
                producer.finish(busy.pop(0))
        assert read == wanted and ring.unread_bytes() == 0
    finally:
        ring.close()
        producer.close()
