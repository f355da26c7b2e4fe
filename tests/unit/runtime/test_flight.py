"""The flight recorder without a kernel: reading its memory, whatever is in it, and what asks for dumps."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde import compiling
from sonde.cli.flight_dumps import DumpFolder
from sonde.cli.flight_settings import MOST_DUMPS, Settings
from sonde.errors import SondeError, UsageError
from sonde.layouts.shared_maps import FLIGHT, FLIGHT_BUSY, FLIGHT_GAP, HEADS, HEADS_STRIDE, LEAST_SEGMENT
from sonde.library.flight import asking
from sonde.library.flight.condition import MapCondition
from sonde.library.flight.settings import LEAST, parse_duration, region_bytes
from sonde.runtime.flight.rings import FlightReader, Stretch, merge_stretches, split_stretch
from sonde.semantics.script_options import Options
from sonde.source import Source
from sonde.spec import Config, EventSite, MapSpec, ScriptSpec
from sonde.types import Aggregate, Int, Str
from unit.fake_world import FakeWorld

SIZES = (16, 24, 48, 1000, 16408)
SITES = [EventSite("printf", None, [], size) for size in SIZES]
SEGMENT, SEGMENTS, SLACK = LEAST_SEGMENT, 4, 16448
STRIDE = SEGMENT + SLACK


class Region:
    """A CPU's flight memory, written as compiler/lower/flight.py has programs do it."""

    def __init__(self, segments: int = SEGMENTS) -> None:
        self.memory = bytearray(segments * STRIDE)
        self.segments = segments
        self.head = 0
        self.records: list[tuple[int, int, bytes]] = []  # (number of its first byte, site, contents)

    def place(self, at: int) -> int:
        return at // SEGMENT % self.segments * STRIDE + at % SEGMENT

    def put(self, site: int, time: int, flag: int = 0) -> None:
        length, at = SIZES[site] + 8, self.head
        self.head += length
        if at % SEGMENT > SEGMENT - length:
            behind = self.head % SEGMENT
            struct.pack_into("=II", self.memory, self.place(self.head - behind), behind | FLIGHT_GAP,
                             self.head - behind >> 3 & 0xFFFFFFFF)
        body = struct.pack("=IIQ", site, 0, time) + random.randbytes(SIZES[site] - 16)
        where = self.place(at)
        self.memory[where:where + length] = struct.pack("=II", length | flag, at >> 3 & 0xFFFFFFFF) + body
        if not flag:
            self.records.append((at, site, body))

    def split(self, end: int | None = None) -> Stretch:
        """What the reader makes of it, as far as the segments go."""
        end = self.head if end is None else end
        last = (end - 1) // SEGMENT
        first = max(0, last - self.segments + 1)
        return split_stretch(0, first, end, SEGMENT, [self.segment(n) for n in range(first, last + 1)], SITES)

    def segment(self, number: int) -> bytes:
        at = number % self.segments * STRIDE
        return bytes(self.memory[at:at + STRIDE])


def found(stretch: Stretch) -> list[tuple[int, int, bytes]]:
    return [(batch.base + offset - 8, site, bytes(buffer[offset:offset + SIZES[site]]))
            for batch in stretch.batches for site, buffer, offset in batch]


def filled(seed: int, records: int, sites: tuple[int, ...] = (0, 1, 2, 3, 4), begin: int = 0) -> Region:
    made, rand = Region(), random.Random(seed)
    made.head = begin
    for number in range(records):
        made.put(rand.choice(sites), number + 1)
    return made


