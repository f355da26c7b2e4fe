"""The file of a recording: what is written is read, and nothing else is believed."""

from __future__ import annotations

import json
import os
import pty
import random
import struct
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from compiled import compiled
from recordings import blocks_of, head, write_blocks, write_recording
from sonde import types as t
from sonde.recording.columns import (
    BlockOfRecords,
    RecordGatherer,
    pack_numbers,
    pack_texts,
    unpack_numbers,
    unpack_texts,
)
from sonde.recording.container import MAGIC, RecordingError
from sonde.recording.layouts import plain_spec, read_spec
from sonde.recording.replay import open_recording, open_replay, reporting_damage
from sonde.runtime.provenance import Provenance, describe_local_run
from sonde.spec import Config, EventField, EventSite, ScriptSpec
from support import environment, run_sonde, sonde_command

SCRIPT = """
tracepoint:syscalls:sys_enter_openat { printf("%s %d %s\\n", comm, pid, ksym(0)); @n[comm] = count(); @h = hist(pid); }
tracepoint:sched:sched_switch { print((args.prev_pid, args.next_comm)); @s[kstack] = sum(1); }
interval:s:1 { print(@n); clear(@n); time("%H\\n"); }
"""


def records_of(spec: ScriptSpec, count: int, seed: int = 1) -> list[tuple[int, bytes]]:
    """Records of the first two sites, with known contents."""
    rng, now, found = random.Random(seed), 10**9, []
    first, second = spec.sites[0], spec.sites[1]
    for _ in range(count):
        now += rng.randrange(5000)
        site, index = (first, 0) if rng.random() < 0.8 else (second, 1)
        record = bytearray(site.size)
        struct.pack_into("=IIQ", record, 0, index, rng.randrange(len(spec.probes)), now)
        for field in site.fields:
            fill(record, field.type, field.offset, rng)
        found.append((index, bytes(record)))
    return found


def fill(record: bytearray, type: t.Type, at: int, rng: random.Random) -> None:
    if isinstance(type, t.Tuple):
        for part, offset in zip(type.of, type.offsets):
            fill(record, part, at + offset, rng)
    elif isinstance(type, t.Str):
        text = rng.choice([b"cat", b"a-long-name-of-a", b"", "é".encode()])[:type.capacity - 1]
        record[at:at + len(text)] = text
    elif not isinstance(type, t.Symbol):
        record[at:at + type.size] = rng.randrange(1 << 8 * type.size).to_bytes(type.size, "little")


@pytest.fixture(scope="module")
def spec() -> ScriptSpec:
    return compiled(SCRIPT)


