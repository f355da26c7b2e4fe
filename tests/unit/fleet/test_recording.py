"""Fleets that are recorded: what is replayed is what was, also of hosts that go wrong; a damaged file is refused."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from chaotic import ChaoticAgent, chosen_behaviour
from simulated import Contents, SimulatedFleet, run_simulated
from sonde.base.version import __version__
from sonde.errors import SondeError
from sonde.fleet import recording
from sonde.fleet.recording import FleetRecorder, RecordedFleet, describe_fleet, is_of_fleet, open_fleet
from sonde.fleet.state import coordinator
from sonde.fleet.state.gathered import FleetState
from sonde.fleet.state.results import HostEvent, MergedPrint
from sonde.fleet.trace import FleetTrace
from sonde.fleet.transport.request import FleetRequest
from sonde.recording.container import BlockWriter, RecordingError, read_blocks
from sonde.recording.replay import open_recording, reporting_damage
from sonde.source import Source
from support import run_sonde

REQUEST = FleetRequest(Source("stdin", "begin { }"), window=0.1)
HOSTS = "h[001-120]"  # of which half go wrong, in each way twice


def contents(host: str, window: int) -> Contents:
    number = int(host[1:])
    return {**{key: [(window + 1) * (1 + key + number % 7)] for key in range(20)}, 1000 + number: [window + 1]}


def record(path: Path, hosts: str, transport: SimulatedFleet, **options: Any) -> tuple[FleetState, list[Any]]:
    """A run that is recorded, and what it printed."""
    from sonde.fleet.transport.hosts import expand_hosts
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    log = FleetRecorder(file, describe_fleet(expand_hosts([hosts]), REQUEST, False, True, "sonde fleet: x", {}))
    return run_simulated(transport, hosts, REQUEST, 60, log=log, outliers=True, **options)


def replay(fleet: RecordedFleet) -> list[HostEvent | MergedPrint]:
    printed: list[HostEvent | MergedPrint] = []
    with reporting_damage(fleet.recording.name):
        while not fleet.done:
            printed += fleet.poll(0)
    return printed


def outcome(fleet: FleetState, printed: list[Any]) -> list[object]:
    """All that there is to see of a run."""
    begun = fleet.results.spec is not None
    return [fleet.describe_state(1000), [*fleet.describe_losses()], fleet.started_at, fleet.now, fleet.seconds,
            fleet.status, fleet.results.pairs_of("@") if begun else [], fleet.results.rank_hosts("@"),
            fleet.results.late,
            [(m.name, m.state, m.reason, m.hints, m.windows, m.until, m.clock.offset, m.repeated)
             for m in fleet.members],
            [(item.time, item.name, item.hosts, item.of, item.pairs) if isinstance(item, MergedPrint) else
             (item.time, item.host, item.text) for item in printed]]


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[object]]]:
    """A recording of hosts of which half go wrong, and its outcome."""
    path = tmp_path_factory.mktemp("chaos") / "fleet.sonde"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinator, "SILENCE", 3.0)
        patch.setattr(coordinator, "READYING", 3.0)
        patch.setattr("sonde.merge.table.MOST_KEYS", 5000)
        transport = SimulatedFleet(contents, 4, 0.3, chosen_behaviour, kind=ChaoticAgent)
        yield path, outcome(*record(path, HOSTS, transport, parallel=500, patience=3.0))


@pytest.mark.exact
def test_what_is_replayed_is_what_was(chaos: tuple[Path, list[object]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.merge.table.MOST_KEYS", 5000)
    path, live = chaos
    with open_fleet(str(path)) as fleet:
        replayed = outcome(fleet, replay(fleet))
    assert len(fleet.missing) > 30 and len(replayed[-1]) > 3  # type: ignore[arg-type]
    for was, now in zip(live, replayed):
        assert was == now
    assert not fleet.recording.truncated


def test_hosts_can_be_kept_apart_afterwards(tmp_path: Path) -> None:
    """As a trace of a program, too."""
    live, _ = record(tmp_path / "x", "h[1-3]", SimulatedFleet(contents))
    with FleetTrace(open_fleet(str(tmp_path / "x"), by_host=True)) as tracing:
        pass
    apart = dict(tracing.maps["@"])
    assert apart["h2", 1002] == 4 and len(apart) == 63 and str(tracing) == live.describe_state()
    assert tracing.missing == {}


def test_a_recording_becomes_a_parquet_file(tmp_path: Path) -> None:
    """With the values that all hosts have in the last of four windows."""
    parquet = pytest.importorskip("pyarrow.parquet")
    record(tmp_path / "x", "h[1-3]", SimulatedFleet(contents))
    done = run_sonde("replay", "--parquet", str(tmp_path / "out"), str(tmp_path / "x"))
    written = (tmp_path / "out").read_bytes()  # pyarrow's threads close files that they open a moment later
    rows = parquet.read_table(BytesIO(written)).to_pylist()
    expected: dict[int, int] = {}
    for host in ("h1", "h2", "h3"):
        for key, [value] in contents(host, 3).items():
            expected[key] = expected.get(key, 0) + value
    assert {row["key"]: row["value"] for row in rows} == expected
    assert done.returncode == 0 and f"Wrote {tmp_path}/out: {len(expected)} rows" in done.stderr


def test_a_crash_leaves_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_FULL", 2000)
    record(tmp_path / "x", "h[1-3]", SimulatedFleet(contents))
    whole = (tmp_path / "x").read_bytes()
    counts = []
    for size in range(len(whole) // 2, len(whole), 997):
        (tmp_path / "x").write_bytes(whole[:size])
        with open_fleet(str(tmp_path / "x")) as fleet:
            replay(fleet)
        assert fleet.recording.truncated
        windows = [member.windows for member in fleet.members]
        expected: dict[object, int] = {}
        for member, count in zip(fleet.members, windows):
            for key, [value] in contents(member.name, count - 1).items() if count else ():
                expected[key] = expected.get(key, 0) + value
        assert dict(fleet.results.pairs_of("@") if fleet.results.spec is not None else []) == expected
        counts.append(sum(windows))
    assert counts == sorted(counts) and counts[-1] > counts[0]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    record(tmp_path / "x", "h[1-3]", SimulatedFleet(contents))
    whole = (tmp_path / "x").read_bytes()
    chance, refused = random.Random(7), 0
    for _ in range(200):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (tmp_path / "x").write_bytes(changed)
        try:
            with open_fleet(str(tmp_path / "x")) as fleet:
                replay(fleet)
            assert fleet.recording.truncated  # a length that leads beyond the end
        except RecordingError:
            refused += 1
    assert refused > 150


def test_a_file_that_somebody_made_is_checked(chaos: tuple[Path, list[object]], tmp_path: Path) -> None:
    """Right checksums over whatever: it is shown, or refused in a sentence."""
    path, chance, refused = chaos[0], random.Random(9), 0
    with open(path, "rb") as file:
        blocks = [*read_blocks(file, "x")]
    for _ in range(60):
        with open(tmp_path / "x", "wb") as out:
            writer = BlockWriter(out.fileno())
            for tag, data in blocks:
                changed = bytearray(data)
                for _ in range(chance.randrange(1, 6)):
                    if changed and chance.random() < 0.7:
                        at = chance.randrange(len(changed))
                        changed[at:at + chance.randrange(4)] = chance.randbytes(chance.randrange(5))
                writer.write_block(chance.choice([tag] * 20 + [b"FLET", b"END ", b"HEAD"]), bytes(changed))
        try:
            with open_fleet(str(tmp_path / "x")) as fleet:
                outcome(fleet, replay(fleet))
        except SondeError:
            refused += 1
    assert refused > 5


def test_a_full_disk_ends_the_recording_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(descriptor: int, data: bytes, write: Any = os.write) -> int:
        if os.fstat(descriptor).st_size > 1000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(write(descriptor, data))
    monkeypatch.setattr(recording, "_FULL", 2000)
    monkeypatch.setattr("sonde.recording.container.os.write", write)
    fleet, _ = record(tmp_path / "x", "h[1-3]", SimulatedFleet(contents))
    assert not fleet.missing and fleet.log.problem == "No space left on device"
    monkeypatch.undo()
    with open_fleet(str(tmp_path / "x")) as again:
        replay(again)
    assert again.recording.truncated


def test_each_kind_of_recording_is_told_from_the_other(tmp_path: Path) -> None:
    record(tmp_path / "x", "h1", SimulatedFleet(contents))
    assert is_of_fleet(str(tmp_path / "x")) and not is_of_fleet(__file__) and not is_of_fleet("/nonexistent")
    with pytest.raises(RecordingError, match="was recorded of a fleet"):
        open_recording(str(tmp_path / "x"))
    with open(tmp_path / "y", "wb") as out:
        BlockWriter(out.fileno()).write_block(b"HEAD", b"{}")
    with pytest.raises(RecordingError, match="is no recording of a fleet"):
        open_fleet(str(tmp_path / "y"))
    with pytest.raises(SondeError, match="No such file"):
        open_fleet("/nonexistent")


def test_another_protocol_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "VERSION", 1)
    record(tmp_path / "x", "h1", SimulatedFleet(contents))
    monkeypatch.undo()
    with pytest.raises(RecordingError, match=f"of Sonde {__version__}, whose agents speak protocol 1, and this is 2"):
        open_fleet(str(tmp_path / "x"))