def newest(region: Region) -> list[tuple[int, int, bytes]]:
    """All records that begin in the segments that have not been written over."""
    first = max(0, (region.head - 1) // SEGMENT - region.segments + 1) * SEGMENT
    return [record for record in region.records if record[0] >= first]


@given(st.integers(), st.integers(1, 4000), st.sets(st.integers(0, 4), min_size=1))
@settings(max_examples=60)
def test_what_was_written_last_is_read_in_order(seed: int, records: int, sites: set[int]) -> None:
    region = filled(seed, records, tuple(sites))
    stretch = region.split()
    assert found(stretch) == newest(region)
    assert stretch.end == region.head and not stretch.holes


def test_numbers_go_on_beyond_what_a_stamp_holds() -> None:
    region = filled(1, 20_000, (1, 2), begin=(1 << 35) - 3 * SEGMENT)
    assert region.head > 1 << 35
    assert found(region.split()) == newest(region)


def test_gaps_are_passed_over() -> None:
    region = Region()
    for number in range(5000):
        region.put(1, number + 1, FLIGHT_GAP if number % 3 == 0 else 0)
    assert found(region.split()) == newest(region) and len(newest(region)) > 1000


def test_a_record_that_is_not_complete_breaks_off_what_is_older() -> None:
    region = filled(3, 2000, (1, 2))
    region.put(1, 1, FLIGHT_BUSY)
    last = region.head
    while region.head // SEGMENT == last // SEGMENT:
        region.put(2, 5000)
    region.put(0, 5001)
    stretch = region.split()
    behind = (last // SEGMENT + 1) * SEGMENT
    assert stretch.holes == 1 and stretch.begin == behind
    assert found(stretch) == [record for record in region.records if record[0] >= behind]


def as_word(number: int) -> bytes:
    return number.to_bytes(4, "little")


@given(st.integers(), st.data())
@settings(max_examples=150)
def test_torn_memory_gives_no_wrong_record(seed: int, data: st.DataObject) -> None:
    """Prefixes and sites are overwritten anywhere: what comes out are records that were written, in a row up to the
    end, unless there are none."""
    region = filled(seed, data.draw(st.integers(1, 2500)), (0, 1, 2, 3))
    before, places = bytes(region.memory), []
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.sampled_from(newest(region)))[0]
        places.append(at)
        where = region.place(at) + data.draw(st.sampled_from((0, 4, 8)))
        region.memory[where:where + 4] = data.draw(st.one_of(
            st.binary(min_size=4, max_size=4), st.integers(0, 5).map(as_word),
            st.integers(0, 1 << 17).map(lambda n: as_word(n * 8))))
    broken = [at for at in places for where in [region.place(at)]
              if region.memory[where:where + 12] != before[where:where + 12]]
    stretch, written = region.split(), {at: (site, body) for at, site, body in region.records}
    got = found(stretch)
    assert all(written.get(at) == (site, body) for at, site, body in got)
    assert got == [record for record in newest(region) if record[0] >= stretch.begin][:len(got)]
    assert bool(stretch.holes) == bool(broken)
    assert not broken or stretch.begin > max(broken)


@given(st.integers(0, 6), st.binary(max_size=400), st.integers(0, 1 << 20), st.integers())
@settings(max_examples=200)
def test_hostile_memory_is_no_more_than_records(segments: int, piece: bytes, end: int, seed: int) -> None:
    """Whatever lies there: no error, and only whole records of the script's sites, none behind the end."""
    rand = random.Random(seed)
    copies = []
    for number in range(segments):
        copy = bytearray((piece + b"\0") * (STRIDE // (len(piece) + 1) + 1))[:STRIDE]
        if rand.random() < 0.7:  # begin as a segment does
            struct.pack_into("=IIII", copy, 0, SIZES[0] + 8, number * SEGMENT >> 3, 0, 0)
        copies.append(bytes(copy))
    stretch = split_stretch(0, 0, min(end, segments * SEGMENT), SEGMENT, copies, SITES)
    place = stretch.begin
    for at, site, body in found(stretch):
        assert at >= place and site < len(SITES) and len(body) == SIZES[site]
        place = at + SIZES[site] + 8
    assert place <= max(stretch.end, stretch.begin)


class Memory:
    def __init__(self, spec: MapSpec, memory: Any) -> None:
        self.spec, self.memory = spec, memory


def reader(region: Region, head: int, writers: int = 0, settled: int = 0) -> FlightReader:
    heads = bytearray(HEADS_STRIDE)
    struct.pack_into("=QQQ", heads, 0, writers, head, settled)
    maps: Any = {FLIGHT: Memory(MapSpec(FLIGHT, "array", 4, STRIDE, SEGMENTS, cpus=1, stride=SEGMENT), region.memory),
                 HEADS: Memory(MapSpec(HEADS, "array", 4, HEADS_STRIDE, 1), heads)}
    return FlightReader(ScriptSpec([], [], SITES, [], [], [], Config()), maps)


def test_the_reader_begins_where_all_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    region = filled(7, 3000)
    made = reader(region, region.head)
    assert found(made.read_stretches()[0]) == newest(region)
    made.close()
    monkeypatch.setattr("sonde.runtime.flight.rings.REST", 0.0)
    settled = region.records[-5][0]
    made = reader(region, region.head, 1, settled)  # a writer that was stopped in the middle
    stretch = made.read_stretches()[0]
    assert stretch.end == settled and found(stretch)[-1] == region.records[-6]
    made.close()


def test_what_writers_come_round_to_while_it_is_copied_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    region = filled(8, 9000, (1, 2))
    made = reader(region, region.head)
    copies: list[int] = []
    copy = made._copy_segment

    def copy_and_write_on(cpu: int, number: int) -> bytes:
        found = copy(cpu, number)
        copies.append(number)
        if len(copies) == 2:  # the writer enters the segment that has just been copied
            made._heads[1] = (number + SEGMENTS) * SEGMENT + 8
        return found
    monkeypatch.setattr(made, "_copy_segment", copy_and_write_on)
    stretch = made.read_stretches()[0]
    assert stretch.begin == (copies[1] + 1) * SEGMENT
    got = found(stretch)
    assert got == [record for record in region.records if record[0] >= got[0][0]] and not stretch.holes
    made.close()


@given(st.integers(), st.integers(1, 4), st.integers(1, 1500))
@settings(max_examples=40)
def test_cpus_are_merged_by_time(seed: int, cpus: int, records: int) -> None:
    """Also where a record was begun before others and took its time after them."""
    rand = random.Random(seed)
    stretches, times = [], []
    for _ in range(cpus):
        region, now = Region(), rand.randrange(1000)
        for _ in range(records):
            now += rand.randrange(50)
            time = now + (rand.randrange(5000) if rand.random() < 0.05 else 0) + 1
            region.put(rand.choice((0, 3)), time)
        stretches.append(region.split().since(0))
        times += [int.from_bytes(body[8:16], "little") for _, _, body in found(region.split())]
    merged = [time for portion in merge_stretches(stretches) for batch in portion.batches for time in batch.times]
    assert merged == sorted(times)


def test_what_is_older_than_the_window_is_left_out() -> None:
    region = filled(5, 3000, (1,))
    kept = region.split().since(2000)
    assert kept.count == 1001 and kept.moments == (2000, 3000)
    assert not region.split().since(4000).batches and region.split().since(4000).moments == (0, 0)


# --- the compiler -----------------------------------------------------------------------------------------


def compiled(text: str, **more: Any) -> ScriptSpec:
    options = Options(flight=1 << 20, timed=True, **more)
    return compiling.compile(Source("stdin", text), options, FakeWorld(), verify=True)


def test_records_go_to_flight_memory_and_orders_to_their_ring() -> None:
    spec = compiled('begin { printf("%d\\n", pid); @x[pid] = 1; clear(@x); join((uint64)1); exit(); }')
    maps = {named.name: named for named in spec.maps}
    assert {FLIGHT, HEADS, "__control"} <= maps.keys() and "__data" not in maps
    assert maps[FLIGHT].value_size >= SEGMENT + max(site.size for site in spec.sites) + 8
    assert maps[FLIGHT].max_entries == maps[FLIGHT].cpus * (1 << 20) // SEGMENT
    plain = compiling.compile(Source("stdin", 'begin { printf("%d\\n", pid); }'), Options(), FakeWorld())
    assert not {FLIGHT, HEADS} & {named.name for named in plain.maps}


def test_a_dump_is_asked_for_once() -> None:
    spec = compiled('begin { dump("why"); dump(); }')
    assert [site.data["why"] for site in spec.sites if site.kind == "dump"] == ["why", ""]
    assert {"dump_requested", "dumps_held"} <= set(spec.globals)
    without = compiling.compile(Source("stdin", 'begin { dump("why"); }'), Options(), FakeWorld())
    assert not without.sites and any(found.code == "no-flight" for found in without.warnings)


def test_a_record_that_is_too_large() -> None:
    with pytest.raises(UsageError, match="too large"):
        compiled("config = { max_strlen = 20000 } begin { printf(\"%s %s\\n\", str((uint8 *)1), str((uint8 *)2)); }")


# --- what asks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "ns"), [("30s", 30 * 10**9), ("1.5s", 15 * 10**8), ("500ms", 5 * 10**8),
                                          ("5m", 300 * 10**9), ("1h", 3600 * 10**9)])
def test_durations(text: str, ns: int) -> None:
    assert parse_duration(text, "--flight") == ns


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "1e3s", "25h", "0s", "3 s", "½s", "1..5s", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text, "--flight")


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.library.flight.settings.possible_cpus", lambda: 3)
    assert region_bytes("64M") == 16 << 20 and region_bytes("1G") == 256 << 20 and region_bytes("") == 16 << 20
    assert region_bytes(str(3 * LEAST)) == LEAST
    monkeypatch.setattr("sonde.library.flight.settings.possible_cpus", lambda: 256)
    assert region_bytes("") == 4 * LEAST
    for wrong in ("63M", "x", "M", "-1M", "1.5M", "65G", "²M"):
        with pytest.raises(UsageError):
            region_bytes(wrong)