@pytest.fixture(scope="module")
def sample(spec: ScriptSpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = next(m for m in spec.maps if m.name == "@h").value
    assert isinstance(words, t.Aggregate)
    state = tuple(range(words.words))
    final = {"@h": [(b"", state)], "@n": [(b"cat".ljust(16, b"\0"), (5,))]}
    return write_recording(tmp_path_factory.mktemp("recording") / "sample.sonde", spec, records_of(spec, 500), final,
                           [("ksym", (0,), ("zero", 0))])


# --- what is written is read --------------------------------------------------------------------------------

def test_records_come_back_as_they_were(spec: ScriptSpec) -> None:
    records = records_of(spec, 5000)
    gatherer = RecordGatherer(spec)
    for site, record in records:
        gatherer.add_records(site, [record])
    data = gatherer.take_block()
    back = BlockOfRecords(spec, data).records()
    assert [(site, buffer[at:at + spec.sites[site].size]) for site, buffer, at in back] == records
    assert back.times == [struct.unpack_from("=Q", record, 8)[0] for _, record in records]
    assert len(gatherer) == 0


def test_a_usual_event_takes_less_than_24_bytes() -> None:
    """comm, a file descriptor and a duration, a microsecond apart."""
    site = EventSite("printf", None, [EventField(t.Str(16), 16), EventField(t.INT32, 32), EventField(t.INT64, 40)], 48)
    spec = ScriptSpec([], [], [site], [], ["a"], [], Config())
    rng, now, gatherer = random.Random(3), 10**15, RecordGatherer(spec)
    for _ in range(16000):
        now += int(rng.expovariate(1e-3))
        gatherer.add_records(0, [struct.pack("=IIQ16si4xq", 0, 0, now, rng.choice([b"cat", b"python3", b"postgres"]),
                                             rng.randrange(200), int(rng.lognormvariate(10, 1)))])
    assert len(zlib.compress(gatherer.take_block(), 4)) / 16000 < 12


def test_what_lies_between_fields_is_not_kept() -> None:
    """The ring has there what was in it before: perhaps a string of another process."""
    site = EventSite("printf", None, [EventField(t.Str(16), 16), EventField(t.Buf(8), 32)], 48)
    spec = ScriptSpec([], [], [site], [], ["a"], [], Config())
    gatherer = RecordGatherer(spec)
    secret = struct.pack("=IIQ16sI8s4s", 0, 0, 1, b"cat\0SECRET", 2, b"okSECRET", b"SECR")
    gatherer.add_records(0, [secret])
    data = gatherer.take_block()
    assert b"SECR" not in data
    assert BlockOfRecords(spec, data).records().buffer == struct.pack("=IIQ16sI8s4s", 0, 0, 1, b"cat", 2, b"ok", b"")


@pytest.mark.parametrize("numbers", [[], [0], [1, 2, 3], [5, 4], [0, (1 << 64) - 1], [1, (1 << 64) - 1], [7] * 100])
def test_numbers(numbers: list[int]) -> None:
    data = struct.pack(f"={len(numbers)}Q", *numbers)
    assert unpack_numbers(pack_numbers(data, 8), 8, len(numbers)) == data


def test_texts() -> None:
    texts = [b"", b"a", b"a", bytes(range(256))] + [b"%d" % i for i in range(300)]
    found, indices = unpack_texts(pack_texts(texts), 256, len(texts))
    assert [found[i] for i in indices] == texts


@pytest.mark.parametrize("script", [
    SCRIPT, "begin { print((x=1, y=(1, \"b\"))); @[1, \"a\"] = stats(1); @l = lhist(1, 0, 10, 2); }",
    "begin { printf(\"%-5s %x %rh\", probe, nsecs, buf(\"abc\", 3)); print(ntop(1)); @ = tseries(1, 1s, 5); }",
    "begin { print(kstack); print(ustack(perf)); print(usym(0)); print(macaddr(curtask)); }",
    "begin { print(*curtask); errorf(\"x %d\", 1); }"])
def test_a_spec_comes_back_as_it_was(script: str) -> None:
    plain = json.loads(json.dumps(plain_spec(compiled(script))))
    assert plain_spec(read_spec(plain)) == plain


def test_what_a_newer_sonde_may_have_added_is_no_damage_without_a_word() -> None:
    plain = json.loads(json.dumps(plain_spec(compiled(SCRIPT))))
    plain["maps"][0]["invented"] = 1
    with pytest.raises(RecordingError, match="a field that it does not have") as refused:
        read_spec(plain)
    assert refused.value.hints == ["a newer Sonde may have made it"]


def test_a_replay_prints_records_names_and_maps(sample: Path, spec: ScriptSpec) -> None:
    done = run_sonde("replay", str(sample))
    assert done.returncode == 0 and done.stderr == "Attached 1 probe\n"
    lines = done.stdout.splitlines()
    prints = [record for site, record in records_of(spec, 500) if site == 0]
    assert len([line for line in lines if line.endswith(" zero")]) == len(prints)
    assert "@n[cat]: 5" in lines and "[2, 4)                 3 |" in done.stdout


# --- nothing else is believed -------------------------------------------------------------------------------

def read_all(path: Path) -> int:
    """Everything of a recording: the records, and the maps at the end; how many records there are."""
    count = 0
    with open_replay(str(path)) as trace:
        for event in trace.events():
            count += 1
            str(event)
        for view in trace.maps.values():
            str(view.pairs())
    if trace.recording.truncated:
        raise RecordingError("truncated", truncated=True)
    return count


def test_every_cut_is_found(sample: Path, tmp_path: Path) -> None:
    data, cut = sample.read_bytes(), tmp_path / "cut.sonde"
    for length in [*range(300), *range(300, len(data), 97), len(data) - 1]:
        cut.write_bytes(data[:length])
        with pytest.raises(RecordingError):
            read_all(cut)


def test_every_flipped_bit_is_found(sample: Path, tmp_path: Path) -> None:
    data, rng, other = sample.read_bytes(), random.Random(7), tmp_path / "flipped.sonde"
    for _ in range(400):
        at = rng.randrange(len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        other.write_bytes(changed)
        with pytest.raises(RecordingError):
            read_all(other)


def test_blocks_in_another_order_are_found(sample: Path, tmp_path: Path) -> None:
    """Left out, repeated, moved: as bytes of the file, with the checksums that they have."""
    data = sample.read_bytes()
    pieces, at = [], len(MAGIC)
    while at < len(data):
        size = 16 + struct.unpack_from("<I", data, at + 4)[0]
        pieces.append(data[at:at + size])
        at += size
    assert len(pieces) >= 6
    other = tmp_path / "moved.sonde"
    first, second, third, *others = pieces
    for changed in ([first, third, *others], [first, second, second, third, *others], [first, third, second, *others]):
        other.write_bytes(MAGIC + b"".join(changed))
        with pytest.raises(RecordingError):
            read_all(other)


def mutations(blocks: list[tuple[bytes, bytes]], rng: random.Random) -> Iterator[list[tuple[bytes, bytes]]]:
    """Files that somebody made on purpose: their checksums are right."""
    while True:
        changed = list(blocks)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(changed))
            tag, data = changed[at]
            what = rng.randrange(6)
            if what == 0 and tag in (b"HEAD", b"END ", b"LOOK", b"NAME"):
                with suppress(ValueError):  # it was changed before
                    data = json.dumps(mutate(json.loads(data), rng)).encode()
            elif what == 1:
                place = rng.randrange(len(data))
                data = data[:place] + rng.randbytes(rng.randrange(1, 9)) + data[place + rng.randrange(9):]
            elif what == 2:
                data = data[:rng.randrange(len(data))]
            elif what == 3:
                changed.insert(rng.randrange(len(changed)), (tag, data))
            elif what == 4:
                tag = rng.choice([b"HEAD", b"NAME", b"MAPS", b"DONE", b"RECS", b"LOOK", b"END ", b"WHAT"])
            changed[at] = tag, data
        yield changed


def mutate(plain: Any, rng: random.Random) -> Any:
    """One place of plain data changed."""
    if isinstance(plain, dict) and plain and rng.random() < 0.95:
        key = rng.choice(list(plain))
        if rng.random() < 0.1:
            return {k: v for k, v in plain.items() if k != key}
        return plain | {key: mutate(plain[key], rng)}
    if isinstance(plain, list) and plain and rng.random() < 0.95:
        at = rng.randrange(len(plain))
        return [*plain[:at], mutate(plain[at], rng), *plain[at + 1:]]
    large = {"is": "Array", "of": {"is": "Bool"}, "count": 1 << 24}
    return rng.choice([0, -1, 1, 1 << 63, 1 << 70, "", "x" * 100, "%s", None, True, [], {}, 1.5, [1, 2], 1 << 31, 17,
                       "@n", "Tuple", {"is": "Str", "capacity": 1 << 24}, large])


@pytest.mark.parametrize("seed", range(8))
def test_hostile_files_are_errors_or_sound(sample: Path, tmp_path: Path, seed: int) -> None:
    """Nothing but RecordingError comes out, and no file takes more than a moment."""
    other, blocks = tmp_path / "hostile.sonde", blocks_of(sample)
    refused = 0
    for changed, _ in zip(mutations(blocks, random.Random(seed)), range(120)):
        write_blocks(other, changed)
        try:
            read_all(other)
        except RecordingError:
            refused += 1
    assert refused > 60


@pytest.mark.parametrize("fault", [TypeError, AttributeError, AssertionError, KeyError, IndexError, ZeroDivisionError])
def test_a_fault_of_our_own_is_not_called_damage(fault: type[Exception]) -> None:
    with pytest.raises(fault), reporting_damage("x.sonde"):
        raise fault("ours")


@pytest.mark.parametrize("error", [ValueError("no text"), OverflowError(), struct.error(), RecordingError("cut")])
def test_what_damaged_data_raises_is_reported_with_the_file(error: Exception) -> None:
    with pytest.raises(RecordingError, match=r"^x\.sonde is damaged: "), reporting_damage("x.sonde"):
        raise error


def test_hostile_files_on_the_command_line(sample: Path, tmp_path: Path) -> None:
    other, blocks = tmp_path / "hostile.sonde", blocks_of(sample)
    for form, (changed, _) in zip(["text", "json", "html", "csv", "perfetto"] * 3, zip(
            mutations(blocks, random.Random(99)), range(15))):
        write_blocks(other, changed)
        done = run_sonde("replay", "-f", form, str(other))
        assert done.returncode in (0, 1) and (done.returncode == 0 or "ERROR: " in done.stderr)


def test_a_small_file_does_not_become_large(tmp_path: Path) -> None:
    """Sixteen thousand records of a megabyte each, as zeros, would be 16 GB."""
    site = EventSite("print", None, [EventField(t.Str(1 << 20), 16)], 16 + (1 << 20))
    spec = ScriptSpec([], [], [site], [], ["a"], [], Config(), compiled("begin { exit(); }").source)
    count = 16000
    numbers = [pack_numbers(bytes(4 * count), 4), pack_numbers(bytes(8 * count), 8), pack_texts([b""] * count)]
    data = struct.pack("<IIII", count, 1, 0, count) + b"".join([struct.pack("<I", len(n)) + n for n in numbers])
    path = write_blocks(tmp_path / "bomb.sonde", [(b"HEAD", json.dumps(head(spec)).encode()), (b"RECS", data)])
    assert path.stat().st_size < 10_000
    with pytest.raises(RecordingError, match="more bytes than it can have"):
        read_all(path)


def test_other_formats_are_told(tmp_path: Path) -> None:
    path = tmp_path / "new.sonde"
    path.write_bytes(MAGIC[:-1] + b"2" + bytes(50))
    with pytest.raises(RecordingError, match="format 2"):
        open_recording(str(path))


def test_a_recording_steers_no_terminal(tmp_path: Path) -> None:
    """What the script prints by itself is anybody's too, where the file comes from elsewhere."""
    spec = compiled("begin { printf(\"\\x1b[2Jhidden\\n\"); }")
    record = struct.pack("=IIQ", 0, 0, 5).ljust(spec.sites[0].size, b"\0")
    path = write_recording(tmp_path / "x.sonde", spec, [(0, record)])
    assert "\x1b[2Jhidden" in run_sonde("replay", str(path)).stdout  # a file gets the bytes of the run
    master, slave = pty.openpty()
    try:
        done = subprocess.run(sonde_command(["replay", str(path)]), stdout=slave, stderr=subprocess.PIPE, check=False,
                              env=environment({"TERM": "xterm"}))
        shown = os.read(master, 4096)
    finally:
        os.close(slave)
        os.close(master)
    assert done.returncode == 0 and b"\x1b" not in shown and b"\\x1b[2Jhidden" in shown


@pytest.mark.parametrize("seconds", [4.44996, 0.04951, 2.5])
def test_a_run_took_as_long_in_its_recording(seconds: float) -> None:
    run = describe_local_run("sonde -e ...", 0, seconds, [])
    facts: Any = json.loads(json.dumps(run.as_json()))
    told = Provenance(run.command, run.host, run.kernel, 0, facts["seconds"], [])
    assert told.lines == run.lines and told.seconds == run.seconds


@pytest.mark.parametrize("text", [b"[" + b"[]," * (10 << 20) + b"[]]", b"[" + b"1," * (10 << 20) + b"1]",
                                  b"[" + b'"",' * (10 << 20) + b"0]", b'{"":[' + b"{}," * (10 << 20) + b"0]}"])
def test_json_that_would_take_much_memory_is_damage(text: bytes) -> None:
    """A few kilobytes of a recording become that: it is refused before there are objects."""
    import tracemalloc

    from sonde.recording.snapshots import read_json
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError, match="too much JSON"):
            read_json(text)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert read_json(b'[1, {"a": [2, "b"]}]') == [1, {"a": [2, "b"]}]
