"""Full maps are named while the script runs, and what makes room is said."""

from __future__ import annotations

import pytest

from compiled import compiled
from sonde.runtime.maps.full_maps import FullMaps

KEYED = "tracepoint:sched:sched_switch { @x[args.prev_pid, args.next_pid] = nsecs; }"


def test_a_full_map_is_named_once_and_again_when_ten_times_as_much_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = compiled(KEYED)
    maps = FullMaps(spec)
    [site] = [index for index, error in enumerate(spec.errors) if error.kind == "map_full"]

    def named_at(count: int) -> list[int]:
        failures = [0] * len(spec.errors)
        failures[site] = count
        return [full.count for full in maps.find_full(failures)]

    assert bool(maps) and maps.is_due
    assert [named_at(count) for count in (0, 3, 3, 29, 30, 31, 4000)] == [[], [3], [], [], [30], [], [4000]]
    assert not maps.is_due  # once a second is enough


@pytest.mark.parametrize(("declared", "env", "keys", "remedy"), [
    ("", {}, 4096, "SONDE_MAX_MAP_KEYS=16384"),
    ("", {"SONDE_MAX_MAP_KEYS": "100"}, 100, "SONDE_MAX_MAP_KEYS=512"),
    ("let @x = hash(max_sockets); ", {}, 1 << 17, "SONDE_MAX_MAP_KEYS=524288"),
    ("let @x = hash(max_sockets); ", {"SONDE_MAX_MAP_KEYS": "64"}, 64, "SONDE_MAX_MAP_KEYS=256"),
    ("let @x = hash(2 * max_keys); ", {"BPFTRACE_MAX_MAP_KEYS": "64"}, 128, "SONDE_MAX_MAP_KEYS=512"),
    ("let @x = hash(77); ", {"SONDE_MAX_MAP_KEYS": "64"}, 77, "let @x = ..."),
])
def test_what_makes_room(declared: str, env: dict[str, str], keys: int, remedy: str) -> None:
    spec = compiled(declared + KEYED, env=env)
    [full] = FullMaps(spec).find_full([error.kind == "map_full" for error in spec.errors])
    assert (full.map, full.keys) == ("@x", keys)
    assert remedy in full.remedy


def test_a_script_whose_maps_cannot_be_full_is_not_looked_at() -> None:
    assert not FullMaps(compiled("begin { @x = 1; }")) and not FullMaps(compiled("begin { @x = 1; }")).is_due


def test_room_for_many_objects_is_not_taken_at_once() -> None:
    flags = {m.name: m.flags for m in compiled("let @x = hash(max_threads); let @y = hash(max_keys); "
                                               "begin { @x[1] = 1; @y[1] = 1; }").maps}
    assert (flags["@x"], flags["@y"]) == (1, 0)  # BPF_F_NO_PREALLOC


def test_a_kernel_that_must_take_it_at_once_has_less_room() -> None:
    old = {m.name: m for m in compiled("let @x = hash(max_files); begin { @x[(uint64)1] = nsecs; }", "5.10").maps}["@x"]
    assert old.flags == 0 and 100_000 < old.max_entries < 1 << 20