MAPS = [MapSpec("@n", "array", 4, 8, 1, value=Aggregate("count")),
        MapSpec("@by", "hash", 8, 8, 9, key=Int(64), value=Int(64)),
        MapSpec("@s", "hash", 8, 8, 9, key=Int(64), value=Str(16)),
        MapSpec("@h", "array", 4, 8, 1, value=Aggregate("hist"))]
SCRIPT = ScriptSpec([], MAPS, [], [], [], [], Config())


class Clock:
    """time.monotonic, set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("sonde.library.flight.condition.time.monotonic", lambda: self.now)

    def ask(self, condition: MapCondition, after: float, *items: tuple[Any, int]) -> bool:
        self.now += after
        return condition.begins(lambda name: list(items))


def test_a_value_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(monkeypatch), MapCondition("@n>10", SCRIPT)
    assert not clock.ask(asked, 1, (None, 10))
    assert clock.ask(asked, 1, (None, 11))
    assert not clock.ask(asked, 1, (None, 12)), "it has held since"
    assert not clock.ask(asked, 1, (None, 3))
    assert clock.ask(asked, 1, (None, 30))


def test_growth_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(monkeypatch), MapCondition("@n > 10 within 1s", SCRIPT)
    assert not clock.ask(asked, 0.2, (None, 500)), "what there was before does not count"
    for number in range(40):
        assert not clock.ask(asked, 0.125, (None, 500 + number)), "8 a second"
    assert not clock.ask(asked, 0.125, (None, 541))
    assert clock.ask(asked, 0.125, (None, 555))


def test_one_key_or_any(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    one, any_ = MapCondition("@by[7] >= 2", SCRIPT), MapCondition("@by >= 2", SCRIPT)
    assert not clock.ask(one, 1, (3, 5), (7, 1)) and clock.ask(any_, 1, (3, 5), (7, 1))
    assert clock.ask(one, 1, (3, 5), (7, 2))


def test_fewer_than_within_needs_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(monkeypatch), MapCondition("@n < 1 within 1s", SCRIPT)
    assert not any(clock.ask(asked, 0.15, (None, 5)) for _ in range(5))
    assert any(clock.ask(asked, 0.15, (None, 5)) for _ in range(5))


def test_looking_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that takes 0.3 s is not followed by another within 30 s."""
    clock, asked = Clock(monkeypatch), MapCondition("@n > 1", SCRIPT)

    def slow(name: str) -> list[tuple[Any, int]]:
        clock.now += 0.3
        return [(None, 5)]
    assert asked.begins(slow) and asked.wait > 29
    assert not clock.ask(asked, 20, (None, 0)) and asked.wait > 9


@pytest.mark.parametrize("text", [
    "", "@n", "@n > x", "n > 1", "@none > 1", "@s > 1", "@h > 1", "@n[1] > 1", "@by[x] > 1", "@by[] > 1",
    "@n > 1 within", "@n > 1 within 1", "@n => 1", "@n > 1; @n > 2"])
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(UsageError):
        MapCondition(text, SCRIPT)


def folder_at(path: Path, name: str = "opens") -> DumpFolder:
    return DumpFolder(Settings(10**9, 1 << 20, str(path), "text", name))


def test_the_newest_stay(tmp_path: Path) -> None:
    (tmp_path / "opens.0001.txt.bak").write_text("not ours")
    (tmp_path / "other.0001.txt").write_text("nor this")
    folder = folder_at(tmp_path / "." / "")
    for _ in range(MOST_DUMPS + 3):
        number = folder.next_number()
        with folder.write_file(number) as descriptor:
            os.write(descriptor, b"%d" % number)
    folder.close()
    assert {path.name for path in tmp_path.iterdir()} == {"opens.0001.txt.bak", "other.0001.txt"} | {
        f"opens.{n:04d}.txt" for n in range(4, MOST_DUMPS + 4)}
    again = folder_at(tmp_path)
    assert again.next_number() == MOST_DUMPS + 4 and (tmp_path / "opens.0019.txt").read_text() == "19"
    again.close()


def test_a_dump_that_cannot_be_finished_leaves_nothing(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "new")
    with pytest.raises(OSError, match="full"), folder.write_file(1):
        raise OSError(28, "full")
    folder.close()
    assert not list((tmp_path / "new").iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(SondeError):
        folder_at(tmp_path / "file")


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    made = asking.Listener("opens")
    yield made
    made.close()


def test_a_flight_is_asked(listener: asking.Listener) -> None:
    flying = asking.find_flight("opens")
    assert flying.pid == os.getpid() and os.stat(flying.path).st_mode & 0o777 == 0o600
    answers: list[str] = []
    caller = threading.Thread(target=lambda: answers.append(asking.ask_for_dump(flying, "because")))
    caller.start()
    requests: list[asking.DumpRequest] = []
    while not requests:
        requests += listener.accept_requests()
    assert requests[0].why == "because"
    requests[0].answer("here it is")
    caller.join()
    assert answers == ["here it is"]
    with pytest.raises(UsageError):
        asking.find_flight("closes")


@given(st.one_of(st.binary(max_size=300), st.recursive(
    st.none() | st.integers() | st.text(max_size=5), lambda part: st.lists(part, max_size=3) | st.dictionaries(
        st.sampled_from(["why", "x"]), part, max_size=2)).map(lambda value: json.dumps(value).encode())))
@settings(max_examples=60)
def test_nonsense_is_no_request(message: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.send(message or b"x")
        asked = asking._read_request(ours)
    try:
        said = json.loads(message)
    except ValueError:
        said = None
    assert (asked is not None) == (isinstance(said, dict) and isinstance(said.get("why"), str))


def test_other_users_are_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.library.flight.asking.os.geteuid", lambda: 12345)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.send(b'{"why": "x"}')
        heard = asking._read_request(ours) is not None
    assert heard == (os.getuid() in (0, 12345))


def test_sockets_of_the_dead_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    for name in ("gone.4194303", "nodot", "plain.1"):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(tmp_path / name)) if name != "plain.1" else (tmp_path / name).write_text("")
    assert not [flying for flying in asking.list_flights() if flying.path.startswith(str(tmp_path))]
